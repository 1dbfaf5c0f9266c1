//! In a task's own worktree, what is committed is that task's work.

use std::path::{Path, PathBuf};

use crate::guard::kit::{by, guarded, write};
use crate::support::{As, Ran, Sandbox, agent, human};

/// A guarded repository whose tasks' worktrees are in a folder of their own.
struct Ground {
    sandbox: Sandbox,
    trees: tempfile::TempDir,
}

impl Ground {
    fn new() -> Ground {
        let (sandbox, trees) = (guarded(), tempfile::tempdir().unwrap());
        let root = trees.path().to_str().unwrap();
        sandbox.run(&human("founder"), &["config", "set", "--user", "worktree.root", root]).ok();
        Ground { sandbox, trees }
    }

    #[track_caller]
    fn claim(&self, who: &As, id: &str) -> PathBuf {
        self.sandbox.run(who, &["claim", id, "--worktree"]).ok();
        PathBuf::from(self.sandbox.show(id)["lease"]["worktree"].as_str().unwrap())
    }

    /// A worktree that was made by hand, on a branch that is not named after the task.
    #[track_caller]
    fn adopt(&self, who: &As, id: &str) -> PathBuf {
        let path = self.trees.path().join(format!("by-hand-{id}"));
        let (folder, branch) = (path.to_str().unwrap(), format!("feature/{id}"));
        by(&self.sandbox, who, self.sandbox.path(), &["worktree", "add", "-q", "-b", &branch, folder]).ok();
        self.sandbox.run(who, &["claim", id]).ok();
        self.sandbox.run(who, &["worktree", "adopt", "--task", id, folder]).ok();
        path
    }

    fn commit(&self, who: &As, path: &Path, text: &str) -> Ran {
        write(path, "f", text);
        by(&self.sandbox, who, path, &["add", "f"]).ok();
        by(&self.sandbox, who, path, &["commit", "-q", "-m", "x"])
    }

    fn tasks(&self) -> usize {
        let all = self.sandbox.json(&human("founder"), &["list", "--all"]).ok().json();
        all["tasks"].as_array().unwrap().len()
    }
}

/// Whoever holds two tasks and commits in the worktree of one of them works on that one.
#[test]
fn a_commit_in_a_tasks_own_worktree_is_that_tasks() {
    let ground = Ground::new();
    let (sandbox, ada) = (&ground.sandbox, agent("ada"));
    let (first, second) = (sandbox.add("read only"), sandbox.add("free"));
    sandbox.run(&human("founder"), &["edit", &first, "--constraint", "read_only"]).ok();
    let (at_first, at_second) = (ground.claim(&ada, &first), ground.claim(&ada, &second));
    let ran = ground.commit(&ada, &at_first, "changed\n");
    assert!(ran.code != 0 && ran.stderr.contains("read_only"), "{ran:?}");
    let ran = ground.commit(&ada, &at_second, "changed\n");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(sandbox.show(&second)["commits"].as_array().unwrap().len(), 1);
}

/// It was submitted and rejected: the submitter works on where it stopped, and says nothing to onus.
#[test]
fn a_commit_where_a_rejected_task_is_at_home_takes_it_up_again() {
    let ground = Ground::new();
    let (sandbox, ada) = (&ground.sandbox, agent("ada"));
    for (count, home) in [Ground::claim, Ground::adopt].into_iter().enumerate() {
        let id = sandbox.add("to be reviewed");
        let path = home(&ground, &ada, &id);
        ground.commit(&ada, &path, "one\n").ok();
        sandbox.run(&ada, &["submit", &id, "-m", "please look"]).ok();
        sandbox.run(&human("founder"), &["reject", &id, "-m", "two, please"]).ok();
        let ran = ground.commit(&ada, &path, "two\n");
        assert!(ran.ok().stderr.contains(&format!("you hold {id} now")), "{ran:?}");
        let shown = sandbox.show(&id);
        assert_eq!((&shown["state"], &shown["lease"]["actor"]), (&"in_progress".into(), &"agent:ada".into()));
        assert_eq!(shown["commits"].as_array().unwrap().len(), 2);
        let message = by(sandbox, &ada, &path, &["log", "-1", "--format=%B"]);
        assert!(message.stdout.contains(&format!("Onus-Task: {id}")), "{message:?}");
        assert_eq!(ground.tasks(), count + 1);
        sandbox.run(&ada, &["release", &id]).ok();
    }
    sandbox.is_whole();
}

