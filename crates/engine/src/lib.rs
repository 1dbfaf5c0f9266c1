//! The one door: nothing changes a row but a command that went through here.
//!
//! [`Engine::execute`] takes a *batch*: n requests, one transaction, one durable commit, a savepoint each. A request
//! that is refused is undone by itself and changes nothing; the others stand. Answers exist only after the commit: if
//! that fails (a full disk, a lost connection), every request of the batch is answered with that failure, and
//! none was applied. The command line's batch has one request, a server's will have many.
//!
//! One request: find the actor behind the name; if it carries a key that was used, answer from the record; resolve the
//! task's reference to its uid; lock the row; read the view; let the core decide; stamp each event into its stream's
//! chain; apply its changes; then count the whole thing as a sign of life of the caller.
//!
//! **Sweeping is lazy.** A lapsed lease is ended by the first write that needs its task, for that task alone.
//! Readers compute "lapsed" and write nothing.
//!
//! **Waiting** for a task ([`Engine::run_or_wait`]) is a claim that is tried again when something changed: a commit, a
//! process that died, a time that came. Nothing is held meanwhile.

mod conversation;
mod door;
mod graph;
mod ledger;
mod notices;
mod orphans;
mod planning;
pub mod process;
mod query;
mod scopes;
mod status;
mod view;
mod waiting;

use onus_core::actor::{ActorName, InstanceId, KnownBy};
use onus_core::command::Command;
use onus_core::ids::{TaskRef, Token, Uid};
use onus_core::lease::{Process, Seen};
use onus_core::policy::Policy;
use onus_core::refusal::{Code, Refusal};
use onus_core::text::Salt;
use onus_store::{Store, StoreError};

pub use conversation::{Call, Conversation};
pub use graph::{BottleneckView, EdgeKind, EdgeView, GraphQuery, GraphView, NodeView};
pub use ledger::{Erased, SealDocument, SealHeader, Verified};
pub use orphans::Orphan;
pub use planning::{Explained, ObstacleView, WhyView};
pub use query::{LogPage, Looked, Page};
pub use status::{HeldView, StatusView};
pub use view::{
    ActorView, InstanceView, KeptView, LeaseView, NoteView, Notice, NoticeKind, TaskView, TouchedView,
};

pub struct Engine<S> {
    store: S,
    policy: Policy,
    outside: Outside,
}

impl<S: std::fmt::Debug> std::fmt::Debug for Engine<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("store", &self.store)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// Ends a dead holder's process group, and says what the caller should know about it.
pub type EndOrphan = Box<dyn FnMut(&Orphan) -> Vec<String> + Send>;

/// What the engine asks the world for, beside the store: a simulation gives its own.
pub struct Outside {
    pub observe: Box<dyn Fn(&Process) -> Seen + Send>,
    pub new_uid: Box<dyn FnMut(i64) -> Uid + Send>,
    pub new_salt: Box<dyn FnMut() -> Salt + Send>,
    pub end_orphan: EndOrphan,
}

impl Default for Outside {
    fn default() -> Outside {
        Outside {
            observe: Box::new(process::observe),
            new_uid: Box::new(new_uid),
            new_salt: Box::new(new_salt),
            end_orphan: Box::new(|_| Vec::new()),
        }
    }
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").finish_non_exhaustive()
    }
}

/// A fresh UUIDv7 with the store's wall time in it.
pub fn new_uid(wall_ms: i64) -> Uid {
    let mut random = [0; 10];
    fill(&mut random);
    Uid(uuid::Builder::from_unix_timestamp_millis(u64::try_from(wall_ms).unwrap_or_default(), &random)
        .into_uuid())
}

fn new_salt() -> Salt {
    let mut salt = Salt::default();
    fill(&mut salt);
    salt
}

/// Asks the kernel itself: a program without shared libraries would be given them through `/dev/random`, in six calls.
#[cfg(target_os = "linux")]
fn random(mut bytes: &mut [u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty()) {
            Ok(filled) => bytes = bytes.split_at_mut(filled).1,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
use getrandom::fill as random;

/// The kernel's random numbers. Without them no uid would be one: there is no way on.
#[allow(clippy::expect_used, reason = "a kernel without random numbers cannot run onus")]
fn fill(bytes: &mut [u8]) {
    random(bytes).expect("the kernel gives random numbers");
}

/// Who asks, as the interface found out.
#[derive(Clone, Debug)]
pub struct Identity {
    pub actor: ActorName,
    pub instance: InstanceId,
    pub known_by: KnownBy,
    /// A token, and the task it is for. Without a task: the one that the command names.
    pub token: Option<(Option<TaskRef>, Token)>,
    pub ancestry: Ancestry,
}

/// The calling process and those above it, nearest first.
#[derive(Clone, Debug)]
pub enum Ancestry {
    /// This very process and those above it: only read if a lease is bound to a process, which few are.
    Own,
    Known(Vec<Process>),
}

impl Ancestry {
    pub(crate) fn processes(&self) -> Vec<Process> {
        match self {
            Ancestry::Own => process::ancestry(),
            Ancestry::Known(processes) => processes.clone(),
        }
    }
}

/// One request: a command by somebody, under an idempotency key if it has one.
#[derive(Clone, Debug)]
pub struct Request {
    pub identity: Identity,
    pub command: Command,
    pub key: Option<String>,
}

/// What was done.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Task(Box<TaskView>),
    Tasks(Vec<TaskView>),
    Reset {
        task: Box<TaskView>,
        touched: Vec<TouchedView>,
    },
    Lease {
        task: Box<TaskView>,
        lease: Option<Box<LeaseView>>,
        renewed: bool,
        takeover: bool,
    },
    Actor(ActorView),
    Instance(InstanceView),
    /// The task that the files belong to now; None: they belong to none and the caller was warned, or a brief answer was asked
    /// for and no task was opened.
    Guarded {
        task: Option<Box<TaskView>>,
        adopted: bool,
    },
    /// The tasks that a conversation ended when it went.
    Present {
        ended: Vec<TaskView>,
    },
    Sealed,
}

/// An answer with what goes beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub answer: Answer,
    /// The request had been applied before, under the same key.
    pub replayed: bool,
    /// The origin was known: this is the task it had become.
    pub existing: bool,
    pub notices: Vec<Notice>,
}

