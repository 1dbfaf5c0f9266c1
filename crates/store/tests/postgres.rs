//! What only a server can get wrong: projects beside one another, roles, the order of events, waiting, a commit whose
//! answer is lost, copies.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::io::Write as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use onus_core::task::Facts;
use onus_store::conformance::proxy::{Cut, Proxy, is_commit};
use onus_store::conformance::scribe::{append_note, claim, commit, create, look, uid};
use onus_store::conformance::server::{Server, eventually, fresh_name, parsed};
use onus_store::{
    Access, AnyStore, EventQuery, Filter, PostgresPool, PostgresStore, SqliteStore, Store, StoreError, Woken,
    copy,
};

const WAIT: Duration = Duration::from_secs(10);

/// A project, and another connection to it.
fn two() -> (PostgresStore, PostgresStore) {
    let (server, name) = (Server::shared(), fresh_name());
    let first = server.project_in(server.shared_database(), &name);
    let second = PostgresStore::open(&parsed(server.shared_database()), &name, WAIT).unwrap();
    (first, second)
}

fn add<S: Store>(store: &mut S, n: u32) {
    commit(store, |write| create(write, uid(n, n), &format!("task {n}"), Facts::default()));
}

fn titles<S: Store>(store: &mut S, query: &EventQuery) -> Vec<String> {
    look(store, |read| read.events(query)).into_iter().filter_map(|record| record.task).collect()
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
    assert_eq!(look(&mut one, |read| read.search(&["task".into()], 10)), [uid(1, 1)]);
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
    // Each has its own numbers, and mends only itself.
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
    assert_eq!(PostgresStore::migrate(&parsed(&database)).unwrap(), (1, 1), "a second time changes nothing");
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
            written.send(()).unwrap();
            gone.recv().unwrap();
            Ok(())
        });
    });
    is_written.recv().unwrap();
    (go, worker)
}

#[test]
fn a_follower_skips_no_event_that_is_committed_late() {
    let (mut one, slow) = two();
    for n in 1..=3 {
        add(&mut one, n);
    }
    let mut followed = Vec::new();
    let mut after_seq = 0;
    let mut follow = |store: &mut PostgresStore| {
        let query = EventQuery { after_seq, settled: true, limit: 100, ..EventQuery::default() };
        for record in look(store, |read| read.events(&query)) {
            assert!(record.seq > after_seq);
            after_seq = record.seq;
            followed.extend(record.task.map(|task| (task, record.version)));
        }
        followed.clone()
    };
    let name = |n: u32| uid(n, n).to_string();
    // Other tests' transactions are at work on the same server: settled comes soon, not at once.
    eventually("the first three are settled", || follow(&mut one).len() == 3);
    let (go, worker) = held_open(slow, 1);
    commit(&mut one, |write| append_note(write, uid(2, 2)));
    thread::sleep(Duration::from_millis(200));
    assert_eq!(follow(&mut one).len(), 3, "another may still come before it");
    let plain = EventQuery { newest: true, limit: 1, ..EventQuery::default() };
    assert_eq!(titles(&mut one, &plain), [name(2)], "who does not follow sees it at once");
    go.send(()).unwrap();
    worker.join().unwrap();
    eventually("both are settled", || follow(&mut one).len() == 5);
    assert_eq!(follow(&mut one)[3..], [(name(1), 2), (name(2), 2)], "in the order of their numbers");
}

#[test]
fn a_watch_tells_of_a_commit_that_comes_after_one_with_a_higher_number() {
    let (mut one, slow) = two();
    for n in 1..=2 {
        add(&mut one, n);
    }
    let mut watch = one.watch().unwrap();
    let mut wait =
        |patience: u64| watch.wait(Some(Instant::now() + Duration::from_millis(patience)), &[]).unwrap();
    let (go, worker) = held_open(slow, 1);
    commit(&mut one, |write| append_note(write, uid(2, 2)));
    assert_eq!(wait(10_000), Woken::Committed);
    assert_eq!(wait(100), Woken::TimeOver);
    go.send(()).unwrap();
    worker.join().unwrap();
    assert_eq!(wait(10_000), Woken::Committed);
    assert_eq!(wait(100), Woken::TimeOver);
}

