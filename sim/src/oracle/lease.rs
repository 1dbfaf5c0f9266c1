//! What the judge knows of a lease, and how long it lives.

use std::collections::BTreeSet;

use onus_core::chain::Record;
use onus_core::lease::Process;
use serde_json::Value;

use super::{Case, Known, Verdict, globs, must};
use crate::fate::{Fate, boot_name};

/// A moment: ticks count within a boot, the wall between boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) wall_ms: i64,
    pub(super) tick_ms: i64,
    pub(super) boot: u32,
}

impl At {
    pub(super) fn of(now: &Fate) -> At {
        At { wall_ms: now.wall_ms, tick_ms: now.tick_ms, boot: now.boot }
    }

    fn plus(self, ms: i64) -> At {
        At { wall_ms: self.wall_ms + ms, tick_ms: self.tick_ms + ms, ..self }
    }

    /// Milliseconds until this moment.
    pub(super) fn left_ms(&self, now: &At) -> i64 {
        if self.boot == now.boot { self.tick_ms - now.tick_ms } else { self.wall_ms - now.wall_ms }
    }

    fn has_come(&self, now: &At) -> bool {
        self.left_ms(now) <= 0
    }
}

#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) token: u64,
    pub(super) actor: String,
    pub(super) instance: String,
    ttl_ms: Option<i64>,
    /// The end of its maximum hold.
    limit: Option<At>,
    pub(super) process: Option<Process>,
    pub(super) deadline: Option<At>,
    pub(super) resting: bool,
    /// Its last sign of life.
    last: At,
    /// It was seen lapsed. A wall clock that goes back may revive it across boots, which is promised to nobody.
    pub(super) over: bool,
    pub(super) ended: Option<&'static str>,
    pub(super) reserve: bool,
    pub(super) shared: bool,
    pub(super) scope: BTreeSet<String>,
    pub(super) mask: u64,
}

impl Held {
    pub(super) fn is_of(&self, actor: &str, instance: &str) -> bool {
        self.actor == actor && self.instance == instance
    }

    pub(super) fn is_live(&self, now: &Fate) -> bool {
        let at = At::of(now);
        if self.ended.is_some() || self.over || self.limit.is_some_and(|limit| limit.has_come(&at)) {
            return false;
        }
        if let Some(process) = &self.process {
            if !now.is_alive(process) {
                return false;
            }
            if !self.resting {
                return true;
            }
        }
        !self.deadline.is_some_and(|deadline| deadline.has_come(&at))
    }

    /// Whether one of its limits comes from another boot.
    pub(super) fn goes_by_the_wall(&self, now: &Fate) -> bool {
        [self.limit, self.deadline].into_iter().flatten().any(|limit| limit.boot != now.boot)
    }

    /// Whether a lapse may have this cause.
    pub(super) fn may_lapse_by(&self, cause: &str, now: &Fate) -> bool {
        let at = At::of(now);
        match cause {
            "process_died" => self.process.as_ref().is_some_and(|process| !now.is_alive(process)),
            "rebooted" => self.process.as_ref().is_some_and(|process| process.boot != boot_name(now.boot)),
            "max_hold" => self.limit.is_some_and(|limit| limit.has_come(&at)),
            "ttl" => {
                // Of a dead process that somebody could not see, the rest may have counted.
                // One that the wall clock revived across a reboot may have been renewed, and lapsed once more.
                let was_revived = self.over && self.goes_by_the_wall(now);
                was_revived
                    || self.deadline.is_some_and(|deadline| deadline.has_come(&at))
                    || self.process.as_ref().is_some_and(|process| !now.is_alive(process))
            }
            _ => false,
        }
    }

    /// A sign of life: the deadline never comes closer, and never passes the maximum hold.
    pub(super) fn renew(&mut self, at: &At, ttl_ms: Option<i64>) {
        // Nothing is newer than now: a TTL that was asked for in this very moment stands.
        let is_news = self.last != *at || ttl_ms.is_some();
        self.last = *at;
        if self.resting {
            (self.resting, self.deadline) = (false, self.limit);
            return;
        }
        let Some(old) = self.deadline.filter(|_| self.process.is_none() && is_news) else { return };
        let Some(ttl_ms) = ttl_ms.or(self.ttl_ms) else { return };
        let moved = at.plus(ttl_ms);
        let later = if moved.left_ms(at) >= old.left_ms(at) { moved } else { old };
        self.deadline = Some(match self.limit {
            Some(limit) if limit.left_ms(at) <= later.left_ms(at) => limit,
            _ => later,
        });
    }

