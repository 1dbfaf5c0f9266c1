//! What the caller gets: its answer, and what else it should know.

use onus_core::actor::ActorName;
use onus_core::ids::Uid;
use onus_store::{ClosingRows, Details, StoreError};

use super::intake::named;
use super::{Effect, Outcome, Result, UnitOfWork};
use crate::notices::News;
use crate::snapshot::Snapshot;
use crate::view::{ActorView, InstanceView, Notice, TaskView, shown};
use crate::{Answer, Reply};

impl UnitOfWork<'_> {
    /// Reads what every request ends with. `task`: the one that its answer shows.
    pub(super) fn closing(&mut self, task: Option<Uid>) -> Result<ClosingRows> {
        let mut snapshot = self.snapshot();
        let task = task.map(|uid| snapshot.task(uid)).transpose()?.flatten();
        let shown = match task {
            Some(task) => Some(shown(&task, snapshot.current_lease(&task)?.as_ref())),
            None => None,
        };
        debug_assert!(
            self.rows.are_stored(self.write)?,
            "what a request remembers is not what is stored: {:?}",
            self.rows
        );
        let (actor, instance) = (&self.caller.actor, &self.caller.instance);
        let begun = self.rows.begun();
        Ok(self.write.closing(actor, instance, self.seen_before_ms, shown.as_ref(), &begun)?)
    }

    pub(super) fn reply(&mut self, outcome: Outcome, rows: &ClosingRows, replayed: bool) -> Result<Reply> {
        let (actor, instance) = (self.caller.actor.clone(), self.caller.instance.clone());
        let refused = self.seen_before_ms.filter(|_| self.before.wants.is_some());
        let News { mut notices, losses, pending } =
            self.snapshot().news((&actor, &instance), refused, rows, outcome.task)?;
        if !replayed && self.request.command.is_heard() {
            for (task, token) in losses {
                self.write.drop_loss(task, token)?;
            }
            for notice in &pending {
                self.write.drop_notice(notice)?;
            }
        }
        let remarks = std::mem::take(&mut self.remarks);
        notices.extend(outcome.notices.into_iter().chain(remarks.into_iter().map(Notice::info)));
        let answer = self.render(outcome.effect, outcome.task, rows.details.as_ref())?;
        let (existing, unchanged) = (outcome.existing, outcome.unchanged);
        let due = std::mem::take(&mut self.due);
        Ok(Reply { answer, replayed, existing, unchanged, notices, due })
    }

    fn render(&mut self, effect: Effect, task: Option<Uid>, details: Option<&Details>) -> Result<Answer> {
        match effect {
            Effect::Actor(name) => Ok(Answer::Actor(self.actor_view(&name)?)),
            Effect::Instance(known) => {
                let observe = &self.outside.observe;
                Ok(Answer::Instance(InstanceView::of(&known, observe)))
            }
            Effect::Sealed => Ok(Answer::Sealed),
            Effect::Seat { renewed, takeover } => {
                let gone = || StoreError::Damaged("the answer names no seat".to_owned());
                let seat = task.map(|uid| self.write.seat(uid)).transpose()?.flatten().ok_or_else(gone)?;
                let seat = Box::new(self.snapshot().seat_view(&seat)?);
                Ok(Answer::Seat { seat, renewed, takeover })
            }
            Effect::Tasks(uids) => Ok(Answer::Tasks(self.render_all(uids)?)),
            Effect::Present(ended) => Ok(Answer::Present { ended: self.render_all(ended)? }),
            Effect::Guarded { adopted, is_shown } => {
                let task = task.filter(|_| is_shown).map(|uid| self.render_one(uid, details)).transpose()?;
                Ok(Answer::Guarded { task: task.map(Box::new), adopted })
            }
            Effect::Task
            | Effect::Asked(_)
            | Effect::Reset(_)
            | Effect::Lease { .. }
            | Effect::Undone { .. } => {
                let uid = task.ok_or_else(|| StoreError::Damaged("the answer names no task".to_owned()))?;
                let view = Box::new(self.render_one(uid, details)?);
                Ok(match effect {
                    Effect::Asked(changed) => Answer::Asked { task: view, changed: named(&changed) },
                    Effect::Reset(touched) => Answer::Reset { task: view, touched },
                    Effect::Undone { undone, what } => Answer::Undone { task: view, undone, what },
                    Effect::Lease { renewed, takeover } => {
                        let lease = view.lease.clone().map(Box::new);
                        Answer::Lease { task: view, lease, renewed, takeover }
                    }
                    _ => Answer::Task(view),
                })
            }
        }
    }

    fn render_one(&mut self, uid: Uid, details: Option<&Details>) -> Result<TaskView> {
        let mut snapshot = self.snapshot();
        let task = snapshot.task(uid)?.ok_or_else(|| StoreError::Damaged("a task vanished".to_owned()))?;
        let Some(details) = details else { return Ok(snapshot.task_view(&task)?) };
        let lease = snapshot.current_lease(&task)?;
        Ok(snapshot.task_view_of(&task, lease.as_ref(), details)?)
    }

    fn render_all(&mut self, uids: Vec<Uid>) -> Result<Vec<TaskView>> {
        uids.into_iter().map(|uid| self.render_one(uid, None)).collect()
    }

    pub(super) fn snapshot(&mut self) -> Snapshot<'_> {
        Snapshot {
            read: self.write,
            rows: &self.rows,
            project: &self.project,
            now: &self.now,
            policy: self.policy,
            observe: &self.outside.observe,
        }
    }

    fn actor_view(&mut self, name: &ActorName) -> Result<ActorView> {
        let actor = self.write.actor(name)?;
        let actor = actor.ok_or_else(|| StoreError::Damaged("an actor vanished".to_owned()))?;
        let aliases = self.write.aliases()?;
        Ok(ActorView::of(&actor, &aliases))
    }
}
