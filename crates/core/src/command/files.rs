//! Requests about files that are about to be changed, or were changed.

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
    /// The process that a new lease for ad-hoc work is bound to.
    #[serde(skip)]
    pub process: Option<Process>,
    #[serde(skip)]
    pub worktree: Option<String>,
    #[serde(skip)]
    pub branch: Option<String>,
    /// Where the files are changed, and by which sub-agent of the caller.
    #[serde(skip)]
    pub touched: Touched,
    /// What else the change does to them.
    #[serde(skip)]
    pub extent: Extent,
    /// The conversation that the caller is a part of, if it is a part.
    #[serde(skip)]
    pub whole: Option<InstanceId>,
    /// Whether the agent sees the answer. Some harnesses only pass on a refusal at this moment.
    #[serde(skip)]
    pub is_heard: bool,
    /// Whether the answer needs the task only if it was opened for this: a hook reports nothing else about it.
    #[serde(skip)]
    pub is_brief: bool,
}

/// A commit that the caller has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Committed {
    pub commit: CommitId,
    /// The files that it changed, from the repository's root. They determine which of the caller's leases it belongs to.
    pub paths: Vec<String>,
    #[serde(skip)]
    pub worktree: Option<WorktreeId>,
    /// The tasks that its message says it finishes. Their holders get a notice; nothing else happens to the tasks.
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

/// Files that were found changed without a guard check: shell commands changed them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Look {
    pub changes: Vec<FileChange>,
    /// The conversations that have run commands in this worktree: a background process of one may write at any time.
    pub lingering: Vec<Runner>,
    /// Files that the caller changed and perhaps nobody reserved. Unreserved ones join its latest task, as with an edit.
    pub joining: Guard,
}

/// A changed file, from the repository's root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    pub path: String,
    /// Whose commands ran while it changed.
    pub suspects: Vec<Runner>,
}

/// An agent that ran a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Runner {
    pub actor: ActorName,
    /// The whole conversation. Its parts do not count as others.
    pub conversation: InstanceId,
    /// Who gets notices: the conversation, or a part that holds leases of its own.
    pub instance: InstanceId,
}

/// The phase of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// It continues: a sign of life.
    Here,
    /// A turn begins: until it is reported over, the conversation is at work.
    TurnBegun,
    /// A person is asked whether it may use a tool: until it continues, it waits.
    Asks,
    /// It continues after a tool that ran for this long.
    ToolOver { ran_ms: i64 },
    /// Its turn is over: the TTL counts until it continues.
    TurnOver,
    /// It has ended. Tasks that it only reserved are released, its ad-hoc work is done.
    Gone,
}
