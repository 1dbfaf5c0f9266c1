//! Landings, as far as the record goes: who may begin one, who settles it, and when a dependency is met.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use onus_core::command::{Act, Attachment, Command, Edit, NewTask, TaskLink, Terms};
use onus_core::commit::{CommitId, Extent, Tally};
use onus_core::constraint::Constraint;
use onus_core::gate::{Demand, Gate, GateKind, Stage};
use onus_core::ids::Token;
use onus_core::landing::{
    Checked, ConflictFile, DepsMet, Failure, Intent, LandStyle, Landed, LandingPlace, Obstruction, Settled,
};
use onus_core::policy::Policy;
use onus_core::refusal::Code;
use onus_core::task::{State, TaskBranch};
use onus_core::transition::Verb;
use onus_engine::{Identity, SettleResult};
use onus_store::AnyStore;

use crate::world::{TTL_MS, World, claim, forced, on, policy, takeover, verb, who, world_with};

fn commit(n: u8) -> CommitId {
    format!("{n:040x}").parse().unwrap()
}

/// A world in which tasks land, and their dependents wait for that.
fn world() -> World<AnyStore> {
    world_with(Policy { deps_met: Some(DepsMet::Landed), ..policy() })
}

/// A task with a branch of its own, in progress.
fn held(world: &mut World<AnyStore>, by: &Identity) -> String {
    let id = world.add("work");
    world.lease(by, on(&id, claim()));
    let own = TaskBranch { branch: format!("onus/{id}"), base: commit(1).to_string(), target: "main".into() };
    let there =
        Attachment { id: None, path: "/work/tree".into(), branch: Some(own.branch.clone()), own: Some(own) };
    world.ok(by, on(&id, Act::Attach(there)));
    id
}

fn done(world: &mut World<AnyStore>, by: &Identity) -> String {
    let id = held(world, by);
    world.ok(by, on(&id, verb(Verb::Done)));
    id
}

fn intent() -> Intent {
    Intent {
        target: "main".into(),
        onto: commit(2),
        commit: commit(3),
        head: commit(4),
        style: LandStyle::Merge,
        resolved_lines: 2,
        gates: Vec::new(),
        place: LandingPlace { machine: Some("m".into()), repository: "/repo/.git".into() },
    }
}

fn land(token: u64, state: State) -> Act {
    Act::Land(Checked {
        intent: intent(),
        demand: Demand::default(),
        extent: Extent::default(),
        token: Token(token),
        state,
    })
}

fn settle(settled: Settled) -> Act {
    Act::SettleLanding { commit: commit(3), settled }
}

fn will(world: &World<AnyStore>, settling: SettleResult) {
    world.fate.lock().unwrap().settled.push(settling);
}

fn count(world: &mut World<AnyStore>, id: &str, kind: &str) -> usize {
    world.kinds(id).iter().filter(|it| *it == kind).count()
}

#[test]
fn a_dependency_is_met_when_it_has_landed_and_no_longer_when_it_is_reopened() {
    let mut world = world();
    let (a, b) = (who("agent:a", "a1"), who("agent:b", "b1"));
    let first = done(&mut world, &a);
    assert_eq!(world.show(&first).landing.as_deref(), Some("awaited"));
    let new = NewTask { deps: vec![TaskLink::Task(first.parse().unwrap())], ..NewTask::titled("second") };
    let second = world.ok(&who("human:founder", ""), Command::Add(new)).id;
    assert_eq!(world.refused(&b, on(&second, claim())), Code::Unmet);
    world.ok(&b, on(&first, land(1, State::Done)));
    assert_eq!(world.refused(&b, on(&second, claim())), Code::Unmet, "it is only about to");
    world.ok(&b, on(&first, settle(Settled::Landed)));
    assert_eq!(world.show(&second).unmet, 0);
    world.ok(&b, on(&first, verb(Verb::Reopen)));
    assert_eq!(world.show(&second).unmet, 1);
    assert_eq!(world.show(&first).landed, None, "what follows is other work");
    world.is_whole();
}

