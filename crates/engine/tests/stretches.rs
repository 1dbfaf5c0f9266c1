//! Hours: which part of a lease's time is work, with a clock that the test controls.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::io::Write as _;
use std::process::{Command as Program, Stdio};
use std::time::Duration;

use onus_core::chain::Record;
use onus_core::command::{Act, Command, Force, Presence, Terms};
use onus_core::policy::Policy;
use onus_core::stretch::MAX_WAITING;
use onus_core::task::NoteKind;
use onus_core::time::{ClockDomain, HOUR_MS, MINUTE_MS};
use onus_core::transition::Verb;
use onus_engine::{Ancestry, Identity, TaskView};
use onus_store::{AnyStore, SqliteStore, Store as _, copy};
use proptest::prelude::*;

use crate::world::{World, cases, claim, on, process, takeover, verb, who, world_with};

fn world() -> World<AnyStore> {
    world_with(Policy::default())
}

fn note() -> Act {
    Act::Note { text: "so far".into(), kind: NoteKind::Progress, link: None }
}

fn reserve() -> Act {
    Act::Claim(Terms { reserve: true, ..Terms::default() })
}

/// An agent whose harness reports its process and its turns.
fn conversation(world: &mut World<AnyStore>, pid: u32) -> Identity {
    let mut identity = who("agent:a", &format!("c{pid}"));
    identity.ancestry = Ancestry::Known(vec![process(pid, 1)]);
    let (actor, instance) = (identity.actor.clone(), identity.instance.clone());
    let register = Command::RegisterInstance { actor, instance, process: process(pid, 1), group: None };
    world.run(&identity, register).unwrap();
    identity
}

fn report(world: &mut World<AnyStore>, by: &Identity, presence: Presence) {
    world.run(by, Command::Presence(presence)).unwrap();
}

fn records(world: &mut World<AnyStore>, id: &str) -> Vec<Record> {
    world.engine.log(None, Some(&id.parse().unwrap()), 0, false, 1_000).unwrap().value.records
}

/// The stretches that a task's events tell of: wall start and length.
fn recorded(world: &mut World<AnyStore>, id: &str) -> Vec<(i64, i64)> {
    let events = records(world, id);
    let stretches = events.iter().flat_map(|record| record.to_event().unwrap().stretches);
    stretches.map(|stretch| (stretch.start_ms, stretch.active_ms)).collect()
}

fn wall_ms(world: &World<AnyStore>) -> i64 {
    world.fate.lock().unwrap().wall_ms
}

#[test]
fn a_persons_night_is_not_work() {
    let mut world = world();
    let (ada, id) = (who("human:ada", ""), world.add("t"));
    let five = wall_ms(&world);
    world.lease(&ada, on(&id, claim()));
    world.pass(12 * MINUTE_MS);
    world.ok(&ada, on(&id, note()));
    world.pass(9 * MINUTE_MS);
    // A sign of life is a command, whatever it is about.
    world.add("something else, by another");
    world.ok(&ada, on(&id, note()));
    world.pass(16 * HOUR_MS - 21 * MINUTE_MS);
    let done = world.ok(&ada, on(&id, verb(Verb::Done)));
    assert_eq!(done.effort_ms, 21 * MINUTE_MS);
    assert_eq!(recorded(&mut world, &id), [(five, 21 * MINUTE_MS)]);
    world.is_whole();
}

#[test]
fn a_longer_idle_counts_longer_gaps() {
    for (idle_ms, effort_ms) in [(30 * MINUTE_MS, 0), (45 * MINUTE_MS, 40 * MINUTE_MS)] {
        let mut world = world_with(Policy { idle_ms, ..Policy::default() });
        let (ada, id) = (who("human:ada", ""), world.add("t"));
        world.lease(&ada, on(&id, claim()));
        world.pass(40 * MINUTE_MS);
        assert_eq!(world.ok(&ada, on(&id, verb(Verb::Release))).effort_ms, effort_ms);
    }
}

