//! Whether the first page of `list` and `ready` costs more in a store with a million tasks.

use onus_store::{Access, Filter};

use crate::Result;
use crate::fixture;
use crate::measure::{Report, Target, Times};
use crate::place::Place;
use crate::scale::{LARGE, SMALL, stores};

pub(crate) const ABOUT: &str = "first page of `list` and `ready` at 1,000,000 tasks against 1,000";

const ROUNDS: usize = 7;
const READS: usize = 20;
const PAGE: u64 = 50;

pub(crate) fn run(place: &Place) -> Result<Report> {
    let repositories = stores(place)?;
    let [small, large] = &repositories;
    let mut engines =
        [fixture::engine(&small.store(), Access::Read)?, fixture::engine(&large.store(), Access::Read)?];
    let identity = fixture::identity("reader")?;
    let pair = || [Times::default(), Times::default()];
    let (mut list, mut ready, mut list_inside, mut ready_inside) = (pair(), pair(), pair(), pair());
    for _ in 0..ROUNDS {
        let all = [&mut list, &mut ready, &mut list_inside, &mut ready_inside];
        all.into_iter().flatten().for_each(Times::next_round);
        for _ in 0..READS {
            for which in 0..2 {
                let (repository, engine) = (&repositories[which], &mut engines[which]);
                list[which].time(|| repository.run(&place.onus, "reader", &["list", "--json"]))?;
                ready[which].time(|| repository.run(&place.onus, "reader", &["ready", "--json"]))?;
                list_inside[which]
                    .time(|| Ok(engine.list(Some(&identity), &Filter::default(), None, PAGE)?))?;
                ready_inside[which].time(|| Ok(engine.ready(Some(&identity), PAGE)?))?;
            }
        }
    }
    let mut report = Report::default();
    let all = [("list", &list, &list_inside), ("ready", &ready, &ready_inside)];
    for (what, whole, inside) in all {
        for (which, tasks) in [SMALL, LARGE].into_iter().enumerate() {
            report.note(format!("{what:5}  at {tasks:>7} tasks: process {}", whole[which].describe()));
            report.note(format!("{what:5}  at {tasks:>7} tasks: inside  {}", inside[which].describe()));
        }
    }
    for (what, whole, inside) in all {
        report.check(
            &format!("{what}, whole process, large / small"),
            whole[1].over(&whole[0]),
            Target::AtMost(2.0),
        );
        report.check(
            &format!("{what}, inside, large / small"),
            inside[1].over(&inside[0]),
            Target::AtMost(2.0),
        );
    }
    Ok(report)
}