    /// The holder's turn is over: the TTL counts although its process lives.
    pub(super) fn rest(&mut self, at: &At) {
        let Some(ttl_ms) = self.ttl_ms.filter(|_| self.process.is_some() && !self.resting) else { return };
        let deadline = at.plus(ttl_ms);
        (self.resting, self.last) = (true, *at);
        self.deadline = Some(match self.limit {
            Some(limit) if limit.left_ms(at) <= deadline.left_ms(at) => limit,
            _ => deadline,
        });
    }
}

impl Known {
    /// The lease that an event speaks of: the current one.
    pub(super) fn of_token(&mut self, record: &Record) -> Result<&mut Held, String> {
        let token = record.token.ok_or_else(|| format!("P2: {} names no token", record.kind))?;
        self.leases.get_mut(&token).ok_or_else(|| format!("P2: {} names token {token}", record.kind))
    }

    /// P1: a lease begins where none is.
    pub(super) fn acquire(&mut self, case: &Case<'_>, record: &Record, at: At, unmet: bool) -> Verdict {
        let (token, grant) = (record.token.unwrap_or_default(), &record.payload["grant"]);
        let id = self.number;
        must!(token > self.highest, "P1: token {token} of ON-{id} after {}", self.highest);
        if let Some(before) = self.current() {
            must!(before.ended.is_some(), "P1: two leases of ON-{id}: {before:?}, then token {token}");
        }
        if let Some((actor, until)) = &self.kept {
            let free = *actor == case.actor || until.has_come(&at) || case.overridden;
            must!(free, "P4: ON-{id} is kept for {actor}, and {} got it", case.actor);
        }
        must!(!unmet || case.overridden, "P4: ON-{id} was claimed and depends on what is not done");
        let ms = |name: &str| grant[name].as_i64();
        let process = process_of(&grant["process"]);
        let limit = ms("max_hold_ms").map(|ms| at.plus(ms));
        let deadline = match (ms("ttl_ms").filter(|_| process.is_none()), limit) {
            (Some(ttl_ms), Some(limit)) if at.plus(ttl_ms).left_ms(&at) < limit.left_ms(&at) => {
                Some(at.plus(ttl_ms))
            }
            (Some(ttl_ms), None) => Some(at.plus(ttl_ms)),
            (_, limit) => limit,
        };
        let person = case.actor.starts_with("human:");
        must!(!person || deadline.is_none(), "P1: a person's lease has a deadline: ON-{id}");
        must!(grant["tick_ms"].as_i64() == Some(at.tick_ms), "P9: ON-{id} was granted at another time");
        let scope = globs(&record.payload["scope"]);
        must!(self.declared.is_subset(&scope), "P3: ON-{id} was granted without the scope it declares");
        let mask = case.paths.mask(&scope);
        let held = Held {
            token,
            actor: case.actor.clone(),
            instance: case.instance.clone(),
            ttl_ms: ms("ttl_ms"),
            limit,
            process,
            deadline,
            resting: false,
            last: at,
            over: false,
            ended: None,
            reserve: grant["reserve"] == true,
            shared: grant["mode"] == "shared",
            scope,
            mask,
        };
        self.highest = token;
        self.leases.insert(token, held);
        Ok(())
    }

    /// A holder came back after a lapse; whether its paths are still free is asked of all leases together.
    pub(super) fn renew_late(
        &mut self,
        case: &Case<'_>,
        task: &str,
        record: &Record,
        at: At,
        unmet: bool,
    ) -> Verdict {
        let id = self.number;
        let kept = self.kept.clone();
        let held = self.of_token(record)?;
        must!(!held.is_live(case.now), "P9: ON-{id} is live, and was renewed as if it had lapsed: {held:?}");
        must!(
            case.is_of(held) || case.presents(task, held.token),
            "P2: ON-{id} was renewed by {}",
            case.actor
        );
        must!(
            !held.limit.is_some_and(|limit| limit.has_come(&at)),
            "P1: ON-{id} was renewed past its maximum hold"
        );
        if let Some(process) = &held.process {
            let unseen = process.pid_ns != case.pid_ns;
            must!(case.now.is_alive(process) || unseen, "P1: ON-{id} was renewed for a dead process");
        }
        if let Some((actor, until)) = &kept {
            let free = *actor == case.actor || until.has_come(&at) || case.overridden;
            must!(free, "P4: ON-{id} is kept for {actor}, and {} renewed it", case.actor);
        }
        must!(
            !unmet || case.overridden,
            "P4: ON-{id} was renewed after a lapse and depends on what is not done"
        );
        held.deadline = record.payload["deadline_in_ms"].as_i64().map(|ms| at.plus(ms));
        (held.ended, held.over, held.resting, held.last) = (None, false, false, at);
        self.kept = None;
        Ok(())
    }
}

fn process_of(value: &Value) -> Option<Process> {
    serde_json::from_value(value.clone()).ok()
}
