//! The trees that gates are judged on: of committed or uncommitted files, the differences between two, and a tree with the tests of
//! another.

use std::collections::BTreeMap;
use std::path::Path;

use onus_core::scope::Scope;

use crate::discover::Place;
use crate::git::{Call, Entry, GitError, Repository, dirty, git_dir_of, index_info, raw_changes};
use crate::rescue::{Limits, tree_on_disk};

/// The longest that git may take to examine a checkout.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// The tree of a checkout: that of its commit if nothing is uncommitted, else one of the files on disk.
/// Neither the checkout nor its index is touched. The error names a file that could not be read.
pub fn tree_in(place: &Place) -> Result<String, GitError> {
    let (repository, git_dir) = (Repository::of_checkout(place)?, git_dir_of(place)?);
    if dirty(&repository, (&place.root, git_dir), LIMIT)?.is_empty()
        && let Some(tree) = tree_at(&repository, git_dir, "HEAD")
    {
        return Ok(tree);
    }
    // Generous limits, and beyond them an error: a gate is judged on all files or not at all.
    let limits = Limits { max_file: 256 * 1024 * 1024, max_total: 1024 * 1024 * 1024 };
    tree_on_disk(place, limits)
}

/// The tree of a commit, by any name of it, if there is one. `git_dir`: whose `HEAD` is meant.
fn tree_at(repository: &Repository, git_dir: &Path, commit: &str) -> Option<String> {
    let call = Call::in_worktree(repository.common_dir(), git_dir);
    let tree = format!("{commit}^{{tree}}");
    call.words(&["rev-parse", "--verify", "--quiet", "--end-of-options", &tree]).line().ok()
}

/// The tree of a branch's last commit.
pub fn tree_of_branch(place: &Place, branch: &str) -> Option<String> {
    let repository = Repository::of_checkout(place).ok()?;
    tree_at(&repository, repository.common_dir(), &format!("refs/heads/{branch}"))
}

/// The merge base of a branch, or of HEAD, and a target. None if there is none, or no such target.
pub fn base_of(place: &Place, branch: Option<&str>, target: &str) -> Option<String> {
    let head = branch.map_or_else(|| "HEAD".to_owned(), |branch| format!("refs/heads/{branch}"));
    let call = Call::at(place).ok()?;
    call.words(&["merge-base", "--end-of-options", &head, target]).line().ok().filter(|base| !base.is_empty())
}

/// The files that differ between two trees or commits, relative to the repository's root.
pub fn changed_between(place: &Place, one: &str, other: &str) -> Result<Vec<String>, GitError> {
    let found = differences(place, one, other)?;
    Ok(found.keys().map(|path| String::from_utf8_lossy(path).into_owned()).collect())
}

/// What the other side has at each path that differs.
fn differences(place: &Place, one: &str, other: &str) -> Result<BTreeMap<Vec<u8>, Option<Entry>>, GitError> {
    let args =
        ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--end-of-options", one, other];
    let out = Call::at(place)?.words(&args).run()?;
    Ok(raw_changes(&out).map(|change| (change.path.to_vec(), change.new)).collect())
}

/// Makes a commit like `base`, but with the files that `tests` match taken from `tree`. Also returns how many of them differ.
pub fn with_tests_of(
    place: &Place,
    base: &str,
    tree: &str,
    tests: &Scope,
) -> Result<(String, usize), GitError> {
    let fail = |error: std::io::Error| GitError(error.to_string());
    let folder = tempfile::tempdir().map_err(fail)?;
    let call = || Ok::<_, GitError>(Call::at(place)?.env("GIT_INDEX_FILE", folder.path().join("index")));
    call()?.words(&["read-tree", "--end-of-options", base]).run()?;
    let mut laid = differences(place, base, tree)?;
    laid.retain(|path, _| tests.covers(&String::from_utf8_lossy(path)));
    let info = index_info(&laid, &"0".repeat(base.len()));
    call()?.words(&["update-index", "-z", "--index-info"]).input(&info).run()?;
    let tree = call()?.words(&["write-tree"]).line()?;
    let commit = Call::at(place)?.by_onus().words(&["commit-tree", &tree, "-p", base]);
    let commit = commit.words(&["-F", "-"]).input(b"the base of a task, with the task's tests\n").line()?;
    Ok((commit, laid.len()))
}
