//! Rescue: what a holder left uncommitted when its lease was lost to another is kept (P10).
//!
//! The write that takes the lease away says that the rescue is *due*. Git runs after that commit, and what came of it is recorded
//! then. A rescue that stays due was interrupted, or concerns a worktree that cannot be reached from there: whoever checks the store
//! on the right machine finishes it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{Version, shortened};
use crate::lease::Lease;
use crate::refusal::Refusal;
use crate::task::{Task, words};

words! {
    /// What became of what a holder left uncommitted.
    RescueState("state of a rescue") {
        Due = "due",
        Kept = "kept",
        /// Everything was committed.
        Nothing = "nothing",
        /// The worktree is no more.
        Gone = "gone",
        /// A person let it go.
        Dropped = "dropped",
    }
}

/// The rescue of one lease's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rescue {
    pub state: RescueState,
    /// The event that says so.
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

/// How many files that were left out an event names.
pub const MOST_LEFT: usize = 100;

/// What a rescue came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rescued {
    Kept {
        kept: Vec<KeptFiles>,
        left_out: Vec<LeftFile>,
    },
    /// Nothing that could be kept; some may have been left out.
    Nothing {
        left_out: Vec<LeftFile>,
    },
    Gone,
}

/// Whether what a lease worked in was a worktree for its task alone: by the branch there.
pub fn is_own_worktree(lease: &Lease, task: &Task, id: &str) -> bool {
    lease.grant.branch.as_deref().is_some_and(|branch| task.owns_branch(id, branch))
}
