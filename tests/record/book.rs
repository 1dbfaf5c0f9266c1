//! A store with a story in it, and a hand that reaches into its file.

use std::path::{Path, PathBuf};

use onus_core::chain::Record;
use rusqlite::Connection;
use serde_json::Value;

use crate::support::{Ran, Sandbox, agent, human};

/// One event, by where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) stream: String,
    pub(crate) version: u32,
    /// The task's id; None in the project's own stream.
    pub(crate) id: Option<String>,
}

/// A sandbox whose ledger tells a story, and copies of its file to be damaged one by one.
pub(crate) struct Book {
    pub(crate) sandbox: Sandbox,
    copies: std::cell::Cell<u32>,
}

impl Book {
    pub(crate) fn new() -> Book {
        let sandbox = Sandbox::new();
        tell(&sandbox);
        Book { sandbox, copies: std::cell::Cell::new(0) }
    }

    /// A copy of the store in a file of its own, with everything in it.
    pub(crate) fn copy(&self) -> PathBuf {
        self.copies.set(self.copies.get() + 1);
        let copy = self.sandbox.path().join(format!("copy-{}", self.copies.get())).join("onus.db");
        std::fs::create_dir(copy.parent().unwrap()).unwrap();
        checkpoint(&self.sandbox.database());
        std::fs::copy(self.sandbox.database(), &copy).unwrap();
        copy
    }

    /// A copy after something was done to it directly.
    pub(crate) fn damaged(&self, damage: impl FnOnce(&Connection)) -> PathBuf {
        let copy = self.copy();
        damage(&open(&copy));
        copy
    }

    /// Runs a command with `--json` on a copy.
    pub(crate) fn on(&self, store: &Path, args: &[&str]) -> Ran {
        let mut command = self.sandbox.command(&human("founder"));
        command.env("ONUS_STORE", store).args(args).arg("--json");
        Ran::of(command.output().unwrap())
    }

    /// `verify` finds the damage and names this event.
    #[track_caller]
    pub(crate) fn finds(&self, store: &Path, place: &Place, what: &str) -> Value {
        let ran = self.on(store, &["ledger", "verify"]);
        assert_eq!(ran.code, 8, "{what}: {ran:?}");
        let error = ran.refused(8);
        assert_eq!(error["code"], "tampered", "{what}: {error}");
        assert_eq!(error["task"].as_str(), place.id.as_deref(), "{what}: {error}");
        assert_eq!(error["version"], place.version, "{what}: {error}");
        error
    }

    #[track_caller]
    pub(crate) fn is_green(&self, store: &Path) {
        assert_eq!(self.on(store, &["ledger", "verify"]).ok().json()["ok"], true);
    }

    pub(crate) fn uid(&self, id: &str) -> String {
        self.sandbox.show(id)["uid"].as_str().unwrap().to_owned()
    }

    /// Every event of the ledger.
    pub(crate) fn places(&self) -> Vec<Place> {
        let connection = open(&self.sandbox.database());
        let mut statement = connection
            .prepare(
                "SELECT event.stream, event.version, 'ON-' || task.number FROM event \
                 LEFT JOIN task ON task.uid = event.stream ORDER BY event.seq",
            )
            .unwrap();
        let places = statement
            .query_map([], |row| Ok(Place { stream: row.get(0)?, version: row.get(1)?, id: row.get(2)? }));
        places.unwrap().map(Result::unwrap).collect()
    }
}

/// Several kinds of events, texts and actors: enough that each column has something to say somewhere.
fn tell(sandbox: &Sandbox) {
    let (founder, a, b) = (human("founder"), agent("a"), agent("b"));
    sandbox
        .json(
            &founder,
            &["add", "Repair the pump", "-d", "It leaks", "--tag", "water", "--ref", "jira:WEB-1"],
        )
        .ok();
    sandbox.json(&founder, &["add", "Paint the door", "--propose"]).ok();
    sandbox.json(&founder, &["accept", "ON-2"]).ok();
    sandbox.json(&a, &["claim", "ON-1", "--reason", "nearest"]).ok();
    sandbox.json(&a, &["note", "ON-1", "the seal is worn"]).ok();
    sandbox.json(&founder, &["actor", "alias", "agent:a", "agent:anna"]).ok();
    sandbox.json(&b, &["claim", "ON-2", "--ttl", "2h"]).ok();
    sandbox
        .json(&founder, &["edit", "ON-1", "--title", "Replace the pump's seal", "--force", "--reason", "x"])
        .ok();
    sandbox.json(&a, &["done", "ON-1", "-m", "new seal, dry since"]).ok();
    sandbox.is_whole();
}

/// The file, opened as anyone with a database program could.
pub(crate) fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    connection
}

pub(crate) fn checkpoint(path: &Path) {
    let blocked: i64 = open(path).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    assert_eq!(blocked, 0);
}

/// A stream's events, as the ledger spells them.
pub(crate) fn records(connection: &Connection, stream: &str) -> Vec<Record> {
    let project: String = connection.query_row("SELECT uid FROM project", [], |row| row.get(0)).unwrap();
    let mut statement = connection
        .prepare(
            "SELECT seq, uid, stream, version, kind, actor, instance, token, at_ms, cause, payload, prev, hash \
             FROM event WHERE stream = ?1 ORDER BY version",
        )
        .unwrap();
    let rows = statement.query_map([stream], |row| {
        Ok(Record {
            seq: row.get::<_, u32>(0)?.into(),
            uid: row.get(1)?,
            task: Some(row.get(2)?).filter(|stream| *stream != project),
            version: row.get::<_, u32>(3)?.into(),
            kind: row.get(4)?,
            actor: row.get(5)?,
            instance: row.get(6)?,
            token: row.get::<_, Option<u32>>(7)?.map(u64::from),
            at: onus_core::time::rfc3339(row.get(8)?),
            cause: row.get(9)?,
            payload: serde_json::from_str(&row.get::<_, String>(10)?).unwrap(),
            prev: row.get(11)?,
            hash: row.get(12)?,
        })
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// Writes an event as a careful forger would: its hash is right.
pub(crate) fn forge(connection: &Connection, mut record: Record) -> Record {
    record.hash = record.expected_hash();
    let at_ms = onus_core::time::parse_rfc3339(&record.at).unwrap();
    connection
        .execute(
            "INSERT INTO event (uid, stream, version, kind, actor, instance, token, at_ms, cause, payload, prev, hash) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            rusqlite::params![
                record.uid,
                record.task,
                record.version as i64,
                record.kind,
                record.actor,
                record.instance,
                record.token.map(|token| token as i64),
                at_ms,
                record.cause,
                record.payload.to_string(),
                record.prev,
                record.hash,
            ],
        )
        .unwrap();
    record
}

/// Hashes a task's chain anew from its first event on, and makes the row agree: nothing inside the file is left to
/// contradict it.
pub(crate) fn hash_anew(connection: &Connection, stream: &str) {
    let mut prev = String::new();
    let mut last = (0, String::new());
    for mut record in records(connection, stream) {
        record.prev = prev;
        record.hash = record.expected_hash();
        connection
            .execute(
                "UPDATE event SET prev = ?1, hash = ?2 WHERE stream = ?3 AND version = ?4",
                rusqlite::params![record.prev, record.hash, stream, record.version as i64],
            )
            .unwrap();
        last = (record.version as i64, record.hash.clone());
        prev = record.hash;
    }
    connection
        .execute(
            "UPDATE task SET version = ?1, head = ?2 WHERE uid = ?3",
            rusqlite::params![last.0, last.1, stream],
        )
        .unwrap();
}
