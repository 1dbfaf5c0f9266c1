//! The files themselves: whose they are, what is wrong in them, how they are changed and shown.

use super::*;

#[test]
fn every_key_has_its_variable() {
    let sandbox = Sandbox::new();
    let shown = sandbox.json(&human("ann"), &["config"]).ok().json();
    for key in shown["config"].as_array().unwrap() {
        let (name, variable) = (key["key"].as_str().unwrap(), key["env"].as_str().unwrap());
        let value = match name {
            "identity.actor" => "human:ann",
            "store.path" => "x.db",
            "seal.signers" => "signers",
            "force.needs_link"
            | "guard.token_trailer"
            | "lease.unique_machines"
            | "run.keep_output"
            | "worktree.fetch" => "true",
            "ui.color" => "never",
            "sessions.people" => "off",
            "timesheet.rates" => "human:ann=90.50",
            "scope.mode" => "warn",
            "guard.people" | "guard.unclaimed" | "scope.across_worktrees" => "refuse",
            "scope.shared" | "land.union" => "*.lock",
            "land.style" => "squash",
            "deps.met" => "done",
            name if name.contains("indefinite") || name.contains("attempts") || name.contains("rescue") => {
                "3"
            }
            _ => "11m",
        };
        let got =
            json_with(&sandbox, &human("ann"), &[(variable, value)], &["config", "get", name]).ok().json();
        assert_eq!(
            (flat(&got["value"]), &got["source"]),
            (value.into(), &format!("environment {variable}").into()),
            "{name}"
        );
        assert!(!key["about"].as_str().unwrap().is_empty());
    }
}

#[test]
fn what_belongs_to_a_user_is_refused_in_a_repository() {
    let sandbox = Sandbox::new();
    for text in
        ["[identity]\nactor = \"human:ann\"\n", "[store]\npath = \"x\"\n", "[seal]\nsigners = \"x\"\n"]
    {
        shared_file(&sandbox, text);
        let error = sandbox.json(&human("ann"), &["list"]).refused(2);
        assert!(error["message"].as_str().unwrap().contains("belongs to a user"), "{error}");
    }
    for text in ["[lease]\ntll = \"1m\"\n", "[lease\n", "lease = 3\n", "[lease]\nttl = [1]\n", "\u{0}"] {
        shared_file(&sandbox, text);
        let error = sandbox.json(&human("ann"), &["list"]).refused(2);
        assert!(error["message"].as_str().unwrap().contains("onus.toml"), "{error}");
    }
}

