//! Makes a task's worktree: all of it, or nothing.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use onus_core::refusal::{Refusal, Step};
use onus_core::task::TaskBranch;

use super::journal::{Action, Journal, LOOK_AGAIN, Lock, Outcome, PATIENCE, Writing};
use super::remove::missing;
use super::{CHECKOUT_LIMIT, Info, Linked, Target, Worktrees, failed, name_for, ports_of, refuse, unwritten};

/// A worktree to make, or to enter if the task has one.
#[derive(Clone, Debug)]
pub struct NewWorktree {
    /// The task's uid, id and title.
    pub task: String,
    pub id: String,
    pub title: String,
    /// The branch that the task has already.
    pub own: Option<TaskBranch>,
    /// The folder that worktrees are made in.
    pub root: PathBuf,
    /// The target branch, as configured.
    pub target: Option<String>,
    /// Whether to fetch the target from the server first.
    pub fetch: bool,
    /// The user's state folder, for ports.
    pub state: Option<PathBuf>,
}

/// A worktree that the store has not recorded yet. If it is dropped, it counts as interrupted.
#[derive(Debug)]
pub struct Making {
    worktrees: Worktrees,
    journal: Journal,
    writing: Writing,
    pub linked: Linked,
    pub info: Info,
    /// Whether it was made now; otherwise it existed.
    pub is_new: bool,
    /// The number of files with uncommitted changes, in one that existed.
    pub uncommitted: usize,
    pub remarks: Vec<String>,
}

impl Making {
    pub fn path(&self) -> &Path {
        &self.linked.path
    }

    /// Copies the files that `.worktreeinclude` names, and reserves ports.
    pub fn equip(&mut self, state: Option<&Path>) -> Result<(), Refusal> {
        let copied = self.worktrees.include(&self.linked.path)?;
        if copied.files > 0 {
            self.remarks.push(format!(
                "copied {} as .worktreeinclude says",
                super::look::counted(copied.files as u64, "file")
            ));
        }
        self.remarks.extend(copied.remarks);
        let ports = state.map(|state| ports_of(state, &self.linked.git_dir));
        match ports {
            Some(Ok(Some(base))) => self.info.port_base = Some(base),
            Some(Ok(None)) => {
                self.remarks.push("it has no ports of its own: all ranges are taken".to_owned())
            }
            Some(Err(error)) => self.remarks.push(format!("it has no ports of its own: {error}")),
            None => self.remarks.push("it has no ports of its own: there is no home folder".to_owned()),
        }
        Ok(())
    }

    /// Records that its set-up has run.
    pub fn is_ready(&mut self) -> Result<(), Refusal> {
        self.info.ready = true;
        let what = "cannot write to the worktree's git directory";
        self.info.write(&self.linked.git_dir).map_err(|error| unwritten(what, &error))
    }

    /// Closes the journal, once the store has recorded the worktree.
    pub fn finish(self) -> Result<(), Refusal> {
        let lock = self.worktrees.lock()?;
        self.writing.close(&lock)
    }

    /// Removes what was made. Returns what was kept nevertheless.
    pub fn undo(self) -> Option<String> {
        let undo = || -> Result<Option<String>, Refusal> {
            let lock = self.worktrees.lock()?;
            let kept = match self.is_new {
                true => match self.worktrees.scrap(&lock, &self.journal)? {
                    Outcome::Kept(why) => Some(format!("{} stays: {why}", self.journal.path.display())),
                    Outcome::Finished | Outcome::Gone => None,
                },
                false => None,
            };
            self.writing.close(&lock)?;
            Ok(kept)
        };
        undo().unwrap_or_else(|refusal| Some(refusal.message))
    }
}

