//! What agents' hooks ask of the engine: guarded edits, ad-hoc work, turns and their ends, with a clock that
//! the test controls.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use crate::world::{
    MAX_HOLD_MS, TTL_MS, World, claim, forced, on, policy, process, takeover, verb, who, world, world_with,
};
use onus_core::command::{Act, ChangedFiles, Command, Force, Guard, Presence, Terms};
use onus_core::policy::{Policy, Unclaimed};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::scope::{Touched, WorktreeId};
use onus_core::task::State;
use onus_core::transition::Verb;
use onus_engine::{Ancestry, Answer, Conversation, Files, Identity, NoticeKind, TaskView};
use onus_store::{AnyStore, Store as _};

/// An agent in a conversation that runs in a process of its own.
pub(crate) fn agent(pid: u32) -> Identity {
    let mut identity = who("agent:a", &format!("c{pid}"));
    identity.ancestry = Ancestry::Known(vec![process(pid + 1_000, 1), process(pid, 1)]);
    identity
}

pub(crate) fn registered(world: &mut World<AnyStore>, pid: u32) -> Identity {
    let identity = agent(pid);
    let (actor, instance) = (identity.actor.clone(), identity.instance.clone());
    let register = Command::RegisterInstance { actor, instance, process: process(pid, 1), group: None };
    world.run(&identity, register).unwrap();
    identity
}

fn guard(pid: u32, paths: &[&str]) -> Command {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    Command::Guard(Guard { paths, process: Some(process(pid, 1)), ..Guard::default() })
}

pub(crate) fn edit(
    world: &mut World<AnyStore>,
    by: &Identity,
    pid: u32,
    path: &str,
) -> Result<(TaskView, bool), Refusal> {
    match world.run(by, guard(pid, &[path]))?.answer {
        Answer::Guarded { task: Some(task), adopted } => Ok((*task, adopted)),
        other => panic!("no task in {other:?}"),
    }
}

pub(crate) fn report(world: &mut World<AnyStore>, by: &Identity, presence: Presence) -> Vec<TaskView> {
    match world.run(by, Command::Presence(presence)).unwrap().answer {
        Answer::Present { ended } => ended,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_edit_without_a_task_opens_one_and_the_next_edits_join_it() {
    let mut world = world();
    let (a, b) = (registered(&mut world, 7), registered(&mut world, 8));
    let (task, adopted) = edit(&mut world, &a, 7, "src/a.rs").unwrap();
    assert!(adopted && task.ad_hoc && task.title.contains("src/a.rs"));
    let (again, adopted) = edit(&mut world, &a, 7, "src/b.rs").unwrap();
    assert_eq!((again.id.as_str(), adopted), (task.id.as_str(), false));
    assert_eq!(again.lease.unwrap().scope, ["src/a.rs", "src/b.rs"]);
    let refusal = edit(&mut world, &b, 8, "src/b.rs").unwrap_err();
    assert_eq!((refusal.code, refusal.conflict.unwrap().task), (Code::Scope, task.id.clone()));
    // A refused request opened no task.
    assert_eq!(world.engine.status(None).unwrap().value.held.len(), 1);
    let paths = vec!["src/a.rs".to_owned(), "src/b.rs".to_owned()];
    world.run(&a, Command::Changed(ChangedFiles { paths, worktree: None })).unwrap();
    let ended = report(&mut world, &a, Presence::Gone);
    assert_eq!(
        ended.iter().map(|task| (task.id.clone(), task.state)).collect::<Vec<_>>(),
        [(task.id.clone(), State::Done)]
    );
    let note = world.show(&task.id).notes.unwrap().pop().unwrap().text;
    assert!(note.contains("src/a.rs, src/b.rs"), "{note}");
    assert!(edit(&mut world, &b, 8, "src/b.rs").unwrap().1);
    world.is_whole();
}

#[test]
fn an_edit_joins_the_latest_of_several_tasks() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let (one, two) = (world.add("one"), world.add("two"));
    world.lease(&a, on(&two, claim()));
    world.lease(&a, on(&one, claim()));
    let (task, adopted) = edit(&mut world, &a, 7, "x").unwrap();
    assert_eq!((task.id, adopted), (one.clone(), false));
    // A file that an earlier task has stays there.
    world.ok(
        &a,
        on(
            &two,
            Act::Touch { paths: vec!["y".into()], touched: Default::default(), extent: Default::default() },
        ),
    );
    edit(&mut world, &a, 7, "y").unwrap();
    assert_eq!(world.show(&one).lease.unwrap().scope, ["x"]);
}

#[test]
fn whoever_is_registered_holds_as_long_as_its_process_lives() {
    let mut world = world();
    let (a, b, id) = (registered(&mut world, 7), who("agent:b", "1"), world.add("t"));
    assert_eq!(world.lease(&a, on(&id, claim())).process, Some(process(7, 1)));
    world.pass(TTL_MS * 3);
    assert_eq!(world.refused(&b, on(&id, claim())), Code::Held);
    world.kill(7);
    assert_eq!(world.lease(&b, Command::ClaimNext(Terms::default())).token, 2);
    // A caller from elsewhere under the same name is not bound to a process that it does not run in.
    let mut stray = agent(9);
    stray.ancestry = Ancestry::Known(vec![process(500, 1)]);
    registered(&mut world, 9);
    let other = world.add("u");
    assert_eq!(world.lease(&stray, on(&other, claim())).process, None);
}

/// A sign of life in the very moment of the turn's end was once taken for the same one.
#[test]
fn who_goes_on_in_the_moment_in_which_its_turn_ended_rests_no_more() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let id = world.add("long work");
    world.lease(&a, on(&id, claim()));

    report(&mut world, &a, Presence::TurnOver);
    report(&mut world, &a, Presence::Here);

    world.pass(TTL_MS + 1);
    assert!(world.show(&id).lease.unwrap().live);
}

