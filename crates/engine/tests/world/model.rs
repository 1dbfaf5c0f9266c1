//! An independent model of the promises. It knows nothing of the core's rules but the promise itself: a grant needs a task
//! whose last lease has ended, lapsed or was revoked by a person (P1); tokens only grow, and a holder's event carries the
//! current one (P2); a step of the state is one of the design's table (P4).

use std::collections::BTreeMap;

use onus_core::chain::Record;
use onus_store::{EventQuery, Store};
use proptest::prelude::*;

use super::World;

/// What the model knows of a task's latest lease.
#[derive(Clone, Debug)]
pub struct Held {
    pub token: u64,
    deadline: Option<i64>,
    limit: Option<i64>,
    pid: Option<u64>,
    boot: u32,
    ended: bool,
    /// A reset came after it.
    fenced: bool,
}

#[derive(Default)]
pub struct Model {
    seq: u64,
    leases: BTreeMap<String, Held>,
    states: BTreeMap<String, &'static str>,
    /// What each was before it was last dropped.
    dropped_from: BTreeMap<String, &'static str>,
}

impl Model {
    /// Follows the events that one step has written, and complains where they break a promise.
    pub fn follow<S: Store>(&mut self, world: &mut World<S>) -> Result<(), TestCaseError> {
        let query = EventQuery { after_seq: self.seq, limit: 10_000, ..EventQuery::default() };
        let records = world.engine.store().read(|read| read.events(&query)).unwrap();
        for record in records {
            self.seq = record.seq;
            if let Some(task) = record.task.clone() {
                self.lease_event(world, &task, &record)?;
                self.state_event(&task, &record)?;
            }
        }
        Ok(())
    }

    fn is_live<S>(&self, world: &World<S>, held: &Held) -> bool {
        let fate = world.fate.lock().unwrap();
        let rebooted = held.pid.is_some() && held.boot != fate.boot;
        let died = held.pid.is_some_and(|pid| fate.dead.contains(&u32::try_from(pid).unwrap()));
        let over = |at: Option<i64>| held.boot == fate.boot && at.is_some_and(|at| fate.tick_ms >= at);
        let deadline = held.deadline.filter(|_| held.pid.is_none());
        !(held.ended || rebooted || died || over(deadline) || over(held.limit))
    }

