//! Nothing uncommitted counts as done in a task's own worktree.

use crate::agents::kit::configured;
use crate::guard::kit::{by, git_by, guarded, worktree, write};
use crate::support::{As, Ran, Sandbox, agent, human};

fn at(sandbox: &Sandbox, who: &As, folder: &std::path::Path, args: &[&str]) -> Ran {
    Ran::of(sandbox.command(who).current_dir(folder).args(args).arg("--json").output().unwrap())
}

#[test]
fn in_a_tasks_own_worktree_what_is_in_no_commit_is_not_done() {
    for verb in ["done", "submit"] {
        let sandbox = guarded();
        let (ada, id) = (agent("ada"), sandbox.add("own"));
        let there = worktree(&sandbox, &format!("onus/{id}-own"));
        at(&sandbox, &ada, &there, &["claim", &id]).ok();
        write(&there, "a.txt", "changed\n");
        write(&there, "odd \"name\"", "untracked\n");
        let refused = at(&sandbox, &ada, &there, &[verb, &id, "-m", "all of it"]).refused(6);
        assert_eq!(refused["code"], "uncommitted", "{refused}");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("a.txt") && message.contains("odd"), "{message}");
        let elsewhere = sandbox.json(&ada, &[verb, &id, "-m", "all of it"]).refused(6);
        assert_eq!(elsewhere["code"], "uncommitted", "whoever is elsewhere: {elsewhere}");
        assert_eq!(sandbox.show(&id)["state"], "in_progress");
        by(&sandbox, &ada, &there, &["add", "-A"]).ok();
        let refused = at(&sandbox, &ada, &there, &[verb, &id, "-m", "all of it"]).refused(6);
        assert_eq!(refused["code"], "uncommitted", "staged is not committed: {refused}");
        by(&sandbox, &ada, &there, &["commit", "-q", "-m", "x"]).ok();
        at(&sandbox, &ada, &there, &[verb, &id, "-m", "all of it"]).ok();
    }
}

/// What `git status` does not show, or shows as one line.
#[test]
fn what_git_overlooks_in_a_tasks_own_worktree_is_not_done_either() {
    let sandbox = guarded();
    let (ada, id) = (agent("ada"), sandbox.add("own"));
    let there = worktree(&sandbox, &format!("onus/{id}-own"));
    at(&sandbox, &ada, &there, &["claim", &id]).ok();
    let git = |args: &[&str]| by(&sandbox, &ada, &there, args).ok().stdout.trim().to_owned();
    let refused = |what: &str| {
        let refused = at(&sandbox, &ada, &there, &["done", &id, "-m", "all of it"]).refused(6);
        assert_eq!(refused["code"], "uncommitted", "{what}: {refused}");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(what), "{message}");
    };
    git(&["init", "-q", "nested"]);
    write(&there, "nested/work.txt", "nobody has it\n");
    refused("nested/");
    std::fs::remove_dir_all(there.join("nested")).unwrap();
    for flag in ["assume-unchanged", "skip-worktree"] {
        git(&["update-index", &format!("--{flag}"), "a.txt"]);
        write(&there, "a.txt", "overlooked\n");
        assert_eq!(git(&["status", "--porcelain"]), "", "git says nothing");
        refused("a.txt");
        git(&["update-index", &format!("--no-{flag}"), "a.txt"]);
        git(&["checkout", "-q", "a.txt"]);
    }
    git(&["submodule", "--quiet", "add", sandbox.path().to_str().unwrap(), "part"]);
    git(&["commit", "-q", "-m", "a submodule"]);
    write(&there, "part/a.txt", "in the submodule\n");
    refused("part");
    by(&sandbox, &ada, &there.join("part"), &["checkout", "-q", "a.txt"]).ok();
    git(&["switch", "-q", "--detach"]);
    git(&["commit", "-q", "--allow-empty", "-m", "on no branch"]);
    git(&["commit", "-q", "--allow-empty", "-m", "on no branch either"]);
    refused("2 commits in its worktree on a detached HEAD, and on no branch");
    git(&["branch", "kept"]);
    at(&sandbox, &ada, &there, &["done", &id, "-m", "all of it"]).ok();
    sandbox.is_whole();
}

