//! Landing: how a task's branch becomes part of its target, exactly once.
//!
//! Git moves the target, the store keeps the record, and either may be stopped between any two steps. So a landing has three:
//!
//! 1. the *intent*: a reference of git, then an event under the task's lock, if the lander may land what it has checked;
//! 2. git moves the target and deletes that reference, in one transaction of git's;
//! 3. the task *landed*, an event.
//!
//! Whoever changes a task while an intent is recorded settles it first. The references tell what happened: if the intent's is
//! still there, the target has not moved; deleting it keeps the lander from moving it ever after. If it is gone, the target
//! contains the commit, or nothing ever will.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::commit::CommitId;
use crate::gate::{Demand, GateKey};
use crate::ids::{Token, shortened};
use crate::refusal::Refusal;
use crate::task::{State, Task, words};

words! {
    /// How a branch becomes part of its target.
    LandStyle("way to land") {
        /// A commit with both as its parents.
        Merge = "merge",
        /// One commit with all that the branch changes.
        Squash = "squash",
        /// Each of its commits again, on top of the target.
        Rebase = "rebase",
        /// Not by onus: its changes were found in the target.
        Elsewhere = "elsewhere",
    }
}

words! {
    /// When a dependency is met.
    DepsMet("time when a dependency is met") {
        Done = "done",
        Landed = "landed",
    }
}

/// Where a landing's references are: only there can it be settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandingPlace {
    /// A machine, and the repository on it; or the address of a remote, which can be reached from anywhere.
    pub machine: Option<String>,
    pub repository: String,
}

/// A landing that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    pub target: String,
    /// What the target was.
    pub onto: CommitId,
    /// What it is to become, or a commit on the way there.
    pub commit: CommitId,
    /// What the task's branch was.
    pub head: CommitId,
    pub style: LandStyle,
    /// Lines in conflict that a rule of the project resolved.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resolved_lines: u64,
    /// What the merged result passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateKey>,
    pub place: LandingPlace,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A landing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landed {
    pub target: String,
    pub commit: CommitId,
    pub style: LandStyle,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resolved_lines: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateKey>,
}

impl Landed {
    /// What comes of an intent whose commit the target contains.
    pub fn of(intent: &Intent) -> Landed {
        Landed {
            target: intent.target.clone(),
            commit: intent.commit.clone(),
            style: intent.style,
            resolved_lines: intent.resolved_lines,
            gates: intent.gates.clone(),
        }
    }
}

/// What a task's row knows of its landing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landing {
    /// It is done and has still to land; and whether those who depend on it wait for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited: Option<DepsMet>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    #[serde(skip)]
    pub landed: Option<Landed>,
}

impl Landing {
    /// Whether nothing is to be done about it.
    pub fn is_settled(&self) -> bool {
        self.awaited.is_none() && self.intent.is_none()
    }
}

/// A landing that is about to move its target: all that was checked, to be compared under the task's lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    pub intent: Intent,
    /// The gates of the target's own tree, and what was judged.
    #[serde(skip)]
    pub demand: Demand,
    /// The task as it was looked at: whatever became of it since, it is not what was checked.
    pub token: Token,
    pub state: State,
}

/// What became of an intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// The target contains its commit.
    Landed,
    /// It never will.
    Withdrawn,
}

/// A file that both sides changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConflictFile {
    pub path: String,
    /// Lines that two sides changed differently.
    pub lines: u64,
    /// The tasks whose landing changed it since, and who did them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
}

/// How many files an event names.
pub const MOST_CONFLICTS: usize = 50;

/// A landing that failed before anything moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub target: String,
    pub onto: CommitId,
    pub head: CommitId,
    pub why: Obstruction,
    /// The same, for whoever resolves it.
    pub message: String,
    /// The task as it was looked at.
    pub token: Token,
}

/// Why a branch cannot land as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstruction {
    Conflict {
        files: Vec<ConflictFile>,
        count: u64,
    },
    /// These gates failed on the merged result, and pass on the target.
    Gates {
        gates: Vec<GateKey>,
    },
}

/// Whether the task, once it is done, has still to land, and whether those who depend on it wait for that. `met`: as the project
/// says, if it says anything about landing.
pub fn awaits(task: &Task, met: Option<DepsMet>) -> Option<DepsMet> {
    let has_to = task.branch.is_some() && task.landing.landed.is_none();
    has_to.then(|| met.unwrap_or(DepsMet::Done))
}
