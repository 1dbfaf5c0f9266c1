//! A harness that is killed: what it held is free at once, and what it did is not lost.

use serde_json::json;

use crate::agents::harness::Harness;
use crate::agents::kit::{holder_of, only_ad_hoc, repository};
use crate::agents::payload::KINDS;
use crate::support::human;

#[test]
fn the_files_of_a_killed_agent_are_free_at_once() {
    for kind in KINDS {
        let sandbox = repository();
        let id = sandbox.add("Say it better");
        let dead = Harness::new(kind, &sandbox, "dead");
        dead.start();
        dead.edit("a.rs").allowed();
        dead.json(&format!("onus claim {id}"));
        dead.edit("b.rs").allowed();
        let other = Harness::claude(&sandbox, "other");
        other.start();
        other.edit("a.rs").refused();
        other.edit("b.rs").refused();

        dead.kill();

        other.edit("a.rs").allowed();
        other.edit("b.rs").allowed();
        assert_eq!(holder_of(&sandbox, "b.rs").unwrap().1, "other");
        assert_eq!(sandbox.show(&id)["lease"]["lapsed_by"], "process_died");
        // The planned task is handed out again, as a takeover.
        let taken = other.json("onus claim --next");
        assert_eq!((&taken["task"]["id"], &taken["takeover"]), (&json!(id), &json!(true)), "{taken}");
    }
}

#[test]
fn ad_hoc_work_of_a_killed_agent_is_shown_with_a_safe_next_step_and_never_handed_out() {
    let sandbox = repository();
    let dead = Harness::claude(&sandbox, "dead");
    dead.start();
    dead.edit("a.rs").allowed();
    dead.kill();
    let task = only_ad_hoc(&sandbox);
    let id = task["id"].as_str().unwrap();
    assert_eq!(task["lease"]["live"], false);

    let other = Harness::codex(&sandbox, "other");
    other.start();
    assert_eq!(other.shell("onus claim --next").code, 7);
    assert_eq!(other.json("onus ready")["tasks"], json!([]));
    assert!(other.start().told().contains("Nothing is ready"));

    let status = sandbox.json(&human("ann"), &["status"]).ok().json();
    let lapsed = &status["lapsed"][0];
    assert_eq!(lapsed["id"], id, "{status}");
    let next = lapsed["next"].as_str().unwrap();
    assert!(next.starts_with(&format!("onus done {id} ")), "{next}");
    assert!(!next.contains("takeover") && !next.contains("force"), "{next}");
    let shown = sandbox.run(&human("ann"), &["status"]).ok().stdout.clone();
    assert!(shown.contains(id), "{shown}");
    // The step that was told works.
    let words = next.split("   #").next().unwrap().replace("'…'", "looked");
    let mut command = sandbox.command(&human("ann"));
    let words: Vec<&str> = words.trim_start_matches("onus ").split(' ').collect();
    assert!(command.args(words).output().unwrap().status.success());
    assert_eq!(sandbox.show(id)["state"], "done");
}

#[test]
fn what_a_killed_agent_left_is_not_another_conversations_even_of_the_same_agent() {
    let sandbox = repository();
    let dead = Harness::claude(&sandbox, "dead");
    dead.start();
    dead.edit("a.rs").allowed();
    dead.kill();
    let other = Harness::claude(&sandbox, "other");
    other.start();
    assert_eq!(other.json("onus whoami")["holds"], json!([]));
    other.edit("a.rs").allowed();
    assert_eq!(holder_of(&sandbox, "a.rs").unwrap().1, "other");
}
