//! The lock that serializes changes to worktrees, and the journal that says what a process that died was doing.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use onus_core::refusal::{Code, Refusal, Step};
use serde::{Deserialize, Serialize};

use super::remove::{left_aside, put_back};
use super::{Linked, Worktrees, failed, unwritten};
use crate::files::{private_file, private_folder, read_itself};

/// Longer than any checkout that others have to wait for.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// For queries, which report a longer wait instead of waiting.
pub(super) const SHORT_PATIENCE: Duration = Duration::from_secs(5);
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The lock that every change to a repository's worktrees is made under.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// The locked file, for the git that runs under the lock and inherits it.
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

/// What is done with a worktree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    #[default]
    Making,
    /// It exists, and is given to another holder.
    Entering,
    Removing,
    /// Gates run in it; it belongs to no task.
    Scratch,
}

/// What is being done with a worktree. Its file is locked while that lasts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    pub action: Action,
    pub path: PathBuf,
    /// The task's uid and id.
    pub task: Option<String>,
    pub id: Option<String>,
    pub branch: Option<String>,
    /// The commit that it is made at, or that its branch is at.
    pub commit: Option<String>,
    /// Whether the branch is made or removed together with it.
    pub with_branch: bool,
}

impl Journal {
    /// Whether it was completely written. If not, the action was never begun.
    fn is_begun(&self) -> bool {
        !self.path.as_os_str().is_empty()
    }
}

/// A journal that is locked by this process.
#[derive(Debug)]
pub(super) struct Writing {
    /// Locked while it is open.
    file: File,
    path: PathBuf,
}

impl Writing {
    /// The locked file, for the git that works for this action and inherits the lock.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Removes the journal of a finished action. Under the lock, so that nobody waits for a file that is gone.
    pub(super) fn close(self, _: &Lock) -> Result<(), Refusal> {
        let gone = fs::remove_file(&self.path);
        drop(self.file);
        gone.map_err(|error| unwritten("cannot tidy up", &error))
    }
}

/// An interrupted action, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub journal: Journal,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The action had been completed.
    Finished,
    /// What was half made or half removed is gone.
    Gone,
    /// Somebody's work is there, so it stays as it is; with the reason.
    Kept(String),
}

impl std::fmt::Display for Settled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.journal.path.display();
        match &self.outcome {
            Outcome::Finished => write!(f, "{path}: it had been finished"),
            Outcome::Gone => write!(f, "{path}: what was left of it is gone, nothing was lost"),
            Outcome::Kept(why) => write!(f, "{path}: kept, {why}"),
        }
    }
}

impl Worktrees {
    /// The folder of the lock and the journals, in the common dir.
    fn folder(&self) -> PathBuf {
        self.common_dir().join("onus").join("worktrees")
    }

