//! What a conversation used of models, according to its transcript: each answer counts for the session that
//! the conversation had at the time.
//!
//! How far the transcript was read is kept in the instance registry, and changes in the transaction that
//! records what was read. A reading that is repeated, after a crash or concurrently, starts from a position
//! that is no longer the instance's, and counts nothing.

use std::collections::BTreeMap;

use onus_core::command::Act;
use onus_core::ids::Uid;
use onus_core::session::{Reading, Usage, session_at};
use onus_core::stretch::SLACK_MS;
use onus_store::Reach;

use super::{Effect, Outcome, Result, Stop, UnitOfWork};

impl UnitOfWork<'_> {
    pub(super) fn used(&mut self, reading: &Reading) -> Result<Outcome> {
        let done = Outcome::of(Effect::Present(Vec::new()));
        if self.before.read != reading.from {
            return Ok(done);
        }
        self.before.read = Some(reading.cursor.clone());
        let ages = reading.answers.iter().map(|answer| answer.age_ms);
        let Some(oldest_ms) = ages.max() else { return Ok(done) };
        let actor = self.caller.actor.clone();
        let itself = self.caller.instance.clone();
        // A sub-agent without a lease of its own works on its conversation's.
        let mut leases = Vec::new();
        for holder in [Some(&itself), reading.whole.as_ref()].into_iter().flatten() {
            leases = self.write.leases_held_by(&actor, holder)?;
            let since_ms = self.now.wall_ms.saturating_sub(oldest_ms).saturating_sub(SLACK_MS);
            leases.extend(self.write.leases_ended_by(&actor, holder, since_ms)?);
            if !leases.is_empty() {
                break;
            }
        }
        let mut sums = BTreeMap::new();
        for answer in &reading.answers {
            let at_ms = self.now.wall_ms.saturating_sub(answer.age_ms);
            let Some(lease) = session_at(&leases, at_ms) else { continue };
            let key = (lease.task, answer.usage.kind());
            let sum = match sums.remove(&key) {
                Some(sum) => Usage::and(sum, &answer.usage),
                None => answer.usage.clone(),
            };
            sums.insert(key, sum);
        }
        let tasks: Vec<Uid> = sums.keys().map(|(task, _)| *task).collect();
        self.write.lock_tasks(&tasks, Reach::Rows)?;
        for ((task, _), usage) in sums {
            let holder = leases.iter().find(|lease| lease.task == task).map(|lease| lease.instance.clone());
            self.act_as(&holder.unwrap_or_else(|| itself.clone()));
            match self.on_task(task, &Act::RecordUsage(usage), None) {
                // A superseded holder can no longer change anything (P2).
                Ok(_) | Err(Stop::Refused(_)) => {}
                Err(stop) => return Err(stop),
            }
        }
        self.caller.instance = itself;
        self.caller.in_turn = self.before.in_turn;
        Ok(done)
    }
}
