//! What constraints forbid an agent to commit, however the commit is put together.

use crate::guard::kit::{git_by, guarded, head, held, said, unknown, write};
use crate::support::{Ran, Sandbox, agent, human};

#[test]
fn constraints_hold_at_the_door() {
    let cases: [(&str, &[&str], bool, &str); 7] = [
        ("read_only", &["w a.txt x"], false, "read_only: a.txt may not be changed"),
        ("no_delete", &["w a.txt x"], true, ""),
        ("no_delete", &["d a.txt"], false, "no_delete: a.txt may not be deleted"),
        ("no_delete", &["m a.txt c.txt"], true, ""),
        ("max_files=1", &["w a.txt x"], true, ""),
        ("max_files=1", &["w a.txt x", "w b.txt x"], false, "max_files=1: this would be 2 changed files"),
        ("max_lines=3", &["w a.txt 1\n2\n3\n4"], false, "max_lines=3: this would be 5 changed lines"),
    ];
    for (constraint, steps, passes, says) in cases {
        let sandbox = guarded();
        let (ada, id) = (agent("ada"), sandbox.add("bounded"));
        sandbox.run(&human("founder"), &["edit", &id, "--constraint", constraint]).ok();
        sandbox.run(&ada, &["claim", &id, "--scope", "**"]).ok();
        for step in steps {
            let words: Vec<&str> = step.splitn(3, ' ').collect();
            match words[..] {
                ["w", file, text] => write(sandbox.path(), file, &format!("{text}\n")),
                ["d", file] => std::fs::remove_file(sandbox.path().join(file)).unwrap(),
                ["m", from, to] => {
                    std::fs::rename(sandbox.path().join(from), sandbox.path().join(to)).unwrap();
                }
                _ => panic!("{step}"),
            }
        }
        git_by(&sandbox, &ada, &["add", "-A"]).ok();
        let ran = git_by(&sandbox, &ada, &["commit", "-q", "-m", "x"]);
        assert_eq!(ran.code == 0, passes, "{constraint} {steps:?}: {ran:?}");
        assert!(ran.stderr.contains(says), "{constraint} {steps:?}: {ran:?}");
    }
}

#[test]
fn files_and_lines_are_counted_over_all_commits_of_the_task() {
    let sandbox = guarded();
    let (ada, id) = (agent("ada"), sandbox.add("bounded"));
    for constraint in ["max_files=2", "max_lines=5"] {
        sandbox.run(&human("founder"), &["edit", &id, "--constraint", constraint]).ok();
    }
    sandbox.run(&ada, &["claim", &id, "--scope", "**"]).ok();
    for (file, passes) in [("a.txt", true), ("b.txt", true), ("c.txt", false), ("a.txt", false)] {
        write(sandbox.path(), file, &format!("{file} {passes}\n"));
        git_by(&sandbox, &ada, &["add", file]).ok();
        let ran = git_by(&sandbox, &ada, &["commit", "-q", "-m", "x"]);
        assert_eq!(ran.code == 0, passes, "{file}: {ran:?}");
        git_by(&sandbox, &ada, &["reset", "-q", "--hard"]).ok();
    }
}

