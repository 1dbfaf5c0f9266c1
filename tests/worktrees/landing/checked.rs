//! Gates of a landing: on the merged result, by the target's own definition, before anything moves.

use crate::kit::Yard;
use crate::support::{agent, human};

/// A gate that fails if both of these files are there: each branch alone passes.
const EITHER: &str = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"either\"\nstage = \"land\"\nkind = \"command\"\n\
    shell = \"test ! -e one.txt || test ! -e two.txt\"\n";

#[test]
fn gates_run_on_the_merged_result_before_the_target_moves() {
    let yard = Yard::landing(EITHER);
    let one = yard.done(&agent("a"), "one", "one.txt", "1\n");
    let two = yard.done(&agent("b"), "two", "two.txt", "2\n");
    assert_eq!(yard.land(&one)["landed"][0]["gates"][0], "either");
    let before = yard.at("main");
    let refused = yard.json(&agent("lander"), &["land", &two]);
    assert_eq!(refused.refused(6)["code"], "gate", "{refused:?}");
    assert_eq!(yard.at("main"), before, "the target never had the result");
    let task = yard.show(&two);
    assert_eq!((task["state"].as_str(), task["kept_for"]["actor"].as_str()), (Some("open"), Some("agent:b")));
    let kinds = yard.kinds(&two);
    assert_eq!(kinds.iter().filter(|kind| *kind == "gate.failed").count(), 2, "run twice: {kinds:?}");
    assert!(kinds.contains(&"landing.failed".to_owned()));
    yard.has_landed_in_peace();
}

#[test]
fn a_branch_does_not_choose_its_own_gates() {
    let yard = Yard::landing(EITHER);
    yard.land(&yard.done(&agent("a"), "one", "one.txt", "1\n"));
    let (who, id) = (agent("b"), yard.add("without gates"));
    let path = yard.claim(&who, &id);
    yard.commit_in(&path, "onus.toml", "[land]\nstyle = \"merge\"\n");
    yard.commit_in(&path, "two.txt", "2\n");
    yard.finish(&who, &id);
    assert_eq!(yard.json(&agent("lander"), &["land", &id]).refused(6)["code"], "gate");
    assert_eq!(yard.in_main("two.txt"), None);
    // A person may, and that is recorded.
    let path = yard.claim(&who, &id);
    yard.finish(&who, &id);
    let forced = ["land", &id, "--force", "--reason", "the gate is wrong"];
    assert_eq!(yard.json(&who, &forced).refused(6)["code"], "people_only");
    yard.json(&human("ada"), &forced).ok();
    assert!(yard.kinds(&id).contains(&"rule.overridden".to_owned()));
    assert_eq!(yard.in_main("two.txt").as_deref(), Some("2\n"));
    assert!(!path.exists());
}

#[test]
fn what_nobody_approved_is_not_run() {
    let yard = Yard::landing("[land]\nstyle = \"merge\"\n");
    let id = yard.done(&agent("a"), "one", "one.txt", "1\n");
    let config = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"new\"\nstage = \"land\"\nshell = \"touch \\\"$HOME/ran\\\"\"\n";
    yard.commit("onus.toml", config);
    let before = yard.at("main");
    let refused = yard.json(&agent("lander"), &["land", &id]);
    assert_eq!(refused.refused(6)["code"], "unapproved", "{refused:?}");
    assert_eq!(yard.at("main"), before);
    let ran = yard.folder().join("home/ran");
    assert!(!ran.exists());
    assert_eq!(yard.show(&id)["state"], "done", "nobody is sent back for that");
    yard.approve();
    yard.land(&id);
    assert!(ran.exists());
    yard.has_landed_in_peace();
}

#[test]
fn a_red_target_sends_nobody_back() {
    let config = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"green\"\nstage = \"land\"\nrun = [\"test\", \"!\", \"-e\", \"red\"]\n";
    let yard = Yard::landing(config);
    let id = yard.done(&agent("a"), "one", "one.txt", "1\n");
    yard.commit("red", "somebody broke it\n");
    let before = yard.at("main");
    let refused = yard.json(&agent("lander"), &["land", &id]);
    let error = refused.refused(6);
    assert_eq!(error["code"], "gate");
    assert!(error["message"].as_str().unwrap().contains("main is red: gate green"), "{error}");
    assert_eq!(yard.at("main"), before);
    assert_eq!(yard.show(&id)["state"], "done");
    yard.git(&["rm", "--quiet", "red"]);
    yard.git(&["commit", "--quiet", "-m", "mended"]);
    yard.land(&id);
    yard.has_landed_in_peace();
}

