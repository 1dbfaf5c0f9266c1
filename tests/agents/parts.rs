//! Sub-agents: parts of one conversation that work by themselves, in the same process.

use serde_json::json;

use crate::harness::{Harness, Shell};
use crate::kit::{holder_of, repository, tasks};
use crate::payload::Kind;

#[test]
fn of_two_sub_agents_on_one_file_the_second_is_refused() {
    for kind in [Kind::Claude, Kind::Codex] {
        let sandbox = repository();
        let whole = Harness::new(kind, &sandbox, "c-1");
        whole.start();
        let (one, other) = (whole.sub_agent("p-1"), whole.sub_agent("p-2"));
        one.part_begins().silent();
        other.part_begins().silent();
        one.edit("a.rs").allowed();
        let refused = other.edit("a.rs");
        assert!(refused.refused().contains("c-1/p-1"), "{refused:?}");
        other.edit("b.rs").allowed();
        one.edit("a.rs").allowed();
        assert_eq!(holder_of(&sandbox, "a.rs").unwrap().1, "c-1/p-1");
        assert_eq!(holder_of(&sandbox, "b.rs").unwrap().1, "c-1/p-2");
        // Both live with the process that they share.
        for task in tasks(&sandbox) {
            assert_eq!(task["lease"]["process"]["pid"], whole.pid());
        }
    }
}

#[test]
fn a_sub_agent_of_a_conversation_that_holds_a_task_edits_under_that_task() {
    let sandbox = repository();
    let id = sandbox.add("Say it better");
    let whole = Harness::claude(&sandbox, "c-1");
    whole.start();
    whole.json(&format!("onus claim {id}"));
    let (one, other) = (whole.sub_agent("p-1"), whole.sub_agent("p-2"));
    one.edit("a.rs").allowed();
    other.edit("a.rs").allowed();
    other.edit("b.rs").allowed();
    one.after_tool("Edit").silent();
    assert_eq!(holder_of(&sandbox, "a.rs"), Some((id.clone(), "c-1".into())));
    assert_eq!(holder_of(&sandbox, "b.rs"), Some((id.clone(), "c-1".into())));
    // Its end is not the end of the conversation's work.
    one.part_over().silent();
    assert_eq!(sandbox.show(&id)["lease"]["live"], true);
    assert_eq!(sandbox.show(&id)["lease"]["resting"], false);
    assert_eq!(tasks(&sandbox).len(), 1);
}

#[test]
fn when_a_sub_agent_stops_its_ad_hoc_work_is_done() {
    let sandbox = repository();
    let whole = Harness::claude(&sandbox, "c-1");
    whole.start();
    let (one, other) = (whole.sub_agent("p-1"), whole.sub_agent("p-2"));
    one.edit("a.rs").allowed();
    other.edit("b.rs").allowed();
    let (id, _) = holder_of(&sandbox, "a.rs").unwrap();
    one.part_over().silent();
    let done = sandbox.show(&id);
    assert_eq!(done["state"], "done");
    assert!(done["notes"].to_string().contains("a.rs"), "{done}");
    assert_eq!(holder_of(&sandbox, "b.rs").unwrap().1, "c-1/p-2", "the other goes on");
    other.edit("a.rs").allowed();
}

#[test]
fn commands_of_a_sub_agents_shell_act_as_the_conversation() {
    let sandbox = repository();
    let id = sandbox.add("Say it better");
    for whole in [Harness::claude(&sandbox, "c-1"), Harness::claude(&sandbox, "c-2").nameless()] {
        whole.start();
        let part = whole.sub_agent("p-1");
        part.edit(format!("{}.rs", whole.conversation)).allowed();
        assert_eq!(part.whoami(), whole.who());
        assert_eq!(part.whoami_in(&Shell { pty: true, ..Shell::default() }), whole.who());
        let lease = part.json(&format!("onus claim {id}"))["lease"].clone();
        assert_eq!(lease["instance"], whole.conversation);
        whole.json(&format!("onus release {id}"));
    }
}

#[test]
fn what_a_sub_agent_left_rests_and_ends_with_its_conversation() {
    // Given a sub-agent whose end nobody told, as when it was interrupted
    let sandbox = repository();
    let whole = Harness::claude(&sandbox, "c-1").with("ONUS_LEASE_TTL", "1s");
    whole.start();
    whole.sub_agent("p-1").edit("a.rs").allowed();
    let (id, _) = holder_of(&sandbox, "a.rs").unwrap();
    // When the conversation's turn is over, then it does not keep the file for ever
    whole.turn_over().silent();
    assert_eq!(sandbox.show(&id)["lease"]["resting"], json!(true));
    // And with the conversation it ends
    whole.end_by("other").unwrap().silent();
    assert_eq!(sandbox.show(&id)["state"], "done");
    Harness::codex(&sandbox, "c-2").edit("a.rs").allowed();
}

#[test]
fn a_sub_agent_in_the_background_is_busy_though_the_turn_is_over() {
    let sandbox = repository();
    let whole = Harness::claude(&sandbox, "c-1").with("ONUS_LEASE_TTL", "3s");
    whole.start();
    let part = whole.sub_agent("p-1");
    part.edit("a.rs").allowed();
    whole.turn_over().silent();
    part.after_tool("Read");
    std::thread::sleep(std::time::Duration::from_millis(3_300));
    assert_eq!(holder_of(&sandbox, "a.rs").unwrap().1, "c-1/p-1");
}

#[test]
fn a_sub_agent_may_have_a_name_of_any_kind() {
    let sandbox = repository();
    let whole = Harness::claude(&sandbox, "c-1");
    let long = "p".repeat(4_000);
    for name in ["a b\nc", "ü/ß", long.as_str(), "..", "'; --"] {
        // Whether it can be told apart or not, the agent goes on.
        whole.sub_agent(name).edit(format!("{}.rs", name.len())).allowed();
    }
}
