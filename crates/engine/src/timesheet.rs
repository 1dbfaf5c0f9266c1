//! Hours: sums of the recorded stretches, and of nothing else (P7).
//!
//! A window is read page by page and added up on the way, so that memory grows with the rows of the answer
//! and not with the record. Work that is only in live leases' rows, and in no event yet, is not part of a
//! sum: it is shown beside it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use onus_core::actor::ActorName;
use onus_core::chain::Record;
use onus_core::event::Body;
use onus_core::ids::{Number, TaskRef, Uid};
use onus_core::refusal::{Code, Refusal};
use onus_core::timesheet::{Calendar, Covered, Part};
use onus_store::{EventQuery, Progress, Read, Result, Store, StoreError, TaskFacts, Window, WorkRow};

use crate::query::QueryResult;
use crate::request::{Stop, resolve};
use crate::snapshot::Snapshot;
use crate::{Engine, Identity};

/// How many rows are read at a time.
const PAGE: u64 = 2_000;

/// How far up a task's parents are followed.
const MAX_DEPTH: usize = 64;

/// What a row of a timesheet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    Actor,
    Task,
    Day,
    Week,
    Area,
    /// All tags of a task together, so that nothing counts twice.
    Tag,
    /// The outermost task that it is a part of.
    Parent,
}

/// Which hours to show.
#[derive(Clone, Debug)]
pub struct SheetQuery {
    pub calendar: Calendar,
    pub by: Vec<By>,
    /// Only this actor's.
    pub actor: Option<ActorName>,
    /// Only those of this task and its parts.
    pub under: Option<TaskRef>,
    /// Only those of tasks with this tag.
    pub tag: Option<String>,
    pub billing: Billing,
}

/// Which hours are paid for, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Billing {
    /// Tags, and ids of tasks: a task with the tag, or that is a part of the task, is billable. None: billing
    /// was not configured.
    pub billable: Option<Vec<String>>,
    /// Hundredths per hour of an actor's work.
    pub rates: BTreeMap<ActorName, i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SheetView {
    /// The first day, and the last.
    pub since: String,
    pub until: String,
    pub rows: Vec<SheetRow>,
    /// Everybody who worked, with the time on the wall: less than the sum where somebody did several things at once.
    pub actors: Vec<ActorHours>,
    /// People's and agents' together.
    pub total_seconds: f64,
    pub people_seconds: f64,
    /// Of everybody else: agents and CI.
    pub agent_seconds: f64,
    /// If these days are a month that was sealed: what was kept, and what came after. Null, too, where only a part is asked for.
    pub sealed: Option<SealedView>,
}

/// A month as it was sealed, and what was recorded or corrected afterwards.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SealedView {
    pub month: String,
    pub zone: String,
    pub sealed_at: String,
    pub by: String,
    /// The event's hash.
    pub hash: String,
    pub actors: Vec<SealedActor>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SealedActor {
    pub actor: String,
    pub sealed_seconds: f64,
    /// What came to it since, or was taken away.
    pub correction_seconds: f64,
}

/// Fields by which nobody asked to sort are missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SheetRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub week: Option<String>,
    /// Empty: the task has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub area: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// The outermost task that the work was a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_title: Option<String>,
    pub seconds: f64,
    pub people_seconds: f64,
    pub agent_seconds: f64,
    /// Of these, what is paid for; only if something says what is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub billable_seconds: Option<f64>,
    /// What that comes to at the rates of the caller's configuration; only if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActorHours {
    pub actor: String,
    pub seconds: f64,
    /// Time on the wall during which at least one session worked.
    pub wall_seconds: f64,
    /// Worked under leases that go on, and not recorded yet: not in any sum.
    pub pending_seconds: f64,
}

/// A stretch as it stands behind a sum: a part of it that lies on one day.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SheetPart {
    pub actor: String,
    pub task: String,
    /// Of the task and its lease's token: `WS-3#2`.
    pub session: String,
    pub day: String,
    pub start: String,
    pub seconds: f64,
    /// The event that tells it: its place in the task's stream, and its hash.
    pub version: u64,
    pub hash: String,
}

