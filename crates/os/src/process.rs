//! Processes: their identity, their ancestors, and whether they live.
//!
//! A pid alone identifies nothing: it is reused, it means something else in another pid namespace, and it does not survive
//! a reboot. [`onus_core::sight`] decides what an observer can know. "I may not look" is not "it does not exist".

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{getpid, test_kill_process};

use onus_core::lease::{Process, Seen};
use onus_core::refusal::Refusal;
use onus_core::sight::{Mark, Sight, Vantage};

use crate::clock;
use crate::stat::{is_ours, number, pid, stat};

/// How far up the ancestors are followed.
const MAX_ANCESTORS: usize = 64;

fn pid_namespace() -> &'static Mark {
    static NAMESPACE: OnceLock<Mark> = OnceLock::new();
    NAMESPACE.get_or_init(|| clock::namespace("pid"))
}

/// The place from which this process looks at others.
fn vantage() -> Vantage {
    let domain = clock::domain();
    Vantage {
        machine: domain.machine(),
        boot: domain.boot(),
        pid_ns: pid_namespace().clone(),
        time_ns: domain.time_ns(),
        uptime_ms: clock::uptime_ms(),
    }
}

fn identity(pid: u32, start: u64) -> Process {
    let domain = clock::domain();
    Process {
        machine: domain.machine(),
        boot: domain.boot(),
        pid_ns: pid_namespace().clone(),
        time_ns: domain.time_ns(),
        pid,
        start,
        unique: false,
    }
}

