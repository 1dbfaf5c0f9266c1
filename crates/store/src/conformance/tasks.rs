//! Tasks: rows, references, lists, texts and search.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::actor::Tier;
use onus_core::constraint::Constraint;
use onus_core::event::{Body, Draft, KeptFor};
use onus_core::ids::{Number, TaskRef, Uid, Version};
use onus_core::task::{Facts, NoteKind, Priority, State, TaskBranch, TaskType};
use onus_core::text::{Field, TextKey};

use crate::{After, Filter, Store, StoreError};

use super::Case;
use super::scribe::{actor, append, claim, commit, create, end, look, uid};

pub(super) fn cases<S: Store>() -> Vec<Case<S>> {
    vec![
        ("a task's row comes back as it was written", round_trip),
        ("numbers grow by one and are never given twice", numbers_grow),
        ("a part that was undone leaves nothing, its neighbours stay", parts_are_undone_alone),
        ("a transaction that fails leaves nothing", failed_transactions_leave_nothing),
        ("references find a task by number, id, start and end of the uid", references),
        ("lists are ordered by priority, then number, and go on after a cursor", lists),
        ("lists are narrowed by every filter", filters),
        ("tasks that wait are found, and those that are kept for somebody", waiting),
        ("tasks with a branch of their own are found, unfinished ones first", branched),
        ("a task is found by what it is called elsewhere, as long as it is called so", external_references),
        ("acceptance lines, ticks and times are kept in the task's row", acceptance),
        ("tasks are counted by state, ad-hoc ones apart", counts),
        ("a step's word and a cleared body are in the task's row", words_and_bodies),
        ("one origin is one task", origins),
        ("search finds every word in any current text of a task", search),
        ("an erased text is gone from text and search", erased_texts),
    ]
}

fn rich_facts() -> Facts {
    Facts {
        link: Some("https://tracker.example/7".to_owned()),
        kind: TaskType::Bug,
        priority: Priority::P1,
        required_tier: Tier(2),
        area: Some("web".into()),
        iteration: Some("2026-W46".into()),
        owner: Some("human:zoë".parse().unwrap()),
        tags: BTreeSet::from(["a".to_owned(), "ü\"'".to_owned()]),
        refs: BTreeMap::from([("jira".to_owned(), "WEB-7".to_owned())]),
        parent: None,
        relates: BTreeSet::from([uid(7, 7), uid(8, 8)]),
        scope: ["src/**".parse().unwrap(), "{a,b}/*.rs".parse().unwrap()].into_iter().collect(),
        scope_areas: {
            let mut areas = onus_core::scope::Areas::default();
            areas.insert("web".parse().unwrap(), ["src/**".parse().unwrap()]);
            areas
        },
        mode: onus_core::lease::Mode::Shared,
        constraints: [Constraint::ReadOnly, Constraint::MaxLines(40)].into_iter().collect(),
        gates: BTreeSet::from(["design".parse().unwrap(), "tests".parse().unwrap()]),
        not_before_ms: Some(1_750_000_000_000),
        max_attempts: Some(5),
        ad_hoc: true,
    }
}

fn round_trip<S: Store>(store: &mut S) {
    let written = commit(store, |write| create(write, uid(1, 1), "Fix it", rich_facts()));
    let read = look(store, |read| read.task(uid(1, 1))).expect("it is there");
    assert_eq!(read, written);
    assert_eq!(read.facts, rich_facts());
    assert_eq!((read.state, read.version.0, read.token.0), (State::Open, 1, 0));
    assert_eq!(look(store, |read| read.task(uid(9, 9))), None);
}

fn numbers_grow<S: Store>(store: &mut S) {
    for expected in 1..=3_u32 {
        let task = commit(store, |write| create(write, uid(expected, expected), "t", Facts::default()));
        assert_eq!(task.number, Number(u64::from(expected)));
    }
    // A number that was only read is not taken.
    commit(store, |write| write.next_number());
    assert_eq!(commit(store, |write| write.next_number()), Number(4));
}

