//! Recorded work, and completed tasks: as timesheets and reports read them.

use onus_core::commit::{CommitId, CommitRow};
use onus_core::event::{Body, Draft};
use onus_core::gate::{Judgement, Run, Verdict};
use onus_core::ids::Token;
use onus_core::session::{Usage, UsageSource};
use onus_core::stretch::Stretch;
use onus_core::task::Facts;
use onus_core::time::{DAY_MS, HOUR_MS};

use crate::{Finished, Read, Result, Store, Used, Window, WorkRow};

use super::Case;
use super::scribe::{append_as, claim, commit, create, end, look, uid};

pub(super) fn cases<S: Store>() -> Vec<Case<S>> {
    vec![
        ("work is found by when it was, page by page", work_in),
        ("a long stretch is found from its middle, and no part of it twice", long_work),
        ("work is its lease's holder's, whoever writes the event", whose_work),
        ("what was completed is found by when", finished),
        ("what a session used is found by when, and by the session", used),
        ("a commit is found by its task, its session and its hash", committed),
        ("judgements of a task are found, the newest first, until a reset voids them", judged),
    ]
}

const ALL: Window = Window { since_ms: 0, until_ms: i64::MAX };

fn pages<T: Clone>(
    read: &mut dyn Read,
    size: u64,
    page: impl Fn(&mut dyn Read, Option<&T>, u64) -> Result<Vec<T>>,
) -> Result<Vec<T>> {
    let mut all: Vec<T> = Vec::new();
    loop {
        let next = page(read, all.last(), size)?;
        if next.is_empty() {
            return Ok(all);
        }
        all.extend(next);
    }
}

fn work<S: Store>(store: &mut S, window: Window, size: u64) -> Vec<WorkRow> {
    look(store, |read| pages(read, size, |read, after, limit| read.work_in(window, after, limit)))
}

/// Starts and lengths.
fn spans<S: Store>(store: &mut S, window: Window) -> Vec<(i64, i64)> {
    let whole = work(store, window, 100);
    for size in [1, 2, 3] {
        assert_eq!(work(store, window, size), whole, "pages of {size}");
    }
    whole.iter().map(|row| (row.stretch.start_ms, row.stretch.active_ms)).collect()
}

fn released(stretches: &[(i64, i64)]) -> Draft {
    let stretches =
        stretches.iter().map(|(start_ms, active_ms)| Stretch { start_ms: *start_ms, active_ms: *active_ms });
    let released = Body::LeaseReleased { lease: end() };
    Draft { stretches: stretches.collect(), ..Draft::new(released).token(Token(1)) }
}

fn work_in<S: Store>(store: &mut S) {
    commit(store, |write| {
        let tags = ["x".to_owned()].into();
        create(write, uid(1, 1), "a", Facts { area: Some("docs".into()), tags, ..Facts::default() })?;
        create(write, uid(2, 2), "b", Facts { parent: Some(uid(1, 1)), ..Facts::default() })?;
        for task in [uid(1, 1), uid(2, 2)] {
            claim(write, task, ("h", "1"), Some(5_000))?;
        }
        let first = [(DAY_MS, HOUR_MS), (2 * DAY_MS, HOUR_MS), (2 * DAY_MS, 7)];
        append_as(write, uid(1, 1), released(&first), ("h", "1"))?;
        append_as(write, uid(2, 2), released(&[(2 * DAY_MS, 9), (3 * DAY_MS, 5)]), ("h", "1"))
    });
    let at_two = [(2 * DAY_MS, HOUR_MS), (2 * DAY_MS, 7), (2 * DAY_MS, 9)];
    let all: Vec<(i64, i64)> =
        [(DAY_MS, HOUR_MS)].into_iter().chain(at_two).chain([(3 * DAY_MS, 5)]).collect();
    assert_eq!(spans(store, ALL), all);
    // Behind the day that a row may reach into a window.
    let late = Window { since_ms: 3 * DAY_MS + 1, until_ms: 3 * DAY_MS + 2 };
    assert_eq!(spans(store, late), [(3 * DAY_MS, 5)]);
    assert_eq!(spans(store, Window { since_ms: 0, until_ms: 2 * DAY_MS }), [(DAY_MS, HOUR_MS)]);
    assert_eq!(spans(store, Window { since_ms: 5 * DAY_MS, until_ms: 9 * DAY_MS }), []);
    let rows = work(store, ALL, 100);
    let (first, last) = (&rows[0], &rows[4]);
    assert_eq!((first.task.area.as_deref(), first.task.number.0), (Some("docs"), 1));
    assert_eq!((first.task.tags.len(), first.task.parent), (1, None));
    assert_eq!((last.task.area.as_deref(), last.task.parent), (None, Some(uid(1, 1))));
    let of_first = look(store, |read| read.stretches_of(uid(1, 1), Token(1)));
    assert_eq!(
        of_first.iter().map(|row| (row.place, row.active_ms)).collect::<Vec<_>>(),
        [(0, HOUR_MS), (1, HOUR_MS), (2, 7)]
    );
    assert_eq!(look(store, |read| read.stretches_of(uid(1, 1), Token(2))), []);
    assert_eq!(store.rebuild(&mut |_| {}).expect("it can be rebuilt").changed, Vec::new());
}

