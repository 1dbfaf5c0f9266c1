//! The writers' queue: a turnstile of two file locks before `BEGIN IMMEDIATE`.
//!
//! SQLite's own lock is polled with a back-off, so under load one process can starve another for seconds.
//! Here a writer passes the *turnstile*, waits inside it for the *writer lock*, and leaves the turnstile to
//! the next one once it has the lock. A writer that just released the lock and wants it again finds the
//! turnstile occupied by the next one: nobody can jump the queue. Both are `flock`s, which the kernel grants
//! in the order of arrival and releases when a process dies, however it dies. The files are never unlinked: a
//! lock on a file whose name now belongs to another would guard nothing.
//!
//! Waits are bounded, but a blocking `flock` has no timeout. So a process that must wait *for the turnstile*
//! lets a thread of its own block on it, kept from one wait to the next; if the time runs out first, the
//! thread is left behind, and releases the turnstile as soon as it gets it. *Inside* the turnstile there is
//! only one process at a time, so it may try the lock itself, and no thread has to wake another between two
//! writers. It tries when the writer that releases the lock signals the [`handover`] (which it skips if the
//! turnstile is free), and after a pause in any case: a killed writer signals nothing, and not every system
//! supports the signal.
//! A process that gives up reports which one it waited for, as far as the kernel says who has the lock. A pid
//! in a file could have been written by anybody.

mod handover;

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::{Result, StoreError};

use super::files::side_file;
use super::private::open_own;

use handover::{Handover, HandoverListener};

/// The longest pause before the process inside the turnstile tries the writer lock again.
const PAUSE: Duration = Duration::from_millis(5);

/// How often the kernel's list of locks is read before a lock counts as free.
const LOOKS: usize = 8;

#[derive(Debug)]
pub(super) struct Queue {
    folder: PathBuf,
    files: Option<Arc<Files>>,
    waiter: Option<Waiter>,
}

#[derive(Debug)]
struct Files {
    turnstile: File,
    writer: File,
    handover: Handover,
}

/// The writer lock, until dropped.
#[derive(Debug)]
pub(super) struct WriterLock {
    files: Arc<Files>,
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // Closing the file or ending the process releases it too, so a failure here does not matter.
        let _ = self.files.writer.unlock();
        // Only the process inside the turnstile listens. One that enters later finds the lock free.
        match self.files.turnstile.try_lock() {
            Ok(()) => drop(self.files.turnstile.unlock()),
            Err(_) => self.files.handover.ring(&self.files.writer),
        }
    }
}

impl Queue {
    pub(super) fn new(folder: &Path) -> Queue {
        Queue { folder: folder.to_owned(), files: None, waiter: None }
    }

