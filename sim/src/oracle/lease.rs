//! What the judge knows about a lease, and how long the lease lives.

use std::collections::BTreeSet;

use onus_core::chain::Record;
use onus_core::command::{Act, Command};
use onus_core::lease::Process;
use onus_engine::Ancestry;
use serde_json::Value;

use super::rows::{Ground, Row, rows_of};
use super::work::Account;
use super::{Case, Known, Verdict, globs, limits, must};
use crate::fate::{Fate, HOST, boot_name};

/// A moment. Within a boot the ticks decide; between boots the wall clock, except where it was set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) wall_ms: i64,
    pub(super) tick_ms: i64,
    /// The latest wall time until then.
    pub(super) latest_ms: i64,
    pub(super) boot: u32,
}

impl At {
    pub(super) fn of(now: &Fate) -> At {
        At { wall_ms: now.wall_ms, tick_ms: now.tick_ms, latest_ms: now.latest_ms, boot: now.boot }
    }

    /// The same moment for an observer that knows one earlier moment, and nothing else about the wall clock.
    pub(super) fn knowing(self, earlier: &At) -> At {
        let passed_ms = if self.boot == earlier.boot { self.tick_ms - earlier.tick_ms } else { 0 };
        At { latest_ms: self.wall_ms.max(earlier.latest_ms + passed_ms), ..self }
    }

    fn plus(self, ms: i64) -> At {
        At { wall_ms: self.wall_ms + ms, tick_ms: self.tick_ms + ms, latest_ms: self.latest_ms + ms, ..self }
    }

    /// Milliseconds until this moment.
    pub(super) fn left_ms(&self, now: &At) -> i64 {
        if self.boot == now.boot { self.tick_ms - now.tick_ms } else { self.wall_ms - now.latest_ms }
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
    /// When its holder last made a request, which an observer that cannot see the dead process may have taken for a sign of life.
    pub(super) asked: At,
    /// The latest wall time that the store may have as its last sign of life: that of the last one that surely counted, or of a
    /// request since. Which of those counted depends on whether its process could be seen from the handle of the request.
    signed_ms: i64,
    /// It was seen to have lapsed.
    pub(super) over: bool,
    /// It had lapsed by the clock when something was written: only its holder can revive it.
    pub(super) settled: bool,
    /// It had lapsed, and its holder's sign of life may have revived it: the store knows at least as much of the time as is known here,
    /// so it may have known of the lapse.
    pub(super) is_in_doubt: bool,
    pub(super) ended: Option<&'static str>,
    pub(super) reserve: bool,
    /// A seat's lease: nothing is worked under it.
    seat: bool,
    pub(super) shared: bool,
    pub(super) scope: BTreeSet<String>,
    pub(super) work: Account,
    /// Each glob, and how it was reserved.
    pub(super) rows: BTreeSet<Row>,
    pub(super) ground: Ground,
    /// Where the work is done: the worktree's id, its path, its branch.
    pub(super) place: [Option<String>; 3],
}

impl Held {
    pub(super) fn is_of(&self, actor: &str, instance: &str) -> bool {
        self.actor == actor && self.instance == instance
    }

    /// Its holder made a request, which may be a sign of life.
    pub(super) fn ask(&mut self, at: At) {
        self.asked = at;
        self.signed_ms = self.signed_ms.max(at.wall_ms);
    }

    /// Whether holding it may count as work.
    pub(super) fn is_for_work(&self) -> bool {
        !self.reserve && !self.seat
    }

    /// Whether everybody has to take it for live.
    pub(super) fn is_surely_live(&self, now: &Fate) -> bool {
        self.is_live(now) && !self.is_in_doubt
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

    /// Whether a limit has passed, whatever its process does.
    pub(super) fn has_run_out(&self, at: &At) -> bool {
        [self.limit, self.deadline].into_iter().flatten().any(|limit| limit.has_come(at))
    }

    /// Whether a wall clock that was set back may revive it: a limit belongs to another boot, and nothing was written since it
    /// passed, so nobody was granted anything because of it.
    pub(super) fn may_be_revived(&self, now: &Fate) -> bool {
        let another_boot =
            [self.limit, self.deadline].into_iter().flatten().any(|limit| limit.boot != now.boot);
        another_boot && !self.settled
    }

    /// Whether its process ended with an earlier boot, and every observer outside of containers knows that: it gave no sign of life
    /// in this boot, which by the wall clock began after the last one.
    pub(super) fn is_of_an_earlier_boot(&self, now: &Fate) -> bool {
        let is_silent = self.asked.boot != now.boot && now.wall_ms - self.signed_ms > now.up_ms;
        self.process
            .as_ref()
            .is_some_and(|process| HOST.is_place_of(process, |boot| boot != boot_name(now.boot)) && is_silent)
    }

    /// Whether a lapse may have this cause.
    pub(super) fn may_lapse_by(&self, cause: &str, now: &Fate) -> bool {
        let at = At::of(now);
        match cause {
            "process_died" => self.process.as_ref().is_some_and(|process| !now.is_alive(process)),
            "rebooted" => self.process.as_ref().is_some_and(|process| {
                let is_another = process.boot.known().is_some_and(|boot| boot != boot_name(now.boot));
                is_another && !now.is_alive(process)
            }),
            "max_hold" => self.limit.is_some_and(|limit| limit.has_come(&at)),
            "ttl" => {
                // An observer that could not see the dead process may have counted the resting time.
                // A lease that the wall clock revived across a reboot may have been renewed, and have lapsed again.
                let was_revived = self.over && self.may_be_revived(now);
                was_revived
                    || self.is_in_doubt
                    || self.deadline.is_some_and(|deadline| deadline.has_come(&at))
                    || self.process.as_ref().is_some_and(|process| !now.is_alive(process))
            }
            _ => false,
        }
    }

    /// A sign of life: the deadline never comes closer, and never passes the maximum hold.
    pub(super) fn renew(&mut self, at: &At, ttl_ms: Option<i64>, is_worked_on: bool) {
        // A second sign at the same moment is no news: a TTL that was requested at this moment stays, unless the task was worked on.
        let is_news = self.last != *at || is_worked_on;
        (self.last, self.signed_ms) = (*at, at.wall_ms);
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
        (self.resting, self.last, self.signed_ms) = (true, *at, at.wall_ms);
        self.deadline = Some(match self.limit {
            Some(limit) if limit.left_ms(at) <= deadline.left_ms(at) => limit,
            _ => deadline,
        });
    }
}

impl Known {
    /// The lease that an event names, which must be the current one.
    pub(super) fn of_token(&mut self, record: &Record) -> Result<&mut Held, String> {
        let token = record.token.ok_or_else(|| format!("P2: {} names no token", record.kind))?;
        self.leases.get_mut(&token).ok_or_else(|| format!("P2: {} names token {token}", record.kind))
    }

