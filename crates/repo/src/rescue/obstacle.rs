//! What is in the way of files that are brought back, judged by what is on disk rather than by git's index.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::beneath::{self, Content};
use super::look::{Dirt, Look, path_of};
use super::object;
use crate::git::{Entry, GitError};

/// By path: the entry in the commit, and the one in the rescue.
pub(super) type Changes = BTreeMap<Vec<u8>, (Option<Entry>, Option<Entry>)>;

/// The current state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Now {
    /// It has what is in the rescue.
    Same,
    /// It has nothing, or what the commit has, so nothing is lost by writing.
    Free,
    InTheWay,
}

/// Checks all files that are to be written, before any of them is.
pub(super) struct Ahead<'a> {
    pub(super) look: &'a Look<'a>,
    pub(super) dirt: &'a Dirt,
    pub(super) changes: &'a Changes,
}

impl Ahead<'_> {
    pub(super) fn at(&self, path: &[u8]) -> Result<Now, GitError> {
        let Some((old, new)) = self.changes.get(path) else { return Ok(Now::InTheWay) };
        let nothing = if new.is_none() { Now::Same } else { Now::Free };
        let name = path_of(path);
        let mut above: Vec<&Path> = name.ancestors().skip(1).collect();
        while let Some(folder) = above.pop() {
            match self.lstat(folder)? {
                None => return Ok(nothing),
                Some(at) if at.is_dir() => {}
                Some(_) if new.is_none() || self.goes(folder) => return Ok(nothing),
                Some(_) => return Ok(Now::InTheWay),
            }
        }
        match self.lstat(name)? {
            None => return Ok(nothing),
            Some(at) if at.is_dir() && new.is_none() => return Ok(Now::Same),
            Some(at) if at.is_dir() => {
                return Ok(if self.empties(name)? { Now::Free } else { Now::InTheWay });
            }
            Some(_) => {}
        }
        let Some(content) =
            beneath::read(&self.look.place.root, name, u64::MAX - 1).map_err(|e| failed(name, &e))?
        else {
            return Ok(Now::InTheWay);
        };
        if self.is(&content, new.as_ref())? {
            return Ok(Now::Same);
        }
        // A committed file may look different on disk only because of how git checks it out, such as its line endings.
        let is_clean = || self.dirt.index.get(path) == old.as_ref() && !self.dirt.suspects.contains(path);
        let is_committed = old.is_some() && (self.is(&content, old.as_ref())? || is_clean());
        Ok(if is_committed { Now::Free } else { Now::InTheWay })
    }

    /// None if nothing is there.
    fn lstat(&self, path: &Path) -> Result<Option<Metadata>, GitError> {
        match self.look.place.root.join(path).symlink_metadata() {
            Ok(at) => Ok(Some(at)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(failed(path, &error)),
        }
    }

    /// Whether the rescue removes this file. Whether that is allowed is checked separately.
    fn goes(&self, path: &Path) -> bool {
        self.changes.get(path.as_os_str().as_bytes()).is_some_and(|(_, new)| new.is_none())
    }

    /// Whether a folder has only files that the rescue removes, so that it disappears with them.
    fn empties(&self, folder: &Path) -> Result<bool, GitError> {
        let mut is_empty = true;
        let entries = fs::read_dir(self.look.place.root.join(folder)).map_err(|e| failed(folder, &e))?;
        for entry in entries {
            let entry = entry.map_err(|error| failed(folder, &error))?;
            let path = folder.join(entry.file_name());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !(if is_folder { self.empties(&path)? } else { self.goes(&path) }) {
                return Ok(false);
            }
            is_empty = false;
        }
        // A folder that is empty already stays.
        Ok(!is_empty)
    }

    /// Whether content is that of an entry, byte for byte.
    fn is(&self, content: &Content, entry: Option<&Entry>) -> Result<bool, GitError> {
        let Some(entry) = entry.filter(|entry| entry.mode == content.mode()) else { return Ok(false) };
        Ok(object::name_of(self.look, content)? == entry.object)
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn failed(path: &Path, error: &io::Error) -> GitError {
    GitError(format!("{} cannot be looked at: {error}", path.display()))
}
