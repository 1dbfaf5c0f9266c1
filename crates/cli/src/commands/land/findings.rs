//! What `doctor` says about landings: those that were begun and not settled, references left by killed landers, checkouts
//! that are behind, and tasks that wait to land.

use onus_engine::AnyEngine;
use onus_host::landing::Landings;
use onus_repo::landing::Lander;
use onus_store::Finding;

use super::behind::place;
use super::report;
use super::tidy::{Tidied, tidy_leftovers};
use crate::commands::doctor::{LANDING, finding, mendable};
use crate::commands::worktree;
use crate::context::Context;
use crate::output::path_line;

/// What was mended, and what is found now: first what can be mended, then what only people can do something about, then news.
pub(crate) fn findings(context: &Context, engine: &mut AnyEngine, fix: bool) -> (Vec<String>, Vec<Finding>) {
    let (mut fixed, mut found) = (Vec::new(), Vec::new());
    let Some(Ok(Some(lander))) = context.host.place.as_ref().map(Lander::of) else { return (fixed, found) };
    let lander = lander.with_short_wait();
    let left = if fix { mend(context, engine, &lander, &mut fixed, &mut found) } else { Vec::new() };
    for unsettled in engine.unsettled().unwrap_or_default() {
        let target = &unsettled.intent.target;
        let what = format!("{}: landing it in {target} was begun and not finished", unsettled.id);
        found.push(mendable(LANDING, what));
    }
    for (id, _) in strays(engine, &lander) {
        let what = format!("{id}: refs/onus/landing/{id} was left by a landing that was interrupted");
        found.push(mendable(LANDING, what));
    }
    for behind in lander.behind().unwrap_or_default() {
        let why = left.iter().find(|(target, _)| *target == behind.target).map(|(_, why)| format!(": {why}"));
        let what = match behind.own {
            Some(_) => format!("{} is {}", place(&behind), behind.words()),
            None => behind.words(),
        };
        let line = format!("{what}{}; next: {}", why.unwrap_or_default(), behind.command());
        found.push(match behind.own == Some(0) && behind.checkouts.len() < 2 {
            true => mendable(LANDING, line),
            false => finding(LANDING, false, line),
        });
    }
    let waiting: Vec<String> =
        engine.to_land().unwrap_or_default().into_iter().map(|task| task.view.id).collect();
    if !waiting.is_empty() {
        let named = onus_core::quote::some_names(&waiting);
        let what = format!("{} done and not landed: {named}; next: onus land --queue", waiting.len());
        found.push(finding(LANDING, true, what));
    }
    found.sort_by_key(|finding| (finding.ok, !finding.mendable));
    (fixed, found)
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
    fixed: &mut Vec<String>,
    found: &mut Vec<Finding>,
) -> Vec<(String, String)> {
    let left = forward(lander, fixed);
    // Without an identity nothing can be recorded; the findings that follow say what is left.
    let Ok(identity) = context.host.identity(engine) else { return left };
    if let Ok((notices, _)) = engine.settle_all(&identity) {
        fixed.extend(notices.into_iter().map(|notice| notice.message));
    }
    for (id, _) in strays(engine, lander) {
        // Without its event a landing moves nothing, so its target does not matter.
        if lander.settle(&id, "", None).is_ok() {
            fixed.push(format!("{id}: refs/onus/landing/{id}, left by a landing that was interrupted"));
        }
    }
    let mut tidied = Tidied::default();
    tidy_leftovers(context, lander, engine, &mut tidied);
    fixed.extend(tidied.removed.iter().map(|removed| {
        let ignored = worktree::ignored_words(removed).map(|words| format!("; {words}")).unwrap_or_default();
        format!("{}: removed, what was done there has landed{ignored}", path_line(&removed.path))
    }));
    found.extend(tidied.kept.into_iter().map(|kept| finding(LANDING, true, kept)));
    match lander.worktrees().remove_scratches() {
        Ok(0) => {}
        Err(refusal) => {
            let what = format!("scratch worktrees are not looked at: {}", refusal.message);
            found.push(finding(LANDING, true, what));
        }
        Ok(gone) => fixed.push(format!("{gone} scratch worktrees, left by landings that were interrupted")),
    }
    if let Ok(mut landings) = Landings::of(&context.host, None, None, None)
        && let Ok(landed) = landings.recognise()
    {
        fixed.extend(landed.into_iter().map(|(id, commit)| {
            format!("{id}: found in its target, at {}; that is recorded now", commit.short())
        }));
    }
    left
}

/// Brings checkouts forward to what landed. Returns the targets whose checkouts stay behind, and why.
fn forward(lander: &Lander, fixed: &mut Vec<String>) -> Vec<(String, String)> {
    let before: Vec<String> =
        lander.behind().unwrap_or_default().into_iter().map(|behind| behind.target).collect();
    let mut left = Vec::new();
    for (target, checkout) in lander.bring_all_forward().unwrap_or_default() {
        match report::left(&checkout) {
            Some(why) => left.push((target, why)),
            None if before.contains(&target) => {
                let path = path_line(&checkout.path);
                fixed.push(format!("{path}: brought forward to what landed in {target}"));
            }
            None => {}
        }
    }
    left
}
