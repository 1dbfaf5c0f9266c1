//! Which file counts: each layer overrides the one below, and a repository is stricter than its user, never looser.

use super::*;

#[test]
fn each_layer_overrides_the_one_below_and_says_where_a_value_comes_from() {
    let sandbox = Sandbox::new();
    let ttl = |env: &[(&str, &str)]| {
        let got = json_with(&sandbox, &human("ann"), env, &["config", "get", "lease.ttl"]).ok().json();
        (got["value"].as_str().unwrap().to_owned(), got["source"].as_str().unwrap().to_owned())
    };
    assert_eq!(ttl(&[]), ("60m".into(), "default".into()));
    user_file(&sandbox, "[lease]\nttl = \"25m\"\n");
    assert!(ttl(&[]).0 == "25m" && ttl(&[]).1.ends_with("config.toml"));
    shared_file(&sandbox, "[lease]\nttl = \"20m\"\n");
    assert!(ttl(&[]).0 == "20m" && ttl(&[]).1.ends_with("onus.toml"));
    assert_eq!(ttl(&[("ONUS_LEASE_TTL", "30m")]), ("30m".into(), "environment ONUS_LEASE_TTL".into()));
    // And a flag is above them all.
    let id = sandbox.add("x");
    let claimed =
        json_with(&sandbox, &agent("a"), &[("ONUS_LEASE_TTL", "30m")], &["claim", &id, "--ttl", "40m"]);
    assert_eq!(claimed.ok().json()["lease"]["ttl_s"], 2400);
    // The user's file moves with XDG_CONFIG_HOME.
    fs::remove_file(sandbox.path().join("onus.toml")).unwrap();
    let moved = sandbox.path().join("xdg");
    fs::create_dir_all(moved.join("onus")).unwrap();
    fs::write(moved.join("onus/config.toml"), "[lease]\nttl = \"50m\"\n").unwrap();
    assert_eq!(ttl(&[("XDG_CONFIG_HOME", &moved.to_string_lossy())]).0, "50m");
}

/// Each key that a repository may set, two values of it, the stricter one first, and what counts of the two.
const STRICTER: &[(&str, &str, &str)] = &[
    ("lease.ttl", "\"10m\"", "\"20m\""),
    ("lease.max_hold", "\"2h\"", "\"3h\""),
    ("lease.max_hold", "\"2h\"", "0"),
    ("lease.stale_after", "\"1h\"", "\"90m\""),
    ("lease.stalled_after", "\"1h\"", "\"90m\""),
    ("lease.unique_machines", "false", "true"),
    ("lease.indefinite_per_actor", "0", "9"),
    ("lease.indefinite_per_store", "2", "10"),
    ("retry.max_attempts", "2", "10"),
    ("scope.mode", "\"strict\"", "\"warn\""),
    ("scope.mode", "\"warn\"", "\"off\""),
    ("scope.shared", "[\"*.lock\"]", "[\"**\"]"),
    ("scope.across_worktrees", "\"refuse\"", "\"tell\""),
    ("scope.across_worktrees", "\"tell\"", "\"ignore\""),
    ("guard.unclaimed", "\"refuse\"", "\"adopt\""),
    ("guard.unclaimed", "\"adopt\"", "\"warn\""),
    ("guard.people", "\"refuse\"", "\"warn\""),
    ("guard.people", "\"warn\"", "\"off\""),
    ("guard.token_trailer", "true", "false"),
    ("force.needs_link", "true", "false"),
    ("sessions.people", "\"off\"", "\"on\""),
];

/// Nothing about these is strict: all who work in a repository have to agree.
const REPOSITORYS: &[&str] = &[
    "project.name",
    "lease.keep",
    "refs.unique",
    "sessions.idle",
    "timesheet.billable",
    "worktree.target",
    "worktree.setup",
    "worktree.setup_env",
    "worktree.setup_timeout",
    "land.style",
    "land.union",
    "land.remote",
    "land.pr",
    "deps.met",
];

