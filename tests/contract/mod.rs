//! The contract of the command line, held against the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on fails, or says what it leaves out"
)]

#[allow(dead_code, reason = "notices are looked at as the binary says them")]
#[path = "../../crates/cli/src/wording.rs"]
pub(crate) mod wording;

mod answers;
mod kit;
mod mcp_words;
mod refusal_cases;

mod bad_input;
mod bad_store;
mod cli_reference;
pub(crate) mod config;
mod disk_full;
mod faults;
mod fencing;
mod graph;
mod holders;
mod hostile;
mod idempotency;
mod identity;
mod intake;
mod lists;
mod neutral;
mod notices;
mod people;
mod places;
mod plans;
mod read_only;
mod references;
mod refusals;
mod rescue;
mod rescue_worktrees;
mod run;
mod schema;
mod scopes;
mod screens;
mod seats;
mod setup;
mod shell;
mod smoke;
mod steps;
mod stray_files;
mod transitions;
mod undo;
mod walk;
