//! Worktree and branch of a task that landed: they go with a word about what goes with them, also if the lander was killed first.

use std::path::PathBuf;

use crate::kit::Yard;
use crate::support::{agent, human};

use super::kit::LANDS;

#[test]
fn ignored_files_that_go_are_counted_and_named() {
    let yard = Yard::landing(LANDS);
    yard.commit(".gitignore", ".env\nbuild/\n*.log\n");
    let leave = |path: &PathBuf| {
        std::fs::write(path.join(".env"), "KEY=1\n").unwrap();
        std::fs::create_dir(path.join("build")).unwrap();
        std::fs::write(path.join("build/a.o"), "x").unwrap();
        for n in 0..6 {
            std::fs::write(path.join(format!("{n}.log")), "x").unwrap();
        }
    };
    let task = |name: &str| {
        let (who, id) = (agent(name), yard.add(name));
        let path = yard.claim(&who, &id);
        yard.commit_in(&path, &format!("{name}.txt"), "x\n");
        yard.finish(&who, &id);
        leave(&path);
        (id, path)
    };
    let (id, path) = task("one");
    let said = yard.land(&id);
    let removed = &said["removed"][0];
    assert_eq!((removed["path"].as_str(), removed["ignored"].as_u64()), (path.to_str(), Some(8)), "{said:#}");
    let names: Vec<&str> =
        removed["ignored_names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names, [".env", "0.log", "1.log", "2.log", "3.log"]);
    let (id, path) = task("two");
    let text = yard.run(&agent("lander"), &["land", &id]);
    let line =
        format!("removed {}; 8 ignored files or folders were deleted with it: .env, 0.log", path.display());
    assert!(text.stdout.contains(&line) && text.stdout.contains("and 3 more"), "{text:?}");
    // Whoever wants to keep them can.
    let (id, path) = task("three");
    let kept = yard.json(&agent("lander"), &["land", &id, "--keep"]).ok().json();
    assert_eq!(kept["removed"], serde_json::json!([]));
    assert!(path.join(".env").exists());
}

/// A task whose lander was killed right after the target moved: its id and its worktree.
fn killed(yard: &Yard, name: &str, args: &[&str]) -> (String, PathBuf) {
    let (who, id) = (agent(name), yard.add(name));
    let path = yard.claim(&who, &id);
    yard.commit_in(&path, &format!("{name}.txt"), "x\n");
    yard.finish(&who, &id);
    let mut land = yard.command(&agent("lander"));
    land.args(["land", &id]).args(args).env("PATH", Yard::path_with(&yard.killing_git()));
    let ended = land.output().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended.status), Some(9), "{ended:?}");
    assert!(path.exists());
    (id, path)
}

#[test]
fn whoever_comes_next_takes_away_what_a_killed_lander_could_not() {
    let next: [&[&str]; 3] = [&["land", "--queue"], &["doctor", "--fix"], &["land", "ID"]];
    for args in next {
        let yard = Yard::landing(LANDS);
        let (id, path) = killed(&yard, "one", &[]);
        assert!(!yard.branches().is_empty());
        let args: Vec<&str> =
            args.iter().map(|word| if *word == "ID" { id.as_str() } else { word }).collect();
        let ran = yard.json(&human("ada"), &args);
        assert!(matches!(ran.code, 0 | 7), "{args:?}: {ran:?}");
        assert!(!path.exists(), "{args:?}: {ran:?}");
        assert_eq!(yard.branches(), Vec::<String>::new(), "{args:?}");
        assert_eq!(yard.in_main("one.txt").as_deref(), Some("x\n"));
        assert_eq!(yard.kinds(&id).iter().filter(|kind| *kind == "task.landed").count(), 1);
        yard.has_landed_in_peace();
    }
}

#[test]
fn what_was_added_there_since_stays() {
    let yard = Yard::landing(LANDS);
    let (_, dirty) = killed(&yard, "dirty", &[]);
    std::fs::write(dirty.join("notes.txt"), "mine\n").unwrap();
    let fixed = yard.json(&human("ada"), &["doctor", "--fix"]);
    assert_eq!(fixed.code, 0, "{fixed:?}");
    assert!(fixed.stdout.contains("untracked: notes.txt"), "{fixed:?}");
    assert_eq!(std::fs::read_to_string(dirty.join("notes.txt")).unwrap(), "mine\n");
    let (_, ahead) = killed(&yard, "ahead", &[]);
    let more = yard.commit_in(&ahead, "more.txt", "more\n");
    yard.json(&human("ada"), &["doctor", "--fix"]).ok();
    assert_eq!(yard.git_in(&ahead, &["rev-parse", "HEAD"]), more);
    assert_eq!(yard.branches().len(), 2, "{:?}", yard.branches());
}

#[test]
fn what_was_to_be_kept_is_kept_and_what_did_not_land_stays() {
    let yard = Yard::landing(LANDS);
    let (_, kept) = killed(&yard, "kept", &["--keep"]);
    yard.json(&human("ada"), &["doctor", "--fix"]).ok();
    yard.json(&agent("lander"), &["land", "--queue"]).refused(7);
    assert!(kept.exists());
    // Killed before its target moved: it lands, once, and then goes.
    let (who, id) = (agent("w"), yard.add("early"));
    let path = yard.claim(&who, &id);
    yard.commit_in(&path, "early.txt", "x\n");
    yard.finish(&who, &id);
    let (bin, stopped, _) = yard.stopping_git();
    let mut land = yard.command(&agent("lander"));
    let mut child = land.args(["land", &id]).env("PATH", Yard::path_with(&bin)).spawn().unwrap();
    crate::support::eventually("it comes to its last step", || stopped.exists().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    // The git that it had started waits for ever: whoever settles is first.
    let mut doctor = yard.command(&human("ada"));
    doctor.args(["doctor", "--fix"]).output().unwrap();
    assert!(path.exists());
    assert_eq!(yard.in_main("early.txt"), None);
    yard.land(&id);
    assert!(!path.exists());
    assert_eq!(yard.in_main("early.txt").as_deref(), Some("x\n"));
}
