//! Assignment: `docs/design/assignment.md` says who may do what, and this checks every cell of its table
//! against the engine. Then: what happens to kept tasks, constraints, acceptance lines and references.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use onus_core::command::{Act, Command, Edit, Force, NewTask, Terms};
use onus_core::constraint::{Constraint, ConstraintKind, Constraints};
use onus_core::ids::TaskRef;
use onus_core::policy::Policy;
use onus_core::refusal::Code;
use onus_core::task::{Facts, NoteKind, State};
use onus_core::transition::Verb;
use onus_engine::{Answer, Identity, Request};
use onus_store::AnyStore;

use crate::world::{KEEP_MS, MAX_HOLD_MS, TTL_MS, World, on, policy, who, with_token, world, world_with};

const TABLE: &str = include_str!("../../../docs/design/assignment.md");
const PARTIES: [&str; 6] =
    ["holder", "late holder", "superseded", "another", "another with its token", "person with force"];

/// The rows of the table, each a verb and its exit codes.
fn rows() -> Vec<(String, Vec<u8>)> {
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    let mut lines = TABLE.lines().skip_while(|line| !line.starts_with("| verb |"));
    let heading: Vec<String> = cells(lines.next().expect("the document has the table"));
    assert_eq!(heading[1..], PARTIES);
    let rows = lines.skip(1).take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<String> = cells(line);
        (cells[0].clone(), cells[1..].iter().map(|cell| cell.parse().expect("an exit code")).collect())
    });
    rows.collect()
}

fn command(verb: &str, id: &str, force: Option<Force>) -> Command {
    let to = || "agent:c".parse().unwrap();
    let reason = || "why".to_owned();
    let task = Some(id.parse::<TaskRef>().unwrap());
    let moved =
        |verb| Act::Move { verb, message: Some("so it is".to_owned()), uncommitted: None, demand: None };
    let act = match verb {
        "claim" => Act::Claim(Terms::default()),
        "renew" => Act::Renew { ttl_ms: None, progress: false },
        "takeover" => Act::Takeover(Terms { reason: Some(reason()), ..Terms::default() }),
        "release" => moved(Verb::Release),
        "done" => moved(Verb::Done),
        "submit" => moved(Verb::Submit),
        "fail" => moved(Verb::Fail),
        "block" => moved(Verb::Block),
        "drop" => moved(Verb::Drop),
        "reopen" => moved(Verb::Reopen),
        "handoff" => Act::Handoff { to: to(), reason: reason() },
        "assign" => Act::Assign { to: to(), keep_ms: None, reason: reason() },
        "reset" => return Command::Reset { task, reason: reason(), force },
        "scope add" => Act::AddScope {
            scope: ["src/**".parse().unwrap()].into_iter().collect(),
            areas: Default::default(),
        },
        "edit" => Act::Edit(Edit { add_tags: vec!["t".to_owned()], ..Edit::default() }),
        "tick" => Act::Tick { line: 1, undo: false },
        "note" => Act::note("how it goes"),
        other => panic!("the table has a verb that the test does not know: {other}"),
    };
    Command::OnTask { task, act, force }
}

#[test]
fn the_table_of_verbs_and_parties_is_true() {
    let rows = rows();
    // Every verb by which something is done to a task that somebody holds.
    assert_eq!(rows.len(), 16, "{rows:?}");
    for (verb, codes) in rows {
        for (party, expected) in PARTIES.into_iter().zip(codes) {
            let mut world = world();
            let (a, b, h) = (who("agent:a", "1"), who("agent:b", "1"), who("human:h", ""));
            let stray = with_token(b.clone(), 1);
            let new = NewTask { acceptance: vec!["it works".to_owned()], ..NewTask::titled("t") };
            let id = world.ok(&h, Command::Add(new)).id;
            world.ok(&a, command("claim", &id, None));
            let force = || Force { reason: "it has to be".to_owned(), link: None };
            let (by, force) = match party {
                "holder" => (&a, None),
                "late holder" => {
                    world.pass(TTL_MS + 1);
                    (&a, None)
                }
                "superseded" => {
                    world.pass(TTL_MS + 1);
                    world.ok(&b, command("takeover", &id, None));
                    (&a, None)
                }
                "another" => (&b, None),
                "another with its token" => (&stray, None),
                _ => (&h, Some(force())),
            };
            let before = world.events();
            let outcome = world.run(by, command(&verb, &id, force));
            let code = outcome.as_ref().map_or_else(|refusal| refusal.exit_code(), |_| 0);
            assert_eq!(code, expected, "{verb} by {party}: {outcome:?}");
            assert!(code == 0 || world.events() == before, "{verb} by {party} was refused and wrote");
            world.is_whole();
        }
    }
}

