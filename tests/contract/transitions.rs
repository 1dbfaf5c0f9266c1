//! P4 through the command line: for every state, every verb and every party, the exit code and the state that follows
//! are the design's. The expectations are written out here; they are not taken from the code.

use std::collections::BTreeSet;

use onus_core::task::State;
use onus_core::transition::Verb;

use crate::contract::kit::{claim, dump, json_with, lapsed_claim};
use crate::support::{As, Sandbox, agent, human};

/// Each verb with what it needs, the task's id aside.
const VERBS: &[&[&str]] = &[
    &["accept"],
    &["claim"],
    &["takeover", "--reason", "r"],
    &["renew"],
    &["release"],
    &["handoff", "--to", "agent:c", "--reason", "r"],
    &["block"],
    &["unblock"],
    &["submit"],
    &["approve"],
    &["reject"],
    &["done", "-m", "x"],
    &["fail"],
    &["drop"],
    &["reopen"],
    &["reset", "--reason", "r"],
    &["retry"],
];

#[test]
fn every_verb_of_the_table_is_tried() {
    let tried: BTreeSet<&str> = VERBS.iter().map(|verb| verb[0]).collect();
    let mut known: BTreeSet<&str> = Verb::ALL.iter().map(|verb| verb.as_str()).collect();
    // Nobody lapses a lease by a command; renewing is no transition, but a verb all the same.
    known.remove("lapse");
    known.insert("renew");
    assert_eq!(tried, known);
    assert_eq!(State::ALL.len(), 8, "a new state needs a test of its own below");
}

/// A new task, brought into a state by `agent:a`.
fn task_in(sandbox: &Sandbox, state: &str) -> String {
    let a = agent("a");
    let args: &[&str] = if state == "proposed" { &["add", "T", "--propose"] } else { &["add", "T"] };
    let id = sandbox.json(&human("founder"), args).ok().json()["id"].as_str().unwrap().to_owned();
    let on = |args: &[&str]| {
        sandbox.run(&a, args).ok();
    };
    match state {
        "proposed" | "open" => {}
        "in_progress" => on(&["claim", &id]),
        "lapsed" => {
            lapsed_claim(sandbox, &a, &id);
        }
        "blocked" => on(&["block", &id]),
        "review" => on(&["submit", &id]),
        "done" => on(&["done", &id, "-m", "x"]),
        "failed" => on(&["fail", &id]),
        "dropped" => on(&["drop", &id]),
        other => panic!("{other}"),
    }
    id
}

/// Tries every verb from a state. `allowed`: the verbs that succeed, and the state they lead to; all others are
/// refused with `otherwise`, and change nothing.
#[track_caller]
fn from(state: &str, who: &As, allowed: &[(&str, &str)], otherwise: i32) {
    let sandbox = Sandbox::new();
    for verb in VERBS {
        let id = task_in(&sandbox, state);
        let mut args = vec![verb[0], id.as_str()];
        args.extend(&verb[1..]);
        let before = dump(&sandbox);
        let ran = sandbox.json(who, &args);
        match allowed.iter().find(|(name, _)| *name == verb[0]) {
            Some((_, to)) => {
                assert_eq!(ran.code, 0, "{state}, {} by {}: {ran:?}", verb[0], who.actor);
                assert_eq!(sandbox.show(&id)["state"], *to, "{state}, {} by {}", verb[0], who.actor);
            }
            None => {
                assert_eq!(ran.code, otherwise, "{state}, {} by {}: {ran:?}", verb[0], who.actor);
                assert_eq!(dump(&sandbox), before, "{state}, {} by {}", verb[0], who.actor);
            }
        }
    }
    sandbox.is_whole();
}

const HOLDERS: &[(&str, &str)] = &[
    ("claim", "in_progress"),
    ("renew", "in_progress"),
    ("release", "open"),
    ("handoff", "open"),
    ("block", "blocked"),
    ("submit", "review"),
    ("done", "done"),
    ("fail", "failed"),
    ("drop", "dropped"),
    ("reset", "open"),
];

#[test]
fn from_proposed_it_is_accepted_or_dropped_by_anyone() {
    from("proposed", &agent("b"), &[("accept", "open"), ("drop", "dropped")], 6);
}

#[test]
fn from_open_it_is_claimed_by_anyone_also_by_a_verb_that_finishes_it() {
    let allowed = [
        ("claim", "in_progress"),
        ("handoff", "open"),
        ("block", "blocked"),
        ("drop", "dropped"),
        ("done", "done"),
        ("submit", "review"),
        ("fail", "failed"),
        ("reset", "open"),
    ];
    from("open", &agent("b"), &allowed, 6);
}

#[test]
fn in_progress_it_is_its_holders() {
    from("in_progress", &agent("a"), HOLDERS, 6);
}

#[test]
fn in_progress_it_is_nobody_elses() {
    from("in_progress", &agent("b"), &[], 4);
    from("in_progress", &human("ann"), &[], 4);
}

