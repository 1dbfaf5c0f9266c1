//! Turns signals to the supervisor into events.
//!
//! They are *blocked*, and one thread waits for them (`sigwait`): no handler runs anywhere, so no code has to be
//! async-signal-safe, and no system call is interrupted. A crate that installs handlers (signal-hook) would do for
//! that as well, but not for the terminal: a process that takes a terminal back from the background is sent SIGTTOU
//! unless it blocks or ignores it, and a handler is neither. rustix has no safe signal masks; nix has.
//!
//! A mask is inherited, by threads and over `exec`. So it is set on the main thread before any other is started, and the
//! trampoline removes it before it becomes the command ([`let_through`]).

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use nix::sys::pthread::pthread_kill;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as Named};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_current_process_group};

/// Signals that are forwarded to the command's group.
const FORWARDED: [Named; 9] = [
    Named::SIGTERM,
    Named::SIGINT,
    Named::SIGHUP,
    Named::SIGQUIT,
    Named::SIGUSR1,
    Named::SIGUSR2,
    Named::SIGWINCH,
    Named::SIGTSTP,
    Named::SIGCONT,
];

/// Signals that ask this process to end.
const ENDING: [Named; 4] = [Named::SIGTERM, Named::SIGINT, Named::SIGHUP, Named::SIGQUIT];

fn blocked() -> SigSet {
    let mut set: SigSet = FORWARDED.into_iter().collect();
    set.add(Named::SIGTTOU);
    set
}

/// Signals held back on this thread, and on those it starts, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    before: SigSet,
    waited_for: SigSet,
}

impl Held {
    pub(crate) fn hold() -> io::Result<Held> {
        if ignored().contains(Named::SIGCHLD) {
            // The kernel would discard exit codes before they can be read.
            return Err(io::Error::other("the parent of this process made it ignore SIGCHLD"));
        }
        Held::these(blocked(), &FORWARDED)
    }

    fn these(blocked: SigSet, waited_for: &[Named]) -> io::Result<Held> {
        let ignored = ignored();
        // Ignored signals (nohup) stay ignored: they are not waited for, although they are blocked.
        let waited_for = waited_for.iter().copied().filter(|signal| !ignored.contains(*signal)).collect();
        let before = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(Held { before, waited_for })
    }

    /// Reports every signal from now on. The thread ends with the process, or when `hear` returns false.
    pub(crate) fn tell(&self, hear: impl FnMut(Signal) -> bool + Send + 'static) -> io::Result<()> {
        self.listener(hear).map(drop)
    }

    fn listener(&self, mut hear: impl FnMut(Signal) -> bool + Send + 'static) -> io::Result<JoinHandle<()>> {
        let waited_for = self.waited_for;
        let listen = move || {
            while let Ok(signal) = waited_for.wait() {
                if Signal::from_named_raw(signal as i32).is_some_and(|signal| !hear(signal)) {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(listen)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Cannot fail, since the mask was valid before.
        let _ = self.before.thread_set_mask();
    }
}

/// Holds back signals that ask this process to end, so that it can first end what it started. Applies to the thread that created
/// this, and to threads started since. Dropping it restores the signals; those that came meanwhile are consumed.
#[derive(Debug)]
pub struct Interrupts {
    listener: Option<JoinHandle<()>>,
    over: Arc<AtomicBool>,
    held: Held,
    /// Readable once a signal came: its number. It is not consumed by waiting, so that every waiter sees it.
    came: OwnedFd,
}

impl Interrupts {
    pub fn hold() -> io::Result<Interrupts> {
        let held = Held::these(ENDING.into_iter().collect(), &ENDING)?;
        let (came, mut says) = io::pipe()?;
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let listener = held.listener(move |signal| {
            // Sent by `drop`, to end this thread.
            if is_over.load(Ordering::SeqCst) {
                return false;
            }
            let number = u8::try_from(signal.as_raw()).unwrap_or_default();
            // The first one is enough. Fails if nobody reads, which does not matter.
            let _ = says.write_all(&[number]);
            false
        })?;
        Ok(Interrupts { listener: Some(listener), over, held, came: came.into() })
    }

    /// Blocks signals that ask this process to end in the calling thread, so that other threads get them.
    pub fn elsewhere() {
        // If blocking fails, a signal ends the process, as usual.
        let _ = ENDING.into_iter().collect::<SigSet>().thread_block();
    }

    pub(crate) fn came(&self) -> BorrowedFd<'_> {
        self.came.as_fd()
    }

    /// The signal that came first, if one did. Returned only once.
    pub fn signal(&self) -> Option<i32> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut ends = [PollFd::new(&self.came, PollFlags::IN)];
        let mut number = [0];
        (poll(&mut ends, Some(&now)).ok()? > 0 && rustix::io::read(&self.came, &mut number).ok()? == 1)
            .then(|| i32::from(number[0]))
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        // A listener that stayed would take the next signal from a later `Interrupts`. If all signals are ignored, it takes none.
        self.over.store(true, Ordering::SeqCst);
        let heard = ENDING.into_iter().find(|signal| self.held.waited_for.contains(*signal));
        if let (Some(listener), Some(signal)) = (self.listener.take(), heard) {
            if !listener.is_finished() {
                let _ = pthread_kill(listener.as_pthread_t(), signal);
            }
            drop(listener.join());
        }
    }
}

/// Undoes [`Held::hold`] in a process that inherited it.
pub(crate) fn let_through() -> io::Result<()> {
    Ok(blocked().thread_unblock()?)
}

/// Stops this process and its group, as Ctrl-Z does. Returns when continued; at once if nobody could continue us
/// (an orphaned group is not stopped), or if SIGTSTP is ignored.
pub(crate) fn stop_own_group() {
    let stop: SigSet = [Named::SIGTSTP].into_iter().collect();
    let Ok(before) = stop.thread_swap_mask(SigmaskHow::SIG_UNBLOCK) else { return };
    let _ = kill_current_process_group(Signal::TSTP);
    let _ = before.thread_set_mask();
}

/// The signals that are ignored by this process; none if the system does not tell.
fn ignored() -> SigSet {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    Named::iterator().filter(|signal| mask >> (*signal as i32 - 1) & 1 == 1).collect()
}

/// A signal by its name, for people: `SIGTERM`.
pub fn signal_name(number: i32) -> String {
    Named::try_from(number).map_or_else(|_| format!("signal {number}"), |signal| signal.as_str().to_owned())
}
