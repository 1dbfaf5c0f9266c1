//! The graph: edges, the counters of neighbours, and what is ready.

use std::collections::BTreeSet;

use onus_core::actor::{ActorName, Tier};
use onus_core::event::{Body, Draft, KeptFor};
use onus_core::ids::{Number, Token, Uid};
use onus_core::task::{Counts, Facts, Priority, State};
use onus_core::time::ClockDomain;

use crate::{Direction, OnLocked, Result, Store, Write};

use super::Case;
use super::scribe::{append, claim, commit, create, end, look, uid};

pub(super) fn cases<S: Store>() -> Vec<Case<S>> {
    vec![
        ("ready is what is open, unheld and waits for nothing", ready),
        ("ready is ordered by priority, then by who waits, then by age", ready_order),
        ("what is kept for the caller comes first within its priority, and only there", kept_for_the_caller),
        ("ready knows tiers and schedules", tiers_and_schedules),
        ("a walk over what is ready can look at the store, and stop", walk_stops),
        ("a dependency counts while it is not done, however often that changes", dependencies_count),
        ("an edge that comes or goes is counted on both sides", edges_count),
        ("children count while they are unfinished, and move with their parent", children_count),
        ("closures and ways follow the edges", closures),
        ("a dependency is one edge, however often it is added", edges_are_sets),
        ("all edges are those of all tasks, or of unfinished ones", all_edges),
        ("a rebuild finds the same edges and counts", rebuild_counts),
    ]
}

fn t(n: u32) -> Uid {
    uid(n, n)
}

fn tasks(write: &mut dyn Write, count: u32) -> Result<()> {
    (1..=count).try_for_each(|n| create(write, t(n), "t", Facts::default()).map(drop))
}

fn on(tasks: &[u32]) -> BTreeSet<Uid> {
    tasks.iter().map(|n| t(*n)).collect()
}

fn depend(write: &mut dyn Write, task: u32, upstream: &[u32]) -> Result<()> {
    append(write, t(task), Draft::new(Body::DepAdded { on: on(upstream) })).map(drop)
}

fn finish(write: &mut dyn Write, task: u32) -> Result<()> {
    let token = claim(write, t(task), ("h", "1"), None)?;
    append(write, t(task), Draft::new(Body::TaskDone { lease: end(), awaits_landing: None }).token(token))
        .map(drop)
}

fn reopen(write: &mut dyn Write, task: u32) -> Result<()> {
    append(write, t(task), Draft::new(Body::TaskReopened {})).map(drop)
}

/// The numbers of the ready tasks, in order.
fn ready_for<S: Store>(store: &mut S, tier: u8, due_ms: i64) -> Vec<u64> {
    let mut numbers = Vec::new();
    look(store, |read| {
        read.walk_ready(None, Tier(tier), due_ms, &mut |_, task| {
            numbers.push(task.number.0);
            Ok(true)
        })
    });
    numbers
}

fn counts<S: Store>(store: &mut S, task: u32) -> (u64, u64, u64) {
    let Counts { unmet, open_children, open_dependents } =
        look(store, |read| read.task(t(task))).expect("it is there").counts;
    (unmet, open_children, open_dependents)
}

fn ready<S: Store>(store: &mut S) {
    commit(store, |write| {
        tasks(write, 6)?;
        claim(write, t(1), ("h", "1"), None)?;
        append(write, t(2), Draft::new(Body::TaskBlocked { lease: None }))?;
        depend(write, 3, &[4])?;
        let facts = Facts { parent: Some(t(5)), ..Facts::default() };
        append(write, t(6), Draft::new(Body::TaskEdited { facts, title: false, body: false }))
    });
    assert_eq!(ready_for(store, 1, 0), [4, 6], "held, blocked, waiting and divided tasks are not ready");
    commit(store, |write| {
        let token = Token(1);
        append(write, t(1), Draft::new(Body::LeaseReleased { lease: end() }).token(token))?;
        append(write, t(6), Draft::new(Body::TaskDropped { lease: None }))?;
        finish(write, 4)
    });
    assert_eq!(ready_for(store, 1, 0), [1, 3, 5]);
}

