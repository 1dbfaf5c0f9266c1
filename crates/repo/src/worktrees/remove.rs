//! Removes worktrees, and repairs git's record of those that were moved.

use std::fs;
use std::path::{Path, PathBuf};

use onus_core::refusal::{Refusal, Step};

use super::journal::{Action, Journal, Lock};
use super::{CHECKOUT_LIMIT, Linked, Target, Worktrees, failed, refuse, same, unwritten};
use crate::files::{if_there, read_small};

/// A worktree that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    pub path: PathBuf,
    pub branch: Option<String>,
    /// Whether its branch was deleted, too: onus had made it, and another branch has all its commits.
    pub with_branch: bool,
    /// Ignored files and folders that were deleted with it.
    pub ignored: usize,
    /// The first of them.
    pub ignored_names: Vec<PathBuf>,
}

impl Worktrees {
    /// Removes a worktree, if nothing is lost by it. `holder`: returns the live holder that works there, if any.
    pub fn remove(
        &self,
        path: &Path,
        target: Option<&Target>,
        holder: &dyn Fn(&Linked) -> Result<Option<String>, Refusal>,
    ) -> Result<Removed, Refusal> {
        let lock = self.lock()?;
        let (linked, keeping) = self.removable(&lock, path, target, holder)?;
        let Keeping { ignored, ignored_names, .. } = keeping;
        let tip = linked.head.clone();
        let is_ours =
            linked.is_made() && linked.branch.as_ref().is_some_and(|name| name.starts_with("onus/"));
        let with_branch = is_ours
            && tip.as_ref().is_some_and(|tip| {
                let in_target = target.is_some_and(|target| self.contains(&target.commit, tip));
                in_target || self.only_here(tip, linked.branch.as_deref()) == 0
            });
        let journal = Journal {
            action: Action::Removing,
            path: linked.path.clone(),
            task: None,
            id: linked.info.as_ref().and_then(|info| info.id.clone()),
            branch: linked.branch.clone(),
            commit: tip,
            with_branch,
        };
        let name =
            linked.git_dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(writing) = self.begin(&lock, &name, &journal)? else {
            return Err(refuse(format!("another process is busy with {} now", linked.path.display())));
        };
        // On an error the journal stays, and settling it continues.
        if let Some(kept) = self.take_aside(&linked, target, holder)? {
            writing.close(&lock)?;
            return Err(kept);
        }
        self.delete(&lock, &linked, false)?;
        if let (true, Some(branch), Some(commit)) = (with_branch, &journal.branch, &journal.commit) {
            self.delete_branch(&lock, branch, commit);
        }
        self.tidy_root(&linked.path);
        writing.close(&lock)?;
        Ok(Removed { path: linked.path, branch: linked.branch, with_branch, ignored, ignored_names })
    }

    /// Deletes the folder of a worktree that may be removed. Deleting takes time, in which somebody may save a file: so the folder is
    /// first renamed, where nobody finds it by its name, and examined once more. If something was saved there, it is renamed back,
    /// and the refusal says why.
    fn take_aside(
        &self,
        linked: &Linked,
        target: Option<&Target>,
        holder: &dyn Fn(&Linked) -> Result<Option<String>, Refusal>,
    ) -> Result<Option<Refusal>, Refusal> {
        let what = format!("cannot remove {}", linked.path.display());
        let aside = aside(&linked.path);
        if fs::symlink_metadata(&aside).is_ok() {
            return Ok(Some(refuse(format!("{what}: {} is in the way", aside.display()))));
        }
        fs::rename(&linked.path, &aside).map_err(|error| unwritten(&what, &error))?;
        let back = |kept: Refusal| match put_back(&aside, &linked.path) {
            true => kept,
            false => Refusal { message: format!("{}; it is at {}", kept.message, aside.display()), ..kept },
        };
        let looked = || -> Result<Reasons, Refusal> {
            let all = self.list().map_err(|error| failed("cannot list worktrees", &error))?;
            let again = all.into_iter().find(|it| it.git_dir == linked.git_dir);
            let again = again.ok_or_else(|| refuse(format!("{what}: git has forgotten it meanwhile")))?;
            let again = Linked { path: aside.clone(), is_missing: false, ..again };
            let work = self.state(&again, target)?.reasons(again.branch.as_deref());
            let mut reasons = Reasons::default();
            reasons.of_work(&linked.path, work);
            reasons.of_holder(holder(linked)?);
            Ok(reasons)
        };
        match looked() {
            Ok(reasons) if reasons.why.is_empty() => {}
            Ok(reasons) => return Ok(Some(back(reasons.refusal(&linked.path)))),
            Err(refusal) => return Ok(Some(back(refusal))),
        }
        clear(&aside).map_err(|error| {
            // The rest is visible where it was.
            put_back(&aside, &linked.path);
            unwritten(&what, &error)
        })?;
        Ok(None)
    }

