//! Requests about files: those that are about to be changed, and those that were, each with its caller and worktree.

use serde::{Deserialize, Serialize};

use crate::actor::{ActorName, InstanceId};
use crate::commit::{CommitId, Extent};
use crate::ids::TaskRef;
use crate::lease::Process;
use crate::scope::{Touched, WorktreeId};

/// Files that an agent is about to change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Guard {
    /// From the repository's root.
    pub paths: Vec<String>,
    /// The process that a lease for ad-hoc work is bound to.
    #[serde(skip)]
    pub process: Option<Process>,
    #[serde(skip)]
    pub worktree: Option<String>,
    #[serde(skip)]
    pub branch: Option<String>,
    /// Where they are changed, and by which sub-agent of the caller.
    #[serde(skip)]
    pub touched: Touched,
    /// What else the change does to them.
    #[serde(skip)]
    pub extent: Extent,
    /// The conversation that the caller is a part of, if it is one.
    #[serde(skip)]
    pub whole: Option<InstanceId>,
    /// Whether the agent is told what is answered. Some harnesses only take a refusal at this moment.
    #[serde(skip)]
    pub is_heard: bool,
    /// Whether the answer needs the task only if it was opened for this: a hook says nothing else of it.
    #[serde(skip)]
    pub is_brief: bool,
}

/// A commit that somebody has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Committed {
    pub commit: CommitId,
    /// What it changed, from the repository's root: which of the caller's leases it belongs to.
    pub paths: Vec<String>,
    #[serde(skip)]
    pub worktree: Option<WorktreeId>,
    /// The tasks that its message says it finishes. They hear of it, and nothing else happens to them.
    pub resolves: Vec<TaskRef>,
}

/// Files that were changed in one worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChangedFiles {
    /// From the repository's root.
    pub paths: Vec<String>,
    #[serde(skip)]
    pub worktree: Option<WorktreeId>,
}

/// Files that were found changed, which nobody had asked for: by commands of a shell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Look {
    pub changes: Vec<FileChange>,
    /// The conversations that have run commands in this worktree: what one left in the background may write at any time.
    pub lingering: Vec<Party>,
    /// What the caller changed and nobody may have reserved: those files join the latest of its tasks, as an edit's would.
    pub joining: Guard,
}

/// A changed file, from the repository's root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    pub path: String,
    /// Whose commands ran while it changed.
    pub suspects: Vec<Party>,
}

/// Who ran a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Party {
    pub actor: ActorName,
    /// The whole conversation: its parts are not others to it.
    pub conversation: InstanceId,
    /// Who is told: the conversation, or a part that holds leases of its own.
    pub instance: InstanceId,
}

/// The phase of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// It goes on: a sign of life.
    Here,
    /// A turn begins: until it is reported over, the conversation is at work.
    TurnBegun,
    /// A person is asked whether it may use a tool: until it goes on, it waits.
    Asks,
    /// It goes on after a tool that ran for so long.
    ToolOver { ran_ms: i64 },
    /// Its turn is over, and somebody else's has begun: the TTL counts until it goes on.
    TurnOver,
    /// It has ended. What it only reserved is released, its ad-hoc work is done.
    Gone,
}
