//! Tasks to be created.

use serde::Serialize;

use crate::ids::TaskRef;
use crate::task::{Facts, Origin};

/// A task to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewTask {
    pub title: String,
    pub body: Option<String>,
    /// Without its links and its schedule, which are resolved first.
    pub facts: Facts,
    /// What must be true before it counts as accepted, a line each.
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
    /// Record what the channel says differently by now, if the task is there.
    pub refresh: bool,
    /// It only answers the ask that its origin names, as a reply to a mail does: what that one says is not in it.
    pub is_reply: bool,
}

impl NewTask {
    /// A task of which nothing is said but what is to be done.
    pub fn titled(title: impl Into<String>) -> NewTask {
        NewTask {
            title: title.into(),
            body: None,
            facts: Facts::default(),
            acceptance: Vec::new(),
            parent: None,
            deps: Vec::new(),
            relates: Vec::new(),
            not_before: None,
            origin: None,
            author: None,
            propose: false,
        }
    }
}

/// When a task becomes ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// At this wall time.
    At { ms: i64 },
    /// So long after the request.
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

/// A task of a plan, and the name by which others of the plan speak of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedTask {
    pub name: Option<String>,
    pub task: NewTask,
}

/// Another task, as a new one names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskLink {
    /// One that exists.
    Task(TaskRef),
    /// One of the same plan.
    Planned(String),
}
