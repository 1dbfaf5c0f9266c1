//! Waits for others' commits without polling.
//!
//! **The bell.** A writer opens the file `bell` for writing before it commits and closes it afterwards. The
//! kernel reports the closing to watchers of the file (`IN_CLOSE_WRITE`), and it closes the files of a
//! process that is killed in between: every commit is reported. Writes to the log itself would be reported
//! *before* the commit is visible, with the sync still to come: a watcher that looked then would see nothing
//! new and go back to sleep. A refused request never touches the bell, nor do readers, and nobody watches the
//! lock files: a waiter that tries in vain wakes no other.
//!
//! **The bell is only a hint to look.** What counts is `PRAGMA data_version` on the watch's own connection,
//! which changes with every commit of any other connection. A waiter first empties the bell's events, then
//! compares the version: a commit before the comparison is seen, one after it rings again.
//!
//! **Without the bell.** If there is no inotify (on another system, or the user's limit is reached), no bell
//! yet, or the store can only be read as it was, then the version, or the files' times, are compared every
//! quarter of a second, later every second. A watch with a bell still looks every [`SILENCE`], for file
//! systems that report nothing.
//!
//! Between two looks a watch holds no snapshot, and no lock that anybody could wait for.

use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::{Result, StoreError, Watch, Woken};

use super::files::{Identity, Times, folder_of, must_be, times_of};
use super::open::connect;
use super::private::open_own;
use super::{SqliteStore, failed, schema};

/// How long a watch relies on the bell.
const SILENCE: Duration = Duration::from_secs(30);

/// How often a watch without a bell looks: soon after something happened, later less often.
const MIN_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// How long a watch ignores the bell after it rang in vain.
const IN_VAIN: Duration = Duration::from_millis(10);

pub(super) const BELL: &str = "bell";

fn bell_of(store: &Path) -> PathBuf {
    store.with_file_name(BELL)
}

/// The open bell of a writer: it rings when this is dropped, or when the process ends.
#[derive(Debug)]
pub(super) struct CommitSignal {
    _open: Option<fs::File>,
}

impl CommitSignal {
    /// Must be called before the commit. Without a bell the commit is just as good: waiters see it later.
    pub(super) fn take(store: &Path) -> CommitSignal {
        CommitSignal { _open: open_own(folder_of(store), BELL).ok() }
    }
}

/// What shows that something was committed.
#[derive(Debug)]
enum Sign {
    Version {
        connection: Connection,
        seen: i64,
    },
    /// For a store that is read as it was: its files' lengths and times.
    Files(Times),
}

#[derive(Debug)]
pub(super) struct SqliteWatch {
    path: PathBuf,
    file: Identity,
    sign: Sign,
    listener: Option<Listener>,
    pause: Duration,
}

pub(super) fn watch(store: &SqliteStore) -> Result<SqliteWatch> {
    let path = store.path.clone();
    // Listen before the first look at the version.
    let listener = match &store.frozen {
        Some(_) => None,
        None => {
            if !bell_of(&path).exists() {
                drop(CommitSignal::take(&path));
            }
            Listener::open(&bell_of(&path))
        }
    };
    let sign = match &store.frozen {
        Some(frozen) => Sign::Files(frozen.times),
        None => {
            let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            let seen = data_version(&connection).map_err(|error| failed(&error, &path))?;
            Sign::Version { connection, seen }
        }
    };
    Ok(SqliteWatch { path, file: store.file, sign, listener, pause: MIN_PAUSE })
}

impl SqliteWatch {
    /// Whether something was committed since the last call.
    fn has_changed(&mut self) -> Result<bool> {
        let changed = match &mut self.sign {
            Sign::Version { connection, seen } => {
                let now = data_version(connection).map_err(|error| failed(&error, &self.path))?;
                now != std::mem::replace(seen, now)
            }
            Sign::Files(seen) => {
                let now = times_of(&self.path);
                now != std::mem::replace(seen, now)
            }
        };
        must_be(&self.path, self.file)?;
        if changed && let Sign::Version { connection, .. } = &self.sign {
            // Others may have migrated it to a schema that this program does not know.
            schema::version(connection, &self.path)?;
        }
        Ok(changed)
    }

    /// Empties the bell, or looks for one. True: it rang.
    fn listen(&mut self) -> bool {
        match self.listener.as_ref().map_or(Heard::Gone, Listener::empty) {
            Heard::Nothing => false,
            Heard::Commit => true,
            Heard::Gone => {
                let can_hear = matches!(self.sign, Sign::Version { .. });
                self.listener = if can_hear { Listener::open(&bell_of(&self.path)) } else { None };
                false
            }
        }
    }

    /// How long to sleep unless the bell rings.
    fn pause(&mut self) -> Duration {
        match self.listener {
            Some(_) => SILENCE,
            None => {
                let next = (self.pause * 2).min(MAX_PAUSE);
                std::mem::replace(&mut self.pause, next)
            }
        }
    }
}

impl Watch for SqliteWatch {
    fn wait(&mut self, until: Option<Instant>, also: &[BorrowedFd<'_>]) -> Result<Woken> {
        loop {
            let is_heard = self.listen();
            if self.has_changed()? {
                self.pause = MIN_PAUSE;
                return Ok(Woken::Committed);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if is_heard {
                // Rung without a commit, or for one already seen: however often it rings, that costs little.
                std::thread::sleep(left.map_or(IN_VAIN, |left| left.min(IN_VAIN)));
            }
            let pause = self.pause();
            let timeout = Timespec::try_from(left.map_or(pause, |left| left.min(pause))).ok();
            let mut ears: Vec<PollFd<'_>> =
                also.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
            ears.extend(
                self.listener
                    .as_ref()
                    .map(|listener| PollFd::from_borrowed_fd(listener.inotify.as_fd(), PollFlags::IN)),
            );
            match poll(&mut ears, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(StoreError::Unexpected(format!("cannot wait for commits: {error}")));
                }
            }
            if ears.iter().take(also.len()).any(|fd| !fd.revents().is_empty()) {
                return Ok(Woken::Other);
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                return Ok(Woken::TimedOut);
            }
        }
    }
}

fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

/// An inotify watch on the bell.
#[derive(Debug)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing is heard elsewhere"))]
struct Listener {
    inotify: OwnedFd,
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "nothing is heard elsewhere"))]
enum Heard {
    Nothing,
    Commit,
    /// The bell was removed or replaced.
    Gone,
}

#[cfg(target_os = "linux")]
impl Listener {
    fn open(bell: &Path) -> Option<Listener> {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let gone = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        add_watch(&inotify, bell, WatchFlags::CLOSE_WRITE | gone).ok()?;
        Some(Listener { inotify })
    }

    /// Discards the events so far.
    fn empty(&self) -> Heard {
        use rustix::fs::inotify::{ReadFlags, Reader};
        let gone = ReadFlags::IGNORED | ReadFlags::MOVE_SELF | ReadFlags::DELETE_SELF;
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4_096];
        let mut events = Reader::new(&self.inotify, &mut buffer);
        let mut heard = Heard::Nothing;
        loop {
            match events.next() {
                Ok(event) if event.events().intersects(gone) => return Heard::Gone,
                Ok(_) => heard = Heard::Commit,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return heard,
                Err(_) => return Heard::Gone,
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Listener {
    fn open(_bell: &Path) -> Option<Listener> {
        None
    }

    fn empty(&self) -> Heard {
        Heard::Gone
    }
}

#[cfg(test)]
mod tests;
