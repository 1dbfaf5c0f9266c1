//! A store that fails on command: between any two calls of a transaction, after the commit, or by running the work twice, as a
//! store with serialization failures would.
//!
//! After a crash every call fails: nothing that the engine tries reaches the file any more. When the whole machine crashes, the
//! files are copied in the middle of the transaction, as they are at that moment, and the world continues with the copy.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use onus_core::actor::{Actor, ActorName, InstanceId, Tier};
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
use onus_core::task::{Origin, State, Task};
use onus_core::text::{Field, Salt, TextKey};
use onus_core::time::Moment;
use onus_store::{
    After, Details, Direction, Ending, EventQuery, Filter, Finding, Finished, KeptRequest, KnownInstance,
    LedgerLine, Loss, NoteLeft, PendingNotice, Progress, Read, Rebuilt, Result, Seats, Shown, SqliteStore,
    Store, StoreError, StoredText, Used, Watch, Window, Wish, WorkRow, Write,
};

/// The fault of the next write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// The process dies at this call of the transaction.
    CrashAt(u32),
    /// The machine crashes at this call; the files are kept in this folder as they were.
    PowerCutAt(u32, PathBuf),
    /// The request's own transaction is committed, but its answer is lost.
    CrashAfterCommit,
    /// The work is rolled back after this many calls, and run again.
    RunTwice(u32),
}

/// What became of the last write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fell {
    #[default]
    Nothing,
    BeforeCommit,
    AfterCommit,
}

#[derive(Debug)]
pub struct FaultyStore {
    inner: SqliteStore,
    pub fault: Fault,
    /// Whether the fault occurred.
    pub fell: Fell,
    /// The number of calls in the last write.
    pub calls: u32,
}

impl FaultyStore {
    pub fn new(inner: SqliteStore) -> FaultyStore {
        FaultyStore { inner, fault: Fault::None, fell: Fell::Nothing, calls: 0 }
    }
}

fn crashed() -> StoreError {
    StoreError::Unexpected("the process crashed".to_owned())
}

impl Store for FaultyStore {
    fn read<R>(&mut self, work: impl FnOnce(&mut dyn Read) -> Result<R>) -> Result<R> {
        self.inner.read(work)
    }

    fn transact<R>(&mut self, mut work: impl FnMut(&mut dyn Write) -> Result<Ending<R>>) -> Result<R> {
        if self.fell != Fell::Nothing {
            return Err(crashed());
        }
        let calls = Cell::new(0);
        let (at, copy) = match &self.fault {
            Fault::CrashAt(at) => (Some(*at), None),
            Fault::PowerCutAt(at, folder) => {
                (Some(*at), Some((self.inner.path().to_owned(), folder.clone())))
            }
            Fault::RunTwice(at) => {
                let _ = self.inner.transact(|write| {
                    let mut write = Failing { inner: write, calls: &calls, at: Some(*at), copy: None };
                    work(&mut write)?;
                    Ok(Ending::RollBack(()))
                });
                calls.set(0);
                (None, None)
            }
            Fault::None | Fault::CrashAfterCommit => (None, None),
        };
        let mut commits = false;
        let answer = self.inner.transact(|write| {
            let ending = work(&mut Failing { inner: write, calls: &calls, at, copy: copy.as_ref() });
            commits = matches!(ending, Ok(Ending::Commit(_)));
            ending
        });
        self.calls = calls.get();
        if at.is_some_and(|at| self.calls >= at) {
            self.fell = Fell::BeforeCommit;
            return Err(crashed());
        }
        if self.fault == Fault::CrashAfterCommit && commits && answer.is_ok() {
            self.fell = Fell::AfterCommit;
            return Err(crashed());
        }
        // Other writes may follow a refusal, such as the record of what the caller wanted: those are not the request.
        if self.fault == Fault::CrashAfterCommit {
            self.fault = Fault::None;
        }
        answer
    }

    fn rebuild(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
        self.inner.rebuild(progress)
    }

    fn backup(&mut self, to: &Path, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.inner.backup(to, progress)
    }

    fn check(&mut self) -> Result<Vec<Finding>> {
        self.inner.check()
    }

    fn tidy(&mut self) -> Result<bool> {
        self.inner.tidy()
    }

    fn watch(&mut self) -> Result<Box<dyn Watch>> {
        self.inner.watch()
    }
}

/// A transaction that fails at a certain call.
struct Failing<'a> {
    inner: &'a mut dyn Write,
    calls: &'a Cell<u32>,
    at: Option<u32>,
    /// The store's file, and where to copy it at the crash.
    copy: Option<&'a (PathBuf, PathBuf)>,
}

