//! Arguments that several commands share.

use clap::Args;

use onus_core::command::{Force, Schedule};
use onus_core::ids::TaskRef;
use onus_core::refusal::Refusal;
use onus_core::time::Span;

/// The task: its number, id, uid, or part of the uid. Without it, the one task that you hold.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// The task: 142, ON-142, its uid, or at least 4 characters of the uid's start or end.
    /// Without it: ONUS_TASK, or the one task that you hold
    #[arg(value_name = "ID", value_parser = parse::<TaskRef>)]
    pub(crate) task: Option<TaskRef>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Key {
    /// Idempotency key: the same request by the same actor under the same key is applied once
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ForceArgs {
    /// People only: override who holds the task, or a rule. Always with --reason, and recorded
    #[arg(long, requires = "reason")]
    pub(crate) force: bool,
    /// Why. Needed with --force
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// A decision or approval that allows the override
    #[arg(long, value_name = "URL", requires = "force")]
    pub(crate) link: Option<String>,
}

impl ForceArgs {
    pub(crate) fn force(&self) -> Option<Force> {
        force_of(self.force, self.reason.as_ref(), self.link.as_ref())
    }

    /// What was meant as the note of a verb: `-m`, else a reason that is not an override's.
    pub(crate) fn message(&self, message: Option<String>) -> Option<String> {
        message.or_else(|| self.reason.clone().filter(|_| !self.force))
    }
}

/// What every verb takes that only moves a task from one state to another.
#[derive(Args, Debug)]
pub(crate) struct MoveArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Why, or what the next one should know (- reads standard input)
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    #[command(flatten)]
    pub(crate) force: ForceArgs,
    #[command(flatten)]
    pub(crate) key: Key,
}

pub(crate) fn force_of(force: bool, reason: Option<&String>, link: Option<&String>) -> Option<Force> {
    force.then(|| Force { reason: reason.cloned().unwrap_or_default(), link: link.cloned() })
}

/// Parses what the domain parses, with the domain's own words when it cannot.
pub(crate) fn parse<T: std::str::FromStr<Err = Refusal>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|refusal: Refusal| refusal.message)
}

pub(crate) fn parse_ms(text: &str) -> Result<i64, String> {
    parse::<Span>(text).map(|span| span.ms)
}

/// A wall time, as people write one (RFC 3339, or a date), or how long from now.
pub(crate) fn parse_schedule(text: &str) -> Result<Schedule, String> {
    if let Ok(span) = text.parse::<Span>() {
        return Ok(Schedule::In { ms: span.ms });
    }
    let at = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let local: jiff::civil::DateTime = text.parse().ok()?;
        Some(local.to_zoned(jiff::tz::TimeZone::system()).ok()?.timestamp())
    });
    at.map(|at| Schedule::At { ms: at.as_millisecond() }).ok_or_else(|| {
        "write a time (2026-12-01T09:00:00Z), a local date (2026-12-01), or how long from now (2h)".to_owned()
    })
}

/// The most that is read from standard input.
const MAX_INPUT: u64 = 1 << 20;

/// A text as given, or from standard input if it is `-`.
pub(crate) fn text_or_stdin(text: String) -> Result<String, Refusal> {
    use std::io::Read as _;
    if text != "-" {
        return Ok(text);
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(MAX_INPUT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Refusal::usage(format!("standard input cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(Refusal::usage(format!("standard input has more than {MAX_INPUT} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| Refusal::usage("standard input is not UTF-8 text"))
}
