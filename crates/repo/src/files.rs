//! Reads small files that anyone may have written: a repository's own, and git's.
//!
//! A clone contains whatever its author wanted: a link to a device, a pipe that never ends, a file of a gigabyte, a link to
//! someone's credentials. So these files must be regular, bounded, and where they seem to be.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;

/// The largest size of such a file.
pub const MAX_BYTES: u64 = 64 * 1024;

/// Why a file was not read. Never reveals its content.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("it does not exist")]
    Missing,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is larger than {} KiB", MAX_BYTES / 1024)]
    TooLarge,
    #[error("it is not UTF-8 text")]
    NotText,
    /// Also a link into git's own folder.
    #[error("it is a link to outside the repository: put the file itself there")]
    LeadsOut,
    #[error("it belongs to another user")]
    Anothers,
    #[error(transparent)]
    Io(io::Error),
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Unreadable {
        match error.kind() {
            io::ErrorKind::NotFound => Unreadable::Missing,
            _ => Unreadable::Io(error),
        }
    }
}

/// Reads a small text file, following links anywhere.
pub fn read_small(path: &Path) -> Result<String, Unreadable> {
    read(path, OFlags::empty())
}

/// Reads a small text file below `root`: links are followed if they stay there and out of `.git`.
pub fn read_inside(root: &Path, path: &Path) -> Result<String, Unreadable> {
    // The last component of a resolved path is not a link, so a link here was put there since, and is refused.
    read(&resolve_inside(root, path)?, OFlags::NOFOLLOW)
}

/// Reads a small text file that is not a link.
pub(crate) fn read_itself(path: &Path) -> Result<String, Unreadable> {
    read(path, OFlags::NOFOLLOW)
}

/// Opens a file of any size, to be read in part, and returns its size. It must belong to the user and not be a link, since its
/// name may come from anywhere.
pub fn open_own(path: &Path) -> Result<(File, u64), Unreadable> {
    let (file, metadata) = open(path, OFlags::NOFOLLOW)?;
    if metadata.uid() != geteuid().as_raw() {
        return Err(Unreadable::Anothers);
    }
    Ok((file, metadata.len()))
}

/// Resolves a path, which must be below `root` and not in git's own folder.
pub fn resolve_inside(root: &Path, path: &Path) -> Result<PathBuf, Unreadable> {
    let real = path.canonicalize()?;
    let root = root.canonicalize()?;
    match real.strip_prefix(&root) {
        Ok(inside) if !inside.iter().any(|name| name.eq_ignore_ascii_case(".git")) => Ok(real),
        _ => Err(Unreadable::LeadsOut),
    }
}

/// Creates a folder that only the user may enter, and the missing ones above it.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file in one step, by a new one in a folder of the same file system, with this mode.
pub(crate) fn replace(path: &Path, folder: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(text)?;
    new.as_file().set_permissions(Permissions::from_mode(mode))?;
    new.as_file().sync_all()?;
    new.persist(path).map(drop).map_err(|error| error.error)
}

/// The outcome of removing what may be gone already.
pub(crate) fn if_there(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Locks a file or folder until the result is dropped. None if somebody else still has it after this time.
pub(crate) fn locked(file: File, patience: Duration) -> Option<File> {
    if file.try_lock().is_ok() {
        return Some(file);
    }
    let (locked, waiting) = mpsc::channel();
    std::thread::spawn(move || {
        // After the timeout nobody listens; then the lock is released with the file.
        let _ = file.lock().map(|()| locked.send(file));
    });
    waiting.recv_timeout(patience).ok()
}

/// Opens a file that only the user may read, for locking and writing; creates it if it is missing.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Opens a regular file for reading.
pub(crate) fn open(path: &Path, how: OFlags) -> Result<(File, Metadata), Unreadable> {
    // Opening a pipe must not wait for its writer.
    let how = how | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, how, Mode::empty()).map_err(io::Error::from)?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Unreadable::NotAFile);
    }
    Ok((file, metadata))
}

fn read(path: &Path, how: OFlags) -> Result<String, Unreadable> {
    let (file, metadata) = open(path, how)?;
    if metadata.len() > MAX_BYTES {
        return Err(Unreadable::TooLarge);
    }
    let mut bytes = Vec::new();
    // A regular file may still have no end, as some below /proc.
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Unreadable::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| Unreadable::NotText)
}
