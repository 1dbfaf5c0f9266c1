//! A small universe of paths, and the simplest matcher that could be right: a glob is the set of paths it matches, found by
//! trying everything.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// All paths, one bit each.
pub const UNIVERSE: [&str; 24] = [
    "a/x",
    "a/y",
    "a/zz",
    "a/b/x",
    "a/b/y",
    "b/x",
    "b/y",
    "b/zz",
    "b/c/x",
    "b/c/d/y",
    "c/x",
    "c/y",
    "c/d/x",
    "c/d/zz",
    "d/x",
    "d/e/f/x",
    "e",
    "f",
    "g/x",
    "g/h/x",
    "g/h/y",
    "h/x",
    "shared.lock",
    "shared/notes",
];

/// Paths that are shared and never collide.
pub const SHARED: [&str; 2] = ["shared.lock", "shared/**"];

/// The sets that globs match, each computed once.
#[derive(Debug, Default)]
pub struct Paths {
    known: RefCell<BTreeMap<String, u64>>,
    shared: OnceCell<u64>,
}

impl Paths {
    pub fn bit(&self, path: &str) -> u64 {
        UNIVERSE.iter().position(|known| *known == path).map_or(0, |at| 1 << at)
    }

    pub fn names(&self, mask: u64) -> Vec<&'static str> {
        (0..UNIVERSE.len()).filter(|at| mask >> at & 1 == 1).map(|at| UNIVERSE[at]).collect()
    }

    pub fn shared(&self) -> u64 {
        *self.shared.get_or_init(|| SHARED.iter().fold(0, |mask, glob| mask | self.of(glob)))
    }

    pub fn mask(&self, globs: &BTreeSet<String>) -> u64 {
        globs.iter().fold(0, |mask, glob| mask | self.of(glob))
    }

    fn of(&self, glob: &str) -> u64 {
        if let Some(mask) = self.known.borrow().get(glob) {
            return *mask;
        }
        let plain = spelled_out(glob);
        let matched = |path: &&str| plain.iter().any(|glob| matches(glob, path));
        let mask = UNIVERSE.iter().filter(|path| matched(path)).fold(0, |mask, path| mask | self.bit(path));
        self.known.borrow_mut().insert(glob.to_owned(), mask);
        mask
    }
}

/// The globs without braces: one for every way through them.
pub fn spelled_out(glob: &str) -> Vec<String> {
    let Some(open) = glob.find('{') else { return vec![glob.to_owned()] };
    let (mut depth, mut parts, mut from) = (0, Vec::new(), open + 1);
    for (at, c) in glob.char_indices().skip_while(|(at, _)| *at < open) {
        match c {
            '{' => depth += 1,
            ',' if depth == 1 => {
                parts.push(&glob[from..at]);
                from = at + 1;
            }
            '}' => {
                depth -= 1;
                if depth == 0 {
                    parts.push(&glob[from..at]);
                    let (head, tail) = (&glob[..open], &glob[at + 1..]);
                    return parts
                        .iter()
                        .flat_map(|part| spelled_out(&format!("{head}{part}{tail}")))
                        .collect();
                }
            }
            _ => {}
        }
    }
    vec![glob.to_owned()]
}

/// Whether a glob without braces matches a path, segment by segment.
pub fn matches(glob: &str, path: &str) -> bool {
    let folder = glob.strip_suffix('/').map(|folder| format!("{folder}/**"));
    let glob: Vec<&str> = folder.as_deref().unwrap_or(glob).split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    segments(&glob, &path)
}

fn segments(glob: &[&str], path: &[&str]) -> bool {
    match glob {
        [] => path.is_empty(),
        // At the end: at least one name.
        ["**"] => !path.is_empty(),
        ["**", rest @ ..] => (0..=path.len()).any(|skipped| segments(rest, &path[skipped..])),
        [first, rest @ ..] => path.split_first().is_some_and(|(name, others)| {
            let (first, name): (Vec<char>, Vec<char>) = (first.chars().collect(), name.chars().collect());
            characters(&first, &name) && segments(rest, others)
        }),
    }
}

fn characters(glob: &[char], name: &[char]) -> bool {
    match glob {
        [] => name.is_empty(),
        ['*', rest @ ..] => (0..=name.len()).any(|skipped| characters(rest, &name[skipped..])),
        ['?', rest @ ..] => !name.is_empty() && characters(rest, &name[1..]),
        [c, rest @ ..] => name.first() == Some(c) && characters(rest, &name[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_naive_matcher_knows_the_globs_of_the_design() {
        for (glob, path, expected) in [
            ("a/*", "a/x", true),
            ("a/*", "a/b/x", false),
            ("a/**", "a/b/x", true),
            ("a/**", "a", false),
            ("**/x", "x", true),
            ("**/x", "a/b/x", true),
            ("a/?", "a/zz", false),
            ("a/", "a/b/x", true),
            ("*", "e", true),
            ("*", "a/x", false),
        ] {
            assert_eq!(matches(glob, path), expected, "{glob} {path}");
        }
        assert_eq!(spelled_out("{a,b/{c,d}}/x"), ["a/x", "b/c/x", "b/d/x"]);
    }
}
