//! What is recorded of a work session besides its stretches: what it used, and corrections.
//!
//! Nobody enters hours. A correction takes recorded work away, or says whose it was, and never adds anything: it can shorten a
//! session, void it, or reassign it. It is an event of its own that names what it takes, piece by piece; the recorded events
//! stay as they are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::actor::{ActorName, InstanceId};
use crate::ids::{TaskRef, Token, Uid, Version, shortened};
use crate::lease::Lease;
use crate::refusal::Refusal;
use crate::stretch::{Recorded, SLACK_MS, Stretch};
use crate::task::words;

/// A session as people name it: `WS-3#2`, the second lease of WS-3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRef {
    pub task: TaskRef,
    pub token: Token,
}

impl FromStr for SessionRef {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<SessionRef, Refusal> {
        let bad = || Refusal::usage(format!("'{}' is not a session: write it like WS-3#2", shortened(text)));
        let (task, token) = text.rsplit_once('#').ok_or_else(bad)?;
        let is_number = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit());
        let token = token.parse().ok().filter(|token| is_number && *token > 0).ok_or_else(bad)?;
        Ok(SessionRef { task: task.parse()?, token: Token(token) })
    }
}

/// A correction of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Correction {
    /// What was recorded after this wall time was not work.
    Shorten {
        until_ms: i64,
    },
    Void,
    /// It was another actor's work.
    Reassign {
        to: ActorName,
    },
}

words! {
    /// What a correction did to a session.
    Corrected("correction") {
        Shortened = "shortened",
        Voided = "voided",
        Reassigned = "reassigned",
    }
}

impl Correction {
    pub fn what(&self) -> Corrected {
        match self {
            Correction::Shorten { .. } => Corrected::Shortened,
            Correction::Void => Corrected::Voided,
            Correction::Reassign { .. } => Corrected::Reassigned,
        }
    }

    /// The part of a piece of an actor's work that it takes away.
    pub fn takes(&self, actor: &ActorName, piece: Stretch) -> Option<Stretch> {
        match self {
            Correction::Void => Some(piece),
            Correction::Reassign { to } => (to != actor).then_some(piece),
            Correction::Shorten { until_ms } => {
                let from_ms = piece.start_ms.max(*until_ms);
                let active_ms = piece.end_ms() - from_ms;
                (active_ms > 0).then_some(Stretch { start_ms: from_ms, active_ms })
            }
        }
    }
}

/// The work that all corrections leave of a session, and whose it is. A correction takes the end of a piece, or all of it.
pub fn left(rows: &[Recorded]) -> Vec<(ActorName, Stretch)> {
    let mut left: Vec<(ActorName, Stretch)> = Vec::new();
    for row in rows {
        let Some(actor) = &row.actor else { continue };
        if row.active_ms > 0 {
            left.push((actor.clone(), Stretch { start_ms: row.start_ms, active_ms: row.active_ms }));
            continue;
        }
        let taken = left.iter_mut().find(|(whose, piece)| {
            whose == actor && piece.start_ms <= row.start_ms && piece.end_ms() == row.end_ms()
        });
        if let Some((_, piece)) = taken {
            piece.active_ms = row.start_ms - piece.start_ms;
        }
    }
    left.retain(|(_, piece)| piece.active_ms > 0);
    left
}

words! {
    /// Where the numbers of a usage come from.
    UsageSource("source") {
        /// Reported by the provider that is paid.
        Actual = "actual",
        Estimated = "estimated",
        Unknown = "unknown",
    }
}

/// What a session used of a model. None: unknown, which is not zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
    /// How many of the input tokens were read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_cached: Option<u64>,
    pub source: UsageSource,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// A usage as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    pub task: Uid,
    pub token: Token,
    pub version: Version,
    pub actor: ActorName,
    pub at_ms: i64,
    pub usage: Usage,
}

/// Money, in millionths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    pub micros: u64,
    /// Three letters: `USD`.
    pub currency: String,
}

