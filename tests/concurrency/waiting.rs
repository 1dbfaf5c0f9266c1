//! Waiting for a task: what wakes a waiter, what does not, and what it costs.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{As, Ran, Sandbox, agent, eventually, git, human};
use crate::tools::{Lock, Started, now_ms, under};

/// "At once", on a busy machine: far below every time-out in these stories, and below the time after which a waiter
/// that heard nothing looks by itself.
const AT_ONCE: Duration = Duration::from_secs(10);

/// A process that waits for a task.
struct Waiter {
    process: Started,
}

impl Waiter {
    fn start(command: &mut Command, args: &[&str]) -> Waiter {
        let command = command.arg("claim").args(args).arg("--json");
        Waiter { process: Started::answering(command) }
    }

    /// One that sleeps already.
    #[track_caller]
    fn asleep(sandbox: &Sandbox, who: &As, args: &[&str]) -> Waiter {
        let waiter = Waiter::start(&mut sandbox.command(who), args);
        waiter.wait_until_asleep();
        waiter
    }

    fn has_ended(&mut self) -> bool {
        self.process.child().try_wait().unwrap().is_some()
    }

    /// It has begun to listen, and has not moved for a while.
    #[track_caller]
    fn wait_until_asleep(&self) {
        eventually("the waiter to sleep", || {
            let listens = open_files(self.process.id()).iter().any(|file| file == "anon_inode:inotify");
            let before = self.wakes();
            std::thread::sleep(Duration::from_millis(60));
            (listens && self.wakes() == before && self.stat().0 == 'S').then_some(())
        });
    }

    /// Its state, and the processor time that it had, in ticks of a hundredth of a second.
    fn stat(&self) -> (char, u64) {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        let ticks = |place: usize| fields[place].parse::<u64>().unwrap();
        (fields[0].chars().next().unwrap(), ticks(11) + ticks(12))
    }

    /// How often it went to sleep.
    fn wakes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Its answer. One that sleeps on is ended: 5 minutes are more than these stories have.
    fn ran(mut self) -> Ran {
        let began = Instant::now();
        while !self.has_ended() && began.elapsed() < 2 * AT_ONCE {
            std::thread::sleep(Duration::from_micros(500));
        }
        if !self.has_ended() {
            self.process.signal(Signal::KILL);
        }
        Ran::of(self.process.output())
    }

    /// What it got, at once after something happened.
    #[track_caller]
    fn got(self, happened: Instant) -> Value {
        let ran = self.ran();
        assert!(happened.elapsed() < AT_ONCE, "it took {:?}: {ran:?}", happened.elapsed());
        ran.ok().json()
    }
}

fn open_files(pid: u32) -> Vec<String> {
    let Ok(folder) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links = folder.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.map(|link| link.to_string_lossy().into_owned()).collect()
}

fn numbered(name: &str, count: usize) -> Vec<As> {
    (0..count).map(|number| agent(&format!("{name}{number}"))).collect()
}

#[test]
fn twenty_waiters_get_twenty_tasks_one_each() {
    let sandbox = Sandbox::new();
    let waiters: Vec<(As, Waiter)> = numbered("w", 20)
        .into_iter()
        .map(|who| (who.clone(), Waiter::start(&mut sandbox.command(&who), &["--next", "--wait", "5m"])))
        .collect();
    waiters.iter().for_each(|(_, waiter)| waiter.wait_until_asleep());
    // Given all of them asleep, when tasks come one by one
    let mut left: Vec<(As, Waiter)> = waiters;
    let mut got = BTreeSet::new();
    for number in 1..=20 {
        let id = sandbox.add(&format!("task {number}"));
        let added = Instant::now();
        // Then one of them has it, and the others sleep on
        let place =
            eventually("one to have it", || left.iter_mut().position(|(_, waiter)| waiter.has_ended()));
        let (who, waiter) = left.swap_remove(place);
        let answer = waiter.got(added);
        assert_eq!(
            (&answer["task"]["id"], &answer["lease"]["actor"]),
            (&id.clone().into(), &who.actor.into())
        );
        assert_eq!(answer["lease"]["token"], 1);
        assert!(got.insert(id));
        assert!(left.iter_mut().all(|(_, waiter)| !waiter.has_ended()));
    }
    let granted = sandbox.events().iter().filter(|event| event["kind"] == "lease.acquired").count();
    assert_eq!((got.len(), granted), (20, 20));
    sandbox.is_whole();
}

