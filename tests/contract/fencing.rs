//! P2: a superseded holder changes nothing and is told so, whatever it tries and however it presents itself.

use std::collections::BTreeSet;

use crate::contract::kit::{claim, commands, dump, json_with, lapsed_claim, run_with};
use crate::support::{Sandbox, agent, human};

/// Every verb that changes one task, but `claim` and `takeover`. `{}` is where the task's id goes.
const CHANGING: &[&[&str]] = &[
    &["edit", "{}", "--title", "Mine after all"],
    &["edit", "{}", "--priority", "P0"],
    &["note", "{}", "still at it"],
    &["renew", "{}"],
    &["renew", "{}", "--ttl", "2h"],
    &["release", "{}"],
    &["handoff", "{}", "--to", "agent:c", "--reason", "busy"],
    &["assign", "{}", "--to", "agent:c", "--reason", "busy"],
    &["tick", "{}", "1"],
    &["accept", "{}"],
    &["block", "{}", "-m", "waiting"],
    &["unblock", "{}"],
    &["submit", "{}"],
    &["approve", "{}"],
    &["reject", "{}"],
    &["done", "{}", "-m", "finished"],
    &["close", "{}", "-m", "finished"],
    &["fail", "{}"],
    &["drop", "{}"],
    &["reopen", "{}"],
    &["retry", "{}"],
    &["reset", "{}", "--reason", "start over"],
    &["dep", "add", "{}", "1"],
    &["dep", "rm", "{}", "1"],
    &["redact", "{}", "1", "--reason", "secret"],
    &["undo", "{}"],
    &["session", "record", "{}", "--model", "m"],
    &["scope", "add", "x", "--task={}"],
    &["scope", "rm", "x", "--task={}"],
    &["touch", "x", "--task={}"],
];

/// Commands that begin anew, that concern no task, or that change nothing; `gate` and `land`, which need a repository, are tried in
/// `worktrees`.
const OTHERS: &[&str] = &[
    "claim",
    "run",
    "takeover",
    "rescue",
    "worktree",
    "gate",
    "land",
    "trust",
    "seat",
    "add",
    "intake",
    "ready",
    "show",
    "status",
    "init",
    "list",
    "blocked",
    "stale",
    "search",
    "why",
    "graph",
    "log",
    "sessions",
    "timesheet",
    "report",
    "ledger",
    "actor",
    "instance",
    "setup",
    "mcp",
    "config",
    "doctor",
    "whoami",
    "prime",
    "guard",
    "hook",
    "backup",
    "store",
    "completions",
    "man",
    "demo",
    "help",
];

