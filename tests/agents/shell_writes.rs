//! Writes through a shell: what names another's file is refused, what changed it is told to both, what nobody has joins the
//! writer's work, and nobody is blamed for another's write.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::agents::harness::{Harness, Verdict};
use crate::agents::kit::{configured, git, holder_of, repository, write};
use crate::agents::payload::{KINDS, Kind};
use crate::support::{Sandbox, human};

/// A repository with these files committed.
pub(crate) fn committed(files: &[&str]) -> Sandbox {
    let sandbox = repository();
    fs::write(sandbox.path().join(".gitignore"), "/home/\n*.log\n").unwrap();
    files.iter().for_each(|file| write(&sandbox, file));
    git(&sandbox, &["add", "."]);
    git(&sandbox, &["commit", "-q", "-m", "second"]);
    sandbox
}

/// An agent that has this file, and has written it by its edit tool.
#[track_caller]
fn owner(kind: Kind, sandbox: &Sandbox, file: &str) -> (Harness, String) {
    let owner = Harness::new(kind, sandbox, "owner");
    owner.start();
    edited(&owner, sandbox, file);
    let (id, _) = holder_of(sandbox, file).unwrap();
    (owner, id)
}

/// An edit by the edit tool, from its first hook to its last.
#[track_caller]
fn edited(agent: &Harness, sandbox: &Sandbox, file: &str) {
    agent.edit(file).allowed();
    append(sandbox, file, "by its owner\n");
    agent.after_tool(agent.kind.edit_tool()).allowed();
}

fn append(sandbox: &Sandbox, file: &str, text: &str) {
    let path = sandbox.path().join(file);
    let before = fs::read_to_string(&path).unwrap_or_default();
    fs::write(path, before + text).unwrap();
}

#[track_caller]
fn tells(verdict: &Verdict, words: &[&str]) {
    for word in words {
        assert!(verdict.told().contains(word), "'{word}' is not in {verdict:?}");
    }
}

// ---- before

#[test]
fn a_command_that_names_anothers_file_is_refused_and_its_holder_hears_of_the_wish() {
    for kind in KINDS {
        let sandbox = committed(&["src/a.rs"]);
        let (owner, id) = owner(Kind::Claude, &sandbox, "src/a.rs");
        let writer = Harness::new(kind, &sandbox, "writer");
        writer.start();
        for command in [
            "echo x > src/a.rs",
            "echo x >>src/a.rs",
            "cat b | tee -a 'src/a.rs'",
            "sed -i 's/a/b/' src/a.rs",
            "mv src/a.rs src/b.rs",
            "cp README.md src/a.rs",
            "rm -f src/a.rs",
            "git checkout -- src/a.rs",
            "git restore -- src/a.rs",
            "cd src && rm a.rs",
        ] {
            let verdict = writer.before_shell(command);
            for word in ["src/a.rs", &id, "owner", "next:"] {
                assert!(verdict.refused().contains(word), "{command}: {verdict:?}");
            }
        }
        tells(&owner.after_tool("Read"), &["waits for", "src/a.rs"]);
        // What is only read, free or its own is nobody's concern, and is not reserved by being named.
        writer.before_shell("cp src/a.rs copy.rs && cat src/a.rs").allowed().silent();
        writer.after_shell("cp src/a.rs copy.rs && cat src/a.rs").allowed();
        assert_eq!(holder_of(&sandbox, "copy.rs"), None);
        owner.before_shell("rm src/a.rs").allowed().silent();
    }
}

#[test]
fn patches_in_a_shell_are_guarded_like_edits() {
    let patch = |file: &str| {
        format!(
            "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: {file}\n@@\n-b\n+c\n*** End Patch\nEOF"
        )
    };
    let sandbox = committed(&["a.rs", "b.rs"]);
    let (_owner, id) = owner(Kind::Claude, &sandbox, "a.rs");
    let writer = Harness::codex(&sandbox, "writer");
    writer.start();
    let refused = writer.before_shell(&patch("a.rs"));
    assert!(refused.refused().contains(&id), "{refused:?}");
    writer.before_shell(&patch("b.rs")).allowed();
    assert_eq!(holder_of(&sandbox, "b.rs").unwrap().1, "writer");
}

#[test]
fn set_up_agents_call_their_hooks_around_commands() {
    for kind in KINDS {
        let sandbox = committed(&["a.rs"]);
        sandbox.run(&human("founder"), &["setup", kind.name()]).ok();
        let (_owner, _) = owner(Kind::Codex, &sandbox, "a.rs");
        let writer = Harness::new(kind, &sandbox, "writer").set_up();
        writer.start();
        writer.before_shell("rm a.rs").refused();
        tells(&writer.command("f=a.rs; echo x >> $f"), &["while your command ran, a.rs"]);
    }
}

// ---- afterwards

