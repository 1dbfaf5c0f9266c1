//! How reservations are stored and found, whatever stores them: a row for each anchor of a glob, and where to look for those
//! that could collide with a scope.

use std::collections::BTreeMap;

use onus_core::scope::{Heads, Scope, anchor};

/// The rows of a scope: a glob and one of its anchors.
pub(crate) fn rows_of(scope: &Scope) -> impl Iterator<Item = (&str, String)> {
    scope.globs().iter().flat_map(|glob| glob.anchors().into_iter().map(|anchor| (glob.as_str(), anchor)))
}

/// A place where something might collide: rows with these anchors whose heads meet one's own.
#[derive(Debug)]
pub(crate) struct Look<'a> {
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
pub(crate) fn looks(scope: &Scope) -> Vec<Look<'_>> {
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
        |(anchor, span, heads): (_, _, Vec<_>)| Look { anchor, span, heads: heads.into_iter().collect() };
    above.chain(below).map(look).collect()
}
