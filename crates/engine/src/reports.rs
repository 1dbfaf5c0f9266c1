//! Reports for people: what was done since, an actor's day, and how work flows. All from the same rows as
//! timesheets.

use std::collections::BTreeMap;

use serde::Serialize;

use onus_core::actor::ActorName;
use onus_core::ids::{Number, Token, Uid};
use onus_core::refusal::Step;
use onus_core::time::rfc3339;
use onus_core::timesheet::{Calendar, Durations};
use onus_store::{Finished, Progress, Read, Result, Store, Used, Window};

use crate::query::QueryResult;
use crate::request::Stop;
use crate::sessions::{UsageSum, UsageView};
use crate::snapshot::Snapshot;
use crate::status::AwaitedView;
use crate::timesheet::{Billing, By, SheetQuery, dates, seconds, window_of};
use crate::{Engine, Identity};

/// How many tasks of one kind a report names.
const NAMED: usize = 200;

/// A task in a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportTask {
    pub id: String,
    pub title: String,
    /// When it was completed, or claimed.
    pub at: String,
    /// All that was worked on it.
    pub worked_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "StandupView"))]
pub struct StandupView<N = Step> {
    pub since: String,
    /// Everybody who finished, holds or worked on something.
    pub actors: Vec<ActorStandup>,
    pub blocked: Vec<AwaitedView<N>>,
    pub review: Vec<AwaitedView<N>>,
    pub waiting_for_you: Vec<AwaitedView<N>>,
    pub people_seconds: f64,
    pub agent_seconds: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActorStandup {
    pub actor: String,
    pub done: Vec<ReportTask>,
    pub in_progress: Vec<StandupWork>,
    pub worked_seconds: f64,
}

/// A task that somebody holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StandupWork {
    pub id: String,
    pub title: String,
    pub since: String,
    /// Whether its holder can be trusted to be working.
    pub live: bool,
}

/// An actor's time as it went by.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DayView {
    pub actor: String,
    pub since: String,
    pub until: String,
    pub entries: Vec<DayEntry>,
    pub done: Vec<ReportTask>,
    /// The sum of all, and the time on the wall: less where two went on at once.
    pub worked_seconds: f64,
    pub wall_seconds: f64,
}

/// Work on one task without a pause of more than a minute.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DayEntry {
    pub day: String,
    pub start: String,
    pub end: String,
    pub task: String,
    pub title: String,
    pub worked_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowView {
    pub since: String,
    pub until: String,
    /// Tasks that were completed.
    pub done: u64,
    /// From being asked for to being done.
    pub lead: Percentiles,
    /// From the start of work to being done.
    pub cycle: Percentiles,
    /// Of the cycle: worked, held without work, and held by nobody (in review, blocked, waiting for somebody).
    pub worked_seconds: f64,
    pub idle_seconds: f64,
    pub waiting_seconds: f64,
    /// Completed week by week.
    pub weeks: Vec<FlowWeek>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowWeek {
    pub week: String,
    pub done: u64,
}

/// Each within 1 %. Null: there are none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentiles {
    pub p50_seconds: Option<f64>,
    pub p85_seconds: Option<f64>,
    pub p95_seconds: Option<f64>,
}

impl Percentiles {
    fn of(durations: &Durations) -> Percentiles {
        let at = |percent| durations.percentile(percent).map(seconds);
        Percentiles { p50_seconds: at(50), p85_seconds: at(85), p95_seconds: at(95) }
    }
}

impl StandupView {
    /// The same in an interface's words.
    pub fn worded(&self, say: &dyn Fn(&Step) -> Option<String>) -> StandupView<String> {
        let all = |list: &[AwaitedView]| list.iter().map(|waits| waits.worded(say)).collect();
        StandupView {
            since: self.since.clone(),
            actors: self.actors.clone(),
            blocked: all(&self.blocked),
            review: all(&self.review),
            waiting_for_you: all(&self.waiting_for_you),
            people_seconds: self.people_seconds,
            agent_seconds: self.agent_seconds,
        }
    }
}

