//! Leases: exclusive, bounded holds. The token keeps the work safe, the lease keeps it moving.
//!
//! A lease is *live* while its holder can be trusted to be working, otherwise *lapsed*:
//!
//! - a lease that is bound to a process lasts as long as the process, whatever the process is busy with. Only an observer
//!   known to share its machine, boot and pid namespace may call it dead; everyone else goes by the deadline
//!   ([`crate::sight`]). While the holder *rests*, because an agent's turn is over, the TTL counts as well;
//! - an agent's lease that is not bound lasts until its deadline, which every sign of life moves;
//! - a person's lease has no deadline. It is marked stale after a while, but no timer ever takes it;
//! - no lease outlives its maximum hold, and no process-bound lease outlives its boot. The boot counts as another one
//!   only if it began after the lease's last sign of life;
//! - where a server's clock decides, the holders are on many machines, so the deadline limits every lease, bound to a
//!   process or not. An observer that sees the process die may only shorten it, and only if the machine is known to be
//!   unique: clones of one running machine cannot be told apart.
//!
//! Lapsing is computed, not recorded: the first write that needs the event writes it.

use serde::{Deserialize, Serialize};

use crate::actor::{self, ActorName, InstanceId, Tier};
use crate::constraint::Constraints;
use crate::ids::{Token, Uid, Version};
use crate::rescue::Rescue;
use crate::scope::WorktreeId;
use crate::sight::Mark;
use crate::stretch::{Sign, Work, Worked};
use crate::task::{State, words};
use crate::time::{ClockDomain, Moment};

/// Identifies a process even after its pid is reused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    #[serde(default, skip_serializing_if = "Mark::is_unknown")]
    pub machine: Mark,
    #[serde(default, skip_serializing_if = "Mark::is_unknown")]
    pub boot: Mark,
    #[serde(default, skip_serializing_if = "Mark::is_unknown")]
    pub pid_ns: Mark,
    /// Readers in another time namespace see another start time.
    #[serde(default, skip_serializing_if = "Mark::is_unknown")]
    pub time_ns: Mark,
    pub pid: u32,
    /// When it started, in the kernel's clock ticks since boot.
    pub start: u64,
    /// The project vouches that no clone of its machine runs elsewhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unique: bool,
}

/// What an observer can say about a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    Alive,
    Dead,
    /// It belonged to an earlier boot of this machine. `uptime_ms`: how long ago the current boot began.
    EarlierBoot {
        uptime_ms: i64,
    },
    /// On another machine, hidden, or undecidable. Unseen is not dead.
    #[default]
    Unseen,
}

words! {
    /// Whether a lease's paths are its holder's alone, or shared with other leases that share them too.
    #[derive(Default)]
    Mode("mode") {
        #[default]
        Exclusive = "exclusive",
        Shared = "shared",
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

impl EndKind {
    /// The state of the task once its lease has ended like this.
    pub(crate) fn leads_to(self) -> State {
        match self {
            EndKind::Done => State::Done,
            EndKind::Submitted => State::Review,
            EndKind::Failed => State::Failed,
            EndKind::Blocked => State::Blocked,
            EndKind::Dropped => State::Dropped,
            EndKind::Released
            | EndKind::HandedOff
            | EndKind::Lapsed
            | EndKind::TakenOver
            | EndKind::Revoked
            | EndKind::Reset => State::Open,
        }
    }
}

/// The terms of a lease, fixed when it is granted: the assignment record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub tier: Tier,
    /// The tick at which it was granted; the wall time is the event's.
    pub tick_ms: i64,
    pub domain: ClockDomain,
    /// How long the lease lives without a sign of life. None: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<i64>,
    /// How long the lease may be held in all. None: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_hold_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// The worktree's identity, which survives a move. `worktree` is its path, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_id: Option<WorktreeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    pub mode: Mode,
    /// What the holder may not do: what the task forbade when the lease was granted, and what the claim added.
    #[serde(default, skip_serializing_if = "Constraints::is_empty")]
    pub constraints: Constraints,
    /// Held, but work has not started.
    pub reserve: bool,
    /// The event whose reason says why it was handed to this holder, or taken over by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff_version: Option<Version>,
}

impl Grant {
    /// When the lease lapses if no sign of life follows. For observers that cannot see the process it is bound to, only
    /// the maximum hold ends it, unless the clock is a server's.
    pub fn deadline(&self, acquired: &Moment) -> Option<Moment> {
        let ttl_ms = self.ttl_ms.filter(|_| self.goes_by_its_ttl(acquired));
        match (ttl_ms, self.max_hold_ms) {
            (Some(ttl_ms), Some(hold_ms)) => Some(acquired.plus(ttl_ms.min(hold_ms))),
            (limit_ms, None) | (None, limit_ms) => limit_ms.map(|ms| acquired.plus(ms)),
        }
    }

    /// Whether signs of life move its deadline. Otherwise it lives as long as its process.
    pub fn goes_by_its_ttl(&self, now: &Moment) -> bool {
        self.process.is_none() || now.domain.is_server()
    }
}

/// A live lease's signs of life. They are not history: they are written without an event, and a rebuild carries them over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulse {
    pub last: Moment,
    /// The last progress: a note, a touched file, output. Being alive is not progress.
    pub progress: Moment,
    pub renewals: u64,
    /// When the lease lapses without another sign of life. None: it never lapses by itself.
    pub deadline: Option<Moment>,
    /// The holder's turn is over: until it continues, the deadline counts although its process lives.
    pub resting: bool,
    /// Work that is in no event yet.
    pub work: Work,
}

