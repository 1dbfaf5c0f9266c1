//! Rescue: everything uncommitted in a worktree becomes a commit, without touching that worktree, its index or its times (P10).
//!
//! **What a rescue is.** A commit whose tree is the worktree's files as they were on disk, byte for byte. Its parents are, in this order:
//! the commit that was checked out; a commit whose tree is what was staged; and, if there was anything that no tree can
//! hold, a commit with the sides of conflicts (`1/PATH`, `2/PATH`, `3/PATH`) and the files that were only intended to be added
//! (`intent/PATH`). It is kept by a reference ([`REFERENCES`]), which belongs to no branch and no checkout.
//!
//! **How it is made.** Git looks at a copy of the index (with its time, by which git tells what it has to compare), takes no lock and
//! runs no filter. Changed files are read by steps that follow no link, spooled into a private folder, and hashed from there. So a
//! worktree on which somebody works at the same time is not disturbed, and a file name can lead nowhere else.
//!
//! **Nothing replaces a rescue.** A reference is only ever created. If it is there with the same content, that one is the rescue,
//! as after a rescue that was interrupted; with another content, the new one gets a name of its own (`-2`, `-3`, …).
//!
//! Left where it is, and listed: what is larger than the bounds, a nested repository (its files are its own), and what is no file.

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
    Brought, FileOf, bring_back, bring_back_what_fits, content, files_of, foresee, lay_out, stat,
};
pub use spool::{left_behind, tidy};

/// Where rescues are kept: `refs/onus/rescue/<id>/<token>`.
pub const REFERENCES: &str = "refs/onus/rescue";

/// How many rescues of one lease are told apart.
const MOST_OF_ONE: usize = 100;

/// What of a worktree is kept.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// Everything: the worktree is one task's own.
    All,
    /// What these globs match: others work in that worktree, too.
    Scope(&'a Scope),
}

/// What is too large is left out.
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
    /// None: there was nothing that could be kept.
    pub at: Option<KeptAt>,
    /// The files that differ from the commit, in the worktree or in the index; from the root.
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

/// Why something was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    TooLarge,
    NestedRepository,
    /// A pipe, a socket, a device.
    Special,
    Unreadable,
}

impl Why {
    pub fn as_str(self) -> &'static str {
        match self {
            Why::TooLarge => "too_large",
            Why::NestedRepository => "nested_repository",
            Why::Special => "special",
            Why::Unreadable => "unreadable",
        }
    }
}

/// Keeps what is uncommitted in a worktree. Nothing is made where nothing is.
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
                    // Somebody else was faster: theirs may be the same.
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

/// What is on a worktree's disk as a tree, what git ignores apart. An error names a file that it could not have.
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
    /// The first name that is free.
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

/// Compare and swap: only where there is none.
fn create(look: &look::Look<'_>, reference: &str, commit: &str) -> Result<(), GitError> {
    let none = "0".repeat(commit.len());
    let args = ["update-ref", "--no-deref", "--end-of-options", reference, commit, &none];
    look.call().words(&args).run().map(drop)
}

/// The rescues that a repository has: reference and commit.
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

/// Lets go of a rescue, if its reference is still what it was. Its content goes when git tidies up.
pub fn forget(repository: &Repository, at: &KeptAt) -> Result<(), GitError> {
    let KeptAt { reference, commit } = at;
    let args = ["update-ref", "--no-deref", "-d", "--end-of-options", reference, commit];
    repository.call().words(&args).run().map(drop)
}
