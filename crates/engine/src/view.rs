//! What programs read: tasks, leases and notices as JSON. Fields are added, never renamed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use onus_core::apply::Project;
use onus_core::ids::{Uid, Version};
use onus_core::lease::{LapseCause, Lease, Liveness, Mode, Process, Seen};
use onus_core::policy::Policy;
use onus_core::task::{Priority, State, Task, TaskType};
use onus_core::text::{Field, REDACTED, TextKey};
use onus_core::time::{Moment, SECOND_MS, rfc3339};
use onus_store::{Direction, Read, Result};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskView {
    pub id: String,
    pub uid: String,
    pub number: u64,
    pub version: u64,
    #[serde(rename = "type")]
    pub kind: TaskType,
    pub title: String,
    pub body: Option<String>,
    pub state: State,
    pub priority: Priority,
    pub parent: Option<String>,
    pub area: Option<String>,
    pub iteration: Option<String>,
    pub tags: BTreeSet<String>,
    pub owner: Option<String>,
    pub deps: Vec<String>,
    pub relates: Vec<String>,
    pub refs: BTreeMap<String, String>,
    pub decisions: Vec<String>,
    pub origin: Option<String>,
    /// The paths that whoever holds it reserves.
    pub scope: Vec<String>,
    pub scope_mode: Mode,
    pub constraints: Vec<String>,
    pub gates: Vec<String>,
    pub required_tier: u8,
    pub attempts: u64,
    /// How often it may be tried again; null: as the policy says.
    pub max_attempts: Option<u64>,
    /// Opened for edits that belonged to no task; never handed out.
    pub ad_hoc: bool,
    /// When it becomes ready, if it is scheduled.
    pub not_before: Option<String>,
    /// Dependencies that are not met.
    pub unmet: u64,
    /// Children that are not finished.
    pub open_children: u64,
    /// Tasks that depend on it and are not finished.
    pub open_dependents: u64,
    pub branch: Option<String>,
    pub landed: Option<String>,
    pub extra: BTreeMap<String, String>,
    pub submitter: Option<String>,
    pub kept_for: Option<KeptView>,
    /// The lease that has not ended, live or lapsed; null if nobody holds the task.
    pub lease: Option<LeaseView>,
    pub created_at: String,
    pub created_by: String,
    pub updated_at: String,
    /// In `show`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<Vec<NoteView>>,
    /// In `ready`: whether claiming it means taking over a lapsed lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takeover: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseView {
    pub task: String,
    pub actor: String,
    pub instance: String,
    pub token: u64,
    pub live: bool,
    /// Why it lapsed, if it is not live.
    pub lapsed_by: Option<LapseCause>,
    /// A person's lease without a sign of life for a long time.
    pub stale: bool,
    pub tier: u8,
    pub acquired_at: String,
    pub renewed_at: String,
    /// The last time that something came of it: a note, a file touched, output of a supervised command.
    pub progress_at: String,
    /// An agent's live lease without progress for a long time.
    pub stalled: bool,
    pub renewals: u64,
    pub ttl_s: Option<i64>,
    pub max_hold_s: Option<i64>,
    /// When it lapses without another sign of life; null: never by itself.
    pub expires_at: Option<String>,
    pub expires_in_s: Option<i64>,
    pub process: Option<Process>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    pub scope: Vec<String>,
    pub mode: Mode,
    pub constraints: Vec<String>,
    /// Held, but work has not started.
    pub reserve: bool,
    /// An agent's turn is over: the TTL counts until it goes on, although its process lives.
    pub resting: bool,
    pub reason: Option<String>,
    pub handoff_reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptView {
    pub actor: String,
    pub expires_at: String,
    pub expires_in_s: i64,
    pub reason: Option<String>,
}

/// A task that a reset puts back to open, as it was before.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TouchedView {
    pub id: String,
    pub title: String,
    pub state: State,
    pub lease: Option<LeaseView>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoteView {
    pub version: u64,
    /// What the note came with: `note.added`, `task.done`, …
    pub kind: String,
    pub actor: String,
    pub instance: String,
    pub at: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActorView {
    pub name: String,
    pub tier: u8,
    pub registered_at: String,
    pub aliases: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InstanceView {
    pub actor: String,
    pub instance: String,
    pub process: Option<Process>,
    /// Whether its process lives; null if it has none or it cannot be seen from here.
    pub alive: Option<bool>,
    pub seen_at: String,
}

/// Something the caller should know, beside the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Notice {
    pub kind: NoticeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// Your lease lapses soon, or has lapsed.
    Lapsing,
    /// Your lease was taken over or revoked.
    Superseded,
    /// Somebody else wrote a note on a task you hold.
    Note,
    /// Somebody was refused a path that you reserve.
    Wanted,
    Info,
}

/// Renders rows of one snapshot.
pub(crate) struct Renderer<'a> {
    pub(crate) read: &'a mut dyn Read,
    pub(crate) project: &'a Project,
    pub(crate) now: &'a Moment,
    pub(crate) policy: &'a Policy,
    pub(crate) observe: &'a dyn Fn(&Process) -> Seen,
}

impl Renderer<'_> {
    pub(crate) fn seen(&self, lease: &Lease) -> Seen {
        lease.grant.process.as_ref().map_or(Seen::Unseen, self.observe)
    }

    fn text(&mut self, stream: Uid, version: Version, field: Field) -> Result<Option<String>> {
        Ok(self.read.text(TextKey { stream, version, field })?.map(|stored| stored.text))
    }

    pub(crate) fn title(&mut self, task: &Task) -> Result<String> {
        Ok(self.text(task.uid, task.title_version, Field::Title)?.unwrap_or_else(|| REDACTED.to_owned()))
    }

    pub(crate) fn task(&mut self, task: &Task) -> Result<TaskView> {
        let lease = if task.leased { self.read.lease(task.uid, task.token)? } else { None };
        self.task_with(task, lease.as_ref())
    }

    pub(crate) fn task_with(&mut self, task: &Task, lease: Option<&Lease>) -> Result<TaskView> {
        self.read.ahead(task, lease)?;
        let body = match task.body_version {
            Some(version) => {
                let text = self.text(task.uid, version, Field::Body)?;
                Some(text.unwrap_or_else(|| REDACTED.to_owned()))
            }
            None => None,
        };
        let kept_for = match &task.kept {
            Some(kept) if !kept.until.has_come(self.now) => {
                let in_ms = kept.until.since_ms(self.now);
                let reason = match self.text(task.uid, kept.version, Field::Reason)? {
                    None => self.text(task.uid, kept.version, Field::Note)?,
                    reason => reason,
                };
                Some(KeptView {
                    actor: kept.actor.to_string(),
                    expires_at: rfc3339(self.now.wall_ms + in_ms),
                    expires_in_s: in_ms / SECOND_MS,
                    reason,
                })
            }
            _ => None,
        };
        let id = self.project.prefix.id(task.number);
        let lease = lease.map(|lease| self.lease(lease, &id)).transpose()?;
        let facts = &task.facts;
        let parent = facts.parent.map(|uid| self.id_of(uid)).transpose()?;
        let deps = self.read.numbers_beside(task.uid, Direction::Upstream)?;
        let deps = deps.into_iter().map(|number| self.project.prefix.id(number)).collect();
        let relates = facts.relates.iter().map(|uid| self.id_of(*uid)).collect::<Result<_>>()?;
        Ok(TaskView {
            id,
            uid: task.uid.to_string(),
            number: task.number.0,
            version: task.version.0,
            kind: facts.kind,
            title: self.title(task)?,
            body,
            state: task.state,
            priority: facts.priority,
            parent,
            area: facts.area.clone(),
            iteration: facts.iteration.clone(),
            tags: facts.tags.clone(),
            owner: facts.owner.as_ref().map(ToString::to_string),
            deps,
            relates,
            refs: facts.refs.clone(),
            decisions: Vec::new(),
            origin: task.origin.as_ref().map(|origin| origin.as_str().to_owned()),
            scope: facts.scope.globs().iter().map(ToString::to_string).collect(),
            scope_mode: facts.mode,
            constraints: Vec::new(),
            gates: Vec::new(),
            required_tier: facts.required_tier.0,
            attempts: task.attempts,
            max_attempts: facts.max_attempts,
            ad_hoc: facts.ad_hoc,
            not_before: facts.not_before_ms.map(rfc3339),
            unmet: task.counts.unmet,
            open_children: task.counts.open_children,
            open_dependents: task.counts.open_dependents,
            branch: None,
            landed: None,
            extra: BTreeMap::new(),
            submitter: task.submitter.as_ref().map(ToString::to_string),
            kept_for,
            lease,
            created_at: rfc3339(task.created_at_ms),
            created_by: task.created_by.to_string(),
            updated_at: rfc3339(task.updated_at_ms),
            notes: None,
            takeover: None,
        })
    }

    fn id_of(&mut self, uid: Uid) -> Result<String> {
        let task = self.read.task(uid)?;
        Ok(task.map_or_else(|| uid.to_string(), |task| self.project.prefix.id(task.number)))
    }

    /// A task that a reset puts back, as it is before.
    pub(crate) fn touched(&mut self, task: &Task) -> Result<TouchedView> {
        let lease = if task.leased { self.read.lease(task.uid, task.token)? } else { None };
        let id = self.project.prefix.id(task.number);
        Ok(TouchedView {
            lease: lease.map(|lease| self.lease(&lease, &id)).transpose()?,
            id,
            title: self.title(task)?,
            state: task.state,
        })
    }

    /// A lease on the task with this id.
    pub(crate) fn lease(&mut self, lease: &Lease, id: &str) -> Result<LeaseView> {
        let liveness = lease.liveness(self.now, self.seen(lease));
        let grant = &lease.grant;
        let expires_in_ms = lease.pulse.deadline.as_ref().map(|deadline| deadline.since_ms(self.now));
        let scope = self.read.scope_of(lease.task, lease.token)?;
        let reason = self.text(lease.task, lease.version, Field::Reason)?;
        let handoff_reason = match grant.handoff_version {
            Some(version) => self.text(lease.task, version, Field::Reason)?,
            None => None,
        };
        Ok(LeaseView {
            task: id.to_owned(),
            actor: lease.actor.to_string(),
            instance: lease.instance.to_string(),
            token: lease.token.0,
            live: lease.ended.is_none() && liveness == Liveness::Live,
            lapsed_by: match liveness {
                Liveness::Lapsed(cause) => Some(cause),
                Liveness::Live => None,
            },
            stale: lease.is_stale(self.now, self.policy.stale_after_ms),
            tier: grant.tier.0,
            acquired_at: rfc3339(lease.acquired_at_ms),
            renewed_at: rfc3339(lease.pulse.last.wall_ms),
            progress_at: rfc3339(lease.pulse.progress.wall_ms),
            stalled: lease.is_stalled(self.now, self.policy.stalled_after_ms),
            renewals: lease.pulse.renewals,
            ttl_s: grant.ttl_ms.map(|ms| ms / SECOND_MS),
            max_hold_s: grant.max_hold_ms.map(|ms| ms / SECOND_MS),
            expires_at: expires_in_ms.map(|ms| rfc3339(self.now.wall_ms + ms)),
            expires_in_s: expires_in_ms.map(|ms| ms.max(0) / SECOND_MS),
            process: grant.process.clone(),
            worktree: grant.worktree.clone(),
            branch: grant.branch.clone(),
            scope: scope.globs().iter().map(ToString::to_string).collect(),
            mode: grant.mode,
            constraints: Vec::new(),
            reserve: grant.reserve,
            resting: lease.pulse.resting,
            reason,
            handoff_reason,
        })
    }

    pub(crate) fn notes(&mut self, task: &Task) -> Result<Vec<NoteView>> {
        let mut notes = Vec::new();
        for record in self.read.notes(task.uid)? {
            let text = self.text(task.uid, Version(record.version), Field::Note)?;
            notes.push(NoteView {
                version: record.version,
                kind: record.kind,
                actor: record.actor,
                instance: record.instance,
                at: record.at,
                text: text.unwrap_or_else(|| REDACTED.to_owned()),
            });
        }
        Ok(notes)
    }
}

impl ActorView {
    pub(crate) fn of(
        actor: &onus_core::actor::Actor,
        aliases: &[(onus_core::actor::ActorName, onus_core::actor::ActorName)],
    ) -> ActorView {
        ActorView {
            name: actor.name.to_string(),
            tier: actor.tier.0,
            registered_at: rfc3339(actor.registered_at_ms),
            aliases: aliases
                .iter()
                .filter(|(_, of)| *of == actor.name)
                .map(|(alias, _)| alias.to_string())
                .collect(),
        }
    }
}

impl InstanceView {
    pub(crate) fn of(known: &onus_store::KnownInstance, observe: &dyn Fn(&Process) -> Seen) -> InstanceView {
        InstanceView {
            actor: known.actor.to_string(),
            instance: known.instance.to_string(),
            alive: known.process.as_ref().and_then(|process| match observe(process) {
                Seen::Alive => Some(true),
                Seen::Dead => Some(false),
                Seen::Unseen => None,
            }),
            process: known.process.clone(),
            seen_at: rfc3339(known.seen_at_ms),
        }
    }
}
