//! Chaos: 32 callers with real processes on one store, which are killed -9, stopped for longer than their TTL, and run under
//! wall clocks that were stepped. Everybody writes down what it asked, when, and what it was told; the checker of
//! `tests/concurrency` then replays it against the ledger: each task's holder register is linearizable (tokens are unique and
//! grow, so that real-time order decides), nobody wrote past the fence, and no acknowledged command is missing.
//!
//! `CHAOS_SECONDS=60 cargo test -p onus --test chaos -- --nocapture` is the long run. `CHAOS_STORE` is the address of
//! another store for the same callers, whose tasks are made there; empty: SQLite in a folder of its own.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

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
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use history::{Deed, Event, History, Term, UNKNOWN, Verb, complaints};
use support::{As, Sandbox};
use tools::{Dice, Started, fresh_seed, now_ms, under};

const CALLERS: u64 = 32;
const TASKS: usize = 12;

/// What was done to processes.
#[derive(Debug, Default)]
struct Tally {
    run: AtomicUsize,
    killed: AtomicUsize,
    stopped: AtomicUsize,
    stepped: AtomicUsize,
    anchors: AtomicUsize,
}

struct Mine {
    task: String,
    token: u64,
    term: Term,
    anchor: Option<Started>,
}

struct Caller<'a> {
    sandbox: &'a Sandbox,
    who: As,
    tasks: &'a [String],
    dice: Dice,
    leases: Vec<Mine>,
    log: Vec<Deed>,
    tally: &'a Tally,
    can_step: bool,
}

/// The binary for one caller, on the store that is under test.
fn command(sandbox: &Sandbox, who: &As) -> Command {
    let mut command = sandbox.command(who);
    if let Some(store) = std::env::var_os("CHAOS_STORE").filter(|store| !store.is_empty()) {
        command.env("ONUS_STORE", store);
    }
    command
}

impl Caller<'_> {
    /// Runs one command, with whatever happens to it, and writes it down.
    fn run(&mut self, verb: Verb, task: &str, token: Option<u64>, term: Term, args: &[&str]) -> Deed {
        let mut command = command(self.sandbox, &self.who);
        if let Some(token) = token {
            command.env("ONUS_TASK", task).env("ONUS_TOKEN", token.to_string());
        }
        command.args(args).arg("--json").env("ONUS_STORE_WAIT", "60s");
        if self.can_step && self.dice.one_in(12) {
            self.tally.stepped.fetch_add(1, Ordering::Relaxed);
            let step = ["+2h", "-2h", "+3d"][usize::try_from(self.dice.below(3)).unwrap()];
            command = under(&["faketime", "--exclude-monotonic", "-f", step], &command);
        }
        let start_ms = now_ms();
        let process = Started::answering(&mut command);
        match self.dice.below(8) {
            0 | 1 => {
                // Somewhere between its start and its end, on a busy machine.
                std::thread::sleep(Duration::from_micros(self.dice.below(150_000)));
                let _ = rustix::process::kill_process(process.pid(), Signal::KILL);
            }
            2 => {
                std::thread::sleep(Duration::from_micros(self.dice.below(60_000)));
                if process.stop() {
                    self.tally.stopped.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(100 + self.dice.below(300)));
                }
                let _ = rustix::process::kill_process(process.pid(), Signal::CONT);
            }
            _ => {}
        }
        let output = process.output();
        let end_ms = now_ms() + 1;
        self.tally.run.fetch_add(1, Ordering::Relaxed);
        let killed = output.status.signal() == Some(9);
        if killed {
            self.tally.killed.fetch_add(1, Ordering::Relaxed);
        }
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        // An answer counts even if its process was killed right after it.
        let code = match (answer.is_object(), answer.get("error").is_some(), killed) {
            (true, false, _) => 0,
            (false, _, true) => UNKNOWN,
            _ => output.status.code().unwrap_or(UNKNOWN),
        };
        let (task, who) = (task.to_owned(), format!("{} {}", self.who.actor, self.who.instance));
        Deed { who, verb, task, start_ms, end_ms, code, answer, token, term }
    }

    fn begin(&mut self) {
        let task = self.dice.pick(self.tasks).clone();
        let anchor = self.dice.one_in(4).then(Started::sleeper);
        let ttl_ms = 50 + i64::try_from(self.dice.below(400)).unwrap();
        let term = if anchor.is_some() { Term::Bound } else { Term::Ttl(ttl_ms) };
        let (ttl, pid) = (format!("{ttl_ms}ms"), anchor.as_ref().map(|anchor| anchor.id().to_string()));
        let verb = if self.dice.one_in(4) { Verb::Takeover } else { Verb::Claim };
        let mut args = match verb {
            Verb::Takeover => vec!["takeover", &task, "--reason", "it looks forgotten", "--ttl", &ttl],
            _ => vec!["claim", &task, "--ttl", &ttl],
        };
        args.extend(pid.iter().flat_map(|pid| ["--bind", pid]));
        let mut deed = self.run(verb, &task, None, term, &args);
        if deed.code == 0 {
            deed.token = deed.answer["lease"]["token"].as_u64();
            if deed.answer["renewed"] == true {
                deed.term = Term::Ttl(ttl_ms);
            } else {
                self.leases.push(Mine { task, token: deed.token.unwrap(), term, anchor });
            }
        }
        self.log.push(deed);
    }

    fn go_on(&mut self, index: usize) {
        let Mine { task, token, term, .. } = &self.leases[index];
        let (task, token, term) = (task.clone(), *token, *term);
        let (verb, args): (Verb, &[&str]) = match self.dice.below(8) {
            0 | 1 => (Verb::Release, &["release", &task]),
            2 => (Verb::Done, &["done", &task, "-m", "done"]),
            3 => (Verb::Note, &["note", &task, "going on"]),
            _ => (Verb::Renew, &["renew", &task]),
        };
        let deed = self.run(verb, &task, Some(token), term, args);
        if deed.code == 0 && matches!(verb, Verb::Release | Verb::Done) {
            self.leases.remove(index);
        }
        self.log.push(deed);
    }

    /// The process that a lease is bound to dies.
    fn kill(&mut self, index: usize) {
        let mine = &mut self.leases[index];
        let Some(anchor) = mine.anchor.take() else { return };
        let (task, token, start_ms) = (mine.task.clone(), Some(mine.token), now_ms());
        anchor.kill_and_reap();
        self.tally.anchors.fetch_add(1, Ordering::Relaxed);
        let who = format!("{} {}", self.who.actor, self.who.instance);
        let (end_ms, answer, term) = (now_ms() + 1, Value::Null, Term::None);
        self.log.push(Deed { who, verb: Verb::Kill, task, start_ms, end_ms, code: 0, answer, token, term });
    }

    fn step(&mut self) {
        let index = (!self.leases.is_empty())
            .then(|| usize::try_from(self.dice.below(self.leases.len() as u64)).unwrap());
        match (self.dice.below(10), index) {
            (0..4, Some(index)) => self.go_on(index),
            (4, Some(index)) => self.kill(index),
            (5, _) => {
                let task = self.dice.pick(self.tasks).clone();
                let deed = self.run(Verb::Show, &task, None, Term::None, &["show", &task]);
                self.log.push(deed);
            }
            (6, _) => {
                let task = self.dice.pick(self.tasks).clone();
                let deed = self.run(Verb::Reopen, &task, None, Term::None, &["reopen", &task]);
                self.log.push(deed);
            }
            _ => self.begin(),
        }
        if self.leases.len() > 4 {
            self.kill(0);
            self.leases.remove(0);
        }
    }
}

