//! P5: the rows are a fold of the ledger. Whatever is wrong with them is put right from it, and nothing else changes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rusqlite::types::Value as Cell;
use serde_json::json;

use crate::record::book::{Book, open, records};
use crate::record::redaction::finding;
use crate::record::seals::cut_tail;
use crate::support::{agent, human};

const TABLES: [&str; 12] = [
    "project", "actor", "alias", "task", "lease", "stretch", "usage", "ref", "event", "text", "instance",
    "request",
];

/// Every row of every table.
fn contents(path: &Path) -> Vec<(String, Vec<Cell>)> {
    let db = open(path);
    let mut rows = Vec::new();
    for table in TABLES {
        let mut statement = db.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap();
        let columns = statement.column_count();
        let found = statement
            .query_map([], |row| (0..columns).map(|i| row.get::<_, Cell>(i)).collect::<Result<Vec<_>, _>>());
        rows.extend(found.unwrap().map(|row| (table.to_owned(), row.unwrap())));
    }
    rows
}

/// A statement for each column of a table that changes it in one row, unless it is among those left out.
fn one_by_one(path: &Path, table: &str, only: &str, but: &[&str]) -> Vec<String> {
    let db = open(path);
    let mut statement = db.prepare(&format!("PRAGMA table_info({table})")).unwrap();
    let columns = statement.query_map([], |row| Ok((row.get::<_, String>(1)?, row.get::<_, String>(2)?)));
    let columns = columns.unwrap().map(Result::unwrap).filter(|(name, _)| !but.contains(&name.as_str()));
    columns
        .map(|(name, kind)| {
            let value = match kind.as_str() {
                "INTEGER" => format!("COALESCE({name}, 0) + 7"),
                _ => "'damaged'".to_owned(),
            };
            format!("UPDATE {table} SET {name} = {value} WHERE {only}")
        })
        .collect()
}

/// What is written beside the ledger while a lease lives.
const PULSE: [&str; 13] = [
    "resting",
    "working",
    "waiting",
    "progress_wall_ms",
    "progress_tick_ms",
    "progress_domain",
    "last_wall_ms",
    "last_tick_ms",
    "last_domain",
    "renewals",
    "deadline_wall_ms",
    "deadline_tick_ms",
    "deadline_domain",
];

