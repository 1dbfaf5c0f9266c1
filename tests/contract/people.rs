//! What people meet every day: what waits for them, why a task came back, several tasks at once, their editor, and the words
//! they try.

use serde_json::{Value, json};

use crate::contract::kit::{claim, dump, fed, json_with, on_terminal, run_with};
use crate::support::{Ran, Sandbox, agent, human, program};

/// An agent edits a file without a task: its hook opens one.
pub(crate) fn ad_hoc(sandbox: &Sandbox, file: &str) {
    let payload = json!({
        "session_id": "c-1", "hook_event_name": "PreToolUse", "cwd": sandbox.path(),
        "tool_name": "Write", "tool_input": { "file_path": sandbox.path().join(file) },
    });
    let said = fed(sandbox, &agent("claude"), &["hook", "claude"], payload.to_string().as_bytes());
    assert!(said.stdout.contains("opened ON-"), "{said:?}");
}

fn ids(answer: &Value) -> Vec<&str> {
    answer["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect()
}

#[test]
fn the_next_holder_reads_first_why_a_task_came_back() {
    let (a, b, ann) = (agent("a"), agent("b"), human("ann"));
    for (verbs, kind, said) in [
        (
            vec![(&a, vec!["submit", "1"]), (&ann, vec!["reject", "1", "-m", "no tests"])],
            "task.rejected",
            "no tests",
        ),
        (
            vec![(&a, vec!["block", "1", "-m", "which one?"]), (&ann, vec!["unblock", "1"])],
            "task.blocked",
            "which one?",
        ),
        (
            vec![(&a, vec!["block", "1"]), (&ann, vec!["unblock", "1", "-m", "this one"])],
            "task.unblocked",
            "this one",
        ),
        (
            vec![(&a, vec!["fail", "1", "-m", "no disk"]), (&ann, vec!["retry", "1"])],
            "task.failed",
            "no disk",
        ),
        (
            vec![(&a, vec!["drop", "1", "-m", "for later"]), (&ann, vec!["reopen", "1"])],
            "task.dropped",
            "for later",
        ),
        (vec![(&a, vec!["release", "1", "-m", "half done"])], "lease.released", "half done"),
        // As a reason, it is the same.
        (
            vec![(&a, vec!["submit", "1"]), (&ann, vec!["reject", "1", "--reason", "no tests"])],
            "task.rejected",
            "no tests",
        ),
        (
            vec![(&a, vec!["handoff", "1", "--to", "agent:b", "--reason", "yours"])],
            "lease.handed_off",
            "yours",
        ),
    ] {
        let sandbox = Sandbox::new();
        sandbox.add("Fix it");
        claim(&sandbox, &a, "1");
        for (who, args) in &verbs {
            sandbox.run(who, args).ok();
        }
        let who = if kind == "task.rejected" { &a } else { &b };
        let claimed = sandbox.json(who, &["claim", "1"]).ok().json();
        let word = &claimed["task"]["last_word"];
        assert_eq!((&word["event"], &word["text"]), (&kind.into(), &said.into()), "{verbs:?}");
        assert_eq!(&sandbox.show("1")["last_word"], word, "while it is held, too");
        // People see it under the claim, and before the body.
        sandbox.run(who, &["release", "1"]).ok();
        let prose = sandbox.run(&ann, &["claim", "1"]);
        assert!(prose.ok().stdout.contains(&format!("| {said}")), "{prose:?}");
        sandbox.run(&ann, &["edit", "1", "-d", "The body"]).ok();
        let card = sandbox.run(&ann, &["show", "1"]).ok().stdout.clone();
        assert!(card.find(said).unwrap() < card.find("The body").unwrap(), "{card}");
        sandbox.is_whole();
    }
}

#[test]
fn status_names_what_waits_for_you_and_what_is_blocked_and_in_review() {
    let sandbox = Sandbox::new();
    let (ann, bob, a) = (human("ann"), human("bob"), agent("a"));
    for (title, owner) in
        [("Review", "human:ann"), ("Blocked", "human:bob"), ("Kept", "human:ann"), ("Open", "human:ann")]
    {
        sandbox.run(&ann, &["add", title, "--owner", owner]).ok();
    }
    claim(&sandbox, &a, "1");
    sandbox.run(&a, &["submit", "1", "-m", "see the branch"]).ok();
    sandbox.run(&a, &["block", "2", "-m", "which provider?"]).ok();
    sandbox.run(&ann, &["handoff", "3", "--to", "agent:a", "--reason", "go on"]).ok();
    let waits = |who| {
        let status = sandbox.json(who, &["status"]).ok().json();
        let list = status["waiting_for_you"].as_array().unwrap().clone();
        list.iter()
            .map(|waits| {
                (waits["id"].as_str().unwrap().to_owned(), waits["awaited"].as_str().unwrap().to_owned())
            })
            .collect::<Vec<_>>()
    };
    let waiting = |id: &str, what: &str| vec![(id.to_owned(), what.to_owned())];
    assert_eq!(waits(&ann), waiting("ON-1", "review"));
    assert_eq!(waits(&bob), waiting("ON-2", "decision"));
    assert_eq!(waits(&a), waiting("ON-3", "claim"));
    let status = sandbox.json(&bob, &["status"]).ok().json();
    assert_eq!(status["review"][0]["last_word"]["text"], "see the branch");
    assert_eq!(status["blocked"][0]["next"], "onus unblock ON-2");
    let shown = sandbox.run(&ann, &["status"]).ok().stdout.clone();
    let place = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text} in {shown}"));
    assert!(
        place("waiting for you") < place("ON-1 Review") && place("ON-1 Review") < place("\nblocked\n"),
        "{shown}"
    );
    assert!(
        place("\nblocked\n") < place("which provider?") && !shown.contains("\nin review\n"),
        "said once: {shown}"
    );
}

