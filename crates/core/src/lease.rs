//! Leases: exclusive, bounded holds. The token keeps the work safe, the lease keeps it moving.
//!
//! A lease is *live* while its holder can be trusted to be working, else *lapsed*:
//!
//! - bound to a process, it lives as long as the process, whatever that is busy with; only an observer that
//!   shares boot and pid namespace may call the process dead, everybody else goes by the deadline. While its holder
//!   *rests*, because an agent's turn is over, the TTL counts all the same;
//! - not bound, an agent's lease lives until its deadline, which every sign of life moves;
//! - a person's lease has no deadline. It is marked stale after a while, and never taken by a timer;
//! - no lease outlives its maximum hold, and no process-bound lease outlives its boot;
//! - where a server's clock decides, its holders are on many machines: there the deadline binds all, bound to a process or
//!   not. Whoever sees the process die may only shorten it.
//!
//! Lapsing is computed, not recorded: the event is written by the first write that needs it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::actor::{ActorName, InstanceId, Tier};
use crate::ids::{Token, Uid, Version, shortened};
use crate::refusal::Refusal;
use crate::task::words;
use crate::time::{ClockDomain, Moment, SECOND_MS};

/// Which process, beyond any reuse of its pid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    pub machine: String,
    pub boot: String,
    pub pid_ns: String,
    /// Readers in another time namespace see another start time.
    pub time_ns: String,
    pub pid: u32,
    /// When it started, in the kernel's clock ticks since boot.
    pub start: u64,
}

/// What an observer can say about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Alive,
    Dead,
    /// Another boot or pid namespace, or hidden: unseen is not dead.
    Unseen,
}

words! {
    /// Whether a lease's paths are its holder's alone, or shared with others that share them too.
    Mode("mode") {
        Exclusive = "exclusive",
        Shared = "shared",
    }
}

impl Mode {
    pub(crate) fn exclusive() -> Mode {
        Mode::Exclusive
    }

    pub fn is_exclusive(&self) -> bool {
        *self == Mode::Exclusive
    }
}

words! {
    /// Why a lease lapsed.
    LapseCause("cause of a lapse") {
        ProcessDied = "process_died",
        Rebooted = "rebooted",
        Ttl = "ttl",
        MaxHold = "max_hold",
    }
}

words! {
    /// How a lease ended. Each is its own kind of event.
    EndKind("end of a lease") {
        Released = "released",
        Done = "done",
        Submitted = "submitted",
        Failed = "failed",
        Blocked = "blocked",
        Dropped = "dropped",
        HandedOff = "handed_off",
        Lapsed = "lapsed",
        TakenOver = "taken_over",
        Revoked = "revoked",
        Reset = "reset",
    }
}

/// The terms of a lease, fixed when it is granted: the assignment record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub tier: Tier,
    /// The tick at which it was granted; the wall time is the event's.
    pub tick_ms: i64,
    pub domain: ClockDomain,
    /// How long it lives without a sign of life. None: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<i64>,
    /// How long it may be held at all. None: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_hold_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    pub mode: Mode,
    /// Held, but work has not started.
    pub reserve: bool,
    /// The event whose reason says why it was handed to this holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff_version: Option<Version>,
}

impl Grant {
    /// When the lease lapses if no sign of life follows. Bound to a process, nothing but the maximum hold
    /// ends it for those who cannot see the process, unless the clock is a server's.
    pub fn deadline(&self, acquired: &Moment) -> Option<Moment> {
        let ttl_ms = self.ttl_ms.filter(|_| self.goes_by_its_ttl(acquired));
        match (ttl_ms, self.max_hold_ms) {
            (Some(ttl_ms), Some(hold_ms)) => Some(acquired.plus(ttl_ms.min(hold_ms))),
            (limit_ms, None) | (None, limit_ms) => limit_ms.map(|ms| acquired.plus(ms)),
        }
    }
}

impl Grant {
    /// Whether its deadline follows from signs of life, and not from a process alone.
    pub fn goes_by_its_ttl(&self, now: &Moment) -> bool {
        self.process.is_none() || now.domain.is_server()
    }
}