fn ready_order<S: Store>(store: &mut S) {
    commit(store, |write| {
        for (n, priority) in [(1, Priority::P3), (2, Priority::P1), (3, Priority::P1), (4, Priority::P0)] {
            create(write, t(n), "t", Facts { priority, ..Facts::default() })?;
        }
        for n in 5..=7 {
            create(write, t(n), "t", Facts { priority: Priority::P4, ..Facts::default() })?;
        }
        depend(write, 5, &[3])?;
        depend(write, 6, &[1, 2, 3])
    });
    assert_eq!(ready_for(store, 1, 0), [4, 3, 2, 1, 7], "two wait for 3, one for 2");
    // A task that no longer waits does not count.
    commit(store, |write| append(write, t(5), Draft::new(Body::TaskDropped { lease: None })));
    assert_eq!(ready_for(store, 1, 0), [4, 2, 3, 1, 7]);
}

/// A task that was kept for somebody for a time long over.
fn keep(write: &mut dyn Write, task: u32, actor: &str) -> Result<()> {
    let kept_for = KeptFor {
        actor: actor.parse().unwrap(),
        until_wall_ms: 1,
        until_tick_ms: 1,
        domain: ClockDomain::new("m", "b", "t"),
    };
    append(write, t(task), Draft::new(Body::LeaseHandedOff { kept_for, lease: None })).map(drop)
}

fn kept_for_the_caller<S: Store>(store: &mut S) {
    commit(store, |write| {
        for (n, priority, tier, at_ms) in [
            (1, Priority::P1, 1, None),
            (2, Priority::P2, 1, None),
            (3, Priority::P2, 1, None),
            (4, Priority::P2, 0, None),
            (5, Priority::P2, 1, Some(500)),
            (6, Priority::P2, 3, None),
            (7, Priority::P2, 1, None),
            (8, Priority::P3, 1, None),
            (9, Priority::P2, 1, None),
        ] {
            let facts =
                Facts { priority, required_tier: Tier(tier), not_before_ms: at_ms, ..Facts::default() };
            create(write, t(n), "t", facts)?;
        }
        depend(write, 9, &[2])?;
        [3, 4, 5, 6, 8].into_iter().try_for_each(|n| keep(write, n, "agent:ada"))?;
        keep(write, 7, "agent:bob")
    });
    assert_eq!(offered_to(store, "agent:ada", 0), [1, 3, 4, 2, 7, 8]);
    assert_eq!(offered_to(store, "agent:ada", 500), [1, 3, 4, 5, 2, 7, 8]);
    assert_eq!(offered_to(store, "agent:bob", 0), [1, 7, 2, 3, 4, 8]);
    assert_eq!(offered_to(store, "agent:cyd", 0), [1, 2, 3, 4, 7, 8]);
    commit(store, |write| claim(write, t(3), ("ada", "1"), None));
    assert_eq!(offered_to(store, "agent:ada", 0), [1, 4, 2, 7, 8], "what is held is not offered");
    commit(store, |write| claim(write, t(1), ("bob", "1"), None));
    assert_eq!(offered_to(store, "agent:ada", 0), [4, 2, 7, 8], "it is the first of all");
    assert_eq!(offered_to(store, "agent:cyd", 0), [2, 4, 7, 8]);
}

/// What is ready for an actor of tier 1, in the same order in two ways: what is shown, and what is locked to
/// be claimed.
fn offered_to<S: Store>(store: &mut S, actor: &str, due_ms: i64) -> Vec<u64> {
    let (actor, mut shown) = (actor.parse::<ActorName>().unwrap(), Vec::new());
    look(store, |read| {
        read.walk_ready(Some(&actor), Tier(1), due_ms, &mut |_, task| {
            shown.push(task.number.0);
            Ok(true)
        })
    });
    for on_locked in [OnLocked::Skip, OnLocked::Wait] {
        let (mut asked, mut first) = (Vec::new(), None);
        commit(store, |write| {
            let none = write.first_ready(&actor, Tier(1), due_ms, on_locked, &mut |_, task| {
                asked.push(task.number.0);
                Ok(false)
            })?;
            assert_eq!(none, (None, false));
            let best = write.first_ready(&actor, Tier(1), due_ms, on_locked, &mut |_, _| Ok(true))?;
            first = best.0.map(|task| task.number.0);
            Ok(())
        });
        assert_eq!((&asked, first), (&shown, shown.first().copied()), "{on_locked:?}");
    }
    shown
}

