//! P10, and the git side of landing: what lands is what `git merge` would make of it, it lands exactly once, and it undoes nobody.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::panic, reason = "a test that cannot go on fails")]

mod checkouts;
mod killed;
mod kit;
mod merging;
mod moving;
#[path = "../../../../tests/support/program.rs"]
mod program;
mod remotes;
mod scratches;
mod styles;