fn assign(to: &str, keep_ms: Option<i64>) -> Act {
    Act::Assign { to: to.parse().unwrap(), keep_ms, reason: "you know it best".to_owned() }
}

fn claim() -> Act {
    Act::Claim(Terms::default())
}

#[test]
fn what_is_assigned_is_the_assignees_with_its_first_claim_and_says_why() {
    let mut world = world();
    let (h, a, b) = (who("human:h", ""), who("agent:a", "1"), who("agent:b", "7"));
    let id = world.add("t");
    let kept = world.ok(&h, on(&id, assign("agent:b", Some(5 * KEEP_MS))));
    assert!(kept.lease.is_none() && kept.state == State::Open, "{kept:?}");
    let kept = kept.kept_for.expect("it is kept");
    assert_eq!((kept.actor.as_str(), kept.expires_in_s), ("agent:b", 5 * KEEP_MS / 1_000));
    assert_eq!(kept.reason.as_deref(), Some("you know it best"));
    // Longer than lease.keep, and not a moment longer than was asked for.
    world.pass(5 * KEEP_MS - 1);
    assert_eq!(world.refused(&a, on(&id, claim())), Code::Kept);
    assert_eq!(world.refused(&a, Command::ClaimNext(Terms::default())), Code::Nothing);
    assert_eq!(
        world.refused(&a, on(&id, assign("agent:a", None))),
        Code::Kept,
        "it is not the caller's to pass on"
    );
    let lease = world.lease(&b, Command::ClaimNext(Terms::default()));
    assert_eq!(lease.handoff_reason.as_deref(), Some("you know it best"));
    assert_eq!(world.kinds(&id), ["task.created", "lease.handed_off", "lease.acquired"]);
    world.is_whole();
}

#[test]
fn when_the_time_is_over_an_assigned_task_is_anyones() {
    let mut world = world();
    let (h, a) = (who("human:h", ""), who("agent:a", "1"));
    let id = world.add("t");
    world.ok(&h, on(&id, assign("agent:b", None)));
    world.pass(KEEP_MS - 1);
    assert_eq!(world.refused(&a, on(&id, claim())), Code::Kept);
    world.pass(1);
    assert_eq!(world.lease(&a, on(&id, claim())).handoff_reason, None);
}

#[test]
fn an_assignment_can_be_passed_on_by_its_assignee_and_by_people() {
    let mut world = world();
    let (h, b) = (who("human:h", ""), who("agent:b", "1"));
    let id = world.add("t");
    world.ok(&h, on(&id, assign("agent:b", None)));
    assert_eq!(world.ok(&b, on(&id, assign("agent:c", None))).kept_for.unwrap().actor, "agent:c");
    assert_eq!(world.refused(&b, on(&id, assign("agent:b", None))), Code::Kept);
    assert_eq!(world.ok(&h, on(&id, assign("agent:d", None))).kept_for.unwrap().actor, "agent:d");
    world.is_whole();
}

/// A task that is kept for one actor stays theirs, whatever another agent does to it that it may do to any
/// other task.
#[test]
fn an_assignment_outlives_what_others_do_to_the_task() {
    let ways: [&[&str]; 3] = [&["drop", "reopen"], &["reset"], &["block", "reset"]];
    for way in ways {
        let mut world = world();
        let (h, a, b) = (who("human:h", ""), who("agent:a", "1"), who("agent:b", "1"));
        let id = world.add("t");
        world.ok(&h, on(&id, assign("agent:a", None)));
        for verb in way {
            world.run(&b, command(verb, &id, None)).unwrap();
        }
        assert_eq!(world.refused(&b, on(&id, claim())), Code::Kept, "{way:?}");
        world.ok(&a, on(&id, claim()));
        world.is_whole();
    }
}

