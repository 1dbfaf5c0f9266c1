//! What can be asked without changing anything. Readers write nothing: "lapsed" is computed and shown.

use std::collections::BTreeMap;

use onus_core::actor::{Actor, Tier};
use onus_core::apply::Project;
use onus_core::chain::Record;
use onus_core::command::Terms;
use onus_core::decide::can_be_taken_over;
use onus_core::ids::{Number, Prefix, TaskRef, Uid, Version};
use onus_core::lease::{Lease, Process};
use onus_core::refusal::{Code, Refusal};
use onus_core::task::{Priority, Task};
use onus_core::time::Moment;
use onus_store::{After, EventQuery, Filter, KnownInstance, Read, Store, StoreError};

use crate::door::{Stop, resolve};
use crate::notices::{self, Watch};
use crate::scopes::Around;
use crate::view::{ActorView, InstanceView, Notice, Renderer, TaskView};
use crate::{Engine, Identity};

/// An answer and what goes beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Looked<T> {
    pub value: T,
    pub notices: Vec<Notice>,
}

/// A page of tasks, and where the next one begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub tasks: Vec<TaskView>,
    /// Opaque to callers.
    pub cursor: Option<String>,
}

/// A stretch of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct LogPage {
    pub records: Vec<Record>,
    /// The words beside each event, by its uid and field; what was erased is missing.
    pub texts: BTreeMap<String, BTreeMap<String, String>>,
    /// The id of each task that occurs.
    pub ids: BTreeMap<String, String>,
    /// Where to go on from.
    pub last_seq: u64,
}

pub(crate) struct Look<'a> {
    pub(crate) read: &'a mut dyn Read,
    pub(crate) project: Project,
    pub(crate) now: Moment,
    pub(crate) engine: &'a Setting<'a>,
}

pub(crate) struct Setting<'a> {
    pub(crate) policy: &'a onus_core::policy::Policy,
    pub(crate) observe: &'a dyn Fn(&Process) -> onus_core::lease::Seen,
}

impl<'a> Setting<'a> {
    pub(crate) fn around(&'a self, now: &'a Moment, prefix: &'a Prefix) -> Around<'a> {
        Around::new(now, self.policy, prefix, self.observe)
    }
}

impl Look<'_> {
    pub(crate) fn renderer(&mut self) -> Renderer<'_> {
        Renderer {
            read: self.read,
            project: &self.project,
            now: &self.now,
            policy: self.engine.policy,
            observe: self.engine.observe,
        }
    }

    /// The actor who asks, as far as it is known; somebody unknown stands at the default tier.
    pub(crate) fn asker(&mut self, identity: Option<&Identity>) -> Result<Option<Actor>, StoreError> {
        let Some(identity) = identity else { return Ok(None) };
        let name = self.read.alias(&identity.actor)?.unwrap_or_else(|| identity.actor.clone());
        let known = self.read.actor(&name)?;
        Ok(Some(known.unwrap_or(Actor { name, tier: Tier::DEFAULT, registered_at_ms: self.now.wall_ms })))
    }

    fn target(&mut self, reference: Option<&TaskRef>, identity: Option<&Identity>) -> Result<Uid, Stop> {
        if let Some(reference) = reference {
            return resolve(self.read, &self.project, reference);
        }
        let held = match (self.asker(identity)?, identity) {
            (Some(actor), Some(identity)) => self.read.leases_held_by(&actor.name, &identity.instance)?,
            _ => Vec::new(),
        };
        match held.as_slice() {
            [lease] => Ok(lease.task),
            held => Err(Refusal::usage(format!("name a task: you hold {}", held.len()))
                .next("onus status")
                .into()),
        }
    }
}

