//! The queue: everything that is done, in order, together where it can be, in halves where it fails.

use std::process::Stdio;

use crate::kit::Yard;
use crate::support::{Ran, agent, eventually, human};

use super::kit::LANDS;

#[test]
fn what_does_not_conflict_lands_in_one_step_and_log_lines_of_all_are_kept() {
    let yard = Yard::landing(LANDS);
    let mut ids = Vec::new();
    for n in 0..4 {
        let (who, id) = (agent(&format!("w{n}")), yard.add(&format!("task {n}")));
        let path = yard.claim(&who, &id);
        yard.append(&path, "LOG.md", &format!("- {id}"));
        yard.commit_in(&path, &format!("{n}.txt"), "x\n");
        yard.finish(&who, &id);
        ids.push(id);
    }
    let moves = || yard.git(&["reflog", "show", "--format=%gs", "main"]).lines().count();
    let before = moves();
    let said = yard.json(&agent("lander"), &["land", "--queue"]).ok().json();
    assert_eq!(said["landed"].as_array().unwrap().len(), 4, "{said:#}");
    assert_eq!(moves() - before, 1, "the branch moved once");
    let log = yard.in_main("LOG.md").unwrap();
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(log.lines().filter(|line| *line == format!("- {id}")).count(), 1, "{log}");
        assert!(yard.in_main(&format!("{n}.txt")).is_some());
    }
    assert_eq!(yard.json(&agent("lander"), &["land", "--queue"]).refused(7)["code"], "nothing");
    yard.has_landed_in_peace();
}

