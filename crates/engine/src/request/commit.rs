//! A commit that was made: recorded under the caller's leases that it belongs to, and noted on the tasks that
//! it says it resolves. Nothing here can fail a commit: what can no longer be recorded is left out.

use onus_core::command::{Act, Committed};
use onus_core::ids::{Uid, Version};
use onus_core::task::NoteKind;
use onus_core::text::Field;
use onus_store::Reach;

use super::{Effect, Outcome, Result, Stop, UnitOfWork};
use crate::commits::{is_mention, mention, tasks_of};

impl UnitOfWork<'_> {
    pub(super) fn committed(&mut self, committed: &Committed) -> Result<Outcome> {
        let held = self.tasks_held()?;
        let worktree = committed.worktree.as_ref();
        let leases = self.snapshot().leases_for(held, &committed.paths, worktree)?;
        let recorded = self.write.commit_made(&committed.commit)?;
        let mut tasks = tasks_of(&leases);
        tasks.retain(|task| !recorded.iter().any(|row| row.task == *task));
        let mut named = Vec::new();
        for reference in &committed.resolves {
            match self.resolve(reference) {
                Ok(uid) => named.push(uid),
                Err(Stop::Refused(_)) => {}
                Err(stop) => return Err(stop),
            }
        }
        let all: Vec<Uid> = tasks.iter().chain(&named).copied().collect();
        self.write.lock_tasks(&all, Reach::Rows)?;
        for task in tasks {
            self.try_to(task, &Act::Commit(committed.commit.clone()))?;
        }
        for task in named {
            let id = self.snapshot().id_of(task)?;
            if !self.is_noted(task, &id)? {
                let text = mention(&committed.commit, &id);
                self.try_to(task, &Act::Note { text, kind: NoteKind::Progress, link: None })?;
            }
        }
        Ok(Outcome::of(Effect::Present(Vec::new())))
    }

    /// Whether the caller has already noted this on the task: an amended or moved commit says it again.
    fn is_noted(&mut self, task: Uid, id: &str) -> Result<bool> {
        for record in self.write.notes(task)? {
            if record.actor != self.caller.actor.as_str() {
                continue;
            }
            let texts = self.write.texts(task, Version(record.version))?;
            let said = texts.iter().find(|text| text.key.field == Field::Note);
            if said.is_some_and(|text| is_mention(&text.text, id)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Performs the act, unless it is refused.
    fn try_to(&mut self, task: Uid, act: &Act) -> Result<()> {
        self.try_part(|work| work.on_task(task, act, None)).map(drop)
    }
}
