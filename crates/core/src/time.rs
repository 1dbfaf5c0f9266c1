//! Time as a value. Nothing here reads a clock.
//!
//! A [`Moment`] is one reading of the store's clock: a *tick* that decides, and the wall time that people read.
//! Ticks come from a clock that neither NTP nor `date` can step and that stops while the machine sleeps,
//! as the holders do; they can be compared only within one [`ClockDomain`]. A deadline from another domain
//! (an earlier boot, a copied store) is judged by wall time: nothing better exists. The wall clock may have been set back
//! meanwhile, so the later of the wall time and the latest time that the store has seen counts as now.
//!
//! It is not always known whether two domains are the same: a sandbox may hide the boot's id. Then a deadline has passed
//! only if it has by both clocks.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::shortened;
use crate::refusal::Refusal;
use crate::sight::{Mark, are_same};

/// Where ticks were read: `machine/boot/time namespace`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClockDomain(String);

/// The machine of a server's clock domain. No holder's process runs there.
pub const SERVER: &str = "postgres";

impl ClockDomain {
    /// Whether the clock is a server's, which no holder shares.
    pub fn is_server(&self) -> bool {
        self.part(0) == Some(SERVER)
    }

    pub fn new(machine: &str, boot: &str, time_ns: &str) -> ClockDomain {
        ClockDomain(format!("{machine}/{boot}/{time_ns}"))
    }

    pub fn from_stored(text: String) -> ClockDomain {
        ClockDomain(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn part(&self, index: usize) -> Option<&str> {
        self.0.split('/').nth(index).filter(|part| !part.is_empty())
    }

    pub fn machine(&self) -> Mark {
        self.part(0).map_or(Mark::UNKNOWN, Mark::from)
    }

    pub fn boot(&self) -> Mark {
        self.part(1).map_or(Mark::UNKNOWN, Mark::from)
    }

    pub fn time_ns(&self) -> Mark {
        self.part(2).map_or(Mark::UNKNOWN, Mark::from)
    }

    /// Whether ticks of both can be compared. None: unknown. A boot belongs to one kernel, whatever a container calls its
    /// machine, so the machine is not compared.
    fn same_clock(&self, other: &ClockDomain) -> Option<bool> {
        if self.is_server() || other.is_server() {
            return Some(self == other);
        }
        match [1, 2].map(|part| are_same(self.part(part), other.part(part))) {
            [Some(true), Some(true)] => Some(true),
            [Some(false), _] | [_, Some(false)] => Some(false),
            _ => None,
        }
    }
}

/// One reading of a monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    pub tick_ms: i64,
    pub domain: ClockDomain,
}

impl Tick {
    pub fn of(moment: &Moment) -> Tick {
        Tick { tick_ms: moment.tick_ms, domain: moment.domain.clone() }
    }

    /// Milliseconds from `earlier` to this reading. None: both are not known to come from one clock.
    pub fn since_ms(&self, earlier: &Tick) -> Option<i64> {
        let is_one = self.domain.same_clock(&earlier.domain) == Some(true);
        is_one.then(|| self.tick_ms.saturating_sub(earlier.tick_ms))
    }
}

/// One reading of the store's clock.
#[derive(Clone, Debug, Eq)]
pub struct Moment {
    pub wall_ms: i64,
    pub tick_ms: i64,
    pub domain: ClockDomain,
    /// The latest wall time that was known when the clock was read; never before `wall_ms`. It counts as the wall time
    /// wherever ticks cannot be compared, so that setting the wall clock back revives nothing.
    pub latest_ms: i64,
}

/// Ignores `latest_ms`, which a row does not keep.
impl PartialEq for Moment {
    fn eq(&self, other: &Moment) -> bool {
        (self.wall_ms, self.tick_ms, &self.domain) == (other.wall_ms, other.tick_ms, &other.domain)
    }
}

impl Moment {
    pub fn new(wall_ms: i64, tick_ms: i64, domain: ClockDomain) -> Moment {
        Moment { wall_ms, tick_ms, domain, latest_ms: wall_ms }
    }

    /// The same reading, given an earlier one. If both ticks come from one clock, they say how much time has passed, whatever
    /// was done to the wall clock.
    pub fn knowing(self, earlier: &Moment) -> Moment {
        let passed_ms = match self.domain.same_clock(&earlier.domain) {
            Some(true) => self.tick_ms.saturating_sub(earlier.tick_ms).max(0),
            Some(false) | None => 0,
        };
        let latest_ms = self.latest_ms.max(earlier.latest_ms.saturating_add(passed_ms));
        Moment { latest_ms, ..self }
    }

