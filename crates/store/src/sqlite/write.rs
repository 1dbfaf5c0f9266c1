//! The writes that SQLite does in its own way.

use rusqlite::params_from_iter;

use crate::rows::near::{AnchoredRow, rows_of};
use crate::rows::rebuild::TextPlace;
use crate::rows::write::{self, shared_writes};
use crate::rows::{Ask as _, Dialect, Expect, Row, Sql, Statements, Value, missing_row, values};
use crate::*;

use super::failed;
use super::read::Session;

impl Statements for Session<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn stream(&self) -> &str {
        self.project
    }

    fn ask(
        &mut self,
        sql: Sql<'_>,
        values: &[Value<'_>],
        visit: &mut dyn FnMut(&dyn Row) -> Result<bool>,
    ) -> Result<()> {
        let fail = |error: rusqlite::Error| failed(&error, self.path);
        let mut statement = self.connection.prepare_cached(sql.sqlite).map_err(fail)?;
        let mut rows = statement.query(params_from_iter(values)).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            if !visit(row)? {
                break;
            }
        }
        Ok(())
    }

    fn run(&mut self, sql: Sql<'_>, values: &[Value<'_>]) -> Result<u64> {
        let run = || self.connection.prepare_cached(sql.sqlite)?.execute(params_from_iter(values));
        run().map(|rows| rows as u64).map_err(|error| failed(&error, self.path))
    }

    /// There is no round trip to save: runs at once.
    fn run_later(&mut self, sql: Sql<'_>, values: &[Value<'_>], expect: Expect) -> Result<()> {
        let changed = self.run(sql, values)?;
        match expect {
            Expect::Success => Ok(()),
            Expect::OneRow | Expect::RowsOrRetry(1) if changed == 1 => Ok(()),
            Expect::OneRow | Expect::RowsOrRetry(_) => Err(missing_row()),
        }
    }

    /// There is one writer at a time: no event can be added before an existing one.
    fn settled(&mut self) -> Result<i64> {
        Ok(i64::MAX)
    }

    fn reserve(&mut self, task: Uid, token: Token, reservations: &Reservations) -> Result<()> {
        let sql = Sql::only(
            "INSERT INTO scope (task, token, glob, anchor, kind, worktree, area, part, changed, held) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, false, true) ON CONFLICT DO NOTHING",
        );
        for row in rows_of(reservations) {
            let AnchoredRow { glob, anchor, kind, area, worktree, part, changed: _ } = row;
            self.run(sql, values![task, token, glob, anchor, kind, worktree, area, part])?;
        }
        Ok(())
    }

    fn unreserve(&mut self, task: Uid, token: Token, scope: &Scope) -> Result<()> {
        let sql = Sql::only("DELETE FROM scope WHERE task = ?1 AND token = ?2 AND glob = ?3");
        for glob in scope.globs() {
            self.run(sql, values![task, token, glob.as_str()])?;
        }
        Ok(())
    }

    fn put_text(
        &mut self,
        (stream, version, field): (&str, u64, &str),
        salt: &Salt,
        text: &str,
    ) -> Result<()> {
        let sql =
            Sql::only("INSERT INTO text (stream, version, field, salt, body) VALUES (?1, ?2, ?3, ?4, ?5)");
        self.run(sql, values![stream, version, field, salt, text]).map(drop)
    }

    fn index(&mut self, key: TextKey, indexed: bool) -> Result<()> {
        let text: Option<(i64, String)> = self.one(
            Sql::only(
                "SELECT id, body FROM text WHERE stream = ?1 AND version = ?2 AND field = ?3 AND indexed = NOT ?4",
            ),
            values![key.stream, key.version, key.field, indexed],
            |cells| Ok((cells.get()?, cells.get()?)),
        )?;
        let Some((id, body)) = text else { return Ok(()) };
        let sql = match indexed {
            true => "INSERT INTO search (rowid, body) VALUES (?1, ?2)",
            false => "INSERT INTO search (search, rowid, body) VALUES ('delete', ?1, ?2)",
        };
        self.run(Sql::only(sql), values![id, &body])?;
        self.run_on_one(Sql::only("UPDATE text SET indexed = ?2 WHERE id = ?1"), values![id, indexed])
    }

    fn mend_index(&mut self, texts: &[(TextPlace, bool)]) -> Result<()> {
        let sql = Sql::only("UPDATE text SET indexed = ?4 WHERE stream = ?1 AND version = ?2 AND field = ?3");
        for ((stream, version, field), indexed) in texts {
            self.run(sql, values![stream, *version, field, *indexed])?;
        }
        self.run(Sql::only("INSERT INTO search (search) VALUES ('rebuild')"), &[]).map(drop)
    }
}

impl Write for Session<'_> {
    shared_writes!();

    /// `BEGIN IMMEDIATE` has already locked every row.
    fn lock_task(&mut self, uid: Uid) -> Result<Option<Task>> {
        self.task(uid)
    }

    fn lock_seat(&mut self, name: &SeatName) -> Result<Option<Seat>> {
        self.seat_named(name)
    }

    fn lock_project(&mut self) -> Result<Project> {
        self.project()
    }

    fn next_number(&mut self) -> Result<Number> {
        Ok(Number(self.last_number()?.0 + 1))
    }

    fn next_seat(&mut self) -> Result<Number> {
        Ok(Number(self.last_seat()?.0 + 1))
    }

    fn append(&mut self, event: &Event, texts: &[(Field, Salt, String)]) -> Result<()> {
        // No lease depends on the time of an event of the project itself.
        if event.task.is_some() {
            self.remember_time()?;
        }
        write::append(self, event, texts)
    }

    /// One prepared statement, run for each pulse: some 4 µs per lease. A single statement over a JSON array
    /// of them took three times as long.
    fn pulse(&mut self, pulses: &[(Uid, Token, Pulse)]) -> Result<()> {
        self.remember_time()?;
        pulses.iter().try_for_each(|(task, token, pulse)| write::set_pulse(self, *task, *token, pulse, None))
    }

    fn erase(&mut self, key: TextKey) -> Result<()> {
        let now_ms = self.now().wall_ms;
        write::erase(self, key, now_ms)
    }

    fn savepoint(&mut self) -> Result<()> {
        self.run(Sql::only("SAVEPOINT part"), &[]).map(drop)
    }

    fn release(&mut self) -> Result<()> {
        self.run(Sql::only("RELEASE part"), &[]).map(drop)
    }

    fn undo(&mut self) -> Result<()> {
        self.run(Sql::only("ROLLBACK TO part"), &[])?;
        self.release()
    }
}
