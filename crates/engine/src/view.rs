//! What programs read: tasks, leases and notices as JSON. Fields are added, never renamed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use onus_core::decide::ObstacleKind;
use onus_core::ids::{Uid, Version};
use onus_core::landing::Landed;
use onus_core::lease::{LapseCause, Lease, Liveness, Mode, Process, Seen};
use onus_core::refusal::Step;
use onus_core::scope::{Reservation, ReservationKind};
use onus_core::seat::SeatName;
use onus_core::task::{AcceptanceLine, Priority, State, Task, TaskType};
use onus_core::text::{Field, REDACTED, TextKey};
use onus_core::time::{SECOND_MS, rfc3339};
use onus_store::{Details, Result, Shown, StoredText};

use crate::show::{CommitView, LinkedView, NoteView};
use crate::snapshot::Snapshot;

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
    /// What must be true before it counts as accepted.
    pub acceptance: Vec<AcceptanceView>,
    pub origin: Option<String>,
    /// Where the ask can be read in the channel that it came by.
    pub link: Option<String>,
    /// Who asked for it, in that channel's words: not an actor.
    pub author: Option<String>,
    /// The paths that its holder reserves.
    pub scope: Vec<String>,
    /// Which of them were declared by the name of an area.
    pub scope_areas: BTreeMap<String, Vec<String>>,
    pub scope_mode: Mode,
    /// What its holder may not do.
    pub constraints: Vec<String>,
    /// Gates that it must pass beside those that are for every task of its kind.
    pub gates: Vec<String>,
    pub required_tier: u8,
    pub attempts: u64,
    /// Milliseconds worked on it, under all its leases.
    pub effort_ms: i64,
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
    /// The task's own branch, the branch that it is to land in, and the commit that it began at.
    pub branch: Option<String>,
    pub target: Option<String>,
    pub base: Option<String>,
    /// `awaited`: it is done and has still to land. `begun`: somebody is landing it.
    pub landing: Option<String>,
    /// The commit by which its branch became part of the target.
    pub landed: Option<String>,
    /// The branch that it landed in.
    pub landed_in: Option<String>,
    pub extra: BTreeMap<String, String>,
    pub submitter: Option<String>,
    pub kept_for: Option<KeptView>,
    /// What was said with the last step that came with a word: why it was rejected, blocked or released. Whoever goes on
    /// reads it first.
    pub last_word: Option<NoteView>,
    /// The lease that has not ended, live or lapsed; null if nobody holds the task.
    pub lease: Option<LeaseView>,
    pub created_at: String,
    pub created_by: String,
    pub updated_at: String,
    /// When work on it first began; a reset clears it.
    pub started_at: Option<String>,
    /// When it was done.
    pub completed_at: Option<String>,
    /// In `show`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<Vec<NoteView>>,
    /// In `show`: the notes that are decisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Vec<NoteView>>,
    /// In `show`: the commits that were made for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commits: Option<Vec<CommitView>>,
    /// In `show`, if it has one here: the folder of its own worktree, whoever holds the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// In `show`: the tasks that depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<String>>,
    /// In `show`: its parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<Vec<String>>,
    /// In `show`: the tasks that `parent`, `deps`, `blocks`, `children` and `relates` name, by id; the first 200 of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linked: Option<BTreeMap<String, LinkedView>>,
    /// In `ready`: whether claiming it means taking over a lapsed lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takeover: Option<bool>,
    /// In lists: the first thing that is in the way of claiming it, if nobody holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<NotReadyView>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotReadyView {
    pub kind: ObstacleKind,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseView {
    /// The task's id; null for a seat.
    pub task: Option<String>,
    /// The seat's name; null for a task.
    pub seat: Option<String>,
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
    /// Milliseconds worked under it, up to its last sign of life.
    pub active_ms: i64,
    /// The contiguous stretches that these make up.
    pub stretches: u64,
    pub ttl_s: Option<i64>,
    pub max_hold_s: Option<i64>,
    /// When it lapses without another sign of life; null: never by itself.
    pub expires_at: Option<String>,
    pub expires_in_s: Option<i64>,
    pub process: Option<Process>,
    pub worktree: Option<String>,
    /// Which worktree that is, beyond its path.
    pub worktree_id: Option<String>,
    pub branch: Option<String>,
    /// The globs of `reservations`, each once.
    pub scope: Vec<String>,
    pub reservations: Vec<ReservationView>,
    pub mode: Mode,
    /// What the holder may not do: what it was granted with, and what the task forbids by now.
    pub constraints: Vec<String>,
    /// Held, but work has not started.
    pub reserve: bool,
    /// An agent's turn is over: the TTL counts until it goes on, although its process lives.
    pub resting: bool,
    pub reason: Option<String>,
    /// Why it was handed to this holder, or taken over from another.
    pub handoff_reason: Option<String>,
}

