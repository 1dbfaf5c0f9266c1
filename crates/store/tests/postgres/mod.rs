//! What only a server can get wrong: several projects, roles, the order of events, waiting, a commit whose
//! answer is lost, copies.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod beside;
mod copies;
mod events;
mod outcome;
mod strangers;

use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use onus_core::event::{Body, Draft};
use onus_core::ids::Token;
use onus_core::task::Facts;
use onus_store::conformance::scribe::{append, append_note, claim, commit, create, end, look, uid};
use onus_store::conformance::server::{Server, eventually, fresh_name, parsed};
use onus_store::{EventQuery, Filter, PostgresStore, Store, StoreError};

const WAIT: Duration = Duration::from_secs(10);

/// A project, and another connection to it.
fn two() -> (PostgresStore, PostgresStore) {
    two_in(Server::shared().shared_database())
}

fn two_in(database: &str) -> (PostgresStore, PostgresStore) {
    let name = fresh_name();
    let first = Server::shared().project_in(database, &name);
    let second = PostgresStore::open(&parsed(database), &name, WAIT).unwrap();
    (first, second)
}

fn add<S: Store>(store: &mut S, n: u32) {
    commit(store, |write| create(write, uid(n, n), &format!("task {n}"), Facts::default()));
}

fn titles<S: Store>(store: &mut S, query: &EventQuery) -> Vec<String> {
    look(store, |read| read.events(query)).into_iter().filter_map(|record| record.task).collect()
}

/// All find the name free, and then one of them has it: to the others that is no failure of the server.
#[test]
fn of_those_who_create_one_project_at_once_one_does_and_the_others_are_told_that_it_exists() {
    let database = Server::shared().shared_database();
    for round in 0..4 {
        let (name, start) = (fresh_name(), Barrier::new(6));
        let created: Vec<_> = thread::scope(|scope| {
            let create = |n: u32| {
                let (actor, instance) = ("human:founder".parse().unwrap(), "person".parse().unwrap());
                let (prefix, uids) = ("ON".parse().unwrap(), (uid(900 + n, round), uid(950 + n, round)));
                start.wait();
                PostgresStore::create(&parsed(database), &name, &prefix, uids, (&actor, &instance), WAIT)
            };
            let all: Vec<_> = (0..6).map(|n| scope.spawn(move || create(n))).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(created.iter().filter(|one| one.is_ok()).count(), 1);
        let refused: Vec<_> = created.into_iter().filter_map(Result::err).collect();
        assert!(refused.iter().all(|error| matches!(error, StoreError::Exists(_))), "{refused:?}");
    }
}

#[test]
fn a_project_never_sees_anothers_rows() {
    let server = Server::shared();
    let (mut one, mut two) = (server.project(), server.project());
    add(&mut one, 1);
    add(&mut two, 2);
    commit(&mut two, |write| claim(write, uid(2, 2), ("h", "1"), None));
    assert!(look(&mut one, |read| read.task(uid(2, 2))).is_none());
    assert!(look(&mut one, |read| read.resolve(&uid(2, 2).to_string().parse().unwrap())).is_empty());
    assert_eq!(look(&mut one, |read| read.list(&Filter::default(), None, 10)).len(), 1);
    for with_ad_hoc in [false, true] {
        assert_eq!(look(&mut one, |read| read.search(&["task".into()], with_ad_hoc, 10)), [uid(1, 1)]);
    }
    assert!(look(&mut one, |read| read.open_leases(10)).is_empty());
    assert_eq!(look(&mut one, |read| read.count_events()), 2);
    assert_eq!(titles(&mut one, &EventQuery { limit: 10, ..EventQuery::default() }), [uid(1, 1).to_string()]);
    assert_eq!(look(&mut one, |read| read.ledger_page(None, 10)).len(), 2);
    let mut heads = 0;
    look(&mut one, |read| {
        read.walk_heads(&mut |_| {
            heads += 1;
            Ok(())
        })
    });
    assert_eq!(heads, 2);
    // Each has its own numbers, and repairs only itself.
    assert_eq!(look(&mut two, |read| read.task(uid(2, 2))).unwrap().number.0, 1);
    assert!(one.rebuild(&mut |_| {}).unwrap().changed.is_empty());
    assert!(two.rebuild(&mut |_| {}).unwrap().changed.is_empty());
}

#[test]
fn the_working_role_is_enough_for_all_but_the_tables() {
    let server = Server::shared();
    let owner = server.address_of("onus_owner", "postgres");
    let mut client = postgres::Client::connect(&owner, postgres::NoTls).unwrap();
    client
        .batch_execute(
            "DO $$ BEGIN CREATE ROLE onus_app LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        )
        .unwrap();
    let database = server.database();
    let name = database.rsplit('/').next().unwrap().split('?').next().unwrap();
    let app = server.address_of("onus_app", name);
    for (promise, case) in onus_store::conformance::cases::<PostgresStore>() {
        let mut store = server.project_in(&app, &fresh_name());
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            case(&mut store);
            assert!(store.rebuild(&mut |_| {}).unwrap().changed.is_empty());
        }));
        assert!(outcome.is_ok(), "the working role cannot keep this promise: {promise}");
    }
    let mut client = postgres::Client::connect(&app, postgres::NoTls).unwrap();
    for forbidden in [
        "CREATE TABLE onus.mine (id int)",
        "ALTER TABLE onus.task ADD COLUMN mine int",
        "DROP TABLE onus.task",
        "UPDATE onus.event SET hash = ''",
        "DELETE FROM onus.event",
        "TRUNCATE onus.text",
        "UPDATE onus.format SET version = 0",
    ] {
        let error = client.batch_execute(forbidden).expect_err(forbidden);
        assert_eq!(error.code(), Some(&postgres::error::SqlState::INSUFFICIENT_PRIVILEGE), "{forbidden}");
    }
    let empty = server.address_of("onus_app", "postgres");
    assert!(PostgresStore::migrate(&parsed(&empty)).is_err(), "only an owner makes tables");
    let again = PostgresStore::migrate(&parsed(&database)).unwrap();
    assert_eq!((again.found, again.schema), (1, 1), "a second time changes nothing");
}