impl Snapshot<'_> {
    /// Visits all tasks that were completed in a window, in that order.
    fn walk_finished(
        &mut self,
        window: Window,
        visit: &mut dyn FnMut(&mut Self, &Finished) -> Result<()>,
    ) -> Result<()> {
        self.walk(|read, last, limit| read.finished_in(window, last, limit), visit)
    }

    /// Who completed a task: the holder of its last lease.
    fn finisher(&mut self, task: &Finished) -> Result<Option<ActorName>> {
        Ok(self.lease(task.uid, task.token)?.map(|lease| lease.actor))
    }

    fn report_task(&mut self, task: &Finished) -> Result<ReportTask> {
        Ok(ReportTask {
            id: self.id(task.task.number),
            title: self.title_of(task.uid)?.unwrap_or_default(),
            at: rfc3339(task.completed_at_ms),
            worked_seconds: seconds(task.effort_ms),
        })
    }

    fn standup(
        &mut self,
        identity: Option<&Identity>,
        calendar: &Calendar,
    ) -> std::result::Result<StandupView, Stop> {
        let query = SheetQuery {
            calendar: calendar.clone(),
            by: vec![By::Actor],
            actor: None,
            under: None,
            tag: None,
            billing: Billing::default(),
        };
        let sheet = self.timesheet(&query, None, &mut |_| {})?;
        let mut actors: BTreeMap<String, ActorStandup> = BTreeMap::new();
        for hours in &sheet.actors {
            let entry = actors.entry(hours.actor.clone()).or_default();
            entry.worked_seconds = hours.seconds + hours.pending_seconds;
        }
        self.walk_finished(window_of(calendar), &mut |snapshot, task| {
            let Some(actor) = snapshot.finisher(task)? else { return Ok(()) };
            let done = &mut actors.entry(actor.to_string()).or_default().done;
            if done.len() < NAMED {
                done.push(snapshot.report_task(task)?);
            }
            Ok(())
        })?;
        let status = self.status(identity)?;
        for (list, live) in
            [(&status.held, true), (&status.stale, true), (&status.stalled, true), (&status.lapsed, false)]
        {
            for held in list {
                actors.entry(held.lease.actor.clone()).or_default().in_progress.push(StandupWork {
                    id: held.id.clone(),
                    title: held.title.clone(),
                    since: held.lease.acquired_at.clone(),
                    live,
                });
            }
        }
        let actors = actors.into_iter().map(|(actor, standup)| ActorStandup { actor, ..standup });
        Ok(StandupView {
            since: dates(calendar).0,
            actors: actors.collect(),
            blocked: status.blocked,
            review: status.review,
            waiting_for_you: status.waiting_for_you,
            people_seconds: sheet.people_seconds,
            agent_seconds: sheet.agent_seconds,
        })
    }

    fn day(&mut self, actor: &ActorName, calendar: &Calendar) -> std::result::Result<DayView, Stop> {
        /// A pause that is not worth a line.
        const PAUSE_MS: i64 = 60_000;
        struct Entry {
            day: String,
            start_ms: i64,
            end_ms: i64,
            task: Uid,
            worked_ms: i64,
        }
        let name = self.actor_behind(actor)?;
        let mut entries: Vec<Entry> = Vec::new();
        let mut covered = onus_core::timesheet::Covered::default();
        self.walk_work(window_of(calendar), &mut |_, row| {
            let stretch = &row.stretch;
            if stretch.actor.as_ref() != Some(&name) {
                return Ok(());
            }
            for part in calendar.parts(stretch.start_ms, stretch.active_ms) {
                covered.add(&part, stretch.start_ms);
                let end_ms = part.start_ms + part.active_ms.abs();
                let same = entries.iter_mut().rev().find(|entry| {
                    entry.task == stretch.task
                        && entry.day == part.day.date
                        && part.start_ms <= entry.end_ms + PAUSE_MS
                });
                match same {
                    Some(entry) => {
                        entry.end_ms = entry.end_ms.max(end_ms);
                        entry.worked_ms += part.active_ms;
                    }
                    None => entries.push(Entry {
                        day: part.day.date.clone(),
                        start_ms: part.start_ms,
                        end_ms,
                        task: stretch.task,
                        worked_ms: part.active_ms,
                    }),
                }
            }
            Ok(())
        })?;
        let mut done = Vec::new();
        self.walk_finished(window_of(calendar), &mut |snapshot, task| {
            if done.len() < NAMED && snapshot.finisher(task)?.as_ref() == Some(&name) {
                done.push(snapshot.report_task(task)?);
            }
            Ok(())
        })?;
        let (since, until) = dates(calendar);
        let mut shown = Vec::with_capacity(entries.len());
        for entry in entries {
            let Some(task) = self.task(entry.task)? else { continue };
            shown.push(DayEntry {
                day: entry.day,
                start: rfc3339(entry.start_ms),
                end: rfc3339(entry.end_ms),
                task: self.id(task.number),
                title: self.title(&task)?,
                worked_seconds: seconds(entry.worked_ms),
            });
        }
        Ok(DayView {
            actor: name.to_string(),
            since,
            until,
            entries: shown,
            done,
            worked_seconds: seconds(covered.summed_ms),
            wall_seconds: seconds(covered.wall_ms()),
        })
    }

    fn flow(&mut self, calendar: &Calendar, report: &mut dyn FnMut(Progress)) -> Result<FlowView> {
        let (mut lead, mut cycle) = (Durations::default(), Durations::default());
        let (mut worked_ms, mut idle_ms, mut waiting_ms) = (0, 0, 0);
        let mut weeks: Vec<FlowWeek> = Vec::new();
        for day in calendar.days() {
            if weeks.last().is_none_or(|last| last.week != day.week) {
                weeks.push(FlowWeek { week: day.week.clone(), done: 0 });
            }
        }
        let total = calendar.days().len() as u64;
        self.walk_finished(window_of(calendar), &mut |_, task| {
            let cycle_ms = task.completed_at_ms - task.started_at_ms.unwrap_or(task.completed_at_ms);
            lead.add(task.completed_at_ms - task.created_at_ms);
            cycle.add(cycle_ms);
            // Each is at most what is left of the cycle: clocks may have been set.
            let worked = task.effort_ms.clamp(0, cycle_ms.max(0));
            let held = task.held_ms.clamp(worked, cycle_ms.max(worked));
            worked_ms += worked;
            idle_ms += held - worked;
            waiting_ms += (cycle_ms - held).max(0);
            let at = calendar.days().partition_point(|day| day.start_ms <= task.completed_at_ms);
            if let Some(day) = at.checked_sub(1).and_then(|at| calendar.days().get(at))
                && let Some(week) = weeks.iter_mut().find(|week| week.week == day.week)
            {
                week.done += 1;
            }
            report(Progress { done: at as u64, total });
            Ok(())
        })?;
        let (since, until) = dates(calendar);
        Ok(FlowView {
            since,
            until,
            done: lead.count(),
            lead: Percentiles::of(&lead),
            cycle: Percentiles::of(&cycle),
            worked_seconds: seconds(worked_ms),
            idle_seconds: seconds(idle_ms),
            waiting_seconds: seconds(waiting_ms),
            weeks,
        })
    }
}

