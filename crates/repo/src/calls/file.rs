//! The file that remembers: two lines of JSON in a git directory, read and written under a lock.
//!
//! It is a memory and no record: whatever is missing or broken in it is forgotten, and the agents go on. It is never removed, since
//! others may wait for its lock, and never followed through a link.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

/// The most that is read.
const MAX_BYTES: u64 = 4 << 20;

/// How long another's hook is waited for. Nobody keeps the lock for longer than it takes to look at some files.
const PATIENCE: Duration = Duration::from_millis(1_000);

/// The file, locked until it is dropped.
#[derive(Debug)]
pub(crate) struct Locked {
    file: File,
}

impl Locked {
    /// None: it cannot be had. `creates`: also where there is none yet.
    pub(crate) fn open(path: &Path, creates: bool) -> Option<Locked> {
        let mut how = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        if creates {
            how |= OFlags::CREATE;
        }
        let file = File::from(rustix::fs::open(path, how, Mode::RUSR | Mode::WUSR).ok()?);
        file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        if file.try_lock().is_ok() {
            return Some(Locked { file });
        }
        let (locked, waiting) = mpsc::channel();
        std::thread::spawn(move || {
            // Nobody listens any more if the time was over; then the lock goes with the file.
            let _ = file.lock().map(|()| locked.send(file));
        });
        waiting.recv_timeout(PATIENCE).ok().map(|file| Locked { file })
    }

    /// Both lines.
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

    /// What cannot be written is not remembered.
    pub(crate) fn write(&mut self, first: &str, second: &str) {
        let text = format!("{first}\n{second}");
        // Emptied first: whoever is killed meanwhile leaves the beginning of the new text, and nothing of the old one.
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