    pub fn plus(&self, ms: i64) -> Moment {
        Moment {
            wall_ms: self.wall_ms.saturating_add(ms),
            tick_ms: self.tick_ms.saturating_add(ms),
            domain: self.domain.clone(),
            latest_ms: self.latest_ms.saturating_add(ms),
        }
    }

    /// Milliseconds from `earlier` to this moment, which is now; negative if `earlier` is later. If it is unknown whether the
    /// ticks can be compared, the smaller of both clocks' answers.
    pub fn since_ms(&self, earlier: &Moment) -> i64 {
        let by_ticks_ms = self.tick_ms.saturating_sub(earlier.tick_ms);
        let by_wall_ms = self.latest_ms.saturating_sub(earlier.latest_ms);
        match self.domain.same_clock(&earlier.domain) {
            Some(true) => by_ticks_ms,
            Some(false) => by_wall_ms,
            None => by_ticks_ms.min(by_wall_ms),
        }
    }

    /// Whether ticks of both may be compared, or it is unknown.
    pub fn shares_clock_with(&self, other: &Moment) -> bool {
        self.domain.same_clock(&other.domain) != Some(false)
    }

    /// Milliseconds from now until this moment, a deadline; negative if it has come.
    pub fn left_ms(&self, now: &Moment) -> i64 {
        now.since_ms(self).saturating_neg()
    }

    /// Whether this moment, a deadline, has come.
    pub fn has_come(&self, now: &Moment) -> bool {
        now.since_ms(self) >= 0
    }

    /// The later of two deadlines, as seen from `now`.
    pub fn later(self, other: Moment, now: &Moment) -> Moment {
        if self.left_ms(now) >= other.left_ms(now) { self } else { other }
    }

    /// The earlier of two deadlines, as seen from `now`.
    pub fn earlier(self, other: Moment, now: &Moment) -> Moment {
        if self.left_ms(now) <= other.left_ms(now) { self } else { other }
    }
}

/// An RFC 3339 time in UTC with milliseconds, as every JSON document of onus shows it.
pub fn rfc3339(wall_ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(wall_ms) {
        Ok(stamp) => format!("{stamp:.3}"),
        Err(_) => format!("{wall_ms}ms"),
    }
}

/// The inverse of [`rfc3339`].
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(|stamp| stamp.as_millisecond())
}

pub const SECOND_MS: i64 = 1_000;
pub const MINUTE_MS: i64 = 60 * SECOND_MS;
pub const HOUR_MS: i64 = 60 * MINUTE_MS;
pub const DAY_MS: i64 = 24 * HOUR_MS;

/// The longest duration that is accepted: nothing sensible is longer, and sums cannot overflow.
pub const MAX_DURATION_MS: i64 = 366 * DAY_MS;

/// A length of time as people write it: `90s`, `15m`, `2h`, `1d`, `500ms`, `1h30m`, or `0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub ms: i64,
}

impl Span {
    pub const fn from_ms(ms: i64) -> Span {
        Span { ms }
    }
}

impl std::str::FromStr for Span {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let bad = |why: &str| {
            Refusal::usage(format!(
                "'{}' is not a duration: {why}. Write it like 90s, 15m, 2h or 1h30m",
                shortened(text)
            ))
        };
        if text == "0" {
            return Ok(Span { ms: 0 });
        }
        if text.is_empty() {
            return Err(bad("it is empty"));
        }
        if text.starts_with('-') {
            return Err(bad("it is negative"));
        }
        let mut rest = text;
        let mut total_ms: i64 = 0;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                return Err(bad("a number is missing"));
            }
            let (count, tail) = rest.split_at(digits);
            let unit_len = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (unit, tail) = tail.split_at(unit_len);
            let unit_ms = match unit {
                "ms" => 1,
                "s" => SECOND_MS,
                "m" => MINUTE_MS,
                "h" => HOUR_MS,
                "d" => DAY_MS,
                "" => return Err(bad("its unit is missing")),
                _ => return Err(bad("its unit is unknown")),
            };
            total_ms = count
                .parse::<i64>()
                .ok()
                .and_then(|n| n.checked_mul(unit_ms))
                .and_then(|ms| total_ms.checked_add(ms))
                .filter(|ms| *ms <= MAX_DURATION_MS)
                .ok_or_else(|| bad("it is longer than 366 days"))?;
            rest = tail;
        }
        Ok(Span { ms: total_ms })
    }
}

