//! A claim with a worktree.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::kit::Yard;
use crate::support::{Ran, agent, human, program};

#[test]
fn a_claim_with_a_worktree_has_a_folder_beside_the_repository_on_a_branch_of_the_tasks_own() {
    let yard = Yard::new();
    let (a, id) = (agent("a"), yard.add("Fix the login: it's «broken»/../x"));
    let claimed = yard.json(&a, &["claim", &id, "--worktree"]).ok().json();
    let path = yard.claim(&a, &id);
    assert_eq!(path, yard.root().join("ON-1-fix-the-login-it-s-broken-x"));
    assert_eq!(claimed["worktree"]["path"], path.to_str().unwrap());
    assert_eq!(claimed["lease"]["worktree"], path.to_str().unwrap());
    let task = yard.show(&id);
    assert_eq!(task["branch"], "onus/ON-1-fix-the-login-it-s-broken-x");
    assert_eq!((&task["target"], &task["base"]), (&"main".into(), &yard.git(&["rev-parse", "main"]).into()));
    assert_eq!(yard.git_in(&path, &["branch", "--show-current"]), task["branch"].as_str().unwrap());
    // The second claim renewed it and went on there.
    let kinds = yard.kinds(&id);
    for kind in ["task.branched", "lease.attached", "lease.acquired"] {
        assert_eq!(kinds.iter().filter(|it| *it == kind).count(), 1, "{kinds:?}");
    }
    let rebuilt = yard.json(&human("ada"), &["ledger", "rebuild"]).ok().json();
    assert_eq!(rebuilt["changed"], serde_json::json!({}), "{rebuilt}");
    yard.is_at_rest();
}

#[test]
fn worktree_creation_failed_work_silently_went_on_in_the_shared_checkout() {
    let yard = Yard::new();
    let (a, id) = (agent("a"), yard.add("one"));
    let before = yard.git(&["for-each-ref"]);
    fs::create_dir_all(yard.root().join("ON-1-one")).unwrap();
    fs::write(yard.root().join("ON-1-one/mine.txt"), "kept").unwrap();
    let refused = yard.json(&a, &["claim", &id, "--worktree"]).refused(6);
    assert!(refused["message"].as_str().unwrap().contains("ON-1-one already"), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("released"), "{refused}");
    let task = yard.show(&id);
    assert_eq!((&task["lease"], &task["state"], &task["branch"]), (&().into(), &"open".into(), &().into()));
    assert!(task["last_word"]["text"].as_str().unwrap().contains("no worktree could be made"), "{task:#}");
    assert_eq!(fs::read_to_string(yard.root().join("ON-1-one/mine.txt")).unwrap(), "kept");
    assert_eq!(yard.git(&["for-each-ref"]), before);
    // And no command ran in the shared checkout.
    let ran = yard.run(&a, &["run", &id, "--worktree", "--", "touch", "ran"]);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(!yard.repo().join("ran").exists());
    fs::remove_dir_all(yard.root()).unwrap();
    yard.run(&a, &["run", &id, "--worktree", "--on-success", "release", "--", "touch", "ran"]).ok();
    assert!(yard.root().join("ON-1-one/ran").exists() && !yard.repo().join("ran").exists());
}

#[test]
fn what_cannot_be_begun_is_refused_before_anything_is_claimed() {
    let yard = Yard::bare_ground();
    let (a, id) = (agent("a"), yard.add("one"));
    let refused = yard.json(&a, &["claim", &id, "--worktree"]).refused(6);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("there is no branch main here, or it has no commit yet"),
        "{refused}"
    );
    yard.commit("a.txt", "one\n");
    yard.git(&["checkout", "--quiet", "--detach"]);
    let refused = yard.json(&a, &["claim", &id, "--worktree"]).refused(6);
    assert!(refused["message"].as_str().unwrap().contains("no branch is checked out"), "{refused}");
    let inside = yard.repo().to_str().unwrap().to_owned();
    let ran = yard.command(&a).env("ONUS_WORKTREE_ROOT", inside).args(["claim", &id, "--worktree"]).output();
    assert_eq!(Ran::of(ran.unwrap()).code, 2);
    assert!(!yard.kinds(&id).contains(&"lease.acquired".to_owned()));
    // The target may be named.
    let ran =
        yard.command(&a).env("ONUS_WORKTREE_TARGET", "main").args(["claim", &id, "--worktree"]).output();
    Ran::of(ran.unwrap()).ok();
    yard.is_at_rest();
}

