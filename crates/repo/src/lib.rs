//! Git, as far as onus needs it: discovery by reading files, everything else by running the git program.
//!
//! **One store per repository.** Every worktree of a repository shares its *common dir*, so the store lives there,
//! outside the tree, and is never part of a commit. A submodule is part of its superproject's work and uses the
//! superproject's store. Outside git the store is in `.onus/`.
//!
//! **A repository is not trusted** until the user decides so: neither committed files nor another user's files decide
//! where the store is or what is run (`discover.rs`, `owner.rs`, `git/`), and its files are read with a size limit
//! (`files.rs`).
//!
//! Discovery starts no process, since every command runs it.

pub mod approval;
pub mod calls;
mod consent;
mod discover;
mod files;
pub mod forecast;
mod git;
pub mod git_hooks;
pub mod judged;
pub mod landing;
pub mod last;
mod name;
mod owner;
pub mod rescue;
mod tree;
mod worktree;
pub mod worktrees;

pub use consent::Consents;
pub use discover::{Place, checkout_of, checkouts, discover, place_for_new_store};
pub use files::{MAX_BYTES, Unreadable, open_own, read_inside, read_small, resolve_inside};
pub use git::{
    Describing, GitError, JudgedCommit, Listing, Made, Repository, SEALS, Staged, Staging, add_trailers,
    adrift, anchor, anchored, are_committed, describe, named_by, pushed, shared_folder_mode, show,
    uncommitted,
};
pub use name::{Named, Unnamed, locate, name_of};
pub use owner::Foreign;
pub use tree::{Seen, changed_since};
pub use worktree::{administered, worktree_mark};
