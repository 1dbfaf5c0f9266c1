//! P10, as far as the record goes: whoever loses its lease to another has its uncommitted files kept, and
//! until that is done it is recorded as due.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use onus_core::command::{Act, Command, Terms};
use onus_core::ids::Token;
use onus_core::refusal::Code;
use onus_core::rescue::{KeptFiles, LeftFile, RescueState, Rescued};
use onus_core::scope::{Glob, Scope, WorktreeId};
use onus_core::transition::Verb;
use onus_engine::{Identity, RescueView, Tried};
use onus_store::AnyStore;

use crate::world::{TTL_MS, World, claim, forced, on, verb, who, world};

fn terms(globs: &[&str], branch: &str) -> Terms {
    let scope: Scope = globs.iter().map(|glob| glob.parse::<Glob>().unwrap()).collect();
    Terms {
        scope,
        worktree: Some("/work/tree".to_owned()),
        worktree_id: Some(WorktreeId::new("machine", "tree")),
        branch: Some(branch.to_owned()),
        ..Terms::default()
    }
}

fn kept() -> Rescued {
    let kept = KeptFiles { reference: "refs/onus/rescue/ON-1/1".into(), commit: "c0ffee".into(), files: 2 };
    let left = LeftFile { path: "large.bin".into(), why: "too_large".into() };
    Rescued::Kept { kept: vec![kept], left_out: vec![left] }
}

fn will(world: &World<AnyStore>, tried: Tried) {
    world.fate.lock().unwrap().rescued.push(tried);
}

fn takeover() -> Act {
    Act::Takeover(Terms { reason: Some("it is gone".to_owned()), ..Terms::default() })
}

fn rescues(world: &mut World<AnyStore>) -> Vec<RescueView> {
    world.engine.rescues(None, None, None).unwrap().value
}

/// A task that an agent holds in a worktree, until its time ran out.
fn lapsed(world: &mut World<AnyStore>, terms: Terms) -> (Identity, Identity, String) {
    let (a, b) = (who("agent:a", "a1"), who("agent:b", "b1"));
    let id = world.add("work");
    world.lease(&a, on(&id, Act::Claim(terms)));
    world.pass(TTL_MS * 2);
    (a, b, id)
}

#[test]
fn a_takeover_says_what_is_due_in_its_own_transaction_and_then_what_was_kept() {
    let mut world = world();
    let (_, b, id) = lapsed(&mut world, terms(&["src/**"], "main"));
    will(&world, Tried::Done(kept()));
    let reply = world.run(&b, on(&id, takeover())).unwrap();
    assert!(
        reply
            .notices
            .iter()
            .any(|notice| notice.message.contains("kept 2 uncommitted files of agent:a (a1)")),
        "{reply:?}"
    );
    let all = world.kinds(&id);
    let tail = ["lease.taken_over", "lease.acquired", "rescue.due", "rescue.kept"];
    assert_eq!(all[all.len() - 4..], tail, "{all:?}");
    let found = rescues(&mut world);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].state.as_str(), found[0].actor.as_str(), found[0].token), ("kept", "agent:a", 1));
    assert_eq!((found[0].kept[0].files, found[0].left_out.len()), (2, 1));
    let due = world.fate.lock().unwrap().due.clone();
    assert_eq!((due.len(), due[0].is_own_worktree, due[0].reserved.rows().len()), (1, false, 1));
    world.is_whole();
}

#[test]
fn when_git_fails_the_takeover_holds_and_the_rescue_is_finished_later() {
    let mut world = world();
    let (_, b, id) = lapsed(&mut world, terms(&["src/**"], "main"));
    will(&world, Tried::Failed("the disk is full".to_owned()));
    let reply = world.run(&b, on(&id, takeover())).unwrap();
    assert!(reply.notices.iter().any(|notice| notice.message.contains("the disk is full")), "{reply:?}");
    assert_eq!(world.show(&id).lease.unwrap().actor, "agent:b");
    assert_eq!(rescues(&mut world)[0].state, "due");
    world.is_whole();
    // Not from here.
    world.engine.finish_rescues(&b).unwrap();
    assert_eq!(rescues(&mut world)[0].state, "due");
    will(&world, Tried::Done(kept()));
    world.engine.finish_rescues(&b).unwrap();
    assert_eq!(rescues(&mut world)[0].state, "kept");
    // Once is enough.
    let before = world.kinds(&id);
    will(&world, Tried::Done(kept()));
    world.engine.finish_rescues(&b).unwrap();
    assert_eq!(world.kinds(&id), before);
    world.is_whole();
}

