//! Hours, as the judge computes them: which of a holder's gaps between two signs of life were work. It keeps one sum per lease
//! and knows nothing about stretches; when a lease ends, the sum is compared with what the events recorded.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::chain::Record;
use onus_core::command::{Command, Presence};
use onus_core::lease::Process;

use super::lease::{At, Held};
use super::{Case, Verdict, must};

/// The longest silence that counts as work outside of turns. Shorter than a TTL, so that both kinds of gaps occur.
pub const IDLE_MS: i64 = 15_000;

/// The work under one lease.
#[derive(Clone, Debug)]
pub(super) struct Account {
    worked_ms: i64,
    /// What events have recorded so far.
    told_ms: i64,
    /// Whether its holder is at work, and its last sign of that.
    at_work: bool,
    last: At,
    /// The judge cannot know what the store took for a sign of life.
    unclear: bool,
}

impl Account {
    pub(super) fn begun(at: At, reserve: bool) -> Account {
        Account { worked_ms: 0, told_ms: 0, at_work: !reserve, last: at, unclear: false }
    }

    /// A sign of life.
    pub(super) fn sign(&mut self, at: &At, in_turn: bool) {
        if self.at_work {
            let gap_ms = (-self.last.left_ms(at)).max(0);
            let is_one_boot = self.last.boot == at.boot;
            let is_in_turn = in_turn && is_one_boot;
            // If the clock was set back over a reboot, the store goes by the last time that it wrote anything, events or not.
            self.unclear |= !is_one_boot && at.latest_ms != at.wall_ms;
            self.worked_ms += if is_in_turn || gap_ms <= IDLE_MS { gap_ms } else { 0 };
        }
        (self.at_work, self.last) = (true, *at);
    }

    pub(super) fn is_at_work(&self) -> bool {
        self.at_work
    }

    pub(super) fn begin_again(&mut self, at: &At) {
        (self.at_work, self.last) = (true, *at);
    }

    pub(super) fn rest(&mut self, at: &At, in_turn: bool) {
        self.sign(at, in_turn);
        self.at_work = false;
    }

    /// An observer took, or may have taken, something for a sign of life of a holder that could not give one.
    pub(super) fn doubt(&mut self) {
        self.unclear = true;
    }
}

impl Held {
    /// Adds the work that an event of the lease records.
    pub(super) fn hear(&mut self, record: &Record) {
        let stretches = record.payload["stretches"].as_array().into_iter().flatten();
        self.work.told_ms += stretches.filter_map(|stretch| stretch["active_ms"].as_i64()).sum::<i64>();
    }

    /// P7: the events of a lease record exactly what was worked under it.
    pub(super) fn settle_work(&mut self, case: &Case<'_>, task: &str, record: &Record, at: &At) -> Verdict {
        let is_holder = case.is_of(self) || case.presents(task, self);
        if self.ended.is_none() && is_holder && self.is_for_work() {
            match self.is_live(case.now) {
                true => self.work.sign(at, case.in_turn),
                false => self.work.unclear |= self.process.is_some() || self.may_be_revived(case.now),
            }
        }
        self.work.at_work = false;
        let (kind, work) = (&record.kind, &self.work);
        let said_ms = record.payload["lease"]["active_ms"].as_i64().unwrap_or_default();
        must!(
            said_ms == work.told_ms,
            "P7: {kind} says {said_ms} ms, all its events {}: {self:?}",
            work.told_ms
        );
        must!(
            work.unclear || said_ms == work.worked_ms,
            "P7: {kind} says {said_ms} ms, but {} were worked: {self:?}",
            work.worked_ms
        );
        Ok(())
    }
}

/// The instances that are in a turn, as their harnesses reported.
#[derive(Debug, Default)]
pub(super) struct Turns {
    running: BTreeSet<(String, String)>,
    processes: BTreeMap<(String, String), Process>,
}

impl Turns {
    pub(super) fn is_running(&self, actor: &str, instance: &str) -> bool {
        self.running.contains(&(actor.to_owned(), instance.to_owned()))
    }

    /// Whether a request belongs to a turn. A request that registers another process, or the first known one, does not: it is unknown
    /// when the turn before it ended, so that turn ended at its last sign of life.
    pub(super) fn is_part_of_one(&self, actor: &str, instance: &str, command: &Command) -> bool {
        let is_the_same = match command {
            Command::RegisterInstance { process, .. } => {
                self.processes.get(&(actor.to_owned(), instance.to_owned())) == Some(process)
            }
            _ => true,
        };
        is_the_same && self.is_running(actor, instance)
    }

    /// Updates the turns after a request.
    pub(super) fn follow(&mut self, case: &Case<'_>) {
        let caller = (case.actor.clone(), case.instance.clone());
        match &case.request.command {
            Command::Presence(Presence::TurnBegun) => drop(self.running.insert(caller)),
            Command::Presence(Presence::TurnOver | Presence::Gone) => drop(self.running.remove(&caller)),
            // No turn outlives its process.
            Command::RegisterInstance { process, .. } => {
                let before = self.processes.insert(caller.clone(), process.clone());
                if before.as_ref() != Some(process) {
                    self.running.remove(&caller);
                }
            }
            _ => {}
        }
    }
}
