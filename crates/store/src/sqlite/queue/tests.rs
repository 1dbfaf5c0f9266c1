//! Locks of one process's files exclude each other as those of several processes do: each queue opens its own.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;

use super::*;

const LONG: Duration = Duration::from_secs(20);

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn eight_writers_get_their_share_and_never_two_at_once() {
    const WRITERS: usize = 8;
    let folder = folder();
    let (stop, sitting) = (AtomicBool::new(false), AtomicU32::new(0));
    let barrier = Barrier::new(WRITERS);
    let turns: Vec<u32> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut queue = Queue::new(folder.path());
                    let mut turns = 0;
                    barrier.wait();
                    // Each wants the lock again the moment it left it.
                    while !stop.load(Ordering::Relaxed) {
                        let lock = queue.lock(LONG).unwrap();
                        assert_eq!(sitting.fetch_add(1, Ordering::SeqCst), 0, "two sat at once");
                        std::thread::sleep(Duration::from_micros(500));
                        sitting.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                        turns += 1;
                    }
                    turns
                })
            })
            .collect();
        std::thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let fair = turns.iter().sum::<u32>() / WRITERS as u32;
    assert!(fair >= 10, "{turns:?}");
    assert!(turns.iter().all(|turns| *turns >= fair / 4), "{turns:?}");
}

/// A writer that just released the lock and wants it back finds the next one in the turnstile.
#[test]
fn nobody_barges_in_before_one_who_waits() {
    let folder = folder();
    let mut first = Queue::new(folder.path());
    for round in 0..20 {
        let lock = first.lock(LONG).unwrap();
        let (sender, order) = mpsc::channel();
        std::thread::scope(|scope| {
            let theirs = sender.clone();
            let waiter = scope.spawn(|| {
                let mut second = Queue::new(folder.path());
                let lock = second.lock(LONG).unwrap();
                theirs.send("the waiter").unwrap();
                drop(lock);
                drop(theirs);
            });
            // It stands in the turnstile once nobody else can, and not only for the moment of a first try.
            let probe = Queue::new(folder.path()).open().unwrap();
            let started = Instant::now();
            let mut taken = 0;
            while taken < 5 {
                taken = match probe.turnstile.try_lock() {
                    Ok(()) => probe.turnstile.unlock().map(|()| 0).unwrap(),
                    Err(_) => taken + 1,
                };
                assert!(started.elapsed() < LONG);
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(lock);
            let again = first.lock(LONG).unwrap();
            sender.send("the one who left").unwrap();
            drop(again);
            waiter.join().unwrap();
        });
        drop(sender);
        assert_eq!(order.iter().collect::<Vec<_>>(), ["the waiter", "the one who left"], "round {round}");
    }
}

#[test]
fn a_wait_is_bounded_and_names_who_sits() {
    let folder = folder();
    let _lock = Queue::new(folder.path()).lock(LONG).unwrap();
    let started = Instant::now();
    let refused = Queue::new(folder.path()).lock(Duration::from_millis(200)).unwrap_err();
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(200) && took < Duration::from_secs(5), "{took:?}");
    let StoreError::Busy { pid, waited } = refused else { panic!("{refused:?}") };
    assert_eq!(pid, Some(std::process::id()));
    assert!(waited >= Duration::from_millis(200));
}

/// Stopped between the turnstile and the lock, a process keeps everybody out without writing.
#[test]
fn one_that_was_stopped_in_the_turnstile_is_named() {
    let folder = folder();
    let stuck = Queue::new(folder.path()).open().unwrap();
    stuck.turnstile.lock().unwrap();
    // Whatever anybody wrote into the file.
    std::fs::write(folder.path().join("turnstile.lock"), "4242\n").unwrap();
    let refused = Queue::new(folder.path()).lock(Duration::from_millis(100)).unwrap_err();
    assert!(
        matches!(refused, StoreError::Busy { pid: Some(pid), .. } if pid == std::process::id()),
        "{refused:?}"
    );
}

/// A reading of the kernel's list may lack a lock that is held: neither nobody nor the wrong one is named for that.
#[test]
fn a_lock_that_one_reading_lacks_is_found_in_the_next() {
    let folder = folder();
    let files = Queue::new(folder.path()).open().unwrap();
    let line = |file: &File, pid| {
        let file = file.metadata().unwrap();
        let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
        format!("1: FLOCK  ADVISORY  WRITE {pid} {major:02x}:{minor:02x}:{} 0 EOF\n", file.ino())
    };
    let (writer, turnstile) = (line(&files.writer, 11), line(&files.turnstile, 22));
    let blocker = |readings: &[&str]| files.blocker_by(readings.iter().map(|reading| (*reading).to_owned()));
    assert_eq!(blocker(&["", &writer]), Some(11));
    assert_eq!(blocker(&[&turnstile, &format!("{turnstile}{writer}")]), Some(11));
    assert_eq!(blocker(&["", &turnstile, ""]), Some(22));
    assert_eq!(blocker(&["", ""]), None);
}

/// Its thread stays behind in line: when its turn comes, nobody waits there any more.
#[test]
fn one_who_gave_up_passes_the_seat_on() {
    let folder = folder();
    let mut with_short_wait = Queue::new(folder.path());
    let lock = Queue::new(folder.path()).lock(LONG).unwrap();
    for _ in 0..3 {
        assert!(with_short_wait.lock(Duration::from_millis(50)).is_err());
    }
    drop(lock);
    for _ in 0..3 {
        drop(Queue::new(folder.path()).lock(LONG).unwrap());
        // And it can come back itself.
        drop(with_short_wait.lock(LONG).unwrap());
    }
}

/// A lock on a file whose name somebody gave to another file would guard nothing.
#[test]
fn lock_files_are_never_unlinked_or_replaced() {
    let folder = folder();
    let inodes = || {
        ["turnstile.lock", "writer.lock"]
            .map(|name| std::fs::metadata(folder.path().join(name)).unwrap().ino())
    };
    let mut queue = Queue::new(folder.path());
    let lock = queue.lock(LONG).unwrap();
    let before = inodes();
    assert!(Queue::new(folder.path()).lock(Duration::from_millis(20)).is_err());
    assert_eq!(inodes(), before);
    drop(lock);
    assert_eq!(inodes(), before);
    drop(queue);
    assert_eq!(inodes(), before);
    drop(Queue::new(folder.path()).lock(LONG).unwrap());
    assert_eq!(inodes(), before);
}

/// The bell only hurries: a writer that cannot hear it, because its name is taken or it does not ring, still gets the lock.
#[test]
fn a_seat_is_found_without_the_bell() {
    let folder = folder();
    let (mut first, mut second) = (Queue::new(folder.path()), Queue::new(folder.path()));
    for name_is_taken in [true, false] {
        let lock = first.lock(LONG).unwrap();
        let other_listener = name_is_taken.then(|| lock.files.handover.listener(&lock.files.writer));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(second.lock(LONG).unwrap()));
            let turnstile = first.open().unwrap().turnstile;
            while turnstile.try_lock().is_ok() {
                turnstile.unlock().unwrap();
                std::thread::yield_now();
            }
            // As a killed process does it: the lock goes, and nothing rings.
            lock.files.writer.unlock().unwrap();
            waiter.join().unwrap();
        });
        drop(other_listener);
    }
}
