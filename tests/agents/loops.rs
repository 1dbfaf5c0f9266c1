//! The loop as each harness runs it: start, look for work, take it, work, say so, finish, leave.

use serde_json::json;

use crate::agents::harness::{Harness, Shell};
use crate::agents::kit::{holder_of, own_pids, repository, tasks, write};
use crate::agents::payload::Kind;
use crate::support::{Sandbox, human};

/// The whole loop, with every shell call made in such a shell.
#[track_caller]
fn the_loop_works(sandbox: &Sandbox, agent: Harness, shell: &Shell) {
    let (kind, me) = (agent.kind, agent.who());
    let (pid, name) = (agent.pid(), format!("agent:{}", agent.kind.name()));
    let id = sandbox.add("Say it better");
    write(sandbox, "src/a.rs");
    let json = |command: &str| -> serde_json::Value {
        agent.shell_in(shell, &format!("{command} --json")).ok().json()
    };

    let started = agent.start();
    let primer = started.allowed().told();
    for word in [&name, &me.1, &id, "You hold nothing", "onus claim", "Exit codes"] {
        assert!(primer.contains(word), "'{word}' is not in the primer: {primer}");
    }
    agent.prompt().silent();

    assert_eq!(json("onus ready")["tasks"][0]["id"], id);
    let lease = json(&format!("onus claim {id}"))["lease"].clone();
    assert_eq!((&lease["actor"], &lease["instance"]), (&json!(me.0), &json!(me.1)));
    assert_eq!(lease["process"]["pid"], pid, "bound to the harness: {lease}");
    assert_eq!(json(&format!("onus claim {id}"))["renewed"], true, "it is known again in the next shell");
    agent.after_tool("Bash").silent();

    agent.edit("src/a.rs").allowed().silent();
    assert_eq!(holder_of(sandbox, "src/a.rs"), Some((id.clone(), me.1.clone())));
    agent.after_tool(kind.edit_tool()).silent();
    for shell in [shell.clone(), Shell { pty: true, ..shell.clone() }] {
        assert_eq!(agent.whoami_in(&shell), me);
    }
    assert_eq!(json("onus whoami")["holds"], json!([id]));
    json(&format!("onus note {id} 'it was said twice'"));
    json(&format!("onus done {id} -m 'said once'"));
    agent.turn_over().silent();

    let task = sandbox.show(&id);
    assert_eq!((&task["state"], &task["lease"]), (&json!("done"), &json!(null)));
    assert_eq!(tasks(sandbox).len(), 1, "nothing was adopted");
    agent.end();
    let log = sandbox.json(&human("founder"), &["log", &id]).ok().json();
    for event in log["events"].as_array().unwrap().iter().skip(1) {
        assert_eq!((&event["actor"], &event["instance"]), (&json!(me.0), &json!(me.1)), "{event}");
    }
    sandbox.is_whole();
}

#[test]
fn claude_code_works_through_the_loop() {
    let sandbox = repository();
    the_loop_works(&sandbox, Harness::claude(&sandbox, "8c35adc1-77aa"), &Shell::default());
}

#[test]
fn claude_code_that_does_not_name_its_conversation_works_through_the_loop() {
    let sandbox = repository();
    the_loop_works(&sandbox, Harness::claude(&sandbox, "8c35adc1-77aa").nameless(), &Shell::default());
}

#[test]
fn codex_works_through_the_loop() {
    let sandbox = repository();
    the_loop_works(&sandbox, Harness::codex(&sandbox, "0199a213-81c0"), &Shell::default());
}

#[test]
fn gemini_works_through_the_loop() {
    let sandbox = repository();
    the_loop_works(&sandbox, Harness::gemini(&sandbox, "f6a7-0001"), &Shell::default());
}

#[test]
fn codex_works_through_the_loop_from_a_sandbox_with_pids_of_its_own() {
    for mounts_proc in [true, false] {
        let Some(mut shell) = own_pids(mounts_proc) else { return };
        shell.env.insert("CODEX_SANDBOX".into(), json!("linux"));
        shell.env.insert("CODEX_SANDBOX_NETWORK_DISABLED".into(), json!("1"));
        let sandbox = repository();
        the_loop_works(&sandbox, Harness::codex(&sandbox, "0199a213-81c0"), &shell);
    }
}

#[test]
fn an_agent_outside_git_works_through_the_loop() {
    let sandbox = Sandbox::new();
    the_loop_works(&sandbox, Harness::claude(&sandbox, "8c35adc1-77aa"), &Shell::default());
}

#[test]
fn tools_that_edit_nothing_are_passed_in_silence_and_leave_no_trace() {
    for kind in [Kind::Claude, Kind::Codex, Kind::Gemini] {
        let sandbox = repository();
        let agent = Harness::new(kind, &sandbox, "c-1");
        agent.start();
        let before = sandbox.events();
        // What a shell would write is not guessed.
        for tool in ["Bash", "Read", "run_shell_command", "read_file", "mcp__some__tool", "Task"] {
            agent.before_tool(tool).silent();
            agent.after_tool(tool).silent();
        }
        assert_eq!(sandbox.events(), before);
    }
}

#[test]
fn what_only_was_reserved_is_released_at_the_end() {
    let sandbox = repository();
    let (kept, reserved) = (sandbox.add("Begun"), sandbox.add("Meant for later"));
    let agent = Harness::claude(&sandbox, "c-1");
    agent.start();
    agent.json(&format!("onus claim {kept}"));
    agent.json(&format!("onus claim {reserved} --reserve"));
    agent.end_by("other").unwrap().silent();
    assert_eq!(sandbox.show(&reserved)["state"], "open");
    assert_eq!(sandbox.show(&reserved)["lease"], json!(null));
    let begun = sandbox.show(&kept);
    assert_eq!((&begun["state"], &begun["lease"]["resting"]), (&json!("in_progress"), &json!(true)));
    let other = Harness::codex(&sandbox, "c-2");
    other.shell(&format!("onus claim {reserved}")).ok();
}
