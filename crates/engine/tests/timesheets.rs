//! Hours as users see them: sessions, timesheets and reports, with a clock that the test controls.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use onus_core::command::{Act, Command, NewTask, Terms};
use onus_core::ids::Token;
use onus_core::policy::Policy;
use onus_core::refusal::Code;
use onus_core::session::{Correction, Cost, Usage, UsageSource};
use onus_core::task::Facts;
use onus_core::time::{DAY_MS, HOUR_MS, MINUTE_MS};
use onus_core::timesheet::{Calendar, Day};
use onus_core::transition::Verb;
use onus_engine::{Billing, By, CostBy, Identity, SessionQuery, SheetPart, SheetQuery, SheetRow, SheetView};
use onus_store::{AnyStore, Store as _, Window};
use proptest::prelude::*;

use crate::world::{World, cases, claim, on, verb, who, world_with};

fn world() -> World<AnyStore> {
    world_with(Policy::default())
}

/// Days of 24 hours from the world's beginning on.
fn calendar(days: i64) -> Calendar {
    let start_ms = 1_700_000_000_000;
    let day = |number: i64| Day {
        start_ms: start_ms + number * DAY_MS,
        date: format!("day {number}"),
        week: format!("week {}", number / 7),
    };
    Calendar::new((0..days).map(day).collect(), start_ms + days * DAY_MS).unwrap()
}

fn query(by: &[By]) -> SheetQuery {
    SheetQuery {
        calendar: calendar(30),
        by: by.to_vec(),
        actor: None,
        under: None,
        tag: None,
        billing: Billing::default(),
    }
}

fn sheet(world: &mut World<AnyStore>, query: &SheetQuery) -> (SheetView, Vec<SheetPart>) {
    let mut parts = Vec::new();
    let looked = world.engine.timesheet(None, query, Some(&mut |part| parts.push(part)), &mut |_| {});
    (looked.unwrap().value, parts)
}

/// What each row is called by, and its seconds.
fn rows(sheet: &SheetView, name: impl Fn(&SheetRow) -> Option<String>) -> Vec<(String, f64)> {
    sheet.rows.iter().map(|row| (name(row).unwrap_or_default(), row.seconds)).collect()
}

fn add(world: &mut World<AnyStore>, title: &str, facts: Facts, parent: Option<&str>) -> String {
    let mut task = NewTask::titled(title);
    task.facts = facts;
    task.parent = parent.map(|id| onus_core::command::TaskLink::Task(id.parse().unwrap()));
    world.ok(&who("human:boss", ""), Command::Add(task)).id
}

/// Works on a task for a while, in one go.
fn work(world: &mut World<AnyStore>, by: &Identity, id: &str, ms: i64, end: Verb) {
    world.lease(
        by,
        on(id, Act::Claim(Terms { ttl_ms: Some(0), reason: Some("test".into()), ..Terms::default() })),
    );
    let mut left_ms = ms;
    while left_ms > 0 {
        world.pass(left_ms.min(20 * MINUTE_MS));
        left_ms -= 20 * MINUTE_MS;
        if left_ms > 0 {
            world.ok(by, on(id, Act::note("so far")));
        }
    }
    world.ok(by, on(id, verb(end)));
}

#[test]
fn a_session_across_midnight_counts_for_both_days() {
    let mut world = world();
    let (ada, id) = (who("human:ada", ""), world.add("t"));
    world.pass(23 * HOUR_MS);
    work(&mut world, &ada, &id, 2 * HOUR_MS, Verb::Done);
    let (sheet, parts) = sheet(&mut world, &query(&[By::Day]));
    assert_eq!(rows(&sheet, |row| row.day.clone()), [("day 0".into(), 3_600.0), ("day 1".into(), 3_600.0)]);
    assert_eq!((sheet.people_seconds, sheet.agent_seconds, sheet.total_seconds), (7_200.0, 0.0, 7_200.0));
    // Down to the event and its hash.
    let log = world.engine.log(None, Some(&id.parse().unwrap()), 0, false, 100).unwrap().value;
    for part in &parts {
        let told = log.records.iter().find(|record| record.hash == part.hash).unwrap();
        assert_eq!((told.version, told.kind.as_str()), (part.version, "task.done"));
        assert_eq!(part.session, format!("{id}#1"));
    }
    assert_eq!(parts.len(), 2);
}

