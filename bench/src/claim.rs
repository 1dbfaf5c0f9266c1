//! A whole `onus claim`, from exec to exit, against the least that any durable program costs on this machine: an
//! empty program, and one commit of SQLite on a connection that is open already.

use rusqlite::Connection;

use crate::Result;
use crate::fixture::{self, History};
use crate::measure::{Report, Target, Times};
use crate::place::{Place, Repository};

pub(crate) const ABOUT: &str =
    "a whole `onus claim` process against an empty program plus one durable commit";

const ROUNDS: u64 = 9;
const CLAIMS: u64 = 100;
const TASKS: u64 = 1_000;

pub(crate) fn run(place: &Place) -> Result<Report> {
    let repository = fixture::repository(place, "claim", TASKS, History::Fresh)?;
    let yardstick = yardstick(&repository)?;
    let (mut claims, mut empties, mut commits) = (Times::default(), Times::default(), Times::default());
    for round in 0..ROUNDS {
        [&mut claims, &mut empties, &mut commits].into_iter().for_each(Times::next_round);
        for n in 0..CLAIMS {
            let number = round * CLAIMS + n + 1;
            let (instance, task) = (format!("i{number}"), number.to_string());
            empties.time(|| repository.run(&place.empty, &instance, &["claim", &task]))?;
            commits.time(|| commit(&yardstick, number))?;
            claims.time(|| repository.run(&place.onus, &instance, &["claim", &task]))?;
        }
    }
    let least: Vec<f64> =
        empties.means().iter().zip(commits.means()).map(|(empty, commit)| empty + commit).collect();
    let mut report = Report::default();
    report.note(format!("onus claim      {}", claims.describe()));
    report.note(format!("empty program   {}", empties.describe()));
    report.note(format!("durable commit  {}", commits.describe()));
    let ratios = claims.means().iter().zip(least).map(|(claim, least)| claim / least).collect();
    report.check("claim / (empty program + durable commit)", ratios, Target::AtMost(2.0));
    Ok(report)
}

pub(crate) fn yardstick(repository: &Repository) -> Result<Connection> {
    let connection = Connection::open(repository.root.join("yardstick.db"))?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.execute_batch("CREATE TABLE small (id INTEGER PRIMARY KEY, value INTEGER NOT NULL)")?;
    Ok(connection)
}

pub(crate) fn commit(connection: &Connection, value: u64) -> Result<()> {
    connection.prepare_cached("INSERT INTO small (value) VALUES (?1)")?.execute([i64::try_from(value)?])?;
    Ok(())
}
