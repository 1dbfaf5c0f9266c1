//! Random graphs and histories: however tasks are linked, claimed, finished, reset and retried, `ready` is
//! what a naive look at states and edges says, nothing ever waits for itself, and a reset changes everything
//! downstream and nothing else.
//!
//! The naive side reads tasks as anybody sees them (`show`): states, edges, leases, schedules. It does not
//! use the rows' counters, except to compare.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::world::model::Model;
use crate::world::{MAX_HOLD_MS, TTL_MS, World, policy, process, who, with_token, world_with};
use onus_core::actor::Tier;
use onus_core::chain::Record;
use onus_core::command::{Act, Command, Edit, Force, NewTask, Schedule, TaskLink, Terms};
use onus_core::policy::Policy;
use onus_core::refusal::{Code, Refusal};
use onus_core::task::{Facts, Priority, State};
use onus_core::transition::Verb;
use onus_engine::{Ancestry, Answer, Identity, Reply, TaskView};
use onus_store::{AnyStore, EventQuery, Store as _};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

use naive::*;
use ops::{Op, op};

mod naive;
mod ops;

type Checked = Result<(), TestCaseError>;

const CALLERS: [(&str, &str); 5] =
    [("human:h", ""), ("human:g", ""), ("agent:a", "1"), ("agent:a", "2"), ("agent:b", "1")];
const FIRST_AGENT: usize = 2;
const TASKS: u64 = 7;
const MOST: u64 = 10;
const PROCESSES: u32 = 3;
const MAX_ATTEMPTS: u64 = 1;

fn caller(by: usize) -> Identity {
    let mut identity = who(CALLERS[by].0, CALLERS[by].1);
    // Everybody runs inside every process: who may act under a bound lease has a test of its own.
    identity.ancestry = Ancestry::Known((0..PROCESSES).map(|pid| process(pid, 1)).collect());
    identity
}

/// What happened to a lease, according to the ledger.
#[derive(Clone, Debug)]
struct Past {
    actor: String,
    instance: String,
    token: u64,
    /// Swept or not ended: its holder may still come back.
    is_current: bool,
    /// Its holder ended it.
    by_itself: bool,
}

struct Play<'a> {
    world: World<AnyStore>,
    model: Model,
    seq: u64,
    leases: BTreeMap<String, Vec<Past>>,
    steps: usize,
    seen: &'a RefCell<BTreeMap<&'static str, u64>>,
}