fn long_work<S: Store>(store: &mut S) {
    commit(store, |write| {
        create(write, uid(1, 1), "a", Facts::default())?;
        claim(write, uid(1, 1), ("h", "1"), Some(5_000))?;
        append_as(
            write,
            uid(1, 1),
            released(&[(DAY_MS + 5, 3 * DAY_MS + 1), (8 * DAY_MS, DAY_MS)]),
            ("h", "1"),
        )
    });
    let row = |day: i64, length_ms: i64| (day * DAY_MS + 5, length_ms);
    let all = [row(1, DAY_MS), row(2, DAY_MS), row(3, DAY_MS), row(4, 1), (8 * DAY_MS, DAY_MS)];
    assert_eq!(spans(store, ALL), all);
    let middle = Window { since_ms: 3 * DAY_MS, until_ms: 3 * DAY_MS + 1 };
    assert_eq!(spans(store, middle), [row(2, DAY_MS)]);
    assert_eq!(store.rebuild(&mut |_| {}).expect("it can be rebuilt").changed, Vec::new());
}

fn whose_work<S: Store>(store: &mut S) {
    commit(store, |write| {
        create(write, uid(1, 1), "a", Facts::default())?;
        claim(write, uid(1, 1), ("h", "1"), Some(5_000))?;
        append_as(write, uid(1, 1), released(&[(5, 7)]), ("another", "2"))
    });
    let rows = work(store, ALL, 9);
    let whose: Vec<_> = rows.iter().map(|row| row.stretch.actor.as_ref().map(ToString::to_string)).collect();
    assert_eq!(whose, [Some("agent:h".to_owned())]);
    assert_eq!(store.rebuild(&mut |_| {}).expect("it can be rebuilt").changed, Vec::new());
}

fn used<S: Store>(store: &mut S) {
    let usage = |tokens_in: Option<u64>, cost: Option<&str>| Usage {
        model: tokens_in.map(|_| "m".to_owned()),
        tokens_in,
        tokens_out: None,
        tokens_cached: Some(3),
        source: UsageSource::Estimated,
        cost: cost.map(|cost| cost.parse().unwrap()),
    };
    let recorded = |usage: &Usage| Draft::new(Body::SessionRecorded { usage: usage.clone() }).token(Token(1));
    let all = [usage(Some(7), Some("0.42EUR")), usage(None, None)];
    commit(store, |write| {
        create(write, uid(1, 1), "a", Facts { area: Some("docs".into()), ..Facts::default() })?;
        claim(write, uid(1, 1), ("h", "1"), Some(5_000))?;
        for usage in &all {
            append_as(write, uid(1, 1), recorded(usage), ("h", "1"))?;
        }
        Ok(())
    });
    let of_session = look(store, |read| read.usage_of(uid(1, 1), Token(1)));
    assert_eq!(of_session.iter().map(|row| &row.usage).collect::<Vec<_>>(), all.iter().collect::<Vec<_>>());
    assert_eq!(look(store, |read| read.usage_of(uid(1, 1), Token(2))), []);
    let list = |store: &mut S, window, size| -> Vec<Used> {
        look(store, |read| pages(read, size, |read, after, limit| read.usage_in(window, after, limit)))
    };
    let found = list(store, ALL, 9);
    assert_eq!(found.iter().map(|used| used.usage.clone()).collect::<Vec<_>>(), of_session);
    assert_eq!(found[0].task.area.as_deref(), Some("docs"));
    assert_eq!(list(store, ALL, 1), found);
    let before = Window { since_ms: 0, until_ms: of_session[0].at_ms };
    assert_eq!(list(store, before, 9), []);
    assert_eq!(store.rebuild(&mut |_| {}).expect("it can be rebuilt").changed, Vec::new());
}

