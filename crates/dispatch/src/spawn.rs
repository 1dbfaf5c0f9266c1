//! Starts a command in a process group of its own, in two steps: the process, then the command in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSlice, IsTerminal, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use onus_os::stat;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

use crate::output::Passage;
use crate::signals::Held;
use crate::terminal::Terminal;
use crate::trampoline::{self, Step};

/// Longer than any file system takes to read a program's first page.
const EXEC_LIMIT: Duration = Duration::from_secs(60);

/// What is to be run, and how.
#[derive(Clone, Debug)]
pub struct Spec {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Added to the environment of this process, if the command inherits that.
    pub env: Vec<(String, String)>,
    pub inherits: bool,
    pub folder: PathBuf,
    pub passing: Passing,
    pub trampoline: Trampoline,
}

/// Where the command's output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// Its stdout to ours, its stderr to ours.
    AsItIs,
    /// Both to our stderr, since our stdout is for something else.
    AllToStderr,
    /// The command has our own stdout and stderr, whatever they are, and no input.
    Shared,
}

/// Our own program, and the arguments that make it the trampoline.
#[derive(Clone, Debug)]
pub struct Trampoline {
    pub program: PathBuf,
    pub words: Vec<OsString>,
}

impl Trampoline {
    /// The running program. On Linux by the kernel's link to it, which still works when the file was replaced by a
    /// newer version or removed.
    pub fn of_this_program() -> io::Result<Trampoline> {
        let program = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe()?
        };
        Ok(Trampoline { program, words: vec![trampoline::NAME.into()] })
    }
}

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("command not found: {}", .0.display())]
    NotFound(OsString),
    #[error("cannot run the command {}: {source}", .program.display())]
    NotExecutable { program: OsString, source: io::Error },
    /// The kernel ties a child's life to the thread that started it.
    #[error("a command can be started only from the main thread")]
    NotTheMainThread,
    #[error("cannot start a process for the command: {0}")]
    System(#[from] io::Error),
}

impl SpawnError {
    /// The exit code of shells, `env` and `nohup`: 127 not found, 126 found but not run, 125 for their own failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            SpawnError::NotFound(_) => 127,
            SpawnError::NotExecutable { .. } => 126,
            SpawnError::NotTheMainThread | SpawnError::System(_) => 125,
        }
    }
}

/// A direct child that is not reaped yet: until then, neither its pid nor its group's id can be reused.
/// Dropping this kills it.
#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) pid: Pid,
    reaped: bool,
}

impl Leader {
    /// Signals every member of the group. An empty group is not an error: they may all have ended.
    pub(crate) fn signal_group(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// Reaps the process after it ended, which frees its pid.
    pub(crate) fn reap(&mut self) {
        if !self.reaped {
            self.reaped = true;
            let _ = rustix::io::retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()));
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal_group(Signal::KILL);
            self.reap();
        }
    }
}

/// A process that waits to become the command. Dropping it kills it.
#[derive(Debug)]
pub struct Waiting {
    program: OsString,
    line: UnixStream,
    stdin: OwnedFd,
    child: Child,
}

/// A command that was started and has to be supervised ([`crate::supervise()`]). Dropping it kills it.
#[derive(Debug)]
pub struct Child {
    pub(crate) leader: Leader,
    pub(crate) passages: [Option<Passage>; 2],
    pub(crate) terminal: Option<Terminal>,
    pub(crate) signals: Held,
}

