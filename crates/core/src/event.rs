//! Events: the state follows from everything that ever happened, and from nothing else (P5).
//!
//! An event's `kind` is past-tense and dotted; its payload is plain integers and strings. Free text is never in the
//! payload: `texts` holds digests, and the text itself is stored next to the event and can be erased.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::actor::{ActorName, InstanceId, Tier};
use crate::commit::CommitId;
use crate::gate::Judgement;
use crate::ids::{Number, Prefix, Token, Uid, Version};
use crate::landing::{DepsMet, Intent, Landed, Obstruction};
use crate::lease::{Grant, LapseCause, LeaseEnd, Process};
use crate::rescue::{KeptFiles, LeftFile, RescueState};
use crate::scope::{Areas, Scope, Touched, WorktreeId};
use crate::seat::SeatName;
use crate::session::{Corrected, Usage};
use crate::stretch::Stretch;
use crate::task::{Facts, NoteKind, Origin, State, TaskBranch, is_default};
use crate::text::Field;
use crate::time::{ClockDomain, Tick};

/// What happened, with its payload. A record leaves out what is None, and what is missing is read as None.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "payload")]
pub enum Body {
    // The project's own stream.
    #[serde(rename = "project.created")]
    ProjectCreated { uid: Uid, prefix: Prefix },
    #[serde(rename = "actor.registered")]
    ActorRegistered { actor: ActorName, tier: Tier },
    #[serde(rename = "actor.aliased")]
    ActorAliased { actor: ActorName, alias: ActorName },
    #[serde(rename = "actor.tier_set")]
    ActorTierSet { actor: ActorName, tier: Tier },
    #[serde(rename = "ledger.sealed")]
    LedgerSealed { root: String, streams: u64, previous: Option<String> },

    /// What each actor worked in a month, as recorded until then. Anything recorded later shows as a correction.
    #[serde(rename = "timesheet.sealed")]
    TimesheetSealed {
        month: String,
        zone: String,
        since_ms: i64,
        until_ms: i64,
        /// Milliseconds.
        actors: BTreeMap<ActorName, i64>,
    },

    // A seat's stream. Its later events are those of a task's leases.
    #[serde(rename = "seat.created")]
    SeatCreated { number: Number, name: SeatName },

