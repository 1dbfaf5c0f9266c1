//! Tasks to be created.

use serde::Serialize;

use crate::ids::TaskRef;
use crate::task::{Facts, Origin};

/// A task to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NewTask {
    pub title: String,
    pub body: Option<String>,
    /// Without its links and its schedule, which are resolved first.
    pub facts: Facts,
    /// What must be true before it counts as accepted, one line each.
    pub acceptance: Vec<String>,
    pub parent: Option<TaskLink>,
    pub deps: Vec<TaskLink>,
    pub relates: Vec<TaskLink>,
    pub not_before: Option<Schedule>,
    pub origin: Option<Origin>,
    /// Who asked for it, in the channel's words.
    pub author: Option<String>,
    pub propose: bool,
}

/// An ask from outside. Its task has an origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Intake {
    pub new: NewTask,
    /// If the task exists, record what has changed in the channel since.
    pub refresh: bool,
    /// It only replies to the ask that its origin names, as a reply to a mail does, and does not repeat that ask's text.
    pub is_reply: bool,
}

impl NewTask {
    /// A task with a title and nothing else.
    pub fn titled(title: impl Into<String>) -> NewTask {
        NewTask { title: title.into(), ..NewTask::default() }
    }
}

/// When a task becomes ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// At this wall time.
    At { ms: i64 },
    /// This long after the request.
    In { ms: i64 },
}

impl Schedule {
    pub fn wall_ms(self, now_ms: i64) -> i64 {
        match self {
            Schedule::At { ms } => ms,
            Schedule::In { ms } => now_ms.saturating_add(ms),
        }
    }
}

/// A task of a plan, and the name by which the plan's other tasks refer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedTask {
    pub name: Option<String>,
    pub task: NewTask,
}

/// Another task that a new one refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskLink {
    /// One that exists.
    Task(TaskRef),
    /// One of the same plan.
    Planned(String),
}
