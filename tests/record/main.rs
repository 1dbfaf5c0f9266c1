#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../support/mod.rs"]
mod support;

mod anchoring;
mod backup;
mod book;
mod doctor;
mod independent;
mod log;
mod rebuild;
mod redaction;
mod seals;
mod secrets;
mod tampering;
