//! What a list costs for each task in it, and whether it needs more memory the longer it is.

use std::process::Stdio;
use std::time::Duration;

use crate::Result;
use crate::fixture::{self, History};
use crate::measure::{Report, Target, Times};
use crate::place::{Place, Repository};

pub(crate) const ABOUT: &str =
    "each task of a long list against a bare read of its rows; memory of a long list against a short one";

const ROUNDS: usize = 7;
const READS: usize = 5;
const TASKS: u64 = 10_000;
/// Three of ten are ready.
const READY: f64 = 3_000.0;
const ALL: &str = "10000";
/// How often the memory of a process is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_micros(200);

pub(crate) fn run(place: &Place) -> Result<Report> {
    let filled = |tasks| fixture::repository(place, &format!("lists-{tasks}"), tasks, History::Worked);
    let repository = filled(TASKS)?;
    let connection = rusqlite::Connection::open(repository.store())?;
    let (mut one, mut all, mut bare) = (Times::default(), Times::default(), Times::default());
    for _ in 0..ROUNDS {
        [&mut one, &mut all, &mut bare].into_iter().for_each(Times::next_round);
        for _ in 0..READS {
            let ready = |limit| repository.run(&place.onus, "reader", &["ready", "--json", "--limit", limit]);
            one.time(|| ready("1"))?;
            all.time(|| ready(ALL))?;
            bare.time(|| read_rows(&connection))?;
        }
    }
    let each = |(all, one): (f64, f64)| (all - one) / (READY - 1.0);
    let each_ready: Vec<f64> = all.means().into_iter().zip(one.means()).map(each).collect();
    let each_bare: Vec<f64> = bare.means().into_iter().map(|all| all / READY).collect();
    let mut report = Report::default();
    report.note(format!("ready, 1 task: {}; 3,000 tasks: {}", one.describe(), all.describe()));
    let ratios = each_ready.iter().zip(&each_bare).map(|(mine, base)| mine / base).collect();
    report.check("a listed task, µs", each_ready, Target::None);
    report.check("a bare read of its rows, µs", each_bare, Target::None);
    report.check("listed / bare", ratios, Target::AtMost(4.0));
    memory(place, [&filled(1_000)?, &filled(100_000)?], &mut report)?;
    Ok(report)
}

/// The rows of every ready task, its title and what it depends on, as one who writes a list by hand would read them.
fn read_rows(connection: &rusqlite::Connection) -> Result<usize> {
    let mut tasks = connection.prepare_cached(
        "SELECT * FROM task WHERE state = 'open' AND NOT leased AND unmet = 0 ORDER BY priority, number",
    )?;
    let mut title = connection
        .prepare_cached("SELECT body FROM text WHERE stream = ?1 AND version = ?2 AND field = 'title'")?;
    let mut deps = connection
        .prepare_cached("SELECT number FROM dep JOIN task ON task.uid = dep.needs WHERE dep.task = ?1")?;
    let (columns, mut length) = (tasks.column_count(), 0);
    let mut rows = tasks.query([])?;
    while let Some(row) = rows.next()? {
        for at in 0..columns {
            length += match row.get_ref(at)? {
                rusqlite::types::ValueRef::Text(text) => text.len(),
                _ => 1,
            };
        }
        let (uid, version): (String, i64) = (row.get("uid")?, row.get("title_version")?);
        length += title.query_row((&uid, version), |row| row.get::<_, String>(0))?.len();
        let mut found = deps.query([&uid])?;
        while found.next()?.is_some() {
            length += 1;
        }
    }
    Ok(length)
}

/// The same list of a thousand tasks and of ten thousand, the most that one list has. It is not 1: SQLite's cache of pages, 2 MB, is
/// full in the larger store.
fn memory(place: &Place, [small, large]: [&Repository; 2], report: &mut Report) -> Result<()> {
    let lists: [&[&str]; 4] =
        [&["list", "--all"], &["list", "--all", "--json"], &["ready"], &["ready", "--json"]];
    for list in lists {
        let mut ratios = Vec::new();
        for _ in 0..3 {
            let list = [list, &["--limit", ALL]].concat();
            ratios.push(peak_kb(place, large, &list)? / peak_kb(place, small, &list)?);
        }
        report.check(&format!("memory of {}, long / short", list.join(" ")), ratios, Target::AtMost(1.3));
    }
    Ok(())
}

/// The most memory that a process had, up to its last `BETWEEN_LOOKS`.
pub(crate) fn peak_kb(place: &Place, repository: &Repository, list: &[&str]) -> Result<f64> {
    let mut command = repository.command(&place.onus, "reader");
    let mut child = command.args(list).stdout(Stdio::piped()).spawn()?;
    let mut answer = child.stdout.take().ok_or("no standard output")?;
    let reader = std::thread::spawn(move || std::io::copy(&mut answer, &mut std::io::sink()));
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kb = 0.0;
    // A process that has ended has no memory any more, so it is looked at until then.
    while let Some(kb) = std::fs::read_to_string(&status)?.lines().find_map(peak_of) {
        peak_kb = kb;
        std::thread::sleep(BETWEEN_LOOKS);
    }
    reader.join().map_err(|_| "the reader panicked")??;
    if !child.wait()?.success() || peak_kb == 0.0 {
        return Err(format!("{}: no answer", list.join(" ")).into());
    }
    Ok(peak_kb)
}

/// The peak memory that a line of a process's status reports.
fn peak_of(line: &str) -> Option<f64> {
    line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok()
}
