//! Files below a folder, opened one path component at a time: no link is followed, even one that appears meanwhile.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The content of a path, as git would record it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    File { bytes: Vec<u8>, executable: bool },
    Link(Vec<u8>),
}

/// What is at a path, before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing, or a folder, or something below a link: git has no file there either.
    Absent,
    File {
        size: u64,
        executable: bool,
    },
    Link,
    /// A pipe, a socket, a device.
    Special,
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the folder that contains a path, and returns it with the name there. None if there is no such folder.
fn parent<'p>(root: &Path, path: &'p Path, creates: bool) -> io::Result<Option<(OwnedFd, &'p OsStr)>> {
    let strange = || io::Error::other("a path leads out of the worktree");
    let mut names = path.components().map(|part| match part {
        Component::Normal(name) => Ok(name),
        _ => Err(strange()),
    });
    let Some(mut name) = names.next().transpose()? else { return Err(strange()) };
    let mut folder = rustix::fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for next in names {
        let open = || rustix::fs::openat(&folder, name, FOLDER, Mode::empty());
        let opened = match open() {
            Err(Errno::NOENT) if creates => {
                match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => open(),
                    Err(error) => Err(error),
                }
            }
            opened => opened,
        };
        folder = match opened {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !creates => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        name = next?;
    }
    Ok(Some((folder, name)))
}

pub(crate) fn kind(root: &Path, path: &Path) -> io::Result<Kind> {
    let Some((folder, name)) = parent(root, path, false)? else { return Ok(Kind::Absent) };
    let stat = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Kind::Absent),
        Err(error) => return Err(error.into()),
    };
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File {
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            executable: stat.st_mode & 0o100 != 0,
        },
        FileType::Symlink => Kind::Link,
        FileType::Directory => Kind::Absent,
        _ => Kind::Special,
    })
}

/// Reads a file of at most `max` bytes, or a link. None if it is neither, or is gone.
pub(crate) fn read(root: &Path, path: &Path, max: u64) -> io::Result<Option<Content>> {
    let Some((folder, name)) = parent(root, path, false)? else { return Ok(None) };
    let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::openat(&folder, name, how, Mode::empty()) {
        Ok(file) => {
            let file = File::from(file);
            let metadata = file.metadata()?;
            if !metadata.is_file() || metadata.len() > max {
                return Ok(None);
            }
            let mut bytes = Vec::new();
            file.take(max + 1).read_to_end(&mut bytes)?;
            let executable = metadata.mode() & 0o100 != 0;
            Ok(Some(Content::File { bytes, executable }).filter(|content| content.len() <= max))
        }
        Err(Errno::LOOP) => {
            let target = rustix::fs::readlinkat(&folder, name, Vec::new())?;
            Ok(Some(Content::Link(target.into_bytes())))
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Puts content at a path atomically, replacing what was there.
pub(crate) fn put(root: &Path, path: &Path, content: &Content) -> io::Result<()> {
    let Some((folder, name)) = parent(root, path, true)? else {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    };
    let mut new = name.as_bytes().to_vec();
    new.truncate(200);
    new.extend_from_slice(format!(".onus-{}", std::process::id()).as_bytes());
    let new = std::ffi::OsString::from_vec(new);
    match content {
        Content::Link(target) => rustix::fs::symlinkat(OsStr::from_bytes(target), &folder, &new)?,
        Content::File { bytes, executable } => {
            let how = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            // As git creates files: the user's umask restricts them.
            let mode = Mode::from_raw_mode(if *executable { 0o777 } else { 0o666 });
            let mut file = File::from(rustix::fs::openat(&folder, &new, how, mode)?);
            let written = file.write_all(bytes).and_then(|()| file.sync_all());
            if let Err(error) = written {
                rustix::fs::unlinkat(&folder, &new, AtFlags::empty())?;
                return Err(error);
            }
        }
    }
    let named = rustix::fs::renameat(&folder, &new, folder.as_fd(), name);
    if named.is_err() {
        rustix::fs::unlinkat(&folder, &new, AtFlags::empty())?;
    }
    Ok(named?)
}

/// Removes a file, and the folders above it that become empty.
pub(crate) fn remove(root: &Path, path: &Path) -> io::Result<()> {
    let Some((folder, name)) = parent(root, path, false)? else { return Ok(()) };
    match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        let Some((folder, name)) = parent(root, above, false)? else { return Ok(()) };
        if rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR).is_err() {
            break;
        }
    }
    Ok(())
}

impl Content {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Content::File { bytes, .. } => bytes,
            Content::Link(target) => target,
        }
    }

    fn len(&self) -> u64 {
        self.bytes().len() as u64
    }

    /// The mode by which git records it.
    pub(crate) fn mode(&self) -> &'static str {
        match self {
            Content::File { executable: false, .. } => "100644",
            Content::File { executable: true, .. } => "100755",
            Content::Link(_) => "120000",
        }
    }

    /// None if the mode is of something else, such as a submodule.
    pub(crate) fn of_mode(mode: &str, bytes: Vec<u8>) -> Option<Content> {
        match mode {
            "100644" | "100664" => Some(Content::File { bytes, executable: false }),
            "100755" => Some(Content::File { bytes, executable: true }),
            "120000" => Some(Content::Link(bytes)),
            _ => None,
        }
    }
}
