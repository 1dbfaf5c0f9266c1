//! One request can be spelled in many ways. This gives access to the names and sets in it, so that two can be compared.

use crate::actor::ActorName;
use crate::ids::TaskRef;

use super::{Act, Command, Intake, NewTask, SeatAct, TaskLink};

impl NewTask {
    fn links_mut(&mut self) -> impl Iterator<Item = &mut TaskRef> {
        let links = self.parent.iter_mut().chain(&mut self.deps).chain(&mut self.relates);
        links.filter_map(|link| match link {
            TaskLink::Task(reference) => Some(reference),
            TaskLink::Planned(_) => None,
        })
    }

    fn sort_sets(&mut self) {
        sort_set(&mut self.deps);
        sort_set(&mut self.relates);
    }
}

fn sort_set<T: Ord>(set: &mut Vec<T>) {
    set.sort();
    set.dedup();
}

impl Command {
    /// The tasks that it names besides the one it is about.
    pub fn named_tasks_mut(&mut self) -> Vec<&mut TaskRef> {
        match self {
            Command::Add(new) | Command::Intake(Intake { new, .. }) => new.links_mut().collect(),
            Command::AddPlan(plan) => plan.iter_mut().flat_map(|planned| planned.task.links_mut()).collect(),
            Command::OnTask { act: Act::AddDeps { on } | Act::RemoveDeps { on }, .. } => {
                on.iter_mut().collect()
            }
            Command::OnTask { act: Act::Edit(edit), .. } => {
                let parent = edit.parent.iter_mut().flatten();
                parent.chain(&mut edit.relate).chain(&mut edit.unrelate).collect()
            }
            Command::Seated { command, .. } => command.named_tasks_mut(),
            _ => Vec::new(),
        }
    }

    /// The actors that it names, each perhaps by an alias.
    pub fn named_actors_mut(&mut self) -> Vec<&mut ActorName> {
        match self {
            Command::Add(new) | Command::Intake(Intake { new, .. }) => new.facts.owner.iter_mut().collect(),
            Command::AddPlan(plan) => {
                plan.iter_mut().filter_map(|planned| planned.task.facts.owner.as_mut()).collect()
            }
            Command::OnTask { act: Act::Edit(edit), .. } => edit.owner.iter_mut().flatten().collect(),
            Command::OnTask { act: Act::Handoff { to: actor, .. } | Act::Assign { to: actor, .. }, .. }
            | Command::SetTier { actor, .. }
            // A new alias is taken as it is spelled.
            | Command::AddAlias { actor, .. }
            | Command::RegisterActor { actor, .. }
            | Command::RegisterInstance { actor, .. } => vec![actor],
            Command::Seated { command, .. } => command.named_actors_mut(),
            _ => Vec::new(),
        }
    }

    /// Sorts lists whose order has no meaning, and removes duplicates.
    pub fn sort_sets(&mut self) {
        match self {
            Command::Add(new) | Command::Intake(Intake { new, .. }) => new.sort_sets(),
            Command::AddPlan(plan) => plan.iter_mut().for_each(|planned| planned.task.sort_sets()),
            Command::OnSeat { act: SeatAct::Redact { fields, .. }, .. } => sort_set(fields),
            Command::Seated { command, .. } => command.sort_sets(),
            Command::OnTask { act, .. } => match act {
                Act::AddDeps { on } | Act::RemoveDeps { on } => sort_set(on),
                Act::Touch { paths, .. } => sort_set(paths),
                Act::Redact { fields, .. } => sort_set(fields),
                Act::Edit(edit) => {
                    sort_set(&mut edit.add_tags);
                    sort_set(&mut edit.remove_tags);
                    sort_set(&mut edit.relate);
                    sort_set(&mut edit.unrelate);
                }
                _ => {}
            },
            _ => {}
        }
    }
}