#[test]
fn an_agent_keeps_nothing_for_longer_than_it_could_hold_it() {
    let mut world = world();
    let (h, a) = (who("human:h", ""), who("agent:a", "1"));
    let id = world.add("t");
    assert_eq!(world.refused(&a, on(&id, assign("agent:a", Some(MAX_HOLD_MS + 1)))), Code::PeopleOnly);
    assert_eq!(world.refused(&a, on(&id, assign("agent:a", Some(0)))), Code::Usage);
    assert_eq!(world.refused(&h, on(&id, assign("agent:a", Some(-1)))), Code::Usage);
    world.ok(&a, on(&id, assign("agent:a", Some(MAX_HOLD_MS))));
    world.ok(&h, on(&id, assign("agent:a", Some(9 * MAX_HOLD_MS))));
}

#[test]
fn a_takeover_says_why_and_ones_own_late_lease_is_taken_from_nobody() {
    let mut world = world();
    let (a, b, h) = (who("agent:a", "1"), who("agent:b", "1"), who("human:h", ""));
    let because = |reason: &str| Terms { reason: Some(reason.to_owned()), ..Terms::default() };
    let id = world.add("t");
    assert_eq!(world.lease(&a, on(&id, Act::Claim(because("mine")))).handoff_reason, None);
    // Lapsed, and swept by nobody.
    world.pass(TTL_MS + 1);
    let lease = world.lease(&b, on(&id, Act::Takeover(because("it lapsed"))));
    assert_eq!(
        (lease.reason.as_deref(), lease.handoff_reason.as_deref()),
        (Some("it lapsed"), Some("it lapsed"))
    );
    // A claim of a lapsed task is a takeover.
    world.pass(TTL_MS + 1);
    let lease = world.lease(&a, on(&id, Act::Claim(because("back again"))));
    assert_eq!(lease.handoff_reason.as_deref(), Some("back again"));
    // By force.
    let force = Force { reason: "urgent".to_owned(), link: None };
    let command = Command::OnTask {
        task: Some(id.parse().unwrap()),
        act: Act::Takeover(because("urgent")),
        force: Some(force),
    };
    assert_eq!(world.lease(&h, command).handoff_reason.as_deref(), Some("urgent"));
    // A holder past its maximum hold claims again: that is not a handoff.
    let id = world.add("u");
    world.lease(&a, on(&id, Act::Claim(because("mine"))));
    world.pass(MAX_HOLD_MS + 1);
    assert_eq!(world.lease(&a, on(&id, Act::Claim(because("still mine")))).handoff_reason, None);
    world.is_whole();
}

fn set(all: &[Constraint]) -> Constraints {
    all.iter().copied().collect()
}

fn bounded(all: &[Constraint]) -> Act {
    Act::Claim(Terms { constraints: set(all), ..Terms::default() })
}

#[test]
fn a_lease_is_granted_with_what_task_and_claim_forbid_and_a_tightened_task_binds_at_once() {
    use Constraint::{MaxFiles, NoDelete, NoLand};
    let mut world = world();
    let (a, b, h) = (who("agent:a", "1"), who("agent:b", "1"), who("human:h", ""));
    let facts = Facts { constraints: set(&[NoLand, MaxFiles(10)]), ..Facts::default() };
    let id = world.ok(&h, Command::Add(NewTask { facts, ..NewTask::titled("t") })).id;
    // Asking for less adds nothing, asking for more does.
    let lease = world.lease(&a, on(&id, bounded(&[MaxFiles(99), NoDelete])));
    assert_eq!(lease.constraints, ["no_delete", "no_land", "max_files=10"]);
    let edit = |constraints: &[Constraint], lift: &[ConstraintKind]| {
        let lift = lift.iter().copied().collect();
        Act::Edit(Edit { constraints: set(constraints), lift, ..Edit::default() })
    };
    // Its holder may tighten the task, and nobody but a person may loosen it.
    world.ok(&a, on(&id, edit(&[MaxFiles(3)], &[])));
    assert_eq!(world.refused(&a, on(&id, edit(&[MaxFiles(4)], &[]))), Code::PeopleOnly);
    assert_eq!(world.refused(&a, on(&id, edit(&[], &[ConstraintKind::NoLand]))), Code::PeopleOnly);
    assert_eq!(world.show(&id).lease.unwrap().constraints, ["no_delete", "no_land", "max_files=3"]);
    // A person loosens it: its holder is bound by what it was granted with, the next one by the task.
    world.ok(&h, on(&id, edit(&[MaxFiles(50)], &[ConstraintKind::NoLand])));
    let task = world.show(&id);
    assert_eq!(task.constraints, ["max_files=50"]);
    assert_eq!(task.lease.unwrap().constraints, ["no_delete", "no_land", "max_files=10"]);
    world.ok(&a, on(&id, Act::Move { verb: Verb::Release, message: None, uncommitted: None, demand: None }));
    assert_eq!(world.lease(&b, on(&id, claim())).constraints, ["max_files=50"]);
    world.is_whole();
}

