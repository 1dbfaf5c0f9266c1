//! What stands where the store should be and is not one: exit 8 and a clear message, no panic, and not a byte of it
//! changed, whatever is tried.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rusqlite::Connection;

use crate::contract::kit::{claim, tamper};
use crate::support::{Ran, Sandbox, agent, human};

/// Reads, writes, upkeep: each is refused by a store that is none.
const TRIED: &[&[&str]] = &[
    &["show", "1"],
    &["list"],
    &["ready"],
    &["search", "word"],
    &["status"],
    &["log"],
    &["ledger", "verify"],
    &["ledger", "rebuild"],
    &["ledger", "export", "out.jsonl"],
    &["ledger", "seal"],
    &["backup", "copy.db"],
    &["actor", "list"],
    &["instance", "list"],
    &["add", "More"],
    &["claim", "1"],
    &["claim", "--next"],
    &["done", "1", "-m", "x"],
    &["redact", "1", "1", "--reason", "r"],
    &["instance", "register"],
    &["init"],
];

/// A store with something in it, all of it in the one file.
fn store() -> Sandbox {
    let sandbox = Sandbox::new();
    let id = sandbox.add("Fix it");
    claim(&sandbox, &agent("a"), &id);
    sandbox.run(&agent("a"), &["note", &id, &"long ".repeat(2_000)]).ok();
    sandbox.run(&human("founder"), &["doctor", "--fix"]).ok();
    for side in ["onus.db-wal", "onus.db-shm"] {
        let _ = fs::remove_file(sandbox.path().join(".onus").join(side));
    }
    sandbox
}

#[track_caller]
fn is_refused(sandbox: &Sandbox, code: &str, needle: &str) {
    let path = sandbox.database();
    let content = |path: &Path| if path.is_dir() { Vec::new() } else { fs::read(path).unwrap() };
    let before = content(&path);
    for args in TRIED {
        let json = sandbox.json(&agent("a"), args);
        let error = json.refused(8);
        assert_eq!(error["code"], code, "{args:?}: {error}");
        assert!(error["message"].as_str().unwrap().contains(needle), "{args:?}: {error}");
        assert!(!error["next"].as_array().unwrap().is_empty(), "{args:?}");
        let words = sandbox.run(&agent("a"), args);
        assert_eq!((words.code, words.stdout.as_str()), (8, ""), "{args:?}");
        assert!(words.stderr.contains(needle) && !words.stderr.contains("panicked"), "{args:?}: {words:?}");
        assert!(content(&path) == before, "{args:?} changed the file");
    }
    for made in ["out.jsonl", "copy.db"] {
        assert!(!sandbox.path().join(made).exists(), "{made} was left behind");
    }
    // The doctor says the same, as its finding.
    let doctor = sandbox.json(&agent("a"), &["doctor"]);
    assert_eq!(doctor.code, 8, "{doctor:?}");
    let report = doctor.json();
    assert_eq!(report["ok"], false);
    assert_eq!(report["error"]["code"], code);
    assert!(report.to_string().contains(needle), "{report}");
    assert_eq!(sandbox.json(&agent("a"), &["doctor", "--fix"]).code, 8);
    assert!(content(&path) == before, "the doctor changed the file");
}

#[test]
fn a_folder_is_not_a_store() {
    let sandbox = Sandbox::empty();
    fs::create_dir_all(sandbox.database()).unwrap();
    is_refused(&sandbox, "damaged", "it is a folder");
    assert_eq!(fs::read_dir(sandbox.database()).unwrap().count(), 0);
}

#[test]
fn a_store_from_the_future_is_left_to_the_onus_that_wrote_it() {
    let sandbox = store();
    tamper(&sandbox, "PRAGMA user_version = 3");
    is_refused(&sandbox, "newer_schema", "schema 3, but this version of onus supports only up to 2");
}

#[test]
fn another_programs_database_is_left_alone() {
    for (pragmas, needle) in [
        ("PRAGMA user_version = 1;", "another program made it"),
        ("PRAGMA user_version = 0;", "an empty or foreign database"),
        ("PRAGMA user_version = 1; PRAGMA application_id = 252006675;", "another program made it"),
    ] {
        let sandbox = Sandbox::empty();
        fs::create_dir_all(sandbox.path().join(".onus")).unwrap();
        let theirs = Connection::open(sandbox.database()).unwrap();
        theirs
            .execute_batch(&format!("{pragmas} CREATE TABLE task (x); INSERT INTO task VALUES (1);"))
            .unwrap();
        drop(theirs);
        is_refused(&sandbox, "damaged", needle);
    }
}

