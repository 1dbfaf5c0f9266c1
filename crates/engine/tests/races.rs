//! Two requests at once, on a PostgreSQL server: in each race somebody blocks both until both wait, and then
//! lets go.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::world::{claim, new_task, on, verb, who};
use onus_core::command::{
    Act, Attachment, Command, Edit, Guard, Intake, NewTask, PlannedTask, TaskLink, Terms,
};
use onus_core::policy::Policy;
use onus_core::refusal::{Code, Refusal};
use onus_core::scope::Glob;
use onus_core::task::{Facts, TaskBranch};
use onus_core::transition::Verb;
use onus_engine::{Answer, Engine, Identity, Reply, Request, TaskView};
use onus_store::conformance::server::{Server, eventually, fresh_name, parsed};
use onus_store::{PostgresStore, Store as _};

type Outcome = Result<Reply, Refusal>;

/// A project on the shared server, and somebody who can block others.
struct Place {
    database: String,
    name: String,
    engine: Engine<PostgresStore>,
    obstacle: postgres::Client,
}

fn place() -> Place {
    place_in(Server::shared().shared_database())
}

fn place_in(database: &str) -> Place {
    let name = fresh_name();
    let engine = Engine::new(Server::shared().project_in(database, &name), Policy::default());
    let obstacle = postgres::Client::connect(database, postgres::NoTls).unwrap();
    let mut place = Place { database: database.to_owned(), name, engine, obstacle };
    // New actors wait for the project's row: all are registered, so that only the race is between them.
    for n in 0..10 {
        let register = Command::RegisterActor { actor: agent(n).actor, tier: None };
        place.run(&who("human:founder", ""), register).unwrap();
    }
    place
}

fn request(identity: &Identity, command: Command) -> Request {
    Request { identity: identity.clone(), command, key: None }
}

fn task_of(outcome: Outcome) -> TaskView {
    match outcome.unwrap().answer {
        Answer::Task(task) | Answer::Lease { task, .. } => *task,
        other => panic!("no task in {other:?}"),
    }
}

fn agent(n: usize) -> Identity {
    who(&format!("agent:a{n}"), "1")
}

impl Place {
    fn another(&self) -> Engine<PostgresStore> {
        self.another_with(Policy::default())
    }

    fn another_with(&self, policy: Policy) -> Engine<PostgresStore> {
        let address = parsed(&self.database);
        let store = PostgresStore::open(&address, &self.name, Duration::from_secs(20)).unwrap();
        Engine::new(store, policy)
    }

    fn run(&mut self, identity: &Identity, command: Command) -> Outcome {
        self.engine.run(&request(identity, command))
    }

    fn add(&mut self, facts: Facts) -> String {
        let new = Command::Add(NewTask { facts, ..NewTask::titled("t") });
        task_of(self.run(&who("human:founder", ""), new)).id
    }

    fn show(&mut self, id: &str) -> TaskView {
        self.engine.show(None, Some(&id.parse().unwrap())).unwrap().value
    }

    fn depend(&mut self, task: &str, upstream: &str) -> Outcome {
        self.run(&who("human:founder", ""), depend(task, upstream))
    }

    /// Somebody else's command, running beside this thread.
    fn start(&self, identity: Identity, command: Command) -> JoinHandle<Outcome> {
        let mut engine = self.another();
        thread::spawn(move || engine.run(&request(&identity, command)))
    }

    /// The same for several commands of one caller in one commit, as hooks send them.
    fn start_batch(&self, identity: &Identity, commands: Vec<Command>) -> JoinHandle<Vec<Outcome>> {
        let mut engine = self.another();
        let batch: Vec<Request> = commands.into_iter().map(|command| request(identity, command)).collect();
        thread::spawn(move || engine.execute(&batch))
    }

    fn connections(&mut self) -> i64 {
        let sql = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND backend_type = 'client backend'";
        self.obstacle.query_one(sql, &[]).unwrap().get(0)
    }

