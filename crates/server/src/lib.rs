//! Skins over the engine for other programs. So far one: the Model Context Protocol on standard input and output.
//!
//! **A skin translates, it never decides.** A tool call becomes the same command that the command line would give, and
//! its answer the same document that `--json` prints. Where the store is, how it is configured and who calls is found
//! out anew for every call, by whoever started the server ([`Host`]): a repository may be set up, and a conversation
//! registered, long after the server began.
//!
//! **One client.** The server lives as long as its standard input. What its client claims is bound to the client's
//! process: when that dies, the leases lapse at once. When the client only closes the connection and nobody else could
//! ever act as its instance, what it still holds is given back.
//!
//! **Async ends here.** One thread speaks the protocol. The store is blocking: each call opens it on a thread of its
//! own, and calls take turns, except a claim that waits, which holds nothing.
//!
//! **A cancelled claim holds nothing.** The protocol lets the client forget a request at any moment, also when the answer
//! is on its way. Whoever cancels a claim does not read its answer; so what was granted is released again, whether the
//! cancellation is seen while the claim waits, while it is being granted, or after it was answered (`mcp/grants.rs`).

mod mcp;

use onus_core::ids::TaskRef;
use onus_core::lease::Process;
use onus_core::refusal::Refusal;
use onus_core::scope::Scope;
use onus_engine::{Engine, Identity};
use onus_store::{Access, AnyStore};

pub use mcp::serve as serve_mcp;

/// Opens the store for the client of this name.
pub type Enter = dyn Fn(&str, Access) -> Result<Entered, Refusal> + Send + Sync;

/// A question to the program around the server.
pub type Ask<In, Out> = Box<dyn Fn(&In) -> Result<Out, Refusal> + Send + Sync>;

/// What the program around the server knows and the server does not: asked anew in every call.
pub struct Host {
    /// The instance of a client of which nothing else is known: told from every other connection's.
    pub connection: String,
    pub enter: Box<Enter>,
    /// The task that is meant when none is named.
    pub task: Box<dyn Fn() -> Result<Option<TaskRef>, Refusal> + Send + Sync>,
    /// Globs as they were given, from the repository's root.
    pub scope: Ask<[String], Scope>,
    /// A path as it was given, from the repository's root.
    pub path: Ask<str, String>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("connection", &self.connection).finish_non_exhaustive()
    }
}

/// An open store, and who asks.
#[derive(Debug)]
pub struct Entered {
    pub engine: Engine<AnyStore>,
    pub identity: Identity,
    /// What its leases are bound to.
    pub process: Option<Process>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
}
