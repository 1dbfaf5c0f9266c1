//! A full disk: exit 8 `disk_full`, nothing half done, and with space again everything goes on.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use onus_core::refusal::Refusal;
use onus_store::StoreError;

use crate::contract::kit::{Mounted, claim, dump, in_own_mounts};
use crate::support::{Sandbox, agent, human};

/// Puts a small file system of its own at the place of the store's folder.
fn small_disk(sandbox: &Sandbox) -> (PathBuf, Mounted) {
    let folder = sandbox.path().join(".onus");
    fs::create_dir_all(&folder).unwrap();
    let mounted = Mounted::new(&["-t", "tmpfs", "-o", "size=2m", "tmpfs"], &folder);
    (folder, mounted)
}

/// Uses up every byte that is left.
fn fill(folder: &Path) {
    let mut filler = fs::File::options().create(true).append(true).open(folder.join("filler")).unwrap();
    for size in [64 * 1024, 4096, 1] {
        let block = vec![0; size];
        while filler.write_all(&block).is_ok() {}
    }
    assert!(fs::write(folder.join("probe"), "x").is_err(), "the disk is full");
    let _ = fs::remove_file(folder.join("probe"));
}

#[test]
fn a_full_disk_refuses_every_write_and_loses_nothing() {
    if !in_own_mounts("disk_full::a_full_disk_refuses_every_write_and_loses_nothing") {
        return;
    }
    let sandbox = Sandbox::empty();
    let (folder, _mounted) = small_disk(&sandbox);
    sandbox.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
    let (id, other) = (sandbox.add("Fix it"), sandbox.add("Another"));
    claim(&sandbox, &agent("a"), &id);
    fill(&folder);
    let before = dump(&sandbox);

    let known = Refusal::from(StoreError::Full);
    let long = "x".repeat(60_000);
    let mut refused = 0;
    for args in [
        vec!["note", &id, &long],
        vec!["add", "More"],
        vec!["claim", &other],
        vec!["done", &id, "-m", &long],
        vec!["handoff", &id, "--to", "agent:b", "--reason", "r"],
        vec!["actor", "register", "agent:c"],
    ] {
        let error = sandbox.json(&agent("a"), &args).refused(8);
        assert_eq!(
            (&error["code"], &error["message"]),
            (&"disk_full".into(), &known.message.clone().into()),
            "{error}"
        );
        let words = sandbox.run(&agent("a"), &args);
        assert_eq!((words.code, words.stdout.as_str()), (8, ""));
        assert!(words.stderr.contains(&crate::contract::wording::refusal(&known).next[0]), "{words:?}");
        assert_eq!(dump(&sandbox), before, "{args:?}");
        refused += 1;
    }
    assert_eq!(refused, 6);
    // A copy that does not fit is not left as half a copy.
    let copy = folder.join("copy.db");
    let error = sandbox.json(&agent("a"), &["backup", &copy.to_string_lossy()]).refused(8);
    assert_eq!(error["code"], "disk_full", "{error}");
    assert!(!copy.exists());
    // Reads need no space.
    for args in [vec!["status"], vec!["show", &id], vec!["list"], vec!["log"], vec!["ledger", "verify"]] {
        sandbox.json(&agent("a"), &args).ok().json();
    }

    fs::remove_file(folder.join("filler")).unwrap();
    sandbox.run(&agent("a"), &["done", &id, "-m", &long]).ok();
    sandbox.run(&agent("a"), &["claim", &other]).ok();
    sandbox.is_whole();
}

#[test]
fn a_store_that_does_not_fit_is_not_left_half_made() {
    if !in_own_mounts("disk_full::a_store_that_does_not_fit_is_not_left_half_made") {
        return;
    }
    let sandbox = Sandbox::empty();
    let (folder, _mounted) = small_disk(&sandbox);
    fill(&folder);
    let error = sandbox.json(&human("founder"), &["init", "--prefix", "ON"]).refused(8);
    assert_eq!(error["code"], "disk_full", "{error}");
    assert!(!sandbox.database().exists());

    fs::remove_file(folder.join("filler")).unwrap();
    sandbox.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
    sandbox.add("Fix it");
    sandbox.is_whole();
}
