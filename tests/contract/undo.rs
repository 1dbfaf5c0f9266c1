//! Undo: one's own last change is taken back by new events, where the rules know a way; nothing leaves the ledger.

use serde_json::{Value, json};

use crate::contract::kit::{claim, dump, lapsed_claim};
use crate::support::{As, Sandbox, agent, human};

/// What a task is, without what every change moves on.
fn state_of(sandbox: &Sandbox, id: &str) -> Value {
    let mut task = sandbox.show(id);
    for name in [
        "version",
        "updated_at",
        "notes",
        "last_word",
        "submitter",
        "kept_for",
        "started_at",
        "completed_at",
        "effort_ms",
    ] {
        task.as_object_mut().unwrap().remove(name);
    }
    if let Some(lease) = task["lease"].as_object_mut() {
        const TERMS: [&str; 9] =
            ["actor", "instance", "live", "scope", "mode", "constraints", "reason", "ttl_s", "reserve"];
        lease.retain(|name, _| TERMS.contains(&name.as_str()));
        assert_eq!(lease.len(), TERMS.len(), "{lease:?}");
    }
    task
}

#[test]
fn a_seat_that_was_taken_last_is_passed_over() {
    let sandbox = Sandbox::new();
    let ann = human("ann");
    sandbox.run(&ann, &["seat", "take", "nightly"]).ok();
    assert_eq!(sandbox.json(&ann, &["undo"]).refused(7)["code"], "nothing");
    sandbox.run(&ann, &["add", "Fix it", "-p", "2"]).ok();
    sandbox.run(&ann, &["edit", "1", "-p", "0"]).ok();
    sandbox.run(&ann, &["seat", "release", "nightly"]).ok();
    sandbox.json(&ann, &["undo"]).ok();
    assert_eq!(sandbox.show("1")["priority"], "P2");
    sandbox.is_whole();
}

#[test]
fn what_somebody_did_last_is_taken_back() {
    let a = agent("a");
    let held = ["done 1 -m x", "block 1", "drop 1", "submit 1", "release 1 -m x"];
    let open = ["claim 1", "block 1", "drop 1", "done 1 -m x"];
    let any = [
        "edit 1 --title New -d Newer -p 0 --tag t --untag old --area web --ref jira:W-1 --scope src/** --parent 3",
        "edit 1 --no-body",
        "dep add 1 2",
        "dep rm 1 4",
        "scope add docs/** --task 1",
    ];
    let cases = held.iter().map(|verb| (true, *verb)).chain(open.iter().map(|verb| (false, *verb)));
    for (is_held, line) in cases.chain(any.iter().map(|verb| (true, *verb))) {
        let sandbox = Sandbox::new();
        sandbox.run(&a, &["add", "Fix it", "-d", "Body", "--tag", "old"]).ok();
        for title in ["Two", "Three", "Four"] {
            sandbox.add(title);
        }
        sandbox.run(&human("ann"), &["done", "4", "-m", "x"]).ok();
        sandbox.run(&a, &["dep", "add", "1", "4"]).ok();
        if is_held {
            let terms =
                "--scope src/a.rs --ttl 25m --constraint no_land --constraint max_files=3 --reason Mine";
            let claim = ["claim", "1"].into_iter().chain(terms.split(' '));
            sandbox.run(&a, &claim.collect::<Vec<_>>()).ok();
        }
        let before = state_of(&sandbox, "1");
        let events = sandbox.events().len();
        sandbox.run(&a, &line.split(' ').collect::<Vec<_>>()).ok();
        assert_ne!(state_of(&sandbox, "1"), before, "{line}");
        let undone = sandbox.json(&a, &["undo"]);
        assert!(!undone.ok().json()["undone"].as_array().unwrap().is_empty(), "{line}: {undone:?}");
        assert_eq!(state_of(&sandbox, "1"), before, "{line}");
        assert!(sandbox.events().len() > events + 1, "{line}: both are on record");
        sandbox.is_whole();
    }
    let sandbox = Sandbox::new();
    sandbox.run(&a, &["add", "By mistake"]).ok();
    let ran = sandbox.run(&a, &["undo", "1"]);
    assert!(ran.ok().stdout.starts_with("undone: adding it; ON-1 is dropped: By mistake"), "{ran:?}");
    // And once more takes the undoing back.
    sandbox.run(&a, &["undo"]).ok();
    assert_eq!(sandbox.show("1")["state"], "open");
}

