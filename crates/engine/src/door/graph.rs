//! What concerns more than one task: new tasks with their links, whole plans, reset and retry.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::command::{Force, NewTask, PlannedTask, TaskLink};
use onus_core::decide::{self, Named, Reset};
use onus_core::event::{Body, Draft};
use onus_core::graph;
use onus_core::ids::{Number, TaskRef, Uid};
use onus_core::refusal::{Code, Refusal};
use onus_core::task::Task;
use onus_store::{Direction, StoreError};

use super::{Door, Made, Outcome, Result};
use crate::view::TouchedView;

/// The most tasks that one plan may have.
const MAX_PLAN: usize = 5_000;

impl Door<'_> {
    pub(super) fn add(&mut self, new: &NewTask) -> Result<Outcome> {
        if let Some(uid) = self.known_origin(new)? {
            return Ok(Outcome { existing: true, ..Outcome::on(Made::Task, uid) });
        }
        let uid = (self.outside.new_uid)(self.now.wall_ms);
        let named = self.named(new, &BTreeMap::new())?;
        self.create(uid, new, &named)?;
        Ok(Outcome::on(Made::Task, uid))
    }

    fn known_origin(&mut self, new: &NewTask) -> Result<Option<Uid>> {
        match &new.origin {
            Some(origin) => Ok(self.write.task_by_origin(origin)?),
            None => Ok(None),
        }
    }

    fn create(&mut self, uid: Uid, new: &NewTask, named: &Named) -> Result<()> {
        let number = self.write.next_number()?;
        let draft = decide::create(new, number, named, self.now.wall_ms)?;
        self.append_to_task(uid, &mut None, vec![draft])?;
        // Nothing waits for a new task but the parent it was given: only through that one a circle can close.
        if let Some(parent) = named.parent {
            for upstream in &named.deps {
                if let Some(mut circle) = self.circle(parent, *upstream)? {
                    circle.push(self.id_of(uid)?);
                    let id = self.project.prefix.id(number);
                    return Err(decide::cycle_refusal(&id, &circle).into());
                }
            }
        }
        Ok(())
    }

    fn named(&mut self, new: &NewTask, planned: &BTreeMap<&str, Uid>) -> Result<Named> {
        let mut resolve = |link: &TaskLink| match link {
            TaskLink::Task(reference) => self.resolve(reference),
            TaskLink::Planned(name) => match planned.get(name.as_str()) {
                Some(uid) => Ok(*uid),
                None => Err(unknown_name(name).into()),
            },
        };
        Ok(Named {
            parent: new.parent.as_ref().map(&mut resolve).transpose()?,
            deps: new.deps.iter().map(&mut resolve).collect::<Result<_>>()?,
            relate: new.relates.iter().map(&mut resolve).collect::<Result<_>>()?,
            ..Named::default()
        })
    }

    /// All tasks of a plan, or none. Their uids are given first, so that they can name one another in any order.
    pub(super) fn add_plan(&mut self, plan: &[PlannedTask]) -> Result<Outcome> {
        if plan.is_empty() || plan.len() > MAX_PLAN {
            return Err(
                Refusal::usage(format!("a plan has 1 to {MAX_PLAN} tasks, this one {}", plan.len())).into()
            );
        }
        check_plan(plan)?;
        let mut uids = Vec::with_capacity(plan.len());
        let mut is_new = Vec::with_capacity(plan.len());
        for planned in plan {
            let known = self.known_origin(&planned.task)?;
            is_new.push(known.is_none());
            uids.push(match known {
                Some(uid) => uid,
                None => (self.outside.new_uid)(self.now.wall_ms),
            });
        }
        let by_name: BTreeMap<&str, Uid> = plan
            .iter()
            .zip(&uids)
            .filter_map(|(planned, uid)| Some((planned.name.as_deref()?, *uid)))
            .collect();
        let mut there: BTreeSet<Uid> = BTreeSet::new();
        let mut later: Vec<(Uid, BTreeSet<Uid>)> = Vec::new();
        for index in parents_first(plan) {
            if !is_new[index] {
                continue;
            }
            let mut named = self.named(&plan[index].task, &by_name)?;
            // What is created further down is named once it exists.
            let planned: BTreeSet<Uid> = uids.iter().copied().collect();
            let (now, then) =
                named.deps.iter().copied().partition(|uid| !planned.contains(uid) || there.contains(uid));
            named.deps = now;
            self.create(uids[index], &plan[index].task, &named)?;
            there.insert(uids[index]);
            later.push((uids[index], then));
        }
        for (uid, on) in later.into_iter().filter(|(_, on)| !on.is_empty()) {
            let mut task = self.write.lock_task(uid)?;
            self.append_to_task(uid, &mut task, vec![Draft::new(Body::DepAdded { on })])?;
        }
        let first = is_new.iter().position(|new| *new).map(|index| uids[index]);
        Ok(Outcome { task: first, existing: first.is_none(), ..Outcome::of(Made::Tasks(uids)) })
    }

    /// The tasks that a plan made which is asked for again: those whose creation names the first one's as its cause.
    pub(super) fn planned_with(&mut self, first: Uid) -> Result<Vec<Uid>> {
        let version = onus_core::ids::Version(1);
        let cause = self.write.event(first, version)?.map(|record| record.uid);
        let mut number = self.write.task(first)?.map_or(Number(0), |task| task.number);
        let mut found = vec![first];
        loop {
            number = Number(number.0 + 1);
            let next = self.write.resolve(&TaskRef::Number(number))?.pop();
            let Some(next) = next else { return Ok(found) };
            match self.write.event(next, version)? {
                Some(record) if record.cause.is_some() && record.cause == cause => found.push(next),
                _ => return Ok(found),
            }
        }
    }

    /// The task and all downstream of it, back to open: every one of them, or none.
    pub(super) fn reset(&mut self, root: Uid, reason: &str, force: Option<&Force>) -> Result<Outcome> {
        let mut plan = Vec::new();
        let mut held: Option<(Refusal, u64)> = None;
        for uid in std::iter::once(root).chain(self.write.closure(root, Direction::Downstream)?) {
            let task = self.locked(uid)?;
            self.caller.token = self.token_for(uid)?;
            let scene = self.scene(&task, None)?;
            match decide::reset(&self.view(&task, &scene), uid == root, reason, force) {
                Ok(Reset::Stays) => {}
                Ok(Reset::Back(drafts)) => plan.push((task, drafts)),
                Err(refusal) if refusal.code == Code::Held => {
                    let (_, count) = held.get_or_insert((refusal, 0));
                    *count += 1;
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
        if let Some((mut refusal, count)) = held {
            if count > 1 {
                refusal
                    .message
                    .push_str(&format!("; {} more of what would be reset are held, too", count - 1));
            }
            let id = self.id_of(root)?;
            refusal
                .next
                .insert(0, format!("onus reset {id} --dry-run   # all it would touch, and who holds it"));
            return Err(refusal.into());
        }
        let mut touched = Vec::with_capacity(plan.len());
        for (task, drafts) in plan {
            touched.push(self.touched(&task)?);
            self.append_to_task(task.uid, &mut Some(task), drafts)?;
        }
        Ok(Outcome::on(Made::Reset(touched), root))
    }

    /// Another attempt; what dead holders keep downstream is freed, what living ones hold is left alone.
    pub(super) fn retry(
        &mut self,
        root: Uid,
        message: Option<&str>,
        force: Option<&Force>,
    ) -> Result<Outcome> {
        let task = self.locked(root)?;
        self.caller.token = self.token_for(root)?;
        let scene = self.scene(&task, None)?;
        let decision = decide::retry(&self.view(&task, &scene), message, force)?;
        self.append_to_task(root, &mut Some(task), decision.drafts)?;
        for uid in self.write.closure(root, Direction::Downstream)? {
            let task = self.locked(uid)?;
            if !task.leased {
                continue;
            }
            self.caller.token = None;
            let scene = self.scene(&task, None)?;
            let freed = decide::freed(&self.view(&task, &scene));
            if let Some(draft) = freed {
                self.asides.push(format!("{} was freed: its holder is gone", scene.id));
                self.append_to_task(uid, &mut Some(task), vec![draft])?;
            }
        }
        Ok(Outcome::on(Made::Task, root))
    }

    pub(super) fn locked(&mut self, uid: Uid) -> Result<Task> {
        let task = self.write.lock_task(uid)?;
        Ok(task.ok_or_else(|| StoreError::Damaged("a task vanished under its lock".to_owned()))?)
    }

    fn touched(&mut self, task: &Task) -> Result<TouchedView> {
        Ok(self.renderer().touched(task)?)
    }
}

fn unknown_name(name: &str) -> Refusal {
    Refusal::usage(format!("the plan has no task named '{}'", name.escape_debug()))
}

/// Names are unique and known, parents form no circle, and nothing waits for itself.
fn check_plan(plan: &[PlannedTask]) -> std::result::Result<(), Refusal> {
    let mut index = BTreeMap::new();
    for (i, planned) in plan.iter().enumerate() {
        if let Some(name) = &planned.name
            && index.insert(name.as_str(), i).is_some()
        {
            return Err(Refusal::usage(format!("the plan has two tasks named '{}'", name.escape_debug())));
        }
    }
    let place = |link: &TaskLink| match link {
        TaskLink::Planned(name) => match index.get(name.as_str()) {
            Some(i) => Ok(Some(*i)),
            None => Err(unknown_name(name)),
        },
        TaskLink::Task(_) => Ok(None),
    };
    let mut waits = vec![Vec::new(); plan.len()];
    for (i, planned) in plan.iter().enumerate() {
        for dep in &planned.task.deps {
            waits[i].extend(place(dep)?);
        }
        for relates in &planned.task.relates {
            place(relates)?;
        }
        if let Some(parent) = planned.task.parent.as_ref().map(place).transpose()?.flatten() {
            waits[parent].push(i);
        }
    }
    match graph::circle(&waits) {
        None => Ok(()),
        Some(circle) => {
            let name = |i: &usize| plan[*i].name.clone().unwrap_or_else(|| plan[*i].task.title.clone());
            let mut names: Vec<String> = circle.iter().map(name).collect();
            names.extend(names.first().cloned());
            Err(Refusal::new(Code::Cycle, format!("the plan waits for itself: {}", names.join(" → ")))
                .next("take one of these dependencies out of the plan"))
        }
    }
}

/// The plan's order, but a parent before its parts: a part is counted in its parent's row.
fn parents_first(plan: &[PlannedTask]) -> Vec<usize> {
    let index: BTreeMap<&str, usize> =
        plan.iter().enumerate().filter_map(|(i, planned)| Some((planned.name.as_deref()?, i))).collect();
    let parent = |i: usize| match &plan[i].task.parent {
        Some(TaskLink::Planned(name)) => index.get(name.as_str()).copied(),
        _ => None,
    };
    let mut order = Vec::with_capacity(plan.len());
    let mut is_placed = vec![false; plan.len()];
    for i in 0..plan.len() {
        let mut line = vec![i];
        while let Some(above) = line.last().and_then(|last| parent(*last)).filter(|above| !is_placed[*above])
        {
            line.push(above);
        }
        while let Some(next) = line.pop() {
            if !std::mem::replace(&mut is_placed[next], true) {
                order.push(next);
            }
        }
    }
    order
}