impl Pulse {
    /// What remains of an ended lease's signs of life: their number, and the wall time of the last.
    pub fn of_ended(end: &LeaseEnd) -> Pulse {
        let last = Moment::new(end.last_sign_ms, 0, ClockDomain::from_stored(String::new()));
        Pulse {
            progress: last.clone(),
            last,
            renewals: end.renewals,
            deadline: None,
            resting: false,
            work: Work::default(),
        }
    }
}

/// What the event that ends a lease says about it. Like any event, it also carries the stretches that were not recorded yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseEnd {
    pub renewals: u64,
    /// Wall time of the last sign of life.
    pub last_sign_ms: i64,
    /// The sum of all its stretches.
    pub active_ms: i64,
}

/// How and when a lease ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub how: EndKind,
    pub at_ms: i64,
    pub version: Version,
    pub end: LeaseEnd,
}

words! {
    /// What a lease holds.
    Holding("kind of hold") {
        Task = "task",
        Seat = "seat",
    }
}

/// One holder's lease on one task, or on one seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub holds: Holding,
    /// The task's uid, or the seat's.
    pub task: Uid,
    pub token: Token,
    pub actor: ActorName,
    pub instance: InstanceId,
    pub grant: Grant,
    pub acquired_at_ms: i64,
    /// The event that granted it; its reason is the lease's.
    pub version: Version,
    /// The stretches that events have recorded.
    pub worked: Worked,
    pub pulse: Pulse,
    pub ended: Option<Ended>,
    /// When the review of the work that was submitted with its end was over.
    pub reviewed_at_ms: Option<i64>,
    /// What became of the files that its holder left uncommitted, if it was lost to another.
    pub rescue: Option<Rescue>,
}

/// Whether a lease that has not ended still holds its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    Live,
    Lapsed(LapseCause),
}

impl Lease {
    pub fn acquired(&self) -> Moment {
        Moment::new(self.acquired_at_ms, self.grant.tick_ms, self.grant.domain.clone())
    }

    pub fn is_of_a_task(&self) -> bool {
        self.holds == Holding::Task
    }

    /// Its identity among all leases.
    pub fn key(&self) -> (Uid, Token) {
        (self.task, self.token)
    }

    /// The holder, worded for a sentence.
    pub fn holder(&self) -> String {
        actor::spoken(self.actor.as_str(), self.instance.as_str())
    }

    pub fn is_held_by(&self, actor: &ActorName, instance: &InstanceId) -> bool {
        self.actor == *actor && self.instance == *instance
    }

    /// What the holder may not do now: the constraints of the grant, tightened by those of the task as it is now.
    pub fn constraints_now(&self, task: &Constraints) -> Constraints {
        self.grant.constraints.meet(task)
    }

    fn hold_limit(&self) -> Option<Moment> {
        self.grant.max_hold_ms.map(|ms| self.acquired().plus(ms))
    }

    /// Applies the rule of the module comment. `seen` is what this observer can say about the process that the lease is
    /// bound to.
    pub fn liveness(&self, now: &Moment, seen: Seen) -> Liveness {
        if self.hold_limit().is_some_and(|limit| limit.has_come(now)) {
            return Liveness::Lapsed(LapseCause::MaxHold);
        }
        if let Some(process) = &self.grant.process {
            let is_believed = process.unique || !now.domain.is_server();
            match seen {
                Seen::Dead if is_believed => return Liveness::Lapsed(LapseCause::ProcessDied),
                // A holder that gave a sign of life since this boot began runs in another kernel, whatever it calls its machine.
                Seen::EarlierBoot { uptime_ms }
                    if is_believed && uptime_ms < now.since_ms(&self.pulse.last) =>
                {
                    return Liveness::Lapsed(LapseCause::Rebooted);
                }
                Seen::Alive if !self.pulse.resting && !now.domain.is_server() => return Liveness::Live,
                Seen::Alive | Seen::Dead | Seen::EarlierBoot { .. } | Seen::Unseen => {}
            }
        }
        match &self.pulse.deadline {
            Some(deadline) if deadline.has_come(now) => Liveness::Lapsed(LapseCause::Ttl),
            _ => Liveness::Live,
        }
    }