#[test]
fn people_and_agents_stand_side_by_side() {
    let mut world = world();
    let (ada, bot) = (who("human:ada", ""), who("agent:bot", "1"));
    let (one, two) = (world.add("one"), world.add("two"));
    work(&mut world, &ada, &one, HOUR_MS, Verb::Release);
    work(&mut world, &bot, &one, 2 * HOUR_MS, Verb::Done);
    work(&mut world, &bot, &two, 90, Verb::Done);
    let (by_task, _) = sheet(&mut world, &query(&[By::Task]));
    let sides: Vec<_> = by_task.rows.iter().map(|row| (row.people_seconds, row.agent_seconds)).collect();
    assert_eq!(sides, [(3_600.0, 7_200.0), (0.0, 0.09)]);
    assert_eq!(by_task.rows[0].title.as_deref(), Some("one"));
    let (by_actor, _) = sheet(&mut world, &query(&[By::Actor]));
    let named = rows(&by_actor, |row| row.actor.clone());
    assert_eq!(named, [("agent:bot".into(), 7_200.09), ("human:ada".into(), 3_600.0)]);
    let only = SheetQuery { actor: Some("human:ada".parse().unwrap()), ..query(&[By::Task]) };
    assert_eq!(sheet(&mut world, &only).0.total_seconds, 3_600.0);
}

#[test]
fn two_sessions_at_once_are_both_real_and_the_wall_is_said_beside_them() {
    let mut world = world();
    let ada = who("human:ada", "");
    let (one, two) = (world.add("one"), world.add("two"));
    world.lease(&ada, on(&one, claim()));
    world.pass(10 * MINUTE_MS);
    world.lease(&ada, on(&two, claim()));
    world.pass(20 * MINUTE_MS);
    world.ok(&ada, on(&two, verb(Verb::Done)));
    world.ok(&ada, on(&one, verb(Verb::Done)));
    let (sheet, _) = sheet(&mut world, &query(&[By::Actor]));
    assert_eq!(sheet.total_seconds, 50.0 * 60.0);
    assert_eq!((sheet.actors[0].seconds, sheet.actors[0].wall_seconds), (50.0 * 60.0, 30.0 * 60.0));
}