impl Look<'_> {
    pub(crate) fn task(
        &mut self,
        reference: Option<&TaskRef>,
        identity: Option<&Identity>,
    ) -> Result<Task, Stop> {
        let uid = self.target(reference, identity)?;
        let task = self.read.task(uid)?;
        Ok(task.ok_or_else(|| StoreError::Damaged("a task vanished".to_owned()))?)
    }

    /// The first tasks that the asker could claim now, each with the lapsed lease that it would take over.
    pub(crate) fn all_ready(
        &mut self,
        identity: Option<&Identity>,
        limit: usize,
    ) -> Result<Vec<(Task, Option<Lease>)>, StoreError> {
        let asker = self.asker(identity)?;
        let tier = asker.as_ref().map_or(Tier::MAX, |actor| actor.tier);
        let (now, prefix) = (self.now.clone(), self.project.prefix.clone());
        let around = self.engine.around(&now, &prefix);
        let mut ready = Vec::new();
        if limit > 0 {
            self.read.walk_ready(tier, now.wall_ms, &mut |read, task| {
                if around.is_ready(read, &task, asker.as_ref(), &Terms::default())? {
                    ready.push((task, None));
                }
                Ok(ready.len() < limit)
            })?;
        }
        if ready.len() < limit {
            for (task, lease) in self.read.open_leases(u64::from(u32::MAX))? {
                let liveness = lease.liveness(&now, self.renderer().seen(&lease));
                if can_be_taken_over(&lease, liveness)
                    && around.is_ready(self.read, &task, asker.as_ref(), &Terms::default())?
                {
                    ready.push((task, Some(lease)));
                }
            }
            ready.truncate(limit);
        }
        Ok(ready)
    }

    pub(crate) fn offered(&mut self, ready: &[(Task, Option<Lease>)]) -> Result<Vec<TaskView>, StoreError> {
        let mut renderer = self.renderer();
        let views = ready.iter().map(|(task, lease)| {
            let takeover = Some(lease.is_some());
            Ok(TaskView { takeover, ..renderer.task_with(task, lease.as_ref())? })
        });
        views.collect()
    }
}

