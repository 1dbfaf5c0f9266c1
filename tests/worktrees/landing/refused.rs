//! What must not land, what a server refuses, and where one lands from: nothing is left behind by any of it.

use std::process::Command;

use crate::kit::Yard;
use crate::support::{Ran, agent, human, program};

use super::kit::LANDS;

/// Its branch is in main as it began: what was worked on is in no commit, and would be called landed.
#[test]
fn work_that_is_in_no_commit_has_not_landed() {
    let yard = Yard::landing(LANDS);
    let (ada, id) = (human("ada"), yard.add("forgot to commit"));
    let path = yard.claim(&ada, &id);
    std::fs::write(path.join("work.txt"), "work\n").unwrap();
    yard.run(&ada, &["done", &id, "-m", "did it"]).ok();
    for args in [&["land", &id][..], &["land", "--queue"]] {
        let ran = yard.json(&agent("lander"), args);
        let said = ran.json().to_string();
        assert!(ran.code == 6 && said.contains("uncommitted") && said.contains("work.txt"), "{ran:?}");
    }
    assert!(!yard.kinds(&id).contains(&"task.landed".to_owned()));
    yard.commit_in(&path, "work.txt", "work\n");
    yard.land(&id);
    assert_eq!(yard.in_main("work.txt").as_deref(), Some("work\n"));
    // What needed no commit is not held up.
    let id = yard.add("nothing to change");
    yard.claim(&ada, &id);
    yard.run(&ada, &["done", &id, "-m", "as it should be"]).ok();
    yard.run(&agent("lander"), &["land", &id]).ok();
}

#[test]
fn what_onus_could_not_read_does_not_land() {
    for (text, place) in [
        ("[land\nstyle = \"merge\"\n", "onus.toml:1:"),
        (
            "[land]\nstyle = \"merge\"\n\n[[gate]]\nkey = \"x\"\nstage = \"never\"\nrun = [\"true\"]\n",
            "onus.toml:",
        ),
        ("[land]\nstyle = \"sideways\"\n", "onus.toml:2:"),
    ] {
        let yard = Yard::landing(LANDS);
        let broken = yard.done(&agent("a"), "breaks it", "onus.toml", text);
        let (before, version) = (yard.at("main"), yard.show(&broken)["version"].clone());
        let refused = yard.json(&agent("lander"), &["land", &broken]);
        let error = refused.refused(6);
        assert_eq!(error["code"], "not_allowed", "{text}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&broken) && message.contains(place), "{text}: {message}");
        assert_eq!((yard.at("main"), &yard.show(&broken)["version"]), (before, &version), "{text}");
        // Others land past it, and everybody can still work.
        let good = yard.done(&agent("b"), "good", "good.txt", "x\n");
        let ran = yard.json(&agent("lander"), &["land", "--queue"]);
        assert_eq!((ran.code, ran.json()["landed"][0]["task"].as_str()), (6, Some(good.as_str())), "{ran:?}");
        assert_eq!(yard.in_main("onus.toml").as_deref(), Some(LANDS));
        yard.run(&human("ada"), &["status"]).ok();
        yard.has_landed_in_peace();
    }
}

#[test]
fn two_sides_that_can_be_read_may_not_be_readable_together() {
    let config = "[land]\nunion = [\"onus.toml\"]\n";
    let yard = Yard::landing(config);
    let ids: Vec<String> = ["done", "landed"]
        .iter()
        .map(|met| yard.done(&agent(met), met, "onus.toml", &format!("{config}\n[deps]\nmet = \"{met}\"\n")))
        .collect();
    yard.land(&ids[0]);
    let before = yard.at("main");
    let refused = yard.json(&agent("lander"), &["land", &ids[1]]);
    let message = refused.refused(6)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("onus.toml:7:") && message.contains("set twice"), "{message}");
    assert_eq!(yard.at("main"), before);
    yard.has_landed_in_peace();
}

