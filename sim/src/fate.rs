//! The state of the world: the time, the living processes, and the files with uncommitted changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onus_core::ids::Uid;
use onus_core::lease::{Process, Seen};
use onus_core::scope::WorktreeId;
use onus_core::sight::{Mark, Sight, Vantage};
use onus_core::time::{ClockDomain, Moment, Tick};
use onus_engine::{Looked, SettleResult};

use crate::git::Git;

pub const MACHINE: &str = "machine";
pub const TIME_NS: &str = "time";

/// The number of worktrees. One has no known id, and one is on another machine.
pub const WORKTREES: usize = 4;

pub fn worktree(at: usize) -> Option<WorktreeId> {
    let machine = if at + 1 == WORKTREES { "elsewhere" } else { MACHINE };
    (at > 0).then(|| WorktreeId::new(machine, &at.to_string()))
}

/// Whether git cannot be run for this worktree from here.
pub fn is_far(id: &str) -> bool {
    worktree(WORKTREES - 1).is_some_and(|far| far.as_str() == id)
}

/// What an operating system shows to processes in one place. Every holder and every handle is in one.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    pub name: &'static str,
    machine: Option<&'static str>,
    boot: Boot,
    pid_ns: Option<&'static str>,
}

#[derive(Debug, PartialEq, Eq)]
enum Boot {
    /// The kernel's own value.
    True,
    /// Hidden: `/proc` is missing, or incomplete.
    Hidden,
    /// A container's own value, for as long as the kernel runs.
    Own,
}

/// Where most processes run, and everything is visible.
pub const HOST: &Place = &Place { name: "host", machine: Some(MACHINE), boot: Boot::True, pid_ns: INITIAL };
/// A container that shares only the kernel.
pub const CONTAINER: &Place =
    &Place { name: "container", machine: Some(MACHINE), boot: Boot::True, pid_ns: Some("container") };
/// A sandbox that hides which boot this is.
const NO_BOOT: &Place =
    &Place { name: "no boot id", machine: Some(MACHINE), boot: Boot::Hidden, pid_ns: INITIAL };
/// A container with a boot id of its own, in the host's pid namespace.
const OWN_BOOT: &Place =
    &Place { name: "own boot id", machine: Some(MACHINE), boot: Boot::Own, pid_ns: INITIAL };
/// A sandbox without `/proc`.
const NO_PROC: &Place = &Place { name: "no /proc", machine: Some(MACHINE), boot: Boot::Hidden, pid_ns: None };
/// A container that shows neither the machine's id nor a name.
const NO_MACHINE: &Place = &Place { name: "no machine id", machine: None, boot: Boot::True, pid_ns: INITIAL };

pub const PLACES: [&Place; 6] = [HOST, CONTAINER, NO_BOOT, OWN_BOOT, NO_PROC, NO_MACHINE];

const INITIAL: Option<&str> = Some("4026531836");

impl Place {
    fn machine(&self) -> Mark {
        self.machine.map_or(Mark::UNKNOWN, Mark::from)
    }

    fn pid_ns(&self) -> Mark {
        self.pid_ns.map_or(Mark::UNKNOWN, Mark::from)
    }

    /// Whether a process has the marks of this place and of a boot of its kernel.
    pub fn is_place_of(&self, process: &Process, is_boot: impl Fn(&str) -> bool) -> bool {
        let same = |own: Option<&str>, other: &Mark| own.is_some() && own == other.known();
        same(self.machine, &process.machine)
            && same(self.pid_ns, &process.pid_ns)
            && process.boot.known().is_some_and(is_boot)
    }

    /// Whether an observer in this place can look at a process: it is in the same place, and everything about the place is known.
    pub fn sees(&self, process: &Process, now: &Fate) -> bool {
        self.boot(now.boot).known().is_some_and(|own| self.is_place_of(process, |boot| boot == own))
    }

    fn boot(&self, boot: u32) -> Mark {
        match self.boot {
            Boot::True => Mark::from(boot_name(boot)),
            Boot::Hidden => Mark::UNKNOWN,
            Boot::Own => Mark::from(format!("own-{boot}")),
        }
    }
}

#[derive(Debug)]
pub struct Fate {
    pub tick_ms: i64,
    pub wall_ms: i64,
    pub boot: u32,
    /// The latest wall time so far, advanced by ticks. Setting the clock back does not decrease it.
    pub latest_ms: i64,
    /// How long this boot has lasted, sleep included.
    pub up_ms: i64,
    /// The living processes of this boot: pid to start.
    alive: BTreeMap<u32, u64>,
    started: u64,
    counted: u64,
    /// Files with uncommitted changes: the worktree's id and the path.
    dirty: BTreeSet<(String, String)>,
    /// Git cannot be run at the moment.
    pub hides_files: bool,
    /// The references that landings use. They survive every crash.
    pub git: Git,
}

/// There are few pids, so that they are reused.
const PIDS: u32 = 24;

impl Fate {
    pub fn now(&self) -> Moment {
        let domain = ClockDomain::new(MACHINE, &boot_name(self.boot), TIME_NS);
        Moment::new(self.wall_ms, self.tick_ms, domain)
    }

    pub fn pass(&mut self, ms: i64) {
        self.tick_ms += ms;
        self.latest_ms += ms;
        self.up_ms += ms;
        self.step_wall(ms);
    }

    pub fn step_wall(&mut self, ms: i64) {
        self.wall_ms += ms;
        self.latest_ms = self.latest_ms.max(self.wall_ms);
    }

