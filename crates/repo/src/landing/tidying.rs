//! What is to go once a task has landed: its worktree and its branch, written down before the target moves.
//!
//! Whoever lands takes both away afterwards. If it is killed in between, nothing else would tell them from a worktree that somebody
//! keeps on purpose. So there is a small file for each, locked as long as the lander lives: one that nobody has locked
//! was left by somebody who died, and whoever finds it goes on, by the same rules.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use onus_core::commit::CommitId;
use serde::{Deserialize, Serialize};

use super::Lander;
use crate::files::read_itself;

/// The branch of a task that is about to land, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// The task's uid and id.
    pub task: String,
    pub id: String,
    pub branch: String,
    pub head: CommitId,
}

/// One that is written down, and locked by this process.
#[derive(Debug)]
pub struct Tidying {
    /// Locked while it is open.
    file: File,
    path: PathBuf,
}

impl Tidying {
    /// It is gone, or stays for a reason that was said.
    pub fn done(self) {
        // What stays is looked at once more by the next.
        drop(fs::remove_file(&self.path));
        drop(self.file);
    }
}

impl Lander {
    fn tidying_folder(&self) -> PathBuf {
        self.own_folder().join("tidying")
    }

    /// Writes down what is to go. None: it cannot be, or somebody else is at it; then nobody goes on where we stop.
    pub fn will_tidy(&self, leftover: &Leftover) -> Option<Tidying> {
        let write = || -> io::Result<Tidying> {
            let folder = self.tidying_folder();
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            let path = folder.join(format!("{}.json", leftover.id));
            let mut open = OpenOptions::new();
            let mut file =
                open.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
            file.try_lock()?;
            file.set_len(0)?;
            file.write_all(serde_json::to_string(leftover)?.as_bytes())?;
            Ok(Tidying { file, path })
        };
        write().ok()
    }

    /// What landers that died were about to take away.
    pub fn leftovers(&self) -> Vec<(Leftover, Tidying)> {
        let entries = fs::read_dir(self.tidying_folder()).into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| {
            let path = entry.path();
            let file = OpenOptions::new().read(true).write(true).open(&path).ok()?;
            file.try_lock().ok()?;
            let tidying = Tidying { file, path: path.clone() };
            match serde_json::from_str(&read_itself(&path).ok()?) {
                Ok(leftover) => Some((leftover, tidying)),
                // Never written whole: its target had not moved.
                Err(_) => {
                    tidying.done();
                    None
                }
            }
        });
        found.collect()
    }
}