#[test]
fn tasks_that_come_all_at_once_find_as_many_waiters() {
    let sandbox = Sandbox::new();
    let waiters: Vec<Waiter> = numbered("w", 8)
        .iter()
        .map(|who| Waiter::asleep(&sandbox, who, &["--next", "--wait", "5m"]))
        .collect();
    let adders: Vec<Started> = (0..8)
        .map(|number| {
            let title = format!("task {number}");
            Started::answering(sandbox.command(&human("founder")).args(["add", &title]))
        })
        .collect();
    let added = Instant::now();
    for adder in adders {
        Ran::of(adder.output()).ok();
    }
    let got: BTreeSet<String> =
        waiters.into_iter().map(|waiter| waiter.got(added)["task"]["id"].to_string()).collect();
    assert_eq!(got.len(), 8, "{got:?}");
}

/// What is refused, and what only looks, wakes nobody: else waiters would wake one another for ever.
#[test]
fn waiters_cost_nothing_while_others_look_and_are_refused() {
    // Given tasks of a person, of a process that lives, of an agent for an hour, of one that is not there, and some
    // whose holders are gone but that are too much for those who wait
    let (sandbox, process) = (Sandbox::new(), Started::sleeper());
    let pid = process.id().to_string();
    let id = sandbox.add("a task that a person has");
    sandbox.json(&human("alice"), &["claim", &id]).ok();
    for terms in [&["--bind", pid.as_str()], &["--ttl", "1h"]] {
        sandbox.add("a task that an agent has");
        sandbox.json(&agent("holder"), &[&["claim", "--next"], terms.as_slice()].concat()).ok();
    }
    let kept = sandbox.add("a task that is kept");
    sandbox.json(&agent("from"), &["claim", &kept]).ok();
    sandbox.json(&agent("from"), &["handoff", &kept, "--to", "agent:absent", "--reason", "r"]).ok();
    let dead = Started::sleeper();
    for terms in [["--bind", &dead.id().to_string()], ["--ttl", "1ms"]] {
        let id = sandbox.add("a task for somebody else");
        sandbox.json(&agent("gone"), &[&["claim", &id], terms.as_slice()].concat()).ok();
        sandbox.json(&human("alice"), &["edit", &id, "--tier", "3", "--force", "--reason", "r"]).ok();
    }
    dead.kill_and_reap();
    let waiters: Vec<Waiter> = numbered("w", 10)
        .iter()
        .map(|who| Waiter::asleep(&sandbox, who, &["--next", "--wait", "5m"]))
        .chain([Waiter::asleep(&sandbox, &agent("one"), &[&id, "--wait", "5m"])])
        .collect();
    waiters.iter().for_each(Waiter::wait_until_asleep);
    let before: Vec<(u64, u64)> = waiters.iter().map(|waiter| (waiter.stat().1, waiter.wakes())).collect();

    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        sandbox.json(&agent("other"), &["claim", &id]).refused(4);
        sandbox.json(&agent("other"), &["claim", "--next"]).refused(7);
        sandbox.json(&agent("other"), &["claim", "--next", "--wait", "20ms"]).refused(7);
        sandbox.json(&agent("other"), &["status"]).ok();
    }

    for (waiter, (ticks, wakes)) in waiters.iter().zip(before) {
        let (ticks, wakes) = (waiter.stat().1 - ticks, waiter.wakes() - wakes);
        assert!(ticks <= 2, "{ticks} ticks of processor time while nothing happened");
        assert!(wakes <= 3, "woken {wakes} times while nothing happened");
    }
}

