//! The supervisor is killed.

use crate::stage::{Stage, eventually_gone, lives};

#[test]
fn kill_9_of_the_supervisor_kills_the_direct_child_at_once() {
    let stage = Stage::new();
    let script = "trap '' TERM HUP INT; echo $$ > $S/child; while :; do sleep 1; done";
    let mut supervisor = stage.start_script(&[], script);
    let child = stage.pid("child");
    assert!(lives(child));
    supervisor.process.kill().unwrap();
    eventually_gone(child);
}

/// That is what the record of the group is for.
#[test]
fn what_the_child_started_survives_and_is_found_by_its_group_and_its_instance() {
    let stage = Stage::new();
    let script = "sleep 600 & echo $! > $S/grandchild; echo $$ > $S/child; wait";
    let mut supervisor = stage.start_script(&["instance=run-dead"], script);
    let (child, grandchild) = (stage.pid("child"), stage.pid("grandchild"));
    supervisor.process.kill().unwrap();
    eventually_gone(child);
    assert!(lives(grandchild));
    let group = stage.pid("pid");
    let ended = onus_dispatch::group::end("run-dead", group, std::time::Duration::from_secs(30)).unwrap();
    assert_eq!(ended.ended, [grandchild]);
    assert_eq!(ended.left, []);
    assert!(!lives(grandchild));
}
