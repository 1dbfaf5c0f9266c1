//! P11, followed: the steps that refusals, `why` and `status` suggest are taken by the caller that was told, and each works.
//!
//! Every verb is tried by a person, an agent and a holder on a task in every state that refuses something. A step is taken in the
//! store as it was, which is put back afterwards.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::contract::wording::without_comment;
use crate::support::{As, Sandbox, agent, human};

/// Verbs that are tried on every task, with what they need.
const TRIED: [&[&str]; 13] = [
    &["claim"],
    &["release"],
    &["renew"],
    &["done", "-m", "x"],
    &["submit", "-m", "x"],
    &["accept"],
    &["approve"],
    &["unblock"],
    &["reopen"],
    &["retry"],
    &["takeover", "--reason", "x"],
    &["edit", "--title", "x"],
    &["why"],
];

/// Tasks in every state and with every obstacle, and those who try.
fn populated(sandbox: &Sandbox) -> (Vec<String>, Vec<As>) {
    let (alice, bob) = (human("alice"), human("bob"));
    let (ada, eve) = (agent("ada"), agent("eve"));
    let run = |who: &As, args: &[&str]| sandbox.run(who, args).ok().stdout.clone();
    let mut tasks = Vec::new();
    let mut add = |more: &[&str]| {
        let args = [&["add", "task"], more].concat();
        let id = sandbox.json(&alice, &args).ok().json()["id"].as_str().unwrap().to_owned();
        tasks.push(id.clone());
        id
    };
    let open = add(&[]);
    add(&["--dep", &open]);
    let forced = add(&["--dep", &open]);
    run(&alice, &["claim", &forced, "--force", "--reason", "x"]);
    let kept = add(&[]);
    run(&alice, &["assign", &kept, "--to", "agent:eve", "--reason", "x"]);
    let later = add(&[]);
    run(&alice, &["edit", &later, "--not-before", "2099-01-01"]);
    add(&["--tier", "3"]);
    add(&["--propose"]);
    let held = add(&[]);
    run(&ada, &["claim", &held]);
    let blocked = add(&[]);
    run(&ada, &["block", &blocked, "-m", "x"]);
    let review = add(&[]);
    run(&ada, &["submit", &review, "-m", "x"]);
    let failed = add(&[]);
    run(&ada, &["fail", &failed, "-m", "x"]);
    let used_up = add(&["--max-attempts", "1"]);
    run(&ada, &["fail", &used_up, "-m", "x"]);
    run(&alice, &["retry", &used_up]);
    run(&ada, &["fail", &used_up, "-m", "x"]);
    add(&["--dep", &used_up]);
    let dropped = add(&[]);
    run(&alice, &["drop", &dropped, "-m", "x"]);
    add(&["--dep", &dropped]);
    let done = add(&[]);
    run(&ada, &["done", &done, "-m", "x"]);
    let parent = add(&[]);
    add(&["--parent", &parent]);
    (tasks, vec![alice, bob, ada, eve])
}

/// Commands without what waits, and without placeholders that only the caller can fill in.
fn command(step: &str) -> Option<Vec<String>> {
    let words = without_comment(step).strip_prefix("onus ")?.replace("'…'", "x");
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let is_open =
        |word: &String| word.contains('…') || word == "--wait" || word.chars().all(char::is_uppercase);
    (!words.iter().any(is_open)).then_some(words)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(to).unwrap().flatten() {
        if file.path().is_file() {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
    for file in std::fs::read_dir(from).unwrap().flatten() {
        if file.path().is_file() {
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

/// All steps that an answer suggests.
fn suggested(answer: &Value, found: &mut Vec<String>) {
    match answer {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("next", Value::Array(steps)) => {
                        found.extend(steps.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    ("next", Value::String(step)) => found.push(step.clone()),
                    (_, value) => suggested(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| suggested(value, found)),
        _ => {}
    }
}

#[test]
fn the_next_step_that_is_suggested_works_for_whoever_was_told() {
    let sandbox = Sandbox::new();
    let (tasks, callers) = populated(&sandbox);
    let store = sandbox.database().parent().unwrap().to_owned();
    let kept = tempfile::tempdir().unwrap();
    copy(&store, kept.path());
    let mut failures = Vec::new();
    let mut taken = BTreeSet::new();
    for caller in &callers {
        let mut asked: Vec<Vec<&str>> = vec![vec!["status"]];
        for task in &tasks {
            asked.extend(TRIED.iter().map(|verb| [&verb[..1], &[task.as_str()], &verb[1..]].concat()));
        }
        for args in asked {
            let ran = sandbox.json(caller, &args);
            if ran.code == 0 && !matches!(args[0], "status" | "why") {
                copy(kept.path(), &store);
                continue;
            }
            let mut steps = Vec::new();
            suggested(&ran.json(), &mut steps);
            for words in steps.iter().filter_map(|step| command(step)) {
                // The same advice to the same caller is taken once.
                if !taken.insert((caller.actor.clone(), words.clone())) {
                    continue;
                }
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let step = sandbox.json(caller, &words);
                if !matches!(step.code, 0 | 7) {
                    let said = format!("{}{}", step.stdout, step.stderr);
                    failures.push(format!(
                        "{} ran {args:?} and was told: onus {}\n  {said}",
                        caller.actor,
                        words.join(" ")
                    ));
                }
                copy(kept.path(), &store);
            }
        }
    }
    assert!(taken.len() > 60, "{taken:?}");
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), taken.len(), failures.join("\n"));
}

/// Typed as it is printed, the step is for the folder that was named, not for the current one.
#[test]
fn a_step_names_the_folder_that_the_caller_named() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().to_str().unwrap().to_owned();
    let refused = sandbox.json(&agent("a"), &["-C", &path, "show", "9"]).refused(3);
    let steps = refused["next"].as_array().unwrap();
    let is_there = |step: &Value| step.as_str().unwrap().starts_with(&format!("onus -C {path} "));
    assert!(!steps.is_empty() && steps.iter().all(is_there), "{steps:?}");
}