/// A live lease's signs of life. Not history: written without an event, carried over by a rebuild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulse {
    pub last: Moment,
    /// The last time that something came of it: a note, a file touched, output. Being alive is not getting on.
    pub progress: Moment,
    pub renewals: u64,
    /// When it lapses without another sign of life. None: never by itself.
    pub deadline: Option<Moment>,
    /// The holder's turn is over: until it goes on, the deadline counts although its process lives.
    pub resting: bool,
}

impl Pulse {
    /// What is kept of an ended lease's signs of life: how many, and the wall time of the last.
    pub fn of_ended(end: &LeaseEnd) -> Pulse {
        let last =
            Moment { wall_ms: end.last_sign_ms, tick_ms: 0, domain: ClockDomain::from_stored(String::new()) };
        Pulse { progress: last.clone(), last, renewals: end.renewals, deadline: None, resting: false }
    }
}

/// What the event that ends a lease carries, so that work sessions follow from the ledger alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseEnd {
    pub renewals: u64,
    /// Wall time of the last sign of life.
    pub last_sign_ms: i64,
    /// Seconds of work by the monotonic clock, gaps after a lapse left out.
    pub active_s: i64,
}

/// How and when a lease ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub how: EndKind,
    pub at_ms: i64,
    pub version: Version,
    pub end: LeaseEnd,
}

/// One holder's lease on one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub task: Uid,
    pub token: Token,
    pub actor: ActorName,
    pub instance: InstanceId,
    pub grant: Grant,
    pub acquired_at_ms: i64,
    /// The event that granted it; its reason is the lease's.
    pub version: Version,
    /// From when the current stretch of work counts, and the seconds before it.
    pub active_from: Moment,
    pub active_before_s: i64,
    pub pulse: Pulse,
    pub ended: Option<Ended>,
}

/// Whether a lease that has not ended still holds its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    Live,
    Lapsed(LapseCause),
}

impl Lease {
    pub fn acquired(&self) -> Moment {
        Moment {
            wall_ms: self.acquired_at_ms,
            tick_ms: self.grant.tick_ms,
            domain: self.grant.domain.clone(),
        }
    }

    pub fn is_held_by(&self, actor: &ActorName, instance: &InstanceId) -> bool {
        self.actor == *actor && self.instance == *instance
    }

    fn hold_limit(&self) -> Option<Moment> {
        self.grant.max_hold_ms.map(|ms| self.acquired().plus(ms))
    }

    /// The rule above. `seen` is what this observer can say about the process the lease is bound to.
    pub fn liveness(&self, now: &Moment, seen: Seen) -> Liveness {
        if self.hold_limit().is_some_and(|limit| limit.has_come(now)) {
            return Liveness::Lapsed(LapseCause::MaxHold);
        }
        if let Some(process) = &self.grant.process {
            let same_machine = process.machine == now.domain.machine();
            if same_machine && process.boot != now.domain.boot() {
                return Liveness::Lapsed(LapseCause::Rebooted);
            }
            match seen {
                Seen::Dead => return Liveness::Lapsed(LapseCause::ProcessDied),
                Seen::Alive if !self.pulse.resting && !now.domain.is_server() => return Liveness::Live,
                Seen::Alive | Seen::Unseen => {}
            }
        }
        match &self.pulse.deadline {
            Some(deadline) if deadline.has_come(now) => Liveness::Lapsed(LapseCause::Ttl),
            _ => Liveness::Live,
        }
    }

    /// When the same rule lapses it by the clock alone, if no sign of life follows; before `now` if it has.
    pub fn lapses_at(&self, now: &Moment, seen: Seen) -> Option<Moment> {
        let lives_with_its_process =
            !self.grant.goes_by_its_ttl(now) && seen == Seen::Alive && !self.pulse.resting;
        let deadline = self.pulse.deadline.clone().filter(|_| !lives_with_its_process);
        match (self.hold_limit(), deadline) {
            (Some(limit), Some(deadline)) => Some(limit.earlier(deadline, now)),
            (limit, deadline) => limit.or(deadline),
        }
    }

