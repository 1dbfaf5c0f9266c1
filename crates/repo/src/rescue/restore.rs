//! Restores a rescue: exactly as it was into a clean worktree, or file by file without overwriting anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::look::{Look, path_of};
use super::obstacle::{Ahead, Changes, Now};
use super::writing::{blobs, write_to};
use super::{Limits, What, object};
use crate::discover::Place;
use crate::git::{Entry, GitError, Repository, index_info, listed, raw_changes};

/// The most files that are named to git at once.
pub(super) const MOST_NAMED: usize = 500;

/// A file of a rescue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOf {
    pub path: PathBuf,
    /// Whether the rescue has it; otherwise it had been deleted.
    pub is_there: bool,
    /// Whether its staged content differs from what was on disk.
    pub is_staged_otherwise: bool,
    /// Whether it was an unresolved conflict.
    pub is_conflict: bool,
}

/// The outcome for the files that were to be brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    pub written: Vec<PathBuf>,
    pub removed: Vec<PathBuf>,
    /// Files that already are as in the rescue.
    pub same: Vec<PathBuf>,
    /// Content that was only in the index, and is not written: the file, and git's name for the content.
    pub only_staged: Vec<(PathBuf, String)>,
    /// Files in the way that have uncommitted changes.
    pub uncommitted: Vec<PathBuf>,
    /// Files in the way that were committed differently since.
    pub committed: Vec<PathBuf>,
}

impl Restored {
    pub fn is_refused(&self) -> bool {
        !self.uncommitted.is_empty() || !self.committed.is_empty()
    }
}

/// The content of a rescue.
struct Rescue {
    head: String,
    /// What differs from the commit.
    on_disk: Changes,
    staged: Changes,
    /// The sides of conflicts, by stage.
    stages: BTreeMap<(u8, Vec<u8>), Entry>,
    intended: BTreeSet<Vec<u8>>,
}

impl Rescue {
    fn read(repository: &Repository, commit: &str) -> Result<Rescue, GitError> {
        let args = ["log", "-1", "--no-show-signature", "--format=%P", "--end-of-options", commit, "--"];
        let parents = repository.call().words(&args).line()?;
        let parents: Vec<&str> = parents.split(' ').collect();
        let [head, staged, rest @ ..] = parents.as_slice() else {
            return Err(GitError(format!("{commit} is not a rescue")));
        };
        let differs = |tree: &str| {
            let args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--end-of-options"];
            let out = repository.call().words(&args).words(&[head, tree]).run()?;
            let sides = raw_changes(&out).map(|change| (change.path.to_vec(), (change.old, change.new)));
            Ok::<Changes, GitError>(sides.collect())
        };
        let mut rescue = Rescue {
            head: (*head).to_owned(),
            on_disk: differs(commit)?,
            staged: differs(staged)?,
            stages: BTreeMap::new(),
            intended: BTreeSet::new(),
        };
        if let Some(rest) = rest.first() {
            let out = repository.call().words(&["ls-tree", "-r", "-z", "--end-of-options", rest]).run()?;
            for (path, entry) in tree_entries(&out) {
                let Some(slash) = path.iter().position(|byte| *byte == b'/') else { continue };
                let (folder, path) = (&path[..slash], path[slash + 1..].to_vec());
                match folder {
                    b"intent" => drop(rescue.intended.insert(path)),
                    [stage @ b'1'..=b'3'] => drop(rescue.stages.insert((stage - b'0', path), entry)),
                    _ => {}
                }
            }
        }
        Ok(rescue)
    }

    /// The content that is in the rescue's index but not on its disk. `commit` is the rescue's.
    fn only_staged(&self, commit: &str) -> Vec<(PathBuf, String)> {
        let named = |parent: u8, folder: &str, path: &[u8]| {
            let path = path_of(path);
            (path.to_owned(), format!("{commit}^{parent}:{folder}{}", path.display()))
        };
        let staged = self.staged.iter().filter(|(path, (base, staged))| {
            let on_disk = self.on_disk.get(*path).map_or(base, |(_, now)| now);
            staged.is_some() && !is_gitlink(staged) && staged != on_disk
        });
        let sides = self.stages.keys().map(|(stage, path)| named(3, &format!("{stage}/"), path));
        staged.map(|(path, _)| named(2, "", path)).chain(sides).collect()
    }
}

