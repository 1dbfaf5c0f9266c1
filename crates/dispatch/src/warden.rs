//! The warden: a process of ours above a repository's command and everything that it starts, until all of it is gone.
//!
//! A check that a repository configures may start servers, put them in sessions of their own, fork twice and exit. A
//! supervisor that knows only the command's process group would leave them behind. So the command is started by a *warden*, another
//! process of our own program, which is
//!
//! - **their reaper** (`PR_SET_CHILD_SUBREAPER`): every descendant that loses its parent becomes the warden's child, however it
//!   detached itself. While anything of the command runs, the warden has a child; when it has none, nothing is left.
//!   Only the warden reaps them, so the pids that it signals are theirs;
//! - **connected to its caller** by *the line*, a socket on its standard input, on which it reports the outcome. When the line
//!   ends, the caller is gone or wants to stop: the command is stopped, and everything else with it. A kill -9 of the caller ends the
//!   line, too;
//! - **in a session of its own**, without a terminal: a key that is meant for us does not reach the command, and the command cannot
//!   prompt anybody.
//!
//! Within its group the command is supervised like any other ([`crate::supervise()`]): its time limit is the deadline of the
//! lease, and the line renews it. What is left after that gets TERM, and KILL after the grace period.
//!
//! If the warden itself is killed with -9, the command dies with it ([`crate::trampoline`]), but not what left the command's group.
//! (macOS has no subreapers: there, only the group is ended.)

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use onus_os::stat::{self, Stat};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, waitpid};

use crate::spawn::{Passing, SpawnError, Spec, Trampoline, Waiting};
use crate::supervise::{Exit, Hooks, Renewal, Stop, Terms, supervise};

/// The hidden subcommand that makes our program a warden: `__ward LIMIT_MS GRACE_MS -- COMMAND…`.
pub const NAME: &str = "__ward";

/// How often adopted processes that ended are reaped.
const ROUND: Duration = Duration::from_millis(500);
/// How long killed processes may take to go.
#[cfg(target_os = "linux")]
const AFTER_KILL: Duration = Duration::from_secs(5);

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Exited(i32),
    Killed(i32),
    /// It reached its time limit.
    OutOfTime,
    /// Its caller stopped it.
    Stopped,
    /// It was never started; with the exit code of shells for that (125, 126, 127) and the reason.
    NotStarted(u8, String),
    /// Its warden was killed, so the outcome is unknown.
    Unknown,
}

impl Outcome {
    /// As one line of text.
    fn told(&self) -> String {
        match self {
            Outcome::Exited(code) => format!("exited {code}"),
            Outcome::Killed(signal) => format!("killed {signal}"),
            Outcome::OutOfTime => "late".to_owned(),
            Outcome::Stopped => "stopped".to_owned(),
            Outcome::NotStarted(code, why) => format!("not-started {code} {}", why.replace('\n', " ")),
            Outcome::Unknown => String::new(),
        }
    }

    pub(crate) fn read(told: &str) -> Outcome {
        let (word, rest) = told.trim_end().split_once(' ').unwrap_or((told.trim_end(), ""));
        let number = |text: &str| text.parse().ok();
        let outcome = match word {
            "exited" => number(rest).map(Outcome::Exited),
            "killed" => number(rest).map(Outcome::Killed),
            "late" => Some(Outcome::OutOfTime),
            "stopped" => Some(Outcome::Stopped),
            "not-started" => rest
                .split_once(' ')
                .and_then(|(code, why)| Some(Outcome::NotStarted(code.parse().ok()?, why.to_owned()))),
            _ => None,
        };
        outcome.unwrap_or(Outcome::Unknown)
    }
}

/// Runs as a warden. `words` are what follows [`NAME`].
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    // A copy that no command inherits; descriptor 0 itself is replaced for the command.
    let line = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let Ok(mut line) = line else { return ExitCode::FAILURE };
    let outcome = ward(words.into_iter(), &line).unwrap_or_else(not_started);
    match line.write_all(outcome.told().as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // The caller is gone.
        Err(_) => ExitCode::FAILURE,
    }
}

fn not_started(error: SpawnError) -> Outcome {
    Outcome::NotStarted(error.exit_code(), error.to_string())
}

