//! Nothing was configured but by `onus init` and `onus setup`: the harness calls what stands in its own files.

use crate::agents::harness::Harness;
use crate::agents::kit::{bare_repository, holder_of, repository, tasks};
use crate::agents::payload::KINDS;
use crate::support::human;

#[test]
fn after_init_and_setup_two_agents_that_ignore_onus_cannot_collide() {
    for kind in KINDS {
        let sandbox = repository();
        sandbox.run(&human("founder"), &["setup", kind.name()]).ok();
        let first = Harness::new(kind, &sandbox, "conv-1").set_up();
        let second = Harness::new(kind, &sandbox, "conv-2").set_up();
        assert!(first.start().told().contains("coordinated by onus"), "{kind:?}");
        second.start();
        first.edit("src/a.rs").allowed();
        first.edited("src/a.rs").allowed();
        let refused = second.edit("src/a.rs");
        assert!(refused.refused().contains("conv-1"), "{kind:?}: {refused:?}");
        second.edit("src/b.rs").allowed();
        assert_eq!(holder_of(&sandbox, "src/a.rs").unwrap().1, "conv-1");
        assert_eq!(holder_of(&sandbox, "src/b.rs").unwrap().1, "conv-2");
        // Its own tools are not asked about what they do not change.
        second.before_tool("Read").allowed().silent();
        first.turn_over().allowed().silent();
        first.prompt().allowed();
        let pid = first.pid();
        assert!(pid > 0);
        first.end();
        let states: Vec<String> =
            tasks(&sandbox).iter().map(|task| task["state"].as_str().unwrap().to_owned()).collect();
        assert!(states.contains(&"done".to_owned()), "{kind:?}: {states:?}");
        second.edit("src/a.rs").allowed();
    }
}

#[test]
fn an_agent_that_was_set_up_passes_where_onus_is_not_installed() {
    let sandbox = repository();
    sandbox.run(&human("founder"), &["setup", "claude"]).ok();
    let agent = Harness::claude(&sandbox, "conv-1").set_up().with("PATH", "/usr/bin:/bin");
    let told = agent.start();
    assert!(told.warning.as_deref().unwrap().contains("not on PATH"), "{told:?}");
    agent.edit("src/a.rs").allowed().silent();
    agent.after_tool("Write").silent();
    assert!(tasks(&sandbox).is_empty());
}

#[test]
fn set_up_in_a_repository_without_a_store_is_told_once() {
    let sandbox = bare_repository();
    sandbox.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
    sandbox.run(&human("founder"), &["setup", "claude"]).ok();
    std::fs::remove_dir_all(sandbox.path().join(".git/onus")).unwrap();
    let agent = Harness::claude(&sandbox, "conv-1").set_up();
    let told = agent.start();
    assert!(told.warning.as_deref().unwrap().contains("onus init"), "{told:?}");
    agent.edit("src/a.rs").allowed().silent();
}
