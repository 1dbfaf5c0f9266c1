//! Backup, health and tidying.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::rows::rebuild::finding;
use crate::rows::write::SCRUB;
use crate::{Finding, Progress, Result, StoreError};

use super::files::{folder_of, refuse_stray_log, remove, remove_side_files, side_file, sync_folder};
use super::open::set_journal;
use super::private::{close_to_others, file_mode, new_file, open_to_others};
use super::{LOG_BYTES, SqliteStore, empty_log, failed, rebuild};

/// Pages copied per step, and the pause between steps that lets writers through.
const PAGES_A_STEP: i32 = 1_000;
const PAUSE: Duration = Duration::from_millis(1);

/// How often a busy step is tried again: a minute's worth.
const MAX_BUSY: u32 = 60_000;

pub(super) fn backup(store: &SqliteStore, to: &Path, progress: &mut dyn FnMut(Progress)) -> Result<()> {
    let fail = |error: rusqlite::Error| failed(&error, to);
    if !to.exists() {
        refuse_stray_log(to)?;
    }
    // Reserve the name: an existing file is never overwritten.
    new_file(to, file_mode(folder_of(&store.path))).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => StoreError::Exists(to.to_owned()),
        std::io::ErrorKind::StorageFull => StoreError::Full,
        _ => StoreError::Unavailable { path: to.to_owned(), why: error.to_string() },
    })?;
    let copied = (|| {
        let mut copy = Connection::open(to)?;
        {
            // One snapshot from beginning to end: SQLite restarts a copy when another process commits between
            // two steps, and among busy writers it would never end.
            let snapshot = store.connection.unchecked_transaction()?;
            snapshot.query_row("SELECT 1 FROM project", [], |_| Ok(()))?;
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
        // A single file without a log, and marked as such: a log that is later found beside it belongs to
        // another database (`files::Journal`).
        set_journal(&copy, "delete")?;
        let sound: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        Ok(sound)
    })();
    let outcome = match copied {
        Ok(sound) if sound == "ok" => fs::File::open(to)
            .and_then(|file| file.sync_all())
            .and_then(|()| sync_folder(to))
            .map_err(|error| StoreError::of_io(to, &error)),
        Ok(unsound) => Err(StoreError::Damaged(unsound)),
        Err(error) => Err(fail(error)),
    };
    if outcome.is_err() {
        // Our own file, created a moment ago: half a backup must not be taken for one.
        let _ = remove_side_files(to).and_then(|()| remove(to));
    }
    outcome
}

pub(super) fn check(store: &mut SqliteStore) -> Result<Vec<Finding>> {
    let rows = finding(rebuild::compare(store, &mut |_| {}))?;
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
    let open = open_to_others(&store.path);
    let scrub = must_scrub(connection).map_err(fail)?;
    let search = search_problem(store, connection).map_err(fail)?;
    Ok(vec![
        Finding {
            name: "database",
            ok: problems == ["ok"],
            detail: if problems == ["ok"] { "no damage found".to_owned() } else { problems.join("; ") },
            mendable: false,
        },
        Finding {
            name: "references",
            ok: orphans == 0,
            detail: match orphans {
                0 => "none is broken".to_owned(),
                _ => format!(
                    "{} to rows that are missing",
                    onus_core::quote::counted(orphans as u64, "reference")
                ),
            },
            mendable: true,
        },
        rows,
        Finding {
            name: "permissions",
            ok: open.is_empty(),
            detail: match open.first() {
                Some(file) => format!("{} can be opened by other users", file.display()),
                None => "only you, or the group that git shares the repository with, can open the store"
                    .to_owned(),
            },
            mendable: true,
        },
        Finding {
            name: "log",
            ok: log_bytes <= LOG_BYTES,
            detail: if log_bytes <= LOG_BYTES {
                format!("the write-ahead log has {log_bytes} bytes")
            } else {
                format!(
                    "the write-ahead log has {log_bytes} bytes: an open reader prevents its transfer into the database"
                )
            },
            mendable: true,
        },
        Finding {
            name: "erased texts",
            ok: !scrub,
            detail: match scrub {
                true => "a redaction was not finished: the files may still contain the text".to_owned(),
                false => "none are left in the files".to_owned(),
            },
            mendable: true,
        },
        Finding {
            name: "search index",
            ok: search.is_none(),
            detail: search.unwrap_or_else(|| "matches the texts".to_owned()),
            mendable: true,
        },
    ])
}

