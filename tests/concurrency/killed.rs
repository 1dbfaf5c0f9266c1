//! kill -9 at random moments: what was answered is kept, what was not is whole or not there at all.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{As, Ran, Sandbox, agent};
use crate::tools::{Dice, Lock, Started, fresh_seed};

/// Killed while they ran, at least.
const KILLS: usize = 600;
/// A bound for the search: most processes are hit.
const ATTEMPTS: usize = 6_000;
const LANES: u64 = 2;
const TASKS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Claim,
    Done,
    Reopen,
    Add,
    Rebuild,
}

const WORKS: [Work; 5] = [Work::Claim, Work::Done, Work::Reopen, Work::Add, Work::Rebuild];

impl Work {
    fn args(self, task: &str) -> Vec<&str> {
        match self {
            Work::Claim => vec!["claim", task],
            Work::Done => vec!["done", task, "-m", "did it"],
            Work::Reopen => vec!["reopen", task],
            Work::Add => vec!["add", "one more"],
            Work::Rebuild => vec!["ledger", "rebuild"],
        }
    }

    /// The event that a success leaves behind, at the version the answer shows.
    fn event(self) -> Option<&'static str> {
        match self {
            Work::Claim => Some("lease.acquired"),
            Work::Done => Some("task.done"),
            Work::Reopen => Some("task.reopened"),
            Work::Add => Some("task.created"),
            Work::Rebuild => None,
        }
    }
}

/// A success that somebody was told.
#[derive(Debug)]
struct Told {
    work: Work,
    actor: String,
    answer: Value,
}

#[derive(Default)]
struct Tally {
    attempts: AtomicUsize,
    /// Killed, of each kind of work.
    killed: [AtomicUsize; WORKS.len()],
    /// Of these, how many had the writer lock.
    killed_with_the_lock: AtomicUsize,
    told: Mutex<Vec<Told>>,
}

impl Tally {
    fn kills(&self) -> usize {
        self.killed.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// One process after another, each killed at a random moment of the time that its kind of work takes.
fn lane(sandbox: &Sandbox, who: &As, tasks: &[String], mut dice: Dice, tally: &Tally) {
    let lock = Lock::writer(sandbox);
    let mut usual = [Duration::from_millis(20); WORKS.len()];
    while tally.kills() < KILLS && tally.attempts.fetch_add(1, Ordering::Relaxed) < ATTEMPTS {
        let index = usize::try_from(dice.below(WORKS.len() as u64)).unwrap();
        let (work, task) = (WORKS[index], dice.pick(tasks));
        let started = Instant::now();
        let mut process = Started::answering(
            sandbox.command(who).args(work.args(task)).arg("--json").env("ONUS_STORE_WAIT", "60s"),
        );
        // Now and then one runs to its end, and shows how long that takes now.
        let spared = dice.one_in(8);
        let mut has_it = false;
        if !spared {
            std::thread::sleep(usual[index].mul_f64(dice.below(1_000) as f64 / 1_000.0));
            // It stands still while one looks where it is.
            has_it = process.stop() && lock.holder() == Some(process.id());
            let _ = process.child().kill();
        }
        let output = process.output();
        if spared {
            usual[index] = started.elapsed();
        }
        if was_killed(output.status) {
            tally.killed[index].fetch_add(1, Ordering::Relaxed);
            if has_it {
                tally.killed_with_the_lock.fetch_add(1, Ordering::Relaxed);
            }
        } else {
            // Whatever died around it: done, held by the other, or not possible from that state. Never a failure.
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 4 | 6)), "{work:?} {task}: {:?}", Ran::of(output));
        }
        // An answer counts even if its process was killed right after it.
        if let Ok(answer) = serde_json::from_slice::<Value>(&output.stdout)
            && answer.get("error").is_none()
        {
            tally.told.lock().unwrap().push(Told { work, actor: who.actor.clone(), answer });
        }
    }
}

fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9)
}

fn is_recorded(told: &Told, events: &[Value]) -> bool {
    let Some(kind) = told.work.event() else { return true };
    if told.answer["renewed"] == true {
        return true;
    }
    let task = if told.work == Work::Claim { &told.answer["task"] } else { &told.answer };
    events.iter().any(|event| {
        event["kind"] == kind
            && event["task"] == task["uid"]
            && event["version"] == task["version"]
            && event["actor"] == told.actor
    })
}

#[test]
fn after_500_kills_the_store_is_whole_and_every_answered_success_is_in_the_ledger() {
    // Given a store that two callers claim from, finish in and rebuild, over and over
    let (sandbox, seed) = (Sandbox::new(), fresh_seed());
    let tasks: Vec<String> = (0..TASKS).map(|number| sandbox.add(&format!("task {number}"))).collect();
    let tally = Tally::default();

    // When most of their processes are killed at random moments
    std::thread::scope(|scope| {
        for number in 0..LANES {
            let (sandbox, tasks, tally) = (&sandbox, &tasks, &tally);
            let dice = Dice::new(seed.wrapping_add(number));
            scope.spawn(move || lane(sandbox, &agent(&format!("mortal{number}")), tasks, dice, tally));
        }
    });

    // Then the kills were real: of every kind, and inside the write too
    let killed: Vec<usize> = tally.killed.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    assert!(tally.kills() >= 500, "seed {seed}: only {killed:?} of {WORKS:?} were killed");
    assert!(killed.iter().all(|count| *count >= 40), "seed {seed}: {killed:?} of {WORKS:?} were killed");
    let with_the_lock = tally.killed_with_the_lock.into_inner();
    assert!(with_the_lock >= 20, "seed {seed}: only {with_the_lock} were killed with the writer lock");

    // And nothing is broken or lost
    let told = tally.told.into_inner().unwrap();
    let events = sandbox.events();
    for work in WORKS {
        assert!(told.iter().any(|told| told.work == work), "seed {seed}: no {work:?} ever succeeded");
    }
    for told in &told {
        assert!(is_recorded(told, &events), "seed {seed}: not in the ledger: {told:?}");
    }
    sandbox.is_whole();
    let store = rusqlite::Connection::open(sandbox.database()).unwrap();
    let integrity: String = store.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
}
