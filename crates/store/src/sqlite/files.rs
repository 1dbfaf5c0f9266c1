//! Which files are a store, and which are only where its files would be.
//!
//! A database and its log are found by name alone: SQLite takes whatever is called `onus.db-wal` for the log of whatever
//! is called `onus.db`. A log that outlived its database, or that is next to a restored backup, would be copied into a
//! file that it knows nothing about. So a new store is never put next to a log with something in it, and a backup is
//! marked ([`Journal::Rollback`]) so that a log next to it is known to be another's. Two names (hard links) of one
//! database would have two logs: refused. A symbolic link is followed first; everything is next to the real file.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::{Result, StoreError};

/// How many symbolic links are followed, as by the kernel.
const MAX_LINKS: usize = 40;

/// What may hold commits that are not in the database: the log, and the journal of a database that has none.
const WITH_CONTENT: [&str; 2] = ["-wal", "-journal"];

/// The log's index: made from the log whenever nobody has the store open.
const INDEX: &str = "-shm";

/// Where a path leads, also if nothing is there yet.
pub(super) fn real_path(path: &Path) -> PathBuf {
    let mut real = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&real) {
            Ok(target) => real = folder_of(&real).join(target),
            Err(_) => break,
        }
    }
    real
}

pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(super) fn side_file(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

pub(super) fn length_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

pub(super) fn log_is_empty(path: &Path) -> bool {
    length_of(&side_file(path, "-wal")) == 0
}

/// Device and inode: a store that was replaced is another one.
pub(super) type Identity = (u64, u64);

/// Which file is the store now. Refuses what has a second name: commits by that name are in a log of its own.
pub(super) fn identity_of(path: &Path) -> Result<Identity> {
    let file = match fs::metadata(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::Missing(path.to_owned()));
        }
        Err(error) => {
            return Err(StoreError::Unavailable { path: path.to_owned(), why: error.to_string() });
        }
    };
    if file.is_dir() {
        return Err(StoreError::NotAStore { path: path.to_owned(), why: "it is a folder".to_owned() });
    }
    if file.is_file() && file.nlink() > 1 {
        return Err(StoreError::TwoNames { path: path.to_owned(), names: file.nlink() });
    }
    Ok((file.dev(), file.ino()))
}

/// Refuses if another file has the name now: what is written into this one, nobody would read.
pub(super) fn must_be(path: &Path, file: Identity) -> Result<()> {
    if identity_of(path)? == file {
        return Ok(());
    }
    let why = "it was replaced by another file while this command ran: start again".to_owned();
    Err(StoreError::Unavailable { path: path.to_owned(), why })
}

/// Length and time of a store's file and of its log, where they are.
pub(super) type Times = [Option<(u64, SystemTime)>; 2];

pub(super) fn times_of(path: &Path) -> Times {
    let time = |path: &Path| {
        let file = fs::metadata(path).ok()?;
        Some((file.len(), file.modified().ok()?))
    };
    [time(path), time(&side_file(path, "-wal"))]
}

/// How a database says that it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Journal {
    /// Through its log, as every store is.
    Log,
    /// In place: a backup, as it was made. Whatever log lies beside it belongs to another.
    Rollback,
}

/// Reads from a database's first bytes how it is written, and refuses one with another's log beside it.
///
/// Closing a file frees the locks that SQLite has on it in this process. So a file is looked at once a process, before
/// SQLite opens it; from then on it is in use, and is what it was.
pub(super) fn journal_of(path: &Path, file: Identity) -> Result<Journal> {
    static LOOKED_AT: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());
    let mut looked_at = LOOKED_AT.lock().unwrap_or_else(PoisonError::into_inner);
    if looked_at.contains(&file) {
        return Ok(Journal::Log);
    }
    // In this order: who turns a backup into a store changes its header before there is a log.
    let has_log = !log_is_empty(path);
    let mut header = [0; 20];
    let is_read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    // What is no database at all is for SQLite to say.
    let journal = match (is_read, header) {
        (Ok(()), [b'S', b'Q', b'L', b'i', b't', b'e', .., 1, _]) => Journal::Rollback,
        _ => Journal::Log,
    };
    if journal == Journal::Rollback && has_log {
        return Err(StoreError::StrayLog { log: side_file(path, "-wal") });
    }
    looked_at.insert(file);
    Ok(journal)
}

/// Refuses a place for a new database where an earlier one left a log with something in it: that is somebody's work.
pub(super) fn refuse_stray_log(path: &Path) -> Result<()> {
    match WITH_CONTENT.iter().map(|suffix| side_file(path, suffix)).find(|log| length_of(log) > 0) {
        Some(log) => Err(StoreError::StrayLog { log }),
        None => Ok(()),
    }
}

pub(super) fn remove_side_files(path: &Path) -> Result<()> {
    WITH_CONTENT.iter().chain([&INDEX]).try_for_each(|suffix| remove(&side_file(path, suffix)))
}

/// A file that nobody needs any more. None is as good.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::of_io(path, &error)),
        _ => Ok(()),
    }
}

/// Gives a complete database its name. The caller has the writer lock of the folder, which everyone takes who makes a
/// store in it.
pub(super) fn publish(building: &Path, path: &Path) -> Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return Err(StoreError::Exists(path.to_owned()));
    }
    refuse_stray_log(path)?;
    // Whoever still has a removed store open goes on with files that have no name, and not with those of this one.
    remove_side_files(path)?;
    fs::rename(building, path).map_err(|error| StoreError::of_io(path, &error))?;
    sync_folder(path).map_err(|error| StoreError::Unknown {
        place: path.to_owned(),
        why: format!("its name could not be synced ({error})"),
    })
}

/// Makes the names beside a file durable. Where folders cannot be synced there is no other way to do it either.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    match fs::File::open(folder_of(path)).and_then(|folder| folder.sync_all()) {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}
