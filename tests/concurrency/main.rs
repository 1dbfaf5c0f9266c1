#[path = "../support/mod.rs"]
mod support;
