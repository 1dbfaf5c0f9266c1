//! Disjoint scopes (P3): stories, and random histories judged by a referee that knows nothing of automata.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use crate::world::{
    TTL_MS, World, claim, forced, on, policy, process, takeover, verb, who, world, world_with,
};
use onus_core::command::{Act, Attachment, Command, Edit, NewTask, Terms};
use onus_core::lease::Mode;
use onus_core::policy::{AcrossWorktrees, Policy, ScopeMode};
use onus_core::refusal::Code;
use onus_core::scope::{Areas, Glob, ReservationKind, Scope, Touched, WorktreeId};
use onus_core::task::{Facts, TaskBranch};
use onus_core::transition::Verb;
use onus_engine::{Ancestry, Identity, NoticeKind, Reply};
use onus_store::{AnyStore, Store};
use proptest::prelude::*;

fn scope(globs: &[&str]) -> Scope {
    globs.iter().map(|glob| glob.parse::<Glob>().unwrap()).collect()
}

fn with_scope(globs: &[&str]) -> Act {
    Act::Claim(Terms { scope: scope(globs), ..Terms::default() })
}

fn touch(paths: &[&str]) -> Act {
    Act::Touch {
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        touched: Default::default(),
        extent: Default::default(),
    }
}

fn renew() -> Act {
    Act::Renew { ttl_ms: None, progress: false }
}

fn declared<S: Store>(world: &mut World<S>, globs: &[&str], mode: Mode) -> String {
    let facts = Facts { scope: scope(globs), mode, ..Facts::default() };
    world.ok(&who("human:founder", ""), Command::Add(NewTask { facts, ..NewTask::titled("t") })).id
}

fn three() -> (Identity, Identity, Identity) {
    (who("agent:a", "1"), who("agent:b", "1"), who("agent:c", "1"))
}

#[test]
fn a_scope_is_refused_with_a_path_that_both_would_have() {
    let mut world = world();
    let (a, b, _) = three();
    let (one, two) = (world.add("one"), declared(&mut world, &["src/auth/*"], Mode::Exclusive));
    world.lease(&a, on(&one, with_scope(&["src/*/mod.rs"])));
    let refusal = world.run(&b, on(&two, claim())).unwrap_err();
    assert_eq!((refusal.code, refusal.exit_code()), (Code::Scope, 4));
    let conflict = refusal.conflict.unwrap();
    assert_eq!(
        (conflict.task.as_str(), conflict.path.as_str(), conflict.yours.as_str(), conflict.theirs.as_str()),
        (one.as_str(), "src/auth/mod.rs", "src/auth/*", "src/*/mod.rs")
    );
    assert_eq!(refusal.holder.unwrap().actor, "agent:a");
    assert_eq!(world.refused(&b, on(&two, claim())), Code::Scope, "and nothing was changed");
    world.ok(&a, on(&one, verb(Verb::Release)));
    world.lease(&b, on(&two, claim()));
    world.is_whole();
}

/// A worktree of this machine.
fn worktree(own: &str) -> WorktreeId {
    WorktreeId::new("machine", own)
}

fn touch_in(paths: &[&str], own: &str, part: Option<&str>) -> Act {
    let touched = Touched { worktree: Some(worktree(own)), part: part.map(|part| part.parse().unwrap()) };
    Act::Touch {
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        touched,
        extent: Default::default(),
    }
}

