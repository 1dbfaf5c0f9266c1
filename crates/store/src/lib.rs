//! Where onus keeps its record: the [`Store`] trait and its implementations.
//!
//! **One transaction per batch.** [`Store::write`] runs its closure inside one write transaction and commits once,
//! durably; the answer exists only after the commit. A store may have to run the closure again (a deadlock, a
//! serialization failure), so it must have no effects but its writes. [`Store::read`] gives one snapshot and writes
//! nothing, not even a lock that another could notice.
//!
//! **Rows are locked before the view is read.** A decision first calls [`Write::lock_task`]; what it reads of that
//! task afterwards cannot change until the commit. On SQLite the write lock is the whole store's, and the call is a
//! read; on a store with row locks it is the fence that P1 and P2 stand on. What else a decision rests on has a lock of
//! its own ([`Write::lock_graph`], [`Write::lock_tasks`], [`Write::lock_scopes`]); where one lock is enough for all,
//! they do nothing. Time passes while one waits for a lock: the clock is read after the last.
//!
//! **The store's clock decides.** [`Read::now`] is read inside the transaction; nobody else's time counts.
//!
//! **Waiting.** [`Store::watch`] begins to listen for commits, whoever makes them. It is called before the first look at
//! what is waited for: what is committed from then on ends the next [`Watch::wait`], also if it was committed before that
//! call. A watch may wake for nothing; it may not sleep through a commit.
//!
//! Both speak plain domain types. Events and rows are written side by side in the same transaction; the only things
//! that are not a fold of the ledger are a live lease's pulse, the instance registry, kept requests and erasable
//! texts.

mod any;
pub mod clock;
mod columns;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod copy;
mod error;
mod near;
mod postgres;
mod sqlite;

use std::os::fd::BorrowedFd;
use std::time::Instant;

use onus_core::actor::{Actor, ActorName, InstanceId, Tier};
use onus_core::apply::{Change, Project};
use onus_core::chain::Record;
use onus_core::event::Event;
use onus_core::ids::{Number, TaskRef, Token, Uid};
use onus_core::lease::{Lease, Process, Pulse};
use onus_core::scope::{Glob, Scope};
use onus_core::seal::StreamHead;
use onus_core::task::{Origin, Priority, State, Task, TaskType};
use onus_core::text::{Field, Salt, TextKey};
use onus_core::time::Moment;

pub use any::AnyStore;
pub use error::StoreError;
pub use postgres::{Address, PooledStore, PostgresPool, PostgresStore};
pub use sqlite::{Access, Clock, SqliteStore, filesystem_of};

pub type Result<T> = std::result::Result<T, StoreError>;

/// A place where one project's tasks and ledger are kept.
pub trait Store {
    fn read<R>(&mut self, work: impl FnOnce(&mut dyn Read) -> Result<R>) -> Result<R>;

    /// `work` may run more than once; its last run is what was committed.
    fn write<R>(&mut self, work: impl FnMut(&mut dyn Write) -> Result<R>) -> Result<R>;

    /// Derives every row from the ledger anew, compares, and puts right what differs, in one transaction.
    fn rebuild(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt>;

    /// A consistent copy of the whole store in a new file.
    fn backup(&mut self, to: &std::path::Path, progress: &mut dyn FnMut(Progress)) -> Result<()>;

    /// What the store can say about its own health, beyond the ledger's.
    fn check(&mut self) -> Result<Vec<Finding>>;

    /// Mends what [`Store::check`] calls safe to mend, and makes erased texts unreadable in every file.
    /// False: somebody is reading an old snapshot; try again later.
    fn tidy(&mut self) -> Result<bool>;

    /// Begins to listen for commits.
    fn watch(&mut self) -> Result<Box<dyn Watch>>;
}

/// Listens for what is committed to a store, by this process or another. It holds no transaction and no lock.
pub trait Watch: std::fmt::Debug {
    /// Sleeps until something was committed since this last said so (at first: since the watch began), until one of
    /// `also` has something to say (such as the end of a process), or until a time. None: as long as it takes.
    fn wait(&mut self, until: Option<Instant>, also: &[BorrowedFd<'_>]) -> Result<Woken>;
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    Committed,
    /// One of those that were given.
    Other,
    TimeOver,
}

/// How far a long piece of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
}

/// What a rebuild found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    pub events: u64,
    pub tasks: u64,
    /// Rows that differed, by table.
    pub changed: Vec<(String, u64)>,
}

/// One thing that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub name: &'static str,
    pub ok: bool,
    pub detail: String,
    /// Whether [`Store::tidy`] or a rebuild mends it without losing anything.
    pub mendable: bool,
}

