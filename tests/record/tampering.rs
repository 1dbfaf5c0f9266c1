//! P6: whatever is changed, removed, swapped or inserted in the file is found, and named.

use rusqlite::{Connection, params};
use serde_json::json;

use crate::record::book::{Book, Place, forge, open, records};
use crate::support::{Sandbox, human};

/// ON-1's event of this version.
fn of_pump(book: &Book, version: u32) -> Place {
    Place { stream: book.uid("ON-1"), version, id: Some("ON-1".into()) }
}

fn pump_events(book: &Book) -> u32 {
    book.sandbox.show("ON-1")["version"].as_u64().unwrap() as u32
}

fn run(connection: &Connection, sql: &str, params: impl rusqlite::Params) {
    assert!(connection.execute(sql, params).unwrap() > 0, "the damage was not done: {sql}");
}

#[test]
fn an_untouched_copy_is_green() {
    let book = Book::new();
    book.is_green(&book.copy());
}

/// Every event, every column of it that its hash covers: what it says, who said it, when, why, and where it stands.
#[test]
fn an_edit_of_any_column_of_any_event_names_that_event() {
    let book = Book::new();
    let edits = [
        ("uid", "'0' || substr(uid, 2)"),
        ("version", "version + 1000"),
        ("kind", "'note.added'"),
        ("actor", "actor || 'x'"),
        ("instance", "instance || 'x'"),
        ("token", "COALESCE(token, 0) + 1"),
        ("token", "-1"),
        ("at_ms", "at_ms + 1"),
        ("at_ms", "9223372036854775807"),
        ("cause", "COALESCE('0' || substr(cause, 2), uid)"),
        ("payload", "'{}'"),
        ("payload", "'not json'"),
        ("payload", "CAST(x'ff' AS TEXT)"),
        ("prev", "'0' || substr(prev, 2)"),
        ("prev", "''"),
        ("hash", "'0' || substr(hash, 2)"),
        ("hash", "prev"),
    ];
    let mut tried = 0;
    for place in book.places() {
        for (column, value) in edits {
            let copy = book.copy();
            let connection = open(&copy);
            let changed = connection
                .execute(
                    &format!(
                        "UPDATE event SET {column} = {value} \
                         WHERE stream = ?1 AND version = ?2 AND {column} IS NOT ({value})"
                    ),
                    params![place.stream, place.version],
                )
                .unwrap();
            drop(connection);
            // An edit that left things as they were (a first event has no prev, a note is a note) is none.
            if changed == 1 {
                book.finds(&copy, &place, &format!("{column} = {value} in {place:?}"));
                tried += 1;
            }
            std::fs::remove_dir_all(copy.parent().unwrap()).unwrap();
        }
    }
    assert!(tried > 15 * book.places().len(), "only {tried} edits were made");
}

#[test]
fn one_letter_inside_a_payload_is_found() {
    let book = Book::new();
    let copy = book.damaged(|db| {
        run(
            db,
            "UPDATE event SET payload = replace(payload, 'water', 'waxer') WHERE payload LIKE '%water%'",
            [],
        );
    });
    book.finds(&copy, &of_pump(&book, 1), "a letter of a tag");
}

#[test]
fn an_event_before_the_first_is_found() {
    let book = Book::new();
    let copy = book.damaged(|db| {
        run(db, "UPDATE event SET version = -version WHERE stream = ?1 AND version = 2", [book.uid("ON-1")]);
    });
    let error = book.on(&copy, &["ledger", "verify"]).refused(8);
    assert_eq!((&error["code"], &error["task"]), (&json!("tampered"), &json!("ON-1")), "{error}");
    assert!(error["version"].is_u64(), "{error}");
}

/// `seq` is the store's own and not hashed, but within a stream it grows with the version.
#[test]
fn an_event_moved_in_the_order_of_things_is_found() {
    let book = Book::new();
    let copy = book.damaged(|db| {
        run(db, "UPDATE event SET seq = 100000 WHERE stream = ?1 AND version = 2", [book.uid("ON-1")]);
    });
    book.finds(&copy, &of_pump(&book, 3), "a seq out of order");
}

#[test]
fn an_event_moved_to_another_stream_is_found() {
    let book = Book::new();
    for stream in [book.uid("ON-2"), "00000000-0000-7000-8000-000000000000".to_owned(), "nonsense".to_owned()]
    {
        let copy = book.damaged(|db| {
            run(
                db,
                "UPDATE event SET stream = ?1, version = version + 50 WHERE stream = ?2 AND version = 3",
                params![stream, book.uid("ON-1")],
            );
        });
        let error = book.on(&copy, &["ledger", "verify"]).refused(8);
        assert_eq!(error["code"], "tampered", "{error}");
        // Whichever of the two streams comes first: the gap it left, or the place it cannot have.
        let id = if stream == book.uid("ON-2") { "ON-2" } else { &stream };
        let gap = error["task"] == "ON-1" && error["version"] == 3;
        assert!(gap || error["task"] == id, "{error}");
        assert!(error["version"].is_u64(), "{error}");
    }
}

