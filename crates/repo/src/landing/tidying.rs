//! Notes of what to remove once a task has landed, its worktree and its branch, written before the target moves.
//!
//! The lander removes both after the move. If it is killed in between, nothing else distinguishes them from a worktree that
//! somebody keeps on purpose. So there is a small file for each, locked as long as the lander lives: an unlocked one was left by
//! a lander that died, and the next lander that finds it continues by the same rules.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use onus_core::commit::CommitId;
use serde::{Deserialize, Serialize};

use super::Lander;
use crate::files::{private_file, private_folder, read_itself};

/// The branch of a task that is about to land, and its commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// The task's uid and id.
    pub task: String,
    pub id: String,
    pub branch: String,
    pub head: CommitId,
}

/// A note on disk, locked by this process.
#[derive(Debug)]
pub struct Tidying {
    /// Locked while it is open.
    file: File,
    path: PathBuf,
}

impl Tidying {
    /// Deletes the note: worktree and branch are gone, or stay for a reason that was reported.
    pub fn done(self) {
        // If this fails, the next lander checks once more.
        drop(fs::remove_file(&self.path));
        drop(self.file);
    }
}

impl Lander {
    fn tidying_folder(&self) -> PathBuf {
        self.own_folder().join("tidying")
    }

    /// Notes what is to be removed. None if the note cannot be written or another process has it; then nobody continues after a kill.
    pub fn will_tidy(&self, leftover: &Leftover) -> Option<Tidying> {
        let write = || -> io::Result<Tidying> {
            let folder = self.tidying_folder();
            private_folder(&folder)?;
            let path = folder.join(format!("{}.json", leftover.id));
            let mut file = private_file(&path)?;
            file.try_lock()?;
            file.set_len(0)?;
            file.write_all(serde_json::to_string(leftover)?.as_bytes())?;
            Ok(Tidying { file, path })
        };
        write().ok()
    }

    /// The notes of landers that died.
    pub fn leftovers(&self) -> Vec<(Leftover, Tidying)> {
        let entries = fs::read_dir(self.tidying_folder()).into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| {
            let path = entry.path();
            let file = OpenOptions::new().read(true).write(true).open(&path).ok()?;
            file.try_lock().ok()?;
            let tidying = Tidying { file, path: path.clone() };
            match serde_json::from_str(&read_itself(&path).ok()?) {
                Ok(leftover) => Some((leftover, tidying)),
                // Not completely written, so its target had not moved.
                Err(_) => {
                    tidying.done();
                    None
                }
            }
        });
        found.collect()
    }
}
