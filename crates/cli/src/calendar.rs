//! Days as people name them, and when each begins in a time zone. Time zones are the system's or, where it has none, the
//! built-in ones.

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use onus_core::ids::shortened;
use onus_core::refusal::Refusal;
use onus_core::time::{Span, parse_rfc3339};
use onus_core::timesheet::{Calendar, Day};

/// The most days in one query: a hundred years.
const MAX_DAYS: usize = 36_600;

/// Which days. The last one is included.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Days {
    /// The first day: 2026-10-05, today, yesterday, monday, or a number of days back (7d)
    #[arg(long, value_name = "DAY")]
    pub(crate) since: Option<String>,
    /// The last day, included. Default: today
    #[arg(long, value_name = "DAY")]
    pub(crate) until: Option<String>,
    /// All days of this month: 2026-10
    #[arg(long, value_name = "MONTH", conflicts_with_all = ["since", "until"])]
    pub(crate) month: Option<String>,
    /// The time zone in which days begin, such as Europe/Berlin. Default: this system's
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
}

impl Days {
    /// Adds the default first day to the help of `--since`.
    pub(crate) fn starting(option: clap::Arg, default: &str) -> clap::Arg {
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        option.help(format!("{help}. Default: {default}"))
    }

    /// Yesterday and today, in the system's time zone.
    pub(crate) fn lately() -> Result<(Calendar, TimeZone), Refusal> {
        let days = Days { since: None, until: None, month: None, zone: None };
        Ok((days.calendar("yesterday")?, days.zone()?))
    }

    /// A month's days, and the name of the time zone they are in.
    pub(crate) fn month(month: &str, zone: Option<String>) -> Result<(Calendar, String), Refusal> {
        let days = Days { since: None, until: None, month: Some(month.to_owned()), zone };
        let zone = days.zone()?;
        Ok((days.calendar("today")?, zone.iana_name().unwrap_or("local").to_owned()))
    }

    /// The days that were asked for; `since` is the default first day.
    pub(crate) fn calendar(&self, since: &str) -> Result<Calendar, Refusal> {
        let zone = self.zone()?;
        let today = Timestamp::now().to_zoned(zone.clone()).date();
        let (first, last) = match &self.month {
            Some(month) => month_of(month)?,
            None => (
                day(self.since.as_deref().unwrap_or(since), today)?,
                self.until.as_ref().map_or(Ok(today), |until| day(until, today))?,
            ),
        };
        between(first, last, &zone)
    }

    pub(crate) fn zone(&self) -> Result<TimeZone, Refusal> {
        match &self.zone {
            None => Ok(TimeZone::system()),
            Some(name) => TimeZone::get(name).map_err(|_| {
                Refusal::usage(format!(
                    "'{}' is not a time zone: write it like Europe/Berlin",
                    shortened(name)
                ))
            }),
        }
    }
}

/// A moment as hours and minutes in a time zone.
pub(crate) fn clock(rfc3339: &str, zone: &TimeZone) -> String {
    let stamp = parse_rfc3339(rfc3339).and_then(|ms| Timestamp::from_millisecond(ms).ok());
    stamp.map_or(rfc3339.to_owned(), |stamp| stamp.to_zoned(zone.clone()).strftime("%H:%M").to_string())
}

/// The days from one to another, both included.
pub(crate) fn between(first: Date, last: Date, zone: &TimeZone) -> Result<Calendar, Refusal> {
    let beyond = || Refusal::usage("those days are too far away, or too many: ask for at most 100 years");
    let (mut days, mut date) = (Vec::new(), first);
    let start_of = |date: Date| -> Result<i64, Refusal> {
        Ok(date.to_zoned(zone.clone()).map_err(|_| beyond())?.timestamp().as_millisecond())
    };
    while date <= last {
        let week = date.iso_week_date();
        let week = format!("{}-W{:02}", week.year(), week.week());
        days.push(Day { start_ms: start_of(date)?, date: date.to_string(), week });
        if days.len() > MAX_DAYS {
            return Err(beyond());
        }
        date = date.tomorrow().map_err(|_| beyond())?;
    }
    let end_ms = start_of(date)?;
    // A day that a zone skipped, as Samoa did at the date line, begins when the next one does; it is left out.
    let starts: Vec<i64> = days.iter().map(|day| day.start_ms).skip(1).chain([end_ms]).collect();
    let mut next = starts.into_iter();
    days.retain(|day| next.next().is_some_and(|next_ms| day.start_ms < next_ms));
    Calendar::new(days, end_ms)
        .ok_or_else(|| Refusal::usage(format!("the first day, {first}, is after the last one, {last}")))
}

fn month_of(text: &str) -> Result<(Date, Date), Refusal> {
    let first: Option<Date> = format!("{text}-01").parse().ok().filter(|_| text.len() == 7);
    let first = first.ok_or_else(|| {
        Refusal::usage(format!("'{}' is not a month: write it like 2026-10", shortened(text)))
    })?;
    Ok((first, first.last_of_month()))
}

