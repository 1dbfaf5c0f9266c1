//! What git says of the files of a checkout: which are committed, which differ from the commit.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Call, GitError, Repository};
use crate::discover::Place;

/// Whether each of these files, named from the checkout's root, is in HEAD, in the index and on disk byte for byte the same, or
/// in none of them. What git would only call unchanged (by its time stamps, a filter, a flag in the index) does not count, and
/// no filter is run: whoever asks goes by it when a file is given to another.
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

/// The longest that somebody who wants a file waits for git to look at it.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// How git records a file of this kind. None: it is a link, a folder, or something else that is not written to.
fn mode_on_disk(path: &Path) -> Option<&'static str> {
    let metadata = path.symlink_metadata().ok().filter(Metadata::is_file)?;
    Some(if metadata.permissions().mode() & 0o100 == 0 { "100644" } else { "100755" })
}

/// What git lists of each path: `WHAT<tab>PATH<nul>`. A path that is a folder there is listed by what is in it, or as a tree.
fn entries(listed: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut entries: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in listed.split(|byte| *byte == 0) {
        if let Some((what, path)) = String::from_utf8_lossy(entry).split_once('\t') {
            entries.entry(path.to_owned()).or_default().push(what.to_owned());
        }
    }
    entries
}

/// What of a worktree differs from its commit: paths from its root, and whether each is there. Ignored files are left out, and what
/// is in submodules.
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
        // A repository inside this one is not ours.
        (!entry.ends_with(b"/")).then(|| (path.to_owned(), root.join(path).symlink_metadata().is_ok()))
    });
    Ok(entries.collect())
}

/// What of a checkout is in no commit, untracked files too: some of their names, and how many there are.
pub fn uncommitted(place: &Place, most: usize) -> Result<(Vec<String>, usize), GitError> {
    let foreign = |foreign: crate::Foreign| GitError(foreign.to_string());
    let repository = Repository::new(place).map_err(foreign)?;
    let here = repository.zip(place.git_dir.as_deref());
    let (repository, git_dir) = here.ok_or_else(|| GitError("this is not a checkout".to_owned()))?;
    let all = dirty(&repository, (&place.root, git_dir), STATUS_LIMIT)?;
    let names = all.iter().take(most).map(|(path, _)| path.to_string_lossy().into_owned());
    Ok((names.collect(), all.len()))
}

/// The longest that somebody who says that work is done waits for git.
const STATUS_LIMIT: Duration = Duration::from_secs(30);

impl Call<'_> {
    /// A program that converts files is not run: whatever it would make of them, they changed.
    pub(crate) fn without(self, filters: &[String]) -> Self {
        let value = |key: &str| if key.ends_with(".required") { "false" } else { "" };
        let values: Vec<(String, &str)> = filters.iter().map(|key| (key.clone(), value(key))).collect();
        self.overriding(&values)
    }
}

/// The keys of all programs that convert files.
pub(crate) fn filters(repository: &Repository, limit: Duration) -> Result<Vec<String>, GitError> {
    configured(repository, r"^filter\..*\.(clean|process|smudge|required)$", limit)
}

/// The keys of all programs that merge files.
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
        // Without a message: there are none.
        Err(GitError(why)) if why.is_empty() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
