//! What may happen to a graph.

use super::*;

#[derive(Clone, Debug)]
pub(super) enum Op {
    Add {
        parent: Option<u64>,
        deps: Vec<u64>,
        facts: Facts,
        propose: bool,
        in_ms: Option<i64>,
    },
    Link {
        task: u64,
        on: Vec<u64>,
        adds: bool,
    },
    Parent {
        task: u64,
        parent: Option<u64>,
    },
    Edit {
        task: u64,
        priority: Option<Priority>,
        in_ms: Option<Option<i64>>,
    },
    Claim {
        task: u64,
        by: usize,
        terms: Terms,
        force: bool,
    },
    Next {
        by: usize,
        terms: Terms,
    },
    /// By whoever holds it, if anybody does.
    Move {
        task: u64,
        by: usize,
        verb: Verb,
        force: bool,
    },
    Handoff {
        task: u64,
        by: usize,
    },
    Reset {
        task: u64,
        by: usize,
        force: bool,
    },
    Retry {
        task: u64,
        by: usize,
    },
    /// The best that is ready is done, or fails.
    Drive {
        by: usize,
        verb: Verb,
    },
    /// The best that is ready is claimed, and then found to depend on something that failed.
    Strand {
        by: usize,
        dies: bool,
    },
    Pass(i64),
    Kill(u32),
}

fn priority() -> impl Strategy<Value = Priority> {
    proptest::sample::select([Priority::P1, Priority::P2, Priority::P3].as_slice())
}

fn facts() -> impl Strategy<Value = Facts> {
    (priority(), prop_oneof![6 => Just(1_u8), 1 => Just(0), 1 => Just(2)])
        .prop_map(|(priority, tier)| Facts { priority, required_tier: Tier(tier), ..Facts::default() })
}

fn terms() -> impl Strategy<Value = Terms> {
    (proptest::option::weighted(0.4, 0..PROCESSES), proptest::bool::weighted(0.2)).prop_map(
        |(bind, reserve)| Terms { process: bind.map(|pid| process(pid, 1)), reserve, ..Terms::default() },
    )
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let task = || 1..=MOST;
    let few = |most: usize| proptest::collection::vec(1..=MOST, 0..most);
    let by = || 0..CALLERS.len();
    let soon = || 1..TTL_MS * 2;
    let verb = prop_oneof![
        8 => Just(Verb::Done),
        3 => Just(Verb::Fail),
        1 => Just(Verb::Drop),
        2 => Just(Verb::Reopen),
        1 => Just(Verb::Block),
        1 => Just(Verb::Unblock),
        1 => Just(Verb::Release),
        1 => Just(Verb::Submit),
        1 => Just(Verb::Approve),
        1 => Just(Verb::Reject),
        1 => Just(Verb::Accept),
    ];
    prop_oneof![
        1 => (proptest::option::of(task()), few(3), facts(), proptest::bool::weighted(0.1), proptest::option::weighted(0.2, soon()))
            .prop_map(|(parent, deps, facts, propose, in_ms)| Op::Add { parent, deps, facts, propose, in_ms }),
        6 => (task(), few(3), proptest::bool::weighted(0.5)).prop_map(|(task, on, adds)| Op::Link { task, on, adds }),
        2 => (task(), proptest::option::weighted(0.7, task())).prop_map(|(task, parent)| Op::Parent { task, parent }),
        4 => (task(), proptest::option::of(priority()), proptest::option::of(proptest::option::of(soon())))
            .prop_map(|(task, priority, in_ms)| Op::Edit { task, priority, in_ms }),
        6 => (task(), by(), terms(), proptest::bool::weighted(0.1))
            .prop_map(|(task, by, terms, force)| Op::Claim { task, by, terms, force }),
        4 => (by(), terms()).prop_map(|(by, terms)| Op::Next { by, terms }),
        12 => (task(), by(), verb, proptest::bool::weighted(0.1))
            .prop_map(|(task, by, verb, force)| Op::Move { task, by, verb, force }),
        1 => (task(), by()).prop_map(|(task, by)| Op::Handoff { task, by }),
        3 => (task(), by(), any::<bool>()).prop_map(|(task, by, force)| Op::Reset { task, by, force }),
        3 => (task(), by()).prop_map(|(task, by)| Op::Retry { task, by }),
        5 => by().prop_map(|by| Op::Drive { by, verb: Verb::Done }),
        2 => by().prop_map(|by| Op::Drive { by, verb: Verb::Fail }),
        6 => (by(), any::<bool>()).prop_map(|(by, dies)| Op::Strand { by, dies }),
        2 => (1..TTL_MS).prop_map(Op::Pass),
        1 => (TTL_MS..MAX_HOLD_MS).prop_map(Op::Pass),
        1 => (0..PROCESSES).prop_map(Op::Kill),
    ]
}