    /// Where a sign of life at `now` moves the deadline: never closer, never past the maximum hold.
    pub fn renewed_deadline(&self, now: &Moment, ttl_ms: Option<i64>) -> Option<Moment> {
        if self.pulse.resting && !self.grant.goes_by_its_ttl(now) {
            // Whoever goes on is bound to its process alone again.
            return self.hold_limit();
        }
        let old = self.pulse.deadline.clone()?;
        let Some(ttl_ms) = ttl_ms.or(self.grant.ttl_ms).filter(|_| self.grant.goes_by_its_ttl(now)) else {
            return Some(old);
        };
        let moved = now.plus(ttl_ms).later(old, now);
        Some(match self.hold_limit() {
            Some(limit) => limit.earlier(moved, now),
            None => moved,
        })
    }

    /// When it lapses if its holder, whose turn is over at `now`, does not go on. None: resting changes nothing, as the
    /// lease is bound to no process or has no TTL.
    pub fn resting_deadline(&self, now: &Moment) -> Option<Moment> {
        let ttl_ms = self.grant.ttl_ms.filter(|_| self.grant.process.is_some())?;
        let deadline = now.plus(ttl_ms);
        Some(match self.hold_limit() {
            Some(limit) => limit.earlier(deadline, now),
            None => deadline,
        })
    }

    /// What its end carries. A holder that ends it worked until now; one that lapsed, until its last sign of life.
    /// Of a lease that was swept already, the sweep knew as much as can be known.
    pub fn end(&self, now: &Moment, by_holder: bool) -> LeaseEnd {
        if let (Some(ended), false) = (&self.ended, by_holder) {
            return ended.end.clone();
        }
        let until = if by_holder { now } else { &self.pulse.last };
        let stretch_ms = until.since_ms(&self.active_from).max(0);
        LeaseEnd {
            renewals: self.ended.as_ref().map_or(self.pulse.renewals, |ended| ended.end.renewals),
            last_sign_ms: until.wall_ms,
            active_s: self.active_before_s + stretch_ms / SECOND_MS,
        }
    }

    /// Whether the token is still the holder's to finish with: not ended, or ended by nothing but a lapse, and not
    /// fenced by a reset since.
    pub fn is_usable(&self, fenced: Token) -> bool {
        self.token > fenced && self.ended.as_ref().is_none_or(|ended| ended.how == EndKind::Lapsed)
    }

    /// Whether its holder lost it, given the task's highest token and the highest one that a reset fenced. An agent
    /// that had ended it itself has to learn of a reset, too; a person is one instance for ever, and is not kept from what
    /// they once did.
    pub fn was_superseded(&self, highest: Token, fenced: Token) -> bool {
        match self.ended.as_ref().map(|ended| ended.how) {
            Some(EndKind::TakenOver | EndKind::Revoked | EndKind::Reset) => true,
            Some(EndKind::Lapsed) | None => self.token < highest || self.token <= fenced,
            Some(_) => self.token <= fenced && !self.actor.is_person(),
        }
    }

    /// Alive, but nothing has come of it for this long. People are not watched.
    pub fn is_stalled(&self, now: &Moment, stalled_after_ms: i64) -> bool {
        !self.actor.is_person() && now.since_ms(&self.pulse.progress) >= stalled_after_ms
    }

