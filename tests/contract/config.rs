//! Configuration: every key changes what the program does, and each layer overrides the one below.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::contract::kit::{claim, fed, json_with, lapse, on_terminal, run_with};
use crate::support::{As, Ran, Sandbox, agent, git, human};

use leases::*;
use reserving::*;

mod files;
pub(crate) mod landing;
mod layers;
mod leases;
mod reserving;

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

fn known_tables() -> BTreeSet<String> {
    let shown = Sandbox::new().json(&human("ann"), &["config"]).ok().json();
    let tables = shown["tables"].as_array().unwrap();
    tables.iter().map(|table| table["table"].as_str().unwrap().to_owned()).collect()
}

/// A value as it is typed: a list of one is that one.
fn flat(value: &Value) -> Value {
    match value {
        Value::Array(items) if items.len() == 1 => items[0].clone(),
        other => other.clone(),
    }
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
    ("lease.unique_machines", lease_unique_machines),
    ("sessions.idle", sessions_idle),
    ("sessions.people", sessions_people),
    ("timesheet.billable", timesheet_prices),
    ("timesheet.rates", timesheet_prices),
    ("retry.max_attempts", retry_max_attempts),
    ("run.keep_output", run_keep_output),
    ("lease.indefinite_per_actor", lease_indefinite_per_actor),
    ("lease.indefinite_per_store", lease_indefinite_per_store),
    ("scope.mode", scope_mode),
    ("scope.across_worktrees", scope_across_worktrees),
    ("scope.shared", scope_shared),
    ("guard.unclaimed", guard_unclaimed),
    ("guard.people", crate::guard::commits::people_are_warned_never_refused_unless_configured),
    ("guard.token_trailer", crate::guard::commits::the_token_is_in_the_message_where_that_is_configured),
    ("guard.tree_budget", guard_tree_budget),
    ("worktree.root", worktrees),
    ("worktree.target", worktrees),
    ("worktree.fetch", worktrees),
    ("worktree.setup", set_up),
    ("worktree.setup_env", set_up),
    ("worktree.setup_timeout", set_up),
    ("land.style", landing::style),
    ("land.union", landing::union),
    ("land.remote", landing::remote),
    ("land.pr", landing::pull_requests),
    ("deps.met", landing::deps_met),
    ("rescue.max_file", rescue_max_file),
    ("rescue.max_total", rescue_max_total),
    ("refs.unique", refs_unique),
    ("force.needs_link", force_needs_link),
    ("seal.signers", seal_signers),
    ("ui.color", ui_color),
    ("area.NAME", areas),
    ("intake.NAME", intake),
    ("[gate]", gates),
];

#[test]
fn every_key_changes_what_the_program_does() {
    let cased: BTreeSet<String> = CASES.iter().map(|(key, _)| (*key).to_owned()).collect();
    let known: BTreeSet<String> = known_keys().union(&known_tables()).cloned().collect();
    assert_eq!(cased, known, "a key that nothing reads is a lie: give it a case");
    for (_, case) in CASES {
        case();
    }
}

/// An area stands for its globs wherever one is taken, and is what a task's area may be.
fn areas() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("one");
    assert_eq!(
        sandbox.json(&agent("a"), &["claim", &id, "--scope", "area:auth"]).refused(2)["code"],
        "usage"
    );
    shared_file(&sandbox, "[area.auth]\npaths = [\"src/auth/**\", \"login.rs\"]\n");
    let claimed = sandbox.json(&agent("a"), &["claim", &id, "--scope", "area:auth"]).ok().json();
    assert_eq!(claimed["lease"]["scope"], serde_json::json!(["login.rs", "src/auth/**"]));
    sandbox.json(&human("ann"), &["add", "x", "--area", "web"]).refused(2);
    sandbox.json(&human("ann"), &["add", "x", "--area", "auth"]).ok();
}

