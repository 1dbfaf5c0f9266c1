//! The guard behind git's hooks, through real git: what agents are refused, what people are told, what the record keeps; and that
//! hooks which were there before run as before.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

pub(crate) mod commits;
mod constraints;
mod done;
mod edits;
mod install;
pub(crate) mod kit;
mod names;
mod own_worktree;
mod pushes;
mod recorded;
mod trouble;