#[test]
fn when_a_turn_is_over_the_ttl_counts_until_the_agent_goes_on() {
    let mut world = world();
    let (a, b, id) = (registered(&mut world, 7), who("agent:b", "1"), world.add("t"));
    world.lease(&a, on(&id, claim()));
    world.pass(TTL_MS * 2);
    report(&mut world, &a, Presence::TurnOver);
    let lease = world.show(&id).lease.unwrap();
    assert_eq!((lease.resting, lease.live, lease.expires_in_s), (true, true, Some(TTL_MS / 1_000)));
    world.pass(TTL_MS - 1);
    assert_eq!(world.refused(&b, on(&id, claim())), Code::Held);
    // It continues: bound only to its process again.
    report(&mut world, &a, Presence::Here);
    assert!(!world.show(&id).lease.unwrap().resting);
    world.pass(TTL_MS * 2);
    assert_eq!(world.refused(&b, on(&id, claim())), Code::Held);
    // It rests too long, and somebody takes over.
    report(&mut world, &a, Presence::TurnOver);
    world.pass(TTL_MS);
    assert_eq!(world.lease(&b, on(&id, claim())).token, 2);
    assert_eq!(edit(&mut world, &a, 7, "x").unwrap_err().code, Code::Fenced);
    world.is_whole();
}

#[test]
fn whoever_rested_too_long_goes_on_if_nobody_came() {
    for swept in [false, true] {
        let mut world = world();
        let (a, b, id) = (registered(&mut world, 7), who("agent:b", "1"), world.add("t"));
        world.lease(
            &a,
            on(
                &id,
                Act::Claim(Terms { scope: ["x".parse().unwrap()].into_iter().collect(), ..Terms::default() }),
            ),
        );
        report(&mut world, &a, Presence::TurnOver);
        world.pass(TTL_MS);
        if swept {
            world.ok(&b, on(&id, Act::note("anybody here?")));
        }
        let (task, adopted) = edit(&mut world, &a, 7, "y").unwrap();
        assert_eq!((task.id.as_str(), adopted), (id.as_str(), false), "swept: {swept}");
        let lease = task.lease.unwrap();
        assert_eq!((lease.token, lease.live, lease.resting), (1, true, false));
        world.pass(TTL_MS * 2);
        assert_eq!(world.refused(&b, on(&id, claim())), Code::Held);
        world.is_whole();
    }
}

