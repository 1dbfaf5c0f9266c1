//! Whatever is wrong with onus, its store or a payload: the agent goes on.

use std::process::Stdio;
use std::time::Duration;

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::agents::harness::{Harness, Verdict};
use crate::agents::kit::{bare_repository, configured, read_only_git, repository, store, tasks};
use crate::agents::payload::{Event, KINDS};
use crate::support::{Sandbox, agent, eventually, human};

/// A whole conversation in which nothing is refused, and the person is warned at its start and then no more.
#[track_caller]
fn goes_on_warned(make: &dyn Fn() -> Harness, words: &[&str]) {
    let agent = make();
    let started = agent.start();
    let warning = started.warning.as_deref().unwrap_or_else(|| panic!("nobody was warned: {started:?}"));
    for word in words {
        assert!(warning.contains(word), "'{word}' is not in: {warning}");
    }
    assert_eq!(started.refusal, None);
    the_rest_is_silent(agent);
}

fn the_rest_is_silent(agent: Harness) {
    let tool = agent.kind.edit_tool();
    agent.prompt().silent();
    for _ in 0..2 {
        agent.edit("a.rs").silent();
        agent.after_tool(tool).silent();
    }
    agent.turn_over().silent();
    agent.end();
}

#[test]
fn without_a_store_agents_work_on_and_only_where_onus_was_set_up_somebody_is_told() {
    let sandbox = bare_repository();
    for kind in KINDS {
        let agent = Harness::new(kind, &sandbox, "c-1");
        agent.start().silent();
        the_rest_is_silent(agent);
    }
    // Not a repository at all.
    let nowhere = Sandbox::empty();
    let agent = Harness::claude(&nowhere, "c-1");
    agent.start().silent();
    the_rest_is_silent(agent);
    // Set up, and the store is not there: a fresh clone.
    let folder = sandbox.path().join(".claude");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("settings.json"), r#"{"hooks":{"x":"onus hook claude"}}"#).unwrap();
    goes_on_warned(&|| Harness::claude(&sandbox, "c-1"), &["onus"]);
}

#[test]
fn with_a_broken_configuration_agents_work_on() {
    for text in ["this is [ not toml", "[lease]\nttl = \"soon\"\n", "[guard]\nunclaimed = \"sometimes\"\n"] {
        let sandbox = repository();
        configured(&sandbox, text);
        for kind in KINDS {
            goes_on_warned(&|| Harness::new(kind, &sandbox, "c-1"), &["onus.toml"]);
        }
    }
}

#[test]
fn where_the_store_is_a_folder_or_damaged_agents_work_on() {
    let sandbox = repository();
    let database = store(&sandbox).join("onus.db");
    for side in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(store(&sandbox).join(format!("onus.db{side}")));
    }
    std::fs::write(&database, "SQLite format 3\0, but not really").unwrap();
    goes_on_warned(&|| Harness::claude(&sandbox, "c-1"), &["onus"]);
    std::fs::remove_file(&database).unwrap();
    std::fs::create_dir_all(database.join("x")).unwrap();
    goes_on_warned(&|| Harness::claude(&sandbox, "c-2"), &["onus"]);
    goes_on_warned(&|| Harness::codex(&sandbox, "c-3"), &["onus"]);
}

#[test]
fn where_git_is_read_only_agents_work_on() {
    let Some(under) = read_only_git() else { return };
    let under: Vec<&str> = under.iter().map(String::as_str).collect();
    let sandbox = repository();
    let id = sandbox.add("A task");
    let other = Harness::codex(&sandbox, "other");
    other.start();
    other.edit("theirs.rs").allowed();
    for kind in KINDS {
        let agent = Harness::new(kind, &sandbox, "c-1");
        let hook = |event: &Event<'_>| {
            let name = kind.event_name(event).unwrap();
            let payload = agent.payload(event).to_string();
            agent.hook_under(&payload, Some(name), &under, &format!("onus hook {}", kind.name()))
        };
        let started = hook(&Event::Start("startup"));
        let warning = started.warning.as_deref().unwrap_or_default();
        assert!(warning.contains("read but not written"), "{started:?}");
        let path = sandbox.path().join("a.rs");
        hook(&Event::BeforeEdit(&[&path])).silent();
        // What others have can still be seen.
        let theirs = sandbox.path().join("theirs.rs");
        let refused = hook(&Event::BeforeEdit(&[&theirs]));
        assert!(refused.refused().contains("other"), "{refused:?}");
        hook(&Event::AfterTool("Read")).silent();
        hook(&Event::TurnOver).silent();
        // In its shell it can look, and is told the way that works.
        let shell = crate::agents::harness::Shell {
            under: under.iter().map(ToString::to_string).collect(),
            ..crate::agents::harness::Shell::default()
        };
        agent.shell_in(&shell, "onus ready").ok();
        let refused = agent.shell_in(&shell, &format!("onus claim {id}"));
        assert_eq!(refused.code, 8);
        assert!(refused.stderr.contains("outside the sandbox"), "{refused:?}");
        assert_eq!(agent.shell_in(&shell, "onus prime").code, 0);
    }
}

