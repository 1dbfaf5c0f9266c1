//! What happens to files that agents touch: which of them were changed, and which are yielded when their
//! holder is idle.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use crate::conversations::{agent, registered, report};
use crate::world::{TTL_MS, World, claim, on, policy, process, verb, who, world, world_with};
use onus_core::command::{Act, ChangedFiles, Command, Guard, Presence, Terms, Yielding};
use onus_core::ids::Token;
use onus_core::policy::{Policy, ScopeMode};
use onus_core::refusal::{Code, Refusal};
use onus_core::scope::{Areas, Scope, Touched, WorktreeId};
use onus_core::task::State;
use onus_core::transition::Verb;
use onus_engine::{Conversation, Files, Identity, Looked, NoticeKind, TaskView};
use onus_store::AnyStore;

fn here() -> WorktreeId {
    WorktreeId::new("machine", "here")
}

/// An edit of a file in a worktree that is known.
fn edit(world: &mut World<AnyStore>, by: &Identity, path: &str) -> Result<TaskView, Refusal> {
    let pid = by.instance.as_str()[1..].parse().unwrap();
    let touched = Touched { worktree: Some(here()), part: None };
    let guard = Guard {
        paths: vec![path.to_owned()],
        process: Some(process(pid, 1)),
        touched,
        is_heard: true,
        ..Guard::default()
    };
    match world.run(by, Command::Guard(guard))?.answer {
        onus_engine::Answer::Guarded { task: Some(task), .. } => Ok(*task),
        other => panic!("no task in {other:?}"),
    }
}

fn changed(paths: &[&str], worktree: Option<WorktreeId>) -> Command {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    Command::Changed(ChangedFiles { paths, worktree })
}

fn scope(globs: &[&str]) -> Scope {
    globs.iter().map(|glob| glob.parse::<onus_core::scope::Glob>().unwrap()).collect()
}

fn files_changed(world: &mut World<AnyStore>, id: &str) -> Vec<String> {
    let rows = world.show(id).lease.unwrap().reservations;
    rows.into_iter().filter(|row| row.changed).map(|row| row.glob).collect()
}

fn last_note(world: &mut World<AnyStore>, id: &str) -> String {
    world.show(id).notes.unwrap().pop().unwrap().text
}

fn git_says(world: &World<AnyStore>, path: &str, looked: Looked) {
    world.fate.lock().unwrap().files.insert(path.to_owned(), looked);
}

/// Two agents, and the first's ad-hoc task with these files; its turn is over.
fn idle(world: &mut World<AnyStore>, paths: &[&str]) -> (Identity, Identity, String) {
    let (a, b) = (registered(world, 7), registered(world, 8));
    let mut id = String::new();
    for path in paths {
        id = edit(world, &a, path).unwrap().id;
        git_says(world, path, Looked::Clean);
    }
    report(world, &a, Presence::TurnOver);
    (a, b, id)
}

// ---- which files were changed

#[test]
fn a_file_counts_as_changed_when_a_tool_has_changed_it_and_that_is_recorded_once() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let id = edit(&mut world, &a, "src/a.rs").unwrap().id;
    edit(&mut world, &a, "src/[b].rs").unwrap();
    edit(&mut world, &a, "src/c.rs").unwrap();
    assert_eq!(files_changed(&mut world, &id), [""; 0]);
    world.run(&a, changed(&["src/a.rs", "src/[b].rs"], Some(here()))).unwrap();
    assert_eq!(files_changed(&mut world, &id), ["src/\\[b].rs", "src/a.rs"]);
    let before = world.events();
    world.run(&a, changed(&["src/a.rs"], Some(here()))).unwrap();
    let again = ChangedFiles { paths: vec!["src/a.rs".to_owned()], worktree: Some(here()) };
    world.ok(&a, on(&id, Act::Change(again)));
    assert_eq!(world.events(), before, "the second time is no news");
    let ended = report(&mut world, &a, Presence::Gone);
    assert_eq!(ended[0].state, State::Done);
    assert_eq!(last_note(&mut world, &id), "changed without a task: src/[b].rs, src/a.rs");
    world.is_whole();
}

