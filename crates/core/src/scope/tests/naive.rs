//! Globs as the tests see them: built from pieces, multiplied out, and matched by trying everything. It shares no code with
//! what is tested.

use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Char(char),
    One,
    Star,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    Braces(Vec<Vec<Piece>>),
    Slash,
    /// `**`, a whole segment.
    Deep,
}

use Piece::{Braces, Char, Class, Deep, One, Slash, Star};

pub(super) fn text(pieces: &[Piece]) -> String {
    let escaped = |c: &char| if "*?[]{},\\-!".contains(*c) { format!("\\{c}") } else { c.to_string() };
    pieces
        .iter()
        .map(|piece| match piece {
            Char(c) => escaped(c),
            One => "?".to_owned(),
            Star => "*".to_owned(),
            Slash => "/".to_owned(),
            Deep => "**".to_owned(),
            Braces(all) => format!("{{{}}}", all.iter().map(|one| text(one)).collect::<Vec<_>>().join(",")),
            Class { negated, ranges } => {
                let ranges: String =
                    ranges.iter().map(|(low, high)| format!("{}-{}", escaped(low), escaped(high))).collect();
                format!("[{}{ranges}]", if *negated { "!" } else { "" })
            }
        })
        .collect()
}

/// Every way through the braces.
fn ways(pieces: &[Piece]) -> Vec<Vec<Piece>> {
    pieces.iter().fold(vec![Vec::new()], |ways_so_far, piece| {
        let next: Vec<Vec<Piece>> = match piece {
            Braces(all) => all.iter().flat_map(|one| ways(one)).collect(),
            other => vec![vec![other.clone()]],
        };
        ways_so_far
            .iter()
            .flat_map(|way| next.iter().map(|more| [way.clone(), more.clone()].concat()))
            .collect()
    })
}

/// A glob multiplied out, each way cut into segments.
#[derive(Clone, Debug)]
pub(super) struct Naive(Vec<Vec<Vec<Piece>>>);

impl Naive {
    pub(super) fn new(pieces: &[Piece]) -> Naive {
        let segments =
            |way: Vec<Piece>| way.split(|piece| matches!(piece, Slash)).map(<[_]>::to_vec).collect();
        Naive(ways(pieces).into_iter().map(segments).collect())
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        let names: Vec<Vec<char>> = path.split('/').map(|name| name.chars().collect()).collect();
        self.0.iter().any(|way| segments_match(way, &names))
    }

    /// A text that is matched, chosen by the coins; it may not be a path.
    pub(super) fn sample(&self, coins: &mut impl Iterator<Item = u8>) -> String {
        let mut toss = |n: usize| coins.next().map_or(0, usize::from) % n;
        let way = &self.0[toss(self.0.len())];
        let mut names: Vec<String> = Vec::new();
        for (at, segment) in way.iter().enumerate() {
            if let [Deep] = segment.as_slice() {
                let least = usize::from(at + 1 == way.len());
                for _ in 0..least + toss(3) {
                    names.push(["a", "b", "c", "ab"][toss(4)].to_owned());
                }
                continue;
            }
            let name = segment.iter().map(|piece| match piece {
                Char(c) => c.to_string(),
                Star => ["", "a", "b", "ab", "."][toss(5)].to_owned(),
                One => ["a", "b", "c", "."][toss(4)].to_owned(),
                one => LETTERS.into_iter().find(|c| piece_takes(one, *c)).unwrap_or('z').to_string(),
            });
            names.push(name.collect());
        }
        names.join("/")
    }
}

fn segments_match(way: &[Vec<Piece>], names: &[Vec<char>]) -> bool {
    match (way, names) {
        ([], []) => true,
        ([last], names) if matches!(last.as_slice(), [Deep]) => !names.is_empty(),
        ([deep, rest @ ..], names) if matches!(deep.as_slice(), [Deep]) => {
            segments_match(rest, names) || !names.is_empty() && segments_match(way, &names[1..])
        }
        ([segment, way @ ..], [name, names @ ..]) => {
            name_matches(segment, name) && segments_match(way, names)
        }
        _ => false,
    }
}