#[test]
fn a_late_return_is_refused_what_another_has_now_and_nothing_else() {
    let mut world = world();
    let (a, b) = (registered(&mut world, 7), registered(&mut world, 8));
    let (task, _) = edit(&mut world, &a, 7, "x").unwrap();
    report(&mut world, &a, Presence::TurnOver);
    world.pass(TTL_MS);
    assert!(edit(&mut world, &b, 8, "x").unwrap().1, "a lapsed lease is in nobody's way");
    assert_eq!(edit(&mut world, &a, 7, "x").unwrap_err().code, Code::Scope);
    assert!(edit(&mut world, &a, 7, "z").unwrap().1, "begun anew");
    assert_eq!(world.show(&task.id).state, State::Dropped);
    // A task that somebody planned is not finished in passing.
    let (c, id) = (registered(&mut world, 9), world.add("t"));
    world.lease(
        &c,
        on(
            &id,
            Act::Claim(Terms { scope: ["w".parse().unwrap()].into_iter().collect(), ..Terms::default() }),
        ),
    );
    report(&mut world, &c, Presence::TurnOver);
    world.pass(TTL_MS);
    edit(&mut world, &b, 8, "w").unwrap();
    assert_eq!(edit(&mut world, &c, 9, "v").unwrap_err().exit_code(), 4);
    assert!(!world.show(&id).lease.unwrap().live);
    world.is_whole();
}

#[test]
fn resting_is_not_for_who_is_not_bound() {
    let mut world = world();
    let (a, id) = (who("agent:a", "1"), world.add("t"));
    world.lease(&a, on(&id, claim()));
    world.pass(10_000);
    let before = world.show(&id).lease.unwrap();
    report(&mut world, &a, Presence::TurnOver);
    let after = world.show(&id).lease.unwrap();
    assert_eq!((after.resting, after.expires_at), (false, before.expires_at), "its TTL counts in any case");
}

#[test]
fn what_was_only_reserved_is_released_when_the_conversation_ends_and_work_rests() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let (reserved, begun) = (world.add("reserved"), world.add("begun"));
    world.lease(&a, on(&reserved, Act::Claim(Terms { reserve: true, ..Terms::default() })));
    world.lease(&a, on(&begun, claim()));
    let ended = report(&mut world, &a, Presence::Gone);
    assert_eq!(ended.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), [reserved.as_str()]);
    assert_eq!(world.show(&reserved).state, State::Open);
    let lease = world.show(&begun).lease.unwrap();
    assert!(lease.live && lease.resting, "it is not given up, but it does not last for ever");
    world.is_whole();
}

#[test]
fn ad_hoc_work_that_lapsed_is_listed_and_never_handed_out() {
    let mut world = world();
    let (a, b) = (registered(&mut world, 7), who("agent:b", "1"));
    let (task, _) = edit(&mut world, &a, 7, "x").unwrap();
    world.kill(7);
    let status = world.engine.status(None).unwrap().value;
    assert_eq!(status.lapsed[0].id, task.id);
    assert_eq!(status.lapsed[0].next, Some(Step::verb(Verb::Done, &status.lapsed[0].id)));
    assert_eq!(world.refused(&b, Command::ClaimNext(Terms::default())), Code::Nothing);
    assert!(world.engine.ready(Some(&b), 10).unwrap().value.tasks.is_empty());
    // A person who insists may take it, and end it.
    world.lease(&b, on(&task.id, claim()));
    world.ok(&b, on(&task.id, verb(Verb::Release)));
    assert_eq!(world.refused(&b, Command::ClaimNext(Terms::default())), Code::Nothing);
    let why = world.engine.why(Some(&b), Some(&task.id.parse().unwrap())).unwrap().value;
    assert!(why.obstacles[0].message.contains("never handed out"));
    world.ok(&b, on(&task.id, verb(Verb::Done)));
    world.is_whole();
}

#[test]
fn ad_hoc_work_goes_on_in_another_process_and_past_the_longest_hold() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let (first, _) = edit(&mut world, &a, 7, "x").unwrap();
    world.kill(7);
    // The conversation was resumed: the same instance in a new process.
    let mut resumed = a.clone();
    resumed.ancestry = Ancestry::Known(vec![process(70, 1)]);
    let (second, adopted) = edit(&mut world, &resumed, 70, "y").unwrap();
    assert!(adopted && second.id != first.id);
    assert_eq!(world.show(&first.id).state, State::Dropped);
    let changed = ChangedFiles { paths: vec!["y".to_owned()], worktree: None };
    world.run(&resumed, Command::Changed(changed)).unwrap();
    world.pass(MAX_HOLD_MS);
    let (third, adopted) = edit(&mut world, &resumed, 70, "y").unwrap();
    assert!(adopted && third.id != second.id);
    assert_eq!(world.show(&second.id).state, State::Done);
    world.is_whole();
}

