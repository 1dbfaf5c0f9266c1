//! Landing, as the ledger records it: who may begin one, and what became of it. See [`crate::landing`].

use crate::command::Force;
use crate::commit::CommitId;
use crate::constraint::Constraint;
use crate::event::{Body, Draft};
use crate::landing::{Checked, Failure, Landed, Settled};
use crate::refusal::{Code, Reader, Refusal, Step};
use crate::task::State;
use crate::text::Field;
use crate::transition::Verb;

use super::ready::{ObstacleKind, Upstream, unmet_refusal};
use super::standing::{Standing, held_refusal, standing, standing_of_claimant};
use super::tasks::own_token;
use super::verbs::kept_for;
use super::{Decision, View, constrained, gate, override_or_refuse};

/// Whether an event changes a task's holder, state or branch. An intent to land the task must be settled before.
pub fn moves_task(body: &Body) -> bool {
    body.moved_by().is_some()
        || matches!(
            body,
            Body::TaskBranched(_)
                | Body::LeaseAcquired { .. }
                | Body::LeaseLapsed { .. }
                | Body::LeaseTakenOver { .. }
                | Body::LeaseRevoked { .. }
                | Body::LandingIntended(_)
        )
}

/// The caller's standing for landing. Anybody may land a finished task, even a superseded caller.
fn standing_to_land<'a>(view: &View<'a>) -> Result<Standing<'a>, Refusal> {
    match (view.task.state, view.caller.token) {
        (State::Done, None) => Ok(standing_of_claimant(view)),
        _ => standing(view),
    }
}

/// Begins to land the task as it was checked, or refuses with exit 6 or 4. The holder may while the task is in progress, anyone
/// when it is done.
pub(super) fn begin(view: &View<'_>, checked: &Checked, force: Option<&Force>) -> Result<Decision, Refusal> {
    let id = view.id;
    let standing = standing_to_land(view)?;
    if let Standing::Held(lease) = standing {
        return Err(held_refusal(view, lease));
    }
    let is_holder = matches!(standing, Standing::Holder { .. });
    match view.task.state {
        State::Done => {}
        State::InProgress if is_holder => {}
        State::Review => {
            return Err(Refusal::new(
                Code::NotAllowed,
                format!("{id} is in review: it lands when it is approved"),
            )
            .task(id)
            .next(Step::verb(Verb::Approve, id)));
        }
        _ => return Err(not_landing(view)),
    }
    if view.task.token != checked.token || view.task.state != checked.state {
        let message = format!("{id} has changed since it was checked: nothing was landed");
        return Err(Refusal::new(Code::Changed, message).task(id).next(Step::Land(id.to_owned())));
    }
    let mut drafts = Vec::new();
    if let Some(refusal) = unfinished_dependency(view) {
        override_or_refuse("dependencies", force, refusal, &mut drafts)?;
    }
    let may_not = constrained::constraints(view).iter().any(|constraint| constraint == Constraint::NoLand);
    if may_not && !view.caller.actor.is_person() {
        let message = format!("{id} has the constraint {}: a person has to land it", Constraint::NoLand);
        return Err(Refusal::new(Code::Constraint, message).task(id).next(Step::note(id, Reader::Person)));
    }
    let bound_by = constrained::constraints_of_landing(view.task, view.lease);
    let changed = checked.demand.changed.as_deref().unwrap_or_default();
    if let Err(refusal) = constrained::check_landing(id, &bound_by, changed, &checked.extent) {
        override_or_refuse("constraints", force, refusal, &mut drafts)?;
    }
    let missing = checked.demand.missing(&view.task.facts, view.judged);
    if !missing.is_empty() {
        override_or_refuse("gates", force, gate::missing_refusal(id, &missing), &mut drafts)?;
    }
    drafts.push(own_token(&standing, Draft::new(Body::LandingIntended(checked.intent.clone()))));
    Ok(Decision::of(drafts))
}

/// Refuses to land a finished task while a dependency is open again, since the task may build on what that one has still to
/// change. A dependency that is done and has not landed does not matter: both may land together.
fn unfinished_dependency(view: &View<'_>) -> Option<Refusal> {
    let is_open =
        |upstream: &Upstream| upstream.kind == ObstacleKind::Dependency && upstream.state != State::Done;
    unmet_refusal(view).filter(|_| view.task.state == State::Done && view.waits_for.iter().any(is_open))
}

fn not_landing(view: &View<'_>) -> Refusal {
    let (id, state) = (view.id, view.task.state.predicate());
    let message = format!("{id} {state}: a task can land once it is done, or while you hold it");
    Refusal::new(Code::NotAllowed, message).task(id).next(Step::show(id))
}

/// Records what became of the landing that was begun, as git's references show. Reporting it again records nothing.
pub(super) fn settle(view: &View<'_>, commit: &CommitId, settled: &Settled) -> Result<Decision, Refusal> {
    let intent = view.task.landing.intent.as_ref().filter(|intent| intent.commit == *commit);
    let body = intent.map(|intent| match settled {
        Settled::Landed => Body::TaskLanded(Landed::of(intent)),
        Settled::Withdrawn => Body::LandingWithdrawn { commit: commit.clone() },
    });
    Ok(Decision::of(body.map(Draft::new).into_iter().collect()))
}

/// Records that the task's changes were found in the target. Nothing is moved.
pub(super) fn found(view: &View<'_>, landed: &Landed) -> Result<Decision, Refusal> {
    let is_known = view.task.landing.landed.as_ref().is_some_and(|known| known.target == landed.target);
    if is_known || view.task.landing.intent.is_some() {
        return Ok(Decision::default());
    }
    match view.task.state {
        State::Done => Ok(Decision::of(vec![Draft::new(Body::TaskLanded(landed.clone()))])),
        state => {
            let message = format!("{} is {}: only what is done has landed", view.id, state.spoken());
            Err(Refusal::new(Code::NotAllowed, message).task(view.id).next(Step::show(view.id)))
        }
    }
}

/// Records a failed landing. A holder keeps its lease and resolves the problem; a finished task is reopened, and kept for its
/// last holder.
pub(super) fn fail(view: &View<'_>, failure: &Failure) -> Result<Decision, Refusal> {
    if let Standing::Held(lease) = standing_to_land(view)? {
        return Err(held_refusal(view, lease));
    }
    let message = Field::Note.check(&failure.message)?;
    if view.task.token != failure.token {
        let text = format!("{} has changed since it was checked", view.id);
        return Err(Refusal::new(Code::Changed, text).task(view.id).next(Step::Land(view.id.to_owned())));
    }
    if !matches!(view.task.state, State::Done | State::InProgress) {
        return Err(not_landing(view));
    }
    let was_done = view.task.state == State::Done;
    let last = view.lease.filter(|_| was_done);
    let kept_for = last.map(|lease| kept_for(view, &lease.actor, view.policy.keep_ms));
    let reopened = was_done.then(|| Draft::new(Body::TaskReopened {}));
    let failed = Draft::new(Body::LandingFailed {
        target: failure.target.clone(),
        onto: failure.onto.clone(),
        head: failure.head.clone(),
        why: failure.why.clone(),
        kept_for,
    });
    let failed = failed.text(Field::Note, Some(message));
    Ok(Decision::of(reopened.into_iter().chain([failed]).collect()))
}
