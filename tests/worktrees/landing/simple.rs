//! One branch at a time: what lands, what does not, and what becomes of the task.

use crate::kit::Yard;
use crate::support::{Ran, agent, human};

use super::kit::LANDS;

/// Two commits to one file: replayed where they are already, the first of them would conflict.
const TWO_STEPS: [(&str, &str); 2] = [("k.txt", "one\n"), ("k.txt", "two\n")];

#[test]
fn a_done_task_lands_with_one_merge_commit_and_leaves_nothing_behind() {
    let yard = Yard::landing(LANDS);
    let before = yard.at("main");
    let id = yard.done(&agent("w"), "say hello", "hello.txt", "hello\n");
    let said = yard.land(&id);
    assert_eq!(said["landed"][0]["task"], id.as_str());
    assert_eq!(said["landed"][0]["actor"], "agent:w");
    let commit = said["landed"][0]["commit"].as_str().unwrap();
    assert_eq!(yard.at("main"), commit);
    assert_eq!(yard.git(&["rev-list", "--parents", "-n1", "main"]).split(' ').nth(1), Some(before.as_str()));
    let message = yard.git(&["log", "-1", "--format=%B", "main"]);
    assert!(message.starts_with(&format!("{id}: say hello\n")), "{message}");
    assert!(message.contains(&format!("Onus-Task: {id}\nOnus-Actor: agent:w")), "{message}");
    // The checkout was clean, so it was brought forward.
    assert_eq!(std::fs::read_to_string(yard.repo().join("hello.txt")).unwrap(), "hello\n");
    assert_eq!(yard.git(&["status", "--porcelain"]), "");
    let task = yard.show(&id);
    assert_eq!((task["state"].as_str(), task["landed"].as_str()), (Some("done"), Some(commit)));
    assert_eq!(yard.branches(), Vec::<String>::new());
    assert!(!yard.root().exists());
    assert_eq!(yard.kinds(&id).iter().filter(|kind| *kind == "task.landed").count(), 1);
    yard.has_landed_in_peace();
    // Once is enough.
    let again = yard.json(&agent("lander"), &["land", &id]);
    assert_eq!(again.refused(7)["code"], "nothing", "{again:?}");
}

#[test]
fn each_style_lands_what_it_says() {
    for (style, parents, commits) in [("--merge", 2, 3), ("--squash", 1, 1), ("--rebase", 1, 2)] {
        let yard = Yard::landing(LANDS);
        let (who, id) = (agent("w"), yard.add("two steps"));
        let path = yard.claim(&who, &id);
        yard.commit_in(&path, "one.txt", "1\n");
        yard.commit_in(&path, "two.txt", "2\n");
        yard.finish(&who, &id);
        // The target has moved on.
        let base = yard.commit("other.txt", "x\n");
        yard.json(&human("ada"), &["land", &id, style]).ok();
        let line = yard.git(&["rev-list", "--parents", "-n1", "main"]);
        assert_eq!(line.split(' ').count() - 1, parents, "{style}");
        assert_eq!(
            yard.git(&["rev-list", "--count", &format!("{base}..main")]),
            commits.to_string(),
            "{style}"
        );
        assert_eq!(yard.in_main("two.txt").as_deref(), Some("2\n"));
        assert_eq!(yard.branches(), Vec::<String>::new(), "{style}");
        yard.has_landed_in_peace();
    }
}

#[test]
fn a_holder_lands_its_task_and_finishes_it_with_one_command() {
    let yard = Yard::landing(LANDS);
    let (who, id) = (agent("w"), yard.add("mine"));
    let path = yard.claim(&who, &id);
    yard.commit_in(&path, "mine.txt", "mine\n");
    let mute = yard.json(&who, &["land", &id]);
    assert!(mute.refused(2)["message"].as_str().unwrap().contains("say what was done"));
    // What is in no commit would be left behind.
    std::fs::write(path.join("forgotten.txt"), "x").unwrap();
    let there = |args: &[&str]| {
        let mut command = yard.command_in(&path, &who);
        crate::support::Ran::of(command.args(args).arg("--json").output().unwrap())
    };
    assert_eq!(there(&["land", "-m", "did it"]).refused(6)["code"], "uncommitted");
    assert_eq!(yard.in_main("mine.txt"), None);
    std::fs::remove_file(path.join("forgotten.txt")).unwrap();
    there(&["land", "-m", "did it"]).ok();
    assert_eq!(yard.in_main("mine.txt").as_deref(), Some("mine\n"));
    assert_eq!(yard.show(&id)["state"], "done");
    // Nobody's folder is taken away from under them.
    assert!(path.exists());
    yard.json(&human("ada"), &["worktree", "remove", &id]).ok();
    yard.has_landed_in_peace();
}

