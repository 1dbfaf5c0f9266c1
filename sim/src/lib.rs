//! A world in which onus has to keep its promises, and a judge that checks them without trusting onus.
//!
//! **What is real:** the engine, its rules, the SQLite store with its file, its log and its locks. Several handles are open on
//! one file, and every request goes through one of them.
//!
//! **What is virtual:** time (a monotonic tick, a wall clock that is stepped, suspends, reboots), processes (they die and their
//! pids are reused; one handle is in a pid namespace from which nothing can be seen), the network between the actors and the
//! store (requests are delayed, overtaken, delivered twice under one key, and answers are lost), and git, reduced to the few
//! references that landings use ([`Git`](git::Git)).
//!
//! **Who acts:** people, agents with several instances and sub-agents, CI. New instances appear all the time, and those that
//! lost a task keep using its token. [`Actors`](actors::Actors) chooses, [`FaultyStore`](faulty::FaultyStore) fails,
//! [`Oracle`](oracle::Oracle) judges.
//!
//! **One seed, one history.** All randomness comes from one [`Dice`](dice::Dice); no clock, no thread and no order of a hash map
//! has an influence. A seed that fails once always fails.

pub mod actors;
pub mod dice;
pub mod fate;
pub mod faulty;
pub mod gates;
pub mod git;
mod landers;
pub mod oracle;
pub mod report;
pub mod run;
