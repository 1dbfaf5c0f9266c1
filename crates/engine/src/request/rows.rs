//! The rows that a request locked or wrote. Nobody else changes them before its transaction ends, so it
//! answers from them and does not query the store again.

use std::collections::BTreeMap;

use onus_core::apply::{LeaseChange, RowChange};
use onus_core::ids::{Token, Uid};
use onus_core::lease::Lease;
use onus_core::scope::Reservations;
use onus_core::task::Task;
use onus_store::Write;

#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    tasks: BTreeMap<Uid, Task>,
    /// It changed what rows count of their neighbours. A row that was read before that does not know, and is not remembered.
    has_counted: bool,
    /// Leases that this request began, and what they reserve.
    leases: BTreeMap<(Uid, Token), (Lease, Reservations)>,
}

impl Rows {
    pub(crate) fn task(&self, uid: Uid) -> Option<&Task> {
        self.tasks.get(&uid)
    }

    pub(crate) fn lease(&self, task: Uid, token: Token) -> Option<&Lease> {
        self.leases.get(&(task, token)).map(|(lease, _)| lease)
    }

    pub(crate) fn scope(&self, task: Uid, token: Token) -> Option<&Reservations> {
        self.leases.get(&(task, token)).map(|(_, scope)| scope)
    }

    /// The leases that this request began and has not changed since.
    pub(crate) fn begun(&self) -> Vec<Lease> {
        self.leases.values().map(|(lease, _)| lease.clone()).collect()
    }

    /// Whether a reader of the store would find the same. It always would: an assertion asks.
    pub(super) fn are_stored(&self, store: &mut dyn Write) -> onus_store::Result<bool> {
        for (uid, task) in &self.tasks {
            if store.task(*uid)?.as_ref() != Some(task) {
                return Ok(false);
            }
        }
        for ((task, token), (lease, scope)) in &self.leases {
            if store.lease(*task, *token)?.as_ref() != Some(lease) || store.scope_of(*task, *token)? != *scope
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Remembers a row that was locked.
    pub(super) fn locked(&mut self, task: Task) {
        self.tasks.insert(task.uid, task);
    }

    /// Forgets everything: a part of the request was undone, and with it what that part locked and wrote.
    pub(super) fn forget(&mut self) {
        *self = Rows::default();
    }

    /// Forgets a lease that is no longer as this request began it.
    pub(super) fn forget_lease(&mut self, task: Uid, token: Token) {
        self.leases.remove(&(task, token));
    }

    /// Applies a written change to the remembered rows.
    pub(super) fn learn(&mut self, change: &RowChange) {
        match change {
            RowChange::PutTask(task) | RowChange::MoveTask(task) if self.has_counted => {
                self.tasks.remove(&task.uid);
            }
            RowChange::PutTask(task) | RowChange::MoveTask(task) => self.locked((**task).clone()),
            RowChange::OpenLease(lease) => {
                self.leases.insert((lease.task, lease.token), ((**lease).clone(), Reservations::default()));
            }
            RowChange::OfLease { task, token, change: LeaseChange::AddScope(reservations) } => {
                if let Some((_, reserved)) = self.leases.get_mut(&(*task, *token)) {
                    reserved.extend(reservations.rows().iter().cloned());
                }
            }
            RowChange::OfLease { task, token, .. } => self.forget_lease(*task, *token),
            // These change counters, also in other rows.
            RowChange::AddDeps { .. }
            | RowChange::RemoveDeps { .. }
            | RowChange::Met { .. }
            | RowChange::Finished { .. }
            | RowChange::CountChildren { .. } => {
                self.has_counted = true;
                self.tasks.clear();
            }
            RowChange::PutProject(_)
            | RowChange::PutActor(_)
            | RowChange::SetTier { .. }
            | RowChange::PutAlias { .. }
            | RowChange::NumberTaken(_)
            | RowChange::SeatNumberTaken(_)
            | RowChange::PutSeat(_)
            | RowChange::SetRefs { .. }
            | RowChange::AddStretches(_)
            | RowChange::AddUsage(_)
            | RowChange::AddCommit(_)
            | RowChange::AddJudgement(_)
            | RowChange::VoidJudgements { .. }
            | RowChange::Index(_)
            | RowChange::Unindex(_) => {}
        }
    }
}