#[test]
fn whoever_comes_back_in_another_process_is_bound_to_that_one() {
    let mut world = world();
    let (a, other, id) = (registered(&mut world, 7), who("agent:b", "1"), world.add("t"));
    world.lease(&a, on(&id, claim()));
    let renew = || on(&id, Act::Renew { ttl_ms: None, progress: false });
    report(&mut world, &a, Presence::TurnOver);
    world.pass(TTL_MS + 1);
    // Its turn was over for too long; the conversation was resumed, and its harness says in which process.
    let mut resumed = a.clone();
    resumed.ancestry = Ancestry::Known(vec![process(70, 1)]);
    let (actor, instance) = (a.actor.clone(), a.instance.clone());
    let register = Command::RegisterInstance { actor, instance, process: process(70, 1), group: None };
    world.run(&resumed, register).unwrap();
    let lease = world.lease(&resumed, renew());
    assert_eq!((lease.token, lease.process), (1, Some(process(70, 1))));
    assert_eq!(world.kinds(&id).last().unwrap(), "lease.renewed");
    world.pass(TTL_MS * 3);
    assert_eq!(world.refused(&other, on(&id, claim())), Code::Held, "it lives with that process");
    world.kill(70);
    assert_eq!(world.lease(&other, on(&id, claim())).token, 2, "and dies with it");
    world.is_whole();
}

/// Its files may be another's at any moment once its turn is over, and a replay is no sign of life.
#[test]
fn a_repeated_reservation_is_not_confirmed_after_the_turn_is_over() {
    let mut world = world();
    let a = registered(&mut world, 7);
    world.run_keyed(&a, guard(7, &["x"]), "k").unwrap();
    assert!(world.run_keyed(&a, guard(7, &["x"]), "k").unwrap().replayed);
    report(&mut world, &a, Presence::TurnOver);
    assert_eq!(world.run_keyed(&a, guard(7, &["x"]), "k").unwrap_err().code, Code::Changed);
    report(&mut world, &a, Presence::TurnBegun);
    assert!(world.run_keyed(&a, guard(7, &["x"]), "k").unwrap().replayed);
    world.is_whole();
}

/// The notice names who took the lease away, not who holds the task now.
#[test]
fn who_lost_a_lease_is_told_by_whom() {
    let mut world = world();
    let (a, b, h) = (who("agent:a", "1"), who("agent:b", "1"), who("human:h", ""));
    let reset = |id: &str| Command::Reset {
        task: Some(id.parse().unwrap()),
        reason: "why".into(),
        force: Some(Force { reason: "why".into(), link: None }),
    };
    for is_reset in [false, true] {
        let (id, other) = (world.add("t"), world.add("other"));
        world.lease(&a, on(&id, claim()));
        let ends = if is_reset { reset(&id) } else { forced(&id, Act::moved(Verb::Release, None)) };
        world.run(&h, ends).unwrap();
        world.lease(&b, on(&id, claim()));
        let told = world.run(&a, on(&other, claim())).unwrap().notices;
        let lost = told.iter().find(|notice| notice.task.as_deref() == Some(&id)).unwrap();
        assert!(lost.message.contains("by human:h:"), "{}", lost.message);
    }
}

/// A step that the fence would refuse is not suggested.
#[test]
fn who_lost_a_task_is_not_sent_to_what_the_fence_refuses() {
    let mut world = world();
    let (a, b, id) = (who("agent:a", "1"), who("agent:b", "1"), world.add("t"));
    let changes = |step: &Step| matches!(step, Step::Note { .. } | Step::Do(Verb::Retry, _));
    world.lease(&a, on(&id, claim()));
    assert!(world.run(&b, on(&id, claim())).unwrap_err().next.iter().any(changes), "others may write to it");
    world.pass(TTL_MS + 1);
    world.lease(&b, on(&id, claim()));
    let held = world.run(&a, on(&id, claim())).unwrap_err();
    assert!(held.code == Code::Held && !held.next.iter().any(changes), "{held:?}");
    world.ok(&b, on(&id, Act::moved(Verb::Fail, Some("no".into()))));
    let failed = world.run(&a, on(&id, claim())).unwrap_err();
    assert!(failed.code == Code::NotAllowed && !failed.next.iter().any(changes), "{failed:?}");
    assert!(world.run(&b, on(&id, claim())).unwrap_err().next.iter().any(changes), "its last holder may");
}

