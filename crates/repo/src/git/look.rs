//! Asks git about the files of a checkout: which are committed, which differ from the commit.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Call, GitError, Repository, git_dir_of};
use crate::discover::Place;

/// Whether each of these files, relative to the checkout's root, is byte for byte the same in HEAD, in the index and on disk, or
/// is in none of them. Callers rely on it to give a file to another holder. So a file that git only assumes to be unchanged (by
/// its time stamps, a filter, a flag in the index) does not count, and no filter is run.
pub fn are_committed(place: &Place, files: &[String]) -> Result<Vec<bool>, GitError> {
    let git = |args: &[&str], files: &[&str]| {
        let call = Call::at(place)?.env("GIT_LITERAL_PATHSPECS", "1").limit(LOOK_LIMIT);
        call.words(args).words(&["--"]).words(files).run()
    };
    let all: Vec<&str> = files.iter().map(String::as_str).collect();
    let head = entries(&git(&["ls-tree", "-z", "--full-tree", "HEAD"], &all)?);
    let index = entries(&git(&["ls-files", "-z", "--stage"], &all)?);
    let is_there = |file: &&&str| place.root.join(file).symlink_metadata().is_ok();
    let (there, absent): (Vec<&str>, Vec<&str>) = all.iter().partition(|file| is_there(file));
    let plain: Vec<&str> =
        there.iter().copied().filter(|file| mode_on_disk(&place.root.join(file)).is_some()).collect();
    let hashes = match plain.is_empty() {
        true => String::new(),
        false => String::from_utf8_lossy(&git(&["hash-object", "--no-filters"], &plain)?).into_owned(),
    };
    let hashes: BTreeMap<&str, &str> = plain.iter().copied().zip(hashes.lines()).collect();
    let is_committed = |file: &&str| match (head.get(*file), index.get(*file)) {
        (None, None) => absent.contains(file),
        (Some(head), Some(index)) => {
            let on_disk = mode_on_disk(&place.root.join(file)).zip(hashes.get(file));
            on_disk.is_some_and(|(mode, hash)| {
                // `mode type hash` of a tree, `mode hash stage` of the index.
                *head == [format!("{mode} blob {hash}")] && *index == [format!("{mode} {hash} 0")]
            })
        }
        _ => false,
    };
    Ok(all.iter().map(is_committed).collect())
}

/// The longest that a caller who wants a file waits for git.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// The mode by which git records a regular file. None if it is anything else, such as a link or a folder.
fn mode_on_disk(path: &Path) -> Option<&'static str> {
    let metadata = path.symlink_metadata().ok().filter(Metadata::is_file)?;
    Some(if metadata.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" })
}

/// What git lists for each path: `WHAT<tab>PATH<nul>`. A folder is listed by its files, or as a tree.
fn entries(listed: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut entries: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in listed.split(|byte| *byte == 0) {
        if let Some((what, path)) = String::from_utf8_lossy(entry).split_once('\t') {
            entries.entry(path.to_owned()).or_default().push(what.to_owned());
        }
    }
    entries
}

/// What differs from the commit in a worktree: paths relative to its root, and whether each exists. Ignored files and files in
/// submodules are left out.
pub(crate) fn dirty(
    repository: &Repository,
    (root, git_dir): (&Path, &Path),
    limit: Duration,
) -> Result<Vec<(PathBuf, bool)>, GitError> {
    let deadline = Instant::now() + limit;
    let filters = filters(repository, limit)?;
    let out = Call::in_worktree(root, git_dir)
        .without(&filters)
        .words(&["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all"])
        .words(&["--ignore-submodules=all", "--no-ahead-behind"])
        .limit(deadline.saturating_duration_since(Instant::now()))
        .run()?;
    let entries = out.split(|byte| *byte == 0).filter_map(|entry| {
        let path = Path::new(OsStr::from_bytes(entry.get(3..)?));
        // A nested repository is left out.
        (!entry.ends_with(b"/")).then(|| (path.to_owned(), root.join(path).symlink_metadata().is_ok()))
    });
    Ok(entries.collect())
}

/// The uncommitted files of a checkout, including untracked ones: up to `most` names, and how many there are.
pub fn uncommitted(place: &Place, most: usize) -> Result<(Vec<String>, usize), GitError> {
    let repository = Repository::of_checkout(place)?;
    let all = dirty(&repository, (&place.root, git_dir_of(place)?), STATUS_LIMIT)?;
    let names = all.iter().take(most).map(|(path, _)| path.to_string_lossy().into_owned());
    Ok((names.collect(), all.len()))
}

/// The longest that a caller who reports work as done waits for git.
const STATUS_LIMIT: Duration = Duration::from_secs(30);

impl Call<'_> {
    /// Runs none of these filters. A file counts as changed whatever a filter would make of it.
    pub(crate) fn without(self, filters: &[String]) -> Self {
        let value = |key: &str| if key.ends_with(".required") { "false" } else { "" };
        let values: Vec<(String, &str)> = filters.iter().map(|key| (key.clone(), value(key))).collect();
        self.overriding(&values)
    }
}

/// The configuration keys of all filters.
pub(crate) fn filters(repository: &Repository, limit: Duration) -> Result<Vec<String>, GitError> {
    configured(repository, r"^filter\..*\.(clean|process|smudge|required)$", limit)
}

/// The configuration keys of all merge drivers.
pub(crate) fn drivers(repository: &Repository, limit: Duration) -> Result<Vec<String>, GitError> {
    configured(repository, r"^merge\..*\.driver$", limit)
}

fn configured(repository: &Repository, keys: &str, limit: Duration) -> Result<Vec<String>, GitError> {
    let call = repository.call().words(&["config", "-z", "--name-only", "--get-regexp", keys]);
    match call.limit(limit).run() {
        Ok(out) => {
            let keys = out.split(|byte| *byte == 0).filter(|key| !key.is_empty());
            Ok(keys.map(|key| String::from_utf8_lossy(key).into_owned()).collect())
        }
        // No message means that there are none.
        Err(GitError(why)) if why.is_empty() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
