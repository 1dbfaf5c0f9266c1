//! Dependencies, parts and schedules through the command line: what waits, what says why, and what puts it back.

use serde_json::{Value, json};

use crate::contract::kit::{Sleeper, claim, dump, json_with, kinds, lapse, lapsed_claim};
use crate::support::{As, Sandbox, agent, human, is_written};

fn ann() -> As {
    human("ann")
}

/// Adds tasks and returns their ids.
fn tasks<const N: usize>(sandbox: &Sandbox, titles: [&str; N]) -> [String; N] {
    titles.map(|title| sandbox.add(title))
}

#[track_caller]
fn depend(sandbox: &Sandbox, task: &str, on: &[&str]) -> Value {
    let mut args = vec!["dep", "add", task];
    args.extend(on);
    sandbox.json(&ann(), &args).ok().json()
}

fn ready(sandbox: &Sandbox, who: &As) -> Vec<String> {
    let ready = sandbox.json(who, &["ready"]).ok().json();
    ready["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn dependencies_come_and_go_many_at_once_and_once_is_enough() {
    let sandbox = Sandbox::new();
    let [a, b, c, d] = tasks(&sandbox, ["A", "B", "C", "D"]);
    let added = depend(&sandbox, &d, &[&a, &b, &c]);
    assert_eq!((&added["deps"], &added["unmet"]), (&json!([a, b, c]), &json!(3)));
    let version = added["version"].clone();
    assert_eq!(depend(&sandbox, &d, &[&b, &a])["version"], version, "what is there already is no news");
    assert_eq!(depend(&sandbox, &d, &[&c, &c])["version"], version);
    assert_eq!(kinds(&sandbox, &d), ["task.created", "dep.added"]);

    let removed = sandbox.json(&ann(), &["dep", "rm", &d, &a, &c]).ok().json();
    assert_eq!((&removed["deps"], &removed["unmet"]), (&json!([b]), &json!(1)));
    let again = sandbox.json(&ann(), &["dep", "rm", &d, &a, &c]).ok().json();
    assert_eq!(again["version"], removed["version"]);
    let words = sandbox.run(&ann(), &["log", &d]).ok().stdout.clone();
    assert!(words.contains("made it depend on ON-1, ON-2, ON-3"), "{words}");
    assert!(words.contains("made it no longer depend on ON-1, ON-3"), "{words}");
    // Not even one of them if one is unknown.
    let before = dump(&sandbox);
    sandbox.json(&ann(), &["dep", "add", &d, &a, "ON-99"]).refused(3);
    assert_eq!(dump(&sandbox), before);
    sandbox.is_whole();
}

#[test]
fn a_dependency_holds_back_until_it_is_done_and_again_when_it_no_longer_is() {
    let sandbox = Sandbox::new();
    let [first, second] = tasks(&sandbox, ["First", "Second"]);
    depend(&sandbox, &second, &[&first]);
    let a = agent("a");
    assert_eq!(ready(&sandbox, &a), [first.as_str()]);
    for args in [vec!["claim", &second], vec!["done", &second, "-m", "x"], vec!["submit", &second]] {
        let error = sandbox.json(&a, &args).refused(6);
        assert_eq!((&error["code"], &error["task"]), (&"unmet".into(), &second.as_str().into()));
    }
    // Dropped is not done.
    sandbox.run(&a, &["drop", &first]).ok();
    sandbox.json(&a, &["claim", &second]).refused(6);
    sandbox.run(&a, &["reopen", &first]).ok();
    sandbox.run(&a, &["done", &first, "-m", "x"]).ok();
    assert_eq!(ready(&sandbox, &a), [second.as_str()]);
    claim(&sandbox, &a, &second);
    // What it stands on is gone: the holder keeps it, but it is not done.
    sandbox.run(&ann(), &["reopen", &first]).ok();
    assert_eq!(sandbox.json(&a, &["done", &second, "-m", "x"]).refused(6)["code"], "unmet");
    sandbox.run(&a, &["submit", &second]).ok();
    assert_eq!(sandbox.json(&agent("b"), &["approve", &second]).refused(6)["code"], "unmet");
    sandbox.run(&a, &["done", &first, "-m", "x"]).ok();
    sandbox.run(&agent("b"), &["approve", &second]).ok();
    sandbox.is_whole();
}

#[test]
fn a_person_may_force_past_a_dependency_and_an_agent_may_not() {
    let sandbox = Sandbox::new();
    let [first, second, epic] = tasks(&sandbox, ["First", "Second", "Epic"]);
    depend(&sandbox, &second, &[&first]);
    let force = ["--force", "--reason", "it is good enough"];
    let with = |args: &[&'static str], id: &str| {
        let mut all: Vec<String> = vec![args[0].into(), id.into()];
        all.extend(args[1..].iter().chain(&force).map(|arg| (*arg).to_owned()));
        all
    };
    let run =
        |who: &As, args: &[String]| sandbox.json(who, &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(run(&agent("a"), &with(&["claim"], &second)).refused(6)["code"], "people_only");
    run(&ann(), &with(&["claim"], &second)).ok();
    assert_eq!(kinds(&sandbox, &second)[2..], ["rule.overridden", "lease.acquired"]);
    assert_eq!(sandbox.json(&ann(), &["done", &second, "-m", "x"]).refused(6)["code"], "unmet");
    run(&ann(), &with(&["done", "-m", "x"], &second)).ok();
    assert_eq!(kinds(&sandbox, &second)[4..], ["rule.overridden", "task.done"]);

    sandbox.json(&ann(), &["add", "Part", "--parent", &epic]).ok();
    claim(&sandbox, &ann(), &epic);
    assert_eq!(sandbox.json(&ann(), &["done", &epic, "-m", "x"]).refused(6)["code"], "unmet");
    run(&ann(), &with(&["done", "-m", "x"], &epic)).ok();
    let log = sandbox.json(&ann(), &["log", &epic]).ok().json();
    assert!(log["events"].to_string().contains("\"rule\":\"parts\""), "{log}");
    sandbox.is_whole();
}

#[test]
fn parts_hold_back_ready_and_done_of_the_whole_until_the_last_is_finished() {
    let sandbox = Sandbox::new();
    let epic = sandbox.add("Epic");
    let part = |title: &str| {
        let added = sandbox.json(&ann(), &["add", title, "--parent", &epic]).ok().json();
        assert_eq!(added["parent"], epic.as_str());
        added["id"].as_str().unwrap().to_owned()
    };
    let (one, two) = (part("One"), part("Two"));
    let a = agent("a");
    assert_eq!(ready(&sandbox, &a), [one.as_str(), two.as_str()]);
    // Whoever leads it may hold it, but it is not done, nor handed out.
    claim(&sandbox, &ann(), &epic);
    assert_eq!(sandbox.json(&ann(), &["done", &epic, "-m", "x"]).refused(6)["code"], "unmet");
    sandbox.run(&ann(), &["release", &epic]).ok();
    sandbox.run(&a, &["done", &one, "-m", "x"]).ok();
    sandbox.run(&a, &["drop", &two]).ok();
    assert_eq!(ready(&sandbox, &a), [epic.as_str()], "what is dropped need not be waited for");
    sandbox.run(&a, &["reopen", &two]).ok();
    assert_eq!(ready(&sandbox, &a), [two.as_str()]);
    sandbox.run(&ann(), &["edit", &two, "--parent", ""]).ok();
    assert_eq!(ready(&sandbox, &a), [epic.as_str(), two.as_str()]);
    sandbox.is_whole();
}

#[test]
fn what_is_scheduled_is_not_ready_before_its_time() {
    let sandbox = Sandbox::new();
    let later = sandbox.json(&ann(), &["add", "Later", "--not-before", "2h"]).ok().json();
    let id = later["id"].as_str().unwrap();
    assert!(later["not_before"].is_string());
    let error = sandbox.json(&agent("a"), &["claim", id]).refused(6);
    assert_eq!(error["code"], "not_yet");
    assert!((7_100..=7_200).contains(&error["expires_in_s"].as_i64().unwrap()), "{error}");
    sandbox.json(&agent("a"), &["claim", "--next"]).refused(7);
    // A person may begin early, and the record says so.
    sandbox.run(&ann(), &["claim", id, "--force", "--reason", "there is time"]).ok();
    sandbox.run(&ann(), &["release", id]).ok();
    sandbox.run(&ann(), &["edit", id, "--not-before", "1ms"]).ok();
    lapse();
    assert_eq!(ready(&sandbox, &agent("a")), [id]);
    sandbox.run(&ann(), &["edit", id, "--not-before", ""]).ok();
    assert!(sandbox.show(id)["not_before"].is_null());
    for bad in ["soon", "2026-13-01", "-5m", "1h ago"] {
        let error = sandbox.json(&ann(), &["edit", id, &format!("--not-before={bad}")]).refused(2);
        assert!(error["message"].as_str().unwrap().contains("local date"), "{bad}: {error}");
    }
    sandbox.is_whole();
}

#[test]
fn a_circle_is_shown_and_changes_nothing() {
    let sandbox = Sandbox::new();
    let [a, b, c, epic] = tasks(&sandbox, ["A", "B", "C", "Epic"]);
    depend(&sandbox, &b, &[&a]);
    depend(&sandbox, &c, &[&b]);
    sandbox.run(&ann(), &["edit", &a, "--parent", &epic]).ok();
    let before = dump(&sandbox);
    for (args, way) in [
        (vec!["dep", "add", &a, &a], "ON-1 → ON-1"),
        (vec!["dep", "add", &a, &c], "ON-1 → ON-3 → ON-2 → ON-1"),
        (vec!["dep", "add", &a, &epic], "ON-1 → ON-4 → ON-1"),
        (vec!["edit", &epic, "--parent", &epic], "ON-4 → ON-4"),
        (vec!["add", "x", "--parent", &a, "--dep", &c], "ON-1 → the new task → ON-3 → ON-2 → ON-1"),
    ] {
        let ran = sandbox.json(&ann(), &args);
        let error = ran.refused(6);
        assert_eq!(error["code"], "cycle", "{args:?}");
        assert!(error["message"].as_str().unwrap().contains(way), "{args:?}: {error}");
        // Nobody may force it: nothing in a circle could ever begin.
        let mut forced = args.clone();
        forced.extend(["--force", "--reason", "r"]);
        if args[0] != "add" {
            assert_eq!(sandbox.json(&ann(), &forced).refused(6)["code"], "cycle", "{args:?}");
        }
    }
    assert_eq!(dump(&sandbox), before);
    // The whole waits for A, and C for A: that is no circle.
    sandbox.run(&ann(), &["edit", &epic, "--parent", &c]).ok();
    sandbox.is_whole();
}

#[test]
fn why_names_every_obstacle_and_what_would_clear_it() {
    let sandbox = Sandbox::new();
    let (a, b) = (agent("a"), agent("b"));
    let titles = ["Ready", "Held", "Dep", "Many", "Later", "Hard", "Kept", "Lapsed", "Whole", "Persons"];
    let [ready, held, dep, many, later, hard, kept, lapsed, whole, persons] = tasks(&sandbox, titles);
    sandbox.json(&a, &["claim", &held, "--bind", &std::process::id().to_string()]).ok();
    depend(&sandbox, &dep, &[&held]);
    let [failed, dropped, proposed] = ["Failed", "Dropped", "Proposed"].map(|title| {
        let args: &[&str] = if title == "Proposed" { &["add", title, "--propose"] } else { &["add", title] };
        sandbox.json(&ann(), args).ok().json()["id"].as_str().unwrap().to_owned()
    });
    depend(&sandbox, &many, &[&failed, &dropped, &proposed, &ready]);
    sandbox.run(&a, &["fail", &failed]).ok();
    sandbox.run(&a, &["drop", &dropped]).ok();
    sandbox.run(&ann(), &["edit", &later, "--not-before", "2h"]).ok();
    sandbox.run(&ann(), &["edit", &hard, "--tier", "3"]).ok();
    sandbox.run(&a, &["handoff", &kept, "--to", "agent:c", "--reason", "r"]).ok();
    lapsed_claim(&sandbox, &a, &lapsed);
    sandbox.run(&ann(), &["edit", &held, "--parent", &whole]).ok();
    let process = Sleeper::start();
    sandbox.run(&human("bob"), &["claim", &persons, "--bind", &process.pid()]).ok();
    drop(process);
    sandbox.run(&a, &["block", &sandbox.add("Blocked")]).ok();
    sandbox.run(&a, &["submit", &sandbox.add("Review")]).ok();
    sandbox.run(&a, &["done", &sandbox.add("Done"), "-m", "x"]).ok();
    let before = dump(&sandbox);
    let mut page = String::new();
    for number in 1..=16 {
        let id = format!("ON-{number}");
        page.push_str(&sandbox.run(&b, &["why", &id]).ok().stdout);
        let why = sandbox.json(&b, &["why", &id]).ok().json();
        let could =
            sandbox.json(&b, &["ready"]).ok().json()["tasks"].to_string().contains(&format!("\"{id}\""));
        assert_eq!(why["ready"], could, "{why}");
        assert_eq!(why["obstacles"].as_array().unwrap().is_empty(), could, "{why}");
    }
    assert_eq!(dump(&sandbox), before, "a question changes nothing");
    let redacted = crate::contract::refusal_cases::redacted(&page, &sandbox.path().to_string_lossy());
    is_written("tests/contract/snapshots/why.txt", &format!("{}\n", redacted.trim_end()));
}

#[test]
fn ready_explains_its_order_and_what_is_left_out() {
    let sandbox = Sandbox::new();
    let [a, b, c, d] = tasks(&sandbox, ["A", "B", "C", "D"]);
    depend(&sandbox, &c, &[&b]);
    depend(&sandbox, &d, &[&b, &c]);
    lapsed_claim(&sandbox, &agent("x"), &a);
    let explained = sandbox.json(&agent("y"), &["ready", "--explain"]).ok().json();
    let ids = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&explained["tasks"]), [b.as_str(), a.as_str()], "fresh before lapsed");
    assert_eq!(ids(&explained["left_out"]), [c.as_str(), d.as_str()]);
    assert_eq!(explained["left_out"][1]["obstacles"].as_array().unwrap().len(), 2);
    assert_eq!(explained["more"], 0);
    let words = sandbox.run(&agent("y"), &["ready", "--explain"]).ok().stdout.clone();
    for part in [
        "P2; 2 tasks wait for it; ",
        "after fresh work: agent:x (x-1), lapsed",
        "it depends on ON-2, which is open",
    ] {
        assert!(words.contains(part), "no '{part}' in {words}");
    }
    // Bounded, and it says so.
    for n in 0..25 {
        sandbox.run(&ann(), &["add", &format!("Waits {n}"), "--dep", &b]).ok();
    }
    let explained = sandbox.json(&agent("y"), &["ready", "--explain", "--limit", "1"]).ok().json();
    assert_eq!((ids(&explained["tasks"]).len(), ids(&explained["left_out"]).len()), (1, 20));
    assert_eq!(explained["more"], 7);
    let words = sandbox.run(&agent("y"), &["ready", "--explain"]).ok().stdout.clone();
    assert!(words.contains("and 7 more: onus list"), "{words}");
}