#[test]
fn hours_roll_up_to_the_outermost_task_and_nothing_is_counted_twice() {
    let mut world = world();
    let ada = who("human:ada", "");
    let tagged = |tags: &[&str], area: &str| Facts {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        area: Some(area.to_owned()),
        ..Facts::default()
    };
    let epic = add(&mut world, "epic", Facts::default(), None);
    let story = add(&mut world, "story", tagged(&["client"], "web"), Some(&epic));
    let leaf = add(&mut world, "leaf", tagged(&["client", "urgent"], "web"), Some(&story));
    let other = add(&mut world, "other", tagged(&["urgent"], "docs"), None);
    work(&mut world, &ada, &leaf, HOUR_MS, Verb::Done);
    work(&mut world, &ada, &story, 2 * HOUR_MS, Verb::Done);
    work(&mut world, &ada, &other, 3 * HOUR_MS, Verb::Done);
    let by = |world: &mut World<AnyStore>, by: By| sheet(world, &query(&[by])).0;
    let parents = rows(&by(&mut world, By::Parent), |row| row.parent.clone());
    assert_eq!(parents, [(epic.clone(), 3.0 * 3_600.0), (other.clone(), 3.0 * 3_600.0)]);
    let tags = by(&mut world, By::Tag);
    let named = rows(&tags, |row| row.tags.as_ref().map(|tags| tags.join("+")));
    assert_eq!(
        named,
        [("client".into(), 7_200.0), ("client+urgent".into(), 3_600.0), ("urgent".into(), 10_800.0)]
    );
    assert_eq!(tags.total_seconds, 6.0 * 3_600.0);
    let areas = rows(&by(&mut world, By::Area), |row| row.area.clone());
    assert_eq!(areas, [("docs".into(), 10_800.0), ("web".into(), 10_800.0)]);
    let weeks = rows(&by(&mut world, By::Week), |row| row.week.clone());
    assert_eq!(weeks, [("week 0".into(), 21_600.0)]);
    let under = SheetQuery { under: Some(epic.parse().unwrap()), ..query(&[By::Task]) };
    assert_eq!(sheet(&mut world, &under).0.total_seconds, 10_800.0);
    let tag = SheetQuery { tag: Some("urgent".into()), ..query(&[By::Task]) };
    assert_eq!(sheet(&mut world, &tag).0.total_seconds, 14_400.0);
    // Billable by tag, or with all that is part of a task.
    for (billable, hours) in [("client", 3.0), ("urgent", 4.0), (epic.as_str(), 3.0), ("nothing", 0.0)] {
        let billing = Billing {
            billable: Some(vec![billable.to_owned()]),
            rates: BTreeMap::from([("human:ada".parse().unwrap(), 90_50)]),
        };
        let (billed, _) = sheet(&mut world, &SheetQuery { billing, ..query(&[By::Actor]) });
        assert_eq!(billed.rows[0].billable_seconds, Some(hours * 3_600.0), "{billable}");
        assert_eq!(billed.rows[0].amount, Some(hours * 90.5), "{billable}");
    }
    let (unbilled, _) = sheet(&mut world, &query(&[By::Actor]));
    assert_eq!((unbilled.rows[0].billable_seconds, unbilled.rows[0].amount), (None, None));
}

#[test]
fn what_no_event_tells_yet_is_named_and_in_no_sum() {
    let mut world = world();
    let (ada, id) = (who("human:ada", ""), world.add("t"));
    world.lease(&ada, on(&id, claim()));
    world.pass(10 * MINUTE_MS);
    world.ok(&ada, on(&id, Act::note("so far")));
    let (open, _) = sheet(&mut world, &query(&[By::Actor]));
    assert_eq!((open.total_seconds, open.rows.len()), (0.0, 0));
    assert_eq!((open.actors[0].seconds, open.actors[0].pending_seconds), (0.0, 600.0));
    world.ok(&ada, on(&id, verb(Verb::Done)));
    let (ended, _) = sheet(&mut world, &query(&[By::Actor]));
    assert_eq!((ended.total_seconds, ended.actors[0].pending_seconds), (600.0, 0.0));
}

#[test]
fn where_peoples_sessions_are_off_none_of_theirs_are_kept() {
    let mut world = world_with(Policy { records_people: false, ..Policy::default() });
    let (ada, bot) = (who("human:ada", ""), who("agent:bot", "1"));
    let (one, two) = (world.add("one"), world.add("two"));
    world.lease(&ada, on(&one, claim()));
    world.pass(10 * MINUTE_MS);
    world.ok(&ada, on(&one, Act::note("so far")));
    let (open, _) = sheet(&mut world, &query(&[By::Actor]));
    assert_eq!(open.actors, []);
    world.pass(10 * MINUTE_MS);
    assert_eq!(world.ok(&ada, on(&one, verb(Verb::Done))).effort_ms, 0);
    work(&mut world, &bot, &two, HOUR_MS, Verb::Done);
    let (sheet, _) = sheet(&mut world, &query(&[By::Actor]));
    assert_eq!(rows(&sheet, |row| row.actor.clone()), [("agent:bot".into(), 3_600.0)]);
    let log = world.engine.log(None, Some(&one.parse().unwrap()), 0, false, 100).unwrap().value;
    assert!(log.records.iter().all(|record| record.payload.get("stretches").is_none()));
    world.is_whole();
}

