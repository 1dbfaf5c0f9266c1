//! Between any two steps of a waiter something may happen. Here it does, between each two of them in turn.
//!
//! A waiter asks about processes again and again while it looks. The test answers, and at the nth question
//! first does what the waiter must not overlook.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod wakeups;

use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use onus_core::actor::KnownBy;
use onus_core::command::{Act, Command, NewTask, Terms};
use onus_core::ids::Token;
use onus_core::lease::{Process, Seen};
use onus_core::policy::Policy;
use onus_core::task::Facts;
use onus_core::transition::Verb;
use onus_engine::{Ancestry, Answer, Engine, Identity, Outside, Reply, Request, new_uid};
use onus_os::process;
use onus_store::{Access, SqliteStore};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// What a waiter asks before it sleeps: when it claims, when it begins to attend to the process, when it
/// looks.
const QUESTIONS: u32 = 3;

/// More processes than a waiter attends to.
const MANY: usize = 260;

/// A waiter that overlooked something sleeps this long; one that did not is far faster.
const PATIENCE: Duration = Duration::from_secs(8);
const AT_ONCE: Duration = Duration::from_secs(5);

fn who(name: &str) -> Identity {
    Identity {
        actor: format!("agent:{name}").parse().unwrap(),
        instance: name.parse().unwrap(),
        known_by: KnownBy::Name,
        token: None,
        ancestry: Ancestry::Known(Vec::new()),
    }
}

fn request(name: &str, command: Command) -> Request {
    Request { identity: who(name), command, key: None }
}

fn add(title: &str) -> Request {
    let facts = Facts::default();
    request("adder", Command::Add(NewTask { facts, ..NewTask::titled(title) }))
}

fn claim(name: &str, terms: Terms) -> Request {
    let act = Act::Claim(terms);
    request(name, Command::OnTask { task: Some("1".parse().unwrap()), act, force: None })
}

fn release() -> Request {
    let act = Act::Move { verb: Verb::Release, message: None, uncommitted: None, demand: None };
    let mut request =
        request("holder", Command::OnTask { task: Some("1".parse().unwrap()), act, force: None });
    request.identity.token = Some((None, Token(1)));
    request
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Access::Write, Duration::from_millis(20)).unwrap()
}

/// A process to bind a lease to, which does not outlive the test.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper(std::process::Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    fn process(&self) -> Process {
        process::identify(self.0.id()).unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A store whose only task is held for a living process.
struct Scene {
    folder: tempfile::TempDir,
    holder: Sleeper,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("onus.db");
        let (actor, instance) = ("human:founder".parse().unwrap(), "person".parse().unwrap());
        let wait = Duration::from_secs(10);
        let store = SqliteStore::create(
            &path,
            &"ON".parse().unwrap(),
            new_uid(0),
            new_uid(0),
            (&actor, &instance),
            wait,
        );
        let mut engine = Engine::new(store.unwrap(), Policy::default());
        let holder = Sleeper::new();
        engine.run(&add("held")).unwrap();
        let terms = Terms { process: Some(holder.process()), ..Terms::default() };
        engine.run(&claim("holder", terms)).unwrap();
        Scene { folder, holder }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("onus.db")
    }

    /// Somebody waits; at the nth question about a process something happens, or at the next where it can.
    fn wait(&self, nth: u32, wanted: &Request, happens: impl FnMut() -> bool + Send + 'static) -> Waited {
        self.wait_or_stop(nth, wanted, None, happens)
    }

    fn wait_or_stop(
        &self,
        nth: u32,
        wanted: &Request,
        stop: Option<BorrowedFd<'_>>,
        happens: impl FnMut() -> bool + Send + 'static,
    ) -> Waited {
        let asked = Arc::new(AtomicU32::new(0));
        let (count, event) = (Arc::clone(&asked), Mutex::new((happens, false)));
        let observe = move |process: &Process| -> Seen {
            let seen = process::observe(process);
            let (happens, has_happened) = &mut *event.lock().unwrap();
            if count.fetch_add(1, Ordering::SeqCst) + 1 >= nth && !*has_happened {
                *has_happened = happens();
            }
            // What was true when it was asked: it changes right afterwards.
            seen
        };
        let outside = Outside { observe: Box::new(observe), ..Outside::default() };
        let mut engine = Engine::with_outside(open(&self.store()), Policy::default(), outside);
        let began = Instant::now();
        let reply = engine.run_or_wait(wanted, PATIENCE, stop, &mut |_| {});
        Waited { reply: reply.ok(), took: began.elapsed(), asked: asked.load(Ordering::SeqCst) }
    }
}

