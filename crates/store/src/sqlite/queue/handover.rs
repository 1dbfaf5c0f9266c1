//! Signals the process inside the turnstile that the writer lock is free.
//!
//! It binds a datagram socket to a name without a file (Linux's abstract names), made of the lock file's
//! device and inode; the writer that releases the lock sends an empty datagram there. Only one process is
//! inside at a time, so the name is free for it. The locks alone decide who writes: the signal means "try
//! now", and one that is missed, forged or impossible (another network namespace, another system) costs only
//! a pause.
//!
//! A named pipe beside the locks would do the same, but hangs any program that reads all files of a folder.
//! Watching the lock file (inotify) needs no name, but closing the watch takes the kernel 8 ms and more.

use std::fs::File;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::time::Duration;

use super::PAUSE;

/// Without a signal, the process inside tries again after this part of the time it has already waited, but
/// not sooner than the shortest pause: soon after a short write, seldom while somebody is stuck.
const PAUSE_PART: u32 = 8;
const MIN_PAUSE: Duration = Duration::from_micros(20);

#[derive(Debug, Default)]
pub(super) struct Handover {
    /// Both are created on first use: a process that writes alone never signals.
    name: OnceLock<Option<SocketAddr>>,
    /// The sending socket.
    sender: OnceLock<Option<UnixDatagram>>,
}

/// Receives the signal; None if that is impossible here.
#[derive(Debug)]
pub(super) struct HandoverListener(Option<UnixDatagram>);

impl Handover {
    fn name(&self, writer: &File) -> Option<&SocketAddr> {
        self.name.get_or_init(|| name(writer)).as_ref()
    }

    pub(super) fn ring(&self, writer: &File) {
        let sender = || {
            let sender = UnixDatagram::unbound().ok()?;
            // Do not wait for a listener that is stopped.
            sender.set_nonblocking(true).ok()?;
            Some(sender)
        };
        if let (Some(name), Some(sender)) = (self.name(writer), self.sender.get_or_init(sender)) {
            // An error means that nobody is inside.
            let _ = sender.send_to_addr(&[], name);
        }
    }

    pub(super) fn listener(&self, writer: &File) -> HandoverListener {
        let listening = |name| {
            let listener = UnixDatagram::bind_addr(name)?;
            listener.set_read_timeout(Some(PAUSE))?;
            std::io::Result::Ok(listener)
        };
        HandoverListener(self.name(writer).and_then(|name| listening(name).ok()))
    }
}

impl HandoverListener {
    /// Waits until it is time to try the lock. Returning too early only costs another attempt.
    pub(super) fn listen(&self, waited: Duration) {
        match &self.0 {
            Some(listener) => drop(listener.recv(&mut [])),
            None => std::thread::sleep((waited / PAUSE_PART).clamp(MIN_PAUSE, PAUSE)),
        }
    }
}

#[cfg(target_os = "linux")]
fn name(writer: &File) -> Option<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::fs::MetadataExt as _;
    let writer = writer.metadata().ok()?;
    SocketAddr::from_abstract_name(format!("onus-{:x}-{:x}", writer.dev(), writer.ino())).ok()
}

#[cfg(not(target_os = "linux"))]
fn name(_: &File) -> Option<SocketAddr> {
    None
}
