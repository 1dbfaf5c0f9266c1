//! Where onus keeps its record: the [`Store`] trait and its implementations.
//!
//! **One transaction per batch.** [`Store::transact`] runs its closure inside one write transaction, then
//! commits once, durably, or rolls back, as the closure decides; the caller gets its answer only after that.
//! A store may have to run the closure again (a deadlock, a serialization failure), so the closure must have
//! no effects except its writes. [`Store::read`] gives one snapshot. It writes nothing, and takes no lock
//! that others could notice.
//!
//! **Rows are locked before the view is read.** A decision first calls [`Write::lock_task`]; what it reads of
//! that task afterwards cannot change until the commit. On SQLite the write lock covers the whole store, so
//! the call is only a read; on a store with row locks it is the fence that P1 and P2 depend on. Everything
//! else a decision depends on has a lock of its own ([`Write::lock_graph`], [`Write::lock_tasks`],
//! [`Write::lock_scopes`]); a store with a single lock does nothing there. Waiting for a lock takes time, so
//! the clock is read after the last one.
//!
//! **The store's clock decides.** [`Read::now`] is read inside the transaction; no other clock counts.
//!
//! **Waiting.** [`Store::watch`] begins to listen for commits by anyone. Call it before first looking at what
//! you wait for: any later commit of an event ends the next [`Watch::wait`], even one made before that call. A
//! watch may wake for nothing; it must not sleep through an event.
//!
//! The traits use plain domain types. Events and rows are written in the same transaction; only these are not
//! a fold of the ledger: a live lease's pulse, the instance registry, losses and notices not yet reported,
//! kept requests and erasable texts.

mod any;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod copy;
mod error;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "no_postgres.rs"]
mod postgres;
mod rows;
mod spelling;
mod sqlite;

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use onus_core::actor::{Actor, ActorName, InstanceId, Tier};
pub use onus_core::actor::{KnownInstance, PendingKind, PendingNotice, Wanted};
use onus_core::apply::{Project, RowChange};
use onus_core::chain::Record;
use onus_core::commit::{CommitId, CommitRow};
use onus_core::event::Event;
use onus_core::gate::JudgementRow;
use onus_core::ids::{Number, TaskRef, Token, Uid, Version};
use onus_core::lease::{Lease, Process, Pulse};
use onus_core::rescue::RescueState;
use onus_core::scope::{Glob, Reservation, Reservations, Scope, WorktreeId};
use onus_core::seal::StreamHead;
use onus_core::seat::{Seat, SeatName};
use onus_core::session::UsageRow;
use onus_core::stretch::Recorded;
use onus_core::task::{Origin, Priority, State, Task, TaskType};
use onus_core::text::{Field, Salt, TextKey};
use onus_core::time::Moment;

pub use any::AnyStore;
pub use error::{Blocker, StoreError};
pub use postgres::{Address, PostgresStore};
pub use spelling::{Spelling, mask, may_hold_a_password};
pub use sqlite::{Access, Clock, OWN_FOLDER, SqliteStore, file_mode, filesystem_of, make_folder, new_file};

pub type Result<T> = std::result::Result<T, StoreError>;

/// A place where one project's tasks and ledger are kept.
pub trait Store {
    fn read<R>(&mut self, work: impl FnOnce(&mut dyn Read) -> Result<R>) -> Result<R>;

    /// Runs one write transaction, which ends as `work` decides; an error rolls it back. `work` may run more
    /// than once: its last run counts.
    fn transact<R>(&mut self, work: impl FnMut(&mut dyn Write) -> Result<Ending<R>>) -> Result<R>;

    /// Runs a transaction that always commits.
    fn write<R>(&mut self, mut work: impl FnMut(&mut dyn Write) -> Result<R>) -> Result<R> {
        self.transact(|write| work(write).map(Ending::Commit))
    }