impl Play<'_> {
    fn count(&self, what: &'static str) {
        *self.seen.borrow_mut().entry(what).or_default() += 1;
    }

    fn tasks(&mut self) -> Tasks {
        let all = onus_store::Filter { finished: true, ..Default::default() };
        let page = self.world.engine.list(None, &all, None, 1_000).unwrap().value;
        page.tasks.into_iter().map(|task| (task.id.clone(), task)).collect()
    }

    fn now_ms(&self) -> i64 {
        self.world.fate.lock().unwrap().wall_ms
    }

    /// What is ready for an asker, by a look at states and edges; and whether it is a takeover.
    fn naive_ready(&mut self, tasks: &Tasks, asker: Option<&Identity>) -> Vec<(String, bool)> {
        let now_ms = self.now_ms();
        // Whether its time has run out or not.
        let kept = asker.map(|asker| {
            let kept = onus_store::Filter { kept_for: Some(asker.actor.clone()), ..Default::default() };
            self.world.engine.list(None, &kept, None, 1_000).unwrap().value.tasks
        });
        let is_kept = |id: &str| kept.iter().flatten().any(|task| task.id == id);
        let tier = if asker.is_some() { 1 } else { 3 };
        let is_ready = |task: &&TaskView| {
            let for_asker = task
                .kept_for
                .as_ref()
                .is_none_or(|kept| asker.is_some_and(|asker| asker.actor.to_string() == kept.actor));
            let due = task
                .not_before
                .as_ref()
                .is_none_or(|at| onus_core::time::parse_rfc3339(at).unwrap() <= now_ms);
            let free = match &task.lease {
                None => task.state == State::Open,
                Some(lease) => !lease.live && !lease.actor.starts_with("human:"),
            };
            free && for_asker
                && due
                && task.required_tier <= tier
                && unmet(tasks, &task.id) == 0
                && open_children(tasks, &task.id) == 0
        };
        let mut ready: Vec<&TaskView> = tasks.values().filter(is_ready).collect();
        ready.sort_by_key(|task| {
            let dependents = Reverse(open_dependents(tasks, &task.id));
            (task.lease.is_some(), task.priority, Reverse(is_kept(&task.id)), dependents, task.number)
        });
        ready.into_iter().map(|task| (task.id.clone(), task.lease.is_some())).collect()
    }

    /// What must hold after every command.
    fn check(&mut self, tasks: &Tasks) -> Checked {
        prop_assert!(!has_circle(tasks), "something waits for itself: {tasks:#?}");
        for (id, task) in tasks {
            let counted = (task.unmet, task.open_children, task.open_dependents);
            let naive = (unmet(tasks, id), open_children(tasks, id), open_dependents(tasks, id));
            prop_assert_eq!(counted, naive, "what the row of {} counts", id);
        }
        self.steps += 1;
        let askers = [None, Some(caller(0)), Some(caller(FIRST_AGENT)), Some(caller(4))];
        // In turns: checking all of them each time would take four times as long.
        for asker in askers.into_iter().skip(self.steps % 4).take(1) {
            let expected = self.naive_ready(tasks, asker.as_ref());
            let ready = self.world.engine.ready(asker.as_ref(), 1_000).unwrap().value.tasks;
            let ready: Vec<(String, bool)> =
                ready.into_iter().map(|task| (task.id, task.takeover.unwrap())).collect();
            prop_assert_eq!(&ready, &expected, "ready for {:?}", asker.map(|asker| asker.actor));
            self.count("ready compared");
            if ready.iter().any(|(_, takeover)| *takeover) {
                self.count("a takeover was ready");
            }
            let ready: BTreeSet<String> = ready.into_iter().map(|(id, _)| id).collect();
            let explained = self.world.engine.ready_explained(asker.as_ref(), 1_000, 1_000).unwrap().value;
            let unfinished = tasks.values().filter(|task| !is_finished(task) && !ready.contains(&task.id));
            let left_out: BTreeSet<&String> = explained.left_out.iter().map(|why| &why.id).collect();
            prop_assert_eq!(left_out, unfinished.map(|task| &task.id).collect::<BTreeSet<_>>());
            prop_assert_eq!(explained.more, 0);
            for why in &explained.left_out {
                prop_assert!(!why.ready && !why.obstacles.is_empty(), "{why:?}");
            }
            for id in &ready {
                let why = self.world.engine.why(asker.as_ref(), Some(&id.parse().unwrap())).unwrap().value;
                prop_assert!(why.ready, "{why:?}");
            }
        }
        Ok(())
    }

    fn new_events(&mut self) -> Vec<Record> {
        let query = EventQuery { after_seq: self.seq, limit: 10_000, ..EventQuery::default() };
        let records = self.world.engine.store().read(|read| read.events(&query)).unwrap();
        self.seq = records.last().map_or(self.seq, |record| record.seq);
        for record in &records {
            let Some(task) = record.task.clone() else { continue };
            let leases = self.leases.entry(task).or_default();
            let ends = record.payload.get("lease").is_some_and(|lease| lease.is_object());
            match record.kind.as_str() {
                "lease.acquired" => leases.push(Past {
                    actor: record.actor.clone(),
                    instance: record.instance.clone(),
                    token: record.token.unwrap(),
                    is_current: true,
                    by_itself: false,
                }),
                "lease.renewed" | "lease.lapsed" => leases.last_mut().unwrap().is_current = true,
                "task.reset" => leases.iter_mut().for_each(|past| past.is_current = false),
                kind if ends => {
                    let past = leases.last_mut().unwrap();
                    past.is_current = false;
                    past.by_itself = !matches!(kind, "lease.taken_over" | "lease.revoked");
                }
                _ => {}
            }
        }
        records
    }

    fn run(&mut self, by: &Identity, command: Command) -> Result<Reply, Refusal> {
        let before = self.world.events();
        let outcome = self.world.run(by, command);
        match &outcome {
            Ok(_) => {}
            Err(refusal) => {
                assert_eq!(self.world.events(), before, "a refusal changed something");
                let bad = matches!(refusal.code, Code::Unexpected | Code::Damaged | Code::Busy);
                assert!(!bad, "the engine failed: {refusal:?}");
                assert!(!refusal.message.contains("force"), "{refusal:?}");
            }
        }
        outcome
    }

    fn step(&mut self, op: &Op) -> Checked {
        let tasks = self.tasks();
        let id = |task: u64| format!("ON-{}", (task - 1) % tasks.len() as u64 + 1);
        let reference = |task: u64| id(task).parse().unwrap();
        let founder = who("human:founder", "");
        let on = |task: u64, act: Act, force: bool| Command::OnTask {
            task: Some(reference(task)),
            act,
            force: force.then(|| Force { reason: "because".into(), link: None }),
        };
        let refused_for =
            |outcome: &Result<Reply, Refusal>| outcome.as_ref().err().map(|refusal| refusal.code);
        match op {
            Op::Pass(ms) => self.world.pass(*ms),
            Op::Kill(pid) => self.world.kill(*pid),
            Op::Add { parent, deps, facts, propose, in_ms } => {
                if tasks.len() as u64 == MOST {
                    return Ok(());
                }
                let new = NewTask {
                    facts: facts.clone(),
                    parent: parent.map(|task| TaskLink::Task(reference(task))),
                    deps: deps.iter().map(|task| TaskLink::Task(reference(*task))).collect(),
                    acceptance: deps.iter().map(|task| format!("after {task}")).collect(),
                    not_before: in_ms.map(|ms| Schedule::In { ms }),
                    propose: *propose,
                    ..NewTask::titled("one more")
                };
                let outcome = self.run(&founder, Command::Add(new));
                if refused_for(&outcome) == Some(Code::Cycle) {
                    self.count("a new task was refused for a circle");
                }
            }
            Op::Link { task, on: others, adds } => {
                let references = others.iter().map(|task| reference(*task)).collect();
                let act =
                    if *adds { Act::AddDeps { on: references } } else { Act::RemoveDeps { on: references } };
                let outcome = self.run(&founder, on(*task, act, false));
                match refused_for(&outcome) {
                    Some(Code::Cycle) => self.count("a dependency was refused for a circle"),
                    Some(code) => prop_assert!(false, "{code:?}"),
                    None if *adds => {
                        let mut linked = tasks.clone();
                        let deps = others.iter().map(|task| id(*task));
                        linked.get_mut(&id(*task)).unwrap().deps.extend(deps);
                        prop_assert!(!has_circle(&linked), "a circle was let in");
                    }
                    None => self.count("dependencies were taken away"),
                }
                if refused_for(&outcome) == Some(Code::Cycle) {
                    let mut linked = tasks.clone();
                    linked.get_mut(&id(*task)).unwrap().deps.extend(others.iter().map(|task| id(*task)));
                    prop_assert!(has_circle(&linked), "refused for a circle that is none");
                }
            }
            Op::Parent { task, parent } => {
                let edit = Edit { parent: Some(parent.map(reference)), ..Edit::default() };
                let outcome = self.run(&founder, on(*task, Act::Edit(edit), false));
                let mut linked = tasks.clone();
                linked.get_mut(&id(*task)).unwrap().parent = parent.map(id);
                let is_refused = refused_for(&outcome) == Some(Code::Cycle);
                prop_assert_eq!(is_refused, has_circle(&linked), "{:?}", outcome);
                self.count(if is_refused { "a parent was refused for a circle" } else { "a parent was set" });
            }
            Op::Edit { task, priority, in_ms } => {
                let not_before = in_ms.map(|in_ms| in_ms.map(|ms| Schedule::In { ms }));
                let edit = Edit { priority: *priority, not_before, ..Edit::default() };
                let _ = self.run(&founder, on(*task, Act::Edit(edit), false));
            }
            Op::Claim { task, by, terms, force } => {
                let outcome = self.run(&caller(*by), on(*task, Act::Claim(terms.clone()), *force));
                self.count(match refused_for(&outcome) {
                    None => "a task was claimed",
                    Some(Code::Unmet) => "a claim was refused for a dependency",
                    Some(Code::NotYet) => "a claim was refused for its schedule",
                    Some(Code::Held) => "a claim was refused for a holder",
                    Some(_) => "a claim was refused for something else",
                });
            }
            Op::Next { by, terms } => {
                let expected = self.naive_ready(&tasks, Some(&caller(*by)));
                let outcome = self.run(&caller(*by), Command::ClaimNext(terms.clone()));
                let got = outcome.ok().map(|reply| match reply.answer {
                    Answer::Lease { task, .. } => task.id,
                    other => panic!("{other:?}"),
                });
                prop_assert_eq!(
                    &got,
                    &expected.first().map(|(id, _)| id.clone()),
                    "claim --next of {:?}",
                    expected
                );
                self.count(if got.is_some() { "the next was claimed" } else { "there was no next" });
            }
            Op::Move { task, by, verb, force } => {
                let by = self.holder(&tasks[&id(*task)]).unwrap_or_else(|| caller(*by));
                let act = Act::Move {
                    verb: *verb,
                    message: Some("a note".into()),
                    uncommitted: None,
                    demand: None,
                };
                let outcome = self.run(&by, on(*task, act, *force));
                let is_done = matches!(verb, Verb::Done | Verb::Approve) && outcome.is_ok();
                let open = (unmet(&tasks, &id(*task)), open_children(&tasks, &id(*task)));
                if is_done && open != (0, 0) {
                    prop_assert!(*force && by.actor.is_person(), "done over {open:?} by {}", by.actor);
                    self.count("done was forced");
                }
                match (refused_for(&outcome), verb) {
                    (Some(Code::Unmet), Verb::Done) if open.0 > 0 => {
                        self.count("done was refused for a dependency")
                    }
                    (Some(Code::Unmet), Verb::Done) => self.count("done was refused for a part"),
                    (Some(Code::Unmet), Verb::Approve) => self.count("an approval was refused"),
                    (None, Verb::Done) => self.count("a task was done"),
                    (None, Verb::Fail) => self.count("a task failed"),
                    (None, Verb::Drop) => self.count("a task was dropped"),
                    (None, Verb::Reopen) => self.count("a task was reopened"),
                    (None, Verb::Block) => self.count("a task was blocked"),
                    _ => {}
                }
            }
            Op::Handoff { task, by } => {
                let by = self.holder(&tasks[&id(*task)]).unwrap_or_else(|| caller(*by));
                let act = Act::Handoff { to: "agent:b".parse().unwrap(), reason: "go on".into() };
                let _ = self.run(&by, on(*task, act, false));
            }
            Op::Drive { by, verb } => {
                if let Some((best, _)) = self.naive_ready(&tasks, Some(&caller(*by))).first() {
                    self.run(&caller(*by), crate::world::on(best, crate::world::claim())).unwrap();
                    self.run(&caller(*by), crate::world::on(best, crate::world::verb(*verb))).unwrap();
                    self.count(if *verb == Verb::Done { "a task was done" } else { "a task failed" });
                }
            }
            Op::Strand { by, dies } => {
                let failed = tasks.values().find(|task| task.state == State::Failed);
                let best = self.naive_ready(&tasks, Some(&caller(*by))).first().cloned();
                if let (Some(failed), Some((best, _))) = (failed, best) {
                    let pid = 1_000 + u32::try_from(self.steps).unwrap();
                    let process = dies.then(|| process(pid, 1));
                    let terms = Terms { process, ..Terms::default() };
                    self.run(&caller(*by), crate::world::on(&best, Act::Claim(terms))).unwrap();
                    let link = Act::AddDeps { on: vec![failed.id.parse().unwrap()] };
                    let _ = self.run(&founder, crate::world::on(&best, link));
                    self.world.kill(pid);
                }
            }
            Op::Reset { task, by, force } => self.reset(&tasks, &id(*task), *by, *force)?,
            Op::Retry { task, by } => {
                // One that failed, if there is one.
                let failed: Vec<&String> =
                    tasks.values().filter(|task| task.state == State::Failed).map(|task| &task.id).collect();
                let index = usize::try_from(*task).unwrap() % failed.len().max(1);
                let root = failed.get(index).map_or_else(|| id(*task), |id| (*id).clone());
                self.retry(&tasks, &root, *by)?;
            }
        }
        self.new_events();
        self.model.follow(&mut self.world)?;
        self.model.signs_of_life(&mut self.world);
        let tasks = self.tasks();
        self.check(&tasks)
    }

    fn holder(&self, task: &TaskView) -> Option<Identity> {
        let lease = task.lease.as_ref()?;
        (0..CALLERS.len()).map(caller).find(|caller| {
            caller.actor.to_string() == lease.actor && caller.instance.to_string() == lease.instance
        })
    }

    fn reset(&mut self, tasks: &Tasks, root: &str, by: usize, force: bool) -> Checked {
        let me = caller(by);
        let is_mine = |task: &TaskView| {
            let lease = task.lease.as_ref();
            lease.is_some_and(|lease| {
                lease.actor == me.actor.to_string() && lease.instance == me.instance.to_string()
            })
        };
        let closure = downstream(tasks, root);
        let others_live =
            closure.iter().chain([&root.to_owned()]).any(|id| is_live(&tasks[id]) && !is_mine(&tasks[id]));
        let preview = self.world.engine.reset_preview(Some(&me), Some(&root.parse().unwrap()));
        let command = Command::Reset {
            task: Some(root.parse().unwrap()),
            reason: "start over".into(),
            force: force.then(|| Force { reason: "because".into(), link: None }),
        };
        let reply = match self.run(&me, command) {
            Ok(reply) => reply,
            Err(refusal) => {
                match refusal.code {
                    Code::Held => {
                        prop_assert!(others_live, "{refusal:?}");
                        self.count("a reset was refused for a holder");
                    }
                    Code::NotAllowed => {
                        prop_assert!(
                            matches!(tasks[root].state, State::Proposed | State::Dropped),
                            "{refusal:?}"
                        );
                        prop_assert!(preview.is_err(), "a preview promised what is refused");
                        self.count("a reset was refused for the state");
                    }
                    Code::Fenced | Code::PeopleOnly => {}
                    code => prop_assert!(false, "{code:?}"),
                }
                return Ok(());
            }
        };
        prop_assert!(!others_live || force && me.actor.is_person(), "a live holder was swept away");
        let Answer::Reset { touched, .. } = reply.answer else { panic!("{reply:?}") };
        let expected = |id: &&String| {
            let task = &tasks[*id];
            let swept = self
                .leases
                .get(&task.uid)
                .and_then(|leases| leases.last())
                .is_some_and(|past| past.is_current);
            match task.state {
                State::Proposed | State::Dropped => false,
                State::Open => task.lease.is_some() || task.kept_for.is_some() || swept,
                _ => true,
            }
        };
        let mut naive: BTreeSet<String> = closure.iter().filter(expected).cloned().collect();
        naive.insert(root.to_owned());
        let got: BTreeSet<String> = touched.iter().map(|task| task.id.clone()).collect();
        if got != naive {
            for id in got.symmetric_difference(&naive) {
                let task = &tasks[id];
                let past = (task.state, &task.lease, &task.kept_for, self.leases.get(&task.uid));
                prop_assert!(false, "the reset of {root} and {id}: touched {}, {past:?}", got.contains(id));
            }
        }
        prop_assert_eq!(touched.len(), naive.len(), "nothing is touched twice");
        let promised = preview.unwrap().value;
        prop_assert_eq!(&promised, &touched, "what the preview promised");
        self.count("a reset");
        if touched.len() > 2 {
            self.count("a reset of three or more");
        }
        if closure.len() + 1 > touched.len() {
            self.count("a reset that left something in its closure alone");
        }
        if others_live {
            self.count("a forced reset");
        }

        // One event a task, and they name the root's as their cause.
        let holders = self.leases.clone();
        let records = self.new_events();
        let resets: Vec<&Record> = records.iter().filter(|record| record.kind == "task.reset").collect();
        let first = resets[0];
        prop_assert_eq!(first.task.as_ref(), Some(&tasks[root].uid));
        let of: BTreeSet<&String> = resets.iter().filter_map(|record| record.task.as_ref()).collect();
        prop_assert_eq!((of.len(), resets.len()), (naive.len(), naive.len()), "one event a task");
        for record in &records {
            let is_of_root = record.task == first.task || record.task.is_none();
            let known = ["task.reset", "rule.overridden", "actor.registered"].contains(&record.kind.as_str());
            prop_assert!(known, "{record:?}");
            prop_assert!(is_of_root || record.cause.as_ref() == Some(&first.uid), "{record:?}");
        }

        // Every token granted before is dead, presented or not, until its holder claims again.
        for id in &naive {
            let task = self.world.show(id);
            // A kept task stays kept: a reset ends claims, not assignments.
            let kept_for = |task: &TaskView| task.kept_for.as_ref().map(|kept| kept.actor.clone());
            prop_assert_eq!(
                (task.state, task.lease.is_none(), kept_for(&task)),
                (State::Open, true, kept_for(&tasks[id]))
            );
            let mut latest: BTreeMap<(String, String), Past> = BTreeMap::new();
            for past in holders.get(&task.uid).into_iter().flatten() {
                self.is_fenced(id, with_token(who(&past.actor, &past.instance), past.token))?;
                latest.insert((past.actor.clone(), past.instance.clone()), past.clone());
                self.count("an old token was tried");
            }
            for past in latest.into_values() {
                let is_person = past.actor.starts_with("human:");
                if !(is_person && past.by_itself) {
                    self.is_fenced(id, who(&past.actor, &past.instance))?;
                    self.count("an old holder was tried");
                }
                let again = who(&past.actor, &past.instance);
                let is_ready =
                    self.world.engine.why(Some(&again), Some(&id.parse().unwrap())).unwrap().value.ready;
                if is_ready && !is_person {
                    let note = || Command::OnTask {
                        task: Some(id.parse().unwrap()),
                        act: Act::note("again"),
                        force: None,
                    };
                    self.run(&again, crate::world::on(id, crate::world::claim())).unwrap();
                    self.run(&again, note()).unwrap();
                    self.is_fenced(id, with_token(again.clone(), past.token))?;
                    self.run(&again, crate::world::on(id, crate::world::verb(Verb::Release))).unwrap();
                    self.count("an old holder claimed anew");
                }
            }
        }
        Ok(())
    }

    fn is_fenced(&mut self, id: &str, identity: Identity) -> Checked {
        for act in [
            Act::note("still at it"),
            crate::world::verb(Verb::Done),
            Act::Renew { ttl_ms: None, progress: false },
        ] {
            let outcome = self.run(&identity, crate::world::on(id, act.clone()));
            let code = outcome.as_ref().err().map(|refusal| refusal.code);
            prop_assert_eq!(code, Some(Code::Fenced), "{:?} {:?} on {}: {:?}", identity, act, id, outcome);
        }
        Ok(())
    }

    fn retry(&mut self, tasks: &Tasks, root: &str, by: usize) -> Checked {
        let command = Command::Retry { task: Some(root.parse().unwrap()), message: None, force: None };
        let before = &tasks[root];
        match self.run(&caller(by), command) {
            Err(refusal) => {
                match refusal.code {
                    Code::Limit => {
                        prop_assert_eq!(before.attempts, MAX_ATTEMPTS);
                        self.count("a retry past the limit was refused");
                    }
                    Code::NotAllowed | Code::Held => {
                        prop_assert!(before.state != State::Failed, "{refusal:?}");
                    }
                    Code::Fenced => {}
                    code => prop_assert!(false, "{code:?}"),
                }
                return Ok(());
            }
            Ok(_) => {
                prop_assert_eq!(before.state, State::Failed);
                prop_assert!(before.attempts < MAX_ATTEMPTS);
                self.count("a retry");
            }
        }
        let after = self.tasks();
        prop_assert_eq!((after[root].state, after[root].attempts), (State::Open, before.attempts + 1));
        let closure = downstream(tasks, root);
        for (id, before) in tasks.iter().filter(|(id, _)| *id != root) {
            let is_dead = before.lease.is_some() && !is_live(before);
            if closure.contains(id) && is_dead {
                prop_assert!(
                    after[id].lease.is_none() && after[id].state == State::Open,
                    "{id} is still held"
                );
                prop_assert_eq!(after[id].version, before.version + 1);
                self.count("a retry freed what a dead holder kept");
            } else {
                prop_assert_eq!(after[id].version, before.version, "{} was touched", id);
                let holder = |task: &TaskView| task.lease.as_ref().map(|lease| (lease.token, lease.live));
                prop_assert_eq!(holder(&after[id]), holder(before));
                if closure.contains(id) && is_live(before) {
                    self.count("a retry left a living holder alone");
                }
            }
        }
        Ok(())
    }
}

