//! Events, streams, actors, and the store's own care for them.

use onus_core::actor::Tier;
use onus_core::event::{Body, Draft};
use onus_core::ids::Version;
use onus_core::task::{Facts, NoteKind};
use onus_core::text::{Field, digest};

use crate::{EventQuery, Progress, Store};

use super::Case;
use super::scribe::{actor, append, append_to_project, claim, commit, create, look, some_work, uid};

pub(super) fn cases<S: Store>() -> Vec<Case<S>> {
    vec![
        ("events come back as they were hashed", hashes),
        ("events are read in the order they were written, from either end", order),
        ("the ledger is walked stream by stream without a gap", pages),
        ("every stream's head is its last event", heads),
        ("actors, tiers and aliases follow from the project's stream", actors),
        ("notes are the events that carry one", notes),
        ("a rebuild of a sound store changes nothing and keeps what is not history", rebuild),
        ("a sound store is found sound", sound),
        ("the store's clock does not go back", clock),
    ]
}

fn write_some<S: Store>(store: &mut S) {
    commit(store, |write| {
        for i in 1..=3 {
            create(write, uid(i, i), &format!("task {i} \"ünï\" \u{7f}"), Facts::default())?;
        }
        let note = Draft::new(Body::NoteAdded { kind: NoteKind::Progress, link: None })
            .text(Field::Note, Some("a note".into()));
        append(write, uid(2, 2), note)?;
        claim(write, uid(1, 1), ("h", "1"), Some(60_000))
    });
}

fn all<S: Store>(store: &mut S, newest: bool, limit: u64) -> Vec<(u64, String)> {
    let query = EventQuery { newest, limit, ..EventQuery::default() };
    look(store, |read| read.events(&query)).iter().map(|record| (record.seq, record.kind.clone())).collect()
}

fn hashes<S: Store>(store: &mut S) {
    write_some(store);
    let records = look(store, |read| read.events(&EventQuery { limit: 100, ..EventQuery::default() }));
    assert_eq!(records.len(), 6);
    for record in records {
        assert_eq!(record.hash, record.expected_hash(), "{record:?}");
        assert!(record.to_event().is_ok());
    }
}

fn order<S: Store>(store: &mut S) {
    write_some(store);
    let (first, last) = (all(store, false, 2), all(store, true, 2));
    assert_eq!(first[0].1, "project.created");
    assert_eq!(
        last.iter().map(|(_, kind)| kind.as_str()).collect::<Vec<_>>(),
        ["note.added", "lease.acquired"]
    );
    assert!(all(store, false, 100).windows(2).all(|pair| pair[0].0 < pair[1].0));
    let query = EventQuery { stream: Some(uid(2, 2)), limit: 10, ..EventQuery::default() };
    let stream = look(store, |read| read.events(&query));
    assert_eq!(stream.iter().map(|record| record.version).collect::<Vec<_>>(), [1, 2]);
    let mut after = |after_seq: u64| {
        let rest = look(store, |read| read.events(&EventQuery { after_seq, ..query.clone() }));
        rest.iter().map(|record| record.version).collect::<Vec<_>>()
    };
    assert_eq!(after(stream[0].seq), [2]);
    // Also after an event of another stream, or after none that there is.
    assert_eq!(after(stream[0].seq - 1), [1, 2]);
    assert_eq!(after(u64::from(u32::MAX)), Vec::<u64>::new());
}

fn pages<S: Store>(store: &mut S) {
    write_some(store);
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = look(store, |read| read.ledger_page(after.as_ref(), 2));
        let Some(last) = page.last() else { break };
        after = Some((last.stream.clone(), last.record.version));
        for line in page {
            for text in &line.texts {
                let salt = text.salt.as_slice().try_into().unwrap();
                let field: Field = text.field.parse().unwrap();
                assert!(line.record.text_digests().contains(&(field, digest(&salt, &text.text))));
            }
            seen.push((line.stream, line.record.version));
        }
    }
    assert_eq!(seen.len(), 6);
    assert!(seen.is_sorted(), "{seen:?}");
}

