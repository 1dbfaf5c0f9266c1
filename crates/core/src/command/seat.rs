//! What can be requested of a seat.

use serde::Serialize;

use crate::ids::Version;
use crate::lease::Process;
use crate::text::Field;
use crate::transition::Verb;

use super::{Act, Terms};

/// A change to one seat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SeatAct {
    /// The first caller creates the seat. Taking a seat that the caller holds renews it; taking a lapsed one is a takeover.
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

/// The requested terms of a seat: those of a lease, without paths.
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
    /// The same act on a task, so that one rule decides both.
    pub fn as_act(&self) -> Act {
        match self.clone() {
            SeatAct::Take(terms) => Act::Claim(terms.into()),
            SeatAct::Takeover(terms) => Act::Takeover(terms.into()),
            SeatAct::Renew { ttl_ms } => Act::Renew { ttl_ms, progress: true },
            SeatAct::Release => Act::moved(Verb::Release, None),
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