#[test]
fn where_a_value_comes_from_is_shown_without_what_would_repaint_a_terminal() {
    let sandbox = Sandbox::new();
    let odd = sandbox.path().join("x\u{1b}[2J\u{202e}dg");
    fs::create_dir_all(odd.join("onus")).unwrap();
    fs::write(odd.join("onus/config.toml"), "[lease]\nttl = \"50m\"\n").unwrap();
    let variables = [("XDG_CONFIG_HOME", odd.to_str().unwrap())];
    for args in [&["config"] as &[&str], &["config", "files"], &["config", "get", "lease.ttl"]] {
        let shown = run_with(&sandbox, &human("ann"), &variables, args).ok().stdout.clone();
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
        assert!(
            args.contains(&"get") || shown.contains("x\\u{1b}[2J\\u{202e}dg/onus/config.toml"),
            "{shown}"
        );
    }
    fs::write(odd.join("onus/config.toml"), "nonsense").unwrap();
    let refused = run_with(&sandbox, &human("ann"), &variables, &["config"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(!refused.stderr.contains(['\u{1b}', '\u{202e}']), "{refused:?}");
}

/// What is wrong in a repository's file is refused with its place and what to write, and shown to nobody.
#[test]
fn a_wrong_file_is_refused_with_its_place_and_what_to_write() {
    let sandbox = Sandbox::new();
    let long = format!("[area.{}]\npaths = [\"x\"]\n", "n".repeat(70));
    let cases: &[(&str, &str, &str)] = &[
        ("[lease]\nttl = \"SECRET\"\n", "2:7", "lease.ttl must be a duration such as 90s, 15m or 2h"),
        ("[lease]\n  SECRET = \"1m\"\n", "2:3", "unknown key"),
        ("[lease]\nttl_ = \"1m\"\n", "2:1", "the nearest is lease.ttl"),
        (
            "[scope]\nshared = \"SECRET\"\n",
            "2:10",
            "scope.shared must be a list of globs, such as [\"docs/**\"",
        ),
        ("[scope]\nshared = [\"a\", 3]\n", "2:10", "scope.shared must be a list of globs"),
        ("[lease]\nindefinite_per_actor = \"3\"\n", "2:24", "a whole number, without quotes"),
        ("[force]\nneeds_link = \"true\"\n", "2:14", "true or false, without quotes"),
        ("[lease]\nttl = true\n", "2:7", "a duration such as 90s, 15m or 2h, in quotes"),
        ("[leese]\nttl = \"1m\"\n", "1:2", "unknown table; the nearest is [lease]"),
        ("[[gaet]]\nname = \"SECRET\"\n", "1:3", "unknown table; the nearest is [[gate]]"),
        ("lease = 3\n", "1:1", "it is a table: write [lease], and the keys below it"),
        ("[lease]\nttl = \"1m\"\nttl = \"SECRET\"\n", "3:1", "it is set twice"),
        ("[lease]\nttl = \"1m\"\n[lease]\nkeep = \"1m\"\n", "3:2", "it is set twice"),
        ("[area]\nauth = [\"src/**\"]\n", "2:1", "an area is a table: write [area.NAME]"),
        ("[area.auth]\npath = [\"SECRET\"]\n", "2:1", "unknown key in [area.NAME]; the nearest is paths"),
        ("[area.auth]\npaths = \"SECRET\"\n", "2:9", "paths must be a list of globs, such as [\"src/**\"]"),
        (
            "[area.auth]\npaths = [\"src/**\", \"/SECRET\"]\n",
            "2:20",
            "it must be a glob from the repository's root",
        ),
        ("[area.auth]\npaths = []\n", "1:7", "an area has 1 to 200 globs"),
        ("[area.auth]\n", "1:7", "an area needs paths"),
        ("[area.\"SEC RET\"]\npaths = [\"x\"]\n", "1:7", "an area's name has 1 to 64 letters"),
        (&long, "1:7", "an area's name has 1 to 64 letters"),
        ("[lease]\nttl = \"SECRET\n", "2:14", "not valid TOML"),
    ];
    for (text, place, why) in cases {
        shared_file(&sandbox, text);
        let error = sandbox.json(&human("ann"), &["list"]).refused(2);
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains(&format!("onus.toml:{place}: ")) && message.contains(why),
            "{text}{message}"
        );
        assert!(!message.contains("SEC"), "{message}");
    }
    shared_file(&sandbox, &format!("# {}\n", "x".repeat(1 << 20)));
    let error = sandbox.json(&human("ann"), &["list"]).refused(2);
    assert!(error["message"].as_str().unwrap().contains("larger than 64 KiB"), "{error}");
    // What a project defines is not a user's.
    shared_file(&sandbox, "");
    user_file(&sandbox, "[area.auth]\npaths = [\"x\"]\n");
    let error = sandbox.json(&human("ann"), &["list"]).refused(2);
    assert!(
        error["message"].as_str().unwrap().contains("config.toml:1:2: [area.NAME] says what a project is"),
        "{error}"
    );
}

#[test]
fn a_key_is_set_in_the_right_file_and_everything_else_stays() {
    let sandbox = Sandbox::new();
    let ann = human("ann");
    let file = sandbox.path().join("onus.toml");
    let text = || fs::read_to_string(&file).unwrap();
    let set = sandbox.json(&ann, &["config", "set", "lease.ttl", "7m"]).ok().json();
    assert_eq!((&set["value"], &set["created"]), (&"7m".into(), &true.into()), "{set}");
    assert_eq!(text(), "[lease]\nttl = \"7m\"\n");
    shared_file(&sandbox, "# ours\n\n[lease] # terms\nkeep = \"1m\"\nttl = \"7m\"  # short\n\n# last\n");
    sandbox.run(&ann, &["config", "set", "lease.ttl", "9m"]).ok();
    sandbox.run(&ann, &["config", "set", "scope.shared", "*.lock", "docs/**"]).ok();
    sandbox.run(&ann, &["config", "set", "force.needs_link", "true"]).ok();
    sandbox.run(&ann, &["config", "set", "retry.max_attempts", "2"]).ok();
    sandbox.run(&ann, &["config", "set", "area.auth", "src/auth/**"]).ok();
    let all = text();
    for kept in ["# ours\n\n[lease] # terms\nkeep = \"1m\"\nttl = \"9m\"  # short\n", "# last"] {
        assert!(all.contains(kept), "{all}");
    }
    for new in [
        "shared = [\"*.lock\", \"docs/**\"]",
        "needs_link = true",
        "max_attempts = 2",
        "[area.auth]\npaths = [\"src/auth/**\"]",
    ] {
        assert!(all.contains(new), "{all}");
    }
    let got = |key: &str| sandbox.json(&ann, &["config", "get", key]).ok().json()["value"].clone();
    assert_eq!(got("lease.ttl"), "9m");
    assert_eq!(got("scope.shared"), serde_json::json!(["*.lock", "docs/**"]));
    assert_eq!(got("area.auth"), serde_json::json!({ "paths": ["src/auth/**"] }));
    assert_eq!(got("area.auth.paths"), serde_json::json!(["src/auth/**"]));

    for key in ["scope.shared", "force.needs_link", "retry.max_attempts", "area.auth", "lease.ttl"] {
        sandbox.run(&ann, &["config", "unset", key]).ok();
        assert_eq!(sandbox.json(&ann, &["config", "unset", key]).refused(3)["code"], "not_found", "{key}");
    }
    assert!(text().starts_with("# ours\n\n[lease] # terms\nkeep = \"1m\"\n"), "{}", text());
    for gone in ["ttl", "scope", "force", "retry", "area"] {
        assert!(!text().contains(gone), "{}", text());
    }

    // A user's keys are the user's, in a file that only they can read.
    let before = text();
    let error = sandbox.json(&ann, &["config", "set", "identity.actor", "human:zoe"]).refused(2);
    assert!(error["message"].as_str().unwrap().contains("belongs to a user"), "{error}");
    sandbox.json(&ann, &["config", "set", "identity.actor", "zoe", "--user"]).refused(2);
    let set = sandbox.json(&ann, &["config", "set", "identity.actor", "human:zoe", "--user"]).ok().json();
    let own = std::path::PathBuf::from(set["file"].as_str().unwrap());
    assert_eq!(fs::read_to_string(&own).unwrap(), "[identity]\nactor = \"human:zoe\"\n");
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&own).unwrap().permissions()) & 0o777,
        0o600
    );
    let error = sandbox.json(&ann, &["config", "set", "area.auth", "x", "--user"]).refused(2);
    assert!(error["message"].as_str().unwrap().contains("onus.toml"), "{error}");
    for (key, values, why) in [
        ("lease.tll", &["1m"] as &[&str], "the nearest is lease.ttl"),
        ("lease.ttl", &["soon"], "lease.ttl"),
        ("lease.ttl", &["1m", "2m"], "one value"),
        ("lease.ttl", &["0"], "useless"),
        ("scope.shared", &["/etc/**"], "glob"),
        ("area.auth", &["../x"], "glob"),
        ("area.a b", &["x"], "area"),
        ("retry.max_attempts", &["99999999999999999999"], "whole number"),
    ] {
        let error = sandbox.json(&ann, &[&["config", "set", key], values].concat()).refused(2);
        assert!(error["message"].as_str().unwrap().contains(why), "{key}: {error}");
    }
    assert_eq!(text(), before, "what is refused changes nothing");
    // What is set need not be what counts, and that is said.
    sandbox.run(&ann, &["config", "set", "lease.max_hold", "1h", "--user"]).ok();
    let said = sandbox.json(&ann, &["config", "set", "lease.max_hold", "3h"]).ok().json();
    assert!(said["notices"][0]["message"].as_str().unwrap().contains("is still 1h"), "{said}");
}