/// Force does not help, and the holder is named all the same.
#[test]
fn what_is_held_and_not_failed_cannot_be_retried_by_force() {
    let mut world = world();
    let (a, h, id) = (who("agent:a", "1"), who("human:h", ""), world.add("t"));
    world.lease(&a, on(&id, claim()));
    let force = Some(Force { reason: "why".into(), link: None });
    let retry = Command::Retry { task: Some(id.parse().unwrap()), message: None, force };
    for command in [retry, forced(&id, Act::moved(Verb::Reopen, None))] {
        let refusal = world.run(&h, command).unwrap_err();
        assert_eq!(refusal.code, Code::Held, "{refusal:?}");
        assert!(refusal.message.contains("agent:a"), "{refusal:?}");
        assert!(!refusal.next.contains(&Step::verb(Verb::Claim, &id)), "{refusal:?}");
    }
}

#[test]
fn a_project_may_only_warn_or_refuse() {
    for (unclaimed, code) in [(Unclaimed::Warn, None), (Unclaimed::Refuse, Some(Code::NotAllowed))] {
        let mut world = world_with(Policy { unclaimed, ..policy() });
        let (a, b, id) = (registered(&mut world, 7), registered(&mut world, 8), world.add("t"));
        let events = world.events();
        match (world.run(&a, guard(7, &["x"])), code) {
            (Ok(reply), None) => {
                assert!(matches!(reply.answer, Answer::Guarded { task: None, adopted: false }));
                assert!(reply.notices.iter().any(|notice| notice.message.contains("without a task")));
            }
            (Err(refusal), Some(code)) => assert_eq!(refusal.code, code),
            other => panic!("{other:?}"),
        }
        assert_eq!(world.events(), events, "nothing was opened");
        // With a task it is the same everywhere.
        world.lease(&a, on(&id, claim()));
        assert_eq!(edit(&mut world, &a, 7, "x").unwrap().0.id, id);
        let refusal = world.run(&b, guard(8, &["x"])).unwrap_err();
        assert!(matches!(refusal.code, Code::Scope | Code::NotAllowed), "{refusal:?}");
        world.is_whole();
    }
}

#[test]
fn whoever_lost_its_task_is_told_before_it_writes_on_and_goes_on_after_it_acted() {
    let mut world = world();
    let (a, h, id) = (registered(&mut world, 7), who("human:h", ""), world.add("t"));
    world.lease(&a, on(&id, claim()));
    edit(&mut world, &a, 7, "x").unwrap();
    world.pass(10);
    world.ok(&h, forced(&id, takeover()));
    for _ in 0..2 {
        let refusal = edit(&mut world, &a, 7, "y").unwrap_err();
        assert_eq!((refusal.code, refusal.task.as_deref()), (Code::Fenced, Some(id.as_str())));
    }
    world.pass(10);
    let told = world.run(&a, Command::Presence(Presence::Here)).unwrap();
    assert_eq!(told.notices.iter().filter(|notice| notice.kind == NoticeKind::Superseded).count(), 1);
    assert!(edit(&mut world, &a, 7, "y").unwrap().1);
}

#[test]
fn a_holder_learns_once_who_waits_for_its_path() {
    let mut world = world();
    let (a, b) = (registered(&mut world, 7), registered(&mut world, 8));
    edit(&mut world, &a, 7, "x").unwrap();
    world.pass(10);
    let refusal = edit(&mut world, &b, 8, "x").unwrap_err();
    let conflict = refusal.conflict.unwrap();
    world.engine.record_wish((&b.actor, &b.instance), &conflict.task, Some(&conflict.path), None).unwrap();
    world.pass(10);
    let wanted = |world: &mut World<AnyStore>| {
        let reply = world.run(&a, Command::Presence(Presence::Here)).unwrap();
        reply.notices.into_iter().filter(|notice| notice.kind == NoticeKind::Wanted).collect::<Vec<_>>()
    };
    let news = wanted(&mut world);
    assert!(news.len() == 1 && news[0].message.contains("agent:a waits for x"), "{news:?}");
    world.pass(10);
    assert!(wanted(&mut world).is_empty(), "once");
}

