//! How both stores keep and find reservations: one row for each anchor of a glob, and the places to look for
//! reservations that could collide with a scope.

use std::collections::BTreeMap;

use onus_core::ids::{Token, Uid};
use onus_core::scope::{Heads, Reservation, Reservations, Scope, anchor, head};

use super::{Cells, Decoded, Row, decode};

/// One row of a reservation: it has one for each anchor of its glob.
pub(crate) struct AnchoredRow<'a> {
    pub(crate) glob: &'a str,
    pub(crate) anchor: String,
    pub(crate) kind: &'static str,
    pub(crate) area: Option<&'a str>,
    /// Empty if there is none: columns of a key cannot be null.
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

/// A place to look for collisions: rows with these anchors whose heads meet those of the scope.
#[derive(Debug)]
pub(crate) struct Probe<'a> {
    pub(crate) anchor: String,
    pub(crate) span: Span,
    pub(crate) heads: Heads<'a>,
}

/// The anchors that a probe covers, beginning with its own.
#[derive(Debug)]
pub(crate) enum Span {
    Itself,
    /// All anchors before this one.
    Until(String),
    /// All anchors.
    Rest,
}

/// The places to look: below each anchor of the scope, and at each folder above it.
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

/// The reservation in a row (with [`SCOPE_COLUMNS`](super::columns::SCOPE_COLUMNS)), unless the head of its
/// glob shows that it cannot meet `heads`.
pub(crate) fn meeting(
    row: &dyn Row,
    heads: Option<&Heads<'_>>,
) -> Decoded<Option<(Uid, Token, Reservation)>> {
    let glob = row.text(2).ok().flatten();
    let is_apart = heads.zip(glob).is_some_and(|(heads, glob)| !heads.meet(head(glob)));
    if is_apart { Ok(None) } else { decode::reserved(&mut Cells::of(row)).map(Some) }
}
