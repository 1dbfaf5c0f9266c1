//! What keeps a lease alive, what ends it, and that looking changes nothing.

use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{As, Ran, Sandbox, agent, eventually, human};
use crate::tools::{Lock, Started, now_ms};

fn bind(sandbox: &Sandbox, who: &As, id: &str, ttl: &str, process: &Started) -> Value {
    sandbox.json(who, &["claim", id, "--ttl", ttl, "--bind", &process.id().to_string()]).ok().json()
}

fn kinds(sandbox: &Sandbox, id: &str) -> Vec<String> {
    let log = sandbox.json(&agent("reader"), &["log", id]).ok().json();
    let events = log["events"].as_array().unwrap();
    events.iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_bound_lease_outlives_many_ttls_while_its_process_is_silent() {
    // Given a lease with a tiny TTL, bound to a process that shows no sign of life
    let (sandbox, holder, other) = (Sandbox::new(), agent("holder"), agent("other"));
    let (id, process) = (sandbox.add("a task"), Started::sleeper());
    bind(&sandbox, &holder, &id, "10ms", &process);
    // When many TTLs pass, and even when the process is stopped
    for signal in [Signal::CONT, Signal::STOP] {
        process.signal(signal);
        std::thread::sleep(Duration::from_millis(200));
        // Then it holds
        assert_eq!(sandbox.show(&id)["lease"]["live"], true);
        let refusal = sandbox.json(&other, &["claim", &id]).refused(4);
        assert_eq!(refusal["holder"]["actor"], holder.actor);
        sandbox.json(&other, &["claim", "--next"]).refused(7);
    }
    // And the same TTL without a process does not: the pause was long enough
    let id = sandbox.add("another task");
    sandbox.json(&holder, &["claim", &id, "--ttl", "10ms"]).ok();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(sandbox.show(&id)["lease"]["lapsed_by"], "ttl");
}

#[test]
fn a_killed_holders_task_is_offered_again_at_once() {
    // Given leases with long TTLs, bound to processes
    let (sandbox, holder, other) = (Sandbox::new(), agent("holder"), agent("other"));
    for reaped in [true, false] {
        let (id, process) = (sandbox.add("a task"), Started::sleeper());
        bind(&sandbox, &holder, &id, "2h", &process);
        sandbox.json(&other, &["claim", "--next"]).refused(7);
        // When the process is killed, whether its parent has noticed or not
        let zombie = if reaped {
            process.kill_and_reap();
            None
        } else {
            process.kill();
            Some(process)
        };
        // Then the next who asks gets the task, and the record says why
        let ready = sandbox.json(&other, &["ready"]).ok().json();
        assert_eq!(
            (&ready["tasks"][0]["id"], &ready["tasks"][0]["takeover"]),
            (&id.clone().into(), &true.into())
        );
        let taken = sandbox.json(&other, &["claim", "--next"]).ok().json();
        assert_eq!((&taken["task"]["id"], &taken["takeover"]), (&id.clone().into(), &true.into()));
        assert_eq!(taken["lease"]["token"], 2);
        let events = sandbox.events();
        let end = events.iter().rfind(|event| event["kind"] == "lease.taken_over").unwrap();
        assert_eq!(end["payload"]["cause"], "process_died");
        drop(zombie);
    }
}

#[test]
fn a_holder_whose_process_died_may_claim_anew() {
    let (sandbox, holder) = (Sandbox::new(), agent("holder"));
    let (id, process) = (sandbox.add("a task"), Started::sleeper());
    bind(&sandbox, &holder, &id, "2h", &process);
    process.kill_and_reap();

    // The lease is gone with the process; its token still finishes, but is not renewed.
    sandbox.json(&holder, &["renew", &id]).refused(4);
    let again = sandbox.json(&holder, &["claim", &id]).ok().json();

    assert_eq!((&again["renewed"], &again["lease"]["token"]), (&false.into(), &2.into()));
    assert_eq!(again["lease"]["process"], Value::Null);
    sandbox.is_whole();
}

#[test]
fn a_persons_lease_is_not_handed_out_when_its_process_dies() {
    let (sandbox, person) = (Sandbox::new(), human("alice"));
    let (id, process) = (sandbox.add("a task"), Started::sleeper());
    bind(&sandbox, &person, &id, "10ms", &process);
    process.kill_and_reap();
    sandbox.json(&agent("other"), &["claim", "--next"]).refused(7);
}

#[test]
fn one_lapse_is_one_event_however_many_look_and_claim() {
    // Given a lease that has lapsed
    let sandbox = Sandbox::new();
    let id = sandbox.add("a task");
    sandbox.json(&agent("late"), &["claim", &id, "--ttl", "10ms"]).ok();
    eventually("the lease to lapse", || (sandbox.show(&id)["lease"]["live"] == false).then_some(()));
    // When many look at it at once
    let before = kinds(&sandbox, &id);
    let looks: [&[&str]; 5] = [&["show", &id], &["ready"], &["list"], &["status"], &["log", &id]];
    let readers: Vec<Started> = (0..20)
        .map(|number| Started::answering(sandbox.command(&agent("reader")).args(looks[number % 5])))
        .collect();
    for reader in readers {
        Ran::of(reader.output()).ok();
    }
    // Then nothing was written
    assert_eq!(kinds(&sandbox, &id), before);
    // And when many claim it at once, its end is recorded once, before the one new lease
    let claimants: Vec<Started> = (0..8)
        .map(|number| Started::answering(sandbox.command(&agent(&format!("c{number}"))).args(["claim", &id])))
        .collect();
    let codes: Vec<i32> = claimants.into_iter().map(|claimant| Ran::of(claimant.output()).code).collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert_eq!(kinds(&sandbox, &id)[before.len()..], ["lease.taken_over", "lease.acquired"]);
    sandbox.is_whole();
}

#[test]
fn who_waited_to_write_is_judged_and_dated_when_it_writes() {
    // Given a lease that is live when another's claim gets in line, and over when it is let in
    let (sandbox, late, next) = (Sandbox::new(), agent("late"), agent("next"));
    let (turnstile, lock) = (Lock::turnstile(&sandbox), Lock::writer(&sandbox));
    let id = sandbox.add("a task");
    sandbox.json(&late, &["claim", &id, "--ttl", "500ms"]).ok();
    turnstile.take();
    lock.take();
    let claim = Started::answering(sandbox.command(&next).args(["claim", &id, "--ttl", "2h", "--json"]));
    turnstile.wait_until_waiting(1);
    eventually("the lease to lapse", || (sandbox.show(&id)["lease"]["live"] == false).then_some(()));
    // When it is let in
    let let_in_ms = now_ms();
    lock.free();
    turnstile.free();
    let taken = Ran::of(claim.output()).ok().json();
    // Then it gets the task, from that moment on and not from the one when it began to wait
    assert_eq!(taken["takeover"], true);
    let granted = sandbox.events().pop().unwrap();
    assert_eq!(granted["kind"], "lease.acquired");
    assert!(granted["payload"]["grant"]["tick_ms"].as_i64().unwrap() >= let_in_ms, "{granted}");
}

/// What would show that somebody wrote: SQLite's own count of foreign commits, the ledger's end, the files.
struct Trace {
    watch: Connection,
    files: [std::path::PathBuf; 2],
}

type Marks = (i64, i64, [Option<(u64, SystemTime)>; 2]);

impl Trace {
    fn of(sandbox: &Sandbox) -> Trace {
        let database = sandbox.database();
        let log = database.with_extension("db-wal");
        Trace { watch: Connection::open(&database).unwrap(), files: [database, log] }
    }

    fn marks(&self) -> Marks {
        let ask = |sql: &str| self.watch.query_row(sql, [], |row| row.get(0)).unwrap();
        let file = |path| std::fs::metadata(path).ok().map(|file| (file.len(), file.modified().unwrap()));
        (ask("PRAGMA data_version"), ask("SELECT MAX(seq) FROM event"), self.files.each_ref().map(file))
    }
}

#[test]
fn readers_write_nothing() {
    // Given a store with a live lease, a lapsed one, a dead holder's and a finished task
    let (sandbox, holder) = (Sandbox::new(), agent("holder"));
    let ids: Vec<String> = (0..4).map(|number| sandbox.add(&format!("task {number}"))).collect();
    let process = Started::sleeper();
    sandbox.json(&holder, &["claim", &ids[0]]).ok();
    sandbox.json(&holder, &["claim", &ids[1], "--ttl", "10ms"]).ok();
    bind(&sandbox, &holder, &ids[2], "2h", &process);
    process.kill_and_reap();
    sandbox.json(&holder, &["done", &ids[3], "-m", "done"]).ok();
    eventually("the lease to lapse", || (sandbox.show(&ids[1])["lease"]["live"] == false).then_some(()));
    // When everything that reads is asked, by one who is known and by one who never was here
    let trace = Trace::of(&sandbox);
    let before = trace.marks();
    let reads: [&[&str]; 13] = [
        &["show", &ids[0]],
        &["show", &ids[1]],
        &["show", &ids[2]],
        &["list", "--all"],
        &["ready"],
        &["search", "task"],
        &["status"],
        &["log"],
        &["ledger", "verify"],
        &["ledger", "export"],
        &["actor", "list"],
        &["instance", "list"],
        &["doctor"],
    ];
    for who in [&holder, &agent("stranger")] {
        for args in reads {
            sandbox.run(who, args).ok();
            // Then nothing moved
            assert_eq!(trace.marks(), before, "{args:?}");
        }
        assert_eq!(sandbox.run(who, &["show", "99"]).code, 3);
        assert_eq!(trace.marks(), before);
    }
    // And these marks do move when somebody writes
    std::thread::sleep(Duration::from_millis(20));
    sandbox.json(&holder, &["note", &ids[0], "now"]).ok();
    let after = trace.marks();
    assert!(after.0 != before.0 && after.1 > before.1 && after.2 != before.2, "{before:?} {after:?}");
}
