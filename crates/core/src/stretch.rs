//! Stretches: how signs of life become hours. Every reported hour is a sum of stretches and of nothing else (P7).
//!
//! A [`Stretch`] is a contiguous span of work under one lease: its start by the wall clock, and its length by a monotonic
//! clock, in milliseconds that are never rounded. Nobody enters stretches; they follow from what the holder does:
//!
//! | what happens | what becomes of the stretch |
//! | --- | --- |
//! | a claim, a start, a turn's start, any sign of life while none is open | one opens, now |
//! | a sign of life within a turn | the time since the last sign is added, however long |
//! | a sign of life outside of turns, at most `sessions.idle` after the last | the time since the last sign is added |
//! | a sign of life outside of turns, later than that | it ended at the last sign; a new one opens, now |
//! | a turn's start | it ended at the last sign, if the turn before was never reported over; a new one opens, now |
//! | a turn's end, the lease's end by its holder | the time since the last sign is added, and it ends |
//! | a lapse, or an end by another | it ended at the last sign of life |
//! | the task is only reserved | none opens |
//! | a person is asked whether a tool may be used | the time since the last sign is added, and it ends: from now on the holder waits |
//! | a sign of life after that | the wait is counted as waiting; a new stretch opens, now, or when the tool began to run if the harness reports that |
//!
//! So people's hours are underestimated: what they do between two commands counts only if the commands are close. An agent
//! inside a build of 40 minutes works, if its harness reports turns; otherwise the agent is measured as people are.
//!
//! **Waiting for a person is not work.** From a permission prompt to the next sign of life the holder waits. That time is
//! measured by the same clock and counted separately; it has no place on the calendar. If anybody but the holder ends the lease
//! meanwhile, the length of the wait is unknown, and nothing is counted.
//!
//! **Two clocks.** The wall clock places a stretch, a monotonic clock measures it. On SQLite one reading has both. No holder
//! works on the server, so there the holder's own clock measures, and two signs from clocks that cannot be compared go by the
//! server's. Time asleep is not counted: the holder's clock stops. If the wall clock jumps (sleep, a step of the clock), the
//! stretch ends at the last sign, and what was measured since is placed right before now. So stretches of one lease overlap only
//! where the wall clock was set back, and lie within its hold as people's clocks showed it, to within [`SLACK_MS`].
//!
//! A closed stretch waits in the lease's row; the next event of that lease records it, at the latest the one that ends the
//! lease. There is no event per turn. At most [`MAX_WAITING`] wait: then the two with the shortest pause between them are joined,
//! and their lengths added. No work is lost by that, only the pause.

use serde::{Deserialize, Serialize};

use crate::actor::ActorName;
use crate::ids::{Token, Uid, Version};
use crate::time::{Moment, SECOND_MS, Tick};

/// How far the wall clock may drift from the measuring clock before a stretch is split: more than clocks are slewed in any
/// gap, less than anybody would call a break.
pub const SLACK_MS: i64 = 5 * SECOND_MS;

/// How many closed stretches wait in a lease's row.
pub const MAX_WAITING: usize = 32;

/// A contiguous span of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Wall time.
    pub start_ms: i64,
    pub active_ms: i64,
}

impl Stretch {
    pub fn end_ms(&self) -> i64 {
        self.start_ms.saturating_add(self.active_ms)
    }
}

/// The longest row that a recorded stretch gets in a store. Longer stretches get several rows. So every row that overlaps a
/// window began in it, or at most this long before it, and an index by start finds it.
pub const MAX_ROW_MS: i64 = crate::time::DAY_MS;

/// A recorded stretch, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub task: Uid,
    pub token: Token,
    /// The event that recorded it.
    pub version: Version,
    /// Its position among the rows of that event.
    pub place: u64,
    /// Whose work it is. None: the lease's holder.
    pub actor: Option<ActorName>,
    pub start_ms: i64,
    /// Negative: a correction took this much away, from `start_ms` on.
    pub active_ms: i64,
}

impl Recorded {
    pub fn end_ms(&self) -> i64 {
        self.start_ms.saturating_add(self.active_ms.saturating_abs())
    }
}

/// Cuts a stretch into consecutive pieces of at most [`MAX_ROW_MS`].
pub fn pieces(stretch: Stretch) -> impl Iterator<Item = Stretch> {
    let whole = (stretch.active_ms.max(1) - 1) / MAX_ROW_MS;
    (0..=whole).map(move |at| {
        let before_ms = at * MAX_ROW_MS;
        Stretch {
            start_ms: stretch.start_ms.saturating_add(before_ms),
            active_ms: (stretch.active_ms - before_ms).min(MAX_ROW_MS),
        }
    })
}

