//! Seats: roles that one instance holds at a time, such as landing on a branch (`land:main`) or dispatching (`dispatch`).
//!
//! A seat is a lease without a task. There is no second set of rules for it: tokens, lapse, binding to a process, maximum
//! hold, takeover and fence are those of tasks, because a seat goes through the same [`crate::decide::decide`] and the
//! same fold as a task that is open, waits for nothing and reserves nothing ([`Seat::as_task`]). The differences are here and
//! in `decide/seat.rs`: how a seat is named, how it begins (the first caller that takes it creates it), and that nothing ever
//! finishes it.
//!
//! Each seat has a stream of its own, which begins with `seat.created`, and a number. Like tasks, seats are counted in the
//! project's row, so that the removal of one from the ledger is noticed.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::actor::{ActorName, Tier};
use crate::ids::{Number, Token, Uid, Version, checked_text, shortened};
use crate::quote::is_hidden;
use crate::refusal::Refusal;
use crate::task::{Facts, State, Task};

/// A role, with its object if there are several of its kind: `dispatch`, `land:main`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SeatName(String);

impl SeatName {
    pub const MAX_LEN: usize = 200;
    /// The seat, worded for a sentence.
    pub fn spoken(&self) -> String {
        format!("seat {}", self.0)
    }
}

impl FromStr for SeatName {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let (role, of) = text.split_once(':').map_or((text, None), |(role, of)| (role, Some(of)));
        let is_role = role.starts_with(|c: char| c.is_ascii_lowercase())
            && role.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        let is_readable = |of: &str| !of.is_empty() && !of.chars().any(|c| c.is_whitespace() || is_hidden(c));
        if !is_role || !of.is_none_or(is_readable) || text.len() > Self::MAX_LEN {
            return Err(Refusal::usage(format!(
                "'{}' is not a seat: write a role in lower case, such as dispatch, or ROLE:OF-WHAT without spaces, such as \
                 land:main, at most {} bytes",
                shortened(text),
                Self::MAX_LEN
            )));
        }
        Ok(SeatName(text.to_owned()))
    }
}

checked_text!(SeatName);

/// A seat: the fold of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    pub uid: Uid,
    /// Counted among the seats, not among the tasks.
    pub number: Number,
    pub name: SeatName,
    /// The number of its events, and the hash of the last one.
    pub version: Version,
    pub head: String,
    pub created_at_ms: i64,
    pub created_by: ActorName,
    pub updated_at_ms: i64,
    /// The highest token ever granted. It never decreases.
    pub token: Token,
    /// Whether the lease with that token has not ended. It may have lapsed, which is computed.
    pub leased: bool,
}

impl Seat {
    /// The seat as the rules of leases see it: a task that can always be claimed, waits for nothing and reserves nothing.
    pub fn as_task(&self) -> Task {
        let state = if self.leased { State::InProgress } else { State::Open };
        let facts = Facts { required_tier: Tier(0), ..Facts::default() };
        Task {
            version: self.version,
            head: self.head.clone(),
            updated_at_ms: self.updated_at_ms,
            token: self.token,
            leased: self.leased,
            ..Task::created(self.uid, self.number, (&self.created_by, self.created_at_ms), state, facts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_a_role_and_what_it_is_for() {
        for good in ["dispatch", "land:main", "land:feature/a-b", "nightly-2", "land:überall", "a:b:c"] {
            assert_eq!(good.parse::<SeatName>().map(|name| name.to_string()), Ok(good.to_owned()));
        }
        let long = format!("land:{}", "x".repeat(SeatName::MAX_LEN));
        for bad in [
            "",
            "Land",
            "2land",
            "-x",
            "land:",
            ":main",
            "land main",
            "land: main",
            "a:b\n",
            "a:\u{202e}b",
            &long,
        ] {
            assert!(bad.parse::<SeatName>().is_err(), "{bad:?}");
        }
    }
}
