//! What came of trying to land some tasks.

use onus_core::commit::CommitId;
use onus_core::gate::GateKey;
use onus_core::refusal::Refusal;
use onus_repo::landing::Checkout;

/// A task that landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandedTask {
    pub id: String,
    pub title: String,
    pub actor: Option<String>,
    pub branch: String,
    /// Where its branch was.
    pub head: CommitId,
    pub commit: CommitId,
    /// Lines in conflict that `land.union` resolved.
    pub resolved_lines: u64,
    pub gates: Vec<GateKey>,
}

/// A task that did not.
#[derive(Clone, Debug)]
pub struct Refused {
    pub id: String,
    pub refusal: Refusal,
    /// It was done and is open again.
    pub is_reopened: bool,
}

/// What came of trying to land some tasks.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub landed: Vec<LandedTask>,
    /// The target had all that they change.
    pub found: Vec<(String, CommitId)>,
    pub refused: Vec<Refused>,
    /// Gates that fail on the bare target: nothing landed after that.
    pub red: Vec<GateKey>,
    /// Where the target is checked out, and what became of that.
    pub checkouts: Vec<Checkout>,
}

impl Report {
    /// Whether there was nothing to land.
    pub fn is_empty(&self) -> bool {
        let Report { landed, found, refused, red, checkouts: _ } = self;
        landed.is_empty() && found.is_empty() && refused.is_empty() && red.is_empty()
    }

    /// Adds what could not be settled.
    pub fn refuse(&mut self, refusals: Vec<Refusal>) {
        self.refused.extend(refusals.into_iter().map(|refusal| Refused {
            id: refusal.task.clone().unwrap_or_default(),
            refusal,
            is_reopened: false,
        }));
    }
}