#[test]
fn an_agent_works_from_turn_to_turn_and_not_between_them() {
    let mut world = world();
    let a = conversation(&mut world, 7);
    let id = world.add("t");
    report(&mut world, &a, Presence::TurnBegun);
    world.pass(MINUTE_MS);
    world.lease(&a, on(&id, claim()));
    let (claimed, events) = (wall_ms(&world), world.events());
    // A build: no idle rule within a turn.
    world.pass(40 * MINUTE_MS);
    report(&mut world, &a, Presence::TurnOver);
    world.pass(55 * MINUTE_MS);
    report(&mut world, &a, Presence::TurnBegun);
    let again = wall_ms(&world);
    world.pass(3 * MINUTE_MS);
    report(&mut world, &a, Presence::Here);
    let lease = world.show(&id).lease.unwrap();
    assert_eq!((lease.active_ms, lease.stretches), (43 * MINUTE_MS, 2));
    world.pass(MINUTE_MS);
    report(&mut world, &a, Presence::TurnOver);
    // A short rest is a rest.
    world.pass(2 * MINUTE_MS);
    assert_eq!(world.events(), events, "no event per turn");
    report(&mut world, &a, Presence::TurnBegun);
    world.pass(600);
    let task = world.ok(&a, on(&id, note()));
    assert_eq!(
        recorded(&mut world, &id),
        [(claimed, 40 * MINUTE_MS), (again, 4 * MINUTE_MS)],
        "what is closed rides"
    );
    assert_eq!(task.effort_ms, 44 * MINUTE_MS + 600);
    world.is_whole();
    assert_eq!(world.ok(&a, on(&id, verb(Verb::Done))).effort_ms, 44 * MINUTE_MS + 600);
    world.is_whole();
}

#[test]
fn a_lease_that_is_bound_to_no_process_rests_between_turns_too() {
    let mut world = world();
    let (a, id) = (who("agent:a", "c"), world.add("t"));
    report(&mut world, &a, Presence::TurnBegun);
    world.lease(&a, on(&id, claim()));
    world.pass(600);
    report(&mut world, &a, Presence::TurnOver);
    report(&mut world, &a, Presence::TurnBegun);
    world.pass(600);
    report(&mut world, &a, Presence::TurnOver);
    world.pass(MINUTE_MS);
    report(&mut world, &a, Presence::TurnBegun);
    world.pass(600);
    let done = world.ok(&a, on(&id, verb(Verb::Done)));
    assert_eq!(done.effort_ms, 1_800);
    assert_eq!(recorded(&mut world, &id).len(), 3);
    world.is_whole();
}

#[test]
fn a_turn_that_is_interrupted_ended_at_its_last_sign() {
    let mut world = world();
    let a = conversation(&mut world, 7);
    let id = world.add("t");
    report(&mut world, &a, Presence::TurnBegun);
    world.lease(&a, on(&id, claim()));
    world.pass(5 * MINUTE_MS);
    report(&mut world, &a, Presence::Here);
    // A person stops it by hand; not every harness reports that.
    world.pass(7 * HOUR_MS);
    report(&mut world, &a, Presence::TurnBegun);
    world.pass(MINUTE_MS);
    assert_eq!(world.ok(&a, on(&id, verb(Verb::Release))).effort_ms, 6 * MINUTE_MS);
    world.is_whole();
}

#[test]
fn a_part_of_a_conversation_goes_by_its_signs_of_life() {
    let mut world = world();
    let a = conversation(&mut world, 7);
    let mut part = who("agent:a", "c7/part");
    part.ancestry = a.ancestry.clone();
    let id = world.add("t");
    report(&mut world, &a, Presence::TurnBegun);
    world.lease(&part, on(&id, Act::Claim(Terms { process: Some(process(7, 1)), ..Terms::default() })));
    world.pass(40 * MINUTE_MS);
    world.ok(&part, on(&id, note()));
    world.pass(10 * MINUTE_MS);
    // It rests with the whole.
    report(&mut world, &a, Presence::TurnOver);
    world.pass(10 * MINUTE_MS);
    let done = world.ok(&part, on(&id, verb(Verb::Done)));
    assert_eq!(done.effort_ms, 10 * MINUTE_MS);
    world.is_whole();
}

