//! One snapshot of the store, with the clock, the policy and the view of processes to judge it by. The
//! queries about it are in the modules that answer them.

use onus_core::apply::Project;
use onus_core::ids::{Number, Token, Uid};
use onus_core::lease::{Lease, Liveness, Process, Seen};
use onus_core::policy::Policy;
use onus_core::scope::Reservations;
use onus_core::task::Task;
use onus_core::time::Moment;
use onus_store::{Read, Result};

use crate::request::Rows;

pub(crate) struct Snapshot<'a> {
    pub(crate) read: &'a mut dyn Read,
    /// The rows that a request locked or wrote; empty for a query.
    pub(crate) rows: &'a Rows,
    pub(crate) project: &'a Project,
    pub(crate) now: &'a Moment,
    pub(crate) policy: &'a Policy,
    pub(crate) observe: &'a dyn Fn(&Process) -> Seen,
}

impl Snapshot<'_> {
    pub(crate) fn seen(&self, lease: &Lease) -> Seen {
        lease.grant.process.as_ref().map_or(Seen::Unseen, self.observe)
    }

    pub(crate) fn liveness(&self, lease: &Lease) -> Liveness {
        lease.liveness(self.now, self.seen(lease))
    }

    pub(crate) fn task(&mut self, uid: Uid) -> Result<Option<Task>> {
        match self.rows.task(uid) {
            Some(task) => Ok(Some(task.clone())),
            None => self.read.task(uid),
        }
    }

    pub(crate) fn lease(&mut self, task: Uid, token: Token) -> Result<Option<Lease>> {
        match self.rows.lease(task, token) {
            Some(lease) => Ok(Some(lease.clone())),
            None => self.read.lease(task, token),
        }
    }

    /// A task's lease that has not ended.
    pub(crate) fn current_lease(&mut self, task: &Task) -> Result<Option<Lease>> {
        if task.leased { self.lease(task.uid, task.token) } else { Ok(None) }
    }

    /// The lease with a task's highest token, ended or not.
    pub(crate) fn last_lease(&mut self, task: &Task) -> Result<Option<Lease>> {
        if task.token > Token(0) { self.lease(task.uid, task.token) } else { Ok(None) }
    }

    pub(crate) fn scope_of(&mut self, task: Uid, token: Token) -> Result<Reservations> {
        match self.rows.scope(task, token) {
            Some(scope) => Ok(scope.clone()),
            None => self.read.scope_of(task, token),
        }
    }

    pub(crate) fn id(&self, number: Number) -> String {
        self.project.prefix.id(number)
    }
}
