//! Passes a command's output on as it comes.
//!
//! If our own stdout or stderr is a *terminal*, the command gets that terminal itself: programs check whether they
//! write to one, and a pipe in between would take colours and progress bars away. In that case nothing is read here: the last
//! lines are unknown, and output is no sign of progress. (A pseudo-terminal in between could provide both, at the price of
//! imitating a terminal: sizes, modes, job control. That is a terminal multiplexer's work.)
//!
//! Otherwise each stream is a pipe with a thread, which reads what is there, tells the loop, and writes it on, unchanged
//! and at once. If our own output is gone, the pipe is closed, and the command finds its output gone as it would
//! without us. If our reader is slow, so is the command, as without us.
//!
//! **At the end** a pipe may be open although the command exited, because a process that it started has it, too. So the reading
//! thread is told, and from then on takes what is there without waiting for more: everything that the command wrote, it wrote
//! before it exited. A background process may keep a pipe open for ever.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};

use crate::tail::MAX_BYTES;

const CHUNK: usize = 64 * 1_024;

/// One stream of the command: where it comes from and where it goes.
#[derive(Debug)]
pub(crate) struct Passage {
    pub(crate) from: OwnedFd,
    pub(crate) to: File,
}

/// The end of a chunk that was read, for the last lines. `cut`: there was more before it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) bytes: Vec<u8>,
    pub(crate) cut: bool,
}

/// Threads that may still have output to write to a slow reader of ours.
#[derive(Debug, Default)]
pub struct Rest {
    readers: Vec<JoinHandle<()>>,
}

impl Rest {
    pub(crate) fn add(&mut self, reader: JoinHandle<()>) {
        self.readers.push(reader);
    }

    /// Waits until everything is written, however long the reader of our output takes.
    pub fn finish(self) {
        for reader in self.readers {
            // A thread that failed has nothing left to write.
            let _ = reader.join();
        }
    }
}

/// Starts passing on, until the stream ends, or, once `over` has ended, until nothing is left to read.
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

/// Reads what is available. 0 if the stream ended, or if the run is over and nothing is available.
fn read(from: &OwnedFd, over: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut both = [PollFd::new(from, PollFlags::IN), PollFd::new(over, PollFlags::IN)];
        retry_on_intr(|| poll(&mut both, None))?;
        if both[0].revents().is_empty() {
            return Ok(0);
        }
        match rustix::io::read(from, &mut *buffer) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            other => return Ok(other?),
        }
    }
}

/// Writes everything, even to a pipe that somebody made non-blocking.
fn write_all(to: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                retry_on_intr(|| poll(&mut [PollFd::new(&to.as_fd(), PollFlags::OUT)], None))?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
