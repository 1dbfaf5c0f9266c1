//! Asks git about the files of a checkout: which are committed, which differ from the commit.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Call, GitError, Repository, git_dir_of, listed};
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
fn entries(out: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut entries: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (words, path) in listed(out) {
        entries.entry(String::from_utf8_lossy(path).into_owned()).or_default().push(words.join(" "));
    }
    entries
}

/// What differs from the commit in a worktree: paths relative to its root, and whether each exists. Ignored files are left out, and so
/// are submodules and other repositories in it, with what they contain.
pub(crate) fn dirty(
    repository: &Repository,
    (root, git_dir): (&Path, &Path),
    limit: Duration,
) -> Result<Vec<(PathBuf, bool)>, GitError> {
    let deadline = Instant::now() + limit;
    let filters = filters(repository, limit)?;
    let call = Call::in_worktree(root, git_dir).without(&filters);
    let left = deadline.saturating_duration_since(Instant::now());
    let entries = status(call, &["--ignore-submodules=all"], left)?.into_iter();
    let files = entries.map(|(path, _)| path).filter(|path| !is_folder(path));
    Ok(files.map(|path| (path.clone(), root.join(path).symlink_metadata().is_ok())).collect())
}

/// Git names a repository in a worktree as a folder.
fn is_folder(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

/// What git's status says: each path, and the two letters before it.
pub(crate) fn status(
    call: Call<'_>,
    options: &[&str],
    limit: Duration,
) -> Result<Vec<(PathBuf, [u8; 2])>, GitError> {
    let words = ["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all"];
    let out = call.words(&words).words(options).words(&["--no-ahead-behind"]).limit(limit).run()?;
    let entries = out.split(|byte| *byte == 0).filter_map(|entry| {
        let (code, path) = entry.split_at_checked(3)?;
        Some((PathBuf::from(OsStr::from_bytes(path)), [code[0], code[1]]))
    });
    Ok(entries.collect())
}

/// All that a checkout has and no commit of it does: changed and untracked files, those that git was told to overlook, submodules with
/// changes and other repositories. Up to `most` names, and how many there are. As when a worktree is removed, the user's own
/// filters are run: without them, what was just committed through one would count as changed.
pub fn uncommitted(place: &Place, most: usize) -> Result<(Vec<String>, usize), GitError> {
    let (root, git_dir) = (place.root.as_path(), git_dir_of(place)?);
    let all = status(Call::at(place)?, &["--ignore-submodules=none"], STATUS_LIMIT)?;
    let mut all: Vec<PathBuf> = all.into_iter().map(|(path, _)| path).collect();
    all.extend(overlooked((root, git_dir), &all, STATUS_LIMIT)?.changed);
    let names = all.iter().take(most).map(|path| path.to_string_lossy().into_owned());
    Ok((names.collect(), all.len()))
}

/// How many commits a checkout has on no branch, because its HEAD is detached.
pub fn adrift(place: &Place) -> Result<u64, GitError> {
    if place.branch.is_some() {
        return Ok(0);
    }
    let words = ["rev-list", "--count", "HEAD", "--not", "--branches", "--remotes"];
    let count =
        Call::at(place)?.words(&words).words(&["--glob=refs/onus/landed"]).limit(STATUS_LIMIT).line()?;
    count.parse().map_err(|_| GitError("git counted no commits".to_owned()))
}

/// What a worktree has that `status` does not show.
#[derive(Debug, Default)]
pub(crate) struct Overlooked {
    pub(crate) changed: Vec<PathBuf>,
    pub(crate) has_submodules: bool,
}

/// Finds files that `status` skips because of a flag in the index (`assume-unchanged`, `skip-worktree`), if they exist and differ from
/// the index, except for those that are known. An absent one belongs to a sparse checkout. Also finds out whether there are submodules.
pub(crate) fn overlooked(
    (root, git_dir): (&Path, &Path),
    known: &[PathBuf],
    limit: Duration,
) -> Result<Overlooked, GitError> {
    let call = || Call::in_worktree(root, git_dir).limit(limit);
    let out = call().words(&["ls-files", "-z", "-v", "--stage"]).run()?;
    let mut found = Overlooked::default();
    for (words, name) in listed(&out) {
        let [tag, mode, object, _stage] = words[..] else { continue };
        let is_submodule = mode == "160000";
        found.has_submodules |= is_submodule;
        let is_flagged = tag.starts_with(|tag: char| tag == 'S' || tag.is_ascii_lowercase());
        if !is_flagged || is_submodule {
            continue;
        }
        let name = PathBuf::from(OsStr::from_bytes(name));
        let path = root.join(&name);
        let Some(there) = path.symlink_metadata().ok().filter(|_| !known.contains(&name)) else { continue };
        let hash = || call().words(&["hash-object", "--no-filters"]);
        let bytes = match there.is_symlink() {
            true => match fs::read_link(&path) {
                Ok(to) => hash().words(&["--stdin"]).input(to.as_os_str().as_bytes()).line(),
                Err(error) => Err(GitError(error.to_string())),
            },
            false => hash().words(&["--"]).word(&path).line(),
        };
        // A file that cannot be read counts as changed.
        let is_same_kind = there.is_symlink() == (mode == "120000");
        if !is_same_kind || !bytes.is_ok_and(|bytes| bytes == object) {
            found.changed.push(name);
        }
    }
    Ok(found)
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
