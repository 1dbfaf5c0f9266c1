//! Questions about the graph: why a task is not ready, and what a reset would touch.

use std::collections::BTreeSet;

use serde::Serialize;

use onus_core::actor::{Actor, Caller, KnownBy, Tier};
use onus_core::command::{Act, Terms};
use onus_core::decide::{self, ObstacleKind, Reset};
use onus_core::ids::{TaskRef, Uid};
use onus_core::refusal::{Code, Refusal};
use onus_core::task::{State, Task};
use onus_store::{After, Direction, Filter, Store, StoreError};

use crate::door::Stop;
use crate::door::scene::Scene;
use crate::query::{Look, Looked};
use crate::view::{TaskView, TouchedView};
use crate::{Engine, Identity};

/// Whether a task could be claimed now, and what is in the way.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WhyView {
    pub id: String,
    pub title: String,
    pub state: State,
    pub ready: bool,
    pub obstacles: Vec<ObstacleView>,
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

/// What is ready, and what is not and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    pub tasks: Vec<TaskView>,
    /// Unfinished tasks that are not ready, by priority, then age: the first of them.
    pub left_out: Vec<WhyView>,
    /// How many more are not ready.
    pub more: u64,
}

/// How many tasks are looked at in one go.
const STEP: u64 = 200;

impl Look<'_> {
    /// The first unfinished tasks that are not among these, with why; and how many more there are.
    fn not_ready(
        &mut self,
        identity: Option<&Identity>,
        ready: &BTreeSet<Uid>,
        limit: usize,
    ) -> Result<(Vec<WhyView>, u64), Stop> {
        let (mut left_out, mut after) = (Vec::new(), None);
        while left_out.len() < limit {
            let page = self.read.list(&Filter::default(), after, STEP)?;
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

    /// Who asks. Nobody in particular may do everything that a rule about actors forbids.
    fn as_caller(&mut self, identity: Option<&Identity>) -> Result<(Caller, Actor), Stop> {
        let actor = match self.asker(identity)? {
            Some(actor) => actor,
            None => Actor { name: "human:anyone".parse()?, tier: Tier::MAX, registered_at_ms: 0 },
        };
        let caller = Caller {
            actor: actor.name.clone(),
            instance: match identity {
                Some(identity) => identity.instance.clone(),
                None => onus_core::actor::InstanceId::person(),
            },
            known_by: identity.map_or(KnownBy::Name, |identity| identity.known_by),
            token: None,
            ancestry: identity.map(|identity| identity.ancestry.processes()).unwrap_or_default(),
        };
        Ok((caller, actor))
    }

    fn scene(&mut self, caller: &Caller, task: &Task) -> Result<Scene, StoreError> {
        Scene::of(self.read, &self.project.prefix, self.engine.observe, caller, task)
    }

    /// What keeps the asker from claiming this task now.
    pub(crate) fn why(&mut self, identity: Option<&Identity>, task: &Task) -> Result<WhyView, Stop> {
        let (caller, actor) = self.as_caller(identity)?;
        let mut scene = self.scene(&caller, task)?;
        let around = self.engine.around(&self.now, &self.project.prefix);
        scene.look_around(self.read, &around, task, &Act::Claim(Terms::default()))?;
        let view = scene.view(&self.now, self.engine.policy, (&caller, &actor), task);
        let obstacles: Vec<ObstacleView> = decide::obstacles(&view)
            .into_iter()
            .map(|obstacle| ObstacleView {
                kind: obstacle.kind,
                message: obstacle.message,
                task: obstacle.task,
                holder: obstacle.holder,
                next: obstacle.next,
            })
            .collect();
        Ok(WhyView {
            id: scene.id.clone(),
            title: self.renderer().title(task)?,
            state: task.state,
            ready: obstacles.is_empty(),
            obstacles,
        })
    }
}

impl<S: Store> Engine<S> {
    /// [`Engine::ready`], and what is left out of it. All that is ready is looked at, shown or not.
    pub fn ready_explained(
        &mut self,
        identity: Option<&Identity>,
        limit: u64,
        left_out: usize,
    ) -> Result<Looked<Explained>, Refusal> {
        self.look(identity, |look| {
            let ready = look.all_ready(identity, usize::MAX)?;
            let uids = ready.iter().map(|(task, _)| task.uid).collect();
            let (left_out, more) = look.not_ready(identity, &uids, left_out)?;
            let shown = usize::try_from(limit).unwrap_or(usize::MAX).min(ready.len());
            Ok(Explained { tasks: look.offered(&ready[..shown])?, left_out, more })
        })
    }

    pub fn why(
        &mut self,
        identity: Option<&Identity>,
        reference: Option<&TaskRef>,
    ) -> Result<Looked<WhyView>, Refusal> {
        self.look(identity, |look| {
            let task = look.task(reference, identity)?;
            look.why(identity, &task)
        })
    }

    /// Every task that a reset would put back, as it is now; nothing is changed, and nobody's hold refuses it.
    pub fn reset_preview(
        &mut self,
        identity: Option<&Identity>,
        reference: Option<&TaskRef>,
    ) -> Result<Looked<Vec<TouchedView>>, Refusal> {
        self.look(identity, |look| {
            let root = look.task(reference, identity)?;
            let (caller, actor) = look.as_caller(identity)?;
            let mut touched = Vec::new();
            let closure = look.read.closure(root.uid, Direction::Downstream)?;
            for uid in std::iter::once(root.uid).chain(closure) {
                let Some(task) = look.read.task(uid)? else { continue };
                let scene = look.scene(&caller, &task)?;
                let view = scene.view(&look.now, look.engine.policy, (&caller, &actor), &task);
                match decide::reset(&view, uid == root.uid, "preview", None) {
                    Ok(Reset::Stays) => {}
                    Ok(Reset::Back(_)) => touched.push(look.renderer().touched(&task)?),
                    // Whoever holds it is what a preview is for.
                    Err(refusal) if matches!(refusal.code, Code::Held | Code::Fenced) => {
                        touched.push(look.renderer().touched(&task)?);
                    }
                    Err(refusal) => return Err(refusal.into()),
                }
            }
            Ok(touched)
        })
    }
}