/// A channel's table says how its JSON is read, and whether its asks need nobody to accept them.
fn intake() {
    let sandbox = Sandbox::new();
    let deliver =
        || fed(&sandbox, &agent("a"), &["intake", "desk", "--json"], br#"{"n": {"id": 7}, "what": "x"}"#);
    deliver().refused(2);
    shared_file(&sandbox, "[intake.desk]\nreference = \"n.id\"\ntitle = \"what\"\n");
    let asked = deliver().ok().json();
    assert_eq!((&asked["origin"], &asked["state"]), (&"desk:7".into(), &"proposed".into()));
    shared_file(&sandbox, "[intake.desk]\nreference = \"what\"\ntitle = \"what\"\ntrust = true\n");
    let asked = deliver().ok().json();
    assert_eq!((&asked["origin"], &asked["state"]), (&"desk:x".into(), &"open".into()));
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

fn sessions_idle() {
    for (idle, is_work) in [("30m", true), ("1ms", false)] {
        let sandbox = Sandbox::new();
        shared_file(&sandbox, &format!("[sessions]\nidle = \"{idle}\"\n"));
        let id = sandbox.add("x");
        claim(&sandbox, &agent("a"), &id);
        lapse();
        let released = sandbox.json(&agent("a"), &["release", &id]).ok().json();
        assert_eq!(released["effort_ms"].as_i64().unwrap() > 0, is_work, "{idle}: {released}");
    }
}

fn sessions_people() {
    for (people, is_kept) in [("on", true), ("off", false)] {
        let sandbox = Sandbox::new();
        shared_file(&sandbox, &format!("[sessions]\npeople = \"{people}\"\n"));
        let id = sandbox.add("x");
        claim(&sandbox, &human("ann"), &id);
        lapse();
        let released = sandbox.json(&human("ann"), &["release", &id]).ok().json();
        assert_eq!(released["effort_ms"].as_i64().unwrap() > 0, is_kept, "{people}: {released}");
    }
}

/// What is billable, and at which rate.
fn timesheet_prices() {
    let sandbox = Sandbox::new();
    let id = sandbox.json(&human("ann"), &["add", "x", "--tag", "client"]).ok().json()["id"].clone();
    claim(&sandbox, &human("ann"), id.as_str().unwrap());
    lapse();
    sandbox.run(&human("ann"), &["release", id.as_str().unwrap()]).ok();
    let row = || sandbox.json(&human("ann"), &["timesheet", "--since", "1d"]).ok().json()["rows"][0].clone();
    assert!(row().get("billable_seconds").is_none());
    for (billable, is_paid) in [("other", false), ("client", true), (id.as_str().unwrap(), true)] {
        shared_file(&sandbox, &format!("[timesheet]\nbillable = [\"{billable}\"]\n"));
        assert_eq!(row()["billable_seconds"].as_f64().unwrap() > 0.0, is_paid, "{billable}");
        assert!(row().get("amount").is_none());
    }
    user_file(&sandbox, "[timesheet]\nrates = [\"human:ann=999999999\"]\n");
    assert!(row()["amount"].as_f64().unwrap() > 0.0);
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

fn run_keep_output() {
    let sandbox = Sandbox::new();
    let fails = || {
        let id = sandbox.add("x");
        sandbox.run(&agent("a"), &["run", &id, "--", "sh", "-c", "echo a secret; exit 3"]);
        assert_eq!(sandbox.show(&id)["state"], "failed");
        sandbox.show(&id)["notes"][0]["text"].as_str().unwrap().to_owned()
    };
    assert!(fails().contains("a secret"));
    user_file(&sandbox, "[run]\nkeep_output = false\n");
    let note = fails();
    assert!(note.starts_with("sh failed with exit code 3") && !note.contains("secret"), "{note}");
}

fn worktrees() {
    let (sandbox, beside) = (Sandbox::new(), Sandbox::empty());
    let git = |args: &[&str]| drop(crate::support::git(sandbox.path(), args));
    git(&["init", "--quiet", "-b", "main"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "first"]);
    git(&["branch", "next"]);
    sandbox.run(&human("ann"), &["init", "--prefix", "ON"]).ok();
    let root = beside.path().canonicalize().unwrap();
    user_file(&sandbox, &format!("[worktree]\nroot = \"{}\"\nfetch = true\n", root.display()));
    shared_file(&sandbox, "[worktree]\ntarget = \"next\"\n");
    let claimed = sandbox.json(&agent("a"), &["claim", &sandbox.add("x"), "--worktree"]).ok().json();
    let path = claimed["worktree"]["path"].as_str().unwrap();
    assert!(path.starts_with(root.to_str().unwrap()) && std::path::Path::new(path).is_dir(), "{claimed:#}");
    assert_eq!(claimed["task"]["target"], "next");
    assert!(claimed["notices"].to_string().contains("nothing was fetched"), "{claimed:#}");
}

/// A gate is asked for, and what is wrong with one is said with its place.
fn gates() {
    let sandbox = Sandbox::new();
    let (ann, id) = (human("ann"), sandbox.add("one"));
    shared_file(&sandbox, "[[gate]]\nkey = \"ok\"\nkind = \"manual\"\nstage = \"before\"\n");
    assert_eq!(sandbox.json(&agent("a"), &["claim", &id]).refused(6)["code"], "gate");
    sandbox.json(&ann, &["gate", "pass", &id, "ok"]).ok();
    sandbox.json(&agent("a"), &["claim", &id]).ok();
    let gate = |rest: &str| format!("[[gate]]\nkey = \"tests\"\n{rest}\n");
    for (text, place, why) in [
        ("[gate]\nkey = \"x\"\n".to_owned(), "1:1", "each gate is a table of a list: write [[gate]]"),
        ("[[gate]]\nrun = [\"x\"]\n".to_owned(), "1:1", "a gate needs a key"),
        ("[[gate]]\nkey = \"X\"\n".to_owned(), "2:7", "a gate's key has 1 to 64 lower-case letters"),
        ("[[gate]]\nkey = \"setup\"\n".to_owned(), "2:7", "another command has this name"),
        (gate(""), "1:1", "a gate that is run needs a command"),
        (gate("run = \"make test\""), "3:7", "run must be a list of words"),
        (gate("run = []"), "3:7", "its command is empty"),
        (gate("shell = \" \""), "3:9", "its command is empty"),
        (gate("run = [\"x\"]\nshell = \"x\""), "4:9", "a gate has run or shell, not both"),
        (gate("run = [\"x\"]\ntimeout = \"0s\""), "4:11", "timeout must be a duration from 1s to 24h"),
        (gate("run = [\"x\"]\nstagee = \"done\""), "4:1", "unknown key in [[gate]]; the nearest is stage"),
        (gate("run = [\"x\"]\nstage = \"later\""), "4:9", "stage must be"),
        (gate("run = [\"x\"]\ntests = [\"x\"]"), "4:9", "only a gate of kind \"red-green\" has tests"),
        (gate("run = [\"x\"]\nkind = \"red-green\""), "1:1", "says which files are tests"),
        (gate("run = [\"x\"]\nkind = \"manual\""), "3:7", "nothing is run for a gate of this kind"),
        (gate("kind = \"review\"\nstage = \"before\""), "4:9", "needs work to judge"),
        (gate("run = [\"x\"]\npaths = [\"/x\"]"), "4:10", "it must be a glob"),
        (gate("run = [\"x\"]\ntypes = [\"saga\"]"), "4:10", "types must be a list of"),
        (format!("{0}{0}", gate("run = [\"x\"]")), "5:7", "two gates have this key"),
    ] {
        shared_file(&sandbox, &text);
        let message = sandbox.json(&ann, &["gate", "list"]).refused(2)["message"].to_string();
        assert!(
            message.contains(&format!("onus.toml:{place}: ")) && message.contains(&why.replace('"', "\\\"")),
            "{text}: {message}"
        );
    }
}

fn set_up() {
    let sandbox = Sandbox::new();
    let text = "[worktree]\nsetup = [\"make\", \"all deps\"]\nsetup_env = [\"CARGO_HOME\"]\nsetup_timeout = \"90s\"\n";
    shared_file(&sandbox, text);
    let listed = sandbox.json(&human("ann"), &["trust", "list"]).ok().json();
    let command = &listed["commands"][0];
    assert_eq!(command["argv"], serde_json::json!(["make", "all deps"]));
    assert_eq!(command["env"], serde_json::json!(["CARGO_HOME"]));
    assert_eq!(command["timeout_ms"], 90_000);
}

fn refs_unique() {
    let sandbox = Sandbox::new();
    let add = |reference: &str| sandbox.json(&human("ann"), &["add", "x", "--ref", reference]);
    add("jira:WEB-7").ok();
    add("jira:WEB-7").ok();
    assert_eq!(sandbox.json(&human("ann"), &["show", "jira:WEB-7"]).refused(2)["code"], "ambiguous");
    shared_file(&sandbox, "[refs]\nunique = [\"Jira\"]\n");
    let error = add("jira:WEB-7").refused(6);
    assert_eq!((&error["code"], &error["task"]), (&"not_allowed".into(), &"ON-1".into()), "{error}");
    add("gh:7").ok();
    add("gh:7").ok();
    let error = sandbox.json(&human("ann"), &["edit", "ON-3", "--ref", "jira:WEB-7"]).refused(6);
    assert_eq!(error["code"], "not_allowed");
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
