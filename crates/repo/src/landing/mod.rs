//! Landing, the git side: merges a branch into its target in memory, then moves the target in one step without undoing anybody's
//! work (P10).
//!
//! This module knows no store. Its caller passes in what it needs from the ledger (the intended commit), and decides by its seat
//! which of two landers may continue. The module's promises hold for any caller, and for any number of them at once.
//!
//! **The merge** ([`Lander::plan`], `merge.rs`) is a function of commits alone: git computes it without a checkout, by the target's own
//! attributes, with git's default settings and without any program that a configuration names.
//!
//! **Where a target is** ([`Tip`], `refs.rs`). Usually at `refs/heads/<target>`. While somebody has that branch checked out, it
//! must not move under them: their index would still be the old commit's, and their next commit would take back what landed.
//! In that case only `refs/onus/landed/<target>` moves, and each checkout is fast-forwarded on its own (`forward.rs`). The target is
//! the newer of the two references; if somebody committed to the branch meanwhile, it is the merge of both.
//!
//! **An intent** is `refs/onus/landing/<id>`, at the commit that is to land. The one transaction that moves the target also deletes the
//! intent at its exact value; settling deletes it, too. So of a lander and a settler exactly one succeeds, and a lander that
//! was stopped in between finds its intent gone and moves nothing.
//!
//! | window | what a kill leaves | what settling does |
//! | --- | --- | --- |
//! | before the intent | unreferenced objects | nothing: git collects them |
//! | intent written, target not moved | the intent | deletes it: withdrawn |
//! | target moved | nothing of ours | reports landed, since the target contains the intended commit |
//! | worktree and branch not removed | both, and a note of it (`tidying.rs`) | nothing; the next lander continues |
//! | checkout not brought forward | a checkout that is behind | nothing; [`Lander::bring_forward`] continues |
//! | scratch worktree in use | the worktree and its journal | [`Worktrees::remove_scratches`] removes both |
//!
//! **Races that git leaves open**, each as short as one call of git. If a branch is checked out between the check and the move, the
//! second check right after the move finds that, and what landed is kept at `refs/onus/landed/` instead. If a checkout switches to
//! another branch between the check and its fast-forward, that branch is fast-forwarded, if at all; nothing is lost.
//! `docs/design/landing.md` describes all of them.

mod behind;
mod commit;
mod forward;
mod history;
mod merge;
mod refs;
mod remote;
mod there;
mod tidying;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use onus_core::commit::CommitId;
use onus_core::quote::counted;

use crate::discover::Place;
use crate::files::MAX_BYTES;
use crate::git::{Call, GitError, Repository};
use crate::owner::Foreign;
use crate::worktrees::Worktrees;

pub use behind::Behind;
use commit::Signing;
pub use commit::{Plan, Planned, Style, Words};
pub use forward::{Checkout, Forward, Left};
pub use merge::{Conflict, Merge, Merged, Union};
pub use refs::{Intended, Moved, Part, Settled, Tip, Tips};
pub use remote::{Change, Fetched, Push};
pub use tidying::{Leftover, Tidying};

/// The first git with `--attr-source`, which makes the merge independent of checkouts.
const NEEDED: (u32, u32) = (2, 43);

/// Why an operation failed. Outcomes that a lander must expect are return values, not errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Git(#[from] GitError),
    /// The installed git is too old to merge without a checkout's attributes. Holds the version that it reports.
    #[error(
        "landing needs git {major}.{minor} or newer, and this is {0}: install a newer git",
        major = NEEDED.0, minor = NEEDED.1
    )]
    OldGit(String),
    #[error("there is no branch {0} with a commit on it")]
    NoBranch(String),
    /// Holds the lossy form of the name.
    #[error(
        "the name of branch {0} is not UTF-8 text, and onus lands only branches whose name is: rename it with git branch -m"
    )]
    NotText(String),
    #[error("there is no remote called {0}: git remote lists those that there are")]
    NoRemote(String),
    /// The branch is a symbolic reference.
    #[error("branch {0} is only another name of {1}: name that one")]
    Symbolic(String, String),
    #[error("git does not know who you are: set user.name and user.email (git config --global user.name …)")]
    NoIdentity,
    #[error("the branch has {}, so it cannot be replayed commit by commit: land it as a merge or a squash", counted(*.0, "merge commit"))]
    HasMerges(u64),
    /// It would take the target back.
    #[error("what is to land does not contain the target")]
    NotAhead,
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A file of a commit is refused, for this reason.
    #[error("{0}")]
    Unreadable(String),
}

/// Brings branches of one repository into their targets.
#[derive(Clone, Debug)]
pub struct Lander {
    repository: Repository,
    worktrees: Worktrees,
    answers: Arc<GitAnswers>,
}

/// Cached answers of git. A commit's tree never changes; the configuration is assumed unchanged until [`Lander::without_cache`].
#[derive(Debug, Default)]
struct GitAnswers {
    trees: Mutex<BTreeMap<CommitId, String>>,
    signing: OnceLock<Signing>,
}

impl Lander {
    /// None outside git.
    pub fn of(place: &Place) -> Result<Option<Lander>, Foreign> {
        Ok(Worktrees::of(place)?.as_ref().map(Lander::in_worktrees))
    }

    pub(crate) fn in_worktrees(worktrees: &Worktrees) -> Lander {
        Lander {
            repository: worktrees.repository().clone(),
            worktrees: worktrees.clone(),
            answers: Arc::default(),
        }
    }

