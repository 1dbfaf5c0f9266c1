//! Why a command was refused, for people and programs.
//!
//! A refusal teaches the safe way: it names who holds the task, how long, and the safe next step. It never
//! prints the command that overrides it (P11).

use serde::{Deserialize, Serialize};

/// What went wrong, as programs read it. The exit code follows from it and is API too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Code {
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
    Tier,
    Limit,
    Unmet,
    NotYet,
    Cycle,
    Changed,
    Nothing,
    NoStore,
    Unavailable,
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
            | Code::Tier
            | Code::Limit
            | Code::Unmet
            | Code::NotYet
            | Code::Cycle
            | Code::Changed => 6,
            Code::Nothing => 7,
            Code::NoStore
            | Code::Unavailable
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

/// Who holds (or superseded) a task, as a refusal names them.
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
}

/// A command that was refused and changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{message}")]
pub struct Refusal {
    pub code: Code,
    pub message: String,
    /// The task's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The position of an event in the task's history, where one is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Box<HolderNote>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<i64>,
    /// Which path two scopes would both have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Box<Conflict>>,
    /// What an ambiguous reference may have meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// The safe next steps, the best first.
    #[serde(default)]
    pub next: Vec<String>,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal {
            code,
            message: message.into(),
            task: None,
            version: None,
            holder: None,
            expires_in_s: None,
            conflict: None,
            candidates: Vec::new(),
            next: Vec::new(),
        }
    }

    pub fn usage(message: impl Into<String>) -> Refusal {
        Refusal::new(Code::Usage, message)
    }

    pub fn task(mut self, id: impl Into<String>) -> Refusal {
        self.task = Some(id.into());
        self
    }

    pub fn next(mut self, step: impl Into<String>) -> Refusal {
        self.next.push(step.into());
        self
    }

    pub fn exit_code(&self) -> u8 {
        self.code.exit_code()
    }
}
