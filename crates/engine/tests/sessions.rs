//! What is known of a session beside its hours: what it used of models, and how long it waited for a person.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use onus_core::actor::InstanceId;
use onus_core::command::{Command, Presence};
use onus_core::policy::Policy;
use onus_core::session::{Answered, Reading, Usage, UsageSource};
use onus_core::time::{HOUR_MS, MINUTE_MS};
use onus_core::transition::Verb;
use onus_engine::{Identity, SessionQuery, SessionView};
use onus_store::{AnyStore, Window};

use crate::conversations::{registered, report};
use crate::world::{World, claim, on, takeover, verb, who, world_with};

fn world() -> World<AnyStore> {
    world_with(Policy::default())
}

fn sessions(world: &mut World<AnyStore>, id: &str) -> Vec<SessionView> {
    let window = Window { since_ms: 0, until_ms: i64::MAX };
    let query = SessionQuery { window, actor: None, task: Some(id.parse().unwrap()), limit: 10 };
    world.engine.sessions(None, &query).unwrap().value
}

fn answered(age_ms: i64, model: &str, tokens: u64) -> Answered {
    let usage = Usage {
        model: Some(model.to_owned()),
        tokens_in: Some(tokens),
        tokens_out: Some(tokens / 10),
        tokens_cached: None,
        source: UsageSource::Actual,
        cost: None,
    };
    Answered { age_ms, usage }
}

fn reading(from: Option<&str>, cursor: &str, answers: Vec<Answered>) -> Reading {
    Reading { answers, from: from.map(str::to_owned), cursor: cursor.to_owned(), whole: None }
}

fn used(world: &mut World<AnyStore>, by: &Identity, reading: Reading) {
    world.run(by, Command::Used(reading)).unwrap();
}

/// Model and tokens in, of each usage of each session of a task.
fn tokens(world: &mut World<AnyStore>, id: &str) -> Vec<(String, u64)> {
    let usage = sessions(world, id).into_iter().flat_map(|session| session.usage);
    usage.map(|usage| (usage.model.unwrap(), usage.tokens_in.unwrap())).collect()
}

#[test]
fn each_answer_counts_for_the_session_that_was_held_when_it_came_and_once() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let (first, second) = (world.add("first"), world.add("second"));
    world.pass(MINUTE_MS);
    world.lease(&a, on(&first, claim()));
    world.pass(10 * MINUTE_MS);
    world.ok(&a, on(&first, verb(Verb::Done)));
    world.pass(10 * MINUTE_MS);
    world.lease(&a, on(&second, claim()));
    world.pass(10 * MINUTE_MS);
    let answers = || {
        vec![
            // Before it held anything, and between the two: nobody's.
            answered(31 * MINUTE_MS, "m", 1_000_000),
            answered(15 * MINUTE_MS, "m", 1_000_000),
            answered(25 * MINUTE_MS, "m", 100),
            answered(21 * MINUTE_MS, "m", 200),
            answered(22 * MINUTE_MS, "n", 30),
            answered(5 * MINUTE_MS, "m", 7),
        ]
    };
    used(&mut world, &a, reading(None, "1", answers()));
    let first_used = [("m".to_owned(), 300), ("n".to_owned(), 30)];
    assert_eq!(tokens(&mut world, &first), first_used);
    assert_eq!(tokens(&mut world, &second), [("m".to_owned(), 7)]);
    let events = world.events();
    // Repeated after a crash, or by another hook that read the same: nothing.
    used(&mut world, &a, reading(None, "1", answers()));
    used(&mut world, &a, reading(Some("0"), "1", answers()));
    // Nothing new, nothing held then.
    used(&mut world, &a, reading(Some("1"), "2", Vec::new()));
    used(&mut world, &a, reading(Some("2"), "3", vec![answered(40 * MINUTE_MS, "m", 5)]));
    assert_eq!(world.events(), events);
    used(&mut world, &a, reading(Some("3"), "4", vec![answered(0, "m", 5)]));
    assert_eq!(tokens(&mut world, &second), [("m".to_owned(), 12)]);
    assert_eq!(tokens(&mut world, &first), first_used);
    world.is_whole();
}

#[test]
fn of_several_leases_the_one_counts_on_which_something_came_of_the_work_last() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let (first, second) = (world.add("first"), world.add("second"));
    world.lease(&a, on(&first, claim()));
    world.pass(MINUTE_MS);
    world.lease(&a, on(&second, claim()));
    world.pass(MINUTE_MS);
    used(&mut world, &a, reading(None, "1", vec![answered(0, "m", 1)]));
    assert_eq!(tokens(&mut world, &second), [("m".to_owned(), 1)]);
    let note = onus_core::command::Act::Note {
        text: "so far".into(),
        kind: onus_core::task::NoteKind::Progress,
        link: None,
    };
    world.ok(&a, on(&first, note));
    world.pass(MINUTE_MS);
    used(&mut world, &a, reading(Some("1"), "2", vec![answered(0, "m", 20)]));
    assert_eq!(tokens(&mut world, &first), [("m".to_owned(), 20)]);
    assert_eq!(tokens(&mut world, &second), [("m".to_owned(), 1)]);
}

