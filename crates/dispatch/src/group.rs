//! Ends the processes that a dead holder left behind.
//!
//! When a supervisor is killed with -9, its direct child dies with it, but the child's own children live on in the recorded
//! group. Before someone else takes the task over, [`end`] ends them, and nothing else:
//!
//! - **only members of that group** that are visible here: on this machine, this boot, this pid namespace (the caller checks
//!   the first two, `/proc` shows the third);
//! - **only carriers of the instance**: started with `ONUS_INSTANCE=<instance>` in their environment. Once all members are
//!   gone, the group's id is free, and a stranger's group may have it by now. (A session id would not
//!   help: it can be reused just the same.)
//! - **by pidfd**. A pid is opened first, then examined, and then the process behind the descriptor is checked to be still
//!   running: so the examined process is that one and not a later one with the same pid, and the
//!   signal goes to the descriptor and not to the number.
//!
//! Everything else in the group is left alone and listed with the reason, for a person to decide. A process that left the group
//! (for a session of its own) is not found.

/// A process that was left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub pid: u32,
    pub comm: String,
    pub why: Why,
}

/// Why a process was left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It does not carry the instance: it is somebody else's, or its environment was replaced.
    NotACarrier,
    /// Its environment cannot be read: it is another user's.
    Unreadable,
    /// It may not be signalled.
    NotPermitted,
    /// Not even KILL ended it in time.
    StillRunning,
    /// It is this process.
    Itself,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Why::NotACarrier => "does not have the instance in its environment",
            Why::Unreadable => "its environment cannot be read",
            Why::NotPermitted => "may not be signalled",
            Why::StillRunning => "is still running after KILL",
            Why::Itself => "is this process",
        })
    }
}

/// What became of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub ended: Vec<u32>,
    pub left: Vec<Left>,
}

#[cfg(target_os = "linux")]
pub use linux::end;

/// Without pidfds, no signal is certain to reach the intended process.
#[cfg(not(target_os = "linux"))]
pub fn end(_instance: &str, _pgid: u32, _grace: std::time::Duration) -> std::io::Result<Ended> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Pids and names of visible processes that were started with one of these entries (`NAME=value`) in their environment.
#[cfg(target_os = "linux")]
pub fn carriers(entries: &[String]) -> Vec<(u32, String)> {
    if !onus_os::stat::is_ours() {
        return Vec::new();
    }
    let carries =
        |pid| entries.iter().any(|entry| onus_os::stat::was_started_with(pid, entry).unwrap_or_default());
    let running = onus_os::stat::running().filter(|stat| stat.pid != std::process::id() && carries(stat.pid));
    running.map(|stat| (stat.pid, stat.comm)).collect()
}