    /// Whether [`Worktrees::remove`] would remove it now; if not, why.
    pub fn may_go(
        &self,
        path: &Path,
        target: Option<&Target>,
        holder: &dyn Fn(&Linked) -> Result<Option<String>, Refusal>,
    ) -> Result<(), Refusal> {
        self.removable(&self.lock()?, path, target, holder).map(drop)
    }

    /// Returns a worktree that may be removed, and what would be deleted with it; else refuses.
    fn removable(
        &self,
        lock: &Lock,
        path: &Path,
        target: Option<&Target>,
        holder: &dyn Fn(&Linked) -> Result<Option<String>, Refusal>,
    ) -> Result<(Linked, Keeping), Refusal> {
        let all = self.list().map_err(|error| failed("cannot list worktrees", &error))?;
        let linked = all.into_iter().find(|linked| linked.path == path);
        let linked = linked
            .ok_or_else(|| refuse(format!("{} is not a worktree of this repository", path.display())))?;
        if linked.is_missing {
            return Err(missing(&linked));
        }
        let state = self.why_kept(lock, &linked, target, holder)?;
        if !state.reasons.why.is_empty() {
            return Err(state.reasons.refusal(&linked.path));
        }
        Ok((linked, state))
    }

    /// Finds out why a worktree may not be removed now.
    fn why_kept(
        &self,
        lock: &Lock,
        linked: &Linked,
        target: Option<&Target>,
        holder: &dyn Fn(&Linked) -> Result<Option<String>, Refusal>,
    ) -> Result<Keeping, Refusal> {
        let mut reasons = Reasons::default();
        if linked.is_main {
            reasons.add("it is the repository's main checkout".to_owned(), None);
            return Ok(Keeping { reasons, ignored: 0, ignored_names: Vec::new() });
        }
        if self.is_busy(lock, linked) {
            let next = Step::plain("try again when that process has ended");
            reasons.add("another process is busy with it now".to_owned(), Some(next));
        }
        if linked.path.is_symlink() {
            let next = Step::RepairWorktrees;
            reasons.add("it was moved, and a link is in its place".to_owned(), Some(next));
        }
        if let Some(why) = &linked.locked {
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            let next = Step::plain("unlock it with git worktree unlock, if it need not be kept");
            reasons.add(format!("it is locked{why}"), Some(next));
        }
        reasons.of_holder(holder(linked)?);
        let state = self.state(linked, target)?;
        reasons.of_work(&linked.path, state.reasons(linked.branch.as_deref()));
        Ok(Keeping { reasons, ignored: state.ignored, ignored_names: state.ignored_names })
    }

    /// Has git remove the folder and its git directory. `broken`: only for what is half made or half removed, which git by itself refuses.
    pub(super) fn delete(&self, lock: &Lock, linked: &Linked, broken: bool) -> Result<(), Refusal> {
        let what = format!("git could not remove {}", linked.path.display());
        let call = self.git().holding(lock.file()).map_err(|error| failed(&what, &error))?;
        let call = call.words(&["worktree", "remove"]);
        let call = if broken { call.words(&["--force", "--force"]) } else { call };
        match call.words(&["--end-of-options"]).word(&linked.path).limit(CHECKOUT_LIMIT).run() {
            Ok(_) => Ok(()),
            // Too broken for git: do by hand what git would have done.
            Err(_) if broken && is_below_worktrees(self.common_dir(), &linked.git_dir) => {
                let gone = if_there(fs::remove_dir_all(&linked.path));
                let gone = gone.and_then(|()| if_there(fs::remove_dir_all(&linked.git_dir)));
                gone.map_err(|error| unwritten(&what, &error))
            }
            Err(error) => Err(failed(&what, &error)),
        }
    }

    /// Deletes a branch that nobody has checked out, if it is still at this commit. Its commits must be elsewhere, too.
    pub fn forget_branch(&self, branch: &str, commit: &str) {
        if let Ok(lock) = self.lock() {
            self.delete_branch(&lock, branch, commit);
        }
    }

    pub(super) fn delete_branch(&self, _: &Lock, branch: &str, commit: &str) {
        let is_out =
            self.list().map_or(true, |all| all.iter().any(|it| it.branch.as_deref() == Some(branch)));
        if !is_out {
            // A branch that moved meanwhile stays, as it should.
            let _ = self.git().words(&["update-ref", "-d", &format!("refs/heads/{branch}"), commit]).run();
        }
    }

    /// Removes the folder of all worktrees, if this was the last one.
    pub(super) fn tidy_root(&self, path: &Path) {
        if let Some(root) = path.parent().filter(|root| root.extension().is_some_and(|end| end == "onus")) {
            // Fails if it is not empty.
            let _ = fs::remove_dir(root);
        }
    }

    /// Compares a folder that somebody named with git's record of it.
    pub fn whereabouts(&self, folder: &Path) -> Whereabouts {
        let Ok(folder) = folder.canonicalize() else { return Whereabouts::Nowhere };
        match self.git_dir_at(&folder) {
            Some((there, _)) if there == folder => Whereabouts::InPlace,
            Some((there, _)) if was_moved(&there, &folder) => Whereabouts::Moved,
            Some(_) => Whereabouts::Copy,
            None => Whereabouts::Foreign,
        }
    }