#[test]
fn while_a_stopped_process_has_the_store_agents_work_on() {
    // Given a process that was stopped with the writer lock
    let sandbox = repository();
    sandbox.add("A task");
    let holder = Harness::codex(&sandbox, "holder");
    holder.start();
    holder.edit("theirs.rs").allowed();
    let foreign = Connection::open(store(&sandbox).join("onus.db")).unwrap();
    foreign.busy_timeout(Duration::ZERO).unwrap();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut stopped = sandbox
        .command(&agent("slow"))
        .args(["note", "1", "x"])
        .env("ONUS_STORE_WAIT", "60s")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lock = std::fs::File::open(store(&sandbox).join("writer.lock")).unwrap();
    eventually("it to have the lock", || match lock.try_lock() {
        Err(std::fs::TryLockError::WouldBlock) => Some(()),
        outcome => {
            outcome.unwrap();
            lock.unlock().unwrap();
            None
        }
    });
    kill_process(Pid::from_child(&stopped), Signal::STOP).unwrap();
    foreign.execute_batch("ROLLBACK").unwrap();
    // Then agents go on, and are told so
    let process = format!("process {}", stopped.id());
    for kind in KINDS {
        let agent = Harness::new(kind, &sandbox, "c-1").with("ONUS_STORE_WAIT", "100ms");
        let warned = |verdict: Verdict| {
            assert_eq!(verdict.refusal, None, "{verdict:?}");
            let warning = verdict.warning.unwrap_or_default();
            assert!(warning.contains("onus") && warning.contains(&process), "{warning}");
        };
        warned(agent.start());
        agent.prompt().silent();
        // Nothing can be reserved: a free file passes, and that is seen; another's is refused all the same.
        warned(agent.edit("a.rs"));
        agent.after_tool(kind.edit_tool()).silent();
        assert!(agent.edit("theirs.rs").refused().contains("holder"), "{kind:?}");
        agent.turn_over().silent();
        agent.end();
    }
    // And are guarded again when it does
    kill_process(Pid::from_child(&stopped), Signal::CONT).unwrap();
    assert!(stopped.wait().unwrap().success());
    let (one, other) = (Harness::claude(&sandbox, "c-1"), Harness::codex(&sandbox, "c-2"));
    one.edit("a.rs").allowed();
    other.edit("a.rs").refused();
}

#[test]
fn under_a_persons_name_agents_work_on() {
    let sandbox = repository();
    for kind in KINDS {
        goes_on_warned(
            &|| Harness::new(kind, &sandbox, "c-1").with("ONUS_ACTOR", "human:x"),
            &["human:x", "person"],
        );
    }
    for (name, value) in [("ONUS_ACTOR", "nonsense"), ("ONUS_INSTANCE", "a b"), ("ONUS_LEASE_TTL", "soon")] {
        goes_on_warned(&|| Harness::claude(&sandbox, "c-1").with(name, value), &[name]);
    }
    assert!(tasks(&sandbox).is_empty());
}

