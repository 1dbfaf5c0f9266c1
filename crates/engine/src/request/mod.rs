//! One request inside the batch's transaction.

mod act;
mod actors;
mod answer;
mod commit;
pub(crate) mod evidence;
mod graph;
mod guard;
mod intake;
mod life;
mod look;
mod next;
mod recording;
mod replay;
mod rows;
pub(crate) mod seat;
mod target;
mod undo;
mod used;

use std::collections::BTreeSet;

use onus_core::actor::{Actor, ActorName, Caller, Tier};
use onus_core::apply::Project;
use onus_core::command::{Act, Command, Presence};
use onus_core::event::{Body, Draft};
use onus_core::ids::{Token, Uid};
use onus_core::intake::AskField;
use onus_core::policy::Policy;
use onus_core::refusal::Refusal;
use onus_core::time::Moment;
use onus_store::{CallerRows, KnownInstance, StoreError, Window, Write};

use crate::execution::{Purpose, SignOfLife};
use crate::landing::Unsettled;
use crate::orphans::Orphan;
use crate::view::{Notice, TouchedView};
use crate::{Identity, Outside, Reply, Request};

pub(crate) use rows::Rows;
pub(crate) use target::resolve;

/// Why a request ends without an answer.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It was refused: undo only this request.
    Refused(Refusal),
    /// The store failed: nothing of the batch can be kept.
    Failed(StoreError),
    /// A dead holder's processes must be ended first: then the batch is run again.
    Orphan(Orphan),
    /// A landing that was begun must be settled first: then the batch is run again.
    Unsettled(Unsettled),
}

impl Stop {
    /// The same for a query, which grants nothing and so meets no orphans.
    pub(crate) fn of_reader(self) -> std::result::Result<Refusal, StoreError> {
        match self {
            Stop::Refused(refusal) => Ok(refusal),
            Stop::Failed(error) => Err(error),
            Stop::Orphan(_) | Stop::Unsettled(_) => {
                Err(StoreError::Unexpected("a question met what only a change meets".to_owned()))
            }
        }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Stop {
        Stop::Failed(error)
    }
}

type Result<T> = std::result::Result<T, Stop>;

pub(crate) struct UnitOfWork<'a> {
    pub(crate) write: &'a mut dyn Write,
    rows: Rows,
    policy: &'a Policy,
    outside: &'a mut Outside,
    request: &'a Request,
    now: Moment,
    project: Project,
    actor: Actor,
    caller: Caller,
    /// The caller's instance as recorded before this request, and what this request changes of it.
    before: KnownInstance,
    /// When the caller was last seen before this request: decides what is news to it. None: never.
    seen_before_ms: Option<i64>,
    /// The first event of this request: the cause of those that follow.
    first: Option<Uid>,
    /// The reasons already stored with an event of this request.
    said: BTreeSet<String>,
    /// Leases that were lost, whose files are to be kept once this is committed.
    due: Vec<(Uid, Token)>,
    /// Things the caller should know.
    remarks: Vec<String>,
    /// Process groups already ended for this batch.
    pub(crate) ended_groups: &'a [u32],
    pub(crate) purpose: Purpose,
}

/// What a command did, before it is rendered.
struct Outcome {
    effect: Effect,
    task: Option<Uid>,
    /// The lease it obtained.
    token: Option<Token>,
    notices: Vec<Notice>,
    existing: bool,
    unchanged: bool,
}

enum Effect {
    Task,
    /// What an ask changed of an existing task.
    Asked(Vec<AskField>),
    Tasks(Vec<Uid>),
    Reset(Vec<TouchedView>),
    Lease {
        renewed: bool,
        takeover: bool,
    },
    Seat {
        renewed: bool,
        takeover: bool,
    },
    Actor(ActorName),
    Instance(KnownInstance),
    Guarded {
        adopted: bool,
        is_shown: bool,
    },
    Present(Vec<Uid>),
    Sealed,
    /// The kinds of the events that were undone, and what they did, in words.
    Undone {
        undone: Vec<String>,
        what: Option<&'static str>,
    },
}

