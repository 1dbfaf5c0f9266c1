//! What a dead holder left running.
//!
//! When a supervisor is killed with -9, its direct child dies with it, but not what that child started.
//! Before its task is granted to someone else, the recorded process group is ended: two workers on one task,
//! in one folder, is what leases exist to prevent. Ending processes takes time and cannot be undone, so it
//! does not happen inside the transaction: the request is rolled back, the group is ended, and the request is
//! made again. If another got the task meanwhile, the request then meets an ordinary holder.
//!
//! The engine does not know how to end a group; without a function that does, none is ended.

use onus_core::actor::InstanceId;
use onus_core::decide::Decision;
use onus_core::event::Body;
use onus_core::lease::{EndKind, Lease, Seen};

use crate::execution::Purpose;
use crate::request::{Stop, UnitOfWork};

/// A process group whose supervisor is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The instance in the environment of its members.
    pub instance: InstanceId,
    pub group: u32,
    /// The task that it worked on.
    pub task: String,
}

impl UnitOfWork<'_> {
    /// Stops a request that would grant a task while a dead holder's group may still work on it.
    pub(crate) fn end_orphans_first(
        &mut self,
        id: &str,
        lease: Option<&Lease>,
        decision: &Decision,
    ) -> Result<(), Stop> {
        let grants = decision.drafts.iter().any(|draft| matches!(draft.body, Body::LeaseAcquired { .. }));
        let grants = grants && self.purpose == Purpose::Keep;
        let Some(lease) = lease.filter(|lease| grants && was_lost(lease)) else { return Ok(()) };
        if self.seen(Some(lease)) != Seen::Dead {
            return Ok(());
        }
        let known = self.write.instance(&lease.actor, &lease.instance)?;
        match known.and_then(|known| known.group) {
            Some(group) if !self.ended_groups.contains(&group) => {
                Err(Stop::Orphan(Orphan { instance: lease.instance.clone(), group, task: id.to_owned() }))
            }
            _ => Ok(()),
        }
    }
}

/// Whether somebody other than its holder ended it, or nobody has.
fn was_lost(lease: &Lease) -> bool {
    lease.ended.as_ref().is_none_or(|ended| {
        matches!(ended.how, EndKind::Lapsed | EndKind::TakenOver | EndKind::Revoked | EndKind::Reset)
    })
}
