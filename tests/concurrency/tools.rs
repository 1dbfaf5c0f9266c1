//! What these tests need beyond a sandbox: dice, the monotonic clock, signals, and the writers' queue from outside.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use rustix::time::{ClockId, clock_gettime};

use crate::support::{Sandbox, eventually};

/// The clock that all processes of a boot share, in milliseconds, rounded down.
pub(crate) fn now_ms() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

/// This machine's wall clock, in milliseconds, rounded down.
pub(crate) fn wall_ms() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

/// Random numbers that a seed repeats (xorshift64*).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

/// Another seed in every run; a failure prints it.
pub(crate) fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id()) >> 16
}

/// Removes what `faketime` processes that were killed left behind: by their pids, which others get again.
pub(crate) fn tidy_after_faketime() {
    for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = ["sem.faketime_sem_", "faketime_sem_", "faketime_shm_"]
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The same command, run by another program: `under(&["faketime", …], &command)`.
pub(crate) fn under(program: &[&str], command: &Command) -> Command {
    let mut wrapped = Command::new(program[0]);
    wrapped.args(&program[1..]).arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    wrapped.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped
}

/// A child process that does not outlive the test, however that ends.
#[derive(Debug)]
pub(crate) struct Started(Option<Child>);

impl Started {
    pub(crate) fn start(command: &mut Command) -> Started {
        Started(Some(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))))
    }

    /// One whose answer will be read.
    pub(crate) fn answering(command: &mut Command) -> Started {
        Started::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Something to bind a lease to.
    pub(crate) fn sleeper() -> Started {
        Started::start(Command::new("sleep").arg("600").stdin(Stdio::null()))
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(self.0.as_ref().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Stops it, and returns when all of it stands still. False: it had ended before.
    pub(crate) fn stop(&self) -> bool {
        self.signal(Signal::STOP);
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid()), options).unwrap().unwrap().stopped()
    }

    /// Kills it, and returns when it is dead but not yet waited for: a zombie.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
        waitid(WaitId::Pid(self.pid()), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    }

    /// Kills it and leaves nothing of it.
    pub(crate) fn kill_and_reap(mut self) {
        self.kill();
        self.child().wait().unwrap();
    }

    pub(crate) fn output(mut self) -> std::process::Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One of the two locks of the writers' queue.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    pub(crate) fn turnstile(sandbox: &Sandbox) -> Lock {
        Lock::open(sandbox, "turnstile.lock")
    }

    pub(crate) fn writer(sandbox: &Sandbox) -> Lock {
        Lock::open(sandbox, "writer.lock")
    }

    fn open(sandbox: &Sandbox, name: &str) -> Lock {
        let path = sandbox.path().join(".onus").join(name);
        Lock(OpenOptions::new().read(true).write(true).open(path).unwrap())
    }

    pub(crate) fn take(&self) {
        self.0.lock().unwrap();
    }

    /// Explicitly: a child between fork and exec still has a copy of the file, so closing it would not do.
    pub(crate) fn free(&self) {
        self.0.unlock().unwrap();
    }

    pub(crate) fn is_free(&self) -> bool {
        let free = self.0.try_lock().is_ok();
        if free {
            self.free();
        }
        free
    }

    /// The process that holds it, as the kernel's table of locks says.
    pub(crate) fn holder(&self) -> Option<u32> {
        let inode = format!(":{} ", self.0.metadata().unwrap().ino());
        let table = std::fs::read_to_string("/proc/locks").unwrap();
        let held = table.lines().find(|line| line.contains(": FLOCK") && line.contains(&inode))?;
        held.split_ascii_whitespace().nth(4)?.parse().ok()
    }

    /// How many processes wait for it, as the kernel's table of locks says.
    pub(crate) fn waiting(&self) -> usize {
        let inode = format!(":{} ", self.0.metadata().unwrap().ino());
        let table = std::fs::read_to_string("/proc/locks").unwrap();
        table.lines().filter(|line| line.contains("-> FLOCK") && line.contains(&inode)).count()
    }

    #[track_caller]
    pub(crate) fn wait_until_waiting(&self, processes: usize) {
        eventually("the processes to stand in the writers' queue", || {
            (self.waiting() >= processes).then_some(())
        });
    }
}
