//! The stories of leases, assignment, scopes, graphs and conversations once more, on a PostgreSQL server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod assignment;
mod circles;
mod conversations;
mod files;
mod graphs;
mod landings;
mod promises;
mod rescues;
mod scopes;
mod seats;
mod sessions;
mod stretches;
mod timesheets;
mod world;
