//! What is never taken away, and how it is found again.

use std::fs;
use std::path::Path;

use crate::kit::Yard;
use crate::support::{agent, fed, human};

/// The refusal to remove a worktree, which must still be there.
#[track_caller]
fn kept(yard: &Yard, path: &Path, why: &str) {
    let refused = yard.json(&human("ada"), &["worktree", "remove", path.to_str().unwrap()]);
    let message = refused.refused(6)["message"].as_str().unwrap().to_owned();
    assert!(message.contains(why), "{message}");
    yard.run(&human("ada"), &["worktree", "prune"]).ok();
    assert!(path.join(".git").exists(), "{why}");
}

#[test]
fn a_worktree_whose_task_is_not_over_is_not_pruned() {
    let yard = Yard::landing("");
    let [one, two, three] = ["one", "two", "three"].map(|title| yard.add(title));
    let [review, same, twin] = [&one, &two, &three].map(|id| yard.claim(&agent(id), id));
    yard.run(&agent(&one), &["submit", &one, "-m", "look"]).ok();
    for (id, path) in [(&two, &same), (&three, &twin)] {
        yard.commit_in(path, "same.txt", "same\n");
        // Another commit, also if both are made in one second.
        yard.git_in(path, &["commit", "--quiet", "--amend", "-m", id]);
        yard.run(&agent(id), &["done", id, "-m", "did it"]).ok();
    }
    // The same change was there and was taken back: to land it again is a change.
    yard.run(&human("ada"), &["land", &two]).ok();
    yard.git(&["revert", "--no-edit", "-m", "1", "HEAD"]);
    let pruned = yard.json(&human("ada"), &["worktree", "prune"]).ok().json();
    let why = |path: &Path| {
        let kept = pruned["kept"].as_array().unwrap();
        kept.iter().find(|it| it["path"] == path.to_str().unwrap()).map(|it| it["why"].as_str().unwrap())
    };
    assert_eq!(why(&review), Some("ON-1 is in review"), "{pruned:#}");
    assert_eq!(why(&twin), Some("ON-3 has still to land"), "{pruned:#}");
    assert!(review.exists() && twin.exists());
    yard.run(&human("ada"), &["land", &three]).ok();
    yard.run(&human("ada"), &["approve", &one]).ok();
    yard.run(&human("ada"), &["worktree", "prune"]).ok();
    assert!(!review.exists() && !twin.exists());
}

#[test]
fn what_can_be_done_depends_on_why_a_worktree_stays() {
    let yard = Yard::new();
    let (a, id) = (agent("a"), yard.add("one"));
    let path = yard.claim(&a, &id);
    let next = |path: &Path| {
        let refused = yard.json(&human("ada"), &["worktree", "remove", path.to_str().unwrap()]);
        refused.refused(6)["next"].to_string()
    };
    assert_eq!(next(&yard.repo()), "[]", "the main checkout is nobody's to remove");
    assert!(
        next(&path).contains("wait until agent:a") && !next(&path).contains("discard"),
        "{}",
        next(&path)
    );
    yard.run(&a, &["release", &id]).ok();
    fs::write(path.join("new"), "x").unwrap();
    assert!(next(&path).contains("commit and land") && !next(&path).contains("wait"), "{}", next(&path));
}

