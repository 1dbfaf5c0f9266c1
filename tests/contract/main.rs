#[path = "../support/mod.rs"]
mod support;

mod answers;
mod kit;

mod bad_input;
mod bad_store;
mod cli_reference;
mod disk_full;
mod fencing;
mod holders;
mod read_only;
mod refusals;
mod schema;
mod smoke;