    /// A person's lease without a sign of life for this long may have been forgotten.
    pub fn is_stale(&self, now: &Moment, stale_after_ms: i64) -> bool {
        self.actor.is_person() && now.since_ms(&self.pulse.last) >= stale_after_ms
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moment(tick_ms: i64, boot: &str) -> Moment {
        Moment { wall_ms: 1_000_000 + tick_ms, tick_ms, domain: ClockDomain::new("m", boot, "t") }
    }

    fn lease(ttl_ms: Option<i64>, max_hold_ms: Option<i64>, bound: bool) -> Lease {
        lease_at(moment(0, "b"), ttl_ms, max_hold_ms, bound)
    }

    /// A reading of a server's clock.
    fn on_server(tick_ms: i64) -> Moment {
        Moment { wall_ms: tick_ms, tick_ms, domain: ClockDomain::new(crate::time::SERVER, "database", "") }
    }

    fn lease_at(now: Moment, ttl_ms: Option<i64>, max_hold_ms: Option<i64>, bound: bool) -> Lease {
        let process = bound.then(|| Process {
            machine: "m".into(),
            boot: "b".into(),
            pid_ns: "p".into(),
            time_ns: "t".into(),
            pid: 7,
            start: 9,
        });
        let mut lease = Lease {
            task: Uid(uuid::Uuid::nil()),
            token: Token(1),
            actor: "agent:a".parse().unwrap(),
            instance: "i".parse().unwrap(),
            grant: Grant {
                tier: Tier(1),
                tick_ms: 0,
                domain: now.domain.clone(),
                ttl_ms,
                max_hold_ms,
                process,
                worktree: None,
                branch: None,
                mode: Mode::Exclusive,
                reserve: false,
                handoff_version: None,
            },
            acquired_at_ms: now.wall_ms,
            version: Version(2),
            active_from: now.clone(),
            active_before_s: 0,
            pulse: Pulse {
                last: now.clone(),
                progress: now.clone(),
                renewals: 0,
                deadline: None,
                resting: false,
            },
            ended: None,
        };
        lease.pulse.deadline = lease.grant.deadline(&now);
        lease
    }

    #[test]
    fn a_bound_lease_outlives_any_silent_hour_and_dies_with_its_process() {
        let lease = lease(Some(1_000), None, true);
        let later = moment(90_000_000, "b");
        assert_eq!(lease.liveness(&later, Seen::Alive), Liveness::Live);
        assert_eq!(lease.liveness(&later, Seen::Unseen), Liveness::Live);
        assert_eq!(lease.liveness(&moment(1, "b"), Seen::Dead), Liveness::Lapsed(LapseCause::ProcessDied));
    }

    #[test]
    fn a_bound_lease_does_not_outlive_its_boot_or_its_maximum_hold() {
        let bound = lease(None, Some(5_000), true);
        assert_eq!(bound.liveness(&moment(1, "b2"), Seen::Alive), Liveness::Lapsed(LapseCause::Rebooted));
        assert_eq!(bound.liveness(&moment(5_000, "b"), Seen::Alive), Liveness::Lapsed(LapseCause::MaxHold));
    }

    #[test]
    fn a_bound_lease_is_judged_by_its_deadline_where_its_process_cannot_be_seen() {
        let mut bound = lease(Some(1_000), None, true);
        bound.pulse.deadline = Some(moment(1_000, "b"));
        assert_eq!(bound.liveness(&moment(999, "b"), Seen::Unseen), Liveness::Live);
        assert_eq!(bound.liveness(&moment(1_000, "b"), Seen::Unseen), Liveness::Lapsed(LapseCause::Ttl));
    }

    #[test]
    fn a_lease_without_a_deadline_never_lapses_by_itself() {
        let person = lease(None, None, false);
        assert_eq!(person.liveness(&moment(i64::MAX / 2, "b"), Seen::Unseen), Liveness::Live);
        assert_eq!(person.liveness(&moment(5, "other boot"), Seen::Unseen), Liveness::Live);
    }

    #[test]
    fn work_after_the_last_sign_of_life_counts_only_for_a_holder_that_came_back() {
        let mut lease = lease(Some(60_000), None, false);
        lease.pulse.last = moment(10_000, "b");
        assert_eq!(lease.end(&moment(90_000, "b"), false).active_s, 10);
        assert_eq!(lease.end(&moment(90_000, "b"), true).active_s, 90);
    }

    proptest! {
        #[test]
        fn on_a_server_the_deadline_binds_all_and_a_death_only_shortens_it(
            ttl in 1i64..100_000, hold in proptest::option::of(1i64..200_000), bound: bool, resting: bool,
            signs in proptest::collection::vec(0i64..60_000, 0..5), asked in 0i64..500_000
        ) {
            let mut lease = lease_at(on_server(0), Some(ttl), hold, bound);
            let mut at = 0;
            for sign in signs {
                at += sign;
                if lease.liveness(&on_server(at), Seen::Unseen) == Liveness::Live {
                    let old = lease.pulse.deadline.clone().unwrap();
                    lease.pulse.deadline = lease.renewed_deadline(&on_server(at), None);
                    lease.pulse.resting = resting;
                    let new = lease.pulse.deadline.clone().unwrap();
                    prop_assert_eq!(new.tick_ms, (at + ttl).max(old.tick_ms).min(hold.unwrap_or(i64::MAX)));
                }
            }
            // Whoever asks, and whatever it sees: the deadline is one for all.
            let deadline = lease.pulse.deadline.clone().unwrap().tick_ms;
            for seen in [Seen::Alive, Seen::Unseen] {
                let is_live = lease.liveness(&on_server(asked), seen) == Liveness::Live;
                prop_assert_eq!(is_live, asked < deadline, "{:?}", seen);
                let lapses = lease.lapses_at(&on_server(asked), seen).map(|at| at.tick_ms);
                prop_assert_eq!(lapses, Some(deadline));
            }
            let dead = lease.liveness(&on_server(asked), Seen::Dead) == Liveness::Live;
            prop_assert_eq!(dead, !bound && asked < deadline);
        }

        #[test]
        fn a_lease_lives_until_the_moment_when_it_is_said_to_lapse(
            ttl in proptest::option::of(1i64..100_000), hold in proptest::option::of(1i64..200_000),
            bound: bool, alive: bool, resting: bool, renewed in 0i64..300_000, asked in 0i64..300_000
        ) {
            let mut lease = lease(ttl, hold, bound);
            let seen = if alive { Seen::Alive } else { Seen::Unseen };
            if bound && renewed % 2 == 0 {
                lease.pulse.deadline = Some(moment(renewed, "b"));
            }
            lease.pulse.resting = bound && resting;
            let lapsed = |tick_ms| lease.liveness(&moment(tick_ms, "b"), seen) != Liveness::Live;
            match lease.lapses_at(&moment(asked, "b"), seen) {
                Some(at) => prop_assert!(!lapsed(at.tick_ms - 1) && lapsed(at.tick_ms)),
                None => prop_assert!(!lapsed(i64::MAX / 2)),
            }
        }

        #[test]
        fn who_rests_lapses_after_its_ttl_and_who_goes_on_lives_with_its_process(
            ttl in 1i64..100_000, hold in proptest::option::of(1i64..200_000), at in 0i64..150_000
        ) {
            let mut lease = lease(Some(ttl), hold, true);
            let now = moment(at, "b");
            let deadline = lease.resting_deadline(&now).unwrap();
            prop_assert_eq!(deadline.tick_ms, (at + ttl).min(hold.unwrap_or(i64::MAX)));
            lease.pulse.deadline = Some(deadline.clone());
            lease.pulse.resting = true;
            prop_assert!(lease.liveness(&deadline, Seen::Alive) != Liveness::Live);
            lease.pulse.deadline = lease.renewed_deadline(&now, None);
            lease.pulse.resting = false;
            let limit = hold.unwrap_or(i64::MAX / 4);
            prop_assert_eq!(lease.liveness(&moment(limit - 1, "b"), Seen::Alive), Liveness::Live);
            prop_assert_eq!(lease.pulse.deadline.map(|deadline| deadline.tick_ms), hold);
        }

        #[test]
        fn a_sign_of_life_never_moves_a_deadline_closer_nor_past_the_maximum_hold(
            ttl in 1i64..100_000, hold in 1i64..200_000, at in 0i64..150_000, new_ttl in proptest::option::of(1i64..100_000)
        ) {
            let lease = lease(Some(ttl), Some(hold), false);
            let old = lease.pulse.deadline.clone().unwrap();
            let new = lease.renewed_deadline(&moment(at, "b"), new_ttl).unwrap();
            prop_assert!(new.tick_ms >= old.tick_ms);
            prop_assert!(new.tick_ms <= hold);
        }
    }
}
