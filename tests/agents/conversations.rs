//! One conversation is one instance, wherever its commands come from; two conversations never are.

use serde_json::json;

use crate::harness::{Harness, Shell, who};
use crate::kit::{holder_of, own_pids, repository, tasks, write};
use crate::payload::{KINDS, Kind};
use crate::support::Sandbox;

/// Every harness, and the versions that do not name the conversation in their shells.
fn all(sandbox: &Sandbox) -> Vec<Harness> {
    let mut all: Vec<Harness> =
        KINDS.iter().map(|kind| Harness::new(*kind, sandbox, &format!("{}-1", kind.name()))).collect();
    all.push(Harness::claude(sandbox, "claude-2").nameless());
    all
}

#[test]
fn a_conversation_is_one_instance_in_every_shell_it_starts() {
    let sandbox = repository();
    for agent in all(&sandbox) {
        agent.start();
        let me = agent.who();
        assert_eq!(agent.whoami(), me);
        assert_eq!(agent.whoami_in(&Shell { pty: true, ..Shell::default() }), me);
        for command in [
            "bash -c 'bash -c \"onus whoami --json; true\"; true'",
            "sh -c 'onus whoami --json' & wait",
            "cd /; onus -C \"$OLDPWD\" whoami --json",
            // Not even the variables are needed.
            "env -i PATH=\"$PATH\" onus whoami --json",
            "setsid --wait onus whoami --json",
            "ONUS_INSTANCE= ONUS_ACTOR= onus whoami --json",
        ] {
            assert_eq!(who(&agent.shell(command)), me, "{command}");
        }
    }
}

#[test]
fn a_conversation_that_a_variable_names_is_one_instance_in_a_sandbox_with_pids_of_its_own() {
    for mounts_proc in [true, false] {
        let Some(shell) = own_pids(mounts_proc) else { return };
        let sandbox = repository();
        for agent in [Harness::claude(&sandbox, "c-1"), Harness::codex(&sandbox, "c-2")] {
            agent.start();
            assert_eq!(agent.whoami_in(&shell), agent.who());
            let id = sandbox.add("From inside");
            let run = |command: &str| agent.shell_in(&shell, &format!("{command} --json")).ok().json();
            let lease = run(&format!("onus claim {id}"))["lease"].clone();
            assert_eq!(lease["process"]["pid"], agent.pid(), "bound to the harness outside: {lease}");
            // Inside and outside are one.
            agent.json(&format!("onus note {id} outside"));
            run(&format!("onus note {id} inside"));
            run(&format!("onus done {id} -m x"));
        }
    }
}

#[test]
fn a_conversation_that_is_resumed_goes_on_with_its_ad_hoc_work() {
    let sandbox = repository();
    for kind in KINDS {
        let (file, conversation) = (format!("{}.rs", kind.name()), format!("{}-1", kind.name()));
        let agent = Harness::new(kind, &sandbox, &conversation);
        agent.start();
        agent.edit(&file).allowed();
        agent.kill();
        let resumed = Harness::new(kind, &sandbox, &conversation);
        resumed.started_by("resume").allowed();
        assert_eq!(resumed.whoami(), resumed.who());
        resumed.edit(&file).allowed();
        resumed.edit(format!("more-{file}")).allowed();
        assert_eq!(holder_of(&sandbox, &file).unwrap().1, conversation);
        let lease = tasks(&sandbox).into_iter().find(|task| task["lease"]["live"] == true).unwrap();
        assert_eq!(lease["lease"]["process"]["pid"], resumed.pid());
        resumed.kill();
    }
    // What was begun in the process before is finished, not left behind.
    let unfinished: Vec<_> = tasks(&sandbox).into_iter().filter(|task| task["state"] != "done").collect();
    assert_eq!(unfinished.len(), KINDS.len(), "{unfinished:?}");
}

#[test]
fn a_conversation_that_is_resumed_claims_its_task_anew() {
    let sandbox = repository();
    let id = sandbox.add("Say it better");
    let agent = Harness::claude(&sandbox, "c-1");
    agent.start();
    let first = agent.json(&format!("onus claim {id}"))["lease"]["token"].as_u64().unwrap();
    agent.edit("a.rs").allowed();
    agent.kill();

    let resumed = Harness::claude(&sandbox, "c-1");
    let started = resumed.started_by("resume");
    assert!(started.told().contains(&format!("onus claim {id}")), "{started:?}");
    // Until then it has nothing to edit under, and is told what to do.
    let refused = resumed.edit("a.rs");
    assert!(refused.refused().contains(&format!("onus claim {id}")), "{refused:?}");
    let lease = resumed.json(&format!("onus claim {id}"))["lease"].clone();
    assert!(lease["token"].as_u64().unwrap() > first, "{lease}");
    assert_eq!(lease["process"]["pid"], resumed.pid());
    resumed.edit("a.rs").allowed();
    assert_eq!(holder_of(&sandbox, "a.rs"), Some((id.clone(), "c-1".into())));
    resumed.json(&format!("onus done {id} -m x"));
    assert_eq!(tasks(&sandbox).len(), 1, "nothing was adopted");
}

