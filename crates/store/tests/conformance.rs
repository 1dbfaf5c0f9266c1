//! SQLite runs the conformance suite, each case on a store of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::time::Duration;

use onus_store::{SqliteStore, Store, conformance};

fn fresh(folder: &std::path::Path) -> SqliteStore {
    let (actor, instance) = ("human:founder".parse().unwrap(), "person".parse().unwrap());
    let uid = "01900000-0000-7000-8000-000000000000".parse().unwrap();
    let event = "01900000-0000-7000-8000-000000000001".parse().unwrap();
    let path = folder.join("onus.db");
    SqliteStore::create(
        &path,
        &"ON".parse().unwrap(),
        uid,
        event,
        (&actor, &instance),
        Duration::from_secs(10),
    )
    .unwrap()
}

#[test]
fn sqlite_conforms() {
    let cases = conformance::cases::<SqliteStore>();
    assert!(cases.len() >= 30, "only {} cases", cases.len());
    for (promise, case) in cases {
        let folder = tempfile::tempdir().unwrap();
        let mut store = fresh(folder.path());
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&mut store)));
        assert!(outcome.is_ok(), "SQLite does not keep this promise: {promise}");
        let rebuilt = store.rebuild(&mut |_| {}).unwrap();
        assert!(rebuilt.changed.is_empty(), "after '{promise}' a rebuild changed {:?}", rebuilt.changed);
    }
}