fn ward(mut words: impl Iterator<Item = OsString>, line: &UnixStream) -> Result<Outcome, SpawnError> {
    let mut ms = || words.next()?.to_str()?.parse().ok().map(Duration::from_millis);
    let (Some(limit), Some(grace)) = (ms(), ms()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
    };
    let mut words = words.skip_while(|word| word == "--");
    let Some(program) = words.next() else { return Err(io::Error::from(io::ErrorKind::InvalidInput).into()) };
    rustix::process::setsid().map_err(io::Error::from)?;
    adopt_orphans()?;
    let spec = Spec {
        program,
        args: words.collect(),
        env: Vec::new(),
        inherits: true,
        folder: std::env::current_dir()?,
        passing: Passing::Shared,
        trampoline: Trampoline::of_this_program()?,
    };
    let deadline = Instant::now() + limit;
    let child = Waiting::spawn(spec)?.start()?;
    let (leader, line) = (child.pid(), line.try_clone()?);
    let hooks = Hooks { renew: Box::new(move |_| listen(&line, leader, deadline)), tell: Box::new(|_| {}) };
    let terms =
        Terms { renew_every: Duration::ZERO, trusted_until: Some(deadline), margin: Duration::ZERO, grace };
    let report = supervise(child, &terms, hooks)?;
    end_the_rest(grace);
    Ok(match (report.stopped, report.exit) {
        (Some(Stop::Untrusted { .. }), _) => Outcome::OutOfTime,
        (Some(Stop::Fenced { .. }), _) => Outcome::Stopped,
        (None, Exit::Code(code)) => Outcome::Exited(code),
        (None, Exit::Signal(signal)) => Outcome::Killed(signal),
    })
}

/// Waits for a round, or until the line ends. Returns whether the caller is still there.
fn listen(line: &UnixStream, leader: u32, deadline: Instant) -> Renewal {
    // The supervisor counts from when it asked, which is before the round.
    let left = deadline.saturating_duration_since(Instant::now());
    let mut ends = [PollFd::new(line, PollFlags::IN)];
    let round = Timespec { tv_sec: 0, tv_nsec: ROUND.subsec_nanos().into() };
    let _ = poll(&mut ends, Some(&round));
    // Nothing is ever written to it, so it becomes readable only at its end.
    if !ends[0].revents().is_empty() {
        return Renewal::Fenced { why: "nobody asks for it any more".to_owned() };
    }
    reap_adopted(leader);
    Renewal::Kept { next_in: Duration::ZERO, trusted_for: Some(left) }
}

#[cfg(target_os = "linux")]
fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

#[cfg(not(target_os = "linux"))]
fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// Reaps adopted processes that ended. The command itself is not reaped until its group is gone.
fn reap_adopted(leader: u32) {
    let ours = std::process::id();
    let adopted = stat::all().filter(|stat| stat.parent == ours && stat.pid != leader);
    for pid in adopted.filter(Stat::has_ended).filter_map(|stat| stat::pid(stat.pid)) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Ends what the command left behind outside its group: TERM, and KILL after the grace period.
#[cfg(target_os = "linux")]
fn end_the_rest(grace: Duration) {
    use rustix::process::{Signal, kill_process, wait};
    use std::collections::BTreeMap;

    let ours = std::process::id();
    let kill_at = Instant::now() + grace;
    let give_up_at = kill_at + AFTER_KILL;
    let mut told: BTreeMap<u32, Signal> = BTreeMap::new();
    loop {
        // Reaps every child that ended. An error means that there are no children, so nothing is left.
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        let now = Instant::now();
        if now >= give_up_at {
            return;
        }
        let signal = if now < kill_at { Signal::TERM } else { Signal::KILL };
        // When they end, their children become ours and are signalled in a later round.
        for stat in stat::running().filter(|stat| stat.parent == ours) {
            let Some(pid) = stat::pid(stat.pid) else { continue };
            if told.insert(stat.pid, signal) != Some(signal) {
                let _ = kill_process(pid, signal);
                let _ = kill_process(pid, Signal::CONT);
            }
        }
        let look = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        let _ = poll(&mut [], Some(&look));
    }
}

#[cfg(not(target_os = "linux"))]
fn end_the_rest(_grace: Duration) {}
