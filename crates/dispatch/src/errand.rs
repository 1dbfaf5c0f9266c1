//! Runs a command that a repository configures to its end, under a [`crate::warden`], and collects its output.
//!
//! The caller waits, on any thread, and gets the output as it comes: standard output and error in the order in which they
//! were written. The wait is bounded by the errand's limit, which the warden enforces; nothing here waits for a stream that
//! some process keeps open.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::signals::Interrupts;
use crate::spawn::Trampoline;
use crate::supervise::Renewal;
use crate::warden::{self, Outcome};

const CHUNK: usize = 64 * 1_024;
/// The time until the first renewal of the lease.
const RENEW_EVERY: Duration = Duration::from_secs(15);

/// A command to run.
#[derive(Clone, Debug)]
pub struct Errand {
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    pub folder: PathBuf,
    pub limit: Duration,
    /// The time between TERM and KILL.
    pub grace: Duration,
}

/// How an errand ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub outcome: Outcome,
    pub duration: Duration,
    /// Why it was stopped, if the lease was lost.
    pub fenced: Option<String>,
}

/// What may stop an errand while it runs.
#[derive(Default)]
pub struct Watch<'a> {
    /// Renews the lease from time to time; the errand is stopped if it is lost.
    pub renew: Option<&'a mut dyn FnMut() -> Renewal>,
    /// The errand is stopped if one comes.
    pub interrupts: Option<&'a Interrupts>,
}

impl Watch<'_> {
    /// Reborrows it, for another errand.
    pub fn again(&mut self) -> Watch<'_> {
        let renew = self.renew.as_mut().map(|renew| &mut **renew as &mut dyn FnMut() -> Renewal);
        Watch { renew, interrupts: self.interrupts }
    }
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Errand {
    /// Runs it. `hear` is called with its output.
    pub fn run(&self, hear: &mut dyn FnMut(&[u8]), watch: Watch<'_>) -> io::Result<Ended> {
        let begun = Instant::now();
        let Trampoline { program, .. } = Trampoline::of_this_program()?;
        let (line, theirs) = UnixStream::pair()?;
        let (output, written) = io::pipe()?;
        let mut command = Command::new(program);
        command
            .arg(warden::NAME)
            .args([self.limit.as_millis().to_string(), self.grace.as_millis().to_string(), "--".to_owned()])
            .args(&self.argv)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(written.try_clone()?)
            .stderr(written);
        let mut warden = command.spawn()?;
        // It holds the writing end of the pipe, which would never end.
        drop(command);
        let mut underway = Underway {
            line: Some(line),
            output: Some(output.into()),
            watch,
            renew_at: begun + RENEW_EVERY,
            stopped: false,
            fenced: None,
        };
        let told = underway.until_it_is_told(hear)?;
        warden.wait()?;
        Ok(Ended { outcome: Outcome::read(&told), duration: begun.elapsed(), fenced: underway.fenced })
    }
}

/// A running errand. Each stream is None once it has ended.
struct Underway<'a> {
    line: Option<UnixStream>,
    output: Option<OwnedFd>,
    watch: Watch<'a>,
    renew_at: Instant,
    stopped: bool,
    fenced: Option<String>,
}

/// Which sources have something to read.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    output: bool,
    line: bool,
    interrupt: bool,
}

impl Underway<'_> {
    /// Passes output on until the line ends, then the rest that is available. Returns what the warden reported on the line.
    fn until_it_is_told(&mut self, hear: &mut dyn FnMut(&[u8])) -> io::Result<String> {
        let mut buffer = vec![0; CHUNK];
        let mut told = Vec::new();
        while self.line.is_some() || self.output.is_some() {
            let ready = self.ready()?;
            if let Some(output) = self.output.as_ref().filter(|_| ready.output) {
                match rustix::io::read(output, &mut buffer[..]) {
                    Ok(length) if length > 0 => hear(&buffer[..length]),
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Ok(_) | Err(_) => self.output = None,
                }
            } else if self.line.is_none() {
                // Another process keeps it open, but everything that the command wrote has been read.
                self.output = None;
            }
            if let Some(line) = self.line.as_mut().filter(|_| ready.line) {
                let mut said = [0; 4_096];
                match line.read(&mut said) {
                    Ok(length) if length > 0 => told.extend_from_slice(&said[..length]),
                    Ok(_) | Err(_) => self.line = None,
                }
            }
            if ready.interrupt {
                self.stop();
            }
            self.renew_if_due();
        }
        Ok(String::from_utf8_lossy(&told).into_owned())
    }

    fn ready(&self) -> io::Result<Ready> {
        let wait = match (&self.line, &self.watch.renew) {
            (None, _) => Some(Duration::ZERO),
            (Some(_), Some(_)) => Some(self.renew_at.saturating_duration_since(Instant::now())),
            (Some(_), None) => None,
        };
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let interrupts = self.watch.interrupts.filter(|_| !self.stopped).map(Interrupts::came);
        let ends = [self.output.as_ref().map(AsFd::as_fd), self.line.as_ref().map(AsFd::as_fd), interrupts];
        let mut there: Vec<PollFd<'_>> =
            ends.iter().flatten().map(|end| PollFd::new(end, PollFlags::IN)).collect();
        match poll(&mut there, wait.as_ref()) {
            Err(Errno::INTR) => return Ok(Ready::default()),
            other => other?,
        };
        let mut happened = there.iter().map(|end| !end.revents().is_empty());
        let [output, line, interrupt] = ends.map(|end| end.is_some() && happened.next().unwrap_or_default());
        Ok(Ready { output, line, interrupt })
    }

    /// Closes our direction of the line, which makes the warden stop the command. Its report still comes.
    fn stop(&mut self) {
        self.stopped = true;
        self.watch.renew = None;
        if let Some(line) = &self.line {
            let _ = line.shutdown(std::net::Shutdown::Write);
        }
    }

    fn renew_if_due(&mut self) {
        let Some(renew) = &mut self.watch.renew else { return };
        if Instant::now() < self.renew_at {
            return;
        }
        match renew() {
            Renewal::Kept { next_in, .. } => self.renew_at = Instant::now() + next_in,
            Renewal::Unavailable { .. } => self.renew_at = Instant::now() + RENEW_EVERY / 4,
            Renewal::Ended => self.watch.renew = None,
            Renewal::Fenced { why } => {
                self.stop();
                self.fenced = Some(why);
            }
        }
    }
}