#[test]
fn a_watch_hears_at_once_and_survives_the_loss_of_its_connection() {
    let (mut one, mut two) = two();
    let mut watch = one.watch().unwrap();
    let began = Instant::now();
    let writer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        add(&mut two, 1);
        two
    });
    assert_eq!(watch.wait(Some(Instant::now() + WAIT), &[]).unwrap(), Woken::Committed);
    assert!(began.elapsed() < Duration::from_secs(3), "it was told, and did not find it by chance");
    let mut two = writer.join().unwrap();
    // Every listener loses its connection, and something is committed meanwhile.
    let mut client = postgres::Client::connect(Server::shared().shared_database(), postgres::NoTls).unwrap();
    let ended = client
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid) \
             WHERE locktype = 'advisory' AND mode = 'ShareLock' AND state = 'idle'",
            &[],
        )
        .unwrap();
    assert!(ended > 0);
    add(&mut two, 2);
    assert_eq!(watch.wait(Some(Instant::now() + WAIT), &[]).unwrap(), Woken::Committed);
    // Something else that is waited for ends the wait, too.
    let (mine, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
    other.write_all(b"x").unwrap();
    let also = [std::os::fd::AsFd::as_fd(&mine)];
    assert_eq!(watch.wait(Some(Instant::now() + WAIT), &also).unwrap(), Woken::Other);
}

#[test]
fn a_commit_whose_answer_is_lost_is_applied_once_or_reported() {
    let server = Server::shared();
    // What becomes of the next commit.
    let next = Arc::new(Mutex::new(Cut::Not));
    let judged = Arc::clone(&next);
    let proxy = Proxy::start(server.port, move |message| match is_commit(message) {
        true => std::mem::replace(&mut *judged.lock().unwrap(), Cut::Not),
        false => Cut::Not,
    });
    let name = fresh_name();
    let mut direct = server.project_in(server.shared_database(), &name);
    add(&mut direct, 1);
    let address = server.shared_database().replace(&server.port.to_string(), &proxy.port.to_string());
    let wait = Duration::from_secs(1);
    let address = onus_store::Address::parse(&address, None, wait).unwrap();
    let mut store = PostgresStore::open(&address, &name, wait).unwrap();
    let mut runs = 0;
    let arrives = Cut::After(Duration::from_millis(200));
    let mut note = |store: &mut PostgresStore, cut: Cut| {
        *next.lock().unwrap() = cut;
        store.write(|write| {
            runs += 1;
            append_note(write, uid(1, 1))
        })?;
        Ok::<u32, StoreError>(runs)
    };
    assert_eq!(note(&mut store, Cut::Not).unwrap(), 1);
    // The server has committed: that is found out, and nothing is done again.
    assert_eq!(note(&mut store, arrives).unwrap(), 2);
    // The commit never arrived: it is run again.
    assert_eq!(note(&mut store, Cut::Before(Duration::ZERO)).unwrap(), 4);
    let version = |store: &mut PostgresStore| look(store, |read| read.task(uid(1, 1))).unwrap().version.0;
    assert_eq!(version(&mut direct), 4, "three notes, each once");
    // Nobody can be asked: that is said.
    proxy.refuses.store(true, Ordering::SeqCst);
    assert!(matches!(note(&mut store, arrives), Err(StoreError::Unknown(_))));
    proxy.refuses.store(false, Ordering::SeqCst);
    assert_eq!(version(&mut direct), 5);
    // And the next command finds its way back.
    note(&mut store, Cut::Not).unwrap();
    assert_eq!(version(&mut direct), 6);
}

#[test]
fn a_number_that_a_crashed_server_gave_to_another_transaction_vouches_for_nobody() {
    // Nothing but a commit brings the log to the disk.
    let server = Server::start_with("wal_writer_delay = 10s\nautovacuum = off\n");
    let mut store = server.project_in(&server.database(), &fresh_name());
    add(&mut store, 1);
    let number = || -> i64 {
        let row = server.client().unwrap().query_one("SELECT pg_current_xact_id()::text", &[]).unwrap();
        row.get::<_, String>(0).parse().unwrap()
    };
    let (before, mut runs) = (number(), 0);
    let answer = store.write(|write| {
        runs += 1;
        append_note(write, uid(1, 1))?;
        if runs == 1 {
            server.control(&["-w", "-m", "immediate", "restart"]);
            assert!(number() <= before + 1, "numbers are given out again");
            for _ in 0..5 {
                server.client().unwrap().batch_execute("CREATE TEMPORARY TABLE t ()").unwrap();
            }
        }
        Ok(())
    });
    answer.unwrap();
    let version = look(&mut store, |read| read.task(uid(1, 1))).unwrap().version.0;
    assert_eq!((version, runs), (2, 2), "what was told was done");
}

