//! What can be asked without changing anything. Readers write nothing: "lapsed" is computed and shown.

use std::collections::BTreeMap;

use serde::Serialize;

use onus_core::actor::{Actor, Tier};
use onus_core::apply::Project;
use onus_core::chain::Record;
use onus_core::decide::is_ready_for;
use onus_core::ids::{Number, TaskRef, Uid, Version};
use onus_core::lease::{LapseCause, Liveness, Process};
use onus_core::refusal::{Code, Refusal};
use onus_core::task::{Priority, State};
use onus_core::time::{Moment, SECOND_MS, Span};
use onus_store::{After, EventQuery, Filter, KnownInstance, Read, Store, StoreError};

use crate::door::{Stop, resolve};
use crate::notices::{self, Watch};
use crate::view::{ActorView, InstanceView, LeaseView, Notice, Renderer, TaskView};
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

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusView {
    pub project: String,
    pub prefix: String,
    /// Number of tasks by state.
    pub counts: BTreeMap<String, u64>,
    /// Live leases.
    pub held: Vec<HeldView>,
    /// Leases that lapsed and wait for a takeover, with the safe next command.
    pub lapsed: Vec<HeldView>,
    /// People's leases without a sign of life for a long time.
    pub stale: Vec<HeldView>,
    /// What the caller holds.
    pub yours: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldView {
    pub id: String,
    pub title: String,
    pub state: State,
    pub lease: LeaseView,
    /// What happened, for people.
    pub message: String,
    /// The safe next command.
    pub next: Option<String>,
}

struct Look<'a> {
    read: &'a mut dyn Read,
    project: Project,
    now: Moment,
    engine: &'a Setting<'a>,
}

struct Setting<'a> {
    policy: &'a onus_core::policy::Policy,
    observe: &'a dyn Fn(&Process) -> onus_core::lease::Seen,
}

