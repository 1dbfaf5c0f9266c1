//! What leases reserve: a row for each anchor of a glob. Those of leases that have not ended are indexed by it, so that
//! a claim or a first touch meets only the few globs that could collide with its own; of those, only the ones whose
//! heads allow it are read.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Params, Row, params};

use onus_core::ids::{Token, Uid};
use onus_core::scope::{Glob, Heads, Scope, anchor, head};

use crate::Result;

use super::read::Session;
use super::rows::{parsed, to_sql, unsigned};

/// The rows of a scope.
pub(super) fn rows_of(scope: &Scope) -> impl Iterator<Item = (&str, String)> {
    scope.globs().iter().flat_map(|glob| glob.anchors().into_iter().map(|anchor| (glob.as_str(), anchor)))
}

/// Heads of one's own globs, by the anchor they are looked for at.
type Looks<'a> = BTreeMap<&'a str, Vec<&'a str>>;

impl Session<'_> {
    pub(super) fn held_near(&self, scope: &Scope) -> Result<Vec<(Uid, Token, Glob)>> {
        let mine: Vec<(String, &str)> = scope
            .globs()
            .iter()
            .flat_map(|glob| glob.anchors().into_iter().map(|anchor| (anchor, glob.head())))
            .collect();
        let (mut below, mut above) = (Looks::new(), Looks::new());
        for (anchor, head) in &mine {
            below.entry(anchor).or_default().push(head);
            for ancestor in anchor::ancestors(anchor) {
                above.entry(ancestor).or_default().push(head);
            }
        }
        let mut found = BTreeSet::new();
        for (anchor, heads) in above {
            self.meeting(
                "SELECT task, token, glob FROM scope WHERE held = 1 AND anchor = ?1",
                [anchor],
                &heads.into_iter().collect(),
                &mut found,
            )?;
        }
        for (anchor, heads) in below {
            let heads = heads.into_iter().collect();
            match anchor::range_end(anchor) {
                Some(end) => self.meeting(
                    "SELECT task, token, glob FROM scope WHERE held = 1 AND anchor >= ?1 AND anchor < ?2",
                    [anchor, end.as_str()],
                    &heads,
                    &mut found,
                )?,
                None => self.meeting(
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
