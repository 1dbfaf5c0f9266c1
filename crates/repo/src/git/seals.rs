//! Seals, kept in a reference: a chain of commits that belongs to no checkout.

use super::{Call, GitError, Repository};

/// Where seals are anchored: a chain of commits, each with one seal.
pub const SEALS: &str = "refs/onus/seals";

fn git<'a>(repository: &Repository, args: &[&str]) -> Call<'a> {
    repository.call().by_onus().words(args)
}

/// Keeps files as a new commit on top of `reference`, without touching any checkout or index. Returns the commit.
pub fn anchor(
    repository: &Repository,
    reference: &str,
    files: &[(&str, &str)],
    message: &str,
) -> Result<String, GitError> {
    let mut tree = String::new();
    for (name, content) in files {
        let args = ["hash-object", "-w", "--no-filters", "--stdin"];
        let blob = git(repository, &args).input(content.as_bytes()).line()?;
        tree.push_str(&format!("100644 blob {blob}\t{name}\n"));
    }
    let tree = git(repository, &["mktree"]).input(tree.as_bytes()).line()?;
    let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", reference];
    let parent = git(repository, &args).line().ok();
    let mut args = vec!["commit-tree", &tree, "-m", message];
    args.extend(parent.iter().flat_map(|parent| ["-p", parent.as_str()]));
    let commit = git(repository, &args).line()?;
    // Compare and swap, so that a seal made meanwhile is not lost.
    let old = parent.unwrap_or_else(|| "0".repeat(commit.len()));
    git(repository, &["update-ref", "--end-of-options", reference, &commit, &old]).run()?;
    Ok(commit)
}

/// The commits on `reference`, newest first; none if there is no such reference.
pub fn anchored(repository: &Repository, reference: &str) -> Result<Vec<String>, GitError> {
    let args = ["for-each-ref", "--format=%(refname)", "--end-of-options", reference];
    if git(repository, &args).line()?.is_empty() {
        return Ok(Vec::new());
    }
    // A reference whose commits are gone is an error: what was anchored must not vanish silently.
    let out = git(repository, &["rev-list", "--end-of-options", reference, "--"]).run()?;
    Ok(String::from_utf8_lossy(&out).lines().map(str::to_owned).collect())
}

/// One file of a commit.
pub fn show(repository: &Repository, commit: &str, file: &str) -> Result<String, GitError> {
    let out =
        git(repository, &["cat-file", "blob", "--end-of-options", &format!("{commit}:{file}")]).run()?;
    String::from_utf8(out).map_err(|error| GitError(error.to_string()))
}
