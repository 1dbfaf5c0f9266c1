//! Configuration: every key changes what the program does, and each layer overrides the one below.

use std::collections::BTreeSet;
use std::fs;

use crate::kit::{claim, fed, json_with, lapse, on_terminal, run_with};
use crate::support::{Ran, Sandbox, agent, human};

fn user_file(sandbox: &Sandbox, text: &str) {
    let folder = sandbox.path().join("home/.config/onus");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), text).unwrap();
}

fn shared_file(sandbox: &Sandbox, text: &str) {
    fs::write(sandbox.path().join("onus.toml"), text).unwrap();
}

fn known_keys() -> BTreeSet<String> {
    let shown = Sandbox::new().json(&human("ann"), &["config"]).ok().json();
    let keys = shown["config"].as_array().unwrap();
    keys.iter().map(|key| key["key"].as_str().unwrap().to_owned()).collect()
}

/// Each key with a test that fails if nothing reads it.
const CASES: &[(&str, fn())] = &[
    ("identity.actor", identity_actor),
    ("store.path", store_path),
    ("store.wait", store_wait),
    ("project.name", project_name),
    ("lease.ttl", lease_ttl),
    ("lease.max_hold", lease_max_hold),
    ("lease.stale_after", lease_stale_after),
    ("lease.keep", lease_keep),
    ("lease.stalled_after", lease_stalled_after),
    ("retry.max_attempts", retry_max_attempts),
    ("lease.indefinite_per_actor", lease_indefinite_per_actor),
    ("lease.indefinite_per_store", lease_indefinite_per_store),
    ("scope.mode", scope_mode),
    ("scope.shared", scope_shared),
    ("guard.unclaimed", guard_unclaimed),
    ("force.needs_link", force_needs_link),
    ("seal.signers", seal_signers),
    ("ui.color", ui_color),
];

#[test]
fn every_key_changes_what_the_program_does() {
    let cased: BTreeSet<String> = CASES.iter().map(|(key, _)| (*key).to_owned()).collect();
    assert_eq!(cased, known_keys(), "a key that nothing reads is a lie: give it a case");
    for (_, case) in CASES {
        case();
    }
}

fn identity_actor() {
    let sandbox = Sandbox::new();
    let nobody = || Ran::of(sandbox.anonymous().args(["add", "x", "--json"]).output().unwrap());
    nobody().refused(2);
    user_file(&sandbox, "[identity]\nactor = \"human:zoe\"\n");
    assert_eq!(nobody().ok().json()["created_by"], "human:zoe");
}

fn store_path() {
    let sandbox = Sandbox::new();
    sandbox.add("Here");
    let elsewhere = sandbox.path().join("elsewhere/other.db");
    user_file(&sandbox, &format!("[store]\npath = \"{}\"\n", elsewhere.display()));
    assert_eq!(sandbox.json(&human("ann"), &["list"]).refused(8)["code"], "no_store");
    sandbox.run(&human("ann"), &["init", "--prefix", "EL"]).ok();
    assert!(elsewhere.exists());
    assert_eq!(sandbox.add("There"), "EL-1");
}

fn project_name() {
    let sandbox = Sandbox::empty();
    let server = onus_store::conformance::server::Server::shared();
    let on = |name: &str, args: &[&str]| {
        let variables = [("ONUS_STORE", server.shared_database()), ("ONUS_PROJECT", name)];
        json_with(&sandbox, &human("ann"), &variables, args)
    };
    let (one, two) =
        (onus_store::conformance::server::fresh_name(), onus_store::conformance::server::fresh_name());
    on(&one, &["init", "--prefix", "ONE"]).ok();
    on(&two, &["init", "--prefix", "TWO"]).ok();
    assert_eq!(on(&one, &["add", "x"]).ok().json()["id"], "ONE-1");
    assert_eq!(on(&two, &["add", "x"]).ok().json()["id"], "TWO-1");
}