    // A task's stream.
    #[serde(rename = "task.created")]
    TaskCreated {
        number: Number,
        state: State,
        facts: Facts,
        origin: Option<Origin>,
        body: bool,
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        deps: BTreeSet<Uid>,
    },
    /// `body` without a text: the body was cleared.
    #[serde(rename = "task.edited")]
    TaskEdited { facts: Facts, title: bool, body: bool },
    /// From now on the task's work is committed to this branch, whoever holds it.
    #[serde(rename = "task.branched")]
    TaskBranched(TaskBranch),
    #[serde(rename = "task.accepted")]
    TaskAccepted {},
    #[serde(rename = "task.started")]
    TaskStarted {},
    #[serde(rename = "task.blocked")]
    TaskBlocked { lease: Option<LeaseEnd> },
    #[serde(rename = "task.unblocked")]
    TaskUnblocked {},
    #[serde(rename = "task.submitted")]
    TaskSubmitted { lease: LeaseEnd },
    #[serde(rename = "task.approved")]
    TaskApproved {
        /// The task's branch has still to land, and whether its dependents wait for that.
        awaits_landing: Option<DepsMet>,
    },
    #[serde(rename = "task.rejected")]
    TaskRejected { kept_for: Option<KeptFor> },
    #[serde(rename = "task.done")]
    TaskDone { lease: LeaseEnd, awaits_landing: Option<DepsMet> },
    #[serde(rename = "task.failed")]
    TaskFailed { lease: Option<LeaseEnd> },
    #[serde(rename = "task.dropped")]
    TaskDropped { lease: Option<LeaseEnd> },
    #[serde(rename = "task.reopened")]
    TaskReopened {},
    /// Everything downstream of a reset task is reset with it; each event names the first task's as its cause.
    #[serde(rename = "task.reset")]
    TaskReset { lease: Option<LeaseEnd> },
    #[serde(rename = "task.retried")]
    TaskRetried { attempt: u64 },
    #[serde(rename = "dep.added")]
    DepAdded { on: BTreeSet<Uid> },
    #[serde(rename = "dep.removed")]
    DepRemoved { on: BTreeSet<Uid> },
    #[serde(rename = "note.added")]
    NoteAdded {
        #[serde(default, skip_serializing_if = "is_default")]
        kind: NoteKind,
        link: Option<String>,
    },
    /// One event per line, so that each line can be erased by itself.
    #[serde(rename = "acceptance.added")]
    AcceptanceAdded {},
    /// Lines are counted from 1, in the order in which they were added.
    #[serde(rename = "acceptance.ticked")]
    AcceptanceTicked { line: u64 },
    #[serde(rename = "acceptance.unticked")]
    AcceptanceUnticked { line: u64 },
    #[serde(rename = "lease.acquired")]
    LeaseAcquired {
        grant: Grant,
        #[serde(default, skip_serializing_if = "Scope::is_empty")]
        scope: Scope,
        /// The holder's own clock, where the store's is a server's.
        own_clock: Option<Tick>,
        /// Which of the paths were named by an area.
        #[serde(default, skip_serializing_if = "Areas::is_empty")]
        areas: Areas,
        /// Where all of the paths were touched. Without it, all were declared.
        touched: Option<Touched>,
    },
    #[serde(rename = "scope.added")]
    ScopeAdded {
        scope: Scope,
        #[serde(default, skip_serializing_if = "Areas::is_empty")]
        areas: Areas,
        touched: Option<Touched>,
    },
    #[serde(rename = "scope.removed")]
    ScopeRemoved { scope: Scope },
    /// These files, which the lease had touched in this worktree, were changed. Recorded once per file.
    #[serde(rename = "scope.changed")]
    ScopeChanged { scope: Scope, worktree: Option<WorktreeId> },
    /// Another wanted these files of ad-hoc work whose turn was over, and git reported them unchanged or committed.
    #[serde(rename = "scope.yielded")]
    ScopeYielded { scope: Scope, worktree: WorktreeId },
    /// A holder came back after a lapse. Automatic signs of life are not events.
    #[serde(rename = "lease.renewed")]
    LeaseRenewed {
        tick_ms: i64,
        domain: ClockDomain,
        renewals: u64,
        deadline_in_ms: Option<i64>,
        reserve: bool,
        own_clock: Option<Tick>,
        /// What the lease is bound to from now on: the process in which its holder came back.
        process: Option<Process>,
    },
    /// From now on the lease's work is done in this worktree.
    #[serde(rename = "lease.attached")]
    LeaseAttached { worktree_id: Option<WorktreeId>, worktree: String, branch: Option<String> },
    /// The lease was lost to another; what its holder left uncommitted there must be kept.
    #[serde(rename = "rescue.due")]
    RescueDue { worktree_id: Option<WorktreeId>, worktree: String },
    /// What the lease's holder left uncommitted is kept.
    #[serde(rename = "rescue.kept")]
    RescueKept {
        kept: Vec<KeptFiles>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left_out: Vec<LeftFile>,
    },
    /// Nothing could be kept.
    #[serde(rename = "rescue.settled")]
    RescueSettled {
        outcome: RescueState,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left_out: Vec<LeftFile>,
    },
    /// A person dropped what was kept.
    #[serde(rename = "rescue.dropped")]
    RescueDropped { kept: Vec<KeptFiles> },
    #[serde(rename = "lease.released")]
    LeaseReleased { lease: LeaseEnd },
    #[serde(rename = "lease.lapsed")]
    LeaseLapsed { cause: LapseCause, lease: LeaseEnd },
    #[serde(rename = "lease.taken_over")]
    LeaseTakenOver { cause: LapseCause, lease: LeaseEnd },
    #[serde(rename = "lease.revoked")]
    LeaseRevoked { lease: LeaseEnd, link: Option<String> },
    #[serde(rename = "lease.handed_off")]
    LeaseHandedOff { kept_for: KeptFor, lease: Option<LeaseEnd> },
    /// What the session with the event's token used of a model, in addition to what was recorded before.
    #[serde(rename = "session.recorded")]
    SessionRecorded { usage: Usage },
    /// Recorded work of the session with the event's token does not count, or is another actor's.
    #[serde(rename = "session.corrected")]
    SessionCorrected {
        what: Corrected,
        /// The actor whose work it was until then.
        from: ActorName,
        to: Option<ActorName>,
        less: Vec<Stretch>,
    },
    /// A commit was made under the lease with the event's token.
    #[serde(rename = "commit.made")]
    CommitMade { commit: CommitId },
    #[serde(rename = "gate.passed")]
    GatePassed(Judgement),
    #[serde(rename = "gate.failed")]
    GateFailed(Judgement),
    /// The task's branch is about to become part of the target.
    #[serde(rename = "landing.intended")]
    LandingIntended(Intent),
    /// The branch did not land, and this intent can no longer land it.
    #[serde(rename = "landing.withdrawn")]
    LandingWithdrawn { commit: CommitId },
    /// The task's branch cannot land as it is. If the task was done, it was reopened and is kept for its last holder.
    #[serde(rename = "landing.failed")]
    LandingFailed {
        target: String,
        onto: CommitId,
        head: CommitId,
        why: Obstruction,
        kept_for: Option<KeptFor>,
    },
    /// The task's branch is part of the target.
    #[serde(rename = "task.landed")]
    TaskLanded(Landed),
    /// A person did what a rule forbids; the event that follows is what was done.
    #[serde(rename = "rule.overridden")]
    RuleOverridden { rule: String, link: Option<String> },
    #[serde(rename = "text.redacted")]
    TextRedacted { version: Version, fields: Vec<Field> },
}

/// For whom an open task is kept, as an event records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFor {
    pub actor: ActorName,
    pub until_wall_ms: i64,
    pub until_tick_ms: i64,
    pub domain: ClockDomain,
}