/// Commits that are nothing to them wake waiters, but not each of very many.
#[test]
fn waiters_leave_busy_writers_the_processor() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("a task that a person has");
    sandbox.json(&human("alice"), &["claim", &id]).ok();
    let waiter = Waiter::asleep(&sandbox, &agent("w"), &["--next", "--wait", "5m"]);
    // Given one that does so far more often than any disk would let it
    let db = Connection::open(sandbox.database()).unwrap();
    db.execute_batch("PRAGMA synchronous = OFF").unwrap();
    let bell = sandbox.database().with_file_name("bell");
    for (what, statement) in [
        ("commits", "UPDATE instance SET seen_at_ms = seen_at_ms + 1"),
        ("rings the bell for nothing", "SELECT 1 FROM project WHERE 0"),
    ] {
        let (ticks, began, mut times) = (waiter.stat().1, Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(3) {
            let rung = std::fs::OpenOptions::new().write(true).open(&bell).unwrap();
            db.execute_batch(statement).unwrap();
            drop(rung);
            times += 1;
        }
        let share = (waiter.stat().1 - ticks) as f64 / (began.elapsed().as_secs_f64() * 100.0);
        assert!(times > 1_000, "only {times} times: this was no storm");
        assert!(share < 0.15, "it took {share:.2} of a processor while another {what}");
    }
    // And what is something to it is not lost in the storm.
    let added = Instant::now();
    sandbox.add("another");
    waiter.got(added);
}

/// While the writer lock is taken, who wants to write stands in the turnstile: a waiter that only looks does not.
#[test]
fn a_commit_that_brings_nothing_makes_no_writer_of_a_waiter() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("a task that a person has");
    sandbox.json(&human("alice"), &["claim", &id]).ok();
    let waits = [["--next", "--wait", "5m"], [id.as_str(), "--wait", "5m"]];
    let waiters = waits.map(|args| Waiter::asleep(&sandbox, &agent("w"), &args));
    for _ in 0..3 {
        let wakes = waiters.each_ref().map(Waiter::wakes);
        let lock = Lock::writer(&sandbox);
        lock.take();
        // A commit that changes nothing for anybody, and the bell that goes with it.
        let foreign = Connection::open(sandbox.database()).unwrap();
        foreign.execute("UPDATE instance SET seen_at_ms = seen_at_ms", []).unwrap();
        drop(OpenOptions::new().write(true).open(sandbox.path().join(".onus/bell")).unwrap());
        for (waiter, wakes) in waiters.iter().zip(wakes) {
            eventually("the waiter to look", || (waiter.wakes() > wakes).then_some(()));
            waiter.wait_until_asleep();
        }
        assert!(Lock::turnstile(&sandbox).is_free());
        lock.free();
    }
}

#[test]
fn a_killed_holder_wakes_who_waits_for_its_task() {
    let (sandbox, holder) = (Sandbox::new(), agent("holder"));
    let (id, process) = (sandbox.add("a task"), Started::sleeper());
    for (number, args) in [["--next", "--wait", "5m"], [id.as_str(), "--wait", "5m"]].iter().enumerate() {
        // Given a lease for hours, bound to a process, and somebody who waits
        let process = if number == 0 { &process } else { &Started::sleeper() };
        let pid = process.id().to_string();
        sandbox.json(&holder, &["claim", &id, "--ttl", "2h", "--bind", &pid]).ok();
        let mut waiter = Waiter::asleep(&sandbox, &agent("next"), args);
        assert!(!waiter.has_ended());
        // When the process is killed, and nothing is written
        let killed = Instant::now();
        process.kill();
        // Then the waiter has the task
        let answer = waiter.got(killed);
        assert_eq!((&answer["task"]["id"], &answer["takeover"]), (&id.clone().into(), &true.into()));
        let end = sandbox.events().into_iter().rfind(|event| event["kind"] == "lease.taken_over").unwrap();
        assert_eq!(end["payload"]["cause"], "process_died");
        sandbox.json(&agent("next"), &["release", &id]).ok();
    }
    sandbox.is_whole();
}