#[test]
fn what_is_only_reserved_is_not_worked_on() {
    let mut world = world();
    let (a, id) = (who("agent:a", "1"), world.add("t"));
    world.lease(&a, on(&id, reserve()));
    for _ in 0..4 {
        world.pass(15 * MINUTE_MS);
        world.ok(&a, on(&id, note()));
    }
    let lease = world.lease(&a, on(&id, claim()));
    assert_eq!((lease.active_ms, lease.stretches, lease.reserve), (0, 0, false));
    let started = wall_ms(&world);
    world.pass(5 * MINUTE_MS);
    world.ok(&a, on(&id, verb(Verb::Done)));
    assert_eq!(recorded(&mut world, &id), [(started, 5 * MINUTE_MS)]);
    let untouched = world.add("u");
    world.lease(&a, on(&untouched, reserve()));
    world.pass(HOUR_MS - 1);
    assert_eq!(world.ok(&a, on(&untouched, verb(Verb::Release))).effort_ms, 0);
    world.is_whole();
}

#[test]
fn a_killed_agent_worked_until_its_last_sign_whenever_it_is_swept() {
    let mut world = world();
    let a = conversation(&mut world, 7);
    let id = world.add("t");
    report(&mut world, &a, Presence::TurnBegun);
    let lease = world.lease(&a, on(&id, claim()));
    for _ in 0..20 {
        world.pass(MINUTE_MS);
        report(&mut world, &a, Presence::Here);
    }
    world.pass(30_000);
    world.kill(7);
    world.pass(24 * HOUR_MS);
    assert_eq!(world.show(&id).effort_ms, 20 * MINUTE_MS, "before it is swept, too");
    let b = who("agent:b", "1");
    let taken = world.ok(&b, on(&id, takeover()));
    assert_eq!((taken.effort_ms, lease.token), (20 * MINUTE_MS, 1));
    assert_eq!(taken.lease.unwrap().active_ms, 0, "a new lease never sees an old one's hours");
    world.pass(MINUTE_MS);
    assert_eq!(world.ok(&b, on(&id, verb(Verb::Done))).effort_ms, 21 * MINUTE_MS);
    world.is_whole();
}

#[test]
fn a_holder_that_comes_back_late_gets_no_hours_for_the_time_between() {
    for swept in [false, true] {
        let mut world = world();
        let (a, b, id) = (who("agent:a", "1"), who("agent:b", "1"), world.add("t"));
        world.lease(&a, on(&id, claim()));
        world.pass(10 * MINUTE_MS);
        world.ok(&a, on(&id, note()));
        world.pass(61 * MINUTE_MS);
        if swept {
            world.ok(&b, on(&id, verb(Verb::Block)));
            world.ok(&b, on(&id, verb(Verb::Unblock)));
            assert!(world.kinds(&id).contains(&"lease.lapsed".to_owned()));
        }
        world.ok(&a, on(&id, Act::Renew { ttl_ms: None, progress: false }));
        world.pass(5 * MINUTE_MS);
        assert_eq!(world.ok(&a, on(&id, verb(Verb::Done))).effort_ms, 15 * MINUTE_MS, "swept: {swept}");
        world.is_whole();
    }
}

#[test]
fn a_suspended_machine_does_not_work() {
    let mut world = world();
    let (ada, id) = (who("human:ada", ""), world.add("t"));
    let begun = wall_ms(&world);
    world.lease(&ada, on(&id, claim()));
    world.pass(10 * MINUTE_MS);
    world.ok(&ada, on(&id, note()));
    world.pass(MINUTE_MS);
    world.fate.lock().unwrap().wall_ms += 9 * HOUR_MS;
    world.pass(MINUTE_MS);
    world.ok(&ada, on(&id, verb(Verb::Done)));
    let resumed = wall_ms(&world) - 2 * MINUTE_MS;
    assert_eq!(recorded(&mut world, &id), [(begun, 10 * MINUTE_MS), (resumed, 2 * MINUTE_MS)]);
    world.is_whole();
}