#[test]
fn what_a_command_changed_of_anothers_is_told_to_both_once() {
    for kind in KINDS {
        for owner_kind in [Kind::Claude, Kind::Gemini] {
            let sandbox = committed(&["src/a.rs"]);
            let (owner, id) = owner(owner_kind, &sandbox, "src/a.rs");
            let writer = Harness::new(kind, &sandbox, "writer");
            writer.start();
            let told = writer.command("cd src; f=a.rs; echo x >> $f");
            tells(&told, &["while your command ran, src/a.rs", &id]);
            writer.after_tool("Read").silent();
            let heard = owner.after_tool("Read");
            tells(&heard, &["a command of", &writer.who().0, "(writer)", "src/a.rs", "changed while", &id]);
            owner.after_tool("Read").silent();
            // It is the owner's still.
            assert_eq!(holder_of(&sandbox, "src/a.rs").unwrap().1, "owner");
            // Told again if it happens again, and not if nothing changes.
            writer.command("touch src/*.rs; cat src/a.rs").silent();
            tells(&writer.command("rm src/*.rs"), &["while your command ran, src/a.rs"]);
            tells(&owner.prompt(), &["(writer)", "src/a.rs"]);
        }
    }
}

#[test]
fn what_an_edit_wrote_is_not_put_down_to_a_command_that_ends_later() {
    for ends_by_part in [true, false] {
        // Given a command of one that runs all the while
        let sandbox = committed(&["a.rs"]);
        let (builder, editor) = (Harness::claude(&sandbox, "builder"), Harness::claude(&sandbox, "editor"));
        builder.start();
        editor.start();
        builder.before_shell("make").allowed();
        // When another edits a file and is done with it before the command ends
        let hand = if ends_by_part { editor.sub_agent("p-1") } else { editor };
        hand.edit("a.rs").allowed();
        fs::write(sandbox.path().join("a.rs"), "edited").unwrap();
        hand.edited("a.rs").allowed();
        if ends_by_part {
            hand.part_over().silent();
        } else {
            hand.end();
        }
        // Then it is neither the command's nor reserved for its conversation
        builder.after_shell("make").silent();
        assert_eq!(holder_of(&sandbox, "a.rs"), None);
    }
}

#[test]
fn work_that_a_command_takes_back_is_missed() {
    let sandbox = committed(&["a.rs"]);
    let (owner, _) = owner(Kind::Claude, &sandbox, "a.rs");
    let writer = Harness::codex(&sandbox, "writer");
    writer.start();
    tells(&writer.command("git checkout -q ."), &["while your command ran, a.rs"]);
    tells(&owner.after_tool("Read"), &["(writer)", "a.rs"]);
}

#[test]
fn a_declared_scope_is_looked_at_too() {
    let sandbox = committed(&["src/a.rs", "src/b.rs"]);
    let id = sandbox.add("All of it");
    let owner = Harness::claude(&sandbox, "owner");
    owner.start();
    owner.json(&format!("onus claim {id} --scope 'src/**'"));
    let writer = Harness::gemini(&sandbox, "writer");
    writer.start();
    tells(&writer.command("for f in src/*.rs; do echo x >> $f; done"), &["src/a.rs, src/b.rs", &id]);
    tells(&owner.after_tool("Read"), &["(writer)", "src/a.rs, src/b.rs"]);
    assert_eq!(holder_of(&sandbox, "src/a.rs"), None, "a glob covers it, and nobody touched it");
    // From now on it is known, so that taking it back is noticed as well.
    tells(&writer.command("git checkout -q ."), &["src/a.rs, src/b.rs"]);
    // What the owner edits below its scope is known by its edits.
    owner.after_tool("Read");
    edited(&owner, &sandbox, "src/a.rs");
    tells(&writer.command("git checkout -q ."), &["while your command ran, src/a.rs"]);
}

#[test]
fn what_nobody_has_joins_the_writers_work() {
    let sandbox = committed(&["a.rs", "gone.rs", "old.rs"]);
    append(&sandbox, "old.rs", "by a person, before\n");
    fs::remove_file(sandbox.path().join("gone.rs")).unwrap();
    let writer = Harness::claude(&sandbox, "writer");
    writer.start();
    writer.command("cat a.rs > out.log").silent();
    let told = writer
        .command("f=new; echo x > \"$f file.rs\"; echo y >> *a.rs; git mv old.rs moved.rs; echo z > x.log");
    tells(&told, &["opened ON-1", "«new file.rs»", "a.rs", "moved.rs", "old.rs", "reserved for you now"]);
    for file in ["new file.rs", "a.rs", "moved.rs", "old.rs"] {
        assert_eq!(holder_of(&sandbox, file).unwrap().1, "writer", "{file}");
    }
    // What is ignored, and what was so before, is nobody's.
    for file in ["x.log", "out.log", "gone.rs"] {
        assert_eq!(holder_of(&sandbox, file), None, "{file}");
    }
    writer.command("echo more >> *a.rs").silent();
    let other = Harness::codex(&sandbox, "other");
    other.start();
    assert!(other.edit("a.rs").refused().contains("writer"));
}

