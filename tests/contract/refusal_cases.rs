//! One refusal at least for each code of the core, as people and as programs read it: what `refusals.rs` and
//! `schema.rs` look at.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use onus_core::commit::Uncommitted;
use onus_core::refusal::{Code, Refusal, Step};
use onus_store::StoreError;
use regex::Regex;
use serde_json::Value;

use crate::contract::config::landing::SetupEnv;
use crate::contract::kit::{Dump, Sleeper, claim, dump, json_with, lapse, lapsed_claim, run_with, tamper};
use crate::contract::walk::{Walked, walk, walk_words};
use crate::contract::wording;
use crate::support::{As, Sandbox, agent, human};

/// A refusal as people and as programs read it.
pub(crate) struct Case {
    pub(crate) code: &'static str,
    pub(crate) what: &'static str,
    /// What the JSON must carry: `task`, `holder`, `left` (the time), `candidates`, `version`.
    pub(crate) shows: &'static str,
    pub(crate) exit: i32,
    pub(crate) words: String,
    pub(crate) json: Value,
    /// The same by both kinds of callers, in every interface.
    pub(crate) walked: Vec<Walked>,
}

/// Runs a command twice, for people and for programs; it must change nothing either time.
fn refused(
    code: &'static str,
    what: &'static str,
    shows: &'static str,
    sandbox: &Sandbox,
    (who, env, args): (&As, &[(&str, &str)], &[&str]),
) -> Case {
    let before = content(sandbox);
    let words = run_with(sandbox, who, env, args);
    let json = json_with(sandbox, who, env, args);
    assert!(content(sandbox) == before, "{what}: something changed");
    assert_eq!(words.stdout, "", "{what}: prose of a refusal goes to stderr");
    assert_eq!(words.code, json.code, "{what}");
    let walked = walk(sandbox, (who, env, args), &json);
    assert!(content(sandbox) == before, "{what}: something changed");
    let shown = redacted(&words.stderr, &sandbox.path().to_string_lossy());
    Case { code, what, shows, exit: words.code, words: shown, json: json.json(), walked }
}

/// Every row, or of what cannot be opened every byte. None where there is no store.
fn content(sandbox: &Sandbox) -> Option<(Option<Dump>, Vec<u8>)> {
    let bytes = std::fs::read(sandbox.database()).ok()?;
    if bytes.starts_with(b"SQLite format 3") {
        return Some((Some(dump(sandbox)), Vec::new()));
    }
    Some((None, bytes))
}

/// What differs from run to run, by what it is.
pub(crate) fn redacted(text: &str, folder: &str) -> String {
    let span = r"\d+ (ms|s|min|h|d)( \d+ (s|min|h))?";
    let mut text = text.replace(folder, "[folder]");
    for (pattern, by) in [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}".to_owned(), "[uid]"),
        (r"\d{4}-\d\d-\d\dT[0-9:.]+Z".to_owned(), "[time]"),
        (r"process \d+".to_owned(), "process [pid]"),
        (format!(" for {span}"), " for [span]"),
        (format!("at most {span} more"), "at most [span] more"),
        (format!(" in {span}"), " in [span]"),
        (format!(" {span} ago"), " [span] ago"),
        (format!("waited {span}"), "waited [span]"),
        (r"'01[0-9a-f]{4}'".to_owned(), "'[start of a uid]'"),
    ] {
        text = Regex::new(&pattern).unwrap().replace_all(&text, by).into_owned();
    }
    text
}

/// A refusal that this machine may not be able to show on demand. Its words come from the same place; that the binary
/// says them is tested where the condition itself is made (`read_only`, `disk_full`, `hostile`).
fn unmade(code: &'static str, what: &'static str, error: impl Into<Refusal>) -> Case {
    let refusal: Refusal = error.into();
    let (exit, walked) = (refusal.exit_code().into(), walk_words(&refusal));
    let said = wording::refusal(&refusal);
    let mut words = format!("onus: {}\n", refusal.message);
    words.extend(said.next.iter().map(|step| format!("  next: {step}\n")));
    let json = serde_json::json!({ "error": said });
    Case { code, what, shows: "", exit, words, json, walked }
}

