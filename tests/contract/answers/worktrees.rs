//! Worktrees of tasks, and the commands that a repository configures.

use super::*;

/// A task's worktree.
#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeMade {
    path: String,
    branch: Option<String>,
    /// The branch that it is to land in.
    target: Option<String>,
    /// The first of its 20 ports; null if it has none.
    port_base: Option<u16>,
    /// It was made now; else it was there.
    new: bool,
    /// With `--rescue`, if something is kept of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    rescued: Option<WorktreeRescued>,
}

/// What an earlier holder left uncommitted, restored in a worktree.
#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeRescued {
    /// Whose it was.
    token: u64,
    actor: String,
    written: Vec<String>,
    removed: Vec<String>,
    /// Was there as it was left.
    same: Vec<String>,
    /// Not restored: it would have overwritten something.
    left: Vec<String>,
}

/// Who lives and works in a worktree.
#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeHolder {
    task: String,
    actor: String,
}

/// A merge, rebase, cherry-pick, revert or bisect that somebody began.
#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeUnderWay {
    what: String,
    since_at: String,
}

/// A worktree, and what is in it. What could not be looked at is null.
#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeAnswer {
    path: String,
    /// The main checkout.
    main: bool,
    /// Made by onus.
    made: bool,
    adopted: bool,
    /// The task that it was made or adopted for.
    task: Option<String>,
    /// Null: HEAD is detached.
    branch: Option<String>,
    head: Option<String>,
    target: Option<String>,
    /// Live leases that are worked on there.
    held_by: Vec<WorktreeHolder>,
    /// Its files were copied and its set-up command has run.
    ready: bool,
    /// Its folder is not where git has it.
    missing: bool,
    /// Why `git worktree lock` keeps it; null: it is not locked.
    locked: Option<String>,
    /// Files with uncommitted changes, the first 200.
    changed: Option<Vec<String>>,
    untracked: Option<Vec<String>>,
    /// Ignored files and folders.
    ignored: Option<u64>,
    under_way: Option<WorktreeUnderWay>,
    /// Commits that are in no other branch, nor in the target by content.
    unlanded: Option<u64>,
    /// Commits of the target that it does not have.
    behind: Option<u64>,
    /// Commits that landed in the branch that is checked out there, and that it does not have; null: it has all.
    behind_landed: Option<u64>,
    /// What its branch cannot be merged with.
    conflicts: Vec<ConflictView>,
    port_base: Option<u16>,
    /// In `worktree show` and `list --size`: disk space.
    bytes: Option<u64>,
    next: Option<String>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeShownAnswer {
    #[serde(flatten)]
    worktree: WorktreeAnswer,
    #[serde(flatten)]
    beside: Beside,
}

/// A branch of a task's that is checked out nowhere, with commits that are nowhere else.
#[derive(JsonSchema, Serialize)]
pub(crate) struct UnlandedBranch {
    branch: String,
    unlanded: u64,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreesAnswer {
    worktrees: Vec<WorktreeAnswer>,
    unlanded_branches: Vec<UnlandedBranch>,
    /// Targets that lack what landed.
    behind_landed: Vec<BehindLanded>,
    /// How many rescues are kept.
    rescues: u64,
    /// Folders whose making or removal was interrupted.
    interrupted: Vec<String>,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeRemovedAnswer {
    path: String,
    branch: Option<String>,
    /// The branch was onus's own, and all its commits are in another.
    branch_deleted: bool,
    /// Ignored files and folders that went with it.
    ignored: u64,
    /// The first of them.
    ignored_names: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeKept {
    path: String,
    why: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreePrunedAnswer {
    dry_run: bool,
    removed: Vec<String>,
    kept: Vec<WorktreeKept>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeRepairedAnswer {
    /// What became of everything that was interrupted.
    settled: Vec<String>,
    /// Where worktrees are that were moved.
    moved: Vec<String>,
}

/// A command that the repository configures.
#[derive(JsonSchema, Serialize)]
pub(crate) struct CommandAnswer {
    kind: String,
    name: String,
    argv: Vec<String>,
    /// Variables that it gets besides those that every program needs.
    env: Vec<String>,
    /// Where in the work tree it runs; empty: at its root.
    folder: String,
    timeout_ms: u64,
    digest: String,
    approved: bool,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct CommandsAnswer {
    commands: Vec<CommandAnswer>,
}
