//! Where onus keeps its record: the [`Store`] trait and its implementations.
//!
//! **One transaction per batch.** [`Store::transact`] runs its closure inside one write transaction and commits once,
//! durably, or rolls back, as the closure says; the answer exists only after that. A store may have to run the closure again (a
//! deadlock, a serialization failure), so it must have no effects except its writes. [`Store::read`] gives one snapshot and writes
//! nothing, not even a lock that another could notice.
//!
//! **Rows are locked before the view is read.** A decision first calls [`Write::lock_task`]; what it reads of that
//! task afterwards cannot change until the commit. On SQLite the write lock is the whole store's, and the call is a
//! read; on a store with row locks it is the fence that P1 and P2 depend on. Everything else a decision depends on has a lock of
//! its own ([`Write::lock_graph`], [`Write::lock_tasks`], [`Write::lock_scopes`]); where one lock is enough for all,
//! these do nothing. Waiting for a lock takes time, so the clock is read after the last one.
//!
//! **The store's clock decides.** [`Read::now`] is read inside the transaction; no other clock counts.
//!
//! **Waiting.** [`Store::watch`] begins to listen for commits, whoever makes them. Call it before the first look at
//! what to wait for: any later commit ends the next [`Watch::wait`], even if it came before that
//! call. A watch may wake for nothing; it must not sleep through a commit.
//!
//! Both speak plain domain types. Events and rows are written side by side in the same transaction; the only things
//! that are not a fold of the ledger are a live lease's pulse, the instance registry, losses not yet reported,
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
use onus_core::apply::{Change, Project};
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

    /// One write transaction, which ends as `work` says; an error rolls it back. `work` may run more than once: its last run
    /// counts.
    fn transact<R>(&mut self, work: impl FnMut(&mut dyn Write) -> Result<Ending<R>>) -> Result<R>;

    /// The same for work that is always committed.
    fn write<R>(&mut self, mut work: impl FnMut(&mut dyn Write) -> Result<R>) -> Result<R> {
        self.transact(|write| work(write).map(Ending::Commit))
    }

    /// Derives every row from the ledger again, compares, and repairs what differs, in one transaction.
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

/// How a write transaction ends, and what it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending<R> {
    Commit(R),
    /// Nothing of it stays.
    RollBack(R),
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

/// What a migration found and left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// Which schema there was; 0: none.
    pub found: i64,
    pub schema: i64,
    /// Whether any role of the server may connect to the database.
    pub is_open: bool,
}

/// The check of who may connect to a server's database.
pub const ACCESS: &str = "access";

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
    /// Kept for this actor, still or no longer.
    pub kept_for: Option<ActorName>,
    /// Only ad-hoc tasks, or all but these.
    pub ad_hoc: Option<bool>,
    /// Only those that are blocked or wait for another task.
    pub waiting: bool,
}

/// Where a page of tasks ended: lists are ordered by priority, then number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    pub priority: Priority,
    pub number: Number,
}

/// Which seats to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seats {
    All,
    /// Those whose lease has not ended, live or lapsed.
    Leased,
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
    /// Across all streams, only events that no other can precede any more: for followers that continue from the last one.
    pub settled: bool,
    pub limit: u64,
}

/// A time by the wall: from one moment to before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub since_ms: i64,
    pub until_ms: i64,
}

/// What timesheets sort work by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFacts {
    pub number: Number,
    pub parent: Option<Uid>,
    pub area: Option<String>,
    pub tags: BTreeSet<String>,
}

/// A row of recorded work, and the task that it was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkRow {
    pub stretch: Recorded,
    pub task: TaskFacts,
}

/// A row of what was used, and the task that it was for.
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
    /// Of its last lease.
    pub token: Token,
    pub title_version: Version,
    pub created_at_ms: i64,
    pub started_at_ms: Option<i64>,
    pub completed_at_ms: i64,
    pub effort_ms: i64,
    /// How long leases held it, worked or not.
    pub held_ms: i64,
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

/// What every command ends with: what its caller holds and lost, what others want of it, and what its answer shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClosingRows {
    pub held: Vec<Lease>,
    pub lost: Vec<Lease>,
    pub notes: Vec<NoteLeft>,
    pub wishes: Vec<Wish>,
    pub notices: Vec<PendingNotice>,
    pub details: Option<Details>,
}

/// A task that is shown, and the versions whose texts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub task: Uid,
    pub versions: Vec<Version>,
}

/// What is shown of a task beside its row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub texts: Vec<StoredText>,
    /// The tasks that it depends on.
    pub needs: Vec<Number>,
}

