use onus_core::refusal::Step;
use onus_core::task::State;
use onus_engine::{AwaitedView, HeldView, StatusView};
use serde_json::json;

use super::land::behind;
use crate::context::Context;
use crate::output::{Output, escape_line};
use crate::table::shortened;
use crate::{render, wording};

/// Show what waits for you, who holds what, and task counts by state
///
/// It also names tasks in review, blocked tasks, and leases that have lapsed, gone stale (a person's, without a sign of
/// life) or stalled (an agent's, without progress), and tasks that are done and have still to land. Ad-hoc tasks are counted separately. Where tasks have branches, it says
/// which of them cannot be merged with one another or with the branch to land in, and which checkouts lack what landed.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(context: &Context, _args: Args) -> super::Result {
    let (mut engine, identity) = context.host.reader()?;
    let looked = engine.status(identity.as_ref())?;
    let forecast = context.host.forecast(&mut engine);
    let behind = behind::all(&context.host);
    let (out, status) = (&context.out, &looked.value);
    if out.json {
        let mut value = json!(status.worded(&wording::step));
        value["forecast"] = json!(forecast);
        value["behind_landed"] = behind::documents(&behind);
        out.document(value, &looked.notices);
        return Ok(());
    }
    // In the order of a task's life.
    let counted = State::ALL.iter().filter_map(|state| Some((*state, *status.counts.get(state.as_str())?)));
    let mut counts: Vec<String> = counted
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!("{count} {}", out.state(state)))
        .collect();
    counts.extend(Some(status.ad_hoc).filter(|count| *count > 0).map(|count| format!("{count} ad hoc")));
    out.prose(&if counts.is_empty() {
        "no tasks yet: onus add 'what to do'".to_owned()
    } else {
        counts.join(", ")
    });
    if let Some(identity) = &identity {
        out.prose(&format!("you are {} and hold {}", identity.actor, yours(status)));
    }
    // A task that waits for the caller is listed only once.
    let others = |list: &[AwaitedView]| -> Vec<AwaitedView> {
        list.iter().filter(|waits| waits.awaited.is_none()).cloned().collect()
    };
    awaited(out, "waiting for you", &status.waiting_for_you, None);
    held(out, "held", &status.held);
    let total = |state: State| status.counts.get(state.as_str()).copied().unwrap_or_default();
    let rest = |state: State, list: &[AwaitedView]| (total(state).saturating_sub(list.len() as u64), state);
    awaited(out, "in review", &others(&status.review), Some(rest(State::Review, &status.review)));
    awaited(out, "blocked", &others(&status.blocked), Some(rest(State::Blocked, &status.blocked)));
    to_land(out, &status.to_land);
    held(out, "lapsed", &status.lapsed);
    held(out, "stale", &status.stale);
    held(out, "stalled", &status.stalled);
    heading(out, "seats", status.seats.is_empty());
    for seat in &status.seats {
        out.prose(&format!("  {}", escape_line(&seat.name)));
        message(out, &seat.message, seat.next.as_ref());
    }
    behind::lines(out, &behind);
    render::forecast(out, &forecast);
    out.notices(&looked.notices);
    Ok(())
}

/// The tasks and seats that the caller holds, in words.
pub(super) fn yours(status: &StatusView) -> String {
    let seats = status.your_seats.iter().map(|name| format!("seat {}", escape_line(name)));
    let all: Vec<String> = status.yours.iter().cloned().chain(seats).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}

/// Prints leases under a title, if there are any.
fn held(out: &Output, title: &str, list: &[HeldView]) {
    heading(out, title, list.is_empty());
    rows(out, list);
}

pub(super) fn rows(out: &Output, list: &[HeldView]) {
    for held in list {
        task(out, &held.id, &held.title);
        message(out, &held.message, held.next.as_ref());
    }
}

/// Prints tasks that are done and have not landed yet.
fn to_land(out: &Output, list: &[AwaitedView]) {
    heading(out, "to land", list.is_empty());
    for waits in list {
        task(out, &waits.id, &waits.title);
        message(out, &waits.message, waits.next.as_ref());
    }
    if list.len() > 1 {
        out.prose(&out.dim("  all that waits: onus land --queue"));
    }
}

/// Prints tasks that wait for somebody; `more` is how many others are in that state.
fn awaited(out: &Output, title: &str, list: &[AwaitedView], more: Option<(u64, State)>) {
    heading(out, title, list.is_empty());
    for waits in list {
        task(out, &waits.id, &waits.title);
        match &waits.last_word {
            // The last word says who did it, and when.
            Some(word) => {
                render::last_word(out, word).iter().for_each(|line| out.prose(&format!("  {line}")));
                next(out, waits.next.as_ref());
            }
            None => message(out, &waits.message, waits.next.as_ref()),
        }
    }
    if let Some((more, state)) = more.filter(|(more, _)| *more > 0 && !list.is_empty()) {
        out.prose(&out.dim(&format!("  and {more} more: onus list --state {state}")));
    }
}

fn heading(out: &Output, title: &str, is_empty: bool) {
    if !is_empty {
        out.prose("");
        out.prose(&out.bold(title));
    }
}

fn task(out: &Output, id: &str, title: &str) {
    let room = out.width.map_or(usize::MAX, |width| width.saturating_sub(id.len() + 3).max(12));
    out.prose(&format!("  {} {}", out.bold(id), shortened(&escape_line(title), room)));
}

fn message(out: &Output, text: &str, step: Option<&Step>) {
    out.prose(&format!("    {}", escape_line(text)));
    next(out, step);
}

fn next(out: &Output, step: Option<&Step>) {
    if let Some(step) = step.and_then(wording::step) {
        out.prose(&out.dim(&format!("    next: {step}")));
    }
}
