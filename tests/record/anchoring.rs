//! Seals anchored in git: a chain of commits beside everything else, and never in anybody's way.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::record::book::{checkpoint, open};
use crate::record::seals::{cut_tail, new_key};
use crate::support::{Ran, Sandbox, git, git_in, human};

/// A repository with a commit, a change in the index and one in the tree, and a store.
struct Repository {
    sandbox: Sandbox,
}

/// Refs in tables came with git 2.45.
fn git_knows_tables() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("git").args(["init", "-q", "--ref-format=reftable"]).arg(folder.path()).output();
    made.unwrap().status.success()
}

impl Repository {
    fn new(init: &[&str]) -> Repository {
        let sandbox = Sandbox::empty();
        let root = sandbox.path().join("repo");
        std::fs::create_dir(&root).unwrap();
        git(&root, &[&["init", "-q", "-b", "main"], init].concat());
        std::fs::write(root.join("kept"), "one\n").unwrap();
        git(&root, &["add", "kept"]);
        git(&root, &["commit", "-q", "-m", "first"]);
        let repository = Repository { sandbox };
        repository.run(&["init", "--prefix", "ON"]).ok();
        repository.run(&["add", "Repair the pump"]).ok();
        repository.run(&["note", "ON-1", "the seal is worn"]).ok();
        // Somebody is in the middle of something.
        std::fs::write(root.join("kept"), "two\n").unwrap();
        git(&root, &["add", "kept"]);
        std::fs::write(root.join("kept"), "three\n").unwrap();
        std::fs::write(root.join("new"), "untracked\n").unwrap();
        repository
    }

    fn root(&self) -> PathBuf {
        self.sandbox.path().join("repo")
    }

    fn database(&self) -> PathBuf {
        self.root().join(".git/onus/onus.db")
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_in(&self.root(), args)
    }

    fn run_in(&self, folder: &Path, args: &[&str]) -> Ran {
        let mut command = self.sandbox.command(&human("founder"));
        Ran::of(command.current_dir(folder).args(args).arg("--json").output().unwrap())
    }

    fn seal(&self) -> Value {
        self.run(&["ledger", "seal", "--git"]).ok().json()
    }

    /// All that a seal must not touch: where HEAD is, the branches, the index to the byte, and the tree.
    fn untouchables(&self) -> (String, String, Vec<u8>, String, String) {
        let root = self.root();
        (
            git(&root, &["symbolic-ref", "HEAD"]),
            git(&root, &["for-each-ref", "refs/heads", "refs/tags", "refs/remotes"]),
            std::fs::read(root.join(".git/index")).unwrap(),
            // No optional locks: a status must not refresh the index that is compared.
            git(&root, &["--no-optional-locks", "status", "--porcelain"]),
            std::fs::read_to_string(root.join("kept")).unwrap(),
        )
    }
}

#[test]
fn seals_are_a_chain_of_commits_that_touches_nothing_else() {
    let repository = Repository::new(&[]);
    let before = repository.untouchables();
    assert!(before.3.contains("MM kept"), "{}", before.3);
    let first = repository.seal();
    repository.run(&["note", "ON-1", "later"]).ok();
    let second = repository.seal();
    assert_eq!(repository.untouchables(), before);

    let root = repository.root();
    let chain = git(&root, &["rev-list", "--parents", "refs/onus/seals"]);
    let commits: Vec<&str> = chain.lines().collect();
    let (first_commit, second_commit) =
        (first["commit"].as_str().unwrap(), second["commit"].as_str().unwrap());
    assert_eq!(commits, [format!("{second_commit} {first_commit}"), first_commit.to_owned()]);
    // Each holds one seal, as it was written beside the store.
    for seal in [&first, &second] {
        let anchored =
            git(&root, &["cat-file", "blob", &format!("{}:seal.jsonl", seal["commit"].as_str().unwrap())]);
        let file = std::fs::read_to_string(seal["file"].as_str().unwrap()).unwrap();
        assert_eq!(anchored, file.trim_end());
    }
    let verified = repository.run(&["ledger", "verify"]).ok().json();
    assert_eq!(verified["seals"].as_array().unwrap().len(), 2, "{verified}");
}

#[test]
fn a_cut_tail_is_found_against_the_seal_in_git_and_by_nothing_else() {
    let tables = &["--ref-format=reftable"][..];
    for (init, pack) in [(&[][..], false), (&[][..], true), (tables, false)] {
        if init == tables && !git_knows_tables() {
            continue;
        }
        let repository = Repository::new(init);
        repository.seal();
        if pack {
            git(&repository.root(), &["pack-refs", "--all"]);
        }
        checkpoint(&repository.database());
        let db = open(&repository.database());
        let uid: String = db.query_row("SELECT uid FROM task", [], |row| row.get(0)).unwrap();
        cut_tail(&db, &uid);
        drop(db);
        let error = repository.run(&["ledger", "verify"]).refused(8);
        assert_eq!(error["code"], "tampered", "{init:?} {pack}: {error}");
        assert_eq!((&error["task"], &error["version"]), (&"ON-1".into(), &2.into()), "{error}");
        // The control: where no seal is at hand the same file is green.
        let mut command = repository.sandbox.command(&human("founder"));
        command.env("ONUS_STORE", repository.database()).args(["ledger", "verify"]);
        assert!(command.output().unwrap().status.success());
    }
}

