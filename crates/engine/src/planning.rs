//! Questions about the graph: why a task is not ready, and what a reset would touch.

use serde::Serialize;

use onus_core::actor::{Actor, Caller, KnownBy, Tier};
use onus_core::command::{Act, Terms};
use onus_core::decide::{self, ObstacleKind, Reset};
use onus_core::ids::TaskRef;
use onus_core::refusal::Refusal;
use onus_core::task::{State, Task};
use onus_store::{Direction, Store, StoreError};

use crate::door::Stop;
use crate::door::scene::Scene;
use crate::query::{Look, Looked};
use crate::view::TouchedView;
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

impl Look<'_> {
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
            ancestry: identity.map(|identity| identity.ancestry.clone()).unwrap_or_default(),
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
                match decide::reset(&view, false, "preview", None) {
                    Ok(Reset::Stays) if uid != root.uid => {}
                    // Whoever holds it is what a preview is for.
                    Ok(_) | Err(_) => touched.push(look.renderer().touched(&task)?),
                }
            }
            Ok(touched)
        })
    }
}
