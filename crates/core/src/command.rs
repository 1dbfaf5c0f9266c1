//! Every change that can be requested of the engine.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::actor::{ActorName, InstanceId, Tier};
use crate::commit::{CommitId, Extent, Uncommitted};
use crate::constraint::{ConstraintKind, Constraints};
use crate::gate::{Demand, Gate, GateKey, Judgement, Verdict};
use crate::ids::{TaskRef, Token, Version};
use crate::landing::{Checked, Failure, Landed, Settled};
use crate::lease::{Mode, Process};
use crate::rescue::Rescued;
use crate::scope::{Areas, Scope, Touched, WorktreeId};
use crate::seat::SeatName;
use crate::session::{Correction, Reading, Usage};
use crate::task::{NoteKind, Priority, TaskBranch, TaskType};
use crate::text::Field;
use crate::transition::Verb;

mod files;
mod new_task;
mod seat;
mod spelling;

pub use files::{ChangedFiles, Committed, FileChange, Guard, Look, Party, Presence};
pub use new_task::{Intake, NewTask, PlannedTask, Schedule, TaskLink};
pub use seat::{SeatAct, SeatTerms};

/// One change, requested by one caller. Serialized it is the request that an idempotency key identifies: without
/// what differs from one try to the next, such as how the task was spelled and which process asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    Add(NewTask),
    /// An ask that came by some channel: the one task of its origin, created or found.
    Intake(Intake),
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
    /// Taking, renewing or giving up a seat.
    OnSeat {
        seat: SeatName,
        act: SeatAct,
        force: Option<Force>,
    },
    /// What follows is done only if the caller holds the seat under this token, compared inside the same transaction (P2).
    Seated {
        seat: SeatName,
        token: Token,
        command: Box<Command>,
    },
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
    /// Take the caller's own last change back. Without a reference: to the task that it changed last.
    Undo {
        #[serde(skip)]
        task: Option<TaskRef>,
        /// On which terms a lease that ended is asked for again.
        terms: Terms,
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
    /// What a look at the caller's worktree found changed.
    Look(Look),
    /// What the caller, an agent, used of models since its transcript was last read: it counts for the sessions that it had then.
    Used(Reading),
    /// The caller has made a commit.
    Committed(Committed),
    /// What an agent's harness reports of a conversation.
    Presence(Presence),
    /// A tool of the caller's, an agent, has changed these files. A sign of life, too.
    Changed(ChangedFiles),
    /// Keep what each actor has worked in a month.
    SealTimesheet {
        month: String,
        zone: String,
        /// Where the month begins and ends in that zone.
        since_ms: i64,
        until_ms: i64,
    },
    RecordSeal {
        root: String,
        streams: u64,
        previous: Option<String>,
    },
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
        /// Which of these were named by an area.
        areas: Areas,
    },
    RemoveScope {
        scope: Scope,
    },
    /// Reserve files that are about to be changed, unless that was done.
    Touch {
        paths: Vec<String>,
        #[serde(skip)]
        touched: Touched,
        /// What else the change does to them.
        #[serde(skip)]
        extent: Extent,
    },
    /// Say that files which the lease touched were changed, unless that was said.
    Change(ChangedFiles),
    /// Take files out of another's ad-hoc work whose turn is over.
    Yield(Yielding),
    /// Say in which worktree the lease's work is done from now on.
    Attach(Attachment),
    Note {
        text: String,
        kind: NoteKind,
        /// Where a decision or a finding can be read.
        link: Option<String>,
    },
    /// Say that an acceptance line, counted from 1, is true; or no longer.
    Tick {
        line: u64,
        undo: bool,
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
    /// Keep the task for somebody, who has it with its first claim; whoever holds it hands it off.
    Assign {
        to: ActorName,
        /// How long it is kept. None: as the policy says.
        keep_ms: Option<i64>,
        reason: String,
    },
    /// Say what came of keeping what a lost lease's holder left uncommitted.
    Rescue {
        token: Token,
        rescued: Rescued,
    },
    /// Let what was kept of a lease go.
    DropRescue {
        token: Token,
        reason: String,
    },
    /// Say what the caller's session on the task used of a model.
    RecordUsage(Usage),
    /// Say what is wrong with one of the task's sessions.
    Correct {
        token: Token,
        correction: Correction,
        reason: String,
    },
    /// A verb of the transition table that has no terms of its own.
    Move {
        verb: Verb,
        message: Option<String>,
        /// What git calls uncommitted where it is said, if that was looked at.
        #[serde(skip)]
        uncommitted: Option<Uncommitted>,
        /// The gates that are asked for where it is said.
        #[serde(skip)]
        demand: Option<Demand>,
    },
    /// Say what a gate came to.
    Judge(Judging),
    /// Begin to land, after everything was checked.
    Land(Checked),
    /// Say what became of the landing that was begun: of this intended commit.
    SettleLanding {
        commit: CommitId,
        settled: Settled,
    },
    /// Say that the task's changes are in the target, by whatever way.
    FoundLanded(Landed),
    /// Say why its branch cannot land as it is.
    FailLanding(Failure),
    /// Say that a commit was made under the lease.
    Commit(CommitId),
    Redact {
        version: Version,
        fields: Vec<Field>,
        reason: String,
    },
}

