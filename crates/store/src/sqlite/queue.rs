//! The writers' queue: a turnstile of two file locks before `BEGIN IMMEDIATE`.
//!
//! SQLite's own lock is polled with a back-off, so under load one process can starve another for seconds. Here a
//! writer passes the *turnstile*, waits inside it for the *writer's seat*, and leaves the turnstile to the next one
//! once it sits. Whoever just left the seat and wants it again meets the turnstile first, where the next one already
//! stands: nobody barges in. Both are `flock`s, which the kernel grants in the order of arrival and frees when a
//! process dies, however it dies. The files are never unlinked: a lock on a name that somebody replaced would guard
//! nothing.
//!
//! Waits are bounded, and a blocking `flock` has no time-out. So whoever must wait *for the turnstile* lets a thread of
//! its own block on it, kept from one wait to the next; if its time runs out first, the thread is left behind and the
//! turnstile passes on as soon as it gets it. *Inside* the turnstile there is only one at a time, so it may look for the
//! seat itself: no thread has to wake another between two writers. It looks when whoever gets up rings the [`bell`],
//! which nobody does who finds the turnstile free, and after a pause in any case: a sitter that was killed rings none, and
//! not every system has one.
//! Whoever sits, or waits to sit, writes its pid into the file, so that those who gave up can say for whom they waited.

mod bell;

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::{Result, StoreError};

use bell::{Bell, Ear};

/// The longest that the one inside the turnstile waits before it looks at the seat again.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct Queue {
    folder: PathBuf,
    files: Option<Arc<Files>>,
    waiter: Option<Waiter>,
}

#[derive(Debug)]
struct Files {
    turnstile: File,
    seat: File,
    bell: Bell,
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
        // Whoever would hear it is inside the turnstile. One that enters it from now on finds the seat free.
        match self.files.turnstile.try_lock() {
            Ok(()) => drop(self.files.turnstile.unlock()),
            Err(_) => self.files.bell.ring(&self.files.seat),
        }
    }
}

impl Queue {
    pub(super) fn new(folder: &Path) -> Queue {
        Queue { folder: folder.to_owned(), files: None, waiter: None }
    }

    pub(super) fn sit(&mut self, wait: Duration) -> Result<Seat> {
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
        if !inside || !self.wait_for_seat(&files, began, wait)? {
            return Err(self.give_up(files, began.elapsed()));
        }
        write_pid(&files.seat);
        Ok(Seat { files })
    }

    /// False: the time is over.
    fn wait_for_turnstile(&mut self, files: &Arc<Files>, wait: Duration) -> Result<bool> {
        let failed = |error: &dyn std::fmt::Display| {
            StoreError::Unexpected(format!("nothing to wait in for the writers' queue: {error}"))
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

    /// The caller is inside the turnstile, and leaves it once it sits. False: the time is over.
    fn wait_for_seat(&self, files: &Files, began: Instant, wait: Duration) -> Result<bool> {
        let inside_since = Instant::now();
        let mut ear: Option<Ear> = None;
        loop {
            match files.seat.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(self.failed(&error)),
            }
            if began.elapsed() >= wait {
                return Ok(false);
            }
            match &ear {
                Some(ear) => ear.listen(inside_since.elapsed()),
                None => {
                    write_pid(&files.turnstile);
                    // It may have rung before anybody listened: look once more.
                    ear = Some(files.bell.ear(&files.seat));
                }
            }
        }
        // The next one inside listens at the same place.
        drop(ear);
        files.turnstile.unlock().map_err(|error| self.failed(&error))?;
        Ok(true)
    }

    /// Whoever gives up goes on with new files: closing these frees the turnstile, at once or when the thread that
    /// was left behind has got it.
    fn give_up(&mut self, files: Arc<Files>, waited: Duration) -> StoreError {
        self.waiter = None;
        self.files = None;
        drop(files);
        let pid = self.open().ok().and_then(|files| files.blocker());
        StoreError::Busy { pid, waited }
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
            (Ok(turnstile), Ok(seat)) => Ok(Files { turnstile, bell: Bell::default(), seat }),
            (Err(error), _) | (_, Err(error)) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &io::Error) -> StoreError {
        StoreError::of_io(&self.folder, error)
    }
}

impl Files {
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

/// The thread that blocks on the turnstile whenever it is asked to.
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
