//! The verbs of the transition table: who may use one now, which events it writes, and what must come first.

use crate::actor::ActorName;
use crate::command::{Force, Terms};
use crate::commit::Uncommitted;
use crate::event::{Body, Draft, KeptFor};
use crate::gate::Demand;
use crate::landing;
use crate::lease::{Lease, LeaseEnd};
use crate::refusal::{Code, Reader, Refusal, Step};
use crate::task::State;
use crate::text::Field;
use crate::transition::{Party, Transition, Verb};

use super::claim::{acquire, not_possible, not_yours};
use super::ready::{children_refusal, unmet_refusal};
use super::standing::{
    Standing, fenced, held_by, held_refusal, standing_of_claimant, standing_or_forced, swept,
};
use super::{Decision, View, constrained, gate, override_or_refuse};

/// What the caller found in its worktree before it called the task done.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) uncommitted: Option<&'a Uncommitted>,
    pub(super) demand: Option<&'a Demand>,
}

/// Decides the verbs of the table that have no terms of their own.
pub(super) fn use_verb(
    view: &View<'_>,
    verb: Verb,
    message: Option<&str>,
    found: Found<'_>,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let message = message.map(|text| Field::Note.check(text)).transpose()?;
    let (mut drafts, lease) = check_verb(view, verb, force)?;
    if verb == Verb::Release && has_revoked(&drafts) {
        // The forced revocation has already released it.
        return Ok(Decision::of(drafts));
    }
    let end = lease.map(|lease| end_of(view, lease));
    // A lease that the same request began.
    let claimed = || LeaseEnd { renewals: 0, last_sign_ms: view.now.wall_ms, active_ms: 0 };
    let awaits_landing = landing::awaits(view.task, view.policy.deps_met);
    let body = match verb {
        Verb::Accept => Body::TaskAccepted {},
        Verb::Block => Body::TaskBlocked { lease: end },
        Verb::Unblock => Body::TaskUnblocked {},
        Verb::Submit => Body::TaskSubmitted { lease: end.unwrap_or_else(claimed) },
        Verb::Approve => Body::TaskApproved { awaits_landing },
        Verb::Reject => {
            // Nothing is kept for somebody who takes back its own submission.
            let submitter = view.task.submitter.as_ref().filter(|actor| **actor != view.caller.actor);
            let keep = |actor| kept_for(view, actor, view.policy.keep_ms);
            Body::TaskRejected { kept_for: submitter.map(keep) }
        }
        Verb::Done => Body::TaskDone { lease: end.unwrap_or_else(claimed), awaits_landing },
        Verb::Fail if has_claimed(&drafts) => Body::TaskFailed { lease: Some(claimed()) },
        Verb::Fail => Body::TaskFailed { lease: end },
        Verb::Drop => Body::TaskDropped { lease: end },
        Verb::Reopen => Body::TaskReopened {},
        Verb::Release => Body::LeaseReleased { lease: end.ok_or_else(|| not_yours(view, verb))? },
        Verb::Claim | Verb::Takeover | Verb::Lapse | Verb::Handoff | Verb::Reset | Verb::Retry => {
            return Err(Refusal::new(Code::Unexpected, format!("{verb} is not a plain verb")));
        }
    };
    if verb == Verb::Done && message.is_none() {
        return Err(Refusal::usage(format!(
            "{} cannot be finished without a note of what was done",
            view.id
        ))
        .next(Step::GiveResolution(view.id.to_owned())));
    }
    let left = found.uncommitted.filter(|_| matches!(verb, Verb::Done | Verb::Submit));
    let left = left.map(|left| constrained::all_committed(view, left)).transpose()?.flatten();
    if let Some(demand) = found.demand.filter(|_| is_said_to_be_done(verb)) {
        let begun = demand.of_begun();
        let demand = if has_claimed(&drafts) { demand } else { &begun };
        drafts.extend(gate::asked_for(view, demand, verb, force)?);
    }
    if matches!(verb, Verb::Done | Verb::Approve) {
        drafts.extend(finishable(view, force, has_claimed(&drafts))?);
    }
    let token = if has_claimed(&drafts) { Some(view.task.token.next()) } else { lease.map(|l| l.token) };
    drafts.push(Draft { token, ..Draft::new(body) }.text(Field::Note, message));
    let notices = if is_said_to_be_done(verb) { unticked(view) } else { None };
    let notices = notices.into_iter().chain(left).collect();
    Ok(Decision { notices, ..Decision::of(drafts) })
}

fn is_said_to_be_done(verb: Verb) -> bool {
    matches!(verb, Verb::Done | Verb::Submit | Verb::Approve)
}

/// A notice about acceptance lines that are not ticked. They do not stop anybody.
fn unticked(view: &View<'_>) -> Option<String> {
    let open = view.task.unticked();
    let lines: Vec<String> = open.iter().map(ToString::to_string).collect();
    let verb = if open.len() == 1 { "is" } else { "are" };
    (!open.is_empty()).then(|| {
        let all = view.task.acceptance.len();
        format!(
            "{} of {all} acceptance lines of {} {verb} not ticked: {}",
            open.len(),
            view.id,
            lines.join(", ")
        )
    })
}

/// Refuses to finish a task before its dependencies and parts. A claim in the same request has already checked the dependencies.
fn finishable(view: &View<'_>, force: Option<&Force>, claimed: bool) -> Result<Vec<Draft>, Refusal> {
    let mut drafts = Vec::new();
    let unmet = unmet_refusal(view).filter(|_| !claimed).map(|refusal| ("dependencies", refusal));
    for (rule, refusal) in unmet.into_iter().chain(children_refusal(view).map(|refusal| ("parts", refusal))) {
        override_or_refuse(rule, force, refusal, &mut drafts)?;
    }
    Ok(drafts)
}