#[test]
fn a_lease_knows_where_each_file_was_touched_and_by_whom() {
    let mut world = world();
    let (a, b, _) = three();
    let (one, two) = (world.add("one"), world.add("two"));
    world.lease(&a, on(&one, with_scope(&["docs/**"])));
    world.lease(&a, on(&one, touch_in(&["src/a.rs", "docs/x"], "w1", None)));
    let events = world.events();
    world.lease(&a, on(&one, touch_in(&["src/a.rs", "docs/x"], "w1", None)));
    assert_eq!(world.events(), events, "what it has there needs nothing");
    world.lease(&a, on(&one, touch_in(&["src/a.rs"], "w1", Some("1/1"))));
    let events = world.events();
    world.lease(&a, on(&one, touch_in(&["src/a.rs"], "w1", Some("1/1"))));
    assert_eq!(world.events(), events, "nor does a part that has it");
    let lease = world.lease(&a, on(&one, touch_in(&["src/a.rs"], "w2", Some("1/1"))));
    assert_eq!(lease.scope, ["docs/**", "src/a.rs"], "each glob once");
    let rows: Vec<_> = lease
        .reservations
        .iter()
        .map(|row| (row.glob.as_str(), row.kind, row.worktree.clone(), row.part.as_deref()))
        .collect();
    let (w1, w2) = (worktree("w1").to_string(), worktree("w2").to_string());
    let mut expected = vec![
        ("docs/**", ReservationKind::Declared, None, None),
        ("src/a.rs", ReservationKind::Touched, Some(w1.clone()), None),
        ("src/a.rs", ReservationKind::Touched, Some(w1), Some("1/1")),
        ("src/a.rs", ReservationKind::Touched, Some(w2), Some("1/1")),
    ];
    expected.sort();
    assert_eq!(
        {
            let mut rows = rows;
            rows.sort();
            rows
        },
        expected
    );
    // Declared, it is that file everywhere; and then no touch adds anything.
    let lease =
        world.lease(&a, on(&one, Act::AddScope { scope: scope(&["src/a.rs"]), areas: Areas::default() }));
    assert_eq!(lease.reservations.len(), 5);
    let events = world.events();
    world.lease(&a, on(&one, touch_in(&["src/a.rs"], "w3", None)));
    assert_eq!(world.events(), events);
    // Another worktree is not a way around another's reservation.
    world.lease(&b, on(&two, claim()));
    assert_eq!(world.refused(&b, on(&two, touch_in(&["src/a.rs"], "w9", None))), Code::Scope);
    world.lease(&a, on(&one, Act::RemoveScope { scope: scope(&["src/a.rs"]) }));
    world.lease(&b, on(&two, touch_in(&["src/a.rs"], "w9", None)));
    world.is_whole();
}

fn merges(reply: &Reply) -> Vec<&str> {
    let of_merges = reply.notices.iter().filter(|notice| notice.kind == NoticeKind::Merge);
    of_merges.map(|notice| notice.message.as_str()).collect()
}

/// Two tasks that a and b hold, each in a worktree of its own.
fn two_worktrees(world: &mut World<AnyStore>) -> (String, String) {
    let (a, b, _) = three();
    let (one, two) = (world.add("one"), world.add("two"));
    let at = |own: &str| {
        let (path, branch) = (Some(format!("/w/{own}")), Some(format!("onus/{own}")));
        Act::Claim(Terms { worktree_id: Some(worktree(own)), worktree: path, branch, ..Terms::default() })
    };
    world.lease(&a, on(&one, at("w1")));
    world.lease(&b, on(&two, at("w2")));
    (one, two)
}

#[test]
fn a_file_touched_in_two_worktrees_is_a_merge_to_come_and_both_are_told_once() {
    let mut world = world();
    let (a, b, c) = three();
    let (one, two) = two_worktrees(&mut world);
    let first = world.run(&a, on(&one, touch_in(&["src/a.rs", "src/b.rs"], "w1", None))).unwrap();
    assert!(merges(&first).is_empty());
    let second =
        world.run(&b, on(&two, touch_in(&["src/a.rs", "src/b.rs", "src/c.rs"], "w2", None))).unwrap();
    let expected = format!(
        "a merge to come: agent:a (1) changes src/a.rs, src/b.rs too, for {one} in /w/w1 on branch onus/w1"
    );
    assert_eq!(merges(&second), [expected]);
    // Not each time.
    let again = world.run(&b, on(&two, touch_in(&["src/a.rs"], "w2", None))).unwrap();
    assert!(merges(&again).is_empty(), "{again:?}");
    // The other hears of it with its next answer, and then no more.
    let told = world.run(&a, on(&one, renew())).unwrap();
    let expected = format!(
        "a merge to come: agent:b (1) changes src/a.rs, src/b.rs too, for {two} in /w/w2 on branch onus/w2"
    );
    assert_eq!(merges(&told), [expected]);
    assert!(merges(&world.run(&a, on(&one, renew())).unwrap()).is_empty());
    assert_eq!(world.engine.store().read(|read| read.notices()).unwrap(), []);
    // In either worktree, or in an unknown one, it is another's; and so is every declared scope that contains
    // it.
    let three = world.add("three");
    world.lease(&c, on(&three, claim()));
    for at in ["w1", "w2"] {
        let refusal = world.run(&c, on(&three, touch_in(&["src/a.rs"], at, None))).unwrap_err();
        assert_eq!(refusal.code, Code::Scope);
        assert!(refusal.message.contains(&format!(" in /w/{at} on branch onus/{at}")), "{}", refusal.message);
        assert_eq!(refusal.holder.unwrap().branch, Some(format!("onus/{at}")));
    }
    assert_eq!(world.refused(&c, on(&three, touch(&["src/a.rs"]))), Code::Scope);
    let declare = Act::AddScope { scope: scope(&["src/*"]), areas: Areas::default() };
    assert_eq!(world.refused(&c, on(&three, declare)), Code::Scope);
    let four = declared(&mut world, &["src/a.rs"], Mode::Exclusive);
    assert_eq!(world.refused(&who("agent:d", "1"), on(&four, claim())), Code::Scope);
    world.is_whole();
}