/// How many of a task's latest events are looked through for notes: news must not cost more as a task grows old.
const LATEST: u64 = 20;

/// That somebody left a note on a task, or got files of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteLeft {
    pub task: Uid,
    pub actor: ActorName,
    /// The files, if it was these.
    pub yielded: Option<Scope>,
}

/// The leases of one holder, the oldest first. Those that are known are not read.
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

/// How many wishes are told at once.
const WISHES: u64 = 100;

/// That somebody was refused a path that a task's lease has, or the task itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    pub task: Uid,
    pub actor: ActorName,
    pub path: Option<String>,
}

/// A lease that was lost to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Who lost it.
    pub actor: ActorName,
    pub instance: InstanceId,
    pub task: Uid,
    pub token: Token,
}

/// How many losses are told at once.
const LOSSES: u64 = 20;

/// How many notices may wait for one reader: more of them would be read by nobody.
const NOTICES: u64 = 200;

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

    /// What every command ends with, in one question. `since_ms`: when the caller was last seen; None: never, so nothing is
    /// news to it. `begun`: leases that the command began, which need not be read again.
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
    /// What is shown of a task beside its row.
    fn details(&mut self, shown: &Shown) -> Result<Details>;
    /// The tasks a reference may mean: none, one, or some of several.
    fn resolve(&mut self, reference: &TaskRef) -> Result<Vec<Uid>>;
    fn task(&mut self, uid: Uid) -> Result<Option<Task>>;
    fn task_by_origin(&mut self, origin: &Origin) -> Result<Option<Uid>>;
    fn lease(&mut self, task: Uid, token: Token) -> Result<Option<Lease>>;
    fn seat(&mut self, uid: Uid) -> Result<Option<Seat>>;
    fn seat_named(&mut self, name: &SeatName) -> Result<Option<Seat>>;
    /// By name.
    fn seats(&mut self, which: Seats, limit: u64) -> Result<Vec<Seat>>;
    /// The latest lease of one holder on one task.
    fn latest_lease_of(
        &mut self,
        task: Uid,
        actor: &ActorName,
        instance: &InstanceId,
    ) -> Result<Option<Lease>>;
    /// The leases of one holder that have not ended, on tasks and on seats, the oldest first.
    fn leases_held_by(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<Lease>> {
        held(self, actor, instance, &[])
    }
    /// Which leases those are.
    fn held_by(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<(Uid, Token)>>;
    /// The leases of somebody that ended since a wall time.
    fn leases_ended_by(
        &mut self,
        actor: &ActorName,
        instance: &InstanceId,
        since_ms: i64,
    ) -> Result<Vec<Lease>>;
    /// Every lease of a task that has not ended, in the order of `ready`.
    fn open_leases(&mut self, limit: u64) -> Result<Vec<(Task, Lease)>>;
    /// The tasks that have a branch of their own and were not dropped: unfinished ones first, the newest of each first.
    fn branched(&mut self, limit: u64) -> Result<Vec<Task>>;
    /// The first leases that a holder lost to another and was not told of yet ([`Write::put_loss`]).
    fn leases_lost_by(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<Lease>>;
    /// The leases whose files were to be kept when they were lost, in this state or in any.
    fn rescues(&mut self, state: Option<RescueState>, limit: u64) -> Result<Vec<Lease>>;
    /// Every lease that was lost and not told of yet.
    fn losses(&mut self) -> Result<Vec<Loss>>;
    /// The globs of all files that leases which have not ended touched in a worktree, or in one that is not known.
    fn touched_in(&mut self, worktree: Option<&WorktreeId>) -> Result<Vec<Glob>>;
    /// Whether an actor got a lease with a token above this one.
    fn held_above(&mut self, task: Uid, token: Token, actor: &ActorName) -> Result<bool>;
    /// Agents' leases without any time limit that have not ended: one actor's, and all.
    fn indefinite_leases(&mut self, actor: &ActorName) -> Result<(u64, u64)>;
    /// Open tasks without a lease that wait for nothing and that an actor of this tier may claim, the best first
    /// ([`onus_core::decide::rank`] for the caller). Those with a schedule only if it is due. `visit` says whether to go on.
    fn walk_ready(
        &mut self,
        asker: Option<&ActorName>,
        tier: Tier,
        due_ms: i64,
        visit: &mut dyn FnMut(&mut dyn Read, Task) -> Result<bool>,
    ) -> Result<()>;
    /// The first schedule after a wall time, of tasks that wait for nothing else.
    fn next_due(&mut self, after_ms: i64) -> Result<Option<i64>>;
    /// The tasks that one depends on, or that depend on it.
    fn neighbours(&mut self, task: Uid, direction: Direction) -> Result<Vec<Uid>>;
    /// Their numbers.
    fn neighbour_numbers(&mut self, task: Uid, direction: Direction) -> Result<Vec<Number>>;
    /// The same tasks, and theirs, and so on; without the task itself.
    fn closure(&mut self, task: Uid, direction: Direction) -> Result<Vec<Uid>>;
    /// Every dependency of unfinished tasks, or of all: who depends, and on whom.
    fn edges(&mut self, finished: bool) -> Result<Vec<(Uid, Uid)>>;
    /// What a task waits for: its dependencies and its children.
    fn waits_for(&mut self, task: Uid) -> Result<Vec<Uid>>;
    /// Whether one task waits for another, directly or through others.
    fn does_wait_for(&mut self, task: Uid, other: Uid) -> Result<bool>;
    /// Globs of leases that have not ended which may match a path that the scope matches, with the lease's task and token.
    fn scopes_near(&mut self, scope: &Scope) -> Result<Vec<(Uid, Token, Reservation)>>;
    /// All that a lease reserves, or reserved when it ended.
    fn scope_of(&mut self, task: Uid, token: Token) -> Result<Reservations>;
    fn scope_len(&mut self, task: Uid, token: Token) -> Result<usize>;
    /// Dependencies that are not met.
    fn unmet(&mut self, task: Uid, limit: u64) -> Result<Vec<Task>>;
    /// The numbers of its parts, finished or not.
    fn children(&mut self, task: Uid) -> Result<Vec<Number>>;
    fn unfinished_children(&mut self, task: Uid, limit: u64) -> Result<Vec<Task>>;
    fn list(&mut self, filter: &Filter, after: Option<After>, limit: u64) -> Result<Vec<Task>>;
    /// Planned tasks, which ad-hoc ones are not.
    fn count_by_state(&mut self) -> Result<Vec<(State, u64)>>;
    /// Ad-hoc tasks that are not finished.
    fn count_ad_hoc(&mut self) -> Result<u64>;
    /// Tasks in whose texts every word occurs, the best first; without ad-hoc ones, unless they are asked for.
    fn search(&mut self, words: &[String], ad_hoc: bool, limit: u64) -> Result<Vec<Uid>>;
    fn text(&mut self, key: TextKey) -> Result<Option<StoredText>>;
    /// Where in a stream a text lies whose words are exactly these.
    fn same_texts(&mut self, stream: Uid, words: &str) -> Result<Vec<TextKey>>;
    /// The texts that still lie beside one event.
    fn texts(&mut self, stream: Uid, version: Version) -> Result<Vec<StoredText>>;
    fn events(&mut self, query: &EventQuery) -> Result<Vec<Record>>;
    fn event(&mut self, stream: Uid, version: Version) -> Result<Option<Record>>;
    /// The notes of a task, oldest first: their events.
    fn notes(&mut self, task: Uid) -> Result<Vec<Record>>;
    fn count_events(&mut self) -> Result<u64>;
    /// The ledger stream by stream, in order, after a place; as it is stored, readable or not.
    fn ledger_page(&mut self, after: Option<&(String, u64)>, limit: u64) -> Result<Vec<LedgerLine>>;
    /// The highest number that was given to a task, as the project's row has it.
    fn last_number(&mut self) -> Result<Number>;
    /// The highest number that was given to a seat, as the project's row has it.
    fn last_seat(&mut self) -> Result<Number>;
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
    /// The instances registered for a process: first those that have not ended, of these the one registered last.
    fn instances_of(&mut self, process: &Process, limit: u64) -> Result<Vec<KnownInstance>>;
    /// The parts of a conversation that have not ended.
    fn running_parts(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<KnownInstance>>;
    /// Notes by others than its holder among the latest events of a lease's task, since a wall time.
    fn notes_left_on(&mut self, lease: &Lease, since_ms: i64) -> Result<Vec<NoteLeft>>;
    /// Who was refused a task, or a path of its lease, since a wall time: the first of them.
    fn wishes_for(&mut self, task: Uid, since_ms: i64) -> Result<Vec<Wish>>;
    /// What somebody is still to be told, the oldest first ([`Write::put_notice`]).
    fn notices_for(&mut self, actor: &ActorName, instance: &InstanceId) -> Result<Vec<PendingNotice>>;
    /// Every notice that waits for its reader.
    fn notices(&mut self) -> Result<Vec<PendingNotice>>;
    /// Recorded work that lies in a window or reaches into it, by its start: a page of it, after the last row of the page
    /// before.
    fn work_in(&mut self, window: Window, after: Option<&WorkRow>, limit: u64) -> Result<Vec<WorkRow>>;
    /// All that was recorded of one lease's work, in the order in which it was.
    fn stretches_of(&mut self, task: Uid, token: Token) -> Result<Vec<Recorded>>;
    /// What sessions used of models, recorded in a window, by when: a page of it.
    fn usage_in(&mut self, window: Window, after: Option<&Used>, limit: u64) -> Result<Vec<Used>>;
    /// All that one session used, in the order in which it was recorded.
    fn usage_of(&mut self, task: Uid, token: Token) -> Result<Vec<UsageRow>>;
    /// The commits that were made for a task, in the order in which they were recorded.
    fn commits_of(&mut self, task: Uid) -> Result<Vec<CommitRow>>;
    /// Those of one session.
    fn commits_under(&mut self, task: Uid, token: Token) -> Result<Vec<CommitRow>>;
    /// Under which leases a commit was made; usually one.
    fn commit_made(&mut self, commit: &CommitId) -> Result<Vec<CommitRow>>;
    /// The last so many judgements of a task's gates, the newest first.
    fn judgements_of(&mut self, task: Uid, limit: u64) -> Result<Vec<JudgementRow>>;
    /// Tasks that are done and have still to land, and those whose landing was begun, by their numbers.
    fn to_land(&mut self, limit: u64) -> Result<Vec<Task>>;
    /// Tasks that were completed in a window, by that time: a page of them.
    fn finished_in(&mut self, window: Window, after: Option<&Finished>, limit: u64) -> Result<Vec<Finished>>;
    fn request(&mut self, actor: &ActorName, key: &str) -> Result<Option<KeptRequest>>;
    /// Every request that was kept, with its actor and key.
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
    /// Locks the edges between tasks until the commit: for whoever changes them, or walks along them for a decision. Before any
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
    /// Until the commit nobody judges whether reservations lapsed, so that their deadlines can be moved.
    /// True: this may have waited, and what was judged before must be judged again, by the clock as it is now.
    fn lock_deadlines(&mut self) -> Result<bool> {
        Ok(false)
    }
    /// Locks leases' rows and reads them again, without those that another transaction has just now; after
    /// [`Write::lock_deadlines`] said that it may have waited.
    fn lock_leases(&mut self, leases: &[(Uid, Token)]) -> Result<Vec<Lease>> {
        let read = leases.iter().map(|(task, token)| self.lease(*task, *token));
        Ok(read.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }
    /// Whether something may have been waited for since the clock was last read.
    fn has_waited(&self) -> bool {
        true
    }
    /// Of two requests with one key, the second waits here, and then finds what the first did.
    fn lock_key(&mut self, _actor: &ActorName, _key: &str) -> Result<()> {
        Ok(())
    }
    /// Like [`Read::walk_ready`], but each task is locked before it is shown. True: some were left out because others have
    /// them locked.
    fn walk_free(
        &mut self,
        asker: &ActorName,
        tier: Tier,
        due_ms: i64,
        _patience: Patience,
        visit: &mut dyn FnMut(&mut dyn Read, Task) -> Result<bool>,
    ) -> Result<bool> {
        self.walk_ready(Some(asker), tier, due_ms, visit).map(|()| false)
    }
    /// The number for the next task. It is taken once a task's creation is applied.
    fn next_number(&mut self) -> Result<Number>;
    /// The number for the next seat. From here to the commit nobody else creates one. Before any row is locked.
    fn next_seat(&mut self) -> Result<Number>;
    /// Writes one event, with its texts beside it.
    fn append(&mut self, event: &Event, texts: &[(Field, Salt, String)]) -> Result<()>;
    fn apply(&mut self, change: &Change) -> Result<()>;
    /// Signs of life of live leases. Not events.
    fn pulse(&mut self, pulses: &[(Uid, Token, Pulse)]) -> Result<()>;
    fn put_instance(&mut self, instance: &KnownInstance) -> Result<()>;
    /// Remembers that a lease was lost to another, until its holder is told. Not an event: what was lost is in the ledger,
    /// whether the holder has heard of it is not.
    fn put_loss(&mut self, loss: &Loss) -> Result<()>;
    /// Its holder has been told.
    fn drop_loss(&mut self, task: Uid, token: Token) -> Result<()>;
    /// Keeps what somebody is to be told; the same twice is once, and beyond `NOTICES` nothing is kept. What is
    /// about leases that have ended goes: nobody will ask for it.
    fn put_notice(&mut self, notice: &PendingNotice) -> Result<()>;
    /// Its reader has heard it.
    fn drop_notice(&mut self, notice: &PendingNotice) -> Result<()>;
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