/// Every kind of refusal there is, made once for all tests that look at them.
pub(crate) fn cases() -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(|| {
        let kinds = [
            input_cases,
            holder_cases,
            scope_cases,
            fence_cases,
            rule_cases,
            gate_cases,
            landing_cases,
            graph_cases,
            store_cases,
        ];
        kinds.into_iter().flat_map(|cases| cases()).collect()
    })
}

fn input_cases() -> Vec<Case> {
    let sandbox = Sandbox::new();
    let (first, second) = (sandbox.add("First"), sandbox.add("Second"));
    // With its hyphen it is never taken for a number.
    let uid = format!("{}-", &sandbox.show(&first)["uid"].as_str().unwrap()[..6]);
    let (ann, a) = (human("ann"), agent("a"));
    sandbox.run(&ann, &["add", "Third", "--key", "k"]).ok();
    let nobody = As { actor: String::new(), instance: String::new() };
    let harness = [("CLAUDECODE", "1")];
    let mut cases = vec![
        refused("usage", "an unknown command", "", &sandbox, (&a, &[], &["clam"])),
        refused(
            "usage",
            "a flag that resembles an override",
            "",
            &sandbox,
            (&a, &[], &["claim", &first, "--for", "2h"]),
        ),
        refused("usage", "a bad duration", "", &sandbox, (&a, &[], &["claim", &first, "--ttl", "soon"])),
        refused("usage", "done without a word", "", &sandbox, (&a, &[], &["done", &first])),
        refused("usage", "no task named and none held", "", &sandbox, (&a, &[], &["release"])),
        refused("usage", "an empty title", "", &sandbox, (&a, &[], &["add", "  "])),
        refused("identity", "nobody in particular", "", &sandbox, (&nobody, &[], &["claim", &first])),
        refused(
            "identity",
            "a person's name under a harness",
            "",
            &sandbox,
            (&ann, &harness, &["claim", &first]),
        ),
        refused(
            "identity",
            "what is not an actor",
            "",
            &sandbox,
            (&a, &[], &["claim", &first, "--as", "bob"]),
        ),
        refused("ambiguous", "a start of several uids", "candidates", &sandbox, (&a, &[], &["show", &uid])),
        refused(
            "key_reused",
            "another request under a used key",
            "",
            &sandbox,
            (&ann, &[], &["add", "Else", "--key", "k"]),
        ),
        refused("not_found", "no such task", "", &sandbox, (&a, &[], &["show", "ON-99"])),
        refused(
            "not_found",
            "no such event",
            "task",
            &sandbox,
            (&ann, &[], &["redact", &first, "9", "--reason", "r"]),
        ),
        refused(
            "not_found",
            "no such actor",
            "",
            &sandbox,
            (&ann, &[], &["actor", "tier", "agent:new", "2"]),
        ),
    ];
    claim(&sandbox, &a, &first);
    claim(&sandbox, &a, &second);
    cases.push(refused(
        "ambiguous",
        "several held, none named",
        "candidates",
        &sandbox,
        (&a, &[], &["release"]),
    ));
    cases
}

fn scope_cases() -> Vec<Case> {
    let sandbox = Sandbox::new();
    let (a, b) = (agent("a"), agent("b"));
    let [one, two, three] = ["One", "Two", "Three"].map(|title| sandbox.add(title));
    sandbox.run(&a, &["claim", &one, "--scope", "src/*/mod.rs"]).ok();
    sandbox.run(&b, &["claim", &two]).ok();
    let all = "task holder left";
    let claim = ["claim", three.as_str(), "--scope", "src/auth/*"];
    vec![
        refused("scope", "a claim of another's paths", all, &sandbox, (&b, &[], &claim)),
        refused("scope", "a touch of another's path", all, &sandbox, (&b, &[], &["touch", "src/x/mod.rs"])),
        refused("scope", "paths that one holds oneself", all, &sandbox, (&a, &[], &claim)),
        refused("usage", "no glob", "", &sandbox, (&b, &[], &["scope", "add", "../x"])),
        refused(
            "nothing",
            "freeing what is not reserved",
            "task",
            &sandbox,
            (&b, &[], &["scope", "rm", "y"]),
        ),
        refused("usage", "a path elsewhere", "", &sandbox, (&b, &[], &["touch", "/etc/passwd"])),
        refused("usage", "touching a folder", "", &sandbox, (&b, &[], &["touch", "."])),
        refused(
            "not_allowed",
            "touching without holding",
            "task",
            &sandbox,
            (&b, &[], &["touch", "y", "--task", &three]),
        ),
    ]
}

