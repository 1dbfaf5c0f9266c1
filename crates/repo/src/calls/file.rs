//! A small state file: two lines of JSON in a git directory, read and written under a lock.
//!
//! It is a cache and not a record: whatever is missing or broken in it is ignored, and the agents continue. It is never removed, since
//! others may wait for its lock, and a link in its place is never followed.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use crate::files::locked;

/// The most that is read.
const MAX_BYTES: u64 = 4 << 20;

/// How long to wait for another hook. Nobody keeps the lock for longer than it takes to examine some files.
const PATIENCE: Duration = Duration::from_millis(1_000);

/// The file, locked until it is dropped.
#[derive(Debug)]
pub(crate) struct Locked {
    file: File,
}

impl Locked {
    /// Opens and locks the file; None if that fails. `creates`: creates it if there is none yet.
    pub(crate) fn open(path: &Path, creates: bool) -> Option<Locked> {
        let mut how = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        if creates {
            how |= OFlags::CREATE;
        }
        let file = File::from(rustix::fs::open(path, how, Mode::RUSR | Mode::WUSR).ok()?);
        file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        locked(file, PATIENCE).map(|file| Locked { file })
    }

    /// Reads both lines.
    pub(crate) fn read(&mut self) -> (String, String) {
        let mut text = String::new();
        let is_read = self.file.rewind().is_ok()
            && (&self.file).take(MAX_BYTES + 1).read_to_string(&mut text).is_ok()
            && text.len() as u64 <= MAX_BYTES;
        match text.split_once('\n').filter(|_| is_read) {
            Some((first, second)) => (first.to_owned(), second.to_owned()),
            None => Default::default(),
        }
    }

    /// Writes both lines, or leaves the file empty if that fails.
    pub(crate) fn write(&mut self, first: &str, second: &str) {
        let text = format!("{first}\n{second}");
        // Emptied first, so that a kill leaves only a part of the new text, never a mixture with the old one.
        let is_written = text.len() as u64 <= MAX_BYTES
            && self.file.set_len(0).is_ok()
            && self.file.rewind().is_ok()
            && self.file.write_all(text.as_bytes()).is_ok();
        if !is_written {
            // Half of it would be worse than nothing.
            let _ = self.file.set_len(0);
        }
    }
}
