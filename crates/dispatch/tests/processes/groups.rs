//! Ending what a dead holder left behind.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use onus_dispatch::group::{Ended, Left, Why, end};

use crate::stage::{PUPPET, Stage, eventually, lives, output_of, state};

const GRACE: Duration = Duration::from_secs(30);

/// A process that ends with the test.
struct Guarded(Child);

impl Guarded {
    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A member of a group; of a new one if that is 0.
fn member(group: u32, instance: Option<&str>, command: &[&str]) -> Guarded {
    let mut process = Command::new(command[0]);
    process.args(&command[1..]).process_group(i32::try_from(group).unwrap()).stdin(Stdio::null());
    process.env_remove("ONUS_INSTANCE");
    if let Some(instance) = instance {
        process.env("ONUS_INSTANCE", instance);
    }
    Guarded(process.spawn().unwrap())
}

const SLEEP: &[&str] = &["sleep", "600"];

#[test]
fn only_carriers_of_the_instance_are_ended_and_others_are_listed() {
    let leader = member(0, Some("run-1"), SLEEP);
    let group = leader.pid();
    let second = member(group, Some("run-1"), SLEEP);
    let stranger = member(group, None, SLEEP);
    let other = member(group, Some("run-12"), SLEEP);
    let elsewhere = member(0, Some("run-1"), SLEEP);
    let Ended { mut ended, left } = end("run-1", group, GRACE).unwrap();
    ended.sort_unstable();
    let mut carriers = [leader.pid(), second.pid()];
    carriers.sort_unstable();
    assert_eq!(ended, carriers);
    let mut listed = [stranger.pid(), other.pid()];
    listed.sort_unstable();
    let listed = listed.map(|pid| Left { pid, comm: "sleep".into(), why: Why::NotACarrier });
    assert_eq!(left, listed);
    assert!(!lives(leader.pid()) && !lives(second.pid()));
    assert!(lives(stranger.pid()) && lives(other.pid()) && lives(elsewhere.pid()));
}

/// The dead holder's group is long gone, and its number belongs to somebody else's.
#[test]
fn a_reused_group_is_left_alone() {
    let unrelated = member(0, None, SLEEP);
    let agent = member(unrelated.pid(), Some("run-of-another"), SLEEP);
    let ended = end("run-dead", unrelated.pid(), GRACE).unwrap();
    assert_eq!(ended.ended, [0; 0]);
    assert_eq!(ended.left.len(), 2);
    assert!(lives(unrelated.pid()) && lives(agent.pid()));
}

#[test]
fn who_does_not_listen_to_term_is_killed_after_the_grace() {
    let stage = Stage::new();
    let script = format!("trap '' TERM; echo > {}; while :; do sleep 0.05; done", stage.file("ready"));
    let stubborn = member(0, Some("run-2"), &["/bin/sh", "-c", &script]);
    stage.line("ready");
    let started = Instant::now();
    let ended = end("run-2", stubborn.pid(), Duration::from_millis(300)).unwrap();
    assert!(started.elapsed() >= Duration::from_millis(300));
    assert!(ended.ended.contains(&stubborn.pid()) && ended.left.is_empty(), "{ended:?}");
    assert!(!lives(stubborn.pid()));
}

#[test]
fn a_stopped_member_is_ended_with_term() {
    let stopped = member(0, Some("run-3"), SLEEP);
    rustix::process::kill_process(crate::stage::raw(stopped.pid()), rustix::process::Signal::STOP).unwrap();
    eventually("it to stop", || (state(stopped.pid()) == Some('T')).then_some(()));
    let started = Instant::now();
    assert_eq!(end("run-3", stopped.pid(), GRACE).unwrap().ended, [stopped.pid()]);
    assert!(started.elapsed() < GRACE);
}

/// What is started while the group is being ended is ended too.
#[test]
fn a_member_that_starts_another_on_its_way_out_does_not_save_it() {
    let stage = Stage::new();
    let script = format!(
        "trap 'sleep 600 & echo $! > {}; exit' TERM; echo > {}; while :; do sleep 0.02; done",
        stage.file("late"),
        stage.file("ready")
    );
    let leader = member(0, Some("run-4"), &["/bin/sh", "-c", &script]);
    stage.line("ready");
    let ended = end("run-4", leader.pid(), GRACE).unwrap();
    let late = stage.pid("late");
    assert!(!lives(late) && !lives(leader.pid()), "{ended:?}");
    assert!(ended.ended.contains(&late), "{ended:?}");
}

#[test]
fn a_group_that_is_gone_is_nothing_to_do() {
    let mut gone = member(0, Some("run-5"), &["true"]);
    eventually("its end", || gone.0.try_wait().unwrap());
    assert_eq!(end("run-5", gone.pid(), GRACE).unwrap(), Ended::default());
}

/// A process whose environment is nobody's to read, though it is our own: the nearest thing to another user's that
/// anybody can start.
#[test]
fn what_cannot_be_looked_at_is_left_and_listed() {
    let stage = Stage::new();
    let hidden = member(0, Some("run-6"), &[PUPPET, "hidden", stage.path().to_str().unwrap()]);
    stage.line("hidden");
    let (instance, group, grace) = ("run-6", hidden.pid().to_string(), "30000");
    // Root may read everything unless the right to is taken away.
    let mut look = if rustix::process::geteuid().is_root() {
        let mut look = Command::new("setpriv");
        look.args(["--bounding-set", "-sys_ptrace,-perfmon,-sys_admin", PUPPET]);
        look
    } else {
        Command::new(PUPPET)
    };
    let output = output_of(look.arg("end").arg(stage.path()).args([instance, &group, grace]));
    assert!(output.status.success(), "{output:?}");
    let left = Left { pid: hidden.pid(), comm: "onus-dispatch-p".into(), why: Why::Unreadable };
    assert_eq!(stage.line("ended"), format!("{:?}", Ended { ended: vec![], left: vec![left] }));
    assert!(lives(hidden.pid()));
}

#[test]
fn it_does_not_end_itself() {
    let stage = Stage::new();
    let script = format!("{PUPPET} end {} run-7 $$ 30000", stage.path().display());
    // The shell waits for it, and is ended by it.
    let mut shell = member(0, Some("run-7"), &["/bin/sh", "-c", &format!("{script}; exit 3")]);
    let ended = stage.line("ended");
    assert!(ended.contains(&format!("ended: [{}]", shell.pid())) && ended.contains("why: Itself"), "{ended}");
    eventually("its end", || shell.0.try_wait().unwrap());
}
