//! Taking worktrees away, and setting right where git looks for them.

use std::fs;
use std::path::{Path, PathBuf};

use onus_core::refusal::{Refusal, Step};

use super::journal::{Action, Journal, Lock};
use super::{CHECKOUT_LIMIT, Linked, Target, Worktrees, failed, refuse, unwritten};
use crate::files::read_small;

/// A worktree that went away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    pub path: PathBuf,
    pub branch: Option<String>,
    /// Whether its branch went, too: it was ours, and everything in it is in another.
    pub with_branch: bool,
    /// Ignored files and folders that went with it.
    pub ignored: usize,
}

impl Worktrees {
    /// Takes a worktree away, if nothing is lost by it. `holder`: who lives and works there.
    pub fn remove(
        &self,
        path: &Path,
        target: Option<&Target>,
        holder: &dyn Fn(&Linked) -> Result<Option<String>, Refusal>,
    ) -> Result<Removed, Refusal> {
        let lock = self.lock()?;
        let all = self.list().map_err(|error| failed("cannot list worktrees", &error))?;
        let linked = all.into_iter().find(|linked| linked.path == path);
        let linked = linked
            .ok_or_else(|| refuse(format!("{} is not a worktree of this repository", path.display())))?;
        let state = self.why_kept(&lock, &linked, target, holder)?;
        if !state.reasons.is_empty() {
            let place = linked.path.display();
            return Err(refuse(format!("{place} is kept: {}", state.reasons.join("; ")))
                .next(Step::plain(format!("see to it in {place}, then remove it"))));
        }
        if linked.is_missing {
            self.forget_missing(&lock, &linked)?;
            return Ok(Removed { path: linked.path, branch: linked.branch, with_branch: false, ignored: 0 });
        }
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
        let gone = self.delete(&lock, &linked, false);
        if gone.is_ok()
            && let (true, Some(branch), Some(commit)) = (with_branch, &journal.branch, &journal.commit)
        {
            self.delete_branch(&lock, branch, commit);
        }
        self.tidy_root(&linked.path);
        writing.close(&lock).map_err(|error| unwritten("cannot tidy up", &error))?;
        gone?;
        Ok(Removed { path: linked.path, branch: linked.branch, with_branch, ignored: state.ignored })
    }

    /// Why a worktree may not go away now.
    fn why_kept(
        &self,
        lock: &Lock,
        linked: &Linked,
        target: Option<&Target>,
        holder: &dyn Fn(&Linked) -> Result<Option<String>, Refusal>,
    ) -> Result<Keeping, Refusal> {
        let mut reasons = Vec::new();
        if linked.is_main {
            reasons.push("it is the repository's main checkout".to_owned());
            return Ok(Keeping { reasons, ignored: 0 });
        }
        if self.is_busy(lock, linked) {
            reasons.push("another process is busy with it now".to_owned());
        }
        if let Some(why) = &linked.locked {
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            reasons.push(format!("it is locked{why}"));
        }
        if let Some(holder) = holder(linked)? {
            reasons.push(format!("{holder} works there"));
        }
        let state = self.state(linked, target)?;
        reasons.extend(state.reasons(linked.branch.as_deref()));
        Ok(Keeping { reasons, ignored: state.ignored })
    }

    /// Has git remove the folder and its git directory. `broken`: only what is half made or half removed, which git itself refuses.
    pub(super) fn delete(&self, lock: &Lock, linked: &Linked, broken: bool) -> Result<(), Refusal> {
        let what = format!("git could not remove {}", linked.path.display());
        let call = self.git().holding(lock.file()).map_err(|error| failed(&what, &error))?;
        let call = call.words(&["worktree", "remove"]);
        let call = if broken { call.words(&["--force", "--force"]) } else { call };
        match call.words(&["--end-of-options"]).word(&linked.path).limit(CHECKOUT_LIMIT).run() {
            Ok(_) => Ok(()),
            // So broken that git knows no way: what it would have done.
            Err(_) if broken && is_below_worktrees(self.common_dir(), &linked.git_dir) => {
                let gone = |path: &Path| match fs::remove_dir_all(path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        Err(unwritten(&what, &error))
                    }
                    _ => Ok(()),
                };
                gone(&linked.path)?;
                gone(&linked.git_dir)
            }
            Err(error) => Err(failed(&what, &error)),
        }
    }

    /// Deletes a branch that still is where it was, and that nobody has checked out.
    pub(super) fn delete_branch(&self, _: &Lock, branch: &str, commit: &str) {
        let is_out =
            self.list().map_or(true, |all| all.iter().any(|it| it.branch.as_deref() == Some(branch)));
        if !is_out {
            // If it moved meanwhile it stays, which is as well.
            let _ = self.git().words(&["update-ref", "-d", &format!("refs/heads/{branch}"), commit]).run();
        }
    }

    /// The folder of all of them, if this was the last.
    pub(super) fn tidy_root(&self, path: &Path) {
        if let Some(root) = path.parent().filter(|root| root.extension().is_some_and(|end| end == "onus")) {
            // One that is not empty stays.
            let _ = fs::remove_dir(root);
        }
    }

    /// Has git forget a worktree whose folder is gone, unless something is only in its index or on its detached HEAD.
    pub(super) fn forget_missing(&self, _: &Lock, linked: &Linked) -> Result<(), Refusal> {
        let place = linked.path.display();
        let state = self.state(linked, None)?;
        let is_detached = linked.branch.is_none() && state.unlanded > 0;
        if linked.locked.is_some() || is_detached || !state.changed.is_empty() || state.under_way.is_some() {
            return Err(refuse(format!(
                "the folder {place} is missing, and git still keeps something of it that is nowhere else"
            ))
            .next(Step::plain("if it was moved, say where it is; else bring it back")));
        }
        let what = format!("cannot forget {place}");
        match is_below_worktrees(self.common_dir(), &linked.git_dir) && !linked.path.join(".git").exists() {
            true => fs::remove_dir_all(&linked.git_dir).map_err(|error| unwritten(&what, &error)),
            false => Err(refuse(what)),
        }
    }

    /// Worktrees that were moved: where each is now. Looked for in `root`, and at `named`.
    pub fn moved(&self, root: &Path, named: &[PathBuf]) -> Vec<PathBuf> {
        let below = fs::read_dir(root).into_iter().flatten().flatten().take(1_000).map(|entry| entry.path());
        let known = self.git_dirs();
        let candidates = named.iter().cloned().chain(below);
        let found = candidates.filter_map(|folder| {
            let folder = folder.canonicalize().ok()?;
            let text = read_small(&folder.join(".git")).ok()?;
            let git_dir = PathBuf::from(text.trim_end().strip_prefix("gitdir: ")?);
            let (there, _) = known.iter().find(|(_, known)| same(known, &git_dir))?;
            (*there != folder && !there.join(".git").exists()).then_some(folder)
        });
        let mut found: Vec<PathBuf> = found.collect();
        found.sort();
        found.dedup();
        found
    }

    /// Tells git where worktrees are that were moved.
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

struct Keeping {
    reasons: Vec<String>,
    ignored: usize,
}

fn same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok().is_some_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Nothing else is ever deleted by hand.
fn is_below_worktrees(common_dir: &Path, git_dir: &Path) -> bool {
    git_dir.parent() == Some(&common_dir.join("worktrees"))
}
