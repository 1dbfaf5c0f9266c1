//! The files themselves: looked at with suspicion, and written all at once.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use onus_core::refusal::{Code, Refusal};

use super::Target;

/// Agents' configuration is small: more than this is something else.
pub(super) const MAX_BYTES: u64 = 1024 * 1024;

/// A file as it is.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Where it really lies, links followed.
    pub(super) real: PathBuf,
    /// None: it is not there.
    pub(super) text: Option<String>,
}

fn refused(path: &Path, why: impl std::fmt::Display) -> Refusal {
    Refusal::usage(format!("{}: {why}", path.display())).next("nothing was written")
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

/// Reads a file, and makes sure that it is one that may be written.
pub(super) fn look(target: &Target) -> Result<Seen, Refusal> {
    let path = &target.path;
    let real = real(path)?;
    let within = real_folder(&target.within).map_err(|error| trouble(&target.within, &error))?;
    if !real.starts_with(&within) {
        return Err(refused(path, format_args!("leads to {}, outside {}", real.display(), within.display())));
    }
    let text = read(path, &real)?;
    Ok(Seen { real, text })
}

/// Reads what is there now.
pub(super) fn read(path: &Path, real: &Path) -> Result<Option<String>, Refusal> {
    let meta = match fs::metadata(real) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(trouble(path, &error)),
    };
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
    let read = File::open(real).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| trouble(path, &error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refused(path, format_args!("is larger than {} KiB", MAX_BYTES / 1024)));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
            Err(Refusal::usage(format!("{}:{line}: is not UTF-8 text", path.display()))
                .next("nothing was written"))
        }
    }
}

/// Where a path leads, of which the last part or more need not be there.
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
            // A link that leads nowhere is not a folder that is still to be made.
            if path.is_symlink() { Err(error) } else { Ok(real_folder(parent)?.join(name)) }
        }
        (Err(error), ..) => Err(error),
    }
}

/// Makes the folders that are missing above a file, outermost first, and says which.
pub(super) fn make_folders(file: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let missing: Vec<PathBuf> =
        file.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
    let mut made = Vec::new();
    for folder in missing.into_iter().rev() {
        if let Err(error) = fs::create_dir(&folder) {
            remove_folders(&made);
            return Err(trouble(&folder, &error));
        }
        made.push(folder);
    }
    Ok(made)
}

/// Removes folders again, innermost first, as far as they are empty.
pub(super) fn remove_folders(folders: &[PathBuf]) {
    for folder in folders.iter().rev() {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
}

/// Writes a file as a whole: whoever reads it sees the old text or the new one. Its permissions stay; a new one gets
/// `mode`, less what the user masks.
pub(super) fn write(real: &Path, text: &str, mode: u32) -> Result<(), Refusal> {
    let folder = real.parent().unwrap_or(real);
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.onus-{}", std::process::id()));
    let result = (|| {
        let kept = fs::metadata(real).ok().map(|meta| meta.permissions());
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        if let Some(kept) = kept {
            file.set_permissions(kept)?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, real)
    })();
    result.map_err(|error| {
        // It is ours, or it was never made.
        if error.kind() != ErrorKind::AlreadyExists {
            let _ = fs::remove_file(&temporary);
        }
        trouble(real, &error)
    })
}

pub(super) fn remove(real: &Path) -> Result<(), Refusal> {
    match fs::remove_file(real) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(trouble(real, &error)),
        _ => Ok(()),
    }
}
