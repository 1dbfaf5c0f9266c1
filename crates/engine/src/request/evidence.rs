//! What a decision may look at: read under the task's lock, then given to the core as its view.

use std::collections::BTreeSet;

use onus_core::actor::{Actor, ActorName, Caller};
use onus_core::command::{Act, Attachment, Edit};
use onus_core::decide::{
    Copied, Named, ObstacleKind, Redactable, Reserving, Surroundings, Upstream, View, reserves,
};
use onus_core::gate::JudgementRow;
use onus_core::ids::{Number, TaskRef, Uid, Version};
use onus_core::lease::{Lease, Liveness, Seen};
use onus_core::policy::Policy;
use onus_core::rescue::{KeptFiles, RescueState};
use onus_core::scope::{Glob, Scope};
use onus_core::stretch::Recorded;
use onus_core::task::Task;
use onus_core::text::{Field, TextKey};
use onus_core::time::Moment;
use onus_core::transition::Verb;
use onus_store::Direction;

use super::{Result, UnitOfWork};
use crate::snapshot::Snapshot;

/// How many of the tasks that another waits for are read for a refusal.
const WAITS: u64 = 20;

/// How many judgements of one task are read: more than anybody makes before the work has changed.
pub(crate) const MOST_JUDGED: u64 = 500;

/// The parts of a [`View`] that were read.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) id: String,
    pub(crate) lease: Option<Lease>,
    seen: Seen,
    mine: Option<Lease>,
    indefinite: (u64, u64),
    caller_worked_on_it: bool,
    redactable: Option<Redactable>,
    title: Option<String>,
    body: Option<String>,
    session: Option<(Lease, Vec<Recorded>)>,
    has_reserved: bool,
    rescued: Option<Lease>,
    kept: Vec<KeptFiles>,
    judged: Vec<JudgementRow>,
    named: Named,
    waits_for: Vec<Upstream>,
    around: Option<Surroundings>,
}

impl Evidence {
    /// Reads what any question about a task needs.
    pub(crate) fn of(
        snapshot: &mut Snapshot<'_>,
        caller: &Caller,
        task: &Task,
    ) -> onus_store::Result<Evidence> {
        let lease = snapshot.last_lease(task)?;
        let mine = match &lease {
            None => None,
            Some(lease) if lease.is_held_by(&caller.actor, &caller.instance) => Some(lease.clone()),
            Some(_) => snapshot.read.latest_lease_of(task.uid, &caller.actor, &caller.instance)?,
        };
        Ok(Evidence {
            id: snapshot.id(task.number),
            seen: lease.as_ref().map_or(Seen::Unseen, |lease| snapshot.seen(lease)),
            lease,
            mine,
            waits_for: waits_for(snapshot, task)?,
            ..Evidence::default()
        })
    }

    /// Reads what collides with what an act may reserve.
    pub(crate) fn look_around(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        caller: &Caller,
        task: &Task,
        reserving: Reserving,
    ) -> onus_store::Result<()> {
        let lease = self.lease.as_ref().filter(|lease| lease.is_usable(task.fenced_token));
        let mut asked = reserving.scope;
        let (mut all, mut own_len) = (None, 0);
        if let Some(lease) = lease {
            if reserving.revives || reserving.counts {
                let reserved = snapshot.scope_of(lease.task, lease.token)?;
                own_len = reserved.rows().len();
                asked.extend(reserved.rows().iter().map(|row| row.glob.clone()));
                all = Some(reserved);
            } else if !asked.is_empty() {
                own_len = snapshot.read.scope_len(lease.task, lease.token)?;
            }
        }
        let near = snapshot.near(task, &asked)?;
        let own = all.as_ref().unwrap_or(&near.own).rows();
        let running = snapshot.running_near(caller, own, &near.rivals)?;
        self.around = Some(Surroundings {
            asked,
            own_len,
            is_whole: all.is_some(),
            own: all.unwrap_or(near.own),
            rivals: near.rivals,
            running,
        });
        Ok(())
    }

