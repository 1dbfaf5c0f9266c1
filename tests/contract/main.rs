#[path = "../support/mod.rs"]
mod support;

mod kit;

mod fencing;
mod holders;
mod refusals;
mod smoke;
