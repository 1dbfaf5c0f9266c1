//! Scratch worktrees: a checkout of a commit for gates to run in, which belongs to no task and is removed afterwards.
//!
//! Each has a journal that is locked while it is in use, like a worktree that is being made. One whose journal is unlocked was left
//! by a process that died, and is removed with all its content: no work is ever done there. They are in a private folder beside
//! tasks' worktrees, under names that no task has, and are not listed with them.
//!
//! **Cost.** Only git's record of it is made under the repository's lock; its files are written and deleted without the lock. Another
//! commit is checked out in the same one, so that only what differs is written ([`Scratch::move_to`]). Submodules are not populated.

use std::fs::{self, DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use onus_core::refusal::Refusal;

use super::journal::{Action, Journal, Lock, Writing};
use super::{CHECKOUT_LIMIT, Info, Linked, Worktrees, failed, refuse, unwritten};
use crate::files::if_there;
use crate::git::{Call, GitError};

/// Their folder, below that of tasks' worktrees.
const FOLDER: &str = ".scratch";

/// The prefix of their names: no task's worktree begins with a dot.
const PREFIX: &str = ".scratch-";

/// How long and how often a failing removal is retried.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// The most that may be in use at once.
const MOST: usize = 1_000;

/// A scratch worktree in use. Dropping it removes it.
#[derive(Debug)]
pub struct Scratch {
    worktrees: Worktrees,
    linked: Linked,
    /// None once it is removed.
    writing: Option<Writing>,
    /// Device and inode of the folder that was made: a command that runs there may replace it by a link.
    folder: (u64, u64),
    /// The commit that is checked out.
    at: Mutex<Option<String>>,
}

impl Scratch {
    pub fn path(&self) -> &Path {
        &self.linked.path
    }

    /// Its own git directory.
    pub fn git_dir(&self) -> &Path {
        &self.linked.git_dir
    }

    /// Checks out a commit, and discards what was changed or added. Ignored files, which are build outputs, stay only if that commit was
    /// checked out already. A command that ran on another commit has no influence: the index, with its flags, is rebuilt.
    pub fn move_to(&self, commit: &str) -> Result<(), Refusal> {
        self.check_folder()?;
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let clean = if at.take().as_deref() == Some(commit) { "-ffdq" } else { "-ffdxq" };
        for own in ["index", "config.worktree", "info/sparse-checkout"] {
            if_there(fs::remove_file(self.linked.git_dir.join(own)))
                .map_err(|error| unwritten("cannot check out what is to be checked", &error))?;
        }
        let run = |words: &[&str]| {
            let call = self.call()?.words(&["-c", "checkout.workers=0", "-c", "submodule.recurse=false"]);
            call.words(&["-c", "core.sparseCheckout=false"])
                .words(words)
                .limit(CHECKOUT_LIMIT)
                .run()
                .map(drop)
        };
        run(&["reset", "--hard", "--quiet"])
            .and_then(|()| run(&["clean", clean]))
            .and_then(|()| run(&["checkout", "--detach", "--force", "--quiet", commit]))
            .map_err(|error| failed("cannot check out what is to be checked", &error))?;
        *at = Some(commit.to_owned());
        Ok(())
    }

    /// Removes it.
    pub fn remove(mut self) -> Result<(), Refusal> {
        self.take_away()
    }

    /// Refuses to work in anything but the folder that was made.
    fn check_folder(&self) -> Result<(), Refusal> {
        match identity(&self.linked.path) {
            Some(folder) if folder == self.folder => Ok(()),
            _ => Err(refuse(format!(
                "{} was replaced while gates ran there: nothing there is touched",
                self.linked.path.display()
            ))),
        }
    }

    fn take_away(&mut self) -> Result<(), Refusal> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        self.check_folder()?;
        // Its files first, before the lock is taken, so that nobody has to wait.
        let what = "cannot remove a scratch worktree";
        empty(&self.linked.path).map_err(|error| unwritten(what, &error))?;
        let lock = self.worktrees.lock()?;
        self.worktrees.scrap_scratch(&lock, &self.linked.path)?;
        writing.close(&lock)
    }

    /// A git that works there. It inherits the lock on the journal: should this process be killed, others leave the worktree alone until
    /// git has ended, too.
    fn call(&self) -> Result<Call<'static>, GitError> {
        let call = Call::in_worktree(&self.linked.path, &self.linked.git_dir);
        match &self.writing {
            Some(writing) => call.holding(writing.file()),
            None => Ok(call),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If this fails, its journal tells others to remove it.
        drop(self.take_away());
    }
}

/// Device and inode of a folder; None if it is not one, or only a link to one.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let there = fs::symlink_metadata(path).ok()?;
    there.is_dir().then(|| (there.dev(), there.ino()))
}

/// Whether a path is that of a scratch worktree.
pub(super) fn is_scratch(path: &Path) -> bool {
    let is = |path: Option<&Path>, begin: &str| {
        path.and_then(Path::file_name).is_some_and(|name| name.to_string_lossy().starts_with(begin))
    };
    is(Some(path), PREFIX) && path.parent().and_then(Path::file_name).is_some_and(|name| name == FOLDER)
}

