//! Private temporary folders, in a place where every user of the machine may write.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

/// A new folder with a name nobody can guess, private to its user; removed when the value is dropped.
pub(crate) fn temporary_folder(what: &str) -> std::io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(&format!("onus-{what}-"))
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
}