/// One row of what a lease reserves.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReservationView {
    pub glob: String,
    /// Declared ones hold in every worktree, touched ones are files of one.
    pub kind: ReservationKind,
    /// The area that it was declared by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub area: Option<String>,
    /// The worktree that the file was touched in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// The sub-agent that touched it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// It was not only touched: a tool has changed it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
}

impl From<&Reservation> for ReservationView {
    fn from(row: &Reservation) -> ReservationView {
        ReservationView {
            glob: row.glob.to_string(),
            kind: row.basis.kind(),
            area: row.basis.area().map(ToString::to_string),
            worktree: row.basis.worktree().map(ToString::to_string),
            part: row.basis.part().map(ToString::to_string),
            changed: row.is_changed,
        }
    }
}

/// A line that must be true before a task counts as accepted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcceptanceView {
    /// Counted from 1.
    pub line: u64,
    pub text: String,
    pub ticked: bool,
    pub ticked_by: Option<String>,
    pub ticked_at: Option<String>,
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

/// Something the caller should know besides the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Notice"))]
pub struct Notice<N = Step> {
    pub kind: NoticeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The seat's name, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seat: Option<String>,
    pub message: String,
    /// What can be done about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<N>,
}

impl Notice {
    pub fn new(kind: NoticeKind, task: Option<String>, message: String) -> Notice {
        Notice { kind, task, seat: None, message, next: Vec::new() }
    }

    /// About a seat.
    pub fn of_seat(kind: NoticeKind, seat: &SeatName, message: String) -> Notice {
        Notice { seat: Some(seat.to_string()), ..Notice::new(kind, None, message) }
    }

    /// About nothing in particular.
    pub fn info(message: String) -> Notice {
        Notice::new(NoticeKind::Info, None, message)
    }

    pub fn next(mut self, step: Step) -> Notice {
        self.next.push(step);
        self
    }

    /// The same in an interface's words.
    pub fn worded(&self, say: &dyn Fn(&Step) -> Option<String>) -> Notice<String> {
        Notice {
            kind: self.kind,
            task: self.task.clone(),
            seat: self.seat.clone(),
            message: self.message.clone(),
            next: self.next.iter().filter_map(say).collect(),
        }
    }
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
    /// Somebody was refused a path that you reserve, or the task.
    Wanted,
    /// Somebody got a file of your ad-hoc work while your turn was over.
    Yielded,
    /// A file that you reserve was changed past you, or you changed one that another reserves.
    Changed,
    /// You wait for what others have, and they wait for you.
    Circle,
    /// Somebody changes a file in another worktree that you change in yours.
    Merge,
    /// Your task's branch cannot be merged with its target, or with another task's branch.
    Conflict,
    /// What a holder left uncommitted is kept, or still to be kept.
    Rescue,
    Info,
}

/// What is shown of a task besides its row and its lease's.
pub(crate) fn shown(task: &Task, lease: Option<&Lease>) -> Shown {
    let kept = task.kept.as_ref().map(|kept| kept.version);
    // The name of the person who asked for it is stored with its first event.
    let asked = task.origin.is_some().then_some(Version(1));
    let own = [Some(task.title_version), task.body_version, task.word_version, kept, asked];
    let lines = task.acceptance.iter().map(|line| line.version);
    let of_lease = lease.into_iter().flat_map(lease_versions);
    let versions: BTreeSet<Version> = own.into_iter().flatten().chain(lines).chain(of_lease).collect();
    Shown { task: task.uid, versions: versions.into_iter().collect() }
}

/// The versions whose texts a lease shows.
fn lease_versions(lease: &Lease) -> impl Iterator<Item = Version> {
    std::iter::once(lease.version).chain(lease.grant.handoff_version)
}

/// Texts of one task.
pub(crate) struct Texts<'a>(pub(crate) &'a [StoredText]);

impl Texts<'_> {
    fn get(&self, version: Version, field: Field) -> Option<String> {
        let found = self.0.iter().find(|stored| stored.key.version == version && stored.key.field == field);
        found.map(|stored| stored.text.clone())
    }

    pub(crate) fn or_redacted(&self, version: Version, field: Field) -> String {
        self.get(version, field).unwrap_or_else(|| REDACTED.to_owned())
    }
}

