//! Coding agents as they are: shells that forget their environment, hooks with their harness's own payloads, sub-agents in
//! one process, pseudo-terminals, sandboxes, and conversations that end, rest, come back or are killed.
//!
//! Every agent here is a real process (`harness.py`) that starts real hooks and shells. Linux only: processes and
//! namespaces are looked at.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stderr, reason = "what is left out is said")]

mod collisions;
mod conversations;
mod deaths;
mod files;
mod guard;
mod harmless;
mod harness;
pub(crate) mod kit;
mod loops;
mod notices;
mod parts;
mod payload;
mod persons;
mod primer;
mod rescue;
mod set_up;
mod shell_leases;
mod shell_storm;
mod shell_writes;
mod texts;
mod turns;
mod usage;
mod worktrees;
