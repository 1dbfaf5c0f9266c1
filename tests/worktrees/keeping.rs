//! What is never taken away, and how it is found again.

use std::fs;
use std::path::Path;

use crate::kit::Yard;
use crate::support::{agent, human};

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
fn a_worktree_that_was_moved_is_found_again_and_one_that_is_gone_is_forgotten() {
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
    // What is only in its index would be lost.
    fs::write(moved.join("s.txt"), "staged").unwrap();
    yard.git_in(&moved, &["add", "s.txt"]);
    fs::remove_dir_all(&moved).unwrap();
    let pruned = yard.json(&human("ada"), &["worktree", "prune"]).ok().json();
    assert_eq!(pruned["removed"], serde_json::json!([]), "{pruned}");
    let git_dir = yard.repo().join(".git/worktrees/ON-1-one");
    yard.git(&["--git-dir", git_dir.to_str().unwrap(), "read-tree", "HEAD"]);
    yard.run(&human("ada"), &["worktree", "prune"]).ok();
    assert!(!git_dir.exists());
    assert_eq!(yard.branches(), ["onus/ON-1-one"]);
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
    use std::io::Write as _;
    let yard = Yard::new();
    let own = yard.repo().join(".claude/worktrees/brave");
    yard.git(&["worktree", "add", "--quiet", "-b", "brave", own.to_str().unwrap()]);
    let begin = |folder: &Path| {
        let payload = serde_json::json!({
            "session_id": "s1", "cwd": folder, "hook_event_name": "SessionStart", "source": "startup",
        });
        let mut hook = yard.command_in(folder, &agent("x"));
        hook.env_remove("ONUS_ACTOR").env_remove("ONUS_INSTANCE").env("CLAUDECODE", "1");
        let hook = hook.args(["hook", "claude"]).stdin(std::process::Stdio::piped());
        let mut hook = hook.stdout(std::process::Stdio::null()).spawn().unwrap();
        hook.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
        assert!(hook.wait().unwrap().success());
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
