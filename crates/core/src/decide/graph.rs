//! The graph's rules: which task may depend on which, and putting things back with reset and retry.

use crate::command::Force;
use crate::event::{Body, Draft};
use crate::lease::Lease;
use crate::refusal::{Code, Reader, Refusal, Step};
use crate::task::State;
use crate::text::Field;
use crate::transition::{Verb, step};

use super::claim::not_possible;
use super::standing::{Standing, held_refusal, standing_of_claimant, swept};
use super::tasks::{own_token, standing_beside};
use super::{Decision, View, overridable, overridden, work};

pub(super) fn add_deps(view: &View<'_>, force: Option<&Force>) -> Result<Decision, Refusal> {
    let (mut drafts, standing) = may_link(view, force)?;
    if let Some(cycle) = &view.named.cycle {
        return Err(cycle_refusal(view.id, cycle));
    }
    if !view.named.deps.is_empty() {
        let added = Body::DepAdded { on: view.named.deps.clone() };
        drafts.push(own_token(&standing, Draft::new(added)));
    }
    Ok(Decision::of(drafts))
}

pub(super) fn remove_deps(view: &View<'_>, force: Option<&Force>) -> Result<Decision, Refusal> {
    let (mut drafts, standing) = may_link(view, force)?;
    if !view.named.deps.is_empty() {
        let removed = Body::DepRemoved { on: view.named.deps.clone() };
        drafts.push(own_token(&standing, Draft::new(removed)));
    }
    Ok(Decision::of(drafts))
}

/// Like an edit: people always, agents while no other holds the task.
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

/// Exit 6: no task in a cycle could ever begin.
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

/// One task of a reset's closure. `root`: the one that was named; its event is the record of the reset.
/// A live lease of another needs a person's force, and is refused as held without it.
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
    if !is_open && step(view.task.state, Verb::Reset).is_none() {
        return if root { Err(not_possible(view, Verb::Reset)) } else { Ok(Reset::Stays) };
    }
    let lease = view.lease.filter(|lease| lease.ended.is_none());
    if let Standing::Held(held) = standing_of_claimant(view) {
        match force {
            Some(force) => drafts.push(overridden("reset", force)),
            None => return Err(held_refusal(view, held)),
        }
    }
    let is_kept = view.task.kept.as_ref().is_some_and(|kept| !kept.until.has_come(view.now));
    let has_claim = is_kept || view.lease.is_some_and(|lease| view.is_usable(lease));
    if is_open && !root && !has_claim {
        return Ok(Reset::Stays);
    }
    let by_holder = lease.is_some_and(|lease| lease.is_held_by(&view.caller.actor, &view.caller.instance));
    let body = Body::TaskReset { lease: lease.map(|lease| lease.end(view.now, by_holder)) };
    let draft = Draft { token: lease.map(|lease| lease.token), ..Draft::new(body) };
    drafts.push(draft.text(Field::Reason, Some(reason).filter(|_| root)));
    Ok(Reset::Back(drafts))
}

/// Another attempt at a failed task. `view` is the failed one's.
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
    if let (Standing::Held(lease), None) = (standing, force) {
        return Err(held_refusal(view, lease));
    }
    if step(view.task.state, Verb::Retry).is_none() {
        return Err(not_possible(view, Verb::Retry));
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
        match force {
            Some(force) => drafts.push(overridden("max_attempts", force)),
            None => return Err(refusal),
        }
    }
    drafts.push(Draft::new(Body::TaskRetried { attempt }).text(Field::Note, message));
    Ok(Decision::of(drafts))
}

/// Whether another try would be one more than the task allows.
pub(super) fn is_out_of_attempts(view: &View<'_>) -> bool {
    view.task.attempts >= view.task.facts.max_attempts.unwrap_or(view.policy.max_attempts)
}

/// Frees a task downstream of a retry whose holder is dead. None: nobody holds it, or its holder lives.
pub fn freed(view: &View<'_>) -> Option<Draft> {
    let mut draft = match standing_of_claimant(view) {
        Standing::Free { lapsed: Some((lease, cause)) } => Some(swept(view, lease, cause)),
        // The caller's own lease may have lapsed, too.
        Standing::Holder { lease, late: true } if lease.ended.is_none() => Some(swept_own(view, lease)),
        _ => None,
    }?;
    work::record(view, std::slice::from_mut(&mut draft));
    Some(draft)
}

fn swept_own(view: &View<'_>, lease: &Lease) -> Draft {
    swept(view, lease, super::claim::late_cause(view, lease))
}
