//! Landing: which tasks have still to land.

use onus_core::commit::CommitId;
use onus_core::event::{Body, Draft};
use onus_core::ids::Uid;
use onus_core::landing::{DepsMet, Intent, LandStyle, Landed, LandingPlace, Obstruction};
use onus_core::task::Facts;

use crate::{Result, Store, Write};

use super::Case;
use super::scribe::{append, claim, commit, create, end, look, uid};

pub(super) fn cases<S: Store>() -> Vec<Case<S>> {
    vec![("what waits to land is what is done and has not, and what was begun, by number", to_land)]
}

/// The uid of a task, in the opposite order of the numbers.
fn t(n: u32) -> Uid {
    uid(100 - n, n)
}

fn hash(digit: char) -> CommitId {
    digit.to_string().repeat(40).parse().unwrap()
}

fn intent() -> Intent {
    Intent {
        target: "main".into(),
        onto: hash('1'),
        commit: hash('2'),
        head: hash('3'),
        style: LandStyle::Merge,
        resolved_lines: 0,
        gates: Vec::new(),
        place: LandingPlace { machine: None, repository: "origin".into() },
    }
}

fn tell(write: &mut dyn Write, task: u32, body: Body) -> Result<()> {
    append(write, t(task), Draft::new(body)).map(drop)
}

fn done(write: &mut dyn Write, task: u32, awaits_landing: Option<DepsMet>) -> Result<()> {
    let token = claim(write, t(task), ("a", "a-1"), None)?;
    let done = Body::TaskDone { lease: end(), awaits_landing };
    append(write, t(task), Draft::new(done).token(token)).map(drop)
}

fn to_land<S: Store>(store: &mut S) {
    let numbers = |store: &mut S, limit| {
        let tasks = look(store, |read| read.to_land(limit));
        for task in &tasks {
            let row = look(store, |read| read.task(task.uid));
            assert_eq!(row.as_ref(), Some(task), "it is the whole row");
        }
        tasks.into_iter().map(|task| task.number.0).collect::<Vec<_>>()
    };
    assert!(numbers(store, 10).is_empty());
    let awaited = Some(DepsMet::Landed);
    commit(store, |write| {
        for n in 1..=9 {
            create(write, t(n), "t", Facts::default())?;
        }
        done(write, 2, None)?;
        done(write, 3, awaited)?;
        // Approved after a review.
        let token = claim(write, t(4), ("a", "a-1"), None)?;
        append(write, t(4), Draft::new(Body::TaskSubmitted { lease: end() }).token(token))?;
        tell(write, 4, Body::TaskApproved { awaits_landing: Some(DepsMet::Done) })?;
        // Begun by its holder, and begun and given up.
        for n in [5, 6] {
            claim(write, t(n), ("a", "a-1"), None)?;
            tell(write, n, Body::LandingIntended(intent()))?;
        }
        tell(write, 6, Body::LandingWithdrawn { commit: intent().commit })?;
        // Begun by somebody else after it was done, and landed.
        done(write, 7, awaited)?;
        tell(write, 7, Body::LandingIntended(intent()))?;
        done(write, 8, awaited)?;
        tell(write, 8, Body::TaskLanded(Landed::of(&intent())))?;
        // Sent back.
        done(write, 9, awaited)?;
        tell(write, 9, Body::TaskReopened {})?;
        let why = Obstruction::Gates { gates: vec!["tests".parse().unwrap()] };
        let Intent { target, onto, head, .. } = intent();
        tell(write, 9, Body::LandingFailed { target, onto, head, why, kept_for: None })
    });
    assert_eq!(numbers(store, 10), [3, 4, 5, 7]);
    assert_eq!(numbers(store, 2), [3, 4], "the first ones");
    commit(store, |write| tell(write, 7, Body::TaskLanded(Landed::of(&intent()))));
    commit(store, |write| tell(write, 3, Body::TaskReopened {}));
    assert_eq!(numbers(store, 10), [4, 5]);
}