const DAY_MS: i64 = 24 * 3_600_000;

/// A way to lose a task.
type Lose = fn(&mut World<AnyStore>, &str);

/// Every way in which a holder loses a task to somebody else.
const LOSSES: [(&str, Lose); 5] = [
    ("taken over", |world, id| {
        world.pass(TTL_MS + 1);
        world.lease(&who("agent:b", "1"), on(id, takeover()));
    }),
    ("swept, and claimed by another", |world, id| {
        world.pass(TTL_MS + 1);
        world.ok(&who("human:h", ""), on(id, verb(Verb::Block)));
        world.ok(&who("human:h", ""), on(id, verb(Verb::Unblock)));
        world.lease(&who("agent:b", "1"), on(id, claim()));
    }),
    ("revoked", |world, id| {
        world.lease(&who("human:h", ""), forced(id, takeover()));
    }),
    ("reset", |world, id| {
        let force = Some(onus_core::command::Force { reason: "because".into(), link: None });
        let task = Some(id.parse().unwrap());
        world.run(&who("human:h", ""), Command::Reset { task, reason: "wrong".into(), force }).unwrap();
    }),
    ("lapsed, and reset", |world, id| {
        world.pass(TTL_MS + 1);
        world.ok(&who("human:h", ""), on(id, verb(Verb::Block)));
        let task = Some(id.parse().unwrap());
        world.run(&who("human:h", ""), Command::Reset { task, reason: "wrong".into(), force: None }).unwrap();
    }),
];

/// Tokens decide, not times.
#[test]
fn whoever_lost_its_task_is_refused_however_late_it_comes_back_and_whatever_the_clock_says() {
    for (how, lose) in LOSSES {
        for (away, step_ms) in [("at once", 0), ("days later", 3 * DAY_MS), ("clock set back", -5 * DAY_MS)] {
            let mut world = world();
            let a = who("agent:a", "c7");
            let id = world.add("t");
            world.lease(&a, on(&id, claim()));
            if step_ms < 0 {
                world.fate.lock().unwrap().wall_ms += step_ms;
            }
            lose(&mut world, &id);
            if step_ms > 0 {
                world.pass(step_ms);
            }
            let case = format!("{how}, {away}");
            for _ in 0..2 {
                let refusal = world.run(&a, guard(7, &["src/a.rs"])).expect_err(&case);
                assert_eq!(
                    (refusal.code, refusal.task.as_deref()),
                    (Code::Fenced, Some(id.as_str())),
                    "{case}"
                );
            }
            // Others are not, and neither is it once it was told.
            world.run(&who("agent:c", "1"), guard(8, &["src/c.rs"])).expect(&case);
            report(&mut world, &a, Presence::TurnOver);
            assert_eq!(
                world.run(&a, guard(7, &["src/a.rs"])).unwrap_err().code,
                Code::Fenced,
                "nobody told it: {case}"
            );
            let told = world.run(&a, Command::Presence(Presence::Here)).unwrap().notices;
            assert!(told.iter().any(|notice| notice.kind == NoticeKind::Superseded), "{case}: {told:?}");
            assert!(edit(&mut world, &a, 7, "src/a.rs").expect(&case).1);
            world.is_whole();
        }
    }
}

#[test]
fn a_task_that_is_its_own_again_is_no_loss() {
    let mut world = world();
    let (a, b, id) = (who("agent:a", "c7"), who("agent:b", "1"), world.add("t"));
    world.lease(&a, on(&id, claim()));
    world.pass(TTL_MS + 1);
    world.lease(&b, on(&id, takeover()));
    world.ok(&b, on(&id, verb(Verb::Release)));
    let told = world.run(&a, on(&id, claim())).unwrap().notices;
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(edit(&mut world, &a, 7, "src/a.rs").unwrap().0.id, id);
    assert_eq!(world.engine.store().read(|read| read.losses()).unwrap(), []);
}

