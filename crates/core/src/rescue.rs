//! Rescue: the files that a holder left uncommitted when it lost its lease to another are kept (P10).
//!
//! The write that takes the lease away records that the rescue is *due*. Git runs after that transaction, and the outcome is
//! recorded then. A rescue that stays due was interrupted, or its worktree cannot be reached from there: a check of the store on
//! the right machine finishes it.

use serde::{Deserialize, Serialize};

use crate::ids::Version;
use crate::lease::Lease;
use crate::task::{Task, words};

words! {
    /// What became of the files that a holder left uncommitted.
    RescueState("state of a rescue") {
        Due = "due",
        Kept = "kept",
        /// Everything was committed.
        Nothing = "nothing",
        /// The worktree no longer exists.
        Gone = "gone",
        /// A person dropped what was kept.
        Dropped = "dropped",
    }
}

/// The rescue of one lease's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rescue {
    pub state: RescueState,
    /// The event that recorded the state.
    pub version: Version,
}

/// A commit that keeps files, and the reference that keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptFiles {
    #[serde(rename = "ref")]
    pub reference: String,
    pub commit: String,
    /// How many files differ from the commit that was checked out.
    pub files: u64,
}

/// A file that a rescue left where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftFile {
    pub path: String,
    /// `too_large`, `nested_repository`, `special` or `unreadable`.
    pub why: String,
}

/// The most files that an event names as left out.
pub const MOST_LEFT: usize = 100;

/// The outcome of a rescue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rescued {
    Kept {
        kept: Vec<KeptFiles>,
        left_out: Vec<LeftFile>,
    },
    /// Nothing could be kept; some files may have been left out.
    Nothing {
        left_out: Vec<LeftFile>,
    },
    Gone,
}

/// Whether a lease's worktree is for its task alone, judged by its branch.
pub fn is_own_worktree(lease: &Lease, task: &Task, id: &str) -> bool {
    lease.grant.branch.as_deref().is_some_and(|branch| task.owns_branch(id, branch))
}