/// An event that was decided, before it has a place in its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub body: Body,
    /// The lease it concerns.
    pub token: Option<Token>,
    pub texts: Vec<(Field, String)>,
    /// Work under that lease that the event records.
    pub stretches: Vec<Stretch>,
    /// How long its lease waited for a person, as far as no earlier event recorded it.
    pub waited_ms: i64,
}

impl Draft {
    pub fn new(body: Body) -> Draft {
        Draft { body, token: None, texts: Vec::new(), stretches: Vec::new(), waited_ms: 0 }
    }

    pub fn token(mut self, token: Token) -> Draft {
        self.token = Some(token);
        self
    }

    pub fn text(mut self, field: Field, text: Option<String>) -> Draft {
        self.texts.extend(text.map(|text| (field, text)));
        self
    }
}

/// Stores each reason with one event only, so that erasing it there erases it everywhere. One reason may explain several
/// events of a request: an override, the lease that it revokes, the lease that follows. It is stored with the last of them, the
/// one that was requested; all events of a request name its first as their cause. `stored`: reasons that another task's event
/// already has, since one reason may reset many tasks.
pub fn store_reasons_once(drafts: &mut [Draft], stored: &mut BTreeSet<String>) {
    for draft in drafts.iter_mut().rev() {
        draft.texts.retain(|(field, text)| *field != Field::Reason || stored.insert(text.clone()));
    }
}

/// An event in its place. Its `seq` belongs to the store and is not part of the hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub uid: Uid,
    /// The stream: a task's or a seat's uid, or None for the project's own.
    pub task: Option<Uid>,
    pub version: Version,
    pub body: Body,
    pub actor: ActorName,
    pub instance: InstanceId,
    pub token: Option<Token>,
    pub at_ms: i64,
    /// The event that caused this one, if a command did not cause it directly.
    pub cause: Option<Uid>,
    /// The digest of each text that is stored with the event.
    pub texts: BTreeMap<Field, String>,
    /// Work under the event's lease that no earlier event recorded.
    pub stretches: Vec<Stretch>,
    /// How long its lease waited for a person, as far as no earlier event recorded it.
    pub waited_ms: i64,
    /// The hash of the stream's previous event; empty for the first.
    pub prev: String,
    pub hash: String,
}

/// The ways in which a task is moved on. What is said with one is for whoever continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovedBy {
    Accepted,
    Blocked,
    Unblocked,
    Submitted,
    Approved,
    Rejected,
    Done,
    Failed,
    Dropped,
    Reopened,
    Reset,
    Retried,
    Released,
    /// Nobody held it.
    Assigned,
    HandedOff,
    FailedLanding,
}

impl Body {
    /// The end of a lease, if the event is one.
    pub fn lease_end_mut(&mut self) -> Option<&mut LeaseEnd> {
        match self {
            Body::TaskSubmitted { lease }
            | Body::TaskDone { lease, .. }
            | Body::LeaseReleased { lease }
            | Body::LeaseLapsed { lease, .. }
            | Body::LeaseTakenOver { lease, .. }
            | Body::LeaseRevoked { lease, .. } => Some(lease),
            Body::TaskBlocked { lease }
            | Body::TaskFailed { lease }
            | Body::TaskDropped { lease }
            | Body::TaskReset { lease }
            | Body::LeaseHandedOff { lease, .. } => lease.as_mut(),
            _ => None,
        }
    }

    /// How the event moves its task on, if it does: to another state, or away from its holder without another taking it.
    pub fn moved_by(&self) -> Option<MovedBy> {
        Some(match self {
            Body::TaskAccepted {} => MovedBy::Accepted,
            Body::TaskBlocked { .. } => MovedBy::Blocked,
            Body::TaskUnblocked {} => MovedBy::Unblocked,
            Body::TaskSubmitted { .. } => MovedBy::Submitted,
            Body::TaskApproved { .. } => MovedBy::Approved,
            Body::TaskRejected { .. } => MovedBy::Rejected,
            Body::TaskDone { .. } => MovedBy::Done,
            Body::TaskFailed { .. } => MovedBy::Failed,
            Body::TaskDropped { .. } => MovedBy::Dropped,
            Body::TaskReopened {} => MovedBy::Reopened,
            Body::TaskReset { .. } => MovedBy::Reset,
            Body::TaskRetried { .. } => MovedBy::Retried,
            Body::LeaseReleased { .. } => MovedBy::Released,
            Body::LeaseHandedOff { lease: None, .. } => MovedBy::Assigned,
            Body::LeaseHandedOff { .. } => MovedBy::HandedOff,
            Body::LandingFailed { .. } => MovedBy::FailedLanding,
            _ => return None,
        })
    }

    /// The event's kind, such as `task.created`.
    pub fn kind(&self) -> String {
        let tagged = serde_json::to_value(self).unwrap_or_default();
        tagged["kind"].as_str().unwrap_or_default().to_owned()
    }
}
