//! Commands of a repository: whatever they do, they end within their time, and nothing of them is left.

use std::process::{Command, Stdio};

use crate::stage::{PUPPET, Stage, Supervisor, eventually, eventually_gone, lives, output_of};

/// An errand of the puppet's. `$S` is the stage's folder.
fn errand(stage: &Stage, settings: &[&str], script: &str) -> Command {
    let script = script.replace("$S", stage.path().to_str().unwrap());
    let mut puppet = Command::new(PUPPET);
    puppet.arg("errand").arg(stage.path()).args(settings).args(["--", "/bin/sh", "-c", &script]);
    puppet.stdin(Stdio::null());
    puppet
}

fn ends(stage: &Stage, settings: &[&str], script: &str) -> String {
    let out = output_of(&mut errand(stage, settings, script));
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    stage.read("outcome")
}

fn starts(stage: &Stage, settings: &[&str], script: &str) -> Supervisor {
    let mut puppet = errand(stage, settings, script);
    stage.adopt(puppet.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Children that left the group, the session and their parent, and do not hear TERM.
const ESCAPES: &str = "
    setsid sh -c 'trap \"\" TERM HUP INT; echo $$ > $S/session; while :; do sleep 1; done' &
    (setsid sh -c 'trap \"\" TERM; sh -c \"echo \\$\\$ > $S/twice; exec sleep 600\" & exit 0' &) &
    sleep 600 & echo $! > $S/plain
    while [ ! -s $S/session ] || [ ! -s $S/twice ]; do sleep 0.01; done
";

fn nothing_is_left(stage: &Stage) {
    for name in ["session", "twice", "plain"] {
        assert!(!lives(stage.pid(name)), "{name} still runs");
    }
}

#[test]
fn it_says_how_the_command_ended() {
    for (script, outcome) in [
        ("exit 0", "Exited(0)"),
        ("exit 3", "Exited(3)"),
        ("kill -9 $$", "Killed(9)"),
        ("cat; exit 4", "Exited(4)"),
        ("exec /nowhere/at-all", "Exited(127)"),
    ] {
        let stage = Stage::new();
        assert_eq!(ends(&stage, &[], script).trim(), outcome, "{script}");
    }
}

#[test]
fn a_command_that_is_not_there_was_not_started() {
    let stage = Stage::new();
    let mut puppet = Command::new(PUPPET);
    puppet.arg("errand").arg(stage.path()).args(["--", "/nowhere/at-all"]).stdin(Stdio::null());
    output_of(&mut puppet);
    assert_eq!(stage.read("outcome").trim(), "NotStarted(127, \"command not found: /nowhere/at-all\")");
}

#[test]
fn what_a_command_leaves_behind_is_ended_wherever_it_went() {
    let stage = Stage::new();
    let outcome = ends(&stage, &["grace=200"], &format!("{ESCAPES} exit 5"));
    assert_eq!(outcome.trim(), "Exited(5)");
    nothing_is_left(&stage);
}

#[test]
fn a_command_that_hangs_ends_with_all_that_it_started() {
    let stage = Stage::new();
    // Its time counts from its start: it must be enough for the children to be there.
    let settings = ["limit=3000", "grace=200"];
    let outcome = ends(&stage, &settings, &format!("trap '' TERM; {ESCAPES} while :; do sleep 1; done"));
    assert_eq!(outcome.trim(), "OutOfTime");
    nothing_is_left(&stage);
}

#[test]
fn kill_9_of_whoever_asked_leaves_nothing() {
    let stage = Stage::new();
    let mut asker = starts(&stage, &["grace=200"], &format!("trap '' TERM; {ESCAPES} wait; sleep 600"));
    let pids = ["session", "twice", "plain"].map(|name| stage.pid(name));
    asker.process.kill().unwrap();
    pids.into_iter().for_each(eventually_gone);
}

#[test]
fn an_interrupted_errand_is_over_when_nothing_is_left() {
    let stage = Stage::new();
    let asker = starts(&stage, &["grace=200"], &format!("{ESCAPES} sleep 600"));
    for name in ["session", "twice", "plain"] {
        stage.pid(name);
    }
    asker.signal(rustix::process::Signal::INT);
    let outcome = eventually("the outcome", || Some(stage.read("outcome")).filter(|text| !text.is_empty()));
    assert_eq!(outcome.trim(), "Stopped");
    nothing_is_left(&stage);
    assert_eq!(stage.line("interrupted"), "Some(2)");
}

#[test]
fn a_lost_lease_stops_it() {
    let stage = Stage::new();
    let mut asker = starts(&stage, &["grace=200", "renew=yes"], &format!("{ESCAPES} sleep 600"));
    let pids = ["session", "twice", "plain"].map(|name| stage.pid(name));
    stage.renewing_gives("fenced");
    asker.ends();
    assert_eq!(stage.line("fenced"), "Some(\"superseded by agent:b\")");
    assert!(pids.iter().all(|pid| !lives(*pid)));
}

#[test]
fn a_gibibyte_of_output_is_heard_and_little_of_it_kept() {
    let stage = Stage::new();
    let out = output_of(&mut errand(&stage, &[], "echo begins; head -c 1073741824 /dev/zero; echo ends"));
    assert_eq!(out.status.code(), Some(0));
    assert_eq!(stage.read("outcome").trim(), "Exited(0)");
    assert_eq!(stage.read("heard").trim(), (1_073_741_824 + 7 + 5).to_string());
    let log = std::fs::read(stage.path().join("log")).unwrap();
    assert!(log.len() < 1_100_000, "{}", log.len());
    assert!(log.starts_with(b"begins\n") && log.ends_with(b"ends\n"));
    let peak: u64 = stage.read("peak").trim().parse().unwrap();
    assert!(peak < 64 * 1024, "{peak} KiB of memory");
}

#[test]
fn a_command_that_closes_its_output_early_is_waited_for() {
    let stage = Stage::new();
    let outcome = ends(&stage, &[], "exec >&- 2>&-; sleep 0.3; echo done > $S/late; exit 6");
    assert_eq!((outcome.trim(), stage.read("late").trim()), ("Exited(6)", "done"));
}

#[test]
fn it_has_no_input_no_terminal_and_nothing_of_our_environment() {
    let stage = Stage::new();
    let mut puppet =
        errand(&stage, &[], "cat; tty; env | sort; (: < /dev/tty) 2>/dev/null && echo terminal; exit 0");
    output_of(puppet.env("SECRET", "1"));
    let log = stage.read("log");
    assert!(log.starts_with("not a tty\n"), "{log}");
    assert!(!log.contains("SECRET") && !log.contains("terminal"), "{log}");
}

#[test]
fn processes_that_end_while_it_runs_do_not_pile_up() {
    let stage = Stage::new();
    let script = "
        i=0; while [ $i -lt 60 ]; do (sleep 0 &) ; i=$((i+1)); done
        sleep 2
        ps -o stat= --ppid $PPID | grep -c Z
        exit 0";
    ends(&stage, &[], script);
    assert_eq!(stage.read("log").trim(), "0");
}