fn store_wait() {
    let sandbox = Sandbox::new();
    let seat = fs::File::options().write(true).open(sandbox.path().join(".onus/writer.lock")).unwrap();
    seat.lock().unwrap();
    user_file(&sandbox, "[store]\nwait = \"1ms\"\n");
    assert_eq!(sandbox.json(&human("ann"), &["add", "x"]).refused(8)["code"], "busy");
    // A long wait outlasts the one who sits there.
    user_file(&sandbox, "[store]\nwait = \"1h\"\n");
    let mut waiting = sandbox
        .command(&human("ann"))
        .args(["add", "x"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(waiting.try_wait().unwrap().is_none(), "it waits");
    drop(seat);
    assert!(waiting.wait().unwrap().success());
}

fn lease_ttl() {
    let sandbox = Sandbox::new();
    shared_file(&sandbox, "[lease]\nttl = \"7m\"\n");
    let claimed = sandbox.json(&agent("a"), &["claim", &sandbox.add("x")]).ok().json();
    assert_eq!(claimed["lease"]["ttl_s"], 420);
    assert!((400..=420).contains(&claimed["lease"]["expires_in_s"].as_i64().unwrap()));
}

fn lease_max_hold() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("x");
    shared_file(&sandbox, "[lease]\nmax_hold = \"1ms\"\n");
    claim(&sandbox, &agent("a"), &id);
    lapse();
    assert_eq!(sandbox.show(&id)["lease"]["lapsed_by"], "max_hold");
    shared_file(&sandbox, "[lease]\nmax_hold = \"0\"\n");
    let free = sandbox.json(&agent("b"), &["claim", &id]).ok().json();
    assert!(free["lease"]["max_hold_s"].is_null());
}

fn lease_stale_after() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("x");
    claim(&sandbox, &human("ann"), &id);
    assert_eq!(sandbox.show(&id)["lease"]["stale"], false);
    shared_file(&sandbox, "[lease]\nstale_after = \"1ms\"\n");
    lapse();
    assert_eq!(sandbox.show(&id)["lease"]["stale"], true);
    let status = sandbox.json(&agent("b"), &["status"]).ok().json();
    assert_eq!(status["stale"][0]["id"], id.as_str());
    // Stale is not lapsed: nobody takes it.
    sandbox.json(&agent("b"), &["claim", &id]).refused(4);
}

/// Two tasks, the first held with a path; whether the second may have the path, too.
fn second_claim(sandbox: &Sandbox) -> Ran {
    let (one, two) = (sandbox.add("one"), sandbox.add("two"));
    sandbox.json(&agent("a"), &["claim", &one, "--scope", "Cargo.lock"]).ok();
    sandbox.json(&agent("b"), &["claim", &two, "--scope", "Cargo.lock"])
}

/// What a hook says to an agent's edit, and how many tasks there are then.
fn unclaimed_edit(setting: Option<&str>) -> (String, usize) {
    let sandbox = Sandbox::new();
    if let Some(setting) = setting {
        shared_file(&sandbox, &format!("[guard]\nunclaimed = \"{setting}\"\n"));
    }
    let payload = serde_json::json!({
        "session_id": "c-1", "hook_event_name": "PreToolUse", "cwd": sandbox.path(),
        "tool_name": "Write", "tool_input": { "file_path": sandbox.path().join("x.rs") },
    });
    let said = fed(&sandbox, &agent("a"), &["hook", "claude"], payload.to_string().as_bytes());
    assert_eq!(said.code, 0, "{said:?}");
    let tasks = sandbox.json(&human("ann"), &["list"]).ok().json()["tasks"].as_array().unwrap().len();
    (said.stdout, tasks)
}

fn guard_unclaimed() {
    for setting in [None, Some("adopt")] {
        let (said, tasks) = unclaimed_edit(setting);
        assert!(said.contains("opened ON-1") && !said.contains("deny"), "{said}");
        assert_eq!(tasks, 1);
    }
    let (said, tasks) = unclaimed_edit(Some("warn"));
    assert!(said.contains("without a task") && !said.contains("deny") && tasks == 0, "{said}");
    let (said, tasks) = unclaimed_edit(Some("refuse"));
    assert!(said.contains("deny") && said.contains("onus claim --next") && tasks == 0, "{said}");
}

fn scope_mode() {
    let sandbox = Sandbox::new();
    assert_eq!(second_claim(&sandbox).refused(4)["code"], "scope");
    let sandbox = Sandbox::new();
    shared_file(&sandbox, "[scope]\nmode = \"warn\"\n");
    assert_eq!(second_claim(&sandbox).ok().json()["notices"].as_array().unwrap().len(), 1);
}

fn scope_shared() {
    let sandbox = Sandbox::new();
    shared_file(&sandbox, "[scope]\nshared = [\"docs/**\", \"*.lock\"]\n");
    second_claim(&sandbox).ok();
}

fn lease_keep() {
    let sandbox = Sandbox::new();
    shared_file(&sandbox, "[lease]\nkeep = \"3m\"\n");
    let id = sandbox.add("x");
    let handed = sandbox.json(&agent("a"), &["handoff", &id, "--to", "agent:b", "--reason", "r"]).ok().json();
    assert!((170..=180).contains(&handed["task"]["kept_for"]["expires_in_s"].as_i64().unwrap()));
}

fn lease_stalled_after() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("x");
    claim(&sandbox, &agent("a"), &id);
    lapse();
    assert_eq!(sandbox.show(&id)["lease"]["stalled"], false);
    shared_file(&sandbox, "[lease]\nstalled_after = \"1ms\"\n");
    assert_eq!(sandbox.show(&id)["lease"]["stalled"], true);
    // Stalled is not lapsed: it shows signs of life.
    sandbox.json(&agent("b"), &["claim", &id]).refused(4);
}