/// How the old holder presents itself: its environment, and whether it names the task.
fn guises(id: &str) -> Vec<(Vec<(&'static str, String)>, bool)> {
    let (token, task) = (("ONUS_TOKEN", "1".to_owned()), ("ONUS_TASK", id.to_owned()));
    vec![
        (vec![], true),
        (vec![token.clone()], true),
        (vec![token.clone(), task.clone()], true),
        (vec![task.clone()], false),
        (vec![token, task], false),
    ]
}

/// The old holder is `agent:a`, who had token 1; `agent:b` superseded it.
#[track_caller]
fn nothing_gets_past_the_fence(sandbox: &Sandbox, id: &str, said: &str) {
    let before = dump(sandbox);
    for verb in CHANGING {
        for (env, named) in guises(id) {
            // These always name their task.
            let named = named || matches!(verb[0], "redact" | "dep");
            let args: Vec<String> = verb
                .iter()
                .filter(|arg| named || !arg.contains("{}"))
                .map(|arg| arg.replace("{}", id))
                .collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let what = format!("{args:?} with {env:?}");

            let ran = json_with(sandbox, &agent("a"), &env, &args);
            assert_eq!(ran.code, 5, "{what}: {ran:?}");
            let error = ran.json()["error"].clone();
            assert_eq!(error["code"], "fenced", "{what}");
            assert_eq!(error["task"], id, "{what}");
            assert_eq!(error["holder"]["actor"], "agent:b", "{what}");
            assert_eq!(error["holder"]["instance"], "b-1", "{what}");
            assert!(error["message"].as_str().unwrap().contains(said), "{what}: {error}");
            assert!(!error["next"].as_array().unwrap().is_empty(), "{what}");

            let read = run_with(sandbox, &agent("a"), &env, &args);
            assert_eq!(read.code, 5, "{what}");
            assert_eq!(read.stdout, "", "{what}");
            assert!(read.stderr.contains(said), "{what}: {read:?}");

            assert_eq!(dump(sandbox), before, "{what} changed something");
        }
    }
}

/// It names no task because it believes to hold one.
#[test]
fn a_superseded_holder_that_names_no_task_is_told_so() {
    for args in [&["done", "-m", "x"][..], &["note", "still at it"], &["release"], &["submit"]] {
        let sandbox = Sandbox::new();
        let (old, new) = (agent("a"), agent("b"));
        sandbox.add("a task");
        lapsed_claim(&sandbox, &old, "1");
        claim(&sandbox, &new, "1");
        let before = dump(&sandbox);
        let refusal = sandbox.json(&old, args).refused(5);
        assert_eq!(
            (refusal["code"].as_str(), refusal["task"].as_str()),
            (Some("fenced"), Some("ON-1")),
            "{args:?}"
        );
        assert_eq!(dump(&sandbox), before, "{args:?}");
    }
}

#[test]
fn every_changing_command_is_tried_against_the_fence() {
    let sandbox = Sandbox::new();
    let tried: BTreeSet<&str> = CHANGING.iter().map(|verb| verb[0]).filter(|name| *name != "close").collect();
    let listed: BTreeSet<String> = tried.iter().chain(OTHERS).map(|name| (*name).to_owned()).collect();
    assert_eq!(commands(&sandbox), listed, "a new command belongs in CHANGING or in OTHERS");
}

#[test]
fn after_a_takeover_the_old_holder_changes_nothing_and_is_told_who_has_it() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    assert_eq!(lapsed_claim(&sandbox, &agent("a"), &id), 1);
    sandbox.run(&agent("b"), &["takeover", &id, "--reason", "it lapsed"]).ok();

    nothing_gets_past_the_fence(&sandbox, &id, "agent:b (b-1) holds it now, with token 2");

    // While the new holder goes on as if nothing had been.
    sandbox.run(&agent("b"), &["done", &id, "-m", "fixed"]).ok();
    sandbox.is_whole();
}

#[test]
fn after_a_takeover_and_a_release_the_old_holder_changes_nothing_and_is_told_who_had_it() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    lapsed_claim(&sandbox, &agent("a"), &id);
    sandbox.run(&agent("b"), &["takeover", &id, "--reason", "it lapsed"]).ok();
    sandbox.run(&agent("b"), &["release", &id]).ok();

    nothing_gets_past_the_fence(&sandbox, &id, "superseded by agent:b (b-1) with token 2");
    sandbox.is_whole();
}

#[test]
fn a_claim_of_a_lapsed_task_fences_the_old_holder_as_a_takeover_does() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    lapsed_claim(&sandbox, &agent("a"), &id);
    let claimed = sandbox.json(&agent("b"), &["claim", &id]).ok().json();
    assert_eq!(claimed["takeover"], true);

    nothing_gets_past_the_fence(&sandbox, &id, "agent:b (b-1) holds it now, with token 2");
}

#[test]
fn a_person_who_lost_a_live_lease_to_force_is_fenced_like_anyone() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    claim(&sandbox, &human("ann"), &id);
    sandbox.run(&human("bob"), &["takeover", &id, "--reason", "she is away", "--force"]).ok();
    let before = dump(&sandbox);

    for args in [vec!["note", &id, "mine"], vec!["done", &id, "-m", "mine"], vec!["release", &id]] {
        let error = sandbox.json(&human("ann"), &args).refused(5);
        assert_eq!(error["holder"]["actor"], "human:bob");
    }
    assert_eq!(dump(&sandbox), before);
}

