//! Real processes under a real supervisor ([`stage`] starts one). Nothing here waits for ever, and nothing
//! depends on how fast it is: tests wait for what must come.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod death;
mod endings;
mod errands;
mod groups;
mod leases;
mod output;
mod signals;
mod stage;
mod starting;
mod terminal;
