//! The project's own stream: its name, its actors and their aliases.

use std::collections::BTreeMap;

use crate::actor::{Actor, ActorName};
use crate::event::{Body, Event};
use crate::ids::{Prefix, Uid, Version};

use super::{Misplaced, RowChange};

/// The project: its name for tasks, and the head of its own stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    pub uid: Uid,
    pub prefix: Prefix,
    pub created_at_ms: i64,
    pub version: Version,
    pub head: String,
}

/// The changes of an event of the project's own stream. `before` is None before the first.
pub fn apply_to_project(before: Option<&Project>, event: &Event) -> Result<Vec<RowChange>, Misplaced> {
    let mut changes = Vec::with_capacity(2);
    let mut project = match (&event.body, before) {
        (Body::ProjectCreated { uid, prefix }, None) => Project {
            uid: *uid,
            prefix: prefix.clone(),
            created_at_ms: event.at_ms,
            version: Version(0),
            head: String::new(),
        },
        (Body::ProjectCreated { .. }, Some(_)) => return Err(Misplaced("the project was created twice")),
        (_, Some(project)) => project.clone(),
        (_, None) => return Err(Misplaced("the project was not created yet")),
    };
    match &event.body {
        Body::ProjectCreated { .. } | Body::LedgerSealed { .. } | Body::TimesheetSealed { .. } => {}
        Body::ActorRegistered { actor, tier } => changes.push(RowChange::PutActor(Actor {
            name: actor.clone(),
            tier: *tier,
            registered_at_ms: event.at_ms,
        })),
        Body::ActorTierSet { actor, tier } => {
            changes.push(RowChange::SetTier { actor: actor.clone(), tier: *tier });
        }
        Body::ActorAliased { actor, alias } => {
            changes.push(RowChange::PutAlias { alias: alias.clone(), actor: actor.clone() });
        }
        _ => return Err(Misplaced("a task's event is in the project's stream")),
    }
    project.version = event.version;
    project.head = event.hash.clone();
    changes.push(RowChange::PutProject(project));
    Ok(changes)
}

/// The project's own stream after a fold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectFold {
    pub project: Option<Project>,
    pub actors: BTreeMap<ActorName, Actor>,
    pub aliases: BTreeMap<ActorName, ActorName>,
}

impl ProjectFold {
    pub fn add(&mut self, event: &Event) -> Result<(), Misplaced> {
        for change in apply_to_project(self.project.as_ref(), event)? {
            match change {
                RowChange::PutProject(project) => self.project = Some(project),
                RowChange::PutActor(actor) => {
                    self.actors.insert(actor.name.clone(), actor);
                }
                RowChange::SetTier { actor, tier } => {
                    let actor =
                        self.actors.get_mut(&actor).ok_or(Misplaced("a tier for an unknown actor"))?;
                    actor.tier = tier;
                }
                RowChange::PutAlias { alias, actor } => {
                    self.aliases.insert(alias, actor);
                }
                _ => return Err(Misplaced("the project's event changed a task")),
            }
        }
        Ok(())
    }
}
