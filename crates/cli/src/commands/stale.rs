use serde_json::json;

use crate::context::Context;
use crate::wording;

use super::status::rows;

/// List leases that lapsed, went stale or make no progress
///
/// Lapsed: its process died, its time ran out, or it reached the longest time that a lease may last; it can be taken
/// over. Stale: held by a person who has shown no sign of life for long. Stalled: held by an agent that is alive, but has made no progress for long.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(context: &Context, _args: Args) -> super::Result {
    let (mut engine, identity) = context.host.reader()?;
    let looked = engine.status(identity.as_ref())?;
    let out = &context.out;
    if out.json {
        let status = looked.value.worded(&wording::step);
        let value = json!({ "lapsed": status.lapsed, "stale": status.stale, "stalled": status.stalled });
        out.document(value, &looked.notices);
        return Ok(());
    }
    let status = &looked.value;
    if [&status.lapsed, &status.stale, &status.stalled].iter().all(|list| list.is_empty()) {
        out.line(&out.dim("(none)"));
    }
    let lists = [("lapsed", &status.lapsed), ("stale", &status.stale), ("stalled", &status.stalled)];
    for (at, (title, list)) in lists.into_iter().filter(|(_, list)| !list.is_empty()).enumerate() {
        if at > 0 {
            out.prose("");
        }
        out.prose(&out.bold(title));
        rows(out, list);
    }
    out.notices(&looked.notices);
    Ok(())
}
