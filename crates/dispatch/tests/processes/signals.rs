//! Signals to the supervisor.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::Signal;

use crate::stage::{PUPPET, Stage, eventually, lives, state};

#[test]
fn signals_are_forwarded_to_the_whole_group() {
    for (signal, name, interrupts) in [
        (Signal::TERM, "TERM", true),
        (Signal::INT, "INT", true),
        (Signal::HUP, "HUP", true),
        (Signal::QUIT, "QUIT", true),
        (Signal::USR1, "USR1", false),
        (Signal::USR2, "USR2", false),
        (Signal::WINCH, "WINCH", false),
    ] {
        let stage = Stage::new();
        // Both the command and what it started hear it. (A background job of sh ignores INT and QUIT: there the
        // command alone.) The command waits for the other: once it has exited, what is left is ended.
        let both = if ["INT", "QUIT"].contains(&name) { "$S/child" } else { "$S/grandchild" };
        let script = format!(
            "trap 'echo heard > $S/child; while [ ! -s {both} ]; do sleep 0.01; done; exit 5' {name}
             (trap 'echo heard > $S/grandchild; exit 5' {name}; echo > $S/ready2; while :; do sleep 0.02; done) &
             while [ ! -e $S/ready2 ]; do sleep 0.01; done; echo > $S/ready; while :; do sleep 0.02; done"
        );
        let mut supervisor = stage.start_script(&[], &script);
        stage.line("ready");
        supervisor.signal(signal);
        supervisor.ends();
        assert_eq!(stage.line("child"), "heard", "{name}");
        let report = stage.report();
        assert!(report.starts_with("Code(5)\n"), "{name}: {report}");
        assert_eq!(report.contains("interrupted Some"), interrupts, "{name}: {report}");
    }
}

#[test]
fn a_command_may_take_a_signal_and_go_on() {
    let stage = Stage::new();
    let script = "trap 'echo heard > $S/heard' TERM; echo > $S/ready; while [ ! -e $S/end ]; do sleep 0.02; done; exit 0";
    let mut supervisor = stage.start_script(&[], script);
    stage.line("ready");
    supervisor.signal(Signal::TERM);
    stage.line("heard");
    assert!(lives(supervisor.process.id()));
    std::fs::write(stage.path().join("end"), "").unwrap();
    supervisor.ends();
    assert!(stage.report().starts_with("Code(0)\nstopped None\ninterrupted Some"));
}

#[test]
fn a_stopped_command_is_continued_or_ended_through_its_supervisor() {
    let stage = Stage::new();
    let mut supervisor = stage.start_script(&[], "echo $$ > $S/child; while :; do sleep 0.02; done");
    let child = stage.pid("child");
    let stopped = || {
        rustix::process::kill_process(crate::stage::raw(child), Signal::STOP).unwrap();
        eventually("it to stop", || (state(child) == Some('T')).then_some(()));
    };
    stopped();
    supervisor.signal(Signal::CONT);
    eventually("it to go on", || (state(child) != Some('T')).then_some(()));
    assert!(lives(child));
    stopped();
    supervisor.signal(Signal::TERM);
    supervisor.ends();
    assert!(stage.report().starts_with("Signal(15)\n"));
}

#[test]
fn what_nohup_ignores_stays_ignored() {
    let stage = Stage::new();
    let script = "trap 'exit 5' USR1; echo > $S/ready; while :; do sleep 0.02; done";
    let script = script.replace("$S", stage.path().to_str().unwrap());
    let mut nohup = Command::new("nohup");
    nohup.arg(PUPPET).arg("supervise").arg(stage.path()).args(["--", "/bin/sh", "-c", &script]);
    nohup.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    nohup.stderr(std::process::Stdio::null()).process_group(0);
    let mut supervisor = stage.adopt(nohup.spawn().unwrap());
    stage.line("ready");
    supervisor.signal(Signal::HUP);
    supervisor.signal(Signal::USR1);
    supervisor.ends();
    assert!(stage.report().starts_with("Code(5)\nstopped None\ninterrupted None\n"), "{}", stage.report());
}