#[test]
fn ad_hoc_work_that_changed_nothing_is_dropped_and_says_so() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let id = edit(&mut world, &a, "src/a.rs").unwrap().id;
    let ended = report(&mut world, &a, Presence::Gone);
    assert_eq!(ended[0].state, State::Dropped);
    assert_eq!(last_note(&mut world, &id), "no change was reported; only touched: src/a.rs");
    // Left behind, it ends the same way: its process died, and the conversation continues in another.
    let id = edit(&mut world, &a, "src/a.rs").unwrap().id;
    world.kill(7);
    let again = agent(9);
    let again = Identity { instance: a.instance.clone(), ..again };
    let guard = Guard { paths: vec!["src/b.rs".into()], process: Some(process(9, 1)), ..Guard::default() };
    world.run(&again, Command::Guard(guard)).unwrap();
    assert_eq!(world.show(&id).state, State::Dropped);
    world.is_whole();
}

#[test]
fn only_what_this_conversation_touched_there_is_marked() {
    let mut world = world();
    let (a, b) = (registered(&mut world, 7), registered(&mut world, 8));
    let id = edit(&mut world, &a, "src/a.rs").unwrap().id;
    let before = world.events();
    world.run(&a, changed(&["src/a.rs"], Some(WorktreeId::new("machine", "there")))).unwrap();
    world.run(&a, changed(&["src/a.rs"], None)).unwrap();
    world.run(&a, changed(&["src/other.rs"], Some(here()))).unwrap();
    world.run(&b, changed(&["src/a.rs"], Some(here()))).unwrap();
    assert_eq!(world.events(), before);
    // Which part of the conversation touched it makes no difference.
    let mut part = a.clone();
    part.instance = "c7/1".parse().unwrap();
    world.run(&part, changed(&["src/a.rs"], Some(here()))).unwrap();
    assert_eq!(files_changed(&mut world, &id), ["src/a.rs"]);
    world.is_whole();
}

#[test]
fn whoever_lost_its_task_marks_nothing_of_it() {
    let mut world = world();
    let a = registered(&mut world, 7);
    let id = world.add("planned");
    world.lease(&a, on(&id, claim()));
    edit(&mut world, &a, "src/a.rs").unwrap();
    world.run(&who("human:h", ""), crate::world::forced(&id, crate::world::takeover())).unwrap();
    let before = world.kinds(&id).len();
    world.run(&a, changed(&["src/a.rs"], Some(here()))).unwrap();
    assert_eq!(world.kinds(&id).len(), before);
}

#[test]
fn where_scopes_are_off_the_record_is_true_all_the_same() {
    let mut world = world_with(Policy { scope_mode: ScopeMode::Off, ..policy() });
    let a = registered(&mut world, 7);
    let id = edit(&mut world, &a, "src/a.rs").unwrap().id;
    world.run(&a, changed(&["src/a.rs"], Some(here()))).unwrap();
    assert_eq!(files_changed(&mut world, &id), ["src/a.rs"]);
}

#[test]
fn a_hook_with_nothing_new_to_report_writes_nothing() {
    let mut world = world();
    let a = registered(&mut world, 7);
    edit(&mut world, &a, "src/a.rs").unwrap();
    let conversation = Conversation {
        actor: a.actor.clone(),
        instance: a.instance.clone(),
        sub_agent: None,
        process: Some(process(7, 1)),
        worktree: Some(here()),
        branch: None,
        is_alone: true,
    };
    let settled = |world: &mut World<AnyStore>, path: &str| {
        world.engine.call(&conversation, &[path.to_owned()], Files::Changed).unwrap().is_settled
    };
    assert!(!settled(&mut world, "src/a.rs"), "its first change is to be recorded");
    assert!(settled(&mut world, "src/of-nobody.rs"), "what was not touched has no row");
    world.run(&a, changed(&["src/a.rs"], Some(here()))).unwrap();
    assert!(settled(&mut world, "src/a.rs"));
}

// ---- idle conversations yield

