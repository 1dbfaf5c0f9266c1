//! Which files are a store, and which only lie where its files would be.
//!
//! A database and its log are connected by name alone: SQLite takes whatever is called `onus.db-wal` for the
//! log of whatever is called `onus.db`. A log that outlived its database, or that is next to a restored
//! backup, would be copied into a file that it knows nothing about. So a new store is never created next to a
//! log that is not empty, and a backup is marked ([`Journal::Rollback`]), so that a log next to it is known
//! to belong to another database. Two names (hard links) of one database would have two logs: refused. A
//! symbolic link is followed first; everything is next to the real file.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::{Result, StoreError};

/// How many symbolic links are followed: as many as by the kernel.
const MAX_LINKS: usize = 40;

/// Side files that may hold commits that are not in the database: the log, and the journal of a database
/// without a log.
const WITH_CONTENT: [&str; 2] = ["-wal", "-journal"];

/// The log's index: rebuilt from the log whenever nobody has the store open.
const INDEX: &str = "-shm";

/// Where a path leads, even if nothing is there yet.
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

/// Device and inode: a store that was replaced has a different identity.
pub(super) type Identity = (u64, u64);

/// The identity of the store's current file. Refuses a file with a second name: commits made by that name
/// would be in a log of its own.
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

/// Refuses if another file has the name now: nobody would read what is written into the open one.
pub(super) fn must_be(path: &Path, file: Identity) -> Result<()> {
    if identity_of(path)? == file {
        return Ok(());
    }
    let why = "it was replaced by another file while this command ran: start again".to_owned();
    Err(StoreError::Unavailable { path: path.to_owned(), why })
}

/// Length and modification time of a store's file and of its log, if they exist.
pub(super) type Times = [Option<(u64, SystemTime)>; 2];

pub(super) fn times_of(path: &Path) -> Times {
    let time = |path: &Path| {
        let file = fs::metadata(path).ok()?;
        Some((file.len(), file.modified().ok()?))
    };
    [time(path), time(&side_file(path, "-wal"))]
}

/// How a database is written, according to its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Journal {
    /// Through its log, like every store.
    Log,
    /// In place, like a fresh backup. Any log beside it belongs to another database.
    Rollback,
}

/// Reads from a database's header how it is written, and refuses one with another database's log beside it.
///
/// Closing a file releases the locks that SQLite has on it in this process. So a file is read only once per
/// process, before SQLite opens it; from then on it is in use, and its mode does not change.
pub(super) fn journal_of(path: &Path, file: Identity) -> Result<Journal> {
    static LOOKED_AT: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());
    let mut looked_at = LOOKED_AT.lock().unwrap_or_else(PoisonError::into_inner);
    if looked_at.contains(&file) {
        return Ok(Journal::Log);
    }
    // In this order: turning a backup into a store changes its header before there is a log.
    let has_log = !log_is_empty(path);
    let mut header = [0; 20];
    // Opening a pipe would wait for its writer.
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let is_read = match is_file {
        true => fs::File::open(path).and_then(|mut file| file.read_exact(&mut header)),
        false => Err(std::io::ErrorKind::InvalidInput.into()),
    };
    // If it is not a database at all, SQLite will report that.
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

/// Refuses to create a database where an earlier one left a log that is not empty: that is somebody's work.
pub(super) fn refuse_stray_log(path: &Path) -> Result<()> {
    match WITH_CONTENT.iter().map(|suffix| side_file(path, suffix)).find(|log| length_of(log) > 0) {
        Some(log) => Err(StoreError::StrayLog { log }),
        None => Ok(()),
    }
}

pub(super) fn remove_side_files(path: &Path) -> Result<()> {
    WITH_CONTENT.iter().chain([&INDEX]).try_for_each(|suffix| remove(&side_file(path, suffix)))
}

/// Removes a file that nobody needs any more, if it exists.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::of_io(path, &error)),
        _ => Ok(()),
    }
}

/// Gives a complete database its name. The caller has the writer lock of the folder, which everyone takes who
/// creates a store in it.
pub(super) fn publish(building: &Path, path: &Path) -> Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return Err(StoreError::Exists(path.to_owned()));
    }
    refuse_stray_log(path)?;
    // A process that still has a removed store open continues with its unlinked files, not with those of this
    // store.
    remove_side_files(path)?;
    fs::rename(building, path).map_err(|error| StoreError::of_io(path, &error))?;
    sync_folder(path).map_err(|error| StoreError::Unknown {
        place: path.to_owned(),
        why: format!("its name could not be synced ({error})"),
    })
}

/// Makes the names beside a file durable. If folders cannot be synced here, there is no other way either.
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
