//! Events: everything that ever happened, and nothing else, makes the state (P5).
//!
//! An event's `kind` is past-tense and dotted, its payload plain integers and strings. Free text is never in the
//! payload: `texts` holds digests, the words lie beside the event and can be erased.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::actor::{ActorName, InstanceId, Tier};
use crate::ids::{Number, Prefix, Token, Uid, Version};
use crate::lease::{Grant, LapseCause, LeaseEnd};
use crate::scope::Scope;
use crate::task::{Facts, Origin, State};
use crate::text::Field;
use crate::time::ClockDomain;

/// What happened, with its payload.
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
    #[serde(rename = "task.edited")]
    TaskEdited { facts: Facts, title: bool, body: bool },
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
    TaskApproved {},
    #[serde(rename = "task.rejected")]
    TaskRejected { kept_for: Option<KeptFor> },
    #[serde(rename = "task.done")]
    TaskDone { lease: LeaseEnd },
    #[serde(rename = "task.failed")]
    TaskFailed { lease: Option<LeaseEnd> },
    #[serde(rename = "task.dropped")]
    TaskDropped { lease: Option<LeaseEnd> },
    #[serde(rename = "task.reopened")]
    TaskReopened {},
    /// Everything downstream of a reset is put back with it; each names the first one's event as its cause.
    #[serde(rename = "task.reset")]
    TaskReset { lease: Option<LeaseEnd> },
    #[serde(rename = "task.retried")]
    TaskRetried { attempt: u64 },
    #[serde(rename = "dep.added")]
    DepAdded { on: BTreeSet<Uid> },
    #[serde(rename = "dep.removed")]
    DepRemoved { on: BTreeSet<Uid> },
    #[serde(rename = "note.added")]
    NoteAdded {},
    #[serde(rename = "lease.acquired")]
    LeaseAcquired {
        grant: Grant,
        #[serde(default, skip_serializing_if = "Scope::is_empty")]
        scope: Scope,
    },
    #[serde(rename = "scope.added")]
    ScopeAdded { scope: Scope },
    #[serde(rename = "scope.removed")]
    ScopeRemoved { scope: Scope },
    /// A holder came back after a lapse. Automatic signs of life are not events.
    #[serde(rename = "lease.renewed")]
    LeaseRenewed {
        tick_ms: i64,
        domain: ClockDomain,
        renewals: u64,
        active_s: i64,
        deadline_in_ms: Option<i64>,
        reserve: bool,
    },
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

/// An event that a decision asks for, before it has a place in its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub body: Body,
    /// The lease it concerns.
    pub token: Option<Token>,
    pub texts: Vec<(Field, String)>,
}

impl Draft {
    pub fn new(body: Body) -> Draft {
        Draft { body, token: None, texts: Vec::new() }
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

/// An event in its place. `seq` is the store's and not part of the hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub uid: Uid,
    /// The task, or None for the project's own stream.
    pub task: Option<Uid>,
    pub version: Version,
    pub body: Body,
    pub actor: ActorName,
    pub instance: InstanceId,
    pub token: Option<Token>,
    pub at_ms: i64,
    /// The event that made this one happen, if it was not a command itself.
    pub cause: Option<Uid>,
    /// Digest of each text beside the event.
    pub texts: BTreeMap<Field, String>,
    /// The hash of the stream's previous event; empty for the first.
    pub prev: String,
    pub hash: String,
}

impl Body {
    /// The event's kind, such as `task.created`.
    pub fn kind(&self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(mut map)) => match map.remove("kind") {
                Some(serde_json::Value::String(kind)) => kind,
                _ => String::new(),
            },
            _ => String::new(),
        }
    }
}