#[test]
fn worktrees_with_unmerged_work_reaped() {
    let yard = Yard::new();
    let (a, id) = (agent("a"), yard.add("one"));
    let path = yard.claim(&a, &id);
    kept(&yard, &path, "agent:a, who holds ON-1, works there");
    yard.run(&a, &["release", &id]).ok();
    fs::write(path.join("a.txt"), "changed\n").unwrap();
    kept(&yard, &path, "1 file with uncommitted changes: a.txt");
    yard.git_in(&path, &["add", "a.txt"]);
    kept(&yard, &path, "1 file with uncommitted changes: a.txt");
    yard.git_in(&path, &["reset", "--quiet", "--hard"]);
    fs::write(path.join("new file"), "x").unwrap();
    kept(&yard, &path, "1 file untracked: new file");
    fs::remove_file(path.join("new file")).unwrap();
    yard.git_in(&path, &["worktree", "lock", "--reason", "mine", path.to_str().unwrap()]);
    kept(&yard, &path, "it is locked (mine)");
    yard.git_in(&path, &["worktree", "unlock", path.to_str().unwrap()]);
    yard.git_in(&path, &["bisect", "start"]);
    kept(&yard, &path, "a bisect is under way");
    yard.git_in(&path, &["bisect", "reset"]);
    yard.commit_in(&path, "a.txt", "theirs\n");
    kept(&yard, &path, "1 commit on branch onus/ON-1-one in no other branch");
    yard.commit("a.txt", "ours\n");
    assert_ne!(yard.try_git(&path, &["merge", "main"]).code, 0);
    kept(&yard, &path, "a merge is under way");
    let listed = yard.json(&human("ada"), &["worktree", "list"]).ok().json();
    let one = &listed["worktrees"][1];
    assert_eq!(
        (&one["under_way"]["what"], &one["unlanded"], &one["behind"]),
        (&"merge".into(), &1.into(), &1.into())
    );
    yard.git_in(&path, &["merge", "--abort"]);
    // Detached, its commits are in no branch at all.
    yard.git_in(&path, &["checkout", "--quiet", "--detach"]);
    yard.commit_in(&path, "d.txt", "detached\n");
    kept(&yard, &path, "1 commit on a detached HEAD");
    yard.git_in(&path, &["checkout", "--quiet", "onus/ON-1-one"]);
    // In another branch they are safe, and both stay.
    yard.git(&["branch", "safe", "onus/ON-1-one"]);
    let gone = yard.json(&human("ada"), &["worktree", "remove", &id]).ok().json();
    assert_eq!((&gone["branch_deleted"], path.exists()), (&true.into(), false));
    yard.is_at_rest();
}

#[test]
fn squash_merged_branches_never_counted_as_merged() {
    for how in ["squash", "squash and go on", "rebase", "merge"] {
        let yard = Yard::new();
        let (a, id) = (agent("a"), yard.add("one"));
        let path = yard.claim(&a, &id);
        yard.commit_in(&path, "b.txt", "1\n");
        yard.commit_in(&path, "b.txt", "1\n2\n");
        yard.commit("other.txt", "meanwhile\n");
        yard.run(&a, &["release", &id]).ok();
        kept(&yard, &path, "2 commits");
        match how {
            "merge" => drop(yard.git(&["merge", "--quiet", "--no-edit", "onus/ON-1-one"])),
            "rebase" => drop(yard.git(&["cherry-pick", "main..onus/ON-1-one"])),
            _ => {
                yard.git(&["merge", "--quiet", "--squash", "onus/ON-1-one"]);
                yard.git(&["commit", "--quiet", "-m", "squashed"]);
            }
        }
        if how == "squash and go on" {
            yard.commit("b.txt", "changed again\n");
        }
        let listed = yard.json(&human("ada"), &["worktree", "list"]).ok().json();
        assert_eq!(listed["worktrees"][1]["unlanded"], 0, "{how}");
        let pruned = yard.json(&human("ada"), &["worktree", "prune"]).ok().json();
        assert_eq!(pruned["removed"][0], path.to_str().unwrap(), "{how}: {pruned}");
        // Only a branch that is in another by its commits goes with it.
        assert_eq!(yard.branches().is_empty(), how == "merge", "{how}");
        let listed = yard.json(&human("ada"), &["worktree", "list"]).ok().json();
        assert_eq!(listed["unlanded_branches"], serde_json::json!([]), "{how}");
        yard.is_at_rest();
    }
}

#[test]
fn doctor_lists_unlanded_work() {
    let yard = Yard::new();
    let (a, id) = (agent("a"), yard.add("one"));
    let path = yard.claim(&a, &id);
    yard.commit_in(&path, "b.txt", "1\n");
    yard.run(&a, &["release", &id]).ok();
    let doctor = yard.run(&human("ada"), &["doctor"]);
    assert!(doctor.ok().stdout.contains("1 unlanded; next: git -C"), "{doctor:?}");
    yard.git(&["worktree", "remove", path.to_str().unwrap()]);
    let doctor = yard.run(&human("ada"), &["doctor"]);
    assert!(doctor.ok().stdout.contains("branch onus/ON-1-one: 1 unlanded"), "{doctor:?}");
}