fn committed<S: Store>(store: &mut S) {
    let hash = |digit: &str| digit.repeat(40).parse::<CommitId>().unwrap();
    let made = |digit: &str, token| Draft::new(Body::CommitMade { commit: hash(digit) }).token(Token(token));
    commit(store, |write| {
        create(write, uid(1, 1), "a", Facts::default())?;
        create(write, uid(2, 2), "b", Facts::default())?;
        claim(write, uid(1, 1), ("h", "1"), Some(5_000))?;
        claim(write, uid(2, 2), ("h", "1"), Some(5_000))?;
        append_as(write, uid(1, 1), made("b", 1), ("h", "1"))?;
        append_as(write, uid(1, 1), made("a", 1), ("h", "1"))?;
        append_as(write, uid(2, 2), made("a", 1), ("h", "1"))
    });
    let hashes = |rows: Vec<CommitRow>| rows.into_iter().map(|row| row.commit).collect::<Vec<_>>();
    let of_task = look(store, |read| read.commits_of(uid(1, 1)));
    assert_eq!(hashes(of_task.clone()), [hash("b"), hash("a")], "in the order in which they were made");
    assert_eq!(look(store, |read| read.commits_under(uid(1, 1), Token(1))), of_task);
    assert_eq!(look(store, |read| read.commits_under(uid(1, 1), Token(2))), []);
    let where_made = look(store, |read| read.commit_made(&hash("a")));
    assert_eq!(where_made.iter().map(|row| row.task).collect::<Vec<_>>(), [uid(1, 1), uid(2, 2)]);
    assert_eq!(look(store, |read| read.commit_made(&hash("c"))), []);
    assert_eq!(store.rebuild(&mut |_| {}).expect("it can be rebuilt").changed, Vec::new());
}

fn judged<S: Store>(store: &mut S) {
    let judgement = |gate: &str, tree: &str| Judgement {
        gate: gate.parse().unwrap(),
        definition: "d".to_owned(),
        tree: Some(tree.to_owned()),
        flaky: false,
        run: Some(Run { exit: Some(0), timed_out: false, duration_ms: 7, log: None, machine: None }),
    };
    let passed = |gate, tree| Draft::new(Body::GatePassed(judgement(gate, tree)));
    commit(store, |write| {
        create(write, uid(1, 1), "a", Facts::default())?;
        create(write, uid(2, 2), "b", Facts::default())?;
        append_as(write, uid(1, 1), passed("tests", "x"), ("h", "1"))?;
        append_as(write, uid(2, 2), passed("tests", "x"), ("h", "1"))?;
        append_as(write, uid(1, 1), Draft::new(Body::GateFailed(judgement("lint", "y"))), ("h", "1"))
    });
    let of = |store: &mut S, task, limit| look(store, |read| read.judgements_of(task, limit));
    let found = of(store, uid(1, 1), 10);
    let short: Vec<_> = found.iter().map(|row| (row.judgement.gate.as_str(), row.verdict)).collect();
    assert_eq!(short, [("lint", Verdict::Failed), ("tests", Verdict::Passed)]);
    assert_eq!(found[1].judgement, judgement("tests", "x"));
    assert_eq!(of(store, uid(1, 1), 1), found[..1]);
    commit(store, |write| {
        append_as(write, uid(1, 1), Draft::new(Body::TaskReset { lease: None }), ("h", "1"))
    });
    assert_eq!(of(store, uid(1, 1), 10), []);
    assert_eq!(of(store, uid(2, 2), 10).len(), 1);
    assert_eq!(store.rebuild(&mut |_| {}).expect("it can be rebuilt").changed, Vec::new());
}

fn finished<S: Store>(store: &mut S) {
    commit(store, |write| {
        for task in [uid(1, 1), uid(2, 2), uid(3, 3)] {
            create(write, task, "t", Facts::default())?;
        }
        claim(write, uid(1, 1), ("h", "1"), Some(5_000))?;
        claim(write, uid(2, 2), ("h", "1"), Some(5_000))?;
        let done = Draft::new(Body::TaskDone { lease: end(), awaits_landing: None }).token(Token(1));
        append_as(write, uid(2, 2), done, ("h", "1"))
    });
    let done_at_ms = look(store, |read| read.task(uid(2, 2))).unwrap().completed_at_ms.unwrap();
    let list = |store: &mut S, window| -> Vec<Finished> {
        look(store, |read| pages(read, 1, |read, after, limit| read.finished_in(window, after, limit)))
    };
    let all = list(store, ALL);
    assert_eq!(
        all.iter().map(|done| (done.uid, done.completed_at_ms)).collect::<Vec<_>>(),
        [(uid(2, 2), done_at_ms)]
    );
    let lease = look(store, |read| read.lease(uid(2, 2), Token(1))).unwrap();
    let held_ms = lease.ended.unwrap().at_ms - lease.acquired_at_ms;
    assert_eq!((all[0].token, all[0].held_ms), (Token(1), held_ms));
    assert_eq!(list(store, Window { since_ms: 0, until_ms: done_at_ms }), []);
    // A task that is no longer done was not completed.
    commit(store, |write| append_as(write, uid(2, 2), Draft::new(Body::TaskReopened {}), ("h", "1")));
    assert_eq!(list(store, ALL), []);
}
