//! What a dead holder left running.
//!
//! A supervisor that is killed -9 takes its direct child with it, not what that had started. Before its task is granted to
//! somebody else, the process group on its record is ended: two workers on one task, in one folder, is what leases are
//! there to prevent. Ending processes takes time and cannot be undone, so it is not done inside the transaction: the
//! request is undone, the group is ended, and the request is made again. Whoever was granted the task meanwhile is met
//! then, like any other holder.
//!
//! How a group is ended is not the engine's business; without somebody who knows, nothing is.

use onus_core::actor::InstanceId;
use onus_core::decide::Decision;
use onus_core::event::Body;
use onus_core::lease::{EndKind, Lease, Seen};

use crate::door::{Door, Stop};

/// A process group whose supervisor is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The instance that its members carry in their environment.
    pub instance: InstanceId,
    pub group: u32,
    /// The task that it worked on.
    pub task: String,
}

impl Door<'_> {
    /// Stops a request that would grant a task while a dead holder's group may still work on it.
    pub(crate) fn end_orphans_first(
        &mut self,
        id: &str,
        lease: Option<&Lease>,
        decision: &Decision,
    ) -> Result<(), Stop> {
        let grants = decision.drafts.iter().any(|draft| matches!(draft.body, Body::LeaseAcquired { .. }));
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

/// Whether its holder did not end it itself.
fn was_lost(lease: &Lease) -> bool {
    lease.ended.as_ref().is_none_or(|ended| {
        matches!(ended.how, EndKind::Lapsed | EndKind::TakenOver | EndKind::Revoked | EndKind::Reset)
    })
}