fn heads<S: Store>(store: &mut S) {
    write_some(store);
    let mut heads = Vec::new();
    look(store, |read| {
        read.walk_heads(&mut |head| {
            heads.push(head);
            Ok(())
        })
    });
    assert_eq!(heads.len(), 4);
    assert!(heads.is_sorted());
    for head in heads {
        let event = look(store, |read| read.event(head.uid.parse().unwrap(), Version(head.version))).unwrap();
        assert_eq!(event.hash, head.hash);
        let next = look(store, |read| read.event(head.uid.parse().unwrap(), Version(head.version + 1)));
        assert_eq!(next, None);
        assert_eq!(look(store, |read| read.head(&head.uid)), Some(head));
    }
}

fn actors<S: Store>(store: &mut S) {
    commit(store, |write| {
        append_to_project(write, Body::ActorRegistered { actor: actor("h"), tier: Tier(1) })?;
        append_to_project(write, Body::ActorTierSet { actor: actor("h"), tier: Tier(3) })?;
        append_to_project(write, Body::ActorAliased { actor: actor("h"), alias: actor("also") })
    });
    assert_eq!(look(store, |read| read.actor(&actor("h"))).map(|actor| actor.tier), Some(Tier(3)));
    assert_eq!(look(store, |read| read.actor(&actor("also"))), None);
    assert_eq!(look(store, |read| read.alias(&actor("also"))), Some(actor("h")));
    assert_eq!(look(store, |read| read.alias(&actor("h"))), None);
    assert_eq!(look(store, |read| read.aliases()), [(actor("also"), actor("h"))]);
    assert_eq!(look(store, |read| read.project()).version, Version(4));
}

fn notes<S: Store>(store: &mut S) {
    write_some(store);
    let notes = look(store, |read| read.notes(uid(2, 2)));
    assert_eq!(notes.iter().map(|record| record.version).collect::<Vec<_>>(), [2]);
    assert!(look(store, |read| read.notes(uid(1, 1))).is_empty());
}

fn rebuild<S: Store>(store: &mut S) {
    write_some(store);
    let token = onus_core::ids::Token(1);
    let now = look(store, |read| Ok(read.now()));
    let beat = onus_core::lease::Pulse {
        last: now.clone(),
        progress: now.plus(-7),
        renewals: 5,
        deadline: Some(now.plus(123_456)),
        resting: true,
        work: some_work(&now),
    };
    commit(store, |write| write.pulse(&[(uid(1, 1), token, beat.clone())]));
    let before = look(store, |read| Ok((read.task(uid(1, 1))?, read.lease(uid(1, 1), token)?)));
    let mut last = Progress { done: 0, total: 0 };
    let rebuilt = store.rebuild(&mut |progress| last = progress).expect("it can be rebuilt");
    assert_eq!((rebuilt.events, rebuilt.tasks, rebuilt.changed), (6, 3, Vec::new()));
    assert_eq!(last, Progress { done: 6, total: 6 });
    assert_eq!(look(store, |read| Ok((read.task(uid(1, 1))?, read.lease(uid(1, 1), token)?))), before);
    assert_eq!(before.1.map(|lease| lease.pulse), Some(beat));
}

fn sound<S: Store>(store: &mut S) {
    write_some(store);
    let findings = store.check().expect("it can be checked");
    assert!(!findings.is_empty() && findings.iter().all(|finding| finding.ok), "{findings:?}");
    assert!(store.tidy().expect("it can be tidied"));
}

fn clock<S: Store>(store: &mut S) {
    let first = look(store, |read| Ok(read.now()));
    let second = commit(store, |write| Ok(write.now()));
    assert!(second.since_ms(&first) >= 0);
    assert_eq!(first.domain, second.domain);
}