#[test]
fn a_worktree_that_was_moved_is_found_again_and_one_that_is_missing_is_never_forgotten() {
    let yard = Yard::new();
    let (a, id) = (agent("a"), yard.add("one"));
    let path = yard.claim(&a, &id);
    let moved = yard.root().join("elsewhere");
    fs::rename(&path, &moved).unwrap();
    let listed = yard.run(&human("ada"), &["worktree", "list"]);
    assert!(listed.ok().stdout.contains("its folder is missing"), "{listed:?}");
    let repaired = yard.json(&human("ada"), &["worktree", "repair"]).ok().json();
    assert_eq!(repaired["moved"][0], moved.to_str().unwrap());
    let shown = yard.json(&human("ada"), &["worktree", "show", &id]).ok().json();
    assert_eq!((&shown["path"], &shown["missing"]), (&moved.to_str().unwrap().into(), &false.into()));
    // It is the same worktree: its holder is still there.
    assert_eq!(shown["held_by"][0]["actor"], "agent:a");
    kept(&yard, &moved, "agent:a, who holds ON-1, works there");
    yard.run(&a, &["release", &id]).ok();
    // Moved out of reach, it may have anything in it.
    let away = yard.folder().join("away");
    fs::rename(&moved, &away).unwrap();
    fs::write(away.join("a.txt"), "work\n").unwrap();
    let git_dir = yard.repo().join(".git/worktrees/ON-1-one");
    let dry = yard.json(&human("ada"), &["worktree", "prune", "--dry-run"]).ok().json();
    let pruned = yard.json(&human("ada"), &["worktree", "prune"]).ok().json();
    assert_eq!((&dry["removed"], &pruned["removed"]), (&serde_json::json!([]), &serde_json::json!([])));
    let repaired = yard.run(&human("ada"), &["worktree", "repair"]).ok().stdout.clone();
    assert!(repaired.contains("is missing") && repaired.contains("git worktree prune"), "{repaired}");
    for refused in [
        yard.json(&human("ada"), &["worktree", "remove", moved.to_str().unwrap()]),
        yard.json(&a, &["claim", &id, "--worktree"]),
    ] {
        let refused = refused.refused(6).to_string();
        assert!(
            refused.contains("its folder is missing") && refused.contains("git worktree prune"),
            "{refused}"
        );
        assert!(refused.contains("onus worktree repair"), "{refused}");
    }
    assert!(git_dir.exists());
    // Each path that is named gets an answer.
    yard.json(&human("ada"), &["worktree", "repair", "/etc"]).refused(6);
    yard.json(&human("ada"), &["worktree", "repair", "/nonexistent"]).refused(3);
    let repaired = yard.json(&human("ada"), &["worktree", "repair", away.to_str().unwrap()]).ok().json();
    assert_eq!(repaired["moved"][0], away.to_str().unwrap());
    let again = yard.run(&human("ada"), &["worktree", "repair", away.to_str().unwrap()]);
    assert!(again.ok().stdout.contains("it is where git has it"), "{again:?}");
    kept(&yard, &away, "1 file with uncommitted changes: a.txt");
    yard.git_in(&away, &["checkout", "--quiet", "a.txt"]);
    // A link in its place is not the worktree.
    let back = yard.folder().join("back");
    fs::rename(&away, &back).unwrap();
    std::os::unix::fs::symlink(&back, &away).unwrap();
    let listed = yard.json(&human("ada"), &["worktree", "list"]).ok().json();
    assert_eq!(listed["worktrees"][1]["task"], id, "{listed:#}");
    kept(&yard, &away, "a link is in its place");
    yard.json(&human("ada"), &["worktree", "repair", back.to_str().unwrap()]).ok();
    fs::remove_file(&away).unwrap();
    yard.json(&human("ada"), &["worktree", "remove", back.to_str().unwrap()]).ok();
    yard.is_at_rest();
}