/// A person's task is never handed out when its process dies, but what it reserved is free.
#[test]
fn a_killed_process_of_a_person_frees_its_paths_for_who_waits() {
    for what in ["--next", "ON-1"] {
        let (sandbox, process) = (Sandbox::new(), Started::sleeper());
        for title in ["waited for", "held by a person"] {
            sandbox.json(&human("founder"), &["add", title, "--scope", "src/**"]).ok();
        }
        sandbox.json(&human("ann"), &["claim", "ON-2", "--bind", &process.id().to_string()]).ok();
        let mut waiter = Waiter::asleep(&sandbox, &agent("next"), &[what, "--wait", "5m"]);
        assert!(!waiter.has_ended());
        let killed = Instant::now();
        process.kill();
        assert_eq!(waiter.got(killed)["task"]["id"], "ON-1");
        sandbox.is_whole();
    }
}

/// What was in the way first is not what is in the way last: each is heard of.
#[test]
fn a_waiter_hears_of_the_second_obstacle_after_the_first_is_gone() {
    let (sandbox, process) = (Sandbox::new(), Started::sleeper());
    for title in ["waited for", "has the paths"] {
        sandbox.json(&human("founder"), &["add", title]).ok();
    }
    sandbox.json(&agent("holder"), &["claim", "ON-1"]).ok();
    let pid = process.id().to_string();
    sandbox.json(&agent("other"), &["claim", "ON-2", "--scope", "src/**", "--bind", &pid]).ok();
    let waiter = Waiter::asleep(&sandbox, &agent("next"), &["ON-1", "--scope", "src/a", "--wait", "5m"]);
    sandbox.json(&agent("holder"), &["release", "ON-1"]).ok();
    waiter.wait_until_asleep();
    let killed = Instant::now();
    process.kill();
    assert_eq!(waiter.got(killed)["task"]["id"], "ON-1");
}

#[test]
fn a_process_that_dies_while_a_waiter_begins_is_not_overlooked() {
    let (sandbox, holder) = (Sandbox::new(), agent("holder"));
    let id = sandbox.add("a task");
    for round in 0..40_u64 {
        let process = Started::sleeper();
        sandbox.json(&holder, &["claim", &id, "--ttl", "2h", "--bind", &process.id().to_string()]).ok();
        let waiter = Waiter::start(&mut sandbox.command(&agent("next")), &["--next", "--wait", "5m"]);
        std::thread::sleep(Duration::from_micros(round * 300));
        let killed = Instant::now();
        process.kill();
        assert_eq!(waiter.got(killed)["task"]["id"], id.as_str());
        sandbox.json(&agent("next"), &["release", &id]).ok();
    }
}

#[test]
fn a_commit_while_a_waiter_begins_is_not_overlooked() {
    let sandbox = Sandbox::new();
    for round in 0..40_u64 {
        let waiter = Waiter::start(&mut sandbox.command(&agent("next")), &["--next", "--wait", "5m"]);
        std::thread::sleep(Duration::from_micros(round * 300));
        let id = sandbox.add("a task");
        assert_eq!(waiter.got(Instant::now())["task"]["id"], id.as_str());
    }
}