    /// Derives every row from the ledger again and repairs those that differ, in one transaction.
    fn rebuild(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt>;

    /// Writes a consistent copy of the whole store to a new file.
    fn backup(&mut self, to: &std::path::Path, progress: &mut dyn FnMut(Progress)) -> Result<()>;

    /// Reports on the store's own health, beyond the ledger's.
    fn check(&mut self) -> Result<Vec<Finding>>;

    /// Fixes what [`Store::check`] calls mendable, and makes erased texts unreadable in every file. False:
    /// somebody is reading an old snapshot; try again later.
    fn tidy(&mut self) -> Result<bool>;

    /// Begins to listen for commits of events.
    fn watch(&mut self) -> Result<Box<dyn Watch>>;
}

/// How a write transaction ends, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending<R> {
    Commit(R),
    /// Undoes everything.
    RollBack(R),
}

/// Listens for commits of events to a store, by this process or another. Holds no transaction and no lock.
pub trait Watch: std::fmt::Debug {
    /// Sleeps until there is a commit of an event that this watch has not reported yet, until one of `also` is readable
    /// (such as a pidfd when its process ends), or until a deadline. None: no deadline.
    fn wait(&mut self, until: Option<Instant>, also: &[BorrowedFd<'_>]) -> Result<Woken>;
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    Committed,
    /// One of the given descriptors.
    Other,
    TimedOut,
}

/// How far a long operation has got.
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

/// The result of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The schema version before; 0: none.
    pub found: i64,
    pub schema: i64,
    /// Whether any role of the server may connect to the database.
    pub is_open: bool,
}

/// Name of the finding about who may connect to a server's database.
pub const ACCESS: &str = "access";

/// The result of one health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub name: &'static str,
    pub ok: bool,
    pub detail: String,
    /// Whether [`Store::tidy`] or a rebuild fixes it without losing anything.
    pub mendable: bool,
}

/// Which tasks to list. An empty field matches any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub states: Vec<State>,
    /// Includes finished tasks if `states` is empty.
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
    /// Kept for this actor, even if that has expired.
    pub kept_for: Option<ActorName>,
    /// Only ad-hoc tasks, or only planned ones.
    pub ad_hoc: Option<bool>,
    /// Only tasks that are blocked or wait for another task.
    pub waiting: bool,
}

/// The end of a page of tasks, which are ordered by priority, then number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    pub priority: Priority,
    pub number: Number,
}

/// Which seats to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seats {
    All,
    /// Seats whose lease has not ended, live or lapsed.
    Leased,
}

/// Which way to follow dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards what must be done first.
    Upstream,
    /// Towards what waits.
    Downstream,
}

/// Which rows to lock beside those of the named tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Rows,
    /// Also the rows whose counters depend on them: their dependencies, their dependents, their parents.
    Neighbours,
}

/// Whether a task fits who asks for the first ready one.
pub type Fits<'a> = &'a mut dyn FnMut(&mut dyn Read, &Task) -> Result<bool>;

/// What to do about a task that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLocked {
    Skip,
    Wait,
}

/// Which events to read, in the order they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// The stream; None: all.
    pub stream: Option<Uid>,
    pub after_seq: u64,
    /// The last events instead of the first.
    pub newest: bool,
    /// Across all streams, only events that no later commit can precede: for followers that continue from the
    /// last one.
    pub settled: bool,
    pub limit: u64,
}

/// A half-open span of wall time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub since_ms: i64,
    pub until_ms: i64,
}

/// The facts by which timesheets group work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFacts {
    pub number: Number,
    pub parent: Option<Uid>,
    pub area: Option<String>,
    pub tags: BTreeSet<String>,
}

/// A row of recorded work, and its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkRow {
    pub stretch: Recorded,
    pub task: TaskFacts,
}

/// A row of model usage, and its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    pub usage: UsageRow,
    pub task: TaskFacts,
}

/// A task that was completed, and how long it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    pub task: TaskFacts,
    pub uid: Uid,
    /// The token of its last lease.
    pub token: Token,
    pub title_version: Version,
    pub created_at_ms: i64,
    pub started_at_ms: Option<i64>,
    pub completed_at_ms: i64,
    pub effort_ms: i64,
    /// How long leases held it, whether or not they worked.
    pub held_ms: i64,
}

/// An idempotent request that was applied. Refers to what it made, and contains no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRequest {
    /// Salted digest of the request. None: the text it contained was erased.
    pub digest: Option<String>,
    pub salt: Salt,
    pub verb: String,
    pub task: Option<Uid>,
    /// The lease it obtained, if any.
    pub token: Option<Token>,
    pub at_ms: i64,
}