#[test]
fn a_session_has_its_worked_and_its_held_time() {
    let mut world = world();
    let (ada, id) = (who("human:ada", ""), world.add("t"));
    work(&mut world, &ada, &id, 10 * MINUTE_MS, Verb::Release);
    world.lease(&ada, on(&id, claim()));
    world.pass(10 * HOUR_MS);
    world.ok(&ada, on(&id, verb(Verb::Done)));
    let all = SessionQuery {
        window: Window { since_ms: 0, until_ms: i64::MAX },
        actor: None,
        task: Some(id.parse().unwrap()),
        limit: 10,
    };
    let sessions = world.engine.sessions(None, &all).unwrap().value;
    let told: Vec<_> = sessions
        .iter()
        .map(|session| (session.session.clone(), session.worked_seconds, session.held_seconds))
        .collect();
    assert_eq!(told, [(format!("{id}#2"), 0.0, 36_000.0), (format!("{id}#1"), 600.0, 600.0)]);
    assert!(sessions.iter().all(|session| session.waiting_seconds.is_none()), "unknown is not zero");
    // By when they worked: the second did not.
    let then = SessionQuery { task: None, ..all };
    let found = world.engine.sessions(None, &then).unwrap().value;
    assert_eq!(found.iter().map(|session| session.token).collect::<Vec<_>>(), [1]);
    let later = SessionQuery { window: Window { since_ms: 1_700_000_600_000, until_ms: i64::MAX }, ..then };
    assert_eq!(world.engine.sessions(None, &later).unwrap().value, []);
}

#[test]
fn a_standup_names_what_was_done_by_whom_and_what_goes_on() {
    let mut world = world();
    let (ada, bot) = (who("human:ada", ""), who("agent:bot", "1"));
    let (one, two, three) = (world.add("one"), world.add("two"), world.add("three"));
    work(&mut world, &ada, &one, HOUR_MS, Verb::Done);
    world.lease(&bot, on(&two, claim()));
    world.lease(&ada, on(&three, claim()));
    world.ok(
        &ada,
        on(
            &three,
            Act::Move { verb: Verb::Block, message: Some("no key".into()), uncommitted: None, demand: None },
        ),
    );
    let standup = world.engine.standup(None, &calendar(30)).unwrap().value;
    let actor = |name: &str| standup.actors.iter().find(|entry| entry.actor == name).unwrap();
    assert_eq!(actor("human:ada").done.iter().map(|task| &task.id).collect::<Vec<_>>(), [&one]);
    assert_eq!(actor("human:ada").worked_seconds, 3_600.0);
    assert_eq!(actor("agent:bot").in_progress.iter().map(|task| &task.id).collect::<Vec<_>>(), [&two]);
    assert_eq!(standup.blocked.iter().map(|task| &task.id).collect::<Vec<_>>(), [&three]);
}

#[test]
fn a_day_goes_by_in_order_and_flow_tells_working_from_waiting() {
    let mut world = world();
    let (ada, bot) = (who("human:ada", ""), who("agent:bot", "1"));
    let (one, two) = (world.add("one"), world.add("two"));
    world.pass(HOUR_MS);
    work(&mut world, &ada, &one, HOUR_MS, Verb::Release);
    work(&mut world, &bot, &two, HOUR_MS, Verb::Done);
    work(&mut world, &ada, &one, 2 * HOUR_MS, Verb::Done);
    let day = world.engine.day(None, &"human:ada".parse().unwrap(), &calendar(1)).unwrap().value;
    let entries: Vec<_> = day.entries.iter().map(|entry| (&entry.task, entry.worked_seconds)).collect();
    assert_eq!(entries, [(&one, 3_600.0), (&one, 7_200.0)]);
    assert_eq!((day.worked_seconds, day.done.len()), (10_800.0, 1));
    let flow = world.engine.flow(None, &calendar(14), &mut |_| {}).unwrap().value;
    assert_eq!((flow.done, flow.weeks.len(), flow.weeks[0].done), (2, 2, 2));
    // Of the first task's cycle of four hours, one was spent waiting.
    assert_eq!((flow.worked_seconds, flow.idle_seconds, flow.waiting_seconds), (14_400.0, 0.0, 3_600.0));
    let within =
        |said: Option<f64>, exact: f64| said.is_some_and(|said| said >= exact && said <= exact * 1.01);
    assert!(
        within(flow.cycle.p50_seconds, 3_600.0) && within(flow.cycle.p95_seconds, 4.0 * 3_600.0),
        "{flow:?}"
    );
    assert!(within(flow.lead.p95_seconds, 5.0 * 3_600.0), "{flow:?}");
}

