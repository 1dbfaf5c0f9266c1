//! Writes through a shell, by the same rules as edits: worktrees, sub-agents, files that were yielded, and what counts as changed.

use std::fs;
use std::path::PathBuf;

use crate::agents::harness::Harness;
use crate::agents::kit::{git, holder_of};
use crate::agents::shell_writes::committed;
use crate::support::Sandbox;

fn beside(sandbox: &Sandbox) -> PathBuf {
    let worktree = sandbox.path().join("home/beside");
    fs::create_dir_all(sandbox.path().join("home")).unwrap();
    git(sandbox, &["worktree", "add", "-q", "-b", "aside", worktree.to_str().unwrap()]);
    worktree
}

fn begun(harness: Harness) -> Harness {
    harness.start();
    harness
}

#[test]
fn a_file_touched_in_another_worktree_is_not_anothers_here_and_both_hear_of_the_merge() {
    let sandbox = committed(&["a.rs"]);
    let worktree = beside(&sandbox);
    let owner = begun(Harness::claude(&sandbox, "owner"));
    owner.edit("a.rs").allowed();
    owner.edited("a.rs").allowed();
    let writer = begun(Harness::codex(&sandbox, "writer").at(&worktree));
    writer.before_shell("echo x > a.rs").allowed();
    writer.after_shell("echo x > a.rs").silent();
    let told = writer.command("echo x >> *a.rs").told().to_owned();
    for word in ["a.rs changed: reserved for you now", "a merge to come", "(owner)"] {
        assert!(told.contains(word), "'{word}' is not in {told}");
    }
    let heard = owner.after_tool("Read").told().to_owned();
    assert!(heard.contains("a merge to come") && heard.contains("(writer)"), "{heard}");
    assert!(heard.contains("on branch aside") && !heard.contains("a command of"), "{heard}");
    // In its own worktree it is the owner's, for a command there, too.
    let third = begun(Harness::codex(&sandbox, "third"));
    third.before_shell("rm a.rs").refused();
    assert!(third.command("echo x >> *a.rs").told().contains("while your command ran, a.rs, reserved by"));
    assert!(owner.after_tool("Read").told().contains("(third)"));
    writer.after_tool("Read").silent();
}

#[test]
fn an_edit_from_another_worktree_is_not_put_down_to_a_command_there() {
    let sandbox = committed(&["a.rs"]);
    let worktree = beside(&sandbox);
    let owner = begun(Harness::claude(&sandbox, "owner"));
    let there = worktree.join("a.rs");
    let edit = |text: &str, is_reported: bool| {
        owner.edit(&there).allowed();
        fs::write(&there, text).unwrap();
        if is_reported {
            owner.edited(&there).silent();
        }
    };
    edit("one\n", true);
    let writer = begun(Harness::codex(&sandbox, "writer").at(&worktree));
    writer.before_shell("make").allowed();
    edit("two\n", true);
    edit("three\n", false);
    writer.after_shell("make").silent();
    owner.edited(&there).silent();
    // One that was never reported is over with the turn: from then on the file is watched again.
    edit("four\n", false);
    owner.turn_over().silent();
    assert!(writer.command("echo x >> *a.rs").told().contains("while your command ran, a.rs"));
    assert!(owner.prompt().told().contains("(writer)"));
}

#[test]
fn what_a_command_changed_counts_as_changed() {
    let sandbox = committed(&["a.rs", "b.rs"]);
    let state_after = |agent: Harness, file: &str| {
        let (id, _) = holder_of(&sandbox, file).unwrap();
        agent.end();
        let shown = sandbox.show(&id);
        assert!(shown["notes"].to_string().contains(file), "{shown}");
        shown["state"].as_str().unwrap().to_owned()
    };
    let writer = begun(Harness::claude(&sandbox, "writer"));
    writer.command("echo x >> *a.rs").allowed();
    assert_eq!(state_after(writer, "a.rs"), "done");
    // Also what it had touched before, by an edit that came to nothing.
    let writer = begun(Harness::claude(&sandbox, "second"));
    writer.edit("b.rs").allowed();
    writer.edit_failed("b.rs").silent();
    writer.command("echo x >> *b.rs").silent();
    assert_eq!(state_after(writer, "b.rs"), "done");
    sandbox.is_whole();
}

#[test]
fn what_happens_to_a_file_after_it_was_yielded_or_released_is_no_news_to_its_former_owner() {
    let sandbox = committed(&["a.rs", "b.rs"]);
    let owner = begun(Harness::claude(&sandbox, "owner"));
    for file in ["a.rs", "b.rs"] {
        owner.edit(file).allowed();
        owner.edited(file).silent();
    }
    let (id, _) = holder_of(&sandbox, "b.rs").unwrap();
    let writer = begun(Harness::codex(&sandbox, "writer"));
    // What it was still to be told of, when it released the file, is none of its business any more.
    assert!(writer.command("echo x >> *b.rs").told().contains("while your command ran, b.rs, reserved by"));
    owner.shell(&format!("onus scope rm {id} b.rs")).ok();
    owner.turn_over().silent();
    let other = begun(Harness::codex(&sandbox, "other"));
    other.edit("a.rs").allowed();
    other.edited("a.rs").silent();
    assert_eq!(holder_of(&sandbox, "a.rs").unwrap().1, "other");
    writer.command("echo x >> *a.rs").allowed();
    let told = owner.prompt().told().to_owned();
    assert!(told.contains("while your turn was over") && !told.contains("a command of"), "{told}");
    assert!(other.after_tool("Read").told().contains("(writer)"), "it is the other's now");
}
