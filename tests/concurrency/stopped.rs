//! A process that was stopped in the middle of its write: the others are told which one, and nothing is stuck for ever.

use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};
use rustix::process::Signal;

use crate::support::{As, Ran, Sandbox, agent, eventually};
use crate::tools::{Dice, Lock, Started, fresh_seed};

/// How long the others wait before they give up.
const BOUND: Duration = Duration::from_millis(300);

fn writer(sandbox: &Sandbox, who: &As, text: &str) -> Started {
    Started::answering(sandbox.command(who).args(["note", "1", text, "--json"]).env("ONUS_STORE_WAIT", "60s"))
}

/// SQLite's own lock, as another program that has the file open may hold it.
fn foreign_writer(sandbox: &Sandbox) -> Connection {
    let connection = Connection::open(sandbox.database()).unwrap();
    connection.busy_timeout(Duration::ZERO).unwrap();
    connection
}

fn notes(sandbox: &Sandbox) -> usize {
    sandbox.events().iter().filter(|event| event["kind"] == "note.added").count()
}

/// Several at once are refused within their bound, each naming the one that stands still; readers are not concerned.
#[track_caller]
fn others_are_told_of(sandbox: &Sandbox, stopped: &Started) {
    let asked = Instant::now();
    let others: Vec<Started> = ["b", "c", "d"]
        .iter()
        .map(|name| {
            let mut command = sandbox.command(&agent(name));
            let wait = format!("{}ms", BOUND.as_millis());
            Started::answering(command.args(["claim", "1", "--json"]).env("ONUS_STORE_WAIT", wait))
        })
        .collect();
    for other in others {
        let refusal = Ran::of(other.output()).refused(8);
        assert_eq!(refusal["code"], "busy");
        let message = refusal["message"].as_str().unwrap();
        assert!(message.contains(&format!("process {} ", stopped.id())), "{message}");
    }
    assert!(asked.elapsed() >= BOUND, "they did not wait at all");
    assert_eq!(sandbox.show("1")["lease"], serde_json::Value::Null);
}

/// After it went on or died, everybody works as before.
#[track_caller]
fn all_goes_on(sandbox: &Sandbox) {
    sandbox.json(&agent("b"), &["claim", "1"]).ok();
    sandbox.json(&agent("b"), &["release", "1"]).ok();
    sandbox.is_whole();
}

/// A process that has the writer lock and was stopped with it, before SQLite let it in.
fn stopped_with_the_lock(sandbox: &Sandbox) -> Started {
    let foreign = foreign_writer(sandbox);
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (lock, process) = (Lock::writer(sandbox), writer(sandbox, &agent("a"), "from the lock"));
    eventually("it to have the lock", || (lock.holder() == Some(process.id())).then_some(()));
    assert!(process.stop());
    foreign.execute_batch("ROLLBACK").unwrap();
    process
}

/// A process that was stopped inside its transaction, with SQLite's write lock in its hands.
fn stopped_in_its_transaction(sandbox: &Sandbox) -> Started {
    let (foreign, lock, mut dice) = (foreign_writer(sandbox), Lock::writer(sandbox), Dice::new(fresh_seed()));
    for _ in 0..500 {
        let mut process = writer(sandbox, &agent("a"), "from inside");
        // Without a pause: the transaction begins right after.
        let started = Instant::now();
        let mut has_ended = false;
        while !has_ended && lock.holder() != Some(process.id()) {
            assert!(started.elapsed() < Duration::from_secs(60), "it never had the lock");
            has_ended = process.child().try_wait().unwrap().is_some();
        }
        if has_ended {
            Ran::of(process.output()).ok();
            continue;
        }
        std::thread::sleep(Duration::from_micros(dice.below(2_000)));
        if !process.stop() {
            Ran::of(process.output()).ok();
            continue;
        }
        match foreign.execute_batch("BEGIN IMMEDIATE") {
            Err(rusqlite::Error::SqliteFailure(error, _)) if error.code == ErrorCode::DatabaseBusy => {
                return process;
            }
            outcome => outcome.unwrap(),
        }
        // Before its transaction, or after it: let it finish and try another.
        foreign.execute_batch("ROLLBACK").unwrap();
        process.signal(Signal::CONT);
        Ran::of(process.output()).ok();
    }
    panic!("none of 500 processes was stopped inside its transaction");
}