#[test]
fn a_newer_schema_is_refused() {
    let server = Server::shared();
    let database = server.database();
    let (name, address) = (fresh_name(), parsed(&database));
    drop(server.project_in(&database, &name));
    let mut client = postgres::Client::connect(&database, postgres::NoTls).unwrap();
    client.batch_execute("UPDATE onus.format SET version = 99").unwrap();
    assert!(matches!(PostgresStore::open(&address, &name, WAIT), Err(StoreError::Newer { found: 99, .. })));
    assert!(matches!(PostgresStore::migrate(&address), Err(StoreError::Newer { found: 99, .. })));
    client.batch_execute("UPDATE onus.format SET version = 0").unwrap();
    assert!(matches!(PostgresStore::open(&address, &name, WAIT), Err(StoreError::Older { found: 0, .. })));
    client.batch_execute("DROP SCHEMA onus CASCADE").unwrap();
    assert!(matches!(PostgresStore::open(&address, &name, WAIT), Err(StoreError::Missing(_))));
}

/// A transaction that has written its event and is kept open.
fn held_open(mut store: PostgresStore, n: u32) -> (mpsc::Sender<()>, thread::JoinHandle<()>) {
    let (written, is_written) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let worker = thread::spawn(move || {
        commit(&mut store, |write| {
            append_note(write, uid(n, n))?;
            // Whatever is queried next, the event is sent before it.
            write.count_events()?;
            written.send(()).unwrap();
            gone.recv().unwrap();
            Ok(())
        });
    });
    is_written.recv().unwrap();
    (go, worker)
}

