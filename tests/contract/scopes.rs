//! Scopes on the command line: how paths are named, what is granted and refused, and that a refusal changes nothing.

use serde_json::json;

use crate::kit::{dump, json_with, run_with};
use crate::support::{Sandbox, agent, human};

fn held(sandbox: &Sandbox, id: &str) -> Vec<String> {
    let shown = sandbox.json(&human("founder"), &["scope", "show", id]).ok().json();
    shown["reserved"].as_array().unwrap().iter().map(|glob| glob.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_claim_whose_paths_another_has_is_exit_4_with_a_path_and_changes_nothing() {
    let sandbox = Sandbox::new();
    let (one, two) = (sandbox.add("one"), sandbox.add("two"));
    sandbox.json(&agent("a"), &["claim", &one, "--scope", "src/*/mod.rs"]).ok();
    let before = dump(&sandbox);
    let error = sandbox.json(&agent("b"), &["claim", &two, "--scope", "src/auth/*"]).refused(4);
    assert_eq!(error["code"], "scope");
    let conflict = json!({
        "task": "ON-1", "path": "src/auth/mod.rs", "yours": "src/auth/*", "theirs": "src/*/mod.rs"
    });
    assert_eq!(error["conflict"], conflict);
    assert_eq!(error["holder"]["actor"], "agent:a");
    assert_eq!(dump(&sandbox), before);
}

#[test]
fn a_folder_that_exists_means_what_is_in_it_and_paths_are_named_from_where_one_stands() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("one");
    std::fs::create_dir_all(sandbox.path().join("src/deep")).unwrap();
    sandbox.json(&agent("a"), &["claim", &id, "--scope", "src/deep", "--scope", "docs/"]).ok();
    assert_eq!(held(&sandbox, &id), ["docs/**", "src/deep/**"]);
    sandbox.json(&agent("a"), &["-C", "src/deep", "touch", "../new.rs", "./x.rs", "../../top"]).ok();
    assert_eq!(held(&sandbox, &id), ["docs/**", "src/deep/**", "src/new.rs", "top"]);
    let before = dump(&sandbox);
    for outside in ["/etc/passwd", "../elsewhere", "."] {
        sandbox.json(&agent("a"), &["touch", outside]).refused(2);
    }
    assert_eq!(dump(&sandbox), before);
}

#[test]
fn bad_globs_are_exit_2_and_say_what_to_write() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("one");
    sandbox.json(&agent("a"), &["claim", &id]).ok();
    let before = dump(&sandbox);
    for bad in
        ["", "/abs", "a/../b", "a//b", "[", "{a", "x\u{7}", "**.rs", &format!("*{}", "x".repeat(2_000))]
    {
        for command in [&["scope", "add"][..], &["scope", "rm"][..]] {
            let args: Vec<&str> = command.iter().copied().chain(["--", bad]).collect();
            let error = sandbox.json(&agent("a"), &args).refused(2);
            assert_eq!(error["code"], "usage", "{bad}: {error}");
        }
        sandbox.json(&agent("b"), &["add", "t", "--scope", bad]).refused(2);
    }
    assert_eq!(dump(&sandbox), before);
}

#[test]
fn a_declared_scope_is_reserved_by_whoever_claims_and_edits_count_from_the_next_claim() {
    let sandbox = Sandbox::new();
    let added =
        sandbox.json(&human("h"), &["add", "t", "--scope", "a/**", "--scope", "b", "--shared"]).ok().json();
    assert_eq!((&added["scope"], &added["scope_mode"]), (&json!(["a/**", "b"]), &json!("shared")));
    let claimed = sandbox.json(&agent("a"), &["claim", "1", "--scope", "c"]).ok().json();
    assert_eq!(claimed["lease"]["scope"], json!(["a/**", "b", "c"]));
    assert_eq!(claimed["lease"]["mode"], "shared");
    let edited = sandbox
        .json(&human("h"), &["edit", "1", "--scope", "d", "--unscope", "b", "--scope-mode", "exclusive"]);
    assert_eq!(edited.ok().json()["scope"], json!(["a/**", "d"]));
    assert_eq!(held(&sandbox, "1"), ["a/**", "b", "c"], "who holds it keeps what it was granted");
    sandbox.json(&agent("a"), &["release", "1"]).ok();
    let again = sandbox.json(&agent("b"), &["claim", "1"]).ok().json();
    assert_eq!(
        (&again["lease"]["scope"], &again["lease"]["mode"]),
        (&json!(["a/**", "d"]), &json!("exclusive"))
    );
}

#[test]
fn people_read_what_is_reserved_and_by_whom() {
    let sandbox = Sandbox::new();
    sandbox.add("one");
    assert_eq!(
        sandbox.run(&human("h"), &["scope", "show", "1"]).ok().stdout,
        "ON-1 declares no paths, and nobody holds it\n"
    );
    sandbox.run(&agent("a"), &["claim", "1", "--scope", "src/**"]).ok();
    assert_eq!(
        sandbox.run(&agent("a"), &["scope", "add", "README.md"]).ok().stdout,
        "ON-1, held by agent:a, reserves (exclusive):\n  README.md\n  src/**\n"
    );
    sandbox.run(&agent("a"), &["scope", "rm", "src/**"]).ok();
    assert_eq!(held(&sandbox, "1"), ["README.md"]);
    assert_eq!(sandbox.run(&agent("a"), &["touch", "x"]).ok().stdout, "ON-1: yours to change\n");
    let log = sandbox.run(&human("h"), &["log", "1"]).ok().stdout.clone();
    assert!(log.contains("reserved README.md") && log.contains("no longer reserves src/**"), "{log}");
}

#[test]
fn the_mode_and_the_shared_paths_are_configured() {
    let sandbox = Sandbox::new();
    for title in ["one", "two", "three"] {
        sandbox.add(title);
    }
    sandbox.json(&agent("a"), &["claim", "1", "--scope", "Cargo.lock"]).ok();
    let claim = ["claim", "2", "--scope", "Cargo.lock"];
    sandbox.json(&agent("b"), &claim).refused(4);
    let warned = run_with(&sandbox, &agent("b"), &[("ONUS_SCOPE_MODE", "warn")], &claim);
    assert!(warned.ok().stderr.contains("careful: Cargo.lock is reserved by ON-1"), "{warned:?}");
    sandbox.json(&agent("b"), &["release", "2"]).ok();
    let off = json_with(&sandbox, &agent("b"), &[("ONUS_SCOPE_MODE", "off")], &claim);
    assert!(off.ok().json().get("notices").is_none(), "{off:?}");
    sandbox.json(&agent("b"), &["release", "2"]).ok();
    std::fs::write(sandbox.path().join("onus.toml"), "[scope]\nshared = [\"*.lock\", \"docs/**\"]\n")
        .unwrap();
    sandbox.json(&agent("b"), &claim).ok();
    sandbox.json(&agent("b"), &["touch", "docs/x"]).ok();
    assert_eq!(held(&sandbox, "2"), ["Cargo.lock"]);
    std::fs::write(sandbox.path().join("onus.toml"), "[scope]\nmode = \"loose\"\n").unwrap();
    let error = sandbox.json(&agent("b"), &["ready"]).refused(2);
    assert!(error["message"].as_str().unwrap().contains("strict, warn or off"), "{error}");
}
