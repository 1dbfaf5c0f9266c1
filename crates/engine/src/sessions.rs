//! Work sessions: the stretches of one lease, with what is known about them.
//!
//! Three kinds of time are kept apart. *Worked* is what stretches say. *Held* is the time between a lease's
//! beginning and its end. *Waiting for a person* is from a permission prompt to the next sign of life, as
//! agents' hooks report it, and from the submission of its work until the review is over. What no hook
//! reports is unknown, which is not zero.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use onus_core::actor::ActorName;
use onus_core::ids::{TaskRef, Token, Uid};
use onus_core::lease::{EndKind, Lease};
use onus_core::session::{Cost, Usage, UsageSource};
use onus_core::task::{State, Task};
use onus_core::time::rfc3339;
use onus_store::{Result, Store, Window};

use crate::query::QueryResult;
use crate::request::Stop;
use crate::snapshot::Snapshot;
use crate::timesheet::seconds;
use crate::{Engine, Identity};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionView {
    /// The task's id and the lease's token: `WS-3#2`.
    pub session: String,
    pub task: String,
    pub title: String,
    pub token: u64,
    pub actor: String,
    pub instance: String,
    pub started_at: String,
    /// Null: the lease goes on.
    pub ended_at: Option<String>,
    /// How it ended: `done`, `released`, `lapsed`, …; null: it goes on.
    pub outcome: Option<EndKind>,
    /// Whether its holder can be trusted to be working.
    pub live: bool,
    /// Sum of its stretches, and what no event tells yet.
    pub worked_seconds: f64,
    /// Of these, what no event tells yet.
    pub pending_seconds: f64,
    /// From the lease's beginning to its end, or until now.
    pub held_seconds: f64,
    /// Waiting for a person: at permission prompts, and in review. Null: nothing was reported.
    pub waiting_seconds: Option<f64>,
    /// Whether it waits for a person now: at a permission prompt, or in review.
    pub waits: bool,
    /// How many stretches were recorded.
    pub stretches: u64,
    /// Whether a correction took some of its work away, or gave it to another.
    pub corrected: bool,
    /// What it used of models; empty: nobody reported anything.
    pub usage: Vec<UsageView>,
    /// How often the task had been tried before, as it is now.
    pub attempts: u64,
    /// The commits that were made in it, in this order.
    pub commits: Vec<String>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
}

/// What was used of one model, added up. What nobody reported is null.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsageView {
    pub model: Option<String>,
    pub tokens_in: Option<u64>,
    pub tokens_out: Option<u64>,
    pub tokens_cached: Option<u64>,
    /// The least certain of its sources.
    pub source: UsageSource,
    pub cost: Option<f64>,
    pub currency: Option<String>,
}

/// The sum of some usage.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UsageSum(Option<Usage>);

impl UsageSum {
    pub(crate) fn add(&mut self, usage: &Usage) {
        self.0 = Some(match self.0.take() {
            Some(sum) => sum.and(usage),
            None => usage.clone(),
        });
    }

    /// The average per one of `many`.
    pub(crate) fn shared_by(self, many: u64) -> UsageSum {
        let share = |sum: Option<u64>| sum.and_then(|sum| sum.checked_div(many));
        UsageSum(self.0.map(|sum| Usage {
            tokens_in: share(sum.tokens_in),
            tokens_out: share(sum.tokens_out),
            tokens_cached: share(sum.tokens_cached),
            cost: sum.cost.and_then(|cost| Some(Cost { micros: share(Some(cost.micros))?, ..cost })),
            ..sum
        }))
    }

    pub(crate) fn view(self, model: Option<String>, currency: Option<String>) -> UsageView {
        let sum = self.0.as_ref();
        UsageView {
            model,
            tokens_in: sum.and_then(|sum| sum.tokens_in),
            tokens_out: sum.and_then(|sum| sum.tokens_out),
            tokens_cached: sum.and_then(|sum| sum.tokens_cached),
            source: sum.map_or(UsageSource::Unknown, |sum| sum.source),
            cost: sum.and_then(|sum| sum.cost.as_ref()).map(|cost| money(cost.micros)),
            currency,
        }
    }
}

fn money(micros: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "sums of money of a human size fit")]
    let micros = micros as f64;
    micros / 1_000_000.0
}

/// Which sessions to list.
#[derive(Clone, Debug)]
pub struct SessionQuery {
    /// Those that worked in this period, or are still open.
    pub window: Window,
    pub actor: Option<ActorName>,
    /// All of this task, at any time.
    pub task: Option<TaskRef>,
    /// The newest of them.
    pub limit: usize,
}