#[test]
fn a_lease_that_lapses_by_the_clock_wakes_who_waits() {
    let (sandbox, holder) = (Sandbox::new(), agent("holder"));
    let process = Started::sleeper();
    let pid = process.id().to_string();
    let terms: [&[&str]; 2] = [&["--ttl", "1500ms"], &["--bind", &pid]];
    for terms in terms {
        for by_id in [false, true] {
            let id = sandbox.add("a task");
            let mut claim = sandbox.command(&holder);
            claim.args(["claim", &id, "--json"]).args(terms).env("ONUS_LEASE_MAX_HOLD", "1500ms");
            let began_ms = now_ms();
            Ran::of(claim.output().unwrap()).ok();
            let what = if by_id { id.as_str() } else { "--next" };
            let waiter = Waiter::asleep(&sandbox, &agent("next"), &[what, "--wait", "5m"]);
            assert_eq!(waiter.got(Instant::now())["takeover"], true);
            assert!(now_ms() - began_ms >= 1_500, "it was not over");
            sandbox.json(&agent("next"), &["done", &id, "-m", "x"]).ok();
        }
    }
}

#[test]
fn the_end_of_a_reservation_wakes_who_waits() {
    let (sandbox, from) = (Sandbox::new(), agent("from"));
    for by_id in [false, true] {
        let id = sandbox.add("a task");
        sandbox.json(&from, &["claim", &id]).ok();
        let mut handoff = sandbox.command(&from);
        handoff.args(["handoff", &id, "--to", "agent:absent", "--reason", "r"]);
        Ran::of(handoff.env("ONUS_LEASE_KEEP", "1500ms").output().unwrap()).ok();
        let what = if by_id { id.as_str() } else { "--next" };
        let waiter = Waiter::asleep(&sandbox, &agent("next"), &[what, "--wait", "5m"]);
        let answer = waiter.got(Instant::now());
        assert_eq!((&answer["task"]["id"], &answer["takeover"]), (&id.as_str().into(), &false.into()));
        sandbox.json(&agent("next"), &["done", &id, "-m", "x"]).ok();
    }
}

#[test]
fn what_the_holder_does_wakes_who_waits_for_that_task() {
    let (sandbox, holder, next) = (Sandbox::new(), agent("holder"), agent("next"));
    let held = || {
        let id = sandbox.add("a task");
        sandbox.json(&holder, &["claim", &id]).ok();
        id
    };
    // Released: it is had.
    let id = held();
    let waiter = Waiter::asleep(&sandbox, &next, &[&id, "--wait", "5m"]);
    sandbox.json(&holder, &["note", &id, "nothing for a waiter"]).ok();
    waiter.wait_until_asleep();
    sandbox.json(&holder, &["release", &id]).ok();
    assert_eq!(waiter.got(Instant::now())["task"]["id"], id.as_str());
    // Finished: no waiting can give it.
    let id = held();
    let waiter = Waiter::asleep(&sandbox, &next, &[&id, "--wait", "5m"]);
    let done = Instant::now();
    sandbox.json(&holder, &["done", &id, "-m", "x"]).ok();
    assert_eq!(waiter.ran().refused(6)["code"], "not_allowed");
    assert!(done.elapsed() < AT_ONCE);
    // Handed to another: it is waited for on, and the refusal at the end is of the end.
    let id = held();
    let waiter = Waiter::asleep(&sandbox, &next, &[&id, "--wait", "2s"]);
    sandbox.json(&holder, &["handoff", &id, "--to", "agent:absent", "--reason", "r"]).ok();
    assert_eq!(waiter.ran().refused(4)["code"], "kept");
}

