//! Many processes at once: who wins, who holds, who dies, who is stopped, and what the clock has to do with it.
//!
//! Linux only: the tests look at the kernel's table of locks, at namespaces, and step the wall clock with faketime.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../support/mod.rs"]
mod support;

mod caller;
mod clock;
mod deliveries;
mod first_touch;
mod graph_scenarios;
mod history;
mod holders;
mod killed;
mod liveness;
mod namespaces;
mod one_winner;
mod orphans;
mod seats;
mod stopped;
mod tools;
mod waiting;
