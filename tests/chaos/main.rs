//! Chaos: 32 callers with real processes on one store, which are killed -9, stopped for longer than their TTL, and run under
//! wall clocks that were stepped. Everybody writes down what it asked, when, and what it was told; the checker of
//! `tests/concurrency` then replays it against the ledger: each task's holder register is linearizable (tokens are unique and
//! grow, so that real-time order decides), nobody wrote past the fence, and no acknowledged command is missing.
//!
//! `CHAOS_SECONDS=60 cargo test -p onus --test chaos -- --nocapture` is the long run.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../concurrency/caller.rs"]
mod caller;
#[allow(dead_code, reason = "what other tests need of it")]
#[path = "../concurrency/history.rs"]
mod history;
#[path = "../support/mod.rs"]
mod support;
#[allow(dead_code, reason = "what other tests need of it")]
#[path = "../concurrency/tools.rs"]
mod tools;

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use caller::{Company, play};
use history::{UNKNOWN, complaints};
use tools::{Dice, Started, fresh_seed, under};

/// What was done to processes.
#[derive(Debug, Default)]
struct Tally {
    run: AtomicUsize,
    killed: AtomicUsize,
    stopped: AtomicUsize,
    stepped: AtomicUsize,
}

fn count(what: &AtomicUsize) {
    what.fetch_add(1, Ordering::Relaxed);
}

/// Runs one command, with whatever happens to it.
fn run(mut command: Command, dice: &mut Dice, tally: &Tally) -> (i32, Value) {
    count(&tally.run);
    let fate = dice.below(12);
    if fate == 0 {
        // Killed, only the program in front of it would die.
        count(&tally.stepped);
        let step = ["+2h", "-2h", "+3d"][usize::try_from(dice.below(3)).unwrap()];
        command = under(&["faketime", "--exclude-monotonic", "-f", step], &command);
    }
    let process = Started::answering(&mut command);
    match fate {
        1..4 => {
            // Somewhere between its start and its end, on a busy machine.
            std::thread::sleep(Duration::from_micros(dice.below(150_000)));
            let _ = kill_process(process.pid(), Signal::KILL);
        }
        4 => {
            std::thread::sleep(Duration::from_micros(dice.below(60_000)));
            if process.stop() {
                count(&tally.stopped);
                std::thread::sleep(Duration::from_millis(100 + dice.below(300)));
            }
            let _ = kill_process(process.pid(), Signal::CONT);
        }
        _ => {}
    }
    let output = process.output();
    let killed = output.status.signal() == Some(9);
    if killed {
        count(&tally.killed);
    }
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    // An answer counts even if its process was killed right after it.
    let code = match (answer.is_object(), answer.get("error").is_some(), killed) {
        (true, false, _) => 0,
        (false, _, true) => UNKNOWN,
        _ => output.status.code().unwrap_or(UNKNOWN),
    };
    (code, answer)
}

#[test]
#[allow(clippy::print_stderr, reason = "the long run says what it did")]
fn killed_stopped_and_out_of_time_nobody_holds_what_another_holds_and_nothing_told_is_lost() {
    let (seed, tally) = (fresh_seed(), Tally::default());
    let seconds = std::env::var("CHAOS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let company = Company { callers: 32, tasks: 12, ttl_ms: 50..450, seed };
    let until = Instant::now() + Duration::from_secs(seconds);
    let history =
        play(&company, |_| Instant::now() < until, || |command, dice: &mut Dice| run(command, dice, &tally));
    eprintln!("seed {seed}: {seconds} s, {} events, {tally:?}", history.events.len());
    let found = complaints(&history);
    assert!(found.is_empty(), "seed {seed}: {}", found.join("\n"));
    for deed in &history.deeds {
        assert!([UNKNOWN, 0, 4, 5, 6].contains(&deed.code), "seed {seed}: {deed:?}");
    }
    // What the run must have met, or it showed nothing.
    let told = |code: i32| history.deeds.iter().filter(|deed| deed.code == code).count();
    let met = [told(0), told(4), told(UNKNOWN), tally.killed.into_inner(), tally.stopped.into_inner()];
    assert!(met.iter().all(|count| *count > 0), "seed {seed}: the run met only {met:?}");
}
