//! What harnesses report beside turns: what was used of models, which their transcripts tell, and that a person is asked.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::agents::harness::Harness;
use crate::agents::kit::repository;
use crate::agents::payload::{Event, KINDS, Kind};
use crate::support::{Sandbox, human};

/// What an agent of this kind writes of one answer: tokens in, out, and from a cache.
fn line(kind: Kind, n: u64, (went_in, out, cached): (u64, u64, u64)) -> String {
    let at = jiff::Timestamp::now().to_string();
    let line = match kind {
        Kind::Claude => json!({
            "type": "assistant", "timestamp": at, "sessionId": "s", "cwd": "/w",
            "message": {
                "id": format!("msg_{n}"), "model": "a-model", "role": "assistant",
                "content": [{ "type": "text", "text": "the secret plan" }],
                "usage": {
                    "input_tokens": went_in - cached, "cache_creation_input_tokens": 0,
                    "cache_read_input_tokens": cached, "output_tokens": out,
                },
            },
        }),
        Kind::Codex => json!({
            "timestamp": at, "type": "event_msg",
            "payload": { "type": "token_count", "info": {
                "total_token_usage": {
                    "input_tokens": went_in * n, "cached_input_tokens": cached * n, "output_tokens": out * n,
                },
                "last_token_usage": {
                    "input_tokens": went_in, "cached_input_tokens": cached, "output_tokens": out,
                },
            } },
        }),
        Kind::Gemini => json!({
            "id": format!("m{n}"), "timestamp": at, "type": "gemini", "content": "the secret plan", "model": "a-model",
            "tokens": { "input": went_in, "output": out, "cached": cached, "thoughts": 0, "tool": 0 },
        }),
    };
    format!("{line}\n")
}

/// Reports the end of a turn, or of the conversation, with a transcript at this path.
fn over(agent: &Harness, event: &Event<'_>, transcript: &Path) {
    let mut payload = agent.payload(event);
    payload["transcript_path"] = json!(transcript);
    let name = payload["hook_event_name"].as_str().unwrap().to_owned();
    agent.hook_with(payload.to_string(), Some(&name)).silent();
}

fn session(sandbox: &Sandbox, id: &str) -> Value {
    sandbox.json(&human("ann"), &["sessions", id]).ok().json()["sessions"][0].clone()
}

