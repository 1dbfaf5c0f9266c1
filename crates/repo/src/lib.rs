//! Git, as far as onus needs it: discovery by reading files, everything else by running the git program.
//!
//! **One store a repository.** Every worktree of a repository shares its *common dir*, so the store lives there,
//! outside the tree, and is never in anybody's commit. A submodule is part of its superproject's work and uses the
//! superproject's store. Outside git the store lies in `.onus/`.
//!
//! Discovery starts no process: it is on the path of every command.

mod discover;
mod git;

pub use discover::{Place, discover, place_for_new_store};
pub use git::{GitError, SEALS, anchor, anchored, show};
