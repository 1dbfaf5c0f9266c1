//! P11: a refusal names who holds the task, how long, and the safe next step; and it never teaches an override.
//!
//! Every code of the core has at least one case, what people read is a snapshot, and programs get the same.

use std::collections::BTreeSet;

use onus_core::refusal::Code;
use serde_json::Value;

use crate::contract::kit::{claim, dump, instance};
use crate::contract::refusal_cases::{Case, cases};
use crate::support::{Sandbox, agent, human, is_written};

/// Codes of rules that no command comes under yet; their helpers have tests of their own (`onus_repo::approval`).
pub(crate) const COMING: [&str; 1] = ["unapproved"];

/// Every code, by the schema that is derived from the type.
pub(crate) fn all_codes() -> BTreeSet<String> {
    let schema = serde_json::to_value(schemars::schema_for!(Code)).unwrap();
    let codes = schema["enum"].as_array().unwrap();
    codes.iter().map(|code| code.as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_refusal_shows_the_holder_the_time_left_and_the_safe_next_step() {
    let cases = cases();
    let covered: BTreeSet<String> = cases.iter().map(|case| case.code.to_owned()).collect();
    let given = all_codes().into_iter().filter(|code| !COMING.contains(&code.as_str())).collect();
    assert_eq!(covered, given, "every code has a case here");

    let mut pages = String::new();
    for case in cases {
        let Case { code, what, shows, exit, words, json, .. } = case;
        let error = &json["error"];
        assert_eq!(error["code"], *code, "{what}: {json}");
        let of_code: Code = serde_json::from_value(error["code"].clone()).unwrap();
        assert_eq!(i32::from(of_code.exit_code()), *exit, "{what}");
        for shown in shows.split_whitespace() {
            let holds = match shown {
                "holder" => {
                    let holder = &error["holder"];
                    let who = holder["actor"].as_str().unwrap_or_default();
                    assert!(words.contains(who), "{what}: people are not told that it is {who}");
                    !who.is_empty()
                        && holder["instance"].is_string()
                        && holder["token"].is_u64()
                        && holder["live"].is_boolean()
                        && holder["acquired_at"].is_string()
                        && holder["held_s"].is_i64()
                }
                "left" => error["expires_in_s"].as_i64().is_some_and(|s| s >= 0),
                "candidates" => error["candidates"].as_array().is_some_and(|list| list.len() > 1),
                "version" => error["version"].is_u64(),
                _ => error[shown].as_str().is_some_and(|text| text.starts_with("ON-")),
            };
            assert!(holds, "{what}: no {shown} in {error}");
        }
        assert!(!error["message"].as_str().unwrap().is_empty());
        // Bad input is its own next step: the message says what to write instead.
        let steps = error["next"].as_array().unwrap();
        assert!(!steps.is_empty() || *code == "usage" || *what == "what is not an actor", "{what}: {error}");
        pages.push_str(&format!("{code}, {what}: exit {exit}\n{words}\n"));
    }
    is_written("tests/contract/snapshots/refusals.txt", &format!("{}\n", pages.trim_end()));
}

/// The exit codes are API: this is the design's list, and each code of the core stands in it once.
#[test]
fn exit_codes_are_the_designs() {
    let table: [(u8, &[&str]); 8] = [
        (1, &["unexpected"]),
        (2, &["usage", "identity", "ambiguous", "key_reused"]),
        (3, &["not_found"]),
        (4, &["held", "kept", "scope"]),
        (5, &["fenced"]),
        (
            6,
            &[
                "not_allowed",
                "people_only",
                "unconfirmed",
                "tier",
                "limit",
                "unmet",
                "not_yet",
                "cycle",
                "changed",
                "constraint",
                "uncommitted",
                "unapproved",
                "gate",
            ],
        ),
        (7, &["nothing"]),
        (
            8,
            &[
                "no_store",
                "foreign",
                "unavailable",
                "not_known",
                "busy",
                "read_only",
                "disk_full",
                "newer_schema",
                "unsafe_filesystem",
                "damaged",
                "tampered",
            ],
        ),
    ];
    let listed: BTreeSet<String> =
        table.iter().flat_map(|(_, codes)| codes.iter().map(|code| (*code).to_owned())).collect();
    assert_eq!(listed, all_codes());
    for (exit, codes) in table {
        for code in codes {
            let of_code: Code = serde_json::from_value(Value::from(*code)).unwrap();
            assert_eq!(of_code.exit_code(), exit, "{code}");
        }
    }
    for case in cases() {
        let (exit, _) = table.iter().find(|(_, codes)| codes.contains(&case.code)).unwrap();
        assert_eq!(case.exit, i32::from(*exit), "{}", case.what);
    }
    // And the help says what they mean.
    let help = Sandbox::empty().run(&human("ann"), &["help"]).ok().stdout.clone();
    for meaning in ["0 done", "1 unexpected", "2 usage", "3 not found", "4 held", "5 fenced", "6 not allowed"]
    {
        assert!(help.contains(meaning), "{meaning}");
    }
    assert!(help.contains("7 nothing to do") && help.contains("8 store unavailable"));
}

#[test]
fn no_step_is_an_override() {
    for case in cases() {
        let steps = case.json["error"]["next"].as_array().cloned().unwrap_or_default();
        for step in &steps {
            let step = step.as_str().unwrap();
            let resets = step.contains("reset") && !step.contains("--dry-run");
            assert!(
                !step.contains("force") && !step.contains("takeover") && !resets,
                "{}: {step}",
                case.what
            );
        }
    }
}

#[test]
fn what_was_refused_left_no_trace_in_any_row() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Held");
    claim(&sandbox, &agent("a"), &id);
    let before = dump(&sandbox);
    // Not even the newcomer is registered by what it was refused.
    sandbox.json(&instance("agent:new", "n"), &["claim", &id]).refused(4);
    sandbox.json(&instance("agent:new", "n"), &["claim", "--next", "--key", "k"]).refused(7);
    assert_eq!(dump(&sandbox), before);
}
