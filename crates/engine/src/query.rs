//! Queries, which change nothing. Readers write nothing: "lapsed" is computed and shown.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::actor::{Actor, ActorName, InstanceId, Tier};
use onus_core::apply::Project;
use onus_core::chain::Record;
use onus_core::command::Terms;
use onus_core::decide::can_be_taken_over;
use onus_core::event::Body;
use onus_core::ids::{Number, TaskRef, Uid, Version};
use onus_core::lease::{Lease, Process};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::seat::SeatName;
use onus_core::task::{Facts, Priority, Task};
use onus_core::text::{Field, TextKey};
use onus_store::{After, EventQuery, Filter, KnownInstance, Read, Store, StoreError};

use crate::conversation::MOST_OF_A_PROCESS;
use crate::request::seat::no_such_seat;
use crate::request::{Rows, Stop, resolve};
use crate::snapshot::Snapshot;
use crate::view::{ActorView, InstanceView, Notice, NoticeKind, TaskView, shown};
use crate::{Engine, Identity};

/// An answer, and what goes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct WithNotices<T> {
    pub value: T,
    pub notices: Vec<Notice>,
}

/// The outcome of a query.
pub type QueryResult<T> = Result<WithNotices<T>, Refusal>;

/// A page of tasks, and where the next one begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub tasks: Vec<TaskView>,
    /// Opaque to callers.
    pub cursor: Option<String>,
}

/// The end of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListEnd {
    /// Where the next page begins; opaque to callers.
    pub cursor: Option<String>,
    /// How many unfinished ad-hoc tasks were left out.
    pub ad_hoc: u64,
}

/// How many tasks of a list are in memory at a time, however long it is.
const SHEET: usize = 256;

/// Receives the tasks of a list as they are read, some at a time.
type Sheets<'a> = &'a mut dyn FnMut(&[TaskView]);

/// Receives a task that can be claimed now, with the lapsed lease that the claim would take over.
type Offers<'a> = &'a mut dyn FnMut(&mut Snapshot<'_>, Task, Option<Lease>) -> Result<(), StoreError>;

/// A range of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct LogPage {
    pub records: Vec<Record>,
    /// The texts of each event, by its uid and field; erased ones are missing.
    pub texts: BTreeMap<String, BTreeMap<String, String>>,
    /// The id of each task that occurs, and the name of each seat.
    pub ids: BTreeMap<String, String>,
    /// The fields before each edit, by the edit's uid.
    pub before: BTreeMap<String, TaskBefore>,
    /// Where to continue from.
    pub last_seq: u64,
}

/// A task's fields and texts before an edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskBefore {
    pub facts: Facts,
    /// None: erased.
    pub title: Option<String>,
    pub has_body: bool,
    /// None: there was none, or it was erased.
    pub body: Option<String>,
}