#[test]
fn a_list_says_what_is_in_the_way_of_each() {
    let sandbox = Sandbox::new();
    let ann = human("ann");
    for title in ["Ready", "Held", "Waits", "Blocked", "Later", "Above", "Part", "Whole"] {
        sandbox.run(&ann, &["add", title]).ok();
    }
    claim(&sandbox, &agent("a"), "2");
    sandbox.run(&ann, &["dep", "add", "3", "1", "2"]).ok();
    sandbox.run(&ann, &["block", "4", "-m", "a decision\nof two lines"]).ok();
    sandbox.run(&ann, &["edit", "5", "--not-before", "2h"]).ok();
    sandbox.run(&ann, &["edit", "6", "--tier", "3", "-t", "bug", "-p", "1"]).ok();
    sandbox.run(&ann, &["edit", "7", "--parent", "8"]).ok();
    let listed = sandbox.json(&agent("b"), &["list"]).ok().json();
    let why = |id: &str| {
        let task = listed["tasks"].as_array().unwrap().iter().find(|task| task["id"] == id).unwrap();
        (
            task["not_ready"]["kind"].as_str().map(str::to_owned),
            task["not_ready"]["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let says = |kind: &str, message: &str| (Some(kind.to_owned()), message.to_owned());
    assert_eq!(why("ON-1"), (None, String::new()));
    assert_eq!(why("ON-2"), (None, String::new()), "who holds it is in its lease");
    assert_eq!(why("ON-3"), says("dependency", "waits for ON-1, ON-2"));
    assert_eq!(why("ON-4"), says("state", "blocked"));
    assert_eq!(why("ON-5").0.as_deref(), Some("schedule"));
    assert_eq!(why("ON-6"), says("tier", "needs tier 3"));
    assert_eq!(why("ON-8"), says("child", "has 1 unfinished part"));
    let shown = sandbox.run(&agent("b"), &["list"]).ok().stdout.clone();
    for line in ["bug   open         Above", "Waits    waits for ON-1, ON-2", "human:ann: a decision …"] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    assert_eq!(ids(&sandbox.json(&ann, &["blocked"]).ok().json()), ["ON-3", "ON-4", "ON-8"]);
}

#[test]
fn ad_hoc_tasks_crowd_no_list() {
    let sandbox = Sandbox::new();
    sandbox.add("Planned orders");
    ad_hoc(&sandbox, "orders.rs");
    let ann = human("ann");
    let listed = sandbox.json(&ann, &["list"]).ok().json();
    assert_eq!((ids(&listed), &listed["ad_hoc"]), (vec!["ON-1"], &json!(1)));
    let shown = sandbox.run(&ann, &["list"]);
    assert!(shown.ok().stderr.contains("1 ad-hoc task is not listed: onus list --ad-hoc"), "{shown:?}");
    assert_eq!(ids(&sandbox.json(&ann, &["list", "--ad-hoc"]).ok().json()), ["ON-2"]);
    assert_eq!(ids(&sandbox.json(&ann, &["list", "--all"]).ok().json()), ["ON-1", "ON-2"]);
    assert_eq!(ids(&sandbox.json(&ann, &["list", "--holder", "agent:claude"]).ok().json()), ["ON-2"]);
    assert_eq!(ids(&sandbox.json(&ann, &["search", "orders"]).ok().json()), ["ON-1"]);
    assert_eq!(
        sandbox.json(&ann, &["search", "orders", "--all"]).ok().json()["tasks"].as_array().unwrap().len(),
        2
    );
    let status = sandbox.json(&ann, &["status"]).ok().json();
    assert_eq!((&status["counts"]["in_progress"], &status["ad_hoc"]), (&json!(0), &json!(1)));
    assert_eq!(status["held"][0]["id"], "ON-2", "who holds what is told of all");
}

/// Every task counts its own tokens from 1: a number alone would fit most of them.
#[test]
fn a_token_without_its_task_is_refused_for_several() {
    let sandbox = Sandbox::new();
    for title in ["One", "Two"] {
        sandbox.add(title);
    }
    claim(&sandbox, &agent("a"), "1");
    claim(&sandbox, &agent("b"), "2");
    let both = ["done", "1", "2", "-m", "both"];
    let refused = json_with(&sandbox, &agent("a"), &[("ONUS_TOKEN", "1")], &both);
    assert_eq!(refused.refused(2)["code"], "usage");
    assert_eq!(sandbox.show("2")["state"], "in_progress");
}

#[test]
fn several_tasks_are_each_done_by_themselves() {
    let sandbox = Sandbox::new();
    let ann = human("ann");
    for title in ["One", "Two", "Three", "Four"] {
        sandbox.add(title);
    }
    claim(&sandbox, &agent("a"), "2");
    let ran = sandbox.json(&ann, &["done", "1", "2", "99", "ON-3", "-m", "all at once"]);
    assert_eq!(ran.code, 4, "that of the first refusal: {ran:?}");
    let answer = ran.json();
    assert_eq!(ids(&answer), ["ON-1", "ON-3"]);
    assert_eq!(answer["error"]["code"], "held");
    let named: Vec<&str> =
        answer["refused"].as_array().unwrap().iter().map(|one| one["named"].as_str().unwrap()).collect();
    assert_eq!(named, ["2", "99"]);
    for (id, state) in [("1", "done"), ("2", "in_progress"), ("3", "done")] {
        assert_eq!(sandbox.show(id)["state"], state);
    }
    let prose = sandbox.run(&ann, &["drop", "4", "98", "-m", "no"]);
    assert_eq!((prose.code, prose.stdout.as_str()), (3, "ON-4 is dropped: Four\n"), "{prose:?}");
    assert_eq!(ids(&sandbox.json(&ann, &["reopen", "1", "4"]).ok().json()), ["ON-1", "ON-4"]);
    assert_eq!(ids(&sandbox.json(&ann, &["show", "4", "1"]).ok().json()), ["ON-4", "ON-1"]);
    let cards = sandbox.run(&ann, &["show", "4", "1"]).ok().stdout.clone();
    assert!(cards.starts_with("ON-4  Four") && cards.contains("\n\nON-1  One"), "{cards}");
    let before = dump(&sandbox);
    assert_eq!(sandbox.json(&ann, &["drop", "1", "4", "--key", "k"]).refused(2)["code"], "usage");
    assert_eq!(dump(&sandbox), before);
    sandbox.is_whole();
}

#[test]
fn a_body_is_cleared_by_an_empty_one() {
    let sandbox = Sandbox::new();
    let ann = human("ann");
    for clear in [&["--body", ""] as &[&str], &["--no-body"]] {
        sandbox.run(&ann, &["add", "Fix it", "-d", "hunter2"]).ok();
        let id = ids(&sandbox.json(&ann, &["list"]).ok().json()).last().unwrap().to_string();
        let args: Vec<&str> = ["edit", &id].into_iter().chain(clear.iter().copied()).collect();
        assert_eq!(sandbox.json(&ann, &args).ok().json()["body"], json!(null), "{clear:?}");
        assert_eq!(ids(&sandbox.json(&ann, &["search", "hunter2"]).ok().json()), Vec::<&str>::new());
        let version = sandbox.show(&id)["version"].clone();
        sandbox.run(&ann, &args).ok();
        assert_eq!(sandbox.show(&id)["version"], version, "what is not there is not cleared again");
    }
    sandbox.is_whole();
}

#[test]
fn an_edit_without_options_opens_the_editor() {
    let sandbox = Sandbox::new();
    sandbox.run(&human("ann"), &["add", "Fix it", "-d", "# How\n\nSo."]).ok();
    let editor = sandbox.path().join("an editor.sh");
    let script = |body: &str| {
        program(&editor, format!("#!/bin/sh\n{body}\n"));
    };
    let named = format!("'{}' --wait", editor.display());
    let temporary = sandbox.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let temporary = temporary.to_str().unwrap();
    let edit = || {
        let env = [
            ("ONUS_ACTOR", "human:ann"),
            ("VISUAL", named.as_str()),
            ("EDITOR", "false"),
            ("TMPDIR", temporary),
            ("NO_COLOR", "1"),
        ];
        on_terminal(&sandbox, &env, &["edit", "1"])
    };
    // The file is the user's alone, and what is in it is what there is.
    script(
        "[ \"$1\" = --wait ] || exit 9\nstat -c %a \"$(dirname \"$2\")\" > mode\ncp \"$2\" seen\nsed -i 's/^Fix it/Mend it/' \"$2\"",
    );
    let Some(shown) = edit() else { return };
    assert!(shown.contains("ON-1 changed: Mend it"), "{shown}");
    assert_eq!(std::fs::read_to_string(sandbox.path().join("mode")).unwrap(), "700\n");
    let seen = std::fs::read_to_string(sandbox.path().join("seen")).unwrap();
    assert!(seen.starts_with("Fix it\n\n# How\n\nSo.\n"), "{seen}");
    let task = sandbox.show("1");
    assert_eq!((&task["title"], &task["body"]), (&"Mend it".into(), &"# How\n\nSo.".into()));
    let is_empty = || std::fs::read_dir(temporary).unwrap().next().is_none();
    assert!(is_empty(), "nothing is left behind");

    let before = dump(&sandbox);
    script("true");
    assert!(edit().unwrap().contains("was left as it is"));
    script("sed -i s/Mend/Break/ \"$2\"; exit 3");
    assert!(edit().unwrap().contains("nothing was changed"));
    assert_eq!(dump(&sandbox), before);
    assert!(is_empty());

    // Somebody else is faster: nothing is overwritten, and nothing is lost.
    let onus = crate::support::ONUS;
    script(&format!("ONUS_ACTOR=human:bob '{onus}' edit 1 -p 0 > /dev/null\nsed -i s/Mend/Patch/ \"$2\""));
    let shown = edit().unwrap();
    assert!(shown.contains("somebody changed it") && shown.contains("your text is kept in"), "{shown}");
    assert_eq!(sandbox.show("1")["title"], "Mend it");
    let kept = std::fs::read_dir(temporary).unwrap().next().unwrap().unwrap().path().join("ON-1.md");
    assert!(std::fs::read_to_string(kept).unwrap().starts_with("Patch it"));
    // Without a terminal nothing is opened.
    assert_eq!(sandbox.json(&human("ann"), &["edit", "1"]).refused(2)["code"], "usage");
}

#[test]
fn the_words_that_people_try_do_or_name_the_right_thing() {
    let sandbox = Sandbox::new();
    let ann = human("ann");
    sandbox.run(&ann, &["create", "Fix it", "-p", "1"]).ok();
    assert_eq!(sandbox.show("1")["priority"], "P1");
    sandbox.run(&ann, &["start", "1"]).ok();
    sandbox.run(&ann, &["comment", "1", "half"]).ok();
    assert!(sandbox.run(&ann, &["ls"]).ok().stdout.contains("human:ann"));
    sandbox.run(&ann, &["finish", "-m", "fixed"]).ok();
    assert_eq!(sandbox.show("1")["state"], "done");
    for (word, command) in
        [("rm", "drop"), ("delete", "drop"), ("update", "edit"), ("find", "search"), ("next", "claim")]
    {
        let error = sandbox.json(&ann, &[word, "1"]).refused(2);
        assert_eq!(error["next"][0], format!("onus help {command}"), "{word}");
        let ran: Ran = run_with(&sandbox, &ann, &[], &[word, "1"]);
        assert!(ran.code == 2 && ran.stderr.contains(&format!("onus help {command}")), "{ran:?}");
    }
    assert_eq!(sandbox.json(&ann, &["edit", "1", "-p", "7"]).refused(2)["code"], "usage");
}

#[test]
fn a_person_who_is_refused_is_told_how_people_override_and_nobody_else_is() {
    let sandbox = Sandbox::new();
    for title in ["Held", "Waits"] {
        sandbox.add(title);
    }
    claim(&sandbox, &agent("a"), "1");
    sandbox.run(&human("ann"), &["dep", "add", "2", "1"]).ok();
    for args in [
        &["done", "1", "-m", "x"] as &[&str],
        &["claim", "1"],
        &["drop", "1"],
        &["block", "1"],
        &["release", "1"],
        &["fail", "1"],
        &["claim", "2"],
        &["reset", "1", "--reason", "r"],
    ] {
        let told = sandbox.json(&human("ann"), args);
        assert!(told.json()["error"]["override"].is_string(), "{args:?}: {told:?}");
        let told = sandbox.json(&agent("b"), args);
        assert!(told.json()["error"].get("override").is_none(), "{args:?}: {told:?}");
    }
    // Of several, each.
    let several = sandbox.json(&human("ann"), &["drop", "1", "2"]).json();
    assert!(several["refused"][0]["error"]["override"].is_string(), "{several}");
}

/// Whoever can decide something has nobody to ask for it; an agent has.
#[test]
fn a_person_who_may_override_is_not_told_to_ask_a_person() {
    let sandbox = Sandbox::new();
    let (ann, a) = (human("ann"), agent("a"));
    sandbox.run(&ann, &["add", "Once", "--max-attempts", "0"]).ok();
    sandbox.run(&a, &["fail", "1", "-m", "no"]).ok();
    let said = |by| sandbox.json(by, &["retry", "1"]).refused(6).to_string();
    let (of_ann, of_agent) = (said(&ann), said(&a));
    assert!(of_ann.contains("--force") && !of_ann.contains("onus note"), "{of_ann}");
    assert!(of_agent.contains("onus note") && !of_agent.contains("--force"), "{of_agent}");
}

#[test]
fn removing_a_dependency_that_is_not_there_says_so() {
    let sandbox = Sandbox::new();
    for title in ["One", "Two"] {
        sandbox.add(title);
    }
    let ran = sandbox.run(&human("ann"), &["dep", "rm", "2", "1"]);
    assert_eq!(ran.ok().stdout, "ON-2 is unchanged: it depends on nothing\n");
}