#[test]
fn a_superseded_holder_may_claim_anew_and_then_act() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    lapsed_claim(&sandbox, &agent("a"), &id);
    sandbox.run(&agent("b"), &["takeover", &id, "--reason", "it lapsed"]).ok();

    // Held by another: claiming is refused as for anyone, not fenced.
    assert_eq!(sandbox.json(&agent("a"), &["claim", &id]).refused(4)["code"], "held");
    sandbox.run(&agent("b"), &["release", &id]).ok();

    // A token it still carries says nothing to a claim, and stays dead after it.
    let old = [("ONUS_TOKEN", "1"), ("ONUS_TASK", id.as_str())];
    let claimed = json_with(&sandbox, &agent("a"), &old, &["claim", &id]).ok().json();
    assert_eq!(claimed["lease"]["token"], 3);
    json_with(&sandbox, &agent("a"), &old, &["note", &id, "with the old token"]).refused(5);
    sandbox.run(&agent("a"), &["note", &id, "without it"]).ok();
    let new = [("ONUS_TOKEN", "3"), ("ONUS_TASK", id.as_str())];
    json_with(&sandbox, &agent("a"), &new, &["done", &id, "-m", "fixed"]).ok();
    sandbox.is_whole();
}

#[test]
fn a_token_that_was_never_granted_is_refused_and_named() {
    let sandbox = Sandbox::new();
    let (held, free) = (sandbox.add("Held"), sandbox.add("Free"));
    claim(&sandbox, &agent("a"), &held);
    let before = dump(&sandbox);
    for (id, token) in
        [(&held, "2"), (&held, "18446744073709551615"), (&free, "1"), (&free, "0"), (&held, "0")]
    {
        let env = [("ONUS_TOKEN", token)];
        let error = json_with(&sandbox, &agent("a"), &env, &["note", id, "x"]).refused(5);
        assert_eq!(error["code"], "fenced", "{id} {token}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&format!("token {token} was never granted")), "{message}");
        assert!(!error["next"].as_array().unwrap().is_empty());
    }
    assert_eq!(dump(&sandbox), before);
}

#[test]
fn a_token_is_compared_for_its_own_task_alone() {
    let sandbox = Sandbox::new();
    let (mine, other) = (sandbox.add("Mine"), sandbox.add("Another"));
    claim(&sandbox, &agent("a"), &mine);

    // With ONUS_TASK the token says nothing about another task, right or wrong as it may be for its own.
    let env = [("ONUS_TOKEN", "7"), ("ONUS_TASK", mine.as_str())];
    json_with(&sandbox, &agent("a"), &env, &["note", &other, "x"]).ok();
    json_with(&sandbox, &agent("a"), &env, &["done", &other, "-m", "x"]).ok();
    json_with(&sandbox, &agent("a"), &env, &["note", &mine, "x"]).refused(5);

    // Without it the token is for the task that the command names.
    let third = sandbox.add("Third");
    let env = [("ONUS_TOKEN", "1")];
    json_with(&sandbox, &agent("a"), &env, &["note", &mine, "x"]).ok();
    json_with(&sandbox, &agent("a"), &env, &["note", &third, "x"]).refused(5);
}

#[test]
fn what_is_not_a_token_is_bad_input_and_never_ignored() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let before = dump(&sandbox);
    for token in ["x", "-1", "1.0", " 1", "99999999999999999999999"] {
        let error =
            json_with(&sandbox, &agent("a"), &[("ONUS_TOKEN", token)], &["note", &id, "x"]).refused(2);
        assert!(error["message"].as_str().unwrap().contains("ONUS_TOKEN"), "{error}");
    }
    assert_eq!(dump(&sandbox), before);
}