#[test]
fn changes_that_the_index_is_told_to_ignore_are_work_all_the_same() {
    let yard = Yard::new();
    let (a, id) = (agent("a"), yard.add("one"));
    let path = yard.claim(&a, &id);
    yard.run(&a, &["release", &id]).ok();
    for (set, unset) in
        [("--skip-worktree", "--no-skip-worktree"), ("--assume-unchanged", "--no-assume-unchanged")]
    {
        yard.git_in(&path, &["update-index", set, "a.txt"]);
        fs::write(path.join("a.txt"), "two\n").unwrap();
        kept(&yard, &path, "1 file with uncommitted changes: a.txt");
        fs::remove_file(path.join("a.txt")).unwrap();
        std::os::unix::fs::symlink("one\n", path.join("a.txt")).unwrap();
        kept(&yard, &path, "1 file with uncommitted changes: a.txt");
        fs::remove_file(path.join("a.txt")).unwrap();
        fs::write(path.join("a.txt"), "one\n").unwrap();
        yard.git_in(&path, &["update-index", unset, "a.txt"]);
    }
    // One that a sparse checkout leaves out is not missing.
    yard.git_in(&path, &["update-index", "--skip-worktree", "a.txt"]);
    fs::remove_file(path.join("a.txt")).unwrap();
    let dry = yard.json(&human("ada"), &["worktree", "prune", "--dry-run"]).ok().json();
    let pruned = yard.json(&human("ada"), &["worktree", "prune"]).ok().json();
    assert_eq!(dry["removed"], pruned["removed"]);
    assert!(!path.exists(), "{pruned}");
}

#[test]
fn work_that_differs_in_white_space_has_not_landed() {
    let yard = Yard::new();
    let (a, id) = (agent("a"), yard.add("one"));
    let path = yard.claim(&a, &id);
    yard.run(&a, &["release", &id]).ok();
    yard.commit_in(&path, "b.py", "if x:\n    y()\nz()\n");
    // The same letters, which mean something else; then they change, so that a merge would say so.
    yard.commit("b.py", "if x:\n    y()\n    z()\n");
    yard.commit("b.py", "pass\n");
    kept(&yard, &path, "1 commit on branch onus/ON-1-one in no other branch");
    // Exactly the same has landed, even if it is binary.
    yard.commit_in(&path, "c.bin", "\0\u{1}\u{2}");
    yard.git(&["reset", "--quiet", "--hard", "HEAD~2"]);
    // In another order, too.
    yard.git(&["cherry-pick", "onus/ON-1-one", "onus/ON-1-one~1"]);
    yard.commit("b.py", "pass\n");
    let listed = yard.json(&human("ada"), &["worktree", "list"]).ok().json();
    assert_eq!(listed["worktrees"][1]["unlanded"], 0, "{listed:#}");
}

#[test]
fn commits_that_only_this_worktree_keeps_are_work() {
    let yard = Yard::new();
    let (a, id) = (agent("a"), yard.add("one"));
    let path = yard.claim(&a, &id);
    yard.run(&a, &["release", &id]).ok();
    let start = yard.git_in(&path, &["rev-parse", "HEAD"]);
    yard.git_in(&path, &["checkout", "--quiet", "--detach"]);
    yard.git_in(&path, &["commit", "--quiet", "--allow-empty", "-m", "what I found out"]);
    kept(&yard, &path, "1 commit on a detached HEAD");
    yard.git_in(&path, &["reset", "--quiet", "--hard", &start]);
    yard.commit_in(&path, "x.txt", "tried\n");
    yard.git_in(&path, &["rm", "--quiet", "x.txt"]);
    yard.git_in(&path, &["commit", "--quiet", "-m", "did not work"]);
    kept(&yard, &path, "2 commits on a detached HEAD");
    yard.git_in(&path, &["update-ref", "refs/worktree/tried", "HEAD"]);
    yard.git_in(&path, &["checkout", "--quiet", "onus/ON-1-one"]);
    kept(&yard, &path, "2 commits that only refs/worktree/ keeps");
    yard.git_in(&path, &["update-ref", "-d", "refs/worktree/tried"]);
    // Git keeps submodules' own commits with the worktree.
    let modules = yard.repo().join(".git/worktrees/ON-1-one/modules");
    yard.git(&["init", "--quiet", "--bare", modules.join("sub").to_str().unwrap()]);
    kept(&yard, &path, "it has submodules");
    fs::remove_dir_all(modules).unwrap();
    yard.json(&human("ada"), &["worktree", "remove", &id]).ok();
    yard.is_at_rest();
}

