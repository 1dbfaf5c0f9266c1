//! The contract of the command line, held against the real binary.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on fails, or says what it leaves out"
)]

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod kit;
mod refusal_cases;

mod bad_input;
mod bad_store;
mod cli_reference;
mod config;
mod disk_full;
mod fencing;
mod graph;
mod holders;
mod idempotency;
mod identity;
mod notices;
mod places;
mod plans;
mod read_only;
mod references;
mod refusals;
mod run;
mod schema;
mod scopes;
mod setup;
mod shell;
mod smoke;
mod transitions;