impl fmt::Display for Span {
    /// As people say it, in at most two units, rounded down: `2 h 5 min`, `41 s`, `22 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s")];
        let ms = self.ms.max(0);
        let Some(first) = units.iter().position(|(unit, _)| ms >= *unit) else {
            return if ms == 0 { f.write_str("0 s") } else { write!(f, "{ms} ms") };
        };
        let (unit_ms, name) = units[first];
        write!(f, "{} {name}", ms / unit_ms)?;
        if let Some((next_ms, name)) = units.get(first + 1)
            && ms % unit_ms / next_ms > 0
        {
            write!(f, " {} {name}", ms % unit_ms / next_ms)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tick_ms: i64, wall_ms: i64, boot: &str) -> Moment {
        Moment::new(wall_ms, tick_ms, ClockDomain::new("m", boot, "t"))
    }

    #[test]
    fn a_wall_clock_step_moves_no_deadline_of_the_same_boot() {
        let deadline = at(1_000, 50_000, "b");
        assert!(!deadline.has_come(&at(999, 50_000 + 2 * HOUR_MS, "b")));
        assert!(deadline.has_come(&at(1_000, 50_000 - 2 * HOUR_MS, "b")));
    }

    #[test]
    fn a_deadline_of_another_boot_is_judged_by_the_wall() {
        let deadline = at(1_000_000, 50_000, "b");
        assert!(deadline.has_come(&at(5, 50_000, "later")));
        assert!(!deadline.has_come(&at(2_000_000, 49_999, "later")));
    }

    #[test]
    fn a_container_of_the_same_boot_goes_by_the_same_ticks() {
        let deadline = at(1_000, 50_000, "b");
        let mut inside = at(999, 50_000 + 2 * HOUR_MS, "b");
        inside.domain = ClockDomain::new("another machine id", "b", "t");
        assert!(!deadline.has_come(&inside));
        inside.domain = ClockDomain::new("m", "b", "another time namespace");
        assert!(deadline.has_come(&inside), "ticks of another time namespace mean nothing");
    }

    #[test]
    fn a_deadline_whose_clock_cannot_be_told_has_come_only_by_both_clocks() {
        let deadline = at(1_000, 50_000, "b");
        for hidden in [ClockDomain::new("m", "", "t"), ClockDomain::new("m", "b", "")] {
            let by = |tick_ms, wall_ms| deadline.has_come(&Moment::new(wall_ms, tick_ms, hidden.clone()));
            assert!(!by(999, 50_000 + 2 * HOUR_MS), "the wall was stepped, or the boot is another");
            assert!(!by(1_000, 49_999));
            assert!(by(1_000, 50_000));
        }
        let nowhere = ClockDomain::new("m", "", "");
        let deadline = Moment { domain: nowhere.clone(), ..deadline };
        assert!(!deadline.has_come(&Moment::new(49_000, 2_000, nowhere)), "unknown is not the same");
    }

    #[test]
    fn a_wall_clock_set_back_across_a_boot_revives_nothing_that_was_seen_to_lapse() {
        let (granted, deadline) = (at(1_000, 50_000, "b"), at(2_000, 51_000, "b"));
        // The wall clock was set back within the boot, but by ticks the deadline came.
        let seen = at(2_500, 10_000, "b").knowing(&granted);
        assert!(deadline.has_come(&seen) && seen.latest_ms == 51_500);
        let after_boot = at(5, 10_100, "later");
        assert!(!deadline.has_come(&after_boot), "by the wall alone it would live again");
        assert!(deadline.has_come(&after_boot.clone().knowing(&seen)));
        // People read the wall clock as it is.
        assert_eq!(after_boot.clone().knowing(&seen).wall_ms, after_boot.wall_ms);
        assert_eq!(after_boot.clone().knowing(&seen), after_boot, "the same reading of the clock");
    }

    #[test]
    fn durations_are_read_and_bad_ones_refused() {
        for (text, ms) in [("90s", 90_000), ("15m", 900_000), ("1h30m", 5_400_000), ("0", 0), ("250ms", 250)]
        {
            assert_eq!(text.parse::<Span>().map(|s| s.ms), Ok(ms), "{text}");
        }
        for bad in ["", "-5m", "5", "m", "5x", "1.5h", "99999999999999999999h", "9999999d", "5 m", "１m"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_are_shown_with_two_units_at_most() {
        for (ms, text) in
            [(0, "0 s"), (41_000, "41 s"), (7_500_000, "2 h 5 min"), (90_061_000, "1 d 1 h"), (5, "5 ms")]
        {
            assert_eq!(Span::from_ms(ms).to_string(), text);
        }
    }

    #[test]
    fn times_survive_a_round_trip() {
        assert_eq!(rfc3339(1_763_239_394_007), "2025-11-15T20:43:14.007Z");
        assert_eq!(parse_rfc3339("2025-11-15T20:43:14.007Z"), Some(1_763_239_394_007));
    }
}
