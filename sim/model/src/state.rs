//! A state: rows, a tick, and whether a process lives. What cannot matter any more is set to constants.

use std::hash::{Hash, Hasher};

use onus_core::actor::{ActorName, InstanceId, Tier};
use onus_core::apply::TaskFold;
use onus_core::event::{Body, Draft, Event};
use onus_core::ids::{Number, Uid, Version};
use onus_core::lease::{EndKind, Lease, Process, Pulse};
use onus_core::task::{Facts, State as TaskState};
use onus_core::time::{ClockDomain, Moment};

pub(crate) const ACTORS: usize = 3;
/// The agent that is bound to a process.
pub(crate) const BOUND: usize = 1;
pub(crate) const PERSON: usize = 2;

const NAMES: [(&str, &str); ACTORS] = [("agent:a", "i1"), ("agent:b", "i2"), ("human:p", "person")];

pub(crate) fn actor(index: usize) -> ActorName {
    parsed(NAMES[index].0)
}

pub(crate) fn instance(index: usize) -> InstanceId {
    parsed(NAMES[index].1)
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
    Moment { wall_ms: tick, tick_ms: tick, domain: ClockDomain::new("m", "b", "t") }
}

pub(crate) fn process() -> Process {
    Process {
        machine: "m".to_owned(),
        boot: "b".to_owned(),
        pid_ns: "p".to_owned(),
        time_ns: "t".to_owned(),
        pid: 7,
        start: 1,
    }
}

/// What was seen on the way: that the interesting things are reached at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Saw {
    pub late_renewal: bool,
    pub late_finish: bool,
    pub takeover: bool,
    pub swept: bool,
    pub revoked: bool,
    pub handoff: bool,
    /// A lease that was live ended as lapsed or taken over.
    pub robbed: bool,
}

impl Saw {
    pub(crate) fn note(&mut self, _: &State, _: usize, drafts: &[Draft], late: bool) {
        for draft in drafts {
            match &draft.body {
                Body::LeaseRenewed { .. } => self.late_renewal = true,
                Body::TaskDone { .. } | Body::TaskSubmitted { .. } if late && draft.token.is_some() => {
                    self.late_finish = true;
                }
                Body::LeaseTakenOver { .. } | Body::LeaseLapsed { .. } => {
                    self.takeover = true;
                    self.robbed |= !late;
                }
                Body::LeaseRevoked { .. } => self.revoked = true,
                Body::LeaseHandedOff { .. } => self.handoff = true,
                _ => {}
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct State {
    pub tasks: Vec<TaskFold>,
    pub now: i64,
    pub alive: bool,
    pub saw: Saw,
    /// An event could not follow the rows that it met.
    pub misplaced: bool,
}

impl State {
    pub(crate) fn begin(tasks: usize) -> State {
        let created = |task: usize| {
            let mut fold = TaskFold::default();
            let event = Event {
                uid: uid(0),
                task: Some(uid(task)),
                version: Version(1),
                body: Body::TaskCreated {
                    number: Number(task as u64 + 1),
                    state: TaskState::Open,
                    facts: Facts { required_tier: Tier(0), ..Facts::default() },
                    origin: None,
                    body: false,
                    deps: Default::default(),
                },
                actor: actor(PERSON),
                instance: instance(PERSON),
                token: None,
                at_ms: 0,
                cause: None,
                texts: Default::default(),
                prev: String::new(),
                hash: String::new(),
            };
            let misplaced = fold.add(&event).is_err();
            (fold, misplaced)
        };
        let (tasks, misplaced): (Vec<TaskFold>, Vec<bool>) = (0..tasks).map(created).unzip();
        let misplaced = misplaced.contains(&true);
        let mut state = State { tasks, now: 0, alive: true, saw: Saw::default(), misplaced };
        state.normalize();
        state
    }

    /// Forgets what no decision looks at.
    pub(crate) fn normalize(&mut self) {
        for fold in &mut self.tasks {
            fold.indexed.clear();
            if let Some(task) = &mut fold.task {
                (task.version, task.title_version, task.updated_at_ms) = (Version(1), Version(1), 0);
                if let Some(kept) = &mut task.kept {
                    kept.version = Version(1);
                }
            }
            for lease in fold.leases.values_mut() {
                forget(lease);
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
        (tasks, self.now, self.alive, self.saw, self.misplaced)
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

fn forget(lease: &mut Lease) {
    let start = moment(0);
    lease.version = Version(1);
    (lease.active_from, lease.active_before_s) = (start.clone(), 0);
    lease.pulse = Pulse {
        last: start.clone(),
        progress: start,
        renewals: 0,
        deadline: lease.pulse.deadline.clone(),
        resting: lease.pulse.resting,
    };
    if let Some(ended) = &mut lease.ended {
        (ended.at_ms, ended.version) = (0, Version(1));
        (ended.end.renewals, ended.end.last_sign_ms, ended.end.active_s) = (0, 0, 0);
        // Only a lapsed lease goes on.
        if ended.how != EndKind::Lapsed {
            (lease.grant.tick_ms, lease.acquired_at_ms) = (0, 0);
            lease.pulse.deadline = None;
        }
    }
}