fn parts_are_undone_alone<S: Store>(store: &mut S) {
    commit(store, |write| {
        write.savepoint()?;
        create(write, uid(1, 1), "kept", Facts::default())?;
        write.release()?;
        write.savepoint()?;
        create(write, uid(2, 2), "undone", Facts::default())?;
        write.undo()?;
        // Nor does what comes after it in the same transaction see it.
        write.savepoint()?;
        let token = claim(write, uid(1, 1), ("h", "1"), None)?;
        write.undo()?;
        assert_eq!(write.task(uid(1, 1))?.map(|task| task.version), Some(Version(1)));
        assert_eq!(write.lock_task(uid(1, 1))?.map(|task| task.leased), Some(false));
        assert!(write.lease(uid(1, 1), token)?.is_none());
        write.savepoint()?;
        create(write, uid(3, 3), "kept too", Facts::default())?;
        write.release()
    });
    assert!(look(store, |read| read.task(uid(1, 1))).is_some());
    assert!(look(store, |read| read.task(uid(2, 2))).is_none());
    assert_eq!(look(store, |read| read.task(uid(3, 3))).map(|task| task.number), Some(Number(2)));
    assert_eq!(look(store, |read| read.search(&["undone".into()], false, 10)), []);
}

fn failed_transactions_leave_nothing<S: Store>(store: &mut S) {
    let before = look(store, |read| read.count_events());
    let failed: crate::Result<()> = store.write(|write| {
        create(write, uid(1, 1), "gone", Facts::default())?;
        Err(StoreError::Unexpected("on purpose".into()))
    });
    assert!(failed.is_err());
    assert_eq!(look(store, |read| read.task(uid(1, 1))), None);
    assert_eq!(look(store, |read| read.count_events()), before);
}

fn external_references<S: Store>(store: &mut S) {
    let (one, two) = (uid(1, 1), uid(2, 2));
    let called = |refs: &[(&str, &str)]| Facts {
        refs: refs.iter().map(|(system, id)| ((*system).to_owned(), (*id).to_owned())).collect(),
        ..Facts::default()
    };
    let long = "ü".repeat(100);
    commit(store, |write| {
        create(write, one, "one", called(&[("jira", "WEB-7"), ("gh", "12"), ("url", &long)]))?;
        create(write, two, "two", called(&[("jira", "web-7"), ("gh", "12")]))
    });
    let found = |store: &mut S, text: &str| {
        let mut found = look(store, |read| read.resolve(&text.parse().unwrap()));
        found.sort();
        found
    };
    let none: Vec<Uid> = Vec::new();
    assert_eq!(found(store, "jira:WEB-7"), [one]);
    assert_eq!(found(store, "JIRA:web-7"), [two]);
    assert_eq!(found(store, &format!("url:{long}")), [one]);
    assert_eq!(found(store, "gh:12"), [one, two]);
    assert_eq!(found(store, "gh:1"), none);
    assert_eq!(found(store, "12:gh"), none);
    commit(store, |write| {
        let edited = Body::TaskEdited { facts: called(&[("gh", "13")]), title: false, body: false };
        append(write, one, Draft::new(edited))
    });
    assert_eq!(found(store, "jira:WEB-7"), none);
    assert_eq!((found(store, "gh:12"), found(store, "gh:13")), (vec![two], vec![one]));
    let rebuilt = store.rebuild(&mut |_| {}).unwrap();
    assert!(rebuilt.changed.is_empty(), "{:?}", rebuilt.changed);
}