/// The highest number of tokens or micros that is accepted: far more than any session uses, and sums cannot overflow.
const MOST: u64 = 1_000_000_000_000;

impl Usage {
    pub fn check(&self) -> Result<(), Refusal> {
        let numbers =
            [self.tokens_in, self.tokens_out, self.tokens_cached, self.cost.as_ref().map(|cost| cost.micros)];
        if self.model.is_none() && numbers.iter().all(Option::is_none) {
            return Err(Refusal::usage("nothing to record: name a model, tokens or a cost"));
        }
        if numbers.iter().flatten().any(|number| *number > MOST) {
            return Err(Refusal::usage("no session uses that much"));
        }
        let is_name =
            |text: &str| !text.is_empty() && text.len() <= 100 && !text.chars().any(char::is_control);
        if !self.model.as_deref().is_none_or(is_name) {
            return Err(Refusal::usage("a model's name has 1 to 100 bytes and no control characters"));
        }
        Ok(())
    }

    /// The sum of two usages of one model in one currency. What neither reports stays unknown; the source is the less certain
    /// one.
    pub fn and(self, more: &Usage) -> Usage {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        let cost = match (self.cost, &more.cost) {
            (Some(cost), Some(more)) => {
                Some(Cost { micros: cost.micros.saturating_add(more.micros), ..cost })
            }
            (cost, more) => cost.or_else(|| more.clone()),
        };
        Usage {
            model: self.model,
            tokens_in: sum(self.tokens_in, more.tokens_in),
            tokens_out: sum(self.tokens_out, more.tokens_out),
            tokens_cached: sum(self.tokens_cached, more.tokens_cached),
            source: self.source.max(more.source),
            cost,
        }
    }

    /// Model and currency: only usages in which both are equal can be added up.
    pub fn kind(&self) -> (Option<String>, Option<String>) {
        (self.model.clone(), self.cost.as_ref().map(|cost| cost.currency.clone()))
    }
}

/// What a harness's transcript reports as used, from where the last reading of it stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reading {
    pub answers: Vec<Answered>,
    /// The cursor that it started from. If the instance has another one by now, another reading has counted the same.
    pub from: Option<String>,
    /// Where the next reading starts, in the reader's own format.
    pub cursor: String,
    /// The conversation, if a part of it was read.
    pub whole: Option<InstanceId>,
}

/// What one answer of a model used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// How long before the reading the answer came: only the store's clock decides when that was.
    pub age_ms: i64,
    pub usage: Usage,
}

/// The session that an answer at this time belongs to: of the leases that were held then, the one with the latest progress. If
/// none was held, one that had ended at most [`SLACK_MS`] before, since an answer may follow the end that closely.
pub fn session_at(leases: &[Lease], at_ms: i64) -> Option<&Lease> {
    let held_at = |at_ms: i64, lease: &Lease| {
        lease.measures_work() && lease.ended.as_ref().is_none_or(|ended| at_ms <= ended.at_ms)
    };
    let begun = || leases.iter().filter(|lease| lease.acquired_at_ms <= at_ms);
    let last = |lease: &&Lease| (lease.pulse.progress.wall_ms, lease.acquired_at_ms, lease.token);
    let held_then = begun().filter(|lease| held_at(at_ms, lease)).max_by_key(last);
    held_then.or_else(|| begun().filter(|lease| held_at(at_ms - SLACK_MS, lease)).max_by_key(last))
}

impl FromStr for Cost {
    type Err = Refusal;