#[test]
fn by_a_servers_clock_the_holders_own_clock_measures() {
    let mut world = world();
    world.fate.lock().unwrap().by_server = true;
    let a = who("human:ada", "");
    for (asleep_ms, another, effort_ms) in [
        (0, false, 20 * MINUTE_MS),
        (20 * MINUTE_MS, false, 20 * MINUTE_MS),
        (5 * MINUTE_MS, true, 25 * MINUTE_MS),
    ] {
        let id = world.add("t");
        world.lease(&a, on(&id, claim()));
        world.pass(10 * MINUTE_MS);
        {
            let mut fate = world.fate.lock().unwrap();
            (fate.tick_ms, fate.wall_ms) = (fate.tick_ms + asleep_ms, fate.wall_ms + asleep_ms);
            if another {
                fate.own.domain = ClockDomain::new("another laptop", "another boot", "time");
            }
        }
        world.ok(&a, on(&id, note()));
        world.pass(10 * MINUTE_MS);
        assert_eq!(world.ok(&a, on(&id, verb(Verb::Done))).effort_ms, effort_ms, "{asleep_ms} {another}");
    }
    world.is_whole();
}

#[test]
fn however_many_stretches_wait_the_row_stays_small_and_the_sum_exact() {
    let mut world = world();
    let a = conversation(&mut world, 7);
    let id = world.add("t");
    world.lease(&a, on(&id, claim()));
    let turns = 3 * MAX_WAITING as i64;
    for turn in 0..turns {
        report(&mut world, &a, Presence::TurnBegun);
        world.pass(600);
        report(&mut world, &a, Presence::TurnOver);
        world.pass(1_000 + turn * 10);
    }
    let lease = world.show(&id).lease.unwrap();
    assert_eq!((lease.active_ms, lease.stretches), (600 * turns, MAX_WAITING as u64));
    world.ok(&a, on(&id, verb(Verb::Release)));
    let stretches = recorded(&mut world, &id);
    assert_eq!(stretches.iter().map(|(_, active_ms)| active_ms).sum::<i64>(), 600 * turns);
    assert!(stretches.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{stretches:?}");
    world.is_whole();
}

#[test]
fn a_copy_keeps_what_waits_and_can_be_made_again() {
    let mut world = world();
    let a = conversation(&mut world, 7);
    let id = world.add("t");
    report(&mut world, &a, Presence::TurnBegun);
    world.lease(&a, on(&id, claim()));
    world.pass(MINUTE_MS);
    world.ok(&a, on(&id, note()));
    report(&mut world, &a, Presence::TurnOver);
    report(&mut world, &a, Presence::TurnBegun);
    world.pass(600);
    report(&mut world, &a, Presence::Here);
    let folder = tempfile::tempdir().unwrap();
    let project = world.engine.store().read(|read| read.project()).unwrap();
    let path = folder.path().join("copy.db");
    let mut to = SqliteStore::begin_copy(&path, project.uid, Duration::from_secs(10)).unwrap();
    // Twice with nothing in between, and once more after what waited was recorded.
    for round in 0..3 {
        // What others write into the same server delays when events settle there.
        let mut copied = || copy::copy(world.engine.store(), &mut to, &mut |_| {}).ok();
        while copied().is_none() {
            std::thread::sleep(Duration::from_millis(50));
        }
        let old = world.engine.store().read(|read| read.open_leases(10)).unwrap();
        let new = to.read(|read| read.open_leases(10)).unwrap();
        assert_eq!(old, new);
        let (_, lease) = &new[0];
        assert_eq!(lease.worked_so_far().active_ms, MINUTE_MS + 600);
        assert_eq!(lease.pulse.work.waiting.len(), if round < 2 { 1 } else { 0 });
        if round == 1 {
            world.ok(&a, on(&id, note()));
        }
    }
}

/// What happens in a random history.
#[derive(Clone, Debug)]
enum Op {
    Ask { by: usize, task: usize, act: Act },
    Report { by: usize, presence: Presence },
    Pass(i64),
    Sleep(i64),
    StepBack(i64),
    Kill(u32),
}

const TASKS: usize = 3;

fn op() -> impl Strategy<Value = Op> {
    let acts = proptest::sample::select(vec![
        claim(),
        claim(),
        reserve(),
        note(),
        note(),
        takeover(),
        Act::Renew { ttl_ms: None, progress: false },
        Act::Touch { paths: vec!["a".into()], touched: Default::default(), extent: Default::default() },
        verb(Verb::Done),
        verb(Verb::Release),
        verb(Verb::Block),
        verb(Verb::Unblock),
        verb(Verb::Reopen),
    ]);
    let presences = proptest::sample::select(vec![
        Presence::Here,
        Presence::TurnBegun,
        Presence::TurnBegun,
        Presence::TurnOver,
        Presence::TurnOver,
        Presence::Gone,
    ]);
    prop_oneof![
        8 => (0..4usize, 0..TASKS, acts).prop_map(|(by, task, act)| Op::Ask { by, task, act }),
        4 => (0..2usize, presences).prop_map(|(by, presence)| Op::Report { by, presence }),
        6 => (1..20 * MINUTE_MS).prop_map(Op::Pass),
        1 => (HOUR_MS / 2..9 * HOUR_MS).prop_map(Op::Pass),
        1 => (1..9 * HOUR_MS).prop_map(Op::Sleep),
        1 => (1..2 * HOUR_MS).prop_map(Op::StepBack),
        1 => (7..9u32).prop_map(Op::Kill),
    ]
}

/// What `tests/record/effort.jq` makes of the ledger's export, and of nothing else.
fn by_jq(world: &mut World<AnyStore>) -> serde_json::Value {
    let mut export = String::new();
    world
        .engine
        .export(&mut |line| {
            export.push_str(&format!("{line}\n"));
            Ok(())
        })
        .unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/record/effort.jq");
    let mut jq = Program::new("jq")
        .args(["-s", "-f", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("jq is needed for this test: {error}"));
    let mut input = jq.stdin.take().unwrap();
    std::thread::spawn(move || input.write_all(export.as_bytes()).unwrap());
    let output = jq.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn play(ops: &[Op]) -> Result<i64, TestCaseError> {
    let mut world = world();
    let agents = [7, 8].map(|pid| conversation(&mut world, pid));
    let callers = [agents[0].clone(), agents[1].clone(), who("agent:b", "1"), who("human:ada", "")];
    let ids: Vec<String> = (0..TASKS).map(|n| world.add(&format!("task {n}"))).collect();
    for op in ops {
        match op {
            Op::Ask { by, task, act } => drop(world.run(&callers[*by], on(&ids[*task], act.clone()))),
            Op::Report { by, presence } => report(&mut world, &callers[*by], *presence),
            Op::Pass(ms) => world.pass(*ms),
            Op::Sleep(ms) => world.fate.lock().unwrap().wall_ms += ms,
            Op::StepBack(ms) => world.fate.lock().unwrap().wall_ms -= ms,
            Op::Kill(pid) => world.kill(*pid),
        }
    }
    world.is_whole();
    let held: Vec<TaskView> = ids.iter().map(|id| world.show(id)).collect();
    for (id, before) in ids.iter().zip(&held) {
        if before.lease.is_some() {
            // By a stranger: nothing is added to what was known.
            let (task, force) = (Some(id.parse().unwrap()), Some(Force { reason: "r".into(), link: None }));
            let reset = Command::Reset { task, reason: "to count".into(), force };
            world.run(&who("human:founder", ""), reset).unwrap();
        }
    }
    let told = by_jq(&mut world);
    let mut sum = 0;
    for (id, before) in ids.iter().zip(&held) {
        let after = world.show(id);
        prop_assert_eq!(before.effort_ms, after.effort_ms, "what was known is what is recorded");
        let by_jq = told["tasks"][&after.uid].as_i64().unwrap_or_default();
        prop_assert_eq!(by_jq, after.effort_ms);
        sum += by_jq;
    }
    for lease in told["leases"].as_array().unwrap() {
        prop_assert_eq!(&lease["active_ms"], &lease["said_ms"], "{}", lease);
    }
    world.is_whole();
    Ok(sum)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(30), max_shrink_iters: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_script_gets_the_same_hours_from_an_export_alone(ops in proptest::collection::vec(op(), 60..140)) {
        // A history of no hours would prove nothing.
        let first = [Op::Ask { by: 0, task: 0, act: claim() }, Op::Pass(MINUTE_MS), Op::Ask { by: 0, task: 0, act: note() }];
        prop_assert!(play(&first.into_iter().chain(ops).collect::<Vec<_>>())? >= MINUTE_MS);
    }
}