fn holder_cases() -> Vec<Case> {
    let sandbox = Sandbox::new();
    let (a, b, ann) = (agent("a"), agent("b"), human("ann"));
    let [ttl, bound, person, folder, kept, old, slow, dead] =
        ["TTL", "Bound", "Person", "Folder", "Kept", "Old", "Slow", "Dead"].map(|title| sandbox.add(title));
    claim(&sandbox, &a, &ttl);
    let pid = std::process::id().to_string();
    // Bound to this test, but claimed by another instance of the same name below it.
    sandbox.run(&a, &["claim", &bound, "--bind", &pid]).ok();
    claim(&sandbox, &ann, &person);
    let known_by_folder = As { actor: "agent:a".into(), instance: String::new() };
    claim(&sandbox, &known_by_folder, &folder);
    sandbox.run(&ann, &["handoff", &kept, "--to", "agent:c", "--reason", "go on"]).ok();
    json_with(&sandbox, &a, &[("ONUS_LEASE_MAX_HOLD", "1ms")], &["claim", &old]).ok();
    lapsed_claim(&sandbox, &a, &slow);
    sandbox.run(&ann, &["edit", &slow, "--tier", "2"]).ok();
    let process = Sleeper::start();
    sandbox.run(&a, &["claim", &dead, "--bind", &process.pid()]).ok();
    drop(process);
    lapse();
    let all = "task holder left";
    vec![
        refused("held", "by an agent with a TTL", all, &sandbox, (&b, &[], &["claim", &ttl])),
        refused("held", "finishing another's task", all, &sandbox, (&b, &[], &["done", &ttl, "-m", "x"])),
        refused("held", "by a process", all, &sandbox, (&b, &[], &["claim", &bound])),
        refused(
            "held",
            "by a person",
            "task holder",
            &sandbox,
            (&b, &[], &["takeover", &person, "--reason", "r"]),
        ),
        refused("held", "perhaps by oneself", all, &sandbox, (&known_by_folder, &[], &["claim", &folder])),
        refused("kept", "for another", "task left", &sandbox, (&b, &[], &["claim", &kept])),
        refused("held", "a renewal after the maximum hold", "task", &sandbox, (&a, &[], &["renew", &old])),
        refused("held", "a late renewal below the tier", "task", &sandbox, (&a, &[], &["renew", &slow])),
        refused("held", "a renewal for a dead process", "task", &sandbox, (&a, &[], &["renew", &dead])),
    ]
}

fn fence_cases() -> Vec<Case> {
    let sandbox = Sandbox::new();
    let (a, b) = (agent("a"), agent("b"));
    let [lost, gone, own, never, back] =
        ["Lost", "Gone", "Own", "Never", "Back"].map(|title| sandbox.add(title));
    sandbox.run(&a, &["done", &back, "-m", "x"]).ok();
    sandbox.run(&human("ann"), &["reset", &back, "--reason", "r"]).ok();
    for id in [&lost, &gone] {
        lapsed_claim(&sandbox, &a, id);
        claim(&sandbox, &b, id);
    }
    sandbox.run(&b, &["release", &gone]).ok();
    sandbox.run(&a, &["claim", &own, "--key", "k"]).ok();
    sandbox.run(&a, &["release", &own]).ok();
    let first = [("ONUS_TOKEN", "1")];
    vec![
        refused(
            "fenced",
            "superseded by a holder",
            "task holder left",
            &sandbox,
            (&a, &[], &["done", &lost, "-m", "x"]),
        ),
        refused(
            "fenced",
            "superseded, by token",
            "task holder left",
            &sandbox,
            (&a, &first, &["renew", &lost]),
        ),
        refused(
            "fenced",
            "superseded by one who left",
            "task holder",
            &sandbox,
            (&a, &[], &["done", &gone, "-m", "x"]),
        ),
        refused(
            "fenced",
            "a token whose lease ended",
            "task holder",
            &sandbox,
            (&a, &first, &["done", &own, "-m", "x"]),
        ),
        refused("fenced", "before a reset", "task holder", &sandbox, (&a, &[], &["note", &back, "x"])),
        refused(
            "fenced",
            "a token never granted",
            "task",
            &sandbox,
            (&a, &first, &["done", &never, "-m", "x"]),
        ),
        refused(
            "fenced",
            "a replay whose lease is gone",
            "task",
            &sandbox,
            (&a, &[], &["claim", &own, "--key", "k"]),
        ),
    ]
}