#[test]
fn a_reset_shows_first_what_it_would_touch_and_who_holds_it() {
    let sandbox = Sandbox::new();
    let [a, b, c, d, e] = tasks(&sandbox, ["A", "B", "C", "D", "E"]);
    depend(&sandbox, &b, &[&a]);
    depend(&sandbox, &c, &[&b]);
    depend(&sandbox, &d, &[&a]);
    sandbox.run(&agent("x"), &["done", &a, "-m", "x"]).ok();
    sandbox.run(&agent("x"), &["done", &b, "-m", "x"]).ok();
    claim(&sandbox, &agent("y"), &c);
    let before = dump(&sandbox);
    let preview = sandbox.json(&agent("z"), &["reset", &a, "--dry-run"]).ok().json();
    let touched = preview["touched"].as_array().unwrap();
    let lines: Vec<(String, String, bool)> = touched
        .iter()
        .map(|task| {
            let text = |name: &str| task[name].as_str().unwrap().to_owned();
            (text("id"), text("state"), task["lease"]["live"] == true)
        })
        .collect();
    let line = |id: &str, state: &str, live| (id.to_owned(), state.to_owned(), live);
    assert_eq!(lines, [line(&a, "done", false), line(&b, "done", false), line(&c, "in_progress", true)]);
    let words = sandbox.run(&agent("z"), &["reset", &a, "--dry-run"]).ok().stdout.clone();
    assert!(words.contains("ON-3 C (in progress, held by agent:y (y-1), live)"), "{words}");
    assert_eq!(dump(&sandbox), before);

    // A live lease in it: nobody resets that without force, and only a person may force.
    for who in [agent("z"), ann()] {
        let error = sandbox.json(&who, &["reset", &a, "--reason", "r"]).refused(4);
        assert_eq!((&error["code"], &error["holder"]["actor"]), (&"held".into(), &"agent:y".into()));
    }
    sandbox.json(&agent("z"), &["reset", &a, "--reason", "r", "--force"]).refused(6);
    assert_eq!(dump(&sandbox), before);
    sandbox.json(&ann(), &["reset", &a]).refused(2);

    let reset =
        sandbox.json(&ann(), &["reset", &a, "--reason", "the premise was wrong", "--force"]).ok().json();
    assert_eq!((&reset["id"], &reset["state"]), (&json!(a), &json!("open")));
    let ids = |touched: &Value| -> Vec<Value> {
        touched.as_array().unwrap().iter().map(|task| task["id"].clone()).collect()
    };
    assert_eq!(ids(&reset["touched"]), ids(&preview["touched"]));
    for id in [&a, &b, &c] {
        assert_eq!(sandbox.show(id)["state"], "open", "{id}");
    }
    assert_eq!(sandbox.show(&d)["version"], 2, "what nobody began stays as it was");
    assert_eq!(sandbox.show(&e)["version"], 1);
    assert_eq!(ready(&sandbox, &agent("z")), [a.as_str(), e.as_str()]);
    // What cannot be reset is not promised either.
    sandbox.run(&ann(), &["drop", &e]).ok();
    assert_eq!(sandbox.json(&ann(), &["reset", &e, "--dry-run"]).refused(6)["code"], "not_allowed");
    assert_eq!(sandbox.json(&ann(), &["reset", &e, "--reason", "r"]).refused(6)["code"], "not_allowed");
    sandbox.is_whole();
}

