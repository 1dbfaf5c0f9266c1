//! Undoes the caller's own last change: found in the ledger, undone by acts like any other.

use onus_core::apply::TaskFold;
use onus_core::command::Terms;
use onus_core::decide::{LastChange, check_fence, undo};
use onus_core::event::Event;
use onus_core::ids::{TaskRef, Uid};
use onus_core::lease::Mode;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::text::{Field, TextKey};
use onus_store::{EventQuery, Reach, StoreError};

use super::{Effect, Outcome, Result, UnitOfWork};

/// How many of the latest events are searched for the caller's last change.
const LATEST: u64 = 500;

impl UnitOfWork<'_> {
    pub(super) fn undo(&mut self, task: Option<&TaskRef>, terms: &Terms) -> Result<Outcome> {
        let uid = match task {
            Some(_) => self.target(task)?,
            None => self.changed_last()?,
        };
        // Undoing may change edges and neighbours: all of them are locked before anything is read.
        self.write.lock_graph()?;
        self.write.lock_tasks(&[uid], Reach::Neighbours)?;
        let now = self.locked(uid)?;
        // A superseded caller is told that first, not whose change was last.
        self.caller.token = self.token_for(uid)?;
        let evidence = self.evidence(&now, None)?;
        check_fence(&self.view(&now, &evidence))?;
        let (fold, events) = self.before_last_request(uid)?;
        let before = fold.task.as_ref();
        let change = LastChange {
            id: &self.project.prefix.id(now.number),
            events: &events,
            before,
            now: &now,
            title: match before {
                Some(task) => self.text_of(task, Field::Title, Some(task.title_version))?,
                None => None,
            },
            body: match before {
                Some(task) => self.text_of(task, Field::Body, task.body_version)?,
                None => None,
            },
            terms: self.terms_of_before(&fold, terms)?,
        };
        let (acts, what) = undo(&change, &self.caller)?;
        let mut outcome = Outcome::on(Effect::Task, uid);
        for act in &acts {
            outcome = self.on_task(uid, act, None)?;
        }
        let undone = events.iter().map(|event| event.body.kind()).collect();
        Ok(Outcome { effect: Effect::Undone { undone, what: Some(what) }, ..outcome })
    }

    /// The terms of the previous lease, for claiming it again. The worktree and the process are the caller's
    /// current ones.
    fn terms_of_before(&mut self, fold: &TaskFold, asked: &Terms) -> Result<Terms> {
        let Some(lease) = fold.task.as_ref().and_then(|task| fold.leases.get(&task.token)) else {
            return Ok(asked.clone());
        };
        let reason = TextKey { stream: lease.task, version: lease.version, field: Field::Reason };
        let has_no_limit = lease.grant.ttl_ms.is_none() && !self.caller.actor.is_person();
        Ok(Terms {
            ttl_ms: lease.grant.ttl_ms.or(has_no_limit.then_some(0)),
            reserve: lease.grant.reserve,
            shared: lease.grant.mode == Mode::Shared,
            constraints: lease.grant.constraints.clone(),
            reason: self.write.text(reason)?.map(|stored| stored.text),
            // What it reserved besides the task's declared scope is reserved again.
            scope: fold.scopes.get(&lease.token).map(|reserved| reserved.scope()).unwrap_or_default(),
            ..asked.clone()
        })
    }

    /// The task that the caller changed last.
    fn changed_last(&mut self) -> Result<Uid> {
        let query = EventQuery { newest: true, limit: LATEST, ..EventQuery::default() };
        let (actor, instance) = (self.caller.actor.to_string(), self.caller.instance.to_string());
        let is_person = self.caller.actor.is_person();
        let own = self.write.events(&query)?.into_iter().rev();
        let own = own.filter(|record| record.actor == actor && (is_person || record.instance == instance));
        // Seats have streams of their own, which belong to no task.
        let streams: Vec<Uid> = own.filter_map(|record| record.task?.parse().ok()).collect();
        for uid in streams {
            if self.write.task(uid)?.is_some() {
                return Ok(uid);
            }
        }
        let message = format!("none of the last {LATEST} changes to tasks is yours: name the task");
        Err(Refusal::new(Code::Nothing, message).next(Step::LogAll).into())
    }

    /// A task as it was before its last request, and the events of that request.
    fn before_last_request(&mut self, uid: Uid) -> Result<(TaskFold, Vec<Event>)> {
        let query = EventQuery { stream: Some(uid), limit: u64::from(u32::MAX), ..EventQuery::default() };
        let damaged = |error: String| StoreError::Damaged(error);
        let mut events = Vec::new();
        for record in self.write.events(&query)? {
            events.push(record.to_event().map_err(|error| damaged(error.to_string()))?);
        }
        // All events of a request have its first one as their cause.
        let first_of = |event: &Event| event.cause.unwrap_or(event.uid);
        let first = events.last().map(first_of);
        let begins = events.iter().position(|event| Some(first_of(event)) == first).unwrap_or_default();
        let last = events.split_off(begins);
        let mut fold = TaskFold::default();
        for event in &events {
            fold.add(event).map_err(|error| damaged(error.to_string()))?;
        }
        Ok((fold, last))
    }
}
