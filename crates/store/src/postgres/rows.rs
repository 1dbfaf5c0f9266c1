//! Values, rows and statements for PostgreSQL's driver.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use onus_core::actor::Actor;
use onus_core::ids::{Token, Uid};
use onus_core::scope::{Reservations, Scope};
use onus_core::text::{Salt, TextKey};

use crate::rows::near::rows_of;
use crate::rows::rebuild::TextPlace;
use crate::rows::{Cells, Decoded, Dialect, Expect, Row, Sql, Statements, Unreadable, Value, decode};
use crate::{CallerRows, Result};

use super::connection;
use super::search::vector;
use super::session::Session;

/// SQL integers are signed; our counters never get that large.
pub(super) fn to_sql(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(number) => number.to_sql_checked(kind, out),
            Value::Bool(is) => is.to_sql_checked(kind, out),
            Value::Text(text) => text.as_ref().to_sql_checked(kind, out),
            Value::Bytes(bytes) => bytes.as_ref().to_sql_checked(kind, out),
        }
    }

    fn accepts(_kind: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl Row for tokio_postgres::Row {
    fn len(&self) -> usize {
        tokio_postgres::Row::len(self)
    }

    fn value(&self, at: usize) -> Decoded<Value<'_>> {
        match self.columns().get(at).map(|column| column.type_()) {
            Some(&Type::INT8) => self.try_get::<_, Option<i64>>(at).map(Value::from),
            Some(&Type::BOOL) => self.try_get::<_, Option<bool>>(at).map(Value::from),
            Some(&Type::BYTEA) => self.try_get::<_, Option<&[u8]>>(at).map(Value::from),
            _ => self.try_get::<_, Option<&str>>(at).map(Value::from),
        }
        .map_err(Unreadable::because)
    }
}

/// The project, the caller's name with aliases resolved, and its actor and instance if known.
pub(super) fn caller(cells: &mut Cells<'_>) -> Decoded<CallerRows> {
    let (project, name) = (decode::project(cells)?, cells.parsed()?);
    let actor = match cells.optional_parsed()? {
        Some(name) => Some(Actor { name, tier: cells.get()?, registered_at_ms: cells.get()? }),
        None => {
            cells.skip(2);
            None
        }
    };
    let instance = if cells.is_null() { None } else { Some(decode::instance(cells)?) };
    Ok(CallerRows { project, name, actor, instance })
}

fn by_reference<'a>(values: &'a [Value<'a>]) -> Vec<connection::Value<'a>> {
    values.iter().map(|value| value as connection::Value<'a>).collect()
}

impl Statements for Session<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn stream(&self) -> &str {
        self.stream
    }

    fn ask(
        &mut self,
        sql: Sql<'_>,
        values: &[Value<'_>],
        visit: &mut dyn FnMut(&dyn Row) -> Result<bool>,
    ) -> Result<()> {
        for row in &self.rows(sql.postgres, &by_reference(values))? {
            if !visit(row)? {
                break;
            }
        }
        Ok(())
    }

    fn run(&mut self, sql: Sql<'_>, values: &[Value<'_>]) -> Result<u64> {
        self.run(sql.postgres, &by_reference(values))
    }

    fn run_later(&mut self, sql: Sql<'_>, values: &[Value<'_>], expect: Expect) -> Result<()> {
        self.run_later(sql.postgres, &by_reference(values), expect)
    }

    fn settled(&mut self) -> Result<i64> {
        self.settled()
    }

    fn reserve(&mut self, task: Uid, token: Token, reservations: &Reservations) -> Result<()> {
        let (mut globs, mut anchors, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
        let (mut worktrees, mut areas, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows_of(reservations) {
            globs.push(row.glob);
            anchors.push(row.anchor);
            kinds.push(row.kind);
            worktrees.push(row.worktree);
            areas.push(row.area);
            parts.push(row.part);
        }
        self.run_later(
            "INSERT INTO scope (project, task, token, glob, glob_hash, anchor, kind, worktree, area, part, changed, held) \
             SELECT $1, $2, $3, new.glob, sha256(convert_to(new.glob, 'UTF8')), new.anchor, new.kind, new.worktree, \
             new.area, new.part, false, true \
             FROM unnest($4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[]) \
             AS new (glob, anchor, kind, worktree, area, part) \
             ON CONFLICT (project, task, token, glob_hash, anchor, kind, worktree, part) DO NOTHING",
            &[&task.to_string(), &to_sql(token.0), &globs, &anchors, &kinds, &worktrees, &areas, &parts],
            Expect::Success,
        )
    }

    fn unreserve(&mut self, task: Uid, token: Token, scope: &Scope) -> Result<()> {
        let globs: Vec<&str> = scope.globs().iter().map(|glob| glob.as_str()).collect();
        self.run(
            "DELETE FROM scope WHERE project = $1 AND task = $2 AND token = $3 AND glob = ANY($4)",
            &[&task.to_string(), &to_sql(token.0), &globs],
        )
        .map(drop)
    }

    fn put_text(
        &mut self,
        (stream, version, field): (&str, u64, &str),
        salt: &Salt,
        text: &str,
    ) -> Result<()> {
        // Index whatever may ever be searchable; the column `indexed` says whether it is now.
        let words =
            matches!(field, "title" | "body" | "note" | "reason" | "acceptance").then(|| vector(text));
        self.run_later(
            "INSERT INTO text (project, stream, version, field, salt, body, words) \
             VALUES ($1, $2, $3, $4, $5, $6, $7::text::tsvector)",
            &[&stream, &to_sql(version), &field, &salt.as_slice(), &text, &words],
            Expect::Success,
        )
    }

    fn index(&mut self, key: TextKey, indexed: bool) -> Result<()> {
        self.run_later(
            "UPDATE text SET indexed = $5 WHERE project = $1 AND stream = $2 AND version = $3 AND field = $4 \
             AND indexed <> $5",
            &[&key.stream.to_string(), &to_sql(key.version.0), &key.field.as_str(), &indexed],
            Expect::Success,
        )
    }

    fn mend_index(&mut self, texts: &[(TextPlace, bool)]) -> Result<()> {
        for ((stream, version, field), indexed) in texts {
            let body: Option<String> = self.one(
                "SELECT body FROM text WHERE project = $1 AND stream = $2 AND version = $3 AND field = $4",
                &[stream, version, field],
                |cells| cells.get(),
            )?;
            self.run(
                "UPDATE text SET indexed = $5, words = $6::text::tsvector \
                 WHERE project = $1 AND stream = $2 AND version = $3 AND field = $4",
                &[stream, version, field, indexed, &vector(&body.unwrap_or_default())],
            )?;
        }
        Ok(())
    }
}