/// A task cannot exempt its files from being counted, nor bring in by a merge what would be too much in one commit; and what a
/// merge brings from others is not the task's.
#[test]
fn a_task_is_counted_whatever_its_attributes_say_and_however_it_is_put_together() {
    let sandbox = guarded();
    let (ada, id) = (agent("ada"), sandbox.add("bounded"));
    sandbox.run(&human("founder"), &["edit", &id, "--constraint", "max_lines=6"]).ok();
    sandbox.run(&human("founder"), &["edit", &id, "--constraint", "max_files=3"]).ok();
    sandbox.run(&ada, &["claim", &id, "--scope", "**"]).ok();
    let commit = |files: &[(&str, &str)]| {
        for (file, text) in files {
            write(sandbox.path(), file, text);
        }
        git_by(&sandbox, &ada, &["add", "-A"]).ok();
        git_by(&sandbox, &ada, &["commit", "-q", "-m", "x"])
    };
    let start = head(&sandbox);
    commit(&[(".gitattributes", "* -diff\n")]).ok();
    let ran = commit(&[("c.txt", "1\n2\n3\n4\n5\n6\n")]);
    assert!(ran.code != 0 && ran.stderr.contains("this would be 7 changed lines"), "{ran:?}");
    git_by(&sandbox, &ada, &["reset", "-q", "--hard", &start]).ok();
    // Two branches of its own, each within its limits.
    git_by(&sandbox, &ada, &["checkout", "-q", "-b", "side"]).ok();
    commit(&[("s1", "1\n"), ("s2", "2\n")]).ok();
    git_by(&sandbox, &ada, &["checkout", "-q", "main"]).ok();
    commit(&[("m1", "1\n"), ("a.txt", "ada\n")]).ok();
    let ran = git_by(&sandbox, &ada, &["merge", "-q", "--no-edit", "side"]);
    assert!(ran.code != 0 && ran.stderr.contains("this would be 4 changed files"), "{ran:?}");
    git_by(&sandbox, &ada, &["merge", "--abort"]).ok();
    // What others made is brought in, with a conflict that is resolved.
    git_by(&sandbox, &human("founder"), &["checkout", "-q", "-b", "others", &start]).ok();
    for file in ["o1", "o2", "o3", "o4", "a.txt"] {
        write(sandbox.path(), file, "others\n");
    }
    git_by(&sandbox, &human("founder"), &["add", "-A"]).ok();
    git_by(&sandbox, &human("founder"), &["commit", "-q", "-m", "others"]).ok();
    git_by(&sandbox, &ada, &["checkout", "-q", "main"]).ok();
    assert_ne!(git_by(&sandbox, &ada, &["merge", "-q", "--no-edit", "others"]).code, 0);
    commit(&[("a.txt", "both\n")]).ok();
}

/// More files than a lease can reserve one by one.
#[test]
fn a_commit_of_very_many_files_is_judged_too() {
    let many = |sandbox: &Sandbox, folder: &str| {
        let blob = said(sandbox, &["hash-object", "-w", "a.txt"]);
        let lines: String = (0..10_001).map(|n| format!("100644 {blob}\t{folder}/{n}\n")).collect();
        write(sandbox.path(), ".git/entries", &lines);
        let entries = std::fs::File::open(sandbox.path().join(".git/entries")).unwrap();
        let mut update = unknown(sandbox, sandbox.path());
        let ran = update.args(["update-index", "--add", "--index-info"]).stdin(entries).output().unwrap();
        Ran::of(ran).ok();
    };
    let sandbox = guarded();
    let (ada, bob) = (agent("ada"), agent("bob"));
    for (constraint, why) in [("read_only", "read_only"), ("max_files=100", "10001 changed files")] {
        let id = sandbox.add("bound");
        sandbox.run(&human("founder"), &["edit", &id, "--constraint", constraint]).ok();
        sandbox.run(&ada, &["claim", &id]).ok();
        many(&sandbox, "many");
        let ran = git_by(&sandbox, &ada, &["commit", "-q", "-m", "many"]);
        assert!(ran.code != 0 && ran.stderr.contains(why), "{constraint}: {ran:?}");
        said(&sandbox, &["read-tree", "HEAD"]);
        sandbox.run(&ada, &["release", &id]).ok();
    }
    let id = sandbox.add("lost");
    sandbox.run(&ada, &["claim", &id]).ok();
    let force = ["takeover", &id, "--force", "--reason", "mine"];
    sandbox.run(&human("founder"), &force).ok();
    many(&sandbox, "many");
    let ran = git_by(&sandbox, &ada, &["commit", "-q", "-m", "many"]);
    assert!(ran.code != 0 && ran.stderr.contains("was revoked by human:founder"), "{ran:?}");
    // Whoever may, commits them, and is recorded; and a lease that is full of files can still commit.
    let id = held(&sandbox, &bob, "many/**");
    git_by(&sandbox, &bob, &["commit", "-q", "-m", "many"]).ok();
    assert_eq!(sandbox.show(&id)["commits"].as_array().unwrap().len(), 1);
    sandbox.is_whole();
}
