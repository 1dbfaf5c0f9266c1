#[path = "../support/mod.rs"]
mod support;

mod anchoring;
mod book;
mod independent;
mod seals;
mod tampering;