/// Receives parts as they are read.
pub type Parts<'a> = &'a mut dyn FnMut(SheetPart);

/// A cell by which rows are distinguished, and sorted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Text(String),
    Task(u64, Uid),
    Tags(Vec<String>),
}

#[derive(Debug, Default)]
struct Sum {
    people_ms: i64,
    agents_ms: i64,
    billable_ms: i64,
    /// Hundredths times milliseconds.
    earned: i128,
}

pub(crate) fn seconds(ms: i64) -> f64 {
    // Exact for more than 100,000 years.
    #[allow(clippy::cast_precision_loss, reason = "milliseconds of a human time fit")]
    let ms = ms as f64;
    ms / 1_000.0
}

impl Snapshot<'_> {
    /// Visits all rows of a query that is read page by page. `next`: reads the page after a row.
    pub(crate) fn walk<T, E: From<StoreError>>(
        &mut self,
        next: impl Fn(&mut dyn Read, Option<&T>, u64) -> Result<Vec<T>>,
        visit: &mut dyn FnMut(&mut Self, &T) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut last = None;
        loop {
            let mut page = next(self.read, last.as_ref(), PAGE)?;
            for row in &page {
                visit(self, row)?;
            }
            if (page.len() as u64) < PAGE {
                return Ok(());
            }
            last = page.pop();
        }
    }

    /// Visits all recorded work in a window, by its start.
    pub(crate) fn walk_work(
        &mut self,
        window: Window,
        visit: &mut dyn FnMut(&mut Self, &WorkRow) -> std::result::Result<(), Stop>,
    ) -> std::result::Result<(), Stop> {
        self.walk(|read, last, limit| read.work_in(window, last, limit), visit)
    }
}

/// Parents of tasks, as far as they were read.
#[derive(Debug, Default)]
struct Family {
    /// A task's parent, and its number.
    known: BTreeMap<Uid, (Option<Uid>, u64)>,
}

impl Family {
    /// A task and everything that it is a part of, from the inside out.
    fn line(&mut self, snapshot: &mut Snapshot<'_>, task: Uid, facts: &TaskFacts) -> Result<Vec<(Uid, u64)>> {
        let (mut line, mut next) = (vec![(task, facts.number.0)], facts.parent);
        while let Some(uid) = next.filter(|_| line.len() < MAX_DEPTH) {
            let (parent, number) = match self.known.get(&uid) {
                Some(known) => *known,
                None => {
                    let Some(task) = snapshot.task(uid)? else { break };
                    let known = (task.facts.parent, task.number.0);
                    self.known.insert(uid, known);
                    known
                }
            };
            line.push((uid, number));
            next = parent;
        }
        Ok(line)
    }
}

/// A timesheet in the making.
struct SheetBuilder<'a> {
    query: &'a SheetQuery,
    under: Option<Uid>,
    actor: Option<ActorName>,
    family: Family,
    /// Ids of tasks that are billable with all their parts, and tags.
    billable: Vec<String>,
    sums: BTreeMap<Vec<Cell>, Sum>,
    actors: BTreeMap<ActorName, (Covered, i64)>,
}