/// What a hook would do with this call: who acts, and whether anything is written.
fn call(world: &mut World<AnyStore>, pid: u32, part: Option<&str>, paths: &[&str]) -> (String, bool, bool) {
    let identity = agent(pid);
    let conversation = Conversation {
        sub_agent: part.map(|part| format!("{}/{part}", identity.instance).parse().unwrap()),
        actor: identity.actor,
        instance: identity.instance,
        worktree: None,
        process: Some(process(pid, 1)),
        branch: None,
        is_alone: true,
    };
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    let call = world.engine.call(&conversation, &paths, Files::ToChange).unwrap();
    (call.instance.to_string(), call.registers, call.is_settled)
}

#[test]
fn most_calls_of_hooks_write_nothing() {
    let mut world = world();
    assert_eq!(call(&mut world, 7, None, &[]), ("c7".into(), true, false), "not known yet");
    let a = registered(&mut world, 7);
    assert_eq!(call(&mut world, 7, None, &[]), ("c7".into(), false, true));
    assert_eq!(call(&mut world, 7, None, &["x"]), ("c7".into(), false, false), "the file is new to it");
    let (task, _) = edit(&mut world, &a, 7, "x").unwrap();
    assert!(!call(&mut world, 7, None, &[]).2, "it is still to hear that a task was opened");
    report(&mut world, &a, Presence::Here);
    assert!(call(&mut world, 7, None, &["x"]).2 && call(&mut world, 7, None, &[]).2);
    assert!(!call(&mut world, 7, None, &["x", "y"]).2);
    world.pass(60_000);
    assert!(!call(&mut world, 7, None, &["x"]).2, "a sign of life is due");
    report(&mut world, &a, Presence::Here);
    assert!(call(&mut world, 7, None, &["x"]).2);
    report(&mut world, &a, Presence::TurnOver);
    assert!(!call(&mut world, 7, None, &["x"]).2, "it wakes");
    report(&mut world, &a, Presence::Here);
    world.pass(10);
    world.ok(&who("human:h", ""), on(&task.id, Act::note("hello")));
    assert!(!call(&mut world, 7, None, &[]).2, "there is news");
    // Another conversation in the same process: that one is registered again.
    let mut cleared = agent(7);
    cleared.instance = "cleared".parse().unwrap();
    world.pass(10);
    let (actor, instance) = (cleared.actor.clone(), cleared.instance.clone());
    let register = Command::RegisterInstance { actor, instance, process: process(7, 1), group: None };
    world.run(&cleared, register).unwrap();
    assert!(call(&mut world, 7, None, &[]).1);
}

#[test]
fn a_part_of_a_conversation_acts_for_it_unless_it_has_work_of_its_own() {
    let mut world = world();
    let a = registered(&mut world, 7);
    assert_eq!(call(&mut world, 7, Some("p"), &["x"]).0, "c7/p", "nobody holds anything");
    let mut part = a.clone();
    part.instance = "c7/p".parse().unwrap();
    let (own, adopted) = edit(&mut world, &part, 7, "x").unwrap();
    assert!(adopted);
    assert_eq!(own.lease.unwrap().process, Some(process(7, 1)));
    // Two parts of one conversation are two workers.
    let mut other = a.clone();
    other.instance = "c7/q".parse().unwrap();
    assert_eq!(edit(&mut world, &other, 7, "x").unwrap_err().code, Code::Scope);
    let id = world.add("t");
    world.lease(
        &a,
        on(
            &id,
            Act::Claim(Terms {
                scope: ["src/**".parse().unwrap()].into_iter().collect(),
                ..Terms::default()
            }),
        ),
    );
    assert_eq!(call(&mut world, 7, Some("q"), &["y"]).0, "c7", "the conversation's task");
    assert_eq!(call(&mut world, 7, Some("p"), &["y"]).0, "c7/p", "its own");
    assert_eq!(call(&mut world, 7, Some("p"), &["src/y"]).0, "c7", "the conversation has it");
    assert_eq!(report(&mut world, &part, Presence::Gone)[0].id, own.id);
    world.is_whole();
}