#[test]
fn what_waiting_cannot_cure_is_refused_at_once() {
    let sandbox = Sandbox::new();
    let (done, high, proposed) = (sandbox.add("done"), sandbox.add("high"), "ON-3");
    sandbox.json(&human("founder"), &["done", &done, "-m", "x"]).ok();
    sandbox.json(&human("founder"), &["edit", &high, "--tier", "3"]).ok();
    sandbox.json(&human("founder"), &["add", "later", "--propose"]).ok();
    for (id, exit, code) in [
        ("ON-99", 3, "not_found"),
        (done.as_str(), 6, "not_allowed"),
        (high.as_str(), 6, "tier"),
        (proposed, 6, "not_allowed"),
        ("99999999", 3, "not_found"),
    ] {
        let asked = Instant::now();
        let refusal = sandbox.json(&agent("a"), &["claim", id, "--wait", "5m"]).refused(exit);
        assert_eq!(refusal["code"], code, "{id}");
        assert!(asked.elapsed() < AT_ONCE);
    }
    // A task that is too much for one is not handed out either, but another may come.
    let waiter = Waiter::asleep(&sandbox, &agent("a"), &["--next", "--wait", "5m"]);
    sandbox.json(&human("founder"), &["accept", proposed]).ok();
    assert_eq!(waiter.got(Instant::now())["task"]["id"], proposed);
    // And one that rises is woken, too.
    let waiter = Waiter::asleep(&sandbox, &agent("b"), &["--next", "--wait", "5m"]);
    sandbox.json(&human("founder"), &["actor", "tier", "agent:a", "3"]).ok();
    waiter.wait_until_asleep();
    let mut tier = sandbox.command(&human("founder"));
    Ran::of(tier.args(["actor", "register", "agent:b", "--tier", "3"]).output().unwrap()).ok();
    assert_eq!(waiter.got(Instant::now())["task"]["id"], high.as_str());
}

#[test]
fn when_the_time_is_over_nothing_was_changed() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("a person's");
    sandbox.json(&human("alice"), &["claim", &id]).ok();
    let look = || {
        let db = Connection::open(sandbox.database()).unwrap();
        let count = |table: &str| -> i64 {
            db.query_row(&format!("SELECT COUNT(*) FROM {table}"), [], |row| row.get(0)).unwrap()
        };
        (count("event"), count("instance"), count("actor"), count("lease"), count("request"))
    };
    let before = look();
    for (args, exit) in [(["--next", "--wait", "1200ms"], 7), ([&id, "--wait", "1200ms"], 4)] {
        let asked = Instant::now();
        let ran = sandbox.json(&agent("new"), &[&["claim"], args.as_slice()].concat());
        let without = sandbox.json(&agent("new"), &["claim", args[0]]);
        assert!(asked.elapsed() >= Duration::from_millis(1_200));
        assert_eq!(ran.refused(exit)["code"], without.refused(exit)["code"]);
        assert_eq!(ran.stderr, "");
    }
    assert_eq!(look(), before);
    // No time is no waiting.
    assert_eq!(
        sandbox.json(&agent("new"), &["claim", "--next", "--wait", "0"]).refused(7)["code"],
        "nothing"
    );
}

#[test]
fn a_waiter_can_be_interrupted_and_holds_nothing() {
    let sandbox = Sandbox::new();
    let waiter = Waiter::asleep(&sandbox, &agent("w"), &["--next", "--wait", "5m"]);
    // It stands in nobody's way: not the writers', not the log's.
    assert!(Lock::writer(&sandbox).is_free() && Lock::turnstile(&sandbox).is_free());
    let blocked: i64 = Connection::open(sandbox.database())
        .unwrap()
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .unwrap();
    assert_eq!(blocked, 0);
    // Stopped and let go on, it waits on.
    waiter.process.stop();
    waiter.process.signal(Signal::CONT);
    waiter.wait_until_asleep();
    waiter.process.signal(Signal::INT);
    assert_eq!(waiter.ran().code, 128 + 2);
    let id = sandbox.add("a task");
    assert_eq!(sandbox.show(&id)["lease"], Value::Null);
}

#[test]
fn what_happened_while_a_waiter_was_stopped_is_not_lost() {
    let sandbox = Sandbox::new();
    let waiter = Waiter::asleep(&sandbox, &agent("w"), &["--next", "--wait", "5m"]);
    waiter.process.stop();
    let id = sandbox.add("a task");
    waiter.process.signal(Signal::CONT);
    assert_eq!(waiter.got(Instant::now())["task"]["id"], id.as_str());
    // Nor is what came when its time was over: the last look is the claim.
    let waiter = Waiter::asleep(&sandbox, &agent("v"), &["--next", "--wait", "500ms"]);
    waiter.process.stop();
    std::thread::sleep(Duration::from_millis(600));
    let id = sandbox.add("another");
    waiter.process.signal(Signal::CONT);
    assert_eq!(waiter.got(Instant::now())["task"]["id"], id.as_str());
}

