//! A state: rows, a tick, and whether a process lives. What cannot matter any more is set to constants.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use onus_core::actor::{ActorName, InstanceId, Tier};
use onus_core::apply::TaskFold;
use onus_core::event::{Body, Draft, Event};
use onus_core::ids::{Number, Token, Uid, Version};
use onus_core::lease::{EndKind, Lease, Process};
use onus_core::scope::Scope;
use onus_core::stretch::{Work, Worked};
use onus_core::task::{Facts, State as TaskState};
use onus_core::time::{ClockDomain, Moment};

use crate::work::{self, Account};

pub(crate) const ACTORS: usize = 3;
/// The agent that is bound to a process.
pub(crate) const BOUND: usize = 1;
pub(crate) const PERSON: usize = 2;

const NAMES: [(&str, &str); ACTORS] = [("agent:a", "i1"), ("agent:b", "i2"), ("human:p", "person")];

/// Who is who, read once.
static WHO: LazyLock<Vec<(ActorName, InstanceId)>> =
    LazyLock::new(|| NAMES.iter().map(|(actor, instance)| (parsed(actor), parsed(instance))).collect());

pub(crate) fn actor(index: usize) -> ActorName {
    WHO[index].0.clone()
}

pub(crate) fn instance(index: usize) -> InstanceId {
    WHO[index].1.clone()
}

pub(crate) fn is_held_by(lease: &Lease, index: usize) -> bool {
    lease.is_held_by(&WHO[index].0, &WHO[index].1)
}

fn parsed<T: std::str::FromStr>(text: &str) -> T {
    match text.parse() {
        Ok(value) => value,
        Err(_) => unreachable!("'{text}' is well formed"),
    }
}

pub(crate) fn uid(task: usize) -> Uid {
    Uid(uuid::Uuid::from_u128(task as u128 + 1))
}

pub(crate) fn moment(tick: i64) -> Moment {
    Moment::new(tick, tick, ClockDomain::new("m", "b", "t"))
}

/// What was decided, by one of the actors, as an event of a task.
pub(crate) fn event(by: usize, task: usize, version: Version, at_ms: i64, draft: Draft) -> Event {
    Event {
        uid: uid(0),
        task: Some(uid(task)),
        version,
        body: draft.body,
        actor: actor(by),
        instance: instance(by),
        token: draft.token,
        at_ms,
        cause: None,
        texts: Default::default(),
        stretches: draft.stretches,
        waited_ms: draft.waited_ms,
        prev: String::new(),
        hash: String::new(),
    }
}

pub(crate) fn process() -> Process {
    Process {
        machine: "m".into(),
        boot: "b".into(),
        pid_ns: "p".into(),
        time_ns: "t".into(),
        pid: 7,
        start: 1,
        unique: false,
    }
}

/// What was seen on the way: that the interesting things are reached at all. Counted beside the search, as a part of the
/// state it would multiply the states.
#[derive(Debug, Default)]
pub struct Saw {
    pub late_renewals: AtomicU64,
    pub late_finishes: AtomicU64,
    pub takeovers: AtomicU64,
    pub sweeps: AtomicU64,
    pub revocations: AtomicU64,
    pub handoffs: AtomicU64,
}

impl Saw {
    /// Each with its name.
    pub fn counts(&self) -> [(&'static str, u64); 6] {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("a late holder renewed", of(&self.late_renewals)),
            ("a late holder finished", of(&self.late_finishes)),
            ("a lapsed lease was taken over", of(&self.takeovers)),
            ("a lapsed lease was swept", of(&self.sweeps)),
            ("a live lease was revoked", of(&self.revocations)),
            ("a task was handed off", of(&self.handoffs)),
        ]
    }

