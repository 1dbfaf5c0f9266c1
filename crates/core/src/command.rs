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

pub use files::{ChangedFiles, Committed, FileChange, Guard, Look, Presence, Runner};
pub use new_task::{Intake, NewTask, PlannedTask, Schedule, TaskLink};
pub use seat::{SeatAct, SeatTerms};

/// One change, requested by one caller. Its serialized form is what an idempotency key identifies, so it leaves out what
/// differs from one try to the next, such as the spelling of the task and the calling process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    Add(NewTask),
    /// Create or find the one task of an ask that came through a channel.
    Intake(Intake),
    /// A whole plan, all or nothing. Its tasks may name one another.
    AddPlan(Vec<PlannedTask>),
    /// Change one task. Without a reference: the one task that the caller holds.
    OnTask {
        #[serde(skip)]
        task: Option<TaskRef>,
        act: Act,
        force: Option<Force>,
    },
    /// Claim the best task that the caller may take.
    ClaimNext(Terms),
    /// Take, renew or release a seat.
    OnSeat {
        seat: SeatName,
        act: SeatAct,
        force: Option<Force>,
    },
    /// Run the command only if the caller holds the seat under this token, compared inside the same transaction (P2).
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
    /// Open a failed task for another attempt, and free tasks downstream whose leases have lapsed.
    Retry {
        #[serde(skip)]
        task: Option<TaskRef>,
        message: Option<String>,
        force: Option<Force>,
    },
    /// Undo the caller's own last change. Without a reference: to the task that it changed last.
    Undo {
        #[serde(skip)]
        task: Option<TaskRef>,
        /// The terms for claiming a lease that ended again.
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
    /// Record which process an instance of an actor is.
    RegisterInstance {
        actor: ActorName,
        instance: InstanceId,
        process: Process,
        /// The process group that it runs, which ends with it.
        group: Option<u32>,
    },
    /// Ask whether the caller, an agent, may change these files now. Files that nobody reserved join its latest task.
    Guard(Guard),
    /// Report what a look at the caller's worktree found changed.
    Look(Look),
    /// Report what the caller, an agent, used of models since its transcript was last read. It counts for the sessions that the
    /// caller had then.
    Used(Reading),
    /// Report that the caller has made a commit.
    Committed(Committed),
    /// Report the phase of a conversation, as the agent's harness sees it.
    Presence(Presence),
    /// Report that a tool of the caller, an agent, has changed these files. Also a sign of life.
    Changed(ChangedFiles),
    /// Record what each actor worked in a month.
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
    /// Make the task depend on others.
    AddDeps {
        on: Vec<TaskRef>,
    },
    RemoveDeps {
        on: Vec<TaskRef>,
    },
    /// Reserve more paths with the lease.
    AddScope {
        scope: Scope,
        /// Which of these were named by an area.
        areas: Areas,
    },
    RemoveScope {
        scope: Scope,
    },
    /// Reserve files that are about to be changed, unless they are reserved already.
    Touch {
        paths: Vec<String>,
        #[serde(skip)]
        touched: Touched,
        /// What else the change does to them.
        #[serde(skip)]
        extent: Extent,
    },
    /// Record that files which the lease touched were changed, each once.
    Change(ChangedFiles),
    /// Take files out of another's ad-hoc work whose turn is over.
    Yield(Yielding),
    /// Record the worktree in which the lease's work is done from now on.
    Attach(Attachment),
    Note {
        text: String,
        kind: NoteKind,
        /// Where a decision or a finding can be read.
        link: Option<String>,
    },
    /// Tick an acceptance line, counted from 1, or untick it.
    Tick {
        line: u64,
        undo: bool,
    },
    Claim(Terms),
    Takeover(Terms),
    Renew {
        ttl_ms: Option<i64>,
        /// There was progress since the last sign of life, such as output of a supervised command.
        #[serde(skip)]
        progress: bool,
    },
    Handoff {
        to: ActorName,
        reason: String,
    },
    /// Keep the task for an actor, whose first claim gets it. If the caller holds the task, this hands it off.
    Assign {
        to: ActorName,
        /// How long the task is kept. None: as the policy says.
        keep_ms: Option<i64>,
        reason: String,
    },
    /// Record the outcome of a rescue of what a lost lease's holder left uncommitted.
    Rescue {
        token: Token,
        rescued: Rescued,
    },
    /// Drop what was kept of a lease.
    DropRescue {
        token: Token,
        reason: String,
    },
    /// Record what the caller's session on the task used of a model.
    RecordUsage(Usage),
    /// Correct one of the task's sessions.
    Correct {
        token: Token,
        correction: Correction,
        reason: String,
    },
    /// A verb of the transition table that has no terms of its own.
    Move {
        verb: Verb,
        message: Option<String>,
        /// What git reports as uncommitted in the caller's worktree, if it was asked.
        #[serde(skip)]
        uncommitted: Option<Uncommitted>,
        /// The gates that the caller's worktree defines for this verb.
        #[serde(skip)]
        demand: Option<Demand>,
    },
    /// Record a gate's verdict.
    Judge(Judging),
    /// Begin to land, after everything was checked.
    Land(Checked),
    /// Record what became of the landing of this intended commit.
    SettleLanding {
        commit: CommitId,
        settled: Settled,
    },
    /// Record that the task's changes are in the target, however they got there.
    FoundLanded(Landed),
    /// Record why the task's branch cannot land as it is.
    FailLanding(Failure),
    /// Record a commit that was made under the lease.
    Commit(CommitId),
    Redact {
        version: Version,
        fields: Vec<Field>,
        reason: String,
    },
}

