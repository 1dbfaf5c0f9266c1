//! Assignment: for whom a task is kept, and why its holder has it.
//!
//! A task that is assigned or handed off is open and kept for one actor: nobody else may claim it until that time is over.
//! The first claim turns the assignment into a lease, and the lease names the event with the reason. A takeover has a reason,
//! too; the same field of the lease names it.

use crate::actor::ActorName;
use crate::command::{Act, Force};
use crate::event::{Body, Draft};
use crate::ids::Version;
use crate::refusal::Refusal;
use crate::text::Field;
use crate::time::Span;
use crate::transition::Verb;

use super::claim::{kept_refusal, late_cause};
use super::verbs::{check_verb, end_of, has_revoked, kept_for};
use super::{Decision, View, people_only};

/// How long a task is kept, or a refusal if the caller may not ask for that. An agent that could keep a task for ever could
/// hold it without a lease, so it keeps none for longer than it could hold one.
fn keep_ms(view: &View<'_>, asked_ms: Option<i64>) -> Result<i64, Refusal> {
    let Some(asked_ms) = asked_ms else { return Ok(view.policy.keep_ms) };
    if asked_ms <= 0 {
        return Err(Refusal::usage("the time to keep a task must be longer than zero"));
    }
    let most_ms = view.policy.max_hold_ms;
    if most_ms > 0 && asked_ms > most_ms && !view.caller.actor.is_person() {
        let most = Span::from_ms(most_ms);
        return Err(people_only(view, format!("only a person may keep a task for longer than {most}")));
    }
    Ok(asked_ms)
}

/// Makes a lease that was taken from another name its own event, which has the reason. One that follows a handoff names the
/// handoff instead.
pub(super) fn say_why_it_was_taken(view: &View<'_>, act: &Act, drafts: &mut [Draft]) {
    let is_from_another = view.lease.is_some_and(|lease| !view.is_callers(lease));
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

/// Keeps an unheld task for an actor (`open -> open`), or hands off a held one (`in_progress -> open`): one rule for both.
pub(super) fn handoff(
    view: &View<'_>,
    to: &ActorName,
    keep_for_ms: Option<i64>,
    reason: &str,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let reason = Field::Reason.check(reason)?;
    let (mut drafts, lease) = check_verb(view, Verb::Handoff, force)?;
    // Otherwise an agent could take a task that is kept for another by handing it to itself.
    if let Some(refusal) = kept_refusal(view).filter(|_| !view.caller.actor.is_person()) {
        return Err(refusal);
    }
    let keep_ms = keep_ms(view, keep_for_ms)?;
    // A lapse leaves the token usable, so another's handoff has to supersede the lapsed holder.
    let lapsed = view.lease.filter(|old| lease.is_none() && view.is_usable(old) && !has_revoked(&drafts));
    if let Some(old) = lapsed {
        drafts.retain(|draft| !matches!(draft.body, Body::LeaseLapsed { .. }));
        let taken = Body::LeaseTakenOver { cause: late_cause(view, old), lease: old.end(view.now, false) };
        drafts.push(Draft::new(taken).token(old.token));
    }
    let handed = Body::LeaseHandedOff {
        kept_for: kept_for(view, to, keep_ms),
        lease: lease.map(|lease| end_of(view, lease)),
    };
    let draft = Draft { token: lease.map(|lease| lease.token), ..Draft::new(handed) };
    drafts.push(draft.text(Field::Reason, Some(reason)));
    Ok(Decision::of(drafts))
}
