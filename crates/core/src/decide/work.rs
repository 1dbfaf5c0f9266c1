//! Events of a lease carry its work: the next one carries the stretches that wait, the one that ends the lease all the rest.

use crate::event::{Body, Draft};
use crate::lease::{Lease, Liveness};
use crate::stretch::{Sign, Work, Worked};

use super::View;

/// Gives each draft the stretches that it records.
pub(super) fn record(view: &View<'_>, drafts: &mut [Draft]) {
    // The sweep of a lapsed lease has already recorded all its work.
    let Some(lease) = view.lease.filter(|lease| lease.ended.is_none()) else { return };
    let is_recorded = view.policy.records_work_of(&lease.actor);
    let mut work = if is_recorded { lease.pulse.work.clone() } else { Work::default() };
    let mut worked = lease.worked;
    for draft in drafts.iter_mut().filter(|draft| draft.token == Some(lease.token)) {
        // A holder that continues after a lapse begins a new stretch.
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

/// Whether the caller is the holder and its lease is live. A lapse ends all work at the last sign of life before it.
fn is_sign_of_life(view: &View<'_>, lease: &Lease) -> bool {
    view.is_holder_of(lease) && view.liveness(lease) == Liveness::Live
}

fn sign<'a>(view: &View<'a>) -> Sign<'a> {
    Sign {
        now: view.now,
        own: view.caller.own_clock.as_ref(),
        in_turn: view.caller.in_turn,
        idle_ms: view.policy.idle_ms,
    }
}
