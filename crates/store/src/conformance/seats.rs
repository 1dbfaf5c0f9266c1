//! Seats, and their leases beside those of tasks.

use onus_core::event::{Body, Draft};
use onus_core::ids::{Number, Token, Uid};
use onus_core::lease::Holding;
use onus_core::seat::{Seat, SeatName};
use onus_core::task::Facts;

use crate::{Result, Seats, Store, Write};

use super::Case;
use super::scribe::{actor, append_to_seat, claim, commit, create, end, grant, instance, look, uid};

pub(super) fn cases<S: Store>() -> Vec<Case<S>> {
    vec![
        ("a seat is found by its uid and by its name", found),
        ("a seat's lease is one of its holder's, and none of a task", leased),
        ("seats are numbered apart from tasks", numbered),
        ("a seat's stream is among the heads, and its first event is read again", heads),
    ]
}

fn name(text: &str) -> SeatName {
    text.parse().unwrap()
}

fn seat(write: &mut dyn Write, uid: Uid, text: &str) -> Result<Seat> {
    let number = write.next_seat()?;
    append_to_seat(write, uid, Draft::new(Body::SeatCreated { number, name: name(text) }), ("a", "i"))
}

fn take(write: &mut dyn Write, uid: Uid, by: (&str, &str)) -> Result<Seat> {
    let token = write.seat(uid)?.expect("the seat exists").token.next();
    let grant = grant(&write.now(), Some(5_000));
    let (scope, areas) = (Default::default(), Default::default());
    let acquired = Body::LeaseAcquired { grant, scope, areas, touched: None, own_clock: None };
    append_to_seat(write, uid, Draft::new(acquired).token(token), by)
}

fn found<S: Store>(store: &mut S) {
    let made = commit(store, |write| seat(write, uid(1, 1), "land:main"));
    assert_eq!((made.version.0, made.token, made.leased), (1, Token(0), false));
    assert_eq!(look(store, |read| read.seat(uid(1, 1))), Some(made.clone()));
    assert_eq!(look(store, |read| read.seat_named(&name("land:main"))), Some(made.clone()));
    assert_eq!(commit(store, |write| write.lock_seat(&name("land:main"))), Some(made));
    for other in ["land", "land:mai", "land:main2", "Land:main"] {
        let Ok(other) = other.parse() else { continue };
        assert_eq!(look(store, |read| read.seat_named(&other)), None, "{other}");
        assert_eq!(commit(store, |write| write.lock_seat(&other)), None, "{other}");
    }
    assert_eq!(look(store, |read| read.task(uid(1, 1))), None, "a seat is no task");
}

fn leased<S: Store>(store: &mut S) {
    commit(store, |write| {
        create(write, uid(1, 1), "t", Facts::default())?;
        claim(write, uid(1, 1), ("h", "1"), Some(5_000))?;
        seat(write, uid(2, 2), "dispatch")?;
        seat(write, uid(3, 3), "land:main")?;
        take(write, uid(3, 3), ("h", "1"))
    });
    let held = look(store, |read| read.leases_held_by(&actor("h"), &instance("1")));
    let mut kinds: Vec<Holding> = held.iter().map(|lease| lease.holds).collect();
    kinds.sort();
    assert_eq!(kinds, [Holding::Task, Holding::Seat]);
    let open = look(store, |read| read.open_leases(10));
    assert_eq!(open.iter().map(|(task, _)| task.uid).collect::<Vec<_>>(), [uid(1, 1)]);
    let names = |seats: Vec<Seat>| seats.into_iter().map(|seat| seat.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(look(store, |read| read.seats(Seats::All, 10))), ["dispatch", "land:main"]);
    assert_eq!(names(look(store, |read| read.seats(Seats::Leased, 10))), ["land:main"]);
    assert_eq!(names(look(store, |read| read.seats(Seats::All, 1))), ["dispatch"]);
    let released = Draft::new(Body::LeaseReleased { lease: end() }).token(Token(1));
    let after = commit(store, |write| append_to_seat(write, uid(3, 3), released.clone(), ("h", "1")));
    assert_eq!((after.token, after.leased, after.version.0), (Token(1), false, 3));
    assert!(look(store, |read| read.seats(Seats::Leased, 10)).is_empty());
}

fn numbered<S: Store>(store: &mut S) {
    commit(store, |write| {
        create(write, uid(1, 1), "t", Facts::default())?;
        seat(write, uid(2, 2), "one")?;
        seat(write, uid(3, 3), "two")
    });
    let last = look(store, |read| Ok((read.last_number()?, read.last_seat()?)));
    assert_eq!(last, (Number(1), Number(2)));
    assert_eq!(commit(store, |write| write.next_seat()), Number(3));
    assert_eq!(commit(store, |write| write.next_number()), Number(2));
}

fn heads<S: Store>(store: &mut S) {
    commit(store, |write| {
        create(write, uid(1, 1), "t", Facts::default())?;
        seat(write, uid(2, 2), "one")?;
        take(write, uid(2, 2), ("h", "1"))
    });
    let head = look(store, |read| read.head(&uid(2, 2).to_string())).unwrap();
    assert_eq!(head.version, 2);
    let mut all = Vec::new();
    look(store, |read| {
        read.walk_heads(&mut |head| {
            all.push(head);
            Ok(())
        })
    });
    assert!(all.contains(&head), "{all:?}");
    assert_eq!(all.len(), 3);
}
