//! What a transaction knows without asking: rows that it has locked or made, which are its own until it ends, and what it
//! fetched ahead of being asked. On a server each question is a round trip.

use std::collections::HashMap;

use onus_core::apply::Change;
use onus_core::ids::{Number, Token, Uid, Version};
use onus_core::lease::Lease;
use onus_core::scope::Scope;
use onus_core::task::Task;
use onus_core::text::TextKey;

use crate::StoredText;

#[derive(Debug, Default)]
pub(super) struct Known {
    /// Rows that are locked.
    pub(super) tasks: HashMap<Uid, Task>,
    /// Leases that were begun in this transaction, and what they reserve.
    leases: HashMap<(Uid, Token), (Lease, Scope)>,
    /// All texts of some versions, and the numbers of what some tasks depend on.
    texts: HashMap<(Uid, Version), Vec<StoredText>>,
    needs: HashMap<Uid, Vec<Number>>,
}

impl Known {
    pub(super) fn forget(&mut self) {
        *self = Known::default();
    }

    /// What a change does to what is known.
    pub(super) fn learn(&mut self, change: &Change) {
        match change {
            Change::PutTask(task) | Change::MoveTask(task) => {
                if let Some(known) = self.tasks.get_mut(&task.uid) {
                    *known = (**task).clone();
                }
            }
            Change::OpenLease(lease) => {
                self.leases.insert((lease.task, lease.token), ((**lease).clone(), Scope::default()));
            }
            Change::AddScope { task, token, scope } => {
                if let Some((_, reserved)) = self.leases.get_mut(&(*task, *token)) {
                    reserved.extend(scope.globs().iter().cloned());
                }
            }
            Change::ReviveLease { task, token, .. }
            | Change::StartLease { task, token }
            | Change::EndLease { task, token, .. }
            | Change::RemoveScope { task, token, .. } => self.forget_lease(*task, *token),
            // These count in other rows, too.
            Change::AddDeps { .. }
            | Change::RemoveDeps { .. }
            | Change::Met { .. }
            | Change::Finished { .. }
            | Change::CountChildren { .. } => {
                self.tasks.clear();
                self.needs.clear();
            }
            Change::PutProject(_)
            | Change::PutActor(_)
            | Change::SetTier { .. }
            | Change::PutAlias { .. }
            | Change::NumberTaken(_)
            | Change::Index(_)
            | Change::Unindex(_) => {}
        }
    }

    pub(super) fn forget_lease(&mut self, task: Uid, token: Token) {
        self.leases.remove(&(task, token));
    }

    pub(super) fn forget_texts(&mut self) {
        self.texts.clear();
    }

    pub(super) fn lease(&self, task: Uid, token: Token) -> Option<&Lease> {
        self.leases.get(&(task, token)).map(|(lease, _)| lease)
    }

    pub(super) fn scope(&self, task: Uid, token: Token) -> Option<&Scope> {
        self.leases.get(&(task, token)).map(|(_, scope)| scope)
    }

    /// The task on which a lease was begun in this transaction, and that lease: it will be shown.
    pub(super) fn begun(&self) -> Option<(&Task, &Lease)> {
        let (lease, _) = self.leases.values().next().filter(|_| self.leases.len() == 1)?;
        let task = self.tasks.get(&lease.task).filter(|task| !self.needs.contains_key(&task.uid))?;
        Some((task, lease))
    }

    /// None: it is not known whether there is one.
    pub(super) fn text(&self, key: TextKey) -> Option<Option<StoredText>> {
        let texts = self.texts.get(&(key.stream, key.version))?;
        Some(texts.iter().find(|stored| stored.key.field == key.field).cloned())
    }

    pub(super) fn needs(&self, task: Uid) -> Option<&Vec<Number>> {
        self.needs.get(&task)
    }

    /// All texts of these versions of a task, and what it depends on.
    pub(super) fn fetched(
        &mut self,
        task: Uid,
        versions: &[Version],
        texts: Vec<StoredText>,
        needs: Vec<Number>,
    ) {
        for version in versions {
            self.texts.insert((task, *version), Vec::new());
        }
        for stored in texts {
            self.texts.entry((task, stored.key.version)).or_default().push(stored);
        }
        self.needs.insert(task, needs);
    }
}
