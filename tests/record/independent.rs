//! A reader with `jq` and `sha256sum` alone can check every hash, whatever is in an event.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Sandbox, agent, human};

fn piped(program: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"));
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program} {args:?}");
    output.stdout
}

/// What a stranger computes for one event, as printed by onus.
fn recomputed(event: &Value) -> String {
    let canonical = piped("jq", &["-cSj", "del(.seq, .hash)"], event.to_string().as_bytes());
    let told = String::from_utf8(piped("sha256sum", &[], &canonical)).unwrap();
    told.split_whitespace().next().unwrap().to_owned()
}

const AWKWARD: &[&str] = &[
    "quotes \" ' ` and \\ backslashes \\n \\u0041",
    "delete \u{7f} and escape \u{1b}[31m and bell \u{7}",
    "umlauts äöü ß, kanji 漢字, crab 🦀, family 👨‍👩‍👧",
    "separators \u{2028}\u{2029} and a mark \u{feff} and a turn \u{202e}abc",
    "composed é and decomposed e\u{301}",
    "</script> & <b> / slashes // \\/",
    "\u{80}\u{9f}\u{a0}\u{ffff}\u{10ffff}",
];

fn story() -> Sandbox {
    let sandbox = Sandbox::new();
    let founder = human("founder");
    for (i, words) in AWKWARD.iter().enumerate() {
        let reference = format!("jira:{}", words.replace(char::is_control, "·"));
        let origin = format!("mail:{i} {}", words.replace(char::is_control, "·"));
        let added =
            sandbox.json(&founder, &["add", words, "-d", words, "--ref", &reference, "--origin", &origin]);
        assert_eq!(added.code, 0, "{words:?}: {added:?}");
    }
    // What is a word to onus may still be more than ASCII.
    for tag in ["größe", "漢字", "a.b", "x_y-z", "🦀"] {
        let _ = sandbox.json(&founder, &["edit", "ON-1", "--tag", tag]);
    }
    sandbox.json(&agent("a"), &["claim", "ON-1", "--ttl", "90s"]).ok();
    sandbox.json(&agent("a"), &["claim", "ON-2", "--bind", &std::process::id().to_string()]).ok();
    sandbox.json(&agent("a"), &["handoff", "ON-2", "--to", "agent:b", "--reason", "é\u{7f}"]).ok();
    sandbox.json(&founder, &["redact", "ON-3", "1", "--reason", "asked to"]).ok();
    sandbox.json(&founder, &["ledger", "seal"]).ok();
    sandbox
}

#[test]
fn jq_and_sha256sum_agree_with_every_hash_of_an_export() {
    let sandbox = story();
    let export = sandbox.run(&human("founder"), &["ledger", "export"]);
    let lines: Vec<Value> =
        export.ok().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&Value> = lines.iter().filter_map(|line| line.get("event")).collect();
    assert!(events.len() > 2 * AWKWARD.len());
    let mut previous: Option<&Value> = None;
    for event in events {
        assert_eq!(event["hash"], recomputed(event), "{event}");
        // And the chain: within a stream each names the hash of the one before.
        let expected = match previous {
            Some(previous) if previous["task"] == event["task"] => previous["hash"].as_str().unwrap(),
            _ => "",
        };
        assert_eq!(event["prev"], expected, "{event}");
        previous = Some(event);
    }
}

#[test]
fn jq_and_sha256sum_agree_with_every_hash_of_the_log() {
    let sandbox = story();
    let events = sandbox.events();
    assert!(events.len() > 2 * AWKWARD.len());
    for event in &events {
        assert_eq!(event["hash"], recomputed(event), "{event}");
    }
    // A stranger who got one letter else would notice.
    let mut changed = events[0].clone();
    changed["actor"] = "human:eve".into();
    assert_ne!(changed["hash"], recomputed(&changed));
}

/// The one text in a payload that nobody checks: the folder in which a lease was taken.
#[test]
fn jq_and_sha256sum_agree_whatever_the_folder_is_called() {
    let sandbox = Sandbox::empty();
    let folder = sandbox.path().join("it's \"here\" \u{7f}\u{1b}\t\\n 漢🦀\u{2028}");
    std::fs::create_dir(&folder).unwrap();
    let run = |args: &[&str]| {
        let output = sandbox.command(&agent("a")).current_dir(&folder).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        output.stdout
    };
    run(&["init", "--prefix", "ON"]);
    run(&["add", "a task"]);
    run(&["claim", "ON-1"]);
    let log: Value = serde_json::from_slice(&run(&["log", "--json"])).unwrap();
    let events = log["events"].as_array().unwrap();
    let named = events.iter().any(|event| event["payload"]["grant"]["worktree"].as_str() == folder.to_str());
    assert!(named, "{log}");
    for event in events {
        assert_eq!(event["hash"], recomputed(event), "{event}");
    }
}

/// The words too: an export carries salt and text, the event `sha256(salt ‖ text)`.
#[test]
fn sha256sum_agrees_with_the_digest_of_every_text_of_an_export() {
    let sandbox = story();
    let export = sandbox.run(&human("founder"), &["ledger", "export"]);
    let lines: Vec<Value> =
        export.ok().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut checked = 0;
    for text in lines.iter().filter_map(|line| line.get("text")) {
        let event = lines
            .iter()
            .filter_map(|line| line.get("event"))
            .find(|event| event["uid"] == text["event"])
            .unwrap();
        let salt = text["salt"].as_str().unwrap();
        let mut bytes: Vec<u8> =
            (0..salt.len()).step_by(2).map(|i| u8::from_str_radix(&salt[i..i + 2], 16).unwrap()).collect();
        bytes.extend(text["text"].as_str().unwrap().as_bytes());
        let told = String::from_utf8(piped("sha256sum", &[], &bytes)).unwrap();
        let field = text["field"].as_str().unwrap();
        assert_eq!(event["payload"]["texts"][field].as_str(), told.split_whitespace().next(), "{text}");
        checked += 1;
    }
    // Title and body of each but the redacted one, and the reasons.
    assert!(checked >= 2 * (AWKWARD.len() - 1) + 2, "{checked}");
}
