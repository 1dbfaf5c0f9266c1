//! `--json` is a contract: one document on stdout, of a documented shape, for every command, also when it fails.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::contract::answers::{COMMANDS, definitions};
use crate::contract::kit::{Sleeper, claim, commands, documented, json_with, lapsed_claim, tamper};
use crate::contract::refusal_cases;
use crate::contract::rescue::left_behind;
use crate::support::{Ran, Sandbox, agent, human};

/// The published document: every answer's shape, and which command gives which.
fn schema() -> Value {
    let by_command: Map<String, Value> = COMMANDS
        .iter()
        .map(|(answer, command)| ((*command).to_owned(), json!({ "$ref": format!("#/$defs/{answer}") })))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "onus --json",
        "description": "What each command answers with --json, by command under `commands`; every failure is `$defs/Failure`. Fields are added, never renamed or removed.",
        "commands": by_command,
        "$defs": definitions(),
    })
}

#[test]
fn the_schema_in_the_manual_is_the_programs() {
    let mut text = serde_json::to_string_pretty(&schema()).unwrap();
    text.push('\n');
    documented("schema/onus.schema.json", &text);
}

/// Fields may be added, but not in secret: here every field that is not documented is an error.
fn closed(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") && !object.contains_key("additionalProperties") {
                object.insert("additionalProperties".into(), json!(false));
            }
            object.values_mut().for_each(closed);
        }
        Value::Array(list) => list.iter_mut().for_each(closed),
        _ => {}
    }
}

#[track_caller]
pub(super) fn is_a(answer: &str, value: &Value) {
    let mut schema = schema();
    closed(&mut schema);
    schema["$ref"] = json!(format!("#/$defs/{answer}"));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "not a {answer}: {wrong:#?}\n{value:#}");
    times_are_utc(value);
}

/// Every moment is RFC 3339 in UTC with milliseconds.
#[track_caller]
fn times_are_utc(value: &Value) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                if let (true, Some(text)) = (name == "at" || name.ends_with("_at"), value.as_str()) {
                    let parsed = onus_core::time::parse_rfc3339(text).map(onus_core::time::rfc3339);
                    assert_eq!(parsed.as_deref(), Some(text), "{name}");
                }
                times_are_utc(value);
            }
        }
        Value::Array(list) => list.iter().for_each(times_are_utc),
        _ => {}
    }
}

/// Runs commands and holds their answers against the schema; remembers which were run.
struct Tried<'a> {
    sandbox: &'a Sandbox,
    seen: RefCell<BTreeSet<&'static str>>,
}

impl Tried<'_> {
    #[track_caller]
    fn run(&self, command: &'static str, rest: &[&str]) -> Value {
        self.by(&human("ann"), command, rest)
    }

    #[track_caller]
    fn by(&self, who: &crate::support::As, command: &'static str, rest: &[&str]) -> Value {
        let mut args: Vec<&str> = command.split(' ').collect();
        args.extend(rest);
        let value = self.sandbox.json(who, &args).ok().json();
        let answer = COMMANDS.iter().find(|(_, known)| *known == command);
        let (answer, _) = answer.unwrap_or_else(|| panic!("{command} has no documented answer"));
        is_a(answer, &value);
        self.seen.borrow_mut().insert(command);
        value
    }
}

/// Commands whose answer is a protocol of somebody else's.
const PROTOCOLS: &[&str] = &["hook", "mcp"];