#[test]
fn a_process_stopped_with_the_writer_lock_is_named_and_finishes_when_it_may_go_on() {
    let sandbox = Sandbox::new();
    sandbox.add("a task");
    let process = stopped_with_the_lock(&sandbox);
    others_are_told_of(&sandbox, &process);

    process.signal(Signal::CONT);

    Ran::of(process.output()).ok();
    assert_eq!(notes(&sandbox), 1);
    all_goes_on(&sandbox);
}

#[test]
fn a_process_killed_with_the_writer_lock_leaves_it_to_the_next() {
    let sandbox = Sandbox::new();
    sandbox.add("a task");
    let process = stopped_with_the_lock(&sandbox);
    others_are_told_of(&sandbox, &process);

    process.kill_and_reap();

    assert_eq!(notes(&sandbox), 0);
    all_goes_on(&sandbox);
}

#[test]
fn a_process_stopped_inside_its_transaction_is_named_and_finishes_when_it_may_go_on() {
    let sandbox = Sandbox::new();
    sandbox.add("a task");
    let process = stopped_in_its_transaction(&sandbox);
    let before = notes(&sandbox);
    others_are_told_of(&sandbox, &process);

    process.signal(Signal::CONT);

    Ran::of(process.output()).ok();
    assert_eq!(notes(&sandbox), before + 1);
    all_goes_on(&sandbox);
}

#[test]
fn a_process_killed_inside_its_transaction_leaves_all_of_it_or_nothing() {
    let sandbox = Sandbox::new();
    sandbox.add("a task");
    let process = stopped_in_its_transaction(&sandbox);
    let before = notes(&sandbox);
    others_are_told_of(&sandbox, &process);

    process.kill_and_reap();

    // Nobody was told of it: it may have reached the log just before, but never in part.
    assert!([before, before + 1].contains(&notes(&sandbox)));
    all_goes_on(&sandbox);
}

/// Whoever opens the store while nobody else has it open locks the index of the log for a moment; stopped there, it keeps out
/// readers, too. Here this process stands for it.
#[test]
fn one_that_stands_still_while_it_opens_the_store_is_named() {
    let sandbox = Sandbox::new();
    sandbox.add("a task");
    let foreign = foreign_writer(&sandbox);
    foreign.query_row("SELECT count(*) FROM task", [], |row| row.get::<_, i64>(0)).unwrap();
    let mut index = sandbox.database().into_os_string();
    index.push("-shm");
    let index = std::fs::OpenOptions::new().read(true).write(true).open(index).unwrap();
    rustix::fs::fcntl_lock(&index, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    for args in [&["note", "1", "x"][..], &["list"]] {
        let refusal = sandbox.json(&agent("b"), args).refused(8);
        assert_eq!(refusal["code"], "busy", "{refusal:#}");
        let message = refusal["message"].as_str().unwrap();
        assert!(message.contains(&format!("process {} ", std::process::id())), "{message}");
    }
    rustix::fs::fcntl_lock(&index, rustix::fs::FlockOperation::NonBlockingUnlock).unwrap();
    drop(foreign);
    all_goes_on(&sandbox);
}

/// One that waits for the writer lock with the turnstile in its hands, and is stopped there: the lock is free, and yet nobody
/// gets to it.
fn stopped_at_the_turnstile(sandbox: &Sandbox) -> Started {
    let (turnstile, lock) = (Lock::turnstile(sandbox), Lock::writer(sandbox));
    lock.take();
    let process = writer(sandbox, &agent("a"), "from the turnstile");
    eventually("the process to stand at the turnstile", || {
        (turnstile.holder() == Some(process.id())).then_some(())
    });
    assert!(process.stop());
    lock.free();
    assert!(lock.is_free() && !turnstile.is_free(), "it should stand at the turnstile and nowhere else");
    process
}

#[test]
fn a_process_stopped_at_the_turnstile_is_named_and_finishes_when_it_may_go_on() {
    let sandbox = Sandbox::new();
    sandbox.add("a task");
    let process = stopped_at_the_turnstile(&sandbox);
    others_are_told_of(&sandbox, &process);

    process.signal(Signal::CONT);

    Ran::of(process.output()).ok();
    assert_eq!(notes(&sandbox), 1);
    all_goes_on(&sandbox);
}

#[test]
fn a_process_killed_at_the_turnstile_leaves_it_to_the_next() {
    let sandbox = Sandbox::new();
    sandbox.add("a task");
    let process = stopped_at_the_turnstile(&sandbox);
    others_are_told_of(&sandbox, &process);

    process.kill_and_reap();

    assert_eq!(notes(&sandbox), 0);
    all_goes_on(&sandbox);
}
