//! Interfaces to the engine for other programs. So far one: the Model Context Protocol on standard input and output.
//!
//! **An interface translates, it never decides.** A tool call becomes the same command that the command line would give, and
//! its answer a short form of the document that `--json` prints. Every call determines again where the store is, how it is
//! configured and who calls ([`onus_host::Connection`]): a repository may be set up, and a conversation registered, long after
//! the server started.
//!
//! **One client.** The server lives as long as its standard input. Its client's leases are bound to the client's process: when
//! that dies, they lapse at once. When the client only closes the connection and nobody else could ever act as its instance,
//! the leases that it still holds are released.
//!
//! **Async ends here.** One thread speaks the protocol. The store is blocking: each call opens it on a thread of its
//! own, and calls take turns, except a claim that waits, which holds nothing.
//!
//! **A cancelled claim holds nothing.** The protocol lets the client cancel a request at any moment, even when the answer is on
//! its way. A client that cancels a claim does not read its answer, so what was granted is released again, whether the
//! cancellation arrives while the claim waits, while it is being granted, or after it was answered (`mcp/grants.rs`).

mod mcp;

pub use mcp::serve as serve_mcp;