#[test]
fn acceptance_lines_are_ticked_by_somebody_at_some_time_and_missed_at_the_end() {
    let mut world = world();
    let (a, b, h) = (who("agent:a", "1"), who("agent:b", "1"), who("human:h", ""));
    let new =
        NewTask { acceptance: vec!["it works".to_owned(), "it is fast".to_owned()], ..NewTask::titled("t") };
    let id = world.ok(&h, Command::Add(new)).id;
    world.ok(&a, on(&id, claim()));
    let tick = |line, undo| Act::Tick { line, undo };
    assert_eq!(world.refused(&b, on(&id, tick(1, false))), Code::Held, "the holder's, while it is held");
    assert_eq!(world.refused(&a, on(&id, tick(3, false))), Code::NotFound);
    assert_eq!(world.refused(&a, on(&id, tick(0, false))), Code::NotFound);
    let task = world.ok(&a, on(&id, tick(2, false)));
    let line = &task.acceptance[1];
    assert_eq!(
        (line.line, line.text.as_str(), line.ticked_by.as_deref()),
        (2, "it is fast", Some("agent:a"))
    );
    assert_eq!(line.ticked_at.as_ref(), Some(&task.updated_at));
    // The first who ticked it counts.
    let events = world.events();
    assert_eq!(world.ok(&h, on(&id, tick(2, false))).acceptance[1].ticked_by.as_deref(), Some("agent:a"));
    assert_eq!(world.events(), events);
    world.ok(&h, on(&id, tick(2, true)));
    world.ok(&a, on(&id, Act::Edit(Edit { acceptance: vec!["it is safe".to_owned()], ..Edit::default() })));
    world.ok(&a, on(&id, tick(3, false)));
    let done = world
        .run(
            &a,
            on(
                &id,
                Act::Move {
                    verb: Verb::Done,
                    message: Some("done".to_owned()),
                    uncommitted: None,
                    demand: None,
                },
            ),
        )
        .unwrap();
    let notices: Vec<&str> = done.notices.iter().map(|notice| notice.message.as_str()).collect();
    assert_eq!(notices, ["2 of 3 acceptance lines of ON-1 are not ticked: 1, 2"]);
    // What was true of work that was reset is no longer true.
    let reset =
        Command::Reset { task: Some(id.parse().unwrap()), reason: "all wrong".to_owned(), force: None };
    world.run(&h, reset).unwrap();
    let task = world.show(&id);
    assert!(task.acceptance.iter().all(|line| !line.ticked), "{task:?}");
    assert_eq!((task.started_at, task.completed_at), (None, None));
    world.is_whole();
}

