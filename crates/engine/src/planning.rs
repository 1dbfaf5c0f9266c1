//! Queries about the graph: why a task is not ready, and what a reset would change.

use std::collections::BTreeSet;

use serde::Serialize;

use onus_core::actor::{Actor, Caller, KnownBy, Tier};
use onus_core::circle::Holder;
use onus_core::command::{Act, Terms};
use onus_core::decide::{self, Obstacle, ObstacleKind, Reset};
use onus_core::ids::{TaskRef, Uid};
use onus_core::refusal::{Code, Step};
use onus_core::task::{State, Task};
use onus_core::time::{Span, rfc3339};
use onus_store::{After, Direction, Filter, Store, StoreError};

use crate::query::QueryResult;
use crate::request::Stop;
use crate::request::evidence::Evidence;
use crate::snapshot::Snapshot;
use crate::view::{NotReadyView, TaskView, TouchedView};
use crate::{Engine, Identity};

/// Whether a task could be claimed now, and what is in the way.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "WhyView"))]
pub struct WhyView<O = Obstacle> {
    pub id: String,
    pub title: String,
    pub state: State,
    pub ready: bool,
    pub obstacles: Vec<O>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObstacleView {
    pub kind: ObstacleKind,
    pub message: String,
    /// The other task that is to blame.
    pub task: Option<String>,
    pub holder: Option<String>,
    /// What would clear it.
    pub next: Option<String>,
}

impl WhyView {
    /// The same in an interface's words.
    pub fn worded(&self, say: &dyn Fn(&Step) -> Option<String>) -> WhyView<ObstacleView> {
        let worded = |obstacle: &Obstacle| ObstacleView {
            kind: obstacle.kind,
            message: obstacle.message.clone(),
            task: obstacle.task.clone(),
            holder: obstacle.holder.clone(),
            next: obstacle.next.as_ref().and_then(say),
        };
        WhyView {
            id: self.id.clone(),
            title: self.title.clone(),
            state: self.state,
            ready: self.ready,
            obstacles: self.obstacles.iter().map(worded).collect(),
        }
    }
}

/// What is ready, and what is not and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    pub tasks: Vec<TaskView>,
    /// The first unfinished tasks that are not ready, by priority, then age.
    pub left_out: Vec<WhyView>,
    /// How many more are not ready.
    pub more: u64,
}

/// What a task depends on, and what depends on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinksView {
    pub id: String,
    pub title: String,
    pub state: State,
    pub needs: Vec<LinkView>,
    pub needed_by: Vec<LinkView>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkView {
    pub id: String,
    pub title: String,
    pub state: State,
    pub holder: Option<String>,
}

/// How many of the tasks that another waits for a list names.
const NAMED: u64 = 3;

/// How many tasks are read at a time.
const STEP: u64 = 200;

