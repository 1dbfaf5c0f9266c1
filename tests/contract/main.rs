#[path = "../support/mod.rs"]
mod support;

mod kit;

mod bad_input;
mod bad_store;
mod disk_full;
mod fencing;
mod holders;
mod read_only;
mod refusals;
mod smoke;