    /// `0.42`, in dollars, or `0.42EUR`.
    fn from_str(text: &str) -> Result<Cost, Refusal> {
        let bad =
            || Refusal::usage(format!("'{}' is not a cost: write it like 0.42 or 0.42EUR", shortened(text)));
        let amount = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let currency = match &text[amount.len()..] {
            "" => "USD".to_owned(),
            letters if letters.len() == 3 => letters.to_ascii_uppercase(),
            _ => return Err(bad()),
        };
        let (whole, part) = amount.trim_end().split_once('.').unwrap_or((amount.trim_end(), ""));
        let are_digits = whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 6 || part.len() > 6 || !are_digits {
            return Err(bad());
        }
        Ok(Cost { micros: format!("{whole}{part:0<6}").parse().map_err(|_| bad())?, currency })
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = (self.micros + 5_000) / 10_000;
        write!(f, "{}.{:02} {}", hundredths / 100, hundredths % 100, self.currency)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_session_is_named_by_its_task_and_its_token() {
        let parsed: SessionRef = "WS-3#2".parse().unwrap();
        assert_eq!((parsed.task.to_string().as_str(), parsed.token), ("WS-3", Token(2)));
        for bad in ["WS-3", "WS-3#", "#2", "WS-3#0", "WS-3#x", "WS-3#+1", "WS-3#99999999999999999999"] {
            assert!(bad.parse::<SessionRef>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_cost_is_exact() {
        for (text, micros, shown) in
            [("0.42", 420_000, "0.42 USD"), ("1", 1_000_000, "1.00 USD"), ("0.000001eur", 1, "0.00 EUR")]
        {
            let cost: Cost = text.parse().unwrap();
            assert_eq!((cost.micros, cost.to_string().as_str()), (micros, shown), "{text}");
        }
        for bad in ["", "-1", "1,5", "0.1234567", "9999999", "1 dollar", ".5", "NaN"] {
            assert!(bad.parse::<Cost>().is_err(), "{bad}");
        }
    }

    fn row(place: u64, actor: &str, start_ms: i64, active_ms: i64) -> Recorded {
        Recorded {
            task: Uid(uuid::Uuid::nil()),
            token: Token(1),
            version: Version(1),
            place,
            actor: Some(actor.parse().unwrap()),
            start_ms,
            active_ms,
        }
    }

    proptest! {
        /// However often a session is corrected, it only shrinks, and what is left is the sum of the rows.
        #[test]
        fn corrections_only_take_away(
            lengths in proptest::collection::vec((1i64..100, 1i64..100), 1..6),
            steps in proptest::collection::vec((0..4u8, 0i64..1_000), 0..6),
        ) {
            let (mut rows, mut at_ms) = (Vec::new(), 0);
            for (pause_ms, length_ms) in lengths {
                rows.push(row(rows.len() as u64, "human:a", at_ms + pause_ms, length_ms));
                at_ms += pause_ms + length_ms;
            }
            let mut before_ms: i64 = rows.iter().map(|row| row.active_ms).sum();
            for (kind, until_ms) in steps {
                let correction = match kind {
                    0 => Correction::Void,
                    1 => Correction::Reassign { to: "human:b".parse().unwrap() },
                    _ => Correction::Shorten { until_ms },
                };
                for (actor, piece) in left(&rows) {
                    let Some(taken) = correction.takes(&actor, piece) else { continue };
                    rows.push(row(rows.len() as u64, actor.as_str(), taken.start_ms, -taken.active_ms));
                    if let Correction::Reassign { to } = &correction {
                        rows.push(row(rows.len() as u64, to.as_str(), taken.start_ms, taken.active_ms));
                    }
                }
                let pieces = left(&rows);
                let left_ms: i64 = pieces.iter().map(|(_, piece)| piece.active_ms).sum();
                prop_assert_eq!(left_ms, rows.iter().map(|row| row.active_ms).sum::<i64>());
                prop_assert!(left_ms <= before_ms);
                match correction {
                    Correction::Void => prop_assert_eq!(left_ms, 0),
                    Correction::Reassign { to } => prop_assert!(left_ms == before_ms && pieces.iter().all(|(whose, _)| *whose == to)),
                    Correction::Shorten { until_ms } => prop_assert!(pieces.iter().all(|(_, piece)| piece.end_ms() <= until_ms)),
                }
                before_ms = left_ms;
            }
        }
    }
}