#[test]
fn two_who_finish_the_same_rescue_record_nothing_twice() {
    let mut world = world();
    let (_, b, id) = lapsed(&mut world, terms(&["src/**"], "main"));
    world.run(&b, on(&id, takeover())).unwrap();
    let nothing = Act::Rescue { token: Token(1), rescued: Rescued::Nothing { left_out: Vec::new() } };
    world.ok(&b, on(&id, nothing.clone()));
    let before = world.kinds(&id);
    world.ok(&b, on(&id, nothing));
    world.ok(&b, on(&id, Act::Rescue { token: Token(1), rescued: Rescued::Gone }));
    assert_eq!(world.kinds(&id), before);
    assert_eq!(rescues(&mut world)[0].state, "nothing");
    let unknown = Act::Rescue { token: Token(9), rescued: Rescued::Gone };
    assert_eq!(world.refused(&b, on(&id, unknown)), Code::NotFound);
}

#[test]
fn reset_and_force_are_no_way_around_a_rescue() {
    let ada = who("human:ada", "");
    let ends: [fn(&str) -> Command; 3] = [
        |id| Command::Reset { task: Some(id.parse().unwrap()), reason: "again".into(), force: None },
        |id| forced(id, takeover()),
        |id| on(id, claim()),
    ];
    for (n, end) in ends.into_iter().enumerate() {
        let mut world = world();
        let (_, _, id) = lapsed(&mut world, terms(&["src/**"], "main"));
        will(&world, Tried::Done(kept()));
        world.run(&ada, end(&id)).unwrap();
        assert_eq!(rescues(&mut world)[0].state, "kept", "{n}");
        world.is_whole();
    }
    // A live one, by force.
    let mut world = world();
    let a = who("agent:a", "a1");
    let id = world.add("work");
    world.lease(&a, on(&id, Act::Claim(terms(&["src/**"], "main"))));
    will(&world, Tried::Done(kept()));
    world.ok(&ada, forced(&id, takeover()));
    assert_eq!(rescues(&mut world)[0].state, "kept");
    world.is_whole();
}

#[test]
fn nothing_is_due_where_nothing_is_known_to_be_the_holders_own() {
    // It reserved nothing.
    let mut world = world();
    let (_, b, id) = lapsed(&mut world, terms(&[], "main"));
    world.ok(&b, on(&id, takeover()));
    assert_eq!(rescues(&mut world), []);
    // It continues by itself.
    let mut world = self::world();
    let (a, _, id) = lapsed(&mut world, terms(&["src/**"], "main"));
    world.ok(&a, on(&id, claim()));
    assert_eq!(rescues(&mut world), []);
    // It ended its work itself.
    let mut world = self::world();
    let (a, b) = (who("agent:a", "a1"), who("agent:b", "b1"));
    let id = world.add("work");
    world.lease(&a, on(&id, Act::Claim(terms(&["src/**"], "main"))));
    world.ok(&a, on(&id, verb(Verb::Release)));
    world.ok(&b, on(&id, claim()));
    assert_eq!(rescues(&mut world), []);
}

#[test]
fn a_worktree_of_the_tasks_own_is_kept_whole() {
    for (branch, is_own) in [("onus/ON-1-work", true), ("onus/ON-1", true), ("onus/ON-12-other", false)] {
        let mut world = world();
        let (_, b, id) = lapsed(&mut world, terms(&[], branch));
        world.ok(&b, on(&id, takeover()));
        let due = world.fate.lock().unwrap().due.clone();
        assert_eq!(due.iter().any(|due| due.is_own_worktree), is_own, "{branch}");
        let state = RescueState::Due.as_str();
        assert_eq!(rescues(&mut world).iter().any(|view| view.state == state), is_own, "{branch}");
    }
}

#[test]
fn only_a_person_lets_a_rescue_go_and_says_why() {
    let mut world = world();
    let (_, b, id) = lapsed(&mut world, terms(&["src/**"], "main"));
    will(&world, Tried::Done(kept()));
    world.ok(&b, on(&id, takeover()));
    let drop = || Act::DropRescue { token: Token(1), reason: "not needed".to_owned() };
    assert_eq!(world.refused(&b, on(&id, drop())), Code::PeopleOnly);
    let ada = who("human:ada", "");
    assert_eq!(
        world.refused(&ada, on(&id, Act::DropRescue { token: Token(2), reason: "no".into() })),
        Code::NotFound
    );
    world.ok(&ada, on(&id, drop()));
    let found = rescues(&mut world);
    assert_eq!((found[0].state.as_str(), found[0].kept.len()), ("dropped", 1), "what it was stays on record");
    assert_eq!(world.refused(&ada, on(&id, drop())), Code::NotFound);
    world.is_whole();
}
