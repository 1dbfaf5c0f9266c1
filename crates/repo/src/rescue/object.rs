//! Writes what is uncommitted as objects: files to blobs, blobs to trees, trees to a commit.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::beneath::{self, Content, Kind};
use super::look::{Dirt, Look, path_of};
use super::{LeftOut, Limits, Why, spool};
use crate::git::{Entry, GitError, index_info, quoted};

/// The trees of a rescue, and the commit that was checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trees {
    head: Option<String>,
    on_disk: String,
    staged: String,
    /// What an ordinary tree cannot hold: conflicts and intended additions.
    rest: Option<String>,
}

/// The message of the commit that represents a worktree without any commit.
const UNBORN: &str = "nothing was committed yet\n";

/// Reads every suspect, and writes its content as an object.
pub(super) fn spool(look: &Look<'_>, dirt: &mut Dirt, limits: Limits) -> Result<(), GitError> {
    let mut kept: Vec<(u64, Vec<u8>)> = Vec::new();
    for path in &dirt.suspects {
        let left_out = |why| LeftOut { path: path_of(path).to_owned(), why };
        match beneath::kind(&look.place.root, path_of(path)) {
            // Only a file of the index can be missing.
            Ok(Kind::Absent) if dirt.index.contains_key(path) || is_conflict(dirt, path) => {
                dirt.on_disk.insert(path.clone(), None);
            }
            Ok(Kind::Absent) => drop(dirt.intended.remove(path)),
            Ok(Kind::Special) => dirt.left_out.push(left_out(Why::Special)),
            Ok(Kind::File { size, .. }) if size > limits.max_file => {
                dirt.left_out.push(left_out(Why::TooLarge));
            }
            Ok(Kind::File { size, .. }) => kept.push((size, path.clone())),
            Ok(Kind::Link) => kept.push((0, path.clone())),
            Err(_) => dirt.left_out.push(left_out(Why::Unreadable)),
        }
    }
    // Smallest first, so that as many files as possible are kept.
    kept.sort();
    let mut total = 0_u64;
    let mut spooled: Vec<(Vec<u8>, &'static str, PathBuf)> = Vec::with_capacity(kept.len());
    for (size, path) in kept {
        let mut left_out = |why| dirt.left_out.push(LeftOut { path: path_of(&path).to_owned(), why });
        if total.saturating_add(size) > limits.max_total {
            left_out(Why::TooLarge);
            continue;
        }
        let content = match beneath::read(&look.place.root, path_of(&path), limits.max_file) {
            Ok(Some(content)) => content,
            Ok(None) | Err(_) => {
                left_out(Why::Unreadable);
                continue;
            }
        };
        total = total.saturating_add(content.bytes().len() as u64);
        let copy = look.folder.path().join(spooled.len().to_string());
        spool::write(&copy, content.bytes()).map_err(|error| GitError(error.to_string()))?;
        let mode = match (&content, dirt.index.get(&path)) {
            // The file system does not store the mode, so the index decides.
            (Content::File { .. }, Some(entry)) if !look.has_modes && entry.mode == "100755" => "100755",
            (Content::File { .. }, _) if !look.has_modes => "100644",
            (content, _) => content.mode(),
        };
        spooled.push((path, mode, copy));
    }
    let paths: String = spooled.iter().map(|(_, _, copy)| quoted(copy) + "\n").collect();
    if !paths.is_empty() {
        let args = ["hash-object", "-w", "--no-filters", "--stdin-paths"];
        let out = look.call().words(&args).input(paths.as_bytes()).run()?;
        let objects = String::from_utf8_lossy(&out).into_owned();
        if objects.lines().count() != spooled.len() {
            return Err(GitError("it did not hash every file".to_owned()));
        }
        for ((path, mode, _), object) in spooled.into_iter().zip(objects.lines()) {
            let entry = Entry::new(mode, object);
            if dirt.index.get(&path) != Some(&entry) {
                dirt.on_disk.insert(path, Some(entry));
            }
        }
    }
    dirt.left_out.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(())
}

/// The object name that git would give this content.
pub(super) fn name_of(look: &Look<'_>, content: &Content) -> Result<String, GitError> {
    look.call().words(&["hash-object", "--no-filters", "--stdin"]).input(content.bytes()).line()
}

fn is_conflict(dirt: &Dirt, path: &[u8]) -> bool {
    (1..=3).any(|stage| dirt.stages.contains_key(&(stage, path.to_vec())))
}

pub(super) fn trees(look: &Look<'_>, dirt: &Dirt) -> Result<Trees, GitError> {
    const INDEX: &str = "tree";
    let run = |words: &[&str], input: &[u8]| look.call_with(INDEX).words(words).input(input).line();
    match &look.head {
        Some(head) => run(&["read-tree", head], b"")?,
        None => run(&["read-tree", "--empty"], b"")?,
    };
    let tree_with = |entries: &BTreeMap<Vec<u8>, Option<Entry>>| {
        run(&["update-index", "-z", "--index-info"], &index_info(entries, &look.no_object()))?;
        run(&["write-tree", "--missing-ok"], b"")
    };
    let (staged, on_disk) = (tree_with(&dirt.staged)?, tree_with(&dirt.on_disk)?);
    let mut rest: BTreeMap<Vec<u8>, Option<Entry>> = dirt
        .stages
        .iter()
        .map(|((stage, path), entry)| (below(&stage.to_string(), path), Some(entry.clone())))
        .collect();
    if !dirt.intended.is_empty() {
        let empty = look.call().words(&["hash-object", "-w", "--no-filters", "--stdin"]).input(b"").line()?;
        let entry = Entry::new("100644", &empty);
        rest.extend(dirt.intended.iter().map(|path| (below("intent", path), Some(entry.clone()))));
    }
    let rest = if rest.is_empty() {
        None
    } else {
        run(&["read-tree", "--empty"], b"")?;
        run(&["update-index", "-z", "--index-info"], &index_info(&rest, &look.no_object()))?;
        Some(run(&["write-tree", "--missing-ok"], b"")?)
    };
    Ok(Trees { head: look.head.clone(), on_disk, staged, rest })
}

/// Only the tree of what is on disk.
pub(super) fn on_disk(look: &Look<'_>, dirt: &Dirt) -> Result<String, GitError> {
    trees(look, dirt).map(|trees| trees.on_disk)
}

fn below(folder: &str, path: &[u8]) -> Vec<u8> {
    [folder.as_bytes(), b"/", path].concat()
}

pub(super) fn commit(look: &Look<'_>, trees: &Trees, message: &str) -> Result<String, GitError> {
    let commit = |tree: &str, parents: &[&str], message: &str| {
        let call = look.call().by_onus().words(&["commit-tree", tree]);
        let call = parents.iter().fold(call, |call, parent| call.words(&["-p", parent]));
        call.words(&["-F", "-"]).input(message.as_bytes()).line()
    };
    let unborn;
    let head = match &trees.head {
        Some(head) => head,
        None => {
            unborn = commit(&look.empty_tree, &[], UNBORN)?;
            &unborn
        }
    };
    let staged = commit(&trees.staged, &[head], "what was staged\n")?;
    let rest = match &trees.rest {
        Some(rest) => Some(commit(rest, &[], "sides of conflicts, and what was intended to be added\n")?),
        None => None,
    };
    let mut parents = vec![head.as_str(), staged.as_str()];
    parents.extend(rest.as_deref());
    commit(&trees.on_disk, &parents, message)
}

/// The trees of an existing rescue. None if the commit is not a rescue.
pub(super) fn trees_of(look: &Look<'_>, commit: &str) -> Result<Option<Trees>, GitError> {
    let args = ["log", "-1", "--no-show-signature", "--format=%T %P", "--end-of-options", commit, "--"];
    let of = look.call().words(&args).line()?;
    let of: Vec<&str> = of.split(' ').collect();
    let [on_disk, head, staged, rest @ ..] = of.as_slice() else { return Ok(None) };
    let tree = |commit: &str| {
        let tree = format!("{commit}^{{tree}}");
        look.call().words(&["rev-parse", "--verify", "--quiet", "--end-of-options", &tree]).line()
    };
    let is_unborn = look.head.is_none() && tree(head)? == look.empty_tree;
    Ok(Some(Trees {
        head: Some((*head).to_owned()).filter(|_| !is_unborn),
        on_disk: (*on_disk).to_owned(),
        staged: tree(staged)?,
        rest: rest.first().map(|rest| tree(rest)).transpose()?,
    }))
}