#[test]
fn without_a_branch_of_its_own_a_task_is_met_when_it_is_done() {
    let mut world = world();
    let a = who("agent:a", "a1");
    let id = world.add("no branch");
    world.ok(&a, on(&id, verb(Verb::Done)));
    assert_eq!(world.show(&id).landing, None);
    world.is_whole();
}

#[test]
fn what_landed_is_said_once_whoever_says_it() {
    let mut world = world();
    let (a, b) = (who("agent:a", "a1"), who("agent:b", "b1"));
    let id = done(&mut world, &a);
    world.ok(&b, on(&id, land(1, State::Done)));
    for by in [&b, &a, &who("human:founder", "")] {
        world.ok(by, on(&id, settle(Settled::Landed)));
        world.ok(by, on(&id, settle(Settled::Withdrawn)));
    }
    assert_eq!((count(&mut world, &id, "task.landed"), count(&mut world, &id, "landing.withdrawn")), (1, 0));
    assert_eq!(world.show(&id).landed.as_deref(), Some(commit(3).as_str()));
    // Nor does a look find it.
    let found = Landed { style: LandStyle::Elsewhere, ..Landed::of(&intent()) };
    world.ok(&b, on(&id, Act::FoundLanded(found)));
    assert_eq!(count(&mut world, &id, "task.landed"), 1);
    world.is_whole();
}

#[test]
fn only_the_holder_lands_work_in_progress_and_only_as_it_was_checked() {
    let mut world = world();
    let (a, b) = (who("agent:a", "a1"), who("agent:b", "b1"));
    let id = held(&mut world, &a);
    assert_eq!(world.refused(&b, on(&id, land(1, State::InProgress))), Code::Held);
    assert_eq!(world.refused(&a, on(&id, land(0, State::InProgress))), Code::Changed);
    assert_eq!(world.refused(&a, on(&id, land(1, State::Done))), Code::Changed);
    world.pass(TTL_MS * 2);
    world.lease(&b, on(&id, takeover()));
    assert_eq!(world.refused(&a, on(&id, land(1, State::InProgress))), Code::Fenced);
    assert_eq!(world.refused(&b, on(&id, land(1, State::InProgress))), Code::Changed);
    world.ok(&b, on(&id, land(2, State::InProgress)));
    // Review first.
    let other = held(&mut world, &a);
    world.ok(&a, on(&other, verb(Verb::Submit)));
    assert_eq!(world.refused(&a, on(&other, land(1, State::Review))), Code::NotAllowed);
    world.is_whole();
}

#[test]
fn whoever_was_superseded_may_land_what_another_has_done() {
    let mut world = world();
    let (a, b) = (who("agent:a", "a1"), who("agent:b", "b1"));
    let id = held(&mut world, &a);
    world.pass(TTL_MS * 2);
    world.lease(&b, on(&id, takeover()));
    world.ok(&b, on(&id, verb(Verb::Done)));
    world.ok(&a, on(&id, land(2, State::Done)));
    world.is_whole();
}

#[test]
fn whoever_takes_a_task_settles_its_landing_first() {
    for (settled, kind) in [(Settled::Withdrawn, "landing.withdrawn"), (Settled::Landed, "task.landed")] {
        let mut world = world();
        let (a, b) = (who("agent:a", "a1"), who("agent:b", "b1"));
        let id = held(&mut world, &a);
        world.ok(&a, on(&id, land(1, State::InProgress)));
        world.pass(TTL_MS * 2);
        // If the references are out of reach, nobody takes it over.
        assert_eq!(world.refused(&b, on(&id, takeover())), Code::Held);
        will(&world, SettleResult::Failed("git is gone".into()));
        assert_eq!(world.refused(&b, on(&id, takeover())), Code::Unavailable);
        will(&world, SettleResult::Done(settled));
        let reply = world.run(&b, on(&id, takeover())).unwrap();
        let is_told = |text: &str| text.contains("had landed") || text.contains("it is withdrawn");
        assert_eq!(reply.notices.iter().filter(|notice| is_told(&notice.message)).count(), 1);
        let kinds = world.kinds(&id);
        let at = |kind: &str| kinds.iter().position(|it| it == kind).unwrap();
        assert!(at(kind) < at("lease.taken_over"), "{kinds:?}");
        assert_eq!(world.fate.lock().unwrap().unsettled.len(), 3, "asked once each time");
        // The lander that was stopped in between is refused.
        assert_eq!(world.refused(&a, on(&id, land(1, State::InProgress))), Code::Fenced);
        world.is_whole();
    }
}

