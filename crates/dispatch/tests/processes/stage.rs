//! A supervisor on a stage: a folder of its own, in which it plays what the test wrote and writes what happened.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(crate) const PUPPET: &str = env!("CARGO_BIN_EXE_onus-dispatch-puppet");

/// No machine is too slow for this.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    folder: TempDir,
}

/// A supervisor that runs. It does not outlive the test.
pub(crate) struct Supervisor {
    pub(crate) process: Child,
    folder: PathBuf,
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage { folder: tempfile::Builder::new().prefix("onus-dispatch-").tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.path().join(name).to_str().unwrap().to_owned()
    }

    /// What renewing gives from now on.
    pub(crate) fn renewing_gives(&self, what: &str) {
        let next = self.path().join("renew.next");
        std::fs::write(&next, what).unwrap();
        std::fs::rename(next, self.path().join("renew")).unwrap();
    }

    /// The supervisor of a command, in the test's own terms; nothing runs yet.
    pub(crate) fn supervisor(&self, settings: &[&str], command: &[&str]) -> Command {
        let mut puppet = Command::new(PUPPET);
        puppet.arg("supervise").arg(self.path()).args(settings).arg("--").args(command);
        puppet.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        puppet
    }

    /// Starts it, with its output thrown away.
    pub(crate) fn start(&self, settings: &[&str], command: &[&str]) -> Supervisor {
        let mut puppet = self.supervisor(settings, command);
        self.adopt(puppet.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn adopt(&self, process: Child) -> Supervisor {
        Supervisor { process, folder: self.path().to_owned() }
    }

    /// Starts a shell script under it. `$S` is the stage's folder.
    pub(crate) fn start_script(&self, settings: &[&str], script: &str) -> Supervisor {
        let script = script.replace("$S", self.path().to_str().unwrap());
        self.start(settings, &["/bin/sh", "-c", &script])
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// The first line of a file, as soon as it is whole.
    #[track_caller]
    pub(crate) fn line(&self, name: &str) -> String {
        let line = || self.read(name).split_once('\n').map(|(line, _)| line.to_owned());
        eventually(&format!("a line in {name}"), line)
    }

    /// The pid that a script wrote.
    #[track_caller]
    pub(crate) fn pid(&self, name: &str) -> u32 {
        self.line(name).trim().parse().unwrap()
    }

    /// The whole report, once the run is over.
    #[track_caller]
    pub(crate) fn report(&self) -> String {
        eventually("the report", || Some(self.read("report")).filter(|report| report.ends_with("over\n")))
    }
}

impl Supervisor {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(raw(self.process.id()), signal).unwrap();
    }

    /// Waits for its end and gives its exit code.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> i32 {
        let folder = self.folder.clone();
        let status = eventually(&format!("the supervisor of {}", folder.display()), || {
            self.process.try_wait().unwrap()
        });
        status.code().unwrap_or(-1)
    }
}

pub(crate) fn raw(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

/// The one-letter state of a process; None if it is gone or only not waited for.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let state = stat.rsplit_once(") ")?.1.chars().next()?;
    (!matches!(state, 'Z' | 'X')).then_some(state)
}

pub(crate) fn lives(pid: u32) -> bool {
    state(pid).is_some()
}

#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    while started.elapsed() < LIMIT {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited too long for {what}");
}

/// What can only be waited for, in the time that anything may take.
#[track_caller]
pub(crate) fn within<T: Send + 'static>(what: &str, wait: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, when_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(wait()));
    when_done.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("waited too long for {what}: {error}"))
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn output_of(command: &mut Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    within("a command to end", || child.wait_with_output().unwrap())
}

#[track_caller]
pub(crate) fn eventually_gone(pid: u32) {
    eventually(&format!("the end of process {pid}"), || (!lives(pid)).then_some(()));
}
