//! The one door: only commands that go through here change rows.
//!
//! [`Engine::execute`] takes a *batch*: n requests, one transaction, one durable commit, one savepoint per
//! request. A refused request is undone on its own and changes nothing; the others remain. Answers exist only
//! after the commit: if that fails (a full disk, a lost connection), every request of the batch is answered
//! with that failure, and none was applied. The command line's batch has one request, a server's will have
//! many.
//!
//! A request runs in these steps: find the actor behind the name; if it has a key that was already used,
//! answer from the record; resolve the task's reference to its uid; lock the row; read the view; let the core
//! decide; stamp each event into its stream's chain; apply its changes; then count all of it as a sign of
//! life of the caller.
//!
//! **Sweeping is lazy.** The first write that needs a task ends its lapsed lease, and only that one. Readers
//! compute "lapsed" and write nothing.
//!
//! **Idle conversations yield.** If a request is refused only because of files that resting ad-hoc work
//! touched, it is tried once more after git found them clean and that work has yielded them (`yielding.rs`):
//! three transactions, with git between the first two.
//!
//! **Waiting** for a task ([`Engine::run_or_wait`]) means trying a claim again when something has changed: a
//! commit, the death of a process, a point in time. Nothing is held meanwhile.

mod circles;
mod commits;
mod conversation;
mod execution;
mod forecast;
mod graph;
mod intake;
mod landing;
mod ledger;
mod notices;
mod orphans;
mod planning;
mod query;
mod reports;
mod request;
mod rescue;
mod round;
mod scopes;
mod seats;
mod sessions;
mod show;
mod snapshot;
mod status;
mod timesheet;
mod view;
mod waiting;
mod yielding;

use onus_core::actor::{ActorName, InstanceId, KnownBy};
use onus_core::command::Command;
use onus_core::ids::{TaskRef, Token, Uid};
use onus_core::lease::{Process, Seen};
use onus_core::policy::Policy;
use onus_core::scope::WorktreeId;
use onus_core::text::Salt;
use onus_core::time::Tick;
use onus_os::{clock, process};
use onus_store::Store;

pub use commits::{CommitLease, Pushed, TaskToFinish};
pub use conversation::{Conversation, Files, HookCall};
pub use forecast::{BranchView, ConflictView, ForecastView, LiveBranch, Warning};
pub use graph::{BottleneckView, EdgeKind, EdgeView, GraphQuery, GraphView, NodeView};
pub use landing::{Landable, SettleResult, Unsettled};
pub use ledger::{Erased, SealDocument, SealHeader, Verified};
pub use orphans::Orphan;
pub use planning::{Explained, LinkView, LinksView, ObstacleView, WhyView};
pub use query::{ListEnd, LogPage, LogScope, Page, QueryResult, TaskBefore, WithNotices};
pub use reports::{
    ActorStandup, CostBy, CostRow, CostView, DayEntry, DayView, FlowView, FlowWeek, Percentiles, ReportTask,
    StandupView, StandupWork,
};
pub use rescue::{Due, RescueView, Tried};
pub use round::{RoundGate, RoundRow, RoundView};
pub use seats::{SeatHeldView, SeatView};
pub use sessions::{SessionQuery, SessionView, UsageView};
pub use show::{CommitView, LinkedView, NoteView};
pub use status::{AwaitedView, HeldView, StatusView};
pub use timesheet::{
    ActorHours, Billing, By, Parts, SealedActor, SealedView, SheetPart, SheetQuery, SheetRow, SheetView,
};
pub use view::{
    AcceptanceView, ActorView, InstanceView, KeptView, LeaseView, NotReadyView, Notice, NoticeKind,
    ReservationView, TaskView, TouchedView,
};
pub use yielding::Looked;

#[derive(Debug)]
pub struct Engine<S> {
    store: S,
    policy: Policy,
    outside: Outside,
}

/// The engine over the configured store, whichever it is.
pub type AnyEngine = Engine<onus_store::AnyStore>;