fn play(ops: &[Op], seen: &RefCell<BTreeMap<&'static str, u64>>) -> Checked {
    let world = world_with(Policy { max_attempts: MAX_ATTEMPTS, ..policy() });
    let mut play = Play { world, model: Model::default(), seq: 0, leases: BTreeMap::new(), steps: 0, seen };
    for title in 0..TASKS {
        play.world.add(&format!("task {title}"));
    }
    // Something to start from: most interesting cases need edges.
    for (task, on) in [(2, 1), (3, 2), (4, 2), (5, 4)] {
        play.step(&Op::Link { task, on: vec![on], adds: true })?;
    }
    for op in ops {
        play.step(op)?;
    }
    play.world.is_whole();
    Ok(())
}

/// What must have happened in all these histories together: a property that is never put to the test proves
/// nothing.
const MUST_HAPPEN: &[(&str, u64)] = &[
    ("ready compared", 3_000),
    ("a takeover was ready", 20),
    ("a new task was refused for a circle", 1),
    ("a dependency was refused for a circle", 20),
    ("dependencies were taken away", 20),
    ("a parent was refused for a circle", 5),
    ("a parent was set", 20),
    ("a task was claimed", 50),
    ("a claim was refused for a dependency", 20),
    ("a claim was refused for its schedule", 1),
    ("a claim was refused for a holder", 20),
    ("the next was claimed", 50),
    ("there was no next", 5),
    ("a task was done", 50),
    ("done was refused for a dependency", 20),
    ("done was refused for a part", 1),
    ("done was forced", 1),
    ("a task failed", 20),
    ("a task was dropped", 10),
    ("a task was reopened", 5),
    ("a task was blocked", 10),
    ("a reset", 30),
    ("a reset of three or more", 3),
    ("a reset that left something in its closure alone", 20),
    ("a reset was refused for a holder", 10),
    ("a reset was refused for the state", 1),
    ("a forced reset", 2),
    ("an old token was tried", 50),
    ("an old holder was tried", 50),
    ("an old holder claimed anew", 10),
    ("a retry", 10),
    ("a retry past the limit was refused", 1),
    ("a retry freed what a dead holder kept", 1),
    ("a retry left a living holder alone", 2),
];

#[test]
fn whatever_happens_ready_and_resets_are_what_a_naive_look_at_the_graph_says() {
    let config = ProptestConfig {
        cases: crate::world::cases(50),
        max_shrink_iters: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let seen = RefCell::new(BTreeMap::new());
    let outcome =
        TestRunner::new(config).run(&proptest::collection::vec(op(), 60..110), |ops| play(&ops, &seen));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, ops)) => panic!("after {ops:#?}\n{why}"),
        Err(other) => panic!("{other}"),
    }
    let seen = seen.into_inner();
    for (what, least) in MUST_HAPPEN.iter().filter(|_| crate::world::TELLS_MUCH) {
        let times = seen.get(what).copied().unwrap_or_default();
        // The numbers are what a run usually has; a fifth of it is what every run must have. What is rare may be missing.
        assert!(times >= *least / 5, "only {times} times: {what}\n{seen:#?}");
    }
}
