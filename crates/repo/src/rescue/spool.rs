//! The private folder of a running rescue, with copies of an index and of files. It is locked while it is in use.
//!
//! The kernel releases the lock when its process ends, however it ends. An unlocked folder was left behind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::discover::Place;

const PREFIX: &str = "rescue-";

/// How often another process may mistake a new folder, not locked yet, for one that was left behind.
const TRIES: usize = 20;

#[derive(Debug)]
pub(crate) struct Spool {
    folder: TempDir,
    _lock: File,
}

impl Spool {
    /// Creates a folder below `ours`, and removes those that were left behind there.
    pub(crate) fn new(ours: &Path) -> io::Result<Spool> {
        fs::create_dir_all(ours)?;
        remove_all(&left_in(ours));
        for _ in 0..TRIES {
            let mode = fs::Permissions::from_mode(0o700);
            let folder = tempfile::Builder::new().prefix(PREFIX).permissions(mode).tempdir_in(ours)?;
            let Ok(lock) = open(folder.path()) else { continue };
            // Other errors are ignored: where locks do not work, no folder is taken for left behind either.
            let locked = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive);
            if locked == Err(Errno::WOULDBLOCK) {
                continue;
            }
            if is_at(&lock, folder.path()) {
                return Ok(Spool { folder, _lock: lock });
            }
        }
        Err(io::Error::other("no private folder could be made"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// A new file that only its owner may read.
pub(super) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create(path)?.write_all(bytes)
}

/// The folders, with copies of files, that killed rescues left behind in a repository.
pub fn left_behind(place: &Place) -> Vec<PathBuf> {
    left_at(place).into_iter().map(|(folder, _)| folder).collect()
}

/// Removes the folders that killed rescues left behind. Returns those that are gone.
pub fn tidy(place: &Place) -> Vec<PathBuf> {
    remove_all(&left_at(place))
}

fn left_at(place: &Place) -> Vec<(PathBuf, File)> {
    place.common_dir.as_ref().map(|common_dir| left_in(&common_dir.join("onus"))).unwrap_or_default()
}

/// Folders that nobody uses, locked by this process now.
fn left_in(ours: &Path) -> Vec<(PathBuf, File)> {
    let spools = fs::read_dir(ours).into_iter().flatten().flatten();
    let spools = spools.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    let left = spools.filter_map(|entry| {
        let lock = open(&entry.path()).ok()?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some((entry.path(), lock))
    });
    left.collect()
}

fn remove_all(left: &[(PathBuf, File)]) -> Vec<PathBuf> {
    left.iter()
        .filter(|(folder, _)| fs::remove_dir_all(folder).is_ok())
        .map(|(folder, _)| folder.clone())
        .collect()
}

fn open(folder: &Path) -> io::Result<File> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(folder, how, Mode::empty())?))
}

fn is_at(lock: &File, folder: &Path) -> bool {
    let of = |at: fs::Metadata| (at.dev(), at.ino());
    match (lock.metadata(), folder.symlink_metadata()) {
        (Ok(locked), Ok(there)) => of(locked) == of(there),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spool_is_private_from_the_start_and_removed_only_when_nobody_uses_it() {
        let ours = tempfile::tempdir().unwrap();
        let spool = Spool::new(ours.path()).unwrap();
        write(&spool.path().join("0"), b"a secret").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(spool.path()), 0o700);
        assert_eq!(mode(&spool.path().join("0")), 0o600);
        let other = Spool::new(ours.path()).unwrap();
        assert!(spool.path().exists() && other.path().exists(), "both are in use");
        // As after a kill: the lock is released, the folder stays.
        let Spool { folder, _lock: lock } = spool;
        let left = folder.keep();
        drop(lock);
        assert_eq!(left_in(ours.path()).len(), 1);
        drop(Spool::new(ours.path()).unwrap());
        assert!(!left.exists() && other.path().exists());
    }
}
