//! A command's output, passed on as it comes.
//!
//! Where our own stdout or stderr is a *terminal*, the command gets that terminal itself: programs look whether they
//! write to one, and a pipe in between would take colours and progress bars away. Then nothing is read here: no last
//! lines are known, and output is no sign of progress. (A pseudo-terminal in between could have both, at the price of
//! imitating a terminal: sizes, modes, job control. That is a terminal multiplexer's work.)
//!
//! Everywhere else each stream is a pipe and a thread: read what is there, tell the loop, write it on, unchanged
//! and at once. If what we write to is gone, the pipe is closed, and the command finds its output gone as it would
//! without us. If it is slow, so is the command, as without us.
//!
//! **At the end** a pipe may be open although the command exited: something it started has it too. So the reader is
//! told, and from then on takes what is there without waiting for more: what the command wrote, it wrote before
//! it exited. Nothing else could be waited for; a background process may keep a pipe open for ever.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::tail::MAX_BYTES;

const CHUNK: usize = 64 * 1_024;

/// One stream of the command: where it comes from and where it goes.
#[derive(Debug)]
pub(crate) struct Passage {
    pub(crate) from: OwnedFd,
    pub(crate) to: File,
}

/// The end of what was read, for the last lines. `cut`: there was more before it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) bytes: Vec<u8>,
    pub(crate) cut: bool,
}

/// Readers that may still have output to write to a slow reader of ours.
#[derive(Debug, Default)]
pub struct Rest {
    readers: Vec<JoinHandle<()>>,
}

impl Rest {
    pub(crate) fn add(&mut self, reader: JoinHandle<()>) {
        self.readers.push(reader);
    }

    /// Waits until everything is written: as long as the one who reads our output takes, no matter how long that is.
    pub fn finish(self) {
        for reader in self.readers {
            // One that failed has nothing left to write.
            let _ = reader.join();
        }
    }
}

/// Starts passing on, until the stream ends or, once `over` is at its end, until nothing is there.
pub(crate) fn pass_on(
    passage: Passage,
    over: OwnedFd,
    mut tell: impl FnMut(Option<Seen>) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let run = move || {
        let mut buffer = vec![0; CHUNK];
        let Passage { from, mut to } = passage;
        loop {
            match read(&from, &over, &mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(length) => {
                    let bytes = &buffer[..length];
                    let kept = length.saturating_sub(MAX_BYTES);
                    tell(Some(Seen { bytes: bytes[kept..].to_vec(), cut: kept > 0 }));
                    if write_all(&mut to, bytes).is_err() {
                        break;
                    }
                }
            }
        }
        drop(from);
        tell(None);
    };
    std::thread::Builder::new().name("output".to_owned()).spawn(run)
}

/// What is there. 0: the stream ended, or the run is over and nothing is there.
fn read(from: &OwnedFd, over: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut both = [PollFd::new(from, PollFlags::IN), PollFd::new(over, PollFlags::IN)];
        match poll(&mut both, None) {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        if both[0].revents().is_empty() {
            return Ok(0);
        }
        match rustix::io::read(from, &mut *buffer) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            other => return Ok(other?),
        }
    }
}

/// Also to a pipe that somebody made non-blocking.
fn write_all(to: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(&to.as_fd(), PollFlags::OUT)], None) {
                    Err(Errno::INTR) => {}
                    other => drop(other?),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
