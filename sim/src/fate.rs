//! What the world decides: what time it is, and which processes live.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onus_core::ids::Uid;
use onus_core::lease::{Process, Seen};
use onus_core::time::{ClockDomain, Moment};

pub const MACHINE: &str = "machine";
pub const TIME_NS: &str = "time";
/// Where most processes live, and the handles that can see them.
pub const HOST: &str = "host";
/// Where nothing of the others can be seen.
pub const CONTAINER: &str = "container";

#[derive(Debug)]
pub struct Fate {
    pub tick_ms: i64,
    pub wall_ms: i64,
    pub boot: u32,
    /// The living processes of this boot: pid to start.
    alive: BTreeMap<u32, u64>,
    started: u64,
    counted: u64,
}

/// Pids are few, so that they are reused.
const PIDS: u32 = 24;

impl Fate {
    pub fn now(&self) -> Moment {
        let domain = ClockDomain::new(MACHINE, &boot_name(self.boot), TIME_NS);
        Moment { wall_ms: self.wall_ms, tick_ms: self.tick_ms, domain }
    }

    pub fn pass(&mut self, ms: i64) {
        self.tick_ms += ms;
        self.wall_ms += ms;
    }

    /// A new process, under a pid that is free now. None: all are taken.
    pub fn spawn(&mut self, at: usize, pid_ns: &str) -> Option<Process> {
        let offset = u32::try_from(at).unwrap_or_default();
        let pid = (0..PIDS).map(|n| 100 + (n + offset) % PIDS).find(|pid| !self.alive.contains_key(pid))?;
        self.started += 1;
        self.alive.insert(pid, self.started);
        Some(Process {
            machine: MACHINE.to_owned(),
            boot: boot_name(self.boot),
            pid_ns: pid_ns.to_owned(),
            time_ns: TIME_NS.to_owned(),
            pid,
            start: self.started,
        })
    }

    pub fn kill(&mut self, process: &Process) {
        if self.is_alive(process) {
            self.alive.remove(&process.pid);
        }
    }

    pub fn is_alive(&self, process: &Process) -> bool {
        process.boot == boot_name(self.boot) && self.alive.get(&process.pid) == Some(&process.start)
    }

    pub fn reboot(&mut self, away_ms: i64) {
        self.boot += 1;
        self.tick_ms = 5_000;
        self.wall_ms += away_ms;
        self.alive.clear();
    }

    /// What somebody in a pid namespace can say about a process.
    fn seen_from(&self, pid_ns: &str, process: &Process) -> Seen {
        if process.boot != boot_name(self.boot) || process.pid_ns != pid_ns {
            Seen::Unseen
        } else if self.is_alive(process) {
            Seen::Alive
        } else {
            Seen::Dead
        }
    }
}

pub fn boot_name(boot: u32) -> String {
    format!("boot-{boot}")
}

/// The world, as all handles of one history share it.
#[derive(Clone, Debug)]
pub struct World(Arc<Mutex<Fate>>);

impl World {
    pub fn new() -> World {
        World(Arc::new(Mutex::new(Fate {
            tick_ms: 1_000_000,
            wall_ms: 1_700_000_000_000,
            boot: 1,
            alive: BTreeMap::new(),
            started: 0,
            counted: 0,
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
        // Spread out like real ones: their ends tell them apart.
        let mixed = u128::from(self.count()).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        Uid(uuid::Uuid::from_u128(mixed))
    }

    /// What the engine asks of the world, by a handle in a pid namespace.
    pub fn outside(&self, pid_ns: &'static str) -> onus_engine::Outside {
        let (seen, uids, salts) = (self.clone(), self.clone(), self.clone());
        onus_engine::Outside {
            observe: Box::new(move |process| seen.fate().seen_from(pid_ns, process)),
            new_uid: Box::new(move |_| uids.new_uid()),
            new_salt: Box::new(move || u128::from(salts.count()).to_le_bytes()),
            end_orphan: Box::new(|_| Vec::new()),
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
