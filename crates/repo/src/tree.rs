//! What changed in a worktree between two times, according to git and the file system.
//!
//! Git says what differs from the commit. The file system says when it changed: for a file, by its ctime, which no program can set
//! back; for a missing one, by the time its folder last changed.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use crate::calls::{TICK_MS, home};
use crate::discover::Place;
use crate::git::{GitError, Repository, dirty};

/// What was found in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Files that differ from the commit and changed in that time.
    pub changed: Vec<String>,
    /// Missing tracked files whose folders changed in that time.
    pub removed: Vec<String>,
    /// All tracked files that are missing.
    pub missing: Vec<String>,
}

/// What differs from the commit and changed between two times. None outside git, or in another user's repository.
pub fn changed_since(
    place: &Place,
    (from_ms, until_ms): (i64, i64),
    limit: Duration,
) -> Option<Result<Seen, GitError>> {
    let repository = Repository::new(place).ok().flatten()?;
    let (root, git_dir) = home(place)?;
    Some(dirty(&repository, (&root, &git_dir), limit).map(|entries| {
        let is_meanwhile = |s: i64, ns: i64| {
            let at_ms = s.saturating_mul(1_000).saturating_add(ns / 1_000_000);
            (from_ms - TICK_MS..=until_ms).contains(&at_ms)
        };
        let mut seen = Seen::default();
        for (path, is_there) in entries {
            let name = path.to_string_lossy().into_owned();
            if is_there {
                let metadata = root.join(&path).symlink_metadata();
                if metadata.is_ok_and(|metadata| is_meanwhile(metadata.ctime(), metadata.ctime_nsec())) {
                    seen.changed.push(name);
                }
                continue;
            }
            let folder = root.join(&path);
            let folder = folder.ancestors().skip(1).find_map(|folder: &Path| folder.metadata().ok());
            if folder.is_some_and(|folder| is_meanwhile(folder.mtime(), folder.mtime_nsec())) {
                seen.removed.push(name.clone());
            }
            seen.missing.push(name);
        }
        seen
    }))
}
