//! An ask from a channel: the one task of its origin.

use onus_core::command::{Act, Intake};
use onus_core::ids::{Uid, Version};
use onus_core::intake::{AskField, Kept, Refreshed, refreshed};
use onus_core::text::{Field, TextKey};

use super::{Effect, Outcome, Result, UnitOfWork};

impl UnitOfWork<'_> {
    /// Creates the task, or finds it. What the channel says differently by now is recorded only if `refresh`
    /// is set.
    pub(super) fn intake(&mut self, intake: &Intake) -> Result<Outcome> {
        let outcome = self.add(&intake.new)?;
        let found = outcome.task.filter(|_| outcome.existing);
        let asked = |outcome: Outcome, changed| Outcome {
            effect: Effect::Asked(changed),
            existing: found.is_some(),
            ..outcome
        };
        let Some(uid) = found else { return Ok(asked(outcome, Vec::new())) };
        if intake.is_reply {
            let id = self.snapshot().id_of(uid)?;
            self.remarks.push(crate::intake::replied(&id));
            return Ok(asked(outcome, Vec::new()));
        }
        if !intake.refresh {
            return Ok(asked(outcome, Vec::new()));
        }
        // Lock: what is compared must not change before it is edited.
        let task = self.locked(uid)?;
        let title = self.kept(uid, Some(task.title_version), Field::Title)?;
        let body = self.kept(uid, task.body_version, Field::Body)?;
        let Refreshed { edit, changed, erased } = refreshed(&task.facts, &title, &body, &intake.new);
        for field in erased {
            let id = self.snapshot().id_of(uid)?;
            self.remarks.push(format!("the {field} of {id} was erased, and stays so"));
        }
        if changed.is_empty() {
            return Ok(asked(outcome, changed));
        }
        let edited = self.on_task(uid, &Act::Edit(edit), None)?;
        Ok(asked(edited, changed))
    }

    fn kept(&mut self, uid: Uid, version: Option<Version>, field: Field) -> Result<Kept> {
        let Some(version) = version else { return Ok(Kept::Absent) };
        let stored = self.write.text(TextKey { stream: uid, version, field })?;
        Ok(stored.map_or(Kept::Erased, |stored| Kept::Text(stored.text)))
    }
}

/// What an intake changed of a task, for its answer.
pub(super) fn named(changed: &[AskField]) -> Vec<String> {
    changed.iter().map(ToString::to_string).collect()
}