#[test]
fn a_flaky_gate_is_recorded_as_flaky() {
    let yard = Yard::landing("");
    let count = yard.folder().join("count");
    std::fs::write(&count, "").unwrap();
    // Fails the first time it is run.
    let config = format!(
        "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"flaky\"\nstage = \"land\"\nshell = \"echo x >> '{}'; test $(wc -l < '{}') -ne 1\"\n",
        count.display(),
        count.display()
    );
    yard.commit("onus.toml", &config);
    yard.approve();
    let id = yard.done(&agent("a"), "one", "one.txt", "1\n");
    yard.land(&id);
    let log = yard.json(&human("ada"), &["log", &id, "-n", "100"]).ok().json();
    let passed =
        log["events"].as_array().unwrap().iter().find(|event| event["kind"] == "gate.passed").unwrap();
    assert_eq!(passed["payload"]["flaky"], true, "{passed:#}");
    assert!(yard.kinds(&id).contains(&"gate.failed".to_owned()));
}

#[test]
fn a_check_moves_nothing_and_its_result_is_kept() {
    let count = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"counted\"\nstage = \"land\"\nshell = \"echo x >> \\\"$HOME/ran\\\"\"\n";
    let yard = Yard::landing(count);
    let id = yard.done(&agent("a"), "one", "one.txt", "1\n");
    let before = yard.at("main");
    let said = yard.json(&agent("ci"), &["land", &id, "--check"]).ok().json();
    assert_eq!(
        (said["checked_only"].as_bool(), said["landed"][0]["task"].as_str()),
        (Some(true), Some(id.as_str()))
    );
    assert_eq!(yard.at("main"), before);
    assert_eq!(yard.intents(), Vec::<String>::new());
    assert_eq!(yard.show(&id)["landing"], "awaited");
    // An equal tree was judged already.
    yard.land(&id);
    let ran = std::fs::read_to_string(yard.folder().join("home/ran")).unwrap();
    assert_eq!(ran.lines().count(), 1, "{ran}");
}

#[test]
fn a_review_gate_asks_for_somebody_who_did_not_work_on_it() {
    let config =
        "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"review\"\nkind = \"review\"\nstage = \"land\"\n";
    let yard = Yard::landing(config);
    let worker = agent("w");
    let id = yard.done(&worker, "one", "one.txt", "1\n");
    assert_eq!(yard.json(&worker, &["land", &id]).refused(6)["code"], "gate");
    assert_eq!(yard.show(&id)["state"], "done", "it waits for its review");
    assert_eq!(yard.json(&worker, &["gate", "pass", &id, "review"]).refused(6)["code"], "not_allowed");
    yard.json(&agent("reviewer"), &["gate", "pass", &id, "review", "-m", "well done"]).ok();
    yard.land(&id);
    yard.has_landed_in_peace();
}

#[test]
fn a_red_green_gate_of_a_landing_asks_for_tests_that_fail_without_the_branch() {
    let config = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"first\"\nkind = \"red-green\"\nstage = \"land\"\n\
        tests = [\"*.test\"]\nshell = \"for test in *.test; do sh $test || exit 1; done\"\n";
    let yard = Yard::landing(config);
    yard.commit("base.test", "true\n");
    let without = yard.done(&agent("a"), "proves nothing", "one.test", "true\n");
    assert_eq!(yard.json(&agent("lander"), &["land", &without]).refused(6)["code"], "gate");
    assert_eq!(yard.in_main("one.test"), None);
    assert_eq!(yard.show(&without)["state"], "open", "the target is not to blame for it");
    let (who, id) = (agent("b"), yard.add("proves something"));
    let path = yard.claim(&who, &id);
    yard.commit_in(&path, "two.test", "test -e two.txt\n");
    yard.commit_in(&path, "two.txt", "2\n");
    yard.finish(&who, &id);
    assert_eq!(yard.land(&id)["landed"][0]["gates"][0], "first");
    yard.has_landed_in_peace();
}

#[test]
fn what_keeps_a_task_from_being_done_keeps_its_holder_from_landing_it() {
    let config =
        "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"made\"\nrun = [\"test\", \"-e\", \"made\"]\n";
    let yard = Yard::landing(config);
    let (who, id) = (agent("w"), yard.add("one"));
    let path = yard.claim(&who, &id);
    yard.commit_in(&path, "one.txt", "1\n");
    let (before, land) = (yard.at("main"), ["land", &id, "-m", "did it"]);
    assert_eq!(yard.json(&who, &land).refused(6)["code"], "gate");
    assert_eq!((yard.at("main"), yard.show(&id)["state"].as_str()), (before, Some("in_progress")));
    yard.commit_in(&path, "made", "");
    yard.json(&who, &["gate", "run", &id]).ok();
    yard.json(&who, &land).ok();
    assert_eq!(yard.show(&id)["state"], "done");
    yard.has_landed_in_peace();
}

