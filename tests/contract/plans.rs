//! Whole plans: `add --file` creates all of one, or nothing.

use serde_json::{Value, json};

use crate::contract::kit::{dump, fed, kinds};
use crate::support::{As, Ran, Sandbox, human};

const PLAN: &str = r#"
[[task]]
name = "api"
title = "Write the API"
parent = "epic"
deps = ["db", "ON-1"]
priority = "P1"

[[task]]
name = "db"
title = "Make the tables"
parent = "epic"
tags = ["data"]

[[task]]
name = "epic"
title = "Release 2"
type = "epic"
relates = ["api"]

[[task]]
title = "Tell everybody"
deps = ["epic"]
not_before = 2027-01-01T00:00:00Z
"#;

fn ann() -> As {
    human("ann")
}

fn write(sandbox: &Sandbox, name: &str, text: &str) {
    std::fs::write(sandbox.path().join(name), text).unwrap();
}

#[track_caller]
fn add(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let mut all = vec!["add", "--file"];
    all.extend(args);
    sandbox.json(&ann(), &all)
}

fn ids(answer: &Value) -> Vec<String> {
    answer["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_plan_is_created_with_its_links_and_answered_in_its_order() {
    let sandbox = Sandbox::new();
    sandbox.add("Before");
    write(&sandbox, "plan.toml", PLAN);
    let answer = add(&sandbox, &["plan.toml"]).ok().json();
    // A parent comes before its parts, and has the lower number; the answer is in the plan's order.
    assert_eq!(ids(&answer), ["ON-3", "ON-4", "ON-2", "ON-5"]);
    assert_eq!(answer["names"], json!({ "api": "ON-3", "db": "ON-4", "epic": "ON-2" }));
    let [api, db, epic, news] = ["ON-3", "ON-4", "ON-2", "ON-5"].map(|id| sandbox.show(id));
    assert_eq!(
        (&api["deps"], &api["parent"], &api["priority"]),
        (&json!(["ON-1", "ON-4"]), &json!("ON-2"), &json!("P1"))
    );
    assert_eq!((&db["tags"], &db["parent"]), (&json!(["data"]), &json!("ON-2")));
    assert_eq!(
        (&epic["type"], &epic["relates"], &epic["open_children"]),
        (&json!("epic"), &json!(["ON-3"]), &json!(2))
    );
    assert_eq!((&news["deps"], &news["not_before"]), (&json!(["ON-2"]), &json!("2027-01-01T00:00:00.000Z")));
    let words = sandbox.run(&ann(), &["add", "--file", "plan.toml"]).ok().stdout.clone();
    assert_eq!(
        words,
        "api → ON-7: Write the API\ndb → ON-8: Make the tables\nepic → ON-6: Release 2\nON-9: Tell everybody\n4 tasks added\n"
    );
    sandbox.is_whole();
}

#[test]
fn toml_json_and_standard_input_say_the_same() {
    let json = r#"  {"tasks": [{"name": "a", "title": "A"}, {"title": "B", "deps": ["a"]}]}"#;
    let toml = "\n[[task]]\nname = \"a\"\ntitle = \"A\"\n[[task]]\ntitle = \"B\"\ndeps = [\"a\"]\n";
    let sandbox = Sandbox::new();
    write(&sandbox, "plan.json", json);
    write(&sandbox, "plan.toml", toml);
    add(&sandbox, &["plan.json"]).ok();
    add(&sandbox, &["plan.toml"]).ok();
    for text in [json, toml] {
        fed(&sandbox, &ann(), &["add", "--file", "-"], text.as_bytes()).ok();
    }
    for (first, second) in [(1, 2), (3, 4), (5, 6), (7, 8)] {
        let (a, b) = (sandbox.show(&first.to_string()), sandbox.show(&second.to_string()));
        assert_eq!(
            (&a["title"], &b["title"], &b["deps"]),
            (&json!("A"), &json!("B"), &json!([format!("ON-{first}")]))
        );
    }
}

#[test]
fn all_of_a_plan_or_nothing() {
    let sandbox = Sandbox::new();
    let epic = sandbox.add("Epic");
    let inner = sandbox.json(&ann(), &["add", "Inner", "--parent", &epic]).ok().json()["id"].clone();
    let before = dump(&sandbox);
    let task = |rest: &str| format!("[[task]]\nname = \"good\"\ntitle = \"Good\"\n[[task]]\n{rest}");
    for (plan, exit, code, needle) in [
        (task("title = \"\"\n"), 2, "usage", "task 2 of the plan"),
        (task("title = \"B\"\ntags = [\"two words\"]\n"), 2, "usage", "task 2 of the plan ('B'): 'two words' is not a tag"),
        (task("title = \"B\"\ndeps = [\"goo\"]\n"), 2, "usage", "did you mean 'good'?"),
        (task("title = \"B\"\ndeps = [\"ON-99\"]\n"), 3, "not_found", "task 2 of the plan ('B'): "),
        (task("name = \"good\"\ntitle = \"B\"\n"), 2, "usage", "two tasks named 'good'"),
        (task("name = \"ON-7\"\ntitle = \"B\"\n"), 2, "usage", "reads as the id"),
        (task("name = \"b\"\ntitle = \"B\"\ndeps = [\"b\"]\n"), 6, "cycle", "b → b"),
        (task("title = \"B\"\nowner = \"agent:x\"\n"), 2, "usage", "person accountable"),
        (task("titel = \"B\"\n"), 2, "usage", "line 5: unknown field `titel`"),
        (task("title = 7\n"), 2, "usage", "line 5"),
        // Round through what exists: the epic waits for its new part, that for another, and that for the epic.
        (
            "[[task]]\nname = \"part\"\ntitle = \"P\"\nparent = \"ON-1\"\ndeps = [\"late\"]\n[[task]]\nname = \"late\"\ntitle = \"L\"\ndeps = [\"ON-1\"]\n".into(),
            6,
            "cycle",
            "ON-1 → part → late → ON-1",
        ),
        (
            "[[task]]\nname = \"part\"\ntitle = \"P\"\nparent = \"ON-2\"\ndeps = [\"ON-1\"]\n".into(),
            6,
            "cycle",
            "part → ON-1",
        ),
        ("task = []\n".into(), 2, "usage", "1 to 5000 tasks"),
        ("# nothing\n".into(), 2, "usage", "missing field `task`"),
    ] {
        write(&sandbox, "plan.toml", &plan);
        let error = add(&sandbox, &["plan.toml"]).refused(exit);
        assert_eq!(error["code"], code, "{plan}");
        assert!(error["message"].as_str().unwrap().contains(needle), "{plan}: {error}");
        add(&sandbox, &["plan.toml", "--dry-run"]).refused(exit);
        assert_eq!(dump(&sandbox), before, "{plan}");
    }
    assert_eq!(inner, "ON-2");
    sandbox.is_whole();
}

#[test]
fn a_dry_run_answers_as_the_real_one_and_changes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.add("Before");
    write(&sandbox, "plan.toml", PLAN);
    let before = dump(&sandbox);
    let dry = add(&sandbox, &["plan.toml", "--dry-run"]).ok().json();
    assert_eq!(dry["dry_run"], true);
    let words = sandbox.run(&ann(), &["add", "--file", "plan.toml", "--dry-run"]).ok().stdout.clone();
    assert!(words.ends_with("4 tasks would be added\n"), "{words}");
    assert_eq!(dump(&sandbox), before);
    let one = sandbox.run(&ann(), &["add", "One", "--dep", "1", "--dry-run"]).ok().stdout.clone();
    assert_eq!(one, "ON-2 would be added: One\n");
    assert_eq!(dump(&sandbox), before);
    let real = add(&sandbox, &["plan.toml"]).ok().json();
    assert_eq!((ids(&dry), &dry["names"]), (ids(&real), &real["names"]));
}

