//! A world in which onus has to keep its promises, and a judge that does not ask onus whether it did.
//!
//! **What is real:** the engine, its rules, the SQLite store with its file, its log and its locks. Several handles are open on
//! one file, and every request goes through one of them.
//!
//! **What is virtual:** time (a monotonic tick, a wall clock that is stepped, suspends, reboots), processes (pids die and are
//! given to others; one handle sits in a pid namespace from which nothing can be seen), and the network between the actors
//! and the store: requests are delayed, overtaken, delivered twice under one key, and answers are lost; and git, as the few
//! references that landings go by ([`Git`](git::Git)).
//!
//! **Who acts:** people, agents with several instances and sub-agents, CI; new instances are born all the time, and those
//! that lost a task keep its token and go on using it. [`Actors`](actors::Actors) chooses, [`FaultyStore`](faulty::FaultyStore)
//! fails, [`Oracle`](oracle::Oracle) judges.
//!
//! **One seed, one history.** Everything that is random comes from one [`Dice`](dice::Dice); no clock, no thread and no hash
//! map's order gets in. A seed that fails fails again.

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
