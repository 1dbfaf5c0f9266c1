//! The lease of a run: claimed for it, renewed while it lasts, ended according to its result.
//!
//! It is held by an instance of its own, new for each run, and bound to this process. Each request opens the store
//! again: a run may last for hours, and a store open for hours blocks backups and upgrades.

use std::time::{Duration, Instant};

use onus_core::actor::KnownBy;
use onus_core::command::{Act, Command, Terms};
use onus_core::event::Body;
use onus_core::ids::{TaskRef, Token};
use onus_core::lease::EndKind;
use onus_core::policy::Policy;
use onus_core::refusal::{Code, Refusal};
use onus_core::transition::Verb;
use onus_dispatch::Renewal;
use onus_engine::{Answer, AnyEngine, Engine, Identity, LeaseView, Outside, Reply, Request, TaskView};
use onus_os::process;
use onus_store::Access;

use crate::commands::worktree::making::Holder;
use crate::context::Context;
use onus_host::{Host, StoreAt, end_orphan};

/// Rare enough to cost next to nothing, and often enough that a superseded holder does little harm.
const RENEW_AT_LEAST_EVERY: Duration = Duration::from_secs(15);
const RENEW_AT_MOST_EVERY: Duration = Duration::from_millis(200);

/// How many of a task's latest events are searched for the end of a lease.
const LATEST: u64 = 100;

/// A lease, and the way to the store that granted it.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    store: StoreAt,
    wait: Duration,
    policy: Policy,
    pub(super) identity: Identity,
    task: TaskRef,
    pub(super) id: String,
    pub(super) token: u64,
    pub(super) renew_every: Duration,
    /// Until when the claim can be trusted, counted from the request. None means as long as this process lives.
    pub(super) trusted_until: Option<Instant>,
}

/// What became of a lease that we tried to end.
#[derive(Debug)]
pub(super) enum End {
    Now(Reply),
    /// The command had already ended it itself, in this way.
    Before(EndKind),
    /// The lease was no longer ours.
    Fenced(Refusal),
}

impl Hold {
    /// Claims the task, or the best one if none is named, for a new instance, bound to this process.
    pub(super) fn claim(
        context: &Context,
        task: Option<TaskRef>,
        terms: Terms,
    ) -> Result<(Hold, Reply), Refusal> {
        let caller = context.host.identity(&mut context.host.engine(Access::Write)?)?;
        let uid = onus_engine::new_uid(onus_os::clock::now().wall_ms);
        let mut hold = Hold {
            store: context.host.store_at()?,
            wait: context.host.config.store_wait(),
            policy: context.host.config.policy(),
            identity: Identity {
                instance: format!("run-{uid}").parse()?,
                known_by: KnownBy::Name,
                token: None,
                ..caller
            },
            task: uid.to_string().parse()?,
            id: String::new(),
            token: 0,
            renew_every: RENEW_AT_LEAST_EVERY,
            trusted_until: None,
        };
        let terms = Terms { process: Some(process::identify(std::process::id())?), ..terms };
        let asked = Instant::now();
        let command = match task {
            Some(task) => Command::OnTask { task: Some(task), act: Act::Claim(terms), force: None },
            None => Command::ClaimNext(terms),
        };
        // This needs the host's engine: a claim may be a takeover, which keeps what was left uncommitted here.
        let mut engine = context.host.engine(Access::Write)?;
        let command = context.host.with_local_facts(&mut engine, &hold.identity, command);
        let request = Request { identity: hold.identity.clone(), command, key: None };
        let reply = engine.run(&request)?;
        let Answer::Lease { task, lease: Some(lease), .. } = &reply.answer else {
            return Err(super::super::unexpected());
        };
        hold.task = task.uid.parse()?;
        hold.id = task.id.clone();
        hold.token = lease.token;
        hold.identity.token = Some((Some(hold.task.clone()), Token(lease.token)));
        hold.renew_every = renew_every(lease);
        hold.trusted_until = trusted_for(lease).map(|trusted_for| asked + trusted_for);
        Ok((hold, reply))
    }

