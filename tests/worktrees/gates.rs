//! Gates, with real commands in real worktrees.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::kit::Yard;
use crate::support::{As, agent, eventually, human};

/// A yard whose project defines gates, approved by Ada.
fn yard_with(gates: &str) -> Yard {
    let yard = Yard::new();
    yard.commit("onus.toml", gates);
    yard.run(&human("ada"), &["trust", "approve", "--all"]).ok();
    yard
}

/// The binary in a folder of its own.
fn run_in(yard: &Yard, folder: &Path, who: &As, args: &[&str]) -> crate::support::Ran {
    crate::support::Ran::of(yard.command_in(folder, who).args(args).output().unwrap())
}

fn claimed(yard: &Yard, who: &As) -> (String, PathBuf) {
    let id = yard.add("one");
    let folder = yard.claim(who, &id);
    (id, folder)
}

const TESTS: &str = "[[gate]]\nkey = \"tests\"\nrun = [\"sh\", \"-c\", \"test -f ok\"]\n";

fn code(refused: &Value) -> &str {
    refused["code"].as_str().unwrap_or_default()
}

#[test]
fn a_task_is_done_when_its_gates_passed_on_these_very_files() {
    let yard = yard_with(TESTS);
    let bob = agent("bob");
    let (id, folder) = claimed(&yard, &bob);
    let done = || yard.json(&bob, &["done", &id, "-m", "made it"]);
    let refused = done().refused(6);
    assert_eq!(
        (code(&refused), refused["message"].as_str().unwrap()),
        ("gate", "ON-1 has a gate to pass: tests (not run)")
    );
    assert_eq!(refused["next"][0], "onus gate run ON-1   # run what it has still to pass");
    // It fails, and that is said.
    let ran = yard.json(&bob, &["gate", "run", &id]);
    assert_eq!(
        (ran.code, &ran.json()["gates"][0]["verdict"], &ran.json()["passed"]),
        (6, &json!("failed"), &json!(false))
    );
    assert!(done().refused(6)["message"].as_str().unwrap().contains("tests (failed)"));
    // It passes, and another commit makes that stale; the same files under another commit do not.
    yard.commit_in(&folder, "ok", "");
    assert!(done().refused(6)["message"].as_str().unwrap().contains("the work has changed since"));
    assert_eq!(yard.json(&bob, &["gate", "run", &id]).ok().json()["passed"], true);
    yard.commit_in(&folder, "more", "");
    assert!(done().refused(6)["message"].as_str().unwrap().contains("the work has changed since"));
    yard.json(&bob, &["gate", "run", &id]).ok();
    yard.git_in(&folder, &["commit", "--quiet", "--amend", "-m", "other words"]);
    let listed = yard.json(&bob, &["gate", "list", &id]).ok().json();
    assert_eq!(
        (&listed["gates"][0]["passed"], &listed["gates"][0]["last"]["verdict"]),
        (&json!(true), &json!("passed"))
    );
    let shown = yard.json(&bob, &["gate", "show", &id, "tests"]).ok().json();
    let verdicts: Vec<&str> =
        shown["judgements"].as_array().unwrap().iter().map(|it| it["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["passed", "passed", "failed"]);
    // A newer run on other files is not what is shown of these.
    yard.git_in(&folder, &["rm", "--quiet", "ok"]);
    yard.git_in(&folder, &["commit", "--quiet", "-m", "break it"]);
    assert_eq!(yard.json(&bob, &["gate", "run", &id]).code, 6);
    yard.git_in(&folder, &["reset", "--quiet", "--hard", "HEAD~1"]);
    let listed = yard.json(&bob, &["gate", "list", &id]).ok().json();
    assert_eq!(
        (&listed["gates"][0]["passed"], &listed["gates"][0]["last"]["verdict"]),
        (&json!(true), &json!("passed"))
    );
    assert!(!yard.run(&bob, &["gate", "list", &id]).stdout.contains("exit code"));
    assert_eq!(done().ok().json()["state"], "done");
    yard.run(&human("ada"), &["ledger", "verify"]).ok();
    assert_eq!(yard.json(&human("ada"), &["ledger", "rebuild"]).ok().json()["changed"], json!({}));
}

#[test]
fn what_is_uncommitted_is_judged_as_it_is_and_found_again_when_committed() {
    let yard = yard_with(TESTS);
    let bob = agent("bob");
    let (id, folder) = claimed(&yard, &bob);
    std::fs::write(folder.join("ok"), "").unwrap();
    yard.json(&bob, &["gate", "run", &id]).ok();
    yard.git_in(&folder, &["add", "ok"]);
    yard.git_in(&folder, &["commit", "--quiet", "-m", "ok"]);
    yard.json(&bob, &["done", &id, "-m", "made it"]).ok();
}

#[test]
fn people_are_asked_too_and_may_force_it_with_a_reason() {
    let yard = yard_with(TESTS);
    let ada = human("ada");
    let id = yard.add("one");
    assert_eq!(code(&yard.json(&ada, &["done", &id, "-m", "x"]).refused(6)), "gate");
    yard.json(&ada, &["done", &id, "-m", "x", "--force", "--reason", "hot fix"]).ok();
    let log = yard.json(&ada, &["log", &id]).ok().json();
    assert!(log["events"].to_string().contains("gates"), "{log}");
}

#[test]
fn a_command_runs_only_as_it_was_approved_and_agents_approve_nothing() {
    let yard = yard_with(TESTS);
    let bob = agent("bob");
    let (id, folder) = claimed(&yard, &bob);
    yard.commit_in(&folder, "onus.toml", &TESTS.replace("test -f ok", "touch ran"));
    let refused = yard.json(&bob, &["gate", "run", &id]).refused(6);
    assert_eq!(code(&refused), "unapproved");
    assert!(refused["next"][0].as_str().unwrap().starts_with("onus trust approve tests"), "{refused}");
    let by_bob = run_in(&yard, &folder, &bob, &["trust", "approve", "tests"]);
    assert_eq!(by_bob.code, 6, "{by_bob:?}");
    assert!(!folder.join("ran").exists());
    let listed = run_in(&yard, &folder, &bob, &["trust", "list", "--json"]).json();
    assert_eq!(
        (&listed["commands"][0]["name"], &listed["commands"][0]["approved"]),
        (&json!("tests"), &json!(false))
    );
    // A pipeline approves what somebody wrote down.
    let digest = listed["commands"][0]["digest"].as_str().unwrap();
    let ci = As { actor: "ci:main".to_owned(), instance: "job-1".to_owned() };
    assert_ne!(run_in(&yard, &folder, &ci, &["trust", "approve", "tests"]).code, 0);
    run_in(&yard, &folder, &ci, &["trust", "approve", "tests", "--digest", digest]).ok();
}

#[test]
fn a_gate_sees_nothing_of_ours() {
    let yard = yard_with("[[gate]]\nkey = \"env\"\nrun = [\"env\"]\nenv = [\"CI\"]\n");
    let bob = agent("bob");
    let (id, _) = claimed(&yard, &bob);
    let mut command = yard.command(&bob);
    command.env("CI", "yes").env("SECRET", "1").env("ONUS_STORE_PASSWORD", "2").env("PGPASSWORD", "3");
    assert!(command.args(["gate", "run", &id]).output().unwrap().status.success());
    let log = yard.json(&bob, &["gate", "log", &id, "env"]).ok().json()["log"].as_str().unwrap().to_owned();
    assert!(log.contains("CI=yes\n") && log.contains("ONUS_GATE=env\n"), "{log}");
    for secret in ["SECRET", "PASSWORD", "ONUS_ACTOR", "ONUS_TOKEN", "ONUS_INSTANCE"] {
        assert!(!log.contains(secret), "{log}");
    }
}

const JUDGED: &str = "
[[gate]]
key = \"safe\"
kind = \"manual\"
by = [\"agent:auditor\"]
[[gate]]
key = \"read\"
kind = \"review\"
";

#[test]
fn only_the_right_judge_passes_a_gate() {
    let yard = yard_with(JUDGED);
    let (bob, eve) = (agent("bob"), agent("eve"));
    let (id, folder) = claimed(&yard, &bob);
    yard.commit_in(&folder, "work", "");
    let pass = |who: &As, gate: &str| yard.json(who, &["gate", "pass", &id, gate, "-m", "looked at it"]);
    assert_eq!(code(&pass(&bob, "safe").refused(6)), "people_only");
    assert_eq!(code(&pass(&eve, "safe").refused(6)), "people_only");
    assert_eq!(code(&pass(&bob, "read").refused(6)), "not_allowed");
    assert!(
        yard.json(&bob, &["gate", "run", &id, "read"]).refused(2)["message"]
            .as_str()
            .unwrap()
            .contains("a reviewer passes it")
    );
    // Whoever held it before is no judge either; and anybody may say that it fails.
    yard.json(&bob, &["gate", "fail", &id, "read", "-m", "not yet"]).ok();
    pass(&agent("auditor"), "safe").ok();
    pass(&eve, "read").ok();
    assert_eq!(yard.json(&bob, &["done", &id, "-m", "x"]).ok().json()["state"], "done");
}

#[test]
fn a_reset_voids_what_was_judged() {
    let yard = yard_with(JUDGED);
    let (bob, ada) = (agent("bob"), human("ada"));
    let (id, _) = claimed(&yard, &bob);
    for gate in ["safe", "read"] {
        yard.json(&ada, &["gate", "pass", &id, gate]).ok();
    }
    yard.json(&ada, &["reset", &id, "--reason", "again", "--force"]).ok();
    let listed = yard.json(&ada, &["gate", "list", &id]).ok().json();
    assert!(listed["gates"].as_array().unwrap().iter().all(|gate| gate["why"] == "not_judged"), "{listed}");
    assert_eq!(yard.json(&ada, &["ledger", "rebuild"]).ok().json()["changed"], json!({}));
}

#[test]
fn whoever_submits_asks_for_judges_and_whoever_approves_is_the_review() {
    let yard = yard_with(&format!("{TESTS}{JUDGED}"));
    let (bob, eve, ada) = (agent("bob"), agent("eve"), human("ada"));
    let (id, folder) = claimed(&yard, &bob);
    yard.commit_in(&folder, "ok", "");
    assert_eq!(code(&yard.json(&bob, &["submit", &id, "-m", "x"]).refused(6)), "gate");
    yard.json(&bob, &["gate", "run", &id]).ok();
    let refused = yard.json(&bob, &["done", &id, "-m", "x"]).refused(6);
    assert!(refused["next"][0].as_str().unwrap().starts_with("onus submit"), "{refused}");
    yard.json(&bob, &["submit", &id, "-m", "x"]).ok();
    let refused = yard.json(&eve, &["approve", &id]).refused(6);
    assert_eq!(refused["message"], "ON-1 has a gate to pass: safe (not passed yet)");
    yard.json(&ada, &["gate", "pass", &id, "safe"]).ok();
    assert_eq!(yard.json(&eve, &["approve", &id]).ok().json()["state"], "done");
}

/// A task without a branch of its own is judged on what is where the approval is given.
#[test]
fn an_approval_asks_for_the_gates_of_a_task_without_a_branch_too() {
    let yard = yard_with(&format!("{TESTS}{JUDGED}"));
    let (bob, eve, ada) = (agent("bob"), agent("eve"), human("ada"));
    let id = yard.add("one");
    yard.run(&bob, &["claim", &id]).ok();
    yard.commit("ok", "");
    yard.json(&bob, &["gate", "run", &id]).ok();
    yard.json(&bob, &["submit", &id, "-m", "x"]).ok();
    let refused = yard.json(&eve, &["approve", &id]).refused(6);
    assert_eq!(refused["message"], "ON-1 has a gate to pass: safe (not passed yet)");
    yard.commit("more", "");
    yard.json(&ada, &["gate", "pass", &id, "safe"]).ok();
    let refused = yard.json(&eve, &["approve", &id]).refused(6);
    assert_eq!(refused["message"], "ON-1 has a gate to pass: tests (the work has changed since)");
    yard.json(&eve, &["gate", "run", &id]).ok();
    assert_eq!(yard.json(&eve, &["approve", &id]).ok().json()["state"], "done");
}

#[test]
fn a_task_is_not_begun_before_its_gates_passed() {
    let gate = "[[gate]]\nkey = \"design\"\nkind = \"manual\"\nstage = \"before\"\ntags = [\"big\"]\n";
    let yard = yard_with(gate);
    let (bob, ada) = (agent("bob"), human("ada"));
    let big = yard.json(&ada, &["add", "big", "--tag", "big"]).ok().json()["id"].as_str().unwrap().to_owned();
    let small = yard.add("small");
    // What claims in passing asks for them, too.
    for args in [
        vec!["claim", &big],
        vec!["run", &big, "--", "true"],
        vec!["done", &big, "-m", "x"],
        vec!["submit", &big, "-m", "x"],
    ] {
        assert_eq!(code(&yard.json(&bob, &args).refused(6)), "gate", "{args:?}");
    }
    let next = yard.json(&bob, &["claim", "--next"]).ok().json();
    assert_eq!(next["task"]["id"], *small);
    yard.json(&ada, &["gate", "pass", &big, "design"]).ok();
    yard.json(&agent("eve"), &["claim", &big]).ok();
    yard.json(&agent("eve"), &["done", &big, "-m", "x"]).ok();
    // Whoever holds it was asked when it began.
    let other = yard.add("other");
    yard.json(&bob, &["claim", &other]).ok();
    yard.json(&ada, &["edit", &other, "--tag", "big"]).ok();
    yard.json(&bob, &["done", &other, "-m", "x"]).ok();
}

#[test]
fn what_is_asked_for_at_a_landing_is_the_targets_to_say() {
    let gate = |key: &str| format!("[[gate]]\nkey = \"{key}\"\nkind = \"manual\"\nstage = \"land\"\n");
    let yard = yard_with(&gate("old"));
    let (bob, ada) = (agent("bob"), human("ada"));
    let (id, folder) = claimed(&yard, &bob);
    yard.commit_in(&folder, "work", "");
    yard.commit("onus.toml", &gate("new"));
    yard.git(&["checkout", "--quiet", "--detach"]);
    yard.git(&["config", "user.name", "Bob"]);
    yard.git(&["config", "user.email", "bob@example.org"]);
    let keys = |folder: &Path| {
        let listed = run_in(&yard, folder, &bob, &["gate", "list", &id, "--json"]).ok().json();
        let gates = listed["gates"].as_array().unwrap().clone();
        gates.iter().map(|gate| gate["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for folder in [&folder, &yard.repo()] {
        assert_eq!(keys(folder), ["new"]);
    }
    let refused = yard.json(&bob, &["land", &id, "-m", "x"]).refused(6);
    assert_eq!(refused["message"], format!("{id} has a gate to pass: new (not passed yet)"));
    assert_eq!(yard.json(&ada, &["gate", "pass", &id, "old"]).refused(2)["code"], "usage");
    yard.json(&ada, &["gate", "pass", &id, "new"]).ok();
    yard.json(&bob, &["land", &id, "-m", "x"]).ok();
}

#[test]
fn tests_must_fail_without_the_work_and_pass_with_it() {
    let gate = "[[gate]]\nkey = \"proof\"\nkind = \"red-green\"\nrun = [\"sh\", \"tests.sh\"]\ntests = [\"tests.sh\"]\n";
    let yard = Yard::new();
    yard.commit("tests.sh", "exit 0\n");
    yard.commit("onus.toml", gate);
    yard.run(&human("ada"), &["trust", "approve", "--all"]).ok();
    let bob = agent("bob");
    let (id, folder) = claimed(&yard, &bob);
    // A test that passes without the work proves nothing.
    yard.commit_in(&folder, "feature", "");
    yard.commit_in(&folder, "tests.sh", "test -f a.txt\n");
    assert_eq!(yard.json(&bob, &["gate", "run", &id]).code, 6);
    let log = yard.run(&bob, &["gate", "log", &id, "proof"]).ok().stdout.clone();
    assert!(log.contains("it passes without the work"), "{log}");
    // One that fails with it does not pass either; one that tells the difference does.
    yard.commit_in(&folder, "tests.sh", "test -f nowhere\n");
    assert_eq!(yard.json(&bob, &["gate", "run", &id]).code, 6);
    yard.commit_in(&folder, "tests.sh", "test -f feature\n");
    yard.json(&bob, &["gate", "run", &id]).ok();
    yard.json(&bob, &["done", &id, "-m", "x"]).ok();
    assert!(!yard.root().join(".scratch").exists());
    assert_eq!(yard.git(&["worktree", "list"]).lines().count(), 2);
}

#[test]
fn several_gates_run_at_once_with_their_output_apart() {
    let gate = |key: &str, other: &str| {
        // Each waits for the other: one after the other they would never end.
        let line = format!(
            "echo {key} begins; touch $HOME/{key}; until test -f $HOME/{other}; do sleep 0.05; done; echo {key} ends"
        );
        format!("[[gate]]\nkey = \"{key}\"\ntimeout = \"2m\"\nshell = '''{line}'''\n")
    };
    let yard = yard_with(&format!("{}{}", gate("one", "two"), gate("two", "one")));
    std::fs::create_dir_all(yard.folder().join("home")).unwrap();
    let bob = agent("bob");
    let (id, _) = claimed(&yard, &bob);
    let ran = yard.run(&bob, &["gate", "run", &id, "--all", "--jobs", "2"]);
    assert_eq!(ran.ok().stdout.trim(), "ON-1: 2 gates passed");
    for line in ["one | one begins", "one | one ends", "two | two begins", "two | two ends"] {
        assert!(ran.stderr.contains(line), "{}", ran.stderr);
    }
}

#[test]
fn what_ran_while_files_changed_judged_nothing() {
    let yard = yard_with("[[gate]]\nkey = \"messy\"\nshell = \"date +%N > made\"\n");
    let bob = agent("bob");
    let (id, _) = claimed(&yard, &bob);
    let ran = yard.json(&bob, &["gate", "run", &id]);
    assert_eq!(ran.code, 6);
    assert!(
        ran.json()["gates"][0]["error"].as_str().unwrap().contains("files changed while gate messy ran"),
        "{ran:?}"
    );
    assert_eq!(yard.json(&bob, &["gate", "list", &id]).ok().json()["gates"][0]["why"], "not_judged");
}

#[test]
fn a_gate_has_the_whole_of_its_time() {
    let yard = yard_with("[[gate]]\nkey = \"slow\"\ntimeout = \"2s\"\nrun = [\"sleep\", \"600\"]\n");
    let bob = agent("bob");
    let (id, _) = claimed(&yard, &bob);
    let ran = yard.json(&bob, &["gate", "run", &id]);
    assert_eq!((ran.code, &ran.json()["gates"][0]["timed_out"]), (6, &json!(true)));
    let took_ms = ran.json()["gates"][0]["duration_ms"].as_i64().unwrap();
    assert!(took_ms >= 2_000, "not before its limit: {took_ms} ms");
}

#[test]
fn a_gate_that_hangs_ends_at_its_limit_with_all_that_it_started() {
    let line = "setsid sh -c 'trap \"\" TERM; echo $$ > $HOME/away; while :; do sleep 1; done' & echo said; sleep 600";
    let yard = yard_with(&format!("[[gate]]\nkey = \"slow\"\ntimeout = \"3s\"\nshell = '''{line}'''\n"));
    std::fs::create_dir_all(yard.folder().join("home")).unwrap();
    let bob = agent("bob");
    let (id, _) = claimed(&yard, &bob);
    let ran = yard.json(&bob, &["gate", "run", &id]);
    assert_eq!((ran.code, &ran.json()["gates"][0]["timed_out"]), (6, &json!(true)));
    let away = std::fs::read_to_string(yard.folder().join("home/away")).unwrap();
    assert!(!lives(away.trim()));
    let log = yard.run(&bob, &["gate", "log", &id, "slow"]).ok().stdout.clone();
    assert!(log.contains("said\n") && log.contains("it took longer than 3 s"), "{log}");
}

#[test]
fn kill_9_of_gate_run_leaves_nothing_running() {
    let line =
        "setsid sh -c 'echo $$ > $HOME/away; while :; do sleep 1; done' & echo $$ > $HOME/here; sleep 600";
    let yard = yard_with(&format!("[[gate]]\nkey = \"slow\"\nshell = '''{line}'''\n"));
    let home = yard.folder().join("home");
    std::fs::create_dir_all(&home).unwrap();
    let bob = agent("bob");
    let (id, _) = claimed(&yard, &bob);
    let mut command = yard.command(&bob);
    let mut ran =
        command.args(["gate", "run", &id]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = |name: &str| {
        let read = || std::fs::read_to_string(home.join(name)).ok().filter(|pid| pid.ends_with('\n'));
        eventually(name, read).trim().to_owned()
    };
    let (away, here) = (pid("away"), pid("here"));
    assert!(lives(&away) && lives(&here));
    ran.kill().unwrap();
    ran.wait().unwrap();
    eventually("the end of what it started", || (!lives(&away) && !lives(&here)).then_some(()));
    assert_eq!(yard.json(&bob, &["gate", "list", &id]).ok().json()["gates"][0]["why"], "not_judged");
}

/// Whether a process runs.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_gate_is_for_the_tasks_that_it_says() {
    let gates = "
[[gate]]
key = \"docs\"
run = [\"true\"]
paths = [\"docs/**\"]
[[gate]]
key = \"audit\"
run = [\"true\"]
only_named = true
[[gate]]
key = \"bugs\"
run = [\"true\"]
types = [\"bug\"]
";
    let yard = yard_with(gates);
    let (bob, ada) = (agent("bob"), human("ada"));
    let (id, folder) = claimed(&yard, &bob);
    let asked = |id: &str| -> Vec<String> {
        let listed = yard.json(&bob, &["gate", "list", id]).ok().json();
        listed["gates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|gate| gate["key"].as_str().unwrap().to_owned())
            .collect()
    };
    yard.commit_in(&folder, "other", "");
    assert_eq!(asked(&id), Vec::<String>::new());
    std::fs::create_dir(folder.join("docs")).unwrap();
    yard.commit_in(&folder, "docs/a.md", "");
    assert_eq!(asked(&id), ["docs"]);
    yard.json(&bob, &["edit", &id, "--gate", "audit", "--type", "bug"]).ok();
    assert_eq!(asked(&id), ["docs", "audit", "bugs"]);
    assert_eq!(yard.json(&bob, &["edit", &id, "--no-gate", "audit"]).code, 6);
    yard.json(&ada, &["edit", &id, "--no-gate", "audit"]).ok();
    assert_eq!(asked(&id), ["docs", "bugs"]);
    let refused = yard.json(&ada, &["add", "x", "--gate", "dogs"]).refused(2);
    assert_eq!(refused["message"], "unknown gate 'dogs'; defined: docs, audit, bugs");
    let plan = yard.folder().join("plan.toml");
    std::fs::write(&plan, "[[task]]\ntitle = \"x\"\ngates = [\"audit\"]\n").unwrap();
    let added = yard.json(&ada, &["add", "--file", plan.to_str().unwrap()]).ok().json();
    assert_eq!(added["tasks"][0]["gates"], json!(["audit"]));
}

/// A pass by hand is for the work as it is; what the merged result came to is newer.
#[test]
fn a_gate_that_failed_at_landing_is_not_shown_as_passed() {
    let yard = Yard::landing(
        "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"build\"\nstage = \"land\"\nrun = [\"test\", \"!\", \"-e\", \"bad\"]\n",
    );
    let (ada, who, id) = (human("ada"), agent("w"), yard.add("one"));
    let path = yard.claim(&who, &id);
    yard.commit_in(&path, "bad", "x\n");
    yard.run(&who, &["done", &id, "-m", "did it"]).ok();
    let pass = ["gate", "pass", &id, "build", "--force", "--reason", "hotfix"];
    run_in(&yard, &path, &ada, &pass).ok();
    let shown = run_in(&yard, &path, &ada, &["gate", "list", &id]);
    assert!(shown.stdout.contains("build: passed without a run"), "{}", shown.stdout);
    yard.commit("other.txt", "main has moved\n");
    assert_eq!(yard.json(&ada, &["land", &id]).code, 6);
    let listed = run_in(&yard, &path, &ada, &["gate", "list", &id, "--json"]).ok().json();
    let gate = &listed["gates"][0];
    assert_eq!((gate["passed"].as_bool(), gate["why"].as_str()), (Some(false), Some("failed")), "{gate:#}");
    let shown = run_in(&yard, &path, &ada, &["gate", "list", &id]);
    assert!(shown.stdout.starts_with("✗ land    build: failed"), "{}", shown.stdout);
}

#[test]
fn init_finds_gates_and_adds_them_only_if_asked_to() {
    let yard = Yard::bare_ground();
    yard.commit("Cargo.toml", "[package]\nname = \"x\"\n");
    let ada = human("ada");
    yard.run(&ada, &["init"]).ok();
    assert!(!yard.repo().join("onus.toml").exists());
    let said = yard.run(&ada, &["init", "--gates"]);
    assert!(said.ok().stdout.contains("tests, lint, format"), "{said:?}");
    let listed = yard.json(&ada, &["gate", "list"]).ok().json();
    assert_eq!(listed["gates"][0]["command"]["argv"], json!(["cargo", "test"]));
    assert!(listed["gates"].as_array().unwrap().iter().all(|gate| gate["approved"] == false), "{listed}");
    // Again: a project that has gates has chosen.
    yard.json(&ada, &["init", "--gates"]).refused(2);
}

#[test]
fn whoever_asks_about_a_gate_is_answered_for_what_it_is() {
    let yard = Yard::new();
    let gates = "[[gate]]\nkey = \"tests\"\nrun = [\"true\"]\n\n[[gate]]\nkey = \"lint\"\nrun = [\"true\"]\n\n\
                 [[gate]]\nkey = \"sign-off\"\nkind = \"manual\"\n\n\
                 [[gate]]\nkey = \"build\"\nstage = \"land\"\nrun = [\"true\"]\n";
    yard.commit("onus.toml", gates);
    let (ada, bob) = (human("ada"), agent("bob"));
    let (id, _) = claimed(&yard, &bob);
    let message = |refused: &Value| refused["message"].as_str().unwrap().to_owned();
    // All that nobody has approved yet, at once.
    let unapproved = yard.json(&bob, &["gate", "run", &id]).refused(6);
    assert!(message(&unapproved).starts_with("gates tests, lint have not been approved"));
    let approve = "onus trust approve tests lint   # by a person, after reading 'onus trust list'";
    assert_eq!(unapproved["next"], json!([approve]));
    let none = yard.json(&ada, &["trust", "approve"]).refused(2);
    let list = "onus trust list   # the commands that this repository configures";
    assert_eq!((message(&none).as_str(), &none["next"]), ("name a command, or --all", &json!([list])));
    assert_eq!(yard.json(&ada, &["trust", "revoke", "nope"]).refused(3)["next"], json!([list]));
    let by_agent = yard.json(&bob, &["trust", "approve", "tests"]).refused(6);
    assert!(by_agent["next"][0].as_str().unwrap().starts_with("onus trust approve tests   # by a person"));
    yard.run(&ada, &["trust", "approve", "--all"]).ok();
    // Nothing of these was run: for three reasons.
    let log = |key: &str| yard.json(&bob, &["gate", "log", &id, key]);
    assert_eq!(message(&log("tests").refused(3)), format!("gate tests was never run for {id}"));
    assert_eq!(message(&log("sign-off").refused(3)), "gate sign-off is judged, not run, and writes no log");
    assert!(message(&log("nope").refused(2)).starts_with("unknown gate 'nope'; defined: "));
    let landing = yard.json(&bob, &["gate", "run", &id, "build"]).refused(2);
    let check = format!("onus land {id} --check   # run them on the merged result; nothing moves");
    assert_eq!(landing["next"], json!([check]));
    // What may not be judged by an agent is somebody else's to judge, not the same command again.
    let judged = yard.json(&bob, &["gate", "pass", &id, "sign-off"]).refused(6);
    assert_eq!(judged["next"], json!([format!("ask a person: onus gate pass {id} sign-off")]));
    // All has passed: that is not "no gate".
    yard.run(&bob, &["gate", "run", &id]).ok();
    let again = yard.run(&bob, &["gate", "run", &id]).ok().stdout.clone();
    assert!(
        again.starts_with(&format!("{id} has nothing left to run: tests, lint have passed\n")),
        "{again}"
    );
    assert_eq!(
        yard.run(&bob, &["gate", "log", &id, "tests"]).ok().stdout,
        "(it wrote nothing; exit code 0)\n"
    );
}
