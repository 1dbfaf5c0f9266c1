//! How hours are written.

use onus_core::time::{MINUTE_MS, Span};

/// `7:05:09`, or `41 s` below a minute. Time that a correction takes away has a minus sign.
pub(crate) fn clock(seconds: f64) -> String {
    let (sign, ms) = split(seconds);
    if ms < MINUTE_MS {
        return format!("{sign}{}", Span::from_ms(ms));
    }
    let s = ms / 1_000;
    format!("{sign}{}:{:02}:{:02}", s / 3_600, s / 60 % 60, s % 60)
}

/// `7 h 5 min`. Hours are not turned into days, which would be misread as working days.
pub(crate) fn spoken(seconds: f64) -> String {
    let (sign, ms) = split(seconds);
    let minutes = ms / MINUTE_MS;
    match minutes / 60 {
        hours if hours >= 24 => format!("{sign}{hours} h {} min", minutes % 60),
        _ => format!("{sign}{}", Span::from_ms(ms)),
    }
}

/// The sign, and the milliseconds without it.
fn split(seconds: f64) -> (&'static str, i64) {
    #[allow(clippy::cast_possible_truncation, reason = "milliseconds of a human time fit")]
    let ms = (seconds * 1_000.0).round() as i64;
    (if ms < 0 { "-" } else { "" }, ms.saturating_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_not_days() {
        for (seconds, on_a_clock, said) in [
            (0.0, "0 s", "0 s"),
            (0.022, "22 ms", "22 ms"),
            (59.999, "59 s", "59 s"),
            (3_661.0, "1:01:01", "1 h 1 min"),
            (100.0 * 3_600.0, "100:00:00", "100 h 0 min"),
            (-1_800.5, "-0:30:00", "-30 min"),
            (-0.5, "-500 ms", "-500 ms"),
        ] {
            assert_eq!((clock(seconds).as_str(), spoken(seconds).as_str()), (on_a_clock, said));
        }
    }
}
