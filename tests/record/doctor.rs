//! `onus doctor` finds what is wrong, `--fix` mends what can be mended, and the exit code says which it was.

use std::path::{Path, PathBuf};

use crate::record::book::{Book, checkpoint, open};
use crate::record::redaction::finding;
use crate::record::secrets::Dice;
use crate::support::{Ran, Sandbox, human};

#[track_caller]
fn bad(ran: &Ran, name: &str, mendable: bool) {
    assert_eq!(ran.code, 8, "{ran:?}");
    let report = ran.json();
    assert_eq!(report["ok"], false);
    let check = finding(&report, name);
    assert_eq!(check["ok"], false, "{report}");
    assert_eq!(check["mendable"], mendable, "{report}");
}

#[track_caller]
fn mended(book: &Book, store: &Path, name: &str) {
    let fixed = book.on(store, &["doctor", "--fix"]);
    assert_eq!(fixed.code, 0, "{fixed:?}");
    assert_eq!(finding(&fixed.json(), name)["ok"], true);
    assert!(!fixed.json()["fixed"].as_array().unwrap().is_empty(), "{fixed:?}");
    assert_eq!(book.on(store, &["doctor"]).ok().json()["ok"], true);
    // There was one thing to mend: a second time there is none.
    let again = book.on(store, &["doctor", "--fix"]).ok().json();
    assert_eq!(again["fixed"].as_array().unwrap().len(), 0, "{again}");
}

#[test]
fn a_sound_store_is_exit_0_and_nothing_is_mended() {
    let book = Book::new();
    let report = book.on(&book.sandbox.database(), &["doctor"]).ok().json();
    assert_eq!(report["ok"], true);
    for name in
        ["file system", "database", "references", "rows", "log", "erased texts", "search index", "ledger"]
    {
        assert_eq!(finding(&report, name)["ok"], true, "{name}: {report}");
    }
    let fixed = book.on(&book.sandbox.database(), &["doctor", "--fix"]).ok().json();
    assert_eq!(fixed["fixed"].as_array().unwrap().len(), 0, "{fixed}");
}

/// A page of the store overwritten from its beginning on.
fn torn(book: &Book, table: &str) -> PathBuf {
    let copy = book.copy();
    let root: i64 = open(&copy)
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
        .unwrap();
    let mut bytes = std::fs::read(&copy).unwrap();
    let start = (root as usize - 1) * 4_096;
    bytes[start..start + 4_096].fill(0xa5);
    std::fs::write(&copy, bytes).unwrap();
    copy
}

#[test]
fn damaged_pages_are_found_and_not_called_mendable() {
    let book = Book::new();
    for table in ["event", "event_place", "text", "task", "lease_unended", "request", "search_data"] {
        let copy = torn(&book, table);
        let ran = book.on(&copy, &["doctor"]);
        assert_eq!(ran.code, 8, "{table}: {ran:?}");
        let report = ran.json();
        let checks = report["checks"].as_array().unwrap_or_else(|| panic!("{table}: {report}"));
        assert!(
            checks.iter().any(|check| check["ok"] == false && check["name"] == "database"),
            "{table}: {report}"
        );
        assert_eq!(book.on(&copy, &["doctor", "--fix"]).code, 8, "{table}");
    }
}

#[test]
fn a_truncated_file_is_found() {
    let book = Book::new();
    let whole = std::fs::read(book.copy()).unwrap();
    for keep in [0, 50, 100, 4_096, 5_000, whole.len() / 2, whole.len() - 4_096] {
        let copy = book.copy();
        std::fs::write(&copy, &whole[..keep]).unwrap();
        for args in [&["doctor"][..], &["doctor", "--fix"]] {
            let ran = book.on(&copy, args);
            assert_eq!(ran.code, 8, "{keep} {args:?}: {ran:?}");
            assert_eq!(ran.json()["ok"], false, "{keep}: {ran:?}");
        }
        // What is left is evidence: nothing pretends to be a fresh store.
        assert_eq!(std::fs::metadata(&copy).unwrap().len(), keep as u64);
    }
}