#[test]
fn a_waiter_in_one_worktree_hears_of_a_task_added_in_another() {
    let sandbox = Sandbox::empty();
    let (main, side) = (sandbox.path().join("main"), sandbox.path().join("side"));
    std::fs::create_dir_all(main.join("deep/er")).unwrap();
    git(&main, &["init", "-q"]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&main, &["worktree", "add", "-q", &side.to_string_lossy()]);
    let within = |folder: PathBuf, who: &As| {
        let mut command = sandbox.command(who);
        command.current_dir(folder);
        command
    };
    let founder = human("founder");
    Ran::of(within(main.clone(), &founder).args(["init", "--prefix", "ON"]).output().unwrap()).ok();
    for (waits, adds) in [(&side, main.join("deep/er")), (&main, side.clone())] {
        let mut command = within(waits.clone(), &agent("w"));
        let waiter = Waiter::start(&mut command, &["--next", "--wait", "5m"]);
        waiter.wait_until_asleep();
        Ran::of(within(adds, &founder).args(["add", "a task"]).output().unwrap()).ok();
        waiter.got(Instant::now());
    }
}

#[test]
fn a_waiter_outlasts_what_is_done_to_the_stores_files() {
    let sandbox = Sandbox::new();
    let founder = human("founder");
    sandbox.json(&founder, &["add", "a person's", "-d", "a secret"]).ok();
    sandbox.json(&founder, &["claim", "ON-1"]).ok();
    let backup = sandbox.path().join("copy.db").to_string_lossy().into_owned();
    let steps: [&[&str]; 4] = [
        &["doctor", "--fix"],
        &["redact", "ON-1", "1", "--field", "body", "--reason", "r"],
        &["backup", &backup],
        &["ledger", "rebuild"],
    ];
    for step in steps {
        let mut waiter = Waiter::asleep(&sandbox, &agent("w"), &["--next", "--wait", "5m"]);
        sandbox.json(&founder, step).ok();
        waiter.wait_until_asleep();
        assert!(!waiter.has_ended(), "{step:?}");
        let id = sandbox.add("a task");
        assert_eq!(waiter.got(Instant::now())["task"]["id"], id.as_str(), "{step:?}");
    }
    // A waiter on a store whose log somebody had moved into the database and removed before.
    sandbox.json(&founder, &["doctor", "--fix"]).ok();
    for side in ["onus.db-wal", "onus.db-shm"] {
        std::fs::remove_file(sandbox.database().with_file_name(side)).unwrap();
    }
    let waiter = Waiter::asleep(&sandbox, &agent("w"), &["--next", "--wait", "5m"]);
    sandbox.add("a task");
    waiter.got(Instant::now());
    sandbox.is_whole();
}

#[test]
fn a_waiter_on_a_store_that_was_replaced_says_so() {
    let sandbox = Sandbox::new();
    let (copy, store) = (sandbox.path().join("copy.db"), sandbox.database());
    sandbox.json(&human("founder"), &["backup", &copy.to_string_lossy()]).ok();
    let waiter = Waiter::asleep(&sandbox, &agent("w"), &["--next", "--wait", "5m"]);
    for side in ["onus.db-wal", "onus.db-shm"] {
        let _ = std::fs::remove_file(store.with_file_name(side));
    }
    std::fs::rename(copy, store).unwrap();
    sandbox.add("a task of the other store");
    let refusal = waiter.ran().refused(8);
    assert!(refusal["message"].as_str().unwrap().contains("replaced"), "{refusal}");
}