#[test]
fn a_retry_counts_and_stops_at_the_limit_unless_a_person_means_it() {
    let sandbox = Sandbox::new();
    let id = sandbox.json(&ann(), &["add", "Flaky", "--max-attempts", "2"]).ok().json()["id"].clone();
    let id = id.as_str().unwrap();
    let a = agent("a");
    sandbox.json(&a, &["retry", id]).refused(6);
    for attempt in 1..=2 {
        sandbox.run(&a, &["fail", id]).ok();
        let tried = sandbox.json(&a, &["retry", id, "-m", "another try"]).ok().json();
        assert_eq!((&tried["state"], &tried["attempts"]), (&json!("open"), &json!(attempt)));
    }
    sandbox.run(&a, &["fail", id]).ok();
    let before = dump(&sandbox);
    assert_eq!(sandbox.json(&a, &["retry", id]).refused(6)["code"], "limit");
    assert_eq!(sandbox.json(&ann(), &["retry", id]).refused(6)["code"], "limit");
    assert_eq!(
        sandbox.json(&a, &["retry", id, "--force", "--reason", "r"]).refused(6)["code"],
        "people_only"
    );
    assert_eq!(dump(&sandbox), before);
    let forced = sandbox.json(&ann(), &["retry", id, "--force", "--reason", "the cause is gone"]).ok().json();
    assert_eq!(forced["attempts"], 3);
    assert!(kinds(&sandbox, id).ends_with(&["rule.overridden".into(), "task.retried".into()]));
    sandbox.is_whole();
}

