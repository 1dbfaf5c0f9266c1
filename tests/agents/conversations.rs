//! One conversation is one instance, wherever its commands come from; two conversations never are.

use serde_json::json;

use crate::agents::harness::{Harness, Shell, who};
use crate::agents::kit::{holder_of, own_pids, repository, tasks, write};
use crate::agents::payload::{KINDS, Kind};
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
    let unfinished: Vec<_> =
        tasks(&sandbox).into_iter().filter(|task| task["state"] == "in_progress").collect();
    assert_eq!(unfinished.len(), KINDS.len(), "{unfinished:?}");
}

#[test]
fn a_conversation_that_is_resumed_goes_on_with_its_planned_task() {
    for kind in KINDS {
        let sandbox = repository();
        let id = sandbox.add("Say it better");
        let agent = Harness::new(kind, &sandbox, "c-1");
        agent.start();
        let first = agent.json(&format!("onus claim {id}"))["lease"]["token"].as_u64().unwrap();
        agent.edit("a.rs").allowed();
        agent.kill();

        let resumed = Harness::new(kind, &sandbox, "c-1");
        resumed.started_by("resume").allowed();
        resumed.edit("b.rs").allowed();
        let lease = sandbox.show(&id)["lease"].clone();
        assert_eq!((&lease["live"], &lease["instance"]), (&json!(true), &json!("c-1")), "{lease}");
        assert_eq!(lease["process"]["pid"], resumed.pid());
        // What the dead process left running is fenced.
        assert!(lease["token"].as_u64().unwrap() > first, "{lease}");
        for file in ["a.rs", "b.rs"] {
            assert_eq!(
                holder_of(&sandbox, file),
                Some((id.clone(), "c-1".into())),
                "what it had, it has again"
            );
        }
        resumed.json(&format!("onus done {id} -m x"));
        assert_eq!(tasks(&sandbox).len(), 1, "nothing was adopted");
    }
}

