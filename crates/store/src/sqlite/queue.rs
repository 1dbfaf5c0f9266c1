//! The writers' queue: a turnstile of two file locks before `BEGIN IMMEDIATE`.
//!
//! SQLite's own lock is polled with a back-off, so under load one process can starve another for seconds. Here a
//! writer takes the *turnstile*, waits for the *writer's seat*, and frees the turnstile once it sits. Whoever just
//! left the seat and wants it again meets the turnstile first, where the next one already stands: nobody barges in.
//! Both are blocking `flock`s, which the kernel grants in the order of arrival and frees when a process dies, however
//! it dies. The files are never unlinked: a lock on a name that somebody replaced would guard nothing.
//!
//! Waits are bounded. A blocking `flock` has no time-out, so a writer that must wait does so in a thread of its own;
//! if its time runs out first, the thread is left behind and passes the locks on as soon as it gets them.
//! Whoever sits writes its pid into the file, so that those who gave up can say for whom they waited.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Result, StoreError};

#[derive(Debug)]
pub(super) struct Queue {
    folder: PathBuf,
    files: Option<Arc<Files>>,
}

#[derive(Debug)]
struct Files {
    turnstile: File,
    seat: File,
}

/// The writer's seat, until dropped.
#[derive(Debug)]
pub(super) struct Seat {
    files: Arc<Files>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Closing the file or ending the process frees it too: nothing to do if this fails.
        let _ = self.files.seat.unlock();
    }
}

enum Wait {
    Waiting,
    Granted(io::Result<()>),
    Abandoned,
}

impl Queue {
    pub(super) fn new(folder: &Path) -> Queue {
        Queue { folder: folder.to_owned(), files: None }
    }

    pub(super) fn sit(&mut self, wait: Duration) -> Result<Seat> {
        let files = match &self.files {
            Some(files) => Arc::clone(files),
            None => Arc::clone(self.files.insert(Arc::new(self.open()?))),
        };
        let granted = match files.try_sit() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => {
                let outcome = wait_in_thread(&files, wait)?;
                if let Waited::Gave { up_after: waited } = outcome {
                    // The thread left behind still stands in line with these files: ask, and go on, with new ones.
                    let files = self.files.insert(Arc::new(self.open()?));
                    return Err(StoreError::Busy { pid: files.blocker(), waited });
                }
                Ok(())
            }
            Err(TryLockError::Error(error)) => Err(self.failed(&error)),
        };
        granted?;
        write_pid(&files.seat);
        Ok(Seat { files })
    }

    fn open(&self) -> Result<Files> {
        let open = |name: &str| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(self.folder.join(name))
        };
        match (open("turnstile.lock"), open("writer.lock")) {
            (Ok(turnstile), Ok(seat)) => Ok(Files { turnstile, seat }),
            (Err(error), _) | (_, Err(error)) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &io::Error) -> StoreError {
        StoreError::of_io(&self.folder, error)
    }
}

impl Files {
    fn try_sit(&self) -> std::result::Result<(), TryLockError> {
        self.turnstile.try_lock()?;
        let seated = self.seat.try_lock();
        self.turnstile.unlock().map_err(TryLockError::Error)?;
        seated
    }

    fn sit(&self) -> io::Result<()> {
        self.turnstile.lock()?;
        write_pid(&self.turnstile);
        self.seat.lock()?;
        self.turnstile.unlock()
    }

    /// Who keeps others waiting: the one in the seat, or one that was stopped before it sat down.
    fn blocker(&self) -> Option<u32> {
        let held = |file: &File| match file.try_lock() {
            Err(TryLockError::WouldBlock) => read_pid(file),
            Ok(()) => {
                let _ = file.unlock();
                None
            }
            Err(TryLockError::Error(_)) => None,
        };
        held(&self.seat).or_else(|| held(&self.turnstile))
    }
}

enum Waited {
    Sitting,
    Gave { up_after: Duration },
}

fn wait_in_thread(files: &Arc<Files>, wait: Duration) -> Result<Waited> {
    let started = Instant::now();
    let state = Arc::new((Mutex::new(Wait::Waiting), Condvar::new()));
    let (theirs, their_files) = (Arc::clone(&state), Arc::clone(files));
    let spawned =
        std::thread::Builder::new().name("onus-queue".into()).stack_size(64 * 1024).spawn(move || {
            let outcome = their_files.sit();
            let mut wait = theirs.0.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*wait, Wait::Abandoned) {
                let _ = their_files.turnstile.unlock();
                let _ = their_files.seat.unlock();
            } else {
                *wait = Wait::Granted(outcome);
                theirs.1.notify_one();
            }
        });
    if let Err(error) = spawned {
        return Err(StoreError::Unexpected(format!("no thread to wait in: {error}")));
    }
    let mut now = state.0.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match &*now {
            Wait::Granted(Ok(())) => return Ok(Waited::Sitting),
            Wait::Granted(Err(error)) => {
                return Err(StoreError::Unexpected(format!("the writers' queue failed: {error}")));
            }
            Wait::Waiting | Wait::Abandoned => {}
        }
        let waited = started.elapsed();
        if waited >= wait {
            *now = Wait::Abandoned;
            return Ok(Waited::Gave { up_after: waited });
        }
        now = state.1.wait_timeout(now, wait - waited).unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn write_pid(file: &File) {
    // Only for messages: a failure must not fail the write it stands before.
    let _ = file.write_all_at(format!("{:<11}\n", std::process::id()).as_bytes(), 0);
}

fn read_pid(file: &File) -> Option<u32> {
    let mut text = [0; 12];
    let read = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..read]).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
