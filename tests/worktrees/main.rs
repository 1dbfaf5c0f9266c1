//! Tasks' worktrees, with the real binary and the real git: made whole or not at all, and never taken away with somebody's work.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod foreseen;
mod gates;
mod keeping;
mod killed;
mod kit;
mod landing;
mod late;
mod losing;
mod making;
mod rescued;
mod storm;
#[path = "../support/mod.rs"]
mod support;
