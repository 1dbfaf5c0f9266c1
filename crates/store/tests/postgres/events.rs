//! The order of events, and waiting for them.

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use onus_store::conformance::scribe::{append_note, commit, look, uid};
use onus_store::conformance::server::{Server, eventually};
use onus_store::{EventQuery, PostgresStore, Store, StoreError, Woken};

use super::{WAIT, add, held_open, titles, two, two_in};

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
    // Other tests' transactions are running on the same server: events settle soon, not at once.
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
    let (mut one, slow) = two_in(&Server::shared().database());
    for n in 1..=2 {
        add(&mut one, n);
    }
    let mut watch = one.watch().unwrap();
    let mut wait =
        |patience: u64| watch.wait(Some(Instant::now() + Duration::from_millis(patience)), &[]).unwrap();
    let (go, worker) = held_open(slow, 1);
    commit(&mut one, |write| append_note(write, uid(2, 2)));
    assert_eq!(wait(10_000), Woken::Committed);
    assert_eq!(wait(100), Woken::TimedOut);
    go.send(()).unwrap();
    worker.join().unwrap();
    assert_eq!(wait(10_000), Woken::Committed);
    assert_eq!(wait(100), Woken::TimedOut);
}

#[test]
fn a_watch_hears_at_once_and_survives_the_loss_of_its_connection() {
    // Nobody else works in it: nothing makes it look soon.
    let database = Server::shared().database();
    let (mut one, mut two) = two_in(&database);
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
    let mut client = postgres::Client::connect(&database, postgres::NoTls).unwrap();
    let ended = client
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid) \
             WHERE locktype = 'advisory' AND mode = 'ShareLock' AND state = 'idle' AND datname = current_database()",
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

/// Seen is not settled: an older writer that ends without an event must not keep a newer event from a
/// follower.
#[test]
fn a_watch_tells_again_when_what_it_saw_is_settled() {
    let (mut one, mut slow) = two_in(&Server::shared().database());
    add(&mut one, 1);
    let mut watch = one.watch().unwrap();
    let mut wait =
        |patience: u64| watch.wait(Some(Instant::now() + Duration::from_millis(patience)), &[]).unwrap();
    let query = EventQuery { settled: true, limit: 100, ..EventQuery::default() };
    slow.write(|write| {
        // It has begun.
        write.count_events()?;
        commit(&mut one, |write| append_note(write, uid(1, 1)));
        assert_eq!(wait(10_000), Woken::Committed);
        assert_eq!(look(&mut one, |read| read.events(&query)).len(), 2, "it may not be shown yet");
        Err::<(), _>(StoreError::Full)
    })
    .unwrap_err();
    assert_eq!(wait(10_000), Woken::Committed);
    assert_eq!(look(&mut one, |read| read.events(&query)).len(), 3);
    assert_eq!(wait(600), Woken::TimedOut);
}