/// Whose events to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogScope<'a> {
    All,
    Task(&'a TaskRef),
    Seat(&'a SeatName),
}

impl<'a> From<Option<&'a TaskRef>> for LogScope<'a> {
    fn from(task: Option<&'a TaskRef>) -> LogScope<'a> {
        task.map_or(LogScope::All, LogScope::Task)
    }
}

impl Snapshot<'_> {
    /// The actor behind a name.
    pub(crate) fn actor_behind(&mut self, name: &ActorName) -> Result<ActorName, StoreError> {
        Ok(self.read.alias(name)?.unwrap_or_else(|| name.clone()))
    }

    /// The actor that asks, if known; an unknown one has the default tier.
    pub(crate) fn asker(&mut self, identity: Option<&Identity>) -> Result<Option<Actor>, StoreError> {
        let Some(identity) = identity else { return Ok(None) };
        let name = self.actor_behind(&identity.actor)?;
        let known = self.read.actor(&name)?;
        Ok(Some(known.unwrap_or(Actor { name, tier: Tier::DEFAULT, registered_at_ms: self.now.wall_ms })))
    }

    fn target(&mut self, reference: Option<&TaskRef>, identity: Option<&Identity>) -> Result<Uid, Stop> {
        if let Some(reference) = reference {
            return resolve(self.read, self.project, reference);
        }
        let held = match (self.asker(identity)?, identity) {
            (Some(actor), Some(identity)) => self.read.leases_held_by(&actor.name, &identity.instance)?,
            _ => Vec::new(),
        };
        let held: Vec<Lease> = held.into_iter().filter(Lease::is_of_a_task).collect();
        match held.as_slice() {
            [lease] => Ok(lease.task),
            [] => Err(Refusal::usage("name a task: you hold none").next(Step::Ready).into()),
            held => {
                Err(Refusal::usage(format!("name a task: you hold {}", held.len())).next(Step::Status).into())
            }
        }
    }

    pub(crate) fn named_task(
        &mut self,
        reference: Option<&TaskRef>,
        identity: Option<&Identity>,
    ) -> Result<Task, Stop> {
        let uid = self.target(reference, identity)?;
        let task = self.task(uid)?;
        Ok(task.ok_or_else(|| StoreError::Damaged("a task vanished".to_owned()))?)
    }

    /// The first tasks that the asker could claim now on these terms, each with the lapsed lease that the
    /// claim would take over.
    pub(crate) fn all_ready(
        &mut self,
        identity: Option<&Identity>,
        limit: usize,
        terms: &Terms,
    ) -> Result<Vec<(Task, Option<Lease>)>, StoreError> {
        let mut ready = Vec::new();
        self.walk_ready(identity, limit, terms, &mut |_, task, lease| {
            ready.push((task, lease));
            Ok(())
        })?;
        Ok(ready)
    }

    /// Visits the same tasks, one after the other.
    fn walk_ready(
        &mut self,
        identity: Option<&Identity>,
        limit: usize,
        terms: &Terms,
        visit: Offers<'_>,
    ) -> Result<(), StoreError> {
        let asker = self.asker(identity)?;
        let tier = asker.as_ref().map_or(Tier::MAX, |actor| actor.tier);
        let Snapshot { rows, project, now, policy, observe, .. } = *self;
        let mut left = limit;
        if left > 0 {
            self.read.walk_ready(
                asker.as_ref().map(|actor| &actor.name),
                tier,
                now.wall_ms,
                &mut |read, task| {
                    let mut snapshot = Snapshot { read, rows, project, now, policy, observe };
                    if snapshot.is_ready(&task, asker.as_ref(), terms)? {
                        left -= 1;
                        visit(&mut snapshot, task, None)?;
                    }
                    Ok(left > 0)
                },
            )?;
        }
        if left == 0 {
            return Ok(());
        }
        for (task, lease) in self.read.open_leases(u64::from(u32::MAX))? {
            if left > 0
                && can_be_taken_over(&lease, self.liveness(&lease))
                && self.is_ready(&task, asker.as_ref(), terms)?
            {
                left -= 1;
                visit(self, task, Some(lease))?;
            }
        }
        Ok(())
    }

    pub(crate) fn offered(&mut self, ready: &[(Task, Option<Lease>)]) -> Result<Vec<TaskView>, StoreError> {
        let views = ready.iter().map(|(task, lease)| {
            let takeover = Some(lease.is_some());
            let details = self.read.details(&shown(task, lease.as_ref()))?;
            Ok(TaskView { takeover, ..self.task_view_of(task, lease.as_ref(), &details)? })
        });
        views.collect()
    }
}