fn tiers_and_schedules<S: Store>(store: &mut S) {
    commit(store, |write| {
        for (n, tier, at_ms) in
            [(1, 0, None), (2, 1, Some(500)), (3, 3, None), (4, 1, None), (5, 3, Some(400))]
        {
            let priority = if n == 2 { Priority::P0 } else { Priority::P2 };
            let facts =
                Facts { priority, required_tier: Tier(tier), not_before_ms: at_ms, ..Facts::default() };
            create(write, t(n), "t", facts)?;
        }
        Ok(())
    });
    assert_eq!(ready_for(store, 0, 1_000), [1]);
    assert_eq!(ready_for(store, 1, 499), [1, 4]);
    assert_eq!(ready_for(store, 1, 500), [2, 1, 4], "due, and of the first priority");
    assert_eq!(ready_for(store, 3, 1_000), [2, 1, 3, 4, 5]);
    let mut due = |after_ms| look(store, |read| read.next_due(after_ms));
    assert_eq!((due(0), due(400), due(500)), (Some(400), Some(500), None));
}

fn walk_stops<S: Store>(store: &mut S) {
    commit(store, |write| tasks(write, 5));
    let mut seen = Vec::new();
    look(store, |read| {
        read.walk_ready(None, Tier(1), 0, &mut |read, task| {
            assert_eq!(read.task(task.uid)?.as_ref(), Some(&task));
            seen.push(task.number.0);
            Ok(seen.len() < 3)
        })
    });
    assert_eq!(seen, [1, 2, 3]);
}

fn dependencies_count<S: Store>(store: &mut S) {
    commit(store, |write| {
        tasks(write, 4)?;
        depend(write, 4, &[1, 2, 3])
    });
    assert_eq!(counts(store, 4), (3, 0, 0));
    commit(store, |write| {
        finish(write, 1)?;
        finish(write, 2)
    });
    assert_eq!(counts(store, 4), (1, 0, 0));
    commit(store, |write| {
        reopen(write, 1)?;
        append(write, t(3), Draft::new(Body::TaskDropped { lease: None }))
    });
    assert_eq!(counts(store, 4), (2, 0, 0), "dropped is not done");
    commit(store, |write| {
        reopen(write, 3)?;
        finish(write, 3)?;
        finish(write, 1)
    });
    assert_eq!(counts(store, 4), (0, 0, 0));
    commit(store, |write| append(write, t(2), Draft::new(Body::TaskReset { lease: None })));
    assert_eq!(counts(store, 4), (1, 0, 0));
}

fn edges_count<S: Store>(store: &mut S) {
    commit(store, |write| {
        tasks(write, 4)?;
        finish(write, 1)?;
        depend(write, 3, &[1, 2])?;
        depend(write, 4, &[2])
    });
    assert_eq!((counts(store, 3), counts(store, 4)), ((1, 0, 0), (1, 0, 0)), "what is done is met");
    assert_eq!((counts(store, 1), counts(store, 2)), ((0, 0, 1), (0, 0, 2)));
    commit(store, |write| {
        append(write, t(3), Draft::new(Body::DepRemoved { on: on(&[2]) }))?;
        append(write, t(4), Draft::new(Body::TaskDropped { lease: None }))
    });
    assert_eq!((counts(store, 3), counts(store, 2)), ((0, 0, 0), (0, 0, 0)));
    // Only a finished task's own row counts its edge.
    commit(store, |write| append(write, t(4), Draft::new(Body::DepRemoved { on: on(&[2]) })));
    assert_eq!((counts(store, 4), counts(store, 2)), ((0, 0, 0), (0, 0, 0)));
}

fn children_count<S: Store>(store: &mut S) {
    let part_of = |parent: Option<Uid>| Facts { parent, ..Facts::default() };
    commit(store, |write| {
        tasks(write, 2)?;
        create(write, t(3), "part", part_of(Some(t(1))))?;
        create(write, t(4), "part", part_of(Some(t(1))))
    });
    assert_eq!((counts(store, 1), counts(store, 2)), ((0, 2, 0), (0, 0, 0)));
    let children = look(store, |read| read.unfinished_children(t(1), 10));
    assert_eq!(children.iter().map(|task| task.uid).collect::<Vec<_>>(), [t(3), t(4)]);
    commit(store, |write| {
        finish(write, 3)?;
        let edited = Body::TaskEdited { facts: part_of(Some(t(2))), title: false, body: false };
        append(write, t(4), Draft::new(edited))
    });
    assert_eq!(look(store, |read| read.children(t(1))), [Number(3)], "finished parts are parts, too");
    assert_eq!(look(store, |read| read.children(t(2))), [Number(4)]);
    assert_eq!((counts(store, 1), counts(store, 2)), ((0, 0, 0), (0, 1, 0)));
    commit(store, |write| {
        reopen(write, 3)?;
        let edited = Body::TaskEdited { facts: part_of(None), title: false, body: false };
        append(write, t(4), Draft::new(edited))
    });
    assert_eq!((counts(store, 1), counts(store, 2)), ((0, 1, 0), (0, 0, 0)));
}