#[test]
fn a_lock_is_waited_for_as_long_as_was_said() {
    let (mut one, slow) = two();
    add(&mut one, 1);
    let (go, worker) = held_open(slow, 1);
    let (server, project) = (Server::shared(), look(&mut one, |read| read.project()).uid);
    let mut client = postgres::Client::connect(server.shared_database(), postgres::NoTls).unwrap();
    let name: String =
        client.query_one("SELECT name FROM onus.project WHERE project = $1", &[&project.0]).unwrap().get(0);
    let wait = Duration::from_millis(300);
    let address = onus_store::Address::parse(server.shared_database(), None, wait).unwrap();
    let mut hasty = PostgresStore::open(&address, &name, wait).unwrap();
    let began = Instant::now();
    let refused = hasty.write(|write| append_note(write, uid(1, 1)));
    assert!(matches!(refused, Err(StoreError::Busy { .. })), "{refused:?}");
    assert!(began.elapsed() >= wait && began.elapsed() < Duration::from_secs(5));
    go.send(()).unwrap();
    worker.join().unwrap();
    hasty.write(|write| append_note(write, uid(1, 1))).unwrap();
}

/// Whatever a database's default is, what is read after waiting for a lock is what the transaction before has
/// committed.
#[test]
fn another_default_isolation_changes_nothing() {
    let database = Server::shared().database();
    let name = database.rsplit('/').next().unwrap().split('?').next().unwrap();
    let mut client = postgres::Client::connect(&database, postgres::NoTls).unwrap();
    client
        .batch_execute(&format!(
            "ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'; \
             ALTER DATABASE {name} SET default_transaction_read_only = on"
        ))
        .unwrap();
    let (mut one, mut two) = two_in(&database);
    add(&mut one, 1);
    let (locked, is_locked) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let first = thread::spawn(move || {
        commit(&mut one, |write| {
            write.lock_scopes()?;
            append_note(write, uid(1, 1))?;
            locked.send(()).unwrap();
            gone.recv().unwrap();
            Ok(())
        });
    });
    is_locked.recv().unwrap();
    let second = thread::spawn(move || {
        commit(&mut two, |write| {
            write.lock_scopes()?;
            write.count_events()
        })
    });
    eventually("the second waits", || {
        let waits = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        client.query_one(waits, &[]).unwrap().get::<_, i64>(0) == 1
    });
    go.send(()).unwrap();
    first.join().unwrap();
    assert_eq!(second.join().unwrap(), 3, "it sees what the first has committed");
}

/// A request that judged a lease by a row from before a renewal judges it again.
#[test]
fn a_lease_that_was_renewed_meanwhile_is_not_ended_by_what_was_seen_before() {
    let (mut store, _) = two();
    add(&mut store, 1);
    let token = commit(&mut store, |write| claim(write, uid(1, 1), ("h", "1"), Some(60_000)));
    commit(&mut store, |write| {
        let mut pulse = write.lease(uid(1, 1), Token(1))?.unwrap().pulse;
        pulse.renewals = end().renewals + 1;
        write.pulse(&[(uid(1, 1), Token(1), pulse)])
    });
    let mut runs = 0;
    commit(&mut store, |write| {
        runs += 1;
        let mut lease = end();
        lease.renewals += u64::from(runs > 1);
        append(write, uid(1, 1), Draft::new(Body::TaskDone { lease, awaits_landing: None }).token(token))
    });
    assert_eq!(runs, 2);
}

#[test]
fn a_connection_that_was_lost_while_nobody_spoke_is_made_again() {
    let database = Server::shared().database();
    let (mut one, mut two) = two_in(&database);
    let mut client = postgres::Client::connect(&database, postgres::NoTls).unwrap();
    for n in 1..=2 {
        let ended = client
            .execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()",
                &[],
            )
            .unwrap();
        assert_eq!(ended, 2);
        add(&mut one, n);
        assert!(look(&mut two, |read| read.task(uid(n, n))).is_some());
    }
}
