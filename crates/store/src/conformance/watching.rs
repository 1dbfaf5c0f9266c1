//! What ends a wait, and what does not.

use std::time::{Duration, Instant};

use onus_core::task::Facts;

use crate::{Store, StoreError, Watch, Woken};

use super::Case;
use super::scribe::{commit, create, look, uid};

pub(super) fn cases<S: Store>() -> Vec<Case<S>> {
    vec![
        ("a watch tells of every commit since it began, once", told_once),
        ("a watch does not tell of what was read or refused", not_told),
        ("a watch ends when its time is over, and at once if that is past", time_over),
    ]
}

/// Longer than any store takes to report.
const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(50);
/// Longer than a store pauses before it looks whether an event has settled.
const SETTLING: Duration = Duration::from_millis(1_500);

fn wait(watch: &mut dyn Watch, patience: Duration) -> Woken {
    watch.wait(Some(Instant::now() + patience), &[]).expect("the store can be watched")
}

fn add<S: Store>(store: &mut S, n: u32) {
    commit(store, |write| create(write, uid(n, n), "t", Facts::default()));
}

/// A watch that has nothing more to report. If events settle after their commit, an earlier one may be
/// reported once more when it has settled; no other is.
fn quiet<S: Store>(store: &mut S) -> Box<dyn Watch> {
    let mut watch = store.watch().unwrap();
    if wait(&mut *watch, SETTLING) == Woken::Committed {
        assert_eq!(wait(&mut *watch, SETTLING), Woken::TimedOut, "what was there before is no news");
    }
    watch
}

fn told_once<S: Store>(store: &mut S) {
    add(store, 1);
    let mut watch = quiet(store);
    add(store, 2);
    add(store, 3);
    assert_eq!(wait(&mut *watch, LONG), Woken::Committed);
    assert_eq!(wait(&mut *watch, SHORT), Woken::TimedOut);
    // Each watch has its own news.
    let mut second = store.watch().unwrap();
    add(store, 4);
    assert_eq!(wait(&mut *second, LONG), Woken::Committed);
    assert_eq!(wait(&mut *watch, LONG), Woken::Committed);
}

fn not_told<S: Store>(store: &mut S) {
    let mut watch = quiet(store);
    look(store, |read| read.count_events());
    let refused = store.write(|write| {
        create(write, uid(1, 1), "t", Facts::default())?;
        Err::<(), _>(StoreError::Unexpected("refused".to_owned()))
    });
    assert!(refused.is_err());
    assert_eq!(wait(&mut *watch, SHORT), Woken::TimedOut);
}

fn time_over<S: Store>(store: &mut S) {
    let mut watch = quiet(store);
    let began = Instant::now();
    assert_eq!(wait(&mut *watch, SHORT), Woken::TimedOut);
    assert!(began.elapsed() >= SHORT);
    let past = Instant::now();
    assert_eq!(watch.wait(Some(past), &[]).unwrap(), Woken::TimedOut);
    assert!(past.elapsed() < LONG);
}