#[test]
fn every_command_answers_in_its_documented_shape() {
    let sandbox = Sandbox::empty();
    let tried = Tried { sandbox: &sandbox, seen: RefCell::default() };
    let (a, b) = (agent("a"), agent("b"));
    assert_eq!(tried.run("init", &["--prefix", "ON"])["created"], true);
    assert_eq!(tried.run("init", &[])["created"], false);

    // Once with every field that can be set, once with none.
    assert_eq!(tried.run("add", &["Plain", "--dry-run"])["dry_run"], true);
    tried.run("add", &["Plain"]);
    let full = tried.run(
        "add",
        &[
            "Full",
            "-d",
            "Body",
            "-t",
            "bug",
            "-p",
            "P0",
            "--tier",
            "2",
            "--owner",
            "human:bob",
            "--area",
            "web",
            "--iteration",
            "7",
            "--tag",
            "x",
            "--tag",
            "y",
            "--ref",
            "jira:W-1",
            "--constraint",
            "max_files=3",
            "--constraint",
            "no_land",
            "--acceptance",
            "It works",
            "--acceptance",
            "It is fast",
            "--origin",
            "mail:1",
            "--key",
            "k",
        ],
    );
    for (name, value) in [
        ("title", json!("Full")),
        ("body", json!("Body")),
        ("type", json!("bug")),
        ("priority", json!("P0")),
        ("required_tier", json!(2)),
        ("owner", json!("human:bob")),
        ("area", json!("web")),
        ("iteration", json!("7")),
        ("tags", json!(["x", "y"])),
        ("refs", json!({ "jira": "W-1" })),
        ("origin", json!("mail:1")),
        ("state", json!("open")),
        ("version", json!(3)),
        ("constraints", json!(["no_land", "max_files=3"])),
        ("started_at", json!(null)),
        ("deps", json!([])),
        ("scope", json!([])),
        ("attempts", json!(0)),
        ("lease", json!(null)),
    ] {
        assert_eq!(full[name], value, "{name}");
    }
    assert_eq!(tried.run("add", &["Again", "--origin", "mail:1"])["existing"], true);
    assert_eq!(tried.run("show", &["jira:W-1"])["id"], "ON-2");
    tried.run("edit", &["jira:W-1", "--title", "Fuller", "--untag", "x", "--unref", "jira"]);
    tried.run(
        "edit",
        &["2", "--constraint", "max_files=9", "--no-constraint", "no_land", "--acceptance", "It is safe"],
    );
    let ticked = tried.run("tick", &["2", "2"]);
    assert_eq!(ticked["acceptance"][1]["ticked_by"], "human:ann");
    assert_eq!(tried.run("tick", &["2", "2", "--undo"])["acceptance"][1]["ticked"], false);
    tried.run("tick", &["2", "1"]);
    tried.run("note", &["2", "A note"]);
    tried.run("note", &["2", "So be it", "--kind", "decision", "--link", "https://example.org/7"]);
    let shown = tried.run("show", &["2"]);
    assert_eq!(
        (&shown["notes"][0]["text"], &shown["notes"][0]["kind"]),
        (&json!("A note"), &json!("progress"))
    );
    assert_eq!(shown["decisions"][0]["link"], "https://example.org/7");
    assert_eq!(shown["constraints"], json!(["max_files=9"]));

    // A lease, in all its ways.
    let claimed =
        tried.by(&a, "claim", &["1", "--bind", &std::process::id().to_string(), "--reason", "mine"]);
    assert_eq!((&claimed["renewed"], &claimed["takeover"]), (&json!(false), &json!(false)));
    assert_eq!(tried.by(&a, "renew", &["1"])["renewed"], true);
    tried.run("status", &[]);
    let handed = tried.by(&a, "handoff", &["1", "--to", "agent:b", "--reason", "go on"]);
    assert!(handed["lease"].is_null() && handed["task"]["kept_for"]["actor"] == "agent:b");
    assert_eq!(tried.by(&b, "claim", &["--next", "--reserve"])["lease"]["handoff_reason"], "go on");
    tried.by(&b, "release", &["1", "-m", "not now"]);
    let assigned = tried.run("assign", &["1", "--to", "agent:b", "--for", "2h", "--reason", "yours"]);
    assert!(assigned["lease"].is_null() && assigned["task"]["kept_for"]["reason"] == "yours", "{assigned}");
    let bounded = tried.by(&b, "claim", &["1", "--constraint", "read_only"]);
    assert_eq!(bounded["lease"]["constraints"], json!(["read_only"]));
    tried.by(&b, "release", &["1"]);
    lapsed_claim(&sandbox, &a, "1");
    tried.run("status", &[]);
    let ready = tried.run("ready", &[]);
    let takeover = ready["tasks"].as_array().unwrap().iter().map(|task| task["takeover"].clone());
    assert!(takeover.eq([json!(true)]), "{ready}");
    let taken = tried.by(&b, "takeover", &["1", "--reason", "lapsed"]);
    assert_eq!((&taken["takeover"], &taken["lease"]["handoff_reason"]), (&json!(true), &json!("lapsed")));
    // With news beside the answers.
    sandbox.run(&human("bob"), &["note", "1", "for you"]).ok();
    assert!(tried.by(&b, "why", &["1"])["notices"].is_array());
    assert!(tried.by(&b, "show", &["1"])["notices"].is_null(), "what is shown is no news");
    assert!(tried.by(&a, "list", &[])["notices"].is_array());

    // What it reserves.
    tried.by(&b, "scope add", &["src/**"]);
    tried.by(&b, "touch", &["README.md"]);
    assert_eq!(tried.run("scope show", &["1"])["reserved"], json!(["README.md", "src/**"]));
    tried.by(&b, "scope rm", &["src/**"]);

    // The table's verbs.
    tried.by(&b, "block", &["1"]);
    tried.run("unblock", &["1"]);
    tried.by(&b, "submit", &["1"]);
    assert_eq!(tried.run("reject", &["1", "-m", "not yet"])["kept_for"]["reason"], "not yet");
    tried.by(&b, "submit", &["1"]);
    tried.run("approve", &["1"]);
    tried.run("reopen", &["1"]);
    tried.by(&b, "done", &["1", "-m", "x"]);
    tried.run("reopen", &["1"]);
    tried.by(&b, "fail", &["1"]);
    tried.run("drop", &["1"]);
    // The graph.
    std::fs::write(
        sandbox.path().join("plan.toml"),
        "[[task]]\nname = \"db\"\ntitle = \"Database\"\n[[task]]\nname = \"api\"\ntitle = \"API\"\ndeps = [\"db\"]\nparent = \"2\"\n",
    )
    .unwrap();
    assert_eq!(tried.run("add --file", &["plan.toml", "--dry-run"])["dry_run"], true);
    let planned = tried.run("add --file", &["plan.toml", "--key", "plan"]);
    assert_eq!(planned["names"], json!({ "db": "ON-3", "api": "ON-4" }));
    assert_eq!(tried.run("add --file", &["plan.toml", "--key", "plan"])["replayed"], true);
    assert_eq!(tried.run("why", &["4"])["obstacles"][0]["kind"], "dependency");
    assert_eq!(tried.run("ready --explain", &[])["left_out"][0]["id"], "ON-2");
    let graph = tried.run("graph", &[]);
    assert_eq!(graph["edges"][0]["kind"], "part");
    tried.run("graph", &["4", "--upstream", "--all", "--limit", "1"]);
    tried.run("dep add", &["4", "1"]);
    tried.run("dep rm", &["4", "1"]);
    assert_eq!(tried.run("undo", &[])["undone"], json!(["dep.removed"]));
    assert_eq!(tried.run("dep list", &["4"])["needs"].as_array().unwrap().len(), 2);
    assert_eq!(tried.run("blocked", &[])["tasks"][0]["not_ready"]["kind"], "child");
    tried.run("stale", &[]);
    let several = sandbox.json(&human("ann"), &["show", "1", "99", "2"]);
    assert_eq!(several.code, 3);
    is_a("SeveralAnswer", &several.json());
    tried.run("dep rm", &["4", "1"]);
    tried.by(&b, "claim", &["3"]);
    assert_eq!(tried.run("reset --dry-run", &["3"])["touched"][0]["lease"]["actor"], "agent:b");
    assert_eq!(tried.run("reset", &["3", "--reason", "r", "--force"])["touched"][0]["state"], "in_progress");
    tried.by(&a, "fail", &["3"]);
    assert_eq!(tried.run("retry", &["3", "-m", "once more"])["attempts"], 1);
    tried.run("add", &["Proposed", "--propose"]);
    tried.run("accept", &["5"]);
    tried.by(&a, "run", &["5", "--on-success", "release", "--", "true"]);
    assert_eq!(tried.run("run", &["--next", "--", "true"])["outcome"], "done");
    tried.run("redact", &["2", "1", "--reason", "secret"]);
    assert_eq!(tried.run("show", &["2"])["title"], "Fuller");

    tried.run("list", &["--all", "--limit", "1"])["cursor"].as_str().unwrap();
    tried.run("search", &["note"]);
    tried.run("log", &[]);
    assert!(tried.run("log", &["2"])["events"].as_array().unwrap().len() > 2);
    assert_eq!(tried.run("sessions", &["5"])["sessions"][0]["session"], "ON-5#1");
    tried.run("sessions", &[]);
    let every = ["--by", "actor,task,day,week,area,tag,parent", "--explain"];
    assert!(!tried.run("timesheet", &every)["stretches"].as_array().unwrap().is_empty());
    tried.run("timesheet", &[]);
    assert_eq!(tried.run("timesheet seal", &["--month", "2026-01"])["sealed"]["month"], "2026-01");
    let standup = tried.run("report standup", &[]);
    let actors = standup["actors"].as_array().unwrap().iter().filter(|actor| actor["done"] != json!([]));
    assert_eq!(actors.count(), 1, "{standup}");
    tried.run("report actor", &["human:ann"]);
    let used = ["1", "--model", "m", "--tokens-in", "9", "--tokens-out", "3", "--cost", "0.10eur"];
    tried.by(&b, "session record", &used);
    let sessions = tried.run("sessions", &["1"]);
    assert_eq!(sessions["sessions"][0]["usage"][0]["cost"], json!(0.1), "{sessions}");
    let worked = sessions["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|session| session["worked_seconds"] != json!(0.0));
    let worked = worked.unwrap()["session"].as_str().unwrap();
    assert_eq!(tried.run("report cost", &["--by", "model"])["totals"][0]["currency"], "EUR");
    tried.run("session correct", &[worked, "--void", "--reason", "a test"]);
    assert_eq!(tried.run("report flow", &[])["done"], 1);
    tried.run("actor register", &["agent:new"]);
    tried.run("actor tier", &["agent:new", "2"]);
    tried.run("actor alias", &["agent:new", "agent:other"]);
    tried.run("actor list", &[]);
    // Not this process: everything it starts would be that agent.
    let process = Sleeper::start();
    tried.by(&a, "instance register", &["--instance", "conv", "--pid", &process.pid()]);
    tried.run("instance list", &[]);
    let verified = tried.run("ledger verify", &[]);
    assert_eq!((&verified["ok"], &verified["tasks"]), (&json!(true), &json!(5)));
    assert_eq!(verified["erased"].as_array().unwrap().len(), 2);
    tried.run("ledger rebuild", &[]);
    tried.run("ledger export", &["ledger.jsonl"]);
    tried.run("ledger seal", &[]);
    tried.run("setup --print", &["claude", "codex", "gemini", "agents-md"]);
    tried.run("setup", &["claude", "codex", "gemini", "agents-md"]);
    tried.run("setup --list", &[]);
    let check = sandbox.json(&a, &["setup", "--check"]);
    assert_eq!(check.code, 6, "this one is not on PATH: {check:?}");
    is_a("SetupCheckAnswer", &check.json());
    tried.seen.borrow_mut().insert("setup --check");
    tried.run("setup --remove", &[]);
    let repository = crate::agents::kit::repository();
    for (answer, command, code) in [
        ("GuardStatusAnswer", "guard status", 6),
        ("GuardAnswer", "guard install", 0),
        ("GuardStatusAnswer", "guard status", 0),
        ("GuardCheckAnswer", "guard check", 0),
        ("GuardAnswer", "guard uninstall", 0),
    ] {
        let mut words: Vec<&str> = command.split(' ').collect();
        words.extend(Some("src/a.rs").filter(|_| command == "guard check"));
        let ran = repository.json(&human("ann"), &words);
        assert_eq!(ran.code, code, "{command}: {ran:?}");
        is_a(answer, &ran.json());
        tried.seen.borrow_mut().insert(command);
    }
    let seat = tried.by(&a, "seat take", &["land:main", "--ttl", "0", "--reason", "a secret"]);
    assert_eq!(seat["lease"]["seat"], "land:main");
    tried.by(&a, "seat renew", &["land:main"]);
    tried.by(&a, "seat check", &["land:main"]);
    tried.by(&a, "status", &[]);
    assert_eq!(
        tried.by(&a, "seat redact", &["land:main", "2", "--reason", "r"])["lease"]["reason"],
        json!(null)
    );
    assert_eq!(tried.run("seat takeover", &["land:main", "--reason", "r", "--force"])["takeover"], true);
    tried.run("seat show", &["land:main"]);
    tried.run("seat list", &[]);
    assert_eq!(tried.run("seat release", &["land:main"])["lease"], json!(null));
    tried.run("config", &[]);
    tried.run("config show", &[]);
    tried.run("config get", &["lease.ttl"]);
    tried.run("config set", &["area.auth.paths", "src/auth/**"]);
    tried.run("config set", &["lease.indefinite_per_actor", "2"]);
    tried.run("config", &[]);
    tried.run("config get", &["area.auth"]);
    tried.run("config unset", &["area.auth"]);
    tried.run("config files", &[]);
    tried.run("doctor", &[]);
    tried.run("doctor", &["--fix"]);
    assert_eq!(tried.by(&a, "whoami", &[])["instance"], "a-1");
    tried.run("prime", &[]);
    tried.run("prime", &["--full"]);
    tried.run(
        "intake",
        &["cli", "Asked", "--ref", "7", "-d", "b", "--link", "https://x.example/7", "--author", "Ann"],
    );
    tried.run("backup", &["copy.db"]);
    tried.run("store copy", &["copy.db", "copied.db"]);
    let server = onus_store::conformance::server::Server::shared();
    tried.run("store migrate", &[server.shared_database()]);
    tried.run("completions", &["bash"]);
    tried.run("man", &[]);
    tried.run("man", &["pages"]);
    tried.run("help", &[]);
    tried.run("help", &["claim"]);
    tried.run("--version", &[]);
    tried.run("demo", &[]);
    is_a("HelpAnswer", &sandbox.json(&a, &["claim", "--help"]).ok().json());

    let behind = left_behind();
    let rescuing = Tried { sandbox: &behind, seen: RefCell::default() };
    rescuing.by(&b, "takeover", &["ON-1", "--reason", "died"]);
    rescuing.run("rescue list", &[]);
    rescuing.run("rescue show", &["ON-1"]);
    rescuing.run("rescue restore", &["ON-1", "--to", "out"]);
    rescuing.run("rescue drop", &["ON-1", "--reason", "a test"]);
    tried.seen.borrow_mut().extend(rescuing.seen.take());
    let (yard, beside) = (Sandbox::empty(), Sandbox::empty());
    let there = Tried { sandbox: &yard, seen: RefCell::default() };
    in_worktrees(&there, beside.path());
    tried.seen.borrow_mut().extend(there.seen.into_inner());

    // Nothing that is documented went untried, and nothing that exists undocumented.
    let documented: BTreeSet<&str> = COMMANDS.iter().map(|(_, command)| *command).collect();
    assert_eq!(*tried.seen.borrow(), documented);
    let first_words: BTreeSet<String> = documented
        .iter()
        .filter(|command| !command.starts_with('-'))
        .filter_map(|command| command.split(' ').next().map(str::to_owned))
        .collect();
    // These speak to programs in those programs' own words.
    let error = sandbox.json(&a, &["mcp"]).refused(2);
    assert!(error["message"].as_str().unwrap().contains("--json"), "{error}");
    let others = PROTOCOLS.iter().map(|name| (*name).to_owned());
    assert_eq!(commands(&sandbox), first_words.into_iter().chain(others).collect());
}

/// A set-up command, and a gate of each kind of judge.
const GATED: &str = "[worktree]\nsetup = [\"true\"]\n[[gate]]\nkey = \"tests\"\ntitle = \"The tests pass\"\nrun = [\"true\"]\nstage = \"before\"\nonly_named = true\n\
    [[gate]]\nkey = \"read\"\nkind = \"manual\"\nstage = \"before\"\nonly_named = true\n";

/// What only a git repository answers. `beside`: where its worktrees are made.
fn in_worktrees(tried: &Tried<'_>, beside: &std::path::Path) {
    let folder = tried.sandbox.path();
    let git = |args: &[&str]| drop(crate::support::git(folder, args));
    let settings = folder.join("home/.config/onus");
    std::fs::create_dir_all(&settings).unwrap();
    let root = beside.to_str().unwrap();
    std::fs::write(settings.join("config.toml"), format!("[worktree]\nroot = \"{root}\"\n")).unwrap();
    std::fs::write(folder.join("onus.toml"), GATED).unwrap();
    std::fs::write(folder.join(".gitignore"), "home\n").unwrap();
    git(&["init", "--quiet", "-b", "main"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "first"]);
    tried.run("init", &["--prefix", "ON"]);
    for title in ["One", "Two"] {
        tried.run("add", &[title]);
    }
    tried.run("trust list", &[]);
    tried.run("trust approve", &["setup"]);
    let a = agent("a");
    let made = tried.by(&a, "worktree add", &["1"]);
    assert_eq!(made["worktree"]["branch"], "onus/ON-1-one");
    tried.by(&a, "claim", &["1", "--worktree"]);
    tried.run("worktree list", &["--size"]);
    tried.run("worktree show", &["1"]);
    let own = beside.join("own");
    git(&["worktree", "add", "--quiet", "-b", "own", own.to_str().unwrap()]);
    tried.by(&agent("b"), "claim", &["2", "--scope", "left"]);
    tried.by(&agent("b"), "worktree adopt", &[own.to_str().unwrap()]);
    tried.by(&a, "release", &["1"]);
    tried.run("worktree prune", &["--dry-run"]);
    tried.run("worktree remove", &["1"]);
    tried.run("worktree prune", &[]);
    tried.run("worktree repair", &[]);
    std::fs::write(own.join("left"), "uncommitted").unwrap();
    tried.run("takeover", &["2", "--force", "--reason", "gone"]);
    std::fs::remove_file(own.join("left")).unwrap();
    let begun = tried.run("claim", &["2", "--worktree", "--rescue"]);
    assert_eq!(begun["worktree"]["rescued"]["written"][0], "left");
    tried.run("trust revoke", &["setup"]);
    tried.run("gate list", &[]);
    tried.run("trust approve", &["tests"]);
    tried.run("edit", &["2", "--gate", "tests", "--gate", "read"]);
    assert_eq!(tried.run("gate run", &["2", "tests"])["passed"], true);
    tried.run("gate fail", &["2", "read", "-m", "no"]);
    tried.run("gate pass", &["2", "read"]);
    let of_task = tried.sandbox.json(&human("ann"), &["gate", "list", "2"]).ok().json();
    assert_eq!(of_task["gates"][0]["passed"], true);
    is_a("GatesOfTaskAnswer", &of_task);
    tried.run("gate show", &["2", "tests"]);
    assert_eq!(tried.run("gate log", &["2", "tests"])["log"], "");
    lands(tried, &git);
}

/// A task that lands, in every way there is.
fn lands(tried: &Tried<'_>, git: &dyn Fn(&[&str])) {
    let folder = tried.sandbox.path();
    let identity = "[user]\n\tname = Ann\n\temail = ann@example.com\n";
    std::fs::write(folder.join("home/.gitconfig"), identity).unwrap();
    std::fs::write(folder.join("onus.toml"), "[land]\nstyle = \"merge\"\npr = [\"true\"]\n").unwrap();
    git(&["add", "onus.toml"]);
    git(&["commit", "--quiet", "-m", "tasks land"]);
    git(&["init", "--quiet", "--bare", "home/server.git"]);
    git(&["remote", "add", "origin", "home/server.git"]);
    tried.run("trust approve", &["pr"]);
    for (title, is_queued) in [("Three", false), ("Four", true)] {
        let id = tried.run("add", &[title])["id"].as_str().unwrap().to_owned();
        let path = tried.run("claim", &[&id, "--worktree"])["worktree"]["path"].as_str().unwrap().to_owned();
        std::fs::write(std::path::Path::new(&path).join(title), "x").unwrap();
        git(&["-C", &path, "add", "."]);
        git(&["-C", &path, "commit", "--quiet", "-m", title]);
        let done = tried.run("done", &[&id, "-m", "did it"]);
        assert_eq!(done["landing"], "awaited");
        assert_eq!(tried.run("status", &[])["to_land"][0]["id"], id.as_str());
        tried.run("land --via pr", &[&id]);
        assert_eq!(tried.run("land --check", &[&id])["checked_only"], true);
        assert_eq!(tried.run("land --queue --check", &[])["landed"][0]["task"], id.as_str());
        match is_queued {
            true => tried.run("land --queue", &[]),
            false => tried.run("land", &[&id]),
        };
        assert_eq!(tried.run("show", &[&id])["landed_in"], "main");
    }
    assert_eq!(tried.run("report round", &[])["landed"], 2);
}

#[test]
fn every_refusal_has_the_documented_shape() {
    let cases = refusal_cases::cases();
    assert!(cases.len() > 50);
    for case in cases {
        is_a("Failure", &case.json);
    }
}

#[test]
fn a_report_of_damage_is_a_report_and_an_error() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix it");
    tamper(&sandbox, "UPDATE task SET head = 'x'");
    let doctor = sandbox.json(&human("ann"), &["doctor"]);
    assert_eq!(doctor.code, 8);
    is_a("DoctorAnswer", &doctor.json());
    assert_eq!(doctor.json()["error"]["code"], "damaged");
}