impl Worktrees {
    /// Returns the worktree of a task: the one that has its branch checked out, or a new one.
    pub fn make(&self, new: &NewWorktree) -> Result<Making, Refusal> {
        // Before the lock is taken: this may use the network, and nobody should wait for that.
        let target = self.target(new.target.as_deref(), new.fetch)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(making) = self.try_make(new, &target)? {
                return Ok(making);
            }
            if Instant::now() >= deadline {
                let id = &new.id;
                return Err(refuse(format!(
                    "another process has been busy with the worktree of {id} for long"
                ))
                .task(id)
                .next(Step::plain("try again when it has finished")));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// None if another process is making or entering it now.
    fn try_make(&self, new: &NewWorktree, target: &Target) -> Result<Option<Making>, Refusal> {
        let lock = self.lock()?;
        let all = self.list().map_err(|error| failed("cannot list worktrees", &error))?;
        let name = name_for(&new.id, &new.title);
        let path = new.root.join(&name);
        // Another process of the same holder may have made it meanwhile, unknown to the caller.
        let meanwhile = all.iter().filter(|_| new.own.is_none()).find(|linked| {
            let info = linked.info.as_ref().filter(|info| info.made);
            let is_the_tasks = info.is_some_and(|info| info.task.as_ref() == Some(&new.task));
            let is_its_branch = info.is_some_and(|info| {
                info.own.as_ref().is_some_and(|own| Some(&own.branch) == linked.branch.as_ref())
            });
            linked.path == path && !linked.is_missing && is_the_tasks && is_its_branch
        });
        if let Some(linked) = meanwhile {
            if self.is_busy(&lock, linked) {
                return Ok(None);
            }
            if let Some(own) =
                linked.info.as_ref().filter(|info| info.ready).and_then(|info| info.own.clone())
            {
                return self.enter(&lock, new, &own, linked.clone());
            }
        }
        let own =
            new.own.as_ref().filter(|own| self.commit_of(&format!("refs/heads/{}", own.branch)).is_some());
        if let Some(own) = own
            && let Some(linked) = all.iter().find(|linked| linked.branch.as_ref() == Some(&own.branch))
        {
            match linked.is_missing {
                true => return Err(missing(linked)),
                false => return self.enter(&lock, new, own, linked.clone()),
            }
        }
        let made = own.cloned().unwrap_or_else(|| TaskBranch {
            branch: format!("onus/{name}"),
            base: target.commit.clone(),
            target: target.name.clone(),
        });
        let with_branch = own.is_none();
        let reference = format!("refs/heads/{}", made.branch);
        let commit = if with_branch { Some(target.commit.clone()) } else { self.commit_of(&reference) };
        let journal = Journal {
            action: Action::Making,
            path: path.clone(),
            task: Some(new.task.clone()),
            id: Some(new.id.clone()),
            branch: Some(made.branch.clone()),
            commit: commit.clone(),
            with_branch,
        };
        if let Some(left) = self.left(&lock, &name).filter(|left| left.action == Action::Making) {
            // A recorded one would have been found by its branch.
            self.scrap(&lock, &left)?;
        }
        self.check_free(&path, &made, with_branch)?;
        let Some(writing) = self.begin(&lock, &name, &journal)? else { return Ok(None) };
        let made = make_root(&new.root).and_then(|()| {
            let call =
                self.git().holding(lock.file()).map_err(|error| failed("cannot make a worktree", &error))?;
            let call = call.words(&["-c", "worktree.useRelativePaths=false", "worktree", "add", "--quiet"]);
            let call = match with_branch {
                true => call
                    .words(&["--no-track", "-b", &made.branch, "--end-of-options"])
                    .word(&path)
                    .word(&target.commit),
                false => call.words(&["--end-of-options"]).word(&path).word(&made.branch),
            };
            call.limit(CHECKOUT_LIMIT)
                .run()
                .map_err(|error| failed("git could not make the worktree", &error))?;
            let linked = self.at(&path).map_err(|error| failed("cannot look at the new worktree", &error))?;
            let linked = linked.filter(|linked| linked.path == path && !linked.is_main);
            let linked = linked.ok_or_else(|| refuse("git made no worktree, and did not say why"))?;
            let info = Info {
                made: true,
                task: Some(new.task.clone()),
                id: Some(new.id.clone()),
                own: Some(made.clone()),
                ..Info::default()
            };
            let what = "cannot write to the worktree's git directory";
            info.write(&linked.git_dir).map_err(|error| unwritten(what, &error))?;
            Ok((linked, info))
        });
        match made {
            Ok((linked, info)) => {
                let worktrees = self.clone();
                let remarks = target.remarks.clone();
                Ok(Some(Making {
                    worktrees,
                    journal,
                    writing,
                    linked,
                    info,
                    is_new: true,
                    uncommitted: 0,
                    remarks,
                }))
            }
            Err(refusal) => {
                // Nothing was there before, so all that is there now is ours.
                let _ = self.scrap(&lock, &journal);
                writing.close(&lock)?;
                Err(refusal)
            }
        }
    }

    /// Gives an existing worktree to another holder of the task.
    fn enter(
        &self,
        lock: &Lock,
        new: &NewWorktree,
        own: &TaskBranch,
        linked: Linked,
    ) -> Result<Option<Making>, Refusal> {
        let where_it_is = linked.path.display().to_string();
        let Some(mut info) = linked.info.clone().filter(|_| !linked.is_main) else {
            return Err(refuse(format!(
                "branch {} of {} is checked out in {where_it_is}",
                own.branch, new.id
            ))
            .task(&new.id)
            .next(Step::plain("check out another branch there, or go on there")));
        };
        let name =
            linked.git_dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let journal = Journal {
            action: Action::Entering,
            path: linked.path.clone(),
            task: Some(new.task.clone()),
            id: Some(new.id.clone()),
            branch: Some(own.branch.clone()),
            commit: linked.head.clone(),
            with_branch: false,
        };
        let Some(writing) = self.begin(lock, &name, &journal)? else { return Ok(None) };
        info.own = Some(own.clone());
        let state = self.state(&linked, None)?;
        let uncommitted = state.changed.len() + state.untracked.len();
        let mut remarks =
            vec![format!("the task's branch is already checked out in {where_it_is}: continue there")];
        if uncommitted > 0 {
            let files = super::look::counted(uncommitted as u64, "file");
            remarks.push(format!("{files} there with changes that nobody committed"));
        }
        Ok(Some(Making {
            worktrees: self.clone(),
            journal,
            writing,
            linked,
            info,
            is_new: false,
            uncommitted,
            remarks,
        }))
    }

    /// Refuses to reuse a path or a branch that exists.
    fn check_free(&self, path: &Path, made: &TaskBranch, with_branch: bool) -> Result<(), Refusal> {
        if path.symlink_metadata().is_ok() {
            return Err(refuse(format!("there is something at {} already", path.display()))
                .next(Step::plain("look at what is in it, and move it away if it has to stay")));
        }
        if !with_branch {
            return Ok(());
        }
        let exists = |name: &str| self.commit_of(&format!("refs/heads/{name}")).is_some();
        let above = made.branch.match_indices('/').map(|(at, _)| &made.branch[..at]);
        if let Some(name) = above.chain([made.branch.as_str()]).find(|name| exists(name)) {
            return Err(refuse(format!("there is a branch {name} already, and it is not this task's"))
                .next(Step::plain("rename it, or delete it if nobody needs it")));
        }
        Ok(())
    }
}

/// Creates the folder of all worktrees, which must belong to the user.
pub(super) fn make_root(root: &Path) -> Result<(), Refusal> {
    let what = || format!("cannot make {}", root.display());
    DirBuilder::new().recursive(true).create(root).map_err(|error| unwritten(&what(), &error))?;
    let there = fs::symlink_metadata(root).map_err(|error| unwritten(&what(), &error))?;
    match there.is_dir() && there.uid() == rustix::process::geteuid().as_raw() {
        true => Ok(()),
        false => Err(refuse(format!("{} is not a folder of yours", root.display()))),
    }
}
