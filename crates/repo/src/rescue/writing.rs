//! Writes the files of a rescue: all of them, or none.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::beneath::{self, Content};
use super::look::path_of;
use super::restore::MOST_NAMED;
use super::spool;
use crate::git::{Entry, GitError, Repository};

/// The most content that is read from git at once.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// What a path had before: its mode and a private copy; None if nothing.
type Before<'a> = (&'a Path, Option<(&'static str, PathBuf)>);

/// Writes files below a folder, and removes those without an entry. If one fails, all are undone.
/// `private`: a folder for copies of what was there before.
pub(super) fn write_to(
    repository: &Repository,
    folder: &Path,
    files: &BTreeMap<Vec<u8>, Option<Entry>>,
    private: &Path,
) -> Result<(), GitError> {
    let mut done = Vec::new();
    let written = write_each(repository, folder, files, private, &mut done);
    let Err(GitError(why)) = written else { return Ok(()) };
    let undone = done.iter().rev().try_for_each(|before| put_back(folder, before));
    Err(match undone {
        Ok(()) => GitError(format!("nothing was restored: {why}")),
        Err(error) => {
            GitError(format!("only some files were restored: {why}; and undoing that failed: {error}"))
        }
    })
}

fn write_each<'f>(
    repository: &Repository,
    folder: &Path,
    files: &'f BTreeMap<Vec<u8>, Option<Entry>>,
    private: &Path,
    done: &mut Vec<Before<'f>>,
) -> Result<(), GitError> {
    let fail =
        |path: &Path, error: io::Error| GitError(format!("{} could not be written: {error}", path.display()));
    let mut replace = |path: &'f [u8], content: Option<&Content>| {
        let path = path_of(path);
        let copy = private.join(format!("before-{}", done.len()));
        done.push((path, set_aside(folder, path, copy).map_err(|error| fail(path, error))?));
        match content {
            Some(content) => beneath::put(folder, path, content),
            None => beneath::remove(folder, path),
        }
        .map_err(|error| fail(path, error))
    };
    for (path, _) in files.iter().filter(|(_, entry)| entry.is_none()) {
        replace(path, None)?;
    }
    let (paths, entries): (Vec<_>, Vec<_>) =
        files.iter().filter_map(|(path, entry)| Some((path, entry.clone()?))).unzip();
    // In portions, so that a large rescue is never in memory all at once.
    let mut from = 0;
    while from < entries.len() {
        let until = portion(repository, &entries[from..])? + from;
        let contents = blobs(repository, &entries[from..until])?;
        for ((path, entry), bytes) in paths[from..until].iter().zip(&entries[from..until]).zip(contents) {
            let Some(content) = Content::of_mode(&entry.mode, bytes) else { continue };
            replace(path, Some(&content))?;
        }
        from = until;
    }
    Ok(())
}

fn set_aside(folder: &Path, path: &Path, copy: PathBuf) -> io::Result<Option<(&'static str, PathBuf)>> {
    let Some(content) = beneath::read(folder, path, u64::MAX - 1)? else { return Ok(None) };
    spool::write(&copy, content.bytes())?;
    Ok(Some((content.mode(), copy)))
}

fn put_back(folder: &Path, (path, before): &Before<'_>) -> io::Result<()> {
    match before {
        None => beneath::remove(folder, path),
        Some((mode, copy)) => match Content::of_mode(mode, std::fs::read(copy)?) {
            Some(content) => beneath::put(folder, path, &content),
            None => Ok(()),
        },
    }
}

/// How many of these objects to read at once: at least one.
fn portion(repository: &Repository, entries: &[Entry]) -> Result<usize, GitError> {
    let asked: String = entries.iter().take(MOST_NAMED).map(|entry| format!("{}\n", entry.object)).collect();
    let args = ["cat-file", "--batch-check=%(objectsize)"];
    let out = repository.call().words(&args).input(asked.as_bytes()).line()?;
    let mut total = 0_u64;
    let fits = out.lines().take_while(|size| {
        total = total.saturating_add(size.parse::<u64>().unwrap_or(u64::MAX));
        total <= MOST_BYTES
    });
    Ok(fits.count().max(1))
}

/// The content of objects, in their order.
pub(super) fn blobs(repository: &Repository, entries: &[Entry]) -> Result<Vec<Vec<u8>>, GitError> {
    let asked: String = entries.iter().map(|entry| format!("{}\n", entry.object)).collect();
    let out = repository.call().words(&["cat-file", "--batch"]).input(asked.as_bytes()).run()?;
    let (mut rest, mut blobs) = (out.as_slice(), Vec::with_capacity(entries.len()));
    for entry in entries {
        let missing = || GitError(format!("object {} is missing", entry.object));
        let line = rest.iter().position(|byte| *byte == b'\n').ok_or_else(missing)?;
        let head = String::from_utf8_lossy(&rest[..line]).into_owned();
        let size = head.split(' ').nth(2).and_then(|size| size.parse::<usize>().ok()).ok_or_else(missing)?;
        let body = rest.get(line + 1..line + 1 + size).ok_or_else(missing)?;
        blobs.push(body.to_vec());
        rest = rest.get(line + 2 + size..).unwrap_or_default();
    }
    Ok(blobs)
}