impl<S: Store> Engine<S> {
    /// Answers a query from one snapshot, with the asker's notices.
    pub(crate) fn ask<T>(
        &mut self,
        identity: Option<&Identity>,
        work: impl FnOnce(&mut Snapshot<'_>) -> Result<T, Stop>,
    ) -> QueryResult<T> {
        let (policy, observe) = (&self.policy, &self.outside.observe);
        let outcome = self.store.read(|read| {
            let (now, project) = (read.now(), read.project()?);
            let mut snapshot =
                Snapshot { read, rows: &Rows::default(), project: &project, now: &now, policy, observe };
            let value = match work(&mut snapshot) {
                Ok(value) => value,
                Err(stop) => return stop.of_reader().map(Err),
            };
            let notices = match (snapshot.asker(identity)?, identity) {
                (Some(actor), Some(identity)) => {
                    snapshot.news_for((&actor.name, &identity.instance))?.notices
                }
                _ => Vec::new(),
            };
            Ok(Ok(WithNotices { value, notices }))
        });
        outcome.map_err(Refusal::from)?
    }

    /// The same for nobody in particular.
    pub(crate) fn query<T>(
        &mut self,
        work: impl FnOnce(&mut Snapshot<'_>) -> Result<T, Stop>,
    ) -> Result<T, Refusal> {
        Ok(self.ask(None, work)?.value)
    }

    /// One task, with its notes.
    pub fn show(
        &mut self,
        identity: Option<&Identity>,
        reference: Option<&TaskRef>,
    ) -> QueryResult<TaskView> {
        let mut looked = self.ask(identity, |snapshot| {
            let task = snapshot.named_task(reference, identity)?;
            Ok(snapshot.shown_task(&task)?)
        })?;
        // The answer already contains its notes.
        let shown = Some(&looked.value.id);
        looked.notices.retain(|notice| notice.kind != NoticeKind::Note || notice.task.as_ref() != shown);
        Ok(looked)
    }

    pub fn list(
        &mut self,
        identity: Option<&Identity>,
        filter: &Filter,
        cursor: Option<&str>,
        limit: u64,
    ) -> QueryResult<Page> {
        collect(|sheets| self.list_in_sheets(identity, filter, cursor, limit, sheets))
    }

    /// The same for a list of any length. Returns the cursor.
    pub fn list_in_sheets(
        &mut self,
        identity: Option<&Identity>,
        filter: &Filter,
        cursor: Option<&str>,
        limit: u64,
        sheets: Sheets<'_>,
    ) -> QueryResult<ListEnd> {
        let mut after = cursor.map(parse_cursor).transpose()?;
        self.ask(identity, |snapshot| {
            let mut filter = filter.clone();
            for name in [&mut filter.holder, &mut filter.owner, &mut filter.kept_for].into_iter().flatten() {
                *name = snapshot.actor_behind(name)?;
            }
            // Reported once, with the first page.
            let says_so = filter.ad_hoc == Some(false) && after.is_none();
            let ad_hoc = if says_so { snapshot.read.count_ad_hoc()? } else { 0 };
            let mut left = limit;
            while left > 0 {
                let size = left.min(SHEET as u64);
                let tasks = snapshot.read.list(&filter, after, size)?;
                if let Some(last) = tasks.last() {
                    after = Some(After { priority: last.facts.priority, number: last.number });
                    sheets(&snapshot.listed(&tasks, identity)?);
                }
                if (tasks.len() as u64) < size {
                    return Ok(ListEnd { cursor: None, ad_hoc });
                }
                left -= size;
            }
            let cursor = after.map(|After { priority, number }| format!("{priority}-{}", number.0));
            Ok(ListEnd { cursor, ad_hoc })
        })
    }

    /// What the asker could claim now: open tasks first, then lapsed ones; never a person's.
    pub fn ready(&mut self, identity: Option<&Identity>, limit: u64) -> QueryResult<Page> {
        collect(|sheets| self.ready_in_sheets(identity, limit, sheets))
    }

    /// The same for a list of any length, which has no cursor.
    pub fn ready_in_sheets(
        &mut self,
        identity: Option<&Identity>,
        limit: u64,
        sheets: Sheets<'_>,
    ) -> QueryResult<ListEnd> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.ask(identity, |snapshot| {
            let mut ready = Vec::new();
            snapshot.walk_ready(identity, limit, &Terms::default(), &mut |snapshot, task, lease| {
                ready.push((task, lease));
                if ready.len() == SHEET {
                    sheets(&snapshot.offered(&ready)?);
                    ready.clear();
                }
                Ok(())
            })?;
            if !ready.is_empty() {
                sheets(&snapshot.offered(&ready)?);
            }
            Ok(ListEnd::default())
        })
    }

    /// Tasks whose title, body or notes contain every word.
    pub fn search(
        &mut self,
        identity: Option<&Identity>,
        words: &[String],
        ad_hoc: bool,
        limit: u64,
        sheets: Sheets<'_>,
    ) -> QueryResult<ListEnd> {
        self.ask(identity, |snapshot| {
            for found in snapshot.read.search(words, ad_hoc, limit)?.chunks(SHEET) {
                let mut tasks = Vec::new();
                for uid in found {
                    tasks.extend(snapshot.task(*uid)?);
                }
                sheets(&snapshot.listed(&tasks, identity)?);
            }
            Ok(ListEnd::default())
        })
    }

    /// Events of one task, or of everything.
    pub fn log<'a>(
        &mut self,
        identity: Option<&Identity>,
        of: impl Into<LogScope<'a>>,
        after_seq: u64,
        newest: bool,
        limit: u64,
    ) -> QueryResult<LogPage> {
        self.events(identity, of.into(), &EventQuery { after_seq, newest, limit, ..EventQuery::default() })
    }