/// Giving the task up does not lift what binds the work on it, and what is kept for one agent is not another's.
#[test]
fn the_worktree_of_a_task_binds_whoever_works_in_it() {
    let ground = Ground::new();
    let (sandbox, ada, bob) = (&ground.sandbox, agent("ada"), agent("bob"));
    let id = sandbox.add("read only");
    let path = ground.claim(&ada, &id);
    sandbox.run(&human("founder"), &["edit", &id, "--constraint", "read_only"]).ok();
    sandbox.run(&ada, &["release", &id]).ok();
    let ran = ground.commit(&ada, &path, "changed\n");
    assert!(ran.code != 0 && ran.stderr.contains("read_only"), "{ran:?}");
    let shown = sandbox.show(&id);
    assert_eq!((&shown["state"], shown["lease"].is_null()), (&"open".into(), true), "nothing was changed");
    assert_eq!(ground.tasks(), 1);
    // Kept for ada: bob's commit there is work of its own, as it was.
    sandbox.run(&human("founder"), &["assign", &id, "--to", "agent:ada", "--reason", "hers"]).ok();
    ground.commit(&bob, &path, "changed\n").ok();
    assert_eq!((sandbox.show(&id)["lease"].is_null(), ground.tasks()), (true, 2));
    sandbox.is_whole();
}

/// What is committed in a task's worktree lands as that task's work.
#[test]
fn nobody_else_commits_in_the_worktree_of_a_task_that_is_held() {
    let ground = Ground::new();
    let (sandbox, ada, bob) = (&ground.sandbox, agent("ada"), agent("bob"));
    let (id, other, by_hand) = (sandbox.add("ada's"), sandbox.add("bob's"), sandbox.add("by hand"));
    let (path, adopted) = (ground.claim(&ada, &id), ground.adopt(&ada, &by_hand));
    for holds_another in [false, true] {
        if holds_another {
            ground.claim(&bob, &other);
        }
        let ran = ground.commit(&bob, &adopted, "bob\n");
        assert!(ran.code != 0 && ran.stderr.contains(&format!("the worktree of {by_hand}")), "{ran:?}");
        let ran = ground.commit(&bob, &path, "bob\n");
        let why = format!("this is the worktree of {id}, which has been held by agent:ada");
        assert!(ran.code != 0 && ran.stderr.contains(&why), "{ran:?}");
        let checked = sandbox.json(&bob, &["guard", "check", path.join("f").to_str().unwrap()]);
        assert_eq!(checked.refused(4)["code"], "held");
        assert_eq!(ground.tasks(), 3);
    }
    // A person is warned.
    let ran = ground.commit(&human("founder"), &path, "a person\n");
    assert!(ran.ok().stderr.contains(&format!("careful: this is the worktree of {id}")), "{ran:?}");
    // Its holder goes on; when nobody holds it any more, anybody may.
    ground.commit(&ada, &path, "ada\n").ok();
    sandbox.run(&ada, &["done", &id, "-m", "x"]).ok();
    ground.commit(&bob, &path, "bob\n").ok();
    sandbox.is_whole();
}

/// Whatever else its author holds.
#[test]
fn a_commit_where_an_open_task_is_at_home_is_that_tasks_although_another_is_held() {
    let ground = Ground::new();
    let (sandbox, ada, bob) = (&ground.sandbox, agent("ada"), agent("bob"));
    let (id, read_only) = (sandbox.add("free"), sandbox.add("read only"));
    let (path, bound) = (ground.claim(&ada, &id), ground.claim(&ada, &read_only));
    sandbox.run(&human("founder"), &["edit", &read_only, "--constraint", "read_only"]).ok();
    sandbox.run(&ada, &["release", &id]).ok();
    sandbox.run(&ada, &["release", &read_only]).ok();
    // bob has an ad-hoc task.
    ground.commit(&bob, sandbox.path(), "ad hoc\n").ok();
    let ran = ground.commit(&bob, &bound, "changed\n");
    assert!(ran.code != 0 && ran.stderr.contains("read_only"), "{ran:?}");
    ground.commit(&bob, &path, "changed\n").ok();
    assert_eq!(sandbox.show(&id)["lease"]["actor"], "agent:bob");
    let message = by(sandbox, &bob, &path, &["log", "-1", "--format=%B"]);
    assert_eq!(message.stdout.trim_end(), format!("x\n\nOnus-Task: {id}"));
    sandbox.is_whole();
}

