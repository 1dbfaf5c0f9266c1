//! Two worktrees of one repository: a file that was touched is that file in that worktree; a declared scope holds in all.

use std::path::PathBuf;

use serde_json::Value;

use crate::agents::harness::{Harness, Verdict};
use crate::agents::kit::{configured, git, repository, tasks};
use crate::agents::payload::Kind;
use crate::support::{Sandbox, agent, human};
use onus_store::conformance::server::{Server, fresh_name};

/// A second worktree, on a branch of its own.
fn beside(sandbox: &Sandbox) -> PathBuf {
    let worktree = sandbox.path().join("home/beside");
    std::fs::create_dir_all(sandbox.path().join("home")).unwrap();
    git(sandbox, &["worktree", "add", "-q", "-b", "aside", worktree.to_str().unwrap()]);
    worktree
}

/// What is said of a merge to come.
fn merge(verdict: &Verdict) -> Option<&str> {
    verdict.context.as_deref()?.lines().find(|line| line.contains("a merge to come"))
}

#[test]
fn two_conversations_edit_one_path_in_two_worktrees_and_both_are_told_once() {
    for kind in [Kind::Claude, Kind::Codex] {
        let sandbox = repository();
        two_worktrees(&sandbox, kind, &[]);
    }
}

#[test]
fn on_a_server_it_is_the_same() {
    let (address, name) = (Server::shared().shared_database(), fresh_name());
    let sandbox = Sandbox::on_server(address, &name);
    git(&sandbox, &["init", "-q"]);
    git(&sandbox, &["commit", "-q", "--allow-empty", "-m", "first"]);
    sandbox.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
    two_worktrees(&sandbox, Kind::Claude, &[("ONUS_STORE", address), ("ONUS_PROJECT", &name)]);
}

fn two_worktrees(sandbox: &Sandbox, kind: Kind, env: &[(&str, &str)]) {
    let worktree = beside(sandbox);
    let started = |mut harness: Harness| {
        for (name, value) in env {
            harness = harness.with(name, value);
        }
        harness.start();
        harness
    };
    let one = started(Harness::new(kind, sandbox, "one"));
    let other = started(Harness::new(kind, sandbox, "other").at(&worktree));
    one.edit("src/a.rs").allowed();
    let second = other.edit("src/a.rs");
    second.allowed();
    let said = merge(&second).unwrap();
    assert!(said.contains("(one)") && said.contains("src/a.rs") && said.contains("on branch main"), "{said}");
    assert_eq!(merge(other.edit("src/a.rs").allowed()), None, "not each time");
    // The other hears at its next hook, of whatever kind.
    let told = one.after_tool("Read");
    let said = merge(&told).unwrap_or_else(|| panic!("{told:?}"));
    assert!(said.contains("(other)") && said.contains("src/a.rs"), "{said}");
    assert!(said.contains("home/beside") && said.contains("on branch aside"), "{said}");
    one.after_tool("Read").silent();
    // Whoever writes there from here is in that worktree.
    let third = started(Harness::new(kind, sandbox, "third"));
    let refused = third.edit(worktree.join("src/a.rs"));
    assert!(refused.refused().contains("(other)"), "{refused:?}");
    assert!(third.edit("src/a.rs").refused().contains("(one)"));
    third.edit(worktree.join("src/b.rs")).allowed();
    let refused = other.edit("src/b.rs");
    assert!(refused.refused().contains("(third)"), "{refused:?}");
    // One call may change files of both, which only a patch can.
    if kind == Kind::Codex {
        let (here, there) = (sandbox.path().join("src/b.rs"), worktree.join("src/c.rs"));
        one.edit_all(&[&here, &there]).allowed();
        assert!(other.edit("src/c.rs").refused().contains("(one)"));
        assert!(third.edit("src/b.rs").refused().contains("(one)"));
    }
    one.edit(worktree.join(".git")).silent();
}

#[test]
fn a_declared_scope_refuses_in_every_worktree_with_the_place_of_its_holder() {
    let sandbox = repository();
    let worktree = beside(&sandbox);
    let id = sandbox.add("Say it better");
    sandbox.json(&agent("ann"), &["claim", &id, "--scope", "src/**"]).ok();
    let other = Harness::claude(&sandbox, "other").at(&worktree);
    other.start();
    let refused = other.edit("src/a.rs");
    let reason = refused.refused();
    assert!(reason.contains(&id) && reason.contains("on branch main"), "{reason}");
    assert!(reason.contains(&*sandbox.path().canonicalize().unwrap().to_string_lossy()), "{reason}");
    // And what was touched anywhere is in the way of a declared scope.
    other.edit("lib/a.rs").allowed();
    let late = sandbox.add("Everything in lib");
    let refusal = sandbox.json(&agent("bob"), &["claim", &late, "--scope", "lib/**"]).refused(4);
    assert_eq!(refusal["code"], "scope");
    assert!(refusal["message"].as_str().unwrap().contains("home/beside on branch aside"), "{refusal}");
    assert_eq!(refusal["holder"]["branch"], "aside");
}

#[test]
fn a_project_refuses_or_ignores_what_is_touched_in_two_worktrees() {
    for (across, is_refused) in [("refuse", true), ("ignore", false)] {
        let sandbox = repository();
        let worktree = beside(&sandbox);
        configured(&sandbox, &format!("[scope]\nacross_worktrees = \"{across}\"\n"));
        std::fs::copy(sandbox.path().join("onus.toml"), worktree.join("onus.toml")).unwrap();
        let (one, other) =
            (Harness::claude(&sandbox, "one"), Harness::claude(&sandbox, "other").at(&worktree));
        one.start();
        other.start();
        one.edit("src/a.rs").allowed();
        let second = other.edit("src/a.rs");
        if is_refused {
            assert!(second.refused().contains("(one)"), "{second:?}");
        } else {
            assert_eq!(merge(second.allowed()), None);
            one.after_tool("Read").silent();
        }
    }
}

#[test]
fn commands_and_tools_name_the_worktree_of_the_file() {
    let sandbox = repository();
    let worktree = beside(&sandbox);
    let (a, b) = (agent("ann"), agent("bob"));
    for (who, title) in [(&a, "one"), (&b, "two")] {
        let id = sandbox.add(title);
        sandbox.json(who, &["claim", &id]).ok();
    }
    let there = worktree.join("src/a.rs");
    let there = there.to_str().unwrap();
    sandbox.json(&a, &["touch", "src/a.rs"]).ok();
    let reply = sandbox.json(&b, &["touch", there]).ok().json();
    let kinds: Vec<&Value> =
        reply["notices"].as_array().unwrap().iter().map(|notice| &notice["kind"]).collect();
    assert_eq!(kinds, ["merge"], "{reply}");
    let here = sandbox.path().join("src/a.rs");
    sandbox.json(&b, &["touch", here.to_str().unwrap()]).refused(4);
    sandbox.json(&b, &["touch", "src/x.rs", worktree.join("src/y.rs").to_str().unwrap()]).refused(2);
    let files: Vec<Value> = tasks(&sandbox).iter().map(|task| task["lease"]["scope"].clone()).collect();
    assert_eq!(files, [serde_json::json!(["src/a.rs"]), serde_json::json!(["src/a.rs"])]);
}
