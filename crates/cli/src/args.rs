//! Arguments that several commands share.

use std::io::Read;

use clap::Args;
use clap::builder::{PossibleValuesParser, StringValueParser, TypedValueParser};

use onus_core::command::{Force, Schedule};
use onus_core::ids::TaskRef;
use onus_core::refusal::Refusal;
use onus_core::task::Priority;
use onus_core::time::Span;

// A command's subcommands, of which none need be given. Their enum has the help; a doc comment here would replace it.
#[derive(Args, Debug)]
pub(crate) struct Optional<S: clap::Subcommand> {
    #[command(subcommand)]
    pub(crate) action: Option<S>,
}

/// The task: its number, id, uid, or part of the uid. Without it, the one task you hold.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// The task: 142, ON-142, its uid, the first or last 4 or more characters of the uid, or its id in another
    /// system (jira:WEB-7). Default: ONUS_TASK, or else the one task you hold
    #[arg(value_name = "ID", value_parser = parse::<TaskRef>)]
    pub(crate) task: Option<TaskRef>,
}

impl Target {
    /// The help of a command that has another default, for one task or several.
    pub(crate) fn by_default(id: clap::Arg, what: &str) -> clap::Arg {
        let help = id.get_help().map(ToString::to_string).unwrap_or_default();
        id.help(help.replace("ONUS_TASK, or else the one task you hold", what))
    }
}

/// One or several tasks.
#[derive(Args, Clone, Debug)]
pub(crate) struct Targets {
    /// The tasks: 142, ON-142, a uid, or the first or last 4 or more characters of one. Each is handled on its own: one
    /// refusal does not stop the others. Default: ONUS_TASK, or else the one task you hold
    #[arg(value_name = "ID", value_parser = parse::<TaskRef>)]
    pub(crate) tasks: Vec<TaskRef>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Key {
    /// Idempotency key: repeating a request with the same key applies it only once
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ForceArgs {
    /// People only: override the holder or a rule. Needs --reason; the override is recorded
    #[arg(long, requires = "reason")]
    pub(crate) force: bool,
    /// Why; required with --force
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

    /// The note for a verb: `-m`, or else `--reason`, unless that is the reason for an override.
    pub(crate) fn message(&self, message: Option<String>) -> Option<String> {
        message.or_else(|| self.reason.clone().filter(|_| !self.force))
    }
}

/// The arguments of every verb that only moves a task from one state to another.
#[derive(Args, Debug)]
pub(crate) struct MoveArgs {
    #[command(flatten)]
    pub(crate) targets: Targets,
    /// Why, or what others should know (- reads standard input)
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    #[command(flatten)]
    pub(crate) force: ForceArgs,
    #[command(flatten)]
    pub(crate) key: Key,
}

/// Parses one of the words of a table into the value beside it.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    words: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.iter().map(|(word, _)| *word)).try_map(|given| {
        let found = words.iter().find(|(word, _)| *word == given);
        found.map(|(_, value)| *value).ok_or("unknown word")
    })
}

/// Parses a number from the first to the last.
pub(crate) fn within<T>(first: T, last: T) -> impl TypedValueParser<Value = T>
where
    T: Copy + PartialOrd + std::str::FromStr + std::fmt::Display + Send + Sync + 'static,
{
    StringValueParser::new().try_map(move |given| {
        let number = given.parse::<T>().ok().filter(|number| (first..=last).contains(number));
        number.ok_or_else(|| format!("use {first} to {last}"))
    })
}

pub(crate) fn force_of(force: bool, reason: Option<&String>, link: Option<&String>) -> Option<Force> {
    force.then(|| Force { reason: reason.cloned().unwrap_or_default(), link: link.cloned() })
}

/// Parses a domain type; the error is the domain's own message.
pub(crate) fn parse<T: std::str::FromStr<Err = Refusal>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|refusal: Refusal| refusal.message)
}

/// A priority: P1, or 1.
pub(crate) fn parse_priority(text: &str) -> Result<Priority, String> {
    Priority::parse_spoken(text).map_err(|refusal| refusal.message)
}

pub(crate) fn parse_ms(text: &str) -> Result<i64, String> {
    parse::<Span>(text).map(|span| span.ms)
}

/// A wall time as people write it (RFC 3339, or a date), or a duration from now.
pub(crate) fn parse_schedule(text: &str) -> Result<Schedule, String> {
    if let Ok(span) = text.parse::<Span>() {
        return Ok(Schedule::In { ms: span.ms });
    }
    moment_ms(text).map(|ms| Schedule::At { ms }).ok_or_else(|| {
        "write a time (2026-12-01T09:00:00Z), a local date (2026-12-01), or a duration from now (2h)"
            .to_owned()
    })
}

/// A wall time with a zone (RFC 3339), or a local date and time.
pub(crate) fn moment_ms(text: &str) -> Option<i64> {
    let at = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let local: jiff::civil::DateTime = text.parse().ok()?;
        Some(local.to_zoned(jiff::tz::TimeZone::system()).ok()?.timestamp())
    });
    at.map(jiff::Timestamp::as_millisecond)
}

/// The most bytes that are read from standard input, or from a plan.
const MAX_INPUT: u64 = 1 << 20;

/// The text as given, or standard input if it is `-`.
pub(crate) fn text_or_stdin(text: String) -> Result<String, Refusal> {
    if text == "-" { bounded_text("standard input", std::io::stdin(), "") } else { Ok(text) }
}

/// All of an input as text. `name` is what a refusal calls it, `hint` what it suggests if the input is too long.
pub(crate) fn bounded_text(name: &str, input: impl Read, hint: &str) -> Result<String, Refusal> {
    let mut bytes = Vec::new();
    input
        .take(MAX_INPUT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Refusal::usage(format!("cannot read {name}: {error}")))?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(Refusal::usage(format!("{name} is longer than {MAX_INPUT} bytes{hint}")));
    }
    String::from_utf8(bytes).map_err(|_| Refusal::usage(format!("{name} is not UTF-8 text")))
}