#[test]
fn somebody_elses_work_in_progress_does_not_land() {
    let yard = Yard::landing(LANDS);
    let id = yard.add("held");
    let path = yard.claim(&agent("w"), &id);
    yard.commit_in(&path, "held.txt", "x\n");
    let refused = yard.json(&agent("other"), &["land", &id, "-m", "not mine"]);
    assert_eq!(refused.refused(4)["code"], "held");
    yard.run(&agent("w"), &["submit", &id, "-m", "look at it"]).ok();
    let refused = yard.json(&agent("other"), &["land", &id]);
    assert_eq!(refused.refused(6)["code"], "not_allowed", "{refused:?}");
    assert_eq!(yard.in_main("held.txt"), None);
    yard.run(&human("ada"), &["approve", &id]).ok();
    yard.land(&id);
    assert_eq!(yard.in_main("held.txt").as_deref(), Some("x\n"));
    yard.has_landed_in_peace();
}

#[test]
fn a_conflict_moves_nothing_and_names_the_other_side() {
    let yard = Yard::landing(LANDS);
    let (first, second) = (agent("one"), agent("two"));
    let (a, b) = (yard.add("first"), yard.add("second"));
    for (who, id, text) in [(&first, &a, "first\n"), (&second, &b, "second\n")] {
        let path = yard.claim(who, id);
        yard.commit_in(&path, "a.txt", text);
        yard.finish(who, id);
    }
    yard.land(&a);
    let before = yard.at("main");
    let refused = yard.json(&agent("lander"), &["land", &b]);
    let error = refused.refused(6);
    assert_eq!(error["code"], "conflict");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("a.txt") && message.contains(&format!("{a} by agent:one")), "{message}");
    assert_eq!(yard.at("main"), before);
    assert_eq!(yard.git(&["status", "--porcelain"]), "");
    // It is open again, kept for whoever did it, who reads the conflict first.
    let task = yard.show(&b);
    assert_eq!(
        (task["state"].as_str(), task["kept_for"]["actor"].as_str()),
        (Some("open"), Some("agent:two"))
    );
    assert!(task["last_word"]["text"].as_str().unwrap().contains("a.txt"), "{task:#}");
    assert_eq!(yard.json(&agent("thief"), &["claim", &b]).refused(4)["code"], "kept");
    let path = yard.claim(&second, &b);
    assert_eq!(std::fs::read_to_string(path.join("a.txt")).unwrap(), "second\n", "its work is all there");
    // A holder that meets a conflict keeps its task.
    let held = yard.json(&second, &["land", &b, "-m", "again"]);
    assert_eq!(held.refused(6)["code"], "conflict");
    let task = yard.show(&b);
    assert_eq!(
        (task["state"].as_str(), task["lease"]["actor"].as_str()),
        (Some("in_progress"), Some("agent:two"))
    );
    yard.try_git(&path, &["merge", "main"]);
    yard.commit_in(&path, "a.txt", "both\n");
    yard.json(&second, &["land", &b, "-m", "resolved"]).ok();
    assert_eq!(yard.in_main("a.txt").as_deref(), Some("both\n"));
    yard.has_landed_in_peace();
}

#[test]
fn a_checkout_with_changes_in_the_way_is_left_as_it_is_and_reverts_nothing() {
    let yard = Yard::landing(LANDS);
    let id = yard.done_in_steps(&agent("w"), "change a", &[("a.txt", "landed\n"), ("new.txt", "new\n")]);
    std::fs::write(yard.repo().join("a.txt"), "uncommitted\n").unwrap();
    std::fs::write(yard.repo().join("LOG.md"), "# log\nmine\n").unwrap();
    let said = yard.land(&id);
    let left = said["checkouts"][0]["left"].as_str().unwrap();
    assert!(left.contains("a.txt"), "{left}");
    assert_eq!(std::fs::read_to_string(yard.repo().join("a.txt")).unwrap(), "uncommitted\n");
    // Whoever commits there takes nothing back: the next landing merges both.
    yard.git(&["commit", "--quiet", "-m", "my log", "LOG.md"]);
    yard.git(&["checkout", "--quiet", "--", "a.txt"]);
    let other = yard.done(&agent("w"), "another", "other.txt", "x\n");
    yard.land(&other);
    assert_eq!(yard.in_main("a.txt").as_deref(), Some("landed\n"));
    assert_eq!(yard.in_main("LOG.md").as_deref(), Some("# log\nmine\n"));
    assert_eq!(yard.in_main("other.txt").as_deref(), Some("x\n"));
    assert_eq!(std::fs::read_to_string(yard.repo().join("new.txt")).unwrap(), "new\n");
    assert_eq!(yard.git(&["status", "--porcelain"]), "");
    yard.has_landed_in_peace();
}

