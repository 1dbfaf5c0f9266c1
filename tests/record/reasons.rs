//! What was typed once lies in one place: whoever redacts the event that shows it has erased it.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::record::redaction::folder;
use crate::record::secrets::{Dice, traces};
use crate::support::{As, Sandbox, agent, human};

/// A way to give a reason: what was there before, and the command. `{}` is the task, `{reason}` what is typed.
struct Given {
    before: &'static [(&'static str, &'static [&'static str])],
    by: &'static str,
    command: &'static [&'static str],
}

const fn given(
    before: &'static [(&'static str, &'static [&'static str])],
    by: &'static str,
    command: &'static [&'static str],
) -> Given {
    Given { before, by, command }
}

const HELD: (&str, &[&str]) = ("agent:a", &["claim", "{}"]);
const LAPSED: (&str, &[&str]) = ("agent:a", &["claim", "{}", "--ttl", "1ms"]);
const FORCED: &[&str] = &["--force", "--reason", "{reason}"];
/// Ann held it, and lost it: what she does from now on overrides the fence, too.
const LOST: [(&str, &[&str]); 2] =
    [("human:ann", &["claim", "{}"]), ("human:bob", &["takeover", "{}", "--force", "--reason", "stuck"])];

/// Every command that takes a reason, beside all that makes it write more than one event.
const WAYS: &[Given] = &[
    given(&[], "agent:b", &["claim", "{}", "--reason", "{reason}"]),
    given(&[], "agent:b", &["claim", "{}", "--ttl", "0", "--reason", "{reason}"]),
    given(&[LAPSED], "agent:b", &["claim", "{}", "--reason", "{reason}"]),
    given(&[LAPSED], "agent:b", &["takeover", "{}", "--reason", "{reason}"]),
    given(&[HELD], "human:ann", &["takeover", "{}", "--force", "--reason", "{reason}"]),
    given(&[HELD], "human:ann", &["takeover", "{}", "--force", "--reason", " {reason} "]),
    given(
        &[
            ("human:bob", &["edit", "{}", "--tier", "3", "--not-before", "1h"]),
            ("human:bob", &["dep", "add", "{}", "ON-1"]),
            ("human:bob", &["handoff", "{}", "--to", "agent:absent", "--reason", "theirs"]),
        ],
        "human:ann",
        &["claim", "{}", "--force", "--reason", "{reason}"],
    ),
    given(&[HELD], "agent:a", &["handoff", "{}", "--to", "agent:b", "--reason", "{reason}"]),
    given(&[HELD], "human:ann", &["handoff", "{}", "--to", "agent:b", "--force", "--reason", "{reason}"]),
    given(&[LAPSED], "human:ann", &["handoff", "{}", "--to", "agent:b", "--reason", "{reason}"]),
    given(&LOST, "human:ann", &["handoff", "{}", "--to", "agent:b", "--force", "--reason", "{reason}"]),
    given(&[HELD], "human:ann", &["release", "{}"]),
    given(&[HELD], "human:ann", &["done", "{}", "-m", "a note"]),
    given(&LOST, "human:ann", &["done", "{}", "-m", "a note"]),
    given(&[HELD], "human:ann", &["submit", "{}"]),
    given(&[HELD], "human:ann", &["fail", "{}"]),
    given(&[HELD], "human:ann", &["block", "{}"]),
    given(&[HELD], "human:ann", &["drop", "{}"]),
    given(&LOST, "human:ann", &["drop", "{}"]),
    given(&LOST, "human:ann", &["note", "{}", "a note"]),
    given(&LOST, "human:ann", &["edit", "{}", "--title", "Another"]),
    given(&LOST, "human:ann", &["dep", "add", "{}", "ON-1"]),
    given(&LOST, "human:ann", &["redact", "{}", "1", "--force", "--reason", "{reason}"]),
    given(&[("human:ann", &["submit", "{}"])], "human:ann", &["approve", "{}"]),
    given(&[("agent:a", &["block", "{}"])], "agent:b", &["unblock", "{}", "--reason", "{reason}"]),
    given(&[HELD], "agent:a", &["done", "{}", "-m", "{reason}"]),
    given(&[HELD], "agent:a", &["block", "{}", "--reason", "{reason}"]),
    given(&[HELD], "human:ann", &["reset", "{}", "--force", "--reason", "{reason}"]),
    given(&[("agent:a", &["done", "{}", "-m", "x"])], "agent:b", &["reset", "{}", "--reason", "{reason}"]),
    // A reset of many, some of them held: one reason for all.
    given(
        &[
            ("human:bob", &["add", "downstream", "--dep", "{}"]),
            ("human:bob", &["claim", "{+1}", "--force", "--reason", "early"]),
            ("human:bob", &["add", "further down", "--dep", "{+1}"]),
            ("human:bob", &["claim", "{+2}", "--force", "--reason", "early"]),
            HELD,
        ],
        "human:ann",
        &["reset", "{}", "--force", "--reason", "{reason}"],
    ),
    given(
        &[
            ("human:bob", &["edit", "{}", "--max-attempts", "0"]),
            ("human:ann", &["claim", "{}"]),
            ("human:bob", &["takeover", "{}", "--force", "--reason", "stuck"]),
            ("human:bob", &["fail", "{}"]),
        ],
        "human:ann",
        &["retry", "{}"],
    ),
];