#[test]
fn what_happens_across_worktrees_is_for_the_project_to_say() {
    for (across, is_refused) in [(AcrossWorktrees::Refuse, true), (AcrossWorktrees::Ignore, false)] {
        let mut world = world_with(Policy { across_worktrees: across, ..policy() });
        let (a, b, _) = three();
        let (one, two) = two_worktrees(&mut world);
        world.lease(&a, on(&one, touch_in(&["src/a.rs"], "w1", None)));
        match world.run(&b, on(&two, touch_in(&["src/a.rs"], "w2", None))) {
            Err(refusal) => assert!(is_refused && refusal.code == Code::Scope, "{refusal:?}"),
            Ok(reply) => assert!(!is_refused && reply.notices.is_empty(), "{reply:?}"),
        }
        assert!(world.run(&a, on(&one, renew())).unwrap().notices.is_empty());
    }
}

#[test]
fn a_late_holder_is_held_to_the_same_rule_and_told_what_others_touched_meanwhile() {
    let mut world = world();
    let (a, b, c) = three();
    let (one, two) = two_worktrees(&mut world);
    world.lease(&a, on(&one, touch_in(&["src/a.rs"], "w1", None)));
    world.pass(TTL_MS + 1);
    world.lease(&b, on(&two, renew()));
    assert!(merges(&world.run(&b, on(&two, touch_in(&["src/a.rs"], "w2", None))).unwrap()).is_empty());
    let back = world.run(&a, on(&one, renew())).unwrap();
    assert_eq!(merges(&back).len(), 1, "{back:?}");
    assert_eq!(merges(&world.run(&b, on(&two, renew())).unwrap()).len(), 1);
    // Somebody in its own worktree is in its way.
    world.pass(TTL_MS + 1);
    let three = world.add("three");
    world.lease(&c, on(&three, claim()));
    world.lease(&c, on(&three, touch_in(&["src/a.rs"], "w1", None)));
    assert_eq!(world.refused(&a, on(&one, renew())), Code::Scope);
    world.is_whole();
}

#[test]
fn of_leases_that_have_ended_no_notice_is_kept() {
    let mut world = world();
    let (a, b, _) = three();
    let (one, two) = two_worktrees(&mut world);
    world.lease(&a, on(&one, touch_in(&["src/a.rs", "src/b.rs"], "w1", None)));
    world.lease(&b, on(&two, touch_in(&["src/a.rs"], "w2", None)));
    assert_eq!(world.engine.store().read(|read| read.notices()).unwrap().len(), 1);
    // The answer that ends the lease is the last that can report it.
    let ended = world.run(&a, on(&one, verb(Verb::Release))).unwrap();
    assert_eq!(merges(&ended).len(), 1);
    world.lease(&a, on(&one, claim()));
    world.lease(&a, on(&one, touch_in(&["src/c.rs"], "w1", None)));
    world.lease(&b, on(&two, touch_in(&["src/c.rs"], "w2", None)));
    let kept = world.engine.store().read(|read| read.notices()).unwrap();
    assert_eq!(kept.iter().map(|notice| notice.path.as_str()).collect::<Vec<_>>(), ["src/c.rs"]);
}

