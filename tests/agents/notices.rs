//! What others did reaches an agent at its next hook, once.

use serde_json::json;

use crate::agents::harness::{Harness, Verdict};
use crate::agents::kit::repository;
use crate::agents::payload::KINDS;
use crate::support::{Sandbox, human};

fn noted(sandbox: &Sandbox, id: &str) {
    sandbox.json(&human("ann"), &["note", id, "mind the gap"]).ok();
}

/// Tells these words, and nothing when asked again.
#[track_caller]
fn told_once(verdict: &Verdict, words: &[&str], again: &Verdict) {
    for word in words {
        assert!(verdict.told().contains(word), "'{word}' is not in {verdict:?}");
    }
    assert_eq!(verdict.told().lines().count(), 1, "{verdict:?}");
    again.silent();
}

#[test]
fn a_note_by_another_reaches_the_agent_after_its_next_tool_once() {
    for kind in KINDS {
        let sandbox = repository();
        let id = sandbox.add("A task");
        let agent = Harness::new(kind, &sandbox, "c-1");
        agent.start();
        agent.json(&format!("onus claim {id}"));
        agent.after_tool("Bash").silent();
        noted(&sandbox, &id);
        told_once(&agent.after_tool("Read"), &["human:ann", "note", &id], &agent.after_tool("Read"));
        // Its own notes are no news.
        agent.json(&format!("onus note {id} 'I know'"));
        agent.after_tool("Bash").silent();
    }
}

#[test]
fn a_takeover_by_a_person_reaches_the_agent_after_its_next_tool_once() {
    for kind in KINDS {
        let sandbox = repository();
        let id = sandbox.add("A task");
        let agent = Harness::new(kind, &sandbox, "c-1");
        agent.start();
        agent.json(&format!("onus claim {id}"));
        sandbox.json(&human("ann"), &["takeover", &id, "--force", "--reason", "I need it now"]).ok();
        let told = agent.after_tool("Read");
        told_once(&told, &["your lease", &id, "human:ann", "stop"], &agent.after_tool("Read"));
    }
}

#[test]
fn what_an_agent_should_know_does_not_wait_for_a_tool_that_succeeds() {
    let sandbox = repository();
    let id = sandbox.add("A task");
    sandbox.run(&human("founder"), &["setup", "claude"]).ok();
    let agent = Harness::claude(&sandbox, "c-1").set_up();
    agent.start();
    agent.json(&format!("onus claim {id}"));
    agent.tool_failed("Edit").silent();
    noted(&sandbox, &id);
    told_once(&agent.tool_failed("Edit"), &["human:ann", "note", &id], &agent.tool_failed("Edit"));
}

#[test]
fn that_somebody_waits_for_a_path_reaches_its_holder_after_its_next_tool_once() {
    for kind in KINDS {
        let sandbox = repository();
        let (agent, other) = (Harness::new(kind, &sandbox, "c-1"), Harness::codex(&sandbox, "c-2"));
        agent.start();
        agent.edit("a.rs").allowed();
        agent.after_tool("Edit").allowed();
        other.start();
        other.edit("a.rs").refused();
        let told = agent.after_tool("Read");
        told_once(&told, &["agent:codex", "waits for", "a.rs", "onus scope rm"], &agent.after_tool("Read"));
        // What it was told to do works, and then the other may.
        let line =
            told.told().split("onus scope rm").nth(1).unwrap().split(", or").next().unwrap().to_owned();
        agent.shell(&format!("onus scope rm{line}")).ok();
        other.edit("a.rs").allowed();
        agent.after_tool("Bash").silent();
    }
}

#[test]
fn what_happened_just_before_the_turn_was_over_is_told_when_the_next_begins() {
    let sandbox = repository();
    let id = sandbox.add("A task");
    let agent = Harness::claude(&sandbox, "c-1");
    agent.start();
    agent.json(&format!("onus claim {id}"));
    noted(&sandbox, &id);
    // The harness tells its agent nothing of what this hook says.
    agent.turn_over().silent();
    told_once(&agent.prompt(), &["human:ann", &id], &agent.after_tool("Read"));
}

#[test]
fn what_happened_while_a_conversation_was_away_is_told_when_it_is_resumed() {
    let sandbox = repository();
    let id = sandbox.add("A task");
    let agent = Harness::claude(&sandbox, "c-1");
    agent.start();
    agent.json(&format!("onus claim {id}"));
    agent.kill();
    sandbox.json(&human("ann"), &["takeover", &id, "--reason", "it died"]).ok();
    let resumed = Harness::claude(&sandbox, "c-1");
    let started = resumed.started_by("resume");
    assert!(started.told().contains("your lease") && started.told().contains("human:ann"), "{started:?}");
    resumed.after_tool("Read").silent();
}

#[test]
fn an_edit_is_the_next_hook_too() {
    let sandbox = repository();
    let id = sandbox.add("A task");
    let agent = Harness::claude(&sandbox, "c-1");
    agent.start();
    agent.json(&format!("onus claim {id}"));
    noted(&sandbox, &id);
    told_once(agent.edit("a.rs").allowed(), &["human:ann", &id], &agent.after_tool("Edit"));
}

#[test]
fn before_an_edit_gemini_is_told_nothing_as_it_would_not_listen() {
    let sandbox = repository();
    let id = sandbox.add("A task");
    let agent = Harness::gemini(&sandbox, "c-1");
    agent.start();
    agent.json(&format!("onus claim {id}"));
    noted(&sandbox, &id);
    agent.edit("a.rs").allowed();
    told_once(&agent.after_tool("replace"), &["human:ann", &id], &agent.after_tool("read_file"));
    // The same holds for what is said when a task is opened for its edits.
    agent.json(&format!("onus done {id} -m x"));
    let before = agent.edit("b.rs");
    assert_eq!(before.allowed().context, None, "{before:?}");
    assert_eq!(json!(null), json!(before.refusal));
}