/// The files of a rescue.
pub fn files_of(repository: &Repository, commit: &str) -> Result<Vec<FileOf>, GitError> {
    let rescue = Rescue::read(repository, commit)?;
    let conflicts: BTreeSet<&Vec<u8>> = rescue.stages.keys().map(|(_, path)| path).collect();
    let mut all: BTreeSet<&Vec<u8>> = rescue.on_disk.keys().chain(rescue.staged.keys()).collect();
    all.extend(&conflicts);
    all.extend(&rescue.intended);
    let file = |path: &Vec<u8>| {
        let (on_disk, staged) = (rescue.on_disk.get(path), rescue.staged.get(path));
        FileOf {
            path: path_of(path).to_owned(),
            is_there: on_disk.is_none_or(|(_, now)| now.is_some()),
            is_staged_otherwise: staged.is_some()
                && staged.map(|(_, now)| now) != on_disk.map(|(_, now)| now),
            is_conflict: conflicts.contains(path),
        }
    };
    Ok(all.into_iter().map(file).collect())
}

/// A summary for people of what differs from the commit.
pub fn stat(repository: &Repository, commit: &str) -> Result<String, GitError> {
    let first = format!("{commit}^1");
    let args = ["diff-tree", "-r", "--stat", "--summary", "--no-ext-diff", "--no-textconv", "--no-renames"];
    let out = repository.call().words(&args).words(&["--end-of-options", &first, commit]).run()?;
    Ok(String::from_utf8_lossy(&out).trim_end().to_owned())
}

/// The content of one file of a rescue, if it has it.
pub fn content(repository: &Repository, commit: &str, path: &Path) -> Result<Option<Vec<u8>>, GitError> {
    let out = repository
        .call()
        .env("GIT_LITERAL_PATHSPECS", "1")
        .words(&["ls-tree", "-z", "--full-tree", "--end-of-options", commit, "--"])
        .word(path)
        .run()?;
    let entries: Vec<Entry> = tree_entries(&out).map(|(_, entry)| entry).collect();
    Ok(blobs(repository, &entries)?.pop())
}

/// Brings files back, all of them or none: in place, without overwriting anything that is uncommitted or was committed since, or
/// into the folder `to`. `only` selects a file or a folder.
pub fn bring_back(
    place: &Place,
    commit: &str,
    only: Option<&Path>,
    to: Option<&Path>,
) -> Result<Restored, GitError> {
    bring(place, commit, only, to, Writes::AllOrNone)
}

/// What bringing files back in place would do, without writing anything.
pub fn foresee(place: &Place, commit: &str, only: Option<&Path>) -> Result<Restored, GitError> {
    bring(place, commit, only, None, Writes::Nothing)
}

/// Brings back, in place, every file that overwrites nothing; the others are reported.
pub fn bring_back_what_fits(place: &Place, commit: &str) -> Result<Restored, GitError> {
    bring(place, commit, None, None, Writes::WhatFits)
}

/// What is written if something is in the way of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    Nothing,
    AllOrNone,
    WhatFits,
}

fn bring(
    place: &Place,
    commit: &str,
    only: Option<&Path>,
    to: Option<&Path>,
    writes: Writes,
) -> Result<Restored, GitError> {
    let repository = Repository::of_checkout(place)?;
    let rescue = Rescue::read(&repository, commit)?;
    let is_named = |path: &Path| only.is_none_or(|only| path.starts_with(only));
    let is_wanted = |path: &[u8]| is_named(path_of(path));
    let wanted: Changes = rescue
        .on_disk
        .clone()
        .into_iter()
        .filter(|(path, sides)| is_wanted(path) && is_file(sides))
        .collect();
    let look = Look::new(place)?;
    let mut brought = Restored { only_staged: rescue.only_staged(commit), ..Restored::default() };
    brought.only_staged.retain(|(path, _)| is_named(path));
    let mut files: BTreeMap<Vec<u8>, Option<Entry>> = BTreeMap::new();
    if let Some(folder) = to {
        std::fs::create_dir_all(folder).map_err(|error| GitError(error.to_string()))?;
        for (path, (_, new)) in wanted.iter().filter(|(_, (_, new))| new.is_some()) {
            brought.written.push(path_of(path).to_owned());
            files.insert(path.clone(), new.clone());
        }
        write_to(&repository, folder, &files, look.folder.path())?;
        return Ok(brought);
    }
    let dirt = look.uncommitted(What::All)?;
    let ahead = Ahead { look: &look, dirt: &dirt, changes: &wanted };
    let now = head_entries(&look, &wanted)?;
    for (path, (old, new)) in &wanted {
        let name = path_of(path).to_owned();
        match ahead.at(path)? {
            Now::Same => brought.same.push(name),
            _ if now.get(path) != old.as_ref() => brought.committed.push(name),
            Now::InTheWay => brought.uncommitted.push(name),
            Now::Free => {
                files.insert(path.clone(), new.clone());
                if new.is_some() { brought.written.push(name) } else { brought.removed.push(name) }
            }
        }
    }
    if writes == Writes::WhatFits || writes == Writes::AllOrNone && !brought.is_refused() {
        write_to(&repository, &place.root, &files, look.folder.path())?;
    }
    Ok(brought)
}