impl<S: Store> Engine<S> {
    pub(crate) fn look<T>(
        &mut self,
        identity: Option<&Identity>,
        work: impl FnOnce(&mut Look<'_>) -> Result<T, Stop>,
    ) -> Result<Looked<T>, Refusal> {
        let setting = Setting { policy: &self.policy, observe: &self.outside.observe };
        let outcome = self.store.read(|read| {
            let (now, project) = (read.now(), read.project()?);
            let mut look = Look { read, project, now, engine: &setting };
            let value = match work(&mut look) {
                Ok(value) => value,
                Err(stop) => return stop.of_reader().map(Err),
            };
            let notices = match (look.asker(identity)?, identity) {
                (Some(actor), Some(identity)) => {
                    let watch = Watch::of(look.read, &actor.name, &identity.instance)?;
                    let caller = (&actor.name, &identity.instance);
                    notices::for_caller(
                        look.read,
                        &look.project,
                        &look.now,
                        setting.observe,
                        caller,
                        &watch,
                        None,
                    )?
                }
                _ => Vec::new(),
            };
            Ok(Ok(Looked { value, notices }))
        });
        outcome.map_err(Refusal::from)?
    }

    /// One task, with its notes.
    pub fn show(
        &mut self,
        identity: Option<&Identity>,
        reference: Option<&TaskRef>,
    ) -> Result<Looked<TaskView>, Refusal> {
        self.look(identity, |look| {
            let task = look.task(reference, identity)?;
            let mut renderer = look.renderer();
            let mut view = renderer.task(&task)?;
            view.notes = Some(renderer.notes(&task)?);
            Ok(view)
        })
    }

    pub fn list(
        &mut self,
        identity: Option<&Identity>,
        filter: &Filter,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<Looked<Page>, Refusal> {
        let after = cursor.map(parse_cursor).transpose()?;
        self.look(identity, |look| {
            let mut filter = filter.clone();
            for name in [&mut filter.holder, &mut filter.owner].into_iter().flatten() {
                *name = look.read.alias(name)?.unwrap_or_else(|| name.clone());
            }
            let tasks = look.read.list(&filter, after, limit)?;
            let full = tasks.len() as u64 == limit;
            let cursor = tasks.last().filter(|_| full).map(|task| {
                let After { priority, number } = After { priority: task.facts.priority, number: task.number };
                format!("{priority}-{}", number.0)
            });
            let mut renderer = look.renderer();
            let tasks = tasks.iter().map(|task| renderer.task(task)).collect::<Result<_, _>>()?;
            Ok(Page { tasks, cursor })
        })
    }

    /// What the asker could claim now: open tasks first, then lapsed ones; never a person's.
    pub fn ready(&mut self, identity: Option<&Identity>, limit: u64) -> Result<Looked<Page>, Refusal> {
        self.look(identity, |look| {
            let ready = look.all_ready(identity, usize::try_from(limit).unwrap_or(usize::MAX))?;
            Ok(Page { tasks: look.offered(&ready)?, cursor: None })
        })
    }

    /// Tasks in whose title, body or notes every word occurs.
    pub fn search(
        &mut self,
        identity: Option<&Identity>,
        words: &[String],
        limit: u64,
    ) -> Result<Looked<Page>, Refusal> {
        self.look(identity, |look| {
            let mut tasks = Vec::new();
            for uid in look.read.search(words, limit)? {
                tasks.extend(look.read.task(uid)?);
            }
            let mut renderer = look.renderer();
            let tasks = tasks.iter().map(|task| renderer.task(task)).collect::<Result<_, _>>()?;
            Ok(Page { tasks, cursor: None })
        })
    }

    /// Events of one task, or of everything; for who goes on from the last of them, only what nothing can come before any
    /// more.
    pub fn follow(
        &mut self,
        identity: Option<&Identity>,
        reference: Option<&TaskRef>,
        after_seq: u64,
        newest: bool,
        limit: u64,
    ) -> Result<Looked<LogPage>, Refusal> {
        self.stretch(
            identity,
            reference,
            &EventQuery { after_seq, newest, limit, settled: true, ..EventQuery::default() },
        )
    }

    /// Events of one task, or of everything.
    pub fn log(
        &mut self,
        identity: Option<&Identity>,
        reference: Option<&TaskRef>,
        after_seq: u64,
        newest: bool,
        limit: u64,
    ) -> Result<Looked<LogPage>, Refusal> {
        self.stretch(identity, reference, &EventQuery { after_seq, newest, limit, ..EventQuery::default() })
    }

    fn stretch(
        &mut self,
        identity: Option<&Identity>,
        reference: Option<&TaskRef>,
        query: &EventQuery,
    ) -> Result<Looked<LogPage>, Refusal> {
        self.look(identity, |look| {
            let stream =
                reference.map(|reference| resolve(look.read, &look.project, reference)).transpose()?;
            let records = look.read.events(&EventQuery { stream, ..query.clone() })?;
            let mut page = LogPage {
                last_seq: records.iter().map(|record| record.seq).max().unwrap_or(query.after_seq),
                records,
                texts: BTreeMap::new(),
                ids: BTreeMap::new(),
            };
            for record in &page.records {
                let stream = match &record.task {
                    Some(uid) => uid.parse::<Uid>().ok(),
                    None => Some(look.project.uid),
                };
                let Some(stream) = stream else { continue };
                if let Some(uid) = &record.task
                    && !page.ids.contains_key(uid)
                    && let Some(task) = look.read.task(stream)?
                {
                    page.ids.insert(uid.clone(), look.project.prefix.id(task.number));
                }
                for other in record.payload.get("on").and_then(|on| on.as_array()).into_iter().flatten() {
                    if let Some(uid) = other.as_str().and_then(|uid| uid.parse::<Uid>().ok())
                        && let Some(task) = look.read.task(uid)?
                    {
                        page.ids.insert(uid.to_string(), look.project.prefix.id(task.number));
                    }
                }
                if !record.text_digests().is_empty() {
                    let texts = look.read.texts(stream, Version(record.version))?;
                    let texts = texts.into_iter().map(|text| (text.key.field.to_string(), text.text));
                    page.texts.insert(record.uid.clone(), texts.collect());
                }
            }
            Ok(page)
        })
    }

    pub fn actors(&mut self) -> Result<Vec<ActorView>, Refusal> {
        let looked = self.look(None, |look| {
            let aliases = look.read.aliases()?;
            let actors = look.read.actors()?;
            Ok(actors.iter().map(|actor| ActorView::of(actor, &aliases)).collect())
        })?;
        Ok(looked.value)
    }

    pub fn instances(&mut self, limit: u64) -> Result<Vec<InstanceView>, Refusal> {
        let looked = self.look(None, |look| {
            let known = look.read.instances(limit)?;
            Ok(known.iter().map(|known| InstanceView::of(known, look.engine.observe)).collect())
        })?;
        Ok(looked.value)
    }

    /// The nearest of these processes that was registered as an instance.
    pub fn registered_among(&mut self, ancestry: &[Process]) -> Result<Option<KnownInstance>, Refusal> {
        let looked = self.look(None, |look| {
            for process in ancestry {
                if let Some(known) = look.read.instance_of(process)? {
                    return Ok(Some(known));
                }
            }
            Ok(None)
        })?;
        Ok(looked.value)
    }

    pub fn project(&mut self) -> Result<Project, Refusal> {
        Ok(self.look(None, |look| Ok(look.project.clone()))?.value)
    }
}

fn parse_cursor(text: &str) -> Result<After, Refusal> {
    let bad = || Refusal::new(Code::Usage, "that cursor is not one: use what the page before gave, as it is");
    let (priority, number) = text.split_once('-').ok_or_else(bad)?;
    let priority: Priority = priority.parse().map_err(|_| bad())?;
    Ok(After { priority, number: Number(number.parse().map_err(|_| bad())?) })
}