/// A gate's verdict, and the gate as it was defined where it was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judging {
    pub gate: Gate,
    pub verdict: Verdict,
    pub judgement: Judgement,
    /// What the judge says about it.
    pub message: Option<String>,
}

/// Clean files of ad-hoc work whose turn is over, and the lease as it was when git was asked about them. A holder that has
/// continued since then has renewed its lease, and keeps them.
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
    /// Set if that branch is the task's own from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<TaskBranch>,
}

/// The requested terms of a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Terms {
    /// None: the default for this caller. 0: no limit.
    pub ttl_ms: Option<i64>,
    #[serde(skip)]
    pub process: Option<Process>,
    pub reserve: bool,
    /// Paths to reserve besides those that the task declares.
    pub scope: Scope,
    /// Which of these were named by an area.
    #[serde(skip_serializing_if = "Areas::is_empty")]
    pub scope_areas: Areas,
    /// Set if `scope` was not declared but is files about to be changed.
    #[serde(skip)]
    pub touched: Option<Touched>,
    /// Share the paths with other leases that share them too.
    pub shared: bool,
    /// What the holder may not do, besides what the task forbids.
    pub constraints: Constraints,
    pub reason: Option<String>,
    #[serde(skip)]
    pub worktree: Option<String>,
    #[serde(skip)]
    pub worktree_id: Option<WorktreeId>,
    #[serde(skip)]
    pub branch: Option<String>,
    /// The gates that must be passed before a claim.
    #[serde(skip)]
    pub demand: Option<Demand>,
}

/// A person's override: always with a reason, and with a link if the policy requires one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Force {
    pub reason: String,
    pub link: Option<String>,
}

/// Changes to a task's fields. A field that is None stays as it is.
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
    /// Each replaces the task's constraint of its kind.
    pub constraints: Constraints,
    pub lift: BTreeSet<ConstraintKind>,
    pub add_gates: BTreeSet<GateKey>,
    pub remove_gates: BTreeSet<GateKey>,
    /// The gates that the project defines: a caller that may not take a gate off a task may not edit it away either.
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
    /// A verb of the table, before anybody has looked at the caller's worktree.
    pub fn moved(verb: Verb, message: Option<String>) -> Act {
        Act::Move { verb, message, uncommitted: None, demand: None }
    }

    /// A progress note.
    pub fn note(text: impl Into<String>) -> Act {
        Act::Note { text: text.into(), kind: NoteKind::Progress, link: None }
    }

    /// Whether its answer includes a lease besides the task.
    pub fn gives_lease(&self) -> bool {
        matches!(
            self,
            Act::Claim(_)
                | Act::Takeover(_)
                | Act::Renew { .. }
                | Act::Handoff { .. }
                | Act::Assign { .. }
                | Act::AddScope { .. }
                | Act::RemoveScope { .. }
                | Act::Touch { .. }
                | Act::Attach(_)
        )
    }
}

impl Command {
    /// The command without the seat that the caller must hold for it.
    pub fn itself(&self) -> &Command {
        match self {
            Command::Seated { command, .. } => command.itself(),
            command => command,
        }
    }

    /// Whether it is progress of the holder's work. Renewing, looking and arranging tasks are not.
    pub fn is_progress(&self) -> bool {
        matches!(self.itself(), Command::OnTask { act: Act::Note { .. } | Act::Tick { .. }, .. })
    }

    /// Whether the caller reads the notices in the answer. Notices that it does not read stay pending.
    pub fn is_heard(&self) -> bool {
        match self.itself() {
            Command::Guard(guard) => guard.is_heard,
            Command::Look(look) => look.joining.is_heard,
            Command::Presence(presence) => matches!(presence, Presence::Here | Presence::TurnBegun),
            Command::Used(_) => false,
            // These accompany the caller's actual request, whose answer it reads.
            Command::RegisterInstance { .. }
            | Command::OnTask {
                act: Act::Yield(_) | Act::Rescue { .. } | Act::SettleLanding { .. }, ..
            } => false,
            _ => true,
        }
    }

    /// The name of the command, as it is stored with a request that has a key.
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
