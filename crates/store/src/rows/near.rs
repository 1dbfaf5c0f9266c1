//! How reservations are stored and found, whatever stores them: a row for each anchor of a glob, and where to look for those
//! that could collide with a scope.

use std::collections::BTreeMap;

use onus_core::ids::{Token, Uid};
use onus_core::scope::{Heads, Reservation, Reservations, Scope, anchor, head};

use super::{Cells, Decoded, Row, decode};

/// A row: what is reserved, and one of the anchors of its glob.
pub(crate) struct AnchoredRow<'a> {
    pub(crate) glob: &'a str,
    pub(crate) anchor: String,
    pub(crate) kind: &'static str,
    pub(crate) area: Option<&'a str>,
    /// Empty where there is none: a key has no nulls.
    pub(crate) worktree: &'a str,
    pub(crate) part: &'a str,
    pub(crate) changed: bool,
}

pub(crate) fn rows_of(reservations: &Reservations) -> impl Iterator<Item = AnchoredRow<'_>> {
    reservations.rows().iter().flat_map(|Reservation { glob, basis, is_changed }| {
        glob.anchors().into_iter().map(move |anchor| AnchoredRow {
            glob: glob.as_str(),
            anchor,
            kind: basis.kind().as_str(),
            area: basis.area().map(|area| area.as_str()),
            worktree: basis.worktree().map_or("", |worktree| worktree.as_str()),
            part: basis.part().map_or("", |part| part.as_str()),
            changed: *is_changed,
        })
    })
}

/// A place where something might collide: rows with these anchors whose heads meet one's own.
#[derive(Debug)]
pub(crate) struct Probe<'a> {
    pub(crate) anchor: String,
    pub(crate) span: Span,
    pub(crate) heads: Heads<'a>,
}

/// Which anchors a look is at, beginning with its own.
#[derive(Debug)]
pub(crate) enum Span {
    Itself,
    /// All before this one.
    Until(String),
    /// All there are.
    Rest,
}

/// Where to look: below each of one's own anchors, and at each folder above it.
pub(crate) fn probes(scope: &Scope) -> Vec<Probe<'_>> {
    let (mut below, mut above) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
    for glob in scope.globs() {
        for anchor in glob.anchors() {
            for ancestor in anchor::ancestors(&anchor) {
                above.entry(ancestor.to_owned()).or_default().push(glob.head());
            }
            below.entry(anchor).or_default().push(glob.head());
        }
    }
    let above = above.into_iter().map(|(anchor, heads)| (anchor, Span::Itself, heads));
    let below = below.into_iter().map(|(anchor, heads)| {
        let span = match anchor::range_end(&anchor) {
            None => Span::Rest,
            Some(end) if anchor.ends_with('/') => Span::Until(end),
            Some(_) => Span::Itself,
        };
        (anchor, span, heads)
    });
    let look =
        |(anchor, span, heads): (_, _, Vec<_>)| Probe { anchor, span, heads: heads.into_iter().collect() };
    above.chain(below).map(look).collect()
}

/// What a row reserves (as [`SCOPE_COLUMNS`](super::columns::SCOPE_COLUMNS) has it), unless the head of its glob tells that it
/// cannot meet these.
pub(crate) fn meeting(
    row: &dyn Row,
    heads: Option<&Heads<'_>>,
) -> Decoded<Option<(Uid, Token, Reservation)>> {
    let glob = row.text(2).ok().flatten();
    let is_apart = heads.zip(glob).is_some_and(|(heads, glob)| !heads.meet(head(glob)));
    if is_apart { Ok(None) } else { decode::reserved(&mut Cells::of(row)).map(Some) }
}