#[test]
fn work_began_with_its_first_real_lease_and_ended_when_it_was_done() {
    let mut world = world();
    let (a, h) = (who("agent:a", "1"), who("human:h", ""));
    let id = world.add("t");
    world.ok(&a, on(&id, Act::Claim(Terms { reserve: true, ..Terms::default() })));
    assert_eq!(world.show(&id).started_at, None, "to reserve a task is not to begin");
    world.pass(1_000);
    let started = world.ok(&a, on(&id, claim()));
    assert_eq!(started.started_at, Some(started.updated_at));
    world.pass(1_000);
    world.ok(&a, on(&id, Act::Move { verb: Verb::Release, message: None, uncommitted: None, demand: None }));
    let done = world.ok(
        &a,
        on(
            &id,
            Act::Move { verb: Verb::Done, message: Some("d".to_owned()), uncommitted: None, demand: None },
        ),
    );
    assert_eq!((&done.started_at, done.completed_at), (&started.started_at, Some(done.updated_at)));
    let open = world
        .ok(&h, on(&id, Act::Move { verb: Verb::Reopen, message: None, uncommitted: None, demand: None }));
    assert_eq!((open.started_at, open.completed_at), (started.started_at, None));
    world.is_whole();
}

#[test]
fn notes_say_what_they_are_and_decisions_are_listed() {
    let mut world = world();
    let a = who("agent:a", "1");
    let id = world.add("t");
    world.ok(&a, on(&id, claim()));
    let note = |text: &str, kind, link: Option<&str>| Act::Note {
        text: text.to_owned(),
        kind,
        link: link.map(str::to_owned),
    };
    world.ok(&a, on(&id, Act::note("half of it")));
    world.ok(&a, on(&id, note("by hand", NoteKind::Decision, Some("https://x.example/1"))));
    world.ok(&a, on(&id, note("it is slow", NoteKind::Finding, None)));
    assert_eq!(world.refused(&a, on(&id, note("done", NoteKind::Resolution, None))), Code::Usage);
    assert_eq!(world.refused(&a, on(&id, note("x", NoteKind::Decision, Some("a\nb")))), Code::Usage);
    world.ok(
        &a,
        on(
            &id,
            Act::Move {
                verb: Verb::Done,
                message: Some("all of it".to_owned()),
                uncommitted: None,
                demand: None,
            },
        ),
    );
    let task = world.show(&id);
    let notes = task.notes.unwrap();
    let kinds: Vec<NoteKind> = notes.iter().map(|note| note.kind).collect();
    use NoteKind::{Decision, Finding, Progress, Resolution};
    assert_eq!(kinds, [Progress, Decision, Finding, Resolution]);
    let decisions = task.decisions.unwrap();
    let [decision] = decisions.as_slice() else { panic!("{decisions:?}") };
    assert_eq!((decision.link.as_deref(), decision.actor.as_str()), (Some("https://x.example/1"), "agent:a"));
}

#[test]
fn what_a_task_is_linked_with_is_shown_by_title() {
    let mut world = world();
    let h = who("human:h", "");
    let link = |id: &str| onus_core::command::TaskLink::Task(id.parse().unwrap());
    let (epic, first) = (world.add("epic"), world.add("first"));
    let mut new =
        NewTask { parent: Some(link(&epic)), deps: vec![link(&first)], ..NewTask::titled("second") };
    new.relates = vec![link(&first)];
    let second = world.ok(&h, Command::Add(new)).id;
    let task = world.show(&second);
    let linked = task.linked.unwrap();
    let titles: Vec<&str> = linked.values().map(|linked| linked.title.as_str()).collect();
    assert_eq!(
        (titles, linked.keys().cloned().collect::<Vec<_>>()),
        (vec!["epic", "first"], vec![epic.clone(), first.clone()])
    );
    assert_eq!(world.show(&first).blocks, Some(vec![second.clone()]));
    assert_eq!(world.show(&epic).children, Some(vec![second]));
    // A list does not show all of that for a task.
    let page = world.engine.list(None, &onus_store::Filter::default(), None, 9).unwrap().value;
    assert!(page.tasks.iter().all(|task| task.linked.is_none() && task.blocks.is_none()));
}

fn called(title: &str, refs: &[(&str, &str)]) -> NewTask {
    let refs = refs.iter().map(|(system, id)| ((*system).to_owned(), (*id).to_owned())).collect();
    NewTask { facts: Facts { refs, ..Facts::default() }, ..NewTask::titled(title) }
}