#[test]
fn with_json_stdout_is_exactly_one_document() {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    claim(&sandbox, &agent("a"), &id);
    for (code, args) in [
        (0, vec!["--json", "show", id.as_str()]),
        (0, vec!["show", "--json", id.as_str()]),
        (0, vec!["-h", "--json"]),
        (0, vec!["--json"]),
        (2, vec!["--json", "frobnicate"]),
        (2, vec!["ledger", "--json"]),
        (0, vec!["ledger", "export", "--json"]),
        (2, vec!["note", "--json"]),
        (4, vec!["claim", id.as_str(), "--json"]),
        (3, vec!["show", "99", "--json"]),
        (0, vec!["demo", "--keep", "--json"]),
    ] {
        let code = if args == ["--json"] { 2 } else { code };
        let mut command = sandbox.command(&agent("b"));
        let ran = Ran::of(command.args(&args).env("TMPDIR", sandbox.path()).output().unwrap());
        assert_eq!(ran.code, code, "{args:?}: {ran:?}");
        assert_eq!(ran.stdout.lines().count(), 1, "{args:?}: {ran:?}");
        let value = ran.json();
        assert_eq!(value.get("error").is_some(), code != 0, "{args:?}: {value}");
    }
    // What comes after `--` is text, not a flag.
    let ran = sandbox.run(&agent("a"), &["note", &id, "--", "--json"]);
    assert!(ran.ok().stdout.contains("noted"), "{ran:?}");
}

#[test]
fn a_failed_document_keeps_its_notices_to_itself() {
    // A caller with news that is refused gets the refusal, in its documented shape.
    let sandbox = Sandbox::new();
    let (id, other) = (sandbox.add("Lost"), sandbox.add("Held"));
    lapsed_claim(&sandbox, &agent("a"), &id);
    claim(&sandbox, &agent("b"), &id);
    claim(&sandbox, &agent("b"), &other);
    let ran = json_with(&sandbox, &agent("a"), &[], &["claim", &other]);
    ran.refused(4);
    is_a("Failure", &ran.json());
}
