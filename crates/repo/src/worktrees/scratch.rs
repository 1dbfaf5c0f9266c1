//! Scratch worktrees: a checkout of a commit that gates are run in, which is nobody's and goes away afterwards.
//!
//! Each has a journal that is locked as long as it is in use, like a worktree that is being made; one whose journal nobody has locked was left by
//! somebody who died, and goes with all that is in it: no work is ever done there. They lie in a private folder beside tasks'
//! worktrees, are called by a name that no task has, and are not listed with them.
//!
//! **What it costs.** Only git's record of it is made under the repository's lock; files are written, and deleted, without. A second commit is
//! checked out in the same one by what differs ([`Scratch::move_to`]), and ignored files (what a build made) stay. Submodules are not
//! populated.

use std::fs::{self, DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use onus_core::refusal::Refusal;

use super::journal::{Action, Journal, Lock, Writing};
use super::{CHECKOUT_LIMIT, Info, Linked, Worktrees, failed, refuse, unwritten};
use crate::git::Call;

/// The folder that they are in, below that of tasks' worktrees.
const FOLDER: &str = ".scratch";

/// What they are called: no task's worktree begins with a dot.
const PREFIX: &str = ".scratch-";

/// How long, and how often, one that cannot be taken away is tried again.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// So many may be in use at once.
const MOST: usize = 1_000;

/// A scratch worktree in use. Dropped, it goes away.
#[derive(Debug)]
pub struct Scratch {
    worktrees: Worktrees,
    linked: Linked,
    /// None: it is gone.
    writing: Option<Writing>,
    /// The folder itself, whatever lies at its path later: what runs there may put a link in its place.
    folder: (u64, u64),
    /// What is checked out there.
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

    /// Checks a commit out. What was changed or added is gone; ignored files, which are what a build made, stay if it is the commit that was
    /// there already. What ran there on another decides nothing of what is there next: the index, with every mark on a file, is rebuilt.
    pub fn move_to(&self, commit: &str) -> Result<(), Refusal> {
        self.check_folder()?;
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let clean = if at.take().as_deref() == Some(commit) { "-ffdq" } else { "-ffdxq" };
        for own in ["index", "config.worktree", "info/sparse-checkout"] {
            match fs::remove_file(self.linked.git_dir.join(own)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(unwritten("cannot check out what is to be checked", &error));
                }
                _ => {}
            }
        }
        let run = |words: &[&str]| {
            let call = self.call().words(&["-c", "checkout.workers=0", "-c", "submodule.recurse=false"]);
            let call = call.words(&["-c", "core.sparseCheckout=false"]);
            let ran = call.words(words).limit(CHECKOUT_LIMIT).run();
            ran.map(drop).map_err(|error| failed("cannot check out what is to be checked", &error))
        };
        run(&["reset", "--hard", "--quiet"])?;
        run(&["clean", clean])?;
        run(&["checkout", "--detach", "--force", "--quiet", commit])?;
        *at = Some(commit.to_owned());
        Ok(())
    }

    /// Takes it away.
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
        // Its files first, for which nobody has to wait.
        let what = "cannot remove a scratch worktree";
        empty(&self.linked.path).map_err(|error| unwritten(what, &error))?;
        let lock = self.worktrees.lock()?;
        self.worktrees.scrap_scratch(&lock, &self.linked.path)?;
        writing.close(&lock).map_err(|error| unwritten("cannot tidy up", &error))
    }

    fn call(&self) -> Call<'static> {
        Call::in_worktree(&self.linked.path, &self.linked.git_dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is found by its journal.
        drop(self.take_away());
    }
}

/// Which folder it is; None: it is none, or only a link to one.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let there = fs::symlink_metadata(path).ok()?;
    there.is_dir().then(|| (there.dev(), there.ino()))
}

