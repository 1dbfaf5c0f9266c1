//! Work sessions: the stretches of one lease, with what is known of them.
//!
//! Three kinds of time are kept apart. *Worked* is what stretches say. *Held* is the time between a lease's beginning and its
//! end. *Waiting for a person* is told by no event today, so it is unknown, which is not zero.

use std::collections::BTreeMap;

use serde::Serialize;

use onus_core::actor::ActorName;
use onus_core::ids::{TaskRef, Token, Uid};
use onus_core::lease::{EndKind, Lease};
use onus_core::refusal::Refusal;
use onus_core::session::{Usage, UsageSource};
use onus_core::task::Task;
use onus_core::time::rfc3339;
use onus_store::{Result, Store, Window};

use crate::query::WithNotices;
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
    /// Waiting for a person. Null: unknown.
    pub waiting_seconds: Option<f64>,
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

/// Adds up what was used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UsageSum {
    tokens_in: Option<u64>,
    tokens_out: Option<u64>,
    tokens_cached: Option<u64>,
    source: Option<UsageSource>,
    micros: Option<u64>,
}

impl UsageSum {
    pub(crate) fn add(&mut self, usage: &Usage) {
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or_default().saturating_add(more));
            }
        };
        add(&mut self.tokens_in, usage.tokens_in);
        add(&mut self.tokens_out, usage.tokens_out);
        add(&mut self.tokens_cached, usage.tokens_cached);
        add(&mut self.micros, usage.cost.as_ref().map(|cost| cost.micros));
        self.source = self.source.max(Some(usage.source));
    }

    /// What each of so many had of it on average.
    pub(crate) fn shared_by(self, many: u64) -> UsageSum {
        let share = |sum: Option<u64>| sum.and_then(|sum| sum.checked_div(many));
        UsageSum {
            tokens_in: share(self.tokens_in),
            tokens_out: share(self.tokens_out),
            tokens_cached: share(self.tokens_cached),
            micros: share(self.micros),
            source: self.source,
        }
    }

    pub(crate) fn view(self, model: Option<String>, currency: Option<String>) -> UsageView {
        UsageView {
            model,
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            tokens_cached: self.tokens_cached,
            source: self.source.unwrap_or(UsageSource::Unknown),
            cost: self.micros.map(money),
            currency,
        }
    }
}

fn money(micros: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "sums of money of a human size fit")]
    let micros = micros as f64;
    micros / 1_000_000.0
}

/// Which sessions are asked for.
#[derive(Clone, Debug)]
pub struct SessionQuery {
    /// Those that worked in this time, or go on.
    pub window: Window,
    pub actor: Option<ActorName>,
    /// All of this task, whenever they were.
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
        let ended = lease.ended.as_ref();
        let mut sums: BTreeMap<(Option<String>, Option<String>), UsageSum> = BTreeMap::new();
        for row in self.read.usage_of(task.uid, lease.token)? {
            let currency = row.usage.cost.as_ref().map(|cost| cost.currency.clone());
            sums.entry((row.usage.model.clone(), currency)).or_default().add(&row.usage);
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
            waiting_seconds: None,
            stretches: lease.worked.stretches,
            corrected: recorded.iter().any(|row| row.active_ms < 0),
            usage: sums.into_iter().map(|((model, currency), sum)| sum.view(model, currency)).collect(),
            attempts: task.attempts,
            commits: commits.into_iter().map(|row| row.commit.to_string()).collect(),
            worktree: view.worktree,
            branch: view.branch,
        })
    }

    /// The newest sessions that worked in a window: the leases, by the start of the last stretch there.
    fn sessions_in(&mut self, query: &SessionQuery) -> std::result::Result<Vec<(Uid, Token)>, Stop> {
        let actor = query.actor.as_ref().map(|actor| self.actor_behind(actor)).transpose()?;
        let is_asked_for = |who: Option<&ActorName>| actor.as_ref().is_none_or(|only| Some(only) == who);
        let mut last: BTreeMap<(Uid, Token), i64> = BTreeMap::new();
        let mut newest: BTreeMap<(i64, Uid, Token), ()> = BTreeMap::new();
        let mut meet = |(task, token): (Uid, Token), at_ms: i64| {
            if let Some(before_ms) = last.insert((task, token), at_ms) {
                newest.remove(&(before_ms, task, token));
            }
            newest.insert((at_ms, task, token), ());
            if newest.len() > query.limit
                && let Some(((_, task, token), ())) = newest.pop_first()
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
        Ok(newest.into_keys().rev().map(|(_, task, token)| (task, token)).collect())
    }
}

impl<S: Store> Engine<S> {
    /// Work sessions, the newest first.
    pub fn sessions(
        &mut self,
        identity: Option<&Identity>,
        query: &SessionQuery,
    ) -> std::result::Result<WithNotices<Vec<SessionView>>, Refusal> {
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
