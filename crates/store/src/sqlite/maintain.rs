//! Backup, health and tidying.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::{Finding, Progress, Result, StoreError};

use super::open::side_file;
use super::{LOG_BYTES, SqliteStore, failed};

/// Pages copied between two reports, and the pause that lets writers through.
const PAGES_A_STEP: i32 = 1_000;
const PAUSE: Duration = Duration::from_millis(1);

/// How often a busy copy is tried again: a minute's worth.
const MAX_BUSY: u32 = 60_000;

pub(super) fn backup(store: &SqliteStore, to: &Path, progress: &mut dyn FnMut(Progress)) -> Result<()> {
    let fail = |error: rusqlite::Error| failed(&error, to);
    // Reserves the name: an existing file is never overwritten.
    fs::OpenOptions::new().write(true).create_new(true).open(to).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => StoreError::Exists(to.to_owned()),
        std::io::ErrorKind::StorageFull => StoreError::Full,
        _ => StoreError::Unavailable { path: to.to_owned(), why: error.to_string() },
    })?;
    let copied = (|| {
        let mut copy = Connection::open(to)?;
        {
            let backup = Backup::new(&store.connection, &mut copy)?;
            let mut busy = 0;
            loop {
                let step = backup.step(PAGES_A_STEP)?;
                let pages = backup.progress();
                let total = u64::try_from(pages.pagecount).unwrap_or_default();
                let left = u64::try_from(pages.remaining).unwrap_or_default();
                progress(Progress { done: total.saturating_sub(left), total });
                match step {
                    StepResult::Done => break,
                    StepResult::More => std::thread::sleep(PAUSE),
                    _ if busy < MAX_BUSY => {
                        busy += 1;
                        std::thread::sleep(PAUSE);
                    }
                    _ => return Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(5), None)),
                }
            }
        }
        let sound: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        Ok(sound)
    })();
    let outcome = match copied {
        Ok(sound) if sound == "ok" => fs::File::open(to)
            .and_then(|file| file.sync_all())
            .map_err(|error| StoreError::Unavailable { path: to.to_owned(), why: error.to_string() }),
        Ok(unsound) => Err(StoreError::Damaged(unsound)),
        Err(error) => Err(fail(error)),
    };
    if outcome.is_err() {
        // Ours, made a moment ago: half a backup must not be taken for one.
        let _ = fs::remove_file(to);
    }
    outcome
}

pub(super) fn check(store: &mut SqliteStore) -> Result<Vec<Finding>> {
    let fail = |error: rusqlite::Error| failed(&error, &store.path);
    let connection = &store.connection;
    let problems: Vec<String> = connection
        .prepare("PRAGMA integrity_check(20)")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .map_err(fail)?;
    let orphans = connection
        .prepare("PRAGMA foreign_key_check")
        .and_then(|mut statement| Ok(statement.query_map([], |_| Ok(()))?.count()))
        .map_err(fail)?;
    let log_bytes = fs::metadata(side_file(&store.path, "-wal")).map_or(0, |log| log.len());
    let mut findings = vec![
        Finding { name: "database", ok: problems == ["ok"], detail: problems.join("; "), mendable: false },
        Finding {
            name: "references",
            ok: orphans == 0,
            detail: format!("{orphans} rows refer to rows that are missing"),
            mendable: true,
        },
        Finding {
            name: "log",
            ok: log_bytes <= LOG_BYTES,
            detail: format!("{log_bytes} bytes not yet in the database (a reader may hold them up)"),
            mendable: true,
        },
    ];
    if store.copy.is_none() && !connection.is_readonly("main").map_err(fail)? {
        let search =
            connection.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)", []);
        findings.push(Finding {
            name: "search index",
            ok: search.is_ok(),
            detail: search.map_or_else(|error| error.to_string(), |_| "agrees with the texts".to_owned()),
            mendable: true,
        });
    }
    Ok(findings)
}

pub(super) fn tidy(store: &mut SqliteStore) -> Result<bool> {
    let fail = |error: rusqlite::Error| failed(&error, &store.path);
    let _seat = store.queue.sit(store.wait)?;
    let search_is_sound = store
        .connection
        .execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)", [])
        .is_ok();
    if !search_is_sound {
        store.connection.execute("INSERT INTO search (search) VALUES ('rebuild')", []).map_err(fail)?;
    }
    let blocked: i64 =
        store.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(fail)?;
    Ok(blocked == 0)
}
