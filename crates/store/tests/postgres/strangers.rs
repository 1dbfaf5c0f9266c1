//! Roles that may connect but are not the store's: what they can do to its followers and writers, and how
//! that is reported.

use std::time::Duration;

use onus_store::conformance::scribe::{commit, look, uid};
use onus_store::conformance::server::{Server, fresh_name, parsed};
use onus_store::{Address, EventQuery, PostgresStore, Store as _, StoreError};

use super::{add, titles, two_in};

/// The last part of an address: which database.
fn name_of(database: &str) -> &str {
    database.rsplit('/').next().unwrap().split('?').next().unwrap()
}

fn make_role(words: &str) {
    let mut owner = Server::shared().client().unwrap();
    let made = format!("DO $$ BEGIN CREATE ROLE {words}; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
    owner.batch_execute(&made).unwrap();
}

/// A database that the role `mallory` may connect to, and its session there.
fn with_mallory() -> (String, postgres::Client) {
    let server = Server::shared();
    let database = server.database();
    make_role("mallory LOGIN");
    let mut owner = postgres::Client::connect(&database, postgres::NoTls).unwrap();
    owner.batch_execute(&format!("GRANT CONNECT ON DATABASE {} TO mallory", name_of(&database))).unwrap();
    let address = format!("{}&application_name=meddling", server.address_of("mallory", name_of(&database)));
    let mallory = postgres::Client::connect(&address, postgres::NoTls).unwrap();
    (database, mallory)
}

/// The lowest mark that a writer could leave.
const LOWEST_MARK: &str = "(28526::bigint << 48) | 1";

fn settled(store: &mut PostgresStore) -> usize {
    titles(store, &EventQuery { limit: 100, settled: true, ..EventQuery::default() }).len()
}

#[test]
fn a_strangers_mark_silences_no_follower() {
    let (database, mut mallory) = with_mallory();
    let (mut one, mut two) = two_in(&database);
    mallory.batch_execute(&format!("SELECT pg_advisory_lock_shared({LOWEST_MARK})")).unwrap();
    let mut watch = two.watch().unwrap();
    add(&mut one, 1);
    assert_eq!(settled(&mut two), 1, "a follower sees it");
    let soon = Some(std::time::Instant::now() + Duration::from_secs(10));
    assert_eq!(watch.wait(soon, &[]).unwrap(), onus_store::Woken::Committed);
}

/// A role that can become one that may write is a writer, however it got there.
#[test]
fn a_writers_mark_counts_whatever_its_role_is_called() {
    let (database, _) = with_mallory();
    let (mut one, _) = two_in(&database);
    add(&mut one, 1);
    make_role("onus_app LOGIN");
    PostgresStore::migrate(&parsed(&database)).unwrap();
    for (role, words) in [
        ("member", "member LOGIN IN ROLE onus_app"),
        ("later_member", "later_member LOGIN NOINHERIT IN ROLE onus_app"),
        ("writes_all", "writes_all LOGIN IN ROLE pg_write_all_data"),
        ("granted", "granted LOGIN"),
        ("superior", "superior LOGIN SUPERUSER"),
    ] {
        make_role(words);
        let mut owner = postgres::Client::connect(&database, postgres::NoTls).unwrap();
        owner.batch_execute(&format!("GRANT CONNECT ON DATABASE {} TO {role}", name_of(&database))).unwrap();
        if role == "granted" {
            owner.batch_execute("GRANT INSERT (project) ON onus.event TO granted").unwrap();
        }
        let address = Server::shared().address_of(role, name_of(&database));
        let mut session = postgres::Client::connect(&address, postgres::NoTls).unwrap();
        session.batch_execute(&format!("SELECT pg_advisory_lock_shared({LOWEST_MARK})")).unwrap();
        assert_eq!(settled(&mut one), 0, "{role} may be about to add an event");
        drop(session);
        onus_store::conformance::server::eventually("it is seen again", || settled(&mut one) == 1);
    }
}

/// Only the right to connect can prevent a stranger from blocking writers. The stranger is named.
#[test]
fn a_session_that_is_in_the_way_is_named() {
    let (database, mut mallory) = with_mallory();
    let name = fresh_name();
    let mut store = Server::shared().project_in(&database, &name);
    add(&mut store, 1);
    let mut owner = postgres::Client::connect(&database, postgres::NoTls).unwrap();
    let project: uuid::Uuid = look(&mut store, |read| read.project()).uid.0;
    // The number of the lock that every write shares is found at run time: it is what a write holds besides
    // its mark.
    let mut other = PostgresStore::open(&parsed(&database), &name, Duration::from_secs(10)).unwrap();
    let mut keys = Vec::new();
    commit(&mut other, |write| {
        write.count_events()?;
        let held = "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory' \
            AND classid::bigint >> 16 <> 28526 \
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        keys = owner.query(held, &[]).unwrap().iter().map(|row| row.get::<_, i64>(0)).collect();
        Ok(())
    });
    assert_eq!(keys.len(), 1, "{project}");
    mallory.batch_execute(&format!("SELECT pg_advisory_lock({})", keys[0])).unwrap();
    let pid: i32 = mallory.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
    let wait = Duration::from_millis(300);
    let address = Address::parse(&database, None, wait).unwrap();
    let mut hasty = PostgresStore::open(&address, &name, wait).unwrap();
    let refused = hasty.write(|write| write.count_events());
    let Err(StoreError::Blocked { by, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((by.pid, by.role.as_deref(), by.program.as_deref()), (pid, Some("mallory"), Some("meddling")));
    let told = onus_core::refusal::Refusal::from(StoreError::Blocked { by, waited: wait });
    assert_eq!(told.exit_code(), 8);
    assert!(told.message.contains(&format!("session {pid} of the role 'mallory' ('meddling')")), "{told:?}");
    drop(mallory);
    onus_store::conformance::server::eventually("it is free", || {
        hasty.write(|write| write.count_events()).is_ok()
    });
    assert!(look(&mut store, |read| read.task(uid(1, 1))).is_some());
}

#[test]
fn a_database_of_our_own_is_closed_to_strangers_and_one_of_others_is_left() {
    let server = Server::shared();
    make_role("mallory LOGIN");
    let may_connect = |database: &str| {
        postgres::Client::connect(&server.address_of("mallory", database), postgres::NoTls).is_ok()
    };
    let own = server.database();
    assert!(!may_connect(name_of(&own)), "the tables' making closed it");
    let access = |database: &str| {
        let mut store = server.project_in(database, &fresh_name());
        store.check().unwrap().into_iter().find(|finding| finding.name == onus_store::ACCESS).unwrap()
    };
    assert!(access(&own).ok);
    // Somebody opens it again: that is reported, with the statements that close it, and they do.
    let mut owner = postgres::Client::connect(&own, postgres::NoTls).unwrap();
    owner.batch_execute(&format!("GRANT CONNECT ON DATABASE {} TO PUBLIC", name_of(&own))).unwrap();
    let finding = access(&own);
    assert!(!finding.ok && may_connect(name_of(&own)), "{finding:?}");
    assert!(
        PostgresStore::migrate(&parsed(&own)).unwrap().is_open,
        "what somebody opened stays open, and is said"
    );
    make_role("onus_app LOGIN");
    owner.batch_execute(finding.detail.split("change that: ").nth(1).unwrap()).unwrap();
    assert!(access(&own).ok && !may_connect(name_of(&own)));
    // A database that another application uses is not closed behind its back.
    let shared = format!("shared_{}", std::process::id());
    server.client().unwrap().batch_execute(&format!("CREATE DATABASE {shared}")).unwrap();
    let address = server.address_of("onus_owner", &shared);
    let mut other = postgres::Client::connect(&address, postgres::NoTls).unwrap();
    other.batch_execute("CREATE TABLE public.theirs (id int)").unwrap();
    assert!(PostgresStore::migrate(&parsed(&address)).unwrap().is_open);
    assert!(may_connect(&shared) && !access(&address).ok);
}