impl Snapshot<'_> {
    fn session(&mut self, task: &Task, lease: &Lease) -> Result<SessionView> {
        let recorded = self.read.stretches_of(task.uid, lease.token)?;
        let recorded_ms: i64 = recorded.iter().map(|row| row.active_ms).sum();
        let pending_ms = lease.pulse.work.so_far().active_ms;
        let view = self.lease_view(lease, task)?;
        let (waiting_ms, waits) = self.waited_for_a_person(task, lease);
        let ended = lease.ended.as_ref();
        let mut sums: BTreeMap<(Option<String>, Option<String>), UsageSum> = BTreeMap::new();
        for row in self.read.usage_of(task.uid, lease.token)? {
            sums.entry(row.usage.kind()).or_default().add(&row.usage);
        }
        let commits = self.read.commits_under(task.uid, lease.token)?;
        let held_ms =
            ended.map_or(self.now.since_ms(&lease.acquired()), |ended| ended.at_ms - lease.acquired_at_ms);
        let id = self.id(task.number);
        Ok(SessionView {
            session: format!("{id}#{}", lease.token),
            title: self.title(task)?,
            task: id,
            token: lease.token.0,
            actor: lease.actor.to_string(),
            instance: lease.instance.to_string(),
            started_at: rfc3339(lease.acquired_at_ms),
            ended_at: ended.map(|ended| rfc3339(ended.at_ms)),
            outcome: ended.map(|ended| ended.how),
            live: view.live,
            worked_seconds: seconds(recorded_ms + pending_ms),
            pending_seconds: seconds(pending_ms),
            held_seconds: seconds(held_ms.max(0)),
            waiting_seconds: waiting_ms.map(seconds),
            waits,
            stretches: lease.worked.stretches,
            corrected: recorded.iter().any(|row| row.active_ms < 0),
            usage: sums.into_iter().map(|((model, currency), sum)| sum.view(model, currency)).collect(),
            attempts: task.attempts,
            commits: commits.into_iter().map(|row| row.commit.to_string()).collect(),
            worktree: view.worktree,
            branch: view.branch,
        })
    }

    /// How long a session has waited for a person, if that is known, and whether it does now.
    fn waited_for_a_person(&self, task: &Task, lease: &Lease) -> (Option<i64>, bool) {
        let mut waiting_ms = lease.worked_so_far().waited_ms;
        let is_asked = lease.pulse.work.is_asked();
        if is_asked {
            waiting_ms += self.now.since_ms(&lease.pulse.last).max(0);
        }
        let submitted = lease.ended.as_ref().filter(|ended| ended.how == EndKind::Submitted);
        let is_in_review = submitted.is_some() && task.state == State::Review && task.token == lease.token;
        if let Some(submitted) = submitted {
            let until_ms = lease.reviewed_at_ms.or(is_in_review.then_some(self.now.wall_ms));
            waiting_ms += until_ms.map_or(0, |until_ms| (until_ms - submitted.at_ms).max(0));
        }
        let waits = is_asked || is_in_review;
        ((waits || waiting_ms > 0 || submitted.is_some()).then_some(waiting_ms), waits)
    }

    /// The newest sessions that worked in a window, ordered by the start of their last stretch in it.
    fn sessions_in(&mut self, query: &SessionQuery) -> std::result::Result<Vec<(Uid, Token)>, Stop> {
        let actor = query.actor.as_ref().map(|actor| self.actor_behind(actor)).transpose()?;
        let is_asked_for = |who: Option<&ActorName>| actor.as_ref().is_none_or(|only| Some(only) == who);
        let mut last: BTreeMap<(Uid, Token), i64> = BTreeMap::new();
        let mut newest: BTreeSet<(i64, Uid, Token)> = BTreeSet::new();
        let mut meet = |(task, token): (Uid, Token), at_ms: i64| {
            if let Some(before_ms) = last.insert((task, token), at_ms) {
                newest.remove(&(before_ms, task, token));
            }
            newest.insert((at_ms, task, token));
            if newest.len() > query.limit
                && let Some((_, task, token)) = newest.pop_first()
            {
                last.remove(&(task, token));
            }
        };
        self.walk_work(query.window, &mut |_, row| {
            let stretch = &row.stretch;
            if is_asked_for(stretch.actor.as_ref()) && stretch.end_ms() > query.window.since_ms {
                meet((stretch.task, stretch.token), stretch.start_ms);
            }
            Ok(())
        })?;
        for (task, lease) in self.read.open_leases(u64::from(u32::MAX))? {
            let at_ms = lease.pulse.last.wall_ms;
            let is_then = at_ms >= query.window.since_ms && lease.acquired_at_ms < query.window.until_ms;
            if is_then && is_asked_for(Some(&lease.actor)) {
                meet((task.uid, lease.token), at_ms);
            }
        }
        Ok(newest.into_iter().rev().map(|(_, task, token)| (task, token)).collect())
    }
}

impl<S: Store> Engine<S> {
    /// Work sessions, newest first.
    pub fn sessions(
        &mut self,
        identity: Option<&Identity>,
        query: &SessionQuery,
    ) -> QueryResult<Vec<SessionView>> {
        self.ask(identity, |snapshot| {
            let leases = match &query.task {
                Some(task) => {
                    let task = snapshot.named_task(Some(task), identity)?;
                    let tokens = (1..=task.token.0).rev().take(query.limit);
                    tokens.map(|token| (task.uid, Token(token))).collect()
                }
                None => snapshot.sessions_in(query)?,
            };
            let mut sessions = Vec::with_capacity(leases.len());
            for (uid, token) in leases {
                if let (Some(task), Some(lease)) = (snapshot.task(uid)?, snapshot.lease(uid, token)?) {
                    sessions.push(snapshot.session(&task, &lease)?);
                }
            }
            Ok(sessions)
        })
    }
}