#[test]
fn links_are_kept_under_a_key_like_everything_else() {
    let sandbox = Sandbox::new();
    let [a, b, c] = tasks(&sandbox, ["A", "B", "C"]);
    let args = ["dep", "add", &b, &a, "--key", "k"];
    sandbox.json(&ann(), &args).ok();
    assert_eq!(sandbox.json(&ann(), &args).ok().json()["replayed"], true);
    let other = ["dep", "add", &b, &c, "--key", "k"];
    assert_eq!(sandbox.json(&ann(), &other).refused(2)["code"], "key_reused");
    let reset = ["reset", &a, "--reason", "r", "--key", "r"];
    assert_eq!(sandbox.json(&ann(), &reset).ok().json()["touched"].as_array().unwrap().len(), 1);
    claim(&sandbox, &agent("a"), &a);
    assert_eq!(sandbox.json(&ann(), &reset).ok().json()["replayed"], true, "a replay resets nothing");
    assert_eq!(sandbox.show(&a)["lease"]["live"], true);
}

#[test]
fn an_agent_does_not_link_what_another_holds() {
    let sandbox = Sandbox::new();
    let [a, b] = tasks(&sandbox, ["A", "B"]);
    claim(&sandbox, &agent("x"), &b);
    assert_eq!(sandbox.json(&agent("y"), &["dep", "add", &b, &a]).refused(4)["code"], "held");
    sandbox.json(&agent("x"), &["dep", "add", &b, &a]).ok();
    sandbox.json(&ann(), &["dep", "rm", &b, &a]).ok();
}