#[test]
fn where_the_kernel_does_not_tell_a_waiter_looks_now_and_then() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("a person's");
    sandbox.json(&human("alice"), &["claim", &id]).ok();
    // A user namespace in which nobody may have an inotify.
    let none = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$@\"";
    let mut command = sandbox.command(&agent("w"));
    command.args(["claim", "--next", "--wait", "5m", "--json"]);
    let mut command = under(&["unshare", "-Ur", "sh", "-c", none, "deaf"], &command);
    let mut waiter = Waiter { process: Started::answering(&mut command) };
    std::thread::sleep(Duration::from_secs(3));
    assert!(!waiter.has_ended(), "{:?}", waiter.ran());
    assert!(!open_files(waiter.process.id()).iter().any(|file| file == "anon_inode:inotify"));
    let (before, wakes) = (waiter.stat().1, waiter.wakes());
    std::thread::sleep(Duration::from_secs(2));
    assert!(waiter.stat().1 - before <= 2 && waiter.wakes() - wakes <= 4, "it looks too often");
    let added = Instant::now();
    let id = sandbox.add("a task");
    assert_eq!(waiter.got(added)["task"]["id"], id.as_str());
}

#[test]
fn a_request_that_was_granted_under_the_same_key_is_not_waited_for() {
    let (sandbox, who) = (Sandbox::new(), agent("w"));
    let args = ["--next", "--wait", "5m", "--key", "k"];
    // Two of the same request wait, and one of them gets the task while the other cannot look.
    let (first, second) = (Waiter::asleep(&sandbox, &who, &args), Waiter::asleep(&sandbox, &who, &args));
    second.process.stop();
    let id = sandbox.add("a task");
    assert_eq!(first.got(Instant::now())["task"]["id"], id.as_str());
    second.process.signal(Signal::CONT);
    let answer = second.got(Instant::now());
    assert_eq!((&answer["task"]["id"], &answer["replayed"]), (&id.as_str().into(), &true.into()));
    // And one that comes later does not wait at all.
    let asked = Instant::now();
    let again = sandbox.json(&who, &["claim", "--next", "--wait", "5m", "--key", "k"]).ok().json();
    assert_eq!(again["replayed"], true);
    assert!(asked.elapsed() < AT_ONCE);
}

#[test]
fn a_task_is_not_taken_for_a_process_that_died_while_it_waited() {
    let sandbox = Sandbox::new();
    let process = Started::sleeper();
    let pid = process.id().to_string();
    let waiter = Waiter::asleep(&sandbox, &agent("w"), &["--next", "--wait", "5m", "--bind", &pid]);
    process.kill_and_reap();
    let killed = Instant::now();
    let refusal = waiter.ran().refused(2);
    assert!(refusal["message"].as_str().unwrap().contains(&pid), "{refusal}");
    assert!(killed.elapsed() < AT_ONCE);
}

#[test]
fn a_store_that_is_busy_for_a_while_does_not_end_the_wait() {
    let sandbox = Sandbox::new();
    sandbox.add("a task");
    let lock = Lock::writer(&sandbox);
    lock.take();
    let mut command = sandbox.command(&agent("w"));
    let mut waiter = Waiter::start(command.env("ONUS_STORE_WAIT", "50ms"), &["--next", "--wait", "5m"]);
    std::thread::sleep(Duration::from_millis(500));
    assert!(!waiter.has_ended());
    lock.free();
    waiter.got(Instant::now());
}

/// On a terminal a person is told that it waits; a program is not disturbed.
#[test]
fn a_person_is_told_that_it_waits() {
    let sandbox = Sandbox::new();
    for (json, told) in [("", true), (" --json", false)] {
        let line = format!("{} claim --next --wait 300ms{json}", crate::support::ONUS);
        let onus = sandbox.command(&human("alice"));
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).current_dir(sandbox.path()).stdin(Stdio::null());
        command.env_clear().envs(onus.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.code, 7, "{ran:?}");
        assert_eq!(ran.stdout.contains("waiting for a task, 300 ms at most"), told, "{ran:?}");
    }
}