#[test]
fn what_is_committed_after_the_approval_does_not_land_with_it() {
    let config = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"lint\"\nstage = \"done\"\nrun = [\"true\"]\n\n\
        [[gate]]\nkey = \"eyes\"\nkind = \"review\"\nstage = \"done\"\n";
    let yard = Yard::landing(config);
    let (worker, reviewer, id) = (agent("w"), agent("reviewer"), yard.add("one"));
    let path = yard.claim(&worker, &id);
    yard.commit_in(&path, "one.txt", "1\n");
    yard.run(&worker, &["gate", "run", &id]).ok();
    yard.run(&worker, &["submit", &id, "-m", "look at it"]).ok();
    yard.run(&reviewer, &["approve", &id]).ok();
    assert!(yard.kinds(&id).contains(&"gate.passed".to_owned()), "whoever approves has reviewed it");
    yard.commit_in(&path, "late.txt", "nobody saw this\n");
    let before = yard.at("main");
    for args in [&["land", id.as_str()][..], &["land", "--queue"]] {
        let refused = yard.json(&agent("lander"), args);
        assert_eq!(refused.code, 6, "{refused:?}");
        assert_eq!(refused.json()["error"]["code"], "gate", "{refused:?}");
        assert_eq!(yard.at("main"), before);
    }
    assert_eq!(yard.show(&id)["state"], "done", "nobody is sent back");
    yard.run(&worker, &["gate", "run", &id]).ok();
    yard.run(&reviewer, &["gate", "pass", &id, "eyes", "-m", "that, too"]).ok();
    yard.land(&id);
    assert_eq!(yard.in_main("late.txt").as_deref(), Some("nobody saw this\n"));
}