fn day(text: &str, today: Date) -> Result<Date, Refusal> {
    let bad = || {
        Refusal::usage(format!(
            "'{}' is not a day: write 2026-10-05, today, yesterday, monday, or a number of days back (7d)",
            shortened(text)
        ))
    };
    let back = |days: i64| today.checked_sub(days.days()).map_err(|_| bad());
    match text.to_lowercase().as_str() {
        "today" => Ok(today),
        "yesterday" => back(1),
        other => match (weekday(other), other.strip_suffix('d').and_then(|_| other.parse::<Span>().ok())) {
            // The last such day; today, if it is one.
            (Some(wanted), _) => back(i64::from(today.weekday().since(wanted))),
            (None, Some(span)) => back(span.ms / onus_core::time::DAY_MS),
            (None, None) => other.parse().map_err(|_| bad()),
        },
    }
}

/// The weekday of this full English name.
fn weekday(name: &str) -> Option<Weekday> {
    jiff::fmt::strtime::parse("%A", name).ok()?.weekday()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onus_core::time::HOUR_MS;

    fn lengths(zone: &str, first: &str, last: &str) -> Vec<(String, i64)> {
        let zone = TimeZone::get(zone).unwrap();
        let calendar = between(first.parse().unwrap(), last.parse().unwrap(), &zone).unwrap();
        let starts = calendar.days().iter().map(|day| day.start_ms).chain([calendar.end_ms()]);
        let ends: Vec<i64> = starts.skip(1).collect();
        let days = calendar.days().iter().zip(ends);
        days.map(|(day, end_ms)| (day.date.clone(), (end_ms - day.start_ms) / (HOUR_MS / 2))).collect()
    }

    /// In half hours.
    fn days(table: &[(&str, i64)]) -> Vec<(String, i64)> {
        table.iter().map(|(date, halves)| ((*date).to_owned(), *halves)).collect()
    }

    #[test]
    fn a_day_is_as_long_as_its_zone_makes_it() {
        assert_eq!(
            lengths("Europe/Berlin", "2026-03-28", "2026-03-30"),
            days(&[("2026-03-28", 48), ("2026-03-29", 46), ("2026-03-30", 48)])
        );
        assert_eq!(
            lengths("America/New_York", "2026-10-31", "2026-11-02"),
            days(&[("2026-10-31", 48), ("2026-11-01", 50), ("2026-11-02", 48)])
        );
        // Daylight saving of half an hour.
        assert_eq!(
            lengths("Australia/Lord_Howe", "2026-10-03", "2026-10-05"),
            days(&[("2026-10-03", 48), ("2026-10-04", 47), ("2026-10-05", 48)])
        );
        // The clock changes at midnight, so the day begins at one.
        assert_eq!(
            lengths("America/Havana", "2026-03-07", "2026-03-09"),
            days(&[("2026-03-07", 48), ("2026-03-08", 46), ("2026-03-09", 48)])
        );
        // No daylight saving, and an offset that is not whole hours.
        assert_eq!(lengths("Asia/Kathmandu", "2026-03-29", "2026-03-29"), days(&[("2026-03-29", 48)]));
        // A day that the zone skipped.
        assert_eq!(
            lengths("Pacific/Apia", "2011-12-29", "2011-12-31"),
            days(&[("2011-12-29", 48), ("2011-12-31", 48)])
        );
    }

    #[test]
    fn days_are_said_as_people_say_them() {
        let today: Date = "2026-10-07".parse().unwrap();
        for (text, date) in [
            ("2026-10-05", "2026-10-05"),
            ("today", "2026-10-07"),
            ("Yesterday", "2026-10-06"),
            ("monday", "2026-10-05"),
            ("wednesday", "2026-10-07"),
            ("thursday", "2026-10-01"),
            ("7d", "2026-09-30"),
        ] {
            assert_eq!(day(text, today).unwrap().to_string(), date, "{text}");
        }
        for bad in ["", "soon", "mon", "mondays", "monday 1", "7h", "2026-13-01", "-3d", "99999d"] {
            assert!(day(bad, today).is_err(), "{bad}");
        }
        for bad in ["2026", "2026-13", "2026-10-05", "október"] {
            assert!(month_of(bad).is_err(), "{bad}");
        }
        assert_eq!(month_of("2028-02").unwrap().1.to_string(), "2028-02-29");
        let utc = TimeZone::UTC;
        assert!(between(today, today.yesterday().unwrap(), &utc).is_err());
        assert!(between("1800-01-01".parse().unwrap(), today, &utc).is_err());
        // The first days of a year can belong to the last week of the year before.
        let first = "2027-01-01".parse().unwrap();
        assert_eq!(between(first, first, &utc).unwrap().days()[0].week, "2026-W53");
    }
}