fn retry_max_attempts() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("x");
    shared_file(&sandbox, "[retry]\nmax_attempts = 1\n");
    sandbox.run(&agent("a"), &["fail", &id]).ok();
    sandbox.run(&agent("a"), &["retry", &id]).ok();
    sandbox.run(&agent("a"), &["fail", &id]).ok();
    assert_eq!(sandbox.json(&agent("a"), &["retry", &id]).refused(6)["code"], "limit");
    shared_file(&sandbox, "[retry]\nmax_attempts = 2\n");
    assert_eq!(sandbox.json(&agent("a"), &["retry", &id]).ok().json()["attempts"], 2);
}

fn endless(sandbox: &Sandbox, who: &str) -> Ran {
    sandbox.json(&agent(who), &["claim", &sandbox.add("x"), "--ttl", "0", "--reason", "r"])
}

fn lease_indefinite_per_actor() {
    let sandbox = Sandbox::new();
    endless(&sandbox, "a").ok();
    assert_eq!(endless(&sandbox, "a").refused(6)["code"], "limit");
    shared_file(&sandbox, "[lease]\nindefinite_per_actor = 2\n");
    endless(&sandbox, "a").ok();
    endless(&sandbox, "a").refused(6);
}

fn lease_indefinite_per_store() {
    let sandbox = Sandbox::new();
    shared_file(&sandbox, "[lease]\nindefinite_per_store = 1\n");
    endless(&sandbox, "a").ok();
    assert_eq!(endless(&sandbox, "b").refused(6)["code"], "limit");
    shared_file(&sandbox, "[lease]\nindefinite_per_store = 2\n");
    endless(&sandbox, "b").ok();
}

fn force_needs_link() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("x");
    claim(&sandbox, &agent("a"), &id);
    shared_file(&sandbox, "[force]\nneeds_link = true\n");
    let args = ["takeover", id.as_str(), "--force", "--reason", "r"];
    assert_eq!(sandbox.json(&human("ann"), &args).refused(6)["code"], "not_allowed");
    let mut linked = args.to_vec();
    linked.extend(["--link", "https://example.org/decisions/7"]);
    sandbox.run(&human("ann"), &linked).ok();
    let log = sandbox.json(&human("ann"), &["log", &id]).ok().json();
    assert!(log["events"].to_string().contains("https://example.org/decisions/7"));
}

fn seal_signers() {
    let sandbox = Sandbox::new();
    sandbox.run(&human("ann"), &["ledger", "seal", "--out", "seal.jsonl"]).ok();
    let verify = ["ledger", "verify", "--seal", "seal.jsonl"];
    sandbox.run(&human("ann"), &verify).ok();
    let signers = sandbox.path().join("signers");
    fs::write(&signers, "").unwrap();
    user_file(&sandbox, &format!("[seal]\nsigners = \"{}\"\n", signers.display()));
    assert_eq!(
        sandbox.json(&human("ann"), &verify).refused(8)["code"],
        "tampered",
        "unsigned seals no longer do"
    );
}

fn ui_color() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("x");
    let shown =
        |env: &[(&str, &str)]| run_with(&sandbox, &human("ann"), env, &["show", &id]).ok().stdout.clone();
    assert!(!shown(&[]).contains('\u{1b}'), "not where nobody looks");
    user_file(&sandbox, "[ui]\ncolor = \"always\"\n");
    assert!(shown(&[]).contains('\u{1b}'));
    user_file(&sandbox, "[ui]\ncolor = \"never\"\n");
    if let Some(seen) = on_terminal(&sandbox, &[("ONUS_ACTOR", "human:ann")], &["show", &id]) {
        assert!(!seen.contains('\u{1b}'), "{seen:?}");
    }
}

#[test]
fn each_layer_overrides_the_one_below_and_says_where_a_value_comes_from() {
    let sandbox = Sandbox::new();
    let ttl = |env: &[(&str, &str)]| {
        let got = json_with(&sandbox, &human("ann"), env, &["config", "get", "lease.ttl"]).ok().json();
        (got["value"].as_str().unwrap().to_owned(), got["source"].as_str().unwrap().to_owned())
    };
    assert_eq!(ttl(&[]), ("60m".into(), "default".into()));
    user_file(&sandbox, "[lease]\nttl = \"10m\"\n");
    assert!(ttl(&[]).0 == "10m" && ttl(&[]).1.ends_with("config.toml"));
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
            "force.needs_link" => "true",
            "ui.color" => "never",
            "scope.mode" => "warn",
            "guard.unclaimed" => "refuse",
            "scope.shared" => "*.lock",
            name if name.contains("indefinite") || name.contains("attempts") => "3",
            _ => "11m",
        };
        let got =
            json_with(&sandbox, &human("ann"), &[(variable, value)], &["config", "get", name]).ok().json();
        assert_eq!(
            (&got["value"], &got["source"]),
            (&value.into(), &format!("environment {variable}").into()),
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
