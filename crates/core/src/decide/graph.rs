//! The graph's rules: which task may depend on which, and how reset and retry put tasks back to open.

use std::collections::BTreeSet;

use crate::command::Force;
use crate::event::{Body, Draft};
use crate::ids::Uid;
use crate::refusal::{Code, Reader, Refusal, Step};
use crate::task::State;
use crate::text::Field;
use crate::transition::{Transition, Verb};

use super::claim::{late_cause, not_possible};
use super::standing::{Standing, held_refusal, standing_of_claimant, swept};
use super::tasks::{own_token, standing_beside};
use super::verbs::held_and_not_possible;
use super::{Decision, View, overridable, override_or_refuse, work};

/// Adds or removes the named dependencies, as `body` says. Only an added one can close a cycle.
pub(super) fn change_deps(
    view: &View<'_>,
    body: impl Fn(BTreeSet<Uid>) -> Body,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let (mut drafts, standing) = may_link(view, force)?;
    if let Some(cycle) = &view.named.cycle {
        return Err(cycle_refusal(view.id, cycle));
    }
    if !view.named.deps.is_empty() {
        drafts.push(own_token(&standing, Draft::new(body(view.named.deps.clone()))));
    }
    Ok(Decision::of(drafts))
}

/// The caller's standing for changing links. As with an edit, people always may, and agents unless another holds the task.
pub(super) fn may_link<'a>(
    view: &View<'a>,
    force: Option<&Force>,
) -> Result<(Vec<Draft>, Standing<'a>), Refusal> {
    let (drafts, standing) = standing_beside(view, force)?;
    match standing {
        Standing::Held(lease) if !view.caller.actor.is_person() => Err(held_refusal(view, lease)),
        standing => Ok((drafts, standing)),
    }
}

/// Exit 6: a dependency would close a cycle, and no task in a cycle could ever begin.
pub fn cycle_refusal(id: &str, cycle: &[String]) -> Refusal {
    Refusal::new(Code::Cycle, format!("{id} would wait for itself: {}", cycle.join(" → ")))
        .task(id)
        .next(Step::Graph(id.to_owned()))
}

/// What a reset does to one task of the closure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Nothing to do: it is open and unclaimed, or not part of the work (proposed, dropped).
    Stays,
    Back(Vec<Draft>),
}

/// Resets one task of a reset's closure. `root`: the task that was named; its event is the record of the reset.
/// Another's live lease needs a person's force; without it the task is refused as held.
pub fn reset(view: &View<'_>, root: bool, reason: &str, force: Option<&Force>) -> Result<Reset, Refusal> {
    let mut reset = overridable(view, force, None, |force| reset_as_asked(view, root, reason, force))?;
    if let Reset::Back(drafts) = &mut reset {
        work::record(view, drafts);
        super::rescue::record_due(view, drafts);
    }
    Ok(reset)
}

fn reset_as_asked(
    view: &View<'_>,
    root: bool,
    reason: &str,
    force: Option<&Force>,
) -> Result<Reset, Refusal> {
    let reason = Field::Reason.check(reason)?;
    let mut drafts = Vec::new();
    if root {
        let (forced, _) = standing_beside(view, force)?;
        drafts = forced;
    }
    let is_open = view.task.state == State::Open;
    if !is_open && Transition::of(view.task.state, Verb::Reset).is_none() {
        return if root { Err(not_possible(view, Verb::Reset)) } else { Ok(Reset::Stays) };
    }
    let lease = view.lease.filter(|lease| lease.ended.is_none());
    if let Standing::Held(held) = standing_of_claimant(view) {
        override_or_refuse("reset", force, held_refusal(view, held), &mut drafts)?;
    }
    let is_kept = view.task.kept.as_ref().is_some_and(|kept| !kept.until.has_come(view.now));
    let has_claim = is_kept || view.lease.is_some_and(|lease| view.is_usable(lease));
    if is_open && !root && !has_claim {
        return Ok(Reset::Stays);
    }
    let by_holder = lease.is_some_and(|lease| view.is_callers(lease));
    let body = Body::TaskReset { lease: lease.map(|lease| lease.end(view.now, by_holder)) };
    let draft = Draft { token: lease.map(|lease| lease.token), ..Draft::new(body) };
    drafts.push(draft.text(Field::Reason, Some(reason).filter(|_| root)));
    Ok(Reset::Back(drafts))
}

/// Starts another attempt at a failed task, which `view` is about.
pub fn retry(view: &View<'_>, message: Option<&str>, force: Option<&Force>) -> Result<Decision, Refusal> {
    overridable(view, force, None, |force| retry_as_asked(view, message, force))
}

fn retry_as_asked(
    view: &View<'_>,
    message: Option<&str>,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let message = message.map(|text| Field::Note.check(text)).transpose()?;
    let (mut drafts, standing) = standing_beside(view, force)?;
    let is_possible = Transition::of(view.task.state, Verb::Retry).is_some();
    match standing {
        Standing::Held(lease) if !is_possible => return Err(held_and_not_possible(view, lease, Verb::Retry)),
        Standing::Held(lease) if force.is_none() => return Err(held_refusal(view, lease)),
        _ if !is_possible => return Err(not_possible(view, Verb::Retry)),
        _ => {}
    }
    let attempt = view.task.attempts + 1;
    if is_out_of_attempts(view) {
        let refusal = Refusal::new(
            Code::Limit,
            match view.task.attempts {
                0 => format!("{} may not be retried (its limit is 0)", view.id),
                n => format!("{} has been retried {n} times, which is its limit", view.id),
            },
        )
        .task(view.id)
        .next(Step::log(view.id))
        .next(Step::note(view.id, Reader::Person));
        override_or_refuse("max_attempts", force, refusal, &mut drafts)?;
    }
    drafts.push(Draft::new(Body::TaskRetried { attempt }).text(Field::Note, message));
    Ok(Decision::of(drafts))
}

/// Whether the task has used up its attempts.
pub(super) fn is_out_of_attempts(view: &View<'_>) -> bool {
    view.policy.has_used_up_attempts(view.task)
}

/// Frees a task downstream of a retry whose lease has lapsed. None: nobody holds it, or its lease is live.
pub fn freed(view: &View<'_>) -> Option<Draft> {
    let mut draft = match standing_of_claimant(view) {
        Standing::Free { lapsed: Some((lease, cause)) } => swept(view, lease, cause),
        // The caller's own lease may have lapsed, too.
        Standing::Holder { lease, late: true } if lease.ended.is_none() => {
            swept(view, lease, late_cause(view, lease))
        }
        _ => return None,
    };
    work::record(view, std::slice::from_mut(&mut draft));
    Some(draft)
}