impl Worktrees {
    /// Makes a checkout of a commit, below `root`, the folder of tasks' worktrees.
    pub fn scratch(&self, root: &Path, commit: &str) -> Result<Scratch, Refusal> {
        let folder = root.join(FOLDER);
        let what = "cannot make a scratch worktree";
        let (linked, writing) = {
            let lock = self.lock()?;
            super::make::make_root(root)?;
            match DirBuilder::new().mode(0o700).create(&folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(unwritten(what, &error));
                }
                _ => {}
            }
            let (path, writing) = self.free(&lock, &folder, commit)?;
            match self.record(&lock, &path, commit) {
                Ok(linked) => (linked, writing),
                Err(refusal) => {
                    drop(self.scrap_scratch(&lock, &path));
                    writing.close(&lock)?;
                    return Err(refusal);
                }
            }
        };
        let own = identity(&linked.path).ok_or_else(|| refuse("a scratch worktree vanished"))?;
        let scratch = Scratch {
            worktrees: self.clone(),
            linked,
            writing: Some(writing),
            folder: own,
            at: Mutex::new(Some(commit.to_owned())),
        };
        let check_out = || -> Result<Vec<u8>, GitError> {
            let call = scratch.call()?.words(&["-c", "checkout.workers=0", "-c", "submodule.recurse=false"]);
            call.words(&["reset", "--hard", "--quiet"]).limit(CHECKOUT_LIMIT).run()
        };
        check_out().map_err(|error| failed("cannot check out what is to be checked", &error))?;
        Ok(scratch)
    }

    /// Reserves the first free name.
    fn free(&self, lock: &Lock, folder: &Path, commit: &str) -> Result<(PathBuf, Writing), Refusal> {
        for n in 0..MOST {
            let name = format!("{PREFIX}{n}");
            let path = folder.join(&name);
            let journal = Journal {
                action: Action::Scratch,
                path: path.clone(),
                commit: Some(commit.to_owned()),
                ..Journal::default()
            };
            if path.symlink_metadata().is_err()
                && let Some(writing) = self.begin(lock, &name, &journal)?
            {
                return Ok((path, writing));
            }
        }
        Err(refuse(format!("there are {MOST} scratch worktrees in {}", folder.display())))
    }

    /// Registers it with git, without checking files out.
    fn record(&self, lock: &Lock, path: &Path, commit: &str) -> Result<Linked, Refusal> {
        let what = "git could not make a scratch worktree";
        let call = self.git().holding(lock.file()).map_err(|error| failed(what, &error))?;
        let call = call.words(&["-c", "worktree.useRelativePaths=false", "worktree", "add", "--quiet"]);
        let call = call.words(&["--detach", "--no-checkout", "--end-of-options"]).word(path).word(commit);
        call.run().map_err(|error| failed(what, &error))?;
        let all = self.list_all().map_err(|error| failed(what, &error))?;
        let linked = all.into_iter().find(|linked| linked.path == path);
        let linked = linked.ok_or_else(|| refuse("git made no worktree, and did not say why"))?;
        let info = Info { made: true, ready: true, ..Info::default() };
        info.write(&linked.git_dir).map_err(|error| unwritten(what, &error))?;
        Ok(linked)
    }

    /// Removes one that nobody uses, with all its content. What a gate of a killed process still writes
    /// there meanwhile is removed, too.
    pub(super) fn scrap_scratch(&self, lock: &Lock, path: &Path) -> Result<(), Refusal> {
        let began = Instant::now();
        loop {
            match self.try_to_scrap(lock, path) {
                Err(_) if began.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                // Something created the folder again meanwhile.
                Ok(()) if path.exists() && began.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                outcome => return outcome,
            }
        }
    }

    fn try_to_scrap(&self, lock: &Lock, path: &Path) -> Result<(), Refusal> {
        let what = "cannot remove a scratch worktree";
        if !is_scratch(path) {
            return Err(refuse(format!("{} is not a scratch worktree", path.display())));
        }
        // A link in its place is not followed: it may lead to somebody's work.
        match path.is_symlink() {
            true => fs::remove_file(path).map_err(|error| unwritten(what, &error))?,
            false => empty(path).map_err(|error| unwritten(what, &error))?,
        }
        let all = self.list_all().map_err(|error| failed(what, &error))?;
        match all.iter().find(|linked| linked.path == path) {
            Some(linked) => self.delete(lock, linked, true)?,
            // It was never registered with git.
            None => if_there(fs::remove_dir_all(path)).map_err(|error| unwritten(what, &error))?,
        }
        if let Some(folder) = path.parent() {
            // Fails if it is not empty.
            let _ = fs::remove_dir(folder);
            self.tidy_root(folder);
        }
        Ok(())
    }

    /// Removes the folder of scratch worktrees beside the repository, if it is empty. They are only made under the lock.
    pub(super) fn tidy_scratch_folder(&self, _: &Lock) {
        let Some(repository) = self.common_dir().parent() else { return };
        let mut root = repository.as_os_str().to_owned();
        root.push(".onus");
        let folder = Path::new(&root).join(FOLDER);
        // Each fails if it is not empty.
        let _ = fs::remove_dir(&folder);
        self.tidy_root(&folder);
    }

    /// Removes the scratch worktrees that killed processes left. Returns how many there were.
    pub fn remove_scratches(&self) -> Result<usize, Refusal> {
        let settled = self.settle_where(&|journal| journal.action == Action::Scratch, &|_| false)?;
        Ok(settled.len())
    }
}

/// Deletes the content of a scratch worktree, except its `.git`.
fn empty(folder: &Path) -> std::io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name() == ".git" {
            continue;
        }
        let remove = || match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path()),
            false => fs::remove_file(entry.path()),
        };
        match remove() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                // A build may have made read-only folders.
                open_up(&entry.path());
                remove()?;
            }
            removed => if_there(removed)?,
        }
    }
    Ok(())
}

fn open_up(path: &Path) {
    if path.symlink_metadata().is_ok_and(|there| there.is_dir()) {
        // If that does not help, removing reports why.
        drop(fs::set_permissions(path, Permissions::from_mode(0o700)));
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            open_up(&entry.path());
        }
    }
}