/// Whether a lease begins in the same request.
fn has_claimed(drafts: &[Draft]) -> bool {
    drafts.iter().any(|draft| matches!(draft.body, Body::LeaseAcquired { .. }))
}

/// Whether a person's force revokes the live lease first.
pub(super) fn has_revoked(drafts: &[Draft]) -> bool {
    drafts.iter().any(|draft| matches!(draft.body, Body::LeaseRevoked { .. }))
}

pub(super) fn end_of(view: &View<'_>, lease: &Lease) -> LeaseEnd {
    lease.end(view.now, view.is_holder_of(lease))
}

/// Keeps a task for an actor, from now on.
pub(super) fn kept_for(view: &View<'_>, actor: &ActorName, keep_ms: i64) -> KeptFor {
    let until = view.now.plus(keep_ms);
    KeptFor {
        actor: actor.clone(),
        until_wall_ms: until.wall_ms,
        until_tick_ms: until.tick_ms,
        domain: until.domain,
    }
}

/// Refuses unless the caller may use a verb now. Returns the events that must come first, and the lease that the verb ends.
pub(super) fn check_verb<'a>(
    view: &View<'a>,
    verb: Verb,
    force: Option<&Force>,
) -> Result<(Vec<Draft>, Option<&'a Lease>), Refusal> {
    let (mut drafts, standing) = standing_or_forced(view, force)?;
    match standing {
        Standing::Holder { lease, .. } => {
            // A task that is only reserved, or whose lapse was swept, counts as in progress for its holder.
            let from = if view.task.state == State::Open { State::InProgress } else { view.task.state };
            let allowed = Transition::of(from, verb).ok_or_else(|| not_possible(view, verb))?;
            check_party(view, allowed, verb, force, &mut drafts)?;
            let ends_it = allowed.party == Party::Holder;
            if ends_it && lease.ended.is_none() && lease.grant.reserve && verb != Verb::Release {
                drafts.push(Draft::new(Body::TaskStarted {}).token(lease.token));
            }
            Ok((drafts, Some(lease).filter(|_| ends_it)))
        }
        Standing::Held(lease) if Transition::of(view.task.state, verb).is_none() => {
            Err(held_and_not_possible(view, lease, verb))
        }
        Standing::Held(lease) => Err(held_refusal(view, lease)),
        Standing::Free { .. } | Standing::RevokedByForce => check_unheld(view, verb, force, drafts, standing),
    }
}

/// Exit 4: another has a live lease, and even if it had not, the verb would not be possible. Waiting until it is free would not help.
pub(super) fn held_and_not_possible(view: &View<'_>, lease: &Lease, verb: Verb) -> Refusal {
    let mut refusal = held_refusal(view, lease);
    let held = held_by(view.now, lease, "");
    refusal.message = format!("{}; it {held}", not_possible(view, verb).message);
    refusal.next = vec![Step::show(view.id)];
    refusal
}

/// The same for a task on which nobody has a live lease (any more).
fn check_unheld<'a>(
    view: &View<'a>,
    verb: Verb,
    force: Option<&Force>,
    mut drafts: Vec<Draft>,
    standing: Standing<'a>,
) -> Result<(Vec<Draft>, Option<&'a Lease>), Refusal> {
    let (old, opens) = match standing {
        Standing::Free { lapsed } => (lapsed, lapsed.is_some()),
        _ => (None, true),
    };
    let from = if opens { State::Open } else { view.task.state };
    if verb == Verb::Release && has_revoked(&drafts) {
        return Ok((drafts, None));
    }
    if let Some(allowed) = Transition::of(from, verb) {
        drafts.extend(old.map(|(lease, cause)| swept(view, lease, cause)));
        check_party(view, allowed, verb, force, &mut drafts)?;
        return Ok((drafts, None));
    }
    let claimable =
        Transition::of(from, Verb::Claim).is_some() && Transition::of(State::InProgress, verb).is_some();
    if claimable && verb.claims_first() {
        // A caller that does not know that its work was reset must not finish the task again in passing.
        if view.mine.is_some_and(|mine| mine.token <= view.task.fenced_token) && force.is_none() {
            return Err(fenced(view));
        }
        let claimed = acquire(view, standing, &Terms::default(), force)?;
        drafts.extend(claimed.drafts);
        return Ok((drafts, None));
    }
    Err(match standing_of_claimant(view) {
        _ if claimable => not_yours(view, verb),
        // Revoking its lease would not help either.
        Standing::Held(lease) => held_and_not_possible(view, lease, verb),
        _ => not_possible(view, verb),
    })
}

fn check_party(
    view: &View<'_>,
    allowed: Transition,
    verb: Verb,
    force: Option<&Force>,
    drafts: &mut Vec<Draft>,
) -> Result<(), Refusal> {
    let submitted_it = view.task.submitter.as_ref() == Some(&view.caller.actor);
    if allowed.party != Party::Reviewer || !(view.caller_worked_on_it || submitted_it) {
        return Ok(());
    }
    let message = format!("{} worked on {}: somebody else must {verb} it", view.caller.actor, view.id);
    let refusal =
        Refusal::new(Code::NotAllowed, message).task(view.id).next(Step::note(view.id, Reader::Reviewer));
    override_or_refuse("reviewer", force, refusal, drafts)
}
