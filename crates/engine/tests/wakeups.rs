//! Waiters of every kind, and every way in which something becomes free: none may oversleep.
//!
//! The cases are generated: a waiter, one or two obstacles, and for each obstacle a way in which it goes
//! away. A waiter finds what it overlooked after 30 s or a minute, when it looks by itself; here it has far
//! less time.
//!
//! `cargo test` runs a sample, in which every way occurs; `WAKEUPS=all` runs all of them.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "a long run says how many cases it played")]

mod obstacles;
mod stage;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use obstacles::{Asks, Case, End, Obstacle, On, all_cases};
use onus_store::Woken;
use stage::{Kind, Scene};

/// Far below the time after which a waiter looks by itself, far above what a busy machine needs.
const SOON: Duration = Duration::from_secs(12);

/// How many cases run side by side: they sleep most of the time.
const AT_ONCE: usize = 12;

#[test]
fn no_waiter_sleeps_on_when_something_becomes_free() {
    run(Kind::Sqlite);
}

#[test]
fn no_waiter_sleeps_on_when_something_becomes_free_on_a_server() {
    run(Kind::Postgres);
}

/// Every way at least once, with all terms at least once, and some pairs: more of those in which nothing is
/// committed when the second obstacle goes away.
fn chosen() -> Vec<Case> {
    let cases = all_cases();
    if std::env::var("WAKEUPS").is_ok_and(|asked| asked == "all") {
        return cases;
    }
    let mut seen = BTreeSet::new();
    let (mut silent, mut told) = (0_usize, 0_usize);
    let every = |count: &mut usize, nth: usize| {
        *count += 1;
        count.is_multiple_of(nth)
    };
    cases
        .into_iter()
        .filter(|case| match case.obstacles.as_slice() {
            [(obstacle, end)] if case.on == On::Declared => {
                seen.insert(format!("{:?} {obstacle:?} {end:?}", case.asks))
            }
            [(_, end)] => seen.insert(format!("{:?} {:?} {end:?}", case.asks, case.on)),
            [.., (_, end)] if end.is_silent() => every(&mut silent, 41),
            _ => every(&mut told, 251),
        })
        .collect()
}

fn run(kind: Kind) {
    let cases = chosen();
    let (count, queue) = (cases.len(), Mutex::new(cases.into_iter()));
    let complaints = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                while let Some(case) = next(&queue) {
                    let played = catch_unwind(AssertUnwindSafe(|| play(kind, &case)));
                    if let Err(complaint) =
                        played.unwrap_or_else(|_| Err("it could not be played".to_owned()))
                    {
                        complaints.lock().unwrap().push(format!("{case:?}: {complaint}"));
                    }
                }
            });
        }
    });
    let complaints = complaints.into_inner().unwrap();
    println!("{count} cases on {kind:?}, {} complaints", complaints.len());
    assert!(complaints.is_empty(), "{} of {count}:\n{}", complaints.len(), complaints.join("\n"));
}

fn next(queue: &Mutex<std::vec::IntoIter<Case>>) -> Option<Case> {
    queue.lock().unwrap().next()
}

/// Plays a case until it is conclusive. On a busy machine something else may have come first: what goes away
/// by itself had done so before the waiter slept, or the waiter had just been woken by an earlier commit when
/// the process died.
fn play(kind: Kind, case: &Case) -> Result<(), String> {
    for times in [1, 4, 16] {
        if let Some(verdict) = played(kind, case, times) {
            return verdict;
        }
    }
    Err("each time it was over before the waiter slept, or a commit woke it and not the end of the process"
        .to_owned())
}

/// None: the case was inconclusive.
fn played(kind: Kind, case: &Case, times: u32) -> Option<Result<(), String>> {
    let mut scene = Scene::new(kind, case, times);
    let waiter = scene.start_waiter();
    if !waiter.settles() {
        let may_be_over = case.obstacles.iter().any(|(_, end)| end.is_time());
        return (!may_be_over).then(|| Err(format!("it did not begin to wait: {:?}", waiter.answer())));
    }
    let last = case.obstacles.len() - 1;
    for (place, (obstacle, end)) in case.obstacles.iter().enumerate() {
        if !obstacle.hinders(case.asks) {
            continue;
        }
        waiter.forget_wakes();
        scene.clear(place, *obstacle, *end);
        if place < last && !waiter.settles() {
            // Another task may have become free with it.
            return Some(expected(case, *end, &waiter.answer()));
        }
    }
    let cleared = Instant::now();
    while cleared.elapsed() < SOON && waiter.answer().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let answer = waiter.answer();
    if answer.is_none() {
        // Whether it would have been granted: otherwise the case is wrong, not the waiter.
        return Some(Err(format!("it sleeps on; asked now, the answer is {}", scene.rehearse())));
    }
    let (_, end) = case.obstacles[last];
    let heard = end != End::Killed || waiter.wakes().contains(&Woken::Other);
    heard.then(|| expected(case, end, &answer))
}

/// Whether the waiter got the right answer: a task, or that waiting does not help any more.
fn expected(case: &Case, end: End, answer: &Option<Result<String, String>>) -> Result<(), String> {
    let ends_the_wait = case.asks == Asks::ById
        && matches!(case.obstacles.as_slice(), [(Obstacle::Held(_), _)])
        && end.leaves_it_unclaimable();
    match (answer, ends_the_wait) {
        (Some(Ok(_)), false) | (Some(Err(_)), true) => Ok(()),
        (answer, _) => Err(format!("its answer is {answer:?}")),
    }
}