/// An edit by a part of a conversation that holds a task, or by the conversation itself.
fn part_edits(
    world: &mut World<AnyStore>,
    by: &Identity,
    part: Option<&str>,
    path: &str,
) -> Result<Vec<String>, Refusal> {
    let part = part.map(|part| format!("{}/{part}", by.instance).parse().unwrap());
    let touched = Touched { worktree: Some(WorktreeId::new("machine", "w")), part };
    let guard =
        Guard { paths: vec![path.to_owned()], process: Some(process(7, 1)), touched, ..Guard::default() };
    let reply = world.run(by, Command::Guard(guard))?;
    Ok(reply.notices.into_iter().map(|notice| notice.message).collect())
}

#[test]
fn of_two_parts_of_a_conversation_on_one_file_the_second_is_refused_while_the_first_runs() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let id = world.add("one");
    world.lease(&a, on(&id, claim()));
    assert_eq!(part_edits(&mut world, &a, Some("1"), "a.rs").unwrap(), [] as [String; 0]);
    let refusal = part_edits(&mut world, &a, Some("2"), "a.rs").unwrap_err();
    assert_eq!(refusal.code, Code::Scope);
    assert!(refusal.message.contains("c7/1"), "{}", refusal.message);
    // The conversation is told, once.
    let told = part_edits(&mut world, &a, None, "a.rs").unwrap();
    assert!(told.len() == 1 && told[0].contains("your sub-agent c7/1"), "{told:?}");
    assert!(part_edits(&mut world, &a, None, "a.rs").unwrap().is_empty());
    let refused =
        |world: &mut World<AnyStore>, part: &str| part_edits(world, &a, Some(part), "a.rs").is_err();
    // An end that was reported.
    let ends = who("agent:a", "c7/1");
    report(&mut world, &ends, Presence::Gone);
    let told = part_edits(&mut world, &a, Some("2"), "a.rs").unwrap();
    assert!(told.len() == 1 && told[0].contains("your conversation itself"), "{told:?}");
    assert!(refused(&mut world, "3"));
    // The end of the turn.
    report(&mut world, &a, Presence::TurnOver);
    assert!(!refused(&mut world, "3") && refused(&mut world, "4"));
    // The end of the process: registering again in the same one is not an end.
    for (pid, is_refused) in [(7, true), (8, false)] {
        let (actor, instance) = (a.actor.clone(), a.instance.clone());
        let register = Command::RegisterInstance { actor, instance, process: process(pid, 1), group: None };
        world.run(&a, register).unwrap();
        assert_eq!(refused(&mut world, "4"), is_refused, "{pid}");
    }
    world.is_whole();
}

#[test]
fn what_a_conversation_declared_stays_with_one_lease_whichever_part_edits_it() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let [one, two, three] = ["one", "two", "three"].map(|title| world.add(title));
    let declaring = |glob: &str| {
        Act::Claim(Terms { scope: [glob.parse().unwrap()].into_iter().collect(), ..Terms::default() })
    };
    world.lease(&a, on(&one, declaring("src/**")));
    world.pass(10);
    world.lease(&a, on(&two, claim()));
    let scope_of = |world: &mut World<AnyStore>, id: &str| world.show(id).lease.unwrap().scope;
    // The file joins the lease that declares it, and its siblings know.
    part_edits(&mut world, &a, Some("1"), "src/a.rs").unwrap();
    assert_eq!(part_edits(&mut world, &a, Some("2"), "src/a.rs").unwrap_err().code, Code::Scope);
    assert_eq!(scope_of(&mut world, &one), ["src/**", "src/a.rs"]);
    // Of several, those that nobody declared join the latest.
    let touched =
        Touched { worktree: Some(WorktreeId::new("machine", "w")), part: Some("c7/1".parse().unwrap()) };
    let paths = ["src/b.rs", "c.rs"].map(str::to_owned).to_vec();
    world.run(&a, Command::Guard(Guard { paths, touched, ..Guard::default() })).unwrap();
    assert_eq!(scope_of(&mut world, &two), ["c.rs"]);
    // A file that a sub-agent has touched cannot be declared for another task.
    assert_eq!(world.refused(&a, on(&three, declaring("c.rs"))), Code::Scope);
    // Touched by both, it is in both leases.
    world.pass(10);
    world.lease(&a, on(&three, claim()));
    report(&mut world, &a, Presence::TurnOver);
    part_edits(&mut world, &a, Some("2"), "c.rs").unwrap();
    assert_eq!(scope_of(&mut world, &three), ["c.rs"]);
    world.is_whole();
}