fn name_matches(segment: &[Piece], name: &[char]) -> bool {
    match (segment, name) {
        ([], []) => true,
        ([Star, rest @ ..], _) => {
            name_matches(rest, name) || !name.is_empty() && name_matches(segment, &name[1..])
        }
        ([piece, rest @ ..], [c, name @ ..]) => piece_takes(piece, *c) && name_matches(rest, name),
        _ => false,
    }
}

fn piece_takes(piece: &Piece, c: char) -> bool {
    match piece {
        Char(one) => *one == c,
        One => true,
        Class { negated, ranges } => ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated,
        other => panic!("{other:?} is not one character"),
    }
}

/// The letters of globs, `0` for anything else in their classes, and `c` for everything that is not.
pub(super) const LETTERS: [char; 5] = ['a', 'b', '.', '0', 'c'];

pub(super) fn is_path(text: &str) -> bool {
    text.split('/').all(|name| !["", ".", ".."].contains(&name))
}

/// All paths of these letters, the shortest first.
pub(super) fn short_paths(max: usize) -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut from = 0;
    for _ in 0..max {
        let to = texts.len();
        for at in from..to {
            texts.extend(
                LETTERS.iter().chain(&['/']).map(|c| format!("{}{c}", texts[at])).collect::<Vec<_>>(),
            );
        }
        from = to;
    }
    texts.retain(|text| is_path(text));
    texts
}

fn letter() -> impl Strategy<Value = char> {
    prop_oneof![5 => Just('a'), 4 => Just('b'), 1 => Just('.')]
}

fn class() -> impl Strategy<Value = Piece> {
    let range =
        prop_oneof![Just(('a', 'a')), Just(('b', 'b')), Just(('a', 'b')), Just(('.', '.')), Just(('+', '9'))];
    (any::<bool>(), proptest::collection::vec(range, 1..3))
        .prop_map(|(negated, ranges)| Class { negated, ranges })
}

/// Pieces that stay within a segment, except for braces, which may go beyond it.
fn part() -> impl Strategy<Value = Piece> {
    let simple =
        prop_oneof![6 => letter().prop_map(Char), 3 => Just(Star), 2 => Just(One), 2 => class()].boxed();
    let in_braces = prop_oneof![8 => simple.clone(), 1 => Just(Slash)].boxed();
    let braces = move |inner: BoxedStrategy<Piece>| {
        proptest::collection::vec(proptest::collection::vec(inner, 0..3), 1..4)
            .prop_filter("empty braces", |all| all.len() > 1 || !all[0].is_empty())
            .prop_map(Braces)
    };
    let nested = prop_oneof![6 => in_braces.clone(), 1 => braces(in_braces)].boxed();
    prop_oneof![9 => simple, 2 => braces(nested)]
}

/// Two adjacent stars would be read as `**`; one means the same.
fn single_stars(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.dedup_by(|one, other| matches!((one, other), (Star, Star)));
    for piece in &mut pieces {
        if let Braces(all) = piece {
            *all = std::mem::take(all).into_iter().map(single_stars).collect();
        }
    }
    pieces
}

/// A glob in pieces. Those that are refused, for a `..` in them for example, are left out.
pub(super) fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let segment = prop_oneof![
        5 => proptest::collection::vec(part(), 1..4),
        2 => Just(vec![Deep]),
    ];
    proptest::collection::vec(segment, 1..4)
        .prop_map(|segments| single_stars(segments.join(&Slash)))
        .prop_filter("refused", |pieces| text(pieces).parse::<super::Glob>().is_ok())
}

/// A glob made from a path by blurring it here and there: it and another one blurred from the same path meet often.
pub(super) fn blurred(path: &str, coins: &[u8]) -> Vec<Piece> {
    let mut coins = coins.iter().copied().cycle();
    let mut toss = |n: u8| coins.next().unwrap_or(0) % n;
    let segments = path.split('/').map(|name| match toss(8) {
        0 => vec![Deep],
        1 => vec![Star],
        _ => name
            .chars()
            .map(|c| match toss(10) {
                0 => One,
                1 => Star,
                2 => Class { negated: c == 'b', ranges: vec![('a', 'a')] },
                3 => Braces(vec![vec![Char('a')], vec![Char(c)], vec![Char('b'), Star]]),
                4 => Char('b'),
                _ => Char(c),
            })
            .collect(),
    });
    single_stars(segments.collect::<Vec<_>>().join(&Slash))
}