#[test]
fn one_that_fails_is_found_by_halves_and_the_others_land() {
    let config = "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"no-bad\"\nstage = \"land\"\nrun = [\"test\", \"!\", \"-e\", \"bad\"]\n";
    let yard = Yard::landing(config);
    for n in 0..5 {
        let file = if n == 3 { "bad".to_owned() } else { format!("{n}.txt") };
        yard.done(&agent(&format!("w{n}")), &format!("task {n}"), &file, "x\n");
    }
    let ran = yard.json(&agent("lander"), &["land", "--queue"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    let said = ran.json();
    assert_eq!(said["landed"].as_array().unwrap().len(), 4, "{said:#}");
    assert_eq!(said["refused"][0]["task"], "ON-4");
    assert_eq!(said["refused"][0]["reopened"], true);
    assert_eq!(yard.in_main("bad"), None);
    for commit in yard.history() {
        let listed = yard.git(&["ls-tree", "--name-only", &commit]);
        assert!(!listed.lines().any(|name| name == "bad"), "{commit} was never checked");
    }
    yard.has_landed_in_peace();
}

#[test]
fn who_depends_on_a_task_waits_until_it_has_landed() {
    let yard = Yard::landing(LANDS);
    let first = yard.done(&agent("a"), "first", "first.txt", "1\n");
    let second = yard.json(&human("ada"), &["add", "second", "--dep", &first]).ok().json();
    let second = second["id"].as_str().unwrap();
    let refused = yard.json(&agent("b"), &["claim", second]);
    let error = refused.refused(6);
    assert_eq!(error["code"], "unmet");
    let why = yard.run(&agent("b"), &["why", second]);
    assert!(why.stdout.contains(&format!("onus land {first}")), "{}", why.stdout);
    yard.land(&first);
    let path = yard.claim(&agent("b"), second);
    assert!(path.join("first.txt").exists(), "its branch begins with what it depends on");
}

#[test]
fn with_deps_met_done_nobody_waits_for_a_landing() {
    let yard = Yard::landing("[land]\nstyle = \"merge\"\n\n[deps]\nmet = \"done\"\n");
    let first = yard.done(&agent("a"), "first", "first.txt", "1\n");
    let second = yard.json(&human("ada"), &["add", "second", "--dep", &first]).ok().json();
    yard.json(&agent("b"), &["claim", second["id"].as_str().unwrap()]).ok();
    assert_eq!(yard.show(&first)["landing"], "awaited");
    yard.json(&agent("lander"), &["land", "--queue"]).ok();
    assert_eq!(yard.in_main("first.txt").as_deref(), Some("1\n"));
}

#[test]
fn what_depends_on_one_that_was_sent_back_waits_for_it() {
    let yard = Yard::landing("[land]\nstyle = \"merge\"\n\n[deps]\nmet = \"done\"\n");
    let first = yard.done(&agent("a"), "first", "a.txt", "first\n");
    let ids: Vec<String> = ["second", "third"]
        .iter()
        .scan(first.clone(), |dependency, title| {
            let added = yard.json(&human("ada"), &["add", title, "--dep", dependency]).ok().json();
            let id = added["id"].as_str().unwrap().to_owned();
            let path = yard.claim(&agent(title), &id);
            yard.commit_in(&path, &format!("{title}.txt"), "x\n");
            yard.finish(&agent(title), &id);
            dependency.clone_from(&id);
            Some(id)
        })
        .collect();
    yard.commit("a.txt", "another\n");
    let before = yard.at("main");
    for args in [&["land", "--queue", "--check"][..], &["land", "--queue"]] {
        let ran = yard.json(&agent("lander"), args);
        assert_eq!(ran.code, 6, "{ran:?}");
        let said = ran.json();
        assert_eq!(said["landed"], serde_json::json!([]), "{said:#}");
        let refused = said["refused"].as_array().unwrap().iter();
        let told: Vec<(&str, &str)> =
            refused.map(|it| (it["task"].as_str().unwrap(), it["error"]["code"].as_str().unwrap())).collect();
        assert_eq!(told, [(first.as_str(), "conflict"), (&ids[0], "unmet"), (&ids[1], "unmet")]);
        assert_eq!(yard.at("main"), before);
    }
    // Nor while the first is open again: a person may say otherwise, and that is recorded.
    for args in [&["land", ids[0].as_str()][..], &["land", "--queue"]] {
        let ran = yard.json(&agent("lander"), args);
        assert_eq!(ran.code, 6, "{ran:?}");
        assert!(ran.stdout.contains(&format!("depends on {first}")), "{ran:?}");
        assert_eq!(yard.at("main"), before);
    }
    let path = yard.claim(&agent("a"), &first);
    yard.git_in(&path, &["merge", "--quiet", "-s", "ours", "main"]);
    yard.finish(&agent("a"), &first);
    let said = yard.json(&agent("lander"), &["land", "--queue"]).ok().json();
    assert_eq!(said["landed"].as_array().unwrap().len(), 3, "{said:#}");
    yard.has_landed_in_peace();
}

/// Its branch has what the other's gate keeps out.
#[test]
fn what_stands_on_a_task_that_has_not_landed_does_not_carry_it_along() {
    for met in ["done", "landed"] {
        let gate = "[[gate]]\nkey = \"sign\"\nkind = \"manual\"\nstage = \"land\"\nonly_named = true\n";
        let yard = Yard::landing(&format!("[land]\nstyle = \"merge\"\n\n[deps]\nmet = \"{met}\"\n\n{gate}"));
        let first = yard.json(&human("ada"), &["add", "first", "--gate", "sign"]).ok().json();
        let (first, second) = (first["id"].as_str().unwrap().to_owned(), yard.add("second"));
        let (a, b) = (agent("a"), agent("b"));
        let of_first = yard.claim(&a, &first);
        yard.commit_in(&of_first, "first.txt", "1\n");
        yard.finish(&a, &first);
        let path = yard.claim(&b, &second);
        yard.git_in(&path, &["merge", "--quiet", "onus/ON-1-first"]);
        yard.commit_in(&path, "second.txt", "2\n");
        yard.finish(&b, &second);
        yard.run(&human("ada"), &["dep", "add", &second, &first]).ok();
        let before = yard.at("main");
        for args in [&["land", second.as_str()][..], &["land", &second, "--check"], &["land", "--queue"]] {
            let ran = yard.json(&b, args);
            assert_eq!(ran.code, 6, "{met}: {args:?}: {ran:?}");
            assert!(ran.stdout.contains(&format!("{second} depends on {first}")), "{met}: {ran:?}");
            assert_eq!(
                (yard.at("main"), yard.show(&second)["state"].as_str()),
                (before.clone(), Some("done"))
            );
        }
        let mut sign = yard.command(&human("ada"));
        let signed = sign.current_dir(&of_first).args(["gate", "pass", &first, "sign"]).output().unwrap();
        Ran::of(signed).ok();
        let said = yard.json(&agent("lander"), &["land", "--queue"]).ok().json();
        assert_eq!(said["landed"].as_array().unwrap().len(), 2, "{met}: {said:#}");
        yard.has_landed_in_peace();
    }
}

#[test]
fn one_that_landed_and_was_reopened_lands_again_without_a_branch() {
    let yard = Yard::landing(LANDS);
    let (a, id) = (agent("a"), yard.done(&agent("a"), "first", "first.txt", "1\n"));
    yard.land(&id);
    yard.run(&human("ada"), &["reopen", &id, "-m", "was it all?"]).ok();
    yard.run(&a, &["done", &id, "-m", "it was"]).ok();
    let next = yard.json(&human("ada"), &["add", "next", "--dep", &id]).ok().json();
    let next = next["id"].as_str().unwrap();
    assert_eq!(yard.json(&agent("b"), &["claim", next]).refused(6)["code"], "unmet");
    let before = yard.at("main");
    let said = yard.json(&agent("lander"), &["land", &id]).ok().json();
    assert_eq!((said["found"][0]["task"].as_str(), yard.at("main")), (Some(id.as_str()), before), "{said:#}");
    yard.json(&agent("b"), &["claim", next]).ok();
    // What was committed since, on a branch that somebody deleted, is not there.
    yard.run(&human("ada"), &["reopen", &id, "-m", "more"]).ok();
    let path = yard.claim(&a, &id);
    yard.commit_in(&path, "more.txt", "2\n");
    yard.finish(&a, &id);
    yard.git(&["worktree", "remove", "--force", path.to_str().unwrap()]);
    let branch = yard.show(&id)["branch"].as_str().unwrap().to_owned();
    yard.git(&["branch", "--quiet", "-D", &branch]);
    assert_eq!(yard.json(&agent("lander"), &["land", &id]).refused(3)["code"], "not_found");
}

#[test]
fn a_watcher_does_not_spin_on_what_cannot_land_and_ends_when_told() {
    let yard = Yard::landing(LANDS);
    let stuck = yard.add("first");
    let path = yard.claim(&agent("a"), &stuck);
    yard.commit_in(&path, "first.txt", "1\n");
    yard.finish(&agent("a"), &stuck);
    let branch = yard.show(&stuck)["branch"].as_str().unwrap().to_owned();
    yard.git(&["worktree", "remove", "--force", path.to_str().unwrap()]);
    yard.git(&["branch", "--quiet", "-D", &branch]);
    let count = || yard.json(&human("ada"), &["ledger", "verify"]).ok().json()["events"].as_u64().unwrap();
    let mut watch = yard.command(&agent("lander"));
    let mut watcher = watch
        .args(["land", "--queue", "--watch"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let before = count();
    eventually("its first try", || (count() > before).then_some(()));
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert!(count() - before < 20, "{} events in a moment", count() - before);
    // Another that can land does so at once.
    let other = yard.done(&agent("b"), "second", "second.txt", "2\n");
    eventually("the other to land", || yard.show(&other)["landed"].as_str().map(drop));
    let pid = rustix::process::Pid::from_child(&watcher);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let code = eventually("its end", || watcher.try_wait().unwrap());
    use std::os::unix::process::ExitStatusExt as _;
    assert!(code.code() == Some(128 + 15) || code.signal() == Some(15), "{code:?}");
    assert_eq!(yard.show(&stuck)["state"], "done");
}

#[test]
fn a_person_may_land_what_depends_on_something_open() {
    let yard = Yard::landing("[land]\nstyle = \"merge\"\n\n[deps]\nmet = \"done\"\n");
    let first = yard.done(&agent("a"), "first", "a.txt", "first\n");
    let second = yard.done(&agent("b"), "second", "b.txt", "x\n");
    yard.run(&human("ada"), &["dep", "add", &second, &first]).ok();
    yard.run(&human("ada"), &["reopen", &first, "-m", "not yet"]).ok();
    assert_eq!(yard.json(&human("ada"), &["land", &second]).refused(6)["code"], "unmet");
    yard.json(&human("ada"), &["land", &second, "--force", "--reason", "it stands alone"]).ok();
    assert_eq!(yard.in_main("b.txt").as_deref(), Some("x\n"));
    assert!(yard.kinds(&second).iter().any(|kind| kind == "rule.overridden"), "{:?}", yard.kinds(&second));
}

#[test]
fn a_second_conflict_in_one_queue_is_told_and_the_first_lands() {
    let yard = Yard::landing(LANDS);
    let a = yard.done(&agent("a"), "first", "a.txt", "first\n");
    let b = yard.done(&agent("b"), "second", "a.txt", "second\n");
    let c = yard.done(&agent("c"), "third", "c.txt", "third\n");
    let ran = yard.json(&agent("lander"), &["land", "--queue"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    let said = ran.json();
    let landed: Vec<&str> =
        said["landed"].as_array().unwrap().iter().map(|landed| landed["task"].as_str().unwrap()).collect();
    assert_eq!(landed, [a.as_str(), c.as_str()]);
    assert_eq!(said["refused"][0]["task"], b.as_str());
    assert_eq!(said["refused"][0]["error"]["code"], "conflict");
    // By then its checkout has what landed: the branch itself is what is to be merged.
    let next = said["refused"][0]["error"]["next"][0].as_str().unwrap().to_owned();
    assert!(next.contains("agent:b goes on") && next.contains("merges main there"), "{next}");
    assert_eq!(yard.show(&b)["state"], "open");
    assert_eq!(yard.in_main("a.txt").as_deref(), Some("first\n"));
    yard.has_landed_in_peace();
}

#[test]
fn the_queue_knows_what_waits_also_where_nothing_is_said_about_landing() {
    let yard = Yard::landing("");
    let first = yard.done(&agent("a"), "first", "first.txt", "1\n");
    let second = yard.json(&human("ada"), &["add", "second", "--dep", &first]).ok().json();
    yard.json(&agent("b"), &["claim", second["id"].as_str().unwrap()]).ok();
    let said = yard.json(&agent("lander"), &["land", "--queue"]).ok().json();
    assert_eq!(said["landed"][0]["task"], first.as_str());
}

#[test]
fn whoever_waited_for_its_turn_and_finds_nothing_left_says_so() {
    for json in [true, false] {
        let yard = Yard::landing(LANDS);
        let id = yard.done(&agent("a"), "first", "first.txt", "1\n");
        let (bin, stopped, go) = yard.stopping_git();
        let mut first = yard.command(&agent("one"));
        first.args(["land", &id]).env("PATH", Yard::path_with(&bin));
        let first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        eventually("the first comes to its last step", || stopped.exists().then_some(()));
        let told = yard.folder().join("told");
        let mut second = yard.command(&agent("two"));
        second.args(["land", "--queue"]).args(json.then_some("--json"));
        let second =
            second.stdout(Stdio::piped()).stderr(std::fs::File::create(&told).unwrap()).spawn().unwrap();
        eventually("the second waits for its turn", || {
            std::fs::read_to_string(&told).unwrap().contains("waiting for my turn").then_some(())
        });
        std::fs::write(go, "").unwrap();
        assert!(first.wait_with_output().unwrap().status.success());
        let ended = Ran::of(second.wait_with_output().unwrap());
        assert_eq!(ended.code, 7, "{ended:?}");
        let said = match json {
            true => ended.refused(7)["message"].as_str().unwrap().to_owned(),
            false => std::fs::read_to_string(&told).unwrap(),
        };
        assert!(said.contains("nothing waits to land in main"), "{said}");
    }
}

/// Gates ran on the result: no other commit says that it passed.
#[test]
fn only_the_commit_that_passed_says_so() {
    for (style, commits) in [("merge", 3), ("squash", 3), ("rebase", 6)] {
        let config = format!(
            "[land]\nstyle = \"{style}\"\n\n[[gate]]\nkey = \"ok\"\nstage = \"land\"\nrun = [\"true\"]\n"
        );
        let yard = Yard::landing(&config);
        let base = yard.at("main");
        for n in 0..3 {
            let (who, id) = (agent(&format!("w{n}")), yard.add(&format!("task {n}")));
            let path = yard.claim(&who, &id);
            yard.commit_in(&path, &format!("{n}.txt"), "x\n");
            yard.commit_in(&path, &format!("{n}.more"), "x\n");
            yard.finish(&who, &id);
        }
        let said = yard.json(&agent("lander"), &["land", "--queue"]).ok().json();
        assert_eq!(said["landed"].as_array().unwrap().len(), 3, "{said:#}");
        let gates = "--format=%H %(trailers:key=Onus-Gates,valueonly,separator=%x2C)";
        let range = format!("{base}..main");
        let listed = yard.git(&["log", "--first-parent", gates, &range]);
        let listed: Vec<&str> = listed.lines().map(str::trim).collect();
        assert_eq!(listed.len(), commits, "{style}: {listed:?}");
        assert_eq!(listed[0], format!("{} ok", yard.at("main")), "{style}");
        assert!(listed[1..].iter().all(|line| !line.contains(' ')), "{style}: {listed:?}");
        // Each says whose it is, and the record has the gates of all.
        let tasks =
            yard.git(&["log", "--first-parent", "--format=%(trailers:key=Onus-Task,valueonly)", &range]);
        assert_eq!(tasks.split_whitespace().count(), commits, "{style}: {tasks}");
        assert!(said["landed"].as_array().unwrap().iter().all(|landed| landed["gates"][0] == "ok"));
        yard.has_landed_in_peace();
    }
}