    /// Reads what the current lease reserves of these files. This reserves nothing, so it needs no lock.
    fn look_at_own(&mut self, snapshot: &mut Snapshot<'_>, paths: &[String]) -> onus_store::Result<()> {
        let asked: Scope = paths.iter().filter_map(|path| Glob::literal(path).ok()).collect();
        let near = snapshot.read.scopes_near(&asked)?.into_iter();
        let is_own = |task, token| self.lease.as_ref().is_some_and(|lease| lease.key() == (task, token));
        let own = near.filter(|(task, token, _)| is_own(*task, *token)).map(|(_, _, row)| row).collect();
        self.around = Some(Surroundings { asked, own, ..Surroundings::default() });
        Ok(())
    }

    pub(crate) fn view<'s>(
        &'s self,
        now: &'s Moment,
        policy: &'s Policy,
        (caller, actor): (&'s Caller, &'s Actor),
        task: &'s Task,
    ) -> View<'s> {
        View {
            now,
            policy,
            caller,
            actor,
            task,
            id: &self.id,
            lease: self.lease.as_ref(),
            seen: self.seen,
            mine: self.mine.as_ref(),
            indefinite: self.indefinite,
            caller_worked_on_it: self.caller_worked_on_it,
            title: self.title.as_deref(),
            body: self.body.as_deref(),
            named: &self.named,
            waits_for: &self.waits_for,
            around: self.around.as_ref(),
            session: self.session.as_ref().map(|(lease, rows)| (lease, rows.as_slice())),
            redactable: self.redactable.as_ref(),
            has_reserved: self.has_reserved,
            rescued: self.rescued.as_ref(),
            kept: &self.kept,
            judged: &self.judged,
        }
    }
}

