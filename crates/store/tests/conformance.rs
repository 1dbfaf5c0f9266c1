//! Every store runs the conformance suite, each case on a store of its own: SQLite in a file, SQLite in memory, and a
//! PostgreSQL server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::time::Duration;

use onus_store::conformance::{self, server::Server};
use onus_store::{SqliteStore, Store};

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

/// Runs each case on a store of its own; all that fail are named.
fn conforms<S: Store, Keep>(name: &str, mut fresh: impl FnMut() -> (S, Keep)) {
    let cases = conformance::cases::<S>();
    assert!(cases.len() >= 30, "only {} cases", cases.len());
    let mut broken = Vec::new();
    for (promise, case) in cases {
        let (mut store, _keep) = fresh();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            case(&mut store);
            let rebuilt = store.rebuild(&mut |_| {}).unwrap();
            assert!(rebuilt.changed.is_empty(), "a rebuild changed {:?}", rebuilt.changed);
        }));
        if outcome.is_err() {
            broken.push(promise);
        }
    }
    assert!(broken.is_empty(), "{name} does not keep these promises: {broken:#?}");
}

#[test]
fn sqlite_conforms() {
    conforms("SQLite", || {
        let folder = tempfile::tempdir().unwrap();
        (fresh(folder.path()), folder)
    });
}

/// A file system that is memory: the same code, and not a single sync that could hide an order that is wrong.
#[test]
fn sqlite_in_memory_conforms() {
    let memory = std::path::Path::new("/dev/shm");
    if !memory.is_dir() {
        panic!("there is no memory to keep files in: /dev/shm is missing");
    }
    conforms("SQLite in memory", || {
        let folder = tempfile::tempdir_in(memory).unwrap();
        (fresh(folder.path()), folder)
    });
}

#[test]
fn postgres_conforms() {
    conforms("PostgreSQL", || (Server::shared().project(), ()));
}
