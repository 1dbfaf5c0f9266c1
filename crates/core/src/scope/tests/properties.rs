//! Properties of all globs, checked on many.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::scope::{Heads, Scope, anchor, head};

use super::naive::{Naive, Piece, blurred, is_path, pieces, short_paths, text};
use super::*;

/// A glob in both forms.
#[derive(Clone, Debug)]
struct Both {
    glob: Glob,
    naive: Naive,
}

fn both(pieces: &[Piece]) -> Both {
    Both { glob: glob(&text(pieces)), naive: Naive::new(pieces) }
}

fn path() -> impl Strategy<Value = String> {
    r"\.?[ab]{1,2}\.?(/[ab]{1,2}){0,3}"
}

fn coins() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 40)
}

/// Any glob, or one that is near this path.
fn near(path: String) -> impl Strategy<Value = Both> {
    let blurred = coins()
        .prop_map(move |coins| blurred(&path, &coins))
        .prop_filter("refused", |pieces| text(pieces).parse::<Glob>().is_ok());
    prop_oneof![1 => pieces(), 3 => blurred].prop_map(|pieces| both(&pieces))
}

/// Two scopes and shared paths, all near one path, so that they meet, just miss each other, or meet only in shared paths.
#[derive(Clone, Debug)]
struct Question {
    a: Vec<Both>,
    b: Vec<Both>,
    shared: Vec<Both>,
    /// Paths that might contradict the answer.
    paths: Vec<String>,
}

fn question(most: usize) -> impl Strategy<Value = Question> {
    path()
        .prop_flat_map(move |path| {
            let some = |sizes| vec(near(path.clone()), sizes);
            (
                some(1..most + 1),
                some(1..most + 1),
                some(0..3),
                vec(coins(), 8),
                vec(self::path(), 8),
                Just(path),
            )
        })
        .prop_map(|(a, b, shared, coins, mut paths, path)| {
            paths.push(path);
            for globs in [&a, &b, &shared] {
                let sampled = globs
                    .iter()
                    .flat_map(|both| coins.iter().map(|coins| both.naive.sample(&mut coins.iter().copied())));
                paths.extend(sampled.filter(|path| is_path(path)));
            }
            Question { a, b, shared, paths }
        })
}

impl Question {
    fn answer(&self) -> Option<Witness> {
        overlap(&of(&self.a), &of(&self.b), &of(&self.shared)).unwrap()
    }

    fn is_collision(&self, path: &str) -> bool {
        let any = |globs: &[Both]| globs.iter().any(|both| both.naive.matches(path));
        any(&self.a) && any(&self.b) && !any(&self.shared)
    }
}