    /// The wall clock advances while the machine sleeps; ticks do not.
    pub fn sleep(&mut self, ms: i64) {
        self.up_ms += ms;
        self.step_wall(ms);
    }

    /// A new process, under a free pid. None: all are taken.
    pub fn spawn(&mut self, at: usize, place: &Place) -> Option<Process> {
        let offset = u32::try_from(at).unwrap_or_default();
        let pid = (0..PIDS).map(|n| 100 + (n + offset) % PIDS).find(|pid| !self.alive.contains_key(pid))?;
        self.started += 1;
        self.alive.insert(pid, self.started);
        Some(Process {
            machine: place.machine(),
            boot: place.boot(self.boot),
            pid_ns: place.pid_ns(),
            time_ns: TIME_NS.into(),
            pid,
            start: self.started,
            unique: false,
        })
    }

    pub fn kill(&mut self, process: &Process) {
        if self.is_alive(process) {
            self.alive.remove(&process.pid);
        }
    }

    /// Whether a process lives. No two processes start at the same time, in any boot.
    pub fn is_alive(&self, process: &Process) -> bool {
        self.alive.get(&process.pid) == Some(&process.start)
    }

    /// Changes a file in a worktree.
    pub fn change(&mut self, worktree: &str, path: &str) {
        self.dirty.insert((worktree.to_owned(), path.to_owned()));
    }

    /// Commits everything in a worktree.
    pub fn commit(&mut self, worktree: &str) {
        self.dirty.retain(|(of, _)| of != worktree);
    }

    pub fn is_dirty(&self, worktree: &str, path: &str) -> bool {
        self.dirty.contains(&(worktree.to_owned(), path.to_owned()))
    }

    /// What git reports about a file. It cannot be run for worktrees of another machine.
    fn looked(&self, worktree: &str, path: &str) -> Looked {
        match self.is_dirty(worktree, path) {
            _ if self.hides_files || is_far(worktree) => Looked::Unknown,
            true => Looked::Changed,
            false => Looked::Clean,
        }
    }

    /// Restarts the machine. The wall clock advances by this much; it may have been set back meanwhile.
    pub fn reboot(&mut self, away_ms: i64) {
        self.boot += 1;
        (self.tick_ms, self.up_ms) = (BOOT_MS, BOOT_MS);
        self.step_wall(away_ms);
        self.alive.clear();
    }

    /// What an observer in a place can say about a process.
    fn seen_from(&self, place: &Place, process: &Process) -> Seen {
        let vantage = Vantage {
            machine: place.machine(),
            boot: place.boot(self.boot),
            pid_ns: place.pid_ns(),
            time_ns: TIME_NS.into(),
            uptime_ms: Some(self.up_ms),
        };
        match vantage.sight_of(process) {
            Sight::Near if self.is_alive(process) => Seen::Alive,
            Sight::Near => Seen::Dead,
            Sight::EarlierBoot { uptime_ms } => Seen::EarlierBoot { uptime_ms },
            Sight::Far => Seen::Unseen,
        }
    }
}

/// How long a boot takes.
const BOOT_MS: i64 = 5_000;

pub fn boot_name(boot: u32) -> String {
    format!("boot-{boot}")
}

/// The world, shared by all handles of one history.
#[derive(Clone, Debug)]
pub struct World(Arc<Mutex<Fate>>);

impl World {
    pub fn new() -> World {
        World(Arc::new(Mutex::new(Fate {
            tick_ms: 1_000_000,
            wall_ms: 1_700_000_000_000,
            boot: 1,
            latest_ms: 1_700_000_000_000,
            up_ms: 1_000_000,
            alive: BTreeMap::new(),
            started: 0,
            counted: 0,
            dirty: BTreeSet::new(),
            hides_files: false,
            git: Git::default(),
        })))
    }

    pub fn fate(&self) -> MutexGuard<'_, Fate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) -> u64 {
        let mut fate = self.fate();
        fate.counted += 1;
        fate.counted
    }

    pub fn new_uid(&self) -> Uid {
        // Spread out like real ones, so that their ends differ.
        let mixed = u128::from(self.count()).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        Uid(uuid::Uuid::from_u128(mixed))
    }

    /// The environment of an engine whose handle is in this place.
    pub fn outside(&self, place: &'static Place) -> onus_engine::Outside {
        let [seen, uids, salts, own, files, refs] = [(); 6].map(|()| self.clone());
        onus_engine::Outside {
            observe: Box::new(move |process| seen.fate().seen_from(place, process)),
            new_uid: Box::new(move |_| uids.new_uid()),
            new_salt: Box::new(move || u128::from(salts.count()).to_le_bytes()),
            end_orphan: Box::new(|_| Vec::new()),
            look: Box::new(move |worktree, paths| {
                let fate = files.fate();
                paths.iter().map(|path| fate.looked(worktree.as_str(), path)).collect()
            }),
            rescue: Box::new(|_| onus_engine::Tried::Elsewhere),
            settle: Box::new(move |unsettled| {
                // Without the machine's id, the repository counts as another.
                if place == NO_MACHINE {
                    return SettleResult::Elsewhere;
                }
                let intent = &unsettled.intent;
                let mut fate = refs.fate();
                SettleResult::Done(fate.git.settle(&unsettled.id, &intent.target, Some(&intent.commit)))
            }),
            own_clock: Box::new(move || Tick::of(&own.fate().now())),
        }
    }

    pub fn clock(&self) -> onus_store::Clock {
        let world = self.clone();
        Box::new(move || world.fate().now())
    }
}

impl Default for World {
    fn default() -> World {
        World::new()
    }
}