#[test]
fn a_clean_file_of_an_idle_conversation_goes_to_whoever_wants_it() {
    let mut world = world();
    let (a, b, id) = idle(&mut world, &["src/a.rs", "src/b.rs"]);
    let got = edit(&mut world, &b, "src/a.rs").unwrap();
    assert_eq!(got.lease.unwrap().scope, ["src/a.rs"]);
    assert_eq!(world.show(&id).lease.unwrap().scope, ["src/b.rs"], "only the wanted file");
    assert_eq!(world.kinds(&id).last().unwrap(), "scope.yielded");
    // Its holder is told once, and is fenced from nothing.
    world.pass(1);
    let told = world.run(&a, Command::Presence(Presence::TurnBegun)).unwrap().notices;
    let yielded: Vec<&str> =
        told.iter().filter(|it| it.kind == NoticeKind::Yielded).map(|it| it.message.as_str()).collect();
    assert!(
        matches!(yielded[..], [message] if message.contains("src/a.rs") && message.contains(&id)),
        "{told:?}"
    );
    assert!(world.run(&a, Command::Presence(Presence::Here)).unwrap().notices.is_empty());
    assert_eq!(edit(&mut world, &a, "src/c.rs").unwrap().id, id);
    assert_eq!(edit(&mut world, &a, "src/a.rs").unwrap_err().code, Code::Scope, "like anybody");
    report(&mut world, &b, Presence::Gone);
    assert_eq!(edit(&mut world, &a, "src/a.rs").unwrap().id, id, "it touches the file again");
    world.is_whole();
}

#[test]
fn uncommitted_changes_are_kept_and_both_are_told() {
    let mut world = world();
    let (a, b, id) = idle(&mut world, &["src/a.rs"]);
    git_says(&world, "src/a.rs", Looked::Changed);
    world.pass(4_000);
    let before = world.events();
    let refusal = edit(&mut world, &b, "src/a.rs").unwrap_err();
    assert_eq!((refusal.code, world.events()), (Code::Scope, before));
    for part in ["its turn has been over for 4 s", "src/a.rs has uncommitted changes"] {
        assert!(refusal.message.contains(part), "{}", refusal.message);
    }
    assert_eq!(refusal.expires_in_s, world.show(&id).lease.unwrap().expires_in_s);
    let told = world.run(&a, Command::Presence(Presence::TurnBegun)).unwrap().notices;
    assert!(
        told.iter().any(|it| it.kind == NoticeKind::Wanted && it.message.contains("src/a.rs")),
        "{told:?}"
    );
}

#[test]
fn what_git_cannot_be_asked_about_is_kept() {
    let mut world = world();
    let (_, b, id) = idle(&mut world, &["src/a.rs"]);
    git_says(&world, "src/a.rs", Looked::Unknown);
    assert_eq!(edit(&mut world, &b, "src/a.rs").unwrap_err().code, Code::Scope);
    assert_eq!(world.show(&id).lease.unwrap().scope, ["src/a.rs"]);
}

#[test]
fn a_conversation_in_its_turn_keeps_what_it_touched() {
    let mut world = world();
    let (a, b, id) = idle(&mut world, &["src/a.rs"]);
    report(&mut world, &a, Presence::TurnBegun);
    assert_eq!(edit(&mut world, &b, "src/a.rs").unwrap_err().code, Code::Scope);
    assert_eq!(world.show(&id).lease.unwrap().scope, ["src/a.rs"]);
}

#[test]
fn planned_work_and_declared_paths_are_kept() {
    let mut world = world();
    let (a, b) = (registered(&mut world, 7), registered(&mut world, 8));
    let planned = world.add("planned");
    world.lease(&a, on(&planned, claim()));
    edit(&mut world, &a, "src/a.rs").unwrap();
    git_says(&world, "src/a.rs", Looked::Clean);
    report(&mut world, &a, Presence::TurnOver);
    assert_eq!(edit(&mut world, &b, "src/a.rs").unwrap_err().code, Code::Scope, "planned");
    world.ok(&a, on(&planned, verb(Verb::Done)));
    let id = edit(&mut world, &a, "src/a.rs").unwrap().id;
    world.ok(&a, on(&id, Act::AddScope { scope: scope(&["src/**"]), areas: Areas::default() }));
    report(&mut world, &a, Presence::TurnOver);
    assert_eq!(edit(&mut world, &b, "src/a.rs").unwrap_err().code, Code::Scope, "declared");
}