#[test]
fn a_waiter_that_is_stopped_takes_nothing_more() {
    for wanted in waits() {
        for nth in 2..=QUESTIONS {
            let scene = Scene::new();
            let (stop, speaks) = std::io::pipe().unwrap();
            let mut other = Engine::new(open(&scene.store()), Policy::default());
            // Stopped first, then the task is free: whoever looked again would have it.
            let mut speaks = speaks;
            let happens = move || {
                // A word, not its end: a process that another test starts may hold a copy of it for a moment.
                speaks.write_all(b"x").unwrap();
                other.run(&release()).is_ok()
            };
            let waited = scene.wait_or_stop(nth, &wanted, Some(stop.as_fd()), happens);
            assert!(waited.asked >= nth && waited.took < AT_ONCE, "at question {nth}: {:?}", waited.took);
            assert!(waited.reply.is_none(), "it was stopped before question {nth} was answered");
            let mut engine = Engine::new(open(&scene.store()), Policy::default());
            engine.run(&claim("another", Terms::default())).expect("the task is free");
        }
    }
}

struct Waited {
    reply: Option<Reply>,
    took: Duration,
    asked: u32,
}

impl Waited {
    #[track_caller]
    fn has_task(&self, id: &str, nth: u32) {
        assert!(
            self.asked >= nth,
            "the waiter asked {} questions, nothing happened at the {nth}th",
            self.asked
        );
        assert!(self.took < AT_ONCE, "overlooked at question {nth}: it took {:?}", self.took);
        match self.reply.as_ref().map(|reply| &reply.answer) {
            Some(Answer::Lease { task, .. }) => assert_eq!(task.id, id, "at question {nth}"),
            other => panic!("nothing was got at question {nth}: {other:?}"),
        }
    }
}

/// The two ways to wait for the task.
fn waits() -> [Request; 2] {
    [request("waiter", Command::ClaimNext(Terms::default())), claim("waiter", Terms::default())]
}

#[test]
fn a_holder_that_dies_between_any_two_steps_is_not_overlooked() {
    for wanted in waits() {
        for nth in 1..=QUESTIONS {
            let scene = Scene::new();
            let holder = scene.holder.pid();
            let waited = scene.wait(nth, &wanted, move || {
                kill_process(holder, Signal::KILL).unwrap();
                // Dead when the question is answered, and not some time after.
                waitid(WaitId::Pid(holder), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
                true
            });
            waited.has_task("ON-1", nth);
        }
    }
}

#[test]
fn a_commit_between_any_two_steps_is_not_overlooked() {
    for wanted in waits() {
        for nth in 1..=QUESTIONS {
            let scene = Scene::new();
            let by_id = matches!(wanted.command, Command::OnTask { .. });
            let happening = if by_id { release() } else { add("another") };
            let mut other = Engine::new(open(&scene.store()), Policy::default());
            // While the waiter itself writes, nobody else can.
            let waited = scene.wait(nth, &wanted, move || other.run(&happening).is_ok());
            waited.has_task(if by_id { "ON-1" } else { "ON-2" }, nth);
        }
    }
}

/// More processes than a waiter attends to: it polls whether those beyond are alive.
#[test]
fn of_very_many_holders_none_is_overlooked() {
    let scene = Scene::new();
    let mut engine = Engine::new(open(&scene.store()), Policy::default());
    let crowd: Vec<Sleeper> = (0..MANY).map(|_| Sleeper::new()).collect();
    let batch: Vec<Request> = crowd
        .iter()
        .enumerate()
        .flat_map(|(number, holder)| {
            let terms = Terms { process: Some(holder.process()), ..Terms::default() };
            [add("held"), request(&format!("holder{number}"), Command::ClaimNext(terms))]
        })
        .collect();
    assert!(engine.execute(&batch).iter().all(Result::is_ok));
    for nth in [0, MANY - 1] {
        let dying = crowd[nth].pid();
        let waited = scene.wait(u32::try_from(MANY).unwrap() * 3, &waits()[0], move || {
            // Some time after the waiter went to sleep.
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                kill_process(dying, Signal::KILL).unwrap();
            });
            true
        });
        assert!(waited.took >= Duration::from_millis(300));
        waited.has_task(&format!("ON-{}", nth + 2), 1);
    }
}
