//! What people and programs are told: of gates, for whom they ran, of what was sent back and why, of what would land.

use std::path::Path;

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use crate::kit::Yard;
use crate::support::{As, Ran, agent, human};

use super::kit::LANDS;

const NO_BAD: &str = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"no-bad\"\nstage = \"land\"\nrun = [\"test\", \"!\", \"-e\", \"bad\"]\n";

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["task"].as_str().unwrap()).collect()
}

fn run_in(yard: &Yard, folder: &Path, who: &As, args: &[&str]) -> Ran {
    Ran::of(yard.command_in(folder, who).args(args).output().unwrap())
}

#[test]
fn a_queue_says_for_which_tasks_a_gate_ran_and_what_was_sent_back() {
    let yard = Yard::landing(NO_BAD);
    yard.done(&agent("a"), "good", "good", "x\n");
    yard.done(&agent("b"), "bad", "bad", "x\n");
    let ran = yard.run(&human("ada"), &["land", "--queue"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    let notes: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("onus: gate ")).collect();
    for (note, begins) in notes.iter().zip([
        "onus: gate no-bad on the merged result, for ON-1, ON-2",
        "onus: gate no-bad failed (exit code 1) after ",
        "onus: gate no-bad on main as it is, for ON-1, ON-2",
        "onus: gate no-bad passed after ",
        "onus: gate no-bad on the merged result, again, for ON-1, ON-2",
        "onus: gate no-bad failed",
        "onus: gate no-bad on the merged result, for ON-1",
        "onus: gate no-bad passed after ",
        "onus: gate no-bad on the merged result, for ON-2",
    ]) {
        assert!(note.starts_with(begins), "{note} / {begins}");
    }
    let sent_back = "onus: ON-2 does not land: gate no-bad failed on the merged result, and passed on main alone; it is open \
                     again, kept for agent:b\n  next: onus gate log ON-2 no-bad   # what it wrote\n";
    assert!(ran.stderr.contains(sent_back), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("open again").count(), 1, "{}", ran.stderr);
    assert!(ran.stdout.ends_with("1 landed; sent back ON-2 (its gates)\n"), "{}", ran.stdout);
    // The step leads somewhere.
    yard.run(&agent("b"), &["gate", "log", "ON-2", "no-bad"]).ok();
}

#[test]
fn programs_read_every_run_of_a_gate() {
    let yard = Yard::landing(NO_BAD);
    yard.done(&agent("a"), "good", "good", "x\n");
    yard.done(&agent("b"), "bad", "bad", "x\n");
    let said = yard.json(&agent("lander"), &["land", "--queue"]).json();
    let ran = said["ran"].as_array().unwrap();
    let told = ran.iter().map(|run| json!([run["tasks"], run["on"], run["verdict"]]));
    let both = json!(["ON-1", "ON-2"]);
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            json!([both, "result", "failed"]),
            json!([both, "target", "passed"]),
            json!([both, "result", "failed"]),
            json!([["ON-1"], "result", "passed"]),
            json!([["ON-2"], "result", "failed"]),
            json!([["ON-2"], "target", "passed"]),
            json!([["ON-2"], "result", "failed"]),
        ],
        "{said:#}"
    );
    assert!(ran.iter().all(|run| run["gate"] == "no-bad" && run["duration_ms"].is_i64()), "{said:#}");
}

