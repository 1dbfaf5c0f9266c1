//! Decides which of two settings is stricter. A repository's policy applies to everyone who works in it, but anyone may have
//! written it: so it may be stricter than the user's own configuration, never looser.

use onus_core::scope::{Glob, Scope, overlap};
use onus_core::time::Span;

/// What makes one value of a key stricter than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Nothing: the repository's value counts, so that all who work in it agree.
    Neither,
    /// The smaller value.
    Less,
    /// The smaller value, but 0 means no limit.
    LessButNotZero,
    /// The value that comes first in this list.
    Before(&'static [&'static str]),
    /// For lists of globs, one per line: only what both lists cover.
    Common,
}

/// Which value counts: the user's own, the repository's, or a combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    Own,
    Repository,
    /// Stricter than either.
    Both(String),
}

impl Strictness {
    pub fn settle(self, own: &str, repository: &str) -> Settled {
        let by_rank = |rank: &dyn Fn(&str) -> u64| match rank(repository) < rank(own) {
            true => Settled::Repository,
            false => Settled::Own,
        };
        match self {
            Strictness::Neither => Settled::Repository,
            Strictness::Less => by_rank(&number),
            Strictness::LessButNotZero => by_rank(&|value| match number(value) {
                0 => u64::MAX,
                limit => limit,
            }),
            Strictness::Before(words) => by_rank(&|value| {
                let place = words.iter().position(|word| *word == value).unwrap_or(words.len());
                place.try_into().unwrap_or(u64::MAX)
            }),
            Strictness::Common => common(own, repository),
        }
    }
}

/// A count, or a time in milliseconds.
fn number(value: &str) -> u64 {
    let count = value.parse().ok();
    let span = || value.parse::<Span>().ok().and_then(|span| u64::try_from(span.ms).ok());
    count.or_else(span).unwrap_or_default()
}

fn common(own: &str, repository: &str) -> Settled {
    let parsed = |text: &str| -> Vec<Glob> { text.lines().filter_map(|line| line.parse().ok()).collect() };
    let (mine, theirs) = (parsed(own), parsed(repository));
    // Whether the others match everything that a glob matches: no path of it is outside them.
    let is_within = |glob: &Glob, others: &[Glob]| {
        let alone = std::slice::from_ref(glob);
        overlap(alone, alone, others).is_ok_and(|path| path.is_none())
    };
    if mine.iter().all(|glob| is_within(glob, &theirs)) {
        return Settled::Own;
    }
    if theirs.iter().all(|glob| is_within(glob, &mine)) {
        return Settled::Repository;
    }
    let of_mine = mine.iter().filter(|glob| is_within(glob, &theirs));
    let both: Scope = of_mine.chain(theirs.iter().filter(|glob| is_within(glob, &mine))).cloned().collect();
    Settled::Both(both.globs().iter().map(Glob::as_str).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_lists_only_what_both_cover_is_shared() {
        let settle = |own: &str, repository: &str| Strictness::Common.settle(own, repository);
        assert_eq!(settle("*.lock", "**"), Settled::Own);
        assert_eq!(settle("**", "*.lock\ndocs/**"), Settled::Repository);
        assert_eq!(settle("", "**"), Settled::Own);
        assert_eq!(settle("*.lock\ndocs/**", "Cargo.lock\nsrc/**"), Settled::Both("Cargo.lock".to_owned()));
        // No glob of either list describes what they share, so nothing is shared.
        assert_eq!(settle("a*", "*b"), Settled::Both(String::new()));
    }

    #[test]
    fn no_limit_is_the_loosest_limit() {
        let settle = |own: &str, repository: &str| Strictness::LessButNotZero.settle(own, repository);
        assert_eq!(settle("2h", "0"), Settled::Own);
        assert_eq!(settle("0", "2h"), Settled::Repository);
        assert_eq!(settle("2h", "90m"), Settled::Repository);
        assert_eq!(settle("0", "0"), Settled::Own);
    }
}