#[test]
fn what_the_standby_does_not_have_is_not_acknowledged() {
    let server = Server::start();
    let standby = server.standby();
    server.set("synchronous_standby_names = 'standby'");
    server.control(&["reload"]);
    let (database, name) = (server.database(), fresh_name());
    let mut store = server.project_in(&database, &name);
    add(&mut store, 1);
    let mut direct = PostgresStore::open(&parsed(&database), &name, WAIT).unwrap();
    let waiting = |what: &str| {
        let sql = format!("SELECT {what} FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
        server.client().unwrap().query(&sql, &[]).unwrap().len()
    };
    let version = |store: &mut PostgresStore| look(store, |read| read.task(uid(1, 1))).unwrap().version.0;
    standby.control(&["-w", "-m", "immediate", "stop"]);
    thread::scope(|scope| {
        let writer = scope.spawn(|| store.write(|write| append_note(write, uid(1, 1))));
        // Here it is committed, and who waits for the standby is ended: its client asks what became of it.
        eventually("the commit waits for the standby", || waiting("pg_terminate_backend(pid)") == 1);
        eventually("it can be seen here", || version(&mut direct) == 2);
        eventually("its client waits for the standby", || waiting("pid") == 1 || writer.is_finished());
        // So does who changes nothing, and tells what it found: as by a key.
        let finder = scope.spawn(|| direct.write(|write| write.task(uid(1, 1))));
        eventually("who found it waits, too", || waiting("pid") == 2 || finder.is_finished());
        let is_told = writer.is_finished() || finder.is_finished();
        standby.control(&["-w", "start"]);
        writer.join().unwrap().unwrap();
        assert_eq!(finder.join().unwrap().unwrap().unwrap().version.0, 2);
        assert!(!is_told, "it was told before the standby had it");
    });
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

#[test]
fn a_pool_lends_each_connection_to_one_at_a_time() {
    let (server, name) = (Server::shared(), fresh_name());
    drop(server.project_in(server.shared_database(), &name));
    let wait = Duration::from_millis(200);
    let pool = PostgresPool::new(parsed(server.shared_database()), &name, wait, 2);
    let (mut first, second) = (pool.get().unwrap(), pool.get().unwrap());
    assert!(matches!(pool.get(), Err(StoreError::Busy { .. })));
    add(&mut first, 1);
    drop(second);
    let mut third = pool.get().unwrap();
    assert!(look(&mut third, |read| read.task(uid(1, 1))).is_some());
}

#[test]
fn a_copy_there_and_back_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (actor, instance) = ("human:founder".parse().unwrap(), "person".parse().unwrap());
    let (prefix, path) = ("ON".parse().unwrap(), folder.path().join("onus.db"));
    let project = uid(0x0190_0000, u32::from(std::process::id() as u16));
    let mut file =
        SqliteStore::create(&path, &prefix, project, uid(9, 9), (&actor, &instance), WAIT).unwrap();
    for n in 1..=700 {
        add(&mut file, n);
    }
    commit(&mut file, |write| {
        append_note(write, uid(3, 3))?;
        claim(write, uid(4, 4), ("h", "1"), Some(60_000))
    });
    let live = copy::live_leases(&mut file, &|_| onus_core::lease::Seen::Unseen).unwrap();
    assert_eq!(live, [("ON-4".to_owned(), "agent:h".to_owned())]);
    let (server, name) = (Server::shared(), fresh_name());
    let address = parsed(server.shared_database());
    let row = look(&mut file, |read| read.project());
    // Interrupted after the first page: it goes on from there.
    let mut target = PostgresStore::begin_copy(&address, &name, &row, WAIT).unwrap();
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        copy::copy(&mut file, &mut target, &mut |_| panic!("interrupted"))
    }));
    assert!(stopped.is_err());
    assert!(matches!(PostgresStore::open(&address, &name, WAIT), Err(StoreError::NoProject { .. })));
    let mut target = PostgresStore::begin_copy(&address, &name, &row, WAIT).unwrap();
    assert_eq!(look(&mut target, |read| read.count_events()), 500);
    let copied = copy::copy(&mut file, &mut target, &mut |_| {}).unwrap();
    assert_eq!((copied.events, copied.tasks), (703, 700));
    target.finish_copy(&name).unwrap();
    assert!(matches!(PostgresStore::begin_copy(&address, &name, &row, WAIT), Err(StoreError::Exists(_))));
    let mut there = AnyStore::from(PostgresStore::open(&address, &name, WAIT).unwrap());
    let back = folder.path().join("back.db");
    let mut target = SqliteStore::begin_copy(&back, project, WAIT).unwrap();
    copy::copy(&mut there, &mut target, &mut |_| {}).unwrap();
    drop(target);
    SqliteStore::finish_copy(&back).unwrap();
    let mut back = SqliteStore::open(&back, Access::Write, WAIT).unwrap();
    for n in [1, 3, 4, 700] {
        let (old, new) =
            (look(&mut file, |read| read.task(uid(n, n))), look(&mut back, |read| read.task(uid(n, n))));
        assert_eq!(old, new);
    }
    let lease = |store: &mut SqliteStore| {
        look(store, |read| read.lease(uid(4, 4), onus_core::ids::Token(1))).unwrap()
    };
    assert_eq!(lease(&mut file), lease(&mut back));
    assert_eq!(look(&mut back, |read| read.search(&["task".into(), "700".into()], 10)), [uid(700, 700)]);
}