fn gate_cases() -> Vec<Case> {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Gated");
    let gates = "[[gate]]\nkey = \"ok\"\nkind = \"manual\"\n";
    std::fs::write(sandbox.path().join("onus.toml"), gates).unwrap();
    let (a, done) = (agent("a"), ["done", id.as_str(), "-m", "x"]);
    vec![refused("gate", "a gate that nobody passed", "", &sandbox, (&a, &[], &done))]
}

/// Whoever looks takes the target's seat: that is recorded, and nothing else.
fn landing_cases() -> Vec<Case> {
    let ground = SetupEnv::new("[land]\nstyle = \"merge\"\n");
    let (one, two) = (ground.done("one"), ground.done("two"));
    let (sandbox, lander) = (&ground.sandbox, agent("lander"));
    sandbox.json(&lander, &["land", &one]).ok();
    let args = ["land", two.as_str(), "--check"];
    let version = || sandbox.json(&human("ann"), &["show", &two]).ok().json()["version"].clone();
    let before = version();
    let (words, json) = (sandbox.run(&lander, &args), sandbox.json(&lander, &args).json());
    assert_eq!((words.stdout.as_str(), version()), ("", before));
    let error = &json["error"];
    let step = Step::plain(error["next"][0].as_str().unwrap().to_owned());
    let refusal = Refusal::new(Code::Conflict, error["message"].as_str().unwrap()).task(&two).next(step);
    vec![Case {
        code: "conflict",
        what: "two that changed the same lines",
        shows: "task",
        exit: words.code,
        words: redacted(&words.stderr, &sandbox.path().to_string_lossy()),
        walked: walk_words(&refusal),
        json,
    }]
}