    pub(crate) fn note(&self, drafts: &[Draft], late: bool) {
        for draft in drafts {
            let count = match &draft.body {
                Body::LeaseRenewed { .. } => &self.late_renewals,
                Body::TaskDone { .. } | Body::TaskSubmitted { .. } if late => &self.late_finishes,
                Body::LeaseTakenOver { .. } => &self.takeovers,
                Body::LeaseLapsed { .. } => &self.sweeps,
                Body::LeaseRevoked { .. } => &self.revocations,
                Body::LeaseHandedOff { .. } => &self.handoffs,
                _ => continue,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(Clone, Debug)]
pub struct State {
    pub tasks: Vec<TaskFold>,
    pub now: i64,
    pub alive: bool,
    /// A lease that was live was ended as if it had lapsed.
    pub robbed: bool,
    /// A lease began on paths that another live one reserves, also if it ended in the same request.
    pub trespassed: bool,
    /// The highest token of each task when it was last reset.
    pub reset: Vec<u64>,
    /// An event could not follow the rows that it met.
    pub misplaced: bool,
    /// The bound agent is in a turn that its harness reported.
    pub in_turn: bool,
    /// What was worked under each lease of each task. None: work is forgotten.
    pub accounts: Option<Vec<BTreeMap<Token, Account>>>,
}

impl State {
    /// `declared`: the scope that every task has. `works`: whether work is looked at.
    pub(crate) fn begin(tasks: usize, declared: &Scope, works: bool) -> State {
        let created = |task: usize| {
            let mut fold = TaskFold::default();
            let body = Body::TaskCreated {
                number: Number(task as u64 + 1),
                state: TaskState::Open,
                facts: Facts { required_tier: Tier(0), scope: declared.clone(), ..Facts::default() },
                origin: None,
                body: false,
                deps: Default::default(),
            };
            let misplaced = fold.add(&event(PERSON, task, Version(1), 0, Draft::new(body))).is_err();
            (fold, misplaced)
        };
        let count = tasks;
        let (tasks, misplaced): (Vec<TaskFold>, Vec<bool>) = (0..count).map(created).unzip();
        let misplaced = misplaced.contains(&true);
        let mut state = State {
            tasks,
            now: 0,
            alive: true,
            robbed: false,
            trespassed: false,
            reset: Vec::new(),
            misplaced,
            in_turn: false,
            accounts: works.then(|| vec![BTreeMap::new(); count]),
        };
        state.reset = vec![0; state.tasks.len()];
        state.normalize();
        state
    }

    /// Forgets what no decision looks at.
    pub(crate) fn normalize(&mut self) {
        let works = self.accounts.is_some();
        for fold in &mut self.tasks {
            fold.indexed.clear();
            if !works {
                fold.stretches.clear();
            }
            for stretch in &mut fold.stretches {
                (stretch.version, stretch.place) = (Version(1), 0);
            }
            if let Some(task) = &mut fold.task {
                (task.version, task.title_version, task.updated_at_ms) = (Version(1), Version(1), 0);
                if let Some(kept) = &mut task.kept {
                    kept.version = Version(1);
                }
            }
            for lease in fold.leases.values_mut() {
                forget(lease, works);
            }
        }
    }

    /// All that tells two states apart.
    fn key(&self) -> impl Hash + Eq + use<> {
        let tasks: Vec<_> = self
            .tasks
            .iter()
            .map(|fold| {
                let row = fold.task.as_ref().map(|task| {
                    let kept = task.kept.as_ref().map(|kept| (kept.actor.clone(), kept.until.tick_ms));
                    let tokens = (task.token, task.opened_token, task.fenced_token, task.leased);
                    (task.state, tokens, kept, task.submitter.clone())
                });
                let leases: Vec<_> = fold
                    .leases
                    .values()
                    .map(|lease| {
                        let deadline = lease.pulse.deadline.as_ref().map(|deadline| deadline.tick_ms);
                        let how = lease.ended.as_ref().map(|ended| ended.how);
                        let scope = fold.scopes.get(&lease.token).cloned().unwrap_or_default();
                        let times = (lease.grant.tick_ms, deadline, lease.pulse.resting);
                        (lease.token, lease.actor.clone(), how, times, scope)
                    })
                    .collect();
                (row, leases)
            })
            .collect();
        let broken = (self.robbed, self.trespassed, self.misplaced);
        let work = self.accounts.as_ref().map(|accounts| {
            let known: Vec<_> = self.tasks.iter().map(work::known).collect();
            (accounts.clone(), known, self.in_turn)
        });
        (tasks, self.now, self.alive, broken, self.reset.clone(), work)
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key().hash(hasher);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        self.key() == other.key()
    }
}

impl Eq for State {}

fn forget(lease: &mut Lease, works: bool) {
    let start = moment(0);
    lease.version = Version(1);
    (lease.pulse.progress, lease.pulse.renewals) = (start.clone(), 0);
    if !works {
        lease.worked = Worked::default();
        (lease.pulse.last, lease.pulse.work) = (start, Work::default());
    }
    if let Some(ended) = &mut lease.ended {
        (ended.at_ms, ended.version) = (0, Version(1));
        (ended.end.renewals, ended.end.last_sign_ms) = (0, 0);
        if !works {
            ended.end.active_ms = 0;
        }
        // Only a lapsed lease goes on.
        if ended.how != EndKind::Lapsed {
            (lease.grant.tick_ms, lease.acquired_at_ms) = (0, 0);
            lease.pulse.deadline = None;
        }
    }
}
