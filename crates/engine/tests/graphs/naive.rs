//! The naive look: tasks as anybody sees them.

use super::*;

/// Every task as anybody sees it, by its id.
pub(super) type Tasks = BTreeMap<String, TaskView>;

pub(super) fn is_finished(task: &TaskView) -> bool {
    matches!(task.state, State::Done | State::Dropped)
}

pub(super) fn is_live(task: &TaskView) -> bool {
    task.lease.as_ref().is_some_and(|lease| lease.live)
}

pub(super) fn unmet(tasks: &Tasks, id: &str) -> u64 {
    tasks[id].deps.iter().filter(|on| tasks[*on].state != State::Done).count() as u64
}

pub(super) fn open_children(tasks: &Tasks, id: &str) -> u64 {
    tasks.values().filter(|task| task.parent.as_deref() == Some(id) && !is_finished(task)).count() as u64
}

pub(super) fn open_dependents(tasks: &Tasks, id: &str) -> u64 {
    tasks.values().filter(|task| task.deps.iter().any(|on| on == id) && !is_finished(task)).count() as u64
}

/// Everything downstream of a task: its dependents, their dependents and so on.
pub(super) fn downstream(tasks: &Tasks, root: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::from([root.to_owned()]);
    loop {
        let more: Vec<String> = tasks
            .values()
            .filter(|task| !found.contains(&task.id) && task.deps.iter().any(|on| found.contains(on)))
            .map(|task| task.id.clone())
            .collect();
        if more.is_empty() {
            found.remove(root);
            return found;
        }
        found.extend(more);
    }
}

/// Whether some task waits for itself, through dependencies and parts: remove what waits for nothing, again
/// and again.
pub(super) fn has_circle(tasks: &Tasks) -> bool {
    let mut left: BTreeSet<&str> = tasks.keys().map(String::as_str).collect();
    loop {
        let waits = |id: &&str| {
            tasks[*id].deps.iter().any(|on| left.contains(on.as_str()))
                || left.iter().any(|child| tasks[*child].parent.as_deref() == Some(*id))
        };
        let free: Vec<&str> = left.iter().copied().filter(|id| !waits(id)).collect();
        if free.is_empty() {
            return !left.is_empty();
        }
        left.retain(|id| !free.contains(id));
    }
}