impl SheetBuilder<'_> {
    fn is_asked_for(&self, actor: &ActorName, facts: &TaskFacts, line: &[(Uid, u64)]) -> bool {
        self.actor.as_ref().is_none_or(|only| only == actor)
            && self.query.tag.as_ref().is_none_or(|tag| facts.tags.contains(tag))
            && self.under.is_none_or(|under| line.iter().any(|(uid, _)| *uid == under))
    }

    /// Follows a task's parents only if the query needs them.
    fn line(&mut self, snapshot: &mut Snapshot<'_>, task: Uid, facts: &TaskFacts) -> Result<Vec<(Uid, u64)>> {
        let is_needed =
            self.under.is_some() || self.query.by.contains(&By::Parent) || !self.billable.is_empty();
        if is_needed { self.family.line(snapshot, task, facts) } else { Ok(vec![(task, facts.number.0)]) }
    }

    fn add(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        row: &WorkRow,
        told: &mut Option<Parts<'_>>,
    ) -> std::result::Result<(), Stop> {
        let stretch = &row.stretch;
        let Some(actor) = &stretch.actor else { return Ok(()) };
        let line = self.line(snapshot, stretch.task, &row.task)?;
        if !self.is_asked_for(actor, &row.task, &line) {
            return Ok(());
        }
        let is_billable = self.billable.iter().any(|name| {
            row.task.tags.contains(name)
                || line.iter().any(|(_, number)| snapshot.id(Number(*number)) == *name)
        });
        let (calendar, id) = (&self.query.calendar, snapshot.id(row.task.number));
        for part in calendar.parts(stretch.start_ms, stretch.active_ms) {
            let key = self.query.by.iter().map(|by| cell(*by, actor, row, &line, &part)).collect();
            let sum = self.sums.entry(key).or_default();
            *(if actor.is_person() { &mut sum.people_ms } else { &mut sum.agents_ms }) += part.active_ms;
            if is_billable {
                sum.billable_ms += part.active_ms;
                let rate = self.query.billing.rates.get(actor).copied().unwrap_or_default();
                sum.earned += i128::from(rate) * i128::from(part.active_ms);
            }
            self.actors.entry(actor.clone()).or_default().0.add(&part, stretch.start_ms);
            if let Some(told) = told {
                let record = snapshot.read.event(stretch.task, stretch.version)?;
                told(SheetPart {
                    actor: actor.to_string(),
                    task: id.clone(),
                    session: format!("{id}#{}", stretch.token),
                    day: part.day.date.clone(),
                    start: onus_core::time::rfc3339(part.start_ms),
                    seconds: seconds(part.active_ms),
                    version: stretch.version.0,
                    hash: record.map(|record| record.hash).unwrap_or_default(),
                });
            }
        }
        Ok(())
    }

    /// Adds work that is in no event yet.
    fn add_pending(&mut self, snapshot: &mut Snapshot<'_>) -> std::result::Result<(), Stop> {
        for (task, lease) in snapshot.read.open_leases(u64::from(u32::MAX))? {
            let facts = TaskFacts {
                number: task.number,
                parent: task.facts.parent,
                area: task.facts.area.clone(),
                tags: task.facts.tags.clone(),
            };
            let line = self.line(snapshot, task.uid, &facts)?;
            if !self.is_asked_for(&lease.actor, &facts, &line) {
                continue;
            }
            let work = &lease.pulse.work;
            let stretches = work.waiting.iter().copied().chain(work.open.as_ref().map(|open| open.stretch));
            let parts = stretches.flat_map(|stretch| {
                self.query.calendar.parts(stretch.start_ms, stretch.active_ms).map(|part| part.active_ms)
            });
            let pending_ms: i64 = parts.sum();
            if pending_ms > 0 {
                self.actors.entry(lease.actor.clone()).or_default().1 += pending_ms;
            }
        }
        Ok(())
    }

    fn view(self, snapshot: &mut Snapshot<'_>) -> Result<SheetView> {
        let (mut people_ms, mut agents_ms) = (0, 0);
        let mut rows = Vec::with_capacity(self.sums.len());
        for (key, sum) in self.sums {
            people_ms += sum.people_ms;
            agents_ms += sum.agents_ms;
            let billing = &self.query.billing;
            let mut row = SheetRow {
                seconds: seconds(sum.people_ms + sum.agents_ms),
                people_seconds: seconds(sum.people_ms),
                agent_seconds: seconds(sum.agents_ms),
                billable_seconds: billing.billable.as_ref().map(|_| seconds(sum.billable_ms)),
                amount: (billing.billable.is_some() && !billing.rates.is_empty()).then(|| amount(sum.earned)),
                ..SheetRow::default()
            };
            for (by, cell) in self.query.by.iter().zip(key) {
                match (by, cell) {
                    (By::Actor, Cell::Text(text)) => row.actor = Some(text),
                    (By::Day, Cell::Text(text)) => row.day = Some(text),
                    (By::Week, Cell::Text(text)) => row.week = Some(text),
                    (By::Area, Cell::Text(text)) => row.area = Some(text),
                    (By::Tag, Cell::Tags(tags)) => row.tags = Some(tags),
                    (By::Task, Cell::Task(number, uid)) => {
                        row.task = Some(snapshot.id(Number(number)));
                        row.title = snapshot.title_of(uid)?;
                    }
                    (By::Parent, Cell::Task(number, uid)) => {
                        row.parent = Some(snapshot.id(Number(number)));
                        row.parent_title = snapshot.title_of(uid)?;
                    }
                    _ => {}
                }
            }
            rows.push(row);
        }
        let is_whole = self.actor.is_none() && self.under.is_none() && self.query.tag.is_none();
        let now =
            self.actors.iter().map(|(actor, (covered, _))| (actor.clone(), covered.summed_ms)).collect();
        let sealed = match is_whole {
            true => snapshot.sealed_month(window_of(&self.query.calendar), &now)?,
            false => None,
        };
        let (since, until) = dates(&self.query.calendar);
        Ok(SheetView {
            since,
            until,
            rows,
            actors: self
                .actors
                .into_iter()
                .map(|(actor, (covered, pending_ms))| ActorHours {
                    actor: actor.to_string(),
                    seconds: seconds(covered.summed_ms),
                    wall_seconds: seconds(covered.wall_ms()),
                    pending_seconds: seconds(pending_ms),
                })
                .collect(),
            total_seconds: seconds(people_ms + agents_ms),
            people_seconds: seconds(people_ms),
            agent_seconds: seconds(agents_ms),
            sealed,
        })
    }
}

