//! What the record says of commits, however they are made: the hook after a commit asks git only about what the hook before it cannot
//! have known.

use std::collections::BTreeSet;
use std::path::Path;

use crate::guard::kit::{by, events, git_by, guarded, head, held, said, worktree, write};
use crate::support::{As, Sandbox, agent, program};

/// One holder of two tasks, one for each file.
struct Yard {
    sandbox: Sandbox,
    ada: As,
    tasks: [(&'static str, String); 2],
    round: usize,
}

impl Yard {
    fn new() -> Yard {
        let (sandbox, ada) = (guarded(), agent("ada"));
        let tasks = ["a.txt", "b.txt"].map(|file| (file, held(&sandbox, &ada, file)));
        Yard { sandbox, ada, tasks, round: 0 }
    }

    /// Changes files and stages them.
    fn stage(&mut self, files: &[&str]) {
        for file in files {
            self.round += 1;
            write(self.sandbox.path(), file, &format!("{}\n", self.round));
            git_by(&self.sandbox, &self.ada, &["add", file]).ok();
        }
    }

    fn commit(&self, args: &[&str]) -> bool {
        git_by(&self.sandbox, &self.ada, &[&["commit", "-q"], args].concat()).code == 0
    }

    /// A second commit-msg hook, behind ours.
    fn hook(&self, script: &str) {
        let hook = self.sandbox.path().join(".git/hooks/commit-msg");
        let ours = std::fs::read_to_string(&hook).unwrap();
        let ours = ours.split_inclusive('\n').filter(|line| !line.ends_with("# theirs\n"));
        program(&hook, ours.collect::<String>() + &script.replace('\n', "; ") + " # theirs\n");
    }

    /// The tasks for which HEAD is recorded are those whose files git says that it changes.
    #[track_caller]
    fn check(&self, why: &str) {
        let head = head(&self.sandbox);
        let changed = said(&self.sandbox, &["log", "-1", "--name-only", "--no-renames", "--format="]);
        let changed: BTreeSet<&str> = changed.lines().collect();
        let expected: BTreeSet<String> = self
            .tasks
            .iter()
            .filter(|(file, _)| changed.contains(file))
            .map(|(_, id)| self.sandbox.show(id)["uid"].as_str().unwrap().to_owned())
            .collect();
        let made = events(&self.sandbox, "commit.made");
        let recorded: BTreeSet<String> = made
            .iter()
            .filter(|event| event["payload"]["commit"] == head.as_str())
            .map(|event| event["task"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(recorded, expected, "{why}: {changed:?}\n{made:#?}");
    }
}

#[test]
fn a_commit_is_recorded_for_what_it_changes_however_it_is_made() {
    let mut yard = Yard::new();
    for files in [&["a.txt"][..], &["b.txt"], &["a.txt", "b.txt"]] {
        yard.stage(files);
        assert!(yard.commit(&["-m", "plain"]));
        yard.check("plain");
    }
    yard.stage(&["a.txt", "b.txt"]);
    assert!(yard.commit(&["-m", "one of two", "--only", "a.txt"]));
    yard.check("a path of several");
    assert!(yard.commit(&["--amend", "--no-edit", "--", "b.txt"]));
    yard.check("amended");
    yard.stage(&["a.txt"]);
    assert!(yard.commit(&["-m", "title\n\n# kept, as there is no editor", "--cleanup=verbatim"]));
    yard.check("a comment that is none");
    // The new name goes to the task that was claimed last, which has the old one.
    git_by(&yard.sandbox, &yard.ada, &["mv", "b.txt", "c.txt"]).ok();
    assert!(yard.commit(&["-m", "renamed"]));
    yard.check("renamed");
    git_by(&yard.sandbox, &yard.ada, &["revert", "--no-edit", "HEAD"]).ok();
    yard.check("reverted");
    yard.sandbox.is_whole();
}

/// What was left for a commit that was not made must not be taken for the next one.
#[test]
fn a_commit_that_failed_says_nothing_of_the_next() {
    let mut yard = Yard::new();
    yard.stage(&["a.txt"]);
    yard.hook("exit 1");
    assert!(!yard.commit(&["-m", "the same"]), "another hook refuses it");
    git_by(&yard.sandbox, &yard.ada, &["reset", "-q", "--hard"]).ok();
    yard.stage(&["b.txt"]);
    let message = said(&yard.sandbox, &["rev-parse", "--git-path", "COMMIT_EDITMSG"]);
    std::fs::copy(yard.sandbox.path().join(message), yard.sandbox.path().join(".git/same")).unwrap();
    assert!(yard.commit(&["--no-verify", "-F", ".git/same"]), "without hooks, with the same message");
    yard.check("after one that failed");
    yard.stage(&["a.txt"]);
    assert!(!yard.commit(&["-m", "again"]));
    git_by(&yard.sandbox, &yard.ada, &["reset", "-q", "--hard"]).ok();
    git_by(&yard.sandbox, &yard.ada, &["revert", "--no-edit", "HEAD"]).ok();
    yard.check("a revert after one that failed");
    // Nothing judges a revert before it is made, so it is warned of.
    held(&yard.sandbox, &agent("bob"), "c.txt");
    write(yard.sandbox.path(), "c.txt", "by a person\n");
    said(&yard.sandbox, &["add", "c.txt"]);
    said(&yard.sandbox, &["commit", "-q", "--no-verify", "-m", "c"]);
    yard.stage(&["a.txt"]);
    assert!(!yard.commit(&["-m", "again"]));
    git_by(&yard.sandbox, &yard.ada, &["reset", "-q", "--hard"]).ok();
    let ran = git_by(&yard.sandbox, &yard.ada, &["revert", "--no-edit", "HEAD"]);
    assert!(ran.code == 0 && ran.stderr.contains("changes a file that another task has reserved"), "{ran:?}");
    yard.sandbox.is_whole();
}

#[test]
fn what_a_message_says_in_the_end_is_noted() {
    let mut yard = Yard::new();
    let other = yard.sandbox.add("another's");
    let notes = |yard: &Yard| yard.sandbox.show(&other)["notes"].as_array().unwrap().len();
    yard.stage(&["a.txt"]);
    yard.hook(&format!("printf '\\nResolves {other}\\n' >>\"$1\""));
    assert!(yard.commit(&["-m", "said by a later hook"]));
    yard.check("a later hook writes");
    assert_eq!(notes(&yard), 1);
    yard.hook("sed -i /Resolves/d \"$1\"");
    yard.stage(&["b.txt"]);
    assert!(yard.commit(&["-m", &format!("title\n\nResolves {other}")]));
    yard.check("a later hook removes");
    assert_eq!(notes(&yard), 1, "it is not in the commit");
    yard.sandbox.is_whole();
}

#[test]
fn commits_in_another_worktree_without_a_record_of_moves_or_with_tables_are_recorded() {
    let mut yard = Yard::new();
    let folder = worktree(&yard.sandbox, "beside");
    write(&folder, "b.txt", "beside\n");
    by(&yard.sandbox, &yard.ada, &folder, &["commit", "-q", "-a", "-m", "beside"]).ok();
    let commit = said(&yard.sandbox, &["rev-parse", "beside"]);
    let has_it = |yard: &Yard, commit: &str| {
        events(&yard.sandbox, "commit.made").iter().any(|event| event["payload"]["commit"] == commit)
    };
    assert!(has_it(&yard, &commit));
    for args in
        [&["config", "core.logAllRefUpdates", "false"][..], &["refs", "migrate", "--ref-format=reftable"]]
    {
        if git_by(&yard.sandbox, &yard.ada, args).code != 0 {
            // An older git has no tables.
            continue;
        }
        std::fs::remove_file(Path::new(yard.sandbox.path()).join(".git/logs/HEAD")).unwrap_or_default();
        yard.stage(&["a.txt"]);
        assert!(yard.commit(&["-m", "unlogged"]));
        yard.check(&args.join(" "));
    }
    yard.sandbox.is_whole();
}

/// Git tidies up between a commit and its last hook, and another may commit in the same checkout meanwhile.
#[test]
fn a_commit_that_another_made_in_between_is_not_taken_for_ones_own() {
    let mut yard = Yard::new();
    let bob = agent("bob");
    held(&yard.sandbox, &bob, "c.txt");
    yard.stage(&["a.txt"]);
    assert!(yard.commit(&["-m", "ada's"]));
    write(yard.sandbox.path(), "c.txt", "bob\n");
    git_by(&yard.sandbox, &bob, &["add", "c.txt"]).ok();
    git_by(&yard.sandbox, &bob, &["commit", "-q", "-m", "bob's"]).ok();
    let before = events(&yard.sandbox, "commit.made").len();
    let ran = yard.sandbox.run(&yard.ada, &["guard", "hook", "post-commit"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    assert_eq!(events(&yard.sandbox, "commit.made").len(), before);
    yard.sandbox.is_whole();
}