#[test]
fn a_link_in_place_of_the_configuration_does_not_land() {
    let yard = Yard::landing(LANDS);
    let (who, id) = (agent("a"), yard.add("a link"));
    let path = yard.claim(&who, &id);
    std::fs::remove_file(path.join("onus.toml")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", path.join("onus.toml")).unwrap();
    yard.git_in(&path, &["commit", "--quiet", "-am", "link"]);
    // In that folder nothing can be read any more; elsewhere, it can.
    yard.finish(&who, &id);
    let refused = yard.json(&agent("lander"), &["land", &id]);
    assert!(refused.refused(6)["message"].as_str().unwrap().contains("not a regular file"), "{refused:?}");
    assert_eq!(yard.in_main("onus.toml").as_deref(), Some(LANDS));
}

/// A repository that lands in a server's branch, and the server.
fn with_server() -> (Yard, std::path::PathBuf) {
    let yard = Yard::landing("[land]\nremote = \"origin\"\n");
    let bare = yard.folder().join("bare.git");
    yard.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    yard.git(&["remote", "add", "origin", bare.to_str().unwrap()]);
    yard.git(&["fetch", "--quiet", "origin"]);
    (yard, bare)
}

#[test]
fn a_server_that_refuses_leaves_no_intent_anywhere() {
    const PRE_RECEIVE: &str = "#!/bin/sh\nwhile read -r old new name; do\n  \
        case $name in refs/heads/main) echo 'main is protected'; exit 1;; esac\ndone\n";
    const UPDATE: &str =
        "#!/bin/sh\n[ \"$1\" != refs/heads/main ] || { echo 'main is protected'; exit 1; }\n";
    // The second of two tasks is refused before it can begin: the first was begun already.
    const SECOND: &str =
        "#!/bin/sh\n[ \"$1\" != refs/onus/landing/ON-2 ] || { echo 'main is protected'; exit 1; }\n";
    for (hook, script) in [("pre-receive", PRE_RECEIVE), ("update", UPDATE), ("update", SECOND)] {
        let (yard, bare) = with_server();
        let ids: Vec<String> = ["one", "two"]
            .iter()
            .map(|name| yard.done(&agent(name), name, &format!("{name}.txt"), "x\n"))
            .collect();
        let before = yard.git_in(&bare, &["rev-parse", "main"]);
        let file = bare.join("hooks").join(hook);
        program(&file, script);
        let tries: &[&[&str]] = if script == SECOND {
            &[&["land", "--queue"]]
        } else {
            &[&["land", &ids[0]], &["land", "--queue"]]
        };
        for args in tries {
            let refused = yard.json(&agent("lander"), args);
            let error = refused.refused(6);
            assert_eq!(error["code"], "not_allowed", "{script}: {refused:?}");
            assert!(error["message"].as_str().unwrap().contains("main is protected"), "{error}");
            assert_eq!(yard.git_in(&bare, &["rev-parse", "main"]), before);
            assert_eq!(yard.git_in(&bare, &["for-each-ref", "refs/onus/"]), "", "{script}");
            assert_eq!(yard.intents(), Vec::<String>::new());
            for id in &ids {
                let task = yard.show(id);
                assert_eq!(
                    (task["state"].as_str(), task["landing"].as_str()),
                    (Some("done"), Some("awaited"))
                );
                let kinds = yard.kinds(id);
                let count = |kind: &str| kinds.iter().filter(|it| *it == kind).count();
                assert_eq!(count("landing.intended"), count("landing.withdrawn"), "{script}: {kinds:?}");
            }
        }
        std::fs::remove_file(file).unwrap();
        let said = yard.json(&agent("lander"), &["land", "--queue"]).ok().json();
        assert_eq!(said["landed"].as_array().unwrap().len(), 2, "{said:#}");
        assert_eq!(yard.git_in(&bare, &["for-each-ref", "refs/onus/"]), "");
    }
}

#[test]
fn what_landed_before_a_server_refused_is_told() {
    const SECOND: &str =
        "#!/bin/sh\n[ \"$1\" != refs/onus/landing/ON-2 ] || { echo 'main is protected'; exit 1; }\n";
    let (yard, bare) = with_server();
    // What changes the rules lands alone, so that there are two steps.
    let config = "# rules\n[land]\nremote = \"origin\"\n";
    let first = yard.done(&agent("one"), "rules", "onus.toml", config);
    let [second, third] =
        ["two", "three"].map(|name| yard.done(&agent(name), name, &format!("{name}.txt"), "x\n"));
    program(&bare.join("hooks/update"), SECOND);
    let ran = yard.json(&agent("lander"), &["land", "--queue"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    let said = ran.json();
    assert_eq!(said["landed"][0]["task"], first.as_str(), "{said:#}");
    assert_eq!(said["landed"].as_array().unwrap().len(), 1);
    let refused =
        |n: usize| (said["refused"][n]["task"].as_str(), said["refused"][n]["error"]["message"].as_str());
    assert_eq!(refused(0).0, Some(second.as_str()));
    assert!(refused(0).1.unwrap().contains("main is protected"), "{said:#}");
    assert_eq!(refused(1).0, Some(third.as_str()));
    assert!(refused(1).1.unwrap().contains("was not tried"), "{said:#}");
    assert_eq!(yard.git_in(&bare, &["show", "main:onus.toml"]), config.trim_end());
    std::fs::remove_file(bare.join("hooks/update")).unwrap();
    let said = yard.json(&agent("lander"), &["land", "--queue"]).ok().json();
    assert_eq!(said["landed"].as_array().unwrap().len(), 2, "{said:#}");
}

/// Then the intent stays there; nobody else is kept from landing by that, and it goes as soon as the server lets it.
#[test]
fn a_server_that_deletes_nothing_of_ours_stops_one_task_and_not_the_others() {
    const KEEPS: &str = "#!/bin/sh\ncase $1:$3 in refs/onus/landing/ON-1:000*) echo 'deletions need an admin' >&2; exit 1;; esac\n";
    let (yard, bare) = with_server();
    let [first, second] =
        ["one", "two"].map(|name| yard.done(&agent(name), name, &format!("{name}.txt"), "x\n"));
    program(&bare.join("hooks/update"), KEEPS);
    let refused = yard.json(&agent("lander"), &["land", &first]);
    let error = refused.refused(6);
    assert_eq!(error["code"], "not_allowed", "{refused:?}");
    assert!(error["message"].as_str().unwrap().contains("deletions need an admin"), "{error}");
    yard.json(&agent("lander"), &["land", &second]).ok();
    assert_eq!(yard.git_in(&bare, &["show", "main:two.txt"]), "x");
    std::fs::remove_file(bare.join("hooks/update")).unwrap();
    yard.json(&agent("lander"), &["land", &first]).ok();
    assert_eq!(yard.git_in(&bare, &["show", "main:one.txt"]), "x");
    assert_eq!(yard.git_in(&bare, &["for-each-ref", "refs/onus/"]), "");
}

#[test]
fn landing_from_a_detached_checkout_moves_the_branch_and_nothing_else() {
    let yard = Yard::landing(LANDS);
    let (a, b) =
        (yard.done(&agent("a"), "a", "one.txt", "1\n"), yard.done(&agent("b"), "b", "two.txt", "2\n"));
    yard.git(&["checkout", "--quiet", "--detach"]);
    std::fs::write(yard.repo().join("LOG.md"), "# log\nmine\n").unwrap();
    let (head, before) = (yard.at("HEAD"), yard.at("main"));
    let said = yard.land(&a);
    assert_eq!(said["checkouts"], serde_json::json!([]), "{said:#}");
    assert_eq!(yard.at("main"), said["landed"][0]["commit"].as_str().unwrap());
    assert_eq!((yard.at("HEAD"), yard.at("main^1")), (head.clone(), before));
    assert_eq!(std::fs::read_to_string(yard.repo().join("LOG.md")).unwrap(), "# log\nmine\n");
    assert!(!yard.repo().join("one.txt").exists());
    assert_eq!(yard.git(&["for-each-ref", "refs/onus/"]), "");
    // From a detached worktree beside it, and the queue, which has to be told where to.
    let side = yard.folder().join("side");
    yard.git(&["worktree", "add", "--quiet", "--detach", side.to_str().unwrap(), "main"]);
    let there = |args: &[&str]| {
        Ran::of(yard.command_in(&side, &agent("lander")).args(args).arg("--json").output().unwrap())
    };
    let said = there(&["land", "--queue", "--onto", "main"]).ok().json();
    assert_eq!(said["landed"][0]["task"], b.as_str());
    assert_eq!((yard.at("HEAD"), yard.in_main("two.txt").as_deref()), (head, Some("2\n")));
    assert!(!side.join("two.txt").exists());
    yard.has_landed_in_peace();
}

#[test]
fn a_branch_does_not_land_in_itself() {
    let yard = Yard::landing(LANDS);
    let id = yard.done(&agent("a"), "a", "one.txt", "1\n");
    let branch = yard.branches().pop().unwrap();
    for args in [&["land", &id, "--onto", &branch][..], &["land", &id, "--check", "--onto", &branch]] {
        let error = yard.json(&agent("lander"), args).refused(2);
        assert!(error["message"].as_str().unwrap().contains("cannot land in itself"), "{error}");
    }
    assert_eq!(yard.show(&id)["landing"], "awaited");
    assert_eq!(yard.branches(), [branch]);
}

#[test]
fn a_placeholder_that_stands_for_nothing_is_refused_with_those_that_there_are() {
    let yard = Yard::landing(LANDS);
    let config = "[land]\npr = [\"gh\", \"pr\", \"create\", \"--head\", \"{brnach}\"]\n";
    std::fs::write(yard.repo().join("onus.toml"), config).unwrap();
    let error = yard.json(&human("ada"), &["status"]).refused(2);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("onus.toml:2:"), "{message}");
    for known in ["{branch}", "{target}", "{id}", "{title}"] {
        assert!(message.contains(known), "{message}");
    }
    // Other braces are the command's own.
    let config = "[land]\npr = [\"sh\", \"-c\", \"jq '{head: .x}' {branch} {} ${HOME}\"]\n";
    std::fs::write(yard.repo().join("onus.toml"), config.replace("${HOME}", "")).unwrap();
    yard.json(&human("ada"), &["status"]).ok();
    let own =
        yard.command(&human("ada")).env("ONUS_LAND_PR", "gh,{brnach}").args(["status", "--json"]).output();
    let message = Ran::of(own.unwrap()).refused(2)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("{brnach}") && message.contains("{branch}"), "{message}");
}

#[test]
fn a_branch_whose_name_is_no_text_is_named_as_that() {
    let yard = Yard::landing(LANDS);
    let side = yard.folder().join("side");
    let script = format!("git worktree add --quiet -b \"$(printf 'caf\\351')\" '{}' main", side.display());
    let made = Command::new("sh").args(["-c", &script]).current_dir(yard.repo()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let (who, id) = (agent("a"), yard.add("odd"));
    yard.run(&who, &["claim", &id]).ok();
    let refused = yard.json(&who, &["worktree", "adopt", side.to_str().unwrap(), "--task", &id]);
    let message = refused.refused(2)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("not UTF-8") && message.contains("git branch -m"), "{message}");
    assert!(yard.show(&id)["branch"].is_null());
    // As a target: the checkout's own branch is what tasks would land in.
    let script = "git switch --quiet -c \"$(printf 'main\\351')\"";
    let made = Command::new("sh").args(["-c", script]).current_dir(yard.repo()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let other = yard.add("other");
    let refused = yard.json(&agent("b"), &["claim", &other, "--worktree"]);
    assert!(refused.refused(2)["message"].as_str().unwrap().contains("not UTF-8"), "{refused:?}");
    assert!(yard.show(&other)["lease"].is_null());
}
