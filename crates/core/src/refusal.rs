//! Why a command was refused: data until an interface words it.
//!
//! A refusal teaches the safe way (P11): its facts say who holds the task and for how long, its [`Step`]s what to do
//! next. Its message is one sentence about the facts. None of this names a command, an option, a tool or a variable: the
//! command line, MCP and agents' hooks each word the steps themselves ([`Refusal::worded`]). How a person may [`Override`] it
//! is a separate fact, set only for people.

mod step;

pub use step::{CallerKind, Forced, OnSeat, Override, Reader, Step};

use serde::{Deserialize, Serialize};

use crate::command::Yielding;
use crate::ids::Uid;

/// What went wrong, as programs read it. The exit code follows from it and is API too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Code {
    #[default]
    Unexpected,
    Usage,
    Identity,
    Ambiguous,
    KeyReused,
    NotFound,
    Held,
    Kept,
    Scope,
    Fenced,
    NotAllowed,
    PeopleOnly,
    Unconfirmed,
    Tier,
    Limit,
    Constraint,
    Uncommitted,
    Gate,
    Conflict,
    Unmet,
    NotYet,
    Cycle,
    Changed,
    Unapproved,
    Nothing,
    NoStore,
    Foreign,
    Unavailable,
    NotKnown,
    Busy,
    ReadOnly,
    DiskFull,
    NewerSchema,
    UnsafeFilesystem,
    Damaged,
    Tampered,
}

impl Code {
    /// The process's exit code. 0 is success and 1 the unexpected; each other number is one meaning.
    pub fn exit_code(self) -> u8 {
        match self {
            Code::Unexpected => 1,
            Code::Usage | Code::Identity | Code::Ambiguous | Code::KeyReused => 2,
            Code::NotFound => 3,
            Code::Held | Code::Kept | Code::Scope => 4,
            Code::Fenced => 5,
            Code::NotAllowed
            | Code::PeopleOnly
            | Code::Unconfirmed
            | Code::Tier
            | Code::Limit
            | Code::Constraint
            | Code::Uncommitted
            | Code::Gate
            | Code::Conflict
            | Code::Unmet
            | Code::NotYet
            | Code::Cycle
            | Code::Changed
            | Code::Unapproved => 6,
            Code::Nothing => 7,
            Code::NoStore
            | Code::Foreign
            | Code::Unavailable
            | Code::NotKnown
            | Code::Busy
            | Code::ReadOnly
            | Code::DiskFull
            | Code::NewerSchema
            | Code::UnsafeFilesystem
            | Code::Damaged
            | Code::Tampered => 8,
        }
    }
}

/// Who holds (or superseded) a task or a seat, as a refusal names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HolderNote {
    pub actor: String,
    pub instance: String,
    pub token: u64,
    pub live: bool,
    pub acquired_at: String,
    /// Seconds since the lease was granted.
    pub held_s: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// Proof that two scopes collide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conflict {
    /// The task that reserves the path.
    pub task: String,
    /// A path that both match.
    pub path: String,
    pub yours: String,
    pub theirs: String,
    /// The area that the path is in, if one of the two was reserved by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub area: Option<String>,
}

/// A command that was refused and changed nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{message}")]
pub struct Refusal {
    pub code: Code,
    pub message: String,
    /// The task's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The seat's name, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seat: Option<String>,
    /// The position of an event in the task's history, where one is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Box<HolderNote>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<i64>,
    /// Which path two scopes would both have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Box<Conflict>>,
    /// What an ambiguous reference may have meant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// The safe next steps, the best first.
    #[serde(skip)]
    pub next: Vec<Step>,
    /// How the caller, a person, could override it.
    #[serde(skip)]
    pub overridable: Option<Box<Override>>,
    /// Set if only these files of ad-hoc work whose turn is over are in the way. They are yielded if git reports them clean.
    #[serde(skip)]
    pub resting: Vec<Resting>,
}

/// Files of one task that may be yielded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resting {
    pub task: Uid,
    /// As people say it.
    pub id: String,
    pub files: Yielding,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), ..Refusal::default() }
    }

    pub fn usage(message: impl Into<String>) -> Refusal {
        Refusal::new(Code::Usage, message)
    }

    pub fn task(mut self, id: impl Into<String>) -> Refusal {
        self.task = Some(id.into());
        self
    }

    pub fn next(mut self, step: Step) -> Refusal {
        self.next.push(step);
        self
    }

    pub fn exit_code(&self) -> u8 {
        self.code.exit_code()
    }

    /// The refusal in an interface's words. `say` returns None for a step that cannot be taken there.
    pub fn worded(&self, say: impl Fn(&Step) -> Option<String>) -> RefusalView {
        let next = self.next.iter().filter_map(say).collect();
        RefusalView { refusal: self.clone(), next, override_: None }
    }
}

/// A refusal as programs read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Refusal"))]
pub struct RefusalView {
    #[serde(flatten)]
    pub refusal: Refusal,
    /// The safe next steps, the best first.
    pub next: Vec<String>,
    /// How a person may override it. Never there for an agent.
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    pub override_: Option<String>,
}
