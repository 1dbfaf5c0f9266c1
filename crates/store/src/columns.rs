//! The columns of the derived tables, one list a table: for reading, writing and rebuilding, in every store.

pub(crate) const TASK_COLUMNS: &str = "number, uid, uid_reversed, version, head, state, type, priority, \
    required_tier, area, iteration, owner, tags, refs, title_version, body_version, origin, created_at_ms, \
    created_by, updated_at_ms, token, leased, opened_token, kept_actor, kept_wall_ms, kept_tick_ms, kept_domain, \
    kept_version, submitter, parent, relates, not_before_ms, max_attempts, scope, mode, ad_hoc, attempts, fenced_token, \
    met, finished, unmet, open_children, open_dependents";

/// What never changes in a task's row: number, uid, origin and how it was created.
const TASK_CONSTANTS: [&str; 6] = ["number", "uid", "uid_reversed", "origin", "created_at_ms", "created_by"];

/// What most events change. SQLite writes anew each index that a changed column *might* be in, and to prepare a column
/// costs more than to write it: so none that is not needed.
const TASK_MOVES: [&str; 15] = [
    "version",
    "head",
    "state",
    "updated_at_ms",
    "token",
    "leased",
    "opened_token",
    "kept_actor",
    "kept_wall_ms",
    "kept_tick_ms",
    "kept_domain",
    "kept_version",
    "submitter",
    "attempts",
    "fenced_token",
];

/// The last columns are the counts of its neighbours, which only change relatively: no update has them.
pub(crate) const TASK_COUNTS: usize = 3;

/// Before them is what follows from whether the task is finished, which no move changes.
pub(crate) const TASK_ENDS: usize = 2;

/// What an event may change in a task's row.
pub(crate) fn changes(column: &str) -> bool {
    !TASK_CONSTANTS.contains(&column)
        && TASK_COLUMNS.rsplit(", ").take(TASK_COUNTS).all(|count| count != column)
}

/// What an event changes that neither finishes the task nor edits what is said about it.
pub(crate) fn moves(column: &str) -> bool {
    TASK_MOVES.contains(&column)
}

pub(crate) const LEASE_COLUMNS: &str = "task, token, actor, instance, tier, acquired_at_ms, tick_ms, domain, \
    ttl_ms, max_hold_ms, process, worktree, branch, mode, reserve, handoff_version, version, active_wall_ms, \
    active_tick_ms, active_domain, active_before_s, last_wall_ms, last_tick_ms, last_domain, \
    progress_wall_ms, progress_tick_ms, progress_domain, renewals, \
    deadline_wall_ms, deadline_tick_ms, deadline_domain, resting, ended_how, ended_at_ms, ended_version, ended_active_s";

pub(crate) const EVENT_COLUMNS: &str =
    "seq, uid, stream, version, kind, actor, instance, token, at_ms, cause, payload, prev, hash";
