//! Every target over its corpus and some thousand mutations of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::PathBuf;
use std::time::Duration;

use onus_core::policy::Policy;
use onus_engine::Engine;
use onus_fuzz::{run, targets};
use onus_store::{Filter, SqliteStore};

fn corpus(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

/// More by `FUZZ_EXECS=1000000 cargo test --profile sim -p onus-fuzz`.
fn execs() -> u64 {
    std::env::var("FUZZ_EXECS").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

#[test]
fn references_mean_the_same_when_written_again() {
    run(&corpus("reference"), execs(), targets::reference);
}

#[test]
fn durations_are_bounded() {
    run(&corpus("duration"), execs(), targets::duration);
}

#[test]
fn names_and_origins_are_kept_as_written() {
    run(&corpus("name"), execs(), targets::name);
}

#[test]
fn globs_meet_where_a_naive_matcher_says_so() {
    run(&corpus("glob"), execs() / 4, targets::glob);
}

#[test]
fn hook_payloads_are_read_or_left_alone() {
    run(&corpus("hook"), execs(), targets::hook);
}

#[test]
fn cursors_are_understood_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let by = ("human:a".parse().unwrap(), "person".parse().unwrap());
    let uid = |n| onus_core::ids::Uid(uuid::Uuid::from_u128(n));
    let (file, prefix) = (folder.path().join("onus.db"), "ON".parse().unwrap());
    let store =
        SqliteStore::create(&file, &prefix, uid(1), uid(2), (&by.0, &by.1), Duration::from_secs(9)).unwrap();
    let engine = std::cell::RefCell::new(Engine::new(store, Policy::default()));
    run(&corpus("cursor"), execs() / 20, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let listed = engine.borrow_mut().list(None, &Filter::default(), Some(&text), 10);
        match listed {
            Ok(page) => assert!(page.value.tasks.is_empty()),
            Err(refusal) => assert_eq!(refusal.exit_code(), 2, "{}", refusal.message),
        }
    });
}