#[test]
fn the_graph_is_a_tree_a_picture_or_a_document() {
    let sandbox = Sandbox::new();
    let [db, api, site, epic, alone] =
        tasks(&sandbox, ["Database", "API \"v2\"", "Site", "Release", "Alone"]);
    depend(&sandbox, &api, &[&db]);
    depend(&sandbox, &site, &[&db, &api]);
    for part in [&api, &site] {
        sandbox.run(&ann(), &["edit", part, "--parent", &epic]).ok();
    }
    claim(&sandbox, &agent("a"), &db);
    let before = dump(&sandbox);
    let mut page = String::new();
    let mut show = |args: &[&str]| {
        let mut all = vec!["graph"];
        all.extend(args);
        let text = sandbox.run(&ann(), &all).ok().stdout.clone();
        page.push_str(&format!("$ onus {}\n{text}\n", all.join(" ")));
        text
    };
    show(&[]);
    show(&[&api]);
    show(&[&api, "--upstream"]);
    show(&[&alone]);
    show(&["--critical-path"]);
    show(&["--bottlenecks"]);
    show(&["--limit", "2"]);
    show(&["--format", "mermaid", "--critical-path"]);
    show(&["--format", "dot", "--bottlenecks=1"]);
    is_written("tests/contract/snapshots/graph.txt", &format!("{}\n", page.trim_end()));

    let graph = sandbox.json(&ann(), &["graph"]).ok().json();
    let by_format = sandbox.run(&ann(), &["graph", "--format", "json"]).ok().json();
    assert_eq!(by_format, graph);
    assert_eq!(graph["nodes"].as_array().unwrap().len(), 5);
    assert_eq!(graph["critical_path"], json!([db, api, site, epic]));
    assert_eq!(graph["bottlenecks"][0], json!({ "id": db, "unblocks": 3 }));
    let edge = |from: &str, to: &str, kind: &str| json!({ "from": from, "to": to, "kind": kind });
    let edges = graph["edges"].as_array().unwrap();
    for expected in [edge(&db, &api, "dep"), edge(&api, &epic, "part"), edge(&db, &site, "dep")] {
        assert!(edges.contains(&expected), "{expected} in {edges:?}");
    }
    let of =
        |id: &str| graph["nodes"].as_array().unwrap().iter().find(|node| node["id"] == id).unwrap().clone();
    assert_eq!((&of(&db)["holder"], &of(&db)["ready"]), (&json!("agent:a"), &json!(false)));
    assert_eq!(of(&alone)["ready"], true);

    // Finished work is left out unless asked for.
    assert_eq!(dump(&sandbox), before);
    sandbox.run(&agent("a"), &["done", &db, "-m", "x"]).ok();
    let nodes = |args: &[&str]| {
        let mut all = vec!["graph"];
        all.extend(args);
        sandbox.json(&ann(), &all).ok().json()["nodes"].as_array().unwrap().len()
    };
    assert_eq!((nodes(&[]), nodes(&["--all"])), (4, 5));
    assert_eq!((nodes(&[&api]), nodes(&[&api, "--all"]), nodes(&[&db])), (3, 4, 4));
    assert_eq!((nodes(&[&api, "--upstream", "--all"]), nodes(&[&api, "--downstream", "--all"])), (2, 3));
    sandbox.json(&ann(), &["graph", "--format", "dot"]).refused(2);
    sandbox.json(&ann(), &["graph", "--upstream"]).refused(2);
    sandbox.json(&ann(), &["graph", "ON-99"]).refused(3);
    // Readers need no name.
    let env: [(&str, &str); 0] = [];
    json_with(&sandbox, &As { actor: String::new(), instance: String::new() }, &env, &["graph"]).ok();
}
