//! What a decision may look at: read under the task's lock, then handed to the core as its view.

use std::collections::BTreeSet;

use onus_core::actor::{Actor, ActorName, Caller};
use onus_core::command::{Act, Edit};
use onus_core::decide::{Named, ObstacleKind, Rival, Upstream, View, wanted};
use onus_core::ids::{Prefix, TaskRef, Token, Uid, Version};
use onus_core::lease::{Lease, Liveness, Process, Seen};
use onus_core::policy::Policy;
use onus_core::scope::{Glob, Scope};
use onus_core::task::Task;
use onus_core::text::Field;
use onus_core::time::Moment;
use onus_core::transition::Verb;
use onus_store::{Direction, Read};

use super::{Door, Result};
use crate::scopes::Around;

/// How many of the tasks that another waits for a refusal may choose from.
const WAITS: u64 = 20;

/// The parts of a [`View`] that were read.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) id: String,
    pub(crate) lease: Option<Lease>,
    seen: Seen,
    mine: Option<Lease>,
    indefinite: (u64, u64),
    caller_worked_on_it: bool,
    redactable: Option<(ActorName, Vec<Field>)>,
    named: Named,
    waits_for: Vec<Upstream>,
    scope: Scope,
    scope_len: usize,
    rivals: Vec<Rival>,
}

impl Scene {
    /// What any question about a task needs.
    pub(crate) fn of<R: Read + ?Sized>(
        read: &mut R,
        prefix: &Prefix,
        observe: &dyn Fn(&Process) -> Seen,
        caller: &Caller,
        task: &Task,
    ) -> onus_store::Result<Scene> {
        let lease = if task.token > Token(0) { read.lease(task.uid, task.token)? } else { None };
        let mine = match &lease {
            None => None,
            Some(lease) if lease.is_held_by(&caller.actor, &caller.instance) => Some(lease.clone()),
            Some(_) => read.latest_lease_of(task.uid, &caller.actor, &caller.instance)?,
        };
        let process = lease.as_ref().and_then(|lease| lease.grant.process.as_ref());
        Ok(Scene {
            id: prefix.id(task.number),
            seen: process.map_or(Seen::Unseen, observe),
            lease,
            mine,
            indefinite: (0, 0),
            caller_worked_on_it: false,
            redactable: None,
            named: Named::default(),
            waits_for: waits_for(read, prefix, task)?,
            scope: Scope::default(),
            scope_len: 0,
            rivals: Vec::new(),
        })
    }

    /// Whether an act may begin or widen a reservation, or bring one back that lapsed.
    fn looks_around(&self, task: &Task, act: &Act) -> bool {
        match act {
            Act::Claim(terms) | Act::Takeover(terms) => {
                !wanted(task, terms).0.is_empty()
                    || self.lease.as_ref().is_some_and(|lease| lease.ended.is_none())
            }
            Act::Move { verb, .. } => verb.claims_first() && !task.leased && !task.facts.scope.is_empty(),
            Act::AddScope { .. } | Act::RemoveScope { .. } | Act::Touch { .. } | Act::Renew { .. } => true,
            _ => false,
        }
    }

    /// Looks around for what collides with a claim, a widening or a late renewal.
    pub(crate) fn look_around<R: Read + ?Sized>(
        &mut self,
        read: &mut R,
        around: &Around<'_>,
        task: &Task,
        act: &Act,
    ) -> onus_store::Result<()> {
        let lease = self.lease.as_ref().filter(|lease| lease.is_usable(task.fenced_token));
        let is_late = lease.is_some_and(|lease| {
            lease.ended.is_some() || lease.liveness(around.now, self.seen) != Liveness::Live
        });
        let mut asked = match act {
            Act::Claim(terms) | Act::Takeover(terms) => wanted(task, terms).0,
            Act::Move { verb, .. } if verb.claims_first() && !task.leased => task.facts.scope.clone(),
            Act::AddScope { scope } | Act::RemoveScope { scope } => scope.clone(),
            // What is no path is refused by the decision.
            Act::Touch { paths } => paths.iter().filter_map(|path| Glob::literal(path).ok()).collect(),
            Act::Renew { .. } => Scope::default(),
            _ => return Ok(()),
        };
        let mut all = None;
        if let Some(lease) = lease.filter(|_| is_late) {
            let reserved = read.scope_of(lease.task, lease.token)?;
            asked.extend(reserved.globs().iter().cloned());
            all = Some(reserved);
        }
        let near = around.near(read, task, &asked)?;
        self.rivals = near.rivals;
        self.scope = all.unwrap_or(near.own);
        self.scope_len = match lease {
            Some(lease) if matches!(act, Act::AddScope { .. } | Act::Touch { .. }) => {
                read.scope_len(lease.task, lease.token)?
            }
            _ => 0,
        };
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
            named: &self.named,
            waits_for: &self.waits_for,
            scope: &self.scope,
            scope_len: self.scope_len,
            rivals: &self.rivals,
            redactable: self.redactable.as_ref().map(|(author, fields)| (author, fields.as_slice())),
        }
    }
}

