//! What a server gains by grouping its callers: 64 claims in one transaction against 64 transactions.

use crate::Result;
use crate::fixture::{self, History};
use crate::measure::{Report, Target, Times};
use crate::place::Place;
use onus_store::Access;

pub(crate) const ABOUT: &str = "64 callers through one batch of the engine against one commit each";

const ROUNDS: u64 = 9;
const REPEATS: u64 = 8;
const CALLERS: u64 = 64;
const TASKS: u64 = 16_384;

pub(crate) fn run(place: &Place) -> Result<Report> {
    let repository = fixture::repository(place, "batch", TASKS, History::Fresh)?;
    let mut engine = fixture::engine(&repository.store(), Access::Write)?;
    let mut number = 0;
    let mut callers = || -> Result<Vec<_>> {
        number += CALLERS;
        (number - CALLERS..number).map(|n| fixture::claim(n + 1, &format!("i{n}"))).collect()
    };
    let (mut alone, mut together) = (Times::default(), Times::default());
    for _ in 0..ROUNDS {
        alone.next_round();
        together.next_round();
        for _ in 0..REPEATS {
            let requests = callers()?;
            alone.time(|| {
                for request in &requests {
                    engine.run(request)?;
                }
                Ok(())
            })?;
            let requests = callers()?;
            let answers = together.time(|| Ok(engine.execute(&requests)))?;
            for answer in answers {
                answer?;
            }
        }
    }
    let mut report = Report::default();
    report.note(format!("64 commits of one claim   {}", alone.describe()));
    report.note(format!("one commit of 64 claims   {}", together.describe()));
    report.check("64 commits / one batch of 64", alone.over(&together), Target::AtLeast(5.0));
    Ok(report)
}
