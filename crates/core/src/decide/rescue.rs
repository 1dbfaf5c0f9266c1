//! When a holder's uncommitted files must be kept, and what is recorded about that.

use crate::actor::{ActorName, InstanceId};
use crate::event::{Body, Draft};
use crate::ids::Token;
use crate::lease::Lease;
use crate::refusal::{Code, Refusal, Step};
use crate::rescue::{LeftFile, MOST_LEFT, RescueState, Rescued, is_own_worktree};
use crate::text::Field;

use super::{Decision, View, people_only};

/// Whether these events take a lease from its holder, who could still have used it `before` them.
pub fn is_lost(
    before: &Lease,
    fenced: Token,
    drafts: &[Draft],
    (actor, instance): (&ActorName, &InstanceId),
) -> bool {
    let takes = |draft: &Draft| {
        matches!(
            draft.body,
            Body::LeaseAcquired { .. }
                | Body::LeaseTakenOver { .. }
                | Body::LeaseRevoked { .. }
                | Body::TaskReset { .. }
        )
    };
    before.is_usable(fenced) && !before.is_held_by(actor, instance) && drafts.iter().any(takes)
}

/// Records that a rescue is due if these events take a lease: its holder may have left something uncommitted. If it reserved
/// nothing and had no worktree of its own, none of the files there are known to be its own.
pub(super) fn record_due(view: &View<'_>, drafts: &mut Vec<Draft>) {
    let caller = (&view.caller.actor, &view.caller.instance);
    let lost = view.lease.filter(|lease| {
        lease.rescue.is_none()
            && (view.has_reserved || is_own_worktree(lease, view.task, view.id))
            && is_lost(lease, view.task.fenced_token, drafts, caller)
    });
    let Some(lease) = lost else { return };
    let Some(worktree) = lease.grant.worktree.clone() else { return };
    let worktree_id = lease.grant.worktree_id.clone();
    drafts.push(Draft::new(Body::RescueDue { worktree_id, worktree }).token(lease.token));
}

/// Records the outcome of a rescue, once, whoever finishes it. More of the same lease's files may be kept later.
pub(super) fn settle(view: &View<'_>, token: Token, rescued: &Rescued) -> Result<Decision, Refusal> {
    let lease = rescued_lease(view, token)?;
    let is_due = lease.rescue.is_some_and(|rescue| rescue.state == RescueState::Due);
    let bounded = |left: &[LeftFile]| left.iter().take(MOST_LEFT).cloned().collect();
    let settled = |outcome, left: &[LeftFile]| Body::RescueSettled { outcome, left_out: bounded(left) };
    let body = match rescued {
        Rescued::Kept { kept, left_out } => {
            let mut all = view.kept.to_vec();
            all.extend(kept.iter().filter(|kept| !view.kept.contains(kept)).cloned());
            Some(Body::RescueKept { kept: all, left_out: bounded(left_out) })
        }
        Rescued::Nothing { left_out } => Some(settled(RescueState::Nothing, left_out)).filter(|_| is_due),
        Rescued::Gone => Some(settled(RescueState::Gone, &[])).filter(|_| is_due),
    };
    Ok(Decision::of(body.map(|body| Draft::new(body).token(token)).into_iter().collect()))
}

/// Drops kept files. Only a person may: git's next clean-up deletes them.
pub(super) fn forget(view: &View<'_>, token: Token, reason: &str) -> Result<Decision, Refusal> {
    let reason = Field::Reason.check(reason)?;
    let lease = rescued_lease(view, token)?;
    if !view.caller.actor.is_person() {
        let message = format!("only a person may drop a rescue; {} is not one", view.caller.actor);
        return Err(people_only(view, message));
    }
    if lease.rescue.is_none_or(|rescue| rescue.state != RescueState::Kept) {
        let message = format!("nothing is kept of the lease on {} with token {token}", view.id);
        return Err(Refusal::new(Code::NotFound, message).task(view.id));
    }
    let dropped = Draft::new(Body::RescueDropped { kept: view.kept.to_vec() }).token(token);
    Ok(Decision::of(vec![dropped.text(Field::Reason, Some(reason))]))
}

fn rescued_lease<'a>(view: &View<'a>, token: Token) -> Result<&'a Lease, Refusal> {
    view.rescued.ok_or_else(|| {
        Refusal::new(Code::NotFound, format!("{} never had a lease with token {token}", view.id))
            .task(view.id)
            .next(Step::log(view.id))
    })
}