#[test]
fn an_edit_of_any_text_names_its_event() {
    let book = Book::new();
    let connection = open(&book.sandbox.database());
    let mut statement = connection
        .prepare("SELECT text.id, stream, text.version, 'ON-' || number FROM text JOIN task ON uid = stream")
        .unwrap();
    let texts: Vec<(i64, Place)> = statement
        .query_map([], |row| {
            Ok((row.get(0)?, Place { stream: row.get(1)?, version: row.get(2)?, id: row.get(3)? }))
        })
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(texts.len() >= 6);
    for (id, place) in texts {
        for edit in [
            "UPDATE text SET body = body || '.' WHERE id = ?1",
            "UPDATE text SET body = CAST(x'ff' AS TEXT) WHERE id = ?1",
            "UPDATE text SET salt = zeroblob(16) WHERE id = ?1",
            "UPDATE text SET salt = x'00' WHERE id = ?1",
            "UPDATE text SET field = 'extra' WHERE id = ?1",
            "UPDATE text SET version = version + 1000 WHERE id = ?1",
            "DELETE FROM text WHERE id = ?1",
        ] {
            let copy = book.damaged(|db| run(db, edit, [id]));
            book.finds(&copy, &place, edit);
        }
    }
}

/// A note that nobody wrote: `show` would print it.
#[test]
fn a_text_slipped_in_beside_an_event_is_found() {
    let book = Book::new();
    for version in [1, 2, 3] {
        let copy = book.damaged(|db| {
            run(
                db,
                "INSERT INTO text (stream, version, field, salt, body) VALUES (?1, ?2, 'note', zeroblob(16), 'pay Eve')",
                params![book.uid("ON-2"), version],
            );
        });
        let place = Place { stream: book.uid("ON-2"), version, id: Some("ON-2".into()) };
        book.finds(&copy, &place, "a text without a word in the ledger");
    }
    let copy = book.damaged(|db| {
        run(
            db,
            "INSERT INTO text (stream, version, field, salt, body) VALUES ('zz', 7, 'note', zeroblob(16), 'pay Eve')",
            [],
        );
    });
    book.finds(&copy, &Place { stream: "zz".into(), version: 7, id: Some("zz".into()) }, "no such event");
}