fn play(seed: u64, long: Duration, tally: &Tally) -> History {
    let sandbox = Sandbox::new();
    let tasks: Vec<String> = (0..TASKS).map(|number| sandbox.add(&format!("task {number}"))).collect();
    let log = Mutex::new(Vec::new());
    let until = Instant::now() + long;
    tools::tidy_after_faketime();
    let can_step = Command::new("faketime").arg("--version").output().is_ok();
    std::thread::scope(|scope| {
        for number in 0..CALLERS {
            let (sandbox, tasks, log) = (&sandbox, &tasks, &log);
            scope.spawn(move || {
                let (actor, instance) = (format!("agent:caller{}", number / 2), format!("caller-{number}"));
                let dice = Dice::new(seed.wrapping_add(number));
                let (who, leases, own) = (As { actor, instance }, Vec::new(), Vec::new());
                let mut caller = Caller { sandbox, who, tasks, dice, leases, log: own, tally, can_step };
                while Instant::now() < until {
                    caller.step();
                }
                (0..caller.leases.len()).for_each(|index| caller.kill(index));
                log.lock().unwrap().append(&mut caller.log);
            });
        }
    });
    tools::tidy_after_faketime();
    sandbox.is_whole();
    let uids: Vec<String> =
        tasks.iter().map(|id| sandbox.show(id)["uid"].as_str().unwrap().to_owned()).collect();
    let mut deeds = log.into_inner().unwrap();
    for deed in &mut deeds {
        let index = tasks.iter().position(|id| *id == deed.task).unwrap();
        deed.task.clone_from(&uids[index]);
    }
    History { deeds, events: sandbox.events().iter().filter_map(Event::read).collect() }
}

#[test]
#[allow(clippy::print_stderr, reason = "the long run says what it did")]
fn killed_stopped_and_out_of_time_nobody_holds_what_another_holds_and_nothing_told_is_lost() {
    let (seed, tally) = (fresh_seed(), Tally::default());
    let seconds = std::env::var("CHAOS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let history = play(seed, Duration::from_secs(seconds), &tally);
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