#[test]
fn a_row_damaged_in_any_way_is_put_right_and_reported() {
    let book = Book::new();
    let path = book.sandbox.database();
    let mut damages: Vec<(&str, String)> = Vec::new();
    // A row's uid, version and head are what it has seen of the ledger: see below.
    let witness = ["uid", "version", "head"];
    damages.extend(one_by_one(&path, "task", "number = 1", &witness).into_iter().map(|sql| ("task", sql)));
    // And how many numbers were given, of tasks that are gone.
    let project =
        one_by_one(&path, "project", "1", &["id", "uid", "version", "head", "last_number", "last_seat"]);
    damages.extend(project.into_iter().map(|sql| ("project", sql)));
    damages.extend(one_by_one(&path, "actor", "name = 'agent:b'", &[]).into_iter().map(|sql| ("actor", sql)));
    damages.extend(one_by_one(&path, "alias", "1", &[]).into_iter().map(|sql| ("alias", sql)));
    let ended = one_by_one(&path, "lease", "ended_how IS NOT NULL", &[]);
    damages.extend(ended.into_iter().map(|sql| ("lease", sql)));
    let live = one_by_one(&path, "lease", "ended_how IS NULL", &PULSE);
    // One that is said to have ended without having ended loses its pulse: that was not history.
    damages.extend(live.into_iter().filter(|sql| !sql.contains("SET ended")).map(|sql| ("lease", sql)));
    damages.extend(one_by_one(&path, "ref", "1", &["task"]).into_iter().map(|sql| ("ref", sql)));
    let first = "(task, version, place) = (SELECT task, version, place FROM stretch LIMIT 1)";
    damages.extend(one_by_one(&path, "stretch", first, &[]).into_iter().map(|sql| ("stretch", sql)));
    for (table, sql) in [
        ("stretch", "DELETE FROM stretch"),
        (
            "stretch",
            "INSERT INTO stretch SELECT task, version, place + 7, token, actor, start_ms, 9 FROM stretch LIMIT 1",
        ),
        (
            "usage",
            "INSERT INTO usage (task, version, token, actor, at_ms, source) SELECT uid, 1, 1, 'agent:b', 0, 'actual' FROM task LIMIT 1",
        ),
        ("ref", "DELETE FROM ref"),
        ("ref", "INSERT INTO ref SELECT uid, 'gh', '7' FROM task WHERE number = 2"),
        ("task", "DELETE FROM task WHERE number = 1"),
        ("lease", "DELETE FROM lease WHERE ended_how IS NOT NULL"),
        ("actor", "DELETE FROM actor WHERE name = 'agent:b'"),
        ("actor", "INSERT INTO actor VALUES ('agent:ghost', 3, 0)"),
        ("alias", "DELETE FROM alias"),
        ("alias", "INSERT INTO alias VALUES ('agent:ghost', 'human:founder')"),
        ("project", "UPDATE project SET last_number = 0"),
        ("search", "UPDATE text SET indexed = 1 - indexed WHERE id = 1"),
        ("search", "UPDATE text SET indexed = 1 WHERE field = 'reason'"),
    ] {
        damages.push((table, sql.to_owned()));
    }
    assert!(damages.len() > 80, "{}", damages.len());

    let before = contents(&book.copy());
    for (i, (table, sql)) in damages.iter().enumerate() {
        let copy = book.damaged(|db| {
            assert!(db.execute(sql, []).unwrap() > 0, "{sql}");
        });
        assert_ne!(contents(&copy), before, "{sql}");
        if i % 5 == 0 {
            let doctor = book.on(&copy, &["doctor"]);
            assert_eq!(doctor.code, 8, "{sql}: {doctor:?}");
            assert_eq!(finding(&doctor.json(), "rows")["ok"], false, "{sql}: {doctor:?}");
        }
        let rebuilt = book.on(&copy, &["ledger", "rebuild"]);
        assert_eq!(rebuilt.code, 0, "{sql}: {rebuilt:?}");
        let changed = rebuilt.json()["changed"].clone();
        assert!(changed[*table].as_u64().is_some_and(|rows| rows > 0), "{sql}: {changed}");
        assert_eq!(changed.as_object().unwrap().len(), 1, "{sql}: {changed}");
        assert_eq!(contents(&copy), before, "{sql}");
        open(&copy).execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)", []).unwrap();
        std::fs::remove_dir_all(copy.parent().unwrap()).unwrap();
    }
}