    /// The events that a query asks for; its stream is that of the scope.
    pub fn events(
        &mut self,
        identity: Option<&Identity>,
        of: LogScope<'_>,
        query: &EventQuery,
    ) -> QueryResult<LogPage> {
        self.ask(identity, |snapshot| {
            let stream = match of {
                LogScope::All => None,
                LogScope::Task(reference) => Some(resolve(snapshot.read, snapshot.project, reference)?),
                LogScope::Seat(name) => {
                    Some(snapshot.read.seat_named(name)?.ok_or_else(|| no_such_seat(name))?.uid)
                }
            };
            let records = snapshot.read.events(&EventQuery { stream, ..query.clone() })?;
            let mut page = LogPage {
                last_seq: records.iter().map(|record| record.seq).max().unwrap_or(query.after_seq),
                records,
                texts: BTreeMap::new(),
                ids: BTreeMap::new(),
                before: BTreeMap::new(),
            };
            let mut facts = Vec::new();
            let mut edited = BTreeSet::new();
            for record in &page.records {
                if let (Ok(Body::TaskEdited { facts: new, .. }), Some(stream)) = (record.body(), &record.task)
                {
                    facts.push(new);
                    edited.extend(stream.parse::<Uid>().ok());
                }
            }
            for task in edited {
                page.before.extend(before_edits(snapshot.read, task, &page.records)?);
            }
            let linked = page.before.values().map(|before| &before.facts).chain(&facts);
            let mut named: BTreeSet<Uid> =
                linked.flat_map(|facts| facts.parent.iter().chain(&facts.relates)).copied().collect();
            for record in &page.records {
                let on = record.payload.get("on").and_then(|on| on.as_array()).into_iter().flatten();
                let others = on.filter_map(|uid| uid.as_str()).chain(record.task.as_deref());
                named.extend(others.filter_map(|uid| uid.parse::<Uid>().ok()));
                let stream = match &record.task {
                    Some(uid) => uid.parse::<Uid>().ok(),
                    None => Some(snapshot.project.uid),
                };
                if let Some(stream) = stream.filter(|_| !record.text_digests().is_empty()) {
                    let texts = snapshot.read.texts(stream, Version(record.version))?;
                    let texts = texts.into_iter().map(|text| (text.key.field.to_string(), text.text));
                    page.texts.insert(record.uid.clone(), texts.collect());
                }
            }
            for uid in named {
                if let Some(task) = snapshot.task(uid)? {
                    page.ids.insert(uid.to_string(), snapshot.id(task.number));
                } else if let Some(seat) = snapshot.read.seat(uid)? {
                    page.ids.insert(uid.to_string(), seat.name.spoken());
                }
            }
            Ok(page)
        })
    }

