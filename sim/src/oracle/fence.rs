//! Which requests may write at all: a key applies once (P8), and a superseded caller changes nothing (P2).

use onus_core::chain::Record;
use onus_core::command::{Act, Command};

use super::{Case, Deed, Oracle, Verdict, must};

impl Oracle {
    /// P8: a key applies one request once.
    pub(super) fn is_replay(
        &mut self,
        case: &Case<'_>,
        deed: &Deed<'_>,
        records: &[Record],
    ) -> Result<bool, String> {
        let told_replayed = match deed.answer {
            Some(Ok(reply)) => Some(reply.replayed),
            _ => None,
        };
        let Some(key) = &case.request.key else {
            must!(told_replayed != Some(true), "P8: replayed without a key");
            return Ok(false);
        };
        let asked = format!("{:?}", case.request.command);
        match self.keys.get(&(case.actor.clone(), key.clone())) {
            Some(first) => {
                must!(*first == asked, "P8: key {key} was applied for {first}, and for {asked}");
                must!(told_replayed != Some(false), "P8: key {key} was applied twice");
                let renews = |record: &Record| record.kind == "lease.renewed";
                must!(records.iter().all(renews), "P8: key {key} wrote again: {}", records[0].kind);
                self.seq = records.last().map_or(self.seq, |record| record.seq);
                must!(records.is_empty(), "P8: a replay of key {key} renewed a lease");
                Ok(true)
            }
            None => {
                must!(told_replayed != Some(true), "P8: key {key} was never applied, and is called replayed");
                self.keys.insert((case.actor.clone(), key.clone()), asked);
                Ok(false)
            }
        }
    }

    /// P2: a superseded caller changes nothing of the task it names, unless a person forces it.
    pub(super) fn fence(&self, case: &Case<'_>, records: &[Record]) -> Verdict {
        let reference = match case.request.command.itself() {
            // Anybody may report what git's references show.
            Command::OnTask { act: Act::SettleLanding { .. } | Act::FoundLanded(_), .. } => return Ok(()),
            Command::OnTask { act: Act::Claim(_) | Act::Takeover(_), .. } => return Ok(()),
            Command::OnTask { task: Some(task), .. }
            | Command::Reset { task: Some(task), .. }
            | Command::Retry { task: Some(task), .. } => task,
            _ => return Ok(()),
        };
        let Some(uid) = self.uid(reference) else { return Ok(()) };
        let Some(known) = self.tasks.get(&uid) else { return Ok(()) };
        let writes = records.iter().any(|record| record.task.as_ref() == Some(&uid));
        if case.forced || !writes {
            return Ok(());
        }
        let usable = known.usable();
        if let Some((_, presented)) = case.token.as_ref().filter(|(task, _)| *task == uid) {
            must!(
                usable.is_some_and(|held| held.token == *presented),
                "P2: token {presented} changed ON-{}, whose highest is {} and which was fenced up to {}",
                known.number,
                known.highest,
                known.fenced
            );
            return Ok(());
        }
        let is_holder = usable.is_some_and(|held| case.is_of(held) && case.is_inside(held));
        // Anybody may judge and land a finished task.
        let lands = matches!(
            case.request.command.itself(),
            Command::OnTask { act: Act::Land(_) | Act::Judge(_) | Act::FailLanding(_), .. }
        );
        let is_past = case.actor.starts_with("human:") && matches!(known.state, "done" | "dropped");
        let is_past = is_past || lands && known.state == "done";
        must!(
            is_holder || is_past || !known.was_superseded(&case.actor, &case.instance),
            "P2: {} {} was superseded on ON-{} and changed it",
            case.actor,
            case.instance,
            known.number
        );
        Ok(())
    }
}
