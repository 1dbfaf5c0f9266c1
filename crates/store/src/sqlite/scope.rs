//! What leases reserve, a row a glob. Those of leases that have not ended are indexed by their anchors, so that a claim
//! or a first touch meets only the few globs that could collide with its own.

use std::collections::BTreeSet;

use rusqlite::{Row, params};

use onus_core::ids::{Token, Uid};
use onus_core::scope::{Glob, Scope, anchor};

use crate::Result;

use super::read::Session;
use super::rows::{parsed, to_sql, unsigned};

impl Session<'_> {
    pub(super) fn held_near(&self, scope: &Scope) -> Result<Vec<(Uid, Token, Glob)>> {
        let (mut below, mut above) = (BTreeSet::new(), BTreeSet::new());
        for glob in scope.globs() {
            below.insert(glob.anchor());
            above.extend(anchor::ancestors(glob.anchor()));
        }
        let mut found = BTreeSet::new();
        for anchor in above.difference(&below) {
            found.extend(self.all(
                "SELECT task, token, glob FROM scope WHERE held = 1 AND anchor = ?1",
                [anchor],
                reserved,
            )?);
        }
        for anchor in below {
            found.extend(match anchor::range_end(anchor) {
                Some(end) => self.all(
                    "SELECT task, token, glob FROM scope WHERE held = 1 AND anchor >= ?1 AND anchor < ?2",
                    [anchor, end.as_str()],
                    reserved,
                )?,
                None => self.all(
                    "SELECT task, token, glob FROM scope WHERE held = 1 AND anchor >= ?1",
                    [anchor],
                    reserved,
                )?,
            });
        }
        Ok(found.into_iter().collect())
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
            "SELECT COUNT(*) FROM scope WHERE task = ?1 AND token = ?2",
            params![task.to_string(), to_sql(token.0)],
        )?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    pub(super) fn reserve(&self, task: Uid, token: Token, scope: &Scope) -> Result<()> {
        for glob in scope.globs() {
            self.run(
                "INSERT INTO scope (task, token, glob, anchor, held) VALUES (?1, ?2, ?3, ?4, 1) \
                 ON CONFLICT (task, token, glob) DO NOTHING",
                params![task.to_string(), to_sql(token.0), glob.as_str(), glob.anchor()],
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
