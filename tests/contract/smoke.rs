//! The shortest way through.

use crate::support::{Sandbox, agent};

#[test]
fn a_task_is_added_claimed_and_finished() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let claimed = sandbox.json(&agent("a"), &["claim", &id]).ok().json();
    assert_eq!(claimed["lease"]["token"], 1);
    let done = sandbox.json(&agent("a"), &["done", "-m", "fixed"]).ok().json();
    assert_eq!(done["state"], "done");
    assert!(done["lease"].is_null());
    sandbox.is_whole();
}