    pub(super) fn lock(&mut self, wait: Duration) -> Result<WriterLock> {
        let began = Instant::now();
        let files = match &self.files {
            Some(files) => Arc::clone(files),
            None => Arc::clone(self.files.insert(Arc::new(self.open()?))),
        };
        let inside = match files.turnstile.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => self.wait_for_turnstile(&files, wait)?,
            Err(TryLockError::Error(error)) => return Err(self.failed(&error)),
        };
        if !inside || !self.wait_for_writer(&files, began, wait)? {
            return Err(self.give_up(files, began.elapsed()));
        }
        Ok(WriterLock { files })
    }

    /// False: the time is over.
    fn wait_for_turnstile(&mut self, files: &Arc<Files>, wait: Duration) -> Result<bool> {
        let failed = |error: &dyn std::fmt::Display| {
            StoreError::Unexpected(format!("cannot wait in the writers' queue: {error}"))
        };
        let waiter = match &self.waiter {
            Some(waiter) => waiter,
            None => self.waiter.insert(Waiter::new(files).map_err(|error| failed(&error))?),
        };
        waiter.asked.send(()).map_err(|error| failed(&error))?;
        match waiter.granted.recv_timeout(wait) {
            Ok(Ok(())) => Ok(true),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => Err(failed(&"it ended")),
        }
    }

    /// The caller is inside the turnstile, and leaves it once it has the writer lock. False: the time is
    /// over.
    fn wait_for_writer(&self, files: &Files, began: Instant, wait: Duration) -> Result<bool> {
        let inside_since = Instant::now();
        let mut listener: Option<HandoverListener> = None;
        loop {
            match files.writer.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(self.failed(&error)),
            }
            if began.elapsed() >= wait {
                return Ok(false);
            }
            match &listener {
                Some(listener) => listener.listen(inside_since.elapsed()),
                // The signal may have come before anybody listened: try once more.
                None => listener = Some(files.handover.listener(&files.writer)),
            }
        }
        // The next process inside binds the same name.
        drop(listener);
        files.turnstile.unlock().map_err(|error| self.failed(&error))?;
        Ok(true)
    }

    /// A process that gives up continues with newly opened files: closing these releases the turnstile, at
    /// once or when the thread that was left behind has got it.
    fn give_up(&mut self, files: Arc<Files>, waited: Duration) -> StoreError {
        self.waiter = None;
        self.files = None;
        drop(files);
        let pid = self.open().ok().and_then(|files| files.blocker());
        StoreError::Busy { pid, waited }
    }

    fn open(&self) -> Result<Files> {
        match (open_own(&self.folder, "turnstile.lock"), open_own(&self.folder, "writer.lock")) {
            (Ok(turnstile), Ok(writer)) => Ok(Files { turnstile, handover: Handover::default(), writer }),
            (Err(error), _) | (_, Err(error)) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &io::Error) -> StoreError {
        StoreError::of_io(&self.folder, error)
    }
}

impl Files {
    /// The process that keeps others waiting: the one with the writer lock, or one that was stopped before it
    /// got it.
    fn blocker(&self) -> Option<u32> {
        self.blocker_by((0..LOOKS).map_while(|_| std::fs::read_to_string("/proc/locks").ok()))
    }

    /// The kernel returns its list page by page: a longer list may lack some locks if others come and go
    /// meanwhile. So one reading proves that a lock is held, but only several that it is not.
    fn blocker_by(&self, readings: impl Iterator<Item = String>) -> Option<u32> {
        let mut in_turnstile = None;
        for locks in readings {
            if let Some(writer) = holder_of(&self.writer, "FLOCK", &locks) {
                return Some(writer);
            }
            in_turnstile = holder_of(&self.turnstile, "FLOCK", &locks).or(in_turnstile);
        }
        in_turnstile
    }
}

/// The process that has locked the database itself, or the index of its log.
pub(super) fn locker_of(database: &Path) -> Option<u32> {
    let files: Vec<File> = [side_file(database, "-shm"), database.to_owned()]
        .iter()
        .filter_map(|path| File::open(path).ok())
        .collect();
    (0..LOOKS).find_map(|_| {
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        files.iter().find_map(|file| holder_of(file, "POSIX", &locks))
    })
}

/// The process that holds a file's lock of this kind, according to the kernel's list. None if nobody does, or if it cannot
/// be seen from here.
fn holder_of(file: &File, kind: &str, locks: &str) -> Option<u32> {
    let file = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", file.ino());
    locks.lines().find_map(|line| {
        // `1: FLOCK  ADVISORY  WRITE 4711 fd:01:393 0 EOF`; a waiting lock has `->` after the number.
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            [_, of_kind, _, "WRITE", pid, found, ..] if *of_kind == kind && *found == place => {
                pid.parse().ok()
            }
            _ => None,
        }
    })
}

/// The thread that blocks on the turnstile on request.
#[derive(Debug)]
struct Waiter {
    asked: Sender<()>,
    granted: Receiver<io::Result<()>>,
}

impl Waiter {
    fn new(files: &Arc<Files>) -> io::Result<Waiter> {
        let (asked, to_do) = channel();
        let (done, granted) = channel();
        let files = Arc::clone(files);
        std::thread::Builder::new().name("onus-queue".into()).stack_size(64 * 1024).spawn(move || {
            while let Ok(()) = to_do.recv() {
                if done.send(files.turnstile.lock()).is_err() {
                    break;
                }
            }
        })?;
        Ok(Waiter { asked, granted })
    }
}

#[cfg(test)]
mod tests;