#[test]
fn after_a_lapse_it_is_still_its_holders() {
    let mut allowed = HOLDERS.to_vec();
    allowed.push(("takeover", "in_progress"));
    from("lapsed", &agent("a"), &allowed, 6);
}

#[test]
fn after_a_lapse_it_is_as_open_to_others() {
    let allowed = [
        ("claim", "in_progress"),
        ("takeover", "in_progress"),
        ("handoff", "open"),
        ("block", "blocked"),
        ("drop", "dropped"),
        ("done", "done"),
        ("submit", "review"),
        ("fail", "failed"),
        ("reset", "open"),
    ];
    from("lapsed", &agent("b"), &allowed, 6);
}

#[test]
fn from_blocked_it_is_opened_failed_or_dropped_by_anyone() {
    let allowed = [("unblock", "open"), ("fail", "failed"), ("drop", "dropped"), ("reset", "open")];
    from("blocked", &agent("b"), &allowed, 6);
}

#[test]
fn from_review_it_is_approved_by_anyone_who_did_not_work_on_it() {
    let others =
        [("approve", "done"), ("reject", "open"), ("fail", "failed"), ("drop", "dropped"), ("reset", "open")];
    from("review", &agent("b"), &others, 6);
    from("review", &agent("a"), &others[1..], 6);
}

#[test]
fn from_failed_it_is_tried_again_or_dropped() {
    from("failed", &agent("b"), &[("drop", "dropped"), ("retry", "open"), ("reset", "open")], 6);
}

#[test]
fn what_is_finished_is_only_reopened() {
    from("done", &agent("b"), &[("reopen", "open"), ("reset", "open")], 6);
    from("dropped", &agent("b"), &[("reopen", "open")], 6);
}

/// Nothing is got around by dropping a task and reopening it.
#[test]
fn reopening_neither_accepts_a_proposal_nor_retries_what_failed() {
    let sandbox = Sandbox::new();
    let (a, ann) = (agent("a"), human("ann"));
    let proposed = task_in(&sandbox, "proposed");
    sandbox.run(&a, &["drop", &proposed]).ok();
    let reopened = sandbox.run(&a, &["reopen", &proposed]);
    assert!(reopened.ok().stdout.contains("is proposed again"), "{reopened:?}");
    sandbox.json(&a, &["claim", &proposed]).refused(6);
    // Once accepted, it is work like any other.
    sandbox.run(&ann, &["accept", &proposed]).ok();
    sandbox.run(&a, &["drop", &proposed]).ok();
    assert_eq!(sandbox.json(&a, &["reopen", &proposed]).ok().json()["state"], "open");

    let failed = task_in(&sandbox, "failed");
    sandbox.run(&ann, &["edit", &failed, "--max-attempts", "1"]).ok();
    for (verb, attempts) in [(&["retry", &failed] as &[&str], 1), (&["fail", &failed], 1)] {
        assert_eq!(sandbox.json(&a, verb).ok().json()["attempts"], attempts);
    }
    sandbox.run(&a, &["drop", &failed]).ok();
    // A note in between makes no difference.
    sandbox.run(&ann, &["note", &failed, "once more"]).ok();
    assert_eq!(sandbox.json(&a, &["reopen", &failed]).ok().json()["state"], "failed");
    sandbox.json(&a, &["claim", &failed]).refused(6);
    assert_eq!(sandbox.json(&a, &["retry", &failed]).refused(6)["code"], "limit");
    // Undoing the drop is no way around it either.
    sandbox.run(&a, &["drop", &failed]).ok();
    sandbox.run(&a, &["undo", &failed]).ok();
    assert_eq!(sandbox.show(&failed)["state"], "failed");
    sandbox.is_whole();
}

#[test]
fn nobody_approves_what_they_worked_on_since_it_was_last_opened() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let (a, b, c) = (agent("a"), agent("b"), agent("c"));
    // It need not be the submitter: whoever held it had a hand in it. Another instance is the same actor.
    claim(&sandbox, &a, &id);
    sandbox.run(&a, &["release", &id]).ok();
    sandbox.run(&b, &["submit", &id]).ok();
    for who in [&a, &b, &crate::contract::kit::instance("agent:a", "another")] {
        let error = sandbox.json(who, &["approve", &id]).refused(6);
        assert!(error["message"].as_str().unwrap().contains("worked on"), "{error}");
    }
    sandbox.run(&c, &["approve", &id, "-m", "good"]).ok();
    // Opened again it is new work: who had a hand in the old may judge the new.
    sandbox.run(&c, &["reopen", &id]).ok();
    sandbox.run(&c, &["submit", &id]).ok();
    sandbox.json(&c, &["approve", &id]).refused(6);
    sandbox.run(&a, &["approve", &id]).ok();
    // A person may override it, and the record has one event more.
    sandbox.run(&human("ann"), &["reopen", &id]).ok();
    sandbox.run(&human("ann"), &["submit", &id]).ok();
    sandbox.json(&human("ann"), &["approve", &id]).refused(6);
    sandbox.run(&human("ann"), &["approve", &id, "--force", "--reason", "nobody else is here"]).ok();
    assert!(
        crate::contract::kit::kinds(&sandbox, &id)
            .ends_with(&["rule.overridden".into(), "task.approved".into()])
    );
    sandbox.is_whole();
}

