//! One transaction, and the reads that SQLite does in its own way.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;

use crate::rows::columns::SCOPE_COLUMNS;
use crate::rows::near::{Probe, Span, meeting, probes};
use crate::rows::read::shared_reads;
use crate::rows::sql::sql;
use crate::rows::{Ask as _, Sql, Statements as _, Value, values};
use crate::*;

use super::Clock;

/// Reservations of leases that have not ended.
const NEAR: &str = sql!("SELECT ", SCOPE_COLUMNS, " FROM scope WHERE held").sqlite;

/// One transaction, for reading and, inside [`crate::Store::write`], for writing.
pub(super) struct Session<'a> {
    pub(super) connection: &'a Connection,
    pub(super) path: &'a Path,
    pub(super) clock: &'a Clock,
    pub(super) project: &'a str,
    /// The latest time that the store had seen before this transaction.
    latest: Option<Moment>,
}

impl<'a> Session<'a> {
    pub(super) fn begin(
        connection: &'a Connection,
        path: &'a Path,
        clock: &'a Clock,
        project: &'a str,
    ) -> Result<Session<'a>> {
        let mut session = Session { connection, path, clock, project, latest: None };
        let latest = Sql::only("SELECT wall_ms, tick_ms, domain FROM latest");
        session.latest = session.one(latest, &[], |cells| cells.moment())?;
        Ok(session)
    }

    /// Remembers the time of a change, so that setting the wall clock back before the next boot does not
    /// revive a lease that had lapsed by then.
    pub(super) fn remember_time(&mut self) -> Result<()> {
        let now = self.now();
        let sql = Sql::only("REPLACE INTO latest (id, wall_ms, tick_ms, domain) VALUES (1, ?1, ?2, ?3)");
        self.run(sql, values![now.latest_ms, now.tick_ms, now.domain.as_str()]).map(drop)
    }
}

impl Read for Session<'_> {
    shared_reads!();

    fn now(&mut self) -> Moment {
        let now = (self.clock)();
        match &self.latest {
            Some(latest) => now.knowing(latest),
            None => now,
        }
    }

    fn details(&mut self, shown: &Shown) -> Result<Details> {
        let mut texts = Vec::new();
        for version in &shown.versions {
            texts.extend(self.texts(shown.task, *version)?);
        }
        // Most tasks have no dependencies. Checking that first costs a third of reading their numbers.
        let needs = match self.neighbours(shown.task, Direction::Upstream)?.is_empty() {
            true => Vec::new(),
            false => self.neighbour_numbers(shown.task, Direction::Upstream)?,
        };
        Ok(Details { texts, needs })
    }

    fn scopes_near(&mut self, scope: &Scope) -> Result<Vec<(Uid, Token, Reservation)>> {
        let mut found = BTreeSet::new();
        for Probe { anchor, span, heads } in probes(scope) {
            let (sql, values) = match span {
                Span::Itself => (sql!(NEAR, " AND anchor = ?1"), vec![anchor]),
                Span::Until(end) => (sql!(NEAR, " AND anchor >= ?1 AND anchor < ?2"), vec![anchor, end]),
                Span::Rest => (sql!(NEAR, " AND anchor >= ?1"), vec![anchor]),
            };
            let values: Vec<Value<'_>> = values.into_iter().map(Value::from).collect();
            self.ask(sql, &values, &mut |row| {
                found.extend(meeting(row, Some(&heads))?);
                Ok(true)
            })?;
        }
        Ok(found.into_iter().collect())
    }

    fn search(&mut self, words: &[String], ad_hoc: bool, limit: u64) -> Result<Vec<Uid>> {
        if words.is_empty() {
            return Ok(Vec::new());
        }
        // Each word may be in a different text of the task: title, body or a note.
        let hits = (1..=words.len()).map(|i| {
            format!(
                "SELECT text.stream AS task, MIN(search.rank) AS score FROM search JOIN text ON text.id = search.rowid \
                 WHERE search MATCH ?{i} GROUP BY text.stream"
            )
        });
        let sql = format!(
            "SELECT task FROM ({}) WHERE {} GROUP BY task HAVING COUNT(*) = {} ORDER BY SUM(score), task LIMIT {limit}",
            hits.collect::<Vec<_>>().join(" UNION ALL "),
            if ad_hoc { "TRUE" } else { "NOT (SELECT ad_hoc FROM task AS found WHERE found.uid = task)" },
            words.len()
        );
        let phrases = words.iter().map(|word| format!("\"{}\"*", word.replace('"', "\"\"")).into());
        self.uids(Sql::only(&sql), &phrases.collect::<Vec<Value<'_>>>())
    }
}