fn rule_cases() -> Vec<Case> {
    let sandbox = Sandbox::new();
    let (a, b, ann) = (agent("a"), agent("b"), human("ann"));
    let ids = ["Open", "Mine", "Done", "Review", "Hard", "Forever", "Blocked", "Failed", "Dropped"];
    let [open, mine, done, review, hard, forever, blocked, failed, dropped] =
        ids.map(|title| sandbox.add(title));
    let proposed = sandbox.json(&ann, &["add", "Proposed", "--propose"]).ok().json()["id"].clone();
    let proposed = proposed.as_str().unwrap();
    claim(&sandbox, &a, &mine);
    sandbox.run(&a, &["done", &done, "-m", "x"]).ok();
    sandbox.run(&a, &["submit", &review]).ok();
    sandbox.run(&ann, &["edit", &hard, "--tier", "3"]).ok();
    sandbox.run(&a, &["claim", &forever, "--ttl", "0", "--reason", "watching"]).ok();
    sandbox.run(&a, &["block", &blocked]).ok();
    sandbox.run(&a, &["fail", &failed]).ok();
    sandbox.run(&a, &["drop", &dropped]).ok();
    let own = sandbox.add("A person's own");
    sandbox.run(&ann, &["submit", &own]).ok();
    let bounded = sandbox.add("Bounded");
    sandbox.run(&b, &["claim", &bounded, "--constraint", "read_only"]).ok();
    let forced = ["takeover", mine.as_str(), "--force", "--reason", "r"];
    let by_agent = ["claim", hard.as_str(), "--force", "--reason", "r"];
    let link = [("ONUS_FORCE_NEEDS_LINK", "true")];
    let endless = ["claim", open.as_str(), "--ttl", "0", "--reason", "r"];
    let none_left = [("ONUS_LEASE_INDEFINITE_PER_STORE", "1")];
    let mut cases = vec![
        refused(
            "constraint",
            "a change to what may only be read",
            "task",
            &sandbox,
            (&b, &[], &["touch", "src/a.rs", "--task", &bounded]),
        ),
        refused("not_allowed", "from proposed", "task", &sandbox, (&a, &[], &["claim", proposed])),
        refused("not_allowed", "from open", "task", &sandbox, (&a, &[], &["approve", &open])),
        refused("not_allowed", "reopening what is open", "task", &sandbox, (&ann, &[], &["reopen", &open])),
        refused("not_allowed", "from in progress", "task", &sandbox, (&a, &[], &["unblock", &mine])),
        refused("not_allowed", "from blocked", "task", &sandbox, (&a, &[], &["claim", &blocked])),
        refused("not_allowed", "from review", "task", &sandbox, (&a, &[], &["claim", &review])),
        refused("not_allowed", "from done", "task", &sandbox, (&a, &[], &["claim", &done])),
        refused("not_allowed", "from failed", "task", &sandbox, (&a, &[], &["claim", &failed])),
        refused("not_allowed", "from dropped", "task", &sandbox, (&a, &[], &["claim", &dropped])),
        refused(
            "not_allowed",
            "releasing what one does not hold",
            "task",
            &sandbox,
            (&a, &[], &["release", &open]),
        ),
        refused(
            "not_allowed",
            "approving one's own work",
            "task",
            &sandbox,
            (&a, &[], &["approve", &review]),
        ),
        refused(
            "not_allowed",
            "a person's approval of their own work",
            "task",
            &sandbox,
            (&ann, &[], &["approve", &own]),
        ),
        refused(
            "not_allowed",
            "taking over one's own",
            "task",
            &sandbox,
            (&a, &[], &["takeover", &mine, "--reason", "r"]),
        ),
        refused(
            "not_allowed",
            "taking over nobody's",
            "task",
            &sandbox,
            (&a, &[], &["takeover", &open, "--reason", "r"]),
        ),
        refused("not_allowed", "an override without its link", "task", &sandbox, (&ann, &link, &forced)),
        refused(
            "not_allowed",
            "an alias that is an actor",
            "",
            &sandbox,
            (&ann, &[], &["actor", "alias", "human:ann", "human:founder"]),
        ),
        refused("people_only", "an agent's override", "task", &sandbox, (&b, &[], &by_agent)),
        refused(
            "people_only",
            "lowering a tier",
            "task",
            &sandbox,
            (&b, &[], &["edit", &hard, "--tier", "0"]),
        ),
        refused(
            "people_only",
            "erasing another's words",
            "task",
            &sandbox,
            (&b, &[], &["redact", &open, "1", "--reason", "r"]),
        ),
        refused("people_only", "setting a tier", "", &sandbox, (&b, &[], &["actor", "tier", "agent:b", "3"])),
        refused("tier", "below the task's tier", "task", &sandbox, (&b, &[], &["claim", &hard])),
        refused("limit", "one more endless lease for an actor", "task", &sandbox, (&a, &[], &endless)),
        refused("limit", "one more endless lease for all", "task", &sandbox, (&b, &none_left, &endless)),
        refused(
            "changed",
            "another version",
            "task",
            &sandbox,
            (&b, &[], &["edit", &open, "--title", "x", "--if-version", "7"]),
        ),
    ];
    sandbox.run(&ann, &["redact", &open, "1", "--reason", "secret"]).ok();
    cases.push(refused(
        "nothing",
        "erased already",
        "task",
        &sandbox,
        (&ann, &[], &["redact", &open, "1", "--reason", "r"]),
    ));
    claim(&sandbox, &ann, &open);
    cases.push(refused("nothing", "nothing left to claim", "", &sandbox, (&b, &[], &["claim", "--next"])));
    cases
}

