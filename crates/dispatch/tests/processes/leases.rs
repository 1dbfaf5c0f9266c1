//! The lease behind the command: kept, lost, out of reach.

use std::time::Duration;

use crate::stage::{Stage, eventually, eventually_gone, lives};

/// A command whose grandchild ignores TERM.
const STUBBORN: &str = "sh -c 'trap \"\" TERM; echo $$ > $S/grandchild; while :; do sleep 1; done' &
                        echo $$ > $S/child; wait";

#[test]
fn fenced_means_term_then_kill_for_the_whole_group() {
    let stage = Stage::new();
    let mut supervisor = stage.start_script(&["grace=400"], STUBBORN);
    let (child, grandchild) = (stage.pid("child"), stage.pid("grandchild"));
    assert!(lives(child) && lives(grandchild));
    stage.renewing_gives("fenced");
    supervisor.ends();
    eventually_gone(child);
    eventually_gone(grandchild);
    let report = stage.report();
    assert!(report.starts_with("Signal(15)\n"), "the child listened to TERM: {report}");
    assert!(report.contains("stopped Some(Fenced { why: \"superseded by agent:b\" })\n"), "{report}");
    assert!(stage.read("told").ends_with("Killing\n"), "the grandchild did not: {}", stage.read("told"));
}

#[test]
fn a_fenced_command_has_its_grace_to_tidy_up() {
    let stage = Stage::new();
    let script =
        "trap 'echo tidied > $S/mark; exit 9' TERM; echo $$ > $S/child; while :; do sleep 0.05; done";
    let mut supervisor = stage.start_script(&[], script);
    stage.pid("child");
    stage.renewing_gives("fenced");
    supervisor.ends();
    assert!(stage.report().starts_with("Code(9)\n"));
    assert_eq!(stage.line("mark"), "tidied");
    assert!(!stage.read("told").contains("Killing"));
}

#[test]
fn a_stopped_command_is_ended_too_when_it_is_fenced() {
    let stage = Stage::new();
    let mut supervisor = stage.start_script(&[], "echo $$ > $S/child; while :; do sleep 0.05; done");
    let child = stage.pid("child");
    rustix::process::kill_process(crate::stage::raw(child), rustix::process::Signal::STOP).unwrap();
    eventually("it to stop", || (crate::stage::state(child) == Some('T')).then_some(()));
    stage.renewing_gives("fenced");
    supervisor.ends();
    assert!(stage.report().starts_with("Signal(15)\n"));
}

#[test]
fn the_lease_is_renewed_from_outside_and_output_is_progress() {
    let stage = Stage::new();
    let script =
        "while [ ! -e $S/speak ]; do sleep 0.01; done; echo word; while [ ! -e $S/end ]; do sleep 0.01; done";
    let mut supervisor = stage.start_script(&[], script);
    eventually("three renewals", || (stage.read("renewals").lines().count() >= 3).then_some(()));
    assert!(!stage.read("renewals").contains("progress"), "silence is no progress");
    std::fs::write(stage.path().join("speak"), "").unwrap();
    eventually("progress", || stage.read("renewals").contains("progress").then_some(()));
    std::fs::write(stage.path().join("end"), "").unwrap();
    supervisor.ends();
    assert_eq!(stage.read("renewals").lines().filter(|line| *line == "progress").count(), 1);
    assert!(stage.report().starts_with("Code(0)\n"));
}

#[test]
fn a_renewal_that_hangs_keeps_nobody_from_noticing_the_exit() {
    let stage = Stage::new();
    stage.renewing_gives("hang");
    let script = "while [ ! -e $S/end ]; do sleep 0.01; done; exit 6";
    let mut supervisor = stage.start_script(&[], script);
    stage.line("renewals");
    std::fs::write(stage.path().join("end"), "").unwrap();
    assert_eq!(supervisor.ends(), 0);
    assert!(stage.report().starts_with("Code(6)\n"));
}

#[test]
fn without_a_deadline_an_unreachable_store_stops_nothing() {
    let stage = Stage::new();
    stage.renewing_gives("down");
    let mut supervisor = stage.start_script(&[], "while [ ! -e $S/end ]; do sleep 0.01; done");
    eventually("many refusals", || (stage.read("renewals").lines().count() >= 10).then_some(()));
    std::fs::write(stage.path().join("end"), "").unwrap();
    supervisor.ends();
    assert!(stage.report().contains("stopped None\n"));
    assert_eq!(stage.read("told"), "Unavailable(\"no store\")\n", "said once");
}

#[test]
fn with_a_deadline_the_command_is_stopped_before_it() {
    for renewing in ["down", "hang"] {
        let stage = Stage::new();
        stage.renewing_gives(renewing);
        // An hour's trust, of which all but half a second is margin.
        let settings = ["trust=3600000", "margin=3599500"];
        let mut supervisor =
            stage.start_script(&settings, "echo $$ > $S/child; while :; do sleep 0.05; done");
        supervisor.ends();
        let report = stage.report();
        assert!(report.starts_with("Signal(15)\nstopped Some(Untrusted"), "{renewing}: {report}");
    }
}

#[test]
fn a_renewal_moves_the_deadline() {
    let stage = Stage::new();
    // Trusted for five seconds at a time: it outlives them.
    let mut supervisor = stage.start_script(&["trust=5000", "every=50"], "sleep 7; exit 2");
    supervisor.ends();
    assert!(stage.report().starts_with("Code(2)\nstopped None\n"), "{}", stage.report());
}

/// What a request gave that hung for long may be over when it comes.
#[test]
fn trust_counts_from_the_start_of_the_request() {
    let stage = Stage::new();
    stage.renewing_gives("hang");
    let settings = ["trust=3600000", "renewed=1000"];
    let mut supervisor = stage.start_script(&settings, "echo > $S/ready; while :; do sleep 0.05; done");
    stage.line("renewals");
    std::thread::sleep(Duration::from_millis(1_200));
    // From now on every renewal is answered at once: counted from the answer, there would be trust for ever.
    stage.renewing_gives("kept");
    supervisor.ends();
    assert!(stage.report().contains("stopped Some(Untrusted"), "{}", stage.report());
}

#[test]
fn a_command_that_ended_its_lease_itself_finishes_in_peace() {
    let stage = Stage::new();
    stage.renewing_gives("ended");
    let mut supervisor =
        stage.start_script(&["trust=3600000"], "while [ ! -e $S/end ]; do sleep 0.01; done; exit 0");
    stage.line("renewals");
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(stage.path().join("end"), "").unwrap();
    supervisor.ends();
    assert!(stage.report().starts_with("Code(0)\nstopped None\n"));
    assert_eq!(stage.read("renewals").lines().count(), 1, "there is nothing left to renew");
}
