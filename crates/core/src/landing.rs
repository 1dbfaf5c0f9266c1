//! Landing: how a task's branch becomes part of its target, exactly once.
//!
//! Git moves the target, the store keeps the record, and either may be interrupted between any two steps. So a landing has
//! three steps:
//!
//! 1. the *intent*: a git reference, then an event under the task's lock, if the lander may land what it has checked;
//! 2. git moves the target and deletes that reference, in one git transaction;
//! 3. an event that the task *landed*.
//!
//! A caller that changes a task while an intent is recorded settles the intent first. The references show what happened: if the
//! intent's reference still exists, the target has not moved, and deleting it prevents the lander from ever moving the target.
//! If it is gone, either the target contains the commit or it never will.

use serde::{Deserialize, Serialize};

use crate::commit::{CommitId, Extent};
use crate::gate::{Demand, GateKey};
use crate::ids::Token;
use crate::task::{State, Task, is_default, words};

words! {
    /// How a branch becomes part of its target.
    LandStyle("way to land") {
        /// A commit with both as its parents.
        Merge = "merge",
        /// One commit with all changes of the branch.
        Squash = "squash",
        /// Each of its commits again, on top of the target.
        Rebase = "rebase",
        /// Not by onus: its changes were found in the target.
        Elsewhere = "elsewhere",
        /// There was nothing to land: its branch has no commit of its own.
        Nothing = "nothing",
    }
}

impl LandStyle {
    /// Whether a project can choose it.
    pub fn is_a_choice(self) -> bool {
        !matches!(self, LandStyle::Elsewhere | LandStyle::Nothing)
    }
}

words! {
    /// When a dependency is met.
    DepsMet("time when a dependency is met") {
        Done = "done",
        Landed = "landed",
    }
}

/// Where a landing's references are: it can be settled only there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandingPlace {
    /// The machine of the repository. None: `repository` is the address of a remote, which can be reached from anywhere.
    pub machine: Option<String>,
    pub repository: String,
}

/// A landing that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    pub target: String,
    /// The target's commit before the landing.
    pub onto: CommitId,
    /// The commit to which the target will move, or one on the way there.
    pub commit: CommitId,
    /// The last commit of the task's branch.
    pub head: CommitId,
    pub style: LandStyle,
    /// Conflicting lines that a rule of the project resolved.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resolved_lines: u64,
    /// The gates that the merged result passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateKey>,
    pub place: LandingPlace,
}

/// A landing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landed {
    pub target: String,
    pub commit: CommitId,
    pub style: LandStyle,
    #[serde(default, skip_serializing_if = "is_default")]
    pub resolved_lines: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateKey>,
}

impl Landed {
    /// The commit by which it landed; None if there was nothing to land.
    pub fn by(&self) -> Option<&CommitId> {
        (self.style != LandStyle::Nothing).then_some(&self.commit)
    }

    /// The landing of an intent whose commit the target contains.
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

/// What a task's row knows about its landing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landing {
    /// Set if the task is done and has still to land; says whether its dependents wait for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited: Option<DepsMet>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    #[serde(skip)]
    pub landed: Option<Landed>,
}

impl Landing {
    /// Whether nothing is left to do about it.
    pub fn is_settled(&self) -> bool {
        self.awaited.is_none() && self.intent.is_none()
    }
}

/// A landing that is about to move its target: everything that was checked, for comparison under the task's lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    pub intent: Intent,
    /// The gates that the target's own tree defines, and the trees that were judged.
    #[serde(skip)]
    pub demand: Demand,
    /// What it does to the target besides changing the files that `demand` lists. Counted only if the task's constraints ask for it.
    #[serde(skip)]
    pub extent: Extent,
    /// The task's token and state when it was checked. If they have changed since, the check no longer counts.
    pub token: Token,
    pub state: State,
}

/// What became of an intent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// The target contains its commit.
    Landed,
    /// The target will never contain its commit.
    Withdrawn,
}

/// A file that both sides changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConflictFile {
    pub path: String,
    /// Lines that the two sides changed differently.
    pub lines: u64,
    /// The tasks whose landing changed it since, and their actors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
}

/// The most conflicting files that an event names.
pub const MOST_CONFLICTS: usize = 50;

/// A landing that failed before anything moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub target: String,
    pub onto: CommitId,
    pub head: CommitId,
    pub why: Obstruction,
    /// `why` in words, for the actor that resolves it.
    pub message: String,
    /// The task's token when it was checked.
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

/// Whether the task, once it is done, has still to land, and whether its dependents wait for that. `met`: what the project
/// configures, if it configures landing.
pub fn awaits(task: &Task, met: Option<DepsMet>) -> Option<DepsMet> {
    let has_to = task.branch.is_some() && task.landing.landed.is_none();
    has_to.then(|| met.unwrap_or(DepsMet::Done))
}
