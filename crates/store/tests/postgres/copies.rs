//! Copies from one store into another.

use onus_core::event::{Body, Draft};
use onus_core::ids::{Token, Version};
use onus_core::text::{Field, TextKey};
use onus_store::conformance::scribe::{self, append, append_note, claim, commit, end, look, uid};
use onus_store::conformance::server::{Server, fresh_name, parsed};
use onus_store::{
    Access, AnyStore, Loss, PendingKind, PendingNotice, PostgresStore, SqliteStore, StoreError, copy,
};

use super::{WAIT, add};

#[test]
fn a_copy_there_and_back_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (actor, instance) = ("human:founder".parse().unwrap(), "person".parse().unwrap());
    let (prefix, path) = ("ON".parse().unwrap(), folder.path().join("onus.db"));
    let project = uid(0x0190_0000, u32::from(std::process::id() as u16));
    let mut file =
        SqliteStore::create(&path, &prefix, project, uid(9, 9), (&actor, &instance), WAIT).unwrap();
    let loss =
        Loss { actor: scribe::actor("h"), instance: scribe::instance("1"), task: uid(2, 2), token: Token(1) };
    let notice = PendingNotice {
        actor: scribe::actor("h"),
        instance: scribe::instance("1"),
        task: uid(4, 4),
        token: Token(1),
        kind: PendingKind::Merge,
        path: "src/a.rs".to_owned(),
        by: Some((scribe::actor("g"), scribe::instance("2"))),
        by_task: Some(uid(1, 1)),
        worktree: None,
        branch: Some("side".to_owned()),
        at_ms: 7,
    };
    for n in 1..=700 {
        add(&mut file, n);
    }
    commit(&mut file, |write| {
        append_note(write, uid(3, 3))?;
        claim(write, uid(2, 2), ("h", "1"), Some(60_000))?;
        let taken = Body::LeaseTakenOver { cause: onus_core::lease::LapseCause::Ttl, lease: end() };
        append(write, uid(2, 2), Draft::new(taken).token(Token(1)))?;
        write.put_loss(&loss)?;
        claim(write, uid(4, 4), ("h", "1"), Some(60_000))?;
        write.put_notice(&notice)
    });
    let live = copy::live_leases(&mut file, &|_| onus_core::lease::Seen::Unseen).unwrap();
    assert_eq!(live, [("ON-4".to_owned(), "agent:h".to_owned())]);
    let (server, name) = (Server::shared(), fresh_name());
    let address = parsed(server.shared_database());
    let row = look(&mut file, |read| read.project());
    // Interrupted after the first page: it goes on from there.
    let mut target = PostgresStore::begin_copy(&address, &name, &row, WAIT).unwrap();
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        copy::copy(&mut file, &mut target, &mut |_| panic!("interrupted"))
    }));
    assert!(stopped.is_err());
    assert!(matches!(PostgresStore::open(&address, &name, WAIT), Err(StoreError::NoProject { .. })));
    let mut target = PostgresStore::begin_copy(&address, &name, &row, WAIT).unwrap();
    assert_eq!(look(&mut target, |read| read.count_events()), 500);
    // What is erased meanwhile is erased in the copy, too.
    let title = TextKey { stream: uid(5, 5), version: Version(1), field: Field::Title };
    commit(&mut file, |write| {
        let redacted = Body::TextRedacted { version: title.version, fields: vec![title.field] };
        append(write, title.stream, Draft::new(redacted))?;
        write.erase(title)
    });
    assert!(look(&mut target, |read| read.text(title)).is_some());
    let copied = copy::copy(&mut file, &mut target, &mut |_| {}).unwrap();
    assert_eq!((copied.events, copied.tasks), (706, 700));
    assert!(look(&mut target, |read| read.text(title)).is_none());
    copy::compare(&mut file, &mut target).unwrap();
    commit(&mut file, |write| append_note(write, uid(6, 6)));
    assert!(copy::compare(&mut file, &mut target).is_err(), "the old store went on");
    copy::copy(&mut file, &mut target, &mut |_| {}).unwrap();
    target.finish_copy(&name).unwrap();
    assert!(matches!(PostgresStore::begin_copy(&address, &name, &row, WAIT), Err(StoreError::Exists(_))));
    let mut there = AnyStore::Postgres(PostgresStore::open(&address, &name, WAIT).unwrap());
    let back = folder.path().join("back.db");
    let mut target = SqliteStore::begin_copy(&back, project, WAIT).unwrap();
    copy::copy(&mut there, &mut target, &mut |_| {}).unwrap();
    drop(target);
    std::fs::write(&back, "somebody else's").unwrap();
    assert!(matches!(SqliteStore::finish_copy(&back, WAIT), Err(StoreError::Exists(_))));
    std::fs::remove_file(&back).unwrap();
    SqliteStore::finish_copy(&back, WAIT).unwrap();
    let mut back = SqliteStore::open(&back, Access::Write, WAIT).unwrap();
    for n in [1, 3, 4, 700] {
        let (old, new) =
            (look(&mut file, |read| read.task(uid(n, n))), look(&mut back, |read| read.task(uid(n, n))));
        assert_eq!(old, new);
    }
    let lease = |store: &mut SqliteStore| look(store, |read| read.lease(uid(4, 4), Token(1))).unwrap();
    assert_eq!(lease(&mut file), lease(&mut back));
    assert_eq!(look(&mut back, |read| read.losses()), [loss], "what nobody was told of yet");
    assert_eq!(look(&mut back, |read| read.notices()), [notice], "and what its holder is still to hear");
    assert_eq!(
        look(&mut back, |read| read.search(&["task".into(), "700".into()], false, 10)),
        [uid(700, 700)]
    );
}
