//! What can be requested of a seat.

use serde::Serialize;

use crate::ids::Version;
use crate::lease::Process;
use crate::text::Field;
use crate::transition::Verb;

use super::{Act, Terms};

/// Taking, renewing or giving up a seat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SeatAct {
    /// Whoever takes it first creates it. Taking what one holds renews it; taking what lapsed is a takeover.
    Take(SeatTerms),
    Takeover(SeatTerms),
    Renew {
        ttl_ms: Option<i64>,
    },
    Release,
    Redact {
        version: Version,
        fields: Vec<Field>,
        reason: String,
    },
}

/// On which terms a seat is asked for: those of a lease, without paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SeatTerms {
    /// None: the default for this caller. 0: no limit.
    pub ttl_ms: Option<i64>,
    #[serde(skip)]
    pub process: Option<Process>,
    pub reason: Option<String>,
    #[serde(skip)]
    pub worktree: Option<String>,
    #[serde(skip)]
    pub branch: Option<String>,
}

impl SeatAct {
    /// The same act on a task: one rule decides both.
    pub fn as_act(&self) -> Act {
        match self.clone() {
            SeatAct::Take(terms) => Act::Claim(terms.into()),
            SeatAct::Takeover(terms) => Act::Takeover(terms.into()),
            SeatAct::Renew { ttl_ms } => Act::Renew { ttl_ms, progress: true },
            SeatAct::Release => {
                Act::Move { verb: Verb::Release, message: None, uncommitted: None, demand: None }
            }
            SeatAct::Redact { version, fields, reason } => Act::Redact { version, fields, reason },
        }
    }
}

impl From<SeatTerms> for Terms {
    fn from(terms: SeatTerms) -> Terms {
        let SeatTerms { ttl_ms, process, reason, worktree, branch } = terms;
        Terms { ttl_ms, process, reason, worktree, branch, ..Terms::default() }
    }
}