#[test]
fn what_a_project_does_not_let_join_is_said() {
    let sandbox = committed(&["a.rs"]);
    configured(&sandbox, "[guard]\nunclaimed = \"refuse\"\n");
    let writer = Harness::claude(&sandbox, "writer");
    writer.start();
    tells(&writer.command("echo x >> *.rs"), &["a.rs", "not reserved", "requires one"]);
    assert_eq!(holder_of(&sandbox, "a.rs"), None);
}

// ---- whose it was

#[test]
fn what_owners_do_themselves_is_no_news() {
    for kind in KINDS {
        let sandbox = committed(&["a.rs", "b.rs"]);
        let (owner, _) = owner(kind, &sandbox, "a.rs");
        let part = owner.sub_agent("p-1");
        let writer = Harness::claude(&sandbox, "writer");
        writer.start();
        // By its shell, by a part's shell, and by its edit tool while another's command runs.
        owner.command("echo x >> *a.rs").silent();
        if kind != Kind::Gemini {
            part.command("echo x >> *a.rs").silent();
        }
        writer.before_shell("sleep 1").allowed();
        edited(&owner, &sandbox, "a.rs");
        writer.after_shell("sleep 1").silent();
        // Also while it is at it.
        writer.before_shell("sleep 1").allowed();
        owner.edit("a.rs").allowed();
        append(&sandbox, "a.rs", "half\n");
        writer.after_shell("sleep 1").silent();
        append(&sandbox, "a.rs", "whole\n");
        owner.after_tool(owner.kind.edit_tool()).silent();
        writer.command("true").silent();
        owner.after_tool("Read").silent();
    }
}

#[test]
fn of_two_commands_at_once_nobody_is_blamed_and_nothing_joins() {
    for kind in KINDS {
        let sandbox = committed(&["a.rs", "b.rs"]);
        let (owner, id) = owner(Kind::Claude, &sandbox, "a.rs");
        let (one, other) = (Harness::new(kind, &sandbox, "one"), Harness::codex(&sandbox, "other"));
        one.start();
        other.start();
        one.before_shell("make").allowed();
        other.before_shell("make").allowed();
        one.shell("echo x >> a.rs; echo x >> b.rs; echo x > new.rs").ok();
        one.after_shell("make").silent();
        other.after_shell("make").silent();
        tells(&owner.after_tool("Read"), &["a.rs", "changed meanwhile", &id]);
        owner.after_tool("Read").silent();
        assert_eq!((holder_of(&sandbox, "b.rs"), holder_of(&sandbox, "new.rs")), (None, None));
        // Alone again, each answers for itself.
        tells(&one.command("echo x >> *a.rs"), &["while your command ran, a.rs"]);
    }
}

#[test]
fn what_changed_before_another_began_is_the_first_ones() {
    let sandbox = committed(&["a.rs"]);
    let (owner, _) = owner(Kind::Claude, &sandbox, "a.rs");
    let (one, other) = (Harness::claude(&sandbox, "one"), Harness::codex(&sandbox, "other"));
    one.start();
    other.start();
    one.before_shell("make").allowed();
    append(&sandbox, "a.rs", "by one\n");
    other.before_shell("make").allowed().silent();
    other.after_shell("make").silent();
    tells(&one.after_shell("make"), &["while your command ran, a.rs"]);
    tells(&owner.after_tool("Read"), &["(one)", "a.rs"]);
}

#[test]
fn a_command_whose_end_is_never_told_is_looked_at_at_the_next_hook() {
    for kind in KINDS {
        let sandbox = committed(&["a.rs"]);
        let (owner, _) = owner(Kind::Claude, &sandbox, "a.rs");
        let writer = Harness::new(kind, &sandbox, "writer");
        writer.start();
        for next in 0..3 {
            writer.before_shell("make").allowed();
            append(&sandbox, "a.rs", "x\n");
            let told = match next {
                0 => writer.after_tool("Read"),
                1 => writer.prompt(),
                _ => {
                    // Nobody listens at the end of a turn: it is told when the next begins.
                    writer.turn_over().silent();
                    writer.prompt()
                }
            };
            tells(&told, &["while your command ran, a.rs"]);
            tells(&owner.after_tool("Read"), &["(writer)", "a.rs"]);
            writer.turn_over();
        }
        // It is over: another's command is its own.
        let other = Harness::codex(&sandbox, "other");
        other.start();
        other.command("f=new.rs; echo x > $f").allowed();
        assert_eq!(holder_of(&sandbox, "new.rs").unwrap().1, "other");
    }
}