    /// The worktree that this folder claims to be: its recorded path, and its git directory.
    fn git_dir_at(&self, folder: &Path) -> Option<(PathBuf, PathBuf)> {
        let text = read_small(&folder.join(".git")).ok()?;
        let git_dir = folder.join(text.trim_end().strip_prefix("gitdir: ")?);
        self.git_dirs().into_iter().find(|(_, known)| same(known, &git_dir))
    }

    /// The current folders of worktrees that were moved, searched for in `root` and at `named`.
    pub fn moved(&self, root: &Path, named: &[PathBuf]) -> Vec<PathBuf> {
        let below = fs::read_dir(root).into_iter().flatten().flatten().take(1_000).map(|entry| entry.path());
        let candidates = named.iter().cloned().chain(below);
        let found = candidates.filter_map(|folder| {
            let folder = folder.canonicalize().ok()?;
            let (there, _) = self.git_dir_at(&folder)?;
            was_moved(&there, &folder).then_some(folder)
        });
        let mut found: Vec<PathBuf> = found.collect();
        found.sort();
        found.dedup();
        found
    }

    /// Tells git the new places of worktrees that were moved.
    pub fn repair(&self, moved: &[PathBuf]) -> Result<(), Refusal> {
        let lock = self.lock()?;
        let call = self.git().holding(lock.file()).map_err(|error| failed("git could not repair", &error))?;
        let mut call = call.words(&["worktree", "repair", "--end-of-options"]);
        for path in moved {
            call = call.word(path);
        }
        call.run().map(drop).map_err(|error| failed("git could not repair its worktrees", &error))
    }
}

/// The path of a worktree while it is being removed.
fn aside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".removing-");
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

/// Renames a folder back, unless something is in its place. Returns whether it did.
pub(super) fn put_back(aside: &Path, path: &Path) -> bool {
    fs::symlink_metadata(path).is_err() && fs::rename(aside, path).is_ok()
}

/// Deletes a worktree's folder, its `.git` last, since that identifies it as a worktree.
fn clear(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            _ if entry.file_name() == ".git" => {}
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    fs::remove_dir_all(folder)
}

/// The folder of a worktree that a process renamed for removal before it died.
pub(super) fn left_aside(path: &Path) -> Option<PathBuf> {
    Some(aside(path)).filter(|aside| fs::symlink_metadata(aside).is_ok_and(|it| it.is_dir()))
}

/// Why a worktree is kept, and what can be done about it.
#[derive(Default)]
struct Reasons {
    why: Vec<String>,
    next: Vec<Step>,
}

impl Reasons {
    fn add(&mut self, why: String, next: Option<Step>) {
        self.why.push(why);
        self.next.extend(next);
    }

    fn of_holder(&mut self, holder: Option<String>) {
        if let Some(holder) = holder {
            let next = Step::plain(format!("wait until {holder} has finished or released the task"));
            self.add(format!("{holder} works there"), Some(next));
        }
    }

    /// Adds what would be lost with it.
    fn of_work(&mut self, path: &Path, work: Vec<String>) {
        if !work.is_empty() {
            let next = format!("commit and land what is in {}, or ask whoever left it", path.display());
            self.next.push(Step::plain(next));
        }
        self.why.extend(work);
    }

    fn refusal(self, path: &Path) -> Refusal {
        let refusal = refuse(format!("{} is kept: {}", path.display(), self.why.join("; ")));
        self.next.into_iter().fold(refusal, Refusal::next)
    }
}

struct Keeping {
    reasons: Reasons,
    ignored: usize,
    ignored_names: Vec<PathBuf>,
}

/// How a folder that somebody named relates to git's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// A worktree, where git has recorded it.
    InPlace,
    /// A worktree that git has recorded elsewhere.
    Moved,
    /// A copy of a worktree that is still in its place.
    Copy,
    /// Not a worktree of this repository.
    Foreign,
    /// It does not exist.
    Nowhere,
}

fn was_moved(there: &Path, folder: &Path) -> bool {
    *there != *folder && (!there.join(".git").exists() || same(there, folder))
}

/// The refusal to remove a worktree whose folder is missing: nobody knows what it contains.
pub(super) fn missing(linked: &Linked) -> Refusal {
    let place = linked.path.display();
    refuse(format!("{place} is kept: its folder is missing, and what is in it is not known"))
        .next(Step::RepairWorktrees)
        .next(Step::plain(
            "git worktree prune   # if it is really gone: git forgets it, and what it kept of it",
        ))
}

/// Whether this is a linked worktree's git directory: nothing else is ever deleted by hand.
fn is_below_worktrees(common_dir: &Path, git_dir: &Path) -> bool {
    git_dir.parent() == Some(&common_dir.join("worktrees"))
}