/// What every command reads first: the project, the caller's actor name with aliases resolved, its actor and
/// its instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerRows {
    pub project: Project,
    pub name: ActorName,
    pub actor: Option<Actor>,
    pub instance: Option<KnownInstance>,
}

/// What every command reads last: the leases its caller holds and lost, what others want of them, and what
/// its answer shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClosingRows {
    pub held: Vec<Lease>,
    pub lost: Vec<Lease>,
    pub notes: Vec<NoteLeft>,
    pub wishes: Vec<Wish>,
    pub notices: Vec<PendingNotice>,
    pub details: Option<Details>,
}

/// A task to show, and the versions whose texts to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub task: Uid,
    pub versions: Vec<Version>,
}

/// What is shown of a task besides its row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub texts: Vec<StoredText>,
    /// The tasks it depends on.
    pub needs: Vec<Number>,
}

/// How many of a task's latest events are searched for notes, so that the cost does not grow with the task's
/// age.
const LATEST: u64 = 20;

/// Somebody left a note on a task, or was yielded some of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteLeft {
    pub task: Uid,
    pub actor: ActorName,
    /// The files, if it is about those.
    pub yielded: Option<Scope>,
}

/// The leases of one holder, oldest first. Leases in `known` are not read again.
fn held(
    read: &mut (impl Read + ?Sized),
    actor: &ActorName,
    instance: &InstanceId,
    known: &[Lease],
) -> Result<Vec<Lease>> {
    let mut held = Vec::new();
    for (task, token) in read.held_by(actor, instance)? {
        match known.iter().find(|lease| (lease.task, lease.token) == (task, token)) {
            Some(lease) => held.push(lease.clone()),
            None => held.extend(read.lease(task, token)?),
        }
    }
    held.sort_by_key(|lease| (lease.acquired_at_ms, lease.task));
    Ok(held)
}

/// How many wishes are reported at once.
const WISHES: u64 = 100;

/// Somebody was refused a task, or a path that its lease reserves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    pub task: Uid,
    pub actor: ActorName,
    pub path: Option<String>,
}

/// A lease that was lost to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The holder that lost it.
    pub actor: ActorName,
    pub instance: InstanceId,
    pub task: Uid,
    pub token: Token,
}

/// More rows than there ever are.
const MANY: u64 = u32::MAX as u64;

/// How many losses are reported at once.
const LOSSES: u64 = 20;

/// How many notices are kept per reader: nobody would read more.
const NOTICES: u64 = 200;

/// A text stored beside an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredText {
    pub key: TextKey,
    pub salt: Salt,
    pub text: String,
}

/// An event as stored, with its texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerLine {
    pub stream: String,
    pub record: Record,
    pub texts: Vec<LooseText>,
}