#[test]
fn whichever_way_somebody_asks_idle_work_yields() {
    let asks: [fn(&mut World<AnyStore>, &Identity) -> Command; 3] = [
        |world, _| {
            let id = world.add("declares");
            on(&id, Act::Claim(Terms { scope: scope(&["src/**"]), ..Terms::default() }))
        },
        |world, b| {
            let id = world.add("widens");
            world.lease(b, on(&id, claim()));
            on(&id, Act::AddScope { scope: scope(&["src/*.rs"]), areas: Areas::default() })
        },
        |world, b| {
            let id = world.add("touches");
            world.lease(b, on(&id, claim()));
            let touched = Touched { worktree: Some(here()), part: None };
            on(
                &id,
                Act::Touch {
                    paths: vec!["src/a.rs".into(), "src/b.rs".into()],
                    touched,
                    extent: Default::default(),
                },
            )
        },
    ];
    for ask in asks {
        let mut world = world();
        let (_, b, id) = idle(&mut world, &["src/a.rs", "src/b.rs"]);
        let command = ask(&mut world, &b);
        // Either everything in the way is yielded, or nothing is.
        git_says(&world, "src/b.rs", Looked::Changed);
        assert_eq!(world.refused(&b, command.clone()), Code::Scope);
        git_says(&world, "src/b.rs", Looked::Clean);
        world.ok(&b, command);
        assert_eq!(world.show(&id).lease.unwrap().scope, [""; 0]);
        world.is_whole();
    }
}

#[test]
fn what_git_saw_before_its_owner_went_on_counts_for_nothing() {
    let mut world = world();
    let (a, b, id) = idle(&mut world, &["src/a.rs"]);
    let lease = world.show(&id).lease.unwrap();
    let seen = Yielding {
        token: Token(lease.token),
        renewals: lease.renewals,
        worktree: here(),
        paths: vec!["src/a.rs".into()],
    };
    let wrong = [
        Yielding { token: Token(lease.token + 1), ..seen.clone() },
        Yielding { renewals: lease.renewals - 1, ..seen.clone() },
        Yielding { worktree: WorktreeId::new("machine", "there"), ..seen.clone() },
        Yielding { paths: vec!["src/b.rs".into()], ..seen.clone() },
    ];
    for evidence in wrong {
        assert_eq!(world.refused(&b, on(&id, Act::Yield(evidence))), Code::Changed);
    }
    // It continues, changes the file and rests again.
    report(&mut world, &a, Presence::TurnBegun);
    assert_eq!(world.refused(&b, on(&id, Act::Yield(seen.clone()))), Code::Changed);
    report(&mut world, &a, Presence::TurnOver);
    assert_eq!(world.refused(&b, on(&id, Act::Yield(seen.clone()))), Code::Changed);
    let renewals = world.show(&id).lease.unwrap().renewals;
    world.ok(&b, on(&id, Act::Yield(Yielding { renewals, ..seen.clone() })));
    assert_eq!(world.show(&id).lease.unwrap().scope, [""; 0]);
    // A lapsed one has nothing to yield.
    edit(&mut world, &a, "src/a.rs").unwrap();
    report(&mut world, &a, Presence::TurnOver);
    let renewals = world.show(&id).lease.unwrap().renewals;
    world.pass(TTL_MS * 2);
    assert_eq!(world.refused(&b, on(&id, Act::Yield(Yielding { renewals, ..seen }))), Code::Changed);
    world.is_whole();
}

#[test]
fn what_was_changed_and_yielded_is_in_the_record_when_ad_hoc_work_ends() {
    let mut world = world();
    let (a, b) = (registered(&mut world, 7), registered(&mut world, 8));
    let id = edit(&mut world, &a, "src/a.rs").unwrap().id;
    world.run(&a, changed(&["src/a.rs"], Some(here()))).unwrap();
    report(&mut world, &a, Presence::TurnOver);
    git_says(&world, "src/a.rs", Looked::Clean);
    edit(&mut world, &b, "src/a.rs").unwrap();
    report(&mut world, &a, Presence::Gone);
    assert_eq!(world.show(&id).state, State::Done);
    assert_eq!(last_note(&mut world, &id), "changed without a task: src/a.rs");
    world.is_whole();
}
