//! What an agent's hooks ask on every tool call. Most calls change nothing that anybody could notice, so most are answered
//! from one snapshot and write nothing; the rest go through the door like everything else.

use onus_core::actor::{ActorName, InstanceId};
use onus_core::lease::{Lease, Liveness, Process, Seen};
use onus_core::refusal::Refusal;
use onus_core::scope::{Glob, Scope};
use onus_core::time::MINUTE_MS;
use onus_store::{Store, Wanted};

use crate::Engine;
use crate::door::resolve;
use crate::notices::{self, Watch};
use crate::query::Look;

/// A sign of life is written again after this long.
const FRESH_MS: i64 = MINUTE_MS;

/// A conversation as a hook's payload names it.
#[derive(Clone, Debug)]
pub struct Conversation {
    pub actor: ActorName,
    pub instance: InstanceId,
    /// A part of it that works by itself, in the same process.
    pub sub_agent: Option<InstanceId>,
    /// The process that runs it.
    pub process: Option<Process>,
}

/// How a hook's call is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who acts: the conversation, or a part of it.
    pub instance: InstanceId,
    /// The process is not known as this conversation's yet.
    pub registers: bool,
    /// There is nothing to write and nothing to say.
    pub is_settled: bool,
}

impl<S: Store> Engine<S> {
    /// Who a hook's call is by, and whether it needs a write. `paths`: files about to be changed.
    pub fn call(&mut self, conversation: &Conversation, paths: &[String]) -> Result<Call, Refusal> {
        let looked = self.look(None, |look| {
            let Conversation { actor, instance, sub_agent, process } = conversation;
            let actor = look.read.alias(actor)?.unwrap_or_else(|| actor.clone());
            let registers = match process {
                Some(process) => {
                    let known = look.read.instance_of(process)?;
                    !known.is_some_and(|known| known.actor == actor && known.instance == *instance)
                }
                None => false,
            };
            let whole = look.read.leases_held_by(&actor, instance)?;
            let (instance, leases) = match sub_agent {
                None => (instance, whole),
                Some(part) => {
                    let own = look.read.leases_held_by(&actor, part)?;
                    let is_the_conversations =
                        !whole.is_empty() && (own.is_empty() || covers(look, &whole, paths)?);
                    if is_the_conversations { (instance, whole) } else { (part, own) }
                }
            };
            let mut is_settled = !registers;
            for lease in &leases {
                is_settled &= is_fresh(look, lease);
            }
            is_settled = is_settled && (paths.is_empty() || covers(look, &leases, paths)?);
            if is_settled {
                let watch = Watch::of(look.read, &actor, instance)?;
                let observe = look.engine.observe;
                let news = notices::for_caller(
                    look.read,
                    &look.project,
                    &look.now,
                    observe,
                    (&actor, instance),
                    &watch,
                    None,
                )?;
                is_settled = news.is_empty();
            }
            Ok(Call { instance: instance.clone(), registers, is_settled })
        })?;
        Ok(looked.value)
    }

    /// Remembers that an agent was refused a path, for whoever has it. `task`: whose lease that is.
    pub fn record_wish(
        &mut self,
        (actor, instance): (&ActorName, &InstanceId),
        task: &str,
        path: &str,
    ) -> Result<(), Refusal> {
        let reference = task.parse()?;
        self.store.write(|write| {
            let project = write.project()?;
            let Ok(task) = resolve(write, &project, &reference) else { return Ok(()) };
            let actor = write.alias(actor)?.unwrap_or_else(|| actor.clone());
            let now_ms = write.now().wall_ms;
            // One that was never seen has no news: from now on it has.
            let known = write.instance(&actor, instance)?.unwrap_or(onus_store::KnownInstance {
                actor,
                instance: instance.clone(),
                process: None,
                group: None,
                seen_at_ms: now_ms,
                wants: None,
            });
            let wants = Some(Wanted { task, path: path.to_owned(), at_ms: now_ms });
            write.put_instance(&onus_store::KnownInstance { wants, ..known })
        })?;
        Ok(())
    }

    /// An instance of an actor, if it was ever registered or acted.
    pub fn known_instance(
        &mut self,
        actor: &ActorName,
        instance: &InstanceId,
    ) -> Result<Option<onus_store::KnownInstance>, Refusal> {
        Ok(self.look(None, |look| Ok(look.read.instance(actor, instance)?))?.value)
    }
}

fn is_fresh(look: &Look<'_>, lease: &Lease) -> bool {
    let seen = lease.grant.process.as_ref().map_or(Seen::Unseen, look.engine.observe);
    lease.liveness(&look.now, seen) == Liveness::Live
        && !lease.pulse.resting
        && (0..FRESH_MS).contains(&look.now.since_ms(&lease.pulse.last))
}

/// Whether these leases reserve all of the paths, or they are shared by all.
fn covers(look: &mut Look<'_>, leases: &[Lease], paths: &[String]) -> Result<bool, onus_store::StoreError> {
    let asked: Vec<Glob> = paths.iter().filter_map(|path| Glob::literal(path).ok()).collect();
    if asked.len() < paths.len() {
        return Ok(false);
    }
    let near = look.read.scopes_near(&asked.iter().cloned().collect())?;
    let own: Scope = near
        .into_iter()
        .filter(|(task, token, _)| leases.iter().any(|lease| lease.task == *task && lease.token == *token))
        .map(|(_, _, glob)| glob)
        .collect();
    let shared = &look.engine.policy.scope_shared;
    Ok(asked.iter().filter_map(Glob::path).all(|path| own.covers(path) || shared.covers(path)))
}