pub(crate) fn window_of(calendar: &Calendar) -> Window {
    Window { since_ms: calendar.start_ms(), until_ms: calendar.end_ms() }
}

/// The first day of a calendar, and the last.
pub(crate) fn dates(calendar: &Calendar) -> (String, String) {
    let date = |day: Option<&onus_core::timesheet::Day>| day.map(|day| day.date.clone()).unwrap_or_default();
    (date(calendar.days().first()), date(calendar.days().last()))
}

/// From hundredths per hour times milliseconds, rounded to hundredths.
fn amount(earned: i128) -> f64 {
    let hour = i128::from(onus_core::time::HOUR_MS);
    let hundredths = (earned + hour / 2 * earned.signum()) / hour;
    #[allow(clippy::cast_precision_loss, reason = "sums of money of a human size fit")]
    let hundredths = hundredths as f64;
    hundredths / 100.0
}

fn cell(by: By, actor: &ActorName, row: &WorkRow, line: &[(Uid, u64)], part: &Part<'_>) -> Cell {
    match by {
        By::Actor => Cell::Text(actor.to_string()),
        By::Task => Cell::Task(row.task.number.0, row.stretch.task),
        By::Day => Cell::Text(part.day.date.clone()),
        By::Week => Cell::Text(part.day.week.clone()),
        By::Area => Cell::Text(row.task.area.clone().unwrap_or_default()),
        By::Tag => Cell::Tags(row.task.tags.iter().cloned().collect()),
        By::Parent => {
            let (uid, number) = line.last().copied().unwrap_or((row.stretch.task, row.task.number.0));
            Cell::Task(number, uid)
        }
    }
}

