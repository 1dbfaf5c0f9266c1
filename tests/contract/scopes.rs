//! Scopes on the command line: how paths are named, what is granted and refused, and that a refusal changes nothing.

use std::os::unix::fs::symlink;

use serde_json::json;

use crate::contract::kit::{dump, json_with, run_with};
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
fn finishing_in_passing_what_another_left_is_exit_4_where_its_paths_are_anothers_and_changes_nothing() {
    let sandbox = Sandbox::new();
    for title in ["one", "two"] {
        sandbox.json(&human("founder"), &["add", title, "--scope", "src/**"]).ok();
    }
    sandbox.json(&agent("x"), &["claim", "1", "--ttl", "1ms"]).ok();
    while sandbox.json(&human("founder"), &["show", "1"]).ok().json()["lease"]["live"] == true {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    sandbox.json(&agent("y"), &["claim", "2"]).ok();
    let before = dump(&sandbox);
    let finishing: [&[&str]; 5] = [
        &["claim", "1"],
        &["takeover", "1", "--reason", "r"],
        &["done", "1", "-m", "x"],
        &["submit", "1"],
        &["fail", "1"],
    ];
    for words in finishing {
        let error = sandbox.json(&agent("z"), words).refused(4);
        assert_eq!(
            (&error["code"], &error["conflict"]["task"]),
            (&json!("scope"), &json!("ON-2")),
            "{words:?}"
        );
        assert_eq!(dump(&sandbox), before, "{words:?}");
    }
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
        "ON-1, held by nobody, declares no paths\n"
    );
    sandbox.run(&agent("a"), &["claim", "1", "--scope", "src/**"]).ok();
    assert_eq!(
        sandbox.run(&agent("a"), &["scope", "add", "README.md"]).ok().stdout,
        "ON-1, held by agent:a, reserves (exclusive):\n  README.md\n  src/**\n"
    );
    sandbox.run(&agent("a"), &["scope", "rm", "src/**"]).ok();
    assert_eq!(held(&sandbox, "1"), ["README.md"]);
    assert_eq!(sandbox.run(&agent("a"), &["touch", "x"]).ok().stdout, "ON-1: yours to change: x\n");
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

/// Everything by one name: what a link leads to.
#[test]
fn a_path_through_a_link_is_the_path_it_leads_to() {
    let sandbox = Sandbox::new();
    for title in ["one", "two"] {
        sandbox.add(title);
    }
    std::fs::create_dir_all(sandbox.path().join("src/deep")).unwrap();
    std::fs::write(sandbox.path().join("src/a.rs"), "").unwrap();
    symlink("src", sandbox.path().join("lnk")).unwrap();
    symlink("src/a.rs", sandbox.path().join("alias.rs")).unwrap();
    symlink("/etc", sandbox.path().join("out")).unwrap();
    sandbox.json(&agent("a"), &["claim", "1", "--scope", "src/**"]).ok();
    sandbox.json(&agent("b"), &["claim", "2"]).ok();
    let before = dump(&sandbox);
    for path in ["lnk/f", "lnk/deep/new/f", "lnk/gone/../f", "alias.rs", "lnk/../src/f"] {
        let error = sandbox.json(&agent("b"), &["touch", path]).refused(4);
        assert_eq!(error["conflict"]["theirs"], "src/**", "{path}: {error}");
    }
    for glob in ["lnk/f", "lnk", "lnk/", "lnk/**", "lnk/*.rs", "alias.rs", "lnk/deep/{x,y}"] {
        let error = sandbox.json(&agent("b"), &["scope", "add", glob]).refused(4);
        assert!(error["conflict"]["yours"].as_str().unwrap().starts_with("src/"), "{glob}: {error}");
    }
    sandbox.json(&agent("b"), &["touch", "out/passwd"]).refused(2);
    sandbox.json(&agent("b"), &["touch", ".git/config"]).refused(2);
    assert_eq!(dump(&sandbox), before);
    // Whoever has it may name it as it likes.
    sandbox.json(&agent("a"), &["touch", "lnk/f"]).ok();
    assert_eq!(held(&sandbox, "1"), ["src/**"]);
    let added = sandbox.json(&human("h"), &["add", "t", "--scope", "lnk/x/*.rs"]).ok().json();
    assert_eq!(added["scope"], json!(["src/x/*.rs"]));
    assert!(added["notices"][0]["message"].as_str().unwrap().contains("lnk/x leads to src/x"), "{added}");
}

#[test]
fn what_is_the_name_of_a_file_is_that_file_and_no_pattern() {
    let sandbox = Sandbox::new();
    for title in ["one", "two"] {
        sandbox.add(title);
    }
    for file in ["app/[id]/page.tsx", "app/[[...slug]]/page.tsx", "app/{x}/y", "odd*name"] {
        let file = sandbox.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
    }
    let claimed = sandbox.json(&agent("a"), &["claim", "1", "--scope", "app/[id]/page.tsx"]).ok().json();
    assert_eq!(claimed["lease"]["scope"], json!(["app/\\[id]/page.tsx"]));
    let told = claimed["notices"][0]["message"].as_str().unwrap();
    assert!(
        told.contains("«app/[id]/page.tsx» exists here") && told.contains("'{app/[id]/page.tsx}'"),
        "{told}"
    );
    // The file is another's, what the pattern would match is free.
    sandbox.json(&agent("b"), &["claim", "2"]).ok();
    sandbox.json(&agent("b"), &["touch", "app/[id]/page.tsx"]).refused(4);
    sandbox.json(&agent("b"), &["touch", "app/i/page.tsx"]).ok();
    // A folder is all that is in it, and what is no pattern at all is a name, too.
    let more = ["scope", "add", "app/[[...slug]]", "app/{x}/", "odd*name"];
    sandbox.json(&agent("a"), &more).ok();
    let all = ["app/\\[\\[...slug]]/**", "app/\\[id]/page.tsx", "app/\\{x\\}/**", "odd\\*name"];
    assert_eq!(held(&sandbox, "1"), all);
    // They are given free as they were typed, or as they are listed.
    sandbox.json(&agent("a"), &["scope", "rm", "app/[[...slug]]", "app/\\{x\\}/**", "odd*name"]).ok();
    assert_eq!(held(&sandbox, "1"), ["app/\\[id]/page.tsx"]);
    // The pattern can be had, as the notice says.
    sandbox.json(&agent("b"), &["release", "2"]).ok();
    let class = sandbox.json(&agent("b"), &["claim", "2", "--scope", "{app/[id]/page.tsx}"]).ok().json();
    assert_eq!(class["lease"]["scope"], json!(["{app/[id]/page.tsx}"]));
    assert!(class.get("notices").is_none(), "{class}");
    sandbox.json(&agent("a"), &["touch", "app/d/page.tsx"]).refused(4);
    // Everywhere where globs are taken.
    let edited = sandbox.json(&human("h"), &["edit", "2", "--scope", "app/[id]/page.tsx"]).ok().json();
    assert_eq!(edited["scope"], json!(["app/\\[id]/page.tsx"]));
    let edited = sandbox.json(&human("h"), &["edit", "2", "--unscope", "app/[id]/page.tsx"]).ok().json();
    assert_eq!(edited["scope"], json!([]));
    let plan = "[[task]]\ntitle = 't'\nscope = ['app/[id]/page.tsx', 'app/[ab].rs']\n";
    std::fs::write(sandbox.path().join("plan.toml"), plan).unwrap();
    let planned = sandbox.json(&human("h"), &["add", "--file", "plan.toml"]).ok().json();
    assert_eq!(planned["tasks"][0]["scope"], json!(["app/[ab].rs", "app/\\[id]/page.tsx"]));
    // One says that the file is meant, the other that a class may not be.
    assert_eq!(planned["notices"].as_array().unwrap().len(), 2, "{planned}");
}