/// Payloads that no harness should send, each with what makes it wrong.
fn nonsense(agent: &Harness) -> Vec<(&'static str, String)> {
    let edit = agent.payload(&Event::BeforeEdit(&["a.rs".as_ref()]));
    let without = |field: &str| {
        let mut payload = edit.clone();
        payload.as_object_mut().unwrap().remove(field);
        payload.to_string()
    };
    let with = |field: &str, value: Value| {
        let mut payload = edit.clone();
        payload[field] = value;
        payload.to_string()
    };
    vec![
        ("nothing", String::new()),
        ("blanks", " \n\t".to_owned()),
        ("not JSON", "{ this is not".to_owned()),
        ("cut short", edit.to_string()[..40].to_owned()),
        ("two documents", format!("{edit}{edit}")),
        ("a list", format!("[{edit}]")),
        ("a number", "7".to_owned()),
        ("null", "null".to_owned()),
        ("very deep", format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))),
        ("no event", without("hook_event_name")),
        ("an unknown event", with("hook_event_name", json!("TeammateIdle"))),
        ("an event that is a number", with("hook_event_name", json!(3))),
        ("no conversation", without("session_id")),
        ("an empty conversation", with("session_id", json!(""))),
        ("a conversation that is a number", with("session_id", json!(17))),
        ("a conversation with blanks", with("session_id", json!("a b\nc"))),
        ("a conversation that is very long", with("session_id", json!("x".repeat(100_000)))),
        ("no tool", without("tool_name")),
        ("an unknown tool", with("tool_name", json!("Conjure"))),
        ("a tool that is a list", with("tool_name", json!(["Edit"]))),
        ("no input", without("tool_input")),
        ("input that is text", with("tool_input", json!("a.rs"))),
        ("input without a path", with("tool_input", json!({}))),
        ("a path that is a number", with("tool_input", json!({ "file_path": 5, "command": 5 }))),
        ("an empty path", with("tool_input", json!({ "file_path": "", "command": "" }))),
        ("a path with NUL", with("tool_input", json!({ "file_path": "a\u{0}b", "command": "x" }))),
        ("the repository itself", with("tool_input", json!({ "file_path": ".", "command": "x" }))),
        ("a very long path", with("tool_input", json!({ "file_path": "x/".repeat(50_000), "command": "x" }))),
        (
            "a patch that is none",
            with("tool_input", json!({ "file_path": "/", "command": "*** Add File: \n" })),
        ),
        ("a folder that is not there", with("cwd", json!("/not/there"))),
        ("a folder that is a number", with("cwd", json!(1))),
    ]
}

#[test]
fn no_payload_stops_an_agent() {
    for kind in KINDS {
        // Of its own: what can be judged in spite of all is judged.
        let sandbox = repository();
        let agent = Harness::new(kind, &sandbox, "c-1");
        for (what, payload) in nonsense(&agent) {
            let verdict = agent.hook_with(&payload, agent.kind.event_name(&Event::BeforeTool("")));
            assert_eq!(verdict.refusal, None, "{what}: {verdict:?}");
            assert_eq!(verdict.warning, None, "{what}: {verdict:?}");
            assert!(verdict.ran.stderr.len() < 1_000, "{what}: a message does not repeat a flood");
            assert!(!verdict.ran.stderr.contains("unexpected"), "{what}: {verdict:?}");
        }
        sandbox.is_whole();
    }
}

#[test]
fn a_payload_with_a_large_file_in_it_is_guarded_like_any_other() {
    let sandbox = repository();
    let (one, other) = (Harness::claude(&sandbox, "one"), Harness::gemini(&sandbox, "other"));
    let large = |agent: &Harness, megabytes: usize| {
        let path = sandbox.path().join("large.txt");
        let mut payload = agent.payload(&Event::BeforeEdit(&[&path]));
        payload["tool_input"]["new_string"] = json!("é\\n\"x".repeat(megabytes << 17));
        let event = agent.kind.event_name(&Event::BeforeEdit(&[])).unwrap();
        agent.hook_with(payload.to_string(), Some(event))
    };
    large(&one, 20).allowed();
    assert!(large(&other, 20).refused().contains("one"));
    // Past any measure it cannot be judged, and is not let through.
    assert!(large(&other, 50).refused().contains("32 MiB"));
}

#[test]
fn a_hook_that_is_called_wrongly_stops_no_agent() {
    let sandbox = repository();
    let agent = Harness::claude(&sandbox, "c-1");
    let payload = agent.payload(&Event::BeforeEdit(&["a.rs".as_ref()])).to_string();
    for command in [
        "onus hook nobody",
        "onus hook",
        "onus hook claude --unknown",
        "onus hook '' 2>&1 >/dev/null | cat >&2",
    ] {
        let verdict = agent.hook_under(&payload, Some("PreToolUse"), &[], command);
        assert_eq!(verdict.ran.stdout, "", "{command}: {verdict:?}");
    }
}

#[test]
fn a_hook_whose_answer_nobody_reads_ends_quietly() {
    let sandbox = repository();
    let agent = Harness::claude(&sandbox, "c-1");
    let payload = agent.payload(&Event::Start("startup")).to_string();
    let verdict = agent.hook_under(&payload, None, &[], "onus hook claude | true; onus hook claude >&-");
    assert!(!verdict.ran.stderr.contains("panic"), "{verdict:?}");
}

#[test]
fn a_store_that_comes_to_be_in_the_middle_of_a_conversation_guards_from_then_on() {
    let sandbox = bare_repository();
    let (one, other) = (Harness::claude(&sandbox, "one"), Harness::codex(&sandbox, "other"));
    one.start().silent();
    one.edit("a.rs").silent();
    sandbox.run(&human("founder"), &["init"]).ok();
    one.edit("a.rs").allowed();
    other.edit("a.rs").refused();
}
