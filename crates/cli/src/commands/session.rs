use clap::Subcommand;

use onus_core::actor::ActorName;
use onus_core::command::Act;
use onus_core::refusal::Refusal;
use onus_core::session::{Correction, Cost, SessionRef, Usage, UsageSource};

use crate::args::{Key, Target, moment_ms, parse};
use crate::context::Context;

/// Say what a work session used, or correct it
///
/// Nobody types hours: a correction only takes away from what was recorded, or says whose work it was.
#[derive(Subcommand, Debug)]
pub(crate) enum Session {
    /// Record your session's model usage
    ///
    /// In addition to what was recorded before.
    Record {
        #[command(flatten)]
        target: Target,
        /// The model, as its provider calls it
        #[arg(long, value_name = "NAME")]
        model: Option<String>,
        /// Tokens that went in, those from a cache included
        #[arg(long, value_name = "N")]
        tokens_in: Option<u64>,
        /// Tokens that came out
        #[arg(long, value_name = "N")]
        tokens_out: Option<u64>,
        /// Of those that went in, tokens read from a cache
        #[arg(long, value_name = "N")]
        tokens_cached: Option<u64>,
        /// What it cost: 0.42, in dollars, or 0.42EUR
        #[arg(long, value_name = "AMOUNT", value_parser = parse::<Cost>)]
        cost: Option<Cost>,
        /// Where the numbers come from: actual, estimated or unknown
        #[arg(long, value_name = "SOURCE", default_value = "actual", value_parser = parse::<UsageSource>)]
        source: UsageSource,
        #[command(flatten)]
        key: Key,
    },
    /// Take recorded work away, or say whose it was (people only)
    ///
    /// The session must have ended. What was recorded stays in the ledger; the correction is an event of its own.
    #[command(group = clap::ArgGroup::new("how").required(true))]
    Correct {
        /// The session: WS-3#2
        #[arg(value_name = "SESSION", value_parser = parse::<SessionRef>)]
        session: SessionRef,
        /// What was recorded after this time was no work: 2026-10-05T17:00 (local), or with a zone 2026-10-05T17:00:00Z
        #[arg(long, value_name = "TIME", group = "how", value_parser = parse_time)]
        shorten: Option<i64>,
        /// None of it was work
        #[arg(long, group = "how")]
        void: bool,
        /// It was this actor's work
        #[arg(long, value_name = "ACTOR", group = "how", value_parser = parse::<ActorName>)]
        reassign: Option<ActorName>,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        key: Key,
    },
}

pub(crate) fn run(context: &Context, command: Session) -> super::Result {
    match command {
        Session::Record { target, model, tokens_in, tokens_out, tokens_cached, cost, source, key } => {
            let usage = Usage { model, tokens_in, tokens_out, tokens_cached, source, cost };
            super::act(context, target, Act::RecordUsage(usage), None, key, "usage recorded")
        }
        Session::Correct { session, shorten, void, reassign, reason, key } => {
            let correction = match (shorten, reassign) {
                (Some(until_ms), _) => Correction::Shorten { until_ms },
                (None, Some(to)) => Correction::Reassign { to },
                (None, None) if void => Correction::Void,
                (None, None) => return Err(Refusal::usage("say what is wrong with the session")),
            };
            let SessionRef { task, token } = session;
            let act = Act::Correct { token, correction, reason };
            super::act(context, Target { task: Some(task) }, act, None, key, "session corrected")
        }
    }
}

fn parse_time(text: &str) -> Result<i64, String> {
    let wrong = "write a local time (2026-10-05T17:00), or one with a zone (2026-10-05T17:00:00Z)";
    moment_ms(text).ok_or_else(|| wrong.to_owned())
}
