//! Skins over the engine for other programs. So far one: the Model Context Protocol on standard input and output.
//!
//! **A skin translates, it never decides.** A tool call becomes the same command that the command line would give, and
//! its answer the same document that `--json` prints. Every call determines again where the store is, how it is configured and
//! who calls ([`onus_host::Connection`]): a repository may be set up, and a conversation registered, long
//! after the server started.
//!
//! **One client.** The server lives as long as its standard input. What its client claims is bound to the client's
//! process: when that dies, the leases lapse at once. When the client only closes the connection and nobody else could
//! ever act as its instance, what it still holds is given back.
//!
//! **Async ends here.** One thread speaks the protocol. The store is blocking: each call opens it on a thread of its
//! own, and calls take turns, except a claim that waits, which holds nothing.
//!
//! **A cancelled claim holds nothing.** The protocol lets the client forget a request at any moment, even when the answer
//! is on its way. A client that cancels a claim does not read its answer; so what was granted is released again, whether the
//! cancellation is seen while the claim waits, while it is being granted, or after it was answered (`mcp/grants.rs`).

mod mcp;

pub use mcp::serve as serve_mcp;