fn correct(id: &str, token: u64, correction: Correction) -> Command {
    on(id, Act::Correct { token: Token(token), correction, reason: "it was not so".into() })
}

#[test]
fn a_correction_only_takes_away_and_says_so() {
    let mut world = world();
    let (ada, bot, id) = (who("human:ada", ""), who("agent:bot", "1"), world.add("t"));
    let start_ms = 1_700_000_000_000;
    work(&mut world, &ada, &id, 2 * HOUR_MS, Verb::Release);
    let total = |world: &mut World<AnyStore>| sheet(world, &query(&[By::Actor])).0;
    assert_eq!(total(&mut world).people_seconds, 7_200.0);
    // Only a person, only what exists, and only what takes away.
    assert_eq!(world.refused(&bot, correct(&id, 1, Correction::Void)), Code::PeopleOnly);
    assert_eq!(world.refused(&ada, correct(&id, 2, Correction::Void)), Code::NotFound);
    let later = Correction::Shorten { until_ms: start_ms + 9 * HOUR_MS };
    assert_eq!(world.refused(&ada, correct(&id, 1, later)), Code::Nothing);
    let own = Correction::Reassign { to: ada.actor.clone() };
    assert_eq!(world.refused(&ada, correct(&id, 1, own)), Code::Nothing);
    // Shortened: what was after that does not count.
    let until = Correction::Shorten { until_ms: start_ms + HOUR_MS };
    assert_eq!(world.ok(&ada, correct(&id, 1, until)).effort_ms, HOUR_MS);
    let (shortened, parts) = sheet(&mut world, &query(&[By::Actor]));
    assert_eq!((shortened.people_seconds, shortened.actors[0].wall_seconds), (3_600.0, 3_600.0));
    let told: Vec<_> = parts.iter().map(|part| part.seconds).collect();
    assert_eq!(told, [7_200.0, -3_600.0], "what was recorded stays, and the correction beside it");
    // Reassigned: the same hours are another's.
    world.ok(&ada, correct(&id, 1, Correction::Reassign { to: "agent:bot".parse().unwrap() }));
    let reassigned = total(&mut world);
    assert_eq!((reassigned.people_seconds, reassigned.agent_seconds), (0.0, 3_600.0));
    // Voided: none is left, and nothing can be voided twice.
    assert_eq!(world.ok(&ada, correct(&id, 1, Correction::Void)).effort_ms, 0);
    assert_eq!(total(&mut world).total_seconds, 0.0);
    assert_eq!(world.refused(&ada, correct(&id, 1, Correction::Void)), Code::Nothing);
    let corrected = world.kinds(&id).iter().filter(|kind| *kind == "session.corrected").count();
    assert_eq!(corrected, 3);
    world.is_whole();
}

#[test]
fn a_session_that_goes_on_is_not_corrected() {
    let mut world = world();
    let (ada, id) = (who("human:ada", ""), world.add("t"));
    world.lease(&ada, on(&id, claim()));
    world.pass(10 * MINUTE_MS);
    world.ok(&ada, on(&id, Act::note("so far")));
    assert_eq!(world.refused(&ada, correct(&id, 1, Correction::Void)), Code::NotAllowed);
}

fn usage(model: &str, tokens_in: u64, micros: u64) -> Usage {
    Usage {
        model: Some(model.to_owned()),
        tokens_in: Some(tokens_in),
        tokens_out: None,
        tokens_cached: None,
        source: UsageSource::Actual,
        cost: Some(Cost { micros, currency: "USD".into() }),
    }
}