/// What a gate came to, and the gate as it is defined where that was found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judging {
    pub gate: Gate,
    pub verdict: Verdict,
    pub judgement: Judgement,
    /// What whoever judged it says.
    pub message: Option<String>,
}

/// Files of ad-hoc work whose turn is over, and the lease as it was when git was asked about them: named here, git has called
/// them clean since. Whoever goes on meanwhile has renewed its lease, and keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Yielding {
    pub token: Token,
    pub renewals: u64,
    pub worktree: WorktreeId,
    /// From the repository's root.
    pub paths: Vec<String>,
}

/// A worktree, and what is checked out there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attachment {
    pub id: Option<WorktreeId>,
    /// For people.
    pub path: String,
    pub branch: Option<String>,
    /// That branch is the task's own from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<TaskBranch>,
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
    /// Which of these were named by an area.
    #[serde(skip_serializing_if = "Areas::is_empty")]
    pub scope_areas: Areas,
    /// They were not declared: these are files about to be changed.
    #[serde(skip)]
    pub touched: Option<Touched>,
    /// Share them with others that share them, too.
    pub shared: bool,
    /// What the holder may not do, beside what the task forbids.
    pub constraints: Constraints,
    pub reason: Option<String>,
    #[serde(skip)]
    pub worktree: Option<String>,
    #[serde(skip)]
    pub worktree_id: Option<WorktreeId>,
    #[serde(skip)]
    pub branch: Option<String>,
    /// The gates that are asked for before a claim.
    #[serde(skip)]
    pub demand: Option<Demand>,
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
    /// An inner None clears it.
    pub body: Option<Option<String>>,
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
    /// An inner None clears it.
    pub link: Option<Option<String>>,
    pub parent: Option<Option<TaskRef>>,
    pub relate: Vec<TaskRef>,
    pub unrelate: Vec<TaskRef>,
    pub add_scope: Scope,
    /// Which of these were named by an area.
    #[serde(skip_serializing_if = "Areas::is_empty")]
    pub add_scope_areas: Areas,
    pub remove_scope: Scope,
    pub mode: Option<Mode>,
    /// Each instead of what there is of its kind.
    pub constraints: Constraints,
    pub lift: BTreeSet<ConstraintKind>,
    pub add_gates: BTreeSet<GateKey>,
    pub remove_gates: BTreeSet<GateKey>,
    /// The gates that the project defines: whoever may take none off a task may not edit one away either.
    #[serde(skip)]
    pub defined: Vec<Gate>,
    /// Lines to add.
    pub acceptance: Vec<String>,
    pub not_before: Option<Option<Schedule>>,
    pub max_attempts: Option<Option<u64>>,
    /// Refuse unless the task is still at this version.
    pub if_version: Option<Version>,
}

impl Act {
    /// A note on how it goes.
    pub fn note(text: impl Into<String>) -> Act {
        Act::Note { text: text.into(), kind: NoteKind::Progress, link: None }
    }

    /// Whether its answer carries a lease beside the task.
    pub fn gives_lease(&self) -> bool {
        match self {
            Act::Claim(_)
            | Act::Takeover(_)
            | Act::Renew { .. }
            | Act::Handoff { .. }
            | Act::Assign { .. }
            | Act::AddScope { .. }
            | Act::RemoveScope { .. }
            | Act::Touch { .. }
            | Act::Attach(_) => true,
            Act::Edit(_)
            | Act::AddDeps { .. }
            | Act::RemoveDeps { .. }
            | Act::Change(_)
            | Act::Yield(_)
            | Act::Rescue { .. }
            | Act::DropRescue { .. }
            | Act::Note { .. }
            | Act::Tick { .. }
            | Act::Move { .. }
            | Act::RecordUsage(_)
            | Act::Commit(_)
            | Act::Judge(_)
            | Act::Land(_)
            | Act::SettleLanding { .. }
            | Act::FoundLanded(_)
            | Act::FailLanding(_)
            | Act::Correct { .. }
            | Act::Redact { .. } => false,
        }
    }
}

