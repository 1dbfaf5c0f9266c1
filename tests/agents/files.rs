//! What becomes of the files that agents touch, with real git: which of them were changed, and which an idle conversation
//! yields.

use std::fs;
use std::process::Command;

use onus_store::conformance::server::{Server, fresh_name};
use serde_json::{Value, json};

use crate::agents::harness::Harness;
use crate::agents::kit::{git, holder_of, repository, tasks, write};
use crate::agents::payload::{KINDS, Kind};
use crate::support::{Sandbox, human};

fn notes(sandbox: &Sandbox, id: &str) -> Vec<String> {
    let shown = sandbox.show(id);
    let notes = shown["notes"].as_array().unwrap();
    notes.iter().map(|note| note["text"].as_str().unwrap().to_owned()).collect()
}

/// An agent whose edit of a file has succeeded.
fn edits(agent: &Harness, file: &str) {
    agent.edit(file).allowed();
    agent.edited(file).allowed();
}

/// A repository with a committed file.
fn with_file(sandbox: Sandbox) -> Sandbox {
    write(&sandbox, "a.rs");
    git(&sandbox, &["add", "a.rs"]);
    git(&sandbox, &["commit", "-qm", "a file"]);
    sandbox
}

/// One whose edit of that file is over, with its turn.
fn idle(kind: Kind, sandbox: &Sandbox, conversation: &str) -> Harness {
    let agent = Harness::new(kind, sandbox, conversation);
    agent.start();
    edits(&agent, "a.rs");
    agent.turn_over().silent();
    agent
}

fn beginner(sandbox: &Sandbox, conversation: &str) -> Harness {
    let agent = Harness::codex(sandbox, conversation);
    agent.start();
    agent
}

#[test]
fn only_files_whose_edit_succeeded_are_recorded_as_changed() {
    for kind in KINDS {
        let sandbox = repository();
        let agent = Harness::new(kind, &sandbox, "c-1");
        agent.start();
        edits(&agent, "a.rs");
        // The program turned it down; and of one that the person refused, nothing more is heard.
        agent.edit("b.rs").allowed();
        agent.edit_failed("b.rs").silent();
        agent.edit("c.rs").allowed();
        let (id, _) = holder_of(&sandbox, "a.rs").unwrap();
        let shown = sandbox.run(&human("ann"), &["show", &id]).ok().stdout.clone();
        assert!(shown.lines().any(|line| line.trim_end() == "  changed     a.rs"), "{kind:?}: {shown}");
        let before = sandbox.show(&id)["version"].clone();
        edits(&agent, "a.rs");
        assert_eq!(sandbox.show(&id)["version"], before, "{kind:?}: told once");
        agent.end();
        assert_eq!(sandbox.show(&id)["state"], "done");
        assert_eq!(notes(&sandbox, &id), ["changed without a task: a.rs"], "{kind:?}");
        sandbox.is_whole();
    }
}

#[test]
fn ad_hoc_work_whose_edits_all_failed_is_dropped() {
    for kind in KINDS {
        let sandbox = repository();
        let agent = Harness::new(kind, &sandbox, "c-1");
        agent.start();
        agent.edit("b.rs").allowed();
        agent.edit_failed("b.rs").allowed();
        let (id, _) = holder_of(&sandbox, "b.rs").unwrap();
        agent.end();
        assert_eq!(sandbox.show(&id)["state"], "dropped", "{kind:?}");
        assert_eq!(notes(&sandbox, &id), ["no change was reported; only touched: b.rs"]);
    }
}