#[test]
fn a_plan_under_a_key_is_created_once_and_told_again_as_it_was() {
    let sandbox = Sandbox::new();
    sandbox.add("Before");
    let known = sandbox.json(&ann(), &["add", "Known", "--origin", "mail:1"]).ok().json()["id"].clone();
    let with_origins = PLAN.replacen("name = \"db\"", "name = \"db\"\norigin = \"mail:1\"", 1)
        + "\n[[task]]\ntitle = \"From chat\"\norigin = \"chat:9\"\n[[task]]\ntitle = \"Last\"\n";
    write(&sandbox, "plan.toml", &with_origins);
    let first = add(&sandbox, &["plan.toml", "--key", "k"]).ok().json();
    assert_eq!(first["names"]["db"], known, "one ask, one task");
    assert!(first["notices"].to_string().contains("ON-2 already exists"), "{first}");
    // Others add tasks meanwhile, and titles change: the replay still finds its own.
    sandbox.add("In between");
    sandbox.run(&ann(), &["edit", first["names"]["api"].as_str().unwrap(), "--title", "Renamed"]).ok();
    let again = add(&sandbox, &["plan.toml", "--key", "k"]).ok().json();
    assert_eq!(again["replayed"], true);
    assert_eq!((ids(&again), &again["names"]), (ids(&first), &first["names"]));
    write(&sandbox, "plan.toml", &with_origins.replace("Last", "Least"));
    assert_eq!(add(&sandbox, &["plan.toml", "--key", "k"]).refused(2)["code"], "key_reused");

    // All of it known: nothing is added.
    write(&sandbox, "known.toml", "[[task]]\ntitle = \"x\"\norigin = \"mail:1\"\n");
    let before = sandbox.events().len();
    let known_again = add(&sandbox, &["known.toml", "--key", "known"]).ok().json();
    assert_eq!((&known_again["existing"], &known_again["tasks"][0]["id"]), (&json!(true), &known));
    assert_eq!(sandbox.events().len(), before);
    assert_eq!(add(&sandbox, &["known.toml", "--key", "known"]).ok().json()["tasks"][0]["id"], known);
    write(
        &sandbox,
        "twice.toml",
        "[[task]]\ntitle = \"x\"\norigin = \"a:1\"\n[[task]]\ntitle = \"y\"\norigin = \"a:1\"\n",
    );
    assert_eq!(add(&sandbox, &["twice.toml"]).refused(2)["code"], "usage");
    sandbox.is_whole();
}