fn of(globs: &[Both]) -> Vec<Glob> {
    globs.iter().map(|both| both.glob.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn matching_is_what_trying_everything_says(
        (both, paths) in (path().prop_flat_map(near), vec(path(), 12)),
        coins in vec(coins(), 12),
    ) {
        let sampled = coins.iter().map(|coins| both.naive.sample(&mut coins.iter().copied()));
        for path in sampled.chain(paths) {
            let expected = is_path(&path) && both.naive.matches(&path);
            prop_assert_eq!(both.glob.matches(&path), expected, "{} and {}", both.glob, path);
        }
    }

    #[test]
    fn an_example_is_a_path_that_both_match_and_nobody_shares(question in question(3)) {
        if let Some(Witness { path, left, right }) = question.answer() {
            prop_assert!(is_path(&path) && !path.contains(char::is_control), "{path}");
            prop_assert!(question.a[left].naive.matches(&path), "{} and {path}", question.a[left].glob);
            prop_assert!(question.b[right].naive.matches(&path), "{} and {path}", question.b[right].glob);
            for shared in &question.shared {
                prop_assert!(!shared.naive.matches(&path), "{} and {path}", shared.glob);
            }
        }
    }

    #[test]
    fn no_path_contradicts_that_scopes_are_disjoint(question in question(3)) {
        let answer = question.answer();
        for path in question.paths.iter().filter(|path| question.is_collision(path)) {
            let Some(witness) = &answer else { panic!("{path} is a collision") };
            prop_assert!(witness.path.chars().count() <= path.chars().count(), "{} and {path}", witness.path);
        }
    }

    #[test]
    fn anchors_never_rule_out_a_common_path(question in question(1)) {
        let (one, two) = (&question.a[0], &question.b[0]);
        let (mine, rows) = (one.glob.anchors(), two.glob.anchors());
        for path in question.paths.iter().filter(|path| one.naive.matches(path)) {
            prop_assert!(path.starts_with(one.glob.anchor()), "{} and {path}", one.glob);
            prop_assert!(
                mine.iter().any(|anchor| anchor == path || anchor::ancestors(path).any(|above| above == anchor)),
                "{} has {mine:?}, and {path}", one.glob
            );
            if two.naive.matches(path) {
                prop_assert!(anchor::meet(one.glob.anchor(), two.glob.anchor()));
                let meet = |mine: &str, row: &str| {
                    let in_range = row >= mine && anchor::range_end(mine).is_none_or(|end| row < end.as_str());
                    let is_found = in_range || anchor::ancestors(mine).any(|above| above == row);
                    assert_eq!(is_found, anchor::meet(mine, row));
                    is_found
                };
                prop_assert!(
                    mine.iter().any(|mine| rows.iter().any(|row| meet(mine, row))),
                    "{} × {}: {path}", one.glob, two.glob
                );
            }
        }
    }

    #[test]
    fn anchors_are_few_and_lie_below_the_one_before_the_braces(pieces in pieces()) {
        let glob = glob(&text(&pieces));
        let anchors = glob.anchors();
        prop_assert!((1..=anchor::MAX_ANCHORS).contains(&anchors.len()));
        for (n, one) in anchors.iter().enumerate() {
            prop_assert!(one.starts_with(glob.anchor()), "{} of {glob}", one);
            prop_assert!(!anchors[..n].iter().any(|other| anchor::meet(one, other)), "{anchors:?} of {glob}");
        }
    }

    #[test]
    fn heads_never_rule_out_a_common_path(question in question(1)) {
        let (one, two) = (&question.a[0], &question.b[0]);
        for path in question.paths.iter().filter(|path| one.naive.matches(path)) {
            let name = path.rsplit('/').next().unwrap_or_default();
            prop_assert!(name.starts_with(one.glob.head()), "{} and {path}", one.glob);
            prop_assert!(one.glob.head().starts_with(head(one.glob.as_str())), "{}", one.glob);
            if two.naive.matches(path) {
                let heads: Heads<'_> = [one.glob.head()].into_iter().collect();
                prop_assert!(heads.meet(two.glob.head()) && heads.meet(head(two.glob.as_str())));
                prop_assert!(one.glob.may_meet(&two.glob), "{} × {}: {path}", one.glob, two.glob);
            }
        }
    }

    #[test]
    fn a_glob_is_read_again_as_it_was_written(pieces in pieces()) {
        let glob = glob(&text(&pieces));
        let again: Glob = glob.to_string().parse().unwrap();
        prop_assert_eq!(&again, &glob);
        prop_assert_eq!(again.anchor(), glob.anchor());
        prop_assert_eq!(again.as_str(), glob.as_str());
        let json = serde_json::to_string(&glob).unwrap();
        prop_assert_eq!(serde_json::from_str::<Glob>(&json).unwrap(), glob);
    }

    #[test]
    fn any_text_is_a_glob_that_can_be_read_again_or_refused(text in "[ab./*?\\[\\]{},!^\\\\-]{0,12}") {
        if let Ok(glob) = text.parse::<Glob>() {
            prop_assert_eq!(glob.as_str().parse::<Glob>(), Ok(glob.clone()));
            prop_assert!(!glob.as_str().ends_with('/') && !glob.anchor().starts_with('/'));
        }
    }

    #[test]
    fn any_path_has_a_glob_of_its_own(path in "[ab*?\\[\\]{},!^\\\\é \t-]{1,6}(/[a*{\\[.]{1,3}){0,2}", other in path()) {
        prop_assume!(is_path(&path));
        let literal = Glob::literal(&path).unwrap();
        prop_assert!(literal.matches(&path));
        prop_assert!(!literal.matches(&other) || other == path);
        prop_assert_eq!(literal.as_str().parse::<Glob>(), Ok(literal.clone()));
        let exactly = overlap(&globs(&["**"]), &[literal], &[]).unwrap().unwrap().path;
        prop_assert_eq!(exactly, path.replace('\t', "\u{fffd}"));
    }

    #[test]
    fn a_scope_covers_what_its_globs_match(question in question(4)) {
        let scope: Scope = of(&question.a).into_iter().collect();
        for path in &question.paths {
            let expected = question.a.iter().any(|both| both.naive.matches(path));
            prop_assert_eq!(scope.covers(path), expected, "{:?} and {}", scope, path);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_example_is_shorter(question in question(1)) {
        const MAX: usize = 5;
        static ALL: LazyLock<Vec<String>> = LazyLock::new(|| short_paths(MAX));
        let chars = |path: &str| path.chars().count();
        let shortest = ALL.iter().find(|path| question.is_collision(path));
        let given = question.answer().map(|witness| witness.path);
        prop_assert_eq!(
            given.as_deref().map(chars).filter(|chars| *chars <= MAX),
            shortest.map(|path| chars(path)),
            "{:?} and {:?}", given, shortest
        );
    }
}

/// The properties above are worth something only if both answers occur, and there are paths that could contradict them.
#[test]
fn the_questions_have_teeth() {
    let mut runner = TestRunner::deterministic();
    let (mut collisions, mut disjoint, mut by_sharing, mut hit, mut patterns) = (0, 0, 0, 0, 0);
    let cases = 1000;
    for _ in 0..cases {
        let question = question(2).new_tree(&mut runner).unwrap().current();
        let without_sharing = Question { shared: Vec::new(), ..question.clone() };
        match question.answer() {
            Some(witness) => {
                collisions += 1;
                hit += usize::from(question.paths.iter().any(|path| question.is_collision(path)));
                patterns += usize::from(question.a[witness.left].glob.path().is_none());
            }
            None => {
                disjoint += 1;
                by_sharing += usize::from(without_sharing.answer().is_some());
            }
        }
    }
    let share = |count: usize| format!("{count} of {cases}");
    assert!(collisions > cases / 4, "collide: {}", share(collisions));
    assert!(disjoint > cases / 4, "disjoint: {}", share(disjoint));
    assert!(by_sharing > cases / 50, "disjoint only by what is shared: {}", share(by_sharing));
    assert!(hit > collisions * 3 / 4, "a path would have shown it: {}", share(hit));
    assert!(patterns > collisions / 2, "by more than a path: {}", share(patterns));
}
