//! Supervises real processes: one command, its process group, its output and the lease it works under.
//!
//! **Who has authority.** The store says who holds the task; the supervisor believes it and acts on it. It never
//! decides that a lease is over because a command is slow, and it never lets a command continue when the lease is over.
//! Everything about the store is behind one hook ([`Hooks`]); this crate knows only processes.
//!
//! **The states of a run.**
//!
//! ```text
//! waiting ──start──▶ running ──exit──▶ tidying ──group empty──▶ over
//!    │                  │                 ▲
//!    │ cannot exec      │ fenced, or      │ exit
//!    ▼                  │ trust ran out   │
//!  refused              └──▶ stopping ────┘   TERM to the group, KILL after the grace period
//! ```
//!
//! *Waiting* ([`Waiting`]): the process exists, in a group of its own, but the command has not been started in it. Its group is
//! recorded now, before the command can start anything of its own. *Running*: output is passed on,
//! signals are forwarded, the lease is renewed. *Stopping*: the lease is lost, so the work must end. *Tidying*: the
//! command exited, so the run is over; what it left behind in its group is ended too, since the lease that protected
//! it ends now.
//!
//! **What fails how.** If the supervisor is killed with -9, the kernel kills the command with it ([`trampoline`]), and what the
//! command had started is found later by its group and its environment ([`group`]). If the store hangs, an exit or a signal is
//! noticed all the same, since renewing has a thread of its own, and a lease with a deadline is given up a margin
//! before it ([`supervise()`]). If the command hangs, the supervisor cannot know; a user who wants a limit sets one. If a reader
//! of our output hangs, the run ends all the same, and the rest of the output waits for the reader
//! ([`Rest`](output::Rest)).
//!
//! **Architecture invariant:** one loop sees everything, in one order ([`supervise()`]); threads only carry events to it.
//! No lock, no shared state, no `async`.
//!
//! **Architecture invariant:** a command is an argv, never a shell string.
//!
//! It is made for Linux. On macOS it compiles and runs without the kernel's help: a command outlives a
//! supervisor that was killed with -9, and what it leaves in its group is not found.

mod errand;
pub mod group;
pub mod output;
mod signals;
mod spawn;
mod supervise;
mod tail;
mod terminal;
pub mod trampoline;
pub mod warden;

pub use errand::{Ended, Errand, Log, Prefixed, Watch, to_stderr};
pub use rustix::process::Signal;
pub use signals::{Interrupts, signal_name};
pub use spawn::{Child, Passing, SpawnError, Spec, Trampoline, Waiting, is_there};
pub use supervise::{Exit, Hooks, Message, Renewal, Report, Stop, Terms, supervise};
pub use warden::Outcome;