/// The files are elsewhere, the commit is made here.
#[test]
fn a_commit_from_another_work_tree_is_judged() {
    let ground = Ground::new();
    let (sandbox, ada, bob) = (&ground.sandbox, agent("ada"), agent("bob"));
    crate::guard::kit::held(sandbox, &bob, "a.txt");
    let read_only = sandbox.add("read only");
    sandbox.run(&human("founder"), &["edit", &read_only, "--constraint", "read_only"]).ok();
    let bound = ground.claim(&ada, &read_only);
    let linked = by(sandbox, &ada, &bound, &["rev-parse", "--absolute-git-dir"]).stdout;
    let elsewhere = tempfile::tempdir().unwrap();
    let tree = elsewhere.path().to_str().unwrap();
    let main = sandbox.path().join(".git");
    for (git_dir, file, why) in
        [(main.to_str().unwrap(), "a.txt", "a.txt is reserved by"), (linked.trim(), "b.txt", "read_only")]
    {
        by(
            sandbox,
            &ada,
            sandbox.path(),
            &["--git-dir", git_dir, "--work-tree", tree, "checkout", "-f", "HEAD", "."],
        )
        .ok();
        write(elsewhere.path(), file, "from elsewhere\n");
        let args = ["--git-dir", git_dir, "--work-tree", tree, "commit", "-q", "-a", "-m", "x"];
        let ran = by(sandbox, &ada, sandbox.path(), &args);
        assert!(ran.code != 0 && ran.stderr.contains(why), "{git_dir}: {ran:?}");
        let ran = by(sandbox, &ada, elsewhere.path(), &args);
        assert!(ran.code != 0 && ran.stderr.contains(why), "{git_dir}: {ran:?}");
    }
}

/// The lease knows its worktree, whatever is checked out in it.
#[test]
fn nobody_else_commits_where_another_works_whatever_is_checked_out_or_changed() {
    let ground = Ground::new();
    let (sandbox, ada, bob) = (&ground.sandbox, agent("ada"), agent("bob"));
    by(sandbox, &human("founder"), sandbox.path(), &["switch", "-q", "-c", "side"]).ok();
    write(sandbox.path(), "side.txt", "side\n");
    by(sandbox, &human("founder"), sandbox.path(), &["add", "side.txt"]).ok();
    by(sandbox, &human("founder"), sandbox.path(), &["commit", "-q", "-m", "side"]).ok();
    by(sandbox, &human("founder"), sandbox.path(), &["switch", "-q", "-"]).ok();
    for home in [Ground::claim, Ground::adopt] {
        for moved in [
            &["status"][..],
            &["switch", "-q", "--detach"],
            &["switch", "-q", "-c", "another"],
            &["branch", "-m", "renamed"],
        ] {
            let id = sandbox.add("ada's");
            let path = home(&ground, &ada, &id);
            by(sandbox, &ada, &path, moved).ok();
            let why = format!("this is the worktree of {id}");
            let ran = ground.commit(&bob, &path, "bob\n");
            assert!(ran.code != 0 && ran.stderr.contains(&why), "{moved:?}: {ran:?}");
            by(sandbox, &ada, &path, &["reset", "-q", "--hard"]).ok();
            for args in
                [&["commit", "-q", "--allow-empty", "-m", "x"][..], &["merge", "-q", "--no-ff", "side"]]
            {
                let ran = by(sandbox, &bob, &path, args);
                assert!(ran.code != 0 && ran.stderr.contains(&why), "{moved:?} {args:?}: {ran:?}");
                by(sandbox, &ada, &path, &["reset", "-q", "--hard"]).ok();
            }
            ground.commit(&ada, &path, "ada\n").ok();
            sandbox.run(&ada, &["release", &id]).ok();
            by(sandbox, &ada, &path, &["switch", "-q", "--detach"]).ok();
            by(sandbox, &ada, sandbox.path(), &["branch", "-q", "-D", "another"]);
            by(sandbox, &ada, sandbox.path(), &["branch", "-q", "-D", "renamed"]);
        }
    }
    sandbox.is_whole();
}
