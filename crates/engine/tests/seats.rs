//! Seats keep the promises of leases: one holder, tokens that only grow, a fence that nothing gets past.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use crate::world::{
    MAX_HOLD_MS, TTL_MS, World, claim, new_task, on, process, who, with_token, world, world_with,
};
use onus_core::command::{Act, Command, Force, Presence, SeatAct, SeatTerms};
use onus_core::ids::{Token, Version};
use onus_core::policy::Policy;
use onus_core::refusal::{Code, Forced, OnSeat, Step};
use onus_core::seat::SeatName;
use onus_core::task::NoteKind;
use onus_core::text::Field;
use onus_engine::{Ancestry, Answer, Identity, LogScope, NoticeKind, SeatView};
use onus_store::{AnyStore, Store as _};

fn main_branch() -> SeatName {
    "land:main".parse().unwrap()
}

fn seat(act: SeatAct) -> Command {
    Command::OnSeat { seat: main_branch(), act, force: None }
}

fn take() -> Command {
    seat(SeatAct::Take(SeatTerms::default()))
}

fn take_over(force: bool) -> Command {
    let terms = SeatTerms { reason: Some("its holder is gone".into()), ..SeatTerms::default() };
    let force = force.then(|| Force { reason: "urgent".into(), link: None });
    Command::OnSeat { seat: main_branch(), act: SeatAct::Takeover(terms), force }
}

/// A note, as its holder writes one.
fn wrote(text: &str) -> Act {
    Act::Note { text: text.into(), kind: NoteKind::Progress, link: None }
}

fn renew() -> Command {
    seat(SeatAct::Renew { ttl_ms: None })
}

fn release() -> Command {
    seat(SeatAct::Release)
}

/// A write that only the seat's holder may make.
fn seated(token: u64, command: Command) -> Command {
    Command::Seated { seat: main_branch(), token: Token(token), command: Box::new(command) }
}

#[track_caller]
fn has(world: &mut World<AnyStore>, identity: &Identity, command: Command) -> SeatView {
    match world.run(identity, command).unwrap().answer {
        Answer::Seat { seat, .. } => *seat,
        other => panic!("no seat in {other:?}"),
    }
}

#[track_caller]
fn check(world: &mut World<AnyStore>, identity: &Identity) -> Result<SeatView, Code> {
    let checked = world.engine.check_seat(identity, &main_branch());
    checked.map(|looked| looked.value).map_err(|refusal| refusal.code)
}

fn kinds(world: &mut World<AnyStore>) -> Vec<String> {
    let name = main_branch();
    let page = world.engine.log(None, LogScope::Seat(&name), 0, false, 1_000).unwrap().value;
    page.records.into_iter().map(|record| record.kind).collect()
}