fn acceptance<S: Store>(store: &mut S) {
    let task = uid(1, 1);
    commit(store, |write| {
        create(write, task, "t", Facts::default())?;
        for line in ["it works", "it is fast"] {
            let added = Draft::new(Body::AcceptanceAdded {}).text(Field::Acceptance, Some(line.to_owned()));
            append(write, task, added)?;
        }
        append(write, task, Draft::new(Body::AcceptanceTicked { line: 2 }))?;
        claim(write, task, ("a", "i"), None)
    });
    let row = look(store, |read| read.task(task)).unwrap();
    assert_eq!(row.acceptance.iter().map(|line| line.version.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(row.unticked(), [1]);
    assert_eq!(row.acceptance[1].ticked.as_ref().map(|ticked| ticked.by.clone()), Some(actor("a")));
    assert!(row.started_at_ms.is_some() && row.completed_at_ms.is_none(), "{row:?}");
    assert_eq!(look(store, |read| read.search(&["fast".into()], false, 9)), [task]);
    commit(store, |write| {
        let done = Draft::new(Body::TaskDone { lease: end(), awaits_landing: None }).token(row.token);
        append(write, task, done)
    });
    let row = look(store, |read| read.task(task)).unwrap();
    assert!(row.completed_at_ms >= row.started_at_ms && row.completed_at_ms.is_some(), "{row:?}");
    let rebuilt = store.rebuild(&mut |_| {}).unwrap();
    assert!(rebuilt.changed.is_empty(), "{:?}", rebuilt.changed);
}

fn references<S: Store>(store: &mut S) {
    let (one, two) = (uid(0x0193_aaaa, 0x1111_beef), uid(0x0193_aabb, 0x2222_beef));
    commit(store, |write| {
        create(write, one, "one", Facts::default())?;
        create(write, two, "two", Facts::default())
    });
    let prefix = look(store, |read| read.project()).prefix;
    let mut resolve = |text: &str| {
        let reference: TaskRef = text.parse().unwrap();
        let mut found = look(store, |read| read.resolve(&reference));
        found.sort();
        found
    };
    let none: Vec<Uid> = Vec::new();
    assert_eq!(resolve("1"), [one]);
    assert_eq!(resolve(&prefix.id(Number(2))), [two]);
    assert_eq!(resolve(&prefix.id(Number(2)).to_lowercase()), [two]);
    assert_eq!(resolve(&one.to_string()), [one]);
    assert_eq!(resolve(&one.to_string().replace('-', "").to_uppercase()), [one]);
    assert_eq!(resolve("0193aaaa"), [one]);
    assert_eq!(resolve("0193aabb-0000-7"), [two]);
    assert_eq!(resolve("1111beef"), [one]);
    assert_eq!(resolve("8000-00002222beef"), [two]);
    assert_eq!(resolve("0193a"), [one, two]);
    assert_eq!(resolve("beef"), [one, two]);
    assert_eq!(resolve("dead"), none);
    assert_eq!(resolve("3"), none);
    assert_eq!(resolve("OTHER-1"), none);
}

fn lists<S: Store>(store: &mut S) {
    let priorities = [Priority::P3, Priority::P0, Priority::P2, Priority::P0, Priority::P3];
    commit(store, |write| {
        for (i, priority) in (1_u32..).zip(priorities) {
            create(write, uid(i, i), "t", Facts { priority, ..Facts::default() })?;
        }
        Ok(())
    });
    let mut pages = Vec::new();
    let mut after = None;
    loop {
        let page = look(store, |read| read.list(&Filter::default(), after, 2));
        let Some(last) = page.last() else { break };
        after = Some(After { priority: last.facts.priority, number: last.number });
        pages.push(page.iter().map(|task| task.number.0).collect::<Vec<_>>());
    }
    assert_eq!(pages, [vec![2, 4], vec![3, 1], vec![5]]);
}

fn filters<S: Store>(store: &mut S) {
    commit(store, |write| {
        create(write, uid(1, 1), "rich", rich_facts())?;
        create(write, uid(2, 2), "plain", Facts::default())?;
        create(write, uid(3, 3), "dropped", Facts::default())?;
        append(write, uid(3, 3), Draft::new(Body::TaskDropped { lease: None }))?;
        claim(write, uid(2, 2), ("h", "1"), None)
    });
    let mut numbers = |filter: Filter| {
        look(store, |read| read.list(&filter, None, 10)).iter().map(|task| task.number.0).collect::<Vec<_>>()
    };
    let plain = Filter::default;
    assert_eq!(numbers(plain()), [1, 2]);
    assert_eq!(numbers(Filter { finished: true, ..plain() }), [1, 2, 3]);
    assert_eq!(numbers(Filter { states: vec![State::Dropped, State::InProgress], ..plain() }), [2, 3]);
    assert_eq!(numbers(Filter { kind: Some(TaskType::Bug), ..plain() }), [1]);
    assert_eq!(numbers(Filter { priority: Some(Priority::P2), ..plain() }), [2]);
    assert_eq!(numbers(Filter { tag: Some("ü\"'".into()), ..plain() }), [1]);
    assert!(numbers(Filter { tag: Some("b".into()), ..plain() }).is_empty());
    assert_eq!(numbers(Filter { owner: Some("human:zoë".parse().unwrap()), ..plain() }), [1]);
    assert_eq!(numbers(Filter { area: Some("web".into()), ..plain() }), [1]);
    assert_eq!(numbers(Filter { iteration: Some("2026-W46".into()), ..plain() }), [1]);
    assert_eq!(numbers(Filter { holder: Some("agent:h".parse().unwrap()), ..plain() }), [2]);
    assert!(numbers(Filter { holder: Some("agent:x".parse().unwrap()), ..plain() }).is_empty());
    assert_eq!(numbers(Filter { ad_hoc: Some(true), ..plain() }), [1]);
    assert_eq!(numbers(Filter { ad_hoc: Some(false), ..plain() }), [2]);
}

/// Blocked, waiting for another, waiting for a part, kept for somebody: each is found, and nothing else is.
fn waiting<S: Store>(store: &mut S) {
    let kept_for = KeptFor {
        actor: "human:ann".parse().unwrap(),
        until_wall_ms: 1,
        until_tick_ms: 1,
        domain: onus_core::time::ClockDomain::new("m", "b", "t"),
    };
    commit(store, |write| {
        for i in 1..=6 {
            create(write, uid(i, i), "t", Facts::default())?;
        }
        append(write, uid(1, 1), Draft::new(Body::TaskBlocked { lease: None }))?;
        append(write, uid(2, 2), Draft::new(Body::DepAdded { on: [uid(5, 5)].into() }))?;
        let facts = Facts { parent: Some(uid(3, 3)), ..Facts::default() };
        append(write, uid(6, 6), Draft::new(Body::TaskEdited { facts, title: false, body: false }))?;
        append(write, uid(4, 4), Draft::new(Body::LeaseHandedOff { kept_for: kept_for.clone(), lease: None }))
    });
    let mut numbers = |filter: Filter| {
        look(store, |read| read.list(&filter, None, 10)).iter().map(|task| task.number.0).collect::<Vec<_>>()
    };
    assert_eq!(numbers(Filter { waiting: true, ..Filter::default() }), [1, 2, 3]);
    assert_eq!(numbers(Filter { kept_for: Some(kept_for.actor.clone()), ..Filter::default() }), [4]);
    let other = Some("human:bob".parse().unwrap());
    assert!(numbers(Filter { kept_for: other, ..Filter::default() }).is_empty());
}

fn branched<S: Store>(store: &mut S) {
    assert!(look(store, |read| read.branched(10)).is_empty());
    commit(store, |write| {
        for i in 1..=6 {
            create(write, uid(i, i), "t", Facts::default())?;
        }
        for i in [1, 3, 4, 5, 6] {
            let own = TaskBranch { branch: format!("b{i}"), base: "0".repeat(40), target: "main".into() };
            append(write, uid(i, i), Draft::new(Body::TaskBranched(own)))?;
        }
        append(write, uid(4, 4), Draft::new(Body::TaskDropped { lease: None }))?;
        let token = claim(write, uid(6, 6), ("a", "a-1"), None)?;
        append(
            write,
            uid(6, 6),
            Draft::new(Body::TaskDone { lease: end(), awaits_landing: None }).token(token),
        )
    });
    let mut found = |limit| {
        let tasks = look(store, |read| read.branched(limit));
        tasks.into_iter().map(|task| (task.number.0, task.branch.unwrap().branch)).collect::<Vec<_>>()
    };
    let expected = [5, 3, 1, 6].map(|number| (number, format!("b{number}")));
    assert_eq!(found(10), expected);
    assert_eq!(found(2), expected[..2]);
    let of = |branch: &str| look(store, |read| read.task_of_branch(branch)).map(|task| task.number.0);
    assert_eq!(["b1", "b2", "b4", "b6", "b"].map(of), [Some(1), None, None, Some(6), None]);
    // Another one gets the branch of one that is done, and two the same.
    commit(store, |write| {
        for i in [2, 5, 3] {
            let own = TaskBranch { branch: "b6".into(), base: "0".repeat(40), target: "main".into() };
            append(write, uid(i, i), Draft::new(Body::TaskBranched(own)))?;
        }
        Ok(())
    });
    assert_eq!(look(store, |read| read.task_of_branch("b6")).map(|task| task.number.0), Some(5));
    assert_eq!(look(store, |read| read.task_of_branch("b5")), None);
}

fn counts<S: Store>(store: &mut S) {
    commit(store, |write| {
        for i in 1..=3 {
            create(write, uid(i, i), "t", Facts::default())?;
        }
        create(write, uid(4, 4), "edits", Facts { ad_hoc: true, ..Facts::default() })?;
        create(write, uid(5, 5), "more edits", Facts { ad_hoc: true, ..Facts::default() })?;
        append(write, uid(5, 5), Draft::new(Body::TaskDropped { lease: None }))?;
        append(write, uid(2, 2), Draft::new(Body::TaskDropped { lease: None }))
    });
    assert_eq!(look(store, |read| read.count_ad_hoc()), 1, "those that are not finished");
    let counts: BTreeMap<State, u64> = look(store, |read| read.count_by_state()).into_iter().collect();
    assert_eq!(counts, BTreeMap::from([(State::Open, 2), (State::Dropped, 1)]));
}

fn origins<S: Store>(store: &mut S) {
    let origin: onus_core::task::Origin = "mail:<1@x>".parse().unwrap();
    commit(store, |write| {
        let number = write.next_number()?;
        let (state, facts, origin) = (State::Proposed, Facts::default(), Some(origin.clone()));
        let created =
            Body::TaskCreated { number, state, facts, origin, body: false, deps: Default::default() };
        append(write, uid(1, 1), Draft::new(created).text(Field::Title, Some("asked".into())))
    });
    assert_eq!(look(store, |read| read.task_by_origin(&origin)), Some(uid(1, 1)));
    assert_eq!(look(store, |read| read.task_by_origin(&"mail:<2@x>".parse().unwrap())), None);
}

fn search<S: Store>(store: &mut S) {
    commit(store, |write| {
        create(write, uid(1, 1), "Fix the flaky login", Facts::default())?;
        create(write, uid(2, 2), "Über-Login aufräumen", Facts::default())?;
        let note = Draft::new(Body::NoteAdded { kind: NoteKind::Progress, link: None })
            .text(Field::Note, Some("see the \"trace\" of ci".into()));
        append(write, uid(1, 1), note)?;
        let edited = Body::TaskEdited { facts: Facts::default(), title: true, body: false };
        append(write, uid(2, 2), Draft::new(edited).text(Field::Title, Some("Sign-in aufräumen".into())))
    });
    let mut find = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        look(store, |read| read.search(&words, false, 10))
    };
    let none: Vec<Uid> = Vec::new();
    assert_eq!(find(&["login"]), [uid(1, 1)], "a title that was replaced is not found");
    assert_eq!(find(&["LOG", "trace"]), [uid(1, 1)], "words may stand in different texts");
    assert_eq!(find(&["aufraumen"]), [uid(2, 2)], "without its diacritics");
    assert_eq!(find(&["login", "aufräumen"]), none);
    assert_eq!(find(&["\"", "OR", "*"]), none, "syntax is only text");
    assert_eq!(find(&[]), none);
    commit(store, |write| {
        create(write, uid(3, 3), "edits of login.rs", Facts { ad_hoc: true, ..Facts::default() })
    });
    let words = ["login".to_owned()];
    assert_eq!(look(store, |read| read.search(&words, false, 10)), [uid(1, 1)]);
    let all: BTreeSet<Uid> = look(store, |read| read.search(&words, true, 10)).into_iter().collect();
    assert_eq!(all, BTreeSet::from([uid(1, 1), uid(3, 3)]));
}

/// A word with a step is where it was said; a body that was cleared is nowhere.
fn words_and_bodies<S: Store>(store: &mut S) {
    let edited = |body| Draft::new(Body::TaskEdited { facts: Facts::default(), title: false, body });
    commit(store, |write| {
        create(write, uid(1, 1), "t", Facts::default())?;
        append(write, uid(1, 1), edited(true).text(Field::Body, Some("details".into())))
    });
    let task = |store: &mut S| look(store, |read| read.task(uid(1, 1))).unwrap();
    assert_eq!((task(store).body_version, task(store).word_version), (Some(Version(2)), None));
    assert_eq!(look(store, |read| read.search(&["details".into()], false, 10)), [uid(1, 1)]);
    commit(store, |write| append(write, uid(1, 1), edited(true)));
    assert_eq!(task(store).body_version, None);
    assert_eq!(look(store, |read| read.search(&["details".into()], false, 10)), []);
    let blocked = Draft::new(Body::TaskBlocked { lease: None });
    commit(store, |write| {
        append(write, uid(1, 1), blocked.clone().text(Field::Note, Some("a decision".into())))
    });
    assert_eq!(task(store).word_version, Some(Version(4)));
    commit(store, |write| append(write, uid(1, 1), Draft::new(Body::TaskUnblocked {})));
    assert_eq!(task(store).word_version, Some(Version(4)), "who says nothing leaves the last word");
}

fn erased_texts<S: Store>(store: &mut S) {
    let key = TextKey { stream: uid(1, 1), version: onus_core::ids::Version(2), field: Field::Note };
    commit(store, |write| {
        create(write, uid(1, 1), "t", Facts::default())?;
        let note = Draft::new(Body::NoteAdded { kind: NoteKind::Progress, link: None })
            .text(Field::Note, Some("hunter2".into()));
        append(write, uid(1, 1), note)?;
        claim(write, uid(1, 1), ("h", "1"), None)?;
        append(
            write,
            uid(1, 1),
            Draft::new(Body::TaskDone { lease: end(), awaits_landing: None }).token(onus_core::ids::Token(1)),
        )
    });
    assert_eq!(look(store, |read| read.text(key)).map(|stored| stored.text), Some("hunter2".to_owned()));
    let same = |store: &mut S, words: &str| look(store, |read| read.same_texts(uid(1, 1), words));
    assert_eq!(same(store, "hunter2"), [key]);
    assert_eq!(same(store, "Hunter2"), []);
    assert_eq!(look(store, |read| read.same_texts(uid(2, 2), "hunter2")), [], "of this stream alone");
    assert_eq!(look(store, |read| read.search(&["hunter2".into()], false, 10)), [uid(1, 1)]);
    commit(store, |write| {
        let fields = vec![Field::Note];
        append(write, uid(1, 1), Draft::new(Body::TextRedacted { version: key.version, fields }))?;
        write.erase(key)
    });
    assert_eq!(look(store, |read| read.text(key)), None);
    assert_eq!(look(store, |read| read.search(&["hunter2".into()], false, 10)), []);
    assert!(look(store, |read| read.texts(key.stream, key.version)).is_empty());
    assert_eq!(same(store, "hunter2"), []);
}
