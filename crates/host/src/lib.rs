//! The environment of a caller, for every interface alike: the folder and its repository, the configuration, the caller's identity,
//! and the store that follows from them. The command line, MCP and later servers are built on it.
//!
//! Everything here (folders, files, the environment, the parent processes) is read on demand; a long-running program reads it again
//! for each request ([`Connection`]).
//!
//! **Architecture invariant:** nothing is printed and nobody is prompted. A problem is a refusal, and everything the caller should
//! know is returned.

mod committing;
pub mod config;
mod connection;
mod forecast;
pub mod gates;
mod host;
mod joining;
pub mod landing;
mod rescue;
pub mod scopes;
mod store_at;
mod strictness;
mod worktree;
mod worktrees;

pub use config::Config;
pub use connection::{Asker, Connection, Entered};
pub use host::{Host, end_orphan, env, target};
pub use joining::Joining;
pub use store_at::StoreAt;
pub use strictness::Strictness;
pub use worktree::{Checkout, marked};
pub use worktrees::{attachment, own_branch, run_set_up, worktree_env};
