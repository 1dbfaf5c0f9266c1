//! What leases reserve: a row for each anchor of a glob. Those of leases that have not ended are indexed by it, so that
//! a claim or a first touch meets only the few globs that could collide with its own; of those, only the ones whose
//! heads allow it are read.

use std::collections::BTreeSet;

use rusqlite::{Params, Row, params};

use onus_core::ids::{Token, Uid};
use onus_core::scope::{Glob, Heads, Scope, head};

use crate::Result;
use crate::near::{Look, Span, looks, rows_of};

use super::read::Session;
use super::rows::{parsed, to_sql, unsigned};

impl Session<'_> {
    pub(super) fn held_near(&self, scope: &Scope) -> Result<Vec<(Uid, Token, Glob)>> {
        let mut found = BTreeSet::new();
        for Look { anchor, span, heads } in looks(scope) {
            match span {
                Span::Itself => self.meeting(
                    "SELECT task, token, glob FROM scope WHERE held = 1 AND anchor = ?1",
                    [anchor],
                    &heads,
                    &mut found,
                )?,
                Span::Until(end) => self.meeting(
                    "SELECT task, token, glob FROM scope WHERE held = 1 AND anchor >= ?1 AND anchor < ?2",
                    [anchor, end],
                    &heads,
                    &mut found,
                )?,
                Span::Rest => self.meeting(
                    "SELECT task, token, glob FROM scope WHERE held = 1 AND anchor >= ?1",
                    [anchor],
                    &heads,
                    &mut found,
                )?,
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Adds the rows whose heads meet these.
    fn meeting(
        &self,
        sql: &str,
        params: impl Params,
        heads: &Heads<'_>,
        found: &mut BTreeSet<(Uid, Token, Glob)>,
    ) -> Result<()> {
        let rows = self.all(sql, params, |row| {
            let is_apart = row.get_ref(2)?.as_str().is_ok_and(|glob| !heads.meet(head(glob)));
            if is_apart { Ok(None) } else { reserved(row).map(Some) }
        })?;
        found.extend(rows.into_iter().flatten());
        Ok(())
    }

    pub(super) fn reserved_by(&self, task: Uid, token: Token) -> Result<Scope> {
        let globs = self.all(
            "SELECT task, token, glob FROM scope WHERE task = ?1 AND token = ?2",
            params![task.to_string(), to_sql(token.0)],
            reserved,
        )?;
        Ok(globs.into_iter().map(|(_, _, glob)| glob).collect())
    }

    pub(super) fn count_reserved_by(&self, task: Uid, token: Token) -> Result<usize> {
        let count = self.number(
            "SELECT COUNT(DISTINCT glob) FROM scope WHERE task = ?1 AND token = ?2",
            params![task.to_string(), to_sql(token.0)],
        )?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    pub(super) fn reserve(&self, task: Uid, token: Token, scope: &Scope) -> Result<()> {
        let task = task.to_string();
        for (glob, anchor) in rows_of(scope) {
            self.run(
                "INSERT OR IGNORE INTO scope (task, token, glob, anchor, held) VALUES (?1, ?2, ?3, ?4, 1)",
                params![task, to_sql(token.0), glob, anchor],
            )?;
        }
        Ok(())
    }

    pub(super) fn unreserve(&self, task: Uid, token: Token, scope: &Scope) -> Result<()> {
        for glob in scope.globs() {
            self.run(
                "DELETE FROM scope WHERE task = ?1 AND token = ?2 AND glob = ?3",
                params![task.to_string(), to_sql(token.0), glob.as_str()],
            )?;
        }
        Ok(())
    }

    /// The lease has ended, or goes on.
    pub(super) fn hold(&self, task: Uid, token: Token, held: bool) -> Result<()> {
        self.run(
            "UPDATE scope SET held = ?3 WHERE task = ?1 AND token = ?2 AND held <> ?3",
            params![task.to_string(), to_sql(token.0), held],
        )
        .map(drop)
    }
}

fn reserved(row: &Row<'_>) -> rusqlite::Result<(Uid, Token, Glob)> {
    let glob = parsed(&row.get::<_, String>("glob")?)?;
    Ok((parsed(&row.get::<_, String>("task")?)?, Token(unsigned(row, "token")?), glob))
}