/// A sum of stretches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    pub active_ms: i64,
    pub stretches: u64,
    /// How long the holder waited for a person besides that.
    pub waited_ms: i64,
}

impl Worked {
    pub fn of(stretches: &[Stretch]) -> Worked {
        Worked {
            active_ms: stretches.iter().fold(0, |sum, stretch| stretch.active_ms.saturating_add(sum)),
            stretches: stretches.len() as u64,
            waited_ms: 0,
        }
    }

    /// Adds time that was spent waiting for a person.
    pub fn waited(self, waited_ms: i64) -> Worked {
        Worked { waited_ms: self.waited_ms.saturating_add(waited_ms), ..self }
    }

    pub fn and(self, more: Worked) -> Worked {
        Worked {
            active_ms: self.active_ms.saturating_add(more.active_ms),
            stretches: self.stretches.saturating_add(more.stretches),
            waited_ms: self.waited_ms.saturating_add(more.waited_ms),
        }
    }
}

/// A sign of life of a holder, as the rule sees it.
#[derive(Clone, Copy, Debug)]
pub struct Sign<'a> {
    /// The time by the store's clock.
    pub now: &'a Moment,
    /// The time by the holder's own clock. None: the store's clock is the holder's.
    pub own: Option<&'a Tick>,
    /// Within a turn that the holder's harness reported.
    pub in_turn: bool,
    /// The longest silence outside of turns that counts as work.
    pub idle_ms: i64,
}

impl Sign<'_> {
    fn tick(&self) -> Tick {
        self.own.cloned().unwrap_or_else(|| Tick::of(self.now))
    }
}

/// What was going on at the last sign of life: a stretch, or the wait for a person's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    #[serde(flatten)]
    pub stretch: Stretch,
    /// The reading of the holder's own clock at the last sign.
    pub own: Tick,
    /// A person was asked, and has not answered yet: this is not work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked: bool,
}

/// Work of a live lease that no event has recorded yet. It is not history: it is a part of the lease's signs of life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    pub open: Option<Open>,
    /// Closed stretches, in order, that wait for an event.
    pub waiting: Vec<Stretch>,
    /// How long the holder waited for a person.
    pub waited_ms: i64,
}

impl Work {
    /// Work that begins now.
    pub fn begun(now: &Moment, own: Option<&Tick>) -> Work {
        let own = own.cloned().unwrap_or_else(|| Tick::of(now));
        Work {
            open: Some(Open { stretch: Stretch { start_ms: now.wall_ms, active_ms: 0 }, own, asked: false }),
            ..Work::default()
        }
    }

    /// The sum of it so far.
    pub fn so_far(&self) -> Worked {
        let open: Vec<Stretch> =
            self.open.iter().map(|open| open.stretch).filter(|stretch| stretch.active_ms > 0).collect();
        Worked::of(&self.waiting).and(Worked::of(&open)).waited(self.waited_ms)
    }

