//! News beside an answer: in JSON under `notices`, for people on stderr, until the caller acts.

use serde_json::Value;

use crate::contract::kit::{claim, dump, lapsed_claim};
use crate::support::{As, Sandbox, agent, eventually, human};

fn notices(sandbox: &Sandbox, who: &As, args: &[&str]) -> Vec<(String, String, String)> {
    let answer = sandbox.json(who, args).ok().json();
    let text = |notice: &Value, name: &str| notice[name].as_str().unwrap_or_default().to_owned();
    let list = answer["notices"].as_array().cloned().unwrap_or_default();
    list.iter().map(|n| (text(n, "kind"), text(n, "task"), text(n, "message"))).collect()
}

/// Told to programs and to people alike, by any command, and nothing is written by telling.
#[track_caller]
fn is_told(sandbox: &Sandbox, who: &As, kind: &str, id: &str, needle: &str) {
    let before = dump(sandbox);
    // A note that is shown is no news.
    let last = if kind == "note" { "why" } else { "show" };
    for args in [vec!["status"], vec!["list"], vec!["ready"], vec!["log"], vec![last, id]] {
        let told = notices(sandbox, who, &args);
        assert_eq!(told.len(), 1, "{args:?}: {told:?}");
        assert_eq!((told[0].0.as_str(), told[0].1.as_str()), (kind, id), "{args:?}");
        assert!(told[0].2.contains(needle), "{args:?}: {told:?}");
        let ran = sandbox.run(who, &args);
        assert!(ran.stderr.starts_with("notice: ") && ran.stderr.contains(needle), "{args:?}: {ran:?}");
        assert!(!ran.stdout.contains("notice: "), "{args:?}");
    }
    assert_eq!(dump(sandbox), before);
}

#[test]
fn a_lease_that_lapsed_is_told_to_its_holder() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    lapsed_claim(&sandbox, &agent("a"), &id);
    is_told(&sandbox, &agent("a"), "lapsing", &id, "has lapsed");
    assert_eq!(notices(&sandbox, &agent("b"), &["list"]), []);
    // Also beside the answer to a change elsewhere.
    let told = notices(&sandbox, &agent("a"), &["add", "Another"]);
    assert_eq!(told[0].0, "lapsing");
}

#[test]
fn a_lease_that_will_lapse_soon_is_told_before_it_does() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    sandbox.run(&agent("a"), &["claim", &id, "--ttl", "2s"]).ok();
    sandbox.run(&agent("b"), &["claim", &sandbox.add("Another"), "--ttl", "1h"]).ok();
    assert_eq!(notices(&sandbox, &agent("b"), &["show"]), [], "not while most of it is left");
    // On a slow machine the first look in its last fifth may come after its end: then it is told that.
    let told = eventually("a notice", || notices(&sandbox, &agent("a"), &["show", &id]).pop());
    assert_eq!((told.0.as_str(), told.1), ("lapsing", id));
    assert!(told.2.contains("lapses in") || told.2.contains("has lapsed"), "{}", told.2);
}

#[test]
fn a_lost_lease_is_told_until_its_holder_acts() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    lapsed_claim(&sandbox, &agent("a"), &id);
    sandbox.run(&agent("b"), &["takeover", &id, "--reason", "it lapsed"]).ok();
    is_told(&sandbox, &agent("a"), "superseded", &id, "taken over by agent:b (b-1)");
    // Whoever has it now, it was that one who took it.
    let forced = ["takeover", &id, "--force", "--reason", "urgent"];
    sandbox.run(&human("ann"), &forced).ok();
    is_told(&sandbox, &agent("a"), "superseded", &id, "taken over by agent:b (b-1)");
    let told = notices(&sandbox, &agent("a"), &["add", "Another"]);
    assert_eq!(told[0].0, "superseded", "also beside the answer to a change");
    // Having acted, it knows.
    assert_eq!(notices(&sandbox, &agent("a"), &["list"]), []);

    // Revoked by a person's force: the same, and it says so.
    let id = sandbox.add("Urgent");
    claim(&sandbox, &agent("a"), &id);
    sandbox.run(&human("ann"), &["takeover", &id, "--force", "--reason", "urgent"]).ok();
    is_told(&sandbox, &agent("a"), "superseded", &id, "revoked by human:ann");
}

#[test]
fn anothers_note_is_told_to_the_holder() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    sandbox.run(&human("ann"), &["note", &id, "from before"]).ok();
    claim(&sandbox, &agent("a"), &id);
    assert_eq!(notices(&sandbox, &agent("a"), &["list"]), [], "what was there when it claimed is no news");
    sandbox.run(&agent("a"), &["note", &id, "my own"]).ok();
    assert_eq!(notices(&sandbox, &agent("a"), &["list"]), []);
    sandbox.run(&human("ann"), &["note", &id, "mind the gap"]).ok();
    is_told(&sandbox, &agent("a"), "note", &id, "human:ann left a note");
    assert_eq!(notices(&sandbox, &agent("a"), &["show", &id]), []);
    assert_eq!(notices(&sandbox, &agent("b"), &["list"]), []);
    sandbox.run(&agent("a"), &["renew", &id]).ok();
    assert_eq!(notices(&sandbox, &agent("a"), &["list"]), []);
}

#[test]
fn what_was_asked_for_in_vain_is_told_beside_the_answer() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let told = notices(&sandbox, &human("ann"), &["claim", &id, "--ttl", "1h"]);
    assert_eq!(told[0].0, "info");
    assert!(told[0].2.contains("no TTL"), "{told:?}");
}
