//! Reads agents' configuration files with suspicion, and writes them atomically.
//!
//! A repository's author decides what is in a clone. A link there is followed only while it stays in the work tree and
//! out of the folders of git and onus. In the user's own configuration a link may lead anywhere (people keep their
//! dotfiles elsewhere), if the file at its end is theirs.

use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use onus_core::refusal::{Code, Refusal, Step};
use rustix::fs::{Mode, OFlags};

/// Where a file may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// In this work tree.
    Tree(PathBuf),
    /// Anywhere, as long as it belongs to the user.
    Own,
}

/// Folders in a work tree that no agent's configuration may be in: a file there takes effect elsewhere.
const CLOSED: [&str; 2] = [".git", ".onus"];

impl Bounds {
    /// The largest size. Agents' configuration is small, but Claude Code also keeps its state in the user's file.
    pub(super) fn max_bytes(&self) -> u64 {
        match self {
            Bounds::Tree(_) => 1024 * 1024,
            Bounds::Own => MAX_BYTES,
        }
    }

    fn hold(&self, path: &Path, real: &Path) -> Result<(), Refusal> {
        match self {
            Bounds::Tree(root) => {
                let root = real_folder(root).map_err(|error| trouble(root, &error))?;
                let closed = |name: &std::ffi::OsStr| CLOSED.iter().any(|own| name.eq_ignore_ascii_case(own));
                match real.strip_prefix(&root) {
                    Err(_) => Err(refused(
                        path,
                        format_args!("leads to {}, outside {}", real.display(), root.display()),
                    )),
                    Ok(inside) if inside.iter().any(closed) => Err(refused(
                        path,
                        format_args!("leads to {}, which belongs to git or onus", inside.display()),
                    )),
                    Ok(_) => Ok(()),
                }
            }
            Bounds::Own if real == path => Ok(()),
            Bounds::Own => {
                let there = real.ancestors().find_map(|place| place.symlink_metadata().ok());
                let own = there.is_some_and(|meta| meta.uid() == rustix::process::geteuid().as_raw());
                if own { Ok(()) } else { Err(refused(path, "is a link to another user's file")) }
            }
        }
    }
}

/// The largest size of any of the files.
pub(super) const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A file as it was read.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its path with links resolved.
    pub real: PathBuf,
    /// None if it does not exist.
    pub text: Option<String>,
}

fn refused(path: &Path, why: impl std::fmt::Display) -> Refusal {
    Refusal::usage(format!("{}: {why}", path.display())).next(Step::plain("nothing was written"))
}

fn trouble(path: &Path, error: &std::io::Error) -> Refusal {
    let code = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Code::DiskFull,
        ErrorKind::ReadOnlyFilesystem => Code::ReadOnly,
        ErrorKind::PermissionDenied => Code::Usage,
        _ => Code::Unexpected,
    };
    Refusal::new(code, format!("{}: {error}", path.display()))
}

/// Reads a file, and checks that it may be written.
pub fn look(path: &Path, bounds: &Bounds) -> Result<Seen, Refusal> {
    let real = real(path)?;
    bounds.hold(path, &real)?;
    let text = read(path, &real, bounds.max_bytes())?;
    Ok(Seen { real, text })
}

/// Opens a file without following a link or waiting for a pipe's writer.
fn open(real: &Path) -> std::io::Result<File> {
    let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(real, how, Mode::empty())?))
}

fn read(path: &Path, real: &Path, max: u64) -> Result<Option<String>, Refusal> {
    let file = match open(real) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(trouble(path, &error)),
    };
    let meta = file.metadata().map_err(|error| trouble(path, &error))?;
    if meta.is_dir() {
        return Err(refused(path, "is a folder"));
    }
    if !meta.is_file() {
        return Err(refused(path, "is not a plain file"));
    }
    if meta.permissions().mode() & 0o222 == 0 {
        return Err(refused(path, "is read-only"));
    }
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes).map_err(|error| trouble(path, &error))?;
    if bytes.len() as u64 > max {
        return Err(refused(path, format_args!("is larger than {} KiB", max / 1024)));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
            Err(Refusal::usage(format!("{}:{line}: is not UTF-8 text", path.display()))
                .next(Step::plain("nothing was written")))
        }
    }
}

