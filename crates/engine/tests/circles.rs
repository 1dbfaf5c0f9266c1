//! Circles of waiting: holders that wait for one another learn of it, are told one way out, and hear no more
//! of it once it is gone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use crate::world::{TTL_MS, World, claim, new_task, on, policy, verb, who, world_with};
use onus_core::circle::WISH_MS;
use onus_core::command::{Act, Command, Guard, Presence, Terms};
use onus_core::decide::ObstacleKind;
use onus_core::policy::Policy;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::scope::{Glob, Scope};
use onus_core::task::NoteKind;
use onus_core::transition::Verb;
use onus_engine::{Identity, Notice, NoticeKind, Reply, Request};
use onus_store::{AnyStore, Store as _};

/// Nothing lapses while these stories are told, unless they say so.
const LONG_MS: i64 = 100 * WISH_MS;

fn patient() -> World<AnyStore> {
    world_with(Policy { ttl_ms: LONG_MS, max_hold_ms: LONG_MS, ..policy() })
}

fn scope(globs: &[&str]) -> Scope {
    globs.iter().map(|glob| glob.parse::<Glob>().unwrap()).collect()
}

/// As a command line does: what is refused is remembered.
fn asks(world: &mut World<AnyStore>, who: &Identity, command: Command) -> Result<Reply, Refusal> {
    world.pass(10);
    world.engine.run_or_wish(&Request { identity: who.clone(), command, key: None })
}

fn claim_with(
    world: &mut World<AnyStore>,
    who: &Identity,
    id: &str,
    globs: &[&str],
) -> Result<Reply, Refusal> {
    let terms = Terms { scope: scope(globs), ..Terms::default() };
    asks(world, who, on(id, Act::Claim(terms)))
}

fn wrote(text: &str) -> Act {
    Act::Note { text: text.into(), kind: NoteKind::Progress, link: None }
}

fn widen(world: &mut World<AnyStore>, who: &Identity, id: &str, glob: &str) -> Result<Reply, Refusal> {
    asks(world, who, on(id, Act::AddScope { scope: scope(&[glob]), areas: Default::default() }))
}

/// As an agent's hook does, before it edits a file.
fn edits(world: &mut World<AnyStore>, who: &Identity, path: &str) -> Result<Reply, Refusal> {
    world.pass(10);
    let guard = Guard { paths: vec![path.to_owned()], is_heard: true, ..Guard::default() };
    let answer = world.run(who, Command::Guard(guard));
    if let Err(Refusal { conflict: Some(conflict), .. }) = &answer {
        let by = (&who.actor, &who.instance);
        world.engine.record_wish(by, &conflict.task, Some(&conflict.path), None).unwrap();
    }
    answer
}

/// What an agent is told of a circle at its next action.
fn told(world: &mut World<AnyStore>, who: &Identity) -> Option<Notice> {
    world.pass(10);
    let notices = world.run(who, Command::Presence(Presence::Here)).unwrap().notices;
    let mut circles: Vec<Notice> =
        notices.into_iter().filter(|notice| notice.kind == NoticeKind::Circle).collect();
    assert!(circles.len() <= 1, "{circles:?}");
    circles.pop()
}

fn in_why(world: &mut World<AnyStore>, who: &Identity, id: &str) -> Option<(String, Option<Step>)> {
    let why = world.engine.why(Some(who), Some(&id.parse().unwrap())).unwrap().value;
    let found = why.obstacles.into_iter().find(|obstacle| obstacle.kind == ObstacleKind::Circle);
    found.map(|obstacle| (obstacle.message, obstacle.next))
}