impl Failing<'_> {
    fn call(&mut self) -> Result<()> {
        let calls = self.calls.get() + 1;
        self.calls.set(calls);
        match self.at {
            Some(at) if calls >= at => {
                if let Some((file, folder)) = self.copy.take() {
                    keep(file, folder)?;
                }
                Err(crashed())
            }
            _ => Ok(()),
        }
    }
}

/// Copies the database and its log, but not the shared memory, which a crash of the machine loses.
fn keep(file: &Path, folder: &Path) -> Result<()> {
    let unavailable = |error: std::io::Error| StoreError::of_io(folder, &error);
    std::fs::create_dir_all(folder).map_err(unavailable)?;
    for ending in ["", "-wal"] {
        let Some(name) = file.file_name() else { continue };
        let name = format!("{}{ending}", name.to_string_lossy());
        let from = file.with_file_name(&name);
        if from.exists() {
            std::fs::copy(&from, folder.join(&name)).map_err(unavailable)?;
        }
    }
    Ok(())
}

macro_rules! counted {
    ($(fn $name:ident(&mut self $(, $argument:ident: $kind:ty)*) -> $answer:ty;)*) => {
        $(fn $name(&mut self $(, $argument: $kind)*) -> Result<$answer> {
            self.call()?;
            self.inner.$name($($argument),*)
        })*
    };
}

