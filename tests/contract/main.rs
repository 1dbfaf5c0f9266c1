#[path = "../support/mod.rs"]
mod support;

mod smoke;