impl Door<'_> {
    /// Without an act: what any decision needs.
    pub(super) fn scene(&mut self, task: &Task, act: Option<&Act>) -> Result<Scene> {
        let mut scene =
            Scene::of(self.write, &self.project.prefix, &self.outside.observe, &self.caller, task)?;
        if scene.lease.as_ref().is_some_and(|lease| lease.grant.process.is_some()) {
            self.caller.ancestry = self.request.identity.ancestry.processes();
        }
        if scene.seen == Seen::Dead {
            // The death was seen after the clock was read: what follows from it must not be dated before it.
            self.now = self.write.now();
        }
        let actor = self.caller.actor.clone();
        match act {
            Some(Act::Claim(terms) | Act::Takeover(terms)) if terms.ttl_ms == Some(0) => {
                self.lock_scopes()?;
                scene.indefinite = self.write.indefinite_leases(&actor)?;
            }
            Some(Act::Move { verb: Verb::Approve, .. }) => {
                scene.caller_worked_on_it = self.write.held_above(task.uid, task.opened_token, &actor)?;
            }
            Some(Act::Redact { version, .. }) => scene.redactable = self.redactable(task.uid, *version)?,
            Some(act) => scene.named = self.name_tasks(task, act)?,
            None => {}
        }
        if let Some(act) = act {
            if scene.looks_around(task, act) {
                self.lock_scopes()?;
            }
            let around = Around::new(&self.now, self.policy, &self.project.prefix, &self.outside.observe);
            scene.look_around(self.write, &around, task, act)?;
        }
        Ok(scene)
    }

    /// Whether a lease is late, its own or a rival's, is asked after the wait for this lock.
    fn lock_scopes(&mut self) -> Result<()> {
        self.write.lock_scopes()?;
        self.now = self.write.now();
        Ok(())
    }

    pub(super) fn view<'s>(&'s self, task: &'s Task, scene: &'s Scene) -> View<'s> {
        scene.view(&self.now, self.policy, (&self.caller, &self.actor), task)
    }

    fn redactable(&mut self, task: Uid, version: Version) -> Result<Option<(ActorName, Vec<Field>)>> {
        let Some(record) = self.write.event(task, version)? else { return Ok(None) };
        let fields = self.write.texts(task, version)?.into_iter().map(|stored| stored.key.field).collect();
        Ok(Some((record.actor.parse()?, fields)))
    }

    /// The tasks that an act speaks of, and the circle it would close.
    fn name_tasks(&mut self, task: &Task, act: &Act) -> Result<Named> {
        let mut named = Named::default();
        match act {
            Act::AddDeps { on } => {
                let there: BTreeSet<Uid> =
                    self.write.beside(task.uid, Direction::Upstream)?.into_iter().collect();
                named.deps = self.resolve_all(on)?.difference(&there).copied().collect();
                for upstream in named.deps.clone() {
                    if named.cycle.is_none() {
                        named.cycle = self.circle(task.uid, upstream)?;
                    }
                }
            }
            Act::RemoveDeps { on } => {
                let there: BTreeSet<Uid> =
                    self.write.beside(task.uid, Direction::Upstream)?.into_iter().collect();
                named.deps = self.resolve_all(on)?.intersection(&there).copied().collect();
            }
            Act::Edit(Edit { parent, relate, unrelate, .. }) => {
                if let Some(Some(parent)) = parent {
                    let parent = self.resolve(parent)?;
                    named.parent = Some(parent);
                    // The parent will wait for its part.
                    named.cycle = self.circle(parent, task.uid)?;
                }
                named.relate = self.resolve_all(relate)?;
                named.relate.remove(&task.uid);
                named.unrelate = self.resolve_all(unrelate)?;
            }
            _ => {}
        }
        Ok(named)
    }

    pub(super) fn resolve_all(&mut self, references: &[TaskRef]) -> Result<BTreeSet<Uid>> {
        references.iter().map(|reference| self.resolve(reference)).collect()
    }

    /// The ids along the circle that would close if `task` had to wait for `other`, too.
    pub(super) fn circle(&mut self, task: Uid, other: Uid) -> Result<Option<Vec<String>>> {
        if !self.write.does_wait_for(other, task)? {
            return Ok(None);
        }
        let way = onus_core::graph::path(other, task, |uid| self.write.waits_for(uid))?;
        let mut ids = vec![self.id_of(task)?];
        for uid in way.unwrap_or_default() {
            ids.push(self.id_of(uid)?);
        }
        Ok(Some(ids))
    }

    pub(super) fn id_of(&mut self, uid: Uid) -> Result<String> {
        let task = self.write.task(uid)?;
        Ok(task.map_or_else(|| uid.to_string(), |task| self.project.prefix.id(task.number)))
    }
}

/// Some of what a task waits for, as its row counts them.
fn waits_for<R: Read + ?Sized>(
    read: &mut R,
    prefix: &Prefix,
    task: &Task,
) -> onus_store::Result<Vec<Upstream>> {
    let mut found = Vec::new();
    if task.counts.unmet > 0 {
        let unmet = read.unmet(task.uid, WAITS)?;
        found.extend(unmet.into_iter().map(|task| (task, ObstacleKind::Dependency)));
    }
    if task.counts.open_children > 0 {
        let children = read.unfinished_children(task.uid, WAITS)?;
        found.extend(children.into_iter().map(|task| (task, ObstacleKind::Child)));
    }
    let mut waits_for = Vec::with_capacity(found.len());
    for (task, kind) in found {
        let lease = if task.leased { read.lease(task.uid, task.token)? } else { None };
        waits_for.push(Upstream {
            id: prefix.id(task.number),
            state: task.state,
            kind,
            holder: lease.map(|lease| lease.actor.to_string()),
            waits: task.counts.unmet > 0
                || task.counts.open_children > 0
                || task.facts.not_before_ms.is_some(),
        });
    }
    Ok(waits_for)
}