#[test]
fn what_a_session_used_is_added_up_and_what_is_unknown_stays_unknown() {
    let mut world = world();
    let (ada, bot) = (who("human:ada", ""), who("agent:bot", "1"));
    let (one, two) = (world.add("one"), world.add("two"));
    world.lease(&bot, on(&one, claim()));
    for _ in 0..2 {
        world.ok(&bot, on(&one, Act::RecordUsage(usage("m", 1_000, 250_000))));
    }
    let guessed = Usage { source: UsageSource::Estimated, tokens_in: None, ..usage("n", 0, 100_000) };
    world.ok(&bot, on(&one, Act::RecordUsage(guessed)));
    world.ok(&bot, on(&one, verb(Verb::Done)));
    // After its end, too; and nobody speaks for another's session.
    world.ok(&bot, on(&one, Act::RecordUsage(usage("m", 1, 0))));
    assert_eq!(world.refused(&ada, on(&one, Act::RecordUsage(usage("m", 1, 1)))), Code::NotAllowed);
    assert_eq!(world.refused(&bot, on(&two, Act::RecordUsage(usage("m", 1, 1)))), Code::NotAllowed);
    let nothing = Usage { model: None, tokens_in: None, cost: None, ..usage("", 0, 0) };
    assert_eq!(world.refused(&bot, on(&one, Act::RecordUsage(nothing))), Code::Usage);
    let query = SessionQuery {
        window: Window { since_ms: 0, until_ms: i64::MAX },
        actor: None,
        task: Some(one.parse().unwrap()),
        limit: 1,
    };
    let session = world.engine.sessions(None, &query).unwrap().value.remove(0);
    let told: Vec<_> = session
        .usage
        .iter()
        .map(|used| (used.model.clone().unwrap(), used.tokens_in, used.tokens_out, used.source, used.cost))
        .collect();
    assert_eq!(
        told,
        [
            ("m".into(), Some(2_001), None, UsageSource::Actual, Some(0.5)),
            ("n".into(), None, None, UsageSource::Estimated, Some(0.1)),
        ]
    );
    let cost = world.engine.cost(None, &calendar(30), CostBy::Task).unwrap().value;
    assert_eq!((cost.rows[0].task.as_ref(), cost.rows[0].usage.cost), (Some(&one), Some(0.6)));
    assert_eq!((cost.done, cost.per_done[0].cost), (1, Some(0.6)));
    for (by, rows) in [(CostBy::Model, 2), (CostBy::Actor, 1), (CostBy::Tag, 1)] {
        assert_eq!(world.engine.cost(None, &calendar(30), by).unwrap().value.rows.len(), rows, "{by:?}");
    }
    world.is_whole();
}

