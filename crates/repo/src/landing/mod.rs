//! Landing, the git side: a branch is brought into its target in memory, and the target moves in one step, undoing nobody (P10).
//!
//! This module knows no store. What it needs to be told (the intended commit, from the ledger) its caller passes in; which of two
//! landers may go on, the caller decides by its seat. What it promises holds whoever calls, and however many at once.
//!
//! **The merge** ([`Lander::plan`], `merge.rs`) is a function of commits alone: git computes it without a checkout, by the target's own
//! attributes, with git's default settings and without any program that a configuration names.
//!
//! **Where a target is** ([`Tip`], `refs.rs`). Usually that is `refs/heads/<target>`. While somebody has that branch checked out, it
//! must not move under them: their index would still be the old commit's, and their next commit would take back what landed.
//! Then only `refs/onus/landed/<target>` moves, and each checkout is brought forward by a fast-forward of its own (`forward.rs`). The target is the newer
//! of the two; if somebody committed to the branch meanwhile, it is both, merged.
//!
//! **An intent** is `refs/onus/landing/<id>`, at the commit that is to land. The one transaction that moves the target also deletes the
//! intent at its exact value; settling deletes it, too. So of a lander and a settler exactly one succeeds, and a lander that
//! was stopped in between finds its intent gone and moves nothing.
//!
//! | window | what a kill leaves | what settling does |
//! | --- | --- | --- |
//! | before the intent | objects that nothing refers to | nothing: git tidies them up |
//! | intent written, target not moved | the intent | deletes it: withdrawn |
//! | target moved | nothing of ours | says landed, since the target contains the intended commit |
//! | worktree and branch not taken away | both, and a note of it (`tidying.rs`) | nothing; whoever lands next goes on |
//! | checkout not brought forward | a checkout that is behind | nothing; [`Lander::bring_forward`] goes on |
//! | scratch worktree in use | the worktree and its journal | [`Lander::remove_leftovers`] takes both away |
//!
//! **Races that git leaves open**, each as small as one call of git. A branch that is checked out between the look and the move:
//! looked for again right after the move, which is then taken back to `refs/onus/landed/`. A checkout that switches to another branch between the
//! look and its fast-forward: that branch is fast-forwarded, if at all; nothing is lost. `docs/design/landing.md` tells all of them.

mod behind;
mod commit;
mod forward;
mod history;
mod merge;
mod refs;
mod remote;
mod scratch;
mod there;
mod tidying;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use onus_core::commit::CommitId;

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
pub use scratch::Scratch;
pub use tidying::{Leftover, Tidying};

/// `--attr-source`, which makes the merge independent of checkouts.
const NEEDED: (u32, u32) = (2, 43);

