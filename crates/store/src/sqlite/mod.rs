//! SQLite: one file beside the repository, shared by every worktree and every process of the machine.
//!
//! WAL with `synchronous=FULL`: a commit is one write and one sync of the log, and readers never wait. Writers pass
//! a fair [`queue`] and then `BEGIN IMMEDIATE`, which therefore never finds the lock taken by another onus. The
//! clock is read inside the transaction. `secure_delete` is on, so that what is erased is overwritten.
//!
//! **Closing.** By default the last connection to close copies the log into the database and deletes it: five syncs
//! where the commit needed one, in every short-lived process. So closing leaves the log; commits move it over
//! whenever it has [`LOG_PAGES`] pages, which also bounds what the next process must read to recover the index.
//!
//! **Reading only.** A store that cannot be written (a sandbox) still answers reads: by SQLite's own means while the
//! log's side files are there, else straight from the file if the log is empty, else from a private copy.

mod filesystem;
mod maintain;
mod open;
mod queue;
mod read;
mod rebuild;
mod rows;
mod schema;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use onus_core::time::Moment;

use crate::{Finding, Progress, Read, Rebuilt, Result, Store, StoreError, Write};

pub use filesystem::filesystem_of;
use queue::Queue;

/// How many pages the log may have before a commit moves it into the database.
const LOG_PAGES: u32 = 256;

/// What a caller means to do with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// A clock for the store; [`crate::clock::now`] but in simulations.
pub type Clock = Box<dyn Fn() -> Moment + Send>;

pub struct SqliteStore {
    connection: Connection,
    path: PathBuf,
    queue: Queue,
    /// How long a writer waits in the queue before it gives up.
    wait: Duration,
    clock: Clock,
    /// The uid of the project's own stream.
    project: String,
    /// A private copy that is read instead of a store that cannot be opened in place.
    copy: Option<open::Copy>,
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

    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    fn fail(&self, error: &rusqlite::Error) -> StoreError {
        failed(error, &self.path)
    }
}

impl Store for SqliteStore {
    fn read<R>(&mut self, work: impl FnOnce(&mut dyn Read) -> Result<R>) -> Result<R> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Deferred)
            .map_err(|error| failed(&error, &self.path))?;
        let mut session = read::Session {
            connection: &transaction,
            path: &self.path,
            clock: &self.clock,
            project: &self.project,
        };
        work(&mut session)
    }

    fn write<R>(&mut self, mut work: impl FnMut(&mut dyn Write) -> Result<R>) -> Result<R> {
        if self.copy.is_some() {
            return Err(StoreError::ReadOnly(self.path.clone()));
        }
        let _seat = self.queue.sit(self.wait)?;
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| failed(&error, &self.path))?;
        let mut session = read::Session {
            connection: &transaction,
            path: &self.path,
            clock: &self.clock,
            project: &self.project,
        };
        let answer = work(&mut session)?;
        transaction.commit().map_err(|error| failed(&error, &self.path))?;
        Ok(answer)
    }

    fn rebuild(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
        rebuild::rebuild(self, progress)
    }

    fn compare(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
        rebuild::compare(self, progress)
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
}

/// What an error of SQLite means to the user.
fn failed(error: &rusqlite::Error, path: &Path) -> StoreError {
    let rusqlite::Error::SqliteFailure(code, message) = error else {
        return match error {
            rusqlite::Error::FromSqlConversionFailure(_, _, why) => {
                StoreError::Damaged(format!("a row cannot be read: {why}"))
            }
            // SQLite stores what it is given; that a value is not what was stored is found when it is read.
            rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => {
                StoreError::Damaged(format!("a row cannot be read: {error}"))
            }
            other => StoreError::Unexpected(other.to_string()),
        };
    };
    let text = message.clone().unwrap_or_else(|| code.to_string());
    match code.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            StoreError::Busy { pid: None, waited: open::FOREIGN_WAIT }
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
