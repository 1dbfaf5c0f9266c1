//! Random histories: whatever is requested in whatever order, the promises hold.
//!
//! An independent model follows along (`world/model.rs`). At the end the ledger verifies and every row is its fold
//! (P5, P6).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use crate::world::model::Model;
use crate::world::{MAX_HOLD_MS, TTL_MS, process, who, world};
use onus_core::command::{Act, Command, Force, Intake, NewTask, Terms};
use onus_core::constraint::{Constraint, ConstraintKind, Constraints};
use onus_core::refusal::Code;
use onus_core::task::{Facts, NoteKind, Origin};
use onus_core::text::Field;
use onus_core::transition::Verb;
use onus_engine::{Ancestry, Identity, Request};
use proptest::prelude::*;

const PEOPLE: [&str; 2] = ["human:h", "human:g"];
const AGENTS: [(&str, &str); 4] = [("agent:a", "1"), ("agent:a", "2"), ("agent:b", "1"), ("agent:c", "1")];
const TASKS: u64 = 6;
const PROCESSES: u32 = 4;

#[derive(Clone, Debug)]
enum Op {
    Ask { by: usize, what: What, token: Option<u64>, force: bool, key: Option<u8> },
    Pass(i64),
    StepWall(i64),
    Kill(u32),
}

#[derive(Clone, Debug)]
enum What {
    Add { origin: Option<u8>, propose: bool },
    On { task: u64, act: Act },
    Next { bind: Option<u32> },
}

fn constraints() -> impl Strategy<Value = Constraints> {
    let one = prop_oneof![
        Just(Constraint::ReadOnly),
        Just(Constraint::NoLand),
        (0..5u64).prop_map(Constraint::MaxFiles),
    ];
    proptest::collection::vec(one, 0..2).prop_map(|all| all.into_iter().collect())
}

fn terms() -> impl Strategy<Value = Terms> {
    let ttl = prop_oneof![4 => Just(None), 2 => (1..TTL_MS * 2).prop_map(Some), 1 => Just(Some(0))];
    (ttl, proptest::option::weighted(0.3, 0..PROCESSES), proptest::bool::weighted(0.15), constraints())
        .prop_map(|(ttl_ms, bind, reserve, constraints)| Terms {
            ttl_ms,
            constraints,
            process: bind.map(|pid| process(pid, 1)),
            reserve,
            reason: Some("why".into()),
            ..Terms::default()
        })
}

