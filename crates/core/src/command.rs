//! What can be asked of the engine's door: every change there is.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::actor::{ActorName, InstanceId, Tier};
use crate::ids::{TaskRef, Version};
use crate::lease::Process;
use crate::task::{Facts, Origin, Priority, TaskType};
use crate::text::Field;
use crate::transition::Verb;

/// One change, asked for by one caller. Serialized it is the request that an idempotency key stands for: without
/// what differs from one try to the next, such as how the task was spelled and which process asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    Add(NewTask),
    /// A change to one task. Without a reference: the one task that the caller holds.
    OnTask {
        #[serde(skip)]
        task: Option<TaskRef>,
        act: Act,
        force: Option<Force>,
    },
    /// Claim the best task that the caller may take.
    ClaimNext(Terms),
    RegisterActor {
        actor: ActorName,
        tier: Option<Tier>,
    },
    SetTier {
        actor: ActorName,
        tier: Tier,
    },
    AddAlias {
        actor: ActorName,
        alias: ActorName,
    },
    /// Remember which process an instance of an actor is.
    RegisterInstance {
        actor: ActorName,
        instance: InstanceId,
        process: Process,
    },
    RecordSeal {
        root: String,
        streams: u64,
        previous: Option<String>,
    },
}

/// A task to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewTask {
    pub title: String,
    pub body: Option<String>,
    pub facts: Facts,
    pub origin: Option<Origin>,
    pub propose: bool,
}

/// A change to one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    Edit(Edit),
    Note {
        text: String,
    },
    Claim(Terms),
    Takeover(Terms),
    Renew {
        ttl_ms: Option<i64>,
    },
    Handoff {
        to: ActorName,
        reason: String,
    },
    /// A verb of the transition table that has no terms of its own.
    Move {
        verb: Verb,
        message: Option<String>,
    },
    Redact {
        version: Version,
        fields: Vec<Field>,
        reason: String,
    },
}

/// On which terms a lease is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Terms {
    /// None: the default for this caller. 0: no limit.
    pub ttl_ms: Option<i64>,
    #[serde(skip)]
    pub process: Option<Process>,
    pub reserve: bool,
    pub reason: Option<String>,
    #[serde(skip)]
    pub worktree: Option<String>,
    #[serde(skip)]
    pub branch: Option<String>,
}

/// A person's override: always with a reason, and with a link where the policy asks for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Force {
    pub reason: String,
    pub link: Option<String>,
}

/// Changes to a task's fields. What is None stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Edit {
    pub title: Option<String>,
    pub body: Option<String>,
    pub kind: Option<TaskType>,
    pub priority: Option<Priority>,
    pub required_tier: Option<Tier>,
    /// An inner None clears the field.
    pub area: Option<Option<String>>,
    pub iteration: Option<Option<String>>,
    pub owner: Option<Option<ActorName>>,
    pub add_tags: Vec<String>,
    pub remove_tags: Vec<String>,
    /// System to reference; None removes it.
    pub refs: BTreeMap<String, Option<String>>,
    /// Refuse unless the task is still at this version.
    pub if_version: Option<Version>,
}

impl Act {
    /// Whether its answer carries a lease beside the task.
    pub fn gives_lease(&self) -> bool {
        matches!(self, Act::Claim(_) | Act::Takeover(_) | Act::Renew { .. } | Act::Handoff { .. })
    }
}

impl Command {
    /// The verb, as the command line spells it.
    pub fn verb(&self) -> &'static str {
        match self {
            Command::Add(_) => "add",
            Command::OnTask { act, .. } => match act {
                Act::Edit(_) => "edit",
                Act::Note { .. } => "note",
                Act::Claim(_) => "claim",
                Act::Takeover(_) => "takeover",
                Act::Renew { .. } => "renew",
                Act::Handoff { .. } => "handoff",
                Act::Move { verb, .. } => verb.as_str(),
                Act::Redact { .. } => "redact",
            },
            Command::ClaimNext(_) => "claim --next",
            Command::RegisterActor { .. } => "actor register",
            Command::SetTier { .. } => "actor tier",
            Command::AddAlias { .. } => "actor alias",
            Command::RegisterInstance { .. } => "instance register",
            Command::RecordSeal { .. } => "ledger seal",
        }
    }
}
