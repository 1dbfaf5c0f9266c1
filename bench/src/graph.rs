//! Whether finding work costs more in a large graph, and what finishing a task costs that many wait for.

use onus_core::command::{Act, Command, NewTask, TaskLink, Terms};
use onus_core::ids::{Number, TaskRef};
use onus_core::transition::Verb;
use onus_store::Access;

use crate::Result;
use crate::fixture::{self, History};
use crate::measure::{Report, Target, Times};
use crate::place::{Place, Repository};

pub(crate) const ABOUT: &str =
    "`ready` and `claim --next` at 1,000, 100,000 and 1,000,000 tasks with 3 dependencies each";

const SIZES: [u64; 3] = [1_000, 100_000, 1_000_000];
const ROUNDS: u64 = 7;
const CALLS: u64 = 12;
const PAGE: u64 = 50;

pub(crate) fn run(place: &Place) -> Result<Report> {
    let mut repositories: Vec<Repository> = Vec::new();
    for tasks in SIZES {
        repositories.push(fixture::repository(place, &format!("graph-{tasks}"), tasks, History::Graph)?);
    }
    repositories[0].run(&place.onus, "verify", &["ledger", "verify"])?;
    let mut engines = Vec::new();
    for repository in &repositories {
        engines.push(fixture::engine(&repository.store(), Access::Write)?);
    }
    let reader = fixture::identity("reader")?;
    let series = || vec![Times::default(); SIZES.len()];
    let (mut ready, mut next) = (series(), series());
    let (mut ready_inside, mut next_inside) = (series(), series());
    for round in 0..ROUNDS {
        let all = [&mut ready, &mut next, &mut ready_inside, &mut next_inside];
        all.into_iter().flatten().for_each(Times::next_round);
        for n in 0..CALLS {
            for which in 0..SIZES.len() {
                let (repository, engine) = (&repositories[which], &mut engines[which]);
                let instance = format!("n{}", round * CALLS + n);
                ready[which].time(|| repository.run(&place.onus, "reader", &["ready", "--json"]))?;
                next[which].time(|| repository.run(&place.onus, &instance, &["claim", "--next"]))?;
                ready_inside[which].time(|| Ok(engine.ready(Some(&reader), PAGE)?))?;
                let next = Command::ClaimNext(Terms::default());
                let request = fixture::request(&format!("i{instance}"), next)?;
                next_inside[which].time(|| Ok(engine.run(&request)?))?;
            }
        }
    }
    let mut report = Report::default();
    let all = [
        ("ready, whole process", &ready),
        ("claim --next, whole process", &next),
        ("ready, inside", &ready_inside),
        ("claim --next, inside", &next_inside),
    ];
    for (what, times) in all {
        for (which, tasks) in SIZES.iter().enumerate() {
            report.note(format!("{what:<28} at {tasks:>7} tasks: {}", times[which].describe()));
        }
    }
    for (what, times) in all {
        let last = SIZES.len() - 1;
        report.check(&format!("{what}, last / first"), times[last].over(&times[0]), Target::AtMost(1.5));
    }
    Ok(report)
}

pub(crate) const ABOUT_FINISH: &str =
    "finishing a task with 10,000 dependents: linear in these, not in the store";

const DEPENDENTS: [u64; 2] = [1_000, 10_000];
const STORES: [u64; 2] = [1_000, 100_000];
const FINISHES: u64 = 5;

pub(crate) fn finish(place: &Place) -> Result<Report> {
    let mut times = vec![vec![Times::default(); DEPENDENTS.len()]; STORES.len()];
    let mut engines = Vec::new();
    for tasks in STORES {
        let repository = fixture::repository(place, &format!("finish-{tasks}"), tasks, History::Graph)?;
        let mut engine = fixture::engine(&repository.store(), Access::Write)?;
        let mut hubs = Vec::new();
        for dependents in DEPENDENTS {
            let mut add = |new: NewTask| -> Result<u64> {
                match engine.run(&fixture::request("planner", Command::Add(new))?)?.answer {
                    onus_engine::Answer::Task(task) => Ok(task.number),
                    _ => Err("no task was added".into()),
                }
            };
            let hub = add(NewTask::titled("hub"))?;
            let link = TaskLink::Task(TaskRef::Number(Number(hub)));
            for n in 0..dependents {
                add(NewTask { deps: vec![link.clone()], ..NewTask::titled(format!("waits {n}")) })?;
            }
            hubs.push(hub);
        }
        engines.push((engine, hubs));
    }
    for _ in 0..FINISHES {
        for (store, (engine, hubs)) in engines.iter_mut().enumerate() {
            for (size, hub) in hubs.iter().enumerate() {
                let shift = |verb: Verb| {
                    let message = Some("done".to_owned());
                    let act = Act::Move { verb, message, uncommitted: None, demand: None };
                    fixture::on_task(*hub, "finisher", act)
                };
                let times = &mut times[store][size];
                times.next_round();
                let done = shift(Verb::Done)?;
                times.time(|| Ok(engine.run(&done)?))?;
                engine.run(&shift(Verb::Reopen)?)?;
            }
        }
    }
    let mut report = Report::default();
    for (store, tasks) in STORES.iter().enumerate() {
        for (size, dependents) in DEPENDENTS.iter().enumerate() {
            let described = times[store][size].describe();
            report.note(format!("{dependents:>6} dependents in a store of {tasks:>6}: {described}"));
        }
    }
    let per_dependent = |times: &[Times]| -> Vec<f64> {
        let growth = (DEPENDENTS[1] / DEPENDENTS[0]) as f64;
        times[1].over(&times[0]).iter().map(|ratio| ratio / growth).collect()
    };
    report.check("cost of one of 10,000 / one of 1,000", per_dependent(&times[1]), Target::AtMost(1.5));
    report.check("10,000 in the large / small store", times[1][1].over(&times[0][1]), Target::AtMost(1.5));
    Ok(report)
}