fn graph_cases() -> Vec<Case> {
    let sandbox = Sandbox::new();
    let (a, b, ann) = (agent("a"), agent("b"), human("ann"));
    let ids = ["Design", "Build", "Ship", "Epic", "Part", "Later", "Flaky", "Two", "Three"];
    let [design, build, ship, epic, part, later, flaky, two, three] = ids.map(|title| sandbox.add(title));
    claim(&sandbox, &a, &design);
    claim(&sandbox, &b, &epic);
    claim(&sandbox, &b, &ship);
    for args in [
        vec!["dep", "add", &build, &design],
        vec!["dep", "add", &ship, &build, &two, &three],
        vec!["edit", &part, "--parent", &epic],
        vec!["edit", &later, "--not-before", "2h"],
        vec!["edit", &flaky, "--max-attempts", "0"],
    ] {
        sandbox.run(&ann, &args).ok();
    }
    sandbox.run(&a, &["fail", &flaky]).ok();
    std::fs::write(sandbox.path().join("typo.toml"), "[[task]]\ntitle = \"x\"\ntitel = \"y\"\n").unwrap();
    let name = "[[task]]\nname = \"api\"\ntitle = \"x\"\n[[task]]\ntitle = \"y\"\ndeps = [\"apo\"]\n";
    std::fs::write(sandbox.path().join("name.toml"), name).unwrap();
    let circle = "[[task]]\nname = \"a\"\ntitle = \"x\"\ndeps = [\"b\"]\n[[task]]\nname = \"b\"\ntitle = \"y\"\ndeps = [\"a\"]\n";
    std::fs::write(sandbox.path().join("circle.toml"), circle).unwrap();
    vec![
        refused("unmet", "claiming what depends on more", "task", &sandbox, (&a, &[], &["claim", &build])),
        refused(
            "unmet",
            "finishing what depends on more",
            "task",
            &sandbox,
            (&b, &[], &["done", &ship, "-m", "x"]),
        ),
        refused(
            "unmet",
            "finishing what has open parts",
            "task",
            &sandbox,
            (&b, &[], &["done", &epic, "-m", "x"]),
        ),
        refused("not_yet", "claiming before its time", "task left", &sandbox, (&a, &[], &["claim", &later])),
        refused(
            "cycle",
            "a dependency on oneself",
            "task",
            &sandbox,
            (&ann, &[], &["dep", "add", &design, &design]),
        ),
        refused(
            "cycle",
            "a dependency that comes round",
            "task",
            &sandbox,
            (&ann, &[], &["dep", "add", &design, &ship]),
        ),
        refused(
            "cycle",
            "a part of its own part",
            "task",
            &sandbox,
            (&ann, &[], &["edit", &epic, "--parent", &part]),
        ),
        refused(
            "cycle",
            "a part that waits for the whole",
            "task",
            &sandbox,
            (&ann, &[], &["dep", "add", &part, &epic]),
        ),
        refused(
            "cycle",
            "a new part that waits for the whole",
            "task",
            &sandbox,
            (&ann, &[], &["add", "x", "--parent", &epic, "--dep", &epic]),
        ),
        refused(
            "cycle",
            "a plan that comes round",
            "",
            &sandbox,
            (&ann, &[], &["add", "--file", "circle.toml"]),
        ),
        refused(
            "usage",
            "a field that plans do not have",
            "",
            &sandbox,
            (&ann, &[], &["add", "--file", "typo.toml"]),
        ),
        refused(
            "usage",
            "a name that the plan does not have",
            "",
            &sandbox,
            (&ann, &[], &["add", "--file", "name.toml"]),
        ),
        refused("limit", "one attempt more", "task", &sandbox, (&a, &[], &["retry", &flaky])),
        refused(
            "held",
            "a reset over live leases",
            "task holder left",
            &sandbox,
            (&ann, &[], &["reset", &design, "--reason", "r"]),
        ),
        refused(
            "people_only",
            "an agent's forced reset",
            "task",
            &sandbox,
            (&a, &[], &["reset", &design, "--reason", "r", "--force"]),
        ),
    ]
}

