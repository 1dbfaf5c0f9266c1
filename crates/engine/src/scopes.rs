//! Who else reserves something nearby: the live leases whose globs may overlap a scope. The core decides
//! which of them collide.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::actor::{Actor, Caller, InstanceId};
use onus_core::command::Terms;
use onus_core::decide::{Rival, reservations_of};
use onus_core::ids::{Token, Uid};
use onus_core::lease::{Lease, Liveness};
use onus_core::policy::ScopeMode;
use onus_core::scope::{Reservation, Reservations, Scope, collision, overlap};
use onus_core::task::Task;
use onus_store::Result;

use crate::snapshot::Snapshot;

/// What is reserved near a scope: by the task's own lease, and by live leases of other tasks.
#[derive(Debug, Default)]
pub(crate) struct Near {
    pub(crate) own: Reservations,
    pub(crate) rivals: Vec<Rival>,
}

impl Snapshot<'_> {
    pub(crate) fn near(&mut self, task: &Task, scope: &Scope) -> Result<Near> {
        let mut near = Near::default();
        if scope.is_empty() || self.policy.scope_mode == ScopeMode::Off {
            return Ok(near);
        }
        for ((uid, token), reserved) in self.leases_near(scope)? {
            if uid == task.uid {
                near.own.extend(reserved);
                continue;
            }
            // Globs that cannot be compared may overlap: the decision reports that, if the lease is live.
            if matches!(overlap(scope.globs(), &reserved, self.policy.scope_shared.globs()), Ok(None)) {
                continue;
            }
            near.rivals.extend(self.rival(uid, token, reserved)?);
        }
        Ok(near)
    }

    /// What each lease reserves near a scope.
    fn leases_near(&mut self, scope: &Scope) -> Result<BTreeMap<(Uid, Token), Vec<Reservation>>> {
        let mut leases: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (uid, token, reserved) in self.read.scopes_near(scope)? {
            leases.entry((uid, token)).or_default().push(reserved);
        }
        Ok(leases)
    }

    /// A lease with what it reserves, if it is live.
    fn rival(&mut self, uid: Uid, token: Token, reserved: Vec<Reservation>) -> Result<Option<Rival>> {
        let lease = self.lease(uid, token)?;
        let is_live = |lease: &Lease| lease.ended.is_none() && self.liveness(lease) == Liveness::Live;
        let Some(lease) = lease.filter(is_live) else { return Ok(None) };
        let task = self.task(lease.task)?;
        let is_ad_hoc = task.as_ref().is_some_and(|task| task.facts.ad_hoc);
        let id = task.map_or_else(|| lease.task.to_string(), |task| self.id(task.number));
        Ok(Some(Rival { id, is_ad_hoc, lease, reserved }))
    }

    /// The running sub-agents of the caller's conversation among those that touched one of these rows.
    pub(crate) fn running_near(
        &mut self,
        caller: &Caller,
        own: &[Reservation],
        rivals: &[Rival],
    ) -> Result<BTreeSet<InstanceId>> {
        let whole = caller.whole.as_ref().unwrap_or(&caller.instance);
        let kin = rivals.iter().filter(|rival| rival.lease.actor == caller.actor);
        let of_kin = kin.clone().flat_map(|rival| &rival.reserved);
        let parts = own.iter().chain(of_kin).filter_map(|row| row.basis.part());
        let parts = parts.chain(kin.map(|rival| &rival.lease.instance)).filter(|part| whole.has_part(part));
        let mut running = BTreeSet::new();
        for part in parts.cloned().collect::<BTreeSet<InstanceId>>() {
            if self.read.instance(&caller.actor, &part)?.is_some_and(|known| known.is_live()) {
                running.insert(part);
            }
        }
        Ok(running)
    }

    /// The live leases that reserve something near a scope.
    pub(crate) fn rivals(&mut self, scope: &Scope) -> Result<Vec<Rival>> {
        let mut rivals = Vec::new();
        for ((uid, token), reserved) in self.leases_near(scope)? {
            rivals.extend(self.rival(uid, token, reserved)?);
        }
        Ok(rivals)
    }

    /// Whether a claim on these terms would collide with nobody.
    pub(crate) fn is_free(&mut self, task: &Task, terms: &Terms) -> Result<bool> {
        let (wanted, mode) = reservations_of(task, terms);
        if self.policy.scope_mode != ScopeMode::Strict {
            return Ok(true);
        }
        let (shared, across) = (self.policy.scope_shared.globs(), self.policy.across_worktrees);
        let near = self.near(task, &wanted.scope())?;
        Ok(near.rivals.iter().all(|rival| {
            // Globs that cannot be compared may overlap.
            rival.shares(mode)
                || matches!(collision(wanted.rows(), &rival.reserved, shared, across), Ok(None))
        }))
    }

    /// Whether the asker could claim a task that nobody holds, or whose lease lapsed.
    pub(crate) fn is_ready(&mut self, task: &Task, asker: Option<&Actor>, terms: &Terms) -> Result<bool> {
        Ok(onus_core::decide::is_ready_for(task, asker, self.now) && self.is_free(task, terms)?)
    }
}
