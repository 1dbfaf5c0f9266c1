//! One case on its stage: a store, a task, its obstacles, and a waiter.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use onus_core::actor::{ActorName, KnownBy, Tier};
use onus_core::command::{Act, Command, Edit, Force, NewTask, Presence, Schedule, TaskLink, Terms};
use onus_core::ids::Token;
use onus_core::policy::Policy;
use onus_core::scope::{Glob, Scope};
use onus_core::task::Facts;
use onus_core::transition::Verb;
use onus_engine::{Ancestry, Answer, Engine, Identity, Request, TaskView, new_uid};
use onus_os::process;
use onus_store::conformance::server::{Server, fresh_name, parsed};
use onus_store::{
    Access, AnyStore, Ending, Finding, PostgresStore, Progress, Read, Rebuilt, Result, SqliteStore, Store,
    Watch, Woken, Write,
};

use super::obstacles::{Asks, Case, End, Holder, Obstacle, On};

/// On a server, a death counts only if the project vouches for its machines.
fn vouching() -> Policy {
    Policy { unique_machines: true, ..Policy::default() }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// When the first and the second obstacle go away by themselves, if they do.
const AFTER_MS: [i64; 2] = [1_500, 3_000];
const HOUR_MS: i64 = 3_600_000;

/// A store that reports when its watch sleeps, and what woke it.
struct Watched {
    inner: AnyStore,
    sleep: Arc<Sleep>,
}

#[derive(Default)]
struct Sleep {
    is_asleep: AtomicBool,
    count: AtomicU64,
    woken: Mutex<Vec<Woken>>,
}

struct WatchedWatch {
    inner: Box<dyn Watch>,
    sleep: Arc<Sleep>,
}

impl std::fmt::Debug for WatchedWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl Watch for WatchedWatch {
    fn wait(&mut self, until: Option<Instant>, also: &[BorrowedFd<'_>]) -> Result<Woken> {
        self.sleep.count.fetch_add(1, Ordering::SeqCst);
        self.sleep.is_asleep.store(true, Ordering::SeqCst);
        let woken = self.inner.wait(until, also);
        self.sleep.is_asleep.store(false, Ordering::SeqCst);
        self.sleep.woken.lock().unwrap().extend(woken.as_ref().ok().copied());
        woken
    }
}

impl Store for Watched {
    fn read<R>(&mut self, work: impl FnOnce(&mut dyn Read) -> Result<R>) -> Result<R> {
        self.inner.read(work)
    }

    fn transact<R>(&mut self, work: impl FnMut(&mut dyn Write) -> Result<Ending<R>>) -> Result<R> {
        self.inner.transact(work)
    }

    fn rebuild(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Rebuilt> {
        self.inner.rebuild(progress)
    }

    fn backup(&mut self, to: &std::path::Path, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.inner.backup(to, progress)
    }

    fn check(&mut self) -> Result<Vec<Finding>> {
        self.inner.check()
    }

    fn tidy(&mut self) -> Result<bool> {
        self.inner.tidy()
    }

    fn watch(&mut self) -> Result<Box<dyn Watch>> {
        let inner = self.inner.watch()?;
        Ok(Box::new(WatchedWatch { inner, sleep: Arc::clone(&self.sleep) }))
    }
}

/// A process to bind a lease to, which does not outlive the test.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper(std::process::Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whoever is in the way, and with what.
#[derive(Default)]
struct InTheWay {
    holder: Option<Identity>,
    process: Option<Sleeper>,
    /// The task that is in the way, if it is not the waiter's own.
    other: Option<String>,
    /// When it goes by itself, if it does.
    over: Option<Instant>,
}

pub(crate) struct Scene {
    kind: Kind,
    folder: tempfile::TempDir,
    name: String,
    engine: Engine<AnyStore>,
    task: String,
    request: Request,
    in_the_way: Vec<InTheWay>,
}

fn who(actor: &str) -> Identity {
    let actor: ActorName = actor.parse().unwrap();
    let (instance, known_by) =
        if actor.is_person() { ("person", KnownBy::Person) } else { ("one", KnownBy::Name) };
    let ancestry = Ancestry::Known(Vec::new());
    Identity { actor, instance: instance.parse().unwrap(), known_by, token: None, ancestry }
}

fn founder() -> Identity {
    who("human:founder")
}

fn scope(globs: &[&str]) -> Scope {
    globs.iter().map(|glob| glob.parse::<Glob>().unwrap()).collect()
}

fn on(task: &str, act: Act) -> Command {
    Command::OnTask { task: Some(task.parse().unwrap()), act, force: None }
}

fn forced(task: &str, act: Act) -> Command {
    Command::OnTask { task: Some(task.parse().unwrap()), act, force: force() }
}

fn force() -> Option<Force> {
    Some(Force { reason: "because".into(), link: None })
}

fn verb(verb: Verb) -> Act {
    Act::Move { verb, message: Some("a note".into()), uncommitted: None, demand: None }
}

fn edit(change: impl FnOnce(&mut Edit)) -> Act {
    let mut edit = Edit::default();
    change(&mut edit);
    Act::Edit(edit)
}

impl Scene {
    /// `times`: how much longer than usual it takes until something goes away by itself.
    pub(crate) fn new(kind: Kind, case: &Case, times: u32) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let name = fresh_name();
        let store = match kind {
            Kind::Sqlite => {
                let (actor, instance) = (founder().actor, founder().instance);
                let (prefix, by) = ("ON".parse().unwrap(), (&actor, &instance));
                let (path, wait) = (folder.path().join("onus.db"), Duration::from_secs(20));
                AnyStore::Sqlite(
                    SqliteStore::create(&path, &prefix, new_uid(0), new_uid(0), by, wait).unwrap(),
                )
            }
            Kind::Postgres => {
                let server = Server::shared();
                AnyStore::Postgres(server.project_in(server.shared_database(), &name))
            }
        };
        let waiter = match case.on {
            On::Person => who("human:waiter"),
            _ => who("agent:waiter"),
        };
        let mut terms = Terms { shared: case.on == On::Shared, ..Terms::default() };
        if case.on == On::OwnPaths {
            terms.scope = scope(&["src/**"]);
        }
        let mut scene = Scene {
            kind,
            folder,
            name,
            engine: Engine::new(store, vouching()),
            task: String::new(),
            request: Request { identity: waiter, command: Command::ClaimNext(terms.clone()), key: None },
            in_the_way: Vec::new(),
        };
        let waiter = Command::RegisterActor { actor: scene.request.identity.actor.clone(), tier: None };
        scene.engine.run(&Request { identity: founder(), command: waiter, key: None }).unwrap();
        scene.task = scene.add(NewTask::titled("what is waited for"));
        if case.asks == Asks::ById {
            scene.request.command = on(&scene.task, Act::Claim(terms));
        }
        // The state of the task comes first: later, a claim would be refused.
        scene.in_the_way.resize_with(case.obstacles.len(), InTheWay::default);
        for of_state in [true, false] {
            for (place, (obstacle, end)) in case.obstacles.iter().enumerate() {
                if obstacle.is_state() == of_state {
                    let after_ms = AFTER_MS[place] * i64::from(times);
                    let in_the_way = scene.put(*obstacle, *end, after_ms);
                    let over = Instant::now() + Duration::from_millis(after_ms.unsigned_abs());
                    scene.in_the_way[place] = InTheWay { over: Some(over), ..in_the_way };
                }
            }
        }
        if case.obstacles.iter().any(|(obstacle, _)| matches!(obstacle, Obstacle::Paths(_)))
            && case.on != On::OwnPaths
        {
            let declared = scope(&["src/**", "lib/**"]);
            scene.run(&founder(), forced(&scene.task.clone(), edit(|edit| edit.add_scope = declared)));
        }
        if case.on == On::Shared {
            let facts = Facts { scope: scope(&["lib/x"]), ..Facts::default() };
            let beside = scene.add(NewTask { facts, ..NewTask::titled("a bystander that shares") });
            let terms = Terms { shared: true, ..Terms::default() };
            scene.run(&who("agent:bystander"), on(&beside, Act::Claim(terms)));
        }
        scene
    }

    fn open(&self) -> AnyStore {
        let wait = Duration::from_secs(20);
        match self.kind {
            Kind::Sqlite => {
                let path = self.folder.path().join("onus.db");
                AnyStore::Sqlite(SqliteStore::open(&path, Access::Write, wait).unwrap())
            }
            Kind::Postgres => {
                let address = parsed(Server::shared().shared_database());
                AnyStore::Postgres(PostgresStore::open(&address, &self.name, wait).unwrap())
            }
        }
    }

    #[track_caller]
    fn run(&mut self, by: &Identity, command: Command) -> TaskView {
        self.run_under(vouching(), by, command)
    }

    #[track_caller]
    fn run_under(&mut self, policy: Policy, by: &Identity, command: Command) -> TaskView {
        let request = Request { identity: by.clone(), command, key: None };
        let outcome = if policy == vouching() {
            self.engine.run(&request)
        } else {
            Engine::new(self.open(), policy).run(&request)
        };
        let reply = outcome.unwrap_or_else(|refusal| panic!("{:?}: {refusal:?}", request.command));
        match reply.answer {
            Answer::Task(task) | Answer::Lease { task, .. } | Answer::Reset { task, .. } => *task,
            Answer::Present { .. } | Answer::Actor(_) => self.show(&self.task.clone()),
            other => panic!("no task in {other:?}"),
        }
    }

    fn show(&mut self, id: &str) -> TaskView {
        self.engine.show(None, Some(&id.parse().unwrap())).unwrap().value
    }

    fn add(&mut self, new: NewTask) -> String {
        self.run(&founder(), Command::Add(new)).id
    }

    /// A task that its holder has, so that nobody else gets it.
    fn add_held(&mut self, new: NewTask) -> String {
        let id = self.add(new);
        self.run(&founder(), on(&id, Act::Claim(Terms::default())));
        id
    }

    /// Lets somebody take a task, and hold it until `end`.
    fn hold(&mut self, task: &str, holder: Holder, end: End, after_ms: i64) -> InTheWay {
        // Each task has a holder of its own: what one does is not a sign of life of another.
        let kind = if holder.is_person() { "human" } else { "agent" };
        let mut identity = who(&format!("{kind}:holder-of-{}", task.to_lowercase()));
        let process = holder.is_bound().then(Sleeper::new);
        let terms = Terms {
            ttl_ms: (end == End::Ttl).then_some(after_ms),
            process: process.as_ref().map(|process| process::identify(process.0.id()).unwrap()),
            ..Terms::default()
        };
        let max_hold_ms = if end == End::MaxHold { after_ms } else { 8 * HOUR_MS };
        let policy = Policy { max_hold_ms, ..vouching() };
        let lease = self.run_under(policy, &identity, on(task, Act::Claim(terms))).lease.unwrap();
        identity.token = Some((Some(task.parse().unwrap()), Token(lease.token)));
        if holder == Holder::AgentResting {
            self.run(&identity, Command::Presence(Presence::TurnOver));
        }
        InTheWay { holder: Some(identity), process, ..InTheWay::default() }
    }

    fn put(&mut self, obstacle: Obstacle, end: End, after_ms: i64) -> InTheWay {
        let task = self.task.clone();
        let nothing = InTheWay::default();
        let moved = |scene: &mut Scene, by: &Identity, step: Verb| {
            scene.run(by, on(&task, verb(step)));
        };
        match obstacle {
            Obstacle::Held(holder) => return self.hold(&task, holder, end, after_ms),
            Obstacle::Paths(holder) => {
                let facts = Facts { scope: scope(&["src/a", "docs/**"]), ..Facts::default() };
                let other = self.add(NewTask { facts, ..NewTask::titled("has the paths") });
                let held = self.hold(&other, holder, end, after_ms);
                return InTheWay { other: Some(other), ..held };
            }
            Obstacle::Kept => {
                let keep_ms = if end == End::TimedOut { after_ms } else { HOUR_MS };
                let policy = Policy { keep_ms, ..vouching() };
                let to = "agent:absent".parse().unwrap();
                let act = Act::Handoff { to, reason: "theirs".into() };
                self.run_under(policy, &founder(), on(&task, act));
            }
            Obstacle::Proposed => {
                // A task is proposed when it is added: this one replaces the first.
                self.run(&founder(), on(&task, verb(Verb::Drop)));
                let new = NewTask { propose: true, ..NewTask::titled("what is waited for") };
                self.task = self.add(new);
            }
            Obstacle::Blocked => moved(self, &founder(), Verb::Block),
            Obstacle::Review => {
                // A rejected task is kept for whoever submitted it: here, the waiter.
                let mut earlier = self.request.identity.clone();
                if !earlier.actor.is_person() {
                    earlier.instance = "earlier".parse().unwrap();
                }
                moved(self, &earlier, Verb::Submit);
            }
            Obstacle::Failed => moved(self, &who("agent:worker"), Verb::Fail),
            Obstacle::Done => moved(self, &who("agent:worker"), Verb::Done),
            Obstacle::Dropped => moved(self, &founder(), Verb::Drop),
            Obstacle::Dependency => {
                let other = self.add_held(NewTask::titled("what it depends on"));
                let act = Act::AddDeps { on: vec![other.parse().unwrap()] };
                self.run(&founder(), forced(&task, act));
                return InTheWay { other: Some(other), ..nothing };
            }
            Obstacle::Part => {
                let parent = Some(TaskLink::Task(task.parse().unwrap()));
                let other = self.add_held(NewTask { parent, ..NewTask::titled("a part of it") });
                return InTheWay { other: Some(other), ..nothing };
            }
            Obstacle::Scheduled => {
                let ms = if end == End::TimedOut { after_ms } else { HOUR_MS };
                let act = edit(|edit| edit.not_before = Some(Some(Schedule::In { ms })));
                self.run(&founder(), forced(&task, act));
            }
            Obstacle::Tier => {
                let act = edit(|edit| edit.required_tier = Some(Tier(3)));
                self.run(&founder(), forced(&task, act));
            }
        }
        nothing
    }

    /// Lets an obstacle go away.
    pub(crate) fn clear(&mut self, place: usize, obstacle: Obstacle, end: End) {
        let InTheWay { holder, process, other, over } = std::mem::take(&mut self.in_the_way[place]);
        let task = self.task.clone();
        let waiter = self.request.identity.actor.clone();
        let of = other.clone().unwrap_or_else(|| task.clone());
        let by = holder.clone().unwrap_or_else(founder);
        let handed = |to: ActorName| Act::Handoff { to, reason: "yours".into() };
        let command = match end {
            End::Ttl | End::MaxHold | End::TimedOut => {
                std::thread::sleep(over.unwrap().saturating_duration_since(Instant::now()));
                self.in_the_way[place] = InTheWay { process, ..InTheWay::default() };
                return;
            }
            End::Killed => {
                let mut process = process.unwrap();
                process.0.kill().unwrap();
                process.0.wait().unwrap();
                return;
            }
            End::ClaimedAndReleased => {
                self.run(&who("agent:absent"), on(&task, Act::Claim(Terms::default())));
                self.run(&who("agent:absent"), on(&task, verb(Verb::Release)));
                return;
            }
            End::TakenOverAndReleased => {
                let terms = Terms { reason: Some("stuck".into()), ..Terms::default() };
                self.run(&founder(), forced(&of, Act::Takeover(terms)));
                self.run(&founder(), on(&of, verb(Verb::Release)));
                return;
            }
            End::Approved => {
                self.run(&by, on(&of, verb(Verb::Submit)));
                self.run(&who("agent:reviewer"), on(&of, verb(Verb::Approve)));
                return;
            }
            End::ReleasedByForce => {
                self.run(&founder(), forced(&of, verb(Verb::Release)));
                return;
            }
            End::Reset => {
                let task = Some(of.parse().unwrap());
                let reset = Command::Reset { task, reason: "again".into(), force: force() };
                self.run(&founder(), reset);
                return;
            }
            End::Retried => Command::Retry { task: Some(task.parse().unwrap()), message: None, force: None },
            End::ActorRaised => Command::SetTier { actor: waiter, tier: Tier(3) },
            End::HandedToWaiter => on(&of, handed(waiter)),
            End::Released => on(&of, verb(Verb::Release)),
            End::Done => on(&of, verb(Verb::Done)),
            End::Dropped => on(&of, verb(Verb::Drop)),
            End::Failed => on(&of, verb(Verb::Fail)),
            End::Submitted => on(&of, verb(Verb::Submit)),
            End::Blocked => on(&of, verb(Verb::Block)),
            End::Accepted => on(&task, verb(Verb::Accept)),
            End::Unblocked => on(&task, verb(Verb::Unblock)),
            End::Rejected => on(&task, verb(Verb::Reject)),
            End::Reopened => on(&task, verb(Verb::Reopen)),
            End::ScopeRemoved => on(&of, Act::RemoveScope { scope: scope(&["src/a"]) }),
            End::ScopeEdited => forced(&task, edit(|edit| edit.remove_scope = scope(&["src/**"]))),
            End::DepRemoved => forced(&task, Act::RemoveDeps { on: vec![of.parse().unwrap()] }),
            End::Moved => on(&of, edit(|edit| edit.parent = Some(None))),
            End::Unscheduled => forced(&task, edit(|edit| edit.not_before = Some(None))),
            End::TierLowered => forced(&task, edit(|edit| edit.required_tier = Some(Tier(0)))),
        };
        // A person changes what concerns the waiter's task; a holder changes its own lease.
        let is_of_lease =
            matches!(obstacle, Obstacle::Held(_) | Obstacle::Paths(_)) && end != End::ScopeEdited;
        let by = if is_of_lease { by } else { founder() };
        self.run(&by, command);
        self.in_the_way[place].process = process;
    }

    /// The answer that the waiter would get now.
    pub(crate) fn rehearse(&mut self) -> String {
        match self.engine.rehearse(&self.request) {
            Ok(_) => "that it may have it".to_owned(),
            Err(refusal) => refusal.message,
        }
    }

    pub(crate) fn start_waiter(&self) -> Waiter {
        let sleep = Arc::new(Sleep::default());
        let store = Watched { inner: self.open(), sleep: Arc::clone(&sleep) };
        let (stop, speak) = std::io::pipe().unwrap();
        let answer = Arc::new(Mutex::new(None));
        let (request, told) = (self.request.clone(), Arc::clone(&answer));
        let thread = std::thread::spawn(move || {
            let mut engine = Engine::new(store, vouching());
            let outcome =
                engine.run_or_wait(&request, Duration::from_secs(600), Some(stop.as_fd()), &mut |_| {});
            *told.lock().unwrap() = Some(match outcome {
                Ok(reply) => match reply.answer {
                    Answer::Lease { task, .. } => Ok(task.id),
                    other => Err(format!("{other:?}")),
                },
                Err(refusal) => Err(refusal.message),
            });
        });
        Waiter { sleep, answer, speak: Some(speak), thread: Some(thread) }
    }
}

pub(crate) struct Waiter {
    sleep: Arc<Sleep>,
    answer: Arc<Mutex<Option<std::result::Result<String, String>>>>,
    speak: Option<std::io::PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Waiter {
    pub(crate) fn answer(&self) -> Option<std::result::Result<String, String>> {
        self.answer.lock().unwrap().clone()
    }

    /// Waits until it sleeps, and has slept for a moment. False: it has its answer.
    pub(crate) fn settles(&self) -> bool {
        let began = Instant::now();
        let state = || (self.sleep.is_asleep.load(Ordering::SeqCst), self.sleep.count.load(Ordering::SeqCst));
        while began.elapsed() < Duration::from_secs(20) {
            let before = state();
            std::thread::sleep(Duration::from_millis(120));
            if self.answer().is_some() {
                return false;
            }
            if before.0 && state() == before {
                return true;
            }
        }
        panic!("the waiter does not come to rest");
    }

    pub(crate) fn forget_wakes(&self) {
        self.sleep.woken.lock().unwrap().clear();
    }

    pub(crate) fn wakes(&self) -> Vec<Woken> {
        self.sleep.woken.lock().unwrap().clone()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        drop(self.speak.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
