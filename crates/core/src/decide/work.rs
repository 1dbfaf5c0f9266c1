//! Work rides on the events of its lease: what waits on the next one, all of it on the one that ends the lease.

use crate::event::{Body, Draft};
use crate::lease::{Lease, Liveness};
use crate::stretch::{Sign, Work, Worked};

use super::View;

/// Gives each draft the stretches that it tells of.
pub(super) fn record(view: &View<'_>, drafts: &mut [Draft]) {
    // Of a lease that was swept, the sweep has told all.
    let Some(lease) = view.lease.filter(|lease| lease.ended.is_none()) else { return };
    let is_recorded = view.policy.records_work_of(&lease.actor);
    let mut work = if is_recorded { lease.pulse.work.clone() } else { Work::default() };
    let mut worked = lease.worked;
    for draft in drafts.iter_mut().filter(|draft| draft.token == Some(lease.token)) {
        // Whoever comes back after a lapse begins again.
        let begins_again = matches!(draft.body, Body::LeaseRenewed { .. });
        if begins_again || draft.body.lease_end_mut().is_some() {
            if is_recorded && is_sign_of_life(view, lease) && lease.measures_work() {
                work = work.after(&lease.pulse.last, sign(view));
            }
            work = work.closed();
        }
        draft.stretches = std::mem::take(&mut work.waiting);
        draft.waited_ms = std::mem::take(&mut work.waited_ms);
        worked = worked.and(Worked::of(&draft.stretches));
        if let Some(end) = draft.body.lease_end_mut() {
            end.active_ms = worked.active_ms;
        }
    }
}

/// Whether what is decided is its holder's doing, in time: a lapse ends all work at the last sign of life before it.
fn is_sign_of_life(view: &View<'_>, lease: &Lease) -> bool {
    let is_holder = view.presents(lease) || lease.is_held_by(&view.caller.actor, &view.caller.instance);
    is_holder && view.liveness(lease) == Liveness::Live
}

fn sign<'a>(view: &View<'a>) -> Sign<'a> {
    Sign {
        now: view.now,
        own: view.caller.own_clock.as_ref(),
        in_turn: view.caller.in_turn,
        idle_ms: view.policy.idle_ms,
    }
}