/// Each reads the file, changes its own key and replaces the file: none may undo what another wrote meanwhile.
#[test]
fn keys_that_are_set_at_the_same_time_are_all_set() {
    let sandbox = Sandbox::new();
    let ann = human("ann");
    // The user's folder does not exist yet.
    for (file, keys) in [
        (&[] as &[&str], (1..=16).map(|n| (format!("area.a{n}"), "x/**")).collect::<Vec<_>>()),
        (
            &["--user"],
            ["lease.ttl", "lease.keep", "lease.max_hold", "sessions.idle"]
                .map(|key| (key.to_owned(), "17m"))
                .to_vec(),
        ),
    ] {
        let set = |(key, value): &(String, &str)| {
            let mut command = sandbox.command(&ann);
            command.args(["config", "set", key, value]).args(file).stdout(std::process::Stdio::null());
            command.spawn().unwrap()
        };
        for mut child in keys.iter().map(set).collect::<Vec<_>>() {
            assert!(child.wait().unwrap().success());
        }
        for (key, _) in &keys {
            sandbox.run(&ann, &[&["config", "unset", key], file].concat()).ok();
        }
    }
}

#[test]
fn a_repositorys_file_is_never_written_through_a_link_that_leads_out_of_it() {
    let sandbox = Sandbox::new();
    let outside = tempfile::tempdir().unwrap();
    let elsewhere = outside.path().join("other.toml");
    let link = sandbox.path().join("onus.toml");
    std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
    sandbox.json(&human("ann"), &["config", "set", "lease.ttl", "7m"]).refused(2);
    assert!(!elsewhere.exists(), "not through a link that leads nowhere yet");
    fs::write(&elsewhere, "").unwrap();
    sandbox.json(&human("ann"), &["config", "set", "lease.ttl", "7m"]).refused(2);
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "");
    // Inside, a link is followed and stays one.
    fs::remove_file(&link).unwrap();
    fs::create_dir(sandbox.path().join("conf")).unwrap();
    fs::write(sandbox.path().join("conf/onus.toml"), "# here\n").unwrap();
    std::os::unix::fs::symlink("conf/onus.toml", &link).unwrap();
    sandbox.run(&human("ann"), &["config", "set", "lease.ttl", "7m"]).ok();
    assert!(link.is_symlink());
    let text = fs::read_to_string(sandbox.path().join("conf/onus.toml")).unwrap();
    assert!(text.contains("# here") && text.contains("ttl = \"7m\""), "{text}");
}