impl Outcome {
    fn of(effect: Effect) -> Outcome {
        Outcome { effect, task: None, token: None, notices: Vec::new(), existing: false, unchanged: false }
    }

    /// The one task that its answer shows.
    fn shown(&self) -> Option<Uid> {
        match self.effect {
            Effect::Task
            | Effect::Asked(_)
            | Effect::Reset(_)
            | Effect::Lease { .. }
            | Effect::Undone { .. } => self.task,
            Effect::Guarded { is_shown, .. } => self.task.filter(|_| is_shown),
            Effect::Tasks(_)
            | Effect::Seat { .. }
            | Effect::Actor(_)
            | Effect::Instance(_)
            | Effect::Present(_)
            | Effect::Sealed => None,
        }
    }

    fn on(effect: Effect, task: Uid) -> Outcome {
        Outcome { task: Some(task), ..Outcome::of(effect) }
    }
}

impl<'a> UnitOfWork<'a> {
    pub(crate) fn new(
        write: &'a mut dyn Write,
        policy: &'a Policy,
        outside: &'a mut Outside,
        request: &'a Request,
        ended_groups: &'a [u32],
        purpose: Purpose,
    ) -> Result<UnitOfWork<'a>> {
        let Identity { actor, instance, known_by, .. } = &request.identity;
        let CallerRows { project, name: actor, actor: known, instance: seen } =
            write.caller(actor, instance)?;
        let now = write.now();
        let seen_before_ms = seen.as_ref().map(|seen| seen.seen_at_ms);
        let before =
            seen.unwrap_or_else(|| KnownInstance::seen(actor.clone(), instance.clone(), now.wall_ms));
        let caller = Caller {
            actor: actor.clone(),
            instance: instance.clone(),
            known_by: *known_by,
            whole: None,
            token: None,
            ancestry: Vec::new(),
            in_turn: before.in_turn,
            own_clock: now.domain.is_server().then(|| (outside.own_clock)()),
            process: None,
        };
        let is_new = known.is_none();
        let row = known.unwrap_or(Actor { name: actor, tier: Tier::DEFAULT, registered_at_ms: now.wall_ms });
        let mut work = UnitOfWork {
            write,
            rows: Rows::default(),
            policy,
            outside,
            request,
            now,
            project,
            actor: row,
            caller,
            before,
            seen_before_ms,
            first: None,
            said: BTreeSet::new(),
            due: Vec::new(),
            remarks: Vec::new(),
            ended_groups,
            purpose,
        };
        if is_new {
            let name = work.actor.name.clone();
            work.register(&name, Tier::DEFAULT)?;
        }
        Ok(work)
    }

    pub(crate) fn run(mut self, life: SignOfLife) -> Result<Reply> {
        let request = self.request;
        if let Some(key) = &request.key
            && let Some(reply) = self.replay(key)?
        {
            return Ok(reply);
        }
        let outcome = self.perform(&request.command)?;
        let progressed = outcome.task.filter(|_| request.command.is_progress());
        let mut rows = self.closing(outcome.shown())?;
        match request.command.itself() {
            // Reporting the end of a turn does not wake the caller's leases.
            Command::Presence(Presence::TurnOver | Presence::Gone) | Command::Used(_) => {}
            Command::Presence(Presence::TurnBegun) => self.turn_begun(&mut rows.held)?,
            Command::Presence(Presence::Asks) => self.asking(&mut rows.held)?,
            Command::Presence(Presence::ToolOver { ran_ms }) => self.tool_over(&mut rows.held, *ran_ms)?,
            _ if life == SignOfLife::Owed => {}
            _ => self.sign_of_life(progressed, &mut rows.held)?,
        }
        self.remember_caller()?;
        if let Some(key) = &request.key {
            self.keep(key, &outcome)?;
        }
        self.reply(outcome, &rows, false)
    }

    /// Gives the sign of life that an earlier request of a batch owes.
    pub(crate) fn give_owed_sign(mut self) -> Result<()> {
        let mut held = self.write.leases_held_by(&self.caller.actor, &self.caller.instance)?;
        self.sign_of_life(None, &mut held)
    }

    fn perform(&mut self, command: &Command) -> Result<Outcome> {
        match command {
            Command::Add(new) => self.add(new),
            Command::Intake(intake) => self.intake(intake),
            Command::AddPlan(plan) => self.add_plan(plan),
            Command::Reset { task, reason, force } => {
                let uid = self.target(task.as_ref())?;
                self.reset(uid, reason, force.as_ref())
            }
            Command::Retry { task, message, force } => {
                let uid = self.target(task.as_ref())?;
                self.retry(uid, message.as_deref(), force.as_ref())
            }
            Command::OnTask { task, act, force } => {
                let uid = match (task, act) {
                    (None, Act::Touch { .. }) => self.latest_held()?,
                    (task, _) => self.target(task.as_ref())?,
                };
                self.on_task(uid, act, force.as_ref())
            }
            Command::Undo { task, terms } => self.undo(task.as_ref(), terms),
            Command::ClaimNext(terms) => self.claim_next(&self.bound(terms)),
            Command::OnSeat { seat, act, force } => self.on_seat(seat, act, force.as_ref()),
            Command::Seated { seat, token, command } => self.seated(seat, *token, command),
            Command::Guard(guard) => self.guard(guard),
            Command::Look(look) => self.look(look),
            Command::Used(reading) => self.used(reading),
            Command::Committed(committed) => self.committed(committed),
            Command::Presence(presence) => self.presence(*presence),
            Command::Changed(changed) => self.changed(changed),
            Command::RegisterActor { actor, tier } => self.register_actor(actor, *tier),
            Command::SetTier { actor, tier } => self.set_tier(actor, *tier),
            Command::AddAlias { actor, alias } => self.add_alias(actor, alias),
            Command::RegisterInstance { actor, instance, process, group } => {
                let actor = self.ensure_actor(actor)?;
                // A conversation that continues in another process has not heard what happened meanwhile.
                let before = self.write.instance(&actor, instance)?;
                if before.as_ref().is_none_or(|before| before.process.as_ref() != Some(process)) {
                    // A sub-agent whose end nobody reported does not outlive its process.
                    self.end_parts(&actor, instance)?;
                }
                let known = KnownInstance {
                    actor,
                    instance: instance.clone(),
                    process: Some(process.clone()),
                    group: *group,
                    seen_at_ms: before.as_ref().map_or(self.now.wall_ms, |before| before.seen_at_ms),
                    read: before.as_ref().and_then(|before| before.read.clone()),
                    // No turn outlives its process.
                    in_turn: before
                        .is_some_and(|before| before.in_turn && before.process.as_ref() == Some(process)),
                    wants: None,
                    registered_at_ms: Some(self.now.wall_ms),
                    ended_at_ms: None,
                };
                self.write.put_instance(&known)?;
                if known.actor == self.caller.actor && known.instance == self.caller.instance {
                    self.before.process = known.process.clone();
                    self.before.group = known.group;
                    self.before.registered_at_ms = known.registered_at_ms;
                    self.before.ended_at_ms = None;
                    self.before.in_turn = known.in_turn;
                    self.caller.in_turn = known.in_turn;
                }
                Ok(Outcome::of(Effect::Instance(known)))
            }
            Command::SealTimesheet { month, zone, since_ms, until_ms } => {
                let window = Window { since_ms: *since_ms, until_ms: *until_ms };
                // If two seal at once, the second finds the first one's seal.
                self.write.lock_project()?;
                let actors = self.snapshot().hours_to_seal(month, window)?;
                let (month, zone) = (month.clone(), zone.clone());
                let (since_ms, until_ms) = (*since_ms, *until_ms);
                let sealed = Body::TimesheetSealed { month, zone, since_ms, until_ms, actors };
                self.append_to_project(Draft::new(sealed))?;
                Ok(Outcome::of(Effect::Sealed))
            }
            Command::RecordSeal { root, streams, previous } => {
                self.append_to_project(Draft::new(Body::LedgerSealed {
                    root: root.clone(),
                    streams: *streams,
                    previous: previous.clone(),
                }))?;
                Ok(Outcome::of(Effect::Sealed))
            }
        }
    }
}
