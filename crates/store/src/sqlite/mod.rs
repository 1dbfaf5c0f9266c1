//! SQLite: one file next to the repository, shared by every worktree and every process of the machine.
//!
//! WAL with `synchronous=FULL`: a commit is one write and one sync of the log, and readers never wait.
//! Writers pass a fair [`queue`] and then `BEGIN IMMEDIATE`, which therefore never finds the lock taken by
//! another onus. The clock is read inside the transaction. `secure_delete` is on, so that erased text is
//! overwritten.
//!
//! **The log.** By default the last connection to close copies the log into the database and deletes it: five
//! syncs where the commit needed one, in every short-lived process. So closing leaves the log. But SQLite
//! keeps in memory how much of it was copied, and the first process to open a store that nobody has open
//! reads the whole log again and assumes that none of it was copied: a log that is copied only after commits
//! would never start over, and every process would read a longer one. So a writer checks *before* its
//! transaction whether the log has [`LOG_PAGES`] pages, and if so copies it, so that its commit starts the
//! log over in place. That bounds what a process has to read, and a commit overwrites blocks that the file
//! already has, which syncs faster than appending.
//!
//! **Waiters** for others' commits are notified and do not poll: [`watch`].
//!
//! **Read-only stores.** A store that cannot be written (in a sandbox) still answers reads: by SQLite's own
//! means while the log's side files exist, otherwise straight from the file if the log is empty, otherwise
//! from a private copy.

mod commit;
mod files;
mod filesystem;
mod maintain;
mod open;
mod private;
mod queue;
mod read;
mod rebuild;
mod rows;
mod schema;
mod watch;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use onus_core::time::Moment;

use crate::{Ending, Finding, Progress, Read, Rebuilt, Result, Store, StoreError, Watch, Write};

pub use filesystem::filesystem_of;
pub use private::{OWN_FOLDER, file_mode, make_folder, new_file};
use queue::{Queue, WriterLock};
use watch::CommitSignal;

/// How many pages the log may have before a writer moves them into the database. A claim writes about ten:
/// with a higher limit every process reads more, with a lower one more of them copy and sync.
const LOG_PAGES: u32 = 100;

/// What the log's file is truncated to when a log starts over that had become longer, because of a rebuild or
/// a reader in the way.
const LOG_BYTES: u64 = LOG_PAGES as u64 * 4_096 * 16;

/// What a caller is going to do with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// A clock for the store: [`onus_os::clock::now`], except in simulations.
pub type Clock = Box<dyn Fn() -> Moment + Send>;

pub struct SqliteStore {
    connection: Connection,
    path: PathBuf,
    /// The identity of the file when it was opened.
    file: files::Identity,
    queue: Queue,
    /// How long a writer waits in the queue before it gives up.
    wait: Duration,
    clock: Clock,
    /// The uid of the project's own stream.
    project: String,
    /// What is read instead of a store that cannot be opened in place.
    frozen: Option<open::Frozen>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SqliteStore {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this shows the store as it was when it was opened, because it cannot be opened in place. To
    /// see newer changes, open it again.
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Takes the writer lock, and checks that the open file is still the one with the store's name.
    fn lock_writer(&mut self) -> Result<WriterLock> {
        let lock = self.queue.lock(self.wait)?;
        files::must_be(&self.path, self.file)?;
        Ok(lock)
    }

    /// Moves a long log into the database, so that the next commit starts it over. The caller has the writer
    /// lock.
    fn shorten_log(&self) -> rusqlite::Result<()> {
        let (pages, copied) = log_pages(&self.connection, "NOOP")?;
        if pages >= i64::from(LOG_PAGES) && copied < pages {
            // Readers of old snapshots may keep a part of it from being copied: then the next writer tries
            // again.
            log_pages(&self.connection, "PASSIVE")?;
        }
        Ok(())
    }
}

/// How many pages the log has and how many of them are in the database, after a checkpoint of this kind.
fn log_pages(connection: &Connection, kind: &str) -> rusqlite::Result<(i64, i64)> {
    let mut statement = connection.prepare_cached(&format!("PRAGMA wal_checkpoint({kind})"))?;
    statement.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))
}

/// Moves the whole log into the database and truncates it. False: somebody is reading an old snapshot.
fn empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| Ok(row.get::<_, i64>(0)? == 0))
}

fn begin<'c>(
    connection: &'c mut Connection,
    path: &Path,
    behavior: TransactionBehavior,
) -> Result<Transaction<'c>> {
    connection.transaction_with_behavior(behavior).map_err(|error| failed(&error, path))
}

impl Store for SqliteStore {
    fn read<R>(&mut self, work: impl FnOnce(&mut dyn Read) -> Result<R>) -> Result<R> {
        let transaction = begin(&mut self.connection, &self.path, TransactionBehavior::Deferred)?;
        let mut session = read::Session::begin(&transaction, &self.path, &self.clock, &self.project)?;
        work(&mut session)
    }

    fn transact<R>(&mut self, mut work: impl FnMut(&mut dyn Write) -> Result<Ending<R>>) -> Result<R> {
        if self.frozen.is_some() {
            return Err(StoreError::ReadOnly(self.path.clone()));
        }
        // Read from files once per process: not while others wait.
        onus_os::clock::domain();
        let _lock = self.lock_writer()?;
        self.shorten_log().map_err(|error| commit::unwritten(&error, &self.path))?;
        let transaction = begin(&mut self.connection, &self.path, TransactionBehavior::Immediate)?;
        let mut session = read::Session::begin(&transaction, &self.path, &self.clock, &self.project)?;
        let answer = match work(&mut session)? {
            Ending::Commit(answer) => answer,
            Ending::RollBack(answer) => return Ok(answer),
        };
        let _signal = CommitSignal::take(&self.path);
        transaction.commit().map_err(|error| commit::settle(&self.connection, &self.path, &error))?;
        Ok(answer)
    }

    fn rebuild(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
        rebuild::rebuild(self, progress)
    }

    fn backup(&mut self, to: &Path, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        maintain::backup(self, to, progress)
    }

    fn check(&mut self) -> Result<Vec<Finding>> {
        maintain::check(self)
    }

    fn tidy(&mut self) -> Result<bool> {
        maintain::tidy(self)
    }

    fn watch(&mut self) -> Result<Box<dyn Watch>> {
        Ok(Box::new(watch::watch(self)?))
    }
}

/// What an error of SQLite means to the user.
fn failed(error: &rusqlite::Error, path: &Path) -> StoreError {
    let rusqlite::Error::SqliteFailure(code, message) = error else {
        return match error {
            // SQLite stores any value it is given; a wrong type is found only when the value is read.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => {
                StoreError::Damaged(format!("a row is unreadable: {error}"))
            }
            other => StoreError::Unexpected(other.to_string()),
        };
    };
    let text = message.clone().unwrap_or_else(|| code.to_string());
    match code.code {
        // The last code means that another process opens the store and hangs in the middle of that.
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            StoreError::Busy { pid: queue::locker_of(path), waited: open::FOREIGN_WAIT }
        }
        ErrorCode::ReadOnly => StoreError::ReadOnly(path.to_owned()),
        ErrorCode::DiskFull => StoreError::Full,
        ErrorCode::DatabaseCorrupt => StoreError::Damaged(text),
        ErrorCode::NotADatabase => {
            StoreError::NotAStore { path: path.to_owned(), why: "it is not an SQLite database".to_owned() }
        }
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::SystemIoFailure => {
            StoreError::Unavailable { path: path.to_owned(), why: text }
        }
        _ => StoreError::Unexpected(text),
    }
}
