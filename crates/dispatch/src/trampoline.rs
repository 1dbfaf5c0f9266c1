//! The trampoline: our own program again, which prepares the new process in a few system calls and then becomes the command.
//!
//! Otherwise this would have to happen between fork and exec, in a copy of a process with threads, where next to nothing is
//! allowed. A program that was just started may do everything. It keeps its pid, its start time and its group when it becomes
//! the command.
//!
//! In this order:
//!
//! 1. **Die with the supervisor.** `PR_SET_PDEATHSIG`: the kernel sends SIGKILL when the parent ends, for whatever reason.
//!    "Parent" is the *thread* that started us, so the supervisor starts us from its main thread, which lives as long as the
//!    process. The setting survives exec, except of a program with set-uid, set-gid or capabilities of its own, and
//!    is not inherited: what the command starts is found by its group and its environment ([`crate::group`]). (macOS has
//!    no such thing: there this step does nothing.)
//! 2. **Check that the parent is still the supervisor**, by pid and start time. If it died before step 1, we have another parent,
//!    and no signal would come. Checking after step 1 closes that window.
//! 3. **Wait for the word to go**, which brings the command's standard input with it. By then the supervisor has recorded
//!    our group and lent us the terminal. If the supervisor died, the line ends, and so do we.
//! 4. **Unblock the signals** that the supervisor holds back from itself (`signals`): a mask survives exec.
//! 5. **Become the command.** A failure is reported on the same line, with the system's error number; on success,
//!    exec closes the line. So the supervisor can distinguish a command that exits with 127 from one that was not
//!    found. (Rust ignores SIGPIPE in our programs; std's exec gives the command the default.)
//!
//! **The line** is a socket on our standard input, because without `unsafe` a child can only be given standard input, output and
//! error. That is why the command's own input has to come over it.

use std::ffi::OsString;
use std::io::{self, IoSliceMut, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

use onus_os::stat;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, getppid};

use crate::signals;

/// The hidden subcommand that makes our program the trampoline:
/// `__exec PARENT START -- COMMAND…`.
pub const NAME: &str = "__exec";

/// The exit code if the command was not started. The reason is reported over the line.
const NOT_STARTED: u8 = 125;

/// The step that failed, as reported over the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Orphaned,
    Prepare,
    Exec,
}

impl Step {
    const ALL: [(Step, &'static str); 3] =
        [(Step::Orphaned, "orphaned"), (Step::Prepare, "prepare"), (Step::Exec, "exec")];
}

/// Writes a report: `STEP ERRNO`.
fn report(step: Step, error: &io::Error) -> String {
    let name = Step::ALL.iter().find(|(this, _)| *this == step).map_or("", |(_, name)| name);
    format!("{name} {}", error.raw_os_error().unwrap_or_default())
}

pub(crate) fn read_report(text: &str) -> Option<(Step, io::Error)> {
    let (name, errno) = text.split_once(' ')?;
    let (step, _) = Step::ALL.into_iter().find(|(_, this)| *this == name)?;
    Some((step, io::Error::from_raw_os_error(errno.parse().ok()?)))
}

/// Becomes the command; returns only if that failed. `words` are what follows [`NAME`].
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    // A copy that exec closes; descriptor 0 itself is replaced by the command's input.
    let line = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let Ok(mut line) = line else { return ExitCode::from(NOT_STARTED) };
    let (step, error) = become_command(words.into_iter(), &line);
    if line.write_all(report(step, &error).as_bytes()).is_err() {
        // Somebody called this by hand, or the supervisor is gone.
        let _ = writeln!(io::stderr(), "onus: {NAME} is only for its supervisor: {error}");
    }
    ExitCode::from(NOT_STARTED)
}

fn become_command(mut words: impl Iterator<Item = OsString>, line: &UnixStream) -> (Step, io::Error) {
    let mut number = || words.next()?.to_str()?.parse::<u64>().ok();
    let (Some(parent), Some(start)) = (number(), number()) else {
        return (Step::Prepare, io::ErrorKind::InvalidInput.into());
    };
    if let Err(error) = die_with_parent() {
        return (Step::Prepare, error);
    }
    if !is_parent(parent, start) {
        return (Step::Orphaned, rustix::io::Errno::SRCH.into());
    }
    let stdin = match wait_for_go(line).and_then(|stdin| signals::let_through().map(|()| stdin)) {
        Ok(stdin) => stdin,
        Err(error) => return (Step::Prepare, error),
    };
    let mut words = words.skip_while(|word| word == "--");
    let Some(program) = words.next() else {
        return (Step::Prepare, io::ErrorKind::InvalidInput.into());
    };
    (Step::Exec, Command::new(program).args(words).stdin(Stdio::from(stdin)).exec())
}

#[cfg(target_os = "linux")]
fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent() -> io::Result<()> {
    Ok(())
}

/// Whether this is still our parent. If start times are unknown (0), only the pid is compared.
fn is_parent(pid: u64, start: u64) -> bool {
    let now = getppid().map(stat::number);
    let same_start = |now: u32| stat::stat(&now.to_string()).is_none_or(|stat| stat.start == start);
    now.is_some_and(|now| u64::from(now) == pid && (start == 0 || same_start(now)))
}

/// Exec closes the received descriptor; the command gets a copy of it as its standard input. (Without the flag
/// it stays open beside that copy.)
#[cfg(target_os = "linux")]
const RECEIVED: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const RECEIVED: RecvFlags = RecvFlags::empty();

fn wait_for_go(line: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0];
    rustix::io::retry_on_intr(|| recvmsg(line, &mut [IoSliceMut::new(&mut word)], &mut control, RECEIVED))?;
    let mut sent = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let stdin = sent.next().and_then(|mut descriptors| descriptors.next());
    stdin.ok_or_else(|| rustix::io::Errno::PIPE.into())
}

/// The identity of this process, for its children to check: pid and start time (0 if unknown).
pub(crate) fn own_identity() -> (Pid, u64) {
    (rustix::process::getpid(), stat::stat("self").map_or(0, |stat| stat.start))
}