fn caller(name: &str) -> As {
    match name.split_once(':').unwrap() {
        ("human", name) => human(name),
        (_, name) => agent(name),
    }
}

/// The events of all tasks beside which a text lies, with the task's uid and the field.
fn places(sandbox: &Sandbox, text: &str) -> Vec<(String, u64, String)> {
    let log = sandbox.json(&human("founder"), &["log", "--limit", "10000"]).ok().json();
    let events = log["events"].as_array().unwrap();
    let mut found = Vec::new();
    for event in events {
        let texts = log["texts"][event["uid"].as_str().unwrap()].as_object();
        for (field, written) in texts.into_iter().flatten() {
            if written.as_str().unwrap().contains(text) {
                let task = event["task"].as_str().unwrap().to_owned();
                found.push((task, event["version"].as_u64().unwrap(), field.clone()));
            }
        }
    }
    found
}

fn filled(sandbox: &Sandbox, who: &str, args: &[&str], number: usize, reason: &str) -> Value {
    let args: Vec<String> = args
        .iter()
        .map(|arg| {
            arg.replace("{reason}", reason)
                .replace("{+1}", &format!("ON-{}", number + 1))
                .replace("{+2}", &format!("ON-{}", number + 2))
                .replace("{}", &format!("ON-{number}"))
        })
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    sandbox.json(&caller(who), &args).ok().json()
}

#[test]
fn whatever_was_typed_once_is_erased_by_one_redaction() {
    let sandbox = Sandbox::new();
    let mut dice = Dice::new(7);
    sandbox.add("what others depend on");
    for way in WAYS {
        let id = sandbox.add("T");
        let number: usize = id.strip_prefix("ON-").unwrap().parse().unwrap();
        for (who, args) in way.before {
            filled(&sandbox, who, args, number, "");
            if args.contains(&"1ms") {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let secret = dice.secret(60);
        let mut command = way.command.to_vec();
        if !command.iter().any(|arg| arg.contains("{reason}")) {
            command.extend(FORCED);
        }
        filled(&sandbox, way.by, &command, number, &secret);
        let found = places(&sandbox, &secret);
        assert_eq!(found.len(), 1, "{command:?}: it lies at {found:?}");
        let (task, version, field) = &found[0];
        let version = version.to_string();
        let redacted = ["redact", task, &version, "--field", field, "--reason", "asked to", "--force"]
            .map(str::to_owned);
        let redacted: Vec<&str> = redacted.iter().map(String::as_str).collect();
        let redacted = sandbox.json(&human("founder"), &redacted).ok().json();
        assert_eq!(redacted["erased_everywhere"], true, "{redacted}");
        let left = traces(Path::new(&folder(&sandbox)), [&secret], []);
        assert!(left.is_empty(), "{command:?}: {left:?}");
    }
    sandbox.is_whole();
}

/// The reason is where readers look for it: with the lease that was taken, with the task that was handed on, with the reset
/// that put others back.
#[test]
fn a_reason_that_is_said_once_is_still_shown() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("T");
    let ann = human("ann");
    sandbox.json(&agent("a"), &["claim", &id]).ok();
    let taken = sandbox.json(&ann, &["takeover", &id, "--force", "--reason", "it is stuck"]).ok().json();
    assert_eq!(taken["lease"]["reason"], "it is stuck");
    let handed = ["handoff", &id, "--to", "agent:b", "--reason", "finish it"];
    assert_eq!(sandbox.json(&ann, &handed).ok().json()["task"]["kept_for"]["reason"], "finish it");
    let claimed = sandbox.json(&agent("b"), &["claim", &id]).ok().json();
    assert_eq!(claimed["lease"]["handoff_reason"], "finish it");
    sandbox.json(&ann, &["reset", &id, "--force", "--reason", "start over"]).ok();
    let story = sandbox.run(&ann, &["log", &id]).ok().stdout.clone();
    for (event, reason) in
        [("claimed it", "it is stuck"), ("handed it to", "finish it"), ("reset it to open", "start over")]
    {
        let line = story.lines().find(|line| line.contains(event) && line.ends_with(reason));
        assert!(line.is_some(), "{event}: {story}");
    }
}
