//! `onus backup`: a copy that is whole, taken while others work, and nothing else.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::record::book::{Book, open};
use crate::record::redaction::with_input;
use crate::record::secrets::{Dice, files};
use crate::support::{Ran, Sandbox, human};

fn on(sandbox: &Sandbox, store: &Path, args: &[&str]) -> Ran {
    let mut command = sandbox.command(&human("founder"));
    Ran::of(command.env("ONUS_STORE", store).args(args).arg("--json").output().unwrap())
}

/// A store that is copied in several steps.
fn large() -> Sandbox {
    let sandbox = Sandbox::new();
    let mut dice = Dice::new(3);
    for _ in 0..60 {
        let body = (dice.plain(2_000) + " ").repeat(100);
        with_input(&sandbox, &human("founder"), &["add", "large", "-d", "-"], &body).ok();
    }
    assert!(std::fs::metadata(sandbox.database()).unwrap().len() > 12_000_000);
    sandbox
}

/// Takes a copy; None if that takes for ever.
fn copy_in_time(sandbox: &Sandbox, copy: &Path) -> Option<std::process::ExitStatus> {
    let mut command = sandbox.command(&human("founder"));
    let mut child = command.args(["backup", "--json"]).arg(copy).stdout(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(30) {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// What others write between two steps of the copy is not in it, and does not make it begin again.
#[test]
fn a_copy_is_finished_however_fast_others_write() {
    let sandbox = large();
    let copy = sandbox.path().join("copy.db");
    let stop = AtomicBool::new(false);
    let status = std::thread::scope(|scope| {
        scope.spawn(|| {
            let db = open(&sandbox.database());
            db.pragma_update(None, "synchronous", false).unwrap();
            let started = Instant::now();
            while !stop.load(Ordering::Relaxed) && started.elapsed() < Duration::from_secs(60) {
                db.execute("UPDATE instance SET seen_at_ms = seen_at_ms + 1", []).unwrap();
            }
        });
        let status = copy_in_time(&sandbox, &copy);
        stop.store(true, Ordering::Relaxed);
        status
    });
    assert!(status.expect("the copy never catches up with the writer").success());
    on(&sandbox, &copy, &["ledger", "verify"]).ok();
}

#[test]
fn a_copy_taken_among_writers_is_whole_and_of_one_moment() {
    let sandbox = large();
    let founder = human("founder");
    let folder = sandbox.path().join("copies");
    std::fs::create_dir(&folder).unwrap();
    let copy = folder.join("onus.db");

    let stop = AtomicBool::new(false);
    let (before, after) = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    sandbox.json(&founder, &["note", "ON-1", "written meanwhile"]).ok();
                }
            });
        }
        let before = sandbox.events().len();
        let status = copy_in_time(&sandbox, &copy);
        let after = sandbox.events().len();
        stop.store(true, Ordering::Relaxed);
        assert!(status.expect("the copy never catches up with the writers").success());
        (before, after)
    });

    assert_eq!(files(&folder), std::slice::from_ref(&copy), "side files were left");
    let verified = on(&sandbox, &copy, &["ledger", "verify"]).ok().json();
    let events = verified["events"].as_u64().unwrap() as usize;
    assert!((before..=after).contains(&events), "{before} <= {events} <= {after}");
    assert!(after > before, "nobody wrote meanwhile");
    assert_eq!(on(&sandbox, &copy, &["ledger", "rebuild"]).ok().json()["changed"], json!({}));
    on(&sandbox, &copy, &["doctor"]).ok();
    // It is a store like any other: it can be written, and the original does not change with it.
    on(&sandbox, &copy, &["add", "only in the copy"]).ok();
    assert_eq!(on(&sandbox, &copy, &["search", "only"]).ok().json()["tasks"].as_array().unwrap().len(), 1);
    sandbox.is_whole();
}

#[test]
fn an_existing_file_is_never_overwritten() {
    let book = Book::new();
    let folder = book.sandbox.path().join("there");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("precious");
    for content in ["", "precious"] {
        std::fs::write(&file, content).unwrap();
        let ran = book.sandbox.json(&human("founder"), &["backup", file.to_str().unwrap()]);
        assert_eq!(ran.refused(2)["code"], "usage");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
    }
    // A link counts as what it is, also if it leads nowhere.
    let link = folder.join("link");
    std::os::unix::fs::symlink(folder.join("nowhere"), &link).unwrap();
    assert_eq!(book.sandbox.json(&human("founder"), &["backup", link.to_str().unwrap()]).code, 2);
    assert!(!folder.join("nowhere").exists());
    let database = book.sandbox.database();
    assert_eq!(book.sandbox.json(&human("founder"), &["backup", database.to_str().unwrap()]).code, 2);
    book.sandbox.is_whole();
}

#[test]
fn a_failed_copy_leaves_nothing_behind() {
    let book = Book::new();
    let folder = book.sandbox.path().join("there");
    std::fs::create_dir(&folder).unwrap();
    let missing = book.sandbox.path().join("missing/copy");
    let ran = book.sandbox.json(&human("founder"), &["backup", missing.to_str().unwrap()]);
    let refused = ran.refused(2);
    let message = format!("the folder {} does not exist", missing.parent().unwrap().display());
    assert_eq!(refused["message"], message.as_str());
    assert!(!refused["next"].to_string().contains("doctor"), "the store is sound: {refused}");
    assert!(!missing.parent().unwrap().exists());

    // A page in the middle is torn: the copy would be as bad.
    let copy = book.copy();
    let mut bytes = std::fs::read(&copy).unwrap();
    let pages: i64 = open(&copy)
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'event_place'", [], |row| row.get(0))
        .unwrap();
    let start = (pages as usize - 1) * 4_096;
    bytes[start..start + 4_096].fill(0xa5);
    std::fs::write(&copy, bytes).unwrap();
    let target = folder.join("copy");
    let ran = book.on(&copy, &["backup", target.to_str().unwrap()]);
    assert_eq!(ran.refused(8)["code"], "damaged");
    assert_eq!(files(&folder), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_copy_can_be_taken_by_one_who_may_only_read() {
    let book = Book::new();
    let target = book.sandbox.path().join("copy.db");
    let mut command = book.sandbox.anonymous();
    let told = Ran::of(command.args(["backup", target.to_str().unwrap(), "--json"]).output().unwrap());
    assert_eq!(told.ok().json(), json!({ "file": target }));
    book.is_green(&target);
}
