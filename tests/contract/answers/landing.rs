//! What landed, and what a round of work came to.

use super::*;

/// What a landing came to, task by task. If one was refused, or a gate fails on the target alone, `error` says so too.
#[derive(JsonSchema, Serialize)]
pub(crate) struct LandAnswer {
    target: String,
    /// Nothing was moved: with `--check`, `landed` is what would land.
    checked_only: bool,
    landed: Vec<LandedItem>,
    /// Tasks whose changes the target had already.
    found: Vec<FoundItem>,
    refused: Vec<RefusedItem>,
    /// Every run of a gate, in order.
    ran: Vec<RanItem>,
    /// Gates that fail on the target alone.
    red: Vec<String>,
    /// Where the target is checked out.
    checkouts: Vec<CheckoutItem>,
    /// What was kept of branches and worktrees, and why.
    tidied: Vec<String>,
    /// Worktrees of what landed that were removed.
    removed: Vec<WorktreeRemovedAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct LandedItem {
    task: String,
    title: String,
    /// Who held it last.
    actor: Option<String>,
    branch: String,
    commit: String,
    /// Lines in conflict that were kept from both sides by `land.union`.
    conflict_lines: u64,
    /// What the merged result passed.
    gates: Vec<String>,
    /// With `--queue --check`: those of them that nobody has run on it.
    to_run: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct RanItem {
    gate: String,
    /// The tasks that have to pass it.
    tasks: Vec<String>,
    /// `result`: what the target would be with them; `target`: the target alone.
    on: String,
    /// `passed` or `failed`.
    verdict: String,
    exit: Option<i32>,
    timed_out: bool,
    duration_ms: i64,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct FoundItem {
    task: String,
    commit: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct RefusedItem {
    task: String,
    /// It was done and is open again, kept for its last actor.
    reopened: bool,
    error: Refusal,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct CheckoutItem {
    path: String,
    /// Why it was left behind; null: it has what landed.
    left: Option<String>,
}

/// A target whose branch lacks what landed, since it is checked out, or was.
#[derive(JsonSchema, Serialize)]
pub(crate) struct BehindLanded {
    target: String,
    /// Where its branch is checked out.
    checkouts: Vec<String>,
    /// Commits that landed and that the branch has not.
    behind: u64,
    /// Commits of the branch that what landed has not; null: there is no such branch any more.
    ahead: Option<u64>,
    /// Git's command that brings it forward.
    next: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct PullRequestAnswer {
    task: String,
    branch: String,
    target: String,
    remote: String,
    /// The address that the command wrote, if any.
    link: Option<String>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct RoundAnswer {
    #[serde(flatten)]
    round: RoundView,
    #[serde(flatten)]
    beside: Beside,
}
