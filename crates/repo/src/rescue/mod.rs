//! Rescue: turns everything uncommitted in a worktree into a commit, without touching that worktree, its index or its times (P10).
//!
//! **What a rescue is.** A commit whose tree is the worktree's files as they were on disk, byte for byte. Its parents are, in this order:
//! the commit that was checked out; a commit whose tree is what was staged; and, if there was anything that no tree can
//! hold, a commit with the sides of conflicts (`1/PATH`, `2/PATH`, `3/PATH`) and the files that were added with `--intent-to-add`
//! only (`intent/PATH`). It is kept by a reference ([`REFERENCES`]) that belongs to no branch and no checkout.
//!
//! **How it is made.** Git examines a copy of the index (with its time, which tells git what to compare), takes no lock and
//! runs no filter. Changed files are read without following links, copied into a private folder, and hashed from there. So
//! somebody who works in the worktree at the same time is not disturbed, and a file name cannot lead elsewhere.
//!
//! **Nothing replaces a rescue.** A reference is only ever created. If it exists with the same content, as after an interrupted
//! rescue, it is the rescue; with other content, the new rescue gets a name of its own (`-2`, `-3`, …).
//!
//! Left out, and listed: files over the size limits, nested repositories (their files are their own), and special files.

pub mod beneath;
mod look;
mod object;
mod obstacle;
mod restore;
pub(crate) mod spool;
mod writing;

use std::path::PathBuf;

use onus_core::scope::Scope;

use crate::discover::Place;
use crate::git::{GitError, Repository};

pub use restore::{
    FileOf, Restored, bring_back, bring_back_what_fits, content, files_of, foresee, restore_exactly, stat,
};
pub use spool::{left_behind, tidy};

/// Where rescues are kept: `refs/onus/rescue/<id>/<token>`.
pub const REFERENCES: &str = "refs/onus/rescue";

/// The most rescues of one lease.
const MOST_OF_ONE: usize = 100;

/// Which files of a worktree are kept.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// Everything: the worktree is one task's own.
    All,
    /// What these globs match, if others work in that worktree, too.
    Scope(&'a Scope),
}

/// Files beyond these limits are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one file.
    pub max_file: u64,
    /// Bytes of all files together.
    pub max_total: u64,
}

/// What was kept, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// None if there was nothing that could be kept.
    pub at: Option<KeptAt>,
    /// The files that differ from the commit, in the worktree or in the index; relative to the root.
    pub files: Vec<PathBuf>,
    pub left_out: Vec<LeftOut>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAt {
    pub reference: String,
    pub commit: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub path: PathBuf,
    pub why: Why,
}

onus_core::spelled! {
    /// Why something was left out.
    Why {
        TooLarge = "too_large",
        NestedRepository = "nested_repository",
        /// A pipe, a socket, a device.
        Special = "special",
        Unreadable = "unreadable",
    }
}

/// Keeps what is uncommitted in a worktree. Without anything uncommitted, it creates nothing.
pub fn keep(
    place: &Place,
    what: What<'_>,
    limits: Limits,
    reference: &str,
    message: &str,
) -> Result<Kept, GitError> {
    let look = look::Look::new(place)?;
    let mut dirt = look.uncommitted(what)?;
    object::spool(&look, &mut dirt, limits)?;
    if dirt.is_clean() {
        return Ok(Kept { left_out: dirt.left_out, ..Kept::default() });
    }
    let trees = object::trees(&look, &dirt)?;
    let at = match found(&look, reference, &trees)? {
        Found::Same(at) => at,
        Found::Free(mut free) => {
            let commit = object::commit(&look, &trees, message)?;
            loop {
                match create(&look, &free, &commit) {
                    Ok(()) => break KeptAt { reference: free, commit },
                    // Another process was faster; its rescue may be the same.
                    Err(error) => match found(&look, reference, &trees)? {
                        Found::Same(at) => break at,
                        Found::Free(next) if next != free => free = next,
                        Found::Free(_) => return Err(error),
                    },
                }
            }
        }
    };
    Ok(Kept { at: Some(at), files: dirt.files(), left_out: dirt.left_out })
}

/// A worktree's files on disk as a tree, without ignored ones. The error names a file that could not be read.
pub(crate) fn tree_on_disk(place: &Place, limits: Limits) -> Result<String, GitError> {
    let look = look::Look::new(place)?;
    let mut dirt = look.uncommitted(What::All)?;
    object::spool(&look, &mut dirt, limits)?;
    let lost = dirt.left_out.iter().find(|left_out| left_out.why != Why::NestedRepository);
    if let Some(LeftOut { path, why }) = lost {
        return Err(GitError(format!("{} cannot be read: {}", path.display(), why.as_str())));
    }
    object::on_disk(&look, &dirt)
}

enum Found {
    Same(KeptAt),
    /// The first free name.
    Free(String),
}

fn found(look: &look::Look<'_>, reference: &str, trees: &object::Trees) -> Result<Found, GitError> {
    for n in 1..=MOST_OF_ONE {
        let name = if n == 1 { reference.to_owned() } else { format!("{reference}-{n}") };
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
        let outcome = look.call().words(&args).outcome()?;
        if !outcome.status.success() {
            return Ok(Found::Free(name));
        }
        let commit = String::from_utf8_lossy(&outcome.out).trim().to_owned();
        if object::trees_of(look, &commit)?.as_ref() == Some(trees) {
            return Ok(Found::Same(KeptAt { reference: name, commit }));
        }
    }
    Err(GitError(format!("there are {MOST_OF_ONE} rescues below {reference} already")))
}

/// Creates a reference, unless it exists.
fn create(look: &look::Look<'_>, reference: &str, commit: &str) -> Result<(), GitError> {
    let none = "0".repeat(commit.len());
    let args = ["update-ref", "--no-deref", "--end-of-options", reference, commit, &none];
    look.call().words(&args).run().map(drop)
}

/// The rescues in a repository.
pub fn list(repository: &Repository) -> Result<Vec<KeptAt>, GitError> {
    let args = ["for-each-ref", "--format=%(objectname) %(refname)", "--end-of-options", REFERENCES];
    let out = repository.call().words(&args).run()?;
    let lines = String::from_utf8_lossy(&out).into_owned();
    let at = lines.lines().filter_map(|line| {
        let (commit, reference) = line.split_once(' ')?;
        Some(KeptAt { reference: reference.to_owned(), commit: commit.to_owned() })
    });
    Ok(at.collect())
}

/// Deletes a rescue's reference, if it is unchanged. Git collects the content later.
pub fn forget(repository: &Repository, at: &KeptAt) -> Result<(), GitError> {
    let KeptAt { reference, commit } = at;
    let args = ["update-ref", "--no-deref", "-d", "--end-of-options", reference, commit];
    repository.call().words(&args).run().map(drop)
}