    /// P1: a lease begins only where there is none.
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
        let granted = globs(&grant["constraints"]);
        must!(
            limits::cover(&granted, &self.limits)
                && limits::cover(&granted, &limits::asked(&case.request.command)),
            "P4: ON-{id} forbids {:?}, and {} was granted it with {granted:?} by {:?}",
            self.limits,
            case.actor,
            case.request.command
        );
        self.bound = Some((person, granted));
        let scope = globs(&record.payload["scope"]);
        must!(self.declared.is_subset(&scope), "P3: ON-{id} was granted without the scope it declares");
        let rows = rows_of(&record.payload);
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
            asked: at,
            signed_ms: at.wall_ms,
            over: false,
            settled: false,
            is_in_doubt: false,
            ended: None,
            reserve: grant["reserve"] == true,
            seat: self.seat,
            shared: grant["mode"] == "shared",
            ground: Ground::of(&rows, &case.paths),
            rows,
            place: place_of(grant),
            scope,
            work: Account::begun(at, grant["reserve"] == true || self.seat),
        };
        self.highest = token;
        self.leases.insert(token, held);
        Ok(())
    }

    /// A task is kept for the named actor, for the requested time; and only that actor may pass it on meanwhile.
    pub(super) fn assigned(&self, case: &Case<'_>, payload: &Value, at: &At) -> Verdict {
        let id = self.number;
        if let Some((actor, until)) = &self.kept {
            let may = *actor == case.actor || until.has_come(at) || case.actor.starts_with("human:");
            must!(may, "P4: ON-{id} is kept for {actor}, and {} assigned it", case.actor);
        }
        let kept = &payload["kept_for"];
        if let Command::OnTask { act: Act::Assign { to, keep_ms, .. }, .. } = &case.request.command {
            let is_named = kept["actor"] == to.as_str() || to.as_str() == "agent:old-name";
            must!(is_named, "P4: ON-{id} was assigned to {to}, and is kept for {}", kept["actor"]);
            let for_ms = kept["until_tick_ms"].as_i64().map(|until| until - at.tick_ms);
            must!(
                keep_ms.is_none() || for_ms == *keep_ms,
                "P9: ON-{id} is kept for {for_ms:?} ms, not {keep_ms:?}"
            );
        }
        Ok(())
    }

    /// A holder came back after a lapse. Whether its paths are still free is judged for all leases together.
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
        must!(
            !held.is_surely_live(case.now),
            "P9: ON-{id} is live, and was renewed as if it had lapsed: {held:?}"
        );
        must!(case.is_of(held) || case.presents(task, held), "P2: ON-{id} was renewed by {}", case.actor);
        must!(
            !held.limit.is_some_and(|limit| limit.has_come(&at)),
            "P1: ON-{id} was renewed past its maximum hold"
        );
        let process = process_of(&record.payload["process"]);
        must!(process.is_some() == held.process.is_some(), "P1: ON-{id} was bound by a renewal: {process:?}");
        if let Some(process) = &process {
            let unseen = !case.place.sees(process, case.now);
            must!(case.now.is_alive(process) || unseen, "P1: ON-{id} was renewed for a dead process");
            let is_old =
                held.process.as_ref().is_some_and(|old| old.pid == process.pid && old.start == process.start);
            let is_callers = matches!(&case.request.identity.ancestry,
                Ancestry::Known(ancestry) if process.is_at_or_above(ancestry));
            must!(is_old || is_callers, "P1: ON-{id} is bound to a process that is not its holder's");
        }
        held.process = process;
        if let Some((actor, until)) = &kept {
            let free = *actor == case.actor || until.has_come(&at) || case.overridden;
            must!(free, "P4: ON-{id} is kept for {actor}, and {} renewed it", case.actor);
        }
        must!(
            !unmet || case.overridden,
            "P4: ON-{id} was renewed after a lapse and depends on what is not done"
        );
        held.deadline = record.payload["deadline_in_ms"].as_i64().map(|ms| at.plus(ms));
        (held.ended, held.over, held.settled) = (None, false, false);
        (held.resting, held.last, held.asked, held.signed_ms) = (false, at, at, at.wall_ms);
        if held.is_for_work() {
            held.work.begin_again(&at);
        }
        self.kept = None;
        Ok(())
    }
}

pub(super) fn place_of(value: &Value) -> [Option<String>; 3] {
    ["worktree_id", "worktree", "branch"].map(|name| value[name].as_str().map(str::to_owned))
}

fn process_of(value: &Value) -> Option<Process> {
    serde_json::from_value(value.clone()).ok()
}