impl Command {
    /// What is done, whatever the caller has to hold for it.
    pub fn itself(&self) -> &Command {
        match self {
            Command::Seated { command, .. } => command.itself(),
            command => command,
        }
    }

    /// Whether the holder gets on by it. Renewing, looking and arranging tasks is not getting on.
    pub fn is_progress(&self) -> bool {
        matches!(self.itself(), Command::OnTask { act: Act::Note { .. } | Act::Tick { .. }, .. })
    }

    /// Whether the caller learns what is news to it from the answer. What it does not hear stays news.
    pub fn is_heard(&self) -> bool {
        match self.itself() {
            Command::Guard(guard) => guard.is_heard,
            Command::Look(look) => look.joining.is_heard,
            Command::Presence(presence) => matches!(presence, Presence::Here | Presence::TurnBegun),
            Command::Used(_) => false,
            // These come beside what the caller asked for, whose answer it hears.
            Command::RegisterInstance { .. }
            | Command::OnTask {
                act: Act::Yield(_) | Act::Rescue { .. } | Act::SettleLanding { .. }, ..
            } => false,
            _ => true,
        }
    }

    /// What the command does, as it is kept with a request that has a key.
    pub fn verb(&self) -> &'static str {
        match self {
            Command::Add(_) => "add",
            Command::Intake(_) => "intake",
            Command::AddPlan(_) => "add_plan",
            Command::Reset { .. } => "reset",
            Command::Retry { .. } => "retry",
            Command::Undo { .. } => "undo",
            Command::OnTask { act, .. } => match act {
                Act::Edit(_) => "edit",
                Act::AddDeps { .. } => "add_deps",
                Act::RemoveDeps { .. } => "remove_deps",
                Act::AddScope { .. } => "add_scope",
                Act::RemoveScope { .. } => "remove_scope",
                Act::Touch { .. } => "touch",
                Act::Change(_) => "change",
                Act::Yield(_) => "yield",
                Act::Rescue { .. } => "rescue",
                Act::DropRescue { .. } => "drop_rescue",
                Act::Attach(_) => "attach",
                Act::Note { .. } => "note",
                Act::Tick { undo: false, .. } => "tick",
                Act::Tick { undo: true, .. } => "untick",
                Act::Claim(_) => "claim",
                Act::Takeover(_) => "takeover",
                Act::Renew { .. } => "renew",
                Act::Handoff { .. } => "handoff",
                Act::Assign { .. } => "assign",
                Act::Move { verb, .. } => verb.as_str(),
                Act::RecordUsage(_) => "record_usage",
                Act::Correct { .. } => "correct",
                Act::Commit(_) => "commit",
                Act::Judge(_) => "judge",
                Act::Land(_) => "land",
                Act::SettleLanding { .. } => "settle_landing",
                Act::FoundLanded(_) => "found_landed",
                Act::FailLanding(_) => "fail_landing",
                Act::Redact { .. } => "redact",
            },
            Command::ClaimNext(_) => "claim_next",
            Command::OnSeat { act, .. } => match act {
                SeatAct::Take(_) => "take_seat",
                SeatAct::Takeover(_) => "take_over_seat",
                SeatAct::Renew { .. } => "renew_seat",
                SeatAct::Release => "release_seat",
                SeatAct::Redact { .. } => "redact_seat",
            },
            Command::Seated { command, .. } => command.verb(),
            Command::RegisterActor { .. } => "register_actor",
            Command::SetTier { .. } => "set_tier",
            Command::AddAlias { .. } => "add_alias",
            Command::RegisterInstance { .. } => "register_instance",
            Command::Guard(_) => "guard",
            Command::Look(_) => "look",
            Command::Used(_) => "used",
            Command::Committed(_) => "committed",
            Command::Presence(_) => "presence",
            Command::Changed(_) => "changed",
            Command::SealTimesheet { .. } => "seal_timesheet",
            Command::RecordSeal { .. } => "record_seal",
        }
    }
}