#[test]
fn an_idle_conversation_yields_a_committed_file_and_keeps_an_uncommitted_one() {
    for kind in KINDS {
        let sandbox = with_file(repository());
        let owner = idle(kind, &sandbox, "owner");
        let other = beginner(&sandbox, "other");
        let (id, _) = holder_of(&sandbox, "a.rs").unwrap();
        // Whatever is committed nowhere is kept, wherever it is.
        let file = sandbox.path().join("a.rs");
        let kept = |what: &str| {
            let said = other.edit("a.rs");
            let why = said.refused();
            assert!(
                why.contains("a.rs has uncommitted changes") && why.contains("its turn has been over for"),
                "{what}: {why}"
            );
            assert_eq!(holder_of(&sandbox, "a.rs").unwrap().1, "owner", "{what}");
        };
        fs::write(&file, "changed\n").unwrap();
        kept("changed");
        git(&sandbox, &["add", "a.rs"]);
        kept("staged");
        fs::write(&file, "before\n").unwrap();
        kept("staged, and put back on disk alone");
        git(&sandbox, &["reset", "-q", "--hard"]);
        fs::remove_file(&file).unwrap();
        kept("removed");
        git(&sandbox, &["checkout", "-q", "a.rs"]);
        // A change that git's flags hide.
        fs::write(&file, "hidden\n").unwrap();
        git(&sandbox, &["update-index", "--assume-unchanged", "a.rs"]);
        kept("assumed to be unchanged");
        git(&sandbox, &["update-index", "--no-assume-unchanged", "a.rs"]);
        assert!(owner.prompt().told().contains("waits for a.rs"), "its owner hears of it");
        owner.turn_over().silent();

        git(&sandbox, &["commit", "-qam", "a change"]);
        other.edit("a.rs").allowed();
        assert_eq!(holder_of(&sandbox, "a.rs").unwrap().1, "other");
        // Its owner is told once; it goes on, and is refused like anybody.
        let told = owner.prompt();
        assert!(told.told().contains("a.rs") && told.told().contains("while your turn was over"), "{told:?}");
        assert!(!owner.after_tool("Read").told().contains("while your turn was over"));
        owner.edit("b.rs").allowed();
        assert_eq!(holder_of(&sandbox, "b.rs").unwrap().0, id);
        let refused = owner.edit("a.rs");
        assert!(refused.refused().contains("other"), "{refused:?}");
        sandbox.is_whole();
    }
}

#[test]
fn a_file_that_git_does_not_track_is_kept_and_one_that_was_never_made_is_not() {
    let sandbox = repository();
    fs::write(sandbox.path().join(".gitignore"), "ignored.rs\n").unwrap();
    let owner = Harness::claude(&sandbox, "owner");
    owner.start();
    for file in ["new.rs", "ignored.rs", "never.rs"] {
        owner.edit(file).allowed();
    }
    write(&sandbox, "new.rs");
    write(&sandbox, "ignored.rs");
    owner.turn_over().silent();
    let other = beginner(&sandbox, "other");
    other.edit("new.rs").refused();
    other.edit("ignored.rs").refused();
    other.edit("never.rs").allowed();
    assert_eq!(holder_of(&sandbox, "new.rs").unwrap().1, "owner", "only the wanted file is yielded");
}

#[test]
fn who_declares_paths_gets_what_an_idle_conversation_touched_by_shell_and_by_mcp() {
    for by_mcp in [false, true] {
        let sandbox = with_file(repository());
        let _owner = idle(Kind::Claude, &sandbox, "owner");
        let other = beginner(&sandbox, "other");
        let id = sandbox.add("All of it");
        if by_mcp {
            let server = other.server("onus");
            let (told, refused) = server.call(&other, "claim", json!({ "id": id, "scope": ["*.rs"] }));
            assert!(!refused, "{told}");
        } else {
            other.json(&format!("onus claim {id} --scope '*.rs'"));
        }
        let ad_hoc: Vec<Value> = tasks(&sandbox).into_iter().filter(|task| task["ad_hoc"] == true).collect();
        assert_eq!(ad_hoc[0]["lease"]["scope"], json!([]));
    }
}

#[test]
fn what_is_clean_is_asked_of_the_worktree_that_the_file_was_touched_in() {
    let sandbox = with_file(repository());
    let linked = sandbox.path().join("linked");
    git(&sandbox, &["worktree", "add", "-q", linked.to_str().unwrap(), "-b", "other"]);
    let owner = Harness::claude(&sandbox, "owner").at(&linked);
    owner.start();
    edits(&owner, "a.rs");
    owner.turn_over().silent();
    let id = sandbox.add("All of it");
    let other = beginner(&sandbox, "other");
    fs::write(linked.join("a.rs"), "changed there\n").unwrap();
    assert_eq!(other.shell(&format!("onus claim {id} --scope a.rs")).code, 4);
    fs::write(linked.join("a.rs"), "before\n").unwrap();
    fs::write(sandbox.path().join("a.rs"), "changed here\n").unwrap();
    other.json(&format!("onus claim {id} --scope a.rs"));
}