/// Which tasks to list. Empty: any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub states: Vec<State>,
    /// Finished tasks too, where no state is named.
    pub finished: bool,
    pub kind: Option<TaskType>,
    pub priority: Option<Priority>,
    pub tag: Option<String>,
    pub owner: Option<ActorName>,
    pub area: Option<String>,
    pub iteration: Option<String>,
    pub origin: Option<Origin>,
    /// Held by this actor, live or not.
    pub holder: Option<ActorName>,
}

/// Where a page of tasks ended: lists are ordered by priority, then number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    pub priority: Priority,
    pub number: Number,
}

/// Which way along the dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To what must be done first.
    Upstream,
    /// To what waits.
    Downstream,
}

/// Which rows are locked with those of some tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Rows,
    /// Those that count something of them, too: what they depend on, what depends on them, their parents.
    Neighbours,
}

/// What to do about a task that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    Skip,
    Wait,
}

/// Which events to read, in the order they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// One stream; None: all.
    pub stream: Option<Uid>,
    pub after_seq: u64,
    /// The last ones rather than the first.
    pub newest: bool,
    /// Of all streams, only those that no event can come before any more: for who goes on from the last one.
    pub settled: bool,
    pub limit: u64,
}

/// An idempotent request that was applied. It names what it made, and holds no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRequest {
    /// Salted digest of the request. None: the text it contained was erased.
    pub digest: Option<String>,
    pub salt: Salt,
    pub verb: String,
    pub task: Option<Uid>,
    /// The lease it got, if it got one.
    pub token: Option<Token>,
    pub at_ms: i64,
}

/// What every command begins with: the project, the name behind the one that the caller gave, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerRows {
    pub project: Project,
    pub name: ActorName,
    pub actor: Option<Actor>,
    pub instance: Option<KnownInstance>,
}

/// A known instance of an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownInstance {
    pub actor: ActorName,
    pub instance: InstanceId,
    pub process: Option<Process>,
    /// The process group that it runs, and that must be ended before somebody takes over from it when it is dead.
    pub group: Option<u32>,
    pub seen_at_ms: i64,
    pub wants: Option<Wanted>,
}

/// A path that an instance was refused because another's lease has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The task whose lease has it.
    pub task: Uid,
    pub path: String,
    pub at_ms: i64,
}

/// A text beside an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredText {
    pub key: TextKey,
    pub salt: Salt,
    pub text: String,
}

/// An event as it is stored, with what lies beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerLine {
    pub stream: String,
    pub record: Record,
    pub texts: Vec<LooseText>,
}

/// A text as it is stored, before anyone has checked that it makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LooseText {
    pub field: String,
    pub salt: Vec<u8>,
    pub text: String,
}

/// One snapshot.
pub trait Read {
    fn now(&mut self) -> Moment;
    fn project(&mut self) -> Result<Project>;

