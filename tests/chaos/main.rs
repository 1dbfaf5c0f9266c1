//! Chaos: 32 callers with real processes on one store, which are killed -9, stopped for longer than their TTL, and run under
//! wall clocks that were stepped. On a PostgreSQL server their connections are cut as well, by the server and on the way, also
//! just when a commit was sent; the server is crashed and started again; and in a test of its own it is gone for good, and its
//! standby takes over. Everybody writes down what it asked, when, and what it was told; the checker of `tests/concurrency`
//! then replays it against the ledger: each task's holder register is linearizable (tokens are unique and grow, so that
//! real-time order decides), nobody wrote past the fence, and no acknowledged command is missing.
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

mod failover;
mod server;

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use caller::{Company, play};
use history::{History, UNKNOWN, complaints};
use support::Sandbox;
use tools::{Dice, Started, fresh_seed, under};

/// What was done to processes.
#[derive(Debug, Default)]
struct Tally {
    run: AtomicUsize,
    killed: AtomicUsize,
    stopped: AtomicUsize,
    stepped: AtomicUsize,
    /// Answers that the store could not be reached, or that the outcome is unknown.
    unavailable: AtomicUsize,
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
    if code == 8 {
        count(&tally.unavailable);
        // Nobody hammers on a server that is gone.
        std::thread::sleep(Duration::from_millis(50 + dice.below(200)));
    }
    let is_unsure = code == 8 && answer["error"]["code"] == "not_known";
    (if is_unsure { UNKNOWN } else { code }, answer)
}

/// One test at a time: each wants the whole machine.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long the callers play.
fn duration() -> Duration {
    let seconds = std::env::var("CHAOS_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(8))
}

fn told(history: &History, code: i32) -> usize {
    history.deeds.iter().filter(|deed| deed.code == code).count()
}

/// How often this was told to somebody who asked for a seat, or for something under one.
fn told_of_seats(history: &History, code: i32) -> usize {
    let created = history.events.iter().filter(|event| event.kind == "seat.created");
    let seats: BTreeSet<&str> = created.map(|event| event.task.as_str()).collect();
    history.deeds.iter().filter(|deed| deed.code == code && seats.contains(deed.task.as_str())).count()
}

/// Nobody held what another held, and nothing told is lost; nobody was told anything but these codes.
#[allow(clippy::print_stderr, reason = "the long run says what it did")]
fn judge(history: &History, (seed, tally): (u64, &Tally), allowed: &[i32], also: &str) {
    let (events, acknowledged) = (history.events.len(), told(history, 0));
    eprintln!("seed {seed}: {events} events, {acknowledged} acknowledged, {tally:?}{also}");
    for deed in &history.deeds {
        assert!(allowed.contains(&deed.code), "seed {seed}: {deed:?}");
    }
    let found = complaints(history);
    // The scheduler's part no seed repeats: what is known of such a task is shown.
    for task in found.iter().filter_map(|complaint| complaint.split(':').next()).collect::<BTreeSet<_>>() {
        let mut deeds: Vec<_> = history.deeds.iter().filter(|deed| deed.task == task).collect();
        deeds.sort_by_key(|deed| deed.start_ms);
        let events = history.events.iter().filter(|event| event.task == task);
        deeds.iter().for_each(|deed| eprintln!("{deed:?}"));
        events.for_each(|event| eprintln!("{event:?}"));
    }
    assert!(found.is_empty(), "seed {seed}: {}", found.join("\n"));
}

/// What a run must have met, or it showed nothing.
fn met(seed: u64, what: &[(&str, usize)]) {
    assert!(what.iter().all(|(_, count)| *count > 0), "seed {seed}: the run met only {what:?}");
}

#[test]
fn killed_stopped_and_out_of_time_nobody_holds_what_another_holds_and_nothing_told_is_lost() {
    let _alone = alone();
    let (seed, tally) = (fresh_seed(), Tally::default());
    let company = Company { callers: 32, tasks: 12, seats: 3, ttl_ms: 50..450, seed };
    let until = Instant::now() + duration();
    let history = play(
        &company,
        &Sandbox::new(),
        |_| Instant::now() < until,
        || |command, dice: &mut Dice| run(command, dice, &tally),
        || (),
    );
    judge(&history, (seed, &tally), &[UNKNOWN, 0, 4, 5, 6], "");
    met(
        seed,
        &[
            ("acknowledged", told(&history, 0)),
            ("held", told(&history, 4)),
            ("unknown", told(&history, UNKNOWN)),
            ("seats taken", told_of_seats(&history, 0)),
            ("seats held", told_of_seats(&history, 4)),
            ("seats unknown", told_of_seats(&history, UNKNOWN)),
            ("killed", tally.killed.into_inner()),
            ("stopped", tally.stopped.into_inner()),
        ],
    );
}