#[test]
fn a_lease_is_had_again_on_the_terms_it_had() {
    let (a, ann) = (agent("a"), human("ann"));
    for terms in ["--reserve", "--ttl 0 --reason night", "--shared --scope docs/**"] {
        let sandbox = Sandbox::new();
        sandbox.add("Fix it");
        sandbox.run(&a, &["claim", "1"].into_iter().chain(terms.split(' ')).collect::<Vec<_>>()).ok();
        let before = state_of(&sandbox, "1");
        sandbox.run(&a, &["release", "1"]).ok();
        sandbox.run(&a, &["undo"]).ok();
        assert_eq!(state_of(&sandbox, "1"), before, "{terms}");
    }
    // A lease without a limit needs its reason, which is gone: it is not had again on other terms.
    let sandbox = Sandbox::new();
    sandbox.add("Fix it");
    sandbox.run(&a, &["claim", "1", "--ttl", "0", "--reason", "secret"]).ok();
    sandbox.run(&ann, &["redact", "1", "2", "--reason", "leak"]).ok();
    sandbox.run(&a, &["release", "1"]).ok();
    is_refused(&sandbox, &a, 2, "needs a reason");
}

#[track_caller]
fn is_refused(sandbox: &Sandbox, who: &As, code: i32, why: &str) {
    let before = dump(sandbox);
    let error = sandbox.json(who, &["undo", "1"]).refused(code);
    assert!(error["message"].as_str().unwrap().contains(why), "{error}");
    assert_eq!(dump(sandbox), before, "nothing was changed");
}

#[test]
fn what_others_did_since_and_what_has_no_way_back_stays() {
    let (a, ann) = (agent("a"), human("ann"));
    for (steps, why) in [
        (vec![(&a, vec!["claim", "1"]), (&ann, vec!["note", "1", "x"])], "is human:ann's: only your own"),
        (vec![(&a, vec!["note", "1", "x"])], "a note stays"),
        (vec![(&a, vec!["fail", "1"])], "tried again"),
        (vec![(&a, vec!["handoff", "1", "--to", "agent:b", "--reason", "r"])], "kept for another"),
        (vec![(&a, vec!["done", "1", "-m", "x"]), (&a, vec!["reopen", "1"])], "say what was done"),
        (vec![(&a, vec!["redact", "1", "1", "--reason", "r"])], "erased"),
        (
            vec![
                (&a, vec!["edit", "1", "--title", "New"]),
                (&ann, vec!["redact", "1", "1", "--reason", "r"]),
            ],
            "is human:ann's: only your own",
        ),
    ] {
        let sandbox = Sandbox::new();
        sandbox.run(&a, &["add", "Fix it"]).ok();
        for (who, args) in &steps {
            sandbox.run(who, args).ok();
        }
        is_refused(&sandbox, &a, 6, why);
    }
    // A person's override stays as it is.
    let sandbox = Sandbox::new();
    sandbox.add("Fix it");
    claim(&sandbox, &a, "1");
    sandbox.run(&ann, &["drop", "1", "--force", "--reason", "urgent"]).ok();
    is_refused(&sandbox, &ann, 6, "override");
    // Another instance of the same agent is another.
    let sandbox = Sandbox::new();
    sandbox.add("Fix it");
    claim(&sandbox, &a, "1");
    sandbox.run(&a, &["block", "1"]).ok();
    is_refused(&sandbox, &As { instance: "a-2".into(), ..a.clone() }, 6, "is agent:a's: only your own");
    // Who took over has ended another's lease.
    let sandbox = Sandbox::new();
    sandbox.add("Fix it");
    lapsed_claim(&sandbox, &a, "1");
    sandbox.run(&agent("b"), &["takeover", "1", "--reason", "lapsed"]).ok();
    is_refused(&sandbox, &agent("b"), 6, "another holder's lease");
    // Nobody who has done nothing has anything to undo.
    assert_eq!(sandbox.json(&agent("c"), &["undo"]).refused(7)["code"], "nothing");
}

