//! The design's table, as events: which state each may follow, and which it leads to.

use serde_json::Value;

/// The state after an event. `dropped_from`: the state before the task was dropped.
pub(super) fn after(
    kind: &str,
    payload: &Value,
    before: &'static str,
    dropped_from: &'static str,
) -> &'static str {
    match kind {
        // Dropping circumvents neither an acceptance nor the limit on attempts.
        "task.reopened" if before == "dropped" && matches!(dropped_from, "proposed" | "failed") => {
            dropped_from
        }
        "task.created" if payload["state"] == "proposed" => "proposed",
        "task.created" | "task.accepted" | "task.unblocked" | "task.reopened" | "task.rejected"
        | "task.retried" | "task.reset" | "lease.released" | "lease.lapsed" | "lease.handed_off"
        | "lease.taken_over" | "lease.revoked" => "open",
        "lease.acquired" if payload["grant"]["reserve"] == true => "open",
        "lease.renewed" if payload["reserve"] == true => "open",
        "lease.acquired" | "lease.renewed" | "task.started" => "in_progress",
        "task.blocked" => "blocked",
        "task.submitted" => "review",
        "task.approved" | "task.done" => "done",
        "task.failed" => "failed",
        "task.dropped" => "dropped",
        _ => before,
    }
}

/// Whether an event may follow a state. After a lapse, swept or not, a holder may finish as from `in_progress`: the task is
/// `open` then.
pub(super) fn allows(kind: &str, before: &str) -> bool {
    let from: &[&str] = match kind {
        "task.created" => &["none"],
        "task.accepted" => &["proposed"],
        "task.unblocked" => &["blocked"],
        "task.reopened" => &["done", "dropped"],
        "task.rejected" | "task.approved" => &["review"],
        "task.retried" => &["failed"],
        "task.reset" => &["open", "in_progress", "blocked", "review", "failed", "done"],
        "lease.acquired" => &["open"],
        "lease.renewed" | "task.started" | "lease.released" | "lease.lapsed" | "lease.taken_over"
        | "lease.revoked" | "lease.handed_off" | "task.submitted" | "task.done" | "task.blocked" => {
            &["open", "in_progress"]
        }
        "task.failed" => &["open", "in_progress", "blocked", "review"],
        "task.dropped" => &["proposed", "open", "in_progress", "blocked", "review", "failed"],
        _ => return true,
    };
    from.contains(&before)
}
