//! Records events: each is stamped into its stream's chain, and its changes are applied to the rows.

use onus_core::apply::{RowChange, apply_to_project, apply_to_task};
use onus_core::chain::Record;
use onus_core::event::{Body, Draft, Event, store_reasons_once};
use onus_core::ids::{Uid, Version};
use onus_core::task::Task;
use onus_core::text::{Field, Salt, digest};
use onus_store::StoreError;

use super::{Result, UnitOfWork};

impl UnitOfWork<'_> {
    /// Stamps each draft into the task's chain and applies it. `task` is the row before, and the row after on
    /// return.
    pub(super) fn append_to_task(
        &mut self,
        uid: Uid,
        task: &mut Option<Task>,
        mut drafts: Vec<Draft>,
    ) -> Result<()> {
        self.settle_first(task.as_ref(), &drafts)?;
        store_reasons_once(&mut drafts, &mut self.said);
        for draft in drafts {
            let (version, head) =
                task.as_ref().map_or((Version(0), String::new()), |task| (task.version, task.head.clone()));
            if let (Body::RescueDue { .. }, Some(token)) = (&draft.body, draft.token) {
                self.due.push((uid, token));
            }
            let (event, texts) = self.stamp(Some(uid), version, head, draft);
            let changes = apply_to_task(task.as_ref(), &event)
                .map_err(|error| StoreError::Damaged(error.to_string()))?;
            self.record(&event, &texts, &changes)?;
            for change in changes {
                if let RowChange::PutTask(after) | RowChange::MoveTask(after) = change {
                    *task = Some(*after);
                }
            }
        }
        Ok(())
    }

    /// Writes an event and the rows that it changes.
    pub(super) fn record(
        &mut self,
        event: &Event,
        texts: &[(Field, Salt, String)],
        changes: &[RowChange],
    ) -> Result<()> {
        self.write.append(event, texts)?;
        for change in changes {
            self.write.apply(change)?;
            self.rows.learn(change);
        }
        Ok(())
    }

    pub(super) fn append_to_project(&mut self, draft: Draft) -> Result<()> {
        let project = self.write.lock_project()?;
        let (event, texts) = self.stamp(None, project.version, project.head.clone(), draft);
        let changes = apply_to_project(Some(&project), &event)
            .map_err(|error| StoreError::Damaged(error.to_string()))?;
        self.record(&event, &texts, &changes)
    }

    pub(super) fn stamp(
        &mut self,
        task: Option<Uid>,
        version: Version,
        prev: String,
        draft: Draft,
    ) -> (Event, Vec<(Field, Salt, String)>) {
        let uid = (self.outside.new_uid)(self.now.wall_ms);
        let texts: Vec<(Field, Salt, String)> =
            draft.texts.into_iter().map(|(field, text)| (field, (self.outside.new_salt)(), text)).collect();
        let mut event = Event {
            uid,
            task,
            version: version.next(),
            body: draft.body,
            actor: self.caller.actor.clone(),
            instance: self.caller.instance.clone(),
            token: draft.token,
            at_ms: self.now.wall_ms,
            cause: self.first,
            texts: texts.iter().map(|(field, salt, text)| (*field, digest(salt, text))).collect(),
            stretches: draft.stretches,
            waited_ms: draft.waited_ms,
            prev,
            hash: String::new(),
        };
        event.hash = Record::from_event(&event).hash;
        // Registering an actor is not the cause of what it does.
        if task.is_some() {
            self.first.get_or_insert(uid);
        }
        (event, texts)
    }
}
