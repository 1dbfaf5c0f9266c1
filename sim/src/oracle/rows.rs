//! The store's rows and the engine's answers, held against what the judge knows.

use onus_core::lease::Lease;
use onus_core::task::Task;

use super::{Known, Oracle, Verdict, globs, lease::At, must};
use crate::fate::{Fate, HOST, boot_name};

impl Oracle {
    /// P5 on the way: the leases that have not ended are those of the ledger, with the deadlines that follow from it.
    pub fn compare_leases(&self, rows: &[(Task, Lease)], now: &Fate) -> Verdict {
        let open = self.tasks.values().filter_map(Known::current).filter(|held| held.ended.is_none()).count();
        must!(open == rows.len(), "P5: {} leases are open, the ledger knows {open}", rows.len());
        let at = At::of(now);
        for (task, lease) in rows {
            let known = self.tasks.get(&task.uid.to_string());
            let Some((known, held)) = known.and_then(|known| Some((known, known.current()?))) else {
                return Err(format!("P5: nobody was granted {}", task.number.0));
            };
            let number = known.number;
            must!(
                task.state.to_string() == known.state,
                "P5: ON-{number} is {}, the ledger says {}",
                task.state,
                known.state
            );
            must!(
                held.token == lease.token.0 && held.is_of(lease.actor.as_str(), lease.instance.as_str()),
                "P1: ON-{number} is held with token {} by {}, the ledger says {held:?}",
                lease.token,
                lease.actor
            );
            // What was over once, or whose process is gone, may look otherwise from elsewhere.
            if held.over || !held.is_live(now) {
                continue;
            }
            must!(
                held.resting == lease.pulse.resting,
                "P9: ON-{number} rests: {}, not {}: {held:?}",
                lease.pulse.resting,
                held.resting
            );
            let row = lease.pulse.deadline.as_ref();
            let row_ms = row.map(|row| {
                if row.domain.boot() == boot_name(now.boot) {
                    row.tick_ms - at.tick_ms
                } else {
                    row.wall_ms - at.wall_ms
                }
            });
            let own_ms = held.deadline.map(|deadline| deadline.left_ms(&at));
            must!(row_ms == own_ms, "P9: ON-{number} lapses in {row_ms:?} ms, not in {own_ms:?}: {held:?}");
        }
        Ok(())
    }

    /// What a lease reserves, by its rows.
    pub fn compare_scope(&self, task: &Task, scope: &onus_core::scope::Scope) -> Verdict {
        let stored = globs(&serde_json::json!(scope));
        let known = self.tasks.get(&task.uid.to_string()).and_then(Known::current);
        must!(
            known.is_some_and(|held| held.scope == stored),
            "P3: {} reserves {stored:?}, the ledger says {known:?}",
            task.number.0
        );
        Ok(())
    }

    /// P9: readers call a lease live exactly while it is.
    pub fn compare_live(&self, number: u64, said_live: bool, now: &Fate) -> Verdict {
        let Some(known) = self.numbers.get(&number).and_then(|uid| self.tasks.get(uid)) else {
            return Ok(());
        };
        let Some(held) = known.current().filter(|held| held.ended.is_none()) else { return Ok(()) };
        let live = held.is_live(now);
        must!(said_live || !live, "P9: ON-{number} is live and called lapsed: {held:?}");
        let seen = held.process.as_ref().is_none_or(|process| process.pid_ns == HOST);
        let excused = held.over && held.goes_by_the_wall(now);
        must!(
            live || !said_live || excused || !seen,
            "P9: ON-{number} has lapsed and is called live: {held:?}"
        );
        Ok(())
    }

    /// The numbers of tasks whose lease has not ended.
    pub fn leased(&self) -> Vec<u64> {
        let open = |known: &&Known| known.current().is_some_and(|held| held.ended.is_none());
        self.tasks.values().filter(open).map(|known| known.number).collect()
    }
}