#[test]
fn a_refusal_names_the_area_and_a_path_in_it() {
    let mut world = world();
    let (a, b, _) = three();
    let mut areas = Areas::default();
    areas.insert("auth".parse().unwrap(), scope(&["src/auth/**"]).globs().to_vec());
    let facts = Facts { scope: scope(&["src/auth/**"]), scope_areas: areas.clone(), ..Facts::default() };
    let new = NewTask { facts, ..NewTask::titled("t") };
    let one = world.ok(&who("human:founder", ""), Command::Add(new)).id;
    assert_eq!(world.show(&one).scope_areas["auth"], ["src/auth/**"]);
    let lease = world.lease(&a, on(&one, claim()));
    assert_eq!(lease.reservations[0].area.as_deref(), Some("auth"));
    let two = world.add("two");
    world.lease(&b, on(&two, claim()));
    let refusal = world.run(&b, on(&two, touch(&["src/auth/login.rs"]))).unwrap_err();
    assert!(
        refusal.message.starts_with("src/auth/login.rs, in area auth, is reserved by"),
        "{}",
        refusal.message
    );
    assert_eq!(refusal.conflict.unwrap().area.as_deref(), Some("auth"));
    // The other way round: a caller that asks for an area is told which path of it is taken.
    let three = world.add("three");
    world.lease(&b, on(&two, touch(&["lib.rs"])));
    let mut areas = Areas::default();
    areas.insert("lib".parse().unwrap(), scope(&["*.rs"]).globs().to_vec());
    let terms = Terms { scope: scope(&["*.rs"]), scope_areas: areas, ..Terms::default() };
    let refusal = world.run(&who("agent:c", "1"), on(&three, Act::Claim(terms))).unwrap_err();
    assert!(refusal.message.starts_with("lib.rs, in area lib, is reserved by"), "{}", refusal.message);
    // What is edited away takes its name with it.
    let edit = Edit { remove_scope: scope(&["src/auth/**"]), ..Edit::default() };
    world.ok(&a, on(&one, Act::Edit(edit)));
    assert!(world.show(&one).scope_areas.is_empty());
    world.is_whole();
}

#[test]
fn a_lease_is_attached_to_a_worktree_by_its_holder_alone() {
    let mut world = world();
    let (a, b, _) = three();
    let id = world.add("one");
    let attach = |own: &str| {
        let (path, branch) = (format!("/w/{own}"), Some(format!("onus/{own}")));
        let line =
            TaskBranch { branch: format!("onus/{own}"), base: "c0".to_owned(), target: "main".to_owned() };
        Act::Attach(Attachment { id: Some(worktree(own)), path, branch, own: (own == "w2").then_some(line) })
    };
    let terms = Terms { worktree_id: Some(worktree("w1")), ..Terms::default() };
    let lease = world.lease(&a, on(&id, Act::Claim(terms)));
    assert_eq!(lease.worktree_id, Some(worktree("w1").to_string()));
    assert_eq!(world.refused(&b, on(&id, attach("w2"))), Code::Held);
    let lease = world.lease(&a, on(&id, attach("w2")));
    assert_eq!(
        (lease.worktree_id, lease.worktree.as_deref()),
        (Some(worktree("w2").to_string()), Some("/w/w2"))
    );
    assert_eq!((lease.branch.as_deref(), lease.token), (Some("onus/w2"), 1));
    world.lease(&a, on(&id, attach("w2")));
    let kinds = world.kinds(&id);
    for kind in ["lease.attached", "task.branched"] {
        assert_eq!(kinds.iter().filter(|it| *it == kind).count(), 1, "once: {kinds:?}");
    }
    let of_task = |world: &mut World<_>| {
        let task = world.show(&id);
        (task.branch, task.base, task.target)
    };
    let own = (Some("onus/w2".to_owned()), Some("c0".to_owned()), Some("main".to_owned()));
    assert_eq!(of_task(&mut world), own);
    // After a lapse it continues there.
    world.pass(TTL_MS + 1);
    world.lease(&a, on(&id, attach("w3")));
    assert_eq!(
        world.kinds(&id).iter().rev().take(2).collect::<Vec<_>>(),
        ["lease.attached", "lease.renewed"]
    );
    world.ok(&a, on(&id, verb(Verb::Release)));
    world.run(&a, on(&id, attach("w4"))).unwrap_err();
    // It stays the task's, whoever holds it and wherever it is worked on.
    assert_eq!(of_task(&mut world), own);
    world.is_whole();
}

#[test]
fn small_work_in_one_command_meets_the_same_scopes() {
    let mut world = world();
    let (a, b, _) = three();
    let (one, two) = (world.add("one"), declared(&mut world, &["a.rs"], Mode::Exclusive));
    world.lease(&a, on(&one, with_scope(&["*.rs"])));
    assert_eq!(world.refused(&b, on(&two, verb(Verb::Done))), Code::Scope);
}