/// Reads a regular file that belongs to the user.
pub(super) fn read_own(path: &Path, max: u64) -> Option<Vec<u8>> {
    let file = open(path).ok()?;
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.uid() != rustix::process::geteuid().as_raw() || meta.len() > max {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Resolves a path whose last components need not exist.
fn real(path: &Path) -> Result<PathBuf, Refusal> {
    match path.symlink_metadata() {
        Ok(_) => path.canonicalize().map_err(|error| match error.kind() {
            ErrorKind::NotFound => refused(path, "is a link that leads nowhere"),
            _ => trouble(path, &error),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            real_folder(path).map_err(|error| trouble(path, &error))
        }
        Err(error) => Err(trouble(path, &error)),
    }
}

fn real_folder(path: &Path) -> std::io::Result<PathBuf> {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(real), ..) => Ok(real),
        (Err(error), Some(parent), Some(name)) if error.kind() == ErrorKind::NotFound => {
            // A dangling link is not a folder that can be made.
            if path.is_symlink() { Err(error) } else { Ok(real_folder(parent)?.join(name)) }
        }
        (Err(error), ..) => Err(error),
    }
}

/// Makes the missing folders above a file, outermost first, and returns them.
pub fn make_folders(file: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let missing: Vec<PathBuf> =
        file.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
    let mut made = Vec::new();
    for folder in missing.into_iter().rev() {
        match fs::create_dir(&folder) {
            Ok(()) => made.push(folder),
            // Another process made it meanwhile, so it is not ours to remove.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
            Err(error) => {
                remove_folders(&made);
                return Err(trouble(&folder, &error));
            }
        }
    }
    Ok(made)
}

/// Removes folders, innermost first, as long as they are empty.
pub(super) fn remove_folders(folders: &[PathBuf]) {
    for folder in folders.iter().rev() {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
}

/// Writes a file atomically: a reader sees the old text or the new one. Its permissions and owner are preserved; a new one
/// gets `mode`, restricted by the user's umask.
pub fn write(real: &Path, text: &str, mode: u32) -> Result<(), Refusal> {
    let folder = real.parent().unwrap_or(real);
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let kept = match real.symlink_metadata() {
        Ok(meta) => Some(meta),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(trouble(real, &error)),
    };
    // A unique name, removed again if anything fails.
    let mut temporary = tempfile::Builder::new()
        .prefix(&format!(".{name}.onus-"))
        .permissions(Permissions::from_mode(if kept.is_some() { 0o600 } else { mode }))
        .tempfile_in(folder)
        .map_err(|error| trouble(real, &error))?;
    if let Some(kept) = kept {
        let made = temporary.as_file().metadata().map_err(|error| trouble(real, &error))?;
        if (made.uid(), made.gid()) != (kept.uid(), kept.gid()) {
            std::os::unix::fs::fchown(temporary.as_file(), Some(kept.uid()), Some(kept.gid())).map_err(
                |_| refused(real, "belongs to another user or group, and that could not be preserved"),
            )?;
        }
        temporary.as_file().set_permissions(kept.permissions()).map_err(|error| trouble(real, &error))?;
    }
    let written = temporary.write_all(text.as_bytes()).and_then(|()| temporary.as_file().sync_all());
    written.map_err(|error| trouble(real, &error))?;
    temporary.persist(real).map_err(|error| trouble(real, &error.error))?;
    // The new name is synced, too, on file systems that support it.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

pub(super) fn remove(real: &Path) -> Result<(), Refusal> {
    match fs::remove_file(real) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(trouble(real, &error)),
        _ => Ok(()),
    }
}
