//! Files within one conversation: what its parts have touched, and whether another part may change it.

use std::collections::{BTreeMap, BTreeSet};

use crate::actor::{Caller, InstanceId};
use crate::kin::{Within, kin, within};
use crate::lease::Lease;
use crate::quote::{self, name};
use crate::refusal::{Code, Refusal, Step};
use crate::scope::{self, Reservation, ReservationKind, Reservations};

use super::super::View;

/// Whether a file may be touched under two leases because both belong to one conversation, and no other running part of it is
/// in the way. A declared path belongs to one lease, except that a conversation may declare what a part touched under a lease of
/// its own. Two leases of one holder without parts share nothing.
pub(super) fn is_shared_within(view: &View<'_>, new: &Reservation, lease: &Lease, row: &Reservation) -> bool {
    let Caller { actor, instance, .. } = view.caller;
    let is_touched = |row: &Reservation| row.basis.kind() == ReservationKind::Touched;
    let may_be_both = is_touched(row) && (is_touched(new) || lease.instance != *instance);
    if lease.actor != *actor || !may_be_both {
        return false;
    }
    let is_plain = [new, row].iter().all(|row| row.basis.part().is_none());
    let is_own = is_plain && lease.instance == *instance;
    let answer = answer_within(view, new.basis.part(), lease, row);
    !is_own && matches!(answer, Some(Within::Free | Within::Told))
}

/// Whether the caller, or this part of it, may change what another part of its conversation touched.
fn answer_within(
    view: &View<'_>,
    part: Option<&InstanceId>,
    lease: &Lease,
    row: &Reservation,
) -> Option<Within> {
    let Caller { instance, whole, .. } = view.caller;
    let owner = row.basis.part().unwrap_or(&lease.instance);
    let is_running = view.around.is_some_and(|around| around.running.contains(owner));
    within(kin(whole.as_ref().unwrap_or(instance), part.unwrap_or(instance), owner), is_running)
}

/// Checks files that one part of a conversation is about to touch against what its other parts have touched there. Returns
/// notices, or refuses if a running sibling has touched one.
pub(in crate::decide) fn ask_kin(view: &View<'_>, wanted: &Reservations) -> Result<Vec<String>, Refusal> {
    let Some(around) = view.around else { return Ok(Vec::new()) };
    let rivals = around.rivals.iter().filter(|rival| rival.lease.actor == view.caller.actor);
    let theirs = rivals.flat_map(|rival| rival.reserved.iter().map(|row| (&rival.lease, row)));
    let lease = view.lease.filter(|lease| lease.actor == view.caller.actor);
    let own = lease.into_iter().flat_map(|lease| around.own.rows().iter().map(move |row| (lease, row)));
    let mut told: BTreeMap<&InstanceId, BTreeSet<&str>> = BTreeMap::new();
    for (lease, row) in own.chain(theirs).filter(|(_, row)| row.basis.kind() == ReservationKind::Touched) {
        let meets = |new: &&Reservation| {
            new.glob == row.glob && scope::collide(new, row, view.policy.across_worktrees)
        };
        let Some(new) = wanted.rows().iter().find(meets) else { continue };
        let (Some(path), owner) = (new.glob.path(), row.basis.part().unwrap_or(&lease.instance)) else {
            continue;
        };
        match answer_within(view, new.basis.part(), lease, row) {
            Some(Within::Told) => {
                told.entry(owner).or_default().insert(path);
            }
            // Under another lease it is an ordinary collision.
            Some(Within::Refused) if view.lease.is_some_and(|own| own.task == lease.task) => {
                return Err(sibling(view, owner, path));
            }
            _ => {}
        }
    }
    let whole = view.caller.whole.as_ref().unwrap_or(&view.caller.instance);
    let say = |(owner, paths): (&InstanceId, BTreeSet<&str>)| {
        let files = quote::some_names(&Vec::from_iter(paths));
        match owner == whole {
            true => format!("your conversation itself has changed {files}: coordinate with it"),
            false => format!("{files}: your sub-agent {} is on it and still running", name(owner.as_str())),
        }
    };
    Ok(told.into_iter().map(say).collect())
}

/// Exit 4: a sub-agent of the same conversation is changing that file.
fn sibling(view: &View<'_>, owner: &InstanceId, path: &str) -> Refusal {
    let (path, owner) = (name(path), name(owner.as_str()));
    let message = format!(
        "{path} is being changed by {owner}, another sub-agent of this conversation, which is still running"
    );
    Refusal::new(Code::Scope, message)
        .task(view.id)
        .next(Step::plain("change other files, and this one when that sub-agent has ended"))
        .next(Step::Reserved(view.id.to_owned()))
}