    fn lease_event<S>(&mut self, world: &World<S>, task: &str, record: &Record) -> Result<(), TestCaseError> {
        let (now, boot) = {
            let fate = world.fate.lock().unwrap();
            (fate.tick_ms, fate.boot)
        };
        let token = record.token.unwrap_or_default();
        let fenced = self.leases.get(task).is_some_and(|held| held.fenced && held.token >= token);
        prop_assert!(token == 0 || !fenced, "a fenced token wrote {record:?}");
        if record.kind == "task.reset"
            && let Some(held) = self.leases.get_mut(task)
        {
            held.fenced = true;
        }
        let grant = |name: &str| record.payload["grant"].get(name).cloned().unwrap_or_default();
        match record.kind.as_str() {
            "lease.acquired" => {
                if let Some(before) = self.leases.get(task) {
                    prop_assert!(token > before.token, "token {token} after {}", before.token);
                    prop_assert!(
                        !self.is_live(world, before),
                        "two live holders of {task}: {before:?} and {record:?}"
                    );
                }
                let limit = grant("max_hold_ms").as_i64().map(|ms| now + ms);
                self.leases.insert(
                    task.to_owned(),
                    Held {
                        token,
                        deadline: grant("ttl_ms").as_i64().map(|ms| now + ms),
                        limit,
                        pid: grant("process")["pid"].as_u64(),
                        boot,
                        ended: false,
                        fenced: false,
                    },
                );
            }
            "lease.renewed" => {
                let in_ms = record.payload["deadline_in_ms"].as_i64();
                let held = self.leases.get_mut(task).expect("renewed after it was granted");
                prop_assert_eq!(held.token, token);
                (held.ended, held.deadline, held.boot) = (false, in_ms.map(|ms| now + ms), boot);
            }
            "lease.lapsed" | "lease.taken_over" => {
                let held = self.leases[task].clone();
                prop_assert!(!self.is_live(world, &held), "{} of a live lease: {held:?}", record.kind);
                self.leases.get_mut(task).unwrap().ended = true;
            }
            "lease.revoked" => {
                prop_assert!(record.actor.starts_with("human:"), "only people revoke: {record:?}");
                self.leases.get_mut(task).unwrap().ended = true;
            }
            _ if record.payload.get("lease").is_some_and(|lease| lease.is_object()) => {
                let held = self.leases.get_mut(task).expect("ended after it was granted");
                prop_assert_eq!(held.token, token, "a superseded token wrote {:?}", record);
                held.ended = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn state_event(&mut self, task: &str, record: &Record) -> Result<(), TestCaseError> {
        let before = self.states.get(task).copied().unwrap_or("none");
        let reserved = record.payload["grant"]["reserve"].as_bool().unwrap_or_default();
        let after = match record.kind.as_str() {
            "task.created" if record.payload["state"] == "proposed" => "proposed",
            // Dropping gets around neither an acceptance nor the limit on attempts.
            "task.reopened" if before == "dropped" => {
                let from = self.dropped_from.get(task).copied();
                from.filter(|from| matches!(*from, "proposed" | "failed")).unwrap_or("open")
            }
            "task.created" | "task.accepted" | "task.unblocked" | "task.reopened" | "task.rejected" => "open",
            "task.retried" => {
                prop_assert_eq!(before, "failed", "retried");
                "open"
            }
            "task.reset" => {
                prop_assert!(!matches!(before, "proposed" | "dropped"), "reset from {before}");
                "open"
            }
            "lease.released" | "lease.lapsed" | "lease.handed_off" | "lease.taken_over" | "lease.revoked" => {
                "open"
            }
            "lease.acquired" if reserved => "open",
            "lease.renewed" if record.payload["reserve"] == true => "open",
            "lease.acquired" | "lease.renewed" | "task.started" => "in_progress",
            "task.blocked" => "blocked",
            "task.submitted" => "review",
            "task.approved" | "task.done" => "done",
            "task.failed" => "failed",
            "task.dropped" => "dropped",
            _ => before,
        };
        let allowed: &[&str] = match after {
            "proposed" => &["none", "dropped"],
            "open" => {
                &["none", "proposed", "open", "in_progress", "blocked", "review", "done", "failed", "dropped"]
            }
            "in_progress" => &["open", "in_progress"],
            "blocked" | "review" => &["open", "in_progress"],
            "failed" => &["open", "in_progress", "blocked", "review", "dropped"],
            "dropped" => &["proposed", "open", "in_progress", "blocked", "review", "failed"],
            _ => &["open", "in_progress", "review"],
        };
        prop_assert!(before == after || allowed.contains(&before), "{before} -> {after} by {}", record.kind);
        if record.kind == "task.dropped" {
            self.dropped_from.insert(task.to_owned(), before);
        }
        self.states.insert(task.to_owned(), after);
        Ok(())
    }

    /// A successful command is a sign of life for every lease its holder has.
    pub fn signs_of_life<S: Store>(&mut self, world: &mut World<S>) {
        let leases = world.engine.store().read(|read| read.open_leases(1_000)).unwrap();
        for (task, lease) in leases {
            if let Some(held) = self.leases.get_mut(&task.uid.to_string()) {
                let deadline = lease.pulse.deadline.map(|deadline| deadline.tick_ms);
                assert!(
                    held.pid.is_some() || deadline >= held.deadline || held.boot != 1,
                    "a deadline came closer"
                );
                held.deadline = deadline;
            }
        }
    }
}