impl Waiting {
    /// Starts the process of a command, in a group of its own. From here on, signals are held back for the supervisor.
    pub fn spawn(spec: Spec) -> Result<Waiting, SpawnError> {
        if !is_main_thread() {
            return Err(SpawnError::NotTheMainThread);
        }
        let (parent, start) = trampoline::own_identity();
        let (line, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&spec.trampoline.program);
        if !spec.inherits {
            command.env_clear();
        }
        command
            .args(&spec.trampoline.words)
            .args([stat::number(parent).to_string(), start.to_string(), "--".to_owned()])
            .arg(&spec.program)
            .args(&spec.args)
            .envs(spec.env)
            .current_dir(&spec.folder)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0);
        let [(stdout, out), (stderr, err)] = match spec.passing {
            Passing::AsItIs => [stream(io::stdout())?, stream(io::stderr())?],
            Passing::AllToStderr => [stream(io::stderr())?, stream(io::stderr())?],
            Passing::Shared => [(Stdio::inherit(), None), (Stdio::inherit(), None)],
        };
        command.stdout(stdout).stderr(stderr);
        let signals = Held::hold()?;
        let child = command.spawn()?;
        // It still holds the child's ends of the pipes, which would never end.
        drop(command);
        let child = Child {
            leader: Leader { pid: Pid::from_child(&child), reaped: false },
            passages: [out, err],
            terminal: Terminal::controlling(),
            signals,
        };
        let stdin = match spec.passing {
            Passing::AsItIs | Passing::AllToStderr => io::stdin().as_fd().try_clone_to_owned()?,
            Passing::Shared => File::open("/dev/null")?.into(),
        };
        Ok(Waiting { program: spec.program, line, stdin, child })
    }

    /// The pid of the command, and the id of its group.
    pub fn pid(&self) -> u32 {
        stat::number(self.child.leader.pid)
    }

    /// Lets the process become the command.
    pub fn start(mut self) -> Result<Child, SpawnError> {
        let group = self.child.leader.pid;
        if let Some(terminal) = &mut self.child.terminal {
            terminal.lend(group);
        }
        let report = match self.go() {
            Ok(answer) => trampoline::read_report(&answer),
            Err(error) => Some((Step::Prepare, error)),
        };
        let failed = match report {
            None => return Ok(self.child),
            Some((Step::Exec, error)) if error.kind() == io::ErrorKind::NotFound => {
                SpawnError::NotFound(self.program)
            }
            Some((Step::Exec, source)) => SpawnError::NotExecutable { program: self.program, source },
            Some((Step::Orphaned | Step::Prepare, error)) => SpawnError::System(error),
        };
        if let Some(terminal) = &mut self.child.terminal {
            terminal.take_back(group, false);
        }
        Err(failed)
    }

    /// Sends the word to go, with the command's input. Returns what comes back: nothing, once the process has become the command.
    fn go(&mut self) -> io::Result<String> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let input = [self.stdin.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&input));
        let sent = rustix::io::retry_on_intr(|| {
            sendmsg(&self.line, &[IoSlice::new(b"g")], &mut control, SendFlags::empty())
        });
        // The process ended without waiting; the reason is on the line.
        if let Err(error) = sent
            && error != rustix::io::Errno::PIPE
        {
            return Err(error.into());
        }
        self.line.set_read_timeout(Some(EXEC_LIMIT))?;
        let mut answer = String::new();
        self.line.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Child {
    /// The pid of the command, and the id of its group.
    pub fn pid(&self) -> u32 {
        stat::number(self.leader.pid)
    }
}

/// What the child gets for one of our streams: the terminal itself, or a pipe whose content is passed on.
fn stream(ours: impl AsFd + IsTerminal) -> io::Result<(Stdio, Option<Passage>)> {
    let to = ours.as_fd().try_clone_to_owned()?;
    if ours.is_terminal() {
        return Ok((Stdio::from(to), None));
    }
    let (from, theirs) = io::pipe()?;
    Ok((Stdio::from(theirs), Some(Passage { from: from.into(), to: File::from(to) })))
}

#[cfg(target_os = "linux")]
fn is_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// On other systems no child is tied to a thread.
#[cfg(not(target_os = "linux"))]
fn is_main_thread() -> bool {
    true
}

/// Whether a program may exist: false only if it certainly does not. A name without a slash is searched
/// for in `PATH`, as exec does.
pub fn is_there(program: &OsStr, folder: &Path) -> bool {
    if program.is_empty() {
        return false;
    }
    if program.as_encoded_bytes().contains(&b'/') {
        return folder.join(program).exists();
    }
    // Without PATH, exec uses a default of its own.
    let Some(path) = std::env::var_os("PATH") else { return true };
    std::env::split_paths(&path).any(|entry| folder.join(entry).join(program).exists())
}