#[test]
fn a_queue_is_checked_without_running_moving_or_recording_anything() {
    let yard = Yard::landing(NO_BAD);
    let (ann, ada) = (agent("a"), human("ada"));
    let first = yard.add("first");
    let second = yard.json(&ada, &["add", "second"]).ok().json()["id"].as_str().unwrap().to_owned();
    for (id, file, text) in [(&first, "a.txt", "first\n"), (&second, "b.txt", "second\n")] {
        let path = yard.claim(&ann, id);
        yard.commit_in(&path, file, text);
        yard.finish(&ann, id);
    }
    // The one with the smaller number depends on the other.
    yard.json(&ada, &["dep", "add", &first, &second, "--force", "--reason", "it does"]);
    let third = yard.done(&agent("c"), "third", "b.txt", "another\n");
    let everything = || {
        let refs = yard.git(&["for-each-ref"]);
        let log = yard.json(&ada, &["log", "-n", "10000"]).ok().json();
        let files = yard.git(&["status", "--porcelain"]);
        let seats = yard.json(&ada, &["seat", "list"]).ok().json();
        (refs, log["events"].as_array().unwrap().len(), files, seats)
    };
    let before = everything();
    let ran = yard.json(&ada, &["land", "--queue", "--check"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert_eq!(everything(), before);
    let said = ran.json();
    assert_eq!((&said["checked_only"], &said["ran"]), (&json!(true), &json!([])));
    assert_eq!(ids(&said["refused"]), [third.as_str()]);
    let error = &said["refused"][0]["error"];
    assert_eq!(error["code"], "conflict");
    let message = format!("{third} would conflict with main: b.txt (with {second} by agent:a)");
    assert_eq!(error["message"], message);
    assert_eq!(said["refused"][0]["reopened"], false);
    let planned = ids(&said["landed"]).join(" ");
    assert!(
        said["landed"].as_array().unwrap().iter().all(|task| task["to_run"] == json!(["no-bad"])),
        "{said:#}"
    );
    // It is what happens.
    let shown = yard.run(&ada, &["land", "--queue", "--check"]);
    assert!(shown.stdout.contains("would land in main if no-bad passes: first"), "{shown:?}");
    let landed = yard.json(&ada, &["land", "--queue"]).json();
    assert_eq!(ids(&landed["landed"]).join(" "), planned);
    assert_eq!(ids(&landed["refused"]), [third.as_str()]);
    assert_eq!(yard.json(&ada, &["land", "--queue", "--check"]).refused(7)["code"], "nothing");
    let both = yard.run(&ada, &["land", "--queue", "--check", "--watch"]);
    assert_eq!(both.code, 2, "{both:?}");
    yard.has_landed_in_peace();
}

#[test]
fn in_its_own_worktree_a_task_need_not_be_named_and_what_a_landing_found_is_said() {
    let config = format!("{NO_BAD}\n[[gate]]\nkey = \"tests\"\nrun = [\"test\", \"-e\", \"a.txt\"]\n");
    let yard = Yard::landing(&config);
    let (bob, other) = (agent("b"), yard.add("another"));
    let id = yard.add("one");
    let path = yard.claim(&bob, &id);
    // Somebody who holds nothing, and somebody who holds another task.
    yard.run(&agent("c"), &["claim", &other]).ok();
    for who in [human("ada"), agent("c")] {
        let listed = run_in(&yard, &path, &who, &["gate", "list", "--json"]).ok().json();
        assert_eq!(listed["task"], id.as_str());
    }
    let listed = run_in(&yard, &path, &bob, &["gate", "list"]).ok().stdout.clone();
    assert!(
        listed.contains("· land    no-bad: runs when the task lands, on the merged result\n"),
        "{listed}"
    );
    assert!(listed.contains("✗ done    tests: not run\n"), "{listed}");
    let ran = run_in(&yard, &path, &human("ada"), &["gate", "run", "--json"]).ok().json();
    assert_eq!((&ran["task"], &ran["passed"]), (&json!(id), &json!(true)));
    run_in(&yard, &path, &human("ada"), &["gate", "show", "tests"]).ok();
    run_in(&yard, &path, &human("ada"), &["gate", "log", "tests"]).ok();
    // What the project defines is asked for by its name there, and without one elsewhere.
    for args in [&["gate", "list", "--project", "--json"] as &[&str], &["gate", "list", "--json"]] {
        let folder = if args.len() == 4 { path.clone() } else { yard.repo() };
        let gates = run_in(&yard, &folder, &bob, args).ok().json();
        assert_eq!(
            (gates["gates"].as_array().unwrap().len(), &gates["task"]),
            (2, &Value::Null),
            "{gates:#}"
        );
    }
    // A landing that fails is not "the work has changed".
    yard.commit_in(&path, "bad", "x\n");
    run_in(&yard, &path, &bob, &["gate", "run"]).ok();
    yard.finish(&bob, &id);
    assert_eq!(yard.json(&human("ada"), &["land", &id]).code, 6);
    let listed = run_in(&yard, &path, &bob, &["gate", "list"]).ok().stdout.clone();
    let line = listed.lines().find(|line| line.contains("no-bad")).unwrap();
    assert!(line.starts_with("✗ land    no-bad: failed at the last attempt to land ("), "{line}");
    assert!(line.ends_with("; runs again when it lands"), "{line}");
}

#[test]
fn a_gate_that_failed_is_followed_by_what_it_wrote() {
    let config = "[[gate]]\nkey = \"tests\"\nrun = [\"sh\", \"-c\", \"echo it is broken; exit 3\"]\n";
    let yard = Yard::landing(config);
    let (bob, id) = (agent("b"), yard.add("one"));
    yard.claim(&bob, &id);
    let step = format!("onus gate log {id} tests   # what it wrote");
    let ran = yard.json(&bob, &["gate", "run", &id]);
    assert_eq!((ran.code, &ran.json()["error"]["next"][0]), (6, &json!(step)));
    assert_eq!(ran.json()["error"]["code"], "gate");
    let ran = yard.run(&bob, &["gate", "run", &id]);
    assert!(
        ran.stderr.ends_with(&format!("onus: {id} fails gate tests\n  next: {step}\n")),
        "{}",
        ran.stderr
    );
    let refused = yard.json(&bob, &["done", &id, "-m", "x"]).refused(6);
    assert_eq!(refused["next"][0], step.as_str());
    let log = yard.run(&bob, &["gate", "log", &id, "tests"]).ok().stdout.clone();
    assert_eq!(log, "it is broken\n");
    let told = yard.run(&human("ada"), &["log", &id]).ok().stdout.clone();
    assert!(told.contains("agent:b (b-1) ran gate tests: it failed (exit code 3, took "), "{told}");
}

#[test]
fn people_hear_of_land_union_where_both_sides_only_appended() {
    let yard = Yard::landing("[land]\nstyle = \"merge\"\n");
    let (one, two) = (yard.add("one"), yard.add("two"));
    for (who, id) in [(agent("a"), &one), (agent("b"), &two)] {
        let path = yard.claim(&who, id);
        yard.append(&path, "LOG.md", &format!("- {id}"));
        yard.commit_in(&path, "a.txt", &format!("{id}\n"));
        yard.finish(&who, id);
    }
    yard.land(&one);
    let hint = "if everyone only adds to LOG.md: name it in land.union, in the target's onus.toml";
    let steps = |who: &As| {
        let refused = yard.json(who, &["land", "--check", &two]).refused(6);
        assert_eq!(refused["code"], "conflict");
        refused["next"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    // a.txt was changed, not added to; which files are merged so is for people to say.
    let told: Vec<String> =
        steps(&human("ada")).into_iter().filter(|step| step.contains("land.union")).collect();
    assert_eq!(told, [hint]);
    assert!(!steps(&agent("lander")).iter().any(|step| step.contains("land.union")));
}

#[test]
fn work_that_came_back_is_claimed_before_other_work_of_its_priority() {
    let yard = Yard::landing(NO_BAD);
    let bob = agent("b");
    let fresh = yard.add("fresh");
    let own = yard.done(&bob, "own", "bad", "x\n");
    let urgent = yard.json(&human("ada"), &["add", "urgent", "-p", "1"]).ok().json()["id"].clone();
    assert_eq!(yard.json(&agent("lander"), &["land", "--queue"]).code, 6);
    let ready = yard.json(&bob, &["ready"]).ok().json();
    let order: Vec<&Value> = ready["tasks"].as_array().unwrap().iter().map(|task| &task["id"]).collect();
    assert_eq!(order, [&urgent, &json!(own), &json!(fresh)]);
    let explained = yard.run(&bob, &["ready", "--explain"]).ok().stdout.clone();
    assert!(explained.contains("P2; kept for you; "), "{explained}");
    let next = || yard.json(&bob, &["claim", "--next"]).ok().json()["task"]["id"].clone();
    assert_eq!([next(), next(), next()], [urgent, json!(own), json!(fresh)]);
}

#[test]
fn lists_of_worktrees_gates_and_rounds_fit_a_narrow_screen() {
    let config = format!(
        "{NO_BAD}\n[[gate]]\nkey = \"tests\"\ntitle = \"{}\"\nrun = [\"test\", \"-e\", \"a.txt\"]\npaths = [\"src/**\", \"a.txt\", \
         \"docs/of/something/**\", \"another/folder/**\"]\n",
        "a title that goes on and on, longer than any screen of sixty columns is wide"
    );
    let yard = Yard::landing(&config);
    let title = "Halve the rate and tell every customer about it";
    let landed = yard.done(&agent("a"), title, "good", "x\n");
    yard.land(&landed);
    let (bob, id) = (agent("b-with-a-name-that-is-not-short"), yard.add(title));
    yard.claim(&bob, &id);
    yard.run(&bob, &["release", &id]).ok();
    let path = yard.claim(&agent("c"), &id);
    run_in(&yard, &path, &agent("c"), &["gate", "run", "tests"]).ok();
    for args in [
        &["worktree", "list"] as &[&str],
        &["worktree", "show"],
        &["gate", "list", "--project"],
        &["gate", "list"],
        &["gate", "show", "tests"],
        &["report", "round"],
        &["list"],
        &["status"],
        &["show"],
    ] {
        for columns in [60, 80, 140] {
            let mut command = yard.command_in(&path, &agent("c"));
            let ran = Ran::of(command.args(args).env("COLUMNS", columns.to_string()).output().unwrap());
            // A path, a branch and a step are copied: they are never broken.
            let is_long = |line: &&str| {
                line.width() > columns && !line.trim().contains("next: ") && line.trim().contains(' ')
            };
            let long: Vec<&str> = ran.ok().stdout.lines().filter(is_long).collect();
            assert!(long.is_empty(), "{args:?} at {columns}: {long:#?}");
            assert!(!ran.stdout.contains("in_progress"), "{args:?}: {}", ran.stdout);
            assert!(!ran.stdout.lines().any(|line| line.ends_with(' ')), "{args:?}: {}", ran.stdout);
        }
    }
    let mut command = yard.command(&human("ada"));
    let round = Ran::of(command.args(["report", "round"]).env("COLUMNS", "60").output().unwrap());
    let round = &round.ok().stdout;
    for line in [
        "  who: agent:b-with-a-name-that-is-not-short, then agent:c\n",
        "  branch: onus/ON-2-halve-the-rate-and-tell-every\n",
        "  state: in progress\n",
        "  conflict lines: 0\n",
        "  gates: tests\n",
    ] {
        assert!(round.contains(line), "{line}{round}");
    }
    assert!(
        round.contains("  landed: main ") && round.contains("1 of 2 landed; conflict lines: 0\n"),
        "{round}"
    );
    let rows = yard.json(&human("ada"), &["report", "round"]).ok().json();
    assert_eq!(rows["rows"][1]["actors"], json!(["agent:b-with-a-name-that-is-not-short", "agent:c"]));
}

#[test]
fn who_claimed_a_task_again_is_said_in_words() {
    let yard = Yard::landing(LANDS);
    let (bob, id) = (agent("b"), yard.add("one"));
    for _ in 0..2 {
        yard.claim(&bob, &id);
        yard.run(&bob, &["release", &id]).ok();
    }
    let round = yard.run(&human("ada"), &["report", "round"]).ok().stdout.clone();
    assert!(round.contains("agent:b (claimed it twice)"), "{round}");
}

#[test]
fn whoever_did_the_work_is_told_the_whole_way_to_its_next_landing() {
    let yard = Yard::landing(NO_BAD);
    let bob = agent("b");
    let steps = |refused: Value| -> Vec<String> {
        let next = refused["next"].as_array().unwrap().iter();
        next.map(|step| step.as_str().unwrap().to_owned()).collect()
    };
    let claim = |id: &str| format!("onus claim {id} --worktree   # and go on in its branch");
    // A gate fails.
    let failing = yard.done(&bob, "failing", "bad", "x\n");
    let way = [
        format!("onus gate log {failing} no-bad   # what it wrote"),
        claim(&failing),
        "fix it in its worktree, commit".to_owned(),
        format!("onus land {failing} -m '…'"),
    ];
    assert_eq!(steps(yard.json(&bob, &["land", &failing]).refused(6)), way);
    let waiting = yard.json(&bob, &["status"]).ok().json()["waiting_for_you"][0]["next"].clone();
    assert_eq!(waiting, json!(claim(&failing)));
    let folder = yard.claim(&bob, &failing);
    yard.git_in(&folder, &["rm", "--quiet", "bad"]);
    yard.commit_in(&folder, "good", "x\n");
    // Its holder need not claim it.
    yard.commit_in(&folder, "bad", "x\n");
    let held = [way[0].clone(), way[2].clone(), way[3].clone()];
    assert_eq!(steps(yard.json(&bob, &["land", &failing, "-m", "mended"]).refused(6)), held);
    yard.git_in(&folder, &["rm", "--quiet", "bad"]);
    yard.git_in(&folder, &["commit", "--quiet", "-m", "mended"]);
    yard.json(&bob, &["land", &failing, "-m", "mended"]).ok();
    // Two changed the same.
    let first = yard.add("first");
    let second = yard.add("second");
    for (id, text) in [(&first, "first\n"), (&second, "second\n")] {
        let folder = yard.claim(&bob, id);
        yard.commit_in(&folder, "a.txt", text);
        yard.finish(&bob, id);
    }
    yard.json(&bob, &["land", &first]).ok();
    let merge = "in its worktree: git merge main, resolve, commit";
    assert_eq!(
        steps(yard.json(&bob, &["land", &second]).refused(6)),
        [claim(&second), merge.to_owned(), format!("onus land {second} -m '…'")]
    );
    // Another sees who has to do what, and not how to take it.
    let folder = yard.claim(&bob, &second);
    yard.commit_in(&folder, "b.txt", "more\n");
    yard.finish(&bob, &second);
    let others = steps(yard.json(&agent("lander"), &["land", &second]).refused(6));
    let how = "merges main there, resolves, commits, and lands it";
    assert_eq!(others, [format!("agent:b goes on: it claims {second} with its worktree, {how}")]);
    let watched = yard.json(&bob, &["land", "--watch"]).refused(2);
    assert_eq!(watched["message"], "only a queue is watched: use --queue --watch");
}

#[test]
fn landing_is_proposed_to_whoever_is_done_unless_it_is_left_to_a_person() {
    let yard = Yard::landing(NO_BAD);
    let bob = agent("b");
    for (constraint, proposed) in [(None, true), (Some("no_land"), false)] {
        let id = yard.add("one");
        if let Some(constraint) = constraint {
            yard.run(&human("ada"), &["edit", &id, "--constraint", constraint]).ok();
        }
        let path = yard.claim(&bob, &id);
        yard.commit_in(&path, &format!("{id}.txt"), "x\n");
        let ran = run_in(&yard, &path, &bob, &["done", &id, "-m", "x"]);
        let told = ran.ok().stderr.clone();
        assert!(told.contains("is not in main yet"), "{told}");
        assert_eq!(told.contains(&format!("onus land {id}")), proposed, "{told}");
        assert_eq!(told.contains("its constraint no_land leaves that to a person"), !proposed, "{told}");
    }
}

/// What was finished without a commit did not land by a commit of somebody else.
#[test]
fn a_branch_without_a_commit_has_nothing_to_land_and_no_commit_to_show() {
    let yard = Yard::landing(LANDS);
    yard.done(&agent("a"), "one", "one", "x\n");
    yard.run(&human("ada"), &["land", "1"]).ok();
    let other = yard.json(&human("ada"), &["show", "1"]).json()["landed"].clone();
    yard.run(&human("ada"), &["add", "two"]).ok();
    for args in [&["claim", "2", "--worktree"][..], &["done", "2", "-m", "nothing was wrong"]] {
        yard.run(&agent("b"), args).ok();
    }
    let ran = yard.run(&human("ada"), &["land", "2"]);
    assert!(ran.ok().stdout.starts_with("ON-2 has nothing to land"), "{ran:?}");
    let shown = yard.json(&human("ada"), &["show", "2"]).json();
    assert_eq!((&shown["landed"], &shown["landed_in"]), (&Value::Null, &json!("main")), "{shown}");
    let short = &other.as_str().unwrap()[..10];
    for args in [&["show", "2"][..], &["log", "2"]] {
        let said = yard.run(&human("ada"), args).stdout;
        assert!(said.contains("its branch has no commit of its own") && !said.contains(short), "{said}");
    }
    let round = yard.json(&human("ada"), &["report", "round"]).json();
    assert_eq!(round["landed"], 1, "{round}");
    // It is out of the queue, and a task that depends on it can go on.
    assert_eq!(yard.run(&human("ada"), &["land", "--queue"]).code, 7);
}