#[test]
fn a_merge_under_way_is_not_done_and_what_a_filter_changes_is_no_change() {
    let sandbox = guarded();
    let (ada, id) = (agent("ada"), sandbox.add("own"));
    let there = worktree(&sandbox, &format!("onus/{id}-own"));
    at(&sandbox, &ada, &there, &["claim", &id]).ok();
    let git = |args: &[&str]| by(&sandbox, &ada, &there, args).ok().stdout.trim().to_owned();
    let commit = |text: &str| {
        write(&there, "a.txt", text);
        git(&["commit", "-q", "-am", text]);
    };
    git(&["branch", "side"]);
    commit("one");
    git(&["switch", "-q", "side"]);
    commit("two");
    git(&["switch", "-q", "-"]);
    assert_ne!(by(&sandbox, &ada, &there, &["merge", "-q", "side"]).code, 0);
    git(&["checkout", "-q", "--ours", "a.txt"]);
    git(&["add", "a.txt"]);
    let refused = at(&sandbox, &ada, &there, &["done", &id, "-m", "x"]).refused(6);
    assert_eq!(refused["message"], format!("{id} has a merge under way in its worktree"));
    git(&["commit", "-q", "--no-edit"]);
    // Compared without the filter, a file that was just committed differs.
    for (key, command) in [("clean", "tr a-z A-Z"), ("smudge", "tr A-Z a-z")] {
        git(&["config", &format!("filter.up.{key}"), command]);
    }
    write(&there, ".gitattributes", "*.dat filter=up\n");
    write(&there, "x.dat", "hello\n");
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "filtered"]);
    write(&there, "x.dat", "hello\n");
    assert_eq!(git(&["status", "--porcelain"]), "");
    at(&sandbox, &ada, &there, &["done", &id, "-m", "x"]).ok();
}

/// Whoever finishes it, and whether or not the lease knows the worktree.
#[test]
fn what_a_tasks_own_worktree_has_in_no_commit_is_not_done_by_another_either() {
    let sandbox = guarded();
    let trees = tempfile::tempdir().unwrap();
    let root = trees.path().to_str().unwrap();
    sandbox.run(&human("founder"), &["config", "set", "--user", "worktree.root", root]).ok();
    let (ada, bob, id) = (agent("ada"), agent("bob"), sandbox.add("own"));
    sandbox.run(&ada, &["claim", &id, "--worktree"]).ok();
    let there = std::path::PathBuf::from(sandbox.show(&id)["lease"]["worktree"].as_str().unwrap());
    write(&there, "a.txt", "changed\n");
    sandbox.run(&ada, &["release", &id]).ok();
    for verb in ["done", "submit"] {
        // In passing, and by a holder that works elsewhere.
        for claims in [false, true] {
            if claims {
                sandbox.run(&bob, &["claim", &id]).ok();
            }
            let refused = sandbox.json(&bob, &[verb, &id, "-m", "all of it"]).refused(6);
            assert_eq!(refused["code"], "uncommitted", "{refused}");
        }
        sandbox.run(&bob, &["release", &id]).ok();
    }
    by(&sandbox, &bob, &there, &["checkout", "-q", "a.txt"]).ok();
    sandbox.run(&bob, &["done", &id, "-m", "all of it"]).ok();
}

/// The lease knows its worktree, wherever git has moved it and whatever is checked out in it.
#[test]
fn a_tasks_worktree_is_found_where_it_was_moved_and_on_another_branch() {
    let sandbox = guarded();
    let trees = tempfile::tempdir().unwrap();
    let root = trees.path().join("made");
    sandbox
        .run(&human("founder"), &["config", "set", "--user", "worktree.root", root.to_str().unwrap()])
        .ok();
    let claimed = |name: &str| {
        let (ada, id) = (agent(name), sandbox.add("own"));
        let claimed = sandbox.json(&ada, &["claim", &id, "--worktree"]).ok().json();
        let there = std::path::PathBuf::from(claimed["lease"]["worktree"].as_str().unwrap());
        write(&there, "a.txt", "changed\n");
        (ada, id, there)
    };
    let (ada, id, there) = claimed("ada");
    let moved = trees.path().join("moved");
    git_by(&sandbox, &ada, &["worktree", "move", there.to_str().unwrap(), moved.to_str().unwrap()]).ok();
    assert_eq!(sandbox.json(&ada, &["done", &id, "-m", "x"]).refused(6)["code"], "uncommitted");
    let (eve, id, there) = claimed("eve");
    by(&sandbox, &eve, &there, &["switch", "-q", "-c", "other"]).ok();
    assert_eq!(at(&sandbox, &eve, &there, &["done", &id, "-m", "x"]).refused(6)["code"], "uncommitted");
    assert_eq!(sandbox.json(&eve, &["done", &id, "-m", "x"]).refused(6)["code"], "uncommitted");
}

