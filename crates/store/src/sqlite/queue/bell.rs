//! How the one inside the turnstile learns at once that the seat is free.
//!
//! It binds a datagram socket to a name without a file (Linux's abstract names), made of the seat's device and inode;
//! whoever gets up sends an empty datagram there. Only one is inside at a time, so the name is free for it. The locks
//! alone decide who sits: a ring says "look now", and one that is missed, forged or not possible (another network
//! namespace, another system) costs a pause.
//!
//! A named pipe beside the locks would do the same, but hangs whatever reads all files of a folder. Watching the
//! seat's file (inotify) needs no name, but closing the watch takes the kernel 8 ms and more.

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
pub(super) struct Bell {
    /// Both are made when they are needed first: who writes alone never rings.
    name: OnceLock<Option<SocketAddr>>,
    /// What it is rung with.
    hand: OnceLock<Option<UnixDatagram>>,
}

/// Where the one inside hears the bell; None where it cannot.
#[derive(Debug)]
pub(super) struct Ear(Option<UnixDatagram>);

impl Bell {
    fn name(&self, seat: &File) -> Option<&SocketAddr> {
        self.name.get_or_init(|| name(seat)).as_ref()
    }

    pub(super) fn ring(&self, seat: &File) {
        let hand = || {
            let hand = UnixDatagram::unbound().ok()?;
            // Nobody waits for the ears of somebody who is stopped.
            hand.set_nonblocking(true).ok()?;
            Some(hand)
        };
        if let (Some(name), Some(hand)) = (self.name(seat), self.hand.get_or_init(hand)) {
            // An error says that nobody is inside.
            let _ = hand.send_to_addr(&[], name);
        }
    }

    pub(super) fn ear(&self, seat: &File) -> Ear {
        let listening = |name| {
            let ear = UnixDatagram::bind_addr(name)?;
            ear.set_read_timeout(Some(PAUSE))?;
            std::io::Result::Ok(ear)
        };
        Ear(self.name(seat).and_then(|name| listening(name).ok()))
    }
}

impl Ear {
    /// Waits until it is time to look at the seat. Too early, for whatever reason, is only one look more.
    pub(super) fn listen(&self, waited: Duration) {
        match &self.0 {
            Some(ear) => drop(ear.recv(&mut [])),
            None => std::thread::sleep((waited / PAUSE_PART).clamp(MIN_PAUSE, PAUSE)),
        }
    }
}

#[cfg(target_os = "linux")]
fn name(seat: &File) -> Option<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::fs::MetadataExt as _;
    let seat = seat.metadata().ok()?;
    SocketAddr::from_abstract_name(format!("onus-{:x}-{:x}", seat.dev(), seat.ino())).ok()
}

#[cfg(not(target_os = "linux"))]
fn name(_: &File) -> Option<SocketAddr> {
    None
}
