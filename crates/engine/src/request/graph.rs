//! Requests about more than one task: new tasks with their links, whole plans, reset and retry.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::command::{Force, NewTask, PlannedTask, TaskLink};
use onus_core::decide::{self, Named, Reset};
use onus_core::event::{Body, Draft};
use onus_core::ids::{Number, TaskRef, Uid, Version};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::task::Task;
use onus_core::{graph, plan};
use onus_store::{Direction, Reach, StoreError};

use super::{Effect, Outcome, Result, Stop, UnitOfWork};

impl UnitOfWork<'_> {
    pub(super) fn add(&mut self, new: &NewTask) -> Result<Outcome> {
        if let Some(uid) = self.known_origin(new)? {
            return Ok(Outcome { existing: true, ..Outcome::on(Effect::Task, uid) });
        }
        self.lock_refs(std::iter::once(new))?;
        self.lock_links(std::iter::once(new), BTreeSet::new())?;
        let uid = (self.outside.new_uid)(self.now.wall_ms);
        let named = self.named(new, &BTreeMap::new())?;
        self.create(uid, new, &named)?;
        // Nothing waits for a new task except its parent: only through that one can a cycle close.
        if let Some(parent) = named.parent {
            for upstream in &named.deps {
                if let Some(mut circle) = self.circle(parent, *upstream)? {
                    circle.insert(1, "the new task".to_owned());
                    let id = self.snapshot().id_of(parent)?;
                    return Err(decide::cycle_refusal(&id, &circle).into());
                }
            }
        }
        Ok(Outcome::on(Effect::Task, uid))
    }

    /// Locks what new tasks are linked with: numbers first, then the edges, then the existing tasks. `ends`:
    /// existing tasks that a plan's own entries stand for.
    fn lock_links<'n>(
        &mut self,
        new: impl Iterator<Item = &'n NewTask>,
        mut ends: BTreeSet<Uid>,
    ) -> Result<()> {
        let links: Vec<&TaskLink> = new.flat_map(|new| new.parent.iter().chain(&new.deps)).collect();
        if links.is_empty() {
            return Ok(());
        }
        self.write.lock_project()?;
        self.write.lock_graph()?;
        for link in links {
            if let TaskLink::Task(reference) = link {
                // A reference that names nothing is refused later, when its task is created.
                ends.extend(self.write.resolve(reference)?);
            }
        }
        Ok(self.write.lock_tasks(&Vec::from_iter(ends), Reach::Rows)?)
    }

    /// Locks unique references: of two requests for the same one, the second finds the first one's.
    fn lock_refs<'n>(&mut self, mut new: impl Iterator<Item = &'n NewTask>) -> Result<()> {
        if new.any(|new| self.policy.has_unique(new.facts.refs.keys())) {
            self.write.lock_project()?;
            self.write.lock_graph()?;
        }
        Ok(())
    }

    fn known_origin(&mut self, new: &NewTask) -> Result<Option<Uid>> {
        match &new.origin {
            Some(origin) => Ok(self.write.task_by_origin(origin)?),
            None => Ok(None),
        }
    }

    fn create(&mut self, uid: Uid, new: &NewTask, named: &Named) -> Result<()> {
        let number = self.write.next_number()?;
        let drafts = decide::create(new, number, named, self.now.wall_ms)?;
        self.append_to_task(uid, &mut None, drafts)
    }

    fn named(&mut self, new: &NewTask, planned: &BTreeMap<&str, Uid>) -> Result<Named> {
        let taken = self.taken_ref(new.facts.refs.iter(), None)?;
        let mut resolve = |link: &TaskLink| match link {
            TaskLink::Task(reference) => self.resolve(reference),
            TaskLink::Planned(name) => match planned.get(name.as_str()) {
                Some(uid) => Ok(*uid),
                None => {
                    Err(Refusal::usage(format!("'{name}' is a name in a plan, and this is not part of one"))
                        .into())
                }
            },
        };
        Ok(Named {
            taken,
            parent: new.parent.as_ref().map(&mut resolve).transpose()?,
            deps: new.deps.iter().map(&mut resolve).collect::<Result<_>>()?,
            relate: new.relates.iter().map(&mut resolve).collect::<Result<_>>()?,
            ..Named::default()
        })
    }

    /// Creates all tasks of a plan, or none. Their uids are assigned first, so that they can refer to one
    /// another in any order.
    pub(super) fn add_plan(&mut self, plan: &[PlannedTask]) -> Result<Outcome> {
        let order = plan::order(plan, &self.project.prefix)?;
        let mut uids = Vec::with_capacity(plan.len());
        let mut new: BTreeSet<Uid> = BTreeSet::new();
        for planned in plan {
            let known = self.known_origin(&planned.task)?;
            uids.push(match known {
                Some(uid) => uid,
                None => (self.outside.new_uid)(self.now.wall_ms),
            });
            match known {
                Some(uid) => {
                    let id = self.snapshot().id_of(uid)?;
                    self.remarks.push(format!("{id} already exists, with the same origin"));
                }
                None => new.extend(uids.last()),
            }
        }
        // If one of the origins becomes known from now on, creating its task conflicts with it, and the whole
        // request is run again.
        let known = uids.iter().copied().filter(|uid| !new.contains(uid)).collect();
        self.lock_refs(plan.iter().map(|planned| &planned.task))?;
        self.lock_links(plan.iter().map(|planned| &planned.task), known)?;
        let by_name: BTreeMap<&str, Uid> = plan
            .iter()
            .zip(&uids)
            .filter_map(|(planned, uid)| Some((planned.name.as_deref()?, *uid)))
            .collect();
        let mut first = None;
        let mut there: BTreeSet<Uid> = BTreeSet::new();
        let mut later: Vec<(Uid, BTreeSet<Uid>)> = Vec::new();
        let mut grown: BTreeSet<Uid> = BTreeSet::new();
        for index in order {
            let uid = uids[index];
            if !new.contains(&uid) {
                continue;
            }
            let mut add = |work: &mut Self| {
                let mut named = work.named(&plan[index].task, &by_name)?;
                named.relate.remove(&uid);
                grown.extend(named.parent.filter(|parent| !new.contains(parent)));
                // Dependencies on tasks that are created later are added once these exist.
                let (now, then) =
                    named.deps.iter().copied().partition(|on| !new.contains(on) || there.contains(on));
                named.deps = now;
                later.push((uid, then));
                work.create(uid, &plan[index].task, &named)
            };
            add(self).map_err(|stop| match stop {
                Stop::Refused(refusal) => Stop::Refused(plan::of_entry(plan, index, refusal)),
                failed => failed,
            })?;
            there.insert(uid);
            first.get_or_insert(uid);
        }
        for (uid, on) in later.into_iter().filter(|(_, on)| !on.is_empty()) {
            let mut task = self.write.lock_task(uid)?;
            self.append_to_task(uid, &mut task, vec![Draft::new(Body::DepAdded { on })])?;
        }
        // No existing task waits for a new one except the parents that got new children: any cycle goes
        // through one of them.
        if let Some(circle) = graph::cycle_from(grown, |uid| self.write.waits_for(uid))? {
            let mut labels = Vec::with_capacity(circle.len());
            for uid in circle {
                labels.push(match uids.iter().position(|planned| *planned == uid && new.contains(&uid)) {
                    Some(index) => plan::label(plan, index),
                    None => self.snapshot().id_of(uid)?,
                });
            }
            return Err(plan::circle_refusal(&labels).into());
        }
        Ok(Outcome { task: first, existing: first.is_none(), ..Outcome::of(Effect::Tasks(uids)) })
    }

    /// The tasks of a plan that is requested again, in its order. `first`: the first task that was created
    /// for it. Tasks with an origin are found by that; the others were numbered in the order of their
    /// creation, and their first events name the first one's as their cause.
    pub(super) fn planned_again(&mut self, plan: &[PlannedTask], first: Option<Uid>) -> Result<Vec<Uid>> {
        let mut created = Vec::new();
        let cause = match first {
            Some(first) => self.write.event(first, Version(1))?.map(|record| record.uid),
            None => None,
        };
        let mut next = first;
        while let Some(uid) = next {
            let task = self.locked(uid)?;
            created.extend(Some(uid).filter(|_| task.origin.is_none()));
            let after = self.write.resolve(&TaskRef::Number(Number(task.number.0 + 1)))?.pop();
            next = match after {
                Some(after) => {
                    let record = self.write.event(after, Version(1))?;
                    Some(after).filter(|_| {
                        record.is_some_and(|record| record.cause.is_some() && record.cause == cause)
                    })
                }
                None => None,
            };
        }
        let mut created = created.into_iter();
        let mut uids = vec![None; plan.len()];
        for index in plan::order(plan, &self.project.prefix)? {
            uids[index] = match self.known_origin(&plan[index].task)? {
                Some(uid) => Some(uid),
                None => created.next(),
            };
        }
        Ok(uids.into_iter().flatten().collect())
    }

    /// Puts a task and everything downstream back to open: all of them, or none.
    pub(super) fn reset(&mut self, root: Uid, reason: &str, force: Option<&Force>) -> Result<Outcome> {
        let mut plan = Vec::new();
        let mut held: Option<(Refusal, u64)> = None;
        for uid in self.locked_closure(root)? {
            let task = self.locked(uid)?;
            self.caller.token = self.token_for(uid)?;
            let evidence = self.evidence(&task, None)?;
            match decide::reset(&self.view(&task, &evidence), uid == root, reason, force) {
                Ok(Reset::Stays) => {}
                Ok(Reset::Back(drafts)) => {
                    self.remember_loss(&task, evidence.lease.as_ref(), &drafts)?;
                    plan.push((uid, drafts));
                }
                Err(refusal) if refusal.code == Code::Held => {
                    let (_, count) = held.get_or_insert((refusal, 0));
                    *count += 1;
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
        if let Some((mut refusal, count)) = held {
            if count > 1 {
                refusal.message.push_str(&format!("; others hold {} more of the tasks to reset", count - 1));
            }
            let id = self.snapshot().id_of(root)?;
            // Claiming a task is not what the caller wants here.
            refusal.next.retain(|step| matches!(step, Step::Note { .. }));
            refusal.next.insert(0, Step::PreviewReset(id));
            return Err(refusal.into());
        }
        let mut touched = Vec::with_capacity(plan.len());
        for (uid, drafts) in plan {
            // What was reset before it counts in its row already.
            let task = self.locked(uid)?;
            touched.push(self.snapshot().touched_view(&task)?);
            let mut row = Some(task);
            self.append_to_task(uid, &mut row, drafts)?;
            // The cause of what follows is the reset itself, even if an override came before it.
            if let Some(row) = row.filter(|_| uid == root) {
                let record = self.write.event(uid, row.version)?;
                self.first = record.and_then(|record| record.uid.parse().ok()).or(self.first);
            }
        }
        Ok(Outcome::on(Effect::Reset(touched), root))
    }

    /// Begins another attempt. Downstream leases of dead holders are freed, those of live ones are left
    /// alone.
    pub(super) fn retry(
        &mut self,
        root: Uid,
        message: Option<&str>,
        force: Option<&Force>,
    ) -> Result<Outcome> {
        let closure = self.locked_closure(root)?;
        let task = self.locked(root)?;
        self.caller.token = self.token_for(root)?;
        let evidence = self.evidence(&task, None)?;
        let decision = decide::retry(&self.view(&task, &evidence), message, force)?;
        self.append_to_task(root, &mut Some(task), decision.drafts)?;
        for uid in closure.into_iter().skip(1) {
            let task = self.locked(uid)?;
            if !task.leased {
                continue;
            }
            self.caller.token = None;
            let evidence = self.evidence(&task, None)?;
            let freed = decide::freed(&self.view(&task, &evidence));
            if let Some(draft) = freed {
                self.remarks.push(format!("{} was freed: its holder is gone", evidence.id));
                self.append_to_task(uid, &mut Some(task), vec![draft])?;
            }
        }
        Ok(Outcome::on(Effect::Task, root))
    }

    /// A task, then everything downstream, each locked with the rows that count something of it.
    fn locked_closure(&mut self, root: Uid) -> Result<Vec<Uid>> {
        self.write.lock_graph()?;
        let mut closure = vec![root];
        closure.extend(self.write.closure(root, Direction::Downstream)?);
        self.write.lock_tasks(&closure, Reach::Neighbours)?;
        Ok(closure)
    }

    /// Locks a task's row until the commit and reads it, and then the clock.
    pub(super) fn locked(&mut self, uid: Uid) -> Result<Task> {
        let task = self.lock(uid)?;
        Ok(task.ok_or_else(|| StoreError::Damaged("a task vanished under its lock".to_owned()))?)
    }

    pub(super) fn lock(&mut self, uid: Uid) -> Result<Option<Task>> {
        if let Some(task) = self.rows.task(uid).cloned() {
            // Already locked: the clock reading holds, unless the transaction has waited for something else
            // since.
            if self.write.has_waited() {
                self.now = self.write.now();
            }
            return Ok(Some(task));
        }
        let task = self.write.lock_task(uid)?;
        self.now = self.write.now();
        if let Some(task) = &task {
            self.rows.locked(task.clone());
        }
        Ok(task)
    }
}