#[test]
fn a_branch_of_that_name_that_is_not_the_tasks_is_left_alone() {
    let yard = Yard::new();
    let (a, id) = (agent("a"), yard.add("one"));
    yard.git(&["branch", "onus/ON-1-one"]);
    let refused = yard.json(&a, &["claim", &id, "--worktree"]).refused(6);
    assert!(
        refused["message"].as_str().unwrap().contains("there is a branch onus/ON-1-one already"),
        "{refused}"
    );
    assert_eq!(yard.branches(), ["onus/ON-1-one"]);
    yard.git(&["branch", "-m", "onus/ON-1-one", "onus"]);
    let refused = yard.json(&a, &["claim", &id, "--worktree"]).refused(6);
    assert!(refused["message"].as_str().unwrap().contains("a branch onus already"), "{refused}");
}

#[test]
fn a_bare_repository_has_worktrees_beside_it() {
    let yard = Yard::new();
    let bare = yard.folder().join("lib.git");
    yard.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    let onus = |args: &[&str]| Ran::of(yard.command_in(&bare, &agent("a")).args(args).output().unwrap());
    onus(&["init", "--prefix", "LIB"]).ok();
    onus(&["add", "one"]).ok();
    onus(&["claim", "1", "--worktree"]).ok();
    assert!(yard.folder().join("lib.onus/LIB-1-one/a.txt").exists());
}

#[test]
fn after_a_takeover_the_successor_goes_on_where_the_work_is() {
    let yard = Yard::new();
    let (a, b, id) = (agent("a"), agent("b"), yard.add("one"));
    let path = yard.claim(&a, &id);
    yard.commit_in(&path, "b.txt", "work\n");
    fs::write(path.join("c.txt"), "not committed\n").unwrap();
    assert_eq!(yard.json(&b, &["claim", &id, "--worktree"]).code, 4, "a live holder's");
    yard.run(&human("ada"), &["takeover", &id, "--force", "--reason", "gone"]).ok();
    yard.run(&human("ada"), &["release", &id]).ok();
    let claimed = yard.json(&b, &["claim", &id, "--worktree"]).ok().json();
    assert_eq!(claimed["worktree"]["path"], path.to_str().unwrap());
    assert_eq!(claimed["worktree"]["new"], false);
    assert!(claimed["notices"].to_string().contains("1 file there with changes"), "{claimed:#}");
    assert_eq!(fs::read_to_string(path.join("c.txt")).unwrap(), "not committed\n");
    // Without the folder, the branch is checked out again.
    yard.git_in(&path, &["add", "."]);
    yard.git_in(&path, &["commit", "--quiet", "-m", "c"]);
    fs::remove_dir_all(&path).unwrap();
    // It might have been moved, with work in it: only who knows that it is gone says so.
    yard.json(&b, &["claim", &id, "--worktree"]).refused(6);
    assert_eq!(yard.show(&id)["lease"]["actor"], "agent:b");
    yard.git(&["worktree", "prune"]);
    let again = yard.claim(&b, &id);
    assert_eq!(fs::read_to_string(again.join("c.txt")).unwrap(), "not committed\n");
    yard.is_at_rest();
}