fn landing_word(task: &Task) -> Option<String> {
    let word = match (&task.landing.intent, task.landing.awaited) {
        (Some(_), _) => "begun",
        (None, Some(_)) => "awaited",
        (None, None) => return None,
    };
    Some(word.to_owned())
}

fn acceptance(task: &Task, texts: &Texts<'_>) -> Vec<AcceptanceView> {
    let view = |(line, number): (&AcceptanceLine, u64)| AcceptanceView {
        line: number,
        text: texts.or_redacted(line.version, Field::Acceptance),
        ticked: line.ticked.is_some(),
        ticked_by: line.ticked.as_ref().map(|ticked| ticked.by.to_string()),
        ticked_at: line.ticked.as_ref().map(|ticked| rfc3339(ticked.at_ms)),
    };
    task.acceptance.iter().zip(1..).map(view).collect()
}

/// Rows as programs read them.
impl Snapshot<'_> {
    pub(crate) fn title(&mut self, task: &Task) -> Result<String> {
        let key = TextKey { stream: task.uid, version: task.title_version, field: Field::Title };
        Ok(self.read.text(key)?.map_or_else(|| REDACTED.to_owned(), |stored| stored.text))
    }

    pub(crate) fn task_view(&mut self, task: &Task) -> Result<TaskView> {
        let lease = self.current_lease(task)?;
        let details = self.read.details(&shown(task, lease.as_ref()))?;
        self.task_view_of(task, lease.as_ref(), &details)
    }

    /// `details`: what [`shown`] asks for.
    pub(crate) fn task_view_of(
        &mut self,
        task: &Task,
        lease: Option<&Lease>,
        details: &Details,
    ) -> Result<TaskView> {
        let texts = &Texts(&details.texts);
        let body = task.body_version.map(|version| texts.or_redacted(version, Field::Body));
        let kept_for = match &task.kept {
            Some(kept) if !kept.until.has_come(self.now) => {
                let in_ms = kept.until.left_ms(self.now);
                let reason = texts.get(kept.version, Field::Reason);
                Some(KeptView {
                    actor: kept.actor.to_string(),
                    expires_at: rfc3339(self.now.wall_ms.saturating_add(in_ms)),
                    expires_in_s: in_ms / SECOND_MS,
                    reason: reason.or_else(|| texts.get(kept.version, Field::Note)),
                })
            }
            _ => None,
        };
        let last_word = match task.word_version {
            Some(version) => self.word(task.uid, version, texts)?,
            None => None,
        };
        let id = self.id(task.number);
        let waiting_ms = lease.map_or(0, |lease| lease.pulse.work.so_far().active_ms);
        let effort_ms = task.effort_ms.saturating_add(waiting_ms);
        let lease = lease.map(|lease| self.lease_view_of(lease, task, texts)).transpose()?;
        let facts = &task.facts;
        let parent = facts.parent.map(|uid| self.id_of(uid)).transpose()?;
        let deps = details.needs.iter().map(|number| self.id(*number)).collect();
        let relates = facts.relates.iter().map(|uid| self.id_of(*uid)).collect::<Result<_>>()?;
        Ok(TaskView {
            id,
            uid: task.uid.to_string(),
            number: task.number.0,
            version: task.version.0,
            kind: facts.kind,
            title: texts.or_redacted(task.title_version, Field::Title),
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
            acceptance: acceptance(task, texts),
            origin: task.origin.as_ref().map(|origin| origin.as_str().to_owned()),
            link: facts.link.clone(),
            author: texts.get(Version(1), Field::Author),
            scope: facts.scope.globs().iter().map(ToString::to_string).collect(),
            scope_areas: facts
                .scope_areas
                .iter()
                .map(|(area, scope)| {
                    (area.to_string(), scope.globs().iter().map(ToString::to_string).collect())
                })
                .collect(),
            scope_mode: facts.mode,
            constraints: facts.constraints.words(),
            gates: facts.gates.iter().map(ToString::to_string).collect(),
            required_tier: facts.required_tier.0,
            attempts: task.attempts,
            effort_ms,
            max_attempts: facts.max_attempts,
            ad_hoc: facts.ad_hoc,
            not_before: facts.not_before_ms.map(rfc3339),
            unmet: task.counts.unmet,
            open_children: task.counts.open_children,
            open_dependents: task.counts.open_dependents,
            branch: task.branch.as_ref().map(|own| own.branch.clone()),
            target: task.branch.as_ref().map(|own| own.target.clone()),
            base: task.branch.as_ref().map(|own| own.base.clone()),
            landing: landing_word(task),
            landed: task.landing.landed.as_ref().and_then(Landed::by).map(ToString::to_string),
            landed_in: task.landing.landed.as_ref().map(|landed| landed.target.clone()),
            extra: BTreeMap::new(),
            submitter: task.submitter.as_ref().map(ToString::to_string),
            kept_for,
            last_word,
            lease,
            created_at: rfc3339(task.created_at_ms),
            created_by: task.created_by.to_string(),
            updated_at: rfc3339(task.updated_at_ms),
            started_at: task.started_at_ms.map(rfc3339),
            completed_at: task.completed_at_ms.map(rfc3339),
            notes: None,
            decisions: None,
            commits: None,
            worktree: None,
            blocks: None,
            children: None,
            linked: None,
            takeover: None,
            not_ready: None,
        })
    }

    /// The text that came with one event, if one did.
    fn word(&mut self, task: Uid, version: Version, texts: &Texts<'_>) -> Result<Option<NoteView>> {
        let Some(record) = self.read.event(task, version)? else { return Ok(None) };
        let word = texts.get(version, Field::Note).or_else(|| texts.get(version, Field::Reason));
        let text = match word {
            Some(text) => text,
            None if record.payload["texts"].is_null() => String::new(),
            None => REDACTED.to_owned(),
        };
        Ok(Some(NoteView::of(record, text)))
    }

    pub(crate) fn id_of(&mut self, uid: Uid) -> Result<String> {
        let task = self.task(uid)?;
        Ok(task.map_or_else(|| uid.to_string(), |task| self.id(task.number)))
    }

    /// A task that a reset puts back, as it is before.
    pub(crate) fn touched_view(&mut self, task: &Task) -> Result<TouchedView> {
        let lease = self.current_lease(task)?;
        let id = self.id(task.number);
        Ok(TouchedView {
            lease: lease.map(|lease| self.lease_view(&lease, task)).transpose()?,
            id,
            title: self.title(task)?,
            state: task.state,
        })
    }

    /// A lease on a task, or on a seat that is treated as a task.
    pub(crate) fn lease_view(&mut self, lease: &Lease, task: &Task) -> Result<LeaseView> {
        let mut texts = Vec::new();
        for version in lease_versions(lease) {
            texts.extend(self.read.texts(lease.task, version)?);
        }
        self.lease_view_of(lease, task, &Texts(&texts))
    }

    fn lease_view_of(&mut self, lease: &Lease, task: &Task, texts: &Texts<'_>) -> Result<LeaseView> {
        let (liveness, worked) = (self.liveness(lease), lease.worked_so_far());
        let grant = &lease.grant;
        let expires_in_ms = lease.pulse.deadline.as_ref().map(|deadline| deadline.left_ms(self.now));
        let reserved = self.scope_of(lease.task, lease.token)?;
        Ok(LeaseView {
            task: lease.is_of_a_task().then(|| self.id(task.number)),
            seat: None,
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
            stalled: lease.is_of_a_task() && lease.is_stalled(self.now, self.policy.stalled_after_ms),
            renewals: lease.pulse.renewals,
            active_ms: worked.active_ms,
            stretches: worked.stretches,
            ttl_s: grant.ttl_ms.map(|ms| ms / SECOND_MS),
            max_hold_s: grant.max_hold_ms.map(|ms| ms / SECOND_MS),
            expires_at: expires_in_ms.map(|ms| rfc3339(self.now.wall_ms.saturating_add(ms))),
            expires_in_s: expires_in_ms.map(|ms| ms.max(0) / SECOND_MS),
            process: grant.process.clone(),
            worktree: grant.worktree.clone(),
            worktree_id: grant.worktree_id.as_ref().map(ToString::to_string),
            branch: grant.branch.clone(),
            scope: reserved.scope().globs().iter().map(ToString::to_string).collect(),
            reservations: reserved.rows().iter().map(ReservationView::from).collect(),
            mode: grant.mode,
            constraints: lease.constraints_now(&task.facts.constraints).words(),
            reserve: grant.reserve,
            resting: lease.pulse.resting,
            reason: texts.get(lease.version, Field::Reason),
            handoff_reason: grant.handoff_version.and_then(|version| texts.get(version, Field::Reason)),
        })
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
                Seen::EarlierBoot { .. } | Seen::Unseen => None,
            }),
            process: known.process.clone(),
            seen_at: rfc3339(known.seen_at_ms),
        }
    }
}