impl Look<'_> {
    fn renderer(&mut self) -> Renderer<'_> {
        Renderer {
            read: self.read,
            project: &self.project,
            now: &self.now,
            policy: self.engine.policy,
            observe: self.engine.observe,
        }
    }

    /// The actor who asks, as far as it is known; somebody unknown stands at the default tier.
    fn asker(&mut self, identity: Option<&Identity>) -> Result<Option<Actor>, StoreError> {
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

impl<S: Store> Engine<S> {
    fn look<T>(
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
                Err(Stop::Refused(refusal)) => return Ok(Err(refusal)),
                Err(Stop::Failed(error)) => return Err(error),
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
            let uid = look.target(reference, identity)?;
            let task = look.read.task(uid)?;
            let task = task.ok_or_else(|| StoreError::Damaged("a task vanished".to_owned()))?;
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
            let asker = look.asker(identity)?;
            let fits = |task: &onus_core::task::Task, now: &Moment| {
                asker
                    .as_ref()
                    .map_or(task.kept.as_ref().is_none_or(|kept| kept.until.has_come(now)), |actor| {
                        is_ready_for(task, actor, now)
                    })
            };
            let tier = asker.as_ref().map_or(Tier::MAX, |actor| actor.tier);
            let mut ready = Vec::new();
            let mut after = None;
            while (ready.len() as u64) < limit {
                let page = look.read.open_tasks(tier, after, limit)?;
                let Some(last) = page.last() else { break };
                after = Some(After { priority: last.facts.priority, number: last.number });
                let now = look.now.clone();
                ready.extend(page.into_iter().filter(|task| fits(task, &now)).map(|task| (task, None)));
            }
            ready.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            if (ready.len() as u64) < limit {
                for (task, lease) in look.read.open_leases(u64::from(u32::MAX))? {
                    let seen = look.renderer().seen(&lease);
                    let lapsed = lease.liveness(&look.now, seen) != Liveness::Live;
                    if lapsed && !lease.actor.is_person() && fits(&task, &look.now) {
                        ready.push((task, Some(lease)));
                    }
                }
                ready.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            }
            let mut renderer = look.renderer();
            let mut tasks = Vec::with_capacity(ready.len());
            for (task, lease) in &ready {
                let mut view = renderer.task_with(task, lease.as_ref())?;
                view.takeover = Some(lease.is_some());
                tasks.push(view);
            }
            Ok(Page { tasks, cursor: None })
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

    /// Events of one task, or of everything.
    pub fn log(
        &mut self,
        identity: Option<&Identity>,
        reference: Option<&TaskRef>,
        after_seq: u64,
        newest: bool,
        limit: u64,
    ) -> Result<Looked<LogPage>, Refusal> {
        self.look(identity, |look| {
            let stream =
                reference.map(|reference| resolve(look.read, &look.project, reference)).transpose()?;
            let records = look.read.events(&EventQuery { stream, after_seq, newest, limit })?;
            let mut page = LogPage {
                last_seq: records.iter().map(|record| record.seq).max().unwrap_or(after_seq),
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
                if !record.text_digests().is_empty() {
                    let texts = look.read.texts(stream, Version(record.version))?;
                    let texts = texts.into_iter().map(|text| (text.key.field.to_string(), text.text));
                    page.texts.insert(record.uid.clone(), texts.collect());
                }
            }
            Ok(page)
        })
    }

    pub fn status(&mut self, identity: Option<&Identity>) -> Result<Looked<StatusView>, Refusal> {
        self.look(identity, |look| {
            let mut counts: BTreeMap<String, u64> =
                State::ALL.iter().map(|state| (state.to_string(), 0)).collect();
            for (state, count) in look.read.count_by_state()? {
                counts.insert(state.to_string(), count);
            }
            let asker = look.asker(identity)?;
            let mut view = StatusView {
                project: look.project.uid.to_string(),
                prefix: look.project.prefix.to_string(),
                counts,
                held: Vec::new(),
                lapsed: Vec::new(),
                stale: Vec::new(),
                yours: Vec::new(),
            };
            for (task, lease) in look.read.open_leases(u64::from(u32::MAX))? {
                let id = look.project.prefix.id(task.number);
                let mut renderer = look.renderer();
                let title = renderer.title(&task)?;
                let rendered = renderer.lease(&lease, &id)?;
                let silent = Span::from_ms(look.now.since_ms(&lease.pulse.last));
                let yours = asker
                    .as_ref()
                    .zip(identity)
                    .is_some_and(|(actor, identity)| lease.is_held_by(&actor.name, &identity.instance));
                if yours {
                    view.yours.push(id.clone());
                }
                let held = Span::from_ms(look.now.since_ms(&lease.acquired()));
                let (list, message, next) = match rendered.lapsed_by {
                    Some(cause) => (
                        &mut view.lapsed,
                        format!(
                            "{} ({}) lost it: {}",
                            lease.actor,
                            lease.instance,
                            lapse_text(cause, &silent)
                        ),
                        Some(if yours && matches!(cause, LapseCause::Ttl) {
                            format!("onus renew {id}")
                        } else if yours {
                            format!("onus claim {id}")
                        } else {
                            format!("onus takeover {id} --reason 'its holder lapsed'")
                        }),
                    ),
                    None if rendered.stale => (
                        &mut view.stale,
                        format!("{} has shown no sign of life for {silent}", lease.actor),
                        Some(format!("onus note {id} 'still working on this?'")),
                    ),
                    None => (
                        &mut view.held,
                        match rendered.expires_in_s {
                            Some(s) if lease.grant.process.is_none() => format!(
                                "{} ({}) holds it, for {held} so far, {} left",
                                lease.actor,
                                lease.instance,
                                Span::from_ms(s * SECOND_MS)
                            ),
                            _ => format!("{} ({}) holds it, for {held} so far", lease.actor, lease.instance),
                        },
                        None,
                    ),
                };
                list.push(HeldView { id, title, state: task.state, lease: rendered, message, next });
            }
            Ok(view)
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

/// Why a lease lapsed, in words.
pub(crate) fn lapse_text(cause: LapseCause, silent: &Span) -> String {
    match cause {
        LapseCause::ProcessDied => "its process died".to_owned(),
        LapseCause::Rebooted => "the machine was restarted".to_owned(),
        LapseCause::Ttl => format!("no sign of life for {silent}"),
        LapseCause::MaxHold => "held for the maximum time".to_owned(),
    }
}

fn parse_cursor(text: &str) -> Result<After, Refusal> {
    let bad = || Refusal::new(Code::Usage, "that cursor is not one: use what the page before gave, as it is");
    let (priority, number) = text.split_once('-').ok_or_else(bad)?;
    let priority: Priority = priority.parse().map_err(|_| bad())?;
    Ok(After { priority, number: Number(number.parse().map_err(|_| bad())?) })
}