    /// What every command begins with, in one question.
    fn caller(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<CallerRows> {
        let project = self.project()?;
        let name = self.alias(actor)?.unwrap_or_else(|| actor.clone());
        let (actor, instance) = (self.actor(&name)?, self.instance(&name, instance)?);
        Ok(CallerRows { project, name, actor, instance })
    }

    /// Says that a task is to be shown next, with this lease: a store that is far away asks for all of that at once.
    fn ahead(&mut self, _task: &Task, _lease: Option<&Lease>) -> Result<()> {
        Ok(())
    }
    /// The tasks a reference may mean: none, one, or some of several.
    fn resolve(&mut self, reference: &TaskRef) -> Result<Vec<Uid>>;
    fn task(&mut self, uid: Uid) -> Result<Option<Task>>;
    fn task_by_origin(&mut self, origin: &Origin) -> Result<Option<Uid>>;
    fn lease(&mut self, task: Uid, token: Token) -> Result<Option<Lease>>;
    /// The latest lease of one holder on one task.
    fn latest_lease_of(
        &mut self,
        task: Uid,
        actor: &ActorName,
        instance: &InstanceId,
    ) -> Result<Option<Lease>>;
    /// The leases of one holder that have not ended.
    fn leases_held_by(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<Lease>>;
    /// Every lease that has not ended, in the order of `ready`.
    fn open_leases(&mut self, limit: u64) -> Result<Vec<(Task, Lease)>>;
    /// Leases of a holder that it did not end itself, since a wall time. One that lapsed may still be its own.
    fn leases_lost_by(
        &mut self,
        actor: &ActorName,
        instance: &InstanceId,
        since_ms: i64,
    ) -> Result<Vec<Lease>>;
    /// Whether an actor got a lease with a token above this one.
    fn held_above(&mut self, task: Uid, token: Token, actor: &ActorName) -> Result<bool>;
    /// Agents' leases without any time limit that have not ended: one actor's, and all.
    fn indefinite_leases(&mut self, actor: &ActorName) -> Result<(u64, u64)>;
    /// Open tasks without a lease that wait for nothing and that an actor of this tier may claim, the best first: by
    /// priority, then by the unfinished tasks that depend on them, then by age. Those with a schedule only if it is due.
    /// `visit` says whether to go on.
    fn walk_ready(
        &mut self,
        tier: Tier,
        due_ms: i64,
        visit: &mut dyn FnMut(&mut dyn Read, Task) -> Result<bool>,
    ) -> Result<()>;
    /// The first schedule after a wall time, of tasks that wait for nothing else.
    fn next_due(&mut self, after_ms: i64) -> Result<Option<i64>>;
    /// The tasks that one depends on, or that depend on it.
    fn beside(&mut self, task: Uid, direction: Direction) -> Result<Vec<Uid>>;
    /// Their numbers.
    fn numbers_beside(&mut self, task: Uid, direction: Direction) -> Result<Vec<Number>>;
    /// The same tasks, and theirs, and so on; without the task itself.
    fn closure(&mut self, task: Uid, direction: Direction) -> Result<Vec<Uid>>;
    /// Every dependency of unfinished tasks, or of all: who depends, and on whom.
    fn edges(&mut self, finished: bool) -> Result<Vec<(Uid, Uid)>>;
    /// What a task waits for: its dependencies and its children.
    fn waits_for(&mut self, task: Uid) -> Result<Vec<Uid>>;
    /// Whether one task waits for another, directly or through others.
    fn does_wait_for(&mut self, task: Uid, other: Uid) -> Result<bool>;
    /// Globs of leases that have not ended which may match a path that the scope matches, with the lease's task and token.
    fn scopes_near(&mut self, scope: &Scope) -> Result<Vec<(Uid, Token, Glob)>>;
    /// All that a lease reserves, or reserved when it ended.
    fn scope_of(&mut self, task: Uid, token: Token) -> Result<Scope>;
    fn scope_len(&mut self, task: Uid, token: Token) -> Result<usize>;
    /// Dependencies that are not met.
    fn unmet(&mut self, task: Uid, limit: u64) -> Result<Vec<Task>>;
    fn unfinished_children(&mut self, task: Uid, limit: u64) -> Result<Vec<Task>>;
    fn list(&mut self, filter: &Filter, after: Option<After>, limit: u64) -> Result<Vec<Task>>;
    fn count_by_state(&mut self) -> Result<Vec<(State, u64)>>;
    /// Tasks in whose texts every word occurs, the best first.
    fn search(&mut self, words: &[String], limit: u64) -> Result<Vec<Uid>>;
    fn text(&mut self, key: TextKey) -> Result<Option<StoredText>>;
    /// The texts that still lie beside one event.
    fn texts(&mut self, stream: Uid, version: onus_core::ids::Version) -> Result<Vec<StoredText>>;
    fn events(&mut self, query: &EventQuery) -> Result<Vec<Record>>;
    fn event(&mut self, stream: Uid, version: onus_core::ids::Version) -> Result<Option<Record>>;
    /// The notes of a task, oldest first: their events.
    fn notes(&mut self, task: Uid) -> Result<Vec<Record>>;
    fn count_events(&mut self) -> Result<u64>;
    /// The ledger stream by stream, in order, after a place; as it is stored, readable or not.
    fn ledger_page(&mut self, after: Option<&(String, u64)>, limit: u64) -> Result<Vec<LedgerLine>>;
    /// Where a text lies that has no event, if there is one.
    fn stray_text(&mut self) -> Result<Option<(String, u64)>>;
    /// The head of one stream as its row has it.
    fn head(&mut self, stream: &str) -> Result<Option<StreamHead>>;
    /// The head of every stream as its row has it, by uid.
    fn walk_heads(&mut self, visit: &mut dyn FnMut(StreamHead) -> Result<()>) -> Result<()>;
    fn actor(&mut self, name: &ActorName) -> Result<Option<Actor>>;
    /// The actor behind a name, if the name is an alias.
    fn alias(&mut self, name: &ActorName) -> Result<Option<ActorName>>;
    fn actors(&mut self) -> Result<Vec<Actor>>;
    fn aliases(&mut self) -> Result<Vec<(ActorName, ActorName)>>;
    fn instance(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Option<KnownInstance>>;
    fn instances(&mut self, limit: u64) -> Result<Vec<KnownInstance>>;
    /// The instance registered for a process.
    fn instance_of(&mut self, process: &Process) -> Result<Option<KnownInstance>>;
    /// The first instances that were refused a path of this task's lease since a wall time.
    fn wanting(&mut self, task: Uid, since_ms: i64) -> Result<Vec<KnownInstance>>;
    fn request(&mut self, actor: &ActorName, key: &str) -> Result<Option<KeptRequest>>;
    /// Every request that was kept, with its actor and key.
    fn requests(&mut self) -> Result<Vec<(ActorName, String, KeptRequest)>>;
}

/// One write transaction.
pub trait Write: Read {
    /// Locks the task's row until the commit, then reads it.
    fn lock_task(&mut self, uid: Uid) -> Result<Option<Task>>;
    /// Locks the project's row until the commit, then reads it.
    fn lock_project(&mut self) -> Result<Project>;
    /// Locks the edges between tasks until the commit: for who changes them, or walks along them for a decision. Before any
    /// task is locked.
    fn lock_graph(&mut self) -> Result<()> {
        Ok(())
    }
    /// Locks the rows of tasks until the commit, all at once, in the order that every transaction keeps.
    fn lock_tasks(&mut self, _tasks: &[Uid], _reach: Reach) -> Result<()> {
        Ok(())
    }
    /// Until the commit nobody else begins or widens a reservation, or moves the deadline of one. Afterwards no task is
    /// waited for.
    fn lock_scopes(&mut self) -> Result<()> {
        Ok(())
    }
    /// Until the commit nobody judges whether reservations lapsed, so that the deadline of one can be moved.
    /// True: this may have waited, and what was judged before must be judged again, by the clock as it is now.
    fn steady_scopes(&mut self) -> Result<bool> {
        Ok(false)
    }
    /// Locks a lease's row and reads it. None: another transaction has it just now.
    fn lock_lease(&mut self, task: Uid, token: Token) -> Result<Option<Lease>> {
        self.lease(task, token)
    }
    /// Like [`Read::walk_ready`], but each task is locked before it is shown. True: some were left out because others have
    /// them locked.
    fn walk_free(
        &mut self,
        tier: Tier,
        due_ms: i64,
        _patience: Patience,
        visit: &mut dyn FnMut(&mut dyn Read, Task) -> Result<bool>,
    ) -> Result<bool> {
        self.walk_ready(tier, due_ms, visit).map(|()| false)
    }
    /// The number for the next task. It is taken once a task's creation is applied.
    fn next_number(&mut self) -> Result<Number>;
    /// Writes one event, with its texts beside it.
    fn append(&mut self, event: &Event, texts: &[(Field, Salt, String)]) -> Result<()>;
    fn apply(&mut self, change: &Change) -> Result<()>;
    /// A sign of life of a live lease. Not an event.
    fn pulse(&mut self, task: Uid, token: Token, pulse: &Pulse) -> Result<()>;
    fn put_instance(&mut self, instance: &KnownInstance) -> Result<()>;
    fn keep_request(&mut self, actor: &ActorName, key: &str, request: &KeptRequest) -> Result<()>;
    /// Erases a text and its salt, and every digest that it could be guessed from.
    fn erase(&mut self, key: TextKey) -> Result<()>;
    /// Begins a part that can be undone by itself.
    fn savepoint(&mut self) -> Result<()>;
    /// Keeps the part.
    fn release(&mut self) -> Result<()>;
    /// Undoes the part.
    fn undo(&mut self) -> Result<()>;
}
