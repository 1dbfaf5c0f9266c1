//! What leases reserve: a row for each anchor of a glob; those of leases that have not ended are indexed by it.

use std::collections::BTreeSet;

use tokio_postgres::Row;

use onus_core::ids::{Token, Uid};
use onus_core::scope::{Glob, Heads, Scope, head};

use crate::Result;
use crate::near::{Look, Span, looks, rows_of};

use super::Broken;
use super::connection::Must;
use super::rows::{parsed, to_sql, unsigned};
use super::session::Session;

/// Places of one kind, in the order in which a statement is given them.
#[derive(Default)]
struct Looks<'a> {
    from: Vec<String>,
    until: Vec<String>,
    heads: Vec<Heads<'a>>,
}

impl<'a> Looks<'a> {
    fn add(&mut self, from: String, until: String, heads: Heads<'a>) {
        self.from.push(from);
        self.until.push(until);
        self.heads.push(heads);
    }
}

impl Session<'_> {
    /// Reservations are looked for under a lock that all who reserve queue for: in one statement, if one does.
    pub(super) fn held_near(&mut self, scope: &Scope) -> Result<Vec<(Uid, Token, Glob)>> {
        let (mut points, mut ranges, mut rest) = (Looks::default(), Looks::default(), None);
        for Look { anchor, span, heads } in looks(scope) {
            match span {
                Span::Itself => points.add(anchor, String::new(), heads),
                Span::Until(end) => ranges.add(anchor, end, heads),
                Span::Rest => rest = Some(heads),
            }
        }
        let mut found = BTreeSet::new();
        if !points.heads.is_empty() || !ranges.heads.is_empty() {
            let rows = self.all(
                "SELECT task, token, glob, look.place FROM unnest($2::text[]) WITH ORDINALITY AS look (anchor, place) \
                 JOIN scope ON scope.project = $1 AND held AND scope.anchor = look.anchor \
                 UNION ALL \
                 SELECT task, token, glob, -look.place \
                 FROM unnest($3::text[], $4::text[]) WITH ORDINALITY AS look (anchor, until, place) \
                 JOIN scope ON scope.project = $1 AND held AND scope.anchor >= look.anchor AND scope.anchor < look.until",
                &[&points.from, &ranges.from, &ranges.until],
                |row| {
                    let place: i64 = row.try_get(3)?;
                    let looks = if place > 0 { &points } else { &ranges };
                    meeting(row, looks.heads.get(usize::try_from(place.abs() - 1).unwrap_or(usize::MAX)))
                },
            )?;
            found.extend(rows.into_iter().flatten());
        }
        if let Some(heads) = rest {
            let sql = "SELECT task, token, glob FROM scope WHERE project = $1 AND held";
            found.extend(self.all(sql, &[], |row| meeting(row, Some(&heads)))?.into_iter().flatten());
        }
        Ok(found.into_iter().collect())
    }

    pub(super) fn reserved_by(&mut self, task: Uid, token: Token) -> Result<Scope> {
        if let Some(scope) = self.known.scope(task, token) {
            return Ok(scope.clone());
        }
        let globs = self.all(
            "SELECT task, token, glob FROM scope WHERE project = $1 AND task = $2 AND token = $3",
            &[&task.to_string(), &to_sql(token.0)],
            reserved,
        )?;
        Ok(globs.into_iter().map(|(_, _, glob)| glob).collect())
    }

    pub(super) fn count_reserved_by(&mut self, task: Uid, token: Token) -> Result<usize> {
        let count = self.number(
            "SELECT COUNT(DISTINCT glob) FROM scope WHERE project = $1 AND task = $2 AND token = $3",
            &[&task.to_string(), &to_sql(token.0)],
        )?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    pub(super) fn reserve(&mut self, task: Uid, token: Token, scope: &Scope) -> Result<()> {
        let (globs, anchors): (Vec<&str>, Vec<String>) = rows_of(scope).unzip();
        self.run_later(
            "INSERT INTO scope (project, task, token, glob, anchor, held) \
             SELECT $1, $2, $3, pair.glob, pair.anchor, true FROM unnest($4::text[], $5::text[]) AS pair (glob, anchor) \
             ON CONFLICT (project, task, token, glob, anchor) DO NOTHING",
            &[&task.to_string(), &to_sql(token.0), &globs, &anchors],
            Must::Run,
        )
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
        self.run_later(
            "UPDATE scope SET held = $4 WHERE project = $1 AND task = $2 AND token = $3 AND held <> $4",
            &[&task.to_string(), &to_sql(token.0), &held],
            Must::Run,
        )
    }
}

fn reserved(row: &Row) -> std::result::Result<(Uid, Token, Glob), Broken> {
    Ok((parsed(row.try_get(0)?)?, Token(unsigned(row.try_get(1)?)?), parsed(row.try_get(2)?)?))
}

/// The row, unless its head tells that it cannot meet these.
fn meeting(row: &Row, heads: Option<&Heads<'_>>) -> std::result::Result<Option<(Uid, Token, Glob)>, Broken> {
    let is_apart = heads.is_some_and(|heads| row.try_get(2).is_ok_and(|glob| !heads.meet(head(glob))));
    if is_apart { Ok(None) } else { reserved(row).map(Some) }
}