    /// Blocks whoever wants the task's row.
    fn block_task(&mut self, id: &str) {
        self.block_tasks(&[id]);
    }

    fn block_tasks(&mut self, ids: &[&str]) {
        let uids: Vec<String> = ids.iter().map(|id| self.show(id).uid).collect();
        self.obstacle.batch_execute("BEGIN").unwrap();
        self.obstacle.execute("SELECT 1 FROM onus.task WHERE uid = ANY($1) FOR UPDATE", &[&uids]).unwrap();
    }

    /// Waits until this many wait, then lets go.
    fn release(&mut self, waiting: i64) {
        self.waiting(waiting);
        self.obstacle.batch_execute("COMMIT").unwrap();
    }

    /// Waits until this many wait.
    fn waiting(&mut self, waiting: i64) {
        eventually(&format!("{waiting} wait"), || self.behind() >= waiting);
    }

    /// How many wait for the blocker, or for one that waits for it.
    fn behind(&mut self) -> i64 {
        let mut look = postgres::Client::connect(&self.database, postgres::NoTls).unwrap();
        let pid: i32 = self.obstacle.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
        let waits = "WITH RECURSIVE behind (pid) AS (SELECT $1::int UNION SELECT activity.pid \
            FROM pg_stat_activity AS activity JOIN behind ON behind.pid = ANY(pg_blocking_pids(activity.pid))) \
            SELECT COUNT(*) - 1 FROM behind";
        look.query_one(waits, &[&pid]).unwrap().get(0)
    }

    /// Checks that the ledger is intact, and every row is its fold.
    fn is_whole(&mut self) {
        self.engine.verify(&[], &mut |_| {}).unwrap();
        let rebuilt = self.engine.store().rebuild(&mut |_| {}).unwrap();
        assert!(rebuilt.changed.is_empty(), "a rebuild changed {:?}", rebuilt.changed);
    }
}

fn depend(task: &str, upstream: &str) -> Command {
    on(task, Act::AddDeps { on: vec![upstream.parse().unwrap()] })
}

fn scoped(globs: &[&str]) -> Facts {
    Facts { scope: globs.iter().map(|glob| glob.parse::<Glob>().unwrap()).collect(), ..Facts::default() }
}

#[test]
fn two_dependencies_of_one_task_that_finish_at_once_are_both_counted() {
    let mut place = place();
    let [down, one, two] = [(); 3].map(|()| place.add(Facts::default()));
    place.depend(&down, &one).unwrap();
    place.depend(&down, &two).unwrap();
    place.block_task(&down);
    let both = [
        place.start(agent(1), on(&one, verb(Verb::Done))),
        place.start(agent(2), on(&two, verb(Verb::Done))),
    ];
    place.release(2);
    for one in both {
        one.join().unwrap().unwrap();
    }
    place.run(&agent(3), on(&down, claim())).unwrap();
    place.is_whole();
}

#[test]
fn a_dependency_that_is_added_while_it_is_finished_is_met() {
    for _ in 0..5 {
        let mut place = place();
        let [down, up] = [(); 2].map(|()| place.add(Facts::default()));
        place.block_task(&up);
        let done = place.start(agent(1), on(&up, verb(Verb::Done)));
        let added = place.start(who("human:founder", ""), depend(&down, &up));
        place.release(2);
        done.join().unwrap().unwrap();
        added.join().unwrap().unwrap();
        place.run(&agent(3), on(&down, claim())).unwrap();
        place.is_whole();
    }
}

#[test]
fn of_two_edges_that_close_a_circle_one_is_refused() {
    for _ in 0..6 {
        // a → b → c → d → a: the two missing edges have no end in common.
        let mut place = place();
        let [a, b, c, d] = [(); 4].map(|()| place.add(Facts::default()));
        place.depend(&b, &c).unwrap();
        place.depend(&d, &a).unwrap();
        place.block_tasks(&[&a, &c]);
        let founder = who("human:founder", "");
        let both = [place.start(founder.clone(), depend(&a, &b)), place.start(founder, depend(&c, &d))];
        place.release(2);
        let outcomes = both.map(|one| one.join().unwrap());
        let refused: Vec<Code> = outcomes.iter().filter_map(|one| Some(one.as_ref().err()?.code)).collect();
        assert_eq!(refused, [Code::Cycle]);
        place.is_whole();
    }
}