#[test]
fn a_repositorys_filters_are_not_run_when_git_looks() {
    let sandbox = with_file(repository());
    let mark = sandbox.path().join("it-ran");
    fs::write(sandbox.path().join(".gitattributes"), "*.rs filter=evil\n").unwrap();
    let filter = format!("touch {}; cat", mark.display());
    git(&sandbox, &["config", "filter.evil.clean", &filter]);
    let _owner = idle(Kind::Claude, &sandbox, "owner");
    let status = Command::new("git").args(["status"]).current_dir(sandbox.path()).output().unwrap();
    assert!(status.status.success());
    let _ = fs::remove_file(&mark);
    fs::write(sandbox.path().join("a.rs"), "changed\n").unwrap();
    beginner(&sandbox, "other").edit("a.rs").refused();
    assert!(!mark.exists());
}

#[test]
fn on_a_server_idle_conversations_yield_to_others_on_their_machine() {
    let (address, name) = (Server::shared().shared_database(), fresh_name());
    let clone = || {
        let clone = Sandbox::on_server(address, &name);
        git(&clone, &["init", "-q"]);
        clone.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
        with_file(clone)
    };
    let sandbox = clone();
    let owner = Harness::claude(&sandbox, "owner").with("ONUS_STORE", address);
    let other = Harness::codex(&sandbox, "other").with("ONUS_STORE", address);
    owner.start();
    edits(&owner, "a.rs");
    owner.turn_over().silent();
    other.start();
    fs::write(sandbox.path().join("a.rs"), "changed\n").unwrap();
    assert!(other.edit("a.rs").refused().contains("uncommitted changes"));
    git(&sandbox, &["commit", "-qam", "a change"]);
    other.edit("a.rs").allowed();
    assert!(owner.prompt().told().contains("while your turn was over"));
    // A clone elsewhere has worktrees of its own, and cannot ask git about this one.
    other.turn_over().silent();
    let clone = clone();
    let far = Harness::claude(&clone, "far").with("ONUS_STORE", address);
    far.start();
    let id = sandbox.add("All of it");
    let refused = far.shell(&format!("onus claim {id} --scope a.rs"));
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(!refused.stderr.contains("uncommitted"), "{refused:?}");
}

#[test]
fn every_screen_names_the_same_deadline_of_a_resting_lease() {
    let sandbox = with_file(repository());
    let _owner = idle(Kind::Claude, &sandbox, "owner");
    fs::write(sandbox.path().join("a.rs"), "changed\n").unwrap();
    let (id, _) = holder_of(&sandbox, "a.rs").unwrap();
    let list = sandbox.run(&human("ann"), &["list", "--ad-hoc"]).ok().stdout.clone();
    let show = sandbox.run(&human("ann"), &["show", &id]).ok().stdout.clone();
    let status = sandbox.run(&human("ann"), &["status"]).ok().stdout.clone();
    let refused = beginner(&sandbox, "other").edit("a.rs").refused().to_owned();
    for (name, text) in [("list", &list), ("show", &show), ("status", &status), ("refusal", &refused)] {
        assert!(text.contains("59 min") || text.contains("60 min") || text.contains("1 h"), "{name}: {text}");
        assert!(text.contains("turn"), "{name} says why: {text}");
        assert!(!text.contains("while process"), "{name}: {text}");
    }
}

/// Codex in a terminal: one process serves all terminals, and lives on when each of them is closed.
#[test]
fn a_terminal_that_was_closed_keeps_nothing_that_is_committed() {
    let sandbox = with_file(repository());
    let first = idle(Kind::Codex, &sandbox, "first");
    let second = first.beside("second");
    second.start();
    second.edit("a.rs").allowed();
    assert_eq!(holder_of(&sandbox, "a.rs").unwrap().1, "second");
}

/// `codex exec` reports its end: what it did is done, and did not lapse with its process.
#[test]
fn a_conversation_of_codex_that_is_over_ends_cleanly() {
    let sandbox = repository();
    sandbox.run(&human("founder"), &["setup", "codex"]).ok();
    let agent = Harness::codex(&sandbox, "exec").set_up();
    agent.start();
    edits(&agent, "a.rs");
    agent.turn_over().silent();
    agent.end();
    let task = &tasks(&sandbox)[0];
    assert_eq!((&task["state"], &task["lease"]), (&json!("done"), &json!(null)), "{task}");
    let log = sandbox.run(&human("ann"), &["log"]).ok().stdout.clone();
    assert!(!log.contains("lapsed") && !log.contains("died"), "{log}");
}