    /// Whether a person was asked, and has not answered yet.
    pub fn is_asked(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.asked)
    }

    /// The work after a sign of life. `last`: the sign before it.
    pub fn after(self, last: &Moment, sign: Sign<'_>) -> Work {
        self.after_tool(last, sign, 0)
    }

    /// The work after a sign of life that reports how long a tool ran before it, and so when a person's answer came.
    pub fn after_tool(mut self, last: &Moment, sign: Sign<'_>, ran_ms: i64) -> Work {
        let own = sign.tick();
        let Some(open) = self.open.take() else { return self.reopened(sign) };
        let (gap_ms, is_one_clock) = match own.since_ms(&open.own) {
            Some(gap_ms) => (gap_ms, true),
            None => (sign.now.since_ms(last), sign.now.shares_clock_with(last)),
        };
        let gap_ms = gap_ms.max(0);
        if open.asked {
            let ran_ms = ran_ms.clamp(0, gap_ms);
            self.waited_ms = self.waited_ms.saturating_add(gap_ms - ran_ms);
            let mut work = self.reopened(sign);
            let ran = Stretch { start_ms: sign.now.wall_ms.saturating_sub(ran_ms), active_ms: ran_ms };
            work.open.iter_mut().for_each(|open| open.stretch = ran);
            return work;
        }
        // No turn outlives its machine's boot.
        let counts = gap_ms <= sign.idle_ms || sign.in_turn && is_one_clock;
        if !counts {
            self.keep(open.stretch);
            return self.reopened(sign);
        }
        let from_ms = sign.now.wall_ms.saturating_sub(gap_ms);
        let stretch = if (from_ms.saturating_sub(open.stretch.end_ms())).abs() <= SLACK_MS {
            Stretch { active_ms: open.stretch.active_ms.saturating_add(gap_ms), ..open.stretch }
        } else {
            // The wall clock jumped.
            self.keep(open.stretch);
            Stretch { start_ms: from_ms, active_ms: gap_ms }
        };
        Work { open: Some(Open { stretch, own, asked: false }), ..self }
    }

    /// The work after a turn's start. `last`: the sign before it. A new turn also answers a pending question.
    pub fn in_new_turn(self, last: &Moment, sign: Sign<'_>) -> Work {
        let before = if self.is_asked() { self.after(last, sign) } else { self };
        before.closed().reopened(sign)
    }

    /// The work after a person was asked, now, whether a tool may be used.
    pub fn asking(self, last: &Moment, sign: Sign<'_>) -> Work {
        let mut work = self.after(last, sign).closed().reopened(sign);
        work.open.iter_mut().for_each(|open| open.asked = true);
        work
    }

    /// Closes the open stretch at the last sign of life.
    pub fn closed(mut self) -> Work {
        if let Some(open) = self.open.take() {
            self.keep(open.stretch);
        }
        self
    }

    /// Opens a new stretch now; the closed ones stay.
    fn reopened(self, sign: Sign<'_>) -> Work {
        Work { open: Work::begun(sign.now, Some(&sign.tick())).open, ..self }
    }

    /// Keeps a closed stretch, unless it has no length.
    fn keep(&mut self, stretch: Stretch) {
        if stretch.active_ms == 0 {
            return;
        }
        self.waiting.push(stretch);
        if self.waiting.len() > MAX_WAITING {
            let pause_ms = |pair: &[Stretch]| pair[1].start_ms.saturating_sub(pair[0].end_ms());
            let shortest = self.waiting.windows(2).enumerate().min_by_key(|(_, pair)| pause_ms(pair));
            if let Some(at) = shortest.map(|(at, _)| at) {
                let later = self.waiting.remove(at + 1);
                let active_ms = self.waiting[at].active_ms.saturating_add(later.active_ms);
                self.waiting[at].active_ms = active_ms;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::{ClockDomain, HOUR_MS, MINUTE_MS, SERVER};

    const IDLE_MS: i64 = 30 * MINUTE_MS;

    fn at(tick_ms: i64) -> Moment {
        Moment::new(1_000_000_000 + tick_ms, tick_ms, ClockDomain::new("m", "b", "t"))
    }

    fn sign(now: &Moment, in_turn: bool) -> Sign<'_> {
        Sign { now, own: None, in_turn, idle_ms: IDLE_MS }
    }

    fn stretches(work: Work) -> Vec<(i64, i64)> {
        work.closed().waiting.iter().map(|stretch| (stretch.start_ms, stretch.active_ms)).collect()
    }

    #[test]
    fn gaps_up_to_idle_count_whole_and_longer_ones_not_at_all() {
        let begun = || Work::begun(&at(0), None);
        for (gap_ms, active_ms) in [(1, 1), (IDLE_MS, IDLE_MS), (IDLE_MS + 1, 0), (16 * HOUR_MS, 0)] {
            assert_eq!(
                begun().after(&at(0), sign(&at(gap_ms), false)).so_far().active_ms,
                active_ms,
                "{gap_ms}"
            );
            assert_eq!(begun().after(&at(0), sign(&at(gap_ms), true)).so_far().active_ms, gap_ms, "{gap_ms}");
        }
    }

    #[test]
    fn a_turn_that_was_never_reported_over_ended_at_its_last_sign() {
        let (begun, sign_at, next) = (at(0), at(MINUTE_MS), at(9 * HOUR_MS));
        let work = Work::begun(&begun, None)
            .after(&begun, sign(&sign_at, true))
            .in_new_turn(&sign_at, sign(&next, true));
        assert_eq!(
            work.open.as_ref().map(|open| open.stretch),
            Some(Stretch { start_ms: next.wall_ms, active_ms: 0 })
        );
        assert_eq!(stretches(work), [(begun.wall_ms, MINUTE_MS)]);
    }

    #[test]
    fn sleep_and_steps_of_the_wall_split_a_stretch_and_add_nothing() {
        let begun = at(0);
        for step_ms in [2 * HOUR_MS, -2 * HOUR_MS, SLACK_MS + 1, -SLACK_MS - 1] {
            let now = Moment::new(at(600).wall_ms + step_ms, 600, begun.domain.clone());
            let work = Work::begun(&begun, None)
                .after(&begun, sign(&at(400), true))
                .after(&at(400), sign(&now, true));
            assert_eq!(stretches(work), [(begun.wall_ms, 400), (now.wall_ms - 200, 200)], "{step_ms}");
        }
        let slewed = Moment::new(at(600).wall_ms + SLACK_MS, 600, begun.domain.clone());
        assert_eq!(
            stretches(Work::begun(&begun, None).after(&begun, sign(&slewed, true))),
            [(begun.wall_ms, 600)]
        );
    }

    #[test]
    fn on_a_server_the_holders_own_clock_measures_and_the_servers_places() {
        let server = |ms: i64| Moment::new(ms, ms, ClockDomain::new(SERVER, "database", ""));
        let own = |tick_ms: i64, boot: &str| Tick { tick_ms, domain: ClockDomain::new("laptop", boot, "t") };
        let signed = |now: &Moment, own: Tick, in_turn: bool| {
            let begun = Work::begun(
                &server(0),
                Some(&Tick { tick_ms: 70, domain: ClockDomain::new("laptop", "b", "t") }),
            );
            let sign = Sign { now, own: Some(&own), in_turn, idle_ms: IDLE_MS };
            stretches(begun.after(&server(0), sign))
        };
        // The laptop slept for one hour of this time.
        let later = server(HOUR_MS + MINUTE_MS);
        assert_eq!(signed(&later, own(70 + MINUTE_MS, "b"), false), [(HOUR_MS, MINUTE_MS)]);
        // Another machine, or an unknown one: by the server's clock.
        for boot in ["another", ""] {
            assert_eq!(signed(&later, own(99, boot), false), [], "{boot}");
            assert_eq!(signed(&later, own(99, boot), true), [(0, HOUR_MS + MINUTE_MS)], "{boot}");
            assert_eq!(signed(&server(MINUTE_MS), own(99, boot), false), [(0, MINUTE_MS)], "{boot}");
        }
    }

    #[test]
    fn no_turn_outlives_the_boot_of_its_machine() {
        let begun = at(0);
        for (away_ms, active_ms) in [(MINUTE_MS, MINUTE_MS), (HOUR_MS, 0)] {
            let later = Moment::new(begun.wall_ms + away_ms, 5_000, ClockDomain::new("m", "later", "t"));
            let work = Work::begun(&begun, None).after(&begun, sign(&later, true));
            assert_eq!(work.so_far().active_ms, active_ms, "{away_ms}");
        }
    }

    #[test]
    fn what_is_waited_for_a_person_is_no_work() {
        let (begun, asked, answered) = (at(0), at(MINUTE_MS), at(MINUTE_MS + 14 * HOUR_MS));
        let asking =
            || Work::begun(&begun, None).after(&begun, sign(&begun, true)).asking(&begun, sign(&asked, true));
        let after = asking().after(&asked, sign(&answered, true));
        assert_eq!(after.so_far(), Worked { active_ms: MINUTE_MS, stretches: 1, waited_ms: 14 * HOUR_MS });
        // The allowed tool ran for one hour of this time.
        let after = asking().after_tool(&asked, sign(&answered, true), HOUR_MS);
        assert_eq!(after.so_far().waited_ms, 13 * HOUR_MS);
        assert_eq!(stretches(after), [(begun.wall_ms, MINUTE_MS), (answered.wall_ms - HOUR_MS, HOUR_MS)]);
        // The next turn is an answer, too. If the lease lapses before an answer, the length of the wait is unknown.
        assert_eq!(asking().in_new_turn(&asked, sign(&answered, true)).so_far().waited_ms, 14 * HOUR_MS);
        assert_eq!(asking().closed().so_far().waited_ms, 0);
    }

    #[test]
    fn three_stretches_of_600_ms_add_up_to_1800() {
        let mut work = Work::default();
        for turn in 0..3 {
            let (begin, over) = (at(turn * HOUR_MS), at(turn * HOUR_MS + 600));
            work = work.in_new_turn(&begin, sign(&begin, true)).after(&begin, sign(&over, true)).closed();
        }
        assert_eq!(work.so_far(), Worked { active_ms: 1_800, stretches: 3, waited_ms: 0 });
    }

    /// What may happen to a lease.
    #[derive(Clone, Copy, Debug)]
    enum Deed {
        Sign,
        TurnBegins,
        TurnOver,
        Asks,
        /// A tool ran for a part of the time since the last sign, in tenths of it.
        ToolOver(i64),
    }

    proptest! {
        #[test]
        fn stretches_lie_in_order_within_the_hold_and_no_millisecond_is_lost_or_made_up(
            deeds in proptest::collection::vec(
                (0i64..2 * IDLE_MS, 0i64..4, proptest::sample::select(vec![
                    Deed::Sign, Deed::TurnBegins, Deed::TurnOver, Deed::Asks, Deed::ToolOver(3), Deed::ToolOver(20)
                ])),
                1..120
            ),
            bound: bool
        ) {
            let begun = at(0);
            let (mut now, mut last, mut in_turn) = (begun.clone(), begun.clone(), false);
            let mut work = Work::begun(&now, None);
            // The same hours, computed in a simpler way: which gaps count.
            let (mut counted_ms, mut waited_ms, mut is_open, mut is_asked) = (0, 0, true, false);
            for (gap_ms, asleep, deed) in deeds {
                now = now.plus(gap_ms);
                now.wall_ms += if bound { asleep * HOUR_MS } else { 0 };
                let counts = is_open && !is_asked && (in_turn || gap_ms <= IDLE_MS);
                // A tool ran in the last part of the gap.
                let ran_ms = match deed {
                    Deed::ToolOver(tenths) if is_asked => (gap_ms * tenths / 10).min(gap_ms),
                    _ => 0,
                };
                waited_ms += if is_asked { gap_ms - ran_ms } else { 0 };
                counted_ms += ran_ms;
                is_asked = matches!(deed, Deed::Asks);
                work = match deed {
                    Deed::TurnBegins => {
                        (in_turn, is_open) = (true, true);
                        work.in_new_turn(&last, sign(&now, in_turn))
                    }
                    Deed::Sign => {
                        counted_ms += if counts { gap_ms } else { 0 };
                        is_open = true;
                        work.after(&last, sign(&now, in_turn))
                    }
                    Deed::Asks => {
                        counted_ms += if counts { gap_ms } else { 0 };
                        is_open = true;
                        work.asking(&last, sign(&now, in_turn))
                    }
                    Deed::ToolOver(tenths) => {
                        counted_ms += if counts { gap_ms } else { 0 };
                        is_open = true;
                        work.after_tool(&last, sign(&now, in_turn), gap_ms * tenths / 10)
                    }
                    Deed::TurnOver => {
                        counted_ms += if counts { gap_ms } else { 0 };
                        let over = work.after(&last, sign(&now, in_turn)).closed();
                        (in_turn, is_open) = (false, false);
                        over
                    }
                };
                last = now.clone();
                prop_assert_eq!(work.so_far().active_ms, counted_ms);
                prop_assert_eq!(work.so_far().waited_ms, waited_ms);
                prop_assert_eq!(work.is_asked(), is_asked);
                prop_assert!(work.waiting.len() <= MAX_WAITING);
            }
            let all = work.closed().waiting;
            prop_assert!(all.iter().all(|stretch| stretch.active_ms > 0 && stretch.start_ms >= begun.wall_ms));
            prop_assert!(all.windows(2).all(|pair| pair[0].end_ms() <= pair[1].start_ms), "{:?}", all);
            prop_assert!(all.last().is_none_or(|stretch| stretch.end_ms() <= now.wall_ms));
        }

        #[test]
        fn whatever_is_done_to_the_wall_the_sum_is_the_same(
            gaps in proptest::collection::vec((1i64..IDLE_MS, -3 * HOUR_MS..3 * HOUR_MS), 1..60)
        ) {
            let (mut now, mut last) = (at(0), at(0));
            let mut work = Work::begun(&now, None);
            for (gap_ms, step_ms) in &gaps {
                now = now.plus(*gap_ms);
                now.wall_ms += step_ms;
                work = work.after(&last, sign(&now, false));
                last = now.clone();
            }
            prop_assert_eq!(work.so_far().active_ms, gaps.iter().map(|(gap_ms, _)| gap_ms).sum::<i64>());
        }
    }
}
