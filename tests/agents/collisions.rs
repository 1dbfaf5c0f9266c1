//! Two agents that never heard of onus, on one file: the second is stopped before it writes.

use std::sync::Barrier;

use serde_json::{Value, json};

use crate::agents::harness::Harness;
use crate::agents::kit::{holder_of, repository, store, tasks};
use crate::agents::payload::{KINDS, Kind};
use crate::support::{Sandbox, human};

/// The first event of a task: who it is attributed to.
#[track_caller]
fn opened_by(sandbox: &Sandbox, id: &str) -> (Value, Value) {
    let log = sandbox.json(&human("founder"), &["log", id]).ok().json();
    (log["events"][0]["actor"].clone(), log["events"][0]["instance"].clone())
}

#[test]
fn the_second_agent_on_a_file_is_refused_before_it_writes_and_told_who_has_it() {
    for first_kind in KINDS {
        for second_kind in KINDS {
            let sandbox = repository();
            let first = Harness::new(first_kind, &sandbox, "conv-1");
            let second = Harness::new(second_kind, &sandbox, "conv-2");
            first.start();
            second.start();

            let adopted = first.edit("src/a.rs");
            let (id, holder) = holder_of(&sandbox, "src/a.rs").unwrap();
            assert_eq!(holder, "conv-1");
            // Gemini is not told anything before a tool.
            let told = adopted.allowed().told();
            assert_eq!(told.contains(&id), first_kind != Kind::Gemini, "{adopted:?}");
            // What its harness passed on before the edit is not said again.
            let after = first.edited("src/a.rs");
            assert_eq!(after.allowed().told().contains(&id), first_kind == Kind::Gemini, "{after:?}");
            let refused = second.edit("src/a.rs");
            let reason = refused.refused();
            for word in ["src/a.rs", &id, &first.who().0, "conv-1", "next:"] {
                assert!(reason.contains(word), "'{word}' is not in: {reason}");
            }
            assert!(!reason.contains("--force"), "a refusal does not teach how to override it: {reason}");
            // The first goes on, and the second works elsewhere.
            first.edit("src/a.rs").allowed();
            second.edit("src/b.rs").allowed();

            // Each edit is attributed.
            let other = holder_of(&sandbox, "src/b.rs").unwrap();
            for (task, agent, file) in [(&id, &first, "src/a.rs"), (&other.0, &second, "src/b.rs")] {
                let shown = sandbox.show(task);
                assert_eq!((&shown["ad_hoc"], &shown["lease"]["scope"]), (&json!(true), &json!([file])));
                assert!(shown["title"].as_str().unwrap().contains(file), "{shown}");
                assert_eq!(shown["lease"]["process"]["pid"], agent.pid());
                let who = agent.who();
                assert_eq!(opened_by(&sandbox, task), (json!(who.0), json!(who.1)));
            }
            assert_eq!(tasks(&sandbox).len(), 2);

            // When the first has gone, the file is free.
            first.edit("src/c.rs").allowed();
            first.edited("src/c.rs").allowed();
            first.end();
            second.edit("src/a.rs").allowed();
            assert_eq!(holder_of(&sandbox, "src/a.rs").unwrap(), other);
            let done = sandbox.show(&id);
            assert_eq!(done["state"], "done");
            let notes = done["notes"].to_string();
            assert!(notes.contains("src/a.rs") && notes.contains("src/c.rs"), "{notes}");
            sandbox.is_whole();
        }
    }
}

#[test]
fn of_a_patch_over_several_files_all_are_reserved_or_none() {
    let sandbox = repository();
    let (one, other) = (Harness::claude(&sandbox, "c-1"), Harness::codex(&sandbox, "c-2"));
    one.edit("b.rs").allowed();
    let files = ["a.rs", "b.rs", "c.rs"].map(std::path::Path::new);
    assert!(other.edit_all(&files).refused().contains("b.rs"));
    assert_eq!(holder_of(&sandbox, "a.rs"), None);
    other.edit_all(&[files[0], files[2]]).allowed();
    assert_eq!(holder_of(&sandbox, "a.rs"), holder_of(&sandbox, "c.rs"));
}

#[test]
fn of_many_agents_that_edit_the_same_files_at_once_each_file_has_one() {
    const AGENTS: usize = 6;
    const FILES: usize = 4;
    let sandbox = repository();
    let begin = Barrier::new(AGENTS);
    let won: Vec<Vec<bool>> = std::thread::scope(|scope| {
        let agents: Vec<_> = (0..AGENTS)
            .map(|at| {
                let (sandbox, begin) = (&sandbox, &begin);
                scope.spawn(move || {
                    let agent = Harness::new(KINDS[at % KINDS.len()], sandbox, &format!("c-{at}"));
                    agent.start();
                    let mut won = Vec::new();
                    for file in 0..FILES {
                        begin.wait();
                        won.push(agent.edit(format!("{file}.rs")).refusal.is_none());
                    }
                    // Nobody leaves before all have asked: what one has left is free.
                    begin.wait();
                    won
                })
            })
            .collect();
        agents.into_iter().map(|agent| agent.join().unwrap()).collect()
    });
    for file in 0..FILES {
        assert_eq!(won.iter().filter(|won| won[file]).count(), 1, "{file}.rs: {won:?}");
    }
    assert!(store(&sandbox).is_dir());
    sandbox.is_whole();
}