#[test]
fn the_configuration_is_readable_at_80_columns_and_completions_know_the_keys() {
    let sandbox = Sandbox::new();
    let globs: Vec<String> = (0..12).map(|n| format!("\"packages/part-{n}/**\"")).collect();
    shared_file(&sandbox, &format!("[area.web]\npaths = [{}]\n[lease]\nttl = \"7m\"\n", globs.join(", ")));
    let shown = sandbox.run(&human("ann"), &["config"]).ok().stdout.clone();
    assert!(
        shown.contains("lease.ttl = 7m\n") && shown.contains("area.web.paths = packages/part-0/**,"),
        "{shown}"
    );
    for line in shown.lines().filter(|line| !line.trim_start().starts_with('/')) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for verb in ["get", "set", "unset"] {
        let offered =
            sandbox.run(&human("ann"), &["__complete", "config", verb, "lease.max"]).ok().stdout.clone();
        assert_eq!(offered.trim(), "lease.max_hold", "{verb}");
    }
}

#[test]
fn an_area_can_be_named_wherever_a_glob_is_taken() {
    let sandbox = Sandbox::new();
    let ann = human("ann");
    shared_file(
        &sandbox,
        "[area.auth]\npaths = [\"src/auth/**\"]\n[area.api]\npaths = [\"api/**\", \"src/api.rs\"]\n",
    );
    let added = sandbox.json(&ann, &["add", "one", "--scope", "area:auth", "--scope", "x", "--area", "auth"]);
    let added = added.ok().json();
    assert_eq!(added["scope"], serde_json::json!(["src/auth/**", "x"]));
    assert_eq!(added["scope_areas"], serde_json::json!({ "auth": ["src/auth/**"] }));
    let claimed = sandbox.json(&agent("a"), &["claim", "1"]).ok().json();
    let rows = serde_json::json!([
        { "glob": "src/auth/**", "kind": "declared", "area": "auth" }, { "glob": "x", "kind": "declared" }
    ]);
    assert_eq!(claimed["lease"]["reservations"], rows);
    // A label alone reserves nothing.
    sandbox.json(&ann, &["add", "two", "--area", "auth"]).ok();
    sandbox.json(&agent("b"), &["claim", "2"]).ok();
    for words in [&["scope", "add", "area:auth"] as &[&str], &["touch", "src/auth/login.rs"]] {
        let error = sandbox.json(&agent("b"), words).refused(4);
        assert_eq!(error["conflict"]["area"], "auth", "{error}");
        assert!(
            error["message"].as_str().unwrap().contains(", in area auth, is reserved by ON-1"),
            "{error}"
        );
    }
    let more = sandbox.json(&agent("b"), &["scope", "add", "area:api"]).ok().json();
    assert_eq!(more["lease"]["scope"], serde_json::json!(["api/**", "src/api.rs"]));
    let less = sandbox.json(&agent("b"), &["scope", "rm", "area:api"]).ok().json();
    assert_eq!(less["lease"]["scope"], serde_json::json!([]));
    sandbox.json(&ann, &["edit", "2", "--scope", "area:api", "--area", "api"]).ok();
    assert_eq!(sandbox.show("2")["scope_areas"]["api"][0], "api/**");
    sandbox.json(&ann, &["edit", "2", "--unscope", "area:api"]).ok();
    assert_eq!(sandbox.show("2")["scope"], serde_json::json!([]));
    let plan = "[[task]]\ntitle = \"p\"\nscope = [\"area:api\"]\narea = \"api\"\n";
    fs::write(sandbox.path().join("plan.toml"), plan).unwrap();
    let planned = sandbox.json(&ann, &["add", "--file", "plan.toml"]).ok().json();
    assert_eq!(planned["tasks"][0]["scope"], serde_json::json!(["api/**", "src/api.rs"]));
    let ran = sandbox
        .json(&agent("c"), &["run", "3", "--scope", "area:api", "--on-success", "release", "--", "true"]);
    assert_eq!(ran.code, 0, "{ran:?}");

    // The ledger has the globs, so it means the same when the area means something else.
    shared_file(&sandbox, "[area.auth]\npaths = [\"elsewhere/**\"]\n");
    assert_eq!(sandbox.show("1")["lease"]["scope"][0], "src/auth/**");
    sandbox.is_whole();
    for words in [
        &["claim", "3", "--scope", "area:aut"] as &[&str],
        &["add", "x", "--scope", "area:aut"],
        &["add", "x", "--area", "aut"],
        &["edit", "1", "--area", "aut"],
        &["scope", "add", "area:aut", "--task", "1"],
        &["takeover", "1", "--scope", "area:aut", "--reason", "r"],
        &["run", "3", "--scope", "area:aut", "--", "true"],
    ] {
        let error = sandbox.json(&agent("a"), words).refused(2);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("unknown area 'aut'; the nearest is auth"), "{words:?}: {message}");
    }
    // Where none is defined, a label is what anybody says it is.
    shared_file(&sandbox, "");
    sandbox.json(&ann, &["add", "x", "--area", "anything"]).ok();
    let error = sandbox.json(&ann, &["add", "x", "--scope", "area:auth"]).refused(2);
    assert!(error["message"].as_str().unwrap().contains("defines none; write [area.NAME]"), "{error}");
}