impl UnitOfWork<'_> {
    /// Reads what a decision about this act needs; without an act, what any decision needs.
    pub(super) fn evidence(&mut self, task: &Task, act: Option<&Act>) -> Result<Evidence> {
        let caller = self.caller.clone();
        if let Some(Act::Yield(_)) = act {
            // A holder that continues moves its deadline under this lock: from now on the lease stays as it
            // is read.
            self.lock_scopes()?;
        }
        let mut evidence = Evidence::of(&mut self.snapshot(), &caller, task)?;
        if evidence.lease.as_ref().is_some_and(|lease| lease.grant.process.is_some()) {
            self.caller.ancestry = self.request.identity.ancestry.processes();
            self.caller.process = self.registered();
        }
        if evidence.seen == Seen::Dead {
            // The death was seen after the clock was read: its consequences must not be dated before it.
            self.now = self.write.now();
        }
        let lost = evidence.lease.as_ref().filter(|lease| {
            lease.is_usable(task.fenced_token) && !lease.is_held_by(&caller.actor, &caller.instance)
        });
        if let Some(lease) = lost {
            evidence.has_reserved = self.write.scope_len(lease.task, lease.token)? > 0;
        }
        let actor = self.caller.actor.clone();
        if act.is_some_and(asks_for_gates) {
            evidence.judged = self.write.judgements_of(task.uid, MOST_JUDGED)?;
        }
        match act {
            Some(Act::Rescue { token, .. } | Act::DropRescue { token, .. }) => {
                evidence.rescued = self.write.lease(task.uid, *token)?;
                let kept = evidence.rescued.as_ref().and_then(|lease| lease.rescue);
                if let Some(rescue) = kept.filter(|rescue| rescue.state == RescueState::Kept) {
                    evidence.kept = self.snapshot().kept_by(task.uid, rescue.version)?;
                }
            }
            Some(Act::Claim(terms) | Act::Takeover(terms)) if terms.ttl_ms == Some(0) => {
                self.lock_scopes()?;
                evidence.indefinite = self.write.indefinite_leases(&actor)?;
            }
            Some(Act::Move { verb: Verb::Approve, .. } | Act::Judge(_)) => {
                evidence.caller_worked_on_it = self.write.held_above(task.uid, task.opened_token, &actor)?;
            }
            Some(Act::Correct { token, .. }) => {
                let lease = self.write.lease(task.uid, *token)?;
                let rows = self.write.stretches_of(task.uid, *token)?;
                evidence.session = lease.map(|lease| (lease, rows));
            }
            Some(Act::Redact { version, .. }) => evidence.redactable = self.redactable(task.uid, *version)?,
            Some(Act::Change(changed)) => evidence.look_at_own(&mut self.snapshot(), &changed.paths)?,
            Some(act) => {
                evidence.named = self.name_tasks(task, act)?;
                if let Act::Edit(edit) = act {
                    evidence.title =
                        self.text_of(task, Field::Title, edit.title.as_ref().map(|_| task.title_version))?;
                    evidence.body =
                        self.text_of(task, Field::Body, task.body_version.filter(|_| edit.body.is_some()))?;
                }
            }
            None => {}
        }
        if let Some(act) = act
            && reserves(&self.view(task, &evidence), act).is_some()
        {
            self.lock_scopes()?;
            if let Some(reserving) = reserves(&self.view(task, &evidence), act) {
                evidence.look_around(&mut self.snapshot(), &caller, task, reserving)?;
            }
        }
        Ok(evidence)
    }

    /// Locks reservations. Whether a lease is late, the task's own or a rival's, is judged by the clock after
    /// the wait.
    fn lock_scopes(&mut self) -> Result<()> {
        self.write.lock_scopes()?;
        self.now = self.write.now();
        Ok(())
    }

    pub(super) fn view<'s>(&'s self, task: &'s Task, evidence: &'s Evidence) -> View<'s> {
        evidence.view(&self.now, self.policy, (&self.caller, &self.actor), task)
    }

    fn redactable(&mut self, stream: Uid, version: Version) -> Result<Option<Redactable>> {
        let Some(author) = self.author(stream, version)? else { return Ok(None) };
        let mut redactable = Redactable { author, fields: Vec::new(), copies: Vec::new() };
        for text in self.write.texts(stream, version)? {
            redactable.fields.push(text.key.field);
            for copy in
                self.write.same_texts(stream, &text.text)?.into_iter().filter(|copy| *copy != text.key)
            {
                let Some(author) = self.author(stream, copy.version)? else { continue };
                let (version, field) = (copy.version, copy.field);
                redactable.copies.push(Copied { of: text.key.field, version, field, author });
            }
        }
        Ok(Some(redactable))
    }

    fn author(&mut self, stream: Uid, version: Version) -> Result<Option<ActorName>> {
        Ok(self.write.event(stream, version)?.map(|record| record.actor.parse()).transpose()?)
    }

    /// None: there is no such version, or the text was erased.
    pub(super) fn text_of(
        &mut self,
        task: &Task,
        field: Field,
        version: Option<Version>,
    ) -> Result<Option<String>> {
        let Some(version) = version else { return Ok(None) };
        Ok(self.write.text(TextKey { stream: task.uid, version, field })?.map(|stored| stored.text))
    }

    /// The tasks that an act refers to, and the cycle it would close.
    fn name_tasks(&mut self, task: &Task, act: &Act) -> Result<Named> {
        let mut named = Named::default();
        match act {
            Act::AddDeps { on } => {
                let there: BTreeSet<Uid> =
                    self.write.neighbours(task.uid, Direction::Upstream)?.into_iter().collect();
                named.deps = self.resolve_all(on)?.difference(&there).copied().collect();
                for upstream in named.deps.clone() {
                    if named.cycle.is_none() {
                        named.cycle = self.circle(task.uid, upstream)?;
                    }
                }
            }
            Act::RemoveDeps { on } => {
                let there: BTreeSet<Uid> =
                    self.write.neighbours(task.uid, Direction::Upstream)?.into_iter().collect();
                named.deps = self.resolve_all(on)?.intersection(&there).copied().collect();
            }
            Act::Edit(Edit { parent, relate, unrelate, refs, .. }) => {
                let new = refs.iter().filter_map(|(system, id)| Some((system, id.as_ref()?)));
                named.taken = self.taken_ref(new, Some(task.uid))?;
                if let Some(Some(parent)) = parent {
                    let parent = self.resolve(parent)?;
                    named.parent = Some(parent);
                    // The parent will wait for its child.
                    named.cycle = self.circle(parent, task.uid)?;
                }
                named.relate = self.resolve_all(relate)?;
                named.relate.remove(&task.uid);
                named.unrelate = self.resolve_all(unrelate)?;
            }
            Act::Attach(Attachment { own: Some(own), .. }) => {
                let other = self.write.task_of_branch(&own.branch)?;
                named.branch_of = other.map(|other| (self.id(other.number), Box::new(other)));
            }
            _ => {}
        }
        Ok(named)
    }

    /// The first of these references that must be unique and already belongs to another task than `own`, with
    /// that task's id.
    pub(super) fn taken_ref<'r>(
        &mut self,
        refs: impl Iterator<Item = (&'r String, &'r String)>,
        own: Option<Uid>,
    ) -> Result<Option<(String, String)>> {
        for (system, reference) in refs {
            if !self.policy.has_unique([system]) {
                continue;
            }
            let reference = TaskRef::External { system: system.to_lowercase(), reference: reference.clone() };
            let others = self.write.resolve(&reference)?;
            if let Some(other) = others.into_iter().find(|uid| Some(*uid) != own) {
                return Ok(Some((reference.to_string(), self.snapshot().id_of(other)?)));
            }
        }
        Ok(None)
    }

    pub(super) fn resolve_all(&mut self, references: &[TaskRef]) -> Result<BTreeSet<Uid>> {
        references.iter().map(|reference| self.resolve(reference)).collect()
    }

    /// The ids along the cycle that would close if `task` had to wait for `other`, too.
    pub(super) fn circle(&mut self, task: Uid, other: Uid) -> Result<Option<Vec<String>>> {
        if !self.write.does_wait_for(other, task)? {
            return Ok(None);
        }
        let way = onus_core::graph::path(other, task, |uid| self.write.waits_for(uid))?;
        let mut ids = vec![self.snapshot().id_of(task)?];
        for uid in way.unwrap_or_default() {
            ids.push(self.snapshot().id_of(uid)?);
        }
        Ok(Some(ids))
    }

    pub(crate) fn id(&self, number: Number) -> String {
        self.project.prefix.id(number)
    }
}