fn closures<S: Store>(store: &mut S) {
    commit(store, |write| {
        tasks(write, 6)?;
        depend(write, 2, &[1])?;
        depend(write, 3, &[2])?;
        depend(write, 4, &[2, 3])?;
        let facts = Facts { parent: Some(t(5)), ..Facts::default() };
        append(write, t(1), Draft::new(Body::TaskEdited { facts, title: false, body: false }))
    });
    let set = |uids: Vec<Uid>| uids.into_iter().collect::<BTreeSet<_>>();
    let mut ask = |uid, direction| set(look(store, |read| read.closure(uid, direction)));
    assert_eq!(ask(t(1), Direction::Downstream), on(&[2, 3, 4]));
    assert_eq!(ask(t(4), Direction::Upstream), on(&[1, 2, 3]));
    assert_eq!(ask(t(6), Direction::Downstream), on(&[]));
    assert_eq!(set(look(store, |read| read.neighbours(t(4), Direction::Upstream))), on(&[2, 3]));
    assert_eq!(set(look(store, |read| read.neighbours(t(2), Direction::Downstream))), on(&[3, 4]));
    let numbers = look(store, |read| read.neighbour_numbers(t(4), Direction::Upstream));
    assert_eq!(numbers.iter().map(|number| number.0).collect::<Vec<_>>(), [2, 3]);
    let mut waits = |from, to| look(store, |read| read.does_wait_for(t(from), t(to)));
    assert!(waits(4, 1) && waits(2, 1) && waits(5, 1), "through tasks, and for parts");
    assert!(!waits(1, 4) && !waits(1, 5) && !waits(6, 1));
    assert_eq!(set(look(store, |read| read.waits_for(t(5)))), on(&[1]));
}

fn all_edges<S: Store>(store: &mut S) {
    commit(store, |write| {
        tasks(write, 4)?;
        finish(write, 1)?;
        depend(write, 2, &[1])?;
        depend(write, 3, &[1, 2])?;
        depend(write, 4, &[3])?;
        append(write, t(4), Draft::new(Body::TaskDropped { lease: None }))
    });
    let set = |edges: Vec<(Uid, Uid)>| edges.into_iter().collect::<BTreeSet<_>>();
    let unfinished = set(look(store, |read| read.edges(false)));
    assert_eq!(unfinished, BTreeSet::from([(t(2), t(1)), (t(3), t(1)), (t(3), t(2))]));
    let all = set(look(store, |read| read.edges(true)));
    assert_eq!(all, &unfinished | &BTreeSet::from([(t(4), t(3))]));
}

fn edges_are_sets<S: Store>(store: &mut S) {
    commit(store, |write| {
        tasks(write, 2)?;
        depend(write, 2, &[1])?;
        depend(write, 2, &[1])
    });
    assert_eq!((counts(store, 2), counts(store, 1)), ((1, 0, 0), (0, 0, 1)));
    commit(store, |write| append(write, t(2), Draft::new(Body::DepRemoved { on: on(&[1]) })));
    assert_eq!((counts(store, 2), counts(store, 1)), ((0, 0, 0), (0, 0, 0)));
    let unmet = look(store, |read| read.unmet(t(2), 10));
    assert!(unmet.is_empty());
}

fn rebuild_counts<S: Store>(store: &mut S) {
    commit(store, |write| {
        tasks(write, 5)?;
        depend(write, 3, &[1, 2])?;
        depend(write, 4, &[3])?;
        finish(write, 1)?;
        let facts = Facts { parent: Some(t(5)), ..Facts::default() };
        append(write, t(4), Draft::new(Body::TaskEdited { facts, title: false, body: false }))
    });
    let rebuilt = store.rebuild(&mut |_| {}).expect("it can be rebuilt");
    assert_eq!(rebuilt.changed, [], "relative changes and counting anew agree");
    let state = look(store, |read| read.task(t(3))).map(|task| task.state);
    assert_eq!(state, Some(State::Open));
}
