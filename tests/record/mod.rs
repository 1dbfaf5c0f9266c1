#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod anchoring;
mod backup;
mod book;
mod doctor;
mod hours;
mod independent;
mod log;
mod reasons;
mod rebuild;
mod redaction;
mod seals;
mod secrets;
mod tampering;
