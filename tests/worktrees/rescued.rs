//! A successor that begins with what its predecessor left uncommitted.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::kit::Yard;
use crate::support::{agent, eventually, human};

/// A task whose holder was taken from, with work in its own worktree that nobody committed; free again. Its folder.
fn left_behind(yard: &Yard, id: &str) -> PathBuf {
    let path = yard.claim(&agent("a"), id);
    yard.commit_in(&path, "b.txt", "committed\n");
    fs::write(path.join("a.txt"), "staged\n").unwrap();
    yard.git_in(&path, &["add", "a.txt"]);
    fs::write(path.join("a.txt"), "and more\n").unwrap();
    fs::remove_file(path.join("b.txt")).unwrap();
    fs::write(path.join("new \n name.txt"), "new\n").unwrap();
    yard.run(&human("ada"), &["takeover", id, "--force", "--reason", "gone"]).ok();
    yard.run(&human("ada"), &["release", id]).ok();
    path
}

const BEGIN: [&str; 3] = ["ON-1", "--worktree", "--rescue"];

fn begin(yard: &Yard) -> Value {
    yard.json(&agent("b"), &[&["claim"], &BEGIN[..]].concat()).ok().json()
}

#[test]
fn the_successors_worktree_begins_with_what_its_predecessor_left_uncommitted() {
    let yard = Yard::new();
    let id = yard.add("one");
    let path = left_behind(&yard, &id);
    yard.git(&["worktree", "remove", "--force", path.to_str().unwrap()]);
    let text = yard.run(&agent("b"), &[&["claim"], &BEGIN[..]].concat()).ok().stdout.clone();
    assert!(text.contains("rescued:  3 files of agent:a: a.txt"), "{text}");
    let status = yard.try_git(&path, &["status", "--porcelain", "-z", "--no-renames"]).stdout;
    assert_eq!(status, "MM a.txt\0 D b.txt\0?? new \n name.txt\0", "as it was, with what was staged");
    assert_eq!(fs::read_to_string(path.join("a.txt")).unwrap(), "and more\n");
    assert_eq!(fs::read_to_string(path.join("new \n name.txt")).unwrap(), "new\n");
    yard.is_at_rest();
    // The next one finds it there.
    yard.run(&agent("b"), &["release", &id]).ok();
    let again = begin(&yard);
    assert_eq!(again["worktree"]["new"], false);
    let empty = json!({"token": 1, "actor": "agent:a", "written": [], "removed": [], "same": [], "left": []});
    assert_eq!(again["worktree"]["rescued"], empty);
    assert!(
        again["notices"].to_string().contains("nothing was restored: the worktree was there"),
        "{again:#}"
    );
}

#[test]
fn a_claim_says_that_work_of_an_earlier_holder_is_kept() {
    let yard = Yard::new();
    let id = yard.add("one");
    left_behind(&yard, &id);
    let told = |args: &[&str]| {
        let claimed = yard.json(&agent("b"), args).ok().json();
        let rescue = |notice: &&Value| notice["kind"] == "rescue";
        let notices = claimed["notices"].as_array().cloned().unwrap_or_default();
        notices.iter().find(rescue).cloned().unwrap_or_default()
    };
    let notice = told(&["claim", &id]);
    assert_eq!(notice["message"].as_str().unwrap().split(" that ").next(), Some("3 files"), "{notice}");
    assert!(notice["message"].as_str().unwrap().ends_with("left uncommitted are kept"), "{notice}");
    assert_eq!(notice["task"], "ON-1");
    assert!(notice["next"].to_string().contains("onus rescue show ON-1"), "{notice}");
    assert_eq!(told(&["claim", &id]), Value::Null, "a renewal repeats nothing");
    yard.run(&agent("b"), &["release", &id]).ok();
    assert_ne!(told(&["claim", "--next"]), Value::Null);
    yard.run(&agent("b"), &["release", &id]).ok();
    yard.run(&human("ada"), &["rescue", "drop", &id, "--reason", "it is in"]).ok();
    assert_eq!(told(&["claim", &id]), Value::Null, "dropped");
}

