//! Pushes: what git's other doors let through is judged again.

use crate::agents::kit::{configured, git};
use crate::guard::kit::{git_by, guarded, held, said, write};
use crate::support::{Ran, Sandbox, agent, human};

fn with_remote() -> Sandbox {
    let sandbox = guarded();
    git(&sandbox, &["init", "-q", "--bare", "home/far.git"]);
    git(&sandbox, &["remote", "add", "far", "home/far.git"]);
    git(&sandbox, &["push", "-q", "--no-verify", "far", "main"]);
    sandbox
}

fn push(sandbox: &Sandbox, who: &crate::support::As) -> Ran {
    git_by(sandbox, who, &["push", "-q", "far", "main"])
}

#[test]
fn commits_that_touch_what_another_reserves_are_not_pushed_by_agents() {
    let sandbox = with_remote();
    let (ada, bob) = (agent("ada"), agent("bob"));
    held(&sandbox, &bob, "b.txt");
    write(sandbox.path(), "b.txt", "bob\n");
    git_by(&sandbox, &bob, &["commit", "-q", "-a", "-m", "mine"]).ok();
    push(&sandbox, &bob).ok();
    held(&sandbox, &ada, "a.txt");
    write(sandbox.path(), "a.txt", "bob\n");
    git_by(&sandbox, &bob, &["commit", "-q", "-a", "--no-verify", "-m", "past the door"]).ok();
    let ran = push(&sandbox, &bob);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("a.txt is reserved by") && ran.stderr.contains("agent:ada"), "{ran:?}");
    assert_ne!(said(&sandbox, &["rev-parse", "main"]), said(&sandbox, &["rev-parse", "far/main"]));
    // A person is told of what is hers.
    write(sandbox.path(), "a.txt", "carol\n");
    git_by(&sandbox, &human("carol"), &["commit", "-q", "-a", "--no-verify", "-m", "hers"]).ok();
    let person = push(&sandbox, &human("carol"));
    assert_eq!(person.code, 0, "{person:?}");
    assert!(person.stderr.contains("careful: a.txt is reserved by"), "{person:?}");
}

#[test]
fn what_others_committed_is_theirs_to_answer_for() {
    let sandbox = with_remote();
    let (ada, bob) = (agent("ada"), agent("bob"));
    held(&sandbox, &ada, "a.txt");
    write(sandbox.path(), "a.txt", "ada\n");
    git_by(&sandbox, &ada, &["commit", "-q", "-a", "-m", "hers"]).ok();
    held(&sandbox, &bob, "b.txt");
    write(sandbox.path(), "b.txt", "bob\n");
    git_by(&sandbox, &bob, &["commit", "-q", "-a", "-m", "his"]).ok();
    push(&sandbox, &bob).ok();
}

#[test]
fn commits_made_under_a_lost_lease_are_pushed_by_the_successor_only() {
    let sandbox = with_remote();
    let (ada, bob) = (agent("ada"), agent("bob"));
    let id = held(&sandbox, &ada, "a.txt");
    write(sandbox.path(), "a.txt", "ada\n");
    git_by(&sandbox, &ada, &["commit", "-q", "-a", "-m", "hers"]).ok();
    sandbox.run(&human("founder"), &["takeover", &id, "--force", "--reason", "away"]).ok();
    sandbox.run(&human("founder"), &["release", &id]).ok();
    sandbox.run(&bob, &["claim", &id]).ok();
    let ran = push(&sandbox, &ada);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("under token 1, which is no longer current"), "{ran:?}");
    push(&sandbox, &bob).ok();
}

#[test]
fn what_is_done_is_pushed_by_whoever_did_it() {
    let sandbox = with_remote();
    let (ada, bob) = (agent("ada"), agent("bob"));
    let id = held(&sandbox, &ada, "a.txt");
    write(sandbox.path(), "a.txt", "ada\n");
    git_by(&sandbox, &ada, &["commit", "-q", "-a", "-m", "hers"]).ok();
    sandbox.run(&ada, &["done", &id, "-m", "done"]).ok();
    sandbox.run(&human("founder"), &["reopen", &id]).ok();
    sandbox.run(&bob, &["claim", "ON-1"]).ok();
    // Deleting a branch brings nothing.
    push(&sandbox, &agent("carl")).ok();
    git_by(&sandbox, &ada, &["push", "-q", "far", "main:side"]).ok();
    git_by(&sandbox, &ada, &["push", "-q", "far", ":side"]).ok();
}

#[test]
fn people_are_refused_a_push_only_where_that_is_configured() {
    let sandbox = with_remote();
    held(&sandbox, &agent("ada"), "a.txt");
    write(sandbox.path(), "a.txt", "carol\n");
    git_by(&sandbox, &human("carol"), &["commit", "-q", "-a", "-m", "x"]).ok();
    configured(&sandbox, "[guard]\npeople = \"refuse\"\n");
    let ran = push(&sandbox, &human("carol"));
    assert!(ran.code != 0 && ran.stderr.contains("git push --no-verify"), "{ran:?}");
    configured(&sandbox, "[guard]\npeople = \"off\"\n");
    assert_eq!(push(&sandbox, &human("carol")).ok().stderr, "");
}