#[test]
fn a_claim_beside_the_reset_of_what_it_needs_never_stands_on_it() {
    for _ in 0..5 {
        let mut place = place();
        let [down, up] = [(); 2].map(|()| place.add(Facts::default()));
        place.depend(&down, &up).unwrap();
        place.run(&agent(1), on(&up, verb(Verb::Done))).unwrap();
        place.block_task(&down);
        let claimed = place.start(agent(2), on(&down, claim()));
        let task = Some(up.parse().unwrap());
        let reset = Command::Reset { task, reason: "again".into(), force: None };
        let reset = place.start(who("human:founder", ""), reset);
        place.release(2);
        let outcomes = (claimed.join().unwrap(), reset.join().unwrap());
        match outcomes {
            (Ok(_), Err(refusal)) => assert_eq!(refusal.code, Code::Held),
            (Err(refusal), Ok(_)) => assert_eq!(refusal.code, Code::Unmet),
            other => panic!("both, or neither: {other:?}"),
        }
        place.is_whole();
    }
}

#[test]
fn of_two_claims_whose_scopes_overlap_one_is_granted() {
    for _ in 0..8 {
        let mut place = place();
        let (wide, narrow) = (place.add(scoped(&["src/**"])), place.add(scoped(&["src/a.rs"])));
        place.block_tasks(&[&wide, &narrow]);
        let both = [place.start(agent(1), on(&wide, claim())), place.start(agent(2), on(&narrow, claim()))];
        place.release(2);
        let outcomes = both.map(|one| one.join().unwrap());
        let refused: Vec<Code> = outcomes.iter().filter_map(|one| Some(one.as_ref().err()?.code)).collect();
        assert_eq!(refused, [Code::Scope]);
        place.is_whole();
    }
}

/// Whether they add a task or edit one: a unique reference is not given twice.
#[test]
fn of_those_who_ask_for_one_reference_at_once_one_has_it() {
    let policy = || Policy { refs_unique: BTreeSet::from(["jira".to_owned()]), ..Policy::default() };
    for round in 0..6 {
        let mut place = place();
        let (one, other) = (place.add(Facts::default()), place.add(Facts::default()));
        let refs = || BTreeMap::from([("jira".to_owned(), "WEB-7".to_owned())]);
        let add = || {
            Command::Add(NewTask {
                facts: Facts { refs: refs(), ..Facts::default() },
                ..NewTask::titled("t")
            })
        };
        let edit = |id: &str| {
            let refs = refs().into_iter().map(|(system, id)| (system, Some(id))).collect();
            on(id, Act::Edit(Edit { refs, ..Edit::default() }))
        };
        let commands = match round % 3 {
            0 => [add(), add()],
            1 => [edit(&one), edit(&other)],
            _ => [add(), edit(&one)],
        };
        // Blocks whoever writes a reference, which must not be visible before it is committed.
        place.obstacle.batch_execute("BEGIN; LOCK TABLE onus.ref IN SHARE MODE").unwrap();
        let both: Vec<_> = commands
            .into_iter()
            .enumerate()
            .map(|(n, command)| {
                let mut engine = place.another_with(policy());
                thread::spawn(move || engine.run(&request(&agent(n), command)))
            })
            .collect();
        place.release(2);
        let outcomes: Vec<Outcome> = both.into_iter().map(|one| one.join().unwrap()).collect();
        let refused: Vec<Code> = outcomes.iter().filter_map(|one| Some(one.as_ref().err()?.code)).collect();
        assert_eq!(refused, [Code::NotAllowed], "round {round}: {outcomes:?}");
        let found = place.show("jira:WEB-7").refs;
        assert_eq!(found, refs(), "it is found by it");
        place.is_whole();
    }
}