#[test]
fn a_seal_is_anchored_and_compared_from_a_linked_worktree_too() {
    let repository = Repository::new(&[]);
    let linked = repository.sandbox.path().join("linked");
    git(&repository.root(), &["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    let before = (repository.untouchables(), git(&linked, &["rev-parse", "HEAD"]));
    let index = std::fs::read(repository.root().join(".git/worktrees/linked/index")).unwrap();
    let sealed = repository.run_in(&linked, &["ledger", "seal", "--git"]).ok().json();
    assert_eq!(
        git(&repository.root(), &["rev-parse", "refs/onus/seals"]),
        sealed["commit"].as_str().unwrap()
    );
    assert_eq!((repository.untouchables(), git(&linked, &["rev-parse", "HEAD"])), before);
    assert_eq!(std::fs::read(repository.root().join(".git/worktrees/linked/index")).unwrap(), index);
    assert_eq!(git(&linked, &["--no-optional-locks", "status", "--porcelain"]), "");
    let verified = repository.run_in(&linked, &["ledger", "verify"]).ok().json();
    assert_eq!(verified["seals"].as_array().unwrap().len(), 1);
}

/// Git's own settings, and an environment set by a hook, do not lead it astray.
#[test]
fn anchoring_needs_no_git_identity_and_follows_no_stray_environment() {
    let repository = Repository::new(&[]);
    let root = repository.root();
    git(&root, &["config", "commit.gpgsign", "true"]);
    git(&root, &["config", "user.useConfigOnly", "true"]);
    let decoy = repository.sandbox.path().join("decoy");
    std::fs::create_dir(&decoy).unwrap();
    git(&decoy, &["init", "-q"]);
    let mut command = repository.sandbox.command(&human("founder"));
    command
        .current_dir(&root)
        .env("GIT_DIR", decoy.join(".git"))
        .env("GIT_INDEX_FILE", decoy.join("index"))
        .env("GIT_OBJECT_DIRECTORY", decoy.join(".git/objects"))
        .args(["ledger", "seal", "--git", "--json"]);
    let sealed = Ran::of(command.output().unwrap()).ok().json();
    assert_eq!(git(&root, &["rev-parse", "refs/onus/seals"]), sealed["commit"].as_str().unwrap());
    git(&root, &["cat-file", "-e", &format!("{}:seal.jsonl", sealed["commit"].as_str().unwrap())]);
    assert_eq!(git(&decoy, &["for-each-ref"]), "");
}

#[test]
fn an_anchored_seal_carries_its_signature_and_it_is_checked() {
    let repository = Repository::new(&[]);
    let key = new_key(repository.sandbox.path(), "key");
    let sealed = repository.run(&["ledger", "seal", "--git", "--sign", key.to_str().unwrap()]).ok().json();
    let verified = repository.run(&["ledger", "verify"]).ok().json();
    assert!(verified["seals"][0].as_str().unwrap().contains("signed by SHA256:"), "{verified}");
    // One who can move refs puts another seal in its place, under the same signature.
    let root = repository.root();
    let commit = sealed["commit"].as_str().unwrap();
    let seal = git(&root, &["cat-file", "blob", &format!("{commit}:seal.jsonl")]);
    let forged = repository.sandbox.path().join("forged");
    std::fs::write(&forged, seal.replacen("\"at\":\"2", "\"at\":\"1", 1) + "\n").unwrap();
    let blob = git(&root, &["hash-object", "-w", forged.to_str().unwrap()]);
    let signature = git(&root, &["rev-parse", &format!("{commit}:seal.jsonl.sig")]);
    let index = repository.sandbox.path().join("scratch-index");
    for (mode, object, name) in [("100644", &blob, "seal.jsonl"), ("100644", &signature, "seal.jsonl.sig")] {
        let entry = format!("{mode},{object},{name}");
        let words = ["update-index", "--add", "--cacheinfo", &entry];
        assert!(git_in(&root).args(words).env("GIT_INDEX_FILE", &index).status().unwrap().success());
    }
    let tree = git_in(&root).arg("write-tree").env("GIT_INDEX_FILE", &index).output().unwrap();
    let tree = String::from_utf8(tree.stdout).unwrap();
    let forged = git(&root, &["commit-tree", tree.trim(), "-m", "seal"]);
    git(&root, &["update-ref", "refs/onus/seals", &forged]);
    let error = repository.run(&["ledger", "verify"]).refused(8);
    assert_eq!(error["code"], "tampered", "{error}");
    assert!(error["message"].as_str().unwrap().contains("signature"), "{error}");
}

#[test]
fn outside_git_there_is_nothing_to_anchor_in() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.json(&human("founder"), &["ledger", "seal", "--git"]).code, 2);
    assert!(!sandbox.path().join(".onus/seals").exists());
}

/// Somebody removed the commits but not the reference: that is not the same as no seal.
#[test]
fn a_seal_that_git_lost_is_not_passed_over() {
    let repository = Repository::new(&[]);
    let sealed = repository.seal();
    let commit = sealed["commit"].as_str().unwrap();
    let object = repository.root().join(".git/objects").join(&commit[..2]).join(&commit[2..]);
    std::fs::remove_file(object).unwrap();
    let error = repository.run(&["ledger", "verify"]).refused(8);
    assert!(error["message"].as_str().unwrap().contains("seals in git"), "{error}");
}
