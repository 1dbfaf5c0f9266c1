//! Assignment: for whom a task is kept, and why it came to its holder.
//!
//! A task that is assigned, or handed off, is open and kept for one actor: nobody else may claim it until that time is over. Its
//! first claim makes a lease of it, and the lease names the event that says why. Whoever takes a task over from another says
//! why, too; the same field names that.

use crate::actor::ActorName;
use crate::command::{Act, Force};
use crate::event::{Body, Draft, KeptFor};
use crate::ids::Version;
use crate::refusal::{Code, Reader, Refusal, Step};
use crate::text::Field;
use crate::time::Span;
use crate::transition::Verb;

use super::claim::{kept_refusal, late_cause};
use super::tasks::{end_of, has_revoked, may};
use super::{Decision, View};

/// How long a task is kept, if the caller may ask for that. An agent that could keep a task for ever could hold it without a
/// lease: it keeps none for longer than it could hold one.
fn keep_ms(view: &View<'_>, asked_ms: Option<i64>) -> Result<i64, Refusal> {
    let Some(asked_ms) = asked_ms else { return Ok(view.policy.keep_ms) };
    if asked_ms <= 0 {
        return Err(Refusal::usage("the time to keep a task must be longer than zero"));
    }
    let most_ms = view.policy.max_hold_ms;
    if most_ms > 0 && asked_ms > most_ms && !view.caller.actor.is_person() {
        let most = Span::from_ms(most_ms);
        return Err(Refusal::new(
            Code::PeopleOnly,
            format!("only a person may keep a task for longer than {most}"),
        )
        .task(view.id)
        .next(Step::note(view.id, Reader::Person)));
    }
    Ok(asked_ms)
}

/// A lease that was not handed over by a handoff, but taken from another, names its own event: the reason is beside it.
pub(super) fn say_why_it_was_taken(view: &View<'_>, act: &Act, drafts: &mut [Draft]) {
    let is_from_another =
        view.lease.is_some_and(|lease| !lease.is_held_by(&view.caller.actor, &view.caller.instance));
    let takes = drafts
        .iter()
        .any(|draft| matches!(draft.body, Body::LeaseTakenOver { .. } | Body::LeaseRevoked { .. }));
    if !is_from_another || !(takes || matches!(act, Act::Takeover(_))) {
        return;
    }
    let versions = (view.task.version.0 + 1..).map(Version);
    for (draft, version) in drafts.iter_mut().zip(versions) {
        if let Body::LeaseAcquired { grant, .. } = &mut draft.body {
            grant.handoff_version.get_or_insert(version);
        }
    }
}

/// `open -> open` keeps an unheld task for somebody, `in_progress -> open` hands off a held one: one rule for both.
pub(super) fn handoff(
    view: &View<'_>,
    to: &ActorName,
    keep_for_ms: Option<i64>,
    reason: &str,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let reason = Field::Reason.check(reason)?;
    let (mut drafts, lease) = may(view, Verb::Handoff, force)?;
    // Else anyone could take a reservation by handing the task to itself.
    if let Some(refusal) = kept_refusal(view).filter(|_| !view.caller.actor.is_person()) {
        return Err(refusal);
    }
    let keep_ms = keep_ms(view, keep_for_ms)?;
    // A lapse leaves its token usable. Another who hands the task on supersedes its holder.
    let lapsed = view.lease.filter(|old| lease.is_none() && view.is_usable(old) && !has_revoked(&drafts));
    if let Some(old) = lapsed {
        drafts.retain(|draft| !matches!(draft.body, Body::LeaseLapsed { .. }));
        let taken = Body::LeaseTakenOver { cause: late_cause(view, old), lease: old.end(view.now, false) };
        drafts.push(Draft::new(taken).token(old.token));
    }
    let until = view.now.plus(keep_ms);
    let handed = Body::LeaseHandedOff {
        kept_for: KeptFor {
            actor: to.clone(),
            until_wall_ms: until.wall_ms,
            until_tick_ms: until.tick_ms,
            domain: until.domain,
        },
        lease: lease.map(|lease| end_of(view, lease)),
    };
    let draft = Draft { token: lease.map(|lease| lease.token), ..Draft::new(handed) };
    drafts.push(draft.text(Field::Reason, Some(reason)));
    Ok(Decision::of(drafts))
}