/// Finishing another's task in passing respects paths that somebody else has, whether or not its lapsed lease
/// was swept.
#[test]
fn small_work_on_what_another_left_meets_the_same_scopes() {
    for swept in [false, true] {
        let mut world = world();
        let (a, b, c) = three();
        let one = declared(&mut world, &["src/**"], Mode::Exclusive);
        let two = declared(&mut world, &["src/**"], Mode::Exclusive);
        world.lease(&a, on(&one, claim()));
        world.pass(TTL_MS + 1);
        if swept {
            world.ok(&c, on(&one, verb(Verb::Block)));
            world.ok(&c, on(&one, verb(Verb::Unblock)));
        }
        world.lease(&b, on(&two, claim()));
        for act in [claim(), takeover(), verb(Verb::Done), verb(Verb::Submit), verb(Verb::Fail)] {
            assert_eq!(world.refused(&c, on(&one, act)), Code::Scope, "swept: {swept}");
        }
        // A person's force sets aside whose task it is, never whose paths.
        let ada = who("human:ada", "");
        assert_eq!(world.refused(&ada, forced(&one, verb(Verb::Done))), Code::Scope);
        // Its holder had them before anybody else, and may still finish.
        world.ok(&a, on(&one, verb(Verb::Done)));
        world.is_whole();
    }
}

/// A person's force ends a live lease; what follows is a claim like any other.
#[test]
fn work_finished_by_force_over_a_live_lease_meets_the_same_scopes() {
    let mut world = world();
    let (a, b, _) = three();
    let one = world.add("one");
    world.lease(&a, on(&one, claim()));
    let two = world.add("two");
    world.lease(&b, on(&two, with_scope(&["src/**"])));
    let edit = Edit { add_scope: scope(&["src/a.rs"]), ..Edit::default() };
    world.ok(&who("human:founder", ""), on(&one, Act::Edit(edit)));
    assert_eq!(world.refused(&who("human:ada", ""), forced(&one, verb(Verb::Done))), Code::Scope);
    world.ok(&b, on(&two, verb(Verb::Release)));
    world.ok(&who("human:ada", ""), forced(&one, verb(Verb::Done)));
    world.is_whole();
}

#[test]
fn who_comes_back_late_does_not_get_back_what_another_got_meanwhile() {
    let mut world = world();
    let (a, b, c) = three();
    let (one, two, three) = (world.add("one"), world.add("two"), world.add("three"));
    world.lease(&a, on(&one, with_scope(&["src/**"])));
    world.pass(TTL_MS);
    world.lease(&b, on(&two, with_scope(&["src/x.rs"])));
    assert_eq!(world.refused(&a, on(&one, renew())), Code::Scope);
    assert_eq!(
        world.refused(&a, on(&one, claim())),
        Code::Scope,
        "claiming what one had is renewing it late"
    );
    assert_eq!(world.refused(&a, on(&one, touch(&["docs/new.md"]))), Code::Scope);
    assert_eq!(world.refused(&c, on(&three, with_scope(&["src/x.rs"]))), Code::Scope);
    world.ok(&b, on(&two, verb(Verb::Release)));
    let lease = world.lease(&a, on(&one, renew()));
    assert_eq!((lease.token, lease.scope.as_slice()), (1, ["src/**".to_owned()].as_slice()));
    assert_eq!(world.refused(&b, on(&two, with_scope(&["src/x.rs"]))), Code::Scope, "it is reserved again");
    world.is_whole();
}

#[test]
fn a_lapse_that_was_swept_frees_the_paths_and_a_late_renewal_takes_them_back() {
    let mut world = world();
    let (a, b, _) = three();
    let (one, two) = (world.add("one"), world.add("two"));
    world.lease(&a, on(&one, with_scope(&["a"])));
    world.pass(TTL_MS);
    // Blocking by another sweeps the lease.
    world.ok(&b, on(&one, verb(Verb::Block)));
    world.ok(&b, on(&one, verb(Verb::Unblock)));
    world.lease(&b, on(&two, with_scope(&["a"])));
    assert_eq!(world.refused(&a, on(&one, renew())), Code::Scope);
    world.ok(&b, on(&two, verb(Verb::Release)));
    assert_eq!(world.lease(&a, on(&one, renew())).scope, ["a"]);
    assert_eq!(world.refused(&b, on(&two, with_scope(&["a"]))), Code::Scope);
    world.is_whole();
}