/// Two agents, each with a task and a folder.
fn two() -> (World<AnyStore>, Identity, Identity, String, String) {
    let mut world = patient();
    let (a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    let (x, y) = (world.add("x"), world.add("y"));
    claim_with(&mut world, &a, &x, &["x/**"]).unwrap();
    claim_with(&mut world, &b, &y, &["y/**"]).unwrap();
    (world, a, b, x, y)
}

#[test]
fn two_holders_that_wait_for_one_another_are_told_the_same_way_out() {
    let (mut world, a, b, x, y) = two();
    assert_eq!(widen(&mut world, &a, &x, "y/m.rs").unwrap_err().code, Code::Scope);
    assert_eq!(told(&mut world, &a), None, "one that waits is no circle");
    assert_eq!(widen(&mut world, &b, &y, "x/n.rs").unwrap_err().code, Code::Scope);
    // Then both learn of it: b was refused last, and gives back what a waits for
    let (of_a, of_b) = (told(&mut world, &a).unwrap(), told(&mut world, &b).unwrap());
    for message in [&of_a.message, &of_b.message] {
        assert!(
            message.contains(&format!("agent:a (1) waits for y/m.rs, which {y} of agent:b (1) reserves"))
        );
        assert!(
            message.contains(&format!("agent:b (1) waits for x/n.rs, which {x} of agent:a (1) reserves"))
        );
        assert!(message.ends_with("to resolve it, agent:b (1) should give back y/m.rs"), "{message}");
    }
    let glob: Glob = "y/**".parse().unwrap();
    assert_eq!(of_b.next, [Step::GiveBack { task: y.clone(), glob: glob.clone() }]);
    assert_eq!(of_a.next, [Step::why(&y)]);
    // Only once; but a query shows it as long as it lasts.
    assert_eq!((told(&mut world, &a), told(&mut world, &b)), (None, None));
    let (message, next) = in_why(&mut world, &b, &x).unwrap();
    assert!(message.contains("deadlock: "), "{message}");
    assert_eq!(next, Some(Step::GiveBack { task: y.clone(), glob: glob.clone() }));
    assert!(in_why(&mut world, &a, &y).is_some());
    assert!(in_why(&mut world, &who("agent:c", "1"), &y).is_some(), "whoever is kept out by it learns why");
    // The way out is a step that works, and ends it.
    asks(&mut world, &b, on(&y, Act::RemoveScope { scope: [glob].into_iter().collect() })).unwrap();
    assert_eq!((in_why(&mut world, &a, &y), in_why(&mut world, &b, &x)), (None, None));
    widen(&mut world, &a, &x, "y/m.rs").unwrap();
    assert_eq!((told(&mut world, &a), told(&mut world, &b)), (None, None));
    world.is_whole();
}

#[test]
fn three_conversations_in_a_circle_learn_of_it_through_their_hooks() {
    let mut world = patient();
    let agents = [who("agent:a", "1"), who("agent:b", "1"), who("agent:c", "1")];
    for (agent, file) in agents.iter().zip(["a.rs", "b.rs", "c.rs"]) {
        edits(&mut world, agent, file).unwrap();
    }
    for (agent, file) in agents.iter().zip(["b.rs", "c.rs"]) {
        edits(&mut world, agent, file).unwrap_err();
        assert_eq!(told(&mut world, agent), None);
    }
    edits(&mut world, &agents[2], "a.rs").unwrap_err();
    let all: Vec<Notice> = agents.iter().map(|agent| told(&mut world, agent).unwrap()).collect();
    // All of it is ad-hoc work: the one that was refused last gives back.
    assert!(
        all.iter().all(|notice| notice.message.ends_with("to resolve it, agent:c (1) should give back c.rs"))
    );
    let gives = all.iter().filter(|notice| matches!(notice.next[0], Step::GiveBack { .. }));
    assert_eq!(gives.count(), 1);
    // When one of them ends, so does the circle.
    world.run(&agents[1], Command::Presence(Presence::Gone)).unwrap();
    edits(&mut world, &agents[0], "b.rs").unwrap();
    for agent in &agents {
        assert_eq!(told(&mut world, agent), None);
    }
}

#[test]
fn planned_work_goes_before_ad_hoc_work() {
    let mut world = patient();
    let (a, b, id) = (who("agent:a", "1"), who("agent:b", "1"), world.add("planned"));
    // Given a with edits of no task, and b with a task
    edits(&mut world, &a, "a.rs").unwrap();
    claim_with(&mut world, &b, &id, &["b.rs"]).unwrap();
    // When a was refused first, so that by time alone b would give way
    edits(&mut world, &a, "b.rs").unwrap_err();
    widen(&mut world, &b, &id, "a.rs").unwrap_err();
    // Then a, whose work nobody planned, gives back
    let notice = told(&mut world, &a).unwrap();
    assert!(notice.message.ends_with("to resolve it, agent:a (1) should give back a.rs"), "{notice:?}");
    assert!(matches!(&notice.next[0], Step::GiveBack { glob, .. } if glob.as_str() == "a.rs"), "{notice:?}");
}

#[test]
fn a_circle_may_go_through_tasks_and_what_they_depend_on() {
    let (mut world, a, b, x, y) = two();
    // Given c, which depends on b's task, and d between them
    let d = world.add("between");
    world.ok(&who("human:founder", ""), on(&d, Act::AddDeps { on: vec![y.parse().unwrap()] }));
    let c = world.add("waits");
    world.ok(&who("human:founder", ""), on(&c, Act::AddDeps { on: vec![d.parse().unwrap()] }));
    // When a wants it, and b a task that a holds
    assert_eq!(asks(&mut world, &a, on(&c, claim())).unwrap_err().code, Code::Unmet);
    assert_eq!(asks(&mut world, &b, on(&x, claim())).unwrap_err().code, Code::Held);
    // Then it is a circle
    let notice = told(&mut world, &a).unwrap();
    let through = format!("agent:a (1) waits for {c}, which waits for {y} of agent:b (1)");
    assert!(notice.message.contains(&through), "{notice:?}");
    assert!(notice.message.contains(&format!("agent:b (1) waits for {x} of agent:a (1)")), "{notice:?}");
    assert_eq!(told(&mut world, &b).unwrap().next, [Step::verb(Verb::Release, &y)]);
    // And none once b is done with what a waits for.
    world.ok(&b, on(&y, verb(Verb::Done)));
    assert_eq!(in_why(&mut world, &b, &x), None);
}

#[test]
fn a_wish_that_is_over_closes_no_circle() {
    // Old
    let (mut world, a, b, x, y) = two();
    widen(&mut world, &a, &x, "y/m.rs").unwrap_err();
    world.pass(WISH_MS + 1);
    widen(&mut world, &b, &y, "x/n.rs").unwrap_err();
    assert_eq!((told(&mut world, &a), told(&mut world, &b)), (None, None));
    // Refused again, it is young again.
    widen(&mut world, &a, &x, "y/m.rs").unwrap_err();
    assert!(told(&mut world, &b).is_some());

    // The holder ended what it had
    let (mut world, a, b, x, y) = two();
    widen(&mut world, &a, &x, "y/m.rs").unwrap_err();
    widen(&mut world, &b, &y, "x/n.rs").unwrap_err();
    world.ok(&a, on(&x, verb(Verb::Release)));
    assert_eq!((told(&mut world, &a), told(&mut world, &b)), (None, None));

    // Its lease has lapsed
    let mut world = crate::world::world();
    let (a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    let (x, y) = (world.add("x"), world.add("y"));
    claim_with(&mut world, &a, &x, &["x/**"]).unwrap();
    claim_with(&mut world, &b, &y, &["y/**"]).unwrap();
    widen(&mut world, &a, &x, "y/m.rs").unwrap_err();
    world.pass(TTL_MS / 2);
    widen(&mut world, &b, &y, "x/n.rs").unwrap_err();
    world.ok(&b, on(&y, wrote("alive")));
    world.pass(TTL_MS / 2);
    assert_eq!(in_why(&mut world, &b, &y), None);
}

/// Only holders can be in a circle: a refusal of anybody else leaves no trace.
#[test]
fn who_holds_nothing_leaves_no_wish_and_a_wish_is_written_once() {
    let (mut world, a, b, x, _) = two();
    let idle = who("agent:c", "1");
    let free = world.add("free");
    claim_with(&mut world, &idle, &free, &["x/n.rs"]).unwrap_err();
    let known = |world: &mut World<AnyStore>, who: &Identity| {
        world.engine.store().read(|read| read.instance(&who.actor, &who.instance)).unwrap()
    };
    assert_eq!(known(&mut world, &idle), None);
    let wish = |world: &mut World<AnyStore>| known(world, &b).unwrap().wants;
    claim_with(&mut world, &b, &x, &[]).unwrap_err();
    let first = wish(&mut world).unwrap();
    assert_eq!(first.path, None);
    claim_with(&mut world, &b, &x, &[]).unwrap_err();
    assert_eq!(wish(&mut world), Some(first), "said again");
    // The holder hears of it, once.
    world.pass(10);
    let notices = world.run(&a, new_task("t")).unwrap().notices;
    assert!(notices.iter().any(|notice| notice.message == format!("agent:b waits for {x}: if you are done with it, say so")));
}
