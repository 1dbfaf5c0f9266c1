//! The engine with a clock and processes that the tests decide, and beside others on a server. The stories of leases, scopes,
//! graphs and conversations are told once more on a server, by `postgres.rs`.

mod assignment;
mod circles;
mod conversations;
mod files;
mod graphs;
mod histories;
mod landings;
mod pairs;
mod promises;
mod races;
mod reboots;
mod removed;
mod rescues;
mod scopes;
mod seats;
mod sessions;
mod stretches;
mod timesheets;
mod world;
