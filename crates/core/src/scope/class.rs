//! Sets of characters: what `[a-z]` and `[!a-z]` match, and which characters an example path may have.

use std::collections::{BTreeMap, BTreeSet};

use super::path::UNSHOWN;

/// What no class matches: the separator, and control characters, which are removed from paths ([`super::path`]).
const NEVER: [(char, char); 3] = [('\0', '\u{1f}'), ('/', '/'), ('\u{7f}', '\u{9f}')];

/// Ranges of characters, ends included: sorted, disjoint, without [`NEVER`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Class(Vec<(char, char)>);

impl Class {
    /// The characters in these ranges, or those in none of them.
    pub(super) fn new(ranges: Vec<(char, char)>, negated: bool) -> Class {
        let mut without = if negated { ranges } else { complement(ranges) };
        without.extend(NEVER);
        Class(complement(without))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, c: char) -> bool {
        let at = self.0.partition_point(|(_, high)| *high < c);
        self.0.get(at).is_some_and(|(low, _)| *low <= c)
    }
}

fn complement(mut ranges: Vec<(char, char)>) -> Vec<(char, char)> {
    ranges.sort_unstable();
    let mut gaps = Vec::with_capacity(ranges.len() + 1);
    let mut next = Some('\0');
    for (low, high) in ranges {
        let Some(free) = next else { break };
        if let Some(before) = previous(low)
            && free <= before
        {
            gaps.push((free, before));
        }
        if high >= free {
            next = following(high);
        }
    }
    gaps.extend(next.map(|free| (free, char::MAX)));
    gaps
}

fn following(c: char) -> Option<char> {
    (c..=char::MAX).nth(1)
}

fn previous(c: char) -> Option<char> {
    ('\0'..=c).nth_back(1)
}

/// One representative for each set of characters that no class and no single character distinguishes, the most readable first,
/// and `/` last. Characters of one set behave alike everywhere, so it is enough to try one of them.
pub(super) struct Alphabet {
    classes: Vec<Class>,
    singles: BTreeSet<char>,
    cuts: Vec<char>,
}

impl Alphabet {
    pub(super) fn new<'a>(
        classes: impl Iterator<Item = &'a Class>,
        singles: impl Iterator<Item = char>,
    ) -> Alphabet {
        let classes: BTreeSet<&Class> = classes.collect();
        let singles: BTreeSet<char> = singles.collect();
        let bounds = classes.iter().flat_map(|class| &class.0).copied();
        let mut cuts: Vec<char> = bounds
            .chain(singles.iter().map(|c| (*c, *c)))
            .chain(NEVER)
            .flat_map(|(low, high)| [Some(low), following(high)])
            .flatten()
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        Alphabet { classes: classes.into_iter().cloned().collect(), singles, cuts }
    }

    /// About how many steps [`spell`](Alphabet::spell) takes.
    pub(super) fn work(&self) -> usize {
        self.cuts.len() * (self.classes.len() + 1)
    }

    pub(super) fn spell(&self) -> Vec<char> {
        if self.classes.is_empty() && self.singles.is_empty() {
            return vec!['a', '/'];
        }
        let mut letters: BTreeMap<Vec<bool>, (usize, char)> = BTreeMap::new();
        let mut all: Vec<(usize, char)> = Vec::new();
        for (at, low) in self.cuts.iter().copied().enumerate() {
            let high = self.cuts.get(at + 1).and_then(|next| previous(*next)).unwrap_or(char::MAX);
            if low.is_control() || low == '/' {
                continue;
            }
            let best = most_readable(low, high);
            if self.singles.contains(&low) {
                all.push(best);
                continue;
            }
            let kind = self.classes.iter().map(|class| class.contains(low)).collect();
            let letter = letters.entry(kind).or_insert(best);
            *letter = best.min(*letter);
        }
        all.extend(letters.into_values());
        all.sort_unstable();
        all.into_iter().map(|(_, c)| c).chain(['/']).collect()
    }
}

/// Which characters to prefer. A full stop comes last: it can make a name invalid.
const READABLE: [(char, char); 16] = [
    ('a', 'z'),
    ('0', '9'),
    ('A', 'Z'),
    ('_', '_'),
    ('-', '-'),
    ('+', '+'),
    ('!', '-'),
    (':', '~'),
    ('à', 'ö'),
    ('α', 'ω'),
    ('а', 'я'),
    ('¡', '¬'),
    ('®', 'ſ'),
    ('一', '鿿'),
    (' ', ' '),
    (UNSHOWN, UNSHOWN),
];

/// The most readable character of a range, and its rank.
fn most_readable(low: char, high: char) -> (usize, char) {
    let choice = READABLE.iter().enumerate().find_map(|(rank, (from, to))| {
        let first = low.max(*from);
        (first <= high.min(*to)).then_some((rank, first))
    });
    let rank = READABLE.len() + usize::from(low == '.');
    choice.unwrap_or((rank, low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_never_hold_a_slash_or_a_control_character() {
        let around = Class::new(vec![('+', '9')], false);
        let negated = Class::new(vec![('a', 'z')], true);
        for c in ['/', '\0', '\n', '\u{7f}', '\u{85}'] {
            assert!(!around.contains(c) && !negated.contains(c), "{c:?}");
        }
        for c in ['+', '.', '0', '9'] {
            assert!(around.contains(c), "{c:?}");
        }
        for c in ['A', '{', '.', '\u{d7ff}', '\u{e000}', char::MAX] {
            assert!(negated.contains(c), "{c:?}");
        }
        assert!(Class::new(vec![(' ', char::MAX)], true).is_empty());
    }

    #[test]
    fn ranges_may_touch_overlap_and_repeat() {
        let class = Class::new(vec![('d', 'f'), ('a', 'c'), ('b', 'e'), ('b', 'b')], false);
        assert_eq!(class, Class::new(vec![('a', 'f')], false));
    }

    #[test]
    fn an_alphabet_has_a_letter_for_every_kind_of_character() {
        let spell = |classes: &[Class], singles: &str| {
            Alphabet::new(classes.iter(), singles.chars()).spell().into_iter().collect::<String>()
        };
        assert_eq!(spell(&[], ""), "a/");
        assert_eq!(spell(&[], "a.x"), "abx./");
        assert_eq!(spell(&[Class::new(vec![('a', 'z')], false)], ""), "a0/");
        assert_eq!(
            spell(&[Class::new(vec![('a', 'm')], false), Class::new(vec![('k', 'z')], false)], ""),
            "akn0/"
        );
        assert_eq!(spell(&[Class::new(vec![('.', '.')], true)], ""), "a./");
    }
}