#[test]
fn one_that_was_made_by_hand_is_adopted_and_never_pruned() {
    let yard = Yard::new();
    let (a, id) = (agent("a"), yard.add("one"));
    let own = yard.folder().join("own");
    yard.git(&["worktree", "add", "--quiet", "-b", "mine", own.to_str().unwrap()]);
    yard.run(&a, &["claim", &id]).ok();
    yard.json(&a, &["worktree", "adopt", yard.repo().to_str().unwrap()]).refused(6);
    let adopted = yard.json(&a, &["worktree", "adopt", own.to_str().unwrap()]).ok().json();
    assert_eq!(
        (&adopted["task"]["branch"], &adopted["lease"]["worktree"]),
        (&"mine".into(), &own.to_str().unwrap().into())
    );
    assert!(adopted["worktree"]["port_base"].is_u64(), "{adopted:#}");
    let b = agent("b");
    let two = yard.add("two");
    yard.run(&b, &["claim", &two]).ok();
    yard.json(&b, &["worktree", "adopt", own.to_str().unwrap()]).refused(4);
    yard.run(&a, &["release", &id]).ok();
    yard.run(&human("ada"), &["worktree", "prune"]).ok();
    assert!(own.join(".git").exists());
    // By name, and clean, it goes; its branch is not ours.
    yard.json(&human("ada"), &["worktree", "remove", own.to_str().unwrap()]).ok();
    assert!(!own.exists());
    yard.git(&["rev-parse", "--verify", "mine"]);
}

#[test]
fn an_agents_own_worktree_is_adopted_when_a_conversation_begins_in_it() {
    let yard = Yard::new();
    let own = yard.repo().join(".claude/worktrees/brave");
    yard.git(&["worktree", "add", "--quiet", "-b", "brave", own.to_str().unwrap()]);
    let begin = |folder: &Path| {
        let payload = serde_json::json!({
            "session_id": "s1", "cwd": folder, "hook_event_name": "SessionStart", "source": "startup",
        });
        let mut hook = yard.command_in(folder, &agent("x"));
        hook.env_remove("ONUS_ACTOR").env_remove("ONUS_INSTANCE").env("CLAUDECODE", "1");
        fed(hook.args(["hook", "claude"]), payload.to_string()).ok();
    };
    begin(&yard.repo());
    begin(&own);
    let listed = yard.json(&human("ada"), &["worktree", "list"]).ok().json();
    let (main, brave) = (&listed["worktrees"][0], &listed["worktrees"][1]);
    assert_eq!(
        (&main["adopted"], &brave["adopted"], &brave["made"]),
        (&false.into(), &true.into(), &false.into())
    );
    assert!(brave["port_base"].is_u64(), "{brave:#}");
    yard.run(&human("ada"), &["worktree", "prune"]).ok();
    assert!(own.join(".git").exists());
}

/// An agent's own worktrees often lie in an ignored folder of the checkout that it works in.
#[test]
fn a_worktree_that_contains_anothers_is_kept() {
    let yard = Yard::new();
    yard.commit(".gitignore", ".claude/\nbuild/\n");
    let (ada, bob) = (agent("ada"), agent("bob"));
    let (outer, inner) = (yard.add("outer"), yard.add("inner"));
    let path = yard.claim(&ada, &outer);
    yard.git_in(&path, &["worktree", "add", "-q", "-b", "side", ".claude/wt"]);
    yard.run(&bob, &["claim", &inner]).ok();
    let there = path.join(".claude/wt");
    yard.run(&bob, &["worktree", "adopt", "--task", &inner, there.to_str().unwrap()]).ok();
    std::fs::write(there.join("precious.txt"), "precious\n").unwrap();
    yard.run(&ada, &["release", &outer]).ok();
    let is_kept = |what: &str| {
        let ran = yard.json(&human("ada"), &["worktree", "remove", &outer]);
        assert!(ran.code == 6 && ran.stdout.contains(what), "{ran:?}");
        yard.run(&human("ada"), &["worktree", "prune"]);
        assert!(path.join(what).exists());
    };
    is_kept(".claude/wt");
    assert_eq!(std::fs::read_to_string(there.join("precious.txt")).unwrap(), "precious\n");
    // So it is with a repository of anybody's.
    std::fs::remove_file(there.join("precious.txt")).unwrap();
    yard.git_in(&path, &["worktree", "remove", "--force", ".claude/wt"]);
    std::fs::create_dir_all(path.join("build/nest")).unwrap();
    yard.git_in(&path.join("build/nest"), &["init", "-q"]);
    is_kept("build/nest");
    std::fs::remove_dir_all(path.join("build/nest")).unwrap();
    yard.run(&human("ada"), &["worktree", "remove", &outer]).ok();
}
