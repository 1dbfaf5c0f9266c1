//! Whether a claim costs more in a store with a million tasks than in one with a thousand.

use onus_store::Access;

use crate::Result;
use crate::fixture::{self, History};
use crate::measure::{Report, Target, Times};
use crate::place::{Place, Repository};

pub(crate) const ABOUT: &str = "claim at 1,000,000 tasks and 5,000,000 events against 1,000 tasks";

pub(crate) const SMALL: u64 = 1_000;
pub(crate) const LARGE: u64 = 1_000_000;

const ROUNDS: u64 = 7;
const CLAIMS: u64 = 20;

/// Copies of both stores, the small one first.
pub(crate) fn stores(place: &Place) -> Result<[Repository; 2]> {
    let filled = |name, tasks| fixture::repository(place, name, tasks, History::Worked);
    Ok([filled("small", SMALL)?, filled("large", LARGE)?])
}

pub(crate) fn run(place: &Place) -> Result<Report> {
    let repositories = stores(place)?;
    let [small, large] = &repositories;
    // The small store is the one whose chains are quickly read: a fixture that is no ledger proves nothing.
    small.run(&place.onus, "verify", &["ledger", "verify"])?;
    let mut engines =
        [fixture::engine(&small.store(), Access::Write)?, fixture::engine(&large.store(), Access::Write)?];
    let (mut inside, mut whole) =
        ([Times::default(), Times::default()], [Times::default(), Times::default()]);
    for round in 0..ROUNDS {
        inside.iter_mut().chain(&mut whole).for_each(Times::next_round);
        for n in 0..CLAIMS {
            for (which, tasks) in [SMALL, LARGE].into_iter().enumerate() {
                // All over the store, and never the same task twice.
                let claims = 2 * ROUNDS * CLAIMS;
                let spread = tasks * 3 / 10 / claims;
                let number = |claim: u64| History::Worked.open_task(claim * spread);
                let nth = 2 * (round * CLAIMS + n);
                let request = fixture::claim(number(nth), &format!("i{nth}"))?;
                inside[which].time(|| Ok(engines[which].run(&request)?))?;
                let (instance, task) = (format!("w{nth}"), number(nth + 1).to_string());
                whole[which].time(|| repositories[which].run(&place.onus, &instance, &["claim", &task]))?;
            }
        }
    }
    let mut report = Report::default();
    for (what, times) in [("process", &whole), ("inside ", &inside)] {
        report.note(format!("{what}  at {SMALL} tasks      {}", times[0].describe()));
        report.note(format!("{what}  at {LARGE} tasks   {}", times[1].describe()));
    }
    report.check("whole process, large / small", whole[1].over(&whole[0]), Target::AtMost(1.3));
    report.check("inside an open store, large / small", inside[1].over(&inside[0]), Target::None);
    Ok(report)
}