impl Snapshot<'_> {
    /// The first unfinished tasks that are not in `ready`, with the reasons; and how many more there are.
    fn not_ready(
        &mut self,
        identity: Option<&Identity>,
        ready: &BTreeSet<Uid>,
        limit: usize,
    ) -> Result<(Vec<WhyView>, u64), Stop> {
        let (mut left_out, mut after) = (Vec::new(), None);
        while left_out.len() < limit {
            let planned = Filter { ad_hoc: Some(false), ..Filter::default() };
            let page = self.read.list(&planned, after, STEP)?;
            for task in &page {
                if left_out.len() < limit && !ready.contains(&task.uid) {
                    left_out.push(self.why(identity, task)?);
                }
            }
            let Some(last) = page.last() else { break };
            after = Some(After { priority: last.facts.priority, number: last.number });
        }
        let counts = self.read.count_by_state()?;
        let unfinished: u64 = counts.iter().filter(|(state, _)| !state.is_finished()).map(|(_, n)| n).sum();
        let told = ready.len() as u64 + left_out.len() as u64;
        Ok((left_out, unfinished.saturating_sub(told)))
    }

    /// The asker as a caller. No rule about actors restricts an anonymous one.
    pub(crate) fn as_caller(&mut self, identity: Option<&Identity>) -> Result<(Caller, Actor), Stop> {
        let actor = match self.asker(identity)? {
            Some(actor) => actor,
            None => Actor { name: "human:anyone".parse()?, tier: Tier::MAX, registered_at_ms: 0 },
        };
        let caller = Caller {
            whole: None,
            actor: actor.name.clone(),
            instance: match identity {
                Some(identity) => identity.instance.clone(),
                None => onus_core::actor::InstanceId::person(),
            },
            known_by: identity.map_or(KnownBy::Name, |identity| identity.known_by),
            token: None,
            ancestry: identity.map(|identity| identity.ancestry.processes()).unwrap_or_default(),
            in_turn: false,
            own_clock: None,
            process: None,
        };
        Ok((caller, actor))
    }

    /// Tasks as a list shows them: each with the first obstacle to claiming it.
    pub(crate) fn listed(
        &mut self,
        tasks: &[Task],
        identity: Option<&Identity>,
    ) -> Result<Vec<TaskView>, StoreError> {
        let asker = self.asker(identity)?;
        let mut views = Vec::with_capacity(tasks.len());
        for task in tasks {
            let not_ready = self.first_obstacle(task, asker.as_ref())?;
            views.push(TaskView { not_ready, ..self.task_view(task)? });
        }
        Ok(views)
    }

    /// The first obstacle to claiming a task, according to its own row, in half a sentence.
    fn first_obstacle(
        &mut self,
        task: &Task,
        asker: Option<&Actor>,
    ) -> Result<Option<NotReadyView>, StoreError> {
        let said = |kind, message: String| Ok(Some(NotReadyView { kind, message }));
        let of_state = |message: &str| said(ObstacleKind::State, message.to_owned());
        match task.state {
            State::Done | State::Dropped => return Ok(None),
            _ if task.leased => return Ok(None),
            State::Proposed => return of_state("waits to be accepted"),
            State::Blocked => return of_state("blocked"),
            State::Review => return of_state("waits for review"),
            State::Failed => return of_state("failed"),
            State::Open | State::InProgress => {}
        }
        let Some(kind) = decide::obstacle_in_row(task, asker, self.now) else { return Ok(None) };
        let message = match kind {
            ObstacleKind::Dependency => {
                let unmet = self.read.unmet(task.uid, NAMED)?;
                let ids: Vec<String> = unmet.iter().map(|other| self.id(other.number)).collect();
                let more = match task.counts.unmet.saturating_sub(ids.len() as u64) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("waits for {}{more}", ids.join(", "))
            }
            ObstacleKind::Child => match task.counts.open_children {
                1 => "has 1 unfinished part".to_owned(),
                parts => format!("has {parts} unfinished parts"),
            },
            ObstacleKind::Kept => match &task.kept {
                Some(kept) => {
                    let left = Span::from_ms(kept.until.left_ms(self.now).max(0));
                    format!("kept for {}, {left} left", kept.actor)
                }
                None => return Ok(None),
            },
            ObstacleKind::Schedule => match task.facts.not_before_ms {
                Some(at_ms) => format!("starts {}", rfc3339(at_ms)),
                None => return Ok(None),
            },
            _ => format!("needs tier {}", task.facts.required_tier),
        };
        said(kind, message)
    }

    fn link(&mut self, uid: Uid) -> Result<Option<LinkView>, StoreError> {
        let Some(task) = self.task(uid)? else { return Ok(None) };
        let lease = self.current_lease(&task)?;
        Ok(Some(LinkView {
            id: self.id(task.number),
            title: self.title(&task)?,
            state: task.state,
            holder: lease.map(|lease| lease.actor.to_string()),
        }))
    }

    fn links(&mut self, task: Uid, direction: Direction) -> Result<Vec<LinkView>, StoreError> {
        let mut links = Vec::new();
        for uid in self.read.neighbours(task, direction)? {
            links.extend(self.link(uid)?);
        }
        Ok(links)
    }

    /// What keeps the asker from claiming this task now.
    pub(crate) fn why(&mut self, identity: Option<&Identity>, task: &Task) -> Result<WhyView, Stop> {
        let (caller, actor) = self.as_caller(identity)?;
        let mut evidence = Evidence::of(self, &caller, task)?;
        let claim = Act::Claim(Terms::default());
        let reserving =
            decide::reserves(&evidence.view(self.now, self.policy, (&caller, &actor), task), &claim);
        if let Some(reserving) = reserving {
            evidence.look_around(self, &caller, task, reserving)?;
        }
        let view = evidence.view(self.now, self.policy, (&caller, &actor), task);
        let mut obstacles = decide::obstacles(&view);
        // A ready task is in nobody's circle.
        if !obstacles.is_empty()
            && let Some(circle) = self.circle_around(identity, task)?
        {
            let asker = Holder { actor: caller.actor.clone(), instance: caller.instance.clone() };
            obstacles.push(Obstacle {
                kind: ObstacleKind::Circle,
                message: circle.message(),
                task: None,
                holder: None,
                next: circle.step_for(&asker).filter(|step| *step != Step::why(&evidence.id)),
            });
        }
        Ok(WhyView {
            id: evidence.id.clone(),
            title: self.title(task)?,
            state: task.state,
            ready: obstacles.is_empty(),
            obstacles,
        })
    }
}

