//! A task that was removed from a server with all its rows is missed by its number (P6). The tests of the
//! binary do the same for a file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use crate::world::{claim, new_task, on, who};
use onus_core::command::Act;
use onus_core::refusal::{Code, Refusal};
use onus_engine::Engine;
use onus_store::conformance::server::Server;

/// As if it had never been.
fn remove(client: &mut postgres::Client, uid: &str) {
    client.batch_execute("SET session_replication_role = replica").unwrap();
    for (table, column) in [
        ("dep", "task"),
        ("dep", "needs"),
        ("scope", "task"),
        ("lease", "task"),
        ("request", "task"),
        ("text", "stream"),
        ("event", "stream"),
        ("task", "uid"),
    ] {
        client.execute(&format!("DELETE FROM onus.{table} WHERE {column} = $1"), &[&uid]).unwrap();
    }
}

#[test]
fn a_whole_task_that_was_removed_is_missed_by_its_number() {
    for removed in 1..=4 {
        let server = Server::shared();
        let mut engine = Engine::new(server.project(), crate::world::policy());
        let mut run = |command| {
            engine.run(&onus_engine::Request { identity: who("human:ann", ""), command, key: None })
        };
        for title in ["one", "two", "three", "four"] {
            run(new_task(title)).unwrap();
        }
        // What is refused takes no number.
        run(on("9", claim())).unwrap_err();
        run(on("2", claim())).unwrap();
        run(on("2", Act::note("a word"))).unwrap();
        engine.verify(&[], &mut |_| {}).unwrap();
        let id = format!("ON-{removed}");
        let uid = engine.show(None, Some(&id.parse().unwrap())).unwrap().value.uid;
        let mut client = postgres::Client::connect(server.shared_database(), postgres::NoTls).unwrap();
        remove(&mut client, &uid);
        let Refusal { code, task, version, .. } = engine.verify(&[], &mut |_| {}).expect_err("it is missing");
        assert_eq!((code, task, version), (Code::Tampered, Some(id), Some(1)));
    }
}