/// A command's output: all of it, or its beginning and its end.
#[derive(Clone, Debug, Default)]
pub struct Log {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Log {
    pub const MOST_HEAD: usize = 256 * 1_024;
    pub const MOST_TAIL: usize = 768 * 1_024;

    pub fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(Log::MOST_HEAD - self.head.len()));
        self.head.extend_from_slice(head);
        let kept = &rest[rest.len().saturating_sub(Log::MOST_TAIL)..];
        let gone = (self.tail.len() + kept.len()).saturating_sub(Log::MOST_TAIL);
        self.tail.drain(..gone);
        self.tail.extend(kept);
        self.left_out += (rest.len() - kept.len() + gone) as u64;
    }

    /// The output, with a remark where something was left out.
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = self.head.clone();
        if self.left_out > 0 {
            all.extend(format!("\n[onus: {} bytes are left out here]\n", self.left_out).into_bytes());
        }
        let (one, other) = self.tail.as_slices();
        all.extend_from_slice(one);
        all.extend_from_slice(other);
        all
    }
}

/// Writes to standard error, unchanged.
pub fn to_stderr(bytes: &[u8]) {
    // The reader may be gone; the command continues.
    let _ = io::stderr().write_all(bytes);
}

/// Writes whole lines to standard error, each with a prefix, so that several commands can do so at once.
#[derive(Clone, Debug)]
pub struct Prefixed {
    prefix: String,
    line: Vec<u8>,
}

impl Prefixed {
    const LONGEST: usize = 8 * 1_024;

    pub fn new(prefix: impl Into<String>) -> Prefixed {
        Prefixed { prefix: prefix.into(), line: Vec::new() }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            for part in piece.chunks(Prefixed::LONGEST) {
                self.line.extend_from_slice(part);
                if self.line.ends_with(b"\n") || self.line.len() >= Prefixed::LONGEST {
                    self.flush();
                }
            }
        }
    }

    /// Writes what is left of an unfinished line.
    pub fn flush(&mut self) {
        if self.line.is_empty() {
            return;
        }
        let mut whole = self.prefix.clone().into_bytes();
        whole.append(&mut self.line);
        if !whole.ends_with(b"\n") {
            whole.push(b'\n');
        }
        to_stderr(&whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_the_beginning_and_the_end_of_any_output() {
        for size in [0, 1, 3, 1_000, CHUNK, 10 * CHUNK + 7] {
            let all: Vec<u8> = (0..4 * (Log::MOST_HEAD + Log::MOST_TAIL)).map(|n| (n % 251) as u8).collect();
            let mut log = Log::default();
            match size {
                0 => log.push(&all),
                size if size < 1_000 => {
                    // Small pieces around the limits are enough.
                    log.push(&all[..Log::MOST_HEAD - 1_000]);
                    for piece in all[Log::MOST_HEAD - 1_000..Log::MOST_HEAD + 1_000].chunks(size) {
                        log.push(piece);
                    }
                    log.push(&all[Log::MOST_HEAD + 1_000..]);
                }
                size => all.chunks(size).for_each(|piece| log.push(piece)),
            }
            let kept = log.bytes();
            assert!(kept.starts_with(&all[..Log::MOST_HEAD]), "{size}");
            assert!(kept.ends_with(&all[all.len() - Log::MOST_TAIL..]), "{size}");
            let left_out = all.len() - Log::MOST_HEAD - Log::MOST_TAIL;
            let said = format!("\n[onus: {left_out} bytes are left out here]\n");
            assert_eq!(kept.len(), Log::MOST_HEAD + Log::MOST_TAIL + said.len(), "{size}");
            assert_eq!(&kept[Log::MOST_HEAD..][..said.len()], said.as_bytes(), "{size}");
        }
    }

    #[test]
    fn short_output_is_kept_whole() {
        let mut log = Log::default();
        log.push(b"one\n");
        log.push(b"two");
        assert_eq!(log.bytes(), b"one\ntwo");
    }
}
