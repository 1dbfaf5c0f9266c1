//! A commit whose answer is lost, and what a standby must have.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use onus_core::task::Facts;
use onus_store::conformance::proxy::{Cut, Proxy, is_commit};
use onus_store::conformance::scribe::{append_note, create, look, uid};
use onus_store::conformance::server::{Server, eventually, fresh_name, parsed};
use onus_store::{PostgresStore, Store as _, StoreError};

use super::{WAIT, add};

/// A project with one task, and a connection to it through a proxy that is told what to do at the next
/// commit.
struct Line {
    next: Arc<Mutex<Cut>>,
    proxy: Proxy,
    direct: PostgresStore,
    store: PostgresStore,
}

fn line(wait: Duration) -> Line {
    let (server, name) = (Server::shared(), fresh_name());
    let next = Arc::new(Mutex::new(Cut::Not));
    let judged = Arc::clone(&next);
    let proxy = Proxy::start(server.port, move |message| match is_commit(message) {
        true => std::mem::replace(&mut *judged.lock().unwrap(), Cut::Not),
        false => Cut::Not,
    });
    let mut direct = server.project_in(server.shared_database(), &name);
    add(&mut direct, 1);
    let address = server.shared_database().replace(&server.port.to_string(), &proxy.port.to_string());
    let address = onus_store::Address::parse(&address, None, wait).unwrap();
    let store = PostgresStore::open(&address, &name, wait).unwrap();
    Line { next, proxy, direct, store }
}

fn version(store: &mut PostgresStore) -> u64 {
    look(store, |read| read.task(uid(1, 1))).unwrap().version.0
}

#[test]
fn a_commit_whose_answer_is_lost_is_applied_once_or_reported() {
    let Line { next, proxy, mut direct, mut store } = line(Duration::from_secs(1));
    let mut runs = 0;
    let pause = Duration::from_millis(200);
    let mut note = |store: &mut PostgresStore, cut: Cut| {
        *next.lock().unwrap() = cut;
        store.write(|write| {
            runs += 1;
            append_note(write, uid(1, 1))
        })?;
        Ok::<u32, StoreError>(runs)
    };
    assert_eq!(note(&mut store, Cut::Not).unwrap(), 1);
    // The server has committed: the store finds that out, and does nothing again.
    assert_eq!(note(&mut store, Cut::After(pause)).unwrap(), 2);
    // What a pooler says about a server that it lost proves nothing.
    assert_eq!(note(&mut store, Cut::Lost(pause)).unwrap(), 3);
    // The commit never arrived: it is run again.
    assert_eq!(note(&mut store, Cut::Before(Duration::ZERO)).unwrap(), 5);
    assert_eq!(version(&mut direct), 5, "four notes, each once");
    // Nobody can be asked: the error says so.
    proxy.refuses.store(true, Ordering::SeqCst);
    assert!(matches!(note(&mut store, Cut::After(pause)), Err(StoreError::Unknown { .. })));
    proxy.refuses.store(false, Ordering::SeqCst);
    assert_eq!(version(&mut direct), 6);
    // And the next command finds its way back.
    note(&mut store, Cut::Not).unwrap();
    assert_eq!(version(&mut direct), 7);
}

/// An event of a part that was undone proves nothing: what was committed beside it is not done again.
#[test]
fn an_undone_part_of_a_batch_does_not_decide_about_a_lost_commit() {
    let Line { next, mut direct, mut store, .. } = line(WAIT);
    *next.lock().unwrap() = Cut::After(Duration::from_millis(200));
    let mut runs = 0;
    store
        .write(|write| {
            runs += 1;
            append_note(write, uid(1, 1))?;
            write.savepoint()?;
            create(write, uid(2, 2), "undone", Facts::default())?;
            write.undo()
        })
        .unwrap();
    assert_eq!((runs, version(&mut direct)), (1, 2));
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
        // Whatever is asked next, the note is sent before it.
        write.count_events()?;
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
    assert_eq!((version(&mut store), runs), (2, 2), "what was told was done");
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
    standby.control(&["-w", "-m", "immediate", "stop"]);
    thread::scope(|scope| {
        let writer = scope.spawn(|| store.write(|write| append_note(write, uid(1, 1))));
        // It is committed here, and the session that waits for the standby is ended: its client asks for the
        // outcome.
        eventually("the commit waits for the standby", || waiting("pg_terminate_backend(pid)") == 1);
        eventually("it can be seen here", || version(&mut direct) == 2);
        eventually("its client waits for the standby", || waiting("pid") == 1 || writer.is_finished());
        // So does a transaction that changes nothing but reports what it found, as by a key.
        let finder = scope.spawn(|| direct.write(|write| write.task(uid(1, 1))));
        eventually("who found it waits, too", || waiting("pid") == 2 || finder.is_finished());
        let is_told = writer.is_finished() || finder.is_finished();
        standby.control(&["-w", "start"]);
        writer.join().unwrap().unwrap();
        assert_eq!(finder.join().unwrap().unwrap().unwrap().version.0, 2);
        assert!(!is_told, "it was told before the standby had it");
    });
}