#[test]
fn the_list_of_what_is_uncommitted_has_an_end() {
    let sandbox = guarded();
    let (ada, id) = (agent("ada"), sandbox.add("own"));
    let there = worktree(&sandbox, &format!("onus/{id}-own"));
    at(&sandbox, &ada, &there, &["claim", &id]).ok();
    for n in 0..300 {
        write(&there, format!("many/{n}"), "x\n");
    }
    let refused = at(&sandbox, &ada, &there, &["done", &id, "-m", "x"]).refused(6);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("of 300 in all") && message.len() < 1_000, "{message}");
}

#[test]
fn people_are_told_and_ad_hoc_work_and_ignored_files_are_exempt() {
    let sandbox = guarded();
    let (ada, id) = (agent("ada"), sandbox.add("own"));
    let there = worktree(&sandbox, &format!("onus/{id}-own"));
    write(&there, ".gitignore", "*.log\n");
    write(&there, "x.log", "ignored\n");
    by(&sandbox, &human("founder"), &there, &["add", ".gitignore"]).ok();
    by(&sandbox, &human("founder"), &there, &["commit", "-q", "-m", "x"]).ok();
    at(&sandbox, &ada, &there, &["done", &id, "-m", "nothing is left"]).ok();
    let id = sandbox.add("a person's");
    let there = worktree(&sandbox, &format!("onus/{id}-person"));
    write(&there, "a.txt", "changed\n");
    let done = at(&sandbox, &human("carol"), &there, &["done", &id, "-m", "I know"]).ok().json();
    let notices = done["notices"].to_string();
    assert!(notices.contains("not committed yet: a.txt"), "a person is told: {notices}");
}

#[test]
fn in_a_shared_checkout_it_is_mentioned_for_what_the_lease_touched() {
    let sandbox = guarded();
    configured(&sandbox, "");
    let (ada, id) = (agent("ada"), sandbox.add("shared"));
    sandbox.run(&ada, &["claim", &id]).ok();
    sandbox.run(&ada, &["touch", "a.txt"]).ok();
    write(sandbox.path(), "a.txt", "changed\n");
    write(sandbox.path(), "b.txt", "somebody else's\n");
    let done = sandbox.json(&ada, &["done", &id, "-m", "left to the person"]).ok().json();
    let notices = done["notices"].to_string();
    assert!(notices.contains("not committed yet: a.txt") && !notices.contains("b.txt"), "{done}");
    assert_eq!(done["state"], "done");
    // With everything committed nothing is said.
    let id = sandbox.add("shared");
    sandbox.run(&ada, &["claim", &id]).ok();
    sandbox.run(&ada, &["touch", "a.txt"]).ok();
    git_by(&sandbox, &ada, &["commit", "-q", "-m", "x", "a.txt"]).ok();
    let done = sandbox.json(&ada, &["done", &id, "-m", "x"]).ok().json();
    assert!(!done["notices"].to_string().contains("not committed"), "{done}");
}

#[test]
fn another_tasks_worktree_is_a_shared_checkout_to_this_task() {
    let sandbox = guarded();
    let (ada, one, two) = (agent("ada"), sandbox.add("one"), sandbox.add("two"));
    let there = worktree(&sandbox, &format!("onus/{one}-one"));
    write(&there, "a.txt", "changed\n");
    at(&sandbox, &ada, &there, &["done", &two, "-m", "small"]).ok();
}