#[test]
fn nobody_who_is_refused_withdraws_anothers_landing() {
    let mut world = world();
    let (a, b) = (who("agent:a", "a1"), who("agent:b", "b1"));
    let id = held(&mut world, &a);
    world.ok(&a, on(&id, land(1, State::InProgress)));
    assert_eq!(world.refused(&b, on(&id, claim())), Code::Held);
    assert_eq!(world.refused(&b, on(&id, verb(Verb::Done))), Code::Held);
    assert_eq!(world.refused(&b, on(&id, takeover())), Code::Held);
    world.ok(&b, on(&id, Act::note("a note is no change of hands")));
    assert_eq!(world.fate.lock().unwrap().unsettled.len(), 0);
    assert_eq!(world.show(&id).landing.as_deref(), Some("begun"));
}

#[test]
fn a_reset_settles_the_landings_of_all_that_it_resets() {
    let mut world = world();
    let (a, person) = (who("agent:a", "a1"), who("human:founder", ""));
    let first = done(&mut world, &a);
    world.ok(&a, on(&first, land(1, State::Done)));
    will(&world, SettleResult::Done(Settled::Withdrawn));
    let reset = Command::Reset { task: Some(first.parse().unwrap()), reason: "again".into(), force: None };
    world.run(&person, reset).unwrap();
    assert_eq!(count(&mut world, &first, "landing.withdrawn"), 1);
    let task = world.show(&first);
    assert_eq!((task.state, task.landing, task.landed), (State::Open, None, None));
    world.is_whole();
}

#[test]
fn a_conflict_opens_what_was_done_and_leaves_a_holder_its_lease() {
    let mut world = world();
    let (a, b) = (who("agent:a", "a1"), who("agent:b", "b1"));
    let file = ConflictFile { path: "src/lib.rs".into(), lines: 3, with: vec!["ON-9 by agent:x".into()] };
    let failure = |token| {
        Act::FailLanding(Failure {
            target: "main".into(),
            onto: commit(2),
            head: commit(4),
            why: Obstruction::Conflict { files: vec![file.clone()], count: 1 },
            message: "it conflicts in src/lib.rs".into(),
            token: Token(token),
        })
    };
    let id = done(&mut world, &a);
    assert_eq!(world.refused(&b, on(&id, failure(7))), Code::Changed);
    let task = world.ok(&b, on(&id, failure(1)));
    assert_eq!((task.state, task.landing), (State::Open, None));
    assert_eq!(task.kept_for.unwrap().actor, "agent:a");
    assert_eq!(world.show(&id).last_word.unwrap().text, "it conflicts in src/lib.rs");
    assert_eq!(world.refused(&b, on(&id, claim())), Code::Kept);
    // A lander that looked at it while it was done comes too late.
    assert_eq!(world.refused(&b, on(&id, failure(1))), Code::NotAllowed);
    world.lease(&a, on(&id, claim()));
    // Not by others while it works on it.
    assert_eq!(world.refused(&b, on(&id, failure(2))), Code::Held);
    let task = world.ok(&a, on(&id, failure(2)));
    assert_eq!((task.state, task.lease.unwrap().token), (State::InProgress, 2));
    world.is_whole();
}

fn gate(kind: GateKind) -> Gate {
    Gate {
        key: "checked".parse().unwrap(),
        title: None,
        kind,
        stage: Stage::Land,
        command: None,
        tests: Default::default(),
        by: Default::default(),
        applies: Default::default(),
    }
}