    pub fn lock(&self) -> Result<Lock, Refusal> {
        let what = "cannot lock the repository's worktrees";
        let file = self.open_lock().map_err(|error| unwritten(what, &error))?;
        let deadline = Instant::now() + self.patience;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock { file }),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
                Err(TryLockError::WouldBlock) => {
                    let message = format!(
                        "another process has been changing this repository's worktrees for {} s: it holds {}",
                        self.patience.as_secs(),
                        self.folder().join("lock").display()
                    );
                    return Err(
                        Refusal::new(Code::Busy, message).next(Step::plain("try again when it has finished"))
                    );
                }
                Err(TryLockError::Error(error)) => return Err(unwritten(what, &error)),
            }
        }
    }

    /// The lock file is never removed, so that all waiters wait for the same file.
    fn open_lock(&self) -> io::Result<File> {
        private_folder(&self.folder())?;
        private_file(&self.folder().join("lock"))
    }

    /// Writes a journal and locks it. None if another process has it locked.
    pub(super) fn begin(&self, _: &Lock, name: &str, journal: &Journal) -> Result<Option<Writing>, Refusal> {
        let what = "cannot write down what is about to be done";
        let path = self.folder().join(format!("{name}.json"));
        let write = || -> io::Result<Option<Writing>> {
            let file = private_file(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            file.set_len(0)?;
            (&file).write_all(serde_json::to_string(journal)?.as_bytes())?;
            file.sync_all()?;
            Ok(Some(Writing { file, path: path.clone() }))
        };
        write().map_err(|error| unwritten(what, &error))
    }

    /// All journals: those of live processes, and, with their lock, those that dead ones left.
    fn journals(&self, _: &Lock) -> Vec<(Journal, Option<Writing>)> {
        let entries = fs::read_dir(self.folder()).into_iter().flatten().flatten();
        let paths = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "json"));
        let found = paths.filter_map(|path| {
            let file = OpenOptions::new().read(true).write(true).open(&path).ok()?;
            let is_left = file.try_lock().is_ok();
            let text = read_itself(&path).ok()?;
            let journal = serde_json::from_str(&text).unwrap_or_default();
            Some((journal, is_left.then_some(Writing { file, path })))
        });
        found.collect()
    }

    /// The journal that a dead process left under this name.
    pub(super) fn left(&self, lock: &Lock, name: &str) -> Option<Journal> {
        let file = self.folder().join(format!("{name}.json"));
        let found = self
            .journals(lock)
            .into_iter()
            .find_map(|(journal, left)| left.filter(|it| it.path == file).map(|_| journal));
        found.filter(Journal::is_begun)
    }

    /// Whether a live process is making, entering or removing this worktree.
    pub(super) fn is_busy(&self, lock: &Lock, linked: &Linked) -> bool {
        self.journals(lock).iter().any(|(journal, left)| left.is_none() && journal.path == linked.path)
    }

    /// The interrupted actions that are not settled yet.
    pub fn interrupted(&self) -> Result<Vec<Journal>, Refusal> {
        if !self.folder().exists() {
            return Ok(Vec::new());
        }
        let lock = self.lock()?;
        let left = self.journals(&lock).into_iter().filter(|(_, left)| left.is_some());
        Ok(left.map(|(journal, _)| journal).collect())
    }

    /// Settles all interrupted actions. `is_recorded`: whether the store has this worktree's branch as that task's.
    pub fn settle(&self, is_recorded: &dyn Fn(&Journal) -> bool) -> Result<Vec<Settled>, Refusal> {
        self.settle_where(&|_| true, is_recorded)
    }

    /// Settles the interrupted actions that `concerns` selects.
    pub(super) fn settle_where(
        &self,
        concerns: &dyn Fn(&Journal) -> bool,
        is_recorded: &dyn Fn(&Journal) -> bool,
    ) -> Result<Vec<Settled>, Refusal> {
        if !self.folder().exists() {
            return Ok(Vec::new());
        }
        let lock = self.lock()?;
        let mut settled = Vec::new();
        for (journal, left) in self.journals(&lock) {
            let Some(left) = left.filter(|_| concerns(&journal)) else { continue };
            let outcome = match journal.action {
                _ if !journal.is_begun() => Outcome::Gone,
                Action::Scratch => {
                    self.scrap_scratch(&lock, &journal.path)?;
                    Outcome::Gone
                }
                Action::Making if is_recorded(&journal) => Outcome::Finished,
                Action::Entering => Outcome::Finished,
                Action::Making | Action::Removing => self.scrap(&lock, &journal)?,
            };
            left.close(&lock)?;
            if journal.is_begun() {
                settled.push(Settled { journal, outcome });
            }
        }
        self.tidy_scratch_folder(&lock);
        Ok(settled)
    }

    /// Removes what is half made or half removed, unless it contains something that no commit has.
    pub(super) fn scrap(&self, lock: &Lock, journal: &Journal) -> Result<Outcome, Refusal> {
        let what = "cannot look at the repository's worktrees";
        if let (Action::Removing, Some(aside)) = (journal.action, left_aside(&journal.path))
            && !put_back(&aside, &journal.path)
        {
            return Ok(Outcome::Kept(format!("what was there is at {}", aside.display())));
        }
        let all = self.list().map_err(|error| failed(what, &error))?;
        if let Some(linked) = all.iter().find(|linked| linked.path == journal.path && !linked.is_main) {
            if let Some(why) = self.has_been_used(linked, journal) {
                return Ok(Outcome::Kept(why));
            }
            self.delete(lock, linked, true)?;
        }
        if let (true, Some(branch), Some(commit)) = (journal.with_branch, &journal.branch, &journal.commit) {
            self.delete_branch(lock, branch, commit);
        }
        self.tidy_root(&journal.path);
        Ok(Outcome::Gone)
    }
}