#[test]
fn what_landed_elsewhere_is_recognised_by_its_content() {
    let yard = Yard::landing(LANDS);
    let id = yard.done(&agent("w"), "squashed by hand", "s.txt", "s\n");
    assert_eq!(yard.show(&id)["landing"], "awaited");
    let branch = yard.branches().pop().unwrap();
    yard.git(&["merge", "--quiet", "--squash", &branch]);
    yard.git(&["commit", "--quiet", "-m", "by hand"]);
    let said = yard.land(&id);
    assert_eq!(said["found"][0]["task"], id.as_str(), "{said:#}");
    let task = yard.show(&id);
    assert_eq!(task["landed"], yard.at("main").as_str());
    assert!(task["landing"].is_null());
    assert_eq!(yard.kinds(&id).iter().filter(|kind| *kind == "task.landed").count(), 1);
}

#[test]
fn what_a_pull_brings_is_recognised_by_gits_own_hook() {
    let yard = Yard::landing(LANDS);
    yard.run(&human("ada"), &["guard", "install"]).ok();
    let id = yard.done(&agent("w"), "squashed on the server", "s.txt", "s\n");
    let branch = yard.branches().pop().unwrap();
    let server = yard.folder().join("server");
    yard.git(&["clone", "--quiet", ".", server.to_str().unwrap()]);
    yard.git_in(&server, &["merge", "--quiet", "--squash", &format!("origin/{branch}")]);
    yard.git_in(&server, &["commit", "--quiet", "-m", "squashed"]);
    assert_eq!(yard.show(&id)["landing"], "awaited");
    let mut git = std::process::Command::new("git");
    git.current_dir(yard.repo()).args(["pull", "--quiet", server.to_str().unwrap(), "main"]).env_clear();
    git.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", yard.folder().join("home"));
    let pulled = crate::support::Ran::of(git.env("USER", "ada").output().unwrap());
    assert_eq!(pulled.code, 0, "{pulled:?}");
    assert_eq!(yard.show(&id)["landing"], serde_json::Value::Null, "{pulled:?}");
    assert_eq!(yard.show(&id)["landed"], yard.at("main").as_str());
}

#[test]
fn a_superseded_holder_lands_nothing_however_it_asks() {
    let yard = Yard::landing(LANDS);
    let (old, new, id) = (agent("old"), agent("new"), yard.add("taken over"));
    let path = yard.claim(&old, &id);
    yard.commit_in(&path, "o.txt", "o\n");
    yard.run(&human("ada"), &["takeover", &id, "--force", "--reason", "gone"]).ok();
    yard.run(&human("ada"), &["handoff", &id, "--to", "agent:new", "--reason", "yours"]).ok();
    yard.run(&new, &["claim", &id]).ok();
    let (before, version) = (yard.at("main"), yard.show(&id)["version"].clone());
    let land = ["land", &id, "-m", "mine after all"];
    assert_eq!(yard.json(&old, &land).refused(5)["code"], "fenced");
    let own = yard.command(&old).args(land).args(["--json"]).env("ONUS_TOKEN", "1").output().unwrap();
    assert_eq!(Ran::of(own).refused(5)["code"], "fenced");
    assert_eq!((yard.at("main"), &yard.show(&id)["version"]), (before, &version));
    // Its gates and its place are the new holder's now.
    yard.json(&new, &land).ok();
    assert_eq!(yard.in_main("o.txt").as_deref(), Some("o\n"));
}

#[test]
fn what_was_replayed_does_not_conflict_with_itself() {
    let yard = Yard::landing("[land]\nstyle = \"rebase\"\n");
    let id = yard.done_in_steps(&agent("w"), "two steps", &TWO_STEPS);
    yard.commit("other.txt", "x\n");
    yard.json(&agent("lander"), &["land", &id, "--keep"]).ok();
    let landed = yard.show(&id)["landed"].clone();
    yard.commit("more.txt", "x\n");
    for style in ["--rebase", "--merge", "--squash"] {
        let again = yard.json(&agent("lander"), &["land", &id, style]);
        assert_eq!(again.refused(7)["code"], "nothing", "{style}: {again:?}");
    }
    let task = yard.show(&id);
    assert_eq!((task["state"].as_str(), &task["landed"]), (Some("done"), &landed));
}

