//! Who may open a store's files.
//!
//! A store belongs to its user alone: whoever could open its lock files could keep every writer waiting, and
//! whoever could read it would read everything. So every file is created with mode 0600 and the folder with
//! 0700, whatever the umask, unless git shares the repository: then the folder is created like git's own,
//! which pass their group on (`core.sharedRepository`), and files get the folder's permissions without the
//! executable bits. SQLite gives the log and its index the permissions of the database.
//!
//! Our own files are opened without following a link in their place, and only if they are regular files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::files::{folder_of, side_file};
use super::watch::BELL;

/// The mode of a private folder.
pub const OWN_FOLDER: u32 = 0o700;

/// The mode of a private file.
const OWN_FILE: u32 = 0o600;

const OPEN_FLAGS: i32 = rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK).bits().cast_signed();

/// Creates a folder, and those above it, with exactly this mode, whatever the umask. An existing one is left
/// as it is.
pub fn make_folder(folder: &Path, mode: u32) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::DirBuilder::new().mode(OWN_FOLDER).create(folder) {
        Ok(()) => fs::set_permissions(folder, fs::Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// The mode of files in a store's folder. A folder that git shares passes its group on to the files in it.
pub fn file_mode(folder: &Path) -> u32 {
    match fs::metadata(folder) {
        Ok(folder) if folder.mode() & 0o2070 > 0o2000 => folder.mode() & 0o666 | OWN_FILE,
        _ => OWN_FILE,
    }
}

/// Creates a file with exactly this mode; an existing file or link is an error.
pub fn new_file(path: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(OWN_FILE).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    Ok(file)
}

/// Opens a file of our own in a store's folder for reading and writing; creates it if it does not exist.
pub(super) fn open_own(folder: &Path, name: &str) -> io::Result<File> {
    let path = folder.join(name);
    let open = || OpenOptions::new().read(true).write(true).custom_flags(OPEN_FLAGS).open(&path);
    let file = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match new_file(&path, file_mode(folder)) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open()?,
            made => made?,
        },
        found => found?,
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// The files of a store that more users may open than intended.
pub(super) fn open_to_others(store: &Path) -> Vec<PathBuf> {
    let folder = folder_of(store);
    let others = 0o777 & !file_mode(folder);
    let beside = ["turnstile.lock", "writer.lock", BELL].map(|name| folder.join(name));
    [store.to_owned(), side_file(store, "-wal"), side_file(store, "-shm")]
        .into_iter()
        .chain(beside)
        .filter(|file| {
            fs::symlink_metadata(file).is_ok_and(|file| file.is_file() && file.mode() & others != 0)
        })
        .collect()
}

/// Restricts a file to those who are meant to open it.
pub(super) fn close_to_others(file: &Path) -> io::Result<()> {
    fs::set_permissions(file, fs::Permissions::from_mode(file_mode(folder_of(file))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn files_are_for_whom_the_folder_lets_in() {
        let ground = tempfile::tempdir().unwrap();
        for (folder, of_folder, of_file) in
            [("own", 0o700, 0o600), ("group", 0o2770, 0o660), ("all", 0o2775, 0o664), ("open", 0o777, 0o600)]
        {
            let folder = ground.path().join("new").join(folder);
            make_folder(&folder, of_folder).unwrap();
            assert_eq!(mode(&folder), of_folder);
            drop(open_own(&folder, "a.lock").unwrap());
            assert_eq!(mode(&folder.join("a.lock")), of_file);
            make_folder(&folder, 0o755).unwrap();
            assert_eq!(mode(&folder), of_folder, "one that is there stays as it is");
        }
    }

    #[test]
    fn nothing_is_opened_through_a_link() {
        let ground = tempfile::tempdir().unwrap();
        let (folder, target) = (ground.path().join("s"), ground.path().join("target"));
        make_folder(&folder, OWN_FOLDER).unwrap();
        fs::write(&target, "kept").unwrap();
        for (name, to) in [("a.lock", &target), ("b.lock", &ground.path().join("nowhere"))] {
            std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
            assert!(open_own(&folder, name).is_err());
            assert!(new_file(&folder.join(name), 0o600).is_err());
        }
        assert!(open_own(&folder, ".").is_err());
        assert_eq!(fs::read_to_string(target).unwrap(), "kept");
        assert!(!ground.path().join("nowhere").exists());
    }
}