/// What may happen next.
#[derive(Clone, Debug)]
enum Deed {
    Pass(i64),
    Claim(usize, usize),
    Note(usize, usize),
    End(usize, usize, Verb),
    Correct(usize, u64, u8, i64),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let ends = proptest::sample::select(vec![Verb::Release, Verb::Done, Verb::Block, Verb::Fail]);
    let deed = prop_oneof![
        4 => (1..3 * HOUR_MS).prop_map(Deed::Pass),
        2 => (1..40 * MINUTE_MS).prop_map(Deed::Pass),
        3 => (0..3usize, 0..4usize).prop_map(|(who, task)| Deed::Claim(who, task)),
        2 => (0..3usize, 0..4usize).prop_map(|(who, task)| Deed::Note(who, task)),
        2 => (0..3usize, 0..4usize, ends).prop_map(|(who, task, verb)| Deed::End(who, task, verb)),
        2 => (0..4usize, 1..4u64, 0..3u8, 0..40 * HOUR_MS)
            .prop_map(|(task, token, how, at)| Deed::Correct(task, token, how, at)),
    ];
    proptest::collection::vec(deed, 10..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(48), ..ProptestConfig::default() })]

    /// Whatever happened, every sum is what the events say, and the rows are the fold of them.
    #[test]
    fn every_sum_is_the_sum_of_the_events(deeds in deeds()) {
        let mut world = world();
        let callers = [who("human:ada", ""), who("agent:bot", "1"), who("agent:bot", "2")];
        let ids: Vec<String> = (0..4).map(|number| world.add(&format!("task {number}"))).collect();
        for deed in deeds {
            let _ = match deed {
                Deed::Pass(ms) => {
                    world.pass(ms);
                    continue;
                }
                Deed::Claim(by, task) => world.run(&callers[by], on(&ids[task], claim())),
                Deed::Note(by, task) => world.run(&callers[by], on(&ids[task], Act::note("n"))),
                Deed::End(by, task, how) => world.run(&callers[by], on(&ids[task], verb(how))),
                Deed::Correct(task, token, how, at_ms) => {
                    let correction = match how {
                        0 => Correction::Void,
                        1 => Correction::Reassign { to: callers[1].actor.clone() },
                        _ => Correction::Shorten { until_ms: 1_700_000_000_000 + at_ms },
                    };
                    world.run(&callers[0], correct(&ids[task], token, correction))
                }
            };
        }
        // From the events alone, day by day.
        let calendar = calendar(30);
        let mut expected: BTreeMap<(String, String, String), i64> = BTreeMap::new();
        let mut by_lease: BTreeMap<(String, u64), Vec<(i64, i64)>> = BTreeMap::new();
        for id in &ids {
            let log = world.engine.log(None, Some(&id.parse().unwrap()), 0, false, 10_000).unwrap().value;
            let mut holders = BTreeMap::new();
            for record in &log.records {
                if record.kind == "lease.acquired" {
                    holders.insert(record.token, (record.actor.clone(), record.at.clone()));
                }
                let told = record.payload["stretches"].as_array().into_iter().flatten();
                let token = record.token.unwrap_or_default();
                let mut count = |whose: &str, stretch: &serde_json::Value, sign: i64| {
                    let (start, length) = (stretch["start_ms"].as_i64().unwrap(), stretch["active_ms"].as_i64().unwrap());
                    let (mut from, until) = (start, start + length);
                    while from < until {
                        let number = (from - calendar.start_ms()).div_euclid(DAY_MS);
                        let next = until.min(calendar.start_ms() + (number + 1) * DAY_MS);
                        let key = (whose.to_owned(), id.clone(), format!("day {number}"));
                        *expected.entry(key).or_default() += sign * (next - from);
                        from = next;
                    }
                    (start, length)
                };
                for stretch in told {
                    let span = count(&holders[&record.token].0, stretch, 1);
                    by_lease.entry((id.clone(), token)).or_default().push(span);
                }
                for taken in record.payload["less"].as_array().into_iter().flatten() {
                    count(record.payload["from"].as_str().unwrap(), taken, -1);
                    if let Some(to) = record.payload["to"].as_str() {
                        count(to, taken, 1);
                    }
                }
            }
        }
        for (lease, mut spans) in by_lease {
            spans.sort_unstable();
            prop_assert!(spans.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{:?}: {:?}", lease, spans);
        }
        let (sheet, parts) = sheet(&mut world, &query(&[By::Actor, By::Task, By::Day]));
        let said: BTreeMap<_, _> = sheet
            .rows
            .iter()
            .map(|row| {
                let key = (row.actor.clone().unwrap(), row.task.clone().unwrap(), row.day.clone().unwrap());
                (key, (row.seconds * 1_000.0).round() as i64)
            })
            .collect();
        prop_assert_eq!(&said, &expected);
        let total_ms: i64 = expected.values().sum();
        prop_assert_eq!((sheet.total_seconds * 1_000.0).round() as i64, total_ms);
        prop_assert_eq!((parts.iter().map(|part| part.seconds * 1_000.0).sum::<f64>()).round() as i64, total_ms);
        let effort_ms: i64 = ids
            .iter()
            .map(|id| world.engine.show(None, Some(&id.parse().unwrap())).unwrap().value.effort_ms)
            .sum();
        let pending: f64 = sheet.actors.iter().map(|actor| actor.pending_seconds).sum();
        prop_assert_eq!(effort_ms, total_ms + (pending * 1_000.0).round() as i64);
        prop_assert_eq!(world.engine.store().rebuild(&mut |_| {}).unwrap().changed, Vec::new());
    }
}