/// An undo that gave a lease back is undone as a whole, or not at all.
#[test]
fn a_second_undo_takes_back_the_first() {
    let a = agent("a");
    let lines = [
        ("drop 1 -m x", "dropped"),
        ("block 1 -m x", "blocked"),
        ("release 1", "open"),
        ("submit 1", "review"),
    ];
    for (line, state) in lines {
        let sandbox = Sandbox::new();
        sandbox.add("One");
        sandbox.run(&a, &["claim", "1"]).ok();
        sandbox.run(&a, &line.split(' ').collect::<Vec<_>>()).ok();
        let first = sandbox.json(&a, &["undo", "1"]).ok().json();
        assert_eq!((&first["state"], &first["lease"]["token"]), (&json!("in_progress"), &json!(2)), "{line}");
        let second = sandbox.json(&a, &["undo", "1"]).ok().json();
        assert_eq!((&second["state"], &second["lease"]), (&json!(state), &Value::Null), "{line}");
        sandbox.is_whole();
    }
    let sandbox = Sandbox::new();
    sandbox.add("One");
    for line in ["claim 1", "done 1 -m x", "undo 1"] {
        sandbox.run(&a, &line.split(' ').collect::<Vec<_>>()).ok();
    }
    is_refused(&sandbox, &a, 6, "say what was done");
    assert_eq!(sandbox.show("1")["state"], "in_progress");
}

#[test]
fn a_submission_that_was_taken_back_is_kept_for_nobody() {
    let sandbox = Sandbox::new();
    sandbox.add("One");
    let ann = human("ann");
    sandbox.run(&ann, &["submit", "1"]).ok();
    let undone = sandbox.json(&ann, &["undo", "1"]).ok().json();
    assert_eq!((&undone["state"], &undone["kept_for"]), (&json!("open"), &Value::Null));
    sandbox.run(&agent("b"), &["claim", "1"]).ok();
}

#[test]
fn what_cannot_be_had_again_is_not_half_undone() {
    let sandbox = Sandbox::new();
    let (one, _) = (sandbox.add("One"), sandbox.add("Two"));
    sandbox.run(&agent("a"), &["claim", &one, "--scope", "src/**"]).ok();
    sandbox.run(&agent("a"), &["done", &one, "-m", "x"]).ok();
    sandbox.run(&agent("b"), &["claim", "2", "--scope", "src/a.rs"]).ok();
    // Reopened it would be, but its paths are another's by now.
    is_refused(&sandbox, &agent("a"), 4, "src/");
    assert_eq!(sandbox.show(&one)["state"], "done");
    sandbox.run(&agent("b"), &["release", "2"]).ok();
    let undone = sandbox.json(&agent("a"), &["undo", &one, "--key", "k"]).ok().json();
    assert_eq!(undone["lease"]["scope"], json!(["src/**"]));
    assert_eq!(sandbox.json(&agent("a"), &["undo", &one, "--key", "k"]).ok().json()["replayed"], true);
}

/// An edit, a tick and a dependency that were so already: nothing is written, and that is said.
#[test]
fn what_changes_nothing_says_so_and_leaves_no_event() {
    let sandbox = Sandbox::new();
    let ann = human("ann");
    let add = "add Fix -d Body -p 1 --tag t --acceptance true";
    sandbox.run(&ann, &add.split(' ').collect::<Vec<_>>()).ok();
    sandbox.add("Another");
    let lines = ["edit 1 --title Fix -d Body -p 1 --tag t", "edit 1 --title Fix", "tick 1 1", "dep add 1 2"];
    for line in ["tick 1 1", "dep add 1 2"] {
        sandbox.run(&ann, &line.split(' ').collect::<Vec<_>>()).ok();
    }
    let events = sandbox.events().len();
    for line in lines {
        let args: Vec<&str> = line.split(' ').collect();
        assert_eq!(sandbox.json(&ann, &args).ok().json()["unchanged"], true, "{line}");
        let said = sandbox.run(&ann, &args).ok().stdout.clone();
        assert!(line.starts_with("dep") || said.contains("is unchanged"), "{line}: {said}");
        assert_eq!(sandbox.events().len(), events, "{line}");
    }
    let changed = sandbox.json(&ann, &["edit", "1", "--title", "Fix it"]).ok().json();
    assert_eq!(changed["unchanged"], Value::Null);
}