#[test]
fn a_seat_has_one_holder_and_its_tokens_only_grow() {
    let mut world = world();
    let (a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    let taken = has(&mut world, &a, take());
    assert_eq!((taken.token, taken.lease.unwrap().actor.as_str()), (1, "agent:a"));
    // Another instance of the same agent is another holder.
    for other in [&b, &who("agent:a", "2")] {
        assert_eq!(world.refused(other, take()), Code::Held);
    }
    let refusal = world.run(&b, take()).unwrap_err();
    assert_eq!((refusal.seat.as_deref(), refusal.task.as_deref()), (Some("land:main"), None));
    assert!(refusal.holder.is_some() && refusal.expires_in_s == Some(TTL_MS / 1000), "{refusal:?}");
    assert!(refusal.next.iter().all(|step| matches!(step, Step::Seat(..))), "{refusal:?}");
    // Its own taking renews.
    let Answer::Seat { renewed, .. } = world.run(&a, take()).unwrap().answer else { panic!("no seat") };
    assert!(renewed);
    assert!(has(&mut world, &a, release()).lease.is_none());
    assert_eq!(has(&mut world, &b, take()).token, 2);
    assert_eq!(kinds(&mut world), ["seat.created", "lease.acquired", "lease.released", "lease.acquired"]);
    world.is_whole();
}

#[test]
fn a_seat_lapses_at_its_deadline_and_at_its_longest_hold() {
    let mut world = world();
    let (a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    has(&mut world, &a, take());
    world.pass(TTL_MS - 1);
    assert_eq!(world.refused(&b, take()), Code::Held);
    assert_eq!(world.refused(&b, take_over(false)), Code::Held);
    world.pass(1);
    assert_eq!(check(&mut world, &a), Err(Code::NotAllowed), "lapsed, and nobody else has it");
    assert_eq!(has(&mut world, &b, take_over(false)).token, 2);
    for _ in 0..MAX_HOLD_MS / (TTL_MS / 2) - 1 {
        world.pass(TTL_MS / 2);
        has(&mut world, &b, renew());
    }
    world.pass(TTL_MS / 2);
    assert_eq!(world.refused(&b, renew()), Code::Held, "nobody holds longer than the maximum");
    assert_eq!(has(&mut world, &a, take()).token, 3);
    world.is_whole();
}

#[test]
fn a_seat_is_free_the_moment_its_process_dies() {
    let mut world = world_with(Policy { unique_machines: true, ..crate::world::policy() });
    let (mut a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    a.ancestry = Ancestry::Known(vec![process(7, 1)]);
    let terms = SeatTerms { process: Some(process(7, 1)), ..SeatTerms::default() };
    has(&mut world, &a, seat(SeatAct::Take(terms)));
    assert_eq!(world.refused(&b, take()), Code::Held);
    world.kill(7);
    assert_eq!(has(&mut world, &b, take()).token, 2);
    assert_eq!(world.refused(&a, renew()), Code::Fenced);
    assert!(kinds(&mut world).contains(&"lease.taken_over".to_owned()));
    world.is_whole();
}

#[test]
fn a_superseded_holder_is_refused_everywhere_and_told_once() {
    let mut world = world();
    let (a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    has(&mut world, &a, take());
    world.pass(TTL_MS);
    has(&mut world, &b, take());
    for holder in [a.clone(), with_token(a.clone(), 1), with_token(b.clone(), 1)] {
        for command in [renew(), release(), seated(1, new_task("landed"))] {
            assert_eq!(world.refused(&holder, command), Code::Fenced, "{holder:?}");
        }
        assert_eq!(check(&mut world, &holder), Err(Code::Fenced));
    }
    // A token that was never granted is no better.
    assert_eq!(world.refused(&with_token(a.clone(), 9), renew()), Code::Fenced);
    let notices = world.run(&a, new_task("something else")).unwrap().notices;
    let told = notices.iter().find(|notice| notice.kind == NoticeKind::Superseded).unwrap();
    assert_eq!(told.seat.as_deref(), Some("land:main"));
    assert!(told.message.contains("taken over by agent:b"), "{told:?}");
    assert!(world.run(&a, new_task("once more")).unwrap().notices.is_empty(), "told again");
    // The holder continues.
    assert_eq!(has(&mut world, &b, renew()).token, 2);
    world.is_whole();
}

/// The fence that a lander relies on: the comparison and the write are one transaction.
#[test]
fn a_write_under_a_seat_needs_its_current_token() {
    let mut world = world();
    let (a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    assert_eq!(world.refused(&a, seated(1, new_task("t"))), Code::NotFound);
    has(&mut world, &a, take());
    assert_eq!(world.ok(&a, seated(1, new_task("first"))).title, "first");
    assert_eq!(world.refused(&a, seated(2, new_task("t"))), Code::Fenced);
    // Late, and nobody else has it: the token is current still.
    world.pass(TTL_MS);
    assert_eq!(world.ok(&a, seated(1, new_task("late"))).title, "late");
    has(&mut world, &b, take());
    assert_eq!(world.refused(&a, seated(1, new_task("t"))), Code::Fenced);
    assert_eq!(world.ok(&b, seated(2, new_task("second"))).title, "second");
    has(&mut world, &b, release());
    assert_eq!(world.refused(&b, seated(2, new_task("t"))), Code::Fenced);
    // With a key it is applied once, whatever became of the seat.
    has(&mut world, &b, take());
    world.run_keyed(&b, seated(3, new_task("keyed")), "k").unwrap();
    has(&mut world, &b, release());
    let again = world.run_keyed(&b, seated(3, new_task("keyed")), "k").unwrap();
    assert!(again.replayed);
    world.is_whole();
}

#[test]
fn asking_says_who_has_it() {
    let mut world = world();
    let (a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    assert_eq!(check(&mut world, &a), Err(Code::Nothing), "nobody ever took it");
    has(&mut world, &a, take());
    let events = world.events();
    assert_eq!(check(&mut world, &a).unwrap().token, 1);
    assert_eq!(check(&mut world, &with_token(a.clone(), 1)).unwrap().token, 1);
    assert_eq!(check(&mut world, &b), Err(Code::Held));
    assert_eq!(world.events(), events, "a question wrote something");
    has(&mut world, &a, release());
    assert_eq!(check(&mut world, &b), Err(Code::Nothing));
}

#[test]
fn what_nobody_ever_took_is_not_found_and_what_nobody_holds_is_not_yours() {
    let mut world = world();
    let a = who("agent:a", "1");
    for command in [renew(), release(), take_over(false)] {
        assert_eq!(world.refused(&a, command), Code::NotFound);
    }
    has(&mut world, &a, take());
    has(&mut world, &a, release());
    for command in [renew(), release(), take_over(false)] {
        assert_eq!(world.refused(&a, command), Code::NotAllowed);
    }
    world.is_whole();
}

#[test]
fn a_live_seat_is_taken_by_a_persons_force_alone() {
    let mut world = world();
    let (a, b, person) = (who("agent:a", "1"), who("agent:b", "1"), who("human:ann", ""));
    has(&mut world, &a, take());
    assert_eq!(world.refused(&b, take_over(true)), Code::Held);
    let refusal = world.run(&person, take()).unwrap_err();
    let way = refusal.overridable.expect("a person is told");
    assert_eq!(way.by, Forced::SeatTakeover(main_branch()));
    assert_eq!(has(&mut world, &person, take_over(true)).token, 2);
    assert_eq!(world.refused(&a, renew()), Code::Fenced);
    let notices = world.run(&a, new_task("t")).unwrap().notices;
    assert!(notices.iter().any(|notice| notice.message.contains("revoked")), "{notices:?}");
    // A person's seat has no TTL: no timer ever takes it.
    world.pass(MAX_HOLD_MS * 100);
    assert_eq!(world.refused(&b, take()), Code::Held);
    assert_eq!(world.refused(&b, take_over(false)), Code::Held);
    let status = world.engine.status(None).unwrap().value;
    assert!(status.seats[0].needs_attention && status.seats[0].lease.stale, "{status:?}");
    assert_eq!(kinds(&mut world), ["seat.created", "lease.acquired", "lease.revoked", "lease.acquired"]);
    world.is_whole();
}

/// Hours belong to tasks: holding a seat beside a task is not working twice.
#[test]
fn a_seat_is_no_work() {
    let mut world = world();
    let (a, id) = (who("agent:a", "1"), world.add("t"));
    has(&mut world, &a, take());
    for _ in 0..3 {
        world.pass(TTL_MS / 2);
        world.ok(&a, on(&id, wrote("at it")));
        has(&mut world, &a, renew());
    }
    world.pass(TTL_MS);
    has(&mut world, &a, renew());
    world.pass(TTL_MS / 2);
    has(&mut world, &a, release());
    let name = main_branch();
    let page = world.engine.log(None, LogScope::Seat(&name), 0, false, 1_000).unwrap().value;
    assert_eq!(page.records.len(), 4, "{page:?}");
    for record in &page.records {
        let event = record.to_event().unwrap();
        assert!(event.stretches.is_empty(), "{record:?}");
        assert_eq!(record.payload["lease"]["active_ms"].as_i64().unwrap_or_default(), 0, "{record:?}");
    }
    world.is_whole();
}

/// Whoever holds a seat and a task holds one task: seats do not count.
#[test]
fn a_seat_is_not_a_task() {
    let mut world = world();
    let a = who("agent:a", "1");
    has(&mut world, &a, take());
    let id = world.add("t");
    let note = |text: &str| Command::OnTask { task: None, act: wrote(text), force: None };
    assert_eq!(world.refused(&a, note("which?")), Code::Usage, "a seat is no task to write on");
    world.lease(&a, on(&id, claim()));
    assert_eq!(world.ok(&a, note("here")).id, id);
    let status = world.engine.status(Some(&a)).unwrap().value;
    assert_eq!((status.yours, status.your_seats), (vec![id.clone()], vec!["land:main".to_owned()]));
    assert_eq!((status.held.len(), status.seats.len()), (1, 1));
    assert_eq!(world.engine.list(None, &Default::default(), None, 10).unwrap().value.tasks.len(), 1);
    let mut found = 0;
    world.engine.search(None, &["land".to_owned()], true, 10, &mut |tasks| found += tasks.len()).unwrap();
    assert_eq!(found, 0);
    // A number given to a seat is not missing among the tasks.
    assert_eq!(world.add("next"), "ON-2");
    let verified = world.engine.verify(&[], &mut |_| {}).unwrap();
    assert_eq!((verified.tasks, verified.seats), (2, 1));
    world.is_whole();
}

#[test]
fn every_changing_command_is_a_sign_of_life_for_a_seat_too() {
    let mut world = world();
    let (a, b, id) = (who("agent:a", "1"), who("agent:b", "1"), world.add("t"));
    has(&mut world, &a, take());
    for _ in 0..3 {
        world.pass(TTL_MS - 1);
        world.ok(&a, on(&id, wrote("still here")));
    }
    assert_eq!(world.refused(&b, take()), Code::Held);
    world.pass(TTL_MS - 1_000);
    let notices = world.engine.status(Some(&a)).unwrap().notices;
    let lapsing = notices.iter().find(|notice| notice.kind == NoticeKind::Lapsing).unwrap();
    assert_eq!(lapsing.next, [Step::Seat(OnSeat::Renew, main_branch())]);
}

#[test]
fn a_conversation_that_is_over_lets_its_seat_lapse() {
    let mut world = world_with(Policy { unique_machines: true, ..crate::world::policy() });
    let (mut a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    a.ancestry = Ancestry::Known(vec![process(7, 1)]);
    let terms = SeatTerms { process: Some(process(7, 1)), ..SeatTerms::default() };
    has(&mut world, &a, seat(SeatAct::Take(terms)));
    world.run(&a, Command::Presence(Presence::TurnOver)).unwrap();
    world.pass(TTL_MS - 1);
    assert_eq!(world.refused(&b, take()), Code::Held);
    world.pass(1);
    assert_eq!(has(&mut world, &b, take()).token, 2);
}

#[test]
fn whose_process_died_is_told_to_take_the_seat_again_not_to_renew_it() {
    let mut world = world();
    let mut a = who("agent:a", "1");
    a.ancestry = Ancestry::Known(vec![process(7, 1)]);
    let step = |world: &mut World<AnyStore>, by: &Identity| {
        let refusal = world.engine.check_seat(by, &main_branch()).unwrap_err();
        assert_eq!(refusal.code, Code::NotAllowed, "{refusal:?}");
        refusal.next
    };
    let terms = SeatTerms { process: Some(process(7, 1)), ..SeatTerms::default() };
    has(&mut world, &a, seat(SeatAct::Take(terms)));
    world.kill(7);
    assert_eq!(step(&mut world, &a), [Step::Seat(OnSeat::Take, main_branch())]);
    assert!(world.run(&a, renew()).is_err(), "renewing is refused");
    // One that only ran out of time is renewed.
    let b = who("agent:b", "1");
    has(&mut world, &b, take());
    world.pass(TTL_MS);
    assert_eq!(step(&mut world, &b), [Step::Seat(OnSeat::Renew, main_branch())]);
    has(&mut world, &b, renew());
}

#[test]
fn a_key_takes_a_seat_once() {
    let mut world = world();
    let (a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    world.run_keyed(&a, take(), "k").unwrap();
    let again = world.run_keyed(&a, take(), "k").unwrap();
    assert!(again.replayed, "{again:?}");
    // The lease is one instance's, the key its actor's.
    let other = world.run_keyed(&who("agent:a", "2"), take(), "k").unwrap_err();
    assert_eq!(other.code, Code::Fenced, "{other:?}");
    assert_eq!(world.run_keyed(&a, renew(), "k").unwrap_err().code, Code::KeyReused);
    world.pass(TTL_MS);
    assert_eq!(world.run_keyed(&a, take(), "k").unwrap_err().code, Code::Fenced, "it has lapsed");
    has(&mut world, &b, take());
    assert_eq!(world.run_keyed(&a, take(), "k").unwrap_err().code, Code::Fenced);
    world.is_whole();
}

#[test]
fn the_reason_beside_a_seat_can_be_erased() {
    let mut world = world();
    let a = who("agent:a", "1");
    let terms = SeatTerms { reason: Some("the password is hunter2".into()), ..SeatTerms::default() };
    let taken = has(&mut world, &a, seat(SeatAct::Take(terms)));
    assert_eq!(taken.lease.unwrap().reason.as_deref(), Some("the password is hunter2"));
    let erase =
        SeatAct::Redact { version: Version(2), fields: vec![Field::Reason], reason: "a secret".into() };
    assert_eq!(has(&mut world, &a, seat(erase)).lease.unwrap().reason, None);
    let verified = world.engine.verify(&[], &mut |_| {}).unwrap();
    assert_eq!(verified.erased[0].task, "seat land:main");
    world.is_whole();
}

#[test]
fn a_refused_seat_was_never_created() {
    let mut world = world();
    let a = who("agent:a", "1");
    let endless = SeatTerms { ttl_ms: Some(0), ..SeatTerms::default() };
    assert_eq!(world.refused(&a, seat(SeatAct::Take(endless))), Code::Usage, "without a reason");
    assert!(world.engine.seats(None).unwrap().value.is_empty());
    assert_eq!(world.engine.store().read(|read| read.last_seat()).unwrap().0, 0);
    world.is_whole();
}
