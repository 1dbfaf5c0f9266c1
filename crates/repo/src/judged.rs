//! What a gate is judged on: a tree, whether it is committed or not; what differs between two; and a tree with only the tests of another.

use std::path::Path;

use onus_core::scope::Scope;

use crate::discover::Place;
use crate::git::{Call, GitError, Repository, dirty};
use crate::rescue::{Limits, tree_on_disk};

/// The longest that git may take to look at a checkout.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// What is in a checkout, as a tree: that of its commit if nothing is uncommitted, else one of the files as they are on disk.
/// Nothing in the checkout or its index is touched. An error says which file keeps that from being told.
pub fn tree_in(place: &Place) -> Result<String, GitError> {
    let repository = repository(place)?;
    let git_dir = place.git_dir.as_deref().ok_or_else(|| GitError("this is not a checkout".to_owned()))?;
    if dirty(&repository, (&place.root, git_dir), LIMIT)?.is_empty()
        && let Some(tree) = tree_at(&repository, git_dir, "HEAD")
    {
        return Ok(tree);
    }
    // A gate is judged on all of it, or on nothing.
    let limits = Limits { max_file: 256 * 1024 * 1024, max_total: 1024 * 1024 * 1024 };
    tree_on_disk(place, limits)
}

/// The tree of a commit, by any name of it; None: there is none. `git_dir`: whose `HEAD` is meant.
fn tree_at(repository: &Repository, git_dir: &Path, commit: &str) -> Option<String> {
    let call = Call::in_worktree(repository.common_dir(), git_dir);
    let tree = format!("{commit}^{{tree}}");
    call.words(&["rev-parse", "--verify", "--quiet", "--end-of-options", &tree]).line().ok()
}

/// The tree of a branch's last commit.
pub fn tree_of_branch(place: &Place, branch: &str) -> Option<String> {
    let repository = repository(place).ok()?;
    tree_at(&repository, repository.common_dir(), &format!("refs/heads/{branch}"))
}

/// The commit that a branch, or what is checked out, has in common with a target; None: there is none, or no such target.
pub fn base_of(place: &Place, branch: Option<&str>, target: &str) -> Option<String> {
    let head = branch.map_or_else(|| "HEAD".to_owned(), |branch| format!("refs/heads/{branch}"));
    let call = Call::at(place).ok()?;
    call.words(&["merge-base", "--end-of-options", &head, target]).line().ok().filter(|base| !base.is_empty())
}

/// The files that differ between two trees or commits, from the repository's root.
pub fn changed_between(place: &Place, one: &str, other: &str) -> Result<Vec<String>, GitError> {
    Ok(differences(place, one, other)?.into_iter().map(|(path, _, _)| path).collect())
}

/// Path, mode and object on the other side; no object: it is not there.
fn differences(
    place: &Place,
    one: &str,
    other: &str,
) -> Result<Vec<(String, String, Option<String>)>, GitError> {
    let args =
        ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--end-of-options", one, other];
    let out = Call::at(place)?.words(&args).run()?;
    let mut fields = out.split(|byte| *byte == 0);
    let mut found = Vec::new();
    while let (Some(head), Some(path)) = (fields.next().filter(|head| !head.is_empty()), fields.next()) {
        let head = String::from_utf8_lossy(head).into_owned();
        let words: Vec<&str> = head.split(' ').collect();
        if let [_, mode, _, object, status, ..] = words[..] {
            let object = (!status.starts_with('D')).then(|| object.to_owned());
            found.push((String::from_utf8_lossy(path).into_owned(), mode.to_owned(), object));
        }
    }
    Ok(found)
}

/// A commit with what `base` has, except that the files which `tests` match are those of `tree`. And how many of them differ.
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
    laid.retain(|(path, _, _)| tests.covers(path));
    // Removals come first: what becomes a folder was a file.
    laid.sort_by_key(|(_, _, object)| object.is_some());
    let info: Vec<u8> = laid
        .iter()
        .flat_map(|(path, mode, object)| {
            match object {
                Some(object) => format!("{mode} {object} 0\t{path}\0"),
                None => format!("0 {} 0\t{path}\0", "0".repeat(base.len())),
            }
            .into_bytes()
        })
        .collect();
    call()?.words(&["update-index", "-z", "--index-info"]).input(&info).run()?;
    let tree = call()?.words(&["write-tree"]).line()?;
    let commit = Call::at(place)?.by_onus().words(&["commit-tree", &tree, "-p", base]);
    let commit = commit.words(&["-F", "-"]).input(b"the base of a task, with the task's tests\n").line()?;
    Ok((commit, laid.len()))
}

fn repository(place: &Place) -> Result<Repository, GitError> {
    let repository = Repository::new(place).map_err(|foreign| GitError(foreign.to_string()))?;
    repository.ok_or_else(|| GitError("this is not a checkout".to_owned()))
}