#[test]
fn nothing_is_overwritten_and_what_is_left_out_is_named() {
    let yard = Yard::new();
    let id = yard.add("one");
    let path = left_behind(&yard, &id);
    // Ignored, so that git calls the worktree clean.
    yard.git_in(&path, &["stash", "--quiet", "--include-untracked"]);
    fs::write(yard.repo().join(".git/info/exclude"), "new*\n").unwrap();
    fs::write(path.join("new \n name.txt"), "mine\n").unwrap();
    let begun = begin(&yard);
    let rescued = &begun["worktree"]["rescued"];
    assert_eq!(rescued["left"], json!(["new \n name.txt"]), "{begun:#}");
    assert_eq!(
        (&rescued["written"], &rescued["removed"]),
        (&json!(["a.txt"]), &json!(["b.txt"])),
        "{begun:#}"
    );
    assert_eq!(fs::read_to_string(path.join("new \n name.txt")).unwrap(), "mine\n");
    assert!(begun["notices"].to_string().contains("would be overwritten"), "{begun:#}");
    // Committed otherwise since.
    yard.git_in(&path, &["checkout", "--quiet", "--", "."]);
    yard.commit_in(&path, "a.txt", "another\n");
    yard.run(&agent("b"), &["release", &id]).ok();
    let begun = begin(&yard);
    assert_eq!(begun["worktree"]["rescued"]["removed"], json!(["b.txt"]), "{begun:#}");
    assert!(begun["notices"].to_string().contains("a.txt was committed differently since"), "{begun:#}");
    assert_eq!(fs::read_to_string(path.join("a.txt")).unwrap(), "another\n");
}

#[test]
fn what_another_has_reserved_is_not_laid_out() {
    let yard = Yard::new();
    let id = yard.add("one");
    let path = left_behind(&yard, &id);
    yard.git(&["worktree", "remove", "--force", path.to_str().unwrap()]);
    let other = yard.add("two");
    yard.run(&agent("c"), &["claim", &other, "--scope", "a.txt"]).ok();
    let begun = begin(&yard);
    let told = begun["notices"].to_string();
    assert!(told.contains("not everything was restored: a.txt is reserved by ON-2"), "{begun:#}");
    assert_eq!(fs::read_to_string(path.join("a.txt")).unwrap(), "one\n");
    assert_eq!(yard.show(&id)["lease"]["actor"], "agent:b", "the claim holds");
    // People are not held back.
    yard.run(&agent("b"), &["release", &id]).ok();
    let begun = yard.json(&human("ada"), &[&["claim"], &BEGIN[..]].concat()).ok().json();
    assert_eq!(begun["worktree"]["rescued"]["written"].as_array().unwrap().len(), 2, "{begun:#}");
}

#[test]
fn rescue_needs_a_worktree_and_nothing_kept_is_said() {
    let yard = Yard::new();
    let (b, id) = (agent("b"), yard.add("one"));
    for args in [&["claim", &id, "--rescue"][..], &["run", &id, "--rescue", "--", "true"]] {
        let refused = yard.json(&b, args).refused(2);
        assert!(refused["message"].to_string().contains("--worktree"), "{refused}");
        assert!(refused["next"].to_string().contains("onus rescue restore"), "{refused}");
    }
    assert!(!yard.kinds(&id).contains(&"lease.acquired".to_owned()));
    let begun = begin(&yard);
    assert!(begun["worktree"].get("rescued").is_none(), "{begun:#}");
    assert!(begun["notices"].to_string().contains("ON-1 has no rescued files"), "{begun:#}");
}

#[test]
fn a_run_takes_over_and_begins_with_what_was_left_in_the_shared_checkout() {
    let yard = Yard::new();
    let id = yard.add("one");
    yard.run(&agent("a"), &["claim", &id, "--scope", "*.txt", "--ttl", "1s"]).ok();
    fs::write(yard.repo().join("c.txt"), "left\n").unwrap();
    eventually("the lease to lapse", || (yard.show(&id)["lease"]["live"] == false).then_some(()));
    let command = ["--on-success", "release", "--", "cat", "c.txt"];
    let ran = yard.run(&agent("b"), &[&["run"], &BEGIN[..], &command].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "left\n"), "{ran:?}");
    assert!(ran.stderr.contains("rescued:  1 file of agent:a: c.txt"), "{ran:?}");
    assert_eq!(fs::read_to_string(yard.root().join("ON-1-one/c.txt")).unwrap(), "left\n");
    assert_eq!(fs::read_to_string(yard.repo().join("c.txt")).unwrap(), "left\n", "and where it was");
}
