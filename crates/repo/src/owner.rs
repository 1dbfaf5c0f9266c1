//! Whose repository this is, by git's own rules.
//!
//! A repository's configuration names programs that git runs, and its store says who holds what. So, like git, onus
//! trusts neither unless the user owns it: the checkout, its `.git`, the git dir and the common dir must belong to the current user
//! (or, for root, to the user that called `sudo`). In any other case onus asks git itself, which knows what the user declared
//! safe (`safe.directory`). Only that case starts a process.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use onus_core::refusal::{Code, Refusal, Step};
use rustix::process::geteuid;

use crate::git;

/// Another user's repository or store.
#[derive(Debug, thiserror::Error)]
#[error("{} belongs to another user (uid {uid})", .path.display())]
pub struct Foreign {
    pub path: PathBuf,
    pub uid: u32,
    pub in_git: bool,
}

/// Another user's repository is not opened: its settings, its store and its git configuration would be theirs.
impl From<Foreign> for Refusal {
    fn from(found: Foreign) -> Refusal {
        let refusal = Refusal::new(Code::Foreign, format!("{found}, so it is not used"));
        // Trusting it is a person's decision, and git's manual says how.
        refusal.next(Step::plain(if found.in_git {
            "work in a clone of your own; a person who trusts its owner can tell git so (safe.directory)"
        } else {
            "work in a folder of your own"
        }))
    }
}

pub(crate) fn check(believed: &[PathBuf], root: &Path, in_git: bool) -> Result<(), Foreign> {
    let owners = Owners::current();
    let Some((path, uid)) = believed.iter().find_map(|path| Some((path, owners.stranger(path)?))) else {
        return Ok(());
    };
    if in_git && git::git_trusts(root) {
        return Ok(());
    }
    Err(Foreign { path: path.clone(), uid, in_git })
}

/// The users whose files count as the caller's own.
struct Owners {
    own: u32,
    /// The user who became root by `sudo`.
    before_sudo: Option<u32>,
}

impl Owners {
    fn current() -> Owners {
        let own = geteuid().as_raw();
        let before_sudo = (own == 0).then(|| std::env::var("SUDO_UID").ok()?.parse().ok()).flatten();
        Owners { own, before_sudo }
    }

    /// The uid of another user who owns this path, or what it links to. None if it does not exist.
    fn stranger(&self, path: &Path) -> Option<u32> {
        [fs::symlink_metadata(path), fs::metadata(path)]
            .into_iter()
            .filter_map(|metadata| Some(metadata.ok()?.uid()))
            .find(|uid| *uid != self.own && Some(*uid) != self.before_sudo)
    }
}