impl<S: Store> Engine<S> {
    pub fn new(store: S, policy: Policy) -> Engine<S> {
        Engine { store, policy, outside: Outside::default() }
    }

    pub fn with_outside(store: S, policy: Policy, outside: Outside) -> Engine<S> {
        Engine { store, policy, outside }
    }

    /// Who ends a dead holder's processes before its task is granted to another.
    pub fn ending_orphans(mut self, end: impl FnMut(&Orphan) -> Vec<String> + Send + 'static) -> Engine<S> {
        self.outside.end_orphan = Box::new(end);
        self
    }

    pub fn store(&mut self) -> &mut S {
        &mut self.store
    }

    pub fn into_store(self) -> S {
        self.store
    }

    /// n requests, one durable commit; the answers in the same order.
    pub fn execute(&mut self, batch: &[Request]) -> Vec<Result<Reply, Refusal>> {
        let outcome = self.without_orphans(|store, policy, outside, ended, orphan| {
            store.write(|write| {
                batch
                    .iter()
                    .map(|request| {
                        write.savepoint()?;
                        let outcome = door::Door::new(write, policy, outside, request, ended)
                            .and_then(|door| door.run());
                        match outcome {
                            Ok(reply) => write.release().map(|()| Ok(reply)),
                            Err(door::Stop::Refused(refusal)) => write.undo().map(|()| Err(refusal)),
                            Err(door::Stop::Failed(error)) => Err(error),
                            Err(door::Stop::Orphan(found)) => Err(undone(orphan, found)),
                        }
                    })
                    .collect::<Result<Vec<_>, StoreError>>()
            })
        });
        match outcome {
            Ok((mut answers, asides)) => {
                for reply in answers.iter_mut().flatten() {
                    reply.notices.extend(asides.iter().cloned());
                }
                answers
            }
            Err(error) => {
                let refusal = Refusal::from(error);
                batch.iter().map(|_| Err(refusal.clone())).collect()
            }
        }
    }

    /// One request, one commit. It needs no savepoint: if it is refused, the whole transaction is undone with it.
    pub fn run(&mut self, request: &Request) -> Result<Reply, Refusal> {
        let mut refused = None;
        let outcome = self.without_orphans(|store, policy, outside, ended, orphan| {
            store.write(|write| {
                refused = None;
                match door::Door::new(write, policy, outside, request, ended).and_then(|door| door.run()) {
                    Ok(reply) => Ok(reply),
                    Err(door::Stop::Refused(refusal)) => {
                        refused = Some(refusal);
                        Err(StoreError::Unexpected("the request was refused".to_owned()))
                    }
                    Err(door::Stop::Failed(error)) => Err(error),
                    Err(door::Stop::Orphan(found)) => Err(undone(orphan, found)),
                }
            })
        });
        match outcome {
            Ok((mut reply, asides)) => {
                reply.notices.extend(asides);
                Ok(reply)
            }
            Err(error) => Err(refused.unwrap_or_else(|| Refusal::from(error))),
        }
    }

    /// What the answer to a request would be now. Everything is done as [`Engine::run`] does it, then undone.
    pub fn rehearse(&mut self, request: &Request) -> Result<Reply, Refusal> {
        let (policy, outside) = (&self.policy, &mut self.outside);
        let mut answer = None;
        let outcome = self.store.write(|write| {
            answer = match door::Door::new(write, policy, outside, request, &[]).and_then(|door| door.run()) {
                Ok(reply) => Some(Ok(reply)),
                Err(stop) => Some(Err(stop.of_reader()?)),
            };
            Err::<(), _>(StoreError::Unexpected("the request is undone".to_owned()))
        });
        match (answer, outcome) {
            (Some(answer), _) => answer,
            (None, Err(error)) => Err(Refusal::from(error)),
            (None, Ok(())) => Err(Refusal::new(Code::Unexpected, "the rehearsal has no answer")),
        }
    }

    /// Runs `work` until it meets no process group of a dead holder: each is ended in between.
    fn without_orphans<T>(
        &mut self,
        mut work: impl FnMut(&mut S, &Policy, &mut Outside, &[u32], &mut Option<Orphan>) -> Result<T, StoreError>,
    ) -> Result<(T, Vec<Notice>), StoreError> {
        let (mut ended, mut asides) = (Vec::new(), Vec::new());
        loop {
            let mut orphan = None;
            let outcome = work(&mut self.store, &self.policy, &mut self.outside, &ended, &mut orphan);
            match (outcome, orphan) {
                (Ok(value), _) => return Ok((value, asides)),
                (Err(_), Some(orphan)) => {
                    asides.extend((self.outside.end_orphan)(&orphan).into_iter().map(|message| Notice {
                        kind: NoticeKind::Info,
                        task: Some(orphan.task.clone()),
                        message,
                    }));
                    ended.push(orphan.group);
                }
                (Err(error), None) => return Err(error),
            }
        }
    }
}

/// What undoes a transaction because of an orphan.
fn undone(place: &mut Option<Orphan>, orphan: Orphan) -> StoreError {
    *place = Some(orphan);
    StoreError::Unexpected("a dead holder's processes must be ended first".to_owned())
}
