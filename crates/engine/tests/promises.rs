//! The promises of leases, one story each, with a clock that the test controls.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use crate::world::{
    KEEP_MS, MAX_HOLD_MS, TTL_MS, claim, forced, new_task, on, policy, process, takeover, verb, who,
    with_token, world, world_with,
};
use onus_core::actor::KnownBy;
use onus_core::command::{Act, Command, NewTask, TaskLink, Terms};
use onus_core::lease::Process;
use onus_core::policy::Policy;
use onus_core::refusal::{Code, Step};
use onus_core::scope::Glob;
use onus_core::sight::Mark;
use onus_core::task::State;
use onus_core::transition::Verb;
use onus_engine::{Ancestry, Answer, Request};

#[test]
fn a_lease_lapses_at_its_deadline_and_not_before() {
    let mut world = world();
    let (a, b, id) = (who("agent:a", "1"), who("agent:b", "1"), world.add("t"));
    world.lease(&a, on(&id, claim()));
    world.pass(TTL_MS - 1);
    assert_eq!(world.refused(&b, on(&id, claim())), Code::Held);
    world.pass(1);
    let lease = world.lease(&b, on(&id, claim()));
    assert_eq!((lease.token, lease.actor.as_str()), (2, "agent:b"));
    assert_eq!(world.kinds(&id), ["task.created", "lease.acquired", "lease.taken_over", "lease.acquired"]);
    world.is_whole();
}

#[test]
fn a_wall_clock_step_grants_and_takes_nothing() {
    for step_ms in [7_200_000, -7_200_000] {
        let mut world = world();
        let (a, b, id) = (who("agent:a", "1"), who("agent:b", "1"), world.add("t"));
        world.lease(&a, on(&id, claim()));
        world.pass(TTL_MS / 2);
        world.fate.lock().unwrap().wall_ms += step_ms;
        assert_eq!(world.refused(&b, on(&id, claim())), Code::Held);
        assert_eq!(world.show(&id).lease.unwrap().expires_in_s, Some(TTL_MS / 2 / 1000));
        world.pass(TTL_MS / 2);
        // Lapsed by the tick; a wall clock set back revives nothing.
        world.fate.lock().unwrap().wall_ms -= step_ms * 2;
        assert_eq!(world.lease(&b, on(&id, claim())).token, 2);
    }
}