#[test]
fn ignored_files_that_the_repository_names_are_copied_and_nothing_else() {
    let yard = Yard::new();
    yard.commit(".gitignore", ".env*\nlink*\nbig/\n");
    yard.commit(".worktreeinclude", ".env*\n!.env.old\nlink*\nnotes.txt\na.txt\n");
    for (file, text) in
        [(".env", "SECRET=1\n"), (".env.old", "old\n"), ("notes.txt", "untracked\n"), ("big-no", "")]
    {
        fs::write(yard.repo().join(file), text).unwrap();
    }
    fs::create_dir(yard.repo().join("big")).unwrap();
    fs::write(yard.repo().join("big/data"), "x").unwrap();
    fs::set_permissions(yard.repo().join(".env"), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("a.txt", yard.repo().join("link-in")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", yard.repo().join("link-out")).unwrap();
    let claimed = yard.json(&agent("a"), &["claim", &yard.add("one"), "--worktree"]).ok().json();
    let path = yard.root().join("ON-1-one");
    assert_eq!(fs::read_to_string(path.join(".env")).unwrap(), "SECRET=1\n");
    assert_eq!(fs::metadata(path.join(".env")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_link(path.join("link-in")).unwrap().to_str(), Some("a.txt"));
    for absent in [".env.old", "notes.txt", "big", "link-out"] {
        assert!(path.join(absent).symlink_metadata().is_err(), "{absent}");
    }
    assert!(claimed["notices"].to_string().contains("link-out was not copied"), "{claimed:#}");
    assert_eq!(yard.git_in(&path, &["status", "--porcelain"]), "");
}

#[test]
fn a_set_up_command_runs_only_as_a_person_approved_it() {
    let yard = Yard::new();
    let config = "[worktree]\nsetup = [\"sh\", \"-c\", \"echo base $ONUS_PORT_BASE in $PWD >setup.log; echo told >&2; env >env.log\"]\n";
    yard.commit("onus.toml", config);
    yard.commit(".gitignore", "*.log\n");
    let (a, id) = (agent("a"), yard.add("one"));
    let refused = yard.json(&a, &["claim", &id, "--worktree"]).refused(6);
    assert_eq!(refused["code"], "unapproved", "{refused}");
    assert!(refused["next"][0].as_str().unwrap().starts_with("onus trust approve setup"), "{refused}");
    let listed = yard.json(&a, &["trust", "list"]).ok().json();
    let digest = listed["commands"][0]["digest"].as_str().unwrap().to_owned();
    assert_eq!(yard.json(&a, &["trust", "approve", "setup"]).refused(6)["code"], "people_only");
    assert_eq!(
        yard.json(&a, &["trust", "approve", "setup", "--digest", &digest]).refused(6)["code"],
        "people_only"
    );
    let ci = crate::support::As { actor: "ci:main".into(), instance: "1".into() };
    assert_eq!(yard.json(&ci, &["trust", "approve", "setup"]).refused(6)["code"], "people_only");
    yard.json(&ci, &["trust", "approve", "setup", "--digest", "sha256:00"]).refused(6);
    yard.json(&human("ada"), &["trust", "approve", "setup"]).ok();
    let ran = yard.command(&a).env("SECRET", "1").args(["claim", &id, "--worktree"]).output().unwrap();
    let ran = Ran::of(ran);
    assert!(ran.ok().stderr.contains("told"), "{ran:?}");
    let path = yard.root().join("ON-1-one");
    let shown = yard.json(&a, &["worktree", "show", &id]).ok().json();
    let log = fs::read_to_string(path.join("setup.log")).unwrap();
    assert_eq!(log, format!("base {} in {}\n", shown["port_base"], path.display()));
    let env = fs::read_to_string(path.join("env.log")).unwrap();
    assert!(!env.contains("SECRET") && !env.contains("ONUS_ACTOR") && !env.contains("ONUS_TOKEN"), "{env}");
    // A changed command was never approved.
    yard.commit("onus.toml", &config.replace("told", "changed"));
    let two = yard.add("two");
    assert_eq!(yard.json(&a, &["claim", &two, "--worktree"]).refused(6)["code"], "unapproved");
    yard.json(&a, &["claim", &two, "--worktree", "--no-setup"]).ok();
    yard.commit("onus.toml", config);
    yard.json(&human("ada"), &["trust", "revoke", "setup"]).ok();
    assert_eq!(yard.json(&a, &["claim", &yard.add("three"), "--worktree"]).refused(6)["code"], "unapproved");
}

#[test]
fn a_set_up_command_that_fails_or_takes_too_long_leaves_nothing() {
    let yard = Yard::new();
    for (n, (command, why)) in
        [("exit 3", "exit code 3"), ("sleep 600 & sleep 600", "took longer than")].into_iter().enumerate()
    {
        let config = format!("[worktree]\nsetup = [\"sh\", \"-c\", \"{command}\"]\nsetup_timeout = \"1s\"\n");
        yard.commit("onus.toml", &config);
        yard.json(&human("ada"), &["trust", "approve", "setup"]).ok();
        let id = yard.add(&format!("task {n}"));
        let refused = yard.json(&agent("a"), &["claim", &id, "--worktree"]).refused(6);
        assert!(refused["message"].as_str().unwrap().contains(why), "{refused}");
        assert_eq!(yard.show(&id)["lease"], serde_json::Value::Null);
        assert!(!yard.root().exists() && yard.branches().is_empty());
        yard.is_at_rest();
    }
}

#[test]
fn every_worktree_has_ports_of_its_own() {
    let yard = Yard::new();
    let bases: Vec<u64> = (0..4)
        .map(|n| {
            let id = yard.add(&format!("task {n}"));
            let claimed = yard.json(&agent(&format!("a{n}")), &["claim", &id, "--worktree"]).ok().json();
            claimed["worktree"]["port_base"].as_u64().unwrap()
        })
        .collect();
    for (n, base) in bases.iter().enumerate() {
        assert!(bases[..n].iter().all(|other| other.abs_diff(*base) >= 20), "{bases:?}");
        let shown = yard.json(&human("ada"), &["worktree", "show", &format!("ON-{}", n + 1)]).ok().json();
        assert_eq!(shown["port_base"], *base);
    }
    let id = yard.add("run");
    let ran = yard.run(
        &agent("r"),
        &["run", &id, "--worktree", "--", "sh", "-c", "echo $ONUS_PORT_BASE >p; git add p; git commit -qm p"],
    );
    assert!(ran.stderr.contains("ONUS_PORT_BASE="), "{ran:?}");
}

#[test]
fn a_base_is_the_newest_of_what_is_known_and_offline_is_said() {
    let yard = Yard::new();
    let origin = yard.folder().join("origin.git");
    yard.git(&["clone", "--quiet", "--bare", ".", origin.to_str().unwrap()]);
    yard.git(&["remote", "add", "origin", origin.to_str().unwrap()]);
    yard.git(&["fetch", "--quiet", "origin"]);
    let other = yard.folder().join("other");
    yard.git(&["clone", "--quiet", origin.to_str().unwrap(), other.to_str().unwrap()]);
    let newer = yard.commit_in(&other, "b.txt", "theirs\n");
    yard.git_in(&other, &["push", "--quiet", "origin", "main"]);
    let a = agent("a");
    let known = yard.json(&a, &["claim", &yard.add("one"), "--worktree"]).ok().json();
    assert_eq!(known["task"]["base"], yard.git(&["rev-parse", "main"]));
    let fetched = yard.json(&a, &["claim", &yard.add("two"), "--worktree", "--fetch"]).ok().json();
    assert_eq!(fetched["task"]["base"], newer.as_str(), "{fetched:#}");
    std::fs::rename(&origin, yard.folder().join("gone.git")).unwrap();
    let offline = yard.json(&a, &["claim", &yard.add("three"), "--worktree", "--fetch"]).ok().json();
    assert_eq!(offline["task"]["base"], newer.as_str());
    assert!(offline["notices"].to_string().contains("cannot be reached"), "{offline:#}");
    yard.commit("c.txt", "ours\n");
    let diverged = yard.json(&a, &["claim", &yard.add("four"), "--worktree"]).ok().json();
    assert_eq!(diverged["task"]["base"], yard.git(&["rev-parse", "main"]));
    assert!(diverged["notices"].to_string().contains("have diverged"), "{diverged:#}");
}

#[test]
fn an_agent_that_would_not_be_guarded_there_is_named() {
    let yard = Yard::new();
    yard.run(&human("ada"), &["setup", "claude"]).ok();
    let told =
        yard.json(&agent("a"), &["claim", &yard.add("one"), "--worktree"]).ok().json()["notices"].to_string();
    assert!(told.contains("Claude Code is not guarded in") && told.contains("setup claude"), "{told}");
    yard.git(&["add", "."]);
    yard.git(&["commit", "--quiet", "-m", "settings"]);
    let told =
        yard.json(&agent("a"), &["claim", &yard.add("two"), "--worktree"]).ok().json()["notices"].to_string();
    assert!(!told.contains("not guarded"), "{told}");
}

/// A claim or takeover without a worktree is allowed, and says where the work is.
#[test]
fn whoever_begins_elsewhere_is_told_where_the_work_is() {
    let yard = Yard::new();
    let (a, b, id) = (agent("a"), agent("b"), yard.add("one"));
    let path = yard.claim(&a, &id);
    yard.run(&a, &["release", &id]).ok();
    let claimed = yard.json(&b, &["claim", &id]).ok().json();
    let told = |answer: &serde_json::Value| {
        let notices = answer["notices"].as_array().cloned().unwrap_or_default();
        notices.into_iter().find(|notice| notice["message"].to_string().contains("is on branch"))
    };
    let notice = told(&claimed).unwrap_or_else(|| panic!("{claimed}"));
    assert_eq!(notice["message"], "the work on ON-1 is on branch onus/ON-1-one; main is checked out here");
    assert_eq!(notice["next"][0], "onus worktree add ON-1");
    // What it names brings the holder there.
    yard.run(&b, &["worktree", "add", &id]).ok();
    let shown = yard.json(&b, &["show", &id]).ok().json();
    assert_eq!(shown["lease"]["worktree"], path.to_str().unwrap());
    // Renewing, and going on there, say nothing.
    assert_eq!(told(&yard.json(&b, &["claim", &id, "--worktree"]).ok().json()), None);
    yard.run(&b, &["release", &id]).ok();
    assert_eq!(told(&yard.json(&a, &["claim", &id, "--worktree"]).ok().json()), None);
}

#[test]
fn untracked_work_is_not_done_where_head_is_detached_either() {
    let yard = Yard::new();
    let (a, id) = (agent("a"), yard.add("one"));
    let path = yard.claim(&a, &id);
    yard.git_in(&path, &["checkout", "--quiet", "--detach"]);
    fs::write(path.join("new.txt"), "work\n").unwrap();
    let done = || {
        Ran::of(yard.command_in(&path, &a).args(["done", &id, "-m", "made it", "--json"]).output().unwrap())
    };
    assert_eq!(done().refused(6)["code"], "uncommitted");
    fs::remove_file(path.join("new.txt")).unwrap();
    done().ok();
}

#[test]
fn a_takeover_comes_with_the_worktree_of_the_task() {
    let yard = Yard::new();
    let (a, b, id) = (agent("a"), agent("b"), yard.add("one"));
    // Somebody who is gone, without a worktree of the task's own.
    let mut gone = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    yard.run(&a, &["claim", &id, "--bind", &gone.id().to_string()]).ok();
    let live = ["takeover", &id, "--reason", "it seems to be gone", "--worktree"];
    yard.json(&b, &live).refused(4);
    assert!(yard.branches().is_empty(), "nothing is made for a refusal");
    gone.kill().unwrap();
    gone.wait().unwrap();
    let taken = yard.json(&b, &live).ok().json();
    let path = yard.root().join("ON-1-one");
    assert_eq!(taken["worktree"]["path"], path.to_str().unwrap());
    assert_eq!(
        (&taken["takeover"], &taken["lease"]["worktree"]),
        (&true.into(), &path.to_str().unwrap().into())
    );
    assert_eq!(
        (&taken["task"]["branch"], yard.branches()),
        (&"onus/ON-1-one".into(), vec!["onus/ON-1-one".to_owned()])
    );
    // As with a claim: what cannot be made is taken back.
    yard.run(&b, &["release", &id]).ok();
    let other = yard.add("two");
    let mut gone = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    yard.run(&a, &["claim", &other, "--bind", &gone.id().to_string()]).ok();
    gone.kill().unwrap();
    gone.wait().unwrap();
    std::fs::write(yard.root().join("ON-2-two"), "in the way").unwrap();
    let refused = yard.json(&b, &["takeover", &other, "--reason", "gone", "--worktree"]);
    let message = refused.refused(6)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("no worktree was made for ON-2, and the claim was released"), "{message}");
    assert_eq!(yard.show(&other)["state"], "open");
    yard.json(&b, &["takeover", &other, "--reason", "gone", "--rescue"]).refused(2);
}

#[test]
fn a_task_that_nobody_holds_says_where_its_work_is() {
    let yard = Yard::new();
    let (a, id) = (agent("a"), yard.add("one"));
    assert_eq!(yard.show(&id)["worktree"], serde_json::Value::Null);
    let path = yard.claim(&a, &id);
    yard.run(&a, &["release", &id]).ok();
    let task = yard.show(&id);
    assert_eq!(
        (&task["worktree"], &task["branch"], &task["lease"]),
        (&path.to_str().unwrap().into(), &"onus/ON-1-one".into(), &serde_json::Value::Null)
    );
    let text = yard.run(&human("ada"), &["show", &id]).ok().stdout.clone();
    assert!(text.contains(&format!("worktree    {}\n", path.display())), "{text}");
    assert!(text.contains("branch      onus/ON-1-one, for main\n"), "{text}");
}

/// A finished task is not in its target by itself: whoever finishes it learns where its commits are.
#[test]
fn done_says_which_commits_are_still_to_land() {
    let yard = Yard::new();
    let a = agent("a");
    let notices = |id: &str, path: &Path| {
        let done =
            Ran::of(yard.command_in(path, &a).args(["done", id, "-m", "ok", "--json"]).output().unwrap());
        let done = done.ok().json();
        done["notices"].as_array().cloned().unwrap_or_default()
    };
    let (id, empty) = (yard.add("one"), yard.add("two"));
    let path = yard.claim(&a, &id);
    fs::write(path.join("new.txt"), "work\n").unwrap();
    yard.git_in(&path, &["add", "new.txt"]);
    yard.git_in(&path, &["commit", "--quiet", "--message", "work"]);
    let told = notices(&id, &path);
    assert_eq!(told.len(), 1, "{told:?}");
    let message = told[0]["message"].as_str().unwrap();
    assert!(message.starts_with("1 commit on branch onus/") && message.ends_with(" yet"), "{told:?}");
    assert_eq!(told[0]["next"][0], format!("onus land {id}"));
    let path = yard.claim(&a, &empty);
    assert_eq!(notices(&empty, &path), [] as [serde_json::Value; 0]);
}

/// Whoever reads only the answer, or what the task's record says, knows why there is no worktree.
#[test]
fn a_claim_without_its_worktree_says_why() {
    let yard = Yard::new();
    yard.commit(
        "onus.toml",
        "[worktree]\nsetup = [\"sh\", \"-c\", \"echo first; echo 'no such package: left-pad' >&2; echo; exit 3\"]\n",
    );
    yard.run(&human("ada"), &["trust", "approve", "--all"]).ok();
    let (bob, id) = (agent("bob"), yard.add("one"));
    let why = "the set-up command failed with exit code 3; the last that it wrote: no such package: left-pad";
    let refused = yard.json(&bob, &["claim", &id, "--worktree"]).refused(6);
    assert_eq!(
        refused["message"],
        format!("no worktree was made for {id}, and the claim was released: {why}")
    );
    assert_eq!(yard.show(&id)["last_word"]["text"], format!("no worktree could be made: {why}"));
    // A git that ends without a word.
    yard.git(&["rm", "--quiet", "onus.toml"]);
    yard.git(&["commit", "--quiet", "-m", "no set-up"]);
    let bin = yard.folder().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let real = std::process::Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *'worktree add'*) kill -9 $$;; esac\nexec '{}' \"$@\"\n",
        real.trim()
    );
    program(&bin.join("git"), script);
    let path = Yard::path_with(&bin);
    let mut claim = yard.command(&bob);
    let ran = Ran::of(claim.args(["claim", &id, "--worktree", "--json"]).env("PATH", path).output().unwrap());
    let why = "git could not make the worktree: it ended without a word";
    assert_eq!(
        ran.refused(6)["message"],
        format!("no worktree was made for {id}, and the claim was released: {why}")
    );
    yard.is_at_rest();
}