/// `verify` says that the words are gone: then they must be.
#[test]
fn a_redacted_text_that_was_put_back_is_found() {
    let book = Book::new();
    let uid = book.uid("ON-1");
    let kept: (Vec<u8>, String) = open(&book.sandbox.database())
        .query_row(
            "SELECT salt, body FROM text WHERE stream = ?1 AND version = 1 AND field = 'body'",
            [&uid],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    book.sandbox
        .json(&human("founder"), &["redact", "ON-1", "1", "--field", "body", "--reason", "asked"])
        .ok();
    book.is_green(&book.copy());
    let copy = book.damaged(|db| {
        run(
            db,
            "INSERT INTO text (stream, version, field, salt, body) VALUES (?1, 1, 'body', ?2, ?3)",
            params![uid, kept.0, kept.1],
        );
    });
    book.finds(&copy, &of_pump(&book, 1), "a text put back");
}

#[test]
fn a_deleted_event_is_missed_wherever_it_stood() {
    let book = Book::new();
    let last = pump_events(&book);
    for version in 1..=last {
        let place = of_pump(&book, version);
        let copy = book.damaged(|db| {
            run(db, "DELETE FROM event WHERE stream = ?1 AND version = ?2", params![place.stream, version]);
        });
        book.finds(&copy, &place, "a deleted event");
    }
}

#[test]
fn deleted_events_of_a_whole_task_are_missed() {
    let book = Book::new();
    let copy = book.damaged(|db| run(db, "DELETE FROM event WHERE stream = ?1", [book.uid("ON-1")]));
    book.finds(&copy, &of_pump(&book, 1), "no events");
}

/// Removes a task as if it had never been: no event, no row and no word of it is left.
fn remove(db: &Connection, uid: &str) {
    db.execute(
        "INSERT INTO search (search, rowid, body) SELECT 'delete', id, body FROM text \
         WHERE stream = ?1 AND indexed = 1",
        [uid],
    )
    .unwrap();
    run(db, "DELETE FROM text WHERE stream = ?1", [uid]);
    run(db, "DELETE FROM event WHERE stream = ?1", [uid]);
    for (table, column) in
        [("dep", "task"), ("dep", "needs"), ("scope", "task"), ("lease", "task"), ("request", "task")]
    {
        db.execute(&format!("DELETE FROM {table} WHERE {column} = ?1"), [uid]).unwrap();
    }
    run(db, "DELETE FROM task WHERE uid = ?1", [uid]);
}

#[test]
fn a_whole_task_that_was_removed_is_missed_by_its_number() {
    let book = Book::new();
    for title in ["Sweep the yard", "Oil the gate", "Mow the lawn"] {
        book.sandbox.add(title);
    }
    book.is_green(&book.copy());
    for number in 1..=5 {
        let id = format!("ON-{number}");
        let copy = book.damaged(|db| remove(db, &book.uid(&id)));
        let place = Place { stream: String::new(), version: 1, id: Some(id) };
        let error = book.finds(&copy, &place, "a task removed without a trace");
        assert!(error["message"].as_str().unwrap().contains("the task is missing"), "{error}");
    }
    // Of several the first is named.
    let copy = book.damaged(|db| ["ON-5", "ON-3", "ON-4"].iter().for_each(|id| remove(db, &book.uid(id))));
    let place = Place { stream: String::new(), version: 1, id: Some("ON-3".into()) };
    book.finds(&copy, &place, "three tasks");
}

/// Seats are counted apart from tasks, and one that was removed is missed the same way.
#[test]
fn a_whole_seat_that_was_removed_is_missed_by_its_number() {
    let book = Book::new();
    for name in ["dispatch", "land:main", "nightly"] {
        book.sandbox.run(&human("founder"), &["seat", "take", name]).ok();
    }
    book.is_green(&book.copy());
    for (number, name) in [(1, "dispatch"), (2, "land:main"), (3, "nightly")] {
        let shown = book.sandbox.json(&human("founder"), &["seat", "show", name]).ok().json();
        let uid = shown["uid"].as_str().unwrap().to_owned();
        let copy = book.damaged(|db| {
            run(db, "DELETE FROM event WHERE stream = ?1", [&uid]);
            run(db, "DELETE FROM lease WHERE task = ?1", [&uid]);
            run(db, "DELETE FROM seat WHERE uid = ?1", [&uid]);
        });
        let id = Some(format!("seat number {number}"));
        let error = book.finds(&copy, &Place { stream: String::new(), version: 1, id }, "a seat removed");
        assert!(error["message"].as_str().unwrap().contains("the seat is missing"), "{error}");
        // A rebuild does not wipe out what the counter is the last to know.
        book.on(&copy, &["ledger", "rebuild"]).refused(8);
        // Its events alone: the row is a witness.
        let copy = book.damaged(|db| run(db, "DELETE FROM event WHERE stream = ?1", [&uid]));
        book.on(&copy, &["ledger", "verify"]).refused(8);
        // Its row alone: the ledger makes it again.
        let copy = book.damaged(|db| run(db, "DELETE FROM seat WHERE uid = ?1", [&uid]));
        book.on(&copy, &["ledger", "verify"]).refused(8);
        book.on(&copy, &["ledger", "rebuild"]).ok();
        book.is_green(&copy);
    }
}

/// Whoever makes the counter agree has cut the tail of the numbers: that is a seal's to find.
#[test]
fn the_last_task_removed_together_with_its_number_is_found_by_a_seal() {
    let book = Book::new();
    book.sandbox.run(&human("founder"), &["ledger", "seal", "--out", "seal.jsonl"]).ok();
    let uid = book.uid("ON-2");
    let copy = book.damaged(|db| {
        remove(db, &uid);
        run(db, "UPDATE project SET last_number = 1", []);
    });
    book.is_green(&copy);
    let error = book.on(&copy, &["ledger", "verify", "--seal", "seal.jsonl"]).refused(8);
    assert_eq!((&error["code"], &error["task"]), (&json!("tampered"), &json!(uid)), "{error}");
}

/// Putting rows right must not wipe out what they are the last to know.
#[test]
fn a_removed_last_task_is_not_forgotten_by_a_rebuild() {
    let book = Book::new();
    let uid = book.uid("ON-2");
    let copy = book.damaged(|db| remove(db, &uid));
    for args in [&["ledger", "rebuild"] as &[&str], &["doctor", "--fix"], &["ledger", "verify"]] {
        let error = book.on(&copy, args).refused(8);
        assert!(error.to_string().contains("tampered") || args[0] == "doctor", "{args:?}: {error}");
    }
}

/// A number that was given back, or one that was never given.
#[test]
fn a_counter_of_numbers_that_was_changed_is_found() {
    let book = Book::new();
    for (last, id) in [(0, "ON-1"), (1, "ON-2"), (3, "ON-3"), (i64::MAX, "ON-3")] {
        let copy = book.damaged(|db| run(db, "UPDATE project SET last_number = ?1", [last]));
        let place = Place { stream: String::new(), version: 1, id: Some(id.into()) };
        book.finds(&copy, &place, "the counter");
    }
}

/// What is refused or undone takes no number: there is no gap that is nobody's fault.
#[test]
fn whatever_was_refused_leaves_no_gap() {
    let sandbox = Sandbox::new();
    let founder = human("founder");
    for round in 0..3 {
        sandbox.json(&founder, &["add", "One", "--dep", "99"]).refused(3);
        sandbox.json(&founder, &["add", ""]).refused(2);
        sandbox.json(&founder, &["add", "Keyed", "--key", &format!("key {round}")]).ok();
        sandbox.json(&founder, &["add", "Keyed", "--key", &format!("key {round}")]).ok();
        sandbox.json(&founder, &["add", "Other", "--key", &format!("key {round}")]).refused(2);
        let plan = "[[task]]\nname = 'a'\ntitle = 'A'\n[[task]]\ntitle = 'B'\ndeps = ['a', '99']\n";
        std::fs::write(sandbox.path().join("plan.toml"), plan).unwrap();
        assert_ne!(sandbox.json(&founder, &["add", "--file", "plan.toml"]).code, 0);
        let good = "[[task]]\nname = 'a'\ntitle = 'A'\n[[task]]\ntitle = 'B'\ndeps = ['a']\n";
        std::fs::write(sandbox.path().join("plan.toml"), good).unwrap();
        sandbox.json(&founder, &["add", "--file", "plan.toml"]).ok();
    }
    let verified = sandbox.json(&founder, &["ledger", "verify"]).ok().json();
    assert_eq!((&verified["ok"], &verified["tasks"]), (&json!(true), &json!(9)));
    assert_eq!(sandbox.add("the tenth"), "ON-10");
}

#[test]
fn a_deleted_row_is_missed() {
    let book = Book::new();
    let uid = book.uid("ON-1");
    let copy = book.damaged(|db| run(db, "DELETE FROM task WHERE uid = ?1", [&uid]));
    // Without its row the task has no id: it is named by its uid.
    let place = Place { id: Some(uid), ..of_pump(&book, pump_events(&book)) };
    book.finds(&copy, &place, "no row");
}

#[test]
fn swapped_events_are_found() {
    let book = Book::new();
    let uid = book.uid("ON-1");
    let copy = book.damaged(|db| {
        for (from, to) in [(2, -2), (3, 2), (-2, 3)] {
            run(
                db,
                "UPDATE event SET version = ?3 WHERE stream = ?1 AND version = ?2",
                params![uid, from, to],
            );
        }
    });
    book.finds(&copy, &of_pump(&book, 2), "versions swapped");

    // The places stay, what happened at them changes sides: kind, actor, payload and all but the hashes.
    let copy = book.damaged(|db| {
        let events = records(db, &uid);
        for (place, content) in [(2, &events[2]), (3, &events[1])] {
            run(
                db,
                "UPDATE event SET uid = ?3, kind = ?4, actor = ?5, instance = ?6, token = ?7, payload = ?8, \
                 cause = ?9 WHERE stream = ?1 AND version = ?2",
                params![
                    uid,
                    place,
                    content.uid,
                    content.kind,
                    content.actor,
                    content.instance,
                    content.token.map(|token| token as i64),
                    content.payload.to_string(),
                    content.cause,
                ],
            );
        }
    });
    book.finds(&copy, &of_pump(&book, 2), "contents swapped");
}

/// Flawless in itself, but the next one was written after another.
#[test]
fn an_event_rewritten_with_a_right_hash_of_its_own_is_found() {
    let book = Book::new();
    let uid = book.uid("ON-1");
    for version in [1, 2, 3] {
        let copy = book.damaged(|db| {
            let mut event = records(db, &uid).remove(version as usize - 1);
            event.actor = "human:eve".into();
            event.hash = event.expected_hash();
            run(
                db,
                "UPDATE event SET actor = ?3, hash = ?4 WHERE stream = ?1 AND version = ?2",
                params![uid, version, event.actor, event.hash],
            );
        });
        book.finds(&copy, &of_pump(&book, version + 1), "rewritten, and hashed anew alone");
    }
    // The last one has nobody after it: there the row knows its hash.
    let last = pump_events(&book);
    let copy = book.damaged(|db| {
        let mut event = records(db, &uid).pop().unwrap();
        event.actor = "human:eve".into();
        let values = params![uid, last, event.actor, event.expected_hash()];
        run(db, "UPDATE event SET actor = ?3, hash = ?4 WHERE stream = ?1 AND version = ?2", values);
    });
    book.finds(&copy, &of_pump(&book, last), "the last one rewritten");
}

/// With a right hash and a right predecessor: only the row knows that nobody wrote it.
#[test]
fn an_event_appended_with_a_right_hash_is_found() {
    let book = Book::new();
    let last = pump_events(&book);
    let copy = book.damaged(|db| {
        let mut event = records(db, &book.uid("ON-1")).pop().unwrap();
        event.uid = "01900000-0000-7000-8000-000000000001".into();
        event.version = u64::from(last) + 1;
        event.kind = "task.reopened".into();
        event.token = None;
        event.payload = json!({});
        event.prev = event.hash.clone();
        forge(db, event);
    });
    book.finds(&copy, &of_pump(&book, last + 1), "appended");
}

#[test]
fn an_event_inserted_in_the_middle_is_found() {
    let book = Book::new();
    let uid = book.uid("ON-1");
    let copy = book.damaged(|db| {
        let events = records(db, &uid);
        for version in (3..=events.len() as u32).rev() {
            run(
                db,
                "UPDATE event SET version = version + 1, seq = seq + 1000 WHERE stream = ?1 AND version = ?2",
                params![uid, version],
            );
            // A careful forger does not forget what lies beside them.
            db.execute(
                "UPDATE text SET version = version + 1 WHERE stream = ?1 AND version = ?2",
                params![uid, version],
            )
            .unwrap();
        }
        let mut event = events[1].clone();
        event.uid = "01900000-0000-7000-8000-000000000002".into();
        event.version = 3;
        event.kind = "task.unblocked".into();
        event.token = None;
        event.payload = json!({});
        event.prev = event.hash.clone();
        forge(db, event);
        run(db, "UPDATE task SET version = version + 1 WHERE uid = ?1", [&uid]);
    });
    // The forged one is flawless; the one after it was written after another.
    book.finds(&copy, &of_pump(&book, 4), "inserted in the middle");
}

/// A whole stream made up, flawless in itself: no row vouches for it.
#[test]
fn an_invented_task_is_found() {
    let book = Book::new();
    let stream = "01900000-0000-7000-8000-00000000000a";
    let copy = book.damaged(|db| {
        let mut event = records(db, &book.uid("ON-2")).remove(0);
        event.uid = "01900000-0000-7000-8000-000000000003".into();
        event.task = Some(stream.into());
        event.payload["number"] = json!(99);
        event.payload.as_object_mut().unwrap().remove("texts");
        forge(db, event);
    });
    let place = Place { stream: stream.into(), version: 1, id: Some(stream.into()) };
    book.finds(&copy, &place, "an invented task");
}

#[test]
fn a_row_whose_head_or_version_was_changed_is_found() {
    let book = Book::new();
    let last = pump_events(&book);
    for (edit, version) in [
        (
            "UPDATE task SET head = CASE substr(head, 1, 1) WHEN '0' THEN '1' ELSE '0' END || substr(head, 2) \
             WHERE number = 1",
            last,
        ),
        ("UPDATE task SET head = '' WHERE number = 1", last),
        ("UPDATE task SET version = version + 1 WHERE number = 1", last + 1),
        ("UPDATE task SET version = version - 1 WHERE number = 1", last),
    ] {
        let copy = book.damaged(|db| run(db, edit, []));
        book.finds(&copy, &of_pump(&book, version), edit);
    }
    let copy = book.damaged(|db| run(db, "UPDATE project SET head = 'x'", []));
    let project = book.places().into_iter().rfind(|place| place.id.is_none()).unwrap();
    book.finds(&copy, &project, "the project's head");
}

#[test]
fn the_refusal_is_readable_for_people_too() {
    let book = Book::new();
    let copy = book.damaged(|db| {
        run(db, "UPDATE event SET actor = 'human:eve' WHERE stream = ?1 AND version = 2", [book.uid("ON-1")]);
    });
    let mut command = book.sandbox.command(&human("founder"));
    let output = command.env("ONUS_STORE", &copy).args(["ledger", "verify"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(8));
    assert!(stderr.contains("event 2 of ON-1"), "{stderr}");
    assert!(output.stdout.is_empty());
}
