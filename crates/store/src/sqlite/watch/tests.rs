use std::process::Command;

use onus_core::ids::Uid;

use super::*;
use crate::{Access, KnownInstance, Store};

/// Far longer than any of this takes, and shorter than a watch trusts its listener.
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(100);

fn fresh(folder: &Path) -> SqliteStore {
    let uid = |n: u128| Uid(uuid::Uuid::from_u128(n));
    let by = (&"agent:a".parse().unwrap(), &"i".parse().unwrap());
    SqliteStore::create(&folder.join("onus.db"), &"ON".parse().unwrap(), uid(1), uid(2), by, LONG).unwrap()
}

fn another(store: &SqliteStore) -> SqliteStore {
    SqliteStore::open(store.path(), Access::Write, LONG).unwrap()
}

fn commit(store: &mut SqliteStore) {
    let now_ms = store.read(|read| Ok(read.now())).unwrap().wall_ms;
    let (actor, instance) = ("agent:a".parse().unwrap(), "i".parse().unwrap());
    let known = KnownInstance::seen(actor, instance, now_ms);
    store.write(|write| write.put_instance(&known)).unwrap();
}

fn refuse(store: &mut SqliteStore) {
    let refused = store.write(|write| {
        write.savepoint()?;
        Err::<(), _>(StoreError::Unexpected("refused".to_owned()))
    });
    assert!(refused.is_err());
}

#[track_caller]
fn wait(watch: &mut SqliteWatch, patience: Duration) -> Woken {
    watch.wait(Some(Instant::now() + patience), &[]).unwrap()
}

/// Whether the kernel has something to say about the bell, whatever the store's version is.
fn has_rung(watch: &SqliteWatch) -> bool {
    let mut ears =
        [PollFd::from_borrowed_fd(watch.listener.as_ref().unwrap().inotify.as_fd(), PollFlags::IN)];
    poll(&mut ears, Some(&Timespec::default())).unwrap() > 0
}

#[test]
fn a_sleeping_watch_hears_anothers_commit_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path());
    let mut watch = watch(&store).unwrap();
    let mut other = another(&store);
    for _ in 0..20 {
        let committed = std::thread::scope(|scope| {
            let committing = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(10));
                commit(&mut other);
                Instant::now()
            });
            assert_eq!(wait(&mut watch, LONG), Woken::Committed);
            committing.join().unwrap()
        });
        assert!(committed.elapsed() < MIN_PAUSE, "heard, not found by looking now and then");
    }
}

#[test]
fn a_commit_between_look_and_sleep_is_not_slept_through() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = fresh(folder.path());
    let mut watch = watch(&store).unwrap();
    commit(&mut store);
    assert_eq!(wait(&mut watch, LONG), Woken::Committed);
    assert_eq!(wait(&mut watch, SHORT), Woken::TimedOut, "told once");
    // Also one that is not heard.
    watch.listener = None;
    commit(&mut store);
    assert_eq!(wait(&mut watch, Duration::ZERO), Woken::Committed);
}

#[cfg(target_os = "linux")]
#[test]
fn readers_and_refused_writers_ring_no_bell() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path());
    let mut watch = watch(&store).unwrap();
    let mut other = another(&store);
    for _ in 0..3 {
        refuse(&mut other);
        other.read(|read| read.count_events()).unwrap();
        drop(SqliteStore::open(store.path(), Access::Read, LONG).unwrap());
        // Opening, giving up in the queue, and going away.
        let mut third = another(&store);
        refuse(&mut third);
        drop(third);
    }
    assert!(!has_rung(&watch));
    assert_eq!(wait(&mut watch, SHORT), Woken::TimedOut);
    commit(&mut other);
    assert!(has_rung(&watch), "there is something to be heard at all");
    assert_eq!(wait(&mut watch, LONG), Woken::Committed);
}

