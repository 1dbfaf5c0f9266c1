//! What the operating system says about processes: who they are, who started them, whether they live.
//!
//! A pid alone names nobody: it is reused, it means something else in another pid namespace, and it does not survive
//! a reboot. Only who shares boot and pid namespace with a process may call it dead, and "I may not look" is not
//! "it is not there".

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

use onus_core::lease::{Process, Seen};
use onus_core::refusal::Refusal;
use onus_store::clock;

/// How far up the ancestors are followed.
const MAX_ANCESTORS: usize = 64;

struct Stat {
    pid: u32,
    /// The program's name, as far as the kernel keeps it.
    name: String,
    state: char,
    parent: u32,
    threads: u64,
    start: u64,
}

impl Stat {
    /// Ended, and waiting for its parent to notice. The state is the main thread's: while others run, so does
    /// the process.
    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

fn stat(of: &str) -> Option<Stat> {
    // One read gives it whole; every command asks this of each process above it.
    let mut text = [0; 2_048];
    let length = std::fs::File::open(format!("/proc/{of}/stat")).ok()?.read(&mut text).ok()?;
    // The program's name is in parentheses and may contain anything.
    let name_end = text[..length].iter().rposition(|byte| *byte == b')')?;
    let name_start = text[..name_end].iter().position(|byte| *byte == b'(')?;
    let head = std::str::from_utf8(&text[..name_start]).ok()?;
    let tail = std::str::from_utf8(&text[name_end + 1..length]).ok()?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    Some(Stat {
        pid: head.trim_end().parse().ok()?,
        name: String::from_utf8_lossy(&text[name_start + 1..name_end]).into_owned(),
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        threads: fields.get(17)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

fn pid_namespace() -> &'static str {
    static NAMESPACE: OnceLock<String> = OnceLock::new();
    NAMESPACE.get_or_init(|| clock::namespace("pid"))
}

/// Whether `/proc` shows this process's own pid namespace. After `unshare -p` alone it shows the outer one.
fn proc_is_ours() -> bool {
    static OURS: OnceLock<bool> = OnceLock::new();
    *OURS.get_or_init(|| {
        let own = u32::try_from(getpid().as_raw_nonzero().get()).ok();
        own.is_some() && stat("self").map(|stat| stat.pid) == own
    })
}

fn identity(pid: u32, start: u64) -> Process {
    let domain = clock::domain();
    Process {
        machine: domain.machine().to_owned(),
        boot: domain.boot().to_owned(),
        pid_ns: pid_namespace().to_owned(),
        time_ns: domain.time_ns().to_owned(),
        pid,
        start,
    }
}

/// The identity of a living process of this machine.
pub fn identify(pid: u32) -> Result<Process, Refusal> {
    let refuse = |why: String| Err(Refusal::usage(why));
    if !proc_is_ours() {
        return refuse(
            "processes cannot be told apart here: /proc does not show this pid namespace".to_owned(),
        );
    }
    match stat(&pid.to_string()) {
        Some(stat) if !stat.has_ended() => Ok(identity(pid, stat.start)),
        _ => refuse(format!("there is no process {pid}: give the id of one that is running")),
    }
}

/// This process and those above it, nearest first. Where `/proc` shows another pid namespace, this one alone: that it is
/// elsewhere can be told still.
pub fn ancestry() -> Vec<Process> {
    if !proc_is_ours() {
        let pid = u32::try_from(getpid().as_raw_nonzero().get()).ok();
        return pid.zip(stat("self")).map(|(pid, stat)| identity(pid, stat.start)).into_iter().collect();
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

/// Programs that run others' commands on their behalf.
const SHELLS: [&str; 14] = [
    "sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "ash", "busybox", "csh", "tcsh", "nu", "env",
    "timeout",
];

/// The program that had this one started: the nearest process above that is not a shell.
pub fn launcher() -> Option<Process> {
    if !proc_is_ours() {
        return None;
    }
    let mut above = stat("self")?.parent;
    for _ in 0..MAX_ANCESTORS {
        let stat = stat(&above.to_string()).filter(|stat| stat.pid > 1)?;
        if !SHELLS.contains(&stat.name.trim_start_matches('-')) {
            return Some(identity(stat.pid, stat.start));
        }
        above = stat.parent;
    }
    None
}

/// Whether a process lives, as far as this one can tell.
pub fn observe(process: &Process) -> Seen {
    let domain = clock::domain();
    let shares = process.boot == domain.boot()
        && process.pid_ns == pid_namespace()
        && process.time_ns == domain.time_ns();
    if !shares || !proc_is_ours() {
        return Seen::Unseen;
    }
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return Seen::Dead };
    if test_kill_process(pid) == Err(Errno::SRCH) {
        return Seen::Dead;
    }
    match stat(&process.pid.to_string()) {
        // Another process under a reused pid, or one that ended.
        Some(stat) if stat.start != process.start || stat.has_ended() => Seen::Dead,
        Some(_) => Seen::Alive,
        // Hidden from us (hidepid), or gone since the question above.
        None if test_kill_process(pid) == Err(Errno::SRCH) => Seen::Dead,
        None => Seen::Alive,
    }
}

/// Something to poll that can be read once the process has ended. None: it has ended, or it cannot be watched.
#[cfg(target_os = "linux")]
pub(crate) fn end_of(process: &Process) -> Option<OwnedFd> {
    use rustix::process::{PidfdFlags, pidfd_open};
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw)?;
    let end = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // Whoever had this pid when the file was opened: the one that is meant, if that one lives still.
    (observe(process) == Seen::Alive).then_some(end)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn end_of(_process: &Process) -> Option<OwnedFd> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_heads_its_own_ancestry() {
        let me = identify(std::process::id()).unwrap();
        assert_eq!(observe(&me), Seen::Alive);
        assert_eq!(ancestry().first(), Some(&me));
    }

    #[test]
    fn whoever_has_us_started_is_no_shell() {
        // Cargo or another runner started this test; below it a shell would be passed over.
        let launcher = launcher().unwrap();
        let above = ancestry();
        assert!(above.iter().skip(1).any(|process| *process == launcher), "{launcher:?} of {above:?}");
        let name = stat(&launcher.pid.to_string()).unwrap().name;
        assert!(!SHELLS.contains(&name.as_str()), "{name}");
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
        // What the end says, the look that follows sees.
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
