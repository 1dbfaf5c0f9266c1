//! Random histories: whatever is asked in whatever order, the promises hold.
//!
//! An independent model follows along. It knows nothing of the core's rules but the promise itself: a grant needs a
//! task whose last lease has ended, lapsed or was revoked by a person (P1); tokens only grow, and a holder's event
//! carries the current one (P2); a step of the state is one of the design's table (P4). At the end the ledger
//! verifies and every row is its fold (P5, P6).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod world;

use std::collections::BTreeMap;

use onus_core::chain::Record;
use onus_core::command::{Act, Command, Force, NewTask, Terms};
use onus_core::refusal::Code;
use onus_core::task::{Facts, Origin};
use onus_core::text::Field;
use onus_core::transition::Verb;
use onus_engine::{Ancestry, Identity, Request};
use onus_store::{EventQuery, Store};
use proptest::prelude::*;
use world::{MAX_HOLD_MS, TTL_MS, World, process, who, world};

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

fn terms() -> impl Strategy<Value = Terms> {
    let ttl = prop_oneof![4 => Just(None), 2 => (1..TTL_MS * 2).prop_map(Some), 1 => Just(Some(0))];
    (ttl, proptest::option::weighted(0.3, 0..PROCESSES), proptest::bool::weighted(0.15)).prop_map(
        |(ttl_ms, bind, reserve)| Terms {
            ttl_ms,
            process: bind.map(|pid| process(pid, 1)),
            reserve,
            reason: Some("why".into()),
            ..Terms::default()
        },
    )
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
    let verb = proptest::sample::select(VERBS.as_slice())
        .prop_map(|verb| Act::Move { verb, message: Some(format!("{verb} it")) });
    prop_oneof![
        6 => terms().prop_map(Act::Claim),
        2 => terms().prop_map(Act::Takeover),
        2 => proptest::option::of(1..TTL_MS).prop_map(|ttl_ms| Act::Renew { ttl_ms }),
        8 => verb,
        2 => Just(Act::Note { text: "progress".into() }),
        1 => Just(Act::Handoff { to: "agent:b".parse().unwrap(), reason: "go on".into() }),
        1 => (0..5u8).prop_map(|n| Act::Edit(onus_core::command::Edit {
            title: Some(format!("title {n}")), add_tags: vec![format!("tag{n}")], ..Default::default()
        })),
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
    // Everybody runs inside every process: who may speak for a bound lease has a test of its own.
    identity.ancestry = Ancestry::Known((0..PROCESSES).map(|pid| process(pid, 1)).collect());
    identity.token = token.map(|token| (None, onus_core::ids::Token(token)));
    identity
}

fn request(op: &Op) -> Option<Request> {
    let Op::Ask { by, what, token, force, key } = op else { return None };
    let force = force.then(|| Force { reason: "because".into(), link: None });
    let command = match what {
        What::Add { origin, propose } => Command::Add(NewTask {
            title: "a task".into(),
            body: Some("its body".into()),
            facts: Facts::default(),
            origin: origin.map(|n| format!("mail:{n}").parse::<Origin>().unwrap()),
            propose: *propose,
        }),
        What::On { task, act } => {
            Command::OnTask { task: Some(task.to_string().parse().unwrap()), act: act.clone(), force }
        }
        What::Next { bind } => {
            Command::ClaimNext(Terms { process: bind.map(|pid| process(pid, 1)), ..Terms::default() })
        }
    };
    Some(Request { identity: identity(*by, *token), command, key: key.map(|key| format!("key {key}")) })
}

/// What the model knows of a task's latest lease.
#[derive(Clone, Debug)]
struct Held {
    token: u64,
    deadline: Option<i64>,
    limit: Option<i64>,
    pid: Option<u64>,
    boot: u32,
    ended: bool,
}

#[derive(Default)]
struct Model {
    seq: u64,
    leases: BTreeMap<String, Held>,
    states: BTreeMap<String, &'static str>,
}

impl Model {
    /// Follows the events that one step has written, and complains where they break a promise.
    fn follow<S: Store>(&mut self, world: &mut World<S>) -> Result<(), TestCaseError> {
        let query = EventQuery { after_seq: self.seq, limit: 10_000, ..EventQuery::default() };
        let records = world.engine.store().read(|read| read.events(&query)).unwrap();
        for record in records {
            self.seq = record.seq;
            if let Some(task) = record.task.clone() {
                self.lease_event(world, &task, &record)?;
                self.state_event(&task, &record)?;
            }
        }
        Ok(())
    }

    fn is_live<S>(&self, world: &World<S>, held: &Held) -> bool {
        let fate = world.fate.lock().unwrap();
        let rebooted = held.pid.is_some() && held.boot != fate.boot;
        let died = held.pid.is_some_and(|pid| fate.dead.contains(&u32::try_from(pid).unwrap()));
        let over = |at: Option<i64>| held.boot == fate.boot && at.is_some_and(|at| fate.tick_ms >= at);
        let deadline = held.deadline.filter(|_| held.pid.is_none());
        !(held.ended || rebooted || died || over(deadline) || over(held.limit))
    }

    fn lease_event<S>(&mut self, world: &World<S>, task: &str, record: &Record) -> Result<(), TestCaseError> {
        let (now, boot) = {
            let fate = world.fate.lock().unwrap();
            (fate.tick_ms, fate.boot)
        };
        let token = record.token.unwrap_or_default();
        let grant = |name: &str| record.payload["grant"].get(name).cloned().unwrap_or_default();
        match record.kind.as_str() {
            "lease.acquired" => {
                if let Some(before) = self.leases.get(task) {
                    prop_assert!(token > before.token, "token {token} after {}", before.token);
                    prop_assert!(
                        !self.is_live(world, before),
                        "two live holders of {task}: {before:?} and {record:?}"
                    );
                }
                let limit = grant("max_hold_ms").as_i64().map(|ms| now + ms);
                self.leases.insert(
                    task.to_owned(),
                    Held {
                        token,
                        deadline: grant("ttl_ms").as_i64().map(|ms| now + ms),
                        limit,
                        pid: grant("process")["pid"].as_u64(),
                        boot,
                        ended: false,
                    },
                );
            }
            "lease.renewed" => {
                let in_ms = record.payload["deadline_in_ms"].as_i64();
                let held = self.leases.get_mut(task).expect("renewed after it was granted");
                prop_assert_eq!(held.token, token);
                (held.ended, held.deadline, held.boot) = (false, in_ms.map(|ms| now + ms), boot);
            }
            "lease.lapsed" | "lease.taken_over" => {
                let held = self.leases[task].clone();
                prop_assert!(!self.is_live(world, &held), "{} of a live lease: {held:?}", record.kind);
                self.leases.get_mut(task).unwrap().ended = true;
            }
            "lease.revoked" => {
                prop_assert!(record.actor.starts_with("human:"), "only people revoke: {record:?}");
                self.leases.get_mut(task).unwrap().ended = true;
            }
            _ if record.payload.get("lease").is_some_and(|lease| lease.is_object()) => {
                let held = self.leases.get_mut(task).expect("ended after it was granted");
                prop_assert_eq!(held.token, token, "a superseded token wrote {:?}", record);
                held.ended = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn state_event(&mut self, task: &str, record: &Record) -> Result<(), TestCaseError> {
        let before = self.states.get(task).copied().unwrap_or("none");
        let reserved = record.payload["grant"]["reserve"].as_bool().unwrap_or_default();
        let after = match record.kind.as_str() {
            "task.created" if record.payload["state"] == "proposed" => "proposed",
            "task.created" | "task.accepted" | "task.unblocked" | "task.reopened" | "task.rejected" => "open",
            "lease.released" | "lease.lapsed" | "lease.handed_off" | "lease.taken_over" | "lease.revoked" => {
                "open"
            }
            "lease.acquired" if reserved => "open",
            "lease.renewed" if record.payload["reserve"] == true => "open",
            "lease.acquired" | "lease.renewed" | "task.started" => "in_progress",
            "task.blocked" => "blocked",
            "task.submitted" => "review",
            "task.approved" | "task.done" => "done",
            "task.failed" => "failed",
            "task.dropped" => "dropped",
            _ => before,
        };
        let allowed: &[&str] = match after {
            "proposed" => &["none"],
            "open" => &["none", "proposed", "open", "in_progress", "blocked", "review", "done", "dropped"],
            "in_progress" => &["open", "in_progress"],
            "blocked" | "review" => &["open", "in_progress"],
            "failed" => &["open", "in_progress", "blocked", "review"],
            "dropped" => &["proposed", "open", "in_progress", "blocked", "review", "failed"],
            _ => &["open", "in_progress", "review"],
        };
        prop_assert!(before == after || allowed.contains(&before), "{before} -> {after} by {}", record.kind);
        self.states.insert(task.to_owned(), after);
        Ok(())
    }

    /// A successful command is a sign of life for every lease its holder has.
    fn signs_of_life<S: Store>(&mut self, world: &mut World<S>) {
        let leases = world.engine.store().read(|read| read.open_leases(1_000)).unwrap();
        for (task, lease) in leases {
            if let Some(held) = self.leases.get_mut(&task.uid.to_string()) {
                let deadline = lease.pulse.deadline.map(|deadline| deadline.tick_ms);
                assert!(
                    held.pid.is_some() || deadline >= held.deadline || held.boot != 1,
                    "a deadline came closer"
                );
                held.deadline = deadline;
            }
        }
    }
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
