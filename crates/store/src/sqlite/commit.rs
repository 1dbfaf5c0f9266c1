//! The end of a transaction: it is durable, or nothing of it is left, or the error says that the outcome is
//! unknown.
//!
//! SQLite writes a transaction's frames into the log, the last of them marked as the commit, then syncs, then
//! shows them to others through the log's index. If the sync fails, or growing the index does, it returns an
//! error and shows nothing; but the frames are in the file. The next process that opens the store alone reads
//! the log from its beginning and takes every complete transaction in it for committed, including this one.
//! So after a failed commit, still under the writer lock and with the store open (so that nobody rereads the
//! log meanwhile), this code checks whether such a transaction follows the last one that counts, breaks its
//! first frame, and syncs that.
//!
//! A sync that succeeds after one that failed says nothing about what was written before: the kernel may have
//! dropped those pages. That is why the frame is written again and not only synced again; the broken frame is
//! durable when its own sync succeeds, whatever became of the rest. If that fails too, the frame may come
//! back after a power failure: the outcome is unknown, and is reported so. A process killed in between
//! reports nothing at all.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rusqlite::Connection;

use crate::StoreError;

use super::files::side_file;
use super::{failed, log_pages};

const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Determines the outcome of a failed commit. The caller has the writer lock, and the transaction is over.
pub(super) fn settle(connection: &Connection, path: &Path, error: &rusqlite::Error) -> StoreError {
    let taken_back = log_pages(connection, "NOOP")
        .map_err(|error| io::Error::other(error.to_string()))
        .and_then(|(pages, _)| take_back(&side_file(path, "-wal"), u64::try_from(pages).unwrap_or_default()));
    match taken_back {
        Ok(()) => unwritten(error, path),
        Err(why) => StoreError::Unknown {
            place: path.to_owned(),
            why: format!(
                "the commit failed ({error}), and the part already written could not be undone ({why})"
            ),
        },
    }
}

/// What an error of SQLite means if nothing was changed.
pub(super) fn unwritten(error: &rusqlite::Error, path: &Path) -> StoreError {
    match failed(error, path) {
        StoreError::Unavailable { path, why } => StoreError::Unwritten { path, why },
        error => error,
    }
}

/// Breaks what follows the first `pages` pages of a log, if it could be taken for committed.
fn take_back(log: &Path, pages: u64) -> io::Result<()> {
    let file = match OpenOptions::new().read(true).write(true).open(log) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let Some(first) = first_uncounted(&file, pages)? else { return Ok(()) };
    file.write_all_at(&[0; FRAME_HEADER], first)?;
    file.sync_data()
}

/// Where a complete transaction begins after the first `pages` pages. The format is SQLite's
/// (sqlite.org/fileformat2.html, section 4): a frame counts if it has the log's salts and its checksum
/// continues that of the frame before; a transaction is complete if its last frame gives the size of the
/// database in pages.
fn first_uncounted(file: &File, pages: u64) -> io::Result<Option<u64>> {
    let mut header = [0; LOG_HEADER];
    if !read_whole(file, &mut header, 0)? {
        return Ok(None);
    }
    let little_endian = word(&header, 0) & 1 == 0;
    let page = match word(&header, 8) {
        1 => 65_536,
        size => size as usize,
    };
    let (salts, size) = ((word(&header, 16), word(&header, 20)), (FRAME_HEADER + page) as u64);
    let mut frame = vec![0; FRAME_HEADER + page];
    let first = LOG_HEADER as u64 + pages * size;
    let mut sum = (word(&header, 24), word(&header, 28));
    if pages > 0 {
        if !read_whole(file, &mut frame, first - size)? {
            return Ok(None);
        }
        sum = (word(&frame, 16), word(&frame, 20));
    }
    let mut at = first;
    while read_whole(file, &mut frame, at)? {
        let (head, content) = frame.split_at(FRAME_HEADER);
        sum = checksum(little_endian, sum, &head[..8]);
        sum = checksum(little_endian, sum, content);
        if (word(head, 8), word(head, 12)) != salts || (word(head, 16), word(head, 20)) != sum {
            return Ok(None);
        }
        if word(head, 4) != 0 {
            return Ok(Some(first));
        }
        at += size;
    }
    Ok(None)
}

fn checksum(little_endian: bool, (mut first, mut second): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let read = if little_endian { u32::from_le_bytes } else { u32::from_be_bytes };
    for pair in bytes.chunks_exact(8) {
        let (Ok(one), Ok(two)) = (pair[..4].try_into(), pair[4..].try_into()) else { continue };
        first = first.wrapping_add(read(one)).wrapping_add(second);
        second = second.wrapping_add(read(two)).wrapping_add(first);
    }
    (first, second)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// False: the file ends before.
fn read_whole(file: &File, buffer: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(buffer, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log with two transactions, of which only the first counts: as a failed commit leaves it.
    #[test]
    fn what_a_failed_commit_left_is_not_taken_for_committed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "wal").unwrap();
        writer.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1);").unwrap();
        let (first, _) = log_pages(&writer, "NOOP").unwrap();
        let words = "x".repeat(20_000);
        writer.execute("INSERT INTO t VALUES (?1)", [&words]).unwrap();
        let (second, _) = log_pages(&writer, "NOOP").unwrap();
        assert!(first > 0 && second > first + 1, "{first}, {second}");

        for (pages, rows) in [(first, 1), (second, 2), (0, 0)] {
            let copy = folder.path().join(format!("copy-{pages}.db"));
            std::fs::copy(&path, &copy).unwrap();
            std::fs::copy(side_file(&path, "-wal"), side_file(&copy, "-wal")).unwrap();
            take_back(&side_file(&copy, "-wal"), pages as u64).unwrap();
            let reader = Connection::open(&copy).unwrap();
            let found = reader.query_row("SELECT COUNT(*) FROM t", [], |row| row.get::<_, i64>(0));
            assert_eq!(found.unwrap_or_default(), rows, "{pages} pages count");
            let sound: String = reader.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(sound, "ok");
        }
    }

    /// What has no commit at its end does not count anyway, and a disk without space need not be written.
    #[test]
    fn half_a_transaction_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "wal").unwrap();
        writer.execute_batch("CREATE TABLE t (x);").unwrap();
        let (pages, _) = log_pages(&writer, "NOOP").unwrap();
        writer.execute("INSERT INTO t VALUES (?1)", ["x".repeat(20_000)]).unwrap();
        let (log, copy) = (side_file(&path, "-wal"), folder.path().join("copy-wal"));
        std::fs::copy(&log, &copy).unwrap();
        let cut = File::options().write(true).open(&copy).unwrap();
        cut.set_len(std::fs::metadata(&log).unwrap().len() - 1).unwrap();
        let before = std::fs::read(&copy).unwrap();
        take_back(&copy, pages as u64).unwrap();
        assert!(std::fs::read(&copy).unwrap() == before);
        take_back(&folder.path().join("none"), 7).unwrap();
    }
}
