//! Hours on a calendar: stretches cut where a day ends, and how much wall time they cover.
//!
//! When a day begins depends on a time zone and is decided outside: a [`Calendar`] is the list of those moments. So a day of 23
//! or 25 hours is nothing special here.
//!
//! **Where a stretch lies.** It has a start by the wall clock and a length by a measuring clock, and no end. It counts from its
//! start on without a pause. So its parts always add up to its length, whatever the wall clock did meanwhile.

use std::collections::BTreeMap;

/// A day in somebody's time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    /// Its first moment, in wall time.
    pub start_ms: i64,
    /// `2026-10-05`.
    pub date: String,
    /// `2026-W41`.
    pub week: String,
}

/// Days without a gap, and the moment at which the last one ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    days: Vec<Day>,
    end_ms: i64,
}

/// The part of a stretch that lies within one day. Negative if the stretch is: a correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    pub day: &'a Day,
    pub start_ms: i64,
    pub active_ms: i64,
}

impl Part<'_> {
    fn end_ms(&self) -> i64 {
        self.start_ms.saturating_add(self.active_ms.saturating_abs())
    }
}

impl Calendar {
    /// None if there are no days, or they are not in order.
    pub fn new(days: Vec<Day>, end_ms: i64) -> Option<Calendar> {
        let starts = days.iter().map(|day| day.start_ms).chain([end_ms]);
        let is_in_order = starts.clone().zip(starts.skip(1)).all(|(one, next)| one < next);
        (is_in_order && !days.is_empty()).then_some(Calendar { days, end_ms })
    }

    pub fn start_ms(&self) -> i64 {
        self.days.first().map_or(self.end_ms, |day| day.start_ms)
    }

    pub fn end_ms(&self) -> i64 {
        self.end_ms
    }

    pub fn days(&self) -> &[Day] {
        &self.days
    }

    /// The parts of a stretch that lie on these days, day by day.
    pub fn parts(&self, start_ms: i64, active_ms: i64) -> impl Iterator<Item = Part<'_>> {
        let end_ms = start_ms.saturating_add(active_ms.saturating_abs());
        let first = self.days.partition_point(|day| day.start_ms <= start_ms).saturating_sub(1);
        let nexts = self.days.iter().skip(1).map(|day| day.start_ms).chain([self.end_ms]);
        let days = self.days.iter().zip(nexts).skip(first);
        days.take_while(move |(day, _)| day.start_ms < end_ms).filter_map(move |(day, next_ms)| {
            let (from_ms, until_ms) = (start_ms.max(day.start_ms), end_ms.min(next_ms));
            let length_ms = until_ms - from_ms;
            (length_ms > 0).then_some(Part {
                day,
                start_ms: from_ms,
                active_ms: length_ms * active_ms.signum(),
            })
        })
    }
}

/// Adds parts up in two ways. `summed_ms` counts simultaneous stretches twice: both were worked. `wall_ms` counts the wall time
/// in which there was at least one. What a correction took away is in neither.
///
/// Stretches come in the order of their starts. Only what lies after the last start is kept, so memory grows with the number of
/// simultaneous stretches alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    pub summed_ms: i64,
    wall_ms: i64,
    /// How many stretches there are at `at_ms`, and by how many that changes later.
    at_ms: i64,
    running: i64,
    changes: BTreeMap<i64, i64>,
}

impl Covered {
    /// Adds a part of a stretch. All parts that follow belong to stretches that began at `begun_ms` or later.
    pub fn add(&mut self, part: &Part<'_>, begun_ms: i64) {
        self.summed_ms = self.summed_ms.saturating_add(part.active_ms);
        self.sweep(begun_ms);
        *self.changes.entry(part.start_ms).or_default() += part.active_ms.signum();
        *self.changes.entry(part.end_ms()).or_default() -= part.active_ms.signum();
    }

    /// Counts everything before a moment.
    fn sweep(&mut self, until_ms: i64) {
        while let Some(next) = self.changes.first_entry().filter(|next| *next.key() <= until_ms) {
            let (at_ms, change) = next.remove_entry();
            self.step(at_ms);
            self.running += change;
        }
        self.step(until_ms);
    }

    fn step(&mut self, to_ms: i64) {
        if self.running > 0 {
            self.wall_ms += to_ms - self.at_ms;
        }
        self.at_ms = to_ms;
    }

    pub fn wall_ms(&self) -> i64 {
        let mut all = self.clone();
        if let Some(last_ms) = all.changes.last_key_value().map(|(at_ms, _)| *at_ms) {
            all.sweep(last_ms);
        }
        all.wall_ms
    }
}

/// The distribution of durations, in memory that does not grow with their number: each falls into a class that is at most 1 %
/// wide, and a percentile is the upper end of its class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    classes: BTreeMap<u64, u64>,
    count: u64,
    most_ms: u64,
}

/// The number of leading binary digits that a class distinguishes.
const DIGITS: u32 = 8;