#[test]
fn the_first_touch_reserves_and_the_second_toucher_is_told_who_has_it() {
    let mut world = world();
    let (a, b, _) = three();
    let (one, two) = (world.add("one"), world.add("two"));
    world.lease(&a, on(&one, claim()));
    world.lease(&b, on(&two, claim()));
    assert_eq!(world.lease(&a, on(&one, touch(&["x", "./y//z"]))).scope, ["x", "y/z"]);
    let events = world.events();
    world.lease(&a, on(&one, touch(&["x"])));
    assert_eq!(world.events(), events, "what one has needs no event");
    assert_eq!(world.refused(&b, on(&two, touch(&["free", "y/z"]))), Code::Scope);
    assert_eq!(world.show(&two).lease.unwrap().scope, [""; 0], "all or nothing");
    world.lease(&b, on(&two, touch(&["free"])));
    assert_eq!(world.refused(&a, on(&one, touch(&["free"]))), Code::Scope);
    world.is_whole();
}

#[test]
fn a_touch_without_a_task_joins_the_latest_and_what_an_older_one_has_is_fine() {
    let mut world = world();
    let (a, ..) = three();
    let (one, two) = (world.add("one"), world.add("two"));
    world.lease(&a, on(&one, with_scope(&["old/**"])));
    world.pass(1);
    world.lease(&a, on(&two, claim()));
    let any = |paths: &[&str]| Command::OnTask { task: None, act: touch(paths), force: None };
    world.ok(&a, any(&["new/file", "old/file"]));
    assert_eq!(world.show(&two).lease.unwrap().scope, ["new/file"]);
    assert_eq!(world.show(&one).lease.unwrap().scope, ["old/**"]);
    let nobody = who("agent:n", "1");
    assert_eq!(world.refused(&nobody, any(&["z"])), Code::Usage, "who holds nothing reserves nothing");
    assert_eq!(world.refused(&a, any(&["../outside"])), Code::Usage);
}

#[test]
fn shared_scopes_and_shared_paths_do_not_collide() {
    let mut world = world_with(Policy { scope_shared: scope(&["**/*.lock"]), ..policy() });
    let (a, b, c) = three();
    let one = declared(&mut world, &["docs/**"], Mode::Shared);
    let two = declared(&mut world, &["docs/x"], Mode::Shared);
    let (three, four) = (world.add("three"), world.add("four"));
    world.lease(&a, on(&one, claim()));
    assert_eq!(world.lease(&b, on(&two, claim())).mode, Mode::Shared);
    assert_eq!(
        world.refused(&c, on(&three, with_scope(&["docs/x"]))),
        Code::Scope,
        "one of them is exclusive"
    );
    world.lease(&c, on(&three, with_scope(&["**/*.lock", "Cargo.*"])));
    let d = who("agent:d", "1");
    let refusal = world.run(&d, on(&four, with_scope(&["Cargo.*"]))).unwrap_err();
    assert_eq!(refusal.conflict.unwrap().path.len(), "Cargo.".len(), "the shortest that is not shared");
    world.lease(&d, on(&four, with_scope(&["Cargo.lock"])));
    world.lease(&d, on(&four, touch(&["yarn.lock"])));
    assert_eq!(world.show(&four).lease.unwrap().scope, ["Cargo.lock"], "shared paths need no reservation");
}

#[test]
fn where_scopes_only_warn_the_claim_is_granted_with_a_notice_and_off_says_nothing() {
    for (mode, notices) in [(ScopeMode::Warn, 1), (ScopeMode::Off, 0)] {
        let mut world = world_with(Policy { scope_mode: mode, ..policy() });
        let (a, b, _) = three();
        let (one, two) = (world.add("one"), world.add("two"));
        world.lease(&a, on(&one, with_scope(&["x"])));
        let reply = world.run(&b, on(&two, with_scope(&["x"]))).unwrap();
        assert_eq!(reply.notices.len(), notices, "{mode}");
    }
}