/// The process that a thread belongs to. `/proc` also has an entry for each thread's id, although it does not list it.
fn process_of(id: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// The identity of a living process of this machine.
pub fn identify(pid: u32) -> Result<Process, Refusal> {
    let refuse = |why: String| Err(Refusal::usage(why));
    if !is_ours() {
        return refuse(
            "processes cannot be identified here: /proc does not show this pid namespace".to_owned(),
        );
    }
    match stat(&pid.to_string()) {
        Some(stat) if !stat.has_ended() => match process_of(pid) {
            Some(process) if process != pid => refuse(format!(
                "{pid} is a thread of process {process}, and may end before it: give the id of a process"
            )),
            _ => Ok(identity(pid, stat.start)),
        },
        _ => refuse(format!("there is no process {pid}: give the id of one that is running")),
    }
}

/// This process and its ancestors, nearest first. If `/proc` shows another pid namespace, this process alone: its namespace is
/// still known.
pub fn ancestry() -> Vec<Process> {
    if !is_ours() {
        return stat("self").map(|stat| identity(number(getpid()), stat.start)).into_iter().collect();
    }
    let mut chain = Vec::with_capacity(8);
    let mut next = stat("self");
    while let Some(stat_now) = next.take() {
        chain.push(identity(stat_now.pid, stat_now.start));
        if stat_now.parent > 0 && chain.len() < MAX_ANCESTORS {
            next = stat(&stat_now.parent.to_string());
        }
    }
    chain
}

/// Programs that run commands on behalf of others.
const SHELLS: [&str; 14] = [
    "sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "ash", "busybox", "csh", "tcsh", "nu", "env",
    "timeout",
];

/// The program that started this one: the nearest ancestor that is not a shell.
pub fn launcher() -> Option<Process> {
    if !is_ours() {
        return None;
    }
    let mut above = stat("self")?.parent;
    for _ in 0..MAX_ANCESTORS {
        let stat = stat(&above.to_string()).filter(|stat| stat.pid > 1)?;
        if !SHELLS.contains(&stat.comm.trim_start_matches('-')) {
            return Some(identity(stat.pid, stat.start));
        }
        above = stat.parent;
    }
    None
}

/// Whether a process lives, as far as this process can see.
pub fn observe(process: &Process) -> Seen {
    match vantage().sight_of(process) {
        Sight::Near if is_ours() => look_at(process),
        Sight::EarlierBoot { uptime_ms } => Seen::EarlierBoot { uptime_ms },
        Sight::Near | Sight::Far => Seen::Unseen,
    }
}

/// Whether a process of this pid namespace lives.
fn look_at(process: &Process) -> Seen {
    let Some(pid) = pid(process.pid) else { return Seen::Dead };
    if test_kill_process(pid) == Err(Errno::SRCH) {
        return Seen::Dead;
    }
    match stat(&process.pid.to_string()) {
        // Another process under a reused pid, or one that ended.
        Some(stat) if stat.start != process.start || stat.has_ended() => Seen::Dead,
        Some(_) => Seen::Alive,
        // Hidden from us (hidepid), or it has ended since the first test.
        None if test_kill_process(pid) == Err(Errno::SRCH) => Seen::Dead,
        None => Seen::Alive,
    }
}

/// A file descriptor that becomes readable once the process has ended. None: it has ended, or it cannot be watched.
#[cfg(target_os = "linux")]
pub fn end_of(process: &Process) -> Option<OwnedFd> {
    use rustix::process::{PidfdFlags, pidfd_open};
    let pid = pid(process.pid)?;
    let end = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // The descriptor is for the process that had this pid when it was opened: the right one, if that is still alive.
    (observe(process) == Seen::Alive).then_some(end)
}

#[cfg(not(target_os = "linux"))]
pub fn end_of(_process: &Process) -> Option<OwnedFd> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use crate::stat::Stat;

    use super::*;

    #[test]
    fn this_process_is_alive_and_heads_its_own_ancestry() {
        let me = identify(std::process::id()).unwrap();
        assert_eq!(observe(&me), Seen::Alive);
        assert_eq!(ancestry().first(), Some(&me));
    }

    #[test]
    fn whoever_has_us_started_is_no_shell() {
        // Cargo or another runner started this test; a shell between them would be skipped.
        let launcher = launcher().unwrap();
        let above = ancestry();
        assert!(above.iter().skip(1).any(|process| *process == launcher), "{launcher:?} of {above:?}");
        let name = stat(&launcher.pid.to_string()).unwrap().comm;
        assert!(!SHELLS.contains(&name.as_str()), "{name}");
    }

    #[test]
    fn a_thread_is_not_a_process() {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            held.recv()
        });
        let id: u32 = told.recv().unwrap().file_name().unwrap().to_str().unwrap().parse().unwrap();
        let refusal = identify(id).unwrap_err();
        let process = std::process::id();
        assert!(
            refusal.message.contains(&format!("{id} is a thread of process {process}")),
            "{}",
            refusal.message
        );
        assert_eq!(identify(process).unwrap().pid, process);
        drop(hold);
        assert!(thread.join().unwrap().is_err());
    }

    #[test]
    fn a_reused_pid_is_not_the_holder() {
        let mut other = identify(std::process::id()).unwrap();
        other.start += 1;
        assert_eq!(observe(&other), Seen::Dead);
    }

    #[test]
    fn unseen_is_not_dead() {
        let mut process = identify(std::process::id()).unwrap();
        process.pid = 4_000_000;
        assert_eq!(observe(&process), Seen::Dead);
        let elsewhen = Process { time_ns: "another".into(), ..process.clone() };
        assert_eq!(observe(&elsewhen), Seen::Unseen, "its start time means nothing here");
        process.pid_ns = "another".into();
        assert_eq!(observe(&process), Seen::Unseen);
    }

    #[test]
    fn a_process_whose_main_thread_ended_lives_while_others_run() {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || held.recv());
        let own = stat("self").unwrap();
        assert!(own.threads > 1 && !own.has_ended());
        let zombie = Stat { state: 'Z', ..own };
        assert!(!zombie.has_ended());
        assert!(Stat { threads: 1, ..zombie }.has_ended());
        drop(hold);
        assert!(thread.join().unwrap().is_err());
    }

    #[test]
    fn the_end_of_a_process_can_be_waited_for() {
        let has_come = |end: &OwnedFd| {
            let mut ears = [rustix::event::PollFd::new(end, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut ears, Some(&rustix::time::Timespec { tv_sec: 10, tv_nsec: 0 })).unwrap()
                == 1
        };
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let process = identify(child.id()).unwrap();
        let end = end_of(&process).unwrap();
        assert!(end_of(&Process { start: process.start + 1, ..process.clone() }).is_none(), "a reused pid");
        child.kill().unwrap();
        assert!(has_come(&end));
        // Once the descriptor is readable, an observation sees the process dead.
        assert_eq!(observe(&process), Seen::Dead);
        assert!(end_of(&process).is_none());
        child.wait().unwrap();
        assert!(end_of(&process).is_none());
    }

    #[test]
    fn a_process_that_ended_but_was_not_waited_for_is_dead() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let process = identify(child.id()).unwrap();
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while observe(&process) != Seen::Dead {
            assert!(std::time::Instant::now() < deadline, "still not seen dead");
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(observe(&process), Seen::Dead);
        assert!(identify(process.pid).is_err());
    }
}