/// Whether a worktree is one of these, by where it is.
pub(super) fn is_scratch(path: &Path) -> bool {
    let is = |path: Option<&Path>, begin: &str| {
        path.and_then(Path::file_name).is_some_and(|name| name.to_string_lossy().starts_with(begin))
    };
    is(Some(path), PREFIX) && path.parent().and_then(Path::file_name).is_some_and(|name| name == FOLDER)
}

impl Worktrees {
    /// A checkout of a commit, below `root`, the folder of tasks' worktrees.
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
                    writing.close(&lock).map_err(|error| unwritten("cannot tidy up", &error))?;
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
        let call = scratch.call().words(&["-c", "checkout.workers=0", "-c", "submodule.recurse=false"]);
        let files = call.words(&["reset", "--hard", "--quiet"]).limit(CHECKOUT_LIMIT).run();
        files.map_err(|error| failed("cannot check out what is to be checked", &error))?;
        Ok(scratch)
    }

    /// The first name that nobody has.
    fn free(&self, lock: &Lock, folder: &Path, commit: &str) -> Result<(PathBuf, Writing), Refusal> {
        for n in 0..MOST {
            let name = format!("{PREFIX}{n}");
            let path = folder.join(&name);
            let journal = Journal {
                action: Action::Scratch,
                path: path.clone(),
                task: None,
                id: None,
                branch: None,
                commit: Some(commit.to_owned()),
                with_branch: false,
            };
            if path.symlink_metadata().is_err()
                && let Some(writing) = self.begin(lock, &name, &journal)?
            {
                return Ok((path, writing));
            }
        }
        Err(refuse(format!("there are {MOST} scratch worktrees in {}", folder.display())))
    }

    /// Git knows of it, and nothing is in it.
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

    /// Takes one away that nobody uses, with all that is in it. The git of a process that was killed may still write there for a
    /// moment: what it wrote meanwhile goes, too.
    pub(super) fn scrap_scratch(&self, lock: &Lock, path: &Path) -> Result<(), Refusal> {
        let began = Instant::now();
        loop {
            match self.try_to_scrap(lock, path) {
                Err(_) if began.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                // A folder that was made again in its place, by its path.
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
        // A link in its place is not followed: what it leads to is somebody's.
        match path.is_symlink() {
            true => fs::remove_file(path).map_err(|error| unwritten(what, &error))?,
            false => empty(path).map_err(|error| unwritten(what, &error))?,
        }
        let all = self.list_all().map_err(|error| failed(what, &error))?;
        match all.iter().find(|linked| linked.path == path) {
            Some(linked) => self.delete(lock, linked, true)?,
            // Git has not got as far as to know of it.
            None => match fs::remove_dir_all(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritten(what, &error)),
                _ => {}
            },
        }
        if let Some(folder) = path.parent() {
            // One that is not empty stays.
            let _ = fs::remove_dir(folder);
            self.tidy_root(folder);
        }
        Ok(())
    }

    /// The folder of scratch worktrees beside the repository, if none is in it. Whoever makes one does so under the lock.
    pub(super) fn tidy_scratch_folder(&self, _: &Lock) {
        let Some(repository) = self.common_dir().parent() else { return };
        let mut root = repository.as_os_str().to_owned();
        root.push(".onus");
        let folder = Path::new(&root).join(FOLDER);
        // One that is not empty stays, and so does the root.
        let _ = fs::remove_dir(&folder);
        self.tidy_root(&folder);
    }

    /// Takes away what killed processes left. Says how many there were.
    pub fn remove_scratches(&self) -> Result<usize, Refusal> {
        let settled = self.settle_where(&|journal| journal.action == Action::Scratch, &|_| false)?;
        Ok(settled.len())
    }
}

/// Deletes what is in a scratch worktree, except what git knows it by.
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
                // A build may have made folders that nobody may write to.
                open_up(&entry.path());
                remove()?;
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn open_up(path: &Path) {
    if path.symlink_metadata().is_ok_and(|there| there.is_dir()) {
        // Where that does not help, removing says why.
        drop(fs::set_permissions(path, Permissions::from_mode(0o700)));
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            open_up(&entry.path());
        }
    }
}