/// The kernel closes the bell of one that was killed after its commit.
#[cfg(target_os = "linux")]
#[test]
fn a_writer_that_is_killed_after_its_commit_rings_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path());
    let mut watch = watch(&store).unwrap();
    let bell = bell_of(store.path());
    let mut writer = Command::new("sh")
        .args(["-c", "exec 3>>\"$0\"; echo; exec sleep 600"])
        .arg(&bell)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0];
    std::io::Read::read_exact(writer.stdout.as_mut().unwrap(), &mut line).unwrap();
    let path = store.path().to_owned();
    std::thread::scope(|scope| {
        let killing = scope.spawn(move || {
            // A commit as SQLite makes it, with the bell in another's hand.
            std::thread::sleep(SHORT);
            let plain = Connection::open(path).unwrap();
            plain.execute("INSERT INTO chore VALUES ('x', 0)", []).unwrap();
            std::thread::sleep(SHORT);
            let killed = Instant::now();
            writer.kill().unwrap();
            writer.wait().unwrap();
            killed
        });
        assert_eq!(wait(&mut watch, LONG), Woken::Committed);
        let woken = Instant::now();
        assert!(woken > killing.join().unwrap(), "it was heard before the bell was rung");
    });
}

#[test]
fn where_nothing_is_heard_the_watch_looks_now_and_then_and_listens_again_when_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path());
    let bell = bell_of(store.path());
    let mut watch = watch(&store).unwrap();
    // Something that cannot be listened to, and cannot be rung.
    fs::remove_file(&bell).unwrap();
    std::os::unix::fs::symlink("nowhere/at/all", &bell).unwrap();
    let mut other = another(&store);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(600));
            commit(&mut other);
        });
        assert_eq!(wait(&mut watch, LONG), Woken::Committed);
    });
    assert!(watch.listener.is_none());
    fs::remove_file(&bell).unwrap();
    commit(&mut other);
    assert_eq!(wait(&mut watch, LONG), Woken::Committed);
    assert_eq!(watch.listener.is_some(), cfg!(target_os = "linux"));
}

#[test]
fn what_else_is_waited_for_ends_the_wait() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path());
    let mut watch = watch(&store).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let until = Some(Instant::now() + SHORT);
    assert_eq!(watch.wait(until, &[reader.as_fd()]).unwrap(), Woken::TimedOut);
    drop(writer);
    assert_eq!(watch.wait(None, &[reader.as_fd()]).unwrap(), Woken::Other);
}

#[test]
fn a_store_that_is_replaced_or_removed_ends_the_wait() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = fresh(folder.path());
    let mut watch = watch(&store).unwrap();
    let (path, copy) = (store.path().to_owned(), folder.path().join("copy.db"));
    store.backup(&copy, &mut |_| {}).unwrap();
    fs::rename(&copy, &path).unwrap();
    let until = Some(Instant::now() + SHORT);
    assert!(matches!(watch.wait(until, &[]), Err(StoreError::Unavailable { .. })));
    fs::remove_file(&path).unwrap();
    assert!(matches!(watch.wait(until, &[]), Err(StoreError::Missing(_))));
}

#[test]
fn moving_the_log_into_the_database_and_scrubbing_end_no_watch() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path());
    let mut watch = watch(&store).unwrap();
    let mut other = another(&store);
    for _ in 0..3 {
        commit(&mut other);
        assert_eq!(wait(&mut watch, LONG), Woken::Committed);
        other.connection.execute("INSERT INTO chore VALUES ('scrub', 0)", []).unwrap();
        // Nobody stands in its way, least of all one that sleeps.
        assert!(other.tidy().unwrap());
        while wait(&mut watch, Duration::ZERO) == Woken::Committed {}
    }
}

/// A store of which only a copy can be read tells when its files change.
#[test]
fn a_store_that_is_read_as_it_was_tells_by_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = fresh(folder.path());
    let times = times_of(store.path());
    let sign = Sign::Files(times);
    let file = store.file;
    let mut watch =
        SqliteWatch { path: store.path().to_owned(), file, sign, listener: None, pause: MIN_PAUSE };
    assert_eq!(wait(&mut watch, SHORT), Woken::TimedOut);
    commit(&mut store);
    assert_eq!(wait(&mut watch, LONG), Woken::Committed);
    assert!(watch.listener.is_none());
}