    pub fn actors(&mut self) -> Result<Vec<ActorView>, Refusal> {
        self.query(|snapshot| {
            let aliases = snapshot.read.aliases()?;
            let actors = snapshot.read.actors()?;
            Ok(actors.iter().map(|actor| ActorView::of(actor, &aliases)).collect())
        })
    }

    pub fn instances(&mut self, limit: u64) -> Result<Vec<InstanceView>, Refusal> {
        self.query(|snapshot| {
            let known = snapshot.read.instances(limit)?;
            Ok(known.iter().map(|known| InstanceView::of(known, snapshot.observe)).collect())
        })
    }

    /// The instances of the nearest of these processes that has any, as
    /// [`Read::instances_of`](onus_store::Read) orders them; and those of the named instances that are known.
    pub fn registered(
        &mut self,
        ancestry: &[Process],
        named: &[(ActorName, InstanceId)],
    ) -> Result<(Vec<KnownInstance>, Vec<KnownInstance>), Refusal> {
        self.query(|snapshot| {
            let mut of_process = Vec::new();
            for process in ancestry {
                of_process = snapshot.read.instances_of(process, MOST_OF_A_PROCESS)?;
                if !of_process.is_empty() {
                    break;
                }
            }
            let mut known = Vec::new();
            for (actor, instance) in named {
                let actor = snapshot.actor_behind(actor)?;
                known.extend(snapshot.read.instance(&actor, instance)?);
            }
            Ok((of_process, known))
        })
    }

    pub fn project(&mut self) -> Result<Project, Refusal> {
        self.query(|snapshot| Ok(snapshot.project.clone()))
    }
}

/// Collects a list into a page, for callers whose pages are short.
fn collect(list: impl FnOnce(Sheets<'_>) -> QueryResult<ListEnd>) -> QueryResult<Page> {
    let mut tasks = Vec::new();
    let WithNotices { value: ListEnd { cursor, .. }, notices } =
        list(&mut |sheet| tasks.extend_from_slice(sheet))?;
    Ok(WithNotices { value: Page { tasks, cursor }, notices })
}

fn parse_cursor(text: &str) -> Result<After, Refusal> {
    let bad = || Refusal::new(Code::Usage, "invalid cursor: use the one from the previous page, unchanged");
    let (priority, number) = text.split_once('-').ok_or_else(bad)?;
    let priority: Priority = priority.parse().map_err(|_| bad())?;
    Ok(After { priority, number: Number(number.parse().map_err(|_| bad())?) })
}

/// What the edits of one task among these events found: the fields and texts as the event before each left
/// them.
fn before_edits(
    read: &mut dyn Read,
    task: Uid,
    shown: &[Record],
) -> onus_store::Result<BTreeMap<String, TaskBefore>> {
    let is_shown: BTreeSet<&str> = shown.iter().map(|record| record.uid.as_str()).collect();
    let stream = EventQuery { stream: Some(task), limit: u64::from(u32::MAX), ..EventQuery::default() };
    let mut found = BTreeMap::new();
    let mut now = TaskBefore::default();
    for record in read.events(&stream)? {
        let (new, title, body) = match record.body() {
            Ok(Body::TaskCreated { facts, body, .. }) => (facts, true, body),
            Ok(Body::TaskEdited { facts, title, body }) => {
                if is_shown.contains(record.uid.as_str()) {
                    found.insert(record.uid.clone(), now.clone());
                }
                (facts, title, body)
            }
            _ => continue,
        };
        now.facts = new;
        let mut text = |field| {
            let key = TextKey { stream: task, version: Version(record.version), field };
            Ok::<_, onus_store::StoreError>(read.text(key)?.map(|stored| stored.text))
        };
        if title {
            now.title = text(Field::Title)?;
        }
        if body {
            now.has_body = record.text_digests().iter().any(|(field, _)| *field == Field::Body);
            now.body = text(Field::Body)?;
        }
    }
    Ok(found)
}