/// What distinguishes rows of costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostBy {
    Task,
    Tag,
    Actor,
    Model,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostView {
    pub since: String,
    pub until: String,
    pub rows: Vec<CostRow>,
    /// One for each currency, and one for what has no cost.
    pub totals: Vec<UsageView>,
    /// Tasks that were completed in this time, and what was recorded for each of them on average, by currency.
    pub done: u64,
    pub per_done: Vec<UsageView>,
}

/// Fields by which nobody asked to sort are missing.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    #[serde(flatten)]
    pub usage: UsageView,
}

/// The key of a row of costs: a task, tags, an actor or a model; and always the currency.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct CostKey {
    task: Option<(u64, Uid)>,
    tags: Vec<String>,
    name: Option<String>,
    currency: Option<String>,
}

impl Snapshot<'_> {
    fn cost(&mut self, calendar: &Calendar, by: CostBy) -> Result<CostView> {
        let mut rows: BTreeMap<CostKey, UsageSum> = BTreeMap::new();
        let mut totals: BTreeMap<Option<String>, UsageSum> = BTreeMap::new();
        let window = window_of(calendar);
        let used_in = |read: &mut dyn Read, last: Option<&Used>, limit| read.usage_in(window, last, limit);
        self.walk(used_in, &mut |_, used| -> Result<()> {
            let usage = &used.usage.usage;
            let currency = usage.cost.as_ref().map(|cost| cost.currency.clone());
            let mut key = CostKey { currency: currency.clone(), ..CostKey::default() };
            match by {
                CostBy::Task => key.task = Some((used.task.number.0, used.usage.task)),
                CostBy::Tag => key.tags = used.task.tags.iter().cloned().collect(),
                CostBy::Actor => key.name = Some(used.usage.actor.to_string()),
                CostBy::Model => key.name.clone_from(&usage.model),
            }
            rows.entry(key).or_default().add(usage);
            totals.entry(currency).or_default().add(usage);
            Ok(())
        })?;
        let (mut done, mut spent): (u64, BTreeMap<Option<String>, UsageSum>) = (0, BTreeMap::new());
        self.walk_finished(window, &mut |snapshot, task| {
            done += 1;
            for token in 1..=task.token.0 {
                for row in snapshot.read.usage_of(task.uid, Token(token))? {
                    let currency = row.usage.cost.as_ref().map(|cost| cost.currency.clone());
                    spent.entry(currency).or_default().add(&row.usage);
                }
            }
            Ok(())
        })?;
        let mut shown = Vec::with_capacity(rows.len());
        for (key, sum) in rows {
            let name = |wanted| key.name.clone().filter(|_| by == wanted);
            shown.push(CostRow {
                task: key.task.map(|(number, _)| self.id(Number(number))),
                title: key.task.map(|(_, uid)| self.title_of(uid)).transpose()?.flatten(),
                tags: (by == CostBy::Tag).then(|| key.tags.clone()),
                actor: name(CostBy::Actor),
                usage: sum.view(name(CostBy::Model), key.currency.clone()),
            });
        }
        let (since, until) = dates(calendar);
        let per_done = spent.into_iter().map(|(currency, sum)| sum.shared_by(done).view(None, currency));
        Ok(CostView {
            since,
            until,
            rows: shown,
            totals: totals.into_iter().map(|(currency, sum)| sum.view(None, currency)).collect(),
            done,
            per_done: per_done.collect(),
        })
    }
}

impl<S: Store> Engine<S> {
    /// What sessions used of models in a period.
    pub fn cost(
        &mut self,
        identity: Option<&Identity>,
        calendar: &Calendar,
        by: CostBy,
    ) -> QueryResult<CostView> {
        self.ask(identity, |snapshot| Ok(snapshot.cost(calendar, by)?))
    }

    /// What was done in a period, what is in progress, and what waits; per actor.
    pub fn standup(&mut self, identity: Option<&Identity>, calendar: &Calendar) -> QueryResult<StandupView> {
        self.ask(identity, |snapshot| snapshot.standup(identity, calendar))
    }

    /// One actor's time as it went by.
    pub fn day(
        &mut self,
        identity: Option<&Identity>,
        actor: &ActorName,
        calendar: &Calendar,
    ) -> QueryResult<DayView> {
        self.ask(identity, |snapshot| snapshot.day(actor, calendar))
    }

    /// How long the tasks took that were completed in a period.
    pub fn flow(
        &mut self,
        identity: Option<&Identity>,
        calendar: &Calendar,
        report: &mut dyn FnMut(Progress),
    ) -> QueryResult<FlowView> {
        self.ask(identity, |snapshot| Ok(snapshot.flow(calendar, report)?))
    }
}