/// A text as stored, not yet validated.
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

    /// Reads what every command needs first, in one query where the store can.
    fn caller(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<CallerRows> {
        let project = self.project()?;
        let name = self.alias(actor)?.unwrap_or_else(|| actor.clone());
        let (actor, instance) = (self.actor(&name)?, self.instance(&name, instance)?);
        Ok(CallerRows { project, name, actor, instance })
    }

    /// Reads what every command needs last, in one query where the store can. `since_ms`: when the caller was
    /// last seen; None: never, so nothing is news to it. `begun`: leases that the command began, which need
    /// not be read again.
    fn closing(
        &mut self,
        actor: &ActorName,
        instance: &InstanceId,
        since_ms: Option<i64>,
        shown: Option<&Shown>,
        begun: &[Lease],
    ) -> Result<ClosingRows> {
        let held = held(self, actor, instance, begun)?;
        let (mut notes, mut wishes) = (Vec::new(), Vec::new());
        if let Some(since_ms) = since_ms {
            for lease in held.iter().filter(|lease| lease.is_of_a_task()) {
                let since_ms = since_ms.max(lease.acquired_at_ms);
                notes.extend(self.notes_left_on(lease, since_ms)?);
                wishes.extend(self.wishes_for(lease.task, since_ms)?);
            }
        }
        Ok(ClosingRows {
            held,
            lost: self.leases_lost_by(actor, instance)?,
            notes,
            wishes,
            notices: self.notices_for(actor, instance)?,
            details: shown.map(|shown| self.details(shown)).transpose()?,
        })
    }
    /// What is shown of a task besides its row.
    fn details(&mut self, shown: &Shown) -> Result<Details>;
    /// The tasks that a reference may mean: none, one or several.
    fn resolve(&mut self, reference: &TaskRef) -> Result<Vec<Uid>>;
    fn task(&mut self, uid: Uid) -> Result<Option<Task>>;
    fn task_by_origin(&mut self, origin: &Origin) -> Result<Option<Uid>>;
    fn lease(&mut self, task: Uid, token: Token) -> Result<Option<Lease>>;
    fn seat(&mut self, uid: Uid) -> Result<Option<Seat>>;
    fn seat_named(&mut self, name: &SeatName) -> Result<Option<Seat>>;
    /// In the order of their names.
    fn seats(&mut self, which: Seats, limit: u64) -> Result<Vec<Seat>>;
    /// The latest lease of a holder on a task.
    fn latest_lease_of(
        &mut self,
        task: Uid,
        actor: &ActorName,
        instance: &InstanceId,
    ) -> Result<Option<Lease>>;
    /// A holder's leases that have not ended, on tasks and on seats, oldest first.
    fn leases_held_by(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<Lease>> {
        held(self, actor, instance, &[])
    }
    /// The keys of a holder's leases that have not ended.
    fn held_by(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<(Uid, Token)>>;
    /// A holder's leases that ended since a wall time.
    fn leases_ended_by(
        &mut self,
        actor: &ActorName,
        instance: &InstanceId,
        since_ms: i64,
    ) -> Result<Vec<Lease>>;
    /// Every lease on a task that has not ended, in the order of `ready`.
    fn open_leases(&mut self, limit: u64) -> Result<Vec<(Task, Lease)>>;
    /// Every lease that has not ended, on tasks and on seats.
    fn unended_leases(&mut self) -> Result<Vec<Lease>> {
        let mut leases: Vec<Lease> = self.open_leases(MANY)?.into_iter().map(|(_, lease)| lease).collect();
        for seat in self.seats(Seats::Leased, MANY)? {
            leases.extend(self.lease(seat.uid, seat.token)?);
        }
        Ok(leases)
    }
    /// Tasks that have a branch of their own and were not dropped: unfinished ones first, newest first within
    /// each group.
    fn branched(&mut self, limit: u64) -> Result<Vec<Task>>;
    /// The task whose own branch this is and that was not dropped: an unfinished one first, then the newest.
    fn task_of_branch(&mut self, branch: &str) -> Result<Option<Task>>;
    /// The first leases that a holder lost to another without having been told yet ([`Write::put_loss`]).
    fn leases_lost_by(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<Lease>>;
    /// Leases whose uncommitted files were to be rescued when they were lost, in this state or in any.
    fn rescues(&mut self, state: Option<RescueState>, limit: u64) -> Result<Vec<Lease>>;
    /// Every lost lease whose holder has not been told yet.
    fn losses(&mut self) -> Result<Vec<Loss>>;
    /// The globs of all files touched by leases that have not ended, in this worktree or in an unknown one.
    fn touched_in(&mut self, worktree: Option<&WorktreeId>) -> Result<Vec<Glob>>;
    /// The leases on tasks that have not ended and are attached to this worktree.
    fn leases_in(&mut self, worktree: &WorktreeId) -> Result<Vec<Lease>>;
    /// Whether an actor got a lease on the task with a higher token.
    fn held_above(&mut self, task: Uid, token: Token, actor: &ActorName) -> Result<bool>;
    /// Counts agents' leases without any time limit that have not ended: this actor's, and all.
    fn indefinite_leases(&mut self, actor: &ActorName) -> Result<(u64, u64)>;
    /// Visits the open, unleased tasks that wait for nothing and that an actor of this tier may claim, best
    /// first ([`onus_core::decide::rank`] for `asker`). Scheduled tasks only if they are due. `visit` returns
    /// whether to continue.
    fn walk_ready(
        &mut self,
        asker: Option<&ActorName>,
        tier: Tier,
        due_ms: i64,
        visit: &mut dyn FnMut(&mut dyn Read, Task) -> Result<bool>,
    ) -> Result<()>;
    /// The first schedule after a wall time, among tasks that wait for nothing else.
    fn next_due(&mut self, after_ms: i64) -> Result<Option<i64>>;
    /// The tasks that a task depends on, or that depend on it.
    fn neighbours(&mut self, task: Uid, direction: Direction) -> Result<Vec<Uid>>;
    /// The same tasks' numbers.
    fn neighbour_numbers(&mut self, task: Uid, direction: Direction) -> Result<Vec<Number>>;
    /// All tasks upstream or downstream, directly or through others; without the task itself.
    fn closure(&mut self, task: Uid, direction: Direction) -> Result<Vec<Uid>>;
    /// The dependencies of unfinished tasks, or of all: (dependent, dependency).
    fn edges(&mut self, finished: bool) -> Result<Vec<(Uid, Uid)>>;
    /// What a task waits for: its dependencies and children.
    fn waits_for(&mut self, task: Uid) -> Result<Vec<Uid>>;
    /// Whether one task waits for another, directly or through others.
    fn does_wait_for(&mut self, task: Uid, other: Uid) -> Result<bool>;
    /// Reservations of leases that have not ended which may match a path that `scope` matches, with the
    /// lease's task and token.
    fn scopes_near(&mut self, scope: &Scope) -> Result<Vec<(Uid, Token, Reservation)>>;
    /// Everything that a lease reserves, or reserved when it ended.
    fn scope_of(&mut self, task: Uid, token: Token) -> Result<Reservations>;
    fn scope_len(&mut self, task: Uid, token: Token) -> Result<usize>;
    /// Unmet dependencies.
    fn unmet(&mut self, task: Uid, limit: u64) -> Result<Vec<Task>>;
    /// The numbers of a task's children, finished or not.
    fn children(&mut self, task: Uid) -> Result<Vec<Number>>;
    fn unfinished_children(&mut self, task: Uid, limit: u64) -> Result<Vec<Task>>;
    fn list(&mut self, filter: &Filter, after: Option<After>, limit: u64) -> Result<Vec<Task>>;
    /// Counts planned tasks; ad-hoc ones are left out.
    fn count_by_state(&mut self) -> Result<Vec<(State, u64)>>;
    /// Counts unfinished ad-hoc tasks.
    fn count_ad_hoc(&mut self) -> Result<u64>;
    /// Tasks whose texts contain every word, best first; with ad-hoc ones only if `ad_hoc`.
    fn search(&mut self, words: &[String], ad_hoc: bool, limit: u64) -> Result<Vec<Uid>>;
    fn text(&mut self, key: TextKey) -> Result<Option<StoredText>>;
    /// Where in a stream there are texts with exactly these words.
    fn same_texts(&mut self, stream: Uid, words: &str) -> Result<Vec<TextKey>>;
    /// The texts of one event that were not erased.
    fn texts(&mut self, stream: Uid, version: Version) -> Result<Vec<StoredText>>;
    fn events(&mut self, query: &EventQuery) -> Result<Vec<Record>>;
    fn event(&mut self, stream: Uid, version: Version) -> Result<Option<Record>>;
    /// The events of a task's notes, oldest first.
    fn notes(&mut self, task: Uid) -> Result<Vec<Record>>;
    fn count_events(&mut self) -> Result<u64>;
    /// A page of the ledger, ordered by stream and version, after a place; as stored, whether readable or
    /// not.
    fn ledger_page(&mut self, after: Option<&(String, u64)>, limit: u64) -> Result<Vec<LedgerLine>>;
    /// The highest number given to a task, according to the project's row.
    fn last_number(&mut self) -> Result<Number>;
    /// The highest number given to a seat, according to the project's row.
    fn last_seat(&mut self) -> Result<Number>;
    /// Where a text without an event is, if there is one.
    fn stray_text(&mut self) -> Result<Option<(String, u64)>>;
    /// A stream's head, according to its row.
    fn head(&mut self, stream: &str) -> Result<Option<StreamHead>>;
    /// Every stream's head, according to its row, ordered by uid.
    fn walk_heads(&mut self, visit: &mut dyn FnMut(StreamHead) -> Result<()>) -> Result<()>;
    /// All of these heads at once.
    fn heads(&mut self) -> Result<Vec<StreamHead>> {
        let mut heads = Vec::new();
        self.walk_heads(&mut |head| {
            heads.push(head);
            Ok(())
        })?;
        Ok(heads)
    }
    fn actor(&mut self, name: &ActorName) -> Result<Option<Actor>>;
    /// The actor that a name is an alias of, if it is one.
    fn alias(&mut self, name: &ActorName) -> Result<Option<ActorName>>;
    fn actors(&mut self) -> Result<Vec<Actor>>;
    fn aliases(&mut self) -> Result<Vec<(ActorName, ActorName)>>;
    fn instance(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Option<KnownInstance>>;
    fn instances(&mut self, limit: u64) -> Result<Vec<KnownInstance>>;
    /// The instances registered for a process: those that have not ended first, among these the one
    /// registered last.
    fn instances_of(&mut self, process: &Process, limit: u64) -> Result<Vec<KnownInstance>>;
    /// The sub-agents of a conversation that have not ended.
    fn running_parts(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<KnownInstance>>;
    /// Notes since a wall time by others than its holder, among the latest events of a lease's task.
    fn notes_left_on(&mut self, lease: &Lease, since_ms: i64) -> Result<Vec<NoteLeft>>;
    /// Who was refused a task, or a path that its lease reserves, since a wall time; limited to the first.
    fn wishes_for(&mut self, task: Uid, since_ms: i64) -> Result<Vec<Wish>>;
    /// What a holder is still to be told, oldest first ([`Write::put_notice`]).
    fn notices_for(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<PendingNotice>>;
    /// Every notice not yet delivered.
    fn notices(&mut self) -> Result<Vec<PendingNotice>>;
    /// A page of the recorded work that overlaps a window, ordered by its start; `after` is the last row of
    /// the page before.
    fn work_in(&mut self, window: Window, after: Option<&WorkRow>, limit: u64) -> Result<Vec<WorkRow>>;
    /// All work recorded under a lease, in the order in which it was recorded.
    fn stretches_of(&mut self, task: Uid, token: Token) -> Result<Vec<Recorded>>;
    /// A page of the model usage recorded in a window, ordered by time.
    fn usage_in(&mut self, window: Window, after: Option<&Used>, limit: u64) -> Result<Vec<Used>>;
    /// All usage of one session, in the order in which it was recorded.
    fn usage_of(&mut self, task: Uid, token: Token) -> Result<Vec<UsageRow>>;
    /// The commits made for a task, in the order in which they were recorded.
    fn commits_of(&mut self, task: Uid) -> Result<Vec<CommitRow>>;
    /// The commits of one session.
    fn commits_under(&mut self, task: Uid, token: Token) -> Result<Vec<CommitRow>>;
    /// The leases under which a commit was made; usually one.
    fn commit_made(&mut self, commit: &CommitId) -> Result<Vec<CommitRow>>;
    /// The last `limit` judgements of a task's gates, newest first.
    fn judgements_of(&mut self, task: Uid, limit: u64) -> Result<Vec<JudgementRow>>;
    /// Tasks that are done and have still to land, or whose landing has begun, ordered by number.
    fn to_land(&mut self, limit: u64) -> Result<Vec<Task>>;
    /// A page of the tasks completed in a window, ordered by completion.
    fn finished_in(&mut self, window: Window, after: Option<&Finished>, limit: u64) -> Result<Vec<Finished>>;
    fn request(&mut self, actor: &ActorName, key: &str) -> Result<Option<KeptRequest>>;
    /// Every kept request, with its actor and key.
    fn requests(&mut self) -> Result<Vec<(ActorName, String, KeptRequest)>>;
}

/// One write transaction.
pub trait Write: Read {
    /// Locks the task's row until the commit, then reads it.
    fn lock_task(&mut self, uid: Uid) -> Result<Option<Task>>;
    /// Locks a seat's row until the commit, then reads it.
    fn lock_seat(&mut self, name: &SeatName) -> Result<Option<Seat>>;
    /// Locks the project's row until the commit, then reads it.
    fn lock_project(&mut self) -> Result<Project>;
    /// Locks the edges between tasks until the commit: for whoever changes them, or follows them for a
    /// decision. Must come before any task is locked.
    fn lock_graph(&mut self) -> Result<()> {
        Ok(())
    }
    /// Locks the rows of tasks until the commit, all at once, in the order that every transaction keeps.
    fn lock_tasks(&mut self, _tasks: &[Uid], _reach: Reach) -> Result<()> {
        Ok(())
    }
    /// Until the commit, nobody else begins or widens a reservation, or moves the deadline of one. After
    /// this, the transaction must not wait for a task.
    fn lock_scopes(&mut self) -> Result<()> {
        Ok(())
    }
    /// Until the commit, nobody judges whether reservations have lapsed, so their deadlines can be moved.
    /// True: this may have waited; what was judged before must be judged again, by the current clock.
    fn lock_deadlines(&mut self) -> Result<bool> {
        Ok(false)
    }
    /// Locks the rows of leases and reads them again, leaving out those that another transaction has locked.
    /// For use after [`Write::lock_deadlines`] returned true.
    fn lock_leases(&mut self, leases: &[(Uid, Token)]) -> Result<Vec<Lease>> {
        let read = leases.iter().map(|(task, token)| self.lease(*task, *token));
        Ok(read.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }
    /// Whether the transaction may have waited for something since the clock was last read.
    fn has_waited(&self) -> bool {
        true
    }
    /// Makes the second of two requests with the same key wait, so that it finds what the first did.
    fn lock_key(&mut self, _actor: &ActorName, _key: &str) -> Result<()> {
        Ok(())
    }
    /// The first ready task that fits, locked; and whether some were left out because others have locked them.
    /// What does not fit the asker may fit another, so it is not locked.
    fn first_ready(
        &mut self,
        asker: &ActorName,
        tier: Tier,
        due_ms: i64,
        _on_locked: OnLocked,
        fits: Fits<'_>,
    ) -> Result<(Option<Task>, bool)> {
        let mut first = None;
        self.walk_ready(Some(asker), tier, due_ms, &mut |read, task| {
            let does_fit = fits(read, &task)?;
            first = Some(task).filter(|_| does_fit);
            Ok(!does_fit)
        })?;
        Ok((first, false))
    }
    /// The number for the next task. It counts as used once a task's creation is applied.
    fn next_number(&mut self) -> Result<Number>;
    /// The number for the next seat. Until the commit, nobody else creates one. Must come before any row is
    /// locked.
    fn next_seat(&mut self) -> Result<Number>;
    /// Writes one event and its texts.
    fn append(&mut self, event: &Event, texts: &[(Field, Salt, String)]) -> Result<()>;
    fn apply(&mut self, change: &RowChange) -> Result<()>;
    /// Records signs of life of live leases, which are not events.
    fn pulse(&mut self, pulses: &[(Uid, Token, Pulse)]) -> Result<()>;
    fn put_instance(&mut self, instance: &KnownInstance) -> Result<()>;
    /// Remembers that a lease was lost to another, until its holder is told. Not an event: the loss is in the
    /// ledger, whether the holder has heard of it is not.
    fn put_loss(&mut self, loss: &Loss) -> Result<()>;
    /// Forgets a loss that its holder has been told of.
    fn drop_loss(&mut self, task: Uid, token: Token) -> Result<()>;
    /// Keeps a notice until its reader is told. A duplicate is kept once; beyond `NOTICES`, nothing is kept.
    /// Drops notices about leases that have ended: nobody will ask for them.
    fn put_notice(&mut self, notice: &PendingNotice) -> Result<()>;
    /// Forgets a notice that its reader has been given.
    fn drop_notice(&mut self, notice: &PendingNotice) -> Result<()>;
    fn keep_request(&mut self, actor: &ActorName, key: &str, request: &KeptRequest) -> Result<()>;
    /// Erases a text and its salt, and every digest from which it could be guessed.
    fn erase(&mut self, key: TextKey) -> Result<()>;
    /// Begins a part that can be undone separately.
    fn savepoint(&mut self) -> Result<()>;
    /// Keeps the part.
    fn release(&mut self) -> Result<()>;
    /// Undoes the part.
    fn undo(&mut self) -> Result<()>;
}