#[test]
fn a_gate_that_is_not_passed_is_overridden_by_people_alone_and_that_is_recorded() {
    let mut world = world();
    let (a, b, person) = (who("agent:a", "a1"), who("agent:b", "b1"), who("human:founder", ""));
    let id = done(&mut world, &a);
    let demand = Demand {
        gates: vec![gate(GateKind::Manual)],
        known: [gate(GateKind::Manual).key].into(),
        tree: Some("t".into()),
        reviewed: Some("r".into()),
        changed: Some(Vec::new()),
    };
    let checked =
        Checked { intent: intent(), demand, extent: Extent::default(), token: Token(1), state: State::Done };
    assert_eq!(world.refused(&b, on(&id, Act::Land(checked.clone()))), Code::Gate);
    assert_eq!(world.refused(&b, forced(&id, Act::Land(checked.clone()))), Code::PeopleOnly);
    world.ok(&person, forced(&id, Act::Land(checked)));
    assert_eq!(count(&mut world, &id, "rule.overridden"), 1);
    world.is_whole();
}

#[test]
fn no_land_keeps_agents_from_landing_and_not_people() {
    let mut world = world();
    let (a, person) = (who("agent:a", "a1"), who("human:founder", ""));
    let id = world.add("careful");
    let terms = Terms { constraints: [Constraint::NoLand].into_iter().collect(), ..Terms::default() };
    world.lease(&a, on(&id, Act::Claim(terms.clone())));
    assert_eq!(world.refused(&a, on(&id, land(1, State::InProgress))), Code::Constraint);
    // What a lease was granted with binds when it has ended, too.
    let other = world.add("careful, too");
    world.lease(&a, on(&other, Act::Claim(terms)));
    world.ok(&a, on(&other, verb(Verb::Done)));
    assert_eq!(world.refused(&a, on(&other, land(1, State::Done))), Code::Constraint);
    let edit = Edit { constraints: [Constraint::NoLand].into_iter().collect(), ..Default::default() };
    world.ok(&person, on(&id, Act::Edit(edit)));
    world.ok(&a, on(&id, verb(Verb::Done)));
    assert_eq!(world.refused(&a, on(&id, land(1, State::Done))), Code::Constraint);
    world.ok(&person, on(&id, land(1, State::Done)));
    world.is_whole();
}

/// The check was made before; the task is bound as it is when the landing begins.
#[test]
fn a_constraint_that_was_added_meanwhile_refuses_the_landing() {
    let mut world = world();
    let (a, b, person) = (who("agent:a", "a1"), who("agent:b", "b1"), who("human:founder", ""));
    let id = done(&mut world, &a);
    let extent = Extent { removed: vec!["gone".into()], tally: Some(Tally { files: 3, lines: 40 }) };
    let demand = Demand { changed: Some(vec!["gone".into()]), ..Demand::default() };
    let checked = Checked { intent: intent(), demand, extent, token: Token(1), state: State::Done };
    for constraint in
        [Constraint::ReadOnly, Constraint::NoDelete, Constraint::MaxFiles(2), Constraint::MaxLines(39)]
    {
        let edit = Edit { constraints: [constraint].into_iter().collect(), ..Edit::default() };
        world.ok(&person, on(&id, Act::Edit(edit)));
        assert_eq!(world.refused(&b, on(&id, Act::Land(checked.clone()))), Code::Constraint, "{constraint}");
        assert_eq!(world.refused(&b, forced(&id, Act::Land(checked.clone()))), Code::PeopleOnly);
        let undone = Edit { lift: [constraint.kind()].into(), ..Edit::default() };
        world.ok(&person, on(&id, Act::Edit(undone)));
    }
    let edit = Edit {
        constraints: [Constraint::MaxFiles(3), Constraint::MaxLines(40)].into_iter().collect(),
        ..Edit::default()
    };
    world.ok(&person, on(&id, Act::Edit(edit)));
    world.ok(&b, on(&id, Act::Land(checked)));
    world.is_whole();
}