#[test]
fn everything_damaged_at_once_is_put_right_and_doctor_is_content_again() {
    let book = Book::new();
    let before = contents(&book.copy());
    let copy = book.damaged(|db| {
        for sql in [
            "UPDATE task SET state = 'blocked', token = 99, leased = 1",
            "DELETE FROM lease",
            "DELETE FROM actor",
            "DELETE FROM alias",
            "UPDATE project SET last_number = 0, prefix = 'NO'",
            "UPDATE text SET indexed = 0",
        ] {
            assert!(db.execute(sql, []).unwrap() > 0, "{sql}");
        }
    });
    let fixed = book.on(&copy, &["doctor", "--fix"]).ok().json();
    assert!(fixed["fixed"].as_array().unwrap().len() >= 6, "{fixed}");
    // The live lease's last sign of life was not history, and is gone with its row.
    let history = |rows: Vec<(String, Vec<Cell>)>| -> Vec<(String, Vec<Cell>)> {
        rows.into_iter().filter(|(table, _)| table != "lease").collect()
    };
    assert_eq!(history(contents(&copy)), history(before));
    book.on(&copy, &["doctor"]).ok();
    book.is_green(&copy);
    assert_eq!(book.on(&copy, &["search", "seal"]).ok().json()["tasks"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_not_history_is_carried_over() {
    let book = Book::new();
    let founder = human("founder");
    book.sandbox.json(&founder, &["add", "keyed", "--key", "k"]).ok();
    // Signs of life and a moved deadline, which no event knows of.
    for _ in 0..3 {
        book.sandbox.json(&agent("b"), &["renew", "ON-2", "--ttl", "3h"]).ok();
    }
    let before = contents(&book.copy());
    let copy = book.damaged(|db| {
        db.execute("UPDATE lease SET actor = 'agent:eve', tier = 3 WHERE ended_how IS NULL", []).unwrap();
        db.execute("UPDATE task SET priority = 'P0'", []).unwrap();
    });
    let changed = book.on(&copy, &["ledger", "rebuild"]).ok().json()["changed"].clone();
    assert_eq!(changed, json!({ "lease": 1, "task": 3 }));
    let after = contents(&copy);
    assert_eq!(after, before);
    let lease: (i64, i64) = open(&copy)
        .query_row(
            "SELECT renewals, deadline_tick_ms - tick_ms FROM lease WHERE ended_how IS NULL",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert!(lease.0 >= 3 && lease.1 >= 3 * 3_600_000, "{lease:?}");
}

#[test]
fn signs_of_life_that_nobody_can_read_are_not_carried_over() {
    let book = Book::new();
    for damage in ["renewals = -1", "deadline_tick_ms = NULL", "waiting = 'x'"] {
        let copy = book.damaged(|db| {
            let live = db.execute(&format!("UPDATE lease SET {damage} WHERE ended_how IS NULL"), []).unwrap();
            assert_eq!(live, 1);
        });
        book.on(&copy, &["list"]).refused(8);
        assert_eq!(book.on(&copy, &["ledger", "rebuild"]).ok().json()["changed"], json!({ "lease": 1 }));
        book.on(&copy, &["list"]).ok();
        book.on(&copy, &["doctor"]).ok();
    }
    // Absurd, but readable.
    let copy = book.damaged(|db| {
        let last = i64::MAX;
        db.execute("UPDATE lease SET deadline_tick_ms = ?1 WHERE ended_how IS NULL", [last]).unwrap();
    });
    book.on(&copy, &["list"]).ok();
}

#[test]
fn a_broken_ledger_is_not_rebuilt_from_and_nothing_changes() {
    let book = Book::new();
    let uid = book.uid("ON-1");
    let last = records(&open(&book.sandbox.database()), &uid).len();
    let edit = |sql: &'static str| {
        move |db: &rusqlite::Connection, uid: &str| assert!(db.execute(sql, [uid]).unwrap() > 0)
    };
    type Damage<'a> = (usize, Box<dyn Fn(&rusqlite::Connection, &str) + 'a>);
    let damages: Vec<Damage<'_>> = vec![
        (2, Box::new(edit("UPDATE event SET actor = 'human:eve' WHERE stream = ?1 AND version = 2"))),
        // Other readers of JSON would see the first of two values under one key.
        (
            1,
            Box::new(edit(
                "UPDATE event SET payload = '{\"state\":\"done\",' || substr(payload, 2) WHERE stream = ?1 AND version = 1",
            )),
        ),
        (
            1,
            Box::new(edit(
                "UPDATE event SET payload = '{ ' || substr(payload, 2) WHERE stream = ?1 AND version = 1",
            )),
        ),
        (3, Box::new(edit("DELETE FROM event WHERE stream = ?1 AND version = 2"))),
        // The row has seen more than the ledger has: to rebuild it would be to cover up.
        (
            last,
            Box::new(move |db, uid| {
                db.execute(
                    "DELETE FROM event WHERE stream = ?1 AND version = ?2",
                    rusqlite::params![uid, last as i64],
                )
                .unwrap();
            }),
        ),
        (1, Box::new(edit("DELETE FROM event WHERE stream = ?1"))),
        (last, Box::new(edit("UPDATE task SET head = 'x' WHERE uid = ?1"))),
        (last + 1, Box::new(edit("UPDATE task SET version = version + 3 WHERE uid = ?1"))),
    ];
    for (i, (version, damage)) in damages.iter().enumerate() {
        // Something that a rebuild would put right, if it went on.
        let copy = book.damaged(|db| {
            damage(db, &uid);
            db.execute("UPDATE task SET priority = 'P0'", []).unwrap();
        });
        let before = contents(&copy);
        let error = book.on(&copy, &["ledger", "rebuild"]).refused(8);
        assert_eq!(error["code"], "tampered", "{i}: {error}");
        assert_eq!((&error["task"], &error["version"]), (&json!("ON-1"), &json!(version)), "{i}: {error}");
        assert_eq!(contents(&copy), before, "{i}");
        // Nor does doctor cover it up.
        let doctor = book.on(&copy, &["doctor", "--fix"]);
        assert_eq!(doctor.code, 8, "{i}: {doctor:?}");
        assert_eq!(finding(&doctor.json(), "ledger")["ok"], false, "{i}");
        assert_eq!(contents(&copy), before, "{i}");
        assert_eq!(book.on(&copy, &["ledger", "verify"]).code, 8, "{i}");
    }
}

/// A cut that took the row with it leaves nothing to see from inside: then the fold of what is left is what counts.
#[test]
fn after_a_consistent_cut_the_rows_follow_what_is_left() {
    let book = Book::new();
    let copy = book.damaged(|db| cut_tail(db, &book.uid("ON-1")));
    let changed = book.on(&copy, &["ledger", "rebuild"]).ok().json()["changed"].clone();
    assert_eq!(changed, json!({ "lease": 1, "stretch": 1, "task": 1 }));
    assert_eq!(book.on(&copy, &["show", "ON-1"]).ok().json()["state"], "in_progress");
}

#[test]
fn a_rebuild_among_writers_changes_nothing_and_loses_nothing() {
    let book = Book::new();
    let sandbox = &book.sandbox;
    let (stop, written) = (AtomicBool::new(false), AtomicU32::new(0));
    let started = Instant::now();
    let mut rebuilds = 0;
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (stop, written) = (&stop, &written);
            scope.spawn(move || {
                // Each round meets every kind of row: a new actor, tasks, leases, texts, signs of life.
                for round in 0..100 {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let who = agent(&format!("w{writer}-{round}"));
                    let task = sandbox.json(&who, &["add", &format!("from {writer}, {round}")]).ok().json();
                    let id = task["id"].as_str().unwrap();
                    sandbox.json(&who, &["claim", id]).ok();
                    sandbox.json(&who, &["note", id, "under way"]).ok();
                    sandbox.json(&who, &["done", id, "-m", "finished"]).ok();
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while rebuilds < 15 && started.elapsed() < Duration::from_secs(60) {
            let rebuilt = sandbox.json(&human("founder"), &["ledger", "rebuild"]);
            if rebuilt.code != 0 || rebuilt.json()["changed"] != json!({}) {
                stop.store(true, Ordering::Relaxed);
                panic!("{rebuilt:?}");
            }
            rebuilds += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(rebuilds >= 5, "{rebuilds}");
    let written = written.load(Ordering::Relaxed) as usize;
    assert!(written >= 3, "{written}");
    let tasks = sandbox.json(&human("founder"), &["list", "--all", "--limit", "1000"]).ok().json();
    let done = tasks["tasks"].as_array().unwrap().iter().filter(|task| task["state"] == "done").count();
    // ON-1 was done before.
    assert_eq!(done, written + 1);
    sandbox.is_whole();
}
