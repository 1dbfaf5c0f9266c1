//! What is in a commit, whatever it is called and wherever it is: odd names, submodules, sparse checkouts, the first commit.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::agents::kit::git;
use crate::guard::kit::{by, git_by, guarded, held, said, unknown, worktree, write};
use crate::support::{Ran, Sandbox, agent, human};

#[test]
fn odd_names_are_judged_like_others() {
    let sandbox = guarded();
    let (ada, bob) = (agent("ada"), agent("bob"));
    held(&sandbox, &ada, "held/**");
    let names: [&[u8]; 8] = [
        b"a file",
        b"it's \"quoted\"",
        b"new\nline",
        b"\ttab",
        b"bytes \xff\xfe",
        "Stra\u{df}e".as_bytes(),
        b"* [a-z] {x,y} \\ ?",
        b"-n",
    ];
    for name in names {
        let name = OsStr::from_bytes(name);
        for (folder, passes) in [("free", true), ("held", false)] {
            let path = std::path::Path::new(folder).join(name);
            write(sandbox.path(), &path, "x\n");
            let add = unknown(&sandbox, sandbox.path()).args(["add", "--"]).arg(&path).output().unwrap();
            assert!(add.status.success(), "{add:?}");
            let ran = git_by(&sandbox, &bob, &["commit", "-q", "-m", "x"]);
            assert_eq!(ran.code == 0, passes, "{path:?}: {ran:?}");
            git(&sandbox, &["reset", "-q", "--hard"]);
        }
    }
}

#[test]
fn a_rename_or_deletion_out_of_anothers_scope_is_a_change_to_it() {
    let sandbox = guarded();
    held(&sandbox, &agent("ada"), "a.txt");
    let bob = agent("bob");
    for args in [&["mv", "a.txt", "c.txt"][..], &["rm", "-q", "a.txt"], &["mv", "-f", "b.txt", "a.txt"]] {
        git(&sandbox, args);
        let ran = git_by(&sandbox, &bob, &["commit", "-q", "-m", "x"]);
        assert!(ran.code != 0 && ran.stderr.contains("a.txt is reserved by ON-1"), "{args:?}: {ran:?}");
        git(&sandbox, &["reset", "-q", "--hard"]);
    }
}

#[test]
fn the_index_that_git_commits_from_is_the_one_that_is_judged() {
    let sandbox = guarded();
    let (ada, bob) = (agent("ada"), agent("bob"));
    held(&sandbox, &ada, "a.txt");
    // Ada's change is staged; Bob commits his path alone, which does not take what is staged with it.
    write(sandbox.path(), "a.txt", "ada\n");
    git(&sandbox, &["add", "a.txt"]);
    write(sandbox.path(), "b.txt", "bob\n");
    git_by(&sandbox, &bob, &["commit", "-q", "-m", "mine", "b.txt"]).ok();
    assert_eq!(said(&sandbox, &["show", "--format=", "--name-only"]), "b.txt");
    assert_eq!(said(&sandbox, &["diff", "--cached", "--name-only"]), "a.txt", "what was staged is staged");
    // An index of his own, which has it.
    let mut command = unknown(&sandbox, sandbox.path());
    command.env("GIT_INDEX_FILE", sandbox.path().join(".git/other")).env("ONUS_ACTOR", "agent:bob");
    command.env("ONUS_INSTANCE", &bob.instance);
    let script = "git read-tree HEAD && git add a.txt && git commit -q -m other";
    let mut shell = std::process::Command::new("sh");
    shell
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(sandbox.path());
    let ran = Ran::of(shell.args(["-c", script]).output().unwrap());
    assert!(ran.code != 0 && ran.stderr.contains("a.txt is reserved by ON-1"), "{ran:?}");
}

#[test]
fn the_first_commit_of_a_repository_is_judged() {
    let sandbox = Sandbox::empty();
    git(&sandbox, &["init", "-q"]);
    sandbox.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
    sandbox.run(&human("founder"), &["guard", "install"]).ok();
    held(&sandbox, &agent("ada"), "a.txt");
    write(sandbox.path(), "a.txt", "x\n");
    write(sandbox.path(), "b.txt", "x\n");
    git(&sandbox, &["add", "a.txt"]);
    let ran = git_by(&sandbox, &agent("bob"), &["commit", "-q", "-m", "x"]);
    assert!(ran.code != 0 && ran.stderr.contains("a.txt is reserved by ON-1"), "{ran:?}");
    git_by(&sandbox, &agent("ada"), &["commit", "-q", "-m", "x"]).ok();
    assert_eq!(sandbox.show("ON-1")["commits"].as_array().unwrap().len(), 1);
}

#[test]
fn files_of_a_submodule_are_named_from_the_repository_it_is_in() {
    let sandbox = guarded();
    let (ada, bob) = (agent("ada"), agent("bob"));
    let far = Sandbox::empty();
    git(&far, &["init", "-q"]);
    git(&far, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(
        &sandbox,
        &["-c", "protocol.file.allow=always", "submodule", "add", "-q", far.path().to_str().unwrap(), "sub"],
    );
    git_by(&sandbox, &human("founder"), &["commit", "-q", "-m", "sub"]).ok();
    let inside = sandbox.path().join("sub");
    let mut command = sandbox.command(&human("founder"));
    Ran::of(command.current_dir(&inside).args(["guard", "install"]).output().unwrap()).ok();
    held(&sandbox, &ada, "sub/x");
    for (file, passes) in [("x", false), ("y", true)] {
        write(&inside, file, "x\n");
        by(&sandbox, &bob, &inside, &["add", file]).ok();
        let ran = by(&sandbox, &bob, &inside, &["commit", "-q", "-m", "x"]);
        assert_eq!(ran.code == 0, passes, "{file}: {ran:?}");
        by(&sandbox, &bob, &inside, &["reset", "-q"]).ok();
    }
    // The pointer to it is a path of its own.
    held(&sandbox, &ada, "su?");
    git(&sandbox, &["add", "sub"]);
    let ran = git_by(&sandbox, &bob, &["commit", "-q", "-m", "pointer"]);
    assert!(ran.code != 0 && ran.stderr.contains("sub is reserved by"), "{ran:?}");
}

#[test]
fn what_a_sparse_checkout_leaves_out_is_not_called_deleted() {
    let sandbox = guarded();
    for file in ["in/1", "out/1", "out/2"] {
        write(sandbox.path(), file, "x\n");
    }
    git(&sandbox, &["add", "in", "out"]);
    git_by(&sandbox, &human("founder"), &["commit", "-q", "-m", "folders"]).ok();
    held(&sandbox, &agent("ada"), "out/**");
    let there = worktree(&sandbox, "sparse");
    by(&sandbox, &human("founder"), &there, &["sparse-checkout", "set", "--cone", "--sparse-index", "in"])
        .ok();
    assert!(!there.join("out").exists());
    write(&there, "in/1", "changed\n");
    let id = sandbox.add("sparse");
    sandbox
        .run(&human("founder"), &["edit", &id, "--constraint", "no_delete", "--constraint", "max_files=1"])
        .ok();
    sandbox.run(&agent("bob"), &["claim", &id]).ok();
    let ran = by(&sandbox, &agent("bob"), &there, &["commit", "-q", "-a", "-m", "x"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}
