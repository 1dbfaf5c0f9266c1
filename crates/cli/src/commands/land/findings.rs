//! What `doctor` says of landings: begun and not settled, begun by somebody who was killed, checkouts that are behind, and what waits.

use onus_engine::Engine;
use onus_host::landing::Landings;
use onus_repo::landing::Lander;
use onus_store::AnyStore;

use super::report::left;
use crate::context::Context;
use crate::output::path_line;

/// What was mended, what is wrong and can be, and what is worth knowing.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) fixed: Vec<String>,
    pub(crate) bad: Vec<String>,
    pub(crate) news: Vec<String>,
}

pub(crate) fn findings(context: &Context, engine: &mut Engine<AnyStore>, fix: bool) -> Findings {
    let mut found = Findings::default();
    let Some(Ok(Some(lander))) = context.host.place.as_ref().map(Lander::of) else { return found };
    if fix {
        mend(context, engine, &lander, &mut found);
    }
    for unsettled in engine.unsettled().unwrap_or_default() {
        let target = &unsettled.intent.target;
        found.bad.push(format!("{}: landing it in {target} was begun and not finished", unsettled.id));
    }
    for (id, _) in strays(engine, &lander) {
        found.bad.push(format!("{id}: refs/onus/landing/{id} was left by a landing that was interrupted"));
    }
    for target in lander.targets_ahead().unwrap_or_default().into_iter().filter(|_| !fix) {
        for checkout in lander.checkouts_of(&target).unwrap_or_default() {
            let path = path_line(&checkout);
            let next = "next: onus doctor --fix, once nothing there is in the way";
            found.news.push(format!("{path} is behind what landed in {target}; {next}"));
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

/// References of landings that the store knows nothing of: whoever wrote them was killed before the store heard of it.
fn strays(engine: &mut Engine<AnyStore>, lander: &Lander) -> Vec<(String, String)> {
    let known: Vec<String> =
        engine.unsettled().unwrap_or_default().into_iter().map(|known| known.id).collect();
    let there = lander.intents().unwrap_or_default().into_iter();
    let strays = there.filter(|(id, _)| !known.contains(id));
    strays.map(|(id, commit)| (id, commit.to_string())).collect()
}

fn mend(context: &Context, engine: &mut Engine<AnyStore>, lander: &Lander, found: &mut Findings) {
    // Without a name nothing can be recorded; the findings that follow say what is left.
    let Ok(identity) = context.host.identity(engine) else { return };
    if let Ok((notices, _)) = engine.settle_all(&identity) {
        found.fixed.extend(notices.into_iter().map(|notice| notice.message));
    }
    for (id, _) in strays(engine, lander) {
        // Without its event it moves nothing, so it does not matter where it was to go.
        if lander.settle(&id, "", None).is_ok() {
            found.fixed.push(format!("{id}: refs/onus/landing/{id}, left by a landing that was interrupted"));
        }
    }
    match lander.remove_leftovers() {
        Ok(0) | Err(_) => {}
        Ok(gone) => {
            found.fixed.push(format!("{gone} scratch worktrees, left by landings that were interrupted"))
        }
    }
    for target in lander.targets_ahead().unwrap_or_default() {
        for checkout in lander.bring_forward(&target).unwrap_or_default() {
            let path = path_line(&checkout.path);
            match left(&checkout) {
                Some(why) => {
                    found
                        .news
                        .push(format!("{path} is left as it is, behind what landed in {target}: {why}"));
                }
                None => found.fixed.push(format!("{path}: brought forward to what landed in {target}")),
            }
        }
    }
    if let Ok(mut landings) = Landings::new(&context.host, None, None)
        && let Ok(landed) = landings.recognise()
    {
        found.fixed.extend(landed.into_iter().map(|(id, commit)| {
            format!("{id}: found in its target, at {}; that is recorded now", commit.short())
        }));
    }
}
