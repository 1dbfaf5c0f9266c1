//! Finds what other leases reserve: in one statement, because each statement is a round trip.

use std::collections::BTreeSet;

use onus_core::ids::{Token, Uid};
use onus_core::scope::{Heads, Reservation, Scope};

use crate::Result;
use crate::rows::Row as _;
use crate::rows::near::{Probe, Span, meeting, probes};

use super::session::Session;

/// Places of one kind, in the order in which a statement gets them.
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

/// Everyone who reserves queues for the lock under which this runs, so it takes one statement if possible.
pub(super) fn scopes_near(
    session: &mut Session<'_>,
    scope: &Scope,
) -> Result<Vec<(Uid, Token, Reservation)>> {
    let (mut points, mut ranges, mut rest) = (Looks::default(), Looks::default(), None);
    for Probe { anchor, span, heads } in probes(scope) {
        match span {
            Span::Itself => points.add(anchor, String::new(), heads),
            Span::Until(end) => ranges.add(anchor, end, heads),
            Span::Rest => rest = Some(heads),
        }
    }
    let mut found = BTreeSet::new();
    if !points.heads.is_empty() || !ranges.heads.is_empty() {
        let rows = session.rows(
            "SELECT task, token, glob, kind, area, worktree, part, changed, look.place FROM unnest($2::text[]) WITH ORDINALITY AS look (anchor, place) \
             JOIN scope ON scope.project = $1 AND held AND scope.anchor = look.anchor \
             UNION ALL \
             SELECT task, token, glob, kind, area, worktree, part, changed, -look.place \
             FROM unnest($3::text[], $4::text[]) WITH ORDINALITY AS look (anchor, until, place) \
             JOIN scope ON scope.project = $1 AND held AND scope.anchor >= look.anchor AND scope.anchor < look.until",
            &[&points.from, &ranges.from, &ranges.until],
        )?;
        for row in &rows {
            let place = row.integer(8)?.unwrap_or_default();
            let looks = if place > 0 { &points } else { &ranges };
            let heads = usize::try_from(place.abs() - 1).ok().and_then(|place| looks.heads.get(place));
            found.extend(meeting(row, heads)?);
        }
    }
    if let Some(heads) = rest {
        let sql = "SELECT task, token, glob, kind, area, worktree, part, changed FROM scope WHERE project = $1 AND held";
        for row in &session.rows(sql, &[])? {
            found.extend(meeting(row, Some(&heads))?);
        }
    }
    Ok(found.into_iter().collect())
}