    /// The environment the command needs to act under this lease.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let set = |name: &str, value: String| (name.to_owned(), value);
        vec![
            set("ONUS_TASK", self.id.clone()),
            set("ONUS_ACTOR", self.identity.actor.to_string()),
            set("ONUS_INSTANCE", self.identity.instance.to_string()),
            set("ONUS_TOKEN", self.token.to_string()),
        ]
    }

    fn engine(&self, access: Access) -> Result<AnyEngine, Refusal> {
        let store = self.store.open(access, self.wait)?;
        let outside = Outside { end_orphan: Box::new(end_orphan), ..Outside::default() };
        Ok(Engine::with_outside(store, self.policy.clone(), outside))
    }

    fn ask(&self, command: Command) -> Result<Reply, Refusal> {
        let request = Request { identity: self.identity.clone(), command, key: None };
        self.engine(Access::Write)?.run(&request)
    }

    fn act(&self, act: Act) -> Result<Reply, Refusal> {
        self.ask(Command::OnTask { task: Some(self.task.clone()), act, force: None })
    }

    /// Records which process the instance is. It leads a group of its own, whose id is its pid: what it
    /// leaves behind if this process is killed can be found through that group (`onus_dispatch::group`).
    pub(super) fn register(&self, pid: u32) -> Result<(), Refusal> {
        let (actor, instance) = (self.identity.actor.clone(), self.identity.instance.clone());
        let process = process::identify(pid)?;
        self.ask(Command::RegisterInstance { actor, instance, process, group: Some(pid) }).map(drop)
    }

    /// Renews the lease; `progress` if the command has printed something since the last time.
    pub(super) fn renew(&self, progress: bool) -> Renewal {
        match self.act(Act::Renew { ttl_ms: None, progress }) {
            Ok(reply) => match &reply.answer {
                Answer::Lease { lease: Some(lease), .. } => {
                    Renewal::Kept { next_in: renew_every(lease), trusted_for: trusted_for(lease) }
                }
                _ => Renewal::Unavailable { why: super::super::unexpected().message },
            },
            Err(refusal) if refusal.code == Code::Fenced => match self.ended_itself() {
                Ok(Some(_)) => Renewal::Ended,
                Ok(None) => Renewal::Fenced { why: refusal.message },
                Err(unknown) => Renewal::Unavailable { why: unknown.message },
            },
            // The lease lapsed and cannot continue: another may get the task at any moment.
            Err(refusal) if matches!(refusal.exit_code(), 4 | 6) => Renewal::Fenced { why: refusal.message },
            Err(refusal) => Renewal::Unavailable { why: refusal.message },
        }
    }

    /// Ends the lease. `host` is where the command ran, to see what it left uncommitted.
    pub(super) fn end(&self, host: &Host, verb: Verb, message: Option<String>) -> Result<End, Refusal> {
        let act = Act::moved(verb, message);
        let command = Command::OnTask { task: Some(self.task.clone()), act, force: None };
        let command = host.with_local_facts(&mut self.engine(Access::Read)?, &self.identity, command);
        match self.ask(command) {
            Ok(reply) => Ok(End::Now(reply)),
            Err(refusal) if refusal.code == Code::Fenced => {
                Ok(self.ended_itself()?.map_or(End::Fenced(refusal), End::Before))
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// How the command itself ended this lease, with the token we gave it; None if it did not.
    fn ended_itself(&self) -> Result<Option<EndKind>, Refusal> {
        let log = self.engine(Access::Read)?.log(None, Some(&self.task), 0, true, LATEST)?.value;
        let mut ours = log.records.iter().rev().filter(|record| record.token == Some(self.token));
        Ok(ours
            .find_map(|record| match record.to_event().ok()?.body {
                Body::TaskDone { .. } => Some(Some(EndKind::Done)),
                Body::TaskSubmitted { .. } => Some(Some(EndKind::Submitted)),
                Body::TaskFailed { .. } => Some(Some(EndKind::Failed)),
                Body::TaskBlocked { .. } => Some(Some(EndKind::Blocked)),
                Body::TaskDropped { .. } => Some(Some(EndKind::Dropped)),
                Body::LeaseReleased { .. } => Some(Some(EndKind::Released)),
                Body::LeaseHandedOff { .. } => Some(Some(EndKind::HandedOff)),
                Body::LeaseTakenOver { .. } | Body::LeaseRevoked { .. } | Body::TaskReset { .. } => {
                    Some(None)
                }
                _ => None,
            })
            .flatten())
    }

    /// The task as it is now.
    pub(super) fn task(&self) -> Result<TaskView, Refusal> {
        let mut task = self.engine(Access::Read)?.show(None, Some(&self.task))?.value;
        task.notes = None;
        Ok(task)
    }
}

impl Holder for Hold {
    fn act(&self, act: Act) -> Result<Reply, Refusal> {
        Hold::act(self, act)
    }

    fn is_person(&self) -> bool {
        self.identity.actor.is_person()
    }

    fn renewing(&self) -> Result<Box<dyn FnMut() -> Renewal + Send>, Refusal> {
        let hold = self.clone();
        Ok(Box::new(move || hold.renew(false)))
    }
}

fn renew_every(lease: &LeaseView) -> Duration {
    let ttl = lease.ttl_s.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs);
    let third = ttl.map_or(RENEW_AT_LEAST_EVERY, |ttl| ttl / 3);
    third.clamp(RENEW_AT_MOST_EVERY, RENEW_AT_LEAST_EVERY)
}

/// The lease is bound to this process, so only the maximum hold gives it a deadline.
fn trusted_for(lease: &LeaseView) -> Option<Duration> {
    lease.expires_in_s.map(|s| Duration::from_secs(u64::try_from(s).unwrap_or_default()))
}