impl Durations {
    pub fn add(&mut self, ms: i64) {
        let ms = u64::try_from(ms).unwrap_or_default();
        let dropped = (u64::BITS - ms.leading_zeros()).saturating_sub(DIGITS);
        *self.classes.entry(ms | ((1 << dropped) - 1)).or_default() += 1;
        self.count += 1;
        self.most_ms = self.most_ms.max(ms);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The duration that this many of a hundred do not exceed, at most 1 % too high. None: there are no durations.
    pub fn percentile(&self, percent: u64) -> Option<i64> {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let class = self.classes.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        class.map(|(ms, _)| i64::try_from((*ms).min(self.most_ms)).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::{DAY_MS, HOUR_MS};

    /// Days of these lengths, in hours.
    fn calendar(start_ms: i64, hours: &[i64]) -> Calendar {
        let mut at_ms = start_ms;
        let days = hours.iter().enumerate().map(|(number, hours)| {
            let day = Day { start_ms: at_ms, date: format!("day {number}"), week: String::new() };
            at_ms += hours * HOUR_MS;
            day
        });
        let days = days.collect();
        Calendar::new(days, at_ms).unwrap()
    }

    fn part(day: &Day, start_ms: i64, active_ms: i64) -> Part<'_> {
        Part { day, start_ms, active_ms }
    }

    #[test]
    fn a_stretch_is_cut_where_days_end_and_where_the_calendar_does() {
        let calendar = calendar(0, &[24, 23, 25]);
        let parts = |start_ms, active_ms| -> Vec<(String, i64)> {
            calendar.parts(start_ms, active_ms).map(|part| (part.day.date.clone(), part.active_ms)).collect()
        };
        let of = |number: usize, ms: i64| (format!("day {number}"), ms);
        assert_eq!(parts(23 * HOUR_MS, 2 * HOUR_MS), [of(0, HOUR_MS), of(1, HOUR_MS)]);
        assert_eq!(
            parts(23 * HOUR_MS, 26 * HOUR_MS),
            [of(0, HOUR_MS), of(1, 23 * HOUR_MS), of(2, 2 * HOUR_MS)]
        );
        assert_eq!(parts(23 * HOUR_MS, -2 * HOUR_MS), [of(0, -HOUR_MS), of(1, -HOUR_MS)]);
        assert_eq!(parts(-HOUR_MS, 2 * HOUR_MS), [of(0, HOUR_MS)]);
        assert_eq!(parts(71 * HOUR_MS, 9 * HOUR_MS), [of(2, HOUR_MS)]);
        assert_eq!(parts(24 * HOUR_MS, HOUR_MS), [of(1, HOUR_MS)]);
        assert_eq!(parts(72 * HOUR_MS, HOUR_MS), []);
        assert_eq!(parts(-HOUR_MS, HOUR_MS), []);
    }

    #[test]
    fn two_at_once_are_both_counted_but_the_wall_only_once() {
        let calendar = calendar(0, &[24]);
        let day = &calendar.days()[0];
        let mut covered = Covered::default();
        for (start_ms, active_ms) in [(0, 100), (50, 100), (60, 10), (300, 50)] {
            covered.add(&part(day, start_ms, active_ms), start_ms);
        }
        assert_eq!((covered.summed_ms, covered.wall_ms()), (260, 200));
        // A correction takes half of the last one away.
        covered.add(&part(day, 325, -25), 325);
        assert_eq!((covered.summed_ms, covered.wall_ms()), (235, 175));
    }

    #[test]
    fn percentiles_are_within_one_percent() {
        let mut durations = Durations::default();
        assert_eq!(durations.percentile(50), None);
        for ms in 1..=10_000 {
            durations.add(ms * 1_000);
        }
        for percent in [50, 85, 95, 100] {
            let (said, exact) = (durations.percentile(percent).unwrap(), percent as i64 * 100_000);
            assert!(said >= exact && said <= exact + exact / 100, "{percent}: {said}");
        }
    }

    proptest! {
        #[test]
        fn the_parts_add_up_to_what_lies_on_the_days(
            hours in proptest::collection::vec(23i64..=25, 1..40),
            stretches in proptest::collection::vec((-3 * DAY_MS..40 * DAY_MS, 1..3 * DAY_MS), 1..60),
        ) {
            let calendar = calendar(0, &hours);
            let mut stretches = stretches;
            stretches.sort_unstable();
            let mut covered = Covered::default();
            let mut expected_ms = 0;
            for (start_ms, active_ms) in &stretches {
                let parts: Vec<Part<'_>> = calendar.parts(*start_ms, *active_ms).collect();
                let within_ms = (start_ms + active_ms).min(calendar.end_ms()) - (*start_ms).max(0);
                prop_assert_eq!(parts.iter().map(|part| part.active_ms).sum::<i64>(), within_ms.max(0));
                prop_assert!(parts.windows(2).all(|pair| pair[0].end_ms() == pair[1].start_ms));
                // The same for a correction that takes it away.
                let taken = calendar.parts(*start_ms, -*active_ms).map(|part| part.active_ms);
                prop_assert!(taken.eq(parts.iter().map(|part| -part.active_ms)));
                expected_ms += within_ms.max(0);
                parts.iter().for_each(|part| covered.add(part, *start_ms));
            }
            prop_assert_eq!(covered.summed_ms, expected_ms);
            // Computed in a simpler way: edges in a list.
            let mut edges: Vec<i64> = Vec::new();
            let clipped: Vec<(i64, i64)> = stretches
                .iter()
                .map(|(start, length)| ((*start).max(0), (start + length).min(calendar.end_ms())))
                .filter(|(from, until)| from < until)
                .collect();
            edges.extend(clipped.iter().flat_map(|(from, until)| [*from, *until]));
            edges.sort_unstable();
            edges.dedup();
            let wall_ms: i64 = edges
                .windows(2)
                .filter(|edge| clipped.iter().any(|(from, until)| *from <= edge[0] && edge[1] <= *until))
                .map(|edge| edge[1] - edge[0])
                .sum();
            prop_assert_eq!(covered.wall_ms(), wall_ms);
        }
    }
}