/// What is wrong with the search index. SQLite needs to write in order to compare it word by word; a
/// read-only connection compares which texts are in it.
fn search_problem(store: &SqliteStore, connection: &Connection) -> rusqlite::Result<Option<String>> {
    let strays: i64 = connection.query_row(
        "SELECT (SELECT COUNT(*) FROM text WHERE indexed = 1 AND id NOT IN (SELECT id FROM search_docsize)) \
         + (SELECT COUNT(*) FROM search_docsize WHERE id NOT IN (SELECT id FROM text WHERE indexed = 1))",
        [],
        |row| row.get(0),
    )?;
    if strays > 0 {
        return Ok(Some(format!("{strays} texts are missing from it or should not be in it")));
    }
    let may_write = store.frozen.is_none() && !connection.is_readonly("main")?;
    Ok((may_write && !search_is_sound(connection)).then(|| "it does not match the texts".to_owned()))
}

fn must_scrub(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM chore WHERE name = ?1)", [SCRUB], |row| row.get(0))
}

pub(super) fn tidy(store: &mut SqliteStore) -> Result<bool> {
    let _lock = store.lock_writer()?;
    for file in open_to_others(&store.path) {
        close_to_others(&file).map_err(|error| StoreError::of_io(&file, &error))?;
    }
    let fail = |error: rusqlite::Error| failed(&error, &store.path);
    let connection = &store.connection;
    let scrub = must_scrub(connection).map_err(fail)?;
    // Scrubbing. Erased words were overwritten in place (`secure_delete`), but that does not reach
    // everything: the search index separates its pages by words that it may no longer contain, and a table
    // page whose rows were moved together keeps their old places. So both are rewritten, from what is still
    // there.
    if scrub || !search_is_sound(connection) {
        connection.execute("INSERT INTO search (search) VALUES ('rebuild')", []).map_err(fail)?;
    }
    if scrub {
        connection.execute_batch("VACUUM").map_err(fail)?;
    }
    // The old pages are in the file until the log replaces them, and in the log until that is empty.
    if !empty_log(connection).map_err(fail)? {
        return Ok(false);
    }
    if scrub {
        connection.execute("DELETE FROM chore WHERE name = ?1", [SCRUB]).map_err(fail)?;
    }
    Ok(true)
}

fn search_is_sound(connection: &Connection) -> bool {
    connection.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)", []).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::time::Duration;

    use onus_core::ids::Uid;

    use super::*;
    use crate::Store as _;

    fn store(folder: &Path) -> SqliteStore {
        let uid = |n: u32| format!("01900000-0000-7000-8000-{n:012}").parse::<Uid>().unwrap();
        let by = (&"human:a".parse().unwrap(), &"i".parse().unwrap());
        let path = folder.join("onus.db");
        SqliteStore::create(&path, &"ON".parse().unwrap(), uid(1), uid(2), by, Duration::from_secs(5))
            .unwrap()
    }

    fn word(n: usize) -> String {
        format!("S{n:08}x")
    }

    /// Which words are in a file.
    fn words_in(file: &Path) -> BTreeSet<usize> {
        let bytes = fs::read(file).unwrap();
        let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'S');
        starts
            .filter_map(|(at, _)| std::str::from_utf8(bytes.get(at + 1..at + 9)?).ok()?.parse().ok())
            .collect()
    }

    /// `secure_delete` alone is not enough: when rows of a page are moved together, their old places stay as
    /// they were. Only a few of a hundred mixed histories show it, so they are tried until one does.
    #[test]
    fn what_a_page_keeps_of_moved_rows_is_scrubbed() {
        for seed in 20..80_u64 {
            let folder = tempfile::tempdir().unwrap();
            let mut store = store(folder.path());
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut below = |n: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random >> 11) as usize % n
            };
            let (mut kept, mut gone) = (Vec::new(), BTreeSet::new());
            let transaction = store.connection.unchecked_transaction().unwrap();
            for n in 0..400 {
                if kept.len() < 5 || below(10) < 6 {
                    let size = [30, 100, 300, 700, 1_500, 3_000, 6_000][below(7)];
                    let values = rusqlite::params![n as i64, word(n).repeat(size / 10)];
                    let insert = "INSERT INTO text (stream, version, field, salt, body) \
                        VALUES ('01900000-0000-7000-8000-000000000001', ?1, 'note', zeroblob(16), ?2)";
                    transaction.execute(insert, values).unwrap();
                    kept.push(n);
                } else {
                    let n = kept.swap_remove(below(kept.len()));
                    transaction.execute("DELETE FROM text WHERE version = ?1", [n as i64]).unwrap();
                    gone.insert(n);
                }
            }
            transaction.commit().unwrap();
            // There is nothing to scrub: this only moves the log into the file.
            assert!(store.tidy().unwrap());
            let left: Vec<usize> = gone.intersection(&words_in(&store.path)).copied().collect();
            if left.is_empty() {
                continue;
            }
            store.connection.execute("INSERT INTO chore VALUES ('scrub', 0)", []).unwrap();
            assert!(store.tidy().unwrap());
            assert_eq!(words_in(&store.path), kept.into_iter().collect(), "seed {seed}: {left:?} were left");
            assert!(!must_scrub(&store.connection).unwrap());
            return;
        }
        panic!("no history showed what this is about: SQLite changed, look again");
    }
}