/// Its work would land as the other's, past its own gates and constraints.
#[test]
fn of_two_tasks_whose_agents_ask_for_one_branch_at_once_one_has_it() {
    for _ in 0..6 {
        let mut place = place();
        let tasks = [1, 2].map(|n| {
            let id = place.add(Facts::default());
            place.run(&agent(n), on(&id, claim())).unwrap();
            (agent(n), id)
        });
        let own = TaskBranch { branch: "topic".into(), base: "1".repeat(40), target: "main".into() };
        let attach = || {
            let (branch, own) = (Some(own.branch.clone()), Some(own.clone()));
            Act::Attach(Attachment { id: None, path: "/work/tree".into(), branch, own })
        };
        place.block_tasks(&[&tasks[0].1, &tasks[1].1]);
        let both = tasks.map(|(by, id)| place.start(by, on(&id, attach())));
        place.release(2);
        let outcomes = both.map(|one| one.join().unwrap());
        let refused: Vec<Code> = outcomes.iter().filter_map(|one| Some(one.as_ref().err()?.code)).collect();
        assert_eq!(refused, [Code::NotAllowed], "{outcomes:?}");
        place.is_whole();
    }
}

#[test]
fn a_sign_of_life_that_waited_for_who_reserves_brings_nothing_back() {
    let mut place = place();
    let (mine, other) = (place.add(scoped(&["src/**"])), place.add(Facts::default()));
    let short = Act::Claim(Terms { ttl_ms: Some(1_500), ..Terms::default() });
    place.run(&agent(1), on(&mine, short)).unwrap();
    // Somebody reads reservations, and takes longer over it than the lease lives.
    let mut looker = place.another();
    let (tell, told) = std::sync::mpsc::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let looking = thread::spawn(move || {
        looker.store().write(|write| {
            write.lock_scopes()?;
            tell.send(()).unwrap();
            gone.recv().unwrap();
            Ok(())
        })
    });
    told.recv().unwrap();
    let note = place.start(agent(1), on(&other, Act::note("n")));
    thread::sleep(Duration::from_millis(2_500));
    go.send(()).unwrap();
    looking.join().unwrap().unwrap();
    note.join().unwrap().unwrap();
    assert!(!place.show(&mine).lease.unwrap().live, "it had lapsed when its deadline was to be moved");
    place.is_whole();
}

