//! What can be asked of the engine's door: every change there is.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::actor::{ActorName, InstanceId, Tier};
use crate::ids::{TaskRef, Version};
use crate::lease::{Mode, Process};
use crate::scope::Scope;
use crate::task::{Facts, Origin, Priority, TaskType};
use crate::text::Field;
use crate::transition::Verb;

/// One change, asked for by one caller. Serialized it is the request that an idempotency key stands for: without
/// what differs from one try to the next, such as how the task was spelled and which process asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    Add(NewTask),
    /// A whole plan, all or nothing. Its tasks may name one another.
    AddPlan(Vec<PlannedTask>),
    /// A change to one task. Without a reference: the one task that the caller holds.
    OnTask {
        #[serde(skip)]
        task: Option<TaskRef>,
        act: Act,
        force: Option<Force>,
    },
    /// Claim the best task that the caller may take.
    ClaimNext(Terms),
    /// Put a task, and everything downstream of it, back to open.
    Reset {
        #[serde(skip)]
        task: Option<TaskRef>,
        reason: String,
        force: Option<Force>,
    },
    /// Open a failed task for another attempt, and free what dead holders keep downstream.
    Retry {
        #[serde(skip)]
        task: Option<TaskRef>,
        message: Option<String>,
        force: Option<Force>,
    },
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
        /// The process group that it runs, which ends with it.
        group: Option<u32>,
    },
    /// May the caller, an agent, change these files now? What nobody reserved joins the latest of its tasks.
    Guard(Guard),
    /// What an agent's harness reports of a conversation.
    Presence(Presence),
    RecordSeal {
        root: String,
        streams: u64,
        previous: Option<String>,
    },
}

/// Files that an agent is about to change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Guard {
    /// From the repository's root.
    pub paths: Vec<String>,
    /// The process that a lease for ad-hoc work is bound to.
    #[serde(skip)]
    pub process: Option<Process>,
    #[serde(skip)]
    pub worktree: Option<String>,
    #[serde(skip)]
    pub branch: Option<String>,
    /// Whether the agent is told what is answered. Some harnesses only take a refusal at this moment.
    #[serde(skip)]
    pub is_heard: bool,
    /// Whether the answer needs the task only if it was opened for this: a hook says nothing else of it.
    #[serde(skip)]
    pub is_brief: bool,
}

/// Where a conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// It goes on: a sign of life.
    Here,
    /// Its turn is over, and somebody else's has begun: the TTL counts until it goes on.
    TurnOver,
    /// It has ended. What it only reserved is released, its ad-hoc work is done.
    Gone,
}

/// A task to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewTask {
    pub title: String,
    pub body: Option<String>,
    /// Without its links and its schedule, which are resolved first.
    pub facts: Facts,
    pub parent: Option<TaskLink>,
    pub deps: Vec<TaskLink>,
    pub relates: Vec<TaskLink>,
    pub not_before: Option<Schedule>,
    pub origin: Option<Origin>,
    pub propose: bool,
}

impl NewTask {
    /// A task of which nothing is said but what is to be done.
    pub fn titled(title: impl Into<String>) -> NewTask {
        NewTask {
            title: title.into(),
            body: None,
            facts: Facts::default(),
            parent: None,
            deps: Vec::new(),
            relates: Vec::new(),
            not_before: None,
            origin: None,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskLink {
    /// One that exists.
    Task(TaskRef),
    /// One of the same plan.
    Planned(String),
}

/// A change to one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    Edit(Edit),
    /// Let the task depend on others, or no longer.
    AddDeps {
        on: Vec<TaskRef>,
    },
    RemoveDeps {
        on: Vec<TaskRef>,
    },
    /// Reserve more paths with the lease, or fewer.
    AddScope {
        scope: Scope,
    },
    RemoveScope {
        scope: Scope,
    },
    /// Reserve files that are about to be changed, unless that was done.
    Touch {
        paths: Vec<String>,
    },
    Note {
        text: String,
    },
    Claim(Terms),
    Takeover(Terms),
    Renew {
        ttl_ms: Option<i64>,
        /// Something came of the work since the last sign of life, such as output of a supervised command.
        #[serde(skip)]
        progress: bool,
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
    /// Paths to reserve beside those that the task declares.
    pub scope: Scope,
    /// Share them with others that share them, too.
    pub shared: bool,
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
    pub parent: Option<Option<TaskRef>>,
    pub relate: Vec<TaskRef>,
    pub unrelate: Vec<TaskRef>,
    pub add_scope: Scope,
    pub remove_scope: Scope,
    pub mode: Option<Mode>,
    pub not_before: Option<Option<Schedule>>,
    pub max_attempts: Option<Option<u64>>,
    /// Refuse unless the task is still at this version.
    pub if_version: Option<Version>,
}

impl Act {
    /// Whether its answer carries a lease beside the task.
    pub fn gives_lease(&self) -> bool {
        matches!(
            self,
            Act::Claim(_)
                | Act::Takeover(_)
                | Act::Renew { .. }
                | Act::Handoff { .. }
                | Act::AddScope { .. }
                | Act::RemoveScope { .. }
                | Act::Touch { .. }
        )
    }
}

impl Command {
    /// Whether the holder gets on by it. Renewing, looking and arranging tasks is not getting on.
    pub fn is_progress(&self) -> bool {
        matches!(self, Command::OnTask { act: Act::Note { .. }, .. })
    }

    /// Whether the caller learns what is news to it from the answer. What it does not hear stays news.
    pub fn is_heard(&self) -> bool {
        match self {
            Command::Guard(guard) => guard.is_heard,
            Command::Presence(presence) => *presence == Presence::Here,
            Command::RegisterInstance { .. } => false,
            _ => true,
        }
    }

    /// The verb, as the command line spells it.
    pub fn verb(&self) -> &'static str {
        match self {
            Command::Add(_) => "add",
            Command::AddPlan(_) => "add --file",
            Command::Reset { .. } => "reset",
            Command::Retry { .. } => "retry",
            Command::OnTask { act, .. } => match act {
                Act::Edit(_) => "edit",
                Act::AddDeps { .. } => "dep add",
                Act::RemoveDeps { .. } => "dep rm",
                Act::AddScope { .. } => "scope add",
                Act::RemoveScope { .. } => "scope rm",
                Act::Touch { .. } => "touch",
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
            Command::Guard(_) => "hook",
            Command::Presence(_) => "hook",
            Command::RecordSeal { .. } => "ledger seal",
        }
    }
}