fn store_cases() -> Vec<Case> {
    let a = agent("a");
    let show: &[&str] = &["status"];
    let add: &[&str] = &["add", "More"];
    let missing = Sandbox::empty();
    let mut cases = vec![
        refused("no_store", "nothing here", "", &missing, (&a, &[], show)),
        refused(
            "unavailable",
            "a path that leads nowhere",
            "",
            &missing,
            (&a, &[("ONUS_STORE", "/dev/null/onus.db")], add),
        ),
    ];

    let busy = Sandbox::new();
    let seat = std::fs::File::options().write(true).open(busy.path().join(".onus/writer.lock")).unwrap();
    seat.lock().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&seat, format!("{:<11}\n", std::process::id()).as_bytes(), 0)
        .unwrap();
    cases.push(refused("busy", "another writer", "", &busy, (&a, &[("ONUS_STORE_WAIT", "20ms")], add)));

    let newer = Sandbox::new();
    tamper(&newer, "PRAGMA user_version = 9999");
    cases.push(refused("newer_schema", "from a later onus", "", &newer, (&a, &[], add)));

    let foreign = Sandbox::new();
    tamper(&foreign, "PRAGMA application_id = 1");
    cases.push(refused("damaged", "another program's database", "", &foreign, (&a, &[], add)));
    let garbage = Sandbox::new();
    std::fs::write(garbage.database(), "no database at all, but long enough to be looked at").unwrap();
    cases.push(refused("damaged", "garbage", "", &garbage, (&a, &[], add)));

    let torn = Sandbox::new();
    tamper(&torn, "DROP TABLE alias");
    cases.push(refused("unexpected", "what nobody thought of", "", &torn, (&a, &[], add)));

    let tampered = Sandbox::new();
    tampered.add("First");
    tamper(&tampered, "UPDATE event SET actor = 'human:eve' WHERE kind = 'task.created'");
    cases.push(refused(
        "tampered",
        "a changed event",
        "task version",
        &tampered,
        (&a, &[], &["ledger", "verify"]),
    ));

    let clone = Sandbox::on_server("postgres://ann@db.example/onus", "web");
    cases.push(refused("unconfirmed", "a clone that names a project", "", &clone, (&a, &[], add)));

    let path = PathBuf::from("[folder]/.onus/onus.db");
    cases.push(unmade("read_only", "a sandbox", StoreError::ReadOnly(path.clone())));
    cases.push(unmade("disk_full", "no space", StoreError::Full));
    let why = "disk I/O error".to_owned();
    cases.push(unmade("unavailable", "a failing disk", StoreError::Unwritten { path: path.clone(), why }));
    let why = "the commit failed (disk I/O error), and the part already written could not be undone (Input/output error)";
    cases.push(unmade(
        "not_known",
        "a failed commit",
        StoreError::Unknown { place: path.clone(), why: why.to_owned() },
    ));
    let log = PathBuf::from("[folder]/.onus/onus.db-wal");
    cases.push(unmade("unavailable", "a stray log", StoreError::StrayLog { log }));
    let two = StoreError::TwoNames { path: path.clone(), names: 2 };
    cases.push(unmade("unavailable", "a hard link", two));
    cases.push(unmade(
        "busy",
        "another program",
        StoreError::Busy { pid: None, waited: Duration::from_secs(5) },
    ));
    let left = Uncommitted { files: vec!["src/login.rs".to_owned()], count: 1, ..Uncommitted::default() };
    cases.push(unmade("uncommitted", "a change in no commit", onus_core::decide::uncommitted("ON-1", &left)));
    let left = Uncommitted { adrift: 2, ..Uncommitted::default() };
    cases.push(unmade("uncommitted", "commits on no branch", onus_core::decide::uncommitted("ON-1", &left)));
    let others = onus_repo::Foreign { path: "/srv/shared/.git".into(), uid: 1001, in_git: true };
    cases.push(unmade("foreign", "another user's repository", others));
    let by = onus_store::Blocker { pid: 4711, role: Some("eve".into()), program: Some("psql".into()) };
    cases.push(unmade(
        "busy",
        "a session of the server",
        StoreError::Blocked { by, waited: Duration::from_secs(5) },
    ));
    let filesystem = "nfs".to_owned();
    cases.push(unmade("unsafe_filesystem", "a network", StoreError::UnsafeFilesystem { path, filesystem }));
    cases
}