#[test]
fn what_somebody_replayed_by_hand_is_found_and_does_not_conflict() {
    for style in ["--rebase", "--merge", "--squash"] {
        let yard = Yard::landing("[land]\nstyle = \"rebase\"\n");
        let id = yard.done_in_steps(&agent("w"), "two steps", &TWO_STEPS);
        yard.commit("other.txt", "x\n");
        let branch = yard.branches().pop().unwrap();
        yard.git(&["cherry-pick", &format!("{branch}~1"), &branch]);
        let before = yard.at("main");
        let said = yard.json(&agent("lander"), &["land", &id, style]).ok().json();
        assert_eq!(said["found"][0]["task"], id.as_str(), "{style}: {said:#}");
        let task = yard.show(&id);
        assert_eq!((task["state"].as_str(), task["landed"].as_str()), (Some("done"), Some(before.as_str())));
        assert_eq!(yard.at("main"), before, "{style}");
    }
}

#[test]
fn what_was_replayed_before_a_kill_is_there_once() {
    let yard = Yard::landing("[land]\nstyle = \"rebase\"\n");
    let id = yard.done_in_steps(&agent("w"), "two steps", &TWO_STEPS);
    let base = yard.commit("other.txt", "x\n");
    let mut land = yard.command(&agent("lander"));
    let killed = land.args(["land", &id]).env("PATH", Yard::path_with(&yard.killing_git())).output().unwrap();
    assert!(!killed.status.success(), "{killed:?}");
    assert_eq!(yard.show(&id)["landed"], serde_json::Value::Null, "the store has not heard of it");
    let again = yard.json(&agent("lander"), &["land", &id]);
    assert_eq!(again.refused(7)["code"], "nothing", "{again:?}");
    assert_eq!(yard.git(&["rev-list", "--count", &format!("{base}..main")]), "2");
    assert_eq!(yard.in_main("k.txt").as_deref(), Some("two\n"));
    let task = yard.show(&id);
    assert_eq!(
        (task["state"].as_str(), task["landed"].as_str()),
        (Some("done"), Some(yard.at("main").as_str()))
    );
    assert_eq!(yard.kinds(&id).iter().filter(|kind| *kind == "task.landed").count(), 1);
    yard.has_landed_in_peace();
}

#[test]
fn the_target_says_which_files_are_merged_by_lines() {
    let yard = Yard::landing("[land]\nunion = [\"none.md\"]\n");
    let (a, b) = (agent("a"), agent("b"));
    let id = yard.add("second");
    let path = yard.claim(&b, &id);
    yard.land(&yard.done(&a, "first", "a.txt", "one\nfirst\n"));
    yard.commit_in(&path, "a.txt", "one\nsecond\n");
    yard.commit_in(&path, "onus.toml", "[land]\nunion = [\"**\"]\n");
    let mut land = yard.command_in(&path, &b);
    land.args(["land", &id, "-m", "x", "--json"]).env("ONUS_LAND_UNION", "**");
    let refused = crate::support::Ran::of(land.output().unwrap());
    assert_eq!(refused.refused(6)["code"], "conflict", "{refused:?}");
    assert_eq!(yard.in_main("a.txt").as_deref(), Some("one\nfirst\n"));
}

#[test]
fn lines_that_two_sides_insert_anywhere_are_there_once_each() {
    let yard = Yard::landing("[land]\nunion = [\"*.md\"]\n");
    yard.commit("C.md", "# Changes\n\n## Added\n\n## Fixed\n");
    let ids: Vec<String> = ["p", "q"]
        .iter()
        .map(|name| {
            let text = format!("# Changes\n\n## Added\n- {name} added\n\n## Fixed\n- {name} fixed\n");
            yard.done(&agent(name), name, "C.md", &text)
        })
        .collect();
    yard.land(&ids[0]);
    yard.land(&ids[1]);
    let text = "# Changes\n\n## Added\n- p added\n- q added\n\n## Fixed\n- p fixed\n- q fixed\n";
    assert_eq!(yard.in_main("C.md").as_deref(), Some(text));
}
