//! How a command ends, and what it leaves behind.

use std::time::{Duration, Instant};

use crate::stage::{Stage, eventually_gone, lives};

#[test]
fn exit_codes_and_signals_are_reported_as_they_are() {
    for (script, exit) in [
        ("exit 0", "Code(0)\n"),
        ("exit 3", "Code(3)\n"),
        ("exit 255", "Code(255)\n"),
        ("kill -KILL $$", "Signal(9)\n"),
        ("kill -TERM $$", "Signal(15)\n"),
        ("kill -SEGV $$", "Signal(11)\n"),
    ] {
        let stage = Stage::new();
        stage.start_script(&[], script).ends();
        let report = stage.report();
        assert!(report.starts_with(exit), "{script}: {report}");
        assert!(report.contains("stopped None\ninterrupted None\nleft []\n"), "{report}");
    }
}

#[test]
fn what_is_left_in_the_group_is_told_and_ended() {
    let stage = Stage::new();
    // It exits when the other has become what it is called.
    let script = "sleep 600 & echo $! > $S/left; while [ $(cat /proc/$!/comm) != sleep ]; do :; done; exit 4";
    stage.start_script(&[], script).ends();
    assert!(stage.report().starts_with("Code(4)\n"));
    let left = stage.pid("left");
    assert!(!lives(left), "the run is over when nothing of it is left");
    assert_eq!(stage.line("told"), format!("LeftBehind([({left}, \"sleep\")])"));
}

#[test]
fn what_is_left_and_does_not_listen_is_killed_after_the_grace() {
    let stage = Stage::new();
    let script = "sh -c 'trap \"\" TERM; echo $$ > $S/left; while :; do sleep 1; done' &
                  while [ ! -s $S/left ]; do sleep 0.01; done; exit 0";
    let started = Instant::now();
    stage.start_script(&["grace=300"], script).ends();
    assert!(started.elapsed() >= Duration::from_millis(300), "it had its grace");
    eventually_gone(stage.pid("left"));
    assert!(stage.read("told").ends_with("Killing\n"), "{}", stage.read("told"));
    assert!(stage.report().contains("left []\n"));
}

#[test]
fn a_service_in_a_session_of_its_own_is_left_alone() {
    let stage = Stage::new();
    let script = "setsid sh -c 'echo $$ > $S/service; exec sleep 600' &
                  while [ ! -s $S/service ]; do sleep 0.01; done";
    stage.start_script(&[], script).ends();
    stage.report();
    let service = stage.pid("service");
    assert!(lives(service));
    rustix::process::kill_process(crate::stage::raw(service), rustix::process::Signal::KILL).unwrap();
}
