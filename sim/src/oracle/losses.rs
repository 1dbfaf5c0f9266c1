//! What the judge knows about lost leases: who must be notified, and may not write before that.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::chain::Record;
use onus_core::command::{Act, Command, Presence};

use super::{Case, Known, Oracle, Verdict, must};

/// By holder: the tasks that it lost, with the token of each.
pub(super) type Losses = BTreeMap<(String, String), BTreeSet<(String, u64)>>;

impl Oracle {
    /// An event of another caller that makes a holder's token worthless.
    pub(super) fn follow_loss(&mut self, case: &Case<'_>, task: &str, record: &Record) {
        let takes = ["lease.acquired", "lease.taken_over", "lease.revoked", "task.reset"];
        let before = self.tasks.get(task).and_then(Known::usable);
        if let Some(held) = before.filter(|held| takes.contains(&record.kind.as_str()) && !case.is_of(held)) {
            let holder = (held.actor.clone(), held.instance.clone());
            self.losses.entry(holder).or_default().insert((task.to_owned(), held.token));
        }
    }

    /// P2: a holder that lost a task and was not notified does not pass the guard, however long it was away and whatever the clocks
    /// say, unless it holds the task again.
    pub(super) fn heeds_losses(&self, case: &Case<'_>) -> Verdict {
        let Command::Guard(_) = &case.request.command else { return Ok(()) };
        let holder = (case.actor.clone(), case.instance.clone());
        for (task, token) in self.losses.get(&holder).into_iter().flatten() {
            // Files belong to tasks: a lost seat stops nobody from writing.
            let Some(known) = self.tasks.get(task).filter(|known| !known.seat) else { continue };
            let is_own_again = known.current().is_some_and(|held| held.token > *token && case.is_of(held));
            must!(
                is_own_again,
                "P2: {} {} lost ON-{} (token {token}), was not told, and the guard let it write",
                case.actor,
                case.instance,
                known.number
            );
        }
        Ok(())
    }

    /// A caller that reads an answer has been notified of its losses.
    pub(super) fn tell_losses(&mut self, case: &Case<'_>) {
        let is_heard = match case.request.command.itself() {
            Command::Guard(guard) => guard.is_heard,
            Command::Presence(presence) => matches!(presence, Presence::Here | Presence::TurnBegun),
            Command::RegisterInstance { .. } | Command::OnTask { act: Act::SettleLanding { .. }, .. } => {
                false
            }
            _ => true,
        };
        if is_heard {
            self.losses.remove(&(case.actor.clone(), case.instance.clone()));
        }
    }
}