fn ready_for(sandbox: &Sandbox, who: &As) -> Vec<String> {
    let ready = sandbox.json(who, &["ready"]).ok().json();
    ready["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_rejected_task_is_kept_for_its_submitter() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    sandbox.run(&agent("a"), &["submit", &id]).ok();
    let rejected = sandbox.json(&agent("b"), &["reject", &id, "-m", "tests are missing"]).ok().json();
    assert_eq!(rejected["kept_for"]["actor"], "agent:a");
    assert_eq!(rejected["kept_for"]["reason"], "tests are missing");
    assert_eq!(sandbox.json(&agent("b"), &["claim", &id]).refused(4)["code"], "kept");
    assert_eq!(sandbox.json(&agent("b"), &["claim", "--next"]).refused(7)["code"], "nothing");
    assert_eq!(ready_for(&sandbox, &agent("b")), Vec::<String>::new());
    assert_eq!(ready_for(&sandbox, &agent("a")), [id.as_str()]);
    // Any instance of the submitter: the first one gets it.
    claim(&sandbox, &crate::contract::kit::instance("agent:a", "another"), &id);
}

#[test]
fn a_handed_task_is_kept_for_its_target_for_a_while() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    claim(&sandbox, &agent("a"), &id);
    let handed = sandbox.json(&agent("a"), &["handoff", &id, "--to", "agent:b", "--reason", "you know it"]);
    let handed = handed.ok().json();
    assert!(handed["lease"].is_null());
    assert_eq!(handed["task"]["kept_for"]["actor"], "agent:b");
    let left = handed["task"]["kept_for"]["expires_in_s"].as_i64().unwrap();
    assert!((3_500..=3_600).contains(&left), "60 minutes by default, not {left} s");
    // The old token is dead, the old holder as good as any other.
    json_with(&sandbox, &agent("a"), &[("ONUS_TOKEN", "1")], &["note", &id, "x"]).refused(5);
    assert_eq!(sandbox.json(&agent("a"), &["claim", &id]).refused(4)["code"], "kept");
    let claimed = sandbox.json(&agent("b"), &["claim", &id]).ok().json();
    assert_eq!(
        (&claimed["lease"]["token"], &claimed["lease"]["handoff_reason"]),
        (&2.into(), &"you know it".into())
    );
    assert!(claimed["task"]["kept_for"].is_null());

    // The while over, it is anyone's.
    let id = sandbox.add("Another");
    let short = [("ONUS_LEASE_KEEP", "1ms")];
    json_with(&sandbox, &agent("a"), &short, &["handoff", &id, "--to", "agent:b", "--reason", "r"]).ok();
    crate::contract::kit::lapse();
    assert!(sandbox.show(&id)["kept_for"].is_null());
    claim(&sandbox, &agent("c"), &id);
    sandbox.is_whole();
}

#[test]
fn a_reserved_task_is_held_but_not_begun() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    let reserved = sandbox.json(&agent("a"), &["claim", &id, "--reserve"]).ok().json();
    assert_eq!((&reserved["task"]["state"], &reserved["lease"]["reserve"]), (&"open".into(), &true.into()));
    assert_eq!(sandbox.json(&agent("b"), &["claim", &id]).refused(4)["code"], "held");
    assert_eq!(ready_for(&sandbox, &agent("b")), Vec::<String>::new());
    let begun = sandbox.json(&agent("a"), &["claim", &id]).ok().json();
    assert_eq!((&begun["task"]["state"], &begun["lease"]["token"]), (&"in_progress".into(), &1.into()));
    sandbox.is_whole();
}

#[test]
fn what_lapsed_comes_back_to_ready_and_says_that_it_is_a_takeover() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    lapsed_claim(&sandbox, &agent("a"), &id);
    let before = dump(&sandbox);
    let ready = sandbox.json(&agent("b"), &["ready"]).ok().json();
    assert_eq!(
        (&ready["tasks"][0]["id"], &ready["tasks"][0]["takeover"]),
        (&id.as_str().into(), &true.into())
    );
    // Readers write nothing: the lapse is computed.
    assert_eq!(dump(&sandbox), before);
    let status = sandbox.json(&agent("b"), &["status"]).ok().json();
    assert!(
        status["lapsed"][0]["next"].as_str().unwrap().starts_with(&format!("onus takeover {id}")),
        "{status}"
    );
    let next = sandbox.json(&agent("b"), &["claim", "--next"]).ok().json();
    assert_eq!((&next["takeover"], &next["lease"]["token"]), (&true.into(), &2.into()));
}