#[test]
fn a_superseded_holder_records_nothing_and_a_conversation_that_holds_nothing_neither() {
    let mut world = world();
    let (a, b) = (registered(&mut world, 7), registered(&mut world, 8));
    let id = world.add("t");
    let events = world.events();
    used(&mut world, &a, reading(None, "1", vec![answered(0, "m", 5)]));
    assert_eq!(world.events(), events);
    world.lease(&a, on(&id, claim()));
    world.pass(MINUTE_MS);
    world.kill(7);
    world.lease(&b, on(&id, takeover()));
    world.pass(MINUTE_MS);
    let events = world.events();
    used(&mut world, &a, reading(Some("1"), "2", vec![answered(90_000, "m", 5)]));
    assert_eq!(world.events(), events, "P2");
    world.is_whole();
}

#[test]
fn a_part_without_a_lease_counts_for_its_conversation() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let part =
        Identity { instance: format!("{}/p1", a.instance).parse::<InstanceId>().unwrap(), ..a.clone() };
    let (id, own) = (world.add("t"), world.add("its own"));
    world.lease(&a, on(&id, claim()));
    world.pass(MINUTE_MS);
    let whole = Some(a.instance.clone());
    used(
        &mut world,
        &part,
        Reading { whole: whole.clone(), ..reading(None, "p", vec![answered(0, "small", 3)]) },
    );
    assert_eq!(tokens(&mut world, &id), [("small".to_owned(), 3)]);
    // Both are read by themselves.
    used(&mut world, &a, reading(None, "a", vec![answered(0, "m", 5)]));
    assert_eq!(tokens(&mut world, &id), [("m".to_owned(), 5), ("small".to_owned(), 3)]);
    world.lease(&part, on(&own, claim()));
    world.pass(MINUTE_MS);
    used(&mut world, &part, Reading { whole, ..reading(Some("p"), "q", vec![answered(0, "small", 9)]) });
    assert_eq!(tokens(&mut world, &own), [("small".to_owned(), 9)]);
    world.is_whole();
}

#[test]
fn waiting_at_a_prompt_is_not_worked_and_is_told_by_the_next_event() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let id = world.add("t");
    report(&mut world, &a, Presence::TurnBegun);
    world.lease(&a, on(&id, claim()));
    assert_eq!(sessions(&mut world, &id)[0].waiting_seconds, None, "unknown is not zero");
    world.pass(10 * MINUTE_MS);
    report(&mut world, &a, Presence::Asks);
    world.pass(2 * HOUR_MS);
    let asked = sessions(&mut world, &id).remove(0);
    assert_eq!((asked.worked_seconds, asked.waiting_seconds, asked.waits), (600.0, Some(7_200.0), true));
    // The tool that was allowed had run for half an hour when it was over.
    report(&mut world, &a, Presence::ToolOver { ran_ms: 30 * MINUTE_MS });
    world.pass(5 * MINUTE_MS);
    report(&mut world, &a, Presence::Here);
    let after = sessions(&mut world, &id).remove(0);
    assert_eq!((after.worked_seconds, after.waiting_seconds, after.waits), (2_700.0, Some(5_400.0), false));
    assert_eq!(after.held_seconds, 8_100.0);
    world.is_whole();
    world.ok(&a, on(&id, verb(Verb::Done)));
    let ended = sessions(&mut world, &id).remove(0);
    assert_eq!((ended.worked_seconds, ended.waiting_seconds), (2_700.0, Some(5_400.0)));
    assert_eq!(world.show(&id).effort_ms, 45 * MINUTE_MS);
    let told: i64 = world
        .engine
        .log(None, Some(&id.parse().unwrap()), 0, false, 100)
        .unwrap()
        .value
        .records
        .iter()
        .map(|record| record.to_event().unwrap().waited_ms)
        .sum();
    assert_eq!(told, 90 * MINUTE_MS);
    world.is_whole();
}

#[test]
fn what_was_submitted_waits_until_its_review_is_over() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let (ann, id) = (who("human:ann", ""), world.add("t"));
    for (verdict, wait_ms) in [(Verb::Reject, HOUR_MS), (Verb::Approve, 3 * HOUR_MS)] {
        world.lease(&a, on(&id, claim()));
        world.pass(MINUTE_MS);
        world.ok(&a, on(&id, verb(Verb::Submit)));
        world.pass(wait_ms);
        let session = sessions(&mut world, &id).remove(0);
        assert!(session.waits);
        world.ok(&ann, on(&id, verb(verdict)));
        world.pass(HOUR_MS);
        let after = sessions(&mut world, &id).remove(0);
        assert_eq!((after.waiting_seconds, after.waits), (session.waiting_seconds, false));
        assert_eq!((after.worked_seconds, after.held_seconds), (60.0, 60.0));
    }
    let waited: Vec<_> = sessions(&mut world, &id).iter().map(|session| session.waiting_seconds).collect();
    assert_eq!(waited, [Some(10_800.0), Some(3_600.0)]);
    world.is_whole();
}