#[test]
fn a_repository_is_stricter_than_its_user_and_never_looser() {
    let users = [
        "identity.actor",
        "store.path",
        "store.wait",
        "seal.signers",
        "run.keep_output",
        "timesheet.rates",
        "guard.tree_budget",
        "worktree.root",
        "worktree.fetch",
        "rescue.max_file",
        "rescue.max_total",
        "ui.color",
    ];
    let ruled = STRICTER.iter().map(|(key, ..)| *key).chain(REPOSITORYS.iter().copied()).chain(users);
    assert_eq!(ruled.map(str::to_owned).collect::<BTreeSet<_>>(), known_keys(), "a key without a rule");
    let sandbox = Sandbox::new();
    let line = |key: &str, value: &str| {
        let (section, name) = key.split_once('.').unwrap();
        format!("[{section}]\n{name} = {value}\n")
    };
    let shown = |key: &str, env: &[(&str, &str)]| {
        let all = json_with(&sandbox, &human("ann"), env, &["config"]).ok().json();
        all["config"].as_array().unwrap().iter().find(|shown| shown["key"] == key).unwrap().clone()
    };
    let bare = |value: &str| value.trim_matches(['[', ']', '"']).to_owned();
    for (key, strict, loose) in STRICTER {
        for (own, repository, who) in [(strict, loose, "config.toml"), (loose, strict, "onus.toml")] {
            user_file(&sandbox, &line(key, own));
            shared_file(&sandbox, &line(key, repository));
            let counts = shown(key, &[]);
            assert_eq!(flat(&counts["value"]), bare(strict).as_str(), "{key}: {own} {repository}");
            assert!(counts["source"].as_str().unwrap().ends_with(who), "{counts}");
            assert_eq!(flat(&counts["looser"][0]["value"]), bare(loose).as_str(), "{counts}");
            let prose = sandbox.run(&human("ann"), &["config"]).ok().stdout.clone();
            assert!(prose.contains(&format!("{} in ", bare(loose))) && prose.contains("looser"), "{prose}");
            // The environment is the user's last word.
            let above = shown(key, &[(counts["env"].as_str().unwrap(), &bare(loose))]);
            assert_eq!(
                (flat(&above["value"]), &above["looser"]),
                (bare(loose).into(), &Value::Null),
                "{above}"
            );
        }
        // What the user did not set is the repository's to say, whatever the default is.
        user_file(&sandbox, "");
        shared_file(&sandbox, &line(key, loose));
        assert_eq!(flat(&shown(key, &[])["value"]), bare(loose).as_str());
    }
    user_file(&sandbox, &line("lease.keep", "\"5m\""));
    shared_file(&sandbox, &line("lease.keep", "\"9m\""));
    let kept = shown("lease.keep", &[]);
    assert_eq!((&kept["value"], &kept["looser"]), (&"9m".into(), &Value::Null));
    // Of two lists neither of which is within the other, what both cover.
    user_file(&sandbox, &line("scope.shared", "[\"*.lock\", \"docs/**\"]"));
    shared_file(&sandbox, &line("scope.shared", "[\"Cargo.lock\", \"src/**\"]"));
    let both = shown("scope.shared", &[]);
    assert_eq!(both["value"], serde_json::json!(["Cargo.lock"]));
    assert_eq!(both["looser"].as_array().unwrap().len(), 2, "{both}");
}

/// It is not only shown: a clone that declares everything shared, and looks at nothing, does not open what is reserved.
#[test]
fn a_clone_cannot_open_what_its_user_keeps_shut() {
    let sandbox = Sandbox::new();
    user_file(&sandbox, "[scope]\nmode = \"strict\"\nshared = []\n[guard]\nunclaimed = \"refuse\"\n");
    shared_file(&sandbox, "[scope]\nmode = \"off\"\nshared = [\"**\"]\n[guard]\nunclaimed = \"warn\"\n");
    assert_eq!(second_claim(&sandbox).refused(4)["code"], "scope");
}
