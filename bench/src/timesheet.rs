//! Whether the hours of a short time cost more in a store with a million sessions, and whether adding all of them up needs more
//! memory.

use onus_core::timesheet::{Calendar, Day};
use onus_engine::{Billing, By, Engine, SheetQuery};
use onus_store::{Access, SqliteStore};

use crate::Result;
use crate::fixture::{self, BEGAN_MS, History};
use crate::lists::peak_kb;
use crate::measure::{Report, Target, Times};
use crate::place::{Place, Repository};

pub(crate) const ABOUT: &str =
    "hours and flow of the same 600 sessions at 1,000,000 sessions against 10,000; memory of all of them";

const SMALL: u64 = 10_000;
const LARGE: u64 = 1_000_000;
const ROUNDS: usize = 7;
const READS: usize = 10;

/// Ten minutes, with a session each second: what a week is in a busy store.
fn window() -> Result<Calendar> {
    let start_ms = BEGAN_MS + 3_600_000;
    let day = Day { start_ms, date: "then".to_owned(), week: "then".to_owned() };
    Calendar::new(vec![day], start_ms + 600_000).ok_or_else(|| "no calendar".into())
}

pub(crate) fn run(place: &Place) -> Result<Report> {
    let filled = |tasks| fixture::repository(place, &format!("timesheet-{tasks}"), tasks, History::Done);
    let repositories = [filled(SMALL)?, filled(LARGE)?];
    let open = |repository: &Repository| fixture::engine(&repository.store(), Access::Read);
    let mut engines: [Engine<SqliteStore>; 2] = [open(&repositories[0])?, open(&repositories[1])?];
    let query = SheetQuery {
        calendar: window()?,
        by: vec![By::Actor, By::Task],
        actor: None,
        under: None,
        tag: None,
        billing: Billing::default(),
    };
    let pair = || [Times::default(), Times::default()];
    let (mut hours, mut flow) = (pair(), pair());
    for _ in 0..ROUNDS {
        hours.iter_mut().chain(&mut flow).for_each(Times::next_round);
        for _ in 0..READS {
            for (which, engine) in engines.iter_mut().enumerate() {
                let sheet = hours[which].time(|| Ok(engine.timesheet(None, &query, None, &mut |_| {})?))?;
                // Those that began before it and reach into it, too.
                if !(600..=605).contains(&sheet.value.rows.len()) {
                    return Err(format!("{} rows", sheet.value.rows.len()).into());
                }
                flow[which].time(|| Ok(engine.flow(None, &query.calendar, &mut |_| {})?))?;
            }
        }
    }
    let mut report = Report::default();
    for (what, times) in [("timesheet", &hours), ("flow", &flow)] {
        for (which, sessions) in [SMALL, LARGE].into_iter().enumerate() {
            report.note(format!("{what:9} at {sessions:>7} sessions: {}", times[which].describe()));
        }
        report.check(&format!("{what}, large / small"), times[1].over(&times[0]), Target::AtMost(2.0));
    }
    let days = ["--since", "2025-06-14", "--until", "2025-06-28", "--zone", "UTC"];
    for command in [&["timesheet", "--by", "actor,day"] as &[&str], &["report", "flow"]] {
        let args = [command, &days].concat();
        let mut ratios = Vec::new();
        for _ in 0..3 {
            let [small, large] = &repositories;
            ratios.push(peak_kb(place, large, &args)? / peak_kb(place, small, &args)?);
        }
        report.check(&format!("memory of {}, all / few", command.join(" ")), ratios, Target::AtMost(1.3));
    }
    Ok(report)
}