#[cfg(not(target_os = "linux"))]
pub fn carriers(_entries: &[String]) -> Vec<(u32, String)> {
    Vec::new()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::{Duration, Instant};

    use onus_os::stat;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::{Errno, retry_on_intr};
    use rustix::process::{PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

    use super::{Ended, Left, Why};

    /// How often to look for members that were started meanwhile.
    const ROUND: Duration = Duration::from_millis(50);
    /// How long killed processes may take to go.
    const AFTER_KILL: Duration = Duration::from_secs(5);

    /// A carrier, pinned by its pidfd.
    struct Member {
        comm: String,
        pidfd: OwnedFd,
        told: Option<Signal>,
    }

    /// Ends the members of a group that carry the instance: TERM, and KILL after the grace period.
    /// Returns an error, having done nothing, if processes are not visible here at all.
    pub fn end(instance: &str, pgid: u32, grace: Duration) -> io::Result<Ended> {
        if !stat::is_ours() {
            return Err(io::Error::other("/proc does not show this pid namespace"));
        }
        let entry = format!("ONUS_INSTANCE={instance}");
        let kill_at = Instant::now() + grace;
        let give_up_at = kill_at + AFTER_KILL;
        let mut carriers: BTreeMap<u32, Member> = BTreeMap::new();
        let mut ended = Vec::new();
        let mut rounds = 0;
        loop {
            rounds += 1;
            // Listed again in every round, since a member may have started others before it ended.
            let mut left = Vec::new();
            for stat in stat::running().filter(|stat| stat.group == pgid) {
                if let Some(member) = carriers.get_mut(&stat.pid) {
                    // A signal that a shell's child gets before its exec may be lost in the shell's trap, so it is sent again.
                    if member.comm != stat.comm {
                        member.comm = stat.comm;
                        member.told = None;
                    }
                    continue;
                }
                match pin(stat.pid, pgid, &entry) {
                    Ok(Some(pidfd)) => {
                        carriers.insert(stat.pid, Member { comm: stat.comm, pidfd, told: None });
                    }
                    Ok(None) => {}
                    Err(why) => left.push(Left { pid: stat.pid, comm: stat.comm, why }),
                }
            }
            let now = Instant::now();
            let signal = if now < kill_at { Signal::TERM } else { Signal::KILL };
            carriers.retain(|pid, member| match member.signal(signal) {
                Ok(()) => true,
                Err(Errno::SRCH) => {
                    ended.push(*pid);
                    false
                }
                Err(_) => {
                    left.push(Left { pid: *pid, comm: member.comm.clone(), why: Why::NotPermitted });
                    false
                }
            });
            // During exec a process has no environment for a moment, so it is examined again.
            let certain = rounds > 1 || !left.iter().any(|left| left.why == Why::NotACarrier);
            if carriers.is_empty() && certain || now >= give_up_at {
                let still =
                    |(pid, member): (u32, Member)| Left { pid, comm: member.comm, why: Why::StillRunning };
                left.extend(carriers.into_iter().map(still));
                ended.sort_unstable();
                left.sort_unstable_by_key(|left| left.pid);
                return Ok(Ended { ended, left });
            }
            wait(&carriers)?;
            carriers.retain(|pid, member| {
                let runs = is_running(&member.pidfd);
                if !runs {
                    ended.push(*pid);
                }
                runs
            });
        }
    }

    impl Member {
        /// Sends each signal once, since to many programs a second one means more than the first. A stopped process must be continued
        /// to receive it.
        fn signal(&mut self, signal: Signal) -> rustix::io::Result<()> {
            if self.told == Some(signal) {
                return Ok(());
            }
            pidfd_send_signal(&self.pidfd, signal)?;
            self.told = Some(signal);
            match pidfd_send_signal(&self.pidfd, Signal::CONT) {
                Err(Errno::SRCH) | Ok(()) => Ok(()),
                Err(error) => Err(error),
            }
        }
    }

    /// Opens a descriptor for a member that carries the entry. None if it is gone; the error says why it is left alone.
    fn pin(pid: u32, pgid: u32, entry: &str) -> Result<Option<OwnedFd>, Why> {
        let Some(raw) = stat::pid(pid) else { return Ok(None) };
        if raw == getpid() {
            return Err(Why::Itself);
        }
        let pidfd = match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Ok(None),
            Err(_) => return Err(Why::Unreadable),
        };
        let is_member = stat::stat(&pid.to_string()).is_some_and(|stat| stat.group == pgid);
        let carries = stat::was_started_with(pid, entry);
        // It was running throughout, so what was read is not that of a later process with the same pid.
        if !is_running(&pidfd) || !is_member {
            return Ok(None);
        }
        match carries {
            Ok(true) => Ok(Some(pidfd)),
            Ok(false) => Err(Why::NotACarrier),
            Err(_) => Err(Why::Unreadable),
        }
    }

    fn is_running(pidfd: &OwnedFd) -> bool {
        let now = Timespec::default();
        // A pidfd becomes readable when its process ends.
        retry_on_intr(|| poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now))) == Ok(0)
    }

    /// Waits until one of them ends, or for a round.
    fn wait(carriers: &BTreeMap<u32, Member>) -> io::Result<()> {
        let mut fds: Vec<PollFd<'_>> =
            carriers.values().map(|member| PollFd::new(&member.pidfd, PollFlags::IN)).collect();
        let round = Timespec { tv_sec: 0, tv_nsec: ROUND.subsec_nanos().into() };
        match poll(&mut fds, Some(&round)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
