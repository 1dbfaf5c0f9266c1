//! Sub-agents: parts of one conversation that work by themselves, in the same process.

use serde_json::json;

use crate::agents::harness::{Harness, Shell};
use crate::agents::kit::{holder_of, repository, tasks};
use crate::agents::payload::Kind;
use crate::support::Sandbox;

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
    one.edited("a.rs").silent();
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
fn what_a_sub_agent_was_told_to_do_about_its_task_it_can_do() {
    for kind in [Kind::Claude, Kind::Codex] {
        let sandbox = repository();
        let (whole, other) = (Harness::new(kind, &sandbox, "c-1"), Harness::new(kind, &sandbox, "c-2"));
        whole.start();
        other.start();
        let part = whole.sub_agent("p-1");
        part.edit("a.rs").allowed();
        part.edit("b.rs").allowed();
        let (id, holder) = holder_of(&sandbox, "a.rs").unwrap();
        assert_eq!(holder, "c-1/p-1");
        assert_eq!(other.shell(&format!("onus release {id}")).code, 4, "another conversation cannot");
        part.json(&format!("onus scope rm --task {id} a.rs"));
        assert_eq!(holder_of(&sandbox, "a.rs"), None);
        part.json(&format!("onus note {id} half"));
        assert_eq!(holder_of(&sandbox, "b.rs").unwrap().1, "c-1/p-1", "it is still the part's");
        assert_eq!(part.whoami(), whole.who());
        part.json(&format!("onus release {id}"));
        assert_eq!(holder_of(&sandbox, "b.rs"), None);
    }
}

#[test]
fn what_a_sub_agent_left_rests_and_ends_with_its_conversation() {
    // Given a sub-agent whose end nobody told, as when it was interrupted
    let sandbox = repository();
    let whole = Harness::claude(&sandbox, "c-1").with("ONUS_LEASE_TTL", "1s");
    whole.start();
    let part = whole.sub_agent("p-1");
    part.edit("a.rs").allowed();
    part.edited("a.rs").silent();
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

/// A conversation that holds a task, under which its sub-agents work; or that holds nothing, so that each has its own.
fn conversations() -> Vec<(Sandbox, Harness)> {
    let conversation = |holds: bool| {
        let sandbox = repository();
        let id = sandbox.add("Say it better");
        let whole = Harness::claude(&sandbox, "c-1");
        whole.start();
        if holds {
            whole.json(&format!("onus claim {id}"));
        }
        (sandbox, whole)
    };
    vec![conversation(true), conversation(false)]
}

#[test]
fn the_file_of_a_running_sibling_is_refused_until_it_has_ended() {
    for (sandbox, whole) in conversations() {
        let (one, other) = (whole.sub_agent("p-1"), whole.sub_agent("p-2"));
        one.edit("a.rs").allowed();
        let refused = other.edit("a.rs");
        assert!(refused.refused().contains("c-1/p-1"), "{refused:?}");
        one.edit("a.rs").allowed();
        // What the refusal advises, its reader can do.
        for advice in refused.refused().lines().filter_map(|line| line.trim().strip_prefix("next: onus ")) {
            let command = advice.split(" #").next().unwrap().replace("'…'", "waiting");
            assert_eq!(other.shell(&format!("onus {command}")).code, 0, "{command}");
        }
        one.part_over().silent();
        let third = whole.sub_agent("p-3");
        other.edit("a.rs").allowed();
        assert!(third.edit("a.rs").refused().contains("c-1/p-2"), "it is the next one's now");
        sandbox.is_whole();
    }
}

#[test]
fn a_sub_agent_whose_end_nobody_reported_is_in_nobodys_way_once_the_turn_is_over() {
    for (_sandbox, whole) in conversations() {
        let (one, other, third) = (whole.sub_agent("p-1"), whole.sub_agent("p-2"), whole.sub_agent("p-3"));
        one.edit("a.rs").allowed();
        one.edit("b.rs").allowed();
        whole.turn_over().silent();
        whole.prompt();
        other.edit("a.rs").allowed();
        // It works on in the background: then it runs again, and what it was alone on is its own.
        one.edit("b.rs").allowed();
        assert!(third.edit("b.rs").refused().contains("c-1/p-1"));
    }
}

#[test]
fn between_a_conversation_and_its_sub_agent_nobody_is_refused_and_the_second_is_told_once() {
    for (_sandbox, whole) in conversations() {
        let part = whole.sub_agent("p-1");
        part.edit("a.rs").allowed();
        let told = whole.edit("a.rs");
        assert!(told.allowed().told().contains("your sub-agent c-1/p-1 is on it"), "{told:?}");
        whole.edit("a.rs").silent();
        // The other way round.
        whole.edit("b.rs").allowed();
        let told = part.edit("b.rs");
        assert!(told.allowed().told().contains("your conversation itself has changed b.rs"), "{told:?}");
        part.edit("b.rs").silent();
        // One that has ended is not mentioned.
        part.edit("c.rs").allowed();
        part.part_over().silent();
        let silent = whole.edit("c.rs");
        assert!(!silent.allowed().told().contains("sub-agent"), "{silent:?}");
    }
}

#[test]
fn to_others_a_conversation_and_its_sub_agents_are_as_ever() {
    for (sandbox, whole) in conversations() {
        let (stranger, part) = (Harness::claude(&sandbox, "c-2"), whole.sub_agent("p-1"));
        stranger.start();
        stranger.edit("theirs.rs").allowed();
        whole.edit("a.rs").allowed();
        part.edit("b.rs").allowed();
        assert!(whole.edit("theirs.rs").refused().contains("c-2"));
        assert!(part.edit("theirs.rs").refused().contains("c-2"));
        part.part_over().silent();
        assert!(part.edit("theirs.rs").refused().contains("c-2"), "it makes no difference that it ended");
        stranger.edit("a.rs").refused();
        let of_a_stranger = stranger.sub_agent("p-1");
        of_a_stranger.edit("a.rs").refused();
    }
}

#[test]
fn a_conversation_claims_what_its_sub_agent_is_on_and_ends_its_lease() {
    let sandbox = repository();
    let planned = sandbox.add("Everything in src");
    let whole = Harness::claude(&sandbox, "c-1");
    whole.start();
    let part = whole.sub_agent("p-1");
    part.edit("src/a.rs").allowed();
    let (id, holder) = holder_of(&sandbox, "src/a.rs").unwrap();
    assert_eq!(holder, "c-1/p-1");
    whole.json(&format!("onus claim {planned} --scope 'src/**'"));
    part.edit("src/b.rs").allowed();
    whole.json(&format!("onus done {id} -m 'went on in the other task'"));
    assert_eq!(sandbox.show(&id)["state"], "done");
    part.edit("src/a.rs").allowed();
    sandbox.is_whole();
}