#[test]
fn every_changing_command_is_a_sign_of_life_for_all_that_one_holds() {
    let mut world = world();
    let (a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    let (one, two) = (world.add("one"), world.add("two"));
    world.lease(&a, on(&one, claim()));
    world.lease(&a, on(&two, claim()));
    let events = world.events();
    for _ in 0..5 {
        world.pass(TTL_MS - 1);
        world.ok(&a, on(&two, Act::note("still here")));
    }
    assert_eq!(world.refused(&b, on(&one, claim())), Code::Held);
    assert_eq!(world.show(&one).lease.unwrap().renewals, 5);
    assert_eq!(world.events(), events + 5, "signs of life are not events");
}

#[test]
fn renew_never_moves_a_deadline_closer() {
    let mut world = world();
    let (a, id) = (who("agent:a", "1"), world.add("t"));
    world.lease(&a, on(&id, claim()));
    let lease = world.lease(&a, on(&id, Act::Renew { ttl_ms: Some(1_000), progress: false }));
    assert_eq!(lease.expires_in_s, Some(TTL_MS / 1000));
    let lease = world.lease(&a, on(&id, Act::Renew { ttl_ms: Some(TTL_MS * 2), progress: false }));
    assert_eq!(lease.expires_in_s, Some(TTL_MS * 2 / 1000));
}

#[test]
fn nobody_holds_longer_than_the_maximum() {
    let mut world = world();
    let (a, b, id) = (who("agent:a", "1"), who("agent:b", "1"), world.add("t"));
    world.lease(&a, on(&id, claim()));
    for _ in 0..(MAX_HOLD_MS / (TTL_MS / 2) - 1) {
        world.pass(TTL_MS / 2);
        world.lease(&a, on(&id, Act::Renew { ttl_ms: None, progress: false }));
    }
    world.pass(TTL_MS / 2);
    assert_eq!(world.refused(&a, on(&id, Act::Renew { ttl_ms: None, progress: false })), Code::Held);
    assert_eq!(world.lease(&b, on(&id, claim())).token, 2);
}

#[test]
fn a_bound_lease_lives_with_its_process_and_dies_with_it() {
    let mut world = world();
    let (mut a, b, id) = (who("agent:a", "1"), who("agent:b", "1"), world.add("t"));
    a.ancestry = Ancestry::Known(vec![process(7, 1)]);
    let bound = || Act::Claim(Terms { process: Some(process(7, 1)), ..Terms::default() });
    world.lease(&a, on(&id, bound()));
    world.pass(MAX_HOLD_MS - 1);
    assert_eq!(world.refused(&b, on(&id, claim())), Code::Held, "silent for many times its TTL");
    world.kill(7);
    assert_eq!(world.lease(&b, Command::ClaimNext(Terms::default())).token, 2, "offered at once");
}

#[test]
fn without_a_token_a_bound_lease_answers_only_to_its_process_and_what_that_started() {
    let mut world = world();
    let (mut inside, outside, id) = (who("agent:a", "1"), who("agent:a", "1"), world.add("t"));
    inside.ancestry = Ancestry::Known(vec![process(8, 1), process(7, 1)]);
    world.lease(&inside, on(&id, Act::Claim(Terms { process: Some(process(7, 1)), ..Terms::default() })));
    assert_eq!(world.refused(&outside, on(&id, verb(Verb::Done))), Code::Held);
    assert_eq!(world.refused(&outside, on(&id, claim())), Code::Held);
    let note = Act::note("from inside");
    world.ok(&inside, on(&id, note));
    world.ok(&with_token(outside, 1), on(&id, verb(Verb::Done)));
}

#[test]
fn a_reboot_ends_bound_leases_and_judges_the_others_by_the_wall() {
    let mut world = world();
    let (a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    let (bound, unbound, persons) = (world.add("bound"), world.add("unbound"), world.add("person's"));
    world.lease(&a, on(&bound, Act::Claim(Terms { process: Some(process(7, 1)), ..Terms::default() })));
    world.lease(&a, on(&unbound, claim()));
    world.lease(&who("human:h", ""), on(&persons, claim()));
    world.reboot(0);
    assert_eq!(world.lease(&b, on(&bound, claim())).token, 2);
    assert_eq!(world.refused(&b, on(&unbound, claim())), Code::Held);
    world.pass(TTL_MS);
    assert_eq!(world.lease(&b, on(&unbound, claim())).token, 2);
    assert_eq!(world.refused(&b, on(&persons, claim())), Code::Held);
    world.is_whole();
}

#[test]
fn an_observer_that_is_shown_another_boot_or_none_calls_no_living_holder_rebooted() {
    let (a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    for shown in [Mark::UNKNOWN, Mark::from("a container's own")] {
        let mut world = world();
        let id = world.add("bound");
        world.lease(&a, on(&id, Act::Claim(Terms { process: Some(process(7, 1)), ..Terms::default() })));
        world.fate.lock().unwrap().boot_shown = Some(shown.clone());
        world.pass(TTL_MS * 2);
        assert_eq!(world.refused(&b, on(&id, claim())), Code::Held, "{shown:?}");
        assert_eq!(world.refused(&b, on(&id, takeover())), Code::Held, "{shown:?}");
        assert_eq!(world.refused(&b, Command::ClaimNext(Terms::default())), Code::Nothing, "{shown:?}");
        assert!(world.show(&id).lease.unwrap().live, "{shown:?}");
        // And the other way round: the host does not call a holder in there dead.
        let inside = world.add("bound inside");
        let process = Process { boot: shown, ..process(8, 1) };
        world.fate.lock().unwrap().boot_shown = None;
        world.lease(&a, on(&inside, Act::Claim(Terms { process: Some(process), ..Terms::default() })));
        world.pass(TTL_MS * 2);
        assert_eq!(world.refused(&b, on(&inside, claim())), Code::Held);
        world.is_whole();
    }
}

/// An observer that saw a holder die gives its paths to another. One that cannot see it takes the lease for
/// live: the holder continues under it only if all of its paths are still its own.
#[test]
fn a_lease_whose_process_cannot_be_seen_gets_nothing_back_that_another_has_since() {
    let (a, b) = (who("agent:a", "1"), who("agent:b", "1"));
    let reserving = |glob: &str, process| {
        Act::Claim(Terms { scope: glob.parse::<Glob>().into_iter().collect(), process, ..Terms::default() })
    };
    for shown in [Mark::UNKNOWN, Mark::from("another")] {
        let mut world = world_with(Policy { unique_machines: true, ..policy() });
        let (mine, theirs) = (world.add("mine"), world.add("theirs"));
        world.lease(&a, on(&mine, reserving("src/**", Some(process(7, 1)))));
        world.kill(7);
        world.lease(&b, on(&theirs, reserving("src/a", None)));
        world.fate.lock().unwrap().boot_shown = Some(shown.clone());
        let late = with_token(a.clone(), 1);
        for act in [
            Act::Touch {
                paths: vec!["docs/x".to_owned()],
                touched: Default::default(),
                extent: Default::default(),
            },
            Act::AddScope {
                scope: "docs/**".parse::<Glob>().into_iter().collect(),
                areas: Default::default(),
            },
            Act::Renew { ttl_ms: None, progress: false },
        ] {
            assert_eq!(world.refused(&late, on(&mine, act.clone())), Code::Scope, "{act:?}, boot {shown:?}");
        }
        world.ok(&b, on(&theirs, verb(Verb::Done)));
        world.ok(
            &late,
            on(
                &mine,
                Act::Touch {
                    paths: vec!["docs/x".to_owned()],
                    touched: Default::default(),
                    extent: Default::default(),
                },
            ),
        );
        world.is_whole();
    }
}

#[test]
fn a_persons_claim_survives_any_sweep_and_is_never_handed_out() {
    let mut world = world();
    let (h, b, id) = (who("human:h", ""), who("agent:b", "1"), world.add("t"));
    world.lease(&h, on(&id, claim()));
    world.pass(30 * 24 * 3_600_000);
    assert!(world.show(&id).lease.unwrap().stale);
    assert_eq!(world.refused(&b, Command::ClaimNext(Terms::default())), Code::Nothing);
    assert_eq!(world.refused(&b, on(&id, takeover())), Code::Held);
    world.ok(&h, on(&id, verb(Verb::Done)));
}

#[test]
fn a_slow_holder_may_finish_after_its_lapse_until_somebody_is_granted_more() {
    for swept in [false, true] {
        for finish in [Verb::Done, Verb::Submit, Verb::Fail, Verb::Release] {
            let mut world = world();
            let (a, h, id) = (who("agent:a", "1"), who("human:h", ""), world.add("t"));
            world.lease(&a, on(&id, claim()));
            world.pass(TTL_MS * 5);
            if swept {
                world.ok(&h, on(&id, verb(Verb::Block)));
                world.ok(&h, on(&id, verb(Verb::Unblock)));
                assert!(world.kinds(&id).contains(&"lease.lapsed".to_owned()));
            }
            world.ok(&a, on(&id, verb(finish)));
            assert_eq!(world.show(&id).lease, None);
            assert_eq!(
                world.refused(&with_token(a, 1), on(&id, verb(Verb::Done))),
                Code::Fenced,
                "it ended it itself"
            );
            world.is_whole();
        }
    }
}

#[test]
fn a_late_renewal_repeats_claims_whole_check() {
    let mut world = world();
    let (a, h, id) = (who("agent:a", "1"), who("human:h", ""), world.add("t"));
    world.lease(&a, on(&id, claim()));
    world.pass(TTL_MS);
    let lease = world.lease(&a, on(&id, Act::Renew { ttl_ms: None, progress: false }));
    assert_eq!((lease.token, lease.live), (1, true));
    assert_eq!(world.kinds(&id).last().unwrap(), "lease.renewed");
    world.pass(TTL_MS);
    world.ok(&h, on(&id, Act::Handoff { to: "agent:c".parse().unwrap(), reason: "lapsed".into() }));
    assert_eq!(world.refused(&a, on(&id, Act::Renew { ttl_ms: None, progress: false })), Code::Fenced);
    assert_eq!(
        world.refused(&with_token(a.clone(), 1), on(&id, Act::Renew { ttl_ms: None, progress: false })),
        Code::Fenced
    );
    assert_eq!(world.refused(&a, on(&id, claim())), Code::Kept);
    world.pass(KEEP_MS);
    assert_eq!(world.lease(&a, on(&id, claim())).token, 2);
    world.is_whole();
}

#[test]
fn one_lapse_is_one_event_however_many_look() {
    let mut world = world();
    let (a, h, id) = (who("agent:a", "1"), who("human:h", ""), world.add("t"));
    world.lease(&a, on(&id, claim()));
    world.pass(TTL_MS);
    let events = world.events();
    for _ in 0..5 {
        assert_eq!(world.show(&id).state, State::InProgress);
        assert!(!world.show(&id).lease.unwrap().live);
        assert_eq!(world.engine.ready(Some(&h), 10).unwrap().value.tasks[0].takeover, Some(true));
        assert_eq!(world.engine.status(None).unwrap().value.lapsed.len(), 1);
    }
    assert_eq!(world.events(), events, "readers write nothing");
    world.ok(&h, on(&id, verb(Verb::Block)));
    world.ok(&h, on(&id, verb(Verb::Unblock)));
    let kinds = world.kinds(&id);
    assert_eq!(kinds.iter().filter(|kind| *kind == "lease.lapsed").count(), 1, "{kinds:?}");
}

#[test]
fn a_superseded_holder_changes_nothing_until_it_claims_anew() {
    let mut world = world();
    let (a, b, id) = (who("agent:a", "1"), who("agent:b", "1"), world.add("t"));
    world.lease(&a, on(&id, claim()));
    world.pass(TTL_MS);
    world.lease(&b, on(&id, takeover()));
    for late in [a.clone(), with_token(a.clone(), 1)] {
        for act in [
            verb(Verb::Done),
            verb(Verb::Release),
            Act::note("x"),
            Act::Renew { ttl_ms: None, progress: false },
        ] {
            assert_eq!(world.refused(&late, on(&id, act)), Code::Fenced);
        }
    }
    world.ok(&b, on(&id, verb(Verb::Release)));
    assert_eq!(
        world.refused(&a, on(&id, verb(Verb::Done))),
        Code::Fenced,
        "no auto-claim for one who lost it"
    );
    assert_eq!(world.lease(&a, on(&id, claim())).token, 3);
    world.ok(&a, on(&id, verb(Verb::Done)));
    world.is_whole();
}

#[test]
fn a_lapse_that_another_claimed_supersedes_as_a_takeover_does() {
    let mut world = world();
    let (a, b, h, id) = (who("agent:a", "1"), who("agent:b", "1"), who("human:h", ""), world.add("t"));
    world.lease(&a, on(&id, claim()));
    world.pass(TTL_MS);
    world.ok(&h, on(&id, verb(Verb::Block)));
    world.ok(&h, on(&id, verb(Verb::Unblock)));
    world.lease(&b, on(&id, claim()));
    world.ok(&b, on(&id, verb(Verb::Release)));
    assert_eq!(world.refused(&a, on(&id, verb(Verb::Done))), Code::Fenced);
}

#[test]
fn two_instances_of_one_actor_are_two_holders() {
    let mut world = world();
    let (one, two, id) = (who("agent:a", "1"), who("agent:a", "2"), world.add("t"));
    world.lease(&one, on(&id, claim()));
    assert_eq!(world.refused(&two, on(&id, claim())), Code::Held);
    assert_eq!(world.refused(&two, on(&id, verb(Verb::Done))), Code::Held);
    let Answer::Lease { renewed, .. } = world.run(&one, on(&id, claim())).unwrap().answer else { panic!() };
    assert!(renewed);
}

#[test]
fn one_known_only_by_its_folder_never_renews_silently() {
    let mut world = world();
    let (mut a, id) = (who("agent:a", "worktree:/w"), world.add("t"));
    a.known_by = KnownBy::Worktree;
    world.lease(&a, on(&id, claim()));
    let refusal = world.run(&a, on(&id, claim())).unwrap_err();
    assert_eq!(refusal.code, Code::Held);
    assert_eq!(refusal.next[0], Step::RenewIfYours(id.clone()));
    world.pass(TTL_MS / 2);
    world.ok(&a, new_task("another"));
    assert_eq!(world.show(&id).lease.unwrap().expires_in_s, Some(TTL_MS / 2 / 1000));
    world.lease(&a, on(&id, Act::Renew { ttl_ms: None, progress: false }));
    assert_eq!(world.show(&id).lease.unwrap().expires_in_s, Some(TTL_MS / 1000));
}

#[test]
fn a_person_takes_a_live_task_only_by_force_and_it_is_one_event_more() {
    let mut world = world();
    let (a, b, h, id) = (who("agent:a", "1"), who("agent:b", "1"), who("human:h", ""), world.add("t"));
    world.lease(&a, on(&id, claim()));
    assert_eq!(world.refused(&h, on(&id, takeover())), Code::Held);
    assert_eq!(world.refused(&b, forced(&id, takeover())), Code::Held, "an agent's force changes nothing");
    let free = world.add("free");
    assert_eq!(world.refused(&b, forced(&free, claim())), Code::PeopleOnly);
    let lease = world.lease(&h, forced(&id, takeover()));
    assert_eq!(lease.token, 2);
    assert_eq!(world.kinds(&id), ["task.created", "lease.acquired", "lease.revoked", "lease.acquired"]);
    assert_eq!(world.refused(&a, on(&id, verb(Verb::Done))), Code::Fenced);
    world.is_whole();
}

#[test]
fn a_forced_verb_revokes_the_lease_first() {
    let mut world = world();
    let (a, h, id) = (who("agent:a", "1"), who("human:h", ""), world.add("t"));
    world.lease(&a, on(&id, claim()));
    assert_eq!(world.refused(&h, on(&id, verb(Verb::Drop))), Code::Held);
    world.ok(&h, forced(&id, verb(Verb::Drop)));
    assert_eq!(world.kinds(&id), ["task.created", "lease.acquired", "lease.revoked", "task.dropped"]);
    let id = world.add("another");
    world.lease(&a, on(&id, claim()));
    world.ok(&h, forced(&id, verb(Verb::Done)));
    let kinds = world.kinds(&id);
    assert_eq!(
        kinds[2..],
        ["lease.revoked", "lease.acquired", "task.done"],
        "it is claimed before it is finished"
    );
    world.is_whole();
}

#[test]
fn indefinite_leases_need_a_reason_and_are_limited() {
    let mut world = world();
    let ids: Vec<String> = (0..4).map(|i| world.add(&format!("t{i}"))).collect();
    let forever = |reason: Option<&str>| {
        Act::Claim(Terms { ttl_ms: Some(0), reason: reason.map(str::to_owned), ..Terms::default() })
    };
    let (a, b, c) = (who("agent:a", "1"), who("agent:b", "1"), who("agent:c", "1"));
    assert_eq!(world.refused(&a, on(&ids[0], forever(None))), Code::Usage);
    assert_eq!(world.lease(&a, on(&ids[0], forever(Some("a long migration")))).expires_at, None);
    assert_eq!(world.refused(&a, on(&ids[1], forever(Some("more")))), Code::Limit, "one an actor");
    world.lease(&b, on(&ids[1], forever(Some("mine"))));
    assert_eq!(world.refused(&c, on(&ids[2], forever(Some("third")))), Code::Limit, "two a store");
    world.pass(MAX_HOLD_MS * 10);
    assert_eq!(world.refused(&c, on(&ids[0], claim())), Code::Held);
}

#[test]
fn a_reserved_task_is_held_but_not_started() {
    let mut world = world();
    let (a, b, id) = (who("agent:a", "1"), who("agent:b", "1"), world.add("t"));
    world.lease(&a, on(&id, Act::Claim(Terms { reserve: true, ..Terms::default() })));
    assert_eq!(world.show(&id).state, State::Open);
    assert_eq!(world.refused(&b, on(&id, claim())), Code::Held);
    assert_eq!(world.refused(&b, Command::ClaimNext(Terms::default())), Code::Nothing);
    assert_eq!(world.ok(&a, on(&id, claim())).state, State::InProgress);
    world.pass(TTL_MS);
    assert_eq!(world.lease(&b, Command::ClaimNext(Terms::default())).token, 2);
    world.is_whole();
}

#[test]
fn a_batch_is_one_commit_in_which_each_refusal_is_undone_alone() {
    let mut world = world();
    let (a, b, id) = (who("agent:a", "1"), who("agent:new", "1"), world.add("t"));
    let request = |identity: &onus_engine::Identity, command| Request {
        identity: identity.clone(),
        command,
        key: None,
    };
    let answers = world.engine.execute(&[
        request(&a, on(&id, claim())),
        request(&b, on(&id, claim())),
        request(&a, on(&id, verb(Verb::Done))),
        request(&a, on("99", claim())),
    ]);
    let codes: Vec<Option<Code>> =
        answers.iter().map(|answer| answer.as_ref().err().map(|r| r.code)).collect();
    assert_eq!(codes, [None, Some(Code::Held), None, Some(Code::NotFound)]);
    let actors = world.engine.actors().unwrap();
    assert!(!actors.iter().any(|actor| actor.name == "agent:new"), "a refused first use registers nobody");
    world.is_whole();
}

/// The acceptance lines are written after the dependencies, and the answer is of after both.
#[test]
fn the_answer_to_a_new_task_counts_what_it_waits_for() {
    let mut world = world();
    let (h, id) = (who("human:h", ""), world.add("first"));
    let new = NewTask {
        deps: vec![TaskLink::Task(id.parse().unwrap())],
        acceptance: vec!["It runs".into(), "It is fast".into()],
        ..NewTask::titled("then this")
    };
    let Answer::Task(task) = world.run(&h, Command::Add(new)).unwrap().answer else { panic!("no task") };
    assert_eq!((task.unmet, task.version), (1, world.show(&task.id).version));
}

#[test]
fn one_request_is_applied_once_and_another_under_its_key_is_refused() {
    let mut world = world();
    let (a, b, id) = (who("agent:a", "1"), who("agent:b", "1"), world.add("t"));
    let first = world.run_keyed(&a, on(&id, claim()), "k").unwrap();
    let again = world.run_keyed(&a, on("ON-1", claim()), "k").unwrap();
    assert!(!first.replayed && again.replayed);
    assert_eq!(world.run_keyed(&a, on(&id, verb(Verb::Done)), "k").unwrap_err().code, Code::KeyReused);
    assert_eq!(
        world.run_keyed(&b, on(&id, claim()), "k").unwrap_err().code,
        Code::Held,
        "keys are an actor's own"
    );
    world.ok(&a, on(&id, verb(Verb::Release)));
    assert_eq!(
        world.run_keyed(&a, on(&id, claim()), "k").unwrap_err().code,
        Code::Fenced,
        "the lease it got is gone"
    );
    assert!(!world.run_keyed(&b, on(&id, claim()), "k").unwrap().replayed, "a refusal was not kept");
}

#[test]
fn one_whose_lapsed_task_another_handed_on_is_superseded() {
    let mut world = world();
    let (a, b, c, id) = (who("agent:a", "1"), who("agent:b", "1"), who("agent:c", "1"), world.add("t"));
    world.lease(&a, on(&id, claim()));
    world.pass(TTL_MS);
    world.ok(&b, on(&id, Act::Handoff { to: "agent:c".parse().unwrap(), reason: "it died".into() }));
    world.lease(&c, on(&id, claim()));
    world.ok(&c, on(&id, verb(Verb::Release)));
    assert_eq!(world.refused(&a, on(&id, verb(Verb::Done))), Code::Fenced);
    world.is_whole();
}

#[test]
fn nobody_approves_what_they_submitted() {
    let mut world = world();
    let (a, b, h, id) = (who("agent:a", "1"), who("agent:a", "2"), who("human:h", ""), world.add("t"));
    // By a token that was handed to it: the lease was another instance's.
    world.lease(&a, on(&id, claim()));
    world.ok(&with_token(b.clone(), 1), on(&id, verb(Verb::Submit)));
    assert_eq!(world.refused(&b, on(&id, verb(Verb::Approve))), Code::NotAllowed);
    world.ok(&h, on(&id, verb(Verb::Approve)));
}

/// Tokens begin at 1: one that was left in an environment is also the number of most first leases.
#[test]
fn a_token_makes_nobody_the_holder_of_what_another_actor_got() {
    let mut world = world();
    let (a, b, h, id) = (who("agent:a", "1"), who("agent:b", "1"), who("human:h", ""), world.add("t"));
    let renew = || Act::Renew { ttl_ms: None, progress: false };
    world.lease(&a, on(&id, claim()));
    let events = world.events();
    for stray in [&b, &h] {
        let stray = with_token(stray.clone(), 1);
        for act in [verb(Verb::Done), verb(Verb::Release), verb(Verb::Drop), renew()] {
            let refusal = world.run(&stray, on(&id, act)).unwrap_err();
            assert_eq!(refusal.code, Code::Held, "{refusal:?}");
            assert!(refusal.message.contains("token 1 is agent:a's, not yours"), "{refusal:?}");
        }
    }
    assert_eq!(world.events(), events);
    // After a lapse it is still nobody else's.
    world.pass(TTL_MS);
    for stray in [&b, &h] {
        for act in [verb(Verb::Done), verb(Verb::Drop), renew()] {
            let refusal = world.run(&with_token(stray.clone(), 1), on(&id, act)).unwrap_err();
            assert_eq!(refusal.code, Code::Fenced, "{refusal:?}");
            assert!(refusal.message.contains("is agent:a's, not"), "{refusal:?}");
        }
    }
    assert_eq!(world.events(), events);
    // Its own actor finishes by it, from wherever; a person by force, on record.
    let other = world.add("other");
    world.lease(&a, on(&other, claim()));
    world.ok(&with_token(who("agent:a", "9"), 1), on(&id, verb(Verb::Done)));
    world.ok(&with_token(h, 1), forced(&other, verb(Verb::Done)));
    assert!(world.kinds(&other).contains(&"lease.revoked".to_owned()), "{:?}", world.kinds(&other));
    world.is_whole();
}

#[test]
fn a_replayed_key_gives_another_instance_no_lease() {
    let mut world = world();
    let (one, two, id) = (who("agent:a", "1"), who("agent:a", "2"), world.add("t"));
    world.run_keyed(&one, on(&id, claim()), "k").unwrap();
    assert_eq!(world.run_keyed(&two, on(&id, claim()), "k").unwrap_err().code, Code::Held);
    assert!(world.run_keyed(&one, on(&id, claim()), "k").unwrap().replayed);
}

#[test]
fn a_key_whose_text_was_erased_neither_repeats_nor_swallows_anything() {
    let mut world = world();
    let (a, id) = (who("agent:a", "1"), world.add("t"));
    let note = |text: &str| Act::note(text);
    world.run_keyed(&a, on(&id, note("kept")), "other").unwrap();
    world.pass(1_000);
    world.run_keyed(&a, on(&id, note("secret")), "k").unwrap();
    let redact =
        Act::Redact { version: onus_core::ids::Version(3), fields: Vec::new(), reason: "leak".into() };
    world.ok(&a, on(&id, redact));
    assert_eq!(world.run_keyed(&a, on(&id, note("IMPORTANT")), "k").unwrap_err().code, Code::KeyReused);
    assert!(
        world.run_keyed(&a, on(&id, note("kept")), "other").unwrap().replayed,
        "other keys are as they were"
    );
}

#[test]
fn an_instance_that_registers_itself_keeps_its_process() {
    let mut world = world();
    let a = who("agent:a", "self");
    let instance = "self".parse().unwrap();
    let command =
        Command::RegisterInstance { actor: a.actor.clone(), instance, process: process(7, 1), group: None };
    world.run(&a, command).unwrap();
    let (known, _) = world.engine.registered(&[process(8, 1), process(7, 1)], &[]).unwrap();
    assert_eq!(known.into_iter().map(|known| known.actor).collect::<Vec<_>>(), [a.actor]);
}

#[test]
fn a_person_may_write_to_a_finished_task_that_was_once_taken_from_them() {
    let mut world = world();
    let (alice, bob, id) = (who("human:alice", ""), who("human:bob", ""), world.add("t"));
    world.lease(&alice, on(&id, claim()));
    world.lease(&bob, forced(&id, takeover()));
    assert_eq!(world.refused(&alice, on(&id, verb(Verb::Done))), Code::Fenced);
    world.ok(&bob, on(&id, verb(Verb::Done)));
    world.ok(&alice, on(&id, Act::note("thanks")));
}
