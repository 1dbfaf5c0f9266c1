//! Small files that anyone may have written: a repository's own, and git's.
//!
//! A clone contains whatever its author wanted: a link to a device, a pipe that never ends, a file of a gigabyte, a link to
//! someone's credentials. So these files must be regular, bounded, and where they seem to be.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;

/// The most that such a file may have.
pub const MAX_BYTES: u64 = 64 * 1024;

/// Why a file was not read. None of these shows what is in it.
#[derive(Debug)]
pub enum Unreadable {
    Missing,
    /// A folder, a pipe, a device.
    NotAFile,
    TooLarge,
    NotText,
    /// A link that leads out of the repository, or into git's own folder.
    LeadsOut,
    /// Another user's.
    Anothers,
    Io(io::Error),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Missing => f.write_str("it does not exist"),
            Unreadable::NotAFile => f.write_str("it is not a regular file"),
            Unreadable::TooLarge => write!(f, "it is larger than {} KiB", MAX_BYTES / 1024),
            Unreadable::NotText => f.write_str("it is not UTF-8 text"),
            Unreadable::LeadsOut => {
                f.write_str("it is a link to outside the repository: put the file itself there")
            }
            Unreadable::Anothers => f.write_str("it belongs to another user"),
            Unreadable::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unreadable {}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Unreadable {
        match error.kind() {
            io::ErrorKind::NotFound => Unreadable::Missing,
            _ => Unreadable::Io(error),
        }
    }
}

/// A small text file, wherever a link in its place leads.
pub fn read_small(path: &Path) -> Result<String, Unreadable> {
    read(path, OFlags::empty())
}

/// A small text file below `root`: links are followed as far as they stay there and keep out of `.git`.
pub fn read_inside(root: &Path, path: &Path) -> Result<String, Unreadable> {
    // What this opens is what was looked at: the last step of a resolved path is no link.
    read(&resolve_inside(root, path)?, OFlags::NOFOLLOW)
}

/// A small text file that is no link.
pub(crate) fn read_itself(path: &Path) -> Result<String, Unreadable> {
    read(path, OFlags::NOFOLLOW)
}

/// A file of the user's own, of any size, that is no link: to be read in part, wherever its name came from. With its size.
pub fn open_own(path: &Path) -> Result<(File, u64), Unreadable> {
    let (file, metadata) = open(path, OFlags::NOFOLLOW)?;
    if metadata.uid() != geteuid().as_raw() {
        return Err(Unreadable::Anothers);
    }
    Ok((file, metadata.len()))
}

/// Where a path below `root` really lies, if that is still below `root` and not in git's own folder.
pub fn resolve_inside(root: &Path, path: &Path) -> Result<PathBuf, Unreadable> {
    let real = path.canonicalize()?;
    let root = root.canonicalize()?;
    match real.strip_prefix(&root) {
        Ok(inside) if !inside.iter().any(|name| name.eq_ignore_ascii_case(".git")) => Ok(real),
        _ => Err(Unreadable::LeadsOut),
    }
}

/// A regular file, for reading.
fn open(path: &Path, how: OFlags) -> Result<(File, Metadata), Unreadable> {
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
    // What the kernel calls a regular file may still have no end (as some below /proc).
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Unreadable::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| Unreadable::NotText)
}
