#[path = "../support/mod.rs"]
mod support;

mod kit;

mod bad_input;
mod bad_store;
mod fencing;
mod holders;
mod refusals;
mod smoke;