/// The entries of these files in the commit that is checked out.
fn head_entries(look: &Look<'_>, wanted: &Changes) -> Result<BTreeMap<Vec<u8>, Entry>, GitError> {
    let paths: Vec<&Vec<u8>> = wanted.keys().collect();
    let mut entries = BTreeMap::new();
    if look.head.is_none() {
        return Ok(entries);
    }
    for paths in paths.chunks(MOST_NAMED) {
        let call = look.call().words(&["ls-tree", "-z", "--full-tree", "HEAD", "--"]);
        let out = paths.iter().fold(call, |call, path| call.word(path_of(path))).run()?;
        entries.extend(tree_entries(&out));
    }
    Ok(entries)
}

/// Restores a rescue exactly, index and files, in a clean worktree that has the same commit checked out.
pub fn restore_exactly(place: &Place, commit: &str) -> Result<Vec<PathBuf>, GitError> {
    let look = Look::new(place)?;
    let repository = Repository::of_checkout(place)?;
    let rescue = Rescue::read(&repository, commit)?;
    let is_base = match &look.head {
        Some(head) => *head == rescue.head,
        None => {
            let tree = format!("{}^{{tree}}", rescue.head);
            let args = ["rev-parse", "--verify", "--end-of-options", &tree];
            look.call().words(&args).line()? == look.empty_tree
        }
    };
    if !is_base {
        let base = &rescue.head;
        return Err(GitError(format!(
            "the rescue was made on {base}, and another commit is checked out here"
        )));
    }
    let mut dirt = look.uncommitted(What::All)?;
    object::spool(&look, &mut dirt, Limits { max_file: u64::MAX - 1, max_total: u64::MAX })?;
    if !dirt.is_clean() {
        return Err(GitError("the worktree has uncommitted changes".to_owned()));
    }
    // Ignored files do not make a worktree dirty, but would be lost all the same.
    let wanted: Changes = rescue.on_disk.clone().into_iter().filter(|(_, sides)| is_file(sides)).collect();
    let ahead = Ahead { look: &look, dirt: &dirt, changes: &wanted };
    let mut files: BTreeMap<Vec<u8>, Option<Entry>> = BTreeMap::new();
    for (path, (_, new)) in &wanted {
        match ahead.at(path)? {
            Now::Same => {}
            Now::Free => drop(files.insert(path.clone(), new.clone())),
            Now::InTheWay => {
                return Err(GitError(format!("{} is in the way", path_of(path).display())));
            }
        }
    }
    write_to(&repository, &place.root, &files, look.folder.path())?;
    // The index comes last, so that it never names a file that is not there.
    let staged = rescue.staged.iter().map(|(path, (_, new))| (path.clone(), new.clone())).collect();
    let mut info = index_info(&staged, &look.no_object());
    let conflicts: BTreeSet<&Vec<u8>> = rescue.stages.keys().map(|(_, path)| path).collect();
    for path in conflicts {
        info.extend([format!("0 {} 0\t", look.no_object()).as_bytes(), path, b"\0"].concat());
    }
    for ((stage, path), entry) in &rescue.stages {
        let head = format!("{} {} {stage}\t", entry.mode, entry.object);
        info.extend([head.as_bytes(), path, b"\0"].concat());
    }
    look.call_on_own_index().words(&["update-index", "-z", "--index-info"]).input(&info).run()?;
    let intended: Vec<&Vec<u8>> = rescue.intended.iter().collect();
    for paths in intended.chunks(MOST_NAMED) {
        let call = look.call_on_own_index().words(&["add", "--intent-to-add", "--force", "--"]);
        paths.iter().fold(call, |call, path| call.word(path_of(path))).run()?;
    }
    let all = files_of(&repository, commit)?;
    Ok(all.into_iter().map(|file| file.path).collect())
}

/// Whether neither side is a submodule.
fn is_file((old, new): &(Option<Entry>, Option<Entry>)) -> bool {
    !is_gitlink(old) && !is_gitlink(new)
}

fn is_gitlink(entry: &Option<Entry>) -> bool {
    entry.as_ref().is_some_and(Entry::is_submodule)
}

/// `MODE TYPE OBJECT<tab>PATH<nul>`
fn tree_entries(out: &[u8]) -> impl Iterator<Item = (Vec<u8>, Entry)> {
    listed(out).filter_map(|(words, path)| match words[..] {
        [mode, _, object] => Some((path.to_vec(), Entry::new(mode, object))),
        _ => None,
    })
}
