//! What leases reserve, a row a glob; those of leases that have not ended are indexed by their anchors.

use std::collections::BTreeSet;

use postgres::Row;

use onus_core::ids::{Token, Uid};
use onus_core::scope::{Glob, Scope, anchor};

use crate::Result;

use super::Broken;
use super::rows::{parsed, to_sql, unsigned};
use super::session::Session;

impl Session<'_> {
    pub(super) fn held_near(&mut self, scope: &Scope) -> Result<Vec<(Uid, Token, Glob)>> {
        // A folder meets all below it, a path only itself; both meet the folders above.
        let (mut folders, mut points) = (BTreeSet::new(), BTreeSet::new());
        for glob in scope.globs() {
            let anchor = glob.anchor();
            if anchor.is_empty() || anchor.ends_with('/') {
                folders.insert(anchor);
            } else {
                points.insert(anchor.to_owned());
            }
            points.extend(anchor::ancestors(anchor).map(str::to_owned));
        }
        let points: Vec<String> = points.into_iter().collect();
        let mut found = BTreeSet::new();
        if !points.is_empty() {
            found.extend(self.all(
                "SELECT task, token, glob FROM scope WHERE project = $1 AND held AND anchor = ANY($2)",
                &[&points],
                reserved,
            )?);
        }
        for folder in folders {
            found.extend(match anchor::range_end(folder) {
                Some(end) => self.all(
                    "SELECT task, token, glob FROM scope WHERE project = $1 AND held AND anchor >= $2 AND anchor < $3",
                    &[&folder, &end.as_str()],
                    reserved,
                )?,
                None => self.all(
                    "SELECT task, token, glob FROM scope WHERE project = $1 AND held AND anchor >= $2",
                    &[&folder],
                    reserved,
                )?,
            });
        }
        Ok(found.into_iter().collect())
    }

    pub(super) fn reserved_by(&mut self, task: Uid, token: Token) -> Result<Scope> {
        let globs = self.all(
            "SELECT task, token, glob FROM scope WHERE project = $1 AND task = $2 AND token = $3",
            &[&task.to_string(), &to_sql(token.0)],
            reserved,
        )?;
        Ok(globs.into_iter().map(|(_, _, glob)| glob).collect())
    }

    pub(super) fn count_reserved_by(&mut self, task: Uid, token: Token) -> Result<usize> {
        let count = self.number(
            "SELECT COUNT(*) FROM scope WHERE project = $1 AND task = $2 AND token = $3",
            &[&task.to_string(), &to_sql(token.0)],
        )?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    pub(super) fn reserve(&mut self, task: Uid, token: Token, scope: &Scope) -> Result<()> {
        let globs: Vec<String> = scope.globs().iter().map(|glob| glob.as_str().to_owned()).collect();
        let anchors: Vec<String> = scope.globs().iter().map(|glob| glob.anchor().to_owned()).collect();
        self.run(
            "INSERT INTO scope (project, task, token, glob, anchor, held) \
             SELECT $1, $2, $3, pair.glob, pair.anchor, true FROM unnest($4::text[], $5::text[]) AS pair (glob, anchor) \
             ON CONFLICT (project, task, token, glob) DO NOTHING",
            &[&task.to_string(), &to_sql(token.0), &globs, &anchors],
        )
        .map(drop)
    }

    pub(super) fn unreserve(&mut self, task: Uid, token: Token, scope: &Scope) -> Result<()> {
        let globs: Vec<String> = scope.globs().iter().map(|glob| glob.as_str().to_owned()).collect();
        self.run(
            "DELETE FROM scope WHERE project = $1 AND task = $2 AND token = $3 AND glob = ANY($4)",
            &[&task.to_string(), &to_sql(token.0), &globs],
        )
        .map(drop)
    }

    /// The lease has ended, or goes on.
    pub(super) fn hold(&mut self, task: Uid, token: Token, held: bool) -> Result<()> {
        self.run(
            "UPDATE scope SET held = $4 WHERE project = $1 AND task = $2 AND token = $3 AND held <> $4",
            &[&task.to_string(), &to_sql(token.0), &held],
        )
        .map(drop)
    }
}

pub(super) fn reserved(row: &Row) -> std::result::Result<(Uid, Token, Glob), Broken> {
    Ok((parsed(row.try_get(0)?)?, Token(unsigned(row.try_get(1)?)?), parsed(row.try_get(2)?)?))
}