/// The digest of a kept request could be compared with guesses: it goes with any of the plan's texts.
#[test]
fn erasing_a_text_of_a_plan_erases_what_its_key_remembers() {
    let sandbox = Sandbox::new();
    write(&sandbox, "plan.toml", "[[task]]\ntitle = \"A\"\n[[task]]\ntitle = \"the secret\"\n");
    add(&sandbox, &["plan.toml", "--key", "k"]).ok();
    sandbox.run(&ann(), &["redact", "2", "1", "--reason", "secret"]).ok();
    let error = add(&sandbox, &["plan.toml", "--key", "k"]).refused(2);
    assert!(error["message"].as_str().unwrap().contains("since been erased"), "{error}");
    // And a plan that repeats the words of a task that was there.
    let origin = "[[task]]\ntitle = \"another secret\"\norigin = \"mail:2\"\n";
    write(&sandbox, "plan.toml", origin);
    let first = add(&sandbox, &["plan.toml"]).ok().json();
    add(&sandbox, &["plan.toml", "--key", "again"]).ok();
    sandbox
        .run(&ann(), &["redact", first["tasks"][0]["id"].as_str().unwrap(), "1", "--reason", "secret"])
        .ok();
    let error = add(&sandbox, &["plan.toml", "--key", "again"]).refused(2);
    assert!(error["message"].as_str().unwrap().contains("since been erased"), "{error}");
}

#[test]
fn a_plan_is_bounded_and_of_a_known_kind() {
    let sandbox = Sandbox::new();
    let before = dump(&sandbox);
    let refused = |name: &str, needle: &str| {
        let error = add(&sandbox, &[name]).refused(2);
        assert!(error["message"].as_str().unwrap().contains(needle), "{name}: {error}");
    };
    write(&sandbox, "big.toml", &format!("[[task]]\ntitle = \"x\"\nbody = \"{}\"\n", "y".repeat(1 << 20)));
    refused("big.toml", "longer than 1048576 bytes: split the plan");
    write(&sandbox, "many.toml", &"[[task]]\ntitle = \"x\"\n".repeat(5_001));
    refused("many.toml", "1 to 5000 tasks; this one has 5001");
    write(&sandbox, "plan.yaml", "tasks: []\n");
    refused("plan.yaml", "must end in .toml or .json");
    refused("missing.toml", "cannot read");
    std::fs::write(sandbox.path().join("binary.toml"), [0xff, 0xfe]).unwrap();
    refused("binary.toml", "is not UTF-8");
    let big = "x".repeat((1 << 20) + 1);
    assert_eq!(fed(&sandbox, &ann(), &["add", "--file", "-"], big.as_bytes()).code, 2);
    for args in [
        vec!["add"],
        vec!["add", "Title", "--file", "plan.toml"],
        vec!["add", "--file", "plan.toml", "-p", "P1"],
        vec!["add", "--file", "plan.toml", "--dep", "1"],
    ] {
        sandbox.json(&ann(), &args).refused(2);
    }
    assert_eq!(dump(&sandbox), before);
}

#[test]
fn a_large_plan_is_one_transaction_and_fast_enough() {
    let sandbox = Sandbox::new();
    let epic = sandbox.add("Epic");
    let plan: String = (0..1_000)
        .map(|n| {
            let deps = if n > 0 { format!("deps = [\"t{}\"]\n", n - 1) } else { String::new() };
            format!("[[task]]\nname = \"t{n}\"\ntitle = \"Task {n}\"\nparent = \"{epic}\"\n{deps}")
        })
        .collect();
    write(&sandbox, "plan.toml", &plan);
    let answer = add(&sandbox, &["plan.toml"]).ok().json();
    assert_eq!(ids(&answer).len(), 1_000);
    assert_eq!(sandbox.show(&epic)["open_children"], 1_000);
    assert_eq!(kinds(&sandbox, "ON-900"), ["task.created"], "what exists is named at once");
    let ready = sandbox.json(&ann(), &["ready"]).ok().json();
    assert_eq!(ids(&ready), ["ON-2"]);
    let graph = sandbox.json(&ann(), &["graph"]).ok().json();
    assert_eq!(graph["critical_path"].as_array().unwrap().len(), 1_001);
    sandbox.is_whole();
}