fn keyed(world: &mut World<AnyStore>, by: &Identity, command: Command) -> Result<(bool, String), Code> {
    let reply = world.engine.run(&Request { identity: by.clone(), command, key: Some("k".to_owned()) });
    let reply = reply.map_err(|refusal| refusal.code)?;
    match reply.answer {
        Answer::Task(task) | Answer::Lease { task, .. } => Ok((reply.replayed, task.id)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_task_is_named_by_what_other_systems_call_it_wherever_an_id_is_taken() {
    let mut world = world();
    let (a, h) = (who("agent:a", "1"), who("human:h", ""));
    let id = world.ok(&h, Command::Add(called("t", &[("JIRA", "WEB-7"), ("gh", "12")]))).id;
    let other = world.ok(&h, Command::Add(called("u", &[("gh", "12")]))).id;
    assert_eq!(world.show("jira:WEB-7").id, id);
    world.ok(&a, on("Jira:WEB-7", claim()));
    assert_eq!(world.refused(&a, on("jira:WEB-8", claim())), Code::NotFound);
    let refusal = world.run(&a, on("gh:12", Act::note("which?"))).unwrap_err();
    assert_eq!((refusal.code, refusal.candidates.len()), (Code::Ambiguous, 2), "{refusal:?}");
    world.ok(&h, on(&other, Act::AddDeps { on: vec!["jira:WEB-7".parse().unwrap()] }));
    assert_eq!(world.show(&other).deps, [id]);
    world.is_whole();
}

#[test]
fn a_key_compares_what_a_reference_names_and_not_how_it_is_spelled() {
    let mut world = world();
    let h = who("human:h", "");
    world.ok(&h, Command::Add(called("t", &[("jira", "WEB-7")])));
    let unref = || Act::Edit(Edit { refs: [("jira".to_owned(), None)].into(), ..Edit::default() });
    assert_eq!(keyed(&mut world, &h, on("jira:WEB-7", unref())), Ok((false, "ON-1".to_owned())));
    // The request removed the very reference by which it named its task.
    for spelled in ["jira:WEB-7", "ON-1", "1"] {
        assert_eq!(keyed(&mut world, &h, on(spelled, unref())), Ok((true, "ON-1".to_owned())), "{spelled}");
    }
    assert_eq!(keyed(&mut world, &h, on("jira:WEB-9", unref())), Err(Code::KeyReused));
    world.ok(&h, Command::Add(called("u", &[("jira", "WEB-7")])));
    assert_eq!(
        keyed(&mut world, &h, on("jira:WEB-7", unref())),
        Err(Code::KeyReused),
        "now it names another"
    );
}

#[test]
fn a_reference_is_one_tasks_only_where_the_project_says_so() {
    let mut world = world_with(Policy { refs_unique: ["jira".to_owned()].into(), ..policy() });
    let h = who("human:h", "");
    let id = world.ok(&h, Command::Add(called("t", &[("jira", "WEB-7"), ("gh", "12")]))).id;
    world.ok(&h, Command::Add(called("u", &[("gh", "12")])));
    let refusal = world.run(&h, Command::Add(called("v", &[("Jira", "WEB-7")]))).unwrap_err();
    assert_eq!((refusal.code, refusal.task.as_deref()), (Code::NotAllowed, Some(id.as_str())), "{refusal:?}");
    let call = |reference: &str| {
        let refs = [("jira".to_owned(), Some(reference.to_owned()))].into();
        Act::Edit(Edit { refs, ..Edit::default() })
    };
    assert_eq!(world.refused(&h, on("ON-2", call("WEB-7"))), Code::NotAllowed);
    world.ok(&h, on("ON-1", call("WEB-7")));
    world.ok(&h, on("ON-1", call("WEB-8")));
    world.ok(&h, on("ON-2", call("WEB-7")));
    // Two of one plan are two.
    let planned = |task| onus_core::command::PlannedTask { name: None, task };
    let plan = [called("x", &[("jira", "WEB-9")]), called("y", &[("jira", "WEB-9")])].map(planned);
    let refusal = world.run(&h, Command::AddPlan(plan.to_vec())).unwrap_err();
    assert!(refusal.message.starts_with("task 2 of the plan ('y')"), "{refusal:?}");
    world.is_whole();
}