#[test]
fn a_search_index_out_of_step_is_found_and_mended() {
    let book = Book::new();
    for damage in [
        // A text that is not in it.
        "INSERT INTO search (search, rowid, body) SELECT 'delete', id, body FROM text WHERE field = 'note' AND indexed = 1",
        // One that should not be.
        "INSERT INTO search (rowid, body) SELECT id, body FROM text WHERE indexed = 0 LIMIT 1",
        // All of it.
        "INSERT INTO search (search) VALUES ('delete-all')",
    ] {
        let copy = book.damaged(|db| assert!(db.execute(damage, []).unwrap() > 0));
        bad(&book.on(&copy, &["doctor"]), "search index", true);
        mended(&book, &copy, "search index");
        open(&copy).execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)", []).unwrap();
    }
    // Another text's words under a text's number: only one who may write can tell, and does.
    let copy = book.damaged(|db| {
        let swap =
            "INSERT INTO search (search, rowid, body) SELECT 'delete', id, body FROM text WHERE id = 1";
        db.execute(swap, []).unwrap();
        db.execute("INSERT INTO search (rowid, body) VALUES (1, 'other words')", []).unwrap();
    });
    mended(&book, &copy, "search index");
    assert_eq!(book.on(&copy, &["search", "other"]).ok().json()["tasks"].as_array().unwrap().len(), 0);
}

#[test]
fn an_orphan_is_found_and_mended() {
    let book = Book::new();
    for orphan in [
        "INSERT INTO alias VALUES ('agent:x', 'agent:nobody')",
        "INSERT INTO dep SELECT '01900000-0000-7000-8000-000000000009', uid FROM task LIMIT 1",
    ] {
        let copy = book.damaged(|db| assert_eq!(db.execute(orphan, []).unwrap(), 1));
        bad(&book.on(&copy, &["doctor"]), "references", true);
        mended(&book, &copy, "references");
    }
}

/// A reader that stays keeps the log from being emptied: it grows with every write.
#[test]
fn a_log_that_outgrew_its_bounds_is_found_and_emptied() {
    let book = Book::new();
    let sandbox: &Sandbox = &book.sandbox;
    checkpoint(&sandbox.database());
    let reader = open(&sandbox.database());
    // When it leaves it tidies nothing up, as onus itself does not.
    reader.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    reader.execute_batch("BEGIN; SELECT COUNT(*) FROM event;").unwrap();
    let log = sandbox.path().join(".onus/onus.db-wal");
    let mut dice = Dice::new(2);
    for round in 0.. {
        assert!(round < 200, "the log does not grow");
        let body = dice.plain(250_000);
        crate::record::redaction::with_input(
            sandbox,
            &human("founder"),
            &["edit", "ON-2", "-d", "-", "--force", "--reason", "x"],
            &body,
        )
        .ok();
        if std::fs::metadata(&log).unwrap().len() > 17 << 20 {
            break;
        }
    }
    bad(&book.on(&sandbox.database(), &["doctor"]), "log", true);
    // While the reader is there, nothing can be done, and that is what is said.
    bad(&book.on(&sandbox.database(), &["doctor", "--fix"]), "log", true);
    drop(reader);
    mended(&book, &sandbox.database(), "log");
    assert!(std::fs::metadata(&log).unwrap().len() < 1 << 20);
    sandbox.is_whole();
}

#[test]
fn a_tampered_ledger_is_exit_8_and_named() {
    let book = Book::new();
    let copy = book.damaged(|db| {
        db.execute(
            "UPDATE event SET actor = 'human:eve' WHERE stream = ?1 AND version = 2",
            [book.uid("ON-1")],
        )
        .unwrap();
    });
    let ran = book.on(&copy, &["doctor"]);
    bad(&ran, "ledger", false);
    let detail = finding(&ran.json(), "ledger")["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("event 2 of ON-1"), "{detail}");
}

#[test]
fn what_is_not_a_store_is_said_to_be_none() {
    let sandbox = Sandbox::empty();
    let file = sandbox.path().join("notes.txt");
    std::fs::write(&file, "not a database, but longer than a header would be".repeat(100)).unwrap();
    let foreign = sandbox.path().join("foreign.db");
    open(&foreign).execute_batch("CREATE TABLE t (x)").unwrap();
    for store in [&file, &foreign, &sandbox.path().join("missing.db")] {
        let before = std::fs::read(store).ok();
        for args in [["doctor", "--json"].as_slice(), &["doctor", "--fix", "--json"]] {
            let output =
                sandbox.command(&human("founder")).env("ONUS_STORE", store).args(args).output().unwrap();
            bad(&Ran::of(output), "store", false);
        }
        assert_eq!(std::fs::read(store).ok(), before, "{}", store.display());
    }
}
