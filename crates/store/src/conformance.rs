//! The conformance suite: what every store must do, as functions over any store. Each case gets a store with
//! a fresh project and panics if a promise is broken; [`cases`] lists them all, so that no back end can leave
//! one out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a case that cannot go on fails"
)]

mod graph;
mod landing;
mod leases;
mod ledger;
pub mod proxy;
mod scopes;
pub mod scribe;
mod seats;
pub mod server;
mod tasks;
mod watching;
mod work;

use crate::Store;

/// One promise, and the function that tries to break it.
pub type Case<S> = (&'static str, fn(&mut S));

/// Every case. A back end's test runs each on a store of its own.
pub fn cases<S: Store>() -> Vec<Case<S>> {
    let mut all = tasks::cases();
    all.extend(graph::cases());
    all.extend(landing::cases());
    all.extend(leases::cases());
    all.extend(scopes::cases());
    all.extend(seats::cases());
    all.extend(ledger::cases());
    all.extend(watching::cases());
    all.extend(work::cases());
    all
}