fn append(path: &Path, text: &str) {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn transcript(sandbox: &Sandbox, name: &str) -> PathBuf {
    let folder = sandbox.path().join("home/transcripts");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

#[test]
fn what_a_harness_reports_is_recorded_once_with_the_session() {
    let sandbox = repository();
    for kind in KINDS {
        let (id, agent) = (sandbox.add("Work"), Harness::new(kind, &sandbox, kind.name()));
        let path = transcript(&sandbox, &format!("{}.jsonl", kind.name()));
        agent.start();
        if kind == Kind::Codex {
            append(&path, "{\"type\":\"turn_context\",\"payload\":{\"model\":\"a-model\"}}\n");
        }
        agent.prompt().silent();
        // Before it holds anything.
        append(&path, &line(kind, 1, (1_000, 10, 0)));
        over(&agent, &Event::TurnOver, &path);
        agent.prompt().silent();
        agent.json(&format!("onus claim {id}"));
        append(&path, &line(kind, 2, (1_000, 10, 400)));
        over(&agent, &Event::TurnOver, &path);
        let used = session(&sandbox, &id)["usage"].clone();
        let expected = json!([{
            "model": "a-model", "tokens_in": 1_000, "tokens_out": 10,
            "tokens_cached": if kind == Kind::Codex { 800 } else { 400 },
            "source": "actual", "cost": null, "currency": null,
        }]);
        assert_eq!(used, expected, "{kind:?}");
        // Nothing new; a torn line; the same answer again.
        over(&agent, &Event::TurnOver, &path);
        append(&path, "{\"usage\": \"tokens\" token_count");
        over(&agent, &Event::TurnOver, &path);
        append(&path, &format!("\n{}", line(kind, 2, (1_000, 10, 400))));
        over(&agent, &Event::TurnOver, &path);
        assert_eq!(session(&sandbox, &id)["usage"], expected, "{kind:?}");
        // The end of its work, and of the conversation, in one turn.
        agent.prompt().silent();
        append(&path, &line(kind, 3, (1_000, 10, 400)));
        agent.json(&format!("onus done {id} -m done"));
        over(&agent, &Event::End("other"), &path);
        let used = session(&sandbox, &id)["usage"].clone();
        let counted = (used[0]["tokens_in"].as_u64(), used[0]["tokens_out"].as_u64());
        assert_eq!(counted, (Some(2_000), Some(20)), "{kind:?}");
    }
    // Nothing of what was said is kept.
    let exported = sandbox.run(&human("ann"), &["ledger", "export"]);
    assert_eq!(exported.code, 0, "{}", exported.stderr);
    assert!(!exported.stdout.contains("secret plan"));
    sandbox.is_whole();
}

#[test]
fn a_transcript_that_is_no_plain_file_of_the_users_is_not_read_and_stops_nobody() {
    let sandbox = repository();
    let (id, agent) = (sandbox.add("Work"), Harness::claude(&sandbox, "c"));
    agent.start();
    agent.json(&format!("onus claim {id}"));
    let real = transcript(&sandbox, "real.jsonl");
    append(&real, &line(Kind::Claude, 1, (1_000, 10, 0)));
    let (link, pipe) = (transcript(&sandbox, "link.jsonl"), transcript(&sandbox, "pipe.jsonl"));
    symlink(&real, &link).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for path in [
        link.as_path(),
        &pipe,
        Path::new("/dev/zero"),
        Path::new("/proc/self/mem"),
        real.parent().unwrap(),
        Path::new("real.jsonl"),
        &transcript(&sandbox, "absent.jsonl"),
        Path::new(""),
    ] {
        over(&agent, &Event::TurnOver, path);
        assert_eq!(session(&sandbox, &id)["usage"], json!([]), "{path:?}");
    }
    over(&agent, &Event::TurnOver, &real);
    assert_eq!(session(&sandbox, &id)["usage"][0]["tokens_in"], 1_000);
}

#[test]
fn a_sub_agents_transcript_counts_for_the_work_that_it_is_a_part_of() {
    let sandbox = repository();
    let (id, agent) = (sandbox.add("Work"), Harness::claude(&sandbox, "c"));
    agent.start();
    agent.json(&format!("onus claim {id}"));
    let part = agent.sub_agent("p1");
    let path = transcript(&sandbox, "part.jsonl");
    append(&path, &line(Kind::Claude, 1, (500, 5, 0)));
    for _ in 0..2 {
        let mut payload = part.payload(&Event::PartOver);
        payload["agent_transcript_path"] = json!(path);
        part.hook_with(payload.to_string(), Some("SubagentStop")).silent();
    }
    let used = session(&sandbox, &id)["usage"].clone();
    assert_eq!((used[0]["tokens_in"].clone(), used.as_array().unwrap().len()), (json!(500), 1), "{used}");
}

#[test]
fn while_a_person_is_asked_the_agent_waits_and_does_not_work() {
    let sandbox = repository();
    for kind in KINDS {
        let (id, agent) = (sandbox.add("Work"), Harness::new(kind, &sandbox, kind.name()));
        agent.start();
        agent.prompt().silent();
        agent.json(&format!("onus claim {id}"));
        assert_eq!(session(&sandbox, &id)["waiting_seconds"], Value::Null);
        agent.asks(kind.shell_tool()).silent();
        let asked = session(&sandbox, &id);
        assert_eq!(asked["waits"], true, "{kind:?}");
        std::thread::sleep(Duration::from_millis(1_500));
        let still = session(&sandbox, &id);
        assert_eq!(still["worked_seconds"], asked["worked_seconds"], "{kind:?}");
        assert!(still["waiting_seconds"].as_f64().unwrap() >= 1.5, "{still}");
        let mut payload = agent.payload(&Event::AfterTool(kind.shell_tool()));
        let mut ran = 0.0;
        if kind == Kind::Claude {
            // It says how long the tool ran: that was no waiting.
            payload["duration_ms"] = json!(1_000);
            ran = 1.0;
        }
        let name = payload["hook_event_name"].as_str().unwrap().to_owned();
        agent.hook_with(payload.to_string(), Some(&name));
        let after = session(&sandbox, &id);
        let waited = after["waiting_seconds"].as_f64().unwrap();
        assert!(waited >= 0.5 && after["waits"] == false, "{after}");
        let worked = |session: &Value| session["worked_seconds"].as_f64().unwrap();
        assert!(worked(&after) >= worked(&asked) + ran, "{asked} {after}");
        let held = after["held_seconds"].as_f64().unwrap();
        assert!(worked(&after) + waited <= held + 0.1, "{after}");
        agent.turn_over().silent();
        agent.json(&format!("onus done {id} -m done"));
        assert_eq!(session(&sandbox, &id)["waiting_seconds"].as_f64(), Some(waited), "{kind:?}");
    }
    // Other notifications mean nothing.
    let (id, agent) = (sandbox.add("More"), Harness::claude(&sandbox, "d"));
    agent.start();
    agent.json(&format!("onus claim {id}"));
    for other in [json!("idle_prompt"), json!("auth_success"), Value::Null] {
        let mut payload = agent.payload(&Event::Asks("Bash"));
        payload["hook_event_name"] = json!("Notification");
        payload["notification_type"] = other;
        agent.hook_with(payload.to_string(), Some("Notification")).silent();
    }
    assert_eq!(session(&sandbox, &id)["waits"], false);
    sandbox.is_whole();
}