/// Why nothing could be said or done. Outcomes that a lander must expect are no errors, but answers.
#[derive(Debug)]
pub enum Error {
    Git(GitError),
    /// The installed git cannot merge without a checkout's attributes. What it calls itself.
    OldGit(String),
    /// There is no such branch, or nothing is committed on it.
    NoBranch(String),
    /// Git has its name in another encoding than UTF-8: what it is shown as.
    NotText(String),
    /// There is no remote of that name.
    NoRemote(String),
    /// The branch's name is another's: that one is to be named.
    Symbolic(String, String),
    /// The user has not told git a name and an e-mail address.
    NoIdentity,
    /// A branch with merges cannot be replayed commit by commit: so many.
    HasMerges(u64),
    /// What is to land would take the target back.
    NotAhead,
    Io(std::io::Error),
    /// A file of a commit that is not to be read: why.
    Unreadable(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Git(error) => error.fmt(f),
            Error::OldGit(found) => {
                let (major, minor) = NEEDED;
                write!(f, "landing needs git {major}.{minor} or newer, and this is {found}: install a newer git")
            }
            Error::NoBranch(name) => write!(f, "there is no branch {name} with a commit on it"),
            Error::NotText(name) => write!(
                f,
                "the name of branch {name} is not UTF-8 text, and onus lands only branches whose name is: rename it with git branch -m"
            ),
            Error::NoRemote(name) => write!(f, "there is no remote called {name}: git remote lists those that there are"),
            Error::Symbolic(name, to) => write!(f, "branch {name} is only another name of {to}: name that one"),
            Error::NoIdentity => f.write_str(
                "git does not know who you are: set user.name and user.email (git config --global user.name …)",
            ),
            Error::HasMerges(count) => write!(
                f,
                "the branch has {count} merge {}, so it cannot be replayed commit by commit: land it as a merge or a squash",
                if *count == 1 { "commit" } else { "commits" }
            ),
            Error::NotAhead => f.write_str("what is to land does not contain the target"),
            Error::Io(error) => error.fmt(f),
            Error::Unreadable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

impl From<GitError> for Error {
    fn from(error: GitError) -> Error {
        Error::Git(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::Io(error)
    }
}

/// Brings branches of one repository into their targets.
#[derive(Clone, Debug)]
pub struct Lander {
    repository: Repository,
    worktrees: Worktrees,
    answers: Arc<GitAnswers>,
}

/// What git was asked already. A commit keeps its tree; what is configured is taken for the same until [`Lander::afresh`].
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

    /// The same, asking git again how it is configured: gates may have run since, or hours have passed.
    pub fn afresh(&self) -> Lander {
        Lander { answers: Arc::default(), ..self.clone() }
    }

    /// The same for a caller who does not wait long for others who change worktrees.
    pub fn impatient(&self) -> Lander {
        Lander { worktrees: self.worktrees.impatient(), ..self.clone() }
    }

    pub fn worktrees(&self) -> &Worktrees {
        &self.worktrees
    }

    fn git<'a>(&self) -> Call<'a> {
        self.repository.call()
    }

    /// The commit that a name stands for (`refs/heads/x`, a hash). None: there is none.
    pub fn commit_of(&self, name: &str) -> Option<CommitId> {
        let name = format!("{name}^{{commit}}");
        let call = self.git().words(&["rev-parse", "--verify", "--quiet", "--end-of-options"]).word(name);
        call.line().ok()?.parse().ok()
    }

    pub fn tree_of(&self, commit: &CommitId) -> Result<String, Error> {
        let trees = || self.answers.trees.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tree) = trees().get(commit) {
            return Ok(tree.clone());
        }
        let name = format!("{commit}^{{tree}}");
        let call = self.git().words(&["rev-parse", "--verify", "--quiet", "--end-of-options"]).word(name);
        let tree = call.line().map_err(|_| no_commit(commit))?;
        trees().insert(commit.clone(), tree.clone());
        Ok(tree)
    }

    /// A commit that was just made of this tree.
    fn remember_tree(&self, commit: &CommitId, tree: &str) {
        let mut trees = self.answers.trees.lock().unwrap_or_else(PoisonError::into_inner);
        trees.insert(commit.clone(), tree.to_owned());
    }

    /// Whether everything in `other` is in `commit`.
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

    /// Whether the commits of `branch` are in `target`, themselves or by what they change: also after a squash or a rebase elsewhere, but
    /// not if that was reverted since.
    pub fn is_landed(&self, branch: &CommitId, target: &CommitId) -> Result<bool, Error> {
        Ok(self.contains(target, branch)? || self.is_there_now(branch, target))
    }

    /// A small text file as a commit has it. None: it has none. What is read from there binds others, so it is no link.
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

    /// The folder of our own files.
    fn own_folder(&self) -> std::path::PathBuf {
        self.repository.common_dir().join("onus")
    }
}

/// Why there is no branch of this name: none at all, or git has it in bytes that are no text.
pub fn no_branch(name: &str) -> Error {
    match name.contains(char::REPLACEMENT_CHARACTER) {
        true => Error::NotText(name.to_owned()),
        false => Error::NoBranch(name.to_owned()),
    }
}

fn no_commit(commit: &CommitId) -> Error {
    Error::Git(GitError(format!("{commit} is not a commit here")))
}

/// `git version 2.43.0.rc1 (Apple Git-1)`
fn is_new_enough(version: &str) -> bool {
    let numbers = version.split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let mut numbers = numbers.unwrap_or_default().split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= NEEDED
}

/// A path from git, in words.
fn shown(path: &[u8]) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(path)).to_string_lossy().into_owned()
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
