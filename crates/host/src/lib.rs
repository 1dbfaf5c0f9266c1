//! Where onus is used, for every interface alike: the folder and its repository, the configuration, who calls, and which
//! store that leads to. The command line, MCP and later servers are built on it.
//!
//! **It finds out, and prints nothing.** A problem is a refusal; what a caller should know is returned. Everything here
//! (folders, files, the environment, the parent processes) is read on demand: a long-running program asks again
//! ([`Connection`]).
//!
//! **Architecture invariant:** nothing is printed, nobody is asked a question.

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
pub use worktree::Checkout;
pub use worktrees::{attachment, own_branch, run_set_up, told_of};