    /// When the same rule makes it lapse by the clock alone, if no sign of life follows. In the past if it has lapsed.
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
            // A holder that continues depends on its process alone again.
            return self.hold_limit();
        }
        let old = self.pulse.deadline.clone()?;
        let Some(ttl_ms) = ttl_ms.or(self.grant.ttl_ms).filter(|_| self.grant.goes_by_its_ttl(now)) else {
            return Some(old);
        };
        Some(self.within_hold(now.plus(ttl_ms).later(old, now), now))
    }

    /// When it lapses if its holder, whose turn is over at `now`, does not continue. None: resting changes nothing, because
    /// the lease is bound to no process or has no TTL.
    pub fn resting_deadline(&self, now: &Moment) -> Option<Moment> {
        let ttl_ms = self.grant.ttl_ms.filter(|_| self.grant.process.is_some())?;
        Some(self.within_hold(now.plus(ttl_ms), now))
    }

    /// A deadline, but no later than the maximum hold allows.
    fn within_hold(&self, deadline: Moment, now: &Moment) -> Moment {
        match self.hold_limit() {
            Some(limit) => limit.earlier(deadline, now),
            None => deadline,
        }
    }

    /// All known work under it, recorded or not.
    pub fn worked_so_far(&self) -> Worked {
        self.worked.and(self.pulse.work.so_far())
    }

    /// Whether holding it counts as work. It does not while the task is only reserved, nor for a seat, which is held beside
    /// the work.
    pub fn measures_work(&self) -> bool {
        self.is_of_a_task() && !self.grant.reserve
    }

    /// Its work after a sign of life; unchanged if holding it is no work.
    pub fn work_after(&self, sign: Sign<'_>) -> Work {
        let work = self.pulse.work.clone();
        if self.measures_work() { work.after(&self.pulse.last, sign) } else { work }
    }

    /// Whether its holder is known to work on it.
    pub fn is_at_work(&self) -> bool {
        let work = &self.pulse.work;
        !self.measures_work() || work.open.is_some() && !work.is_asked()
    }

    /// What its end records, except for the work. For a holder, ending the lease is its last sign of life. For a lease that was
    /// swept already, what the sweep recorded still holds.
    pub fn end(&self, now: &Moment, by_holder: bool) -> LeaseEnd {
        if let (Some(ended), false) = (&self.ended, by_holder) {
            return ended.end.clone();
        }
        let until = if by_holder { now } else { &self.pulse.last };
        LeaseEnd {
            renewals: self.ended.as_ref().map_or(self.pulse.renewals, |ended| ended.end.renewals),
            last_sign_ms: until.wall_ms,
            active_ms: self.worked.active_ms,
        }
    }

    /// Whether the holder may still finish with the token: the lease has not ended, or only lapsed, and no reset has fenced it
    /// since.
    pub fn is_usable(&self, fenced: Token) -> bool {
        self.token > fenced && self.ended.as_ref().is_none_or(|ended| ended.how == EndKind::Lapsed)
    }

    /// Whether its holder lost it, given the task's highest token and the highest one that a reset fenced. An agent that
    /// ended the lease itself must still learn of a reset. A person is one instance for ever, so a reset does not fence people
    /// from tasks that they once finished.
    pub fn was_superseded(&self, highest: Token, fenced: Token) -> bool {
        match self.ended.as_ref().map(|ended| ended.how) {
            Some(EndKind::TakenOver | EndKind::Revoked | EndKind::Reset) => true,
            Some(EndKind::Lapsed) | None => self.token < highest || self.token <= fenced,
            Some(_) => self.token <= fenced && !self.actor.is_person(),
        }
    }

    /// Whether an agent's lease has made no progress for this long. People are not watched.
    pub fn is_stalled(&self, now: &Moment, stalled_after_ms: i64) -> bool {
        !self.actor.is_person() && now.since_ms(&self.pulse.progress) >= stalled_after_ms
    }

    /// Whether a person's lease had no sign of life for this long, so that it may have been forgotten.
    pub fn is_stale(&self, now: &Moment, stale_after_ms: i64) -> bool {
        self.actor.is_person() && now.since_ms(&self.pulse.last) >= stale_after_ms
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moment(tick_ms: i64, boot: &str) -> Moment {
        Moment::new(1_000_000 + tick_ms, tick_ms, ClockDomain::new("m", boot, "t"))
    }

    fn lease(ttl_ms: Option<i64>, max_hold_ms: Option<i64>, bound: bool) -> Lease {
        lease_at(moment(0, "b"), ttl_ms, max_hold_ms, bound)
    }

    /// A reading of a server's clock.
    fn on_server(tick_ms: i64) -> Moment {
        Moment::new(tick_ms, tick_ms, ClockDomain::new(crate::time::SERVER, "database", ""))
    }

    fn lease_at(now: Moment, ttl_ms: Option<i64>, max_hold_ms: Option<i64>, bound: bool) -> Lease {
        let process = bound.then(|| Process {
            machine: "m".into(),
            boot: "b".into(),
            pid_ns: "p".into(),
            time_ns: "t".into(),
            pid: 7,
            start: 9,
            unique: false,
        });
        let mut lease = Lease {
            holds: Holding::Task,
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
                worktree_id: None,
                branch: None,
                mode: Mode::Exclusive,
                constraints: Default::default(),
                reserve: false,
                handoff_version: None,
            },
            acquired_at_ms: now.wall_ms,
            version: Version(2),
            worked: Worked::default(),
            pulse: Pulse {
                last: now.clone(),
                progress: now.clone(),
                renewals: 0,
                deadline: None,
                resting: false,
                work: Work::default(),
            },
            ended: None,
            reviewed_at_ms: None,
            rescue: None,
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
        assert_eq!(bound.liveness(&moment(5_000, "b"), Seen::Alive), Liveness::Lapsed(LapseCause::MaxHold));
    }

    #[test]
    fn a_bound_lease_ends_with_its_boot_where_this_one_began_after_its_last_sign_of_life() {
        let mut bound = lease(Some(1_000), Some(90_000), true);
        bound.pulse.last = moment(10_000, "b");
        // 20 s later by the wall clock. This boot may have begun since, or it is a separate kernel beside the holder's.
        let now = Moment { tick_ms: 5, ..moment(30_000, "b2") };
        for (uptime_ms, liveness) in [
            (5, Liveness::Lapsed(LapseCause::Rebooted)),
            (19_999, Liveness::Lapsed(LapseCause::Rebooted)),
            (20_000, Liveness::Live),
            (900_000, Liveness::Live),
        ] {
            assert_eq!(bound.liveness(&now, Seen::EarlierBoot { uptime_ms }), liveness, "{uptime_ms}");
        }
        assert_eq!(bound.liveness(&now, Seen::Unseen), Liveness::Live, "it cannot be told");
    }

    #[test]
    fn on_a_server_a_death_counts_only_where_the_machine_is_vouched_for() {
        let mut bound = lease_at(on_server(0), Some(60_000), None, true);
        let (now, earlier) = (on_server(10_000), Seen::EarlierBoot { uptime_ms: 5 });
        // Clones of one running machine look like one machine.
        assert_eq!(bound.liveness(&now, Seen::Dead), Liveness::Live);
        assert_eq!(bound.liveness(&now, earlier), Liveness::Live);
        assert_eq!(bound.liveness(&on_server(60_000), Seen::Dead), Liveness::Lapsed(LapseCause::Ttl));
        bound.grant.process.as_mut().unwrap().unique = true;
        assert_eq!(bound.liveness(&now, Seen::Dead), Liveness::Lapsed(LapseCause::ProcessDied));
        assert_eq!(bound.liveness(&now, earlier), Liveness::Lapsed(LapseCause::Rebooted));
        assert_eq!(bound.liveness(&on_server(60_000), Seen::Alive), Liveness::Lapsed(LapseCause::Ttl));
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

    proptest! {
        #[test]
        fn on_a_server_the_deadline_binds_all_and_a_death_only_shortens_it(
            ttl in 1i64..100_000, hold in proptest::option::of(1i64..200_000), bound: bool, resting: bool, vouched: bool,
            signs in proptest::collection::vec(0i64..60_000, 0..5), asked in 0i64..500_000
        ) {
            let mut lease = lease_at(on_server(0), Some(ttl), hold, bound);
            if let Some(process) = &mut lease.grant.process {
                process.unique = vouched;
            }
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
            // The deadline is the same for every observer, whatever it sees.
            let deadline = lease.pulse.deadline.clone().unwrap().tick_ms;
            for seen in [Seen::Alive, Seen::Unseen] {
                let is_live = lease.liveness(&on_server(asked), seen) == Liveness::Live;
                prop_assert_eq!(is_live, asked < deadline, "{:?}", seen);
                let lapses = lease.lapses_at(&on_server(asked), seen).map(|at| at.tick_ms);
                prop_assert_eq!(lapses, Some(deadline));
            }
            let dead = lease.liveness(&on_server(asked), Seen::Dead) == Liveness::Live;
            prop_assert_eq!(dead, !(bound && vouched) && asked < deadline);
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