impl<S: Store> Engine<S> {
    /// [`Engine::ready`], and what is left out of it. Reads everything that is ready, shown or not.
    pub fn ready_explained(
        &mut self,
        identity: Option<&Identity>,
        limit: u64,
        left_out: usize,
    ) -> QueryResult<Explained> {
        self.ask(identity, |snapshot| {
            let ready = snapshot.all_ready(identity, usize::MAX, &Terms::default())?;
            let uids = ready.iter().map(|(task, _)| task.uid).collect();
            let (left_out, more) = snapshot.not_ready(identity, &uids, left_out)?;
            let shown = usize::try_from(limit).unwrap_or(usize::MAX).min(ready.len());
            Ok(Explained { tasks: snapshot.offered(&ready[..shown])?, left_out, more })
        })
    }

    /// What a task depends on, and what depends on it.
    pub fn links(
        &mut self,
        identity: Option<&Identity>,
        reference: Option<&TaskRef>,
    ) -> QueryResult<LinksView> {
        self.ask(identity, |snapshot| {
            let task = snapshot.named_task(reference, identity)?;
            Ok(LinksView {
                id: snapshot.id(task.number),
                title: snapshot.title(&task)?,
                state: task.state,
                needs: snapshot.links(task.uid, Direction::Upstream)?,
                needed_by: snapshot.links(task.uid, Direction::Downstream)?,
            })
        })
    }

    pub fn why(&mut self, identity: Option<&Identity>, reference: Option<&TaskRef>) -> QueryResult<WhyView> {
        self.ask(identity, |snapshot| {
            let task = snapshot.named_task(reference, identity)?;
            snapshot.why(identity, &task)
        })
    }

    /// Every task that a reset would put back, as it is now. Nothing is changed, and nobody's lease prevents
    /// it.
    pub fn reset_preview(
        &mut self,
        identity: Option<&Identity>,
        reference: Option<&TaskRef>,
    ) -> QueryResult<Vec<TouchedView>> {
        self.ask(identity, |snapshot| {
            let root = snapshot.named_task(reference, identity)?;
            let (caller, actor) = snapshot.as_caller(identity)?;
            let mut touched = Vec::new();
            let closure = snapshot.read.closure(root.uid, Direction::Downstream)?;
            for uid in std::iter::once(root.uid).chain(closure) {
                let Some(task) = snapshot.task(uid)? else { continue };
                let evidence = Evidence::of(snapshot, &caller, &task)?;
                let view = evidence.view(snapshot.now, snapshot.policy, (&caller, &actor), &task);
                match decide::reset(&view, uid == root.uid, "preview", None) {
                    Ok(Reset::Stays) => {}
                    Ok(Reset::Back(_)) => touched.push(snapshot.touched_view(&task)?),
                    // Showing who holds a task is what a preview is for.
                    Err(refusal) if matches!(refusal.code, Code::Held | Code::Fenced) => {
                        touched.push(snapshot.touched_view(&task)?);
                    }
                    Err(refusal) => return Err(refusal.into()),
                }
            }
            Ok(touched)
        })
    }
}
