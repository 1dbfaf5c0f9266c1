//! A world whose clock, processes and ids the test controls, around the real engine and a real store.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

pub mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onus_core::actor::KnownBy;
use onus_core::command::{Act, Command, Force, NewTask, Terms};
use onus_core::ids::Token;
use onus_core::lease::{Process, Seen};
use onus_core::policy::Policy;
use onus_core::refusal::{Code, Refusal};
use onus_core::sight::{Mark, Sight, Vantage};
use onus_core::task::Facts;
use onus_core::time::{ClockDomain, Moment, SERVER, Tick};
use onus_core::transition::Verb;
use onus_engine::{
    Ancestry, Answer, Due, Engine, Identity, LeaseView, Looked, Outside, Reply, Request, SettleResult,
    TaskView, Tried, Unsettled,
};
use onus_store::conformance::server::Server;
use onus_store::{AnyStore, SqliteStore, Store};

/// What the test decides.
#[derive(Debug)]
pub struct Fate {
    pub tick_ms: i64,
    pub wall_ms: i64,
    pub boot: u32,
    pub dead: BTreeSet<u32>,
    /// The boot that the observer is shown, if it is not the kernel's.
    pub boot_shown: Option<Mark>,
    /// Whether the store's clock is a server's, and what the callers' own says then.
    pub by_server: bool,
    pub own: Tick,
    /// What git says about files, in any worktree; it cannot be asked about others.
    pub files: BTreeMap<String, Looked>,
    /// The results of keeping uncommitted files, in this order; after them, it cannot be tried. And what was
    /// to be kept.
    pub rescued: Vec<Tried>,
    pub due: Vec<Due>,
    /// What git's references show of landings, in this order; after them, they are elsewhere. And what was
    /// asked about.
    pub settled: Vec<SettleResult>,
    pub unsettled: Vec<Unsettled>,
    uids: u64,
}

impl Fate {
    /// From where the engine looks at processes: this boot's host, unless a test hides some of it.
    fn vantage(&self) -> Vantage {
        Vantage {
            machine: "machine".into(),
            boot: self.boot_shown.clone().unwrap_or_else(|| format!("boot-{}", self.boot).into()),
            pid_ns: Mark::INITIAL_PID_NS,
            time_ns: "time".into(),
            uptime_ms: Some(self.tick_ms),
        }
    }
}

pub struct World<S> {
    pub engine: Engine<S>,
    pub fate: Arc<Mutex<Fate>>,
    _folder: tempfile::TempDir,
}

pub const TTL_MS: i64 = 60_000;
pub const MAX_HOLD_MS: i64 = 600_000;
pub const KEEP_MS: i64 = 30_000;

pub fn policy() -> Policy {
    Policy {
        ttl_ms: TTL_MS,
        max_hold_ms: MAX_HOLD_MS,
        keep_ms: KEEP_MS,
        indefinite_per_actor: 1,
        indefinite_per_store: 2,
        ..Policy::default()
    }
}

pub fn moment(fate: &Fate) -> Moment {
    let domain = match fate.by_server {
        true => ClockDomain::new(SERVER, "database", ""),
        false => ClockDomain::new("machine", &format!("boot-{}", fate.boot), "time"),
    };
    Moment::new(fate.wall_ms, fate.tick_ms, domain)
}

fn counted(fate: &Mutex<Fate>) -> u64 {
    let mut fate = fate.lock().unwrap();
    fate.uids += 1;
    fate.uids
}

/// The stories in `tests/postgres.rs` are told on a server, all others on SQLite.
const IS_ON_SERVER: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"postgres");

/// How many random histories: a server takes longer over each.
pub fn cases(on_sqlite: u32) -> u32 {
    if IS_ON_SERVER { on_sqlite / 6 } else { on_sqlite }
}

/// Whether there are enough histories to ask how often each thing happened in them.
pub const TELLS_MUCH: bool = !IS_ON_SERVER;

pub fn world() -> World<AnyStore> {
    world_with(policy())
}