#[test]
fn a_truncated_store_is_called_damaged() {
    let whole = fs::metadata(store().database()).unwrap().len();
    assert!(whole > 8 * 4096, "{whole}");
    for length in [whole / 2 / 4096 * 4096, whole - 4096, whole / 2 + 100, 4096, 1000] {
        let sandbox = store();
        fs::File::options().write(true).open(sandbox.database()).unwrap().set_len(length).unwrap();
        is_refused(&sandbox, "damaged", "");
    }
}

#[test]
fn garbage_is_not_a_store() {
    let sandbox = store();
    fs::write(sandbox.database(), vec![0x5a; 64 * 1024]).unwrap();
    is_refused(&sandbox, "damaged", "not an SQLite database");
    fs::write(sandbox.database(), "x").unwrap();
    is_refused(&sandbox, "damaged", "not an");
}

#[test]
fn an_empty_file_is_not_a_store_and_is_not_made_one() {
    let sandbox = Sandbox::empty();
    fs::create_dir_all(sandbox.path().join(".onus")).unwrap();
    fs::write(sandbox.database(), "").unwrap();
    is_refused(&sandbox, "damaged", "an empty or foreign database");
    assert_eq!(fs::metadata(sandbox.database()).unwrap().len(), 0);
}

#[test]
fn a_store_with_broken_pages_never_panics() {
    // Every page in turn is overwritten: what reads it says so, what does not need it may work.
    let pages = fs::metadata(store().database()).unwrap().len() / 4096;
    for page in 1..pages {
        let sandbox = store();
        let file = fs::File::options().write(true).open(sandbox.database()).unwrap();
        file.write_all_at(&[0xa5; 4096], page * 4096).unwrap();
        for args in
            [vec!["status"], vec!["show", "1"], vec!["log"], vec!["ledger", "verify"], vec!["add", "More"]]
        {
            let ran = sandbox.json(&agent("a"), &args);
            assert!(matches!(ran.code, 0 | 3 | 8), "page {page}, {args:?}: {ran:?}");
            ran.json();
            assert!(!ran.stderr.contains("panicked"), "page {page}, {args:?}: {ran:?}");
        }
        let doctor = sandbox.json(&agent("a"), &["doctor"]);
        assert_eq!(doctor.code, 8, "page {page}: {doctor:?}");
        assert_eq!(doctor.json()["ok"], false);
        assert!(doctor.json()["error"]["code"].is_string());
    }
}

#[test]
fn triggers_that_a_file_brings_do_not_run() {
    let sandbox = store();
    tamper(
        &sandbox,
        "CREATE TRIGGER brought AFTER INSERT ON event BEGIN UPDATE task SET priority = 'P0'; END",
    );
    let id = sandbox.add("More");
    assert_eq!(sandbox.show("1")["priority"], "P2");
    assert_eq!(sandbox.show(&id)["priority"], "P2");
}

#[test]
fn an_expression_without_end_in_a_file_is_damage_and_no_crash() {
    let sandbox = store();
    let file = Connection::open(sandbox.database()).unwrap();
    file.execute_batch("PRAGMA writable_schema = ON").unwrap();
    let deep = format!(", CHECK ({}number))", "number AND ".repeat(200_000));
    let sql: String =
        file.query_row("SELECT sql FROM sqlite_schema WHERE name = 'task'", [], |row| row.get(0)).unwrap();
    let end = sql.rfind(')').unwrap();
    let changed = format!("{}{deep}{}", &sql[..end], &sql[end + 1..]);
    file.execute("UPDATE sqlite_schema SET sql = ?1 WHERE name = 'task'", [changed]).unwrap();
    drop(file);
    for args in [vec!["list"], vec!["add", "More"]] {
        assert_eq!(sandbox.json(&agent("a"), &args).refused(8)["code"], "damaged", "{args:?}");
    }
}

#[test]
fn a_store_that_is_neither_a_file_nor_a_server_is_refused_by_name() {
    let sandbox = Sandbox::new();
    let ran = |address: &str| {
        let mut command = sandbox.command(&agent("a"));
        Ran::of(command.args(["status", "--json"]).env("ONUS_STORE", address).output().unwrap())
    };
    assert!(ran("mysql://db/onus").refused(2)["message"].as_str().unwrap().contains("ONUS_STORE"));
    assert_eq!(ran("/dev/null").refused(8)["code"], "damaged");
    assert_eq!(ran("not/there.db").refused(8)["code"], "no_store");
    ran(&format!("sqlite:{}", sandbox.database().display())).ok();
}