#[test]
fn batches_that_lock_in_different_orders_are_both_applied() {
    let mut place = place();
    let ids: Vec<String> = (0..6).map(|_| place.add(Facts::default())).collect();
    let note = |id: &String| on(id, Act::note("n"));
    let workers: Vec<_> = (0..4)
        .map(|n| {
            let mut engine = place.another();
            let mut order = ids.clone();
            if n % 2 == 1 {
                order.reverse();
            }
            let batch: Vec<Request> =
                order.iter().map(|id| request(&who("human:founder", ""), note(id))).collect();
            thread::spawn(move || {
                for _ in 0..5 {
                    for answer in engine.execute(&batch) {
                        answer.unwrap();
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    for id in &ids {
        assert_eq!(place.show(id).version, 21, "each note of each batch once");
    }
    place.is_whole();
}

#[test]
fn claims_of_the_next_task_get_one_each() {
    let mut place = place();
    let count = 40;
    for _ in 0..count {
        place.add(Facts::default());
    }
    let workers: Vec<_> = (0..8)
        .map(|n| {
            let mut engine = place.another();
            thread::spawn(move || {
                let mut got = Vec::new();
                for turn in 0.. {
                    let identity = who(&format!("agent:a{n}"), &turn.to_string());
                    match engine.run(&request(&identity, Command::ClaimNext(Terms::default()))) {
                        Err(refusal) => {
                            assert_eq!(refusal.code, Code::Nothing, "{refusal:?}");
                            return got;
                        }
                        reply => got.push(task_of(reply).id),
                    }
                }
                got
            })
        })
        .collect();
    let got: Vec<String> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    assert_eq!(got.len(), count, "none was left, none was given twice");
    assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), count);
    place.is_whole();
}

#[test]
fn a_task_that_is_only_locked_is_waited_for_before_there_is_nothing() {
    let mut place = place();
    let only = place.add(Facts::default());
    place.block_task(&only);
    let next = place.start(agent(1), Command::ClaimNext(Terms::default()));
    place.release(1);
    assert_eq!(task_of(next.join().unwrap()).id, only);
}

#[test]
fn tasks_that_are_added_at_once_are_numbered_without_a_gap() {
    let mut place = place();
    let workers: Vec<_> = (0..6)
        .map(|n| {
            let mut engine = place.another();
            thread::spawn(move || {
                for _ in 0..10 {
                    engine.run(&request(&agent(n), new_task("t"))).unwrap();
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    let tasks = place.engine.list(None, &Default::default(), None, 1_000).unwrap().value.tasks;
    let mut numbers: Vec<u64> = tasks.iter().map(|task| task.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=60).collect::<Vec<_>>());
    place.is_whole();
}

#[test]
fn one_key_used_at_once_is_applied_once() {
    let mut place = place();
    let id = place.add(Facts::default());
    place.block_task(&id);
    let keyed = Request { key: Some("k".into()), ..request(&agent(1), on(&id, Act::note("n"))) };
    let both = [(); 2].map(|()| {
        let (mut engine, keyed) = (place.another(), keyed.clone());
        thread::spawn(move || engine.run(&keyed))
    });
    place.release(2);
    let mut replayed = both.map(|one| one.join().unwrap().unwrap().replayed);
    replayed.sort_unstable();
    assert_eq!(replayed, [false, true]);
    assert_eq!(place.show(&id).version, 2);
}

#[test]
fn one_origin_asked_for_at_once_is_one_task() {
    let place = place();
    let asked = Command::Add(NewTask { origin: Some("mail:1".parse().unwrap()), ..NewTask::titled("t") });
    let many = [1, 2, 3, 4].map(|n| place.start(agent(n), asked.clone()));
    let ids: BTreeSet<String> = many.into_iter().map(|one| task_of(one.join().unwrap()).id).collect();
    assert_eq!(ids.len(), 1);
}

/// What is compared is locked first: the second finds no difference any more.
#[test]
fn two_refreshes_of_one_ask_at_once_record_what_changed_once() {
    let mut place = place();
    let ask = |title: &str| {
        let new = NewTask { origin: Some("mail:1".parse().unwrap()), ..NewTask::titled(title) };
        Command::Intake(Intake { new, refresh: true, is_reply: false })
    };
    let Answer::Asked { task, .. } = place.run(&agent(1), ask("old")).unwrap().answer else {
        panic!("no ask")
    };
    place.block_task(&task.id);
    let both = [1, 2].map(|n| place.start(agent(n), ask("new")));
    place.release(2);
    let mut changed = both.map(|one| match one.join().unwrap().unwrap().answer {
        Answer::Asked { changed, .. } => changed.len(),
        other => panic!("{other:?}"),
    });
    changed.sort_unstable();
    assert_eq!(changed, [0, 1]);
    let shown = place.show(&task.id);
    assert_eq!((shown.version, shown.title.as_str()), (2, "new"));
    place.is_whole();
}

#[test]
fn a_sign_of_life_that_waited_too_long_brings_no_reservation_back() {
    let mut place = place();
    let (mine, other, rival) =
        (place.add(scoped(&["src/**"])), place.add(Facts::default()), place.add(scoped(&["src/a.rs"])));
    let short = Act::Claim(Terms { ttl_ms: Some(1_500), ..Terms::default() });
    place.run(&agent(1), on(&mine, short)).unwrap();
    place.block_task(&other);
    // It is live when it begins, but waits for another task's row for longer than it lives.
    let note = place.start(agent(1), on(&other, Act::note("n")));
    thread::sleep(Duration::from_millis(2_000));
    place.run(&agent(2), on(&rival, claim())).unwrap();
    place.release(1);
    note.join().unwrap().unwrap();
    let (mine, rival) = (place.show(&mine).lease.unwrap(), place.show(&rival).lease.unwrap());
    assert!(!mine.live && rival.live, "{mine:?} {rival:?}");
    place.is_whole();
}

#[test]
fn a_note_is_a_sign_of_life_also_beside_another_command_of_its_holder_that_comes_to_nothing() {
    let mut place = place();
    let mine = place.add(Facts::default());
    place.run(&agent(1), on(&mine, claim())).unwrap();
    let renewals = |place: &mut Place| -> i64 {
        let uid = place.show(&mine).uid;
        let row =
            place.engine.store().read(|read| read.lease(uid.parse().unwrap(), onus_core::ids::Token(1)));
        i64::try_from(row.unwrap().unwrap().pulse.renewals).unwrap()
    };
    let before = renewals(&mut place);
    let uid = place.show(&mine).uid;
    place.obstacle.batch_execute("BEGIN").unwrap();
    place.obstacle.execute("SELECT 1 FROM onus.lease WHERE task = $1 FOR UPDATE", &[&uid]).unwrap();
    let note = place.start(agent(1), on(&mine, Act::note("n")));
    place.release(1);
    note.join().unwrap().unwrap();
    assert_eq!(renewals(&mut place), before + 1);
    place.is_whole();
}

#[test]
fn a_renewal_that_waited_too_long_makes_claims_whole_check() {
    let mut place = place();
    let (mine, rival) = (place.add(scoped(&["src/**"])), place.add(scoped(&["src/a.rs"])));
    let short = Act::Claim(Terms { ttl_ms: Some(1_500), ..Terms::default() });
    place.run(&agent(1), on(&mine, short)).unwrap();
    place.block_task(&mine);
    let renewed = place.start(agent(1), on(&mine, Act::Renew { ttl_ms: None, progress: false }));
    thread::sleep(Duration::from_millis(2_000));
    place.run(&agent(2), on(&rival, claim())).unwrap();
    place.release(1);
    assert_eq!(renewed.join().unwrap().unwrap_err().code, Code::Scope);
    assert!(!place.show(&mine).lease.unwrap().live);
    place.is_whole();
}

#[test]
fn leases_without_a_ttl_are_limited_also_when_asked_for_at_once() {
    let mut place = place();
    let ids: Vec<String> = (0..4).map(|_| place.add(Facts::default())).collect();
    let forever = Terms { ttl_ms: Some(0), reason: Some("long".into()), ..Terms::default() };
    let all: Vec<_> =
        ids.iter().map(|id| place.start(who("agent:a1", id), on(id, Act::Claim(forever.clone())))).collect();
    let granted = all.into_iter().filter_map(|one| one.join().unwrap().ok()).count();
    assert_eq!(granted, 1, "the limit for one actor");
}

/// A plan names an existing task by its origin: the edge to it is added during its `done`.
#[test]
fn a_plan_that_waits_for_a_known_origin_beside_its_done_is_not_stuck() {
    let mut place = place();
    let founder = who("human:founder", "");
    let known = NewTask { origin: Some("gh:1".parse().unwrap()), ..NewTask::titled("known") };
    let upstream = task_of(place.run(&founder, Command::Add(known.clone()))).id;
    let other = place.add(Facts::default());
    place.depend(&other, &upstream).unwrap();
    // `done` has its own row and waits for the row of the task that depends on it.
    place.block_task(&other);
    let done = place.start(agent(1), on(&upstream, verb(Verb::Done)));
    place.waiting(1);
    let planned = |name: &str, task| PlannedTask { name: Some(name.to_owned()), task };
    let waits = NewTask { deps: vec![TaskLink::Planned("a".to_owned())], ..NewTask::titled("waits") };
    let plan = place.start(founder, Command::AddPlan(vec![planned("a", known), planned("b", waits)]));
    place.release(2);
    done.join().unwrap().unwrap();
    let Answer::Tasks(tasks) = plan.join().unwrap().unwrap().answer else { panic!("no plan") };
    place.run(&agent(2), on(&tasks[1].id, claim())).unwrap();
    place.is_whole();
}

/// The holder of a lease that lapsed and was swept may renew it: it takes the reservation lock like every
/// other claim.
#[test]
fn a_swept_lease_that_is_claimed_again_beside_a_touch_of_its_files_is_not_revived() {
    for _ in 0..4 {
        let mut place = place();
        let (mine, other) = (place.add(Facts::default()), place.add(Facts::default()));
        let scope = scoped(&["src/**"]).scope;
        let short = Act::Claim(Terms { ttl_ms: Some(300), scope, ..Terms::default() });
        place.run(&agent(1), on(&mine, short)).unwrap();
        place.run(&agent(2), on(&other, claim())).unwrap();
        thread::sleep(Duration::from_millis(400));
        let founder = who("human:founder", "");
        place.run(&founder, on(&mine, verb(Verb::Block))).unwrap();
        place.run(&founder, on(&mine, verb(Verb::Unblock))).unwrap();
        // Both have read the reservations, or wait to, before either has written: reviving a lease writes its
        // row.
        let uid = place.show(&mine).uid;
        place.obstacle.batch_execute("BEGIN").unwrap();
        place.obstacle.execute("SELECT 1 FROM onus.lease WHERE task = $1 FOR UPDATE", &[&uid]).unwrap();
        let longer = Act::Claim(Terms { ttl_ms: Some(60_000), ..Terms::default() });
        let again = place.start(agent(1), on(&mine, longer));
        place.waiting(1);
        let touched = place.start(
            agent(2),
            on(
                &other,
                Act::Touch {
                    paths: vec!["src/a.rs".into()],
                    touched: Default::default(),
                    extent: Default::default(),
                },
            ),
        );
        // It waits for the lock; if nobody holds that, it is done at once.
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while !touched.is_finished() && place.behind() < 2 {
            assert!(std::time::Instant::now() < until, "the touch is neither done nor waiting");
            thread::sleep(Duration::from_millis(10));
        }
        place.obstacle.batch_execute("COMMIT").unwrap();
        let outcomes = [again, touched].map(|one| one.join().unwrap());
        let refused: Vec<Code> = outcomes.iter().filter_map(|one| Some(one.as_ref().err()?.code)).collect();
        assert_eq!(refused, [Code::Scope]);
        place.is_whole();
    }
}

/// A hook registers its process and asks for a file in one commit. If two wait for one another, the server
/// ends one, which is run again: nobody is told, but the server counts it.
#[test]
fn hooks_of_two_holders_that_register_and_ask_for_a_file_do_not_wait_for_one_another() {
    let database = Server::shared().database();
    let mut place = place_in(&database);
    let ids = [1, 2].map(|n| {
        let id = place.add(Facts::default());
        place.run(&agent(n), on(&id, claim())).unwrap();
        id
    });
    let others = place.connections();
    place.block_tasks(&[&ids[0], &ids[1]]);
    let hooks = [1, 2].map(|n| {
        let Identity { actor, instance, .. } = agent(n);
        let process = crate::world::process(u32::try_from(n).unwrap(), 1);
        let register = Command::RegisterInstance { actor, instance, process, group: None };
        let guard = Guard { paths: vec![format!("src/{n}.rs")], ..Guard::default() };
        place.start_batch(&agent(n), vec![register, Command::Guard(guard)])
    });
    place.release(2);
    for outcome in hooks.into_iter().flat_map(|hook| hook.join().unwrap()) {
        outcome.unwrap();
    }
    // A connection reports its counters when it ends.
    eventually("the hooks have gone", || place.connections() <= others);
    let counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let deadlocks: i64 = place.obstacle.query_one(counted, &[]).unwrap().get(0);
    assert_eq!(deadlocks, 0);
    place.is_whole();
}
