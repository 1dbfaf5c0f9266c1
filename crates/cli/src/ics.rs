//! Recorded work as an iCalendar file (RFC 5545): one event per stretch.

use std::collections::BTreeMap;

use onus_core::time::parse_rfc3339;
use onus_engine::SheetPart;

/// A part of a stretch, after corrections.
struct Event<'a> {
    part: &'a SheetPart,
    start_ms: i64,
    end_ms: i64,
}

/// What corrections leave of all parts, in order of their start. A correction removes the end of a stretch, or all of it.
fn net(parts: &[SheetPart]) -> Vec<Event<'_>> {
    let mut sessions: BTreeMap<(&str, &str), Vec<Event<'_>>> = BTreeMap::new();
    let span = |part: &SheetPart| {
        let start_ms = parse_rfc3339(&part.start).unwrap_or_default();
        #[allow(clippy::cast_possible_truncation, reason = "milliseconds of a human time fit")]
        let length_ms = (part.seconds.abs() * 1_000.0).round() as i64;
        (start_ms, start_ms + length_ms)
    };
    for part in parts.iter().filter(|part| part.seconds > 0.0) {
        let (start_ms, end_ms) = span(part);
        let events = sessions.entry((&part.session, &part.actor)).or_default();
        events.push(Event { part, start_ms, end_ms });
    }
    for part in parts.iter().filter(|part| part.seconds < 0.0) {
        let (from_ms, until_ms) = span(part);
        let events = sessions.entry((&part.session, &part.actor)).or_default();
        if let Some(event) =
            events.iter_mut().find(|event| event.start_ms <= from_ms && event.end_ms == until_ms)
        {
            event.end_ms = from_ms;
        }
    }
    let mut all: Vec<Event<'_>> = sessions.into_values().flatten().collect();
    all.retain(|event| event.start_ms < event.end_ms);
    all.sort_by_key(|event| event.start_ms);
    all
}

pub(crate) fn calendar(parts: &[SheetPart], title_of: impl Fn(&str) -> String) -> String {
    let mut lines =
        ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//onus//timesheet//EN"].map(str::to_owned).to_vec();
    for event in net(parts) {
        let part = event.part;
        let summary = format!("{} {} ({})", part.task, title_of(&part.task), part.actor);
        lines.push("BEGIN:VEVENT".to_owned());
        lines.push(format!("UID:{}-{}-{}", part.hash, part.version, event.start_ms));
        lines.push(format!("DTSTAMP:{}", stamp(event.start_ms)));
        lines.push(format!("DTSTART:{}", stamp(event.start_ms)));
        lines.push(format!("DTEND:{}", stamp(event.end_ms)));
        lines.push(format!("SUMMARY:{}", text(&summary)));
        lines.push("END:VEVENT".to_owned());
    }
    lines.push("END:VCALENDAR".to_owned());
    lines.iter().map(|line| folded(line)).collect()
}

/// `20261005T091200Z`.
fn stamp(ms: i64) -> String {
    let text = onus_core::time::rfc3339(ms);
    let seconds: String = text.chars().take(19).filter(|c| !matches!(c, '-' | ':')).collect();
    format!("{seconds}Z")
}

/// Escapes a text: commas, semicolons and backslashes have a meaning, and a line break ends the property.
fn text(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        match c {
            '\\' | ',' | ';' => plain.extend(['\\', c]),
            '\n' => plain.push_str("\\n"),
            c if c.is_control() => plain.push(' '),
            c => plain.push(c),
        }
    }
    plain
}

/// Folds a line: at most 75 bytes each, and continuation lines begin with a space.
fn folded(line: &str) -> String {
    let (mut folded, mut length) = (String::new(), 0);
    for c in line.chars() {
        if length + c.len_utf8() > 75 {
            folded.push_str("\r\n ");
            length = 1;
        }
        folded.push(c);
        length += c.len_utf8();
    }
    folded.push_str("\r\n");
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(session: &str, start: &str, seconds: f64) -> SheetPart {
        SheetPart {
            actor: "human:ada".to_owned(),
            task: "WS-1".to_owned(),
            session: session.to_owned(),
            day: "2026-10-05".to_owned(),
            start: format!("2026-10-05T{start}.000Z"),
            seconds,
            version: 3,
            hash: "abc".to_owned(),
        }
    }

    #[test]
    fn a_correction_shortens_or_removes_its_event() {
        let parts = [
            part("WS-1#1", "09:00:00", 3_600.0),
            part("WS-1#1", "11:00:00", 600.0),
            part("WS-1#1", "09:30:00", -1_800.0),
            part("WS-1#1", "11:00:00", -600.0),
        ];
        let text = calendar(&parts, |_| "a, b; c\nEND:VCALENDAR".to_owned());
        assert_eq!(text.matches("BEGIN:VEVENT").count(), 1);
        assert!(text.contains("DTSTART:20261005T090000Z\r\nDTEND:20261005T093000Z\r\n"), "{text}");
        assert!(text.contains("SUMMARY:WS-1 a\\, b\\; c\\nEND:VCALENDAR (human:ada)\r\n"), "{text}");
    }

    #[test]
    fn no_line_is_longer_than_75_bytes() {
        let text = calendar(&[part("WS-1#1", "09:00:00", 1.0)], |_| "zwölf 漢字 ".repeat(30));
        assert!(text.split("\r\n").all(|line| line.len() <= 75), "{text}");
    }
}