#[test]
fn ad_hoc_work_passes_the_gates_of_landing_too() {
    let config = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"no-bad\"\nstage = \"land\"\nrun = [\"test\", \"!\", \"-e\", \"bad\"]\n";
    let yard = Yard::landing(config);
    let (bob, side) = (agent("bob"), yard.folder().join("side"));
    yard.git(&["worktree", "add", "--quiet", "-b", "side", side.to_str().unwrap(), "main"]);
    let there = |args: &[&str]| {
        crate::support::Ran::of(yard.command_in(&side, &bob).args(args).arg("--json").output().unwrap())
    };
    // An agent without a task commits: the guard opens one for it.
    yard.run(&human("ada"), &["guard", "install"]).ok();
    std::fs::write(side.join("bad"), "x\n").unwrap();
    yard.git_in(&side, &["add", "bad"]);
    let mut git = std::process::Command::new("git");
    git.current_dir(&side).args(["commit", "--quiet", "-m", "side door"]).env_clear();
    git.envs(yard.command_in(&side, &bob).get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert!(git.status().unwrap().success());
    let adopted = there(&["worktree", "adopt", "."]).ok().json();
    assert_eq!(adopted["task"]["ad_hoc"], true, "{adopted:#}");
    let refused = there(&["land", "-m", "side door"]);
    assert_eq!(refused.refused(6)["code"], "gate", "{refused:?}");
    assert_eq!(yard.in_main("bad"), None);
}

#[test]
fn a_check_says_what_landing_would_say() {
    let yard = Yard::landing("[land]\nstyle = \"merge\"\n");
    let (ada, id) = (agent("ada"), yard.add("held"));
    let path = yard.claim(&ada, &id);
    yard.commit_in(&path, "held.txt", "x\n");
    assert_eq!(yard.json(&agent("other"), &["land", &id, "--check"]).refused(4)["code"], "held");
    assert_eq!(yard.json(&agent("other"), &["land", &id]).refused(4)["code"], "held");
    yard.json(&ada, &["land", &id, "--check"]).ok();
    assert_eq!(yard.show(&id)["state"], "in_progress");
    // Nobody waits for gates of what cannot land anyhow.
    let gated = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"slow\"\nstage = \"land\"\nshell = \"touch \\\"$HOME/ran\\\"\"\n";
    yard.commit("onus.toml", gated);
    yard.approve();
    yard.run(&ada, &["release", &id]).ok();
    assert_eq!(yard.json(&agent("other"), &["land", &id]).refused(6)["code"], "not_allowed");
    assert!(!yard.folder().join("home/ran").exists());
}

const NO_BAD: &str = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"first\"\nstage = \"land\"\nrun = [\"sh\", \"first.sh\"]\n\n\
    [[gate]]\nkey = \"no-bad\"\nstage = \"land\"\nrun = [\"test\", \"!\", \"-e\", \"bad\"]\n";

/// What a gate runs of the branch's decides nothing of what the next gate sees, and nothing outside its checkout is touched.
#[test]
fn a_gate_does_not_change_what_the_next_one_judges() {
    for trick in [
        "git update-index --skip-worktree bad && rm -f bad",
        "git update-index --assume-unchanged bad && rm -f bad",
        "git sparse-checkout set --no-cone '/*' '!/bad'",
        "rm -f bad",
        "git checkout -q HEAD~1",
    ] {
        let yard = Yard::landing(NO_BAD);
        yard.commit("first.sh", "true\n");
        let (who, id) = (agent("w"), yard.add("tricky"));
        let path = yard.claim(&who, &id);
        yard.commit_in(&path, "first.sh", &format!("{trick}\ntrue\n"));
        yard.commit_in(&path, "bad", "x\n");
        yard.finish(&who, &id);
        let refused = yard.json(&agent("lander"), &["land", &id]);
        assert_eq!(refused.refused(6)["code"], "gate", "{trick}: {refused:?}");
        assert_eq!(yard.in_main("bad"), None, "{trick}");
    }
}

#[test]
fn a_link_in_place_of_the_scratch_worktree_leads_nowhere() {
    let yard = Yard::landing(NO_BAD);
    yard.commit("first.sh", "true\n");
    let (who, id) = (agent("w"), yard.add("swapped"));
    let path = yard.claim(&who, &id);
    let swap = format!("d=$PWD; mv \"$d\" \"$d.x\"; ln -s '{}' \"$d\"\n", yard.repo().display());
    yard.commit_in(&path, "first.sh", &swap);
    yard.finish(&who, &id);
    std::fs::write(yard.repo().join("mine.txt"), "untracked\n").unwrap();
    std::fs::write(yard.repo().join("LOG.md"), "edited\n").unwrap();
    let refused = yard.json(&agent("lander"), &["land", &id]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert_eq!(std::fs::read_to_string(yard.repo().join("mine.txt")).unwrap(), "untracked\n");
    assert_eq!(std::fs::read_to_string(yard.repo().join("LOG.md")).unwrap(), "edited\n");
    yard.run(&human("ada"), &["doctor", "--fix"]);
    assert_eq!(std::fs::read_to_string(yard.repo().join("mine.txt")).unwrap(), "untracked\n");
    assert!(yard.repo().join("a.txt").exists());
    assert_eq!(yard.in_main("onus.toml").as_deref(), Some(NO_BAD));
}

#[test]
fn what_lands_behind_new_gates_is_judged_by_them() {
    let yard = Yard::landing("[land]\nstyle = \"merge\"\n");
    let (a, b) = (agent("a"), agent("b"));
    let strict = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"strict\"\nstage = \"land\"\nrun = [\"test\", \"!\", \"-e\", \"bad\"]\n";
    let first = yard.done(&a, "stricter", "onus.toml", strict);
    let second = yard.done(&b, "bad", "bad", "x\n");
    let ran = yard.json(&agent("lander"), &["land", "--queue"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_eq!(yard.show(&first)["landing"], serde_json::Value::Null);
    assert_eq!(yard.in_main("bad"), None, "{ran:?}");
    assert_eq!(yard.show(&second)["landed"], serde_json::Value::Null);
}

#[test]
fn an_agent_does_not_edit_a_gate_away() {
    let config = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"prod\"\nstage = \"land\"\ntags = [\"prod\"]\nrun = [\"false\"]\n";
    let yard = Yard::landing(config);
    let added = yard.json(&human("ada"), &["add", "live", "--tag", "prod"]).ok().json();
    let id = added["id"].as_str().unwrap();
    yard.run(&agent("w"), &["claim", id]).ok();
    assert_eq!(yard.json(&agent("w"), &["edit", id, "--untag", "prod"]).refused(6)["code"], "people_only");
    yard.json(&human("ada"), &["edit", id, "--untag", "prod"]).ok();
    yard.json(&agent("w"), &["edit", id, "--tag", "other"]).ok();
}

#[test]
fn a_red_gate_of_some_keeps_nobody_else_from_landing() {
    let config = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"prod\"\nstage = \"land\"\ntags = [\"prod\"]\nrun = [\"false\"]\n";
    let yard = Yard::landing(config);
    let live = yard.done(&agent("a"), "live", "live.txt", "x\n");
    yard.run(&human("ada"), &["edit", &live, "--tag", "prod"]).ok();
    let plain = yard.done(&agent("b"), "plain", "plain.txt", "x\n");
    let ran = yard.json(&agent("lander"), &["land", "--queue"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert_eq!(yard.in_main("plain.txt").as_deref(), Some("x\n"), "{ran:?}");
    assert!(yard.show(&plain)["landed"].is_string());
    assert_eq!((yard.show(&live)["state"].as_str(), yard.in_main("live.txt")), (Some("done"), None));
}