impl Read for Failing<'_> {
    fn now(&mut self) -> Moment {
        self.inner.now()
    }

    counted! {
        fn project(&mut self) -> Project;
        fn children(&mut self, task: Uid) -> Vec<Number>;
        fn resolve(&mut self, reference: &TaskRef) -> Vec<Uid>;
        fn task(&mut self, uid: Uid) -> Option<Task>;
        fn task_by_origin(&mut self, origin: &Origin) -> Option<Uid>;
        fn lease(&mut self, task: Uid, token: Token) -> Option<Lease>;
        fn latest_lease_of(&mut self, task: Uid, actor: &ActorName, instance: &InstanceId) -> Option<Lease>;
        fn seat(&mut self, uid: Uid) -> Option<Seat>;
        fn seat_named(&mut self, name: &SeatName) -> Option<Seat>;
        fn seats(&mut self, which: Seats, limit: u64) -> Vec<Seat>;
        fn last_seat(&mut self) -> Number;
        fn held_by(&mut self, actor: &ActorName, instance: &InstanceId) -> Vec<(Uid, Token)>;
        fn open_leases(&mut self, limit: u64) -> Vec<(Task, Lease)>;
        fn branched(&mut self, limit: u64) -> Vec<Task>;
        fn task_of_branch(&mut self, branch: &str) -> Option<Task>;
        fn leases_ended_by(&mut self, actor: &ActorName, instance: &InstanceId, since_ms: i64) -> Vec<Lease>;
        fn leases_lost_by(&mut self, actor: &ActorName, instance: &InstanceId) -> Vec<Lease>;
        fn rescues(&mut self, state: Option<RescueState>, limit: u64) -> Vec<Lease>;
        fn losses(&mut self) -> Vec<Loss>;
        fn touched_in(&mut self, worktree: Option<&WorktreeId>) -> Vec<Glob>;
        fn leases_in(&mut self, worktree: &WorktreeId) -> Vec<Lease>;
        fn held_above(&mut self, task: Uid, token: Token, actor: &ActorName) -> bool;
        fn indefinite_leases(&mut self, actor: &ActorName) -> (u64, u64);
        fn walk_ready(&mut self, asker: Option<&ActorName>, tier: Tier, due_ms: i64, visit: &mut dyn FnMut(&mut dyn Read, Task) -> Result<bool>) -> ();
        fn next_due(&mut self, after_ms: i64) -> Option<i64>;
        fn neighbours(&mut self, task: Uid, direction: Direction) -> Vec<Uid>;
        fn neighbour_numbers(&mut self, task: Uid, direction: Direction) -> Vec<Number>;
        fn closure(&mut self, task: Uid, direction: Direction) -> Vec<Uid>;
        fn edges(&mut self, finished: bool) -> Vec<(Uid, Uid)>;
        fn waits_for(&mut self, task: Uid) -> Vec<Uid>;
        fn does_wait_for(&mut self, task: Uid, other: Uid) -> bool;
        fn scopes_near(&mut self, scope: &Scope) -> Vec<(Uid, Token, Reservation)>;
        fn scope_of(&mut self, task: Uid, token: Token) -> Reservations;
        fn scope_len(&mut self, task: Uid, token: Token) -> usize;
        fn unmet(&mut self, task: Uid, limit: u64) -> Vec<Task>;
        fn unfinished_children(&mut self, task: Uid, limit: u64) -> Vec<Task>;
        fn list(&mut self, filter: &Filter, after: Option<After>, limit: u64) -> Vec<Task>;
        fn count_by_state(&mut self) -> Vec<(State, u64)>;
        fn count_ad_hoc(&mut self) -> u64;
        fn search(&mut self, words: &[String], ad_hoc: bool, limit: u64) -> Vec<Uid>;
        fn text(&mut self, key: TextKey) -> Option<StoredText>;
        fn same_texts(&mut self, stream: Uid, words: &str) -> Vec<TextKey>;
        fn texts(&mut self, stream: Uid, version: Version) -> Vec<StoredText>;
        fn events(&mut self, query: &EventQuery) -> Vec<Record>;
        fn event(&mut self, stream: Uid, version: Version) -> Option<Record>;
        fn notes(&mut self, task: Uid) -> Vec<Record>;
        fn count_events(&mut self) -> u64;
        fn last_number(&mut self) -> Number;
        fn ledger_page(&mut self, after: Option<&(String, u64)>, limit: u64) -> Vec<LedgerLine>;
        fn stray_text(&mut self) -> Option<(String, u64)>;
        fn head(&mut self, stream: &str) -> Option<StreamHead>;
        fn walk_heads(&mut self, visit: &mut dyn FnMut(StreamHead) -> Result<()>) -> ();
        fn actor(&mut self, name: &ActorName) -> Option<Actor>;
        fn alias(&mut self, name: &ActorName) -> Option<ActorName>;
        fn actors(&mut self) -> Vec<Actor>;
        fn aliases(&mut self) -> Vec<(ActorName, ActorName)>;
        fn instance(&mut self, actor: &ActorName, instance: &InstanceId) -> Option<KnownInstance>;
        fn instances(&mut self, limit: u64) -> Vec<KnownInstance>;
        fn instances_of(&mut self, process: &Process, limit: u64) -> Vec<KnownInstance>;
        fn running_parts(&mut self, actor: &ActorName, instance: &InstanceId) -> Vec<KnownInstance>;
        fn details(&mut self, shown: &Shown) -> Details;
        fn notes_left_on(&mut self, lease: &Lease, since_ms: i64) -> Vec<NoteLeft>;
        fn wishes_for(&mut self, task: Uid, since_ms: i64) -> Vec<Wish>;
        fn notices_for(&mut self, actor: &ActorName, instance: &InstanceId) -> Vec<PendingNotice>;
        fn notices(&mut self) -> Vec<PendingNotice>;
        fn work_in(&mut self, window: Window, after: Option<&WorkRow>, limit: u64) -> Vec<WorkRow>;
        fn stretches_of(&mut self, task: Uid, token: Token) -> Vec<Recorded>;
        fn usage_in(&mut self, window: Window, after: Option<&Used>, limit: u64) -> Vec<Used>;
        fn usage_of(&mut self, task: Uid, token: Token) -> Vec<UsageRow>;
        fn commits_of(&mut self, task: Uid) -> Vec<CommitRow>;
        fn commits_under(&mut self, task: Uid, token: Token) -> Vec<CommitRow>;
        fn commit_made(&mut self, commit: &CommitId) -> Vec<CommitRow>;
        fn judgements_of(&mut self, task: Uid, limit: u64) -> Vec<JudgementRow>;
        fn to_land(&mut self, limit: u64) -> Vec<Task>;
        fn finished_in(&mut self, window: Window, after: Option<&Finished>, limit: u64) -> Vec<Finished>;
        fn request(&mut self, actor: &ActorName, key: &str) -> Option<KeptRequest>;
        fn requests(&mut self) -> Vec<(ActorName, String, KeptRequest)>;
    }
}

impl Write for Failing<'_> {
    counted! {
        fn lock_task(&mut self, uid: Uid) -> Option<Task>;
        fn lock_seat(&mut self, name: &SeatName) -> Option<Seat>;
        fn next_seat(&mut self) -> Number;
        fn lock_project(&mut self) -> Project;
        fn next_number(&mut self) -> Number;
        fn append(&mut self, event: &Event, texts: &[(Field, Salt, String)]) -> ();
        fn apply(&mut self, change: &RowChange) -> ();
        fn pulse(&mut self, pulses: &[(Uid, Token, Pulse)]) -> ();
        fn put_instance(&mut self, instance: &KnownInstance) -> ();
        fn put_loss(&mut self, loss: &Loss) -> ();
        fn drop_loss(&mut self, task: Uid, token: Token) -> ();
        fn put_notice(&mut self, notice: &PendingNotice) -> ();
        fn drop_notice(&mut self, notice: &PendingNotice) -> ();
        fn keep_request(&mut self, actor: &ActorName, key: &str, request: &KeptRequest) -> ();
        fn erase(&mut self, key: TextKey) -> ();
        fn savepoint(&mut self) -> ();
        fn release(&mut self) -> ();
        fn undo(&mut self) -> ();
    }
}