#[test]
fn what_a_command_left_behind_changes_later_its_holder_hears() {
    let sandbox = committed(&["a.rs"]);
    let (owner, _) = owner(Kind::Claude, &sandbox, "a.rs");
    let writer = Harness::claude(&sandbox, "writer");
    writer.start();
    writer.command("true").silent();
    append(&sandbox, "a.rs", "from the background\n");
    writer.command("true").silent();
    tells(&owner.after_tool("Read"), &["a.rs", "changed meanwhile"]);
}

#[test]
fn a_harness_that_died_stands_in_nobodys_way() {
    let sandbox = committed(&["a.rs"]);
    let (one, other) = (Harness::claude(&sandbox, "one"), Harness::codex(&sandbox, "other"));
    one.start();
    other.start();
    one.before_shell("make").allowed();
    one.kill();
    tells(&other.command("echo x >> *.rs"), &["reserved for you now"]);
    assert_eq!(holder_of(&sandbox, "a.rs").unwrap().1, "other");
}

#[test]
fn a_command_that_outlives_its_harness_is_named_to_whoever_works_there_next() {
    for kind in [Kind::Claude, Kind::Codex] {
        let sandbox = committed(&["a.rs"]);
        let (one, other) = (Harness::new(kind, &sandbox, "one"), Harness::claude(&sandbox, "other"));
        one.start();
        other.start();
        one.before_shell("make &").allowed();
        let pid = one.shell("sleep 300 > /dev/null 2>&1 & echo $!").ok().stdout.trim().to_owned();
        one.kill();
        let told = other.after_tool("Read");
        tells(&told, &["(one) died", &format!("sleep (pid {pid})")]);
        other.after_tool("Read").silent();
        Command::new("kill").arg(&pid).status().unwrap();
    }
}

// ---- what cannot be looked at

#[test]
fn a_tree_that_takes_too_long_is_said_once_and_reserved_files_are_compared_all_the_same() {
    let sandbox = committed(&["a.rs", "b.rs"]);
    let (_owner, _) = owner(Kind::Claude, &sandbox, "a.rs");
    let writer = Harness::claude(&sandbox, "writer").with("ONUS_GUARD_TREE_BUDGET", "1ms");
    writer.start();
    let told = writer.command("echo x >> *a.rs; echo x >> *b.rs");
    tells(&told, &["within 1 ms", "while your command ran, a.rs"]);
    assert_eq!(holder_of(&sandbox, "b.rs"), None);
    writer.command("echo x >> *b.rs").silent();
    let other = Harness::codex(&sandbox, "other").with("ONUS_GUARD_TREE_BUDGET", "0");
    other.start();
    other.command("echo x >> *b.rs").silent();
}

#[test]
fn a_memory_that_is_broken_or_elsewhere_is_none_and_the_agent_goes_on() {
    let sandbox = committed(&["a.rs"]);
    let (_owner, _) = owner(Kind::Claude, &sandbox, "a.rs");
    let writer = Harness::claude(&sandbox, "writer");
    writer.start();
    let memory = sandbox.path().join(".git/onus-calls");
    for broken in ["", "{", "{}\n{", "\0\0\n\n", "[]\n[]"] {
        fs::write(&memory, broken).unwrap();
        tells(&writer.command("echo x >> *a.rs"), &["while your command ran, a.rs"]);
        // Broken between the two: nothing is compared.
        writer.before_shell("make").allowed();
        fs::write(&memory, broken).unwrap();
        writer.after_shell("make").silent();
    }
    // A link is not followed, and nothing is written where it leads.
    let elsewhere = sandbox.path().join("elsewhere.log");
    fs::write(&elsewhere, "mine").unwrap();
    fs::remove_file(&memory).unwrap();
    symlink(&elsewhere, &memory).unwrap();
    writer.command("echo x >> *a.rs").silent();
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "mine");
    fs::remove_file(&memory).unwrap();
    fs::create_dir(&memory).unwrap();
    writer.command("echo x >> *a.rs").silent();
}

#[test]
fn programs_that_the_repository_names_are_not_run_by_a_look() {
    let sandbox = committed(&["a.rs"]);
    let ran = sandbox.path().join("ran.log");
    let program = format!("touch {}; cat", ran.display());
    git(&sandbox, &["config", "filter.x.clean", &program]);
    git(&sandbox, &["config", "filter.x.required", "true"]);
    git(&sandbox, &["config", "core.fsmonitor", &program]);
    fs::write(sandbox.path().join(".gitattributes"), "*.rs filter=x\n").unwrap();
    let writer = Harness::claude(&sandbox, "writer");
    writer.start();
    tells(&writer.command("echo x >> *a.rs"), &["a.rs", "reserved for you now"]);
    assert!(!ran.exists());
}
