//! What `doctor` says about landings: those that were begun and not settled, references left by killed landers, checkouts
//! that are behind, and tasks that wait to land.

use onus_engine::AnyEngine;
use onus_host::landing::Landings;
use onus_repo::landing::Lander;

use super::behind::place;
use super::report;
use super::tidy::{Tidied, tidy_leftovers};
use crate::commands::worktree;
use crate::context::Context;
use crate::output::path_line;

/// What was mended, what is wrong, and what is worth knowing.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) fixed: Vec<String>,
    /// What is wrong and can be mended.
    pub(crate) bad: Vec<String>,
    /// What is wrong and only people can do something about.
    pub(crate) unmet: Vec<String>,
    pub(crate) news: Vec<String>,
}

pub(crate) fn findings(context: &Context, engine: &mut AnyEngine, fix: bool) -> Findings {
    let mut found = Findings::default();
    let Some(Ok(Some(lander))) = context.host.place.as_ref().map(Lander::of) else { return found };
    let lander = lander.with_short_wait();
    let left = if fix { mend(context, engine, &lander, &mut found) } else { Vec::new() };
    for unsettled in engine.unsettled().unwrap_or_default() {
        let target = &unsettled.intent.target;
        found.bad.push(format!("{}: landing it in {target} was begun and not finished", unsettled.id));
    }
    for (id, _) in strays(engine, &lander) {
        found.bad.push(format!("{id}: refs/onus/landing/{id} was left by a landing that was interrupted"));
    }
    for behind in lander.behind().unwrap_or_default() {
        let why = left.iter().find(|(target, _)| *target == behind.target).map(|(_, why)| format!(": {why}"));
        let what = match behind.own {
            Some(_) => format!("{} is {}", place(&behind), behind.words()),
            None => behind.words(),
        };
        let line = format!("{what}{}; next: {}", why.unwrap_or_default(), behind.command());
        match behind.own == Some(0) && behind.checkouts.len() < 2 {
            true => found.bad.push(line),
            false => found.unmet.push(line),
        }
    }
    let waiting: Vec<String> =
        engine.to_land().unwrap_or_default().into_iter().map(|task| task.view.id).collect();
    if !waiting.is_empty() {
        let named = onus_core::quote::some_names(&waiting);
        found.news.push(format!("{} done and not landed: {named}; next: onus land --queue", waiting.len()));
    }
    found
}

/// References of landings that the store does not know: the lander was killed before it recorded them.
fn strays(engine: &mut AnyEngine, lander: &Lander) -> Vec<(String, String)> {
    let known: Vec<String> =
        engine.unsettled().unwrap_or_default().into_iter().map(|known| known.id).collect();
    let there = lander.intents().unwrap_or_default().into_iter();
    let strays = there.filter(|(id, _)| !known.contains(id));
    strays.map(|(id, commit)| (id, commit.to_string())).collect()
}

/// Mends what can be mended. Returns the targets whose checkouts stay behind, and why.
fn mend(
    context: &Context,
    engine: &mut AnyEngine,
    lander: &Lander,
    found: &mut Findings,
) -> Vec<(String, String)> {
    let left = forward(lander, found);
    // Without an identity nothing can be recorded; the findings that follow say what is left.
    let Ok(identity) = context.host.identity(engine) else { return left };
    if let Ok((notices, _)) = engine.settle_all(&identity) {
        found.fixed.extend(notices.into_iter().map(|notice| notice.message));
    }
    for (id, _) in strays(engine, lander) {
        // Without its event a landing moves nothing, so its target does not matter.
        if lander.settle(&id, "", None).is_ok() {
            found.fixed.push(format!("{id}: refs/onus/landing/{id}, left by a landing that was interrupted"));
        }
    }
    let mut tidied = Tidied::default();
    tidy_leftovers(context, lander, engine, &mut tidied);
    found.fixed.extend(tidied.removed.iter().map(|removed| {
        let ignored = worktree::ignored_words(removed).map(|words| format!("; {words}")).unwrap_or_default();
        format!("{}: removed, what was done there has landed{ignored}", path_line(&removed.path))
    }));
    found.news.extend(tidied.kept);
    match lander.worktrees().remove_scratches() {
        Ok(0) => {}
        Err(refusal) => found.news.push(format!("scratch worktrees are not looked at: {}", refusal.message)),
        Ok(gone) => {
            found.fixed.push(format!("{gone} scratch worktrees, left by landings that were interrupted"))
        }
    }
    if let Ok(mut landings) = Landings::of(&context.host, None, None, None)
        && let Ok(landed) = landings.recognise()
    {
        found.fixed.extend(landed.into_iter().map(|(id, commit)| {
            format!("{id}: found in its target, at {}; that is recorded now", commit.short())
        }));
    }
    left
}

/// Brings checkouts forward to what landed. Returns the targets whose checkouts stay behind, and why.
fn forward(lander: &Lander, found: &mut Findings) -> Vec<(String, String)> {
    let before: Vec<String> =
        lander.behind().unwrap_or_default().into_iter().map(|behind| behind.target).collect();
    let mut left = Vec::new();
    for (target, checkout) in lander.bring_all_forward().unwrap_or_default() {
        match report::left(&checkout) {
            Some(why) => left.push((target, why)),
            None if before.contains(&target) => {
                let path = path_line(&checkout.path);
                found.fixed.push(format!("{path}: brought forward to what landed in {target}"));
            }
            None => {}
        }
    }
    left
}