/// Everything the engine needs from the outside world besides the store: a simulation provides its own.
#[allow(clippy::type_complexity, reason = "each type is used once, and its field says what it is for")]
pub struct Outside {
    pub observe: Box<dyn Fn(&Process) -> Seen + Send>,
    pub new_uid: Box<dyn FnMut(i64) -> Uid + Send>,
    pub new_salt: Box<dyn FnMut() -> Salt + Send>,
    /// Ends a dead holder's process group before its task is granted to another. Returns what the caller should
    /// know about it.
    pub end_orphan: Box<dyn FnMut(&Orphan) -> Vec<String> + Send>,
    /// Asks git about files of a worktree, named from its root, outside any transaction: one answer each.
    pub look: Box<dyn FnMut(&WorktreeId, &[String]) -> Vec<Looked> + Send>,
    /// Keeps what the holder of a lost lease left uncommitted, outside any transaction.
    pub rescue: Box<dyn FnMut(&Due) -> Tried + Send>,
    /// Looks at the references of a landing that was begun, outside any transaction, and stops it if it has not
    /// moved its target.
    pub settle: Box<dyn FnMut(&Unsettled) -> SettleResult + Send>,
    /// The caller's own clock. It measures work if the store's clock is a server's.
    pub own_clock: Box<dyn Fn() -> Tick + Send>,
}

impl Default for Outside {
    fn default() -> Outside {
        Outside {
            observe: Box::new(process::observe),
            new_uid: Box::new(new_uid),
            new_salt: Box::new(new_salt),
            end_orphan: Box::new(|_| Vec::new()),
            look: Box::new(|_, paths| vec![Looked::Unknown; paths.len()]),
            rescue: Box::new(|_| Tried::Elsewhere),
            settle: Box::new(|_| SettleResult::Elsewhere),
            own_clock: Box::new(|| Tick::of(&clock::now())),
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

/// Fills a buffer with the kernel's random numbers. Without them uids would not be unique, so there is no
/// fallback.
#[allow(clippy::expect_used, reason = "a kernel without random numbers cannot run onus")]
fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the kernel gives random numbers");
}

/// The caller, as identified by the interface.
#[derive(Clone, Debug)]
pub struct Identity {
    pub actor: ActorName,
    pub instance: InstanceId,
    pub known_by: KnownBy,
    /// A token, and the task it is for. Without a task, it is for the task or the seat that the command
    /// names.
    pub token: Option<(Option<TaskRef>, Token)>,
    pub ancestry: Ancestry,
}

impl Identity {
    /// An identity that presents no token, whose process is the caller's own.
    pub fn own(actor: ActorName, instance: InstanceId, known_by: KnownBy) -> Identity {
        Identity { actor, instance, known_by, token: None, ancestry: Ancestry::Own }
    }

    /// The token that counts for a seat: one presented for a task does not.
    pub(crate) fn token_for_seat(&self) -> Option<Token> {
        match self.token {
            Some((None, token)) => Some(token),
            Some((Some(_), _)) | None => None,
        }
    }
}

/// The calling process and those above it, nearest first.
#[derive(Clone, Debug)]
pub enum Ancestry {
    /// This very process and those above it: read only if a lease is bound to a process, which few are.
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

/// A command by somebody, under an idempotency key if it has one.
#[derive(Clone, Debug)]
pub struct Request {
    pub identity: Identity,
    pub command: Command,
    pub key: Option<String>,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Task(Box<TaskView>),
    /// The task of an ask from outside. If it existed, also what the ask changed; empty for a replay.
    Asked {
        task: Box<TaskView>,
        changed: Vec<String>,
    },
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
    /// The kinds of the events that were undone, and what they did, in words; empty for a replay.
    Undone {
        task: Box<TaskView>,
        undone: Vec<String>,
        what: Option<&'static str>,
    },
    Seat {
        seat: Box<SeatView>,
        renewed: bool,
        takeover: bool,
    },
    Actor(ActorView),
    Instance(InstanceView),
    /// The task that the files belong to now; None if they belong to none and the caller was warned, or if a
    /// brief answer was requested and no task was opened.
    Guarded {
        task: Option<Box<TaskView>>,
        adopted: bool,
    },
    /// The tasks that a conversation ended when it went away.
    Present {
        ended: Vec<TaskView>,
    },
    Sealed,
}

/// An answer, and what goes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub answer: Answer,
    /// The request had already been applied under the same key.
    pub replayed: bool,
    /// The origin was known: this is its existing task.
    pub existing: bool,
    /// Everything requested was already so: nothing was written.
    pub unchanged: bool,
    pub notices: Vec<Notice>,
    /// Leases lost by this request whose files are still to be kept. Empty once the engine answers.
    pub due: Vec<(Uid, Token)>,
}

impl<S: Store> Engine<S> {
    pub fn new(store: S, policy: Policy) -> Engine<S> {
        Engine { store, policy, outside: Outside::default() }
    }

    pub fn with_outside(store: S, policy: Policy, outside: Outside) -> Engine<S> {
        Engine { store, policy, outside }
    }

    pub fn store(&mut self) -> &mut S {
        &mut self.store
    }

    pub fn into_store(self) -> S {
        self.store
    }
}