fn act() -> impl Strategy<Value = Act> {
    const VERBS: [Verb; 11] = [
        Verb::Accept,
        Verb::Block,
        Verb::Unblock,
        Verb::Submit,
        Verb::Approve,
        Verb::Reject,
        Verb::Done,
        Verb::Fail,
        Verb::Drop,
        Verb::Reopen,
        Verb::Release,
    ];
    let verb = proptest::sample::select(VERBS.as_slice()).prop_map(|verb| Act::Move {
        verb,
        message: Some(format!("{verb} it")),
        uncommitted: None,
        demand: None,
    });
    prop_oneof![
        6 => terms().prop_map(Act::Claim),
        2 => terms().prop_map(Act::Takeover),
        2 => proptest::option::of(1..TTL_MS).prop_map(|ttl_ms| Act::Renew { ttl_ms, progress: false }),
        8 => verb,
        2 => (0..3usize).prop_map(|kind| Act::Note {
            text: "progress".into(), kind: NoteKind::ALL[kind], link: (kind == 2).then(|| "https://x.example".into())
        }),
        1 => (1..4u64, any::<bool>()).prop_map(|(line, undo)| Act::Tick { line, undo }),
        2 => (0..3usize, proptest::option::of(1..MAX_HOLD_MS)).prop_map(|(to, keep_ms)| Act::Assign {
            to: ["agent:a", "agent:b", "human:g"][to].parse().unwrap(), keep_ms, reason: "yours".into()
        }),
        1 => Just(Act::Handoff { to: "agent:b".parse().unwrap(), reason: "go on".into() }),
        1 => (0..5u8).prop_map(|n| Act::Edit(onus_core::command::Edit {
            title: Some(format!("title {n}")), add_tags: vec![format!("tag{n}")], ..Default::default()
        })),
        2 => (constraints(), proptest::option::of(0..4u8), 0..3u8).prop_map(|(constraints, id, lines)| {
            Act::Edit(onus_core::command::Edit {
                constraints,
                lift: if lines == 1 { [ConstraintKind::NoLand].into() } else { Default::default() },
                refs: [("jira".into(), id.map(|id| format!("WEB-{id}")))].into(),
                acceptance: (0..lines.min(1)).map(|n| format!("line {n}")).collect(),
                ..Default::default()
            })
        }),
        2 => (0..10u8).prop_map(|n| Act::Commit(n.to_string().repeat(40).parse().unwrap())),
        1 => (1..6u64).prop_map(|version| Act::Redact {
            version: onus_core::ids::Version(version), fields: vec![Field::Note], reason: "secret".into()
        }),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let what = prop_oneof![
        1 => (proptest::option::of(0..4u8), any::<bool>()).prop_map(|(origin, propose)| What::Add { origin, propose }),
        10 => (1..=TASKS, act()).prop_map(|(task, act)| What::On { task, act }),
        2 => proptest::option::of(0..PROCESSES).prop_map(|bind| What::Next { bind }),
    ];
    let ask = (
        0..PEOPLE.len() + AGENTS.len(),
        what,
        proptest::option::weighted(0.15, 1..6u64),
        proptest::bool::weighted(0.05),
        proptest::option::weighted(0.05, 0..6u8),
    );
    prop_oneof![
        30 => ask.prop_map(|(by, what, token, force, key)| Op::Ask { by, what, token, force, key }),
        4 => (1..TTL_MS).prop_map(Op::Pass),
        1 => (TTL_MS..MAX_HOLD_MS).prop_map(Op::Pass),
        1 => (-7_200_000i64..7_200_000).prop_map(Op::StepWall),
        1 => (0..PROCESSES).prop_map(Op::Kill),
    ]
}

fn identity(by: usize, token: Option<u64>) -> Identity {
    let mut identity = match by.checked_sub(PEOPLE.len()) {
        None => who(PEOPLE[by], ""),
        Some(agent) => who(AGENTS[agent].0, AGENTS[agent].1),
    };
    // Everybody runs inside every process: who may act under a bound lease has a test of its own.
    identity.ancestry = Ancestry::Known((0..PROCESSES).map(|pid| process(pid, 1)).collect());
    identity.token = token.map(|token| (None, onus_core::ids::Token(token)));
    identity
}

fn request(op: &Op) -> Option<Request> {
    let Op::Ask { by, what, token, force, key } = op else { return None };
    let force = force.then(|| Force { reason: "because".into(), link: None });
    let command = match what {
        // The same ask again, in other words: found, or brought up to date.
        What::Add { origin: Some(n), propose } => Command::Intake(Intake {
            new: NewTask {
                body: Some(format!("as {by} says")),
                facts: Facts { link: Some(format!("https://x.example/{by}")), ..Facts::default() },
                origin: Some(format!("mail:{n}").parse::<Origin>().unwrap()),
                author: Some("Ann <ann@x.example>".into()),
                propose: *n == 0,
                ..NewTask::titled(format!("asked by {by}"))
            },
            refresh: *propose,
            is_reply: *by == 0,
        }),
        What::Add { origin: None, propose } => Command::Add(NewTask {
            acceptance: vec!["it works".into(), "it is fast".into()],
            body: Some("its body".into()),
            propose: *propose,
            ..NewTask::titled("a task")
        }),
        What::On { task, act } => {
            // Now and then by what it is called elsewhere.
            let named =
                if *task == TASKS && key.is_none() { "jira:WEB-1".to_owned() } else { task.to_string() };
            Command::OnTask { task: Some(named.parse().unwrap()), act: act.clone(), force }
        }
        What::Next { bind } => {
            Command::ClaimNext(Terms { process: bind.map(|pid| process(pid, 1)), ..Terms::default() })
        }
    };
    Some(Request { identity: identity(*by, *token), command, key: key.map(|key| format!("key {key}")) })
}

fn play(ops: &[Op], batch: usize) -> Result<(), TestCaseError> {
    let mut world = world();
    let mut model = Model::default();
    for title in 0..TASKS {
        world.add(&format!("task {title}"));
    }
    let mut waiting: Vec<Request> = Vec::new();
    for op in ops.iter().chain([&Op::Pass(0)]) {
        if let Some(request) = request(op) {
            waiting.push(request);
            if waiting.len() < batch {
                continue;
            }
        }
        for answer in world.engine.execute(&std::mem::take(&mut waiting)) {
            let code = answer.err().map(|refusal| refusal.code);
            prop_assert!(
                !matches!(code, Some(Code::Unexpected | Code::Damaged | Code::Busy)),
                "the engine failed: {code:?}"
            );
        }
        model.follow(&mut world)?;
        model.signs_of_life(&mut world);
        match op {
            Op::Pass(ms) => world.pass(*ms),
            Op::StepWall(ms) => world.fate.lock().unwrap().wall_ms += ms,
            Op::Kill(pid) => world.kill(*pid),
            Op::Ask { .. } => {}
        }
    }
    world.is_whole();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_history_breaks_a_promise(ops in proptest::collection::vec(op(), 1..120)) {
        play(&ops, 1)?;
    }
}

proptest! {
    // One long history, in batches: shrinking ten thousand commands would take longer than reading them.
    #![proptest_config(ProptestConfig { cases: 1, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_ten_thousand_commands_every_row_is_the_fold_of_the_ledger(
        ops in proptest::collection::vec(op(), 12_700..12_701)
    ) {
        let asked = ops.iter().filter(|op| matches!(op, Op::Ask { .. })).count();
        prop_assert!(asked >= 10_000, "only {asked} commands");
        play(&ops, 8)?;
    }
}
