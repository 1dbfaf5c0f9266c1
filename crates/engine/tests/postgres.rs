//! The stories of leases, scopes, graphs and conversations once more, on a PostgreSQL server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::duplicate_mod, reason = "each story brings its world, as it does where it stands alone")]

#[path = "conversations.rs"]
mod conversations;
#[path = "graphs.rs"]
mod graphs;
#[path = "promises.rs"]
mod promises;
#[path = "scopes.rs"]
mod scopes;