pub fn world_with(policy: Policy) -> World<AnyStore> {
    let folder = tempfile::tempdir().unwrap();
    let fate = Fate {
        tick_ms: 1_000_000,
        wall_ms: 1_700_000_000_000,
        boot: 1,
        dead: BTreeSet::new(),
        boot_shown: None,
        by_server: false,
        own: Tick { tick_ms: 5_000, domain: ClockDomain::new("laptop", "its boot", "time") },
        files: BTreeMap::new(),
        rescued: Vec::new(),
        due: Vec::new(),
        settled: Vec::new(),
        unsettled: Vec::new(),
        uids: 0,
    };
    let fate = Arc::new(Mutex::new(fate));
    let (actor, instance) = ("human:founder".parse().unwrap(), "person".parse().unwrap());
    let uid = |n: u128| onus_core::ids::Uid(uuid::Uuid::from_u128(n));
    let path = folder.path().join("onus.db");
    let wait = Duration::from_secs(10);
    let prefix = "ON".parse().unwrap();
    let mut store = if IS_ON_SERVER {
        AnyStore::Postgres(Server::shared().project())
    } else {
        let made = SqliteStore::create(&path, &prefix, uid(1), uid(2), (&actor, &instance), wait);
        AnyStore::Sqlite(made.unwrap())
    };
    let clock = Arc::clone(&fate);
    store.set_clock(Box::new(move || moment(&clock.lock().unwrap())));
    let [seen, uids, salts, own, looked, rescuer, settler] = [(); 7].map(|()| Arc::clone(&fate));
    let outside = Outside {
        observe: Box::new(move |process| {
            let fate = seen.lock().unwrap();
            match fate.vantage().sight_of(process) {
                Sight::Near if fate.dead.contains(&process.pid) => Seen::Dead,
                Sight::Near => Seen::Alive,
                Sight::EarlierBoot { uptime_ms } => Seen::EarlierBoot { uptime_ms },
                Sight::Far => Seen::Unseen,
            }
        }),
        // Spread out like real ones: the end tells them apart.
        new_uid: Box::new(move |_| {
            uid(u128::from(counted(&uids)).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
        }),
        new_salt: Box::new(move || u128::from(counted(&salts)).to_le_bytes()),
        end_orphan: Box::new(|_| Vec::new()),
        settle: Box::new(move |begun| {
            let mut fate = settler.lock().unwrap();
            fate.unsettled.push(begun.clone());
            if fate.settled.is_empty() { SettleResult::Elsewhere } else { fate.settled.remove(0) }
        }),
        look: Box::new(move |_, paths| {
            let fate = looked.lock().unwrap();
            let said = |path: &String| fate.files.get(path).copied().unwrap_or(Looked::Unknown);
            paths.iter().map(said).collect()
        }),
        rescue: Box::new(move |due| {
            let mut fate = rescuer.lock().unwrap();
            fate.due.push(due.clone());
            if fate.rescued.is_empty() { Tried::Elsewhere } else { fate.rescued.remove(0) }
        }),
        own_clock: Box::new(move || own.lock().unwrap().own.clone()),
    };
    World { engine: Engine::with_outside(store, policy, outside), fate, _folder: folder }
}

/// Who calls, with how it is known and which process it runs in.
pub fn who(actor: &str, instance: &str) -> Identity {
    let actor: onus_core::actor::ActorName = actor.parse().unwrap();
    let known_by = if actor.is_person() { KnownBy::Person } else { KnownBy::Name };
    let instance = if actor.is_person() { "person" } else { instance };
    Identity {
        actor,
        instance: instance.parse().unwrap(),
        known_by,
        token: None,
        ancestry: Ancestry::Known(Vec::new()),
    }
}

pub fn with_token(mut identity: Identity, token: u64) -> Identity {
    identity.token = Some((None, Token(token)));
    identity
}

pub fn process(pid: u32, boot: u32) -> Process {
    Process {
        machine: "machine".into(),
        boot: format!("boot-{boot}").into(),
        pid_ns: Mark::INITIAL_PID_NS,
        time_ns: "time".into(),
        pid,
        start: u64::from(pid),
        unique: false,
    }
}

pub fn on(task: &str, act: Act) -> Command {
    Command::OnTask { task: Some(task.parse().unwrap()), act, force: None }
}

pub fn forced(task: &str, act: Act) -> Command {
    let force = Some(Force { reason: "because".into(), link: None });
    Command::OnTask { task: Some(task.parse().unwrap()), act, force }
}

pub fn claim() -> Act {
    Act::Claim(Terms::default())
}

pub fn takeover() -> Act {
    Act::Takeover(Terms { reason: Some("lapsed".into()), ..Terms::default() })
}

pub fn verb(verb: Verb) -> Act {
    Act::Move { verb, message: Some("a note".into()), uncommitted: None, demand: None }
}

pub fn new_task(title: &str) -> Command {
    let facts = Facts::default();
    Command::Add(NewTask { facts, ..NewTask::titled(title) })
}

impl<S: Store> World<S> {
    pub fn run(&mut self, identity: &Identity, command: Command) -> Result<Reply, Refusal> {
        self.engine.run(&Request { identity: identity.clone(), command, key: None })
    }

    pub fn run_keyed(&mut self, identity: &Identity, command: Command, key: &str) -> Result<Reply, Refusal> {
        self.engine.run(&Request { identity: identity.clone(), command, key: Some(key.into()) })
    }

    #[track_caller]
    pub fn ok(&mut self, identity: &Identity, command: Command) -> TaskView {
        match self.run(identity, command).unwrap().answer {
            Answer::Task(task) | Answer::Lease { task, .. } => *task,
            other => panic!("no task in {other:?}"),
        }
    }

    #[track_caller]
    pub fn lease(&mut self, identity: &Identity, command: Command) -> LeaseView {
        self.ok(identity, command).lease.expect("the command gives a lease")
    }

    #[track_caller]
    pub fn refused(&mut self, identity: &Identity, command: Command) -> Code {
        let before = self.events();
        let refusal = self.run(identity, command).expect_err("it must be refused");
        assert_eq!(self.events(), before, "a refusal changed something");
        let is_told = refusal.overridable.is_none() || identity.actor.is_person();
        assert!(!refusal.message.contains("force") && is_told, "{refusal:?}");
        refusal.code
    }

    pub fn events(&mut self) -> u64 {
        self.engine.store().read(|read| read.count_events()).unwrap()
    }

    #[track_caller]
    pub fn add(&mut self, title: &str) -> String {
        self.ok(&who("human:founder", ""), new_task(title)).id
    }

    #[track_caller]
    pub fn show(&mut self, id: &str) -> TaskView {
        self.engine.show(None, Some(&id.parse().unwrap())).unwrap().value
    }

    pub fn kinds(&mut self, id: &str) -> Vec<String> {
        let page = self.engine.log(None, Some(&id.parse().unwrap()), 0, false, 1_000).unwrap().value;
        page.records.into_iter().map(|record| record.kind).collect()
    }

    pub fn pass(&self, ms: i64) {
        let mut fate = self.fate.lock().unwrap();
        fate.tick_ms += ms;
        fate.own.tick_ms += ms;
        fate.wall_ms += ms;
    }

    pub fn kill(&self, pid: u32) {
        self.fate.lock().unwrap().dead.insert(pid);
    }

    /// A boot that takes 5 s, after the machine was off for a second; then the wall is stepped.
    pub fn reboot(&self, step_ms: i64) {
        let mut fate = self.fate.lock().unwrap();
        fate.boot += 1;
        fate.tick_ms = 5_000;
        fate.wall_ms += 6_000 + step_ms;
    }

    /// Checks that the ledger is intact, and every row is its fold.
    #[track_caller]
    pub fn is_whole(&mut self) {
        self.engine.verify(&[], &mut |_| {}).unwrap();
        let rebuilt = self.engine.store().rebuild(&mut |_| {}).unwrap();
        assert!(rebuilt.changed.is_empty(), "a rebuild changed {:?}", rebuilt.changed);
    }
}