#[test]
fn ready_and_next_leave_out_what_collides_with_a_live_lease_and_why_says_so() {
    let mut world = world();
    let (a, b, _) = three();
    let one = declared(&mut world, &["src/**"], Mode::Exclusive);
    let two = declared(&mut world, &["src/lib.rs"], Mode::Exclusive);
    let three = declared(&mut world, &["docs/**"], Mode::Exclusive);
    let ids = |world: &mut World<AnyStore>, who: &Identity| {
        let page = world.engine.ready(Some(who), 10).unwrap().value;
        page.tasks.into_iter().map(|task| task.id).collect::<Vec<_>>()
    };
    world.lease(&a, on(&one, claim()));
    assert_eq!(ids(&mut world, &b), std::slice::from_ref(&three));
    let why = world.engine.why(Some(&b), Some(&two.parse().unwrap())).unwrap().value;
    assert_eq!((why.ready, why.obstacles.len()), (false, 1));
    assert_eq!(why.obstacles[0].task.as_deref(), Some(one.as_str()));
    assert_eq!(world.ok(&b, Command::ClaimNext(Terms::default())).id, three);
    let c = who("agent:c", "1");
    assert_eq!(world.refused(&c, Command::ClaimNext(Terms::default())), Code::Nothing);
    world.pass(TTL_MS);
    // The lapsed lease of the first is in nobody's way, and fresh work comes before a takeover.
    assert_eq!(ids(&mut world, &c), [two.clone(), one, three]);
    assert_eq!(world.ok(&c, Command::ClaimNext(Terms::default())).id, two);
}

#[test]
fn a_dead_process_frees_its_paths_at_once() {
    let mut world = world();
    let (a, b, _) = three();
    let (one, two) = (world.add("one"), world.add("two"));
    let terms = Terms { process: Some(process(7, 1)), scope: scope(&["x"]), ..Terms::default() };
    world.lease(&a, on(&one, Act::Claim(terms)));
    assert_eq!(world.refused(&b, on(&two, with_scope(&["x"]))), Code::Scope);
    world.kill(7);
    world.lease(&b, on(&two, with_scope(&["x"])));
}

#[test]
fn paths_are_given_free_one_by_one_and_only_by_the_holder() {
    let mut world = world();
    let (a, b, _) = three();
    let (one, two) = (world.add("one"), world.add("two"));
    world.lease(&a, on(&one, with_scope(&["x", "y/**"])));
    let rm = |globs: &[&str]| Act::RemoveScope { scope: scope(globs) };
    assert_eq!(world.refused(&b, on(&one, rm(&["x"]))), Code::Held);
    assert_eq!(world.refused(&a, on(&one, rm(&["y/z"]))), Code::Nothing);
    assert_eq!(world.lease(&a, on(&one, rm(&["x"]))).scope, ["y/**"]);
    world.lease(&b, on(&two, with_scope(&["x"])));
    assert_eq!(
        world.refused(&a, on(&one, Act::AddScope { scope: scope(&["x"]), areas: Default::default() })),
        Code::Scope
    );
    world.is_whole();
}

// ---- random histories

const AGENTS: usize = 4;
const TASKS: usize = 5;
const GLOBS: [&str; 10] = ["**", "a/**", "a/*", "a/b", "b/**", "*", "*/b", "{a,b}/c", "b/[!c]", "c"];
const PATHS: [&str; 7] = ["a", "c", "a/b", "a/c", "b/c", "b/b", "a/b/c"];

#[derive(Clone, Debug)]
enum Op {
    /// Without an agent: by whoever holds the task.
    Do {
        agent: Option<usize>,
        task: usize,
        act: Act,
    },
    Next {
        agent: usize,
    },
    Pass(i64),
    Kill(u32),
}

fn some_scope() -> impl Strategy<Value = Scope> {
    proptest::collection::vec(proptest::sample::select(&GLOBS[..]), 0..3).prop_map(|globs| scope(&globs))
}

fn op() -> impl Strategy<Value = Op> {
    let terms =
        (some_scope(), any::<bool>(), proptest::option::of(1_u32..4)).prop_map(|(scope, shared, pid)| {
            Terms { scope, shared, process: pid.map(|pid| process(pid, 1)), ..Terms::default() }
        });
    let act = prop_oneof![
        6 => terms.prop_map(Act::Claim),
        3 => Just(renew()),
        5 => proptest::sample::subsequence(&PATHS[..], 1..3)
            .prop_map(|paths| Act::Touch { paths: paths.into_iter().map(str::to_owned).collect(), touched: Default::default(), extent: Default::default() }),
        2 => some_scope().prop_map(|scope| Act::AddScope { scope, areas: Default::default() }),
        1 => some_scope().prop_map(|scope| Act::RemoveScope { scope }),
        1 => Just(verb(Verb::Release)),
        1 => Just(takeover()),
        1 => Just(verb(Verb::Block)),
        1 => Just(verb(Verb::Unblock)),
    ];
    prop_oneof![
        12 => (proptest::option::of(0..AGENTS), 0..TASKS, act).prop_map(|(agent, task, act)| Op::Do { agent, task, act }),
        2 => (0..AGENTS).prop_map(|agent| Op::Next { agent }),
        3 => (1..TTL_MS).prop_map(Op::Pass),
        1 => (1_u32..4).prop_map(Op::Kill),
    ]
}