#[test]
fn a_conversation_that_is_resumed_does_not_get_what_another_took_meanwhile() {
    let sandbox = repository();
    let id = sandbox.add("Say it better");
    let agent = Harness::claude(&sandbox, "c-1");
    agent.start();
    agent.json(&format!("onus claim {id}"));
    agent.edit("a.rs").allowed();
    agent.kill();
    // Another took one of its files, then another the task.
    let other = Harness::codex(&sandbox, "c-2");
    other.start();
    other.edit("a.rs").allowed();
    let resumed = Harness::claude(&sandbox, "c-1");
    resumed.started_by("resume");
    assert!(resumed.edit("b.rs").refused().contains("c-2"));
    other.json(&format!("onus claim {id}"));
    assert!(resumed.edit("b.rs").refused().contains(&id));
    assert_eq!(sandbox.show(&id)["lease"]["instance"], "c-2");
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
fn a_task_is_granted_to_one_of_the_conversations_that_share_a_process_and_its_server() {
    // Given two terminals of Codex: one background process, one server, and no variable that tells them apart
    let sandbox = repository();
    let id = sandbox.add("Say it better");
    let one = Harness::codex(&sandbox, "thread-1");
    let other = one.beside("thread-2");
    one.start();
    other.start();
    let server = one.server("onus");
    // When both claim the task over MCP, then one of them has it
    let (granted, refused) = server.call(&one, "claim", json!({ "id": id }));
    assert!(!refused, "{granted}");
    let (told, refused) = server.call(&other, "claim", json!({ "id": id }));
    assert!(refused && told.contains("thread-1"), "{told}");
    assert_eq!(sandbox.show(&id)["lease"]["instance"], "thread-1");
    assert_eq!(one.json("onus whoami")["holds"], json!([id]));
    assert_eq!(other.json("onus whoami")["holds"], json!([]));
    // A sub-agent is of its conversation, in the server and in its shell
    let part = other.sub_agent("thread-3");
    let (told, refused) = server.call(&part, "done", json!({ "id": id, "message": "x" }));
    assert!(refused && told.contains("thread-1"), "{told}");
    assert_eq!(part.shell(&format!("onus done {id} -m x")).code, 4);
    assert_eq!(part.whoami(), other.who());
    let part = one.sub_agent("thread-4");
    let (told, refused) = server.call(&part, "done", json!({ "id": id, "message": "x" }));
    assert!(!refused, "{told}");
}

#[test]
fn where_nothing_tells_two_conversations_apart_the_call_is_refused() {
    let sandbox = repository();
    let id = sandbox.add("Say it better");
    let one = Harness::codex(&sandbox, "thread-1");
    let other = one.beside("thread-2");
    one.start();
    other.start();
    let server = one.server("onus");
    let (told, refused) = server.call_with(json!({}), "claim", json!({ "id": id }));
    assert!(refused, "{told}");
    for word in ["identity", "thread-1", "thread-2", "ask a person"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    // In a shell whose variables say nothing, or name a thread that no hook ever named.
    for command in [
        format!("env -i PATH=\"$PATH\" onus claim {id} --json"),
        format!("env -u CODEX_SESSION_ID CODEX_THREAD_ID=thread-9 onus claim {id} --json"),
    ] {
        let ran = one.shell(&command);
        assert_eq!(ran.code, 2, "{ran:?}");
        let error = ran.json()["error"].clone();
        assert_eq!(error["code"], "identity");
        assert_eq!(error["candidates"], json!(["thread-2", "thread-1"]));
        assert!(error["next"].to_string().contains("ONUS_INSTANCE"), "{error}");
    }
    let asked = one.shell("env -i PATH=\"$PATH\" onus whoami");
    assert!(
        asked.code == 2 && asked.stderr.contains("thread-1") && asked.stderr.contains("thread-2"),
        "{asked:?}"
    );
    assert_eq!(sandbox.show(&id)["lease"], json!(null));
    // Whoever says which it is, is it; reading needs no name.
    one.shell("env -i PATH=\"$PATH\" onus ready").ok();
    one.shell(&format!("env -i PATH=\"$PATH\" ONUS_INSTANCE=thread-1 onus claim {id}")).ok();
    // When one of them has ended, the other is the only one.
    other.end_by("other").unwrap().silent();
    assert_eq!(who(&one.shell("env -i PATH=\"$PATH\" onus whoami --json")), one.who());
}

#[test]
fn after_clear_the_server_that_was_started_before_acts_for_the_conversation_that_runs() {
    for reports_the_end in [true, false] {
        let sandbox = repository();
        let id = sandbox.add("Say it better");
        let agent = Harness::claude(&sandbox, "c-1");
        agent.start();
        let server = agent.server("onus");
        if reports_the_end {
            agent.end_by("clear");
        }
        let cleared = agent.beside("c-2");
        cleared.started_by("clear").allowed();
        // It still has the variable of the one before.
        let (told, refused) = server.call(&cleared, "claim", json!({ "id": id }));
        assert!(!refused, "{told}");
        assert_eq!(sandbox.show(&id)["lease"]["instance"], "c-2");
        assert_eq!(cleared.json("onus whoami")["holds"], json!([id]));
        // The one before comes back: what it does is its own again.
        let back = agent.beside("c-1");
        back.started_by("resume");
        let (told, refused) = server.call(&back, "done", json!({ "id": id, "message": "x" }));
        assert!(refused && told.contains("c-2"), "{told}");
    }
}

#[test]
fn a_server_whose_client_never_ran_a_hook_says_so_once() {
    for kind in KINDS {
        let sandbox = repository();
        let agent = Harness::new(kind, &sandbox, "c-1");
        let server = agent.server("onus");
        let (told, _) = server.call(&agent, "status", json!({}));
        assert!(told.contains("no hook of"), "{kind:?}: {told}");
        let (told, _) = server.call(&agent, "status", json!({}));
        assert!(!told.contains("no hook of"), "{kind:?}: {told}");
        let guarded = Harness::new(kind, &sandbox, "c-2");
        guarded.start();
        let server = guarded.server("onus");
        let (told, _) = server.call(&guarded, "status", json!({}));
        assert!(!told.contains("no hook of"), "{kind:?}: {told}");
    }
}

#[test]
fn a_shell_and_the_server_of_an_agent_without_hooks_are_one_instance() {
    // Given an agent that names no conversation anywhere, and whose hooks nobody trusted
    let sandbox = repository();
    let id = sandbox.add("Say it better");
    let agent = Harness::gemini(&sandbox, "c-1");
    let server = agent.server("onus");
    agent.json(&format!("onus claim {id}"));
    let (told, refused) = server.call(&agent, "done", json!({ "id": id, "message": "x" }));
    assert!(!refused, "{told}");
    // And a person who has a shell below the same program is a person.
    let ran = agent.shell("env -u GEMINI_CLI ONUS_ACTOR=human:ann onus whoami --json");
    assert_eq!(who(&ran), ("human:ann".to_owned(), "person".to_owned()));
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