#[test]
fn after_clear_the_same_process_is_another_instance() {
    let sandbox = repository();
    let id = sandbox.add("Say it better");
    for agent in all(&sandbox) {
        agent.start();
        agent.json(&format!("onus claim {id}"));
        agent.end_by("clear");
        let cleared = agent.beside(&format!("{}-cleared", agent.conversation));
        cleared.started_by("clear").allowed();
        assert_eq!(cleared.whoami(), cleared.who());
        assert_eq!(cleared.whoami_in(&Shell { pty: true, ..Shell::default() }), cleared.who());
        // What the one before holds is not its.
        assert_eq!(cleared.shell(&format!("onus claim {id}")).code, 4);
        assert_eq!(cleared.json("onus whoami")["holds"], json!([]));
        cleared.edit(format!("{}.rs", agent.conversation)).allowed();
        let ad_hoc = holder_of(&sandbox, &format!("{}.rs", agent.conversation)).unwrap();
        assert_eq!(ad_hoc.1, cleared.conversation);
        agent.kill();
    }
}

#[test]
fn conversations_that_share_a_process_are_told_apart_by_the_harness_variable() {
    let sandbox = repository();
    let one = Harness::codex(&sandbox, "thread-1");
    let other = one.beside("thread-2");
    one.start();
    other.start();
    for _ in 0..2 {
        assert_eq!(one.whoami(), one.who());
        assert_eq!(other.whoami(), other.who());
        one.edit("a.rs").allowed();
        assert!(other.edit("a.rs").refused().contains("thread-1"));
    }
}

#[test]
fn two_conversations_in_one_checkout_are_never_one() {
    let sandbox = repository();
    let mut agents: Vec<Harness> = all(&sandbox).into_iter().chain(all(&sandbox)).collect();
    let ids: Vec<String> = agents.iter().map(|_| sandbox.add("One each")).collect();
    // The second of each kind is another conversation of the same harness.
    for (at, agent) in agents.iter_mut().enumerate() {
        agent.conversation.push_str(&format!("-{at}"));
    }
    for agent in &agents {
        agent.start().allowed();
    }
    for (agent, id) in agents.iter().zip(&ids) {
        assert_eq!(agent.whoami(), agent.who());
        agent.json(&format!("onus claim {id}"));
    }
    for (at, agent) in agents.iter().enumerate() {
        assert_eq!(agent.json("onus whoami")["holds"], json!([ids[at]]));
        let theirs = &ids[(at + 1) % ids.len()];
        assert_eq!(agent.shell(&format!("onus claim {theirs}")).code, 4);
        assert_ne!(agent.shell(&format!("onus done {theirs} -m x")).code, 0);
    }
}

#[test]
fn an_agent_that_another_one_starts_in_its_shell_is_itself() {
    for outer_kind in KINDS {
        for inner_kind in KINDS {
            let sandbox = repository();
            let outer = Harness::new(outer_kind, &sandbox, "outer");
            outer.start();
            outer.edit("outer.rs").allowed();
            let inner = outer.nested(inner_kind, "inner");
            inner.start();
            assert_eq!(inner.whoami(), inner.who(), "{inner_kind:?} in {outer_kind:?}");
            assert_eq!(inner.whoami_in(&Shell { pty: true, ..Shell::default() }), inner.who());
            assert_eq!(outer.whoami(), outer.who(), "{outer_kind:?} with {inner_kind:?} inside");
            assert!(inner.edit("outer.rs").refused().contains("outer"));
            inner.edit("inner.rs").allowed();
            assert!(outer.edit("inner.rs").refused().contains("inner"));
            inner.end();
            assert_eq!(outer.whoami(), outer.who());
            outer.edit("inner.rs").allowed();
        }
    }
}

#[test]
fn an_agent_that_another_one_starts_is_itself_in_a_sandbox_with_pids_of_its_own() {
    let Some(shell) = own_pids(true) else { return };
    for (outer_kind, inner_kind) in
        [(Kind::Claude, Kind::Codex), (Kind::Codex, Kind::Claude), (Kind::Gemini, Kind::Codex)]
    {
        let sandbox = repository();
        let outer = Harness::new(outer_kind, &sandbox, "outer");
        outer.start();
        let inner = outer.nested(inner_kind, "inner");
        inner.start();
        assert_eq!(inner.whoami_in(&shell), inner.who(), "{inner_kind:?} in {outer_kind:?}");
    }
}

#[test]
fn one_that_was_set_up_in_the_middle_of_its_conversation_is_known_from_its_first_hook_on() {
    let sandbox = repository();
    write(&sandbox, "a.rs");
    for agent in all(&sandbox) {
        agent.edit(format!("{}.rs", agent.conversation)).allowed();
        assert_eq!(agent.whoami(), agent.who());
        assert_eq!(agent.json("onus whoami")["holds"].as_array().unwrap().len(), 1);
    }
}