/// Live leases: who, with what, and how.
fn live<S: Store>(world: &mut World<S>, ids: &[String]) -> BTreeMap<String, (Vec<Glob>, Mode)> {
    let leases = ids.iter().filter_map(|id| Some((id, world.show(id).lease.filter(|lease| lease.live)?)));
    leases
        .map(|(id, lease)| {
            (id.clone(), (lease.scope.iter().map(|glob| glob.parse().unwrap()).collect(), lease.mode))
        })
        .collect()
}

/// Every path over a small alphabet, up to three segments.
fn universe() -> Vec<String> {
    let names = ["a", "b", "c", "d", "ab"];
    let mut paths: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    for depth in 1..3 {
        let longer: Vec<String> = paths
            .iter()
            .filter(|path| path.matches('/').count() == depth - 1)
            .flat_map(|path| names.iter().map(move |name| format!("{path}/{name}")))
            .collect();
        paths.extend(longer);
    }
    paths
}

fn play(ops: &[Op], hits: &mut BTreeMap<&'static str, u32>) -> Result<(), TestCaseError> {
    let mut world = world();
    let ids: Vec<String> = (0..TASKS)
        .map(|n| declared(&mut world, if n < 2 { &GLOBS[n * 3..=n * 3 + 1] } else { &[] }, Mode::Exclusive))
        .collect();
    let paths = universe();
    for op in ops {
        let mut hit = |what| *hits.entry(what).or_default() += 1;
        match op {
            Op::Pass(ms) => world.pass(*ms),
            Op::Kill(pid) => world.kill(*pid),
            Op::Next { agent } => {
                let agent = who("agent:x", &agent.to_string());
                drop(world.run(&agent, Command::ClaimNext(Terms::default())));
            }
            Op::Do { agent, task, act } => {
                let lease = world.show(&ids[*task]).lease;
                let agent = match (agent, &lease) {
                    (Some(agent), _) => agent.to_string(),
                    (None, lease) => lease.as_ref().map_or("0".to_owned(), |lease| lease.instance.clone()),
                };
                let mut agent = who("agent:x", &agent);
                agent.ancestry = Ancestry::Known((1..4).map(|pid| process(pid, 1)).collect());
                let late = lease.is_some_and(|lease| !lease.live);
                match world.run(&agent, on(&ids[*task], act.clone())) {
                    Ok(_) if matches!(act, Act::Claim(_)) => hit("claimed"),
                    Ok(_) if late && matches!(act, Act::Renew { .. } | Act::Touch { .. }) => hit("revived"),
                    Ok(_) if matches!(act, Act::Touch { .. }) => hit("touched"),
                    Err(refusal) if refusal.code == Code::Scope && late => hit("refused late"),
                    Err(refusal) if refusal.code == Code::Scope => hit("refused"),
                    _ => hit("other"),
                }
            }
        }
        let live: Vec<_> = live(&mut world, &ids).into_iter().collect();
        for (i, (one, (globs, mode))) in live.iter().enumerate() {
            for (two, (others, other_mode)) in &live[i + 1..] {
                if *mode == Mode::Shared && *other_mode == Mode::Shared {
                    continue;
                }
                let has = |globs: &[Glob], path: &str| globs.iter().any(|glob| glob.matches(path));
                let common = paths.iter().find(|path| has(globs, path) && has(others, path));
                prop_assert!(common.is_none(), "{one} and {two} both have {common:?} after {op:?}");
            }
        }
    }
    world.is_whole();
    Ok(())
}

#[test]
fn no_two_live_leases_ever_have_a_path_in_common() {
    let mut hits = BTreeMap::new();
    let config = ProptestConfig {
        cases: crate::world::cases(60),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let counted = std::cell::RefCell::new(&mut hits);
    runner
        .run(&proptest::collection::vec(op(), 20..60), |ops| play(&ops, &mut counted.borrow_mut()))
        .unwrap();
    for what in ["claimed", "touched", "revived", "refused", "refused late"]
        .iter()
        .filter(|_| crate::world::TELLS_MUCH)
    {
        assert!(hits.get(*what).copied().unwrap_or_default() > 2, "the histories say little: {hits:?}");
    }
}