impl Snapshot<'_> {
    /// The seal of a month, if it was sealed. Seals are in the project's own stream, which is short.
    fn seal_of(&mut self, window: Window) -> Result<Option<(Record, Body)>> {
        let (mut after_seq, mut found) = (0, None);
        loop {
            let stream = Some(self.project.uid);
            let query = EventQuery { stream, after_seq, limit: PAGE, ..EventQuery::default() };
            let page = self.read.events(&query)?;
            let Some(last) = page.last() else { return Ok(found) };
            after_seq = last.seq;
            for record in page {
                match record.body() {
                    Ok(Body::TimesheetSealed { since_ms, until_ms, .. })
                        if since_ms == window.since_ms && until_ms == window.until_ms =>
                    {
                        found = record.body().ok().map(|body| (record, body));
                    }
                    _ => {}
                }
            }
        }
    }

    fn sealed_month(&mut self, window: Window, now: &BTreeMap<ActorName, i64>) -> Result<Option<SealedView>> {
        let Some((record, Body::TimesheetSealed { month, zone, actors, .. })) = self.seal_of(window)? else {
            return Ok(None);
        };
        let names: BTreeSet<&ActorName> = actors.keys().chain(now.keys()).collect();
        let ms = |of: &BTreeMap<ActorName, i64>, name: &ActorName| of.get(name).copied().unwrap_or_default();
        let shown = names.into_iter().map(|name| SealedActor {
            actor: name.to_string(),
            sealed_seconds: seconds(ms(&actors, name)),
            correction_seconds: seconds(ms(now, name) - ms(&actors, name)),
        });
        let actors = shown.collect();
        Ok(Some(SealedView {
            month,
            zone,
            sealed_at: record.at,
            by: record.actor,
            hash: record.hash,
            actors,
        }))
    }

    /// What each actor has worked in a month that is over and not sealed yet.
    pub(crate) fn hours_to_seal(
        &mut self,
        month: &str,
        window: Window,
    ) -> std::result::Result<BTreeMap<ActorName, i64>, Stop> {
        if window.until_ms > self.now.wall_ms {
            return Err(Refusal::new(Code::NotAllowed, format!("{month} is not over yet")).into());
        }
        if let Some((record, _)) = self.seal_of(window)? {
            let date = record.at.get(..10).unwrap_or(&record.at);
            let message = format!("{month} was sealed by {} on {date}", record.actor);
            return Err(Refusal::new(Code::NotAllowed, message).into());
        }
        let mut actors = BTreeMap::new();
        self.walk_work(window, &mut |_, row| {
            let stretch = &row.stretch;
            let (from_ms, until_ms) =
                (stretch.start_ms.max(window.since_ms), stretch.end_ms().min(window.until_ms));
            if let Some(actor) = stretch.actor.as_ref().filter(|_| from_ms < until_ms) {
                *actors.entry(actor.clone()).or_insert(0) +=
                    (until_ms - from_ms) * stretch.active_ms.signum();
            }
            Ok(())
        })?;
        Ok(actors)
    }

    pub(crate) fn title_of(&mut self, uid: Uid) -> Result<Option<String>> {
        let task = self.task(uid)?;
        task.map(|task| self.title(&task)).transpose()
    }

    pub(crate) fn timesheet(
        &mut self,
        query: &SheetQuery,
        mut told: Option<Parts<'_>>,
        report: &mut dyn FnMut(Progress),
    ) -> std::result::Result<SheetView, Stop> {
        let mut sheet = SheetBuilder {
            query,
            under: query.under.as_ref().map(|task| resolve(self.read, self.project, task)).transpose()?,
            actor: query.actor.as_ref().map(|actor| self.actor_behind(actor)).transpose()?,
            family: Family::default(),
            billable: query.billing.billable.clone().unwrap_or_default(),
            sums: BTreeMap::new(),
            actors: BTreeMap::new(),
        };
        let window = window_of(&query.calendar);
        let total = query.calendar.days().len() as u64;
        self.walk_work(window, &mut |snapshot, row| {
            sheet.add(snapshot, row, &mut told)?;
            let days = query.calendar.days().partition_point(|day| day.start_ms <= row.stretch.start_ms);
            report(Progress { done: days as u64, total });
            Ok(())
        })?;
        sheet.add_pending(self)?;
        Ok(sheet.view(self)?)
    }
}

impl<S: Store> Engine<S> {
    /// Hours in a period. `told`: receives each part of a stretch that is in a sum, by its start. `report`:
    /// how many of the days have been read.
    pub fn timesheet(
        &mut self,
        identity: Option<&Identity>,
        query: &SheetQuery,
        told: Option<Parts<'_>>,
        report: &mut dyn FnMut(Progress),
    ) -> QueryResult<SheetView> {
        self.ask(identity, |snapshot| snapshot.timesheet(query, told, report))
    }
}
