//! Configuration: every key changes what the program does, and each layer overrides the one below.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::contract::kit::{claim, fed, json_with, lapse, on_terminal, run_with};
use crate::support::{As, Ran, Sandbox, agent, human};

mod files;
pub(crate) mod landing;

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
    let tasks = sandbox.json(&human("ann"), &["list", "--all"]).ok().json();
    (said.stdout, tasks["tasks"].as_array().unwrap().len())
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

/// Whether a file that an agent's command made is reserved.
fn made_by_a_command(budget: &str) -> bool {
    let sandbox = Sandbox::empty();
    let git = |args: &[&str]| {
        let ran = std::process::Command::new("git").args(args).current_dir(sandbox.path()).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    };
    git(&["init", "-q"]);
    sandbox.run(&human("ann"), &["init", "--prefix", "ON"]).ok();
    user_file(&sandbox, &format!("[guard]\ntree_budget = \"{budget}\"\n"));
    let said = |event: &str| {
        let payload = serde_json::json!({
            "session_id": "c-1", "hook_event_name": event, "cwd": sandbox.path(), "tool_name": "Bash",
            "tool_input": { "command": "make" }, "tool_use_id": "u-1",
        });
        fed(&sandbox, &agent("a"), &["hook", "claude"], payload.to_string().as_bytes()).stdout
    };
    assert_eq!(said("PreToolUse"), "");
    std::fs::write(sandbox.path().join("made.rs"), "x").unwrap();
    said("PostToolUse").contains("made.rs changed: reserved for you now")
}

fn guard_tree_budget() {
    assert!(made_by_a_command("5s"));
    assert!(!made_by_a_command("0"));
}

fn rescue_max_file() {
    crate::contract::rescue::a_larger_file_is_left_and_listed();
}

fn rescue_max_total() {
    crate::contract::rescue::of_all_files_together_the_smallest_are_kept();
}

fn scope_mode() {
    let sandbox = Sandbox::new();
    assert_eq!(second_claim(&sandbox).refused(4)["code"], "scope");
    let sandbox = Sandbox::new();
    shared_file(&sandbox, "[scope]\nmode = \"warn\"\n");
    assert_eq!(second_claim(&sandbox).ok().json()["notices"].as_array().unwrap().len(), 1);
}

fn git(folder: &Path, args: &[&str]) {
    let done = Command::new("git").arg("-C").arg(folder).args(args).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// A repository with a worktree beside it: `repo` on branch main, `side` on branch side.
fn two_worktrees(sandbox: &Sandbox) -> PathBuf {
    let root = sandbox.path().join("repo");
    fs::create_dir(&root).unwrap();
    git(&root, &["init", "-q", "-b", "main"]);
    git(&root, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"]);
    git(&root, &["worktree", "add", "-q", "-b", "side", "../side"]);
    sandbox.json(&human("ann"), &["-C", "repo", "init"]).ok();
    root
}

fn scope_across_worktrees() {
    let settings = [(None, 0, 1), (Some("tell"), 0, 1), (Some("ignore"), 0, 0), (Some("refuse"), 4, 0)];
    for (setting, code, notices) in settings {
        let sandbox = Sandbox::new();
        let root = two_worktrees(&sandbox);
        if let Some(setting) = setting {
            fs::write(root.join("onus.toml"), format!("[scope]\nacross_worktrees = \"{setting}\"\n"))
                .unwrap();
        }
        for (who, id) in [("a", "1"), ("b", "2")] {
            sandbox.json(&human("ann"), &["-C", "repo", "add", who]).ok();
            sandbox.json(&agent(who), &["-C", "repo", "claim", id]).ok();
        }
        sandbox.json(&agent("a"), &["-C", "repo", "touch", "f.rs"]).ok();
        let second = sandbox.json(&agent("b"), &["-C", "repo", "touch", "../side/f.rs"]);
        assert_eq!(second.code, code, "{setting:?}: {second:?}");
        let told = second.json()["notices"].as_array().map_or(0, Vec::len);
        assert_eq!(told, notices, "{setting:?}: {second:?}");
    }
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

/// On a server's store, whether a death that is seen ends a lease before its deadline.
fn lease_unique_machines() {
    let sandbox = Sandbox::empty();
    let server = onus_store::conformance::server::Server::shared();
    let name = onus_store::conformance::server::fresh_name();
    for (unique, code) in [("false", 4), ("true", 0)] {
        let on = |who: &As, args: &[&str]| {
            let store = [("ONUS_STORE", server.shared_database()), ("ONUS_PROJECT", &name)];
            json_with(&sandbox, who, &[&store[..], &[("ONUS_LEASE_UNIQUE_MACHINES", unique)]].concat(), args)
        };
        on(&human("ann"), &["init"]).ok();
        let id = on(&human("ann"), &["add", "x"]).ok().json()["id"].as_str().unwrap().to_owned();
        let mut work = Command::new("sleep").arg("600").spawn().unwrap();
        on(&agent("a"), &["claim", &id, "--bind", &work.id().to_string()]).ok();
        work.kill().unwrap();
        work.wait().unwrap();
        assert_eq!(on(&agent("b"), &["claim", &id]).code, code, "{unique}");
    }
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

fn worktrees() {
    let (sandbox, beside) = (Sandbox::new(), Sandbox::empty());
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgSign=false"];
        let mut git = std::process::Command::new("git");
        assert!(
            git.current_dir(sandbox.path()).args(who).args(args).status().unwrap().success(),
            "git {args:?}"
        );
    };
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