    /// A lander without cached answers, which reads git's configuration again: gates may have run since, or hours have passed.
    pub fn without_cache(&self) -> Lander {
        Lander { answers: Arc::default(), ..self.clone() }
    }

    /// A lander that waits only briefly for other processes that change worktrees.
    pub fn with_short_wait(&self) -> Lander {
        Lander { worktrees: self.worktrees.with_short_wait(), ..self.clone() }
    }

    pub fn worktrees(&self) -> &Worktrees {
        &self.worktrees
    }

    fn git<'a>(&self) -> Call<'a> {
        self.repository.call()
    }

    /// The commit that a name (`refs/heads/x`, a hash) resolves to, if any.
    pub fn commit_of(&self, name: &str) -> Option<CommitId> {
        self.repository.resolve(&format!("{name}^{{commit}}"))?.parse().ok()
    }

    pub fn tree_of(&self, commit: &CommitId) -> Result<String, Error> {
        let trees = || self.answers.trees.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tree) = trees().get(commit) {
            return Ok(tree.clone());
        }
        let tree = self.repository.resolve(&format!("{commit}^{{tree}}"));
        let tree = tree.ok_or_else(|| GitError(format!("{commit} is not a commit here")))?;
        trees().insert(commit.clone(), tree.clone());
        Ok(tree)
    }

    /// Caches the tree of a commit that was just made.
    fn remember_tree(&self, commit: &CommitId, tree: &str) {
        let mut trees = self.answers.trees.lock().unwrap_or_else(PoisonError::into_inner);
        trees.insert(commit.clone(), tree.to_owned());
    }

    /// Whether `other` is an ancestor of `commit`, or the same.
    pub fn contains(&self, commit: &CommitId, other: &CommitId) -> Result<bool, Error> {
        if commit == other {
            return Ok(true);
        }
        let call = self.git().words(&["merge-base", "--is-ancestor", other.as_str(), commit.as_str()]);
        let outcome = call.outcome()?;
        match outcome.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(Error::Git(GitError(outcome.err))),
        }
    }

    /// Whether the commits of `branch` are in `target`, themselves or by content: also after a squash or a rebase elsewhere, but
    /// not if that was reverted since.
    pub fn is_landed(&self, branch: &CommitId, target: &CommitId) -> Result<bool, Error> {
        Ok(self.contains(target, branch)? || self.is_contained_now(branch, target))
    }

    /// Reads a small text file from a commit; None if the commit has no such file. A link is refused, since the content binds others.
    pub fn file_at(&self, commit: &CommitId, path: &str) -> Result<Option<String>, Error> {
        let unreadable = |why: &str| Err(Error::Unreadable(format!("{path}: {why}")));
        let words = ["ls-tree", "-z", "-l", "--full-tree", commit.as_str(), "--"];
        let listed = self.git().words(&words).word(path).run()?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        // `MODE TYPE OBJECT SIZE<tab>PATH<nul>`
        let entry =
            listed.split('\0').find_map(|entry| entry.split_once('\t').filter(|(_, name)| *name == path));
        let Some((facts, _)) = entry else { return Ok(None) };
        let facts: Vec<&str> = facts.split_whitespace().collect();
        let ["100644" | "100755", "blob", object, size] = facts.as_slice() else {
            return unreadable("it is not a regular file");
        };
        if size.parse::<u64>().map_or(true, |size| size > MAX_BYTES) {
            return unreadable(&format!("it is larger than {} KiB", MAX_BYTES / 1024));
        }
        let bytes = self.git().words(&["cat-file", "blob", object]).run()?;
        String::from_utf8(bytes).map(Some).or_else(|_| unreadable("it is not UTF-8 text"))
    }

    /// Refuses a git that cannot land.
    pub fn check_git(&self) -> Result<(), Error> {
        static FOUND: OnceLock<String> = OnceLock::new();
        let found = match FOUND.get() {
            Some(found) => found,
            None => {
                let found = self.git().words(&["version"]).line()?;
                FOUND.get_or_init(|| found)
            }
        };
        if is_new_enough(found) { Ok(()) } else { Err(Error::OldGit(found.clone())) }
    }

    /// The folder of onus's own files.
    fn own_folder(&self) -> std::path::PathBuf {
        self.repository.common_dir().join("onus")
    }
}

/// The error for a branch that was not found: it does not exist, or its name is not UTF-8.
pub fn no_branch(name: &str) -> Error {
    match name.contains(char::REPLACEMENT_CHARACTER) {
        true => Error::NotText(name.to_owned()),
        false => Error::NoBranch(name.to_owned()),
    }
}

/// `git version 2.43.0.rc1 (Apple Git-1)`
fn is_new_enough(version: &str) -> bool {
    let numbers = version.split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let mut numbers = numbers.unwrap_or_default().split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= NEEDED
}

/// A path from git as text, lossily.
fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_git_is_told_from_a_new_one() {
        for new in [
            "git version 2.43.0",
            "git version 2.47.3",
            "git version 3.0.1",
            "git version 2.43.0.rc1 (Apple)",
        ] {
            assert!(is_new_enough(new), "{new}");
        }
        for old in ["git version 2.42.4", "git version 1.99.0", "git version 2.5", "", "git"] {
            assert!(!is_new_enough(old), "{old}");
        }
    }
}
