//! How the one inside the turnstile learns at once that the writer lock is free.
//!
//! It binds a datagram socket to a name without a file (Linux's abstract names), made of the lock file's device and inode;
//! whoever frees the lock sends an empty datagram there. Only one is inside at a time, so the name is free for it. The locks
//! alone decide who writes: a ring says "look now", and one that is missed, forged or not possible (another network
//! namespace, another system) costs a pause.
//!
//! A named pipe beside the locks would do the same, but hangs whatever reads all files of a folder. Watching the
//! lock file (inotify) needs no name, but closing the watch takes the kernel 8 ms and more.

use std::fs::File;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::time::Duration;

use super::PAUSE;

/// Without a bell: the part of the time it waited already after which the one inside looks again, and the shortest
/// pause. Soon after a short write, seldom while somebody is stuck.
const PAUSE_PART: u32 = 8;
const MIN_PAUSE: Duration = Duration::from_micros(20);

#[derive(Debug, Default)]
pub(super) struct Handover {
    /// Both are made when they are needed first: who writes alone never rings.
    name: OnceLock<Option<SocketAddr>>,
    /// What it is rung with.
    hand: OnceLock<Option<UnixDatagram>>,
}

/// Where the one inside hears the bell; None where it cannot.
#[derive(Debug)]
pub(super) struct HandoverListener(Option<UnixDatagram>);

impl Handover {
    fn name(&self, writer: &File) -> Option<&SocketAddr> {
        self.name.get_or_init(|| name(writer)).as_ref()
    }

    pub(super) fn ring(&self, writer: &File) {
        let hand = || {
            let hand = UnixDatagram::unbound().ok()?;
            // Nobody waits for the ears of somebody who is stopped.
            hand.set_nonblocking(true).ok()?;
            Some(hand)
        };
        if let (Some(name), Some(hand)) = (self.name(writer), self.hand.get_or_init(hand)) {
            // An error says that nobody is inside.
            let _ = hand.send_to_addr(&[], name);
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
    /// Waits until it is time to try the lock. Too early, for whatever reason, is only one look more.
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