#[test]
fn a_lease_says_in_which_worktree_its_work_is_done() {
    let sandbox = Sandbox::new();
    let root = two_worktrees(&sandbox);
    let in_folder = |folder: &str, who: &As, args: &[&str]| {
        sandbox.json(who, &[&["-C", folder], args].concat()).ok().json()
    };
    in_folder("repo", &human("ann"), &["add", "x"]);
    let lease = in_folder("repo", &agent("a"), &["claim", "1"])["lease"].clone();
    assert!(lease["worktree"].as_str().unwrap().ends_with("/repo") && lease["branch"] == "main", "{lease}");
    let here = lease["worktree_id"].as_str().unwrap().to_owned();
    assert!(root.join(".git/onus-worktree").is_file());
    in_folder("repo", &agent("a"), &["touch", "a.rs"]);
    let lease = in_folder("side", &agent("a"), &["touch", "a.rs"])["lease"].clone();
    let rows = lease["reservations"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "one file in two worktrees: {lease}");
    assert_eq!(lease["scope"], serde_json::json!(["a.rs"]));
    let there = rows.iter().map(|row| row["worktree"].as_str().unwrap()).find(|id| *id != here).unwrap();
    let moved = in_folder("side", &agent("a"), &["renew", "--worktree"])["lease"].clone();
    assert_eq!((moved["worktree_id"].as_str(), moved["branch"].as_str()), (Some(there), Some("side")));
    assert!(moved["worktree"].as_str().unwrap().ends_with("/side"));
    // It is the same worktree wherever it is.
    git(&root, &["worktree", "move", "../side", "../aside"]);
    let moved = in_folder("aside", &agent("a"), &["renew", "--worktree"])["lease"].clone();
    assert_eq!(moved["worktree_id"], there);
    assert!(moved["worktree"].as_str().unwrap().ends_with("/aside"));
    let log = in_folder("aside", &human("ann"), &["log", "1"]);
    let kinds: Vec<_> = log["events"].as_array().unwrap().iter().map(|event| &event["kind"]).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "lease.attached").count(), 2, "{kinds:?}");
    in_folder("repo", &human("ann"), &["ledger", "verify"]);
}