/// Whether earlier judgements decide the act.
fn asks_for_gates(act: &Act) -> bool {
    match act {
        Act::Claim(terms) | Act::Takeover(terms) => terms.demand.is_some(),
        Act::Move { demand, .. } => demand.is_some(),
        Act::Land(_) => true,
        _ => false,
    }
}

/// Some of the tasks that a task waits for, if its counters say that there are any.
fn waits_for(snapshot: &mut Snapshot<'_>, task: &Task) -> onus_store::Result<Vec<Upstream>> {
    let mut found = Vec::new();
    if task.counts.unmet > 0 {
        let unmet = snapshot.read.unmet(task.uid, WAITS)?;
        found.extend(unmet.into_iter().map(|task| (task, ObstacleKind::Dependency)));
    }
    if task.counts.open_children > 0 {
        let children = snapshot.read.unfinished_children(task.uid, WAITS)?;
        found.extend(children.into_iter().map(|task| (task, ObstacleKind::Child)));
    }
    let mut waits_for = Vec::with_capacity(found.len());
    for (task, kind) in found {
        let lease = snapshot.current_lease(&task)?;
        let lease = lease.filter(|lease| snapshot.liveness(lease) == Liveness::Live);
        let is_kept = task.kept.as_ref().is_some_and(|kept| !kept.until.has_come(snapshot.now));
        waits_for.push(Upstream {
            id: snapshot.id(task.number),
            state: task.state,
            kind,
            holder: lease.map(|lease| lease.actor.to_string()),
            waits: is_kept
                || task.counts.unmet > 0
                || task.counts.open_children > 0
                || task.facts.not_before_ms.is_some(),
            is_used_up: snapshot.policy.has_used_up_attempts(&task),
        });
    }
    Ok(waits_for)
}
