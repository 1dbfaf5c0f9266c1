//! Whatever the globs are, there is an answer, or the error that it would take too long.

use crate::scope::{MAX_GLOB_BYTES, ScopeError};

use super::*;

/// A text repeated as often as it fits into a glob.
fn filled(piece: &str, end: &str) -> String {
    piece.repeat((MAX_GLOB_BYTES - end.len()) / piece.len()) + end
}

fn ideograph(i: u32) -> char {
    char::from_u32(0x4e00 + i).unwrap()
}

#[test]
fn stars_against_stars_end_with_an_answer() {
    assert_eq!(example("*a*a*a*a*b", "*b*b*b*a", &[]), None);
    assert_eq!(example("*a*a*a*a*b", "*b*b*b*a*", &[]).map(|path| path.len()), Some(8));
    assert_eq!(example(&"*a".repeat(40), &"*b".repeat(40), &[]), None);
    assert_eq!(
        example(&("*a".repeat(40) + "*"), &("*b".repeat(40) + "*"), &[]).map(|path| path.len()),
        Some(80)
    );
}

#[test]
fn braces_are_not_multiplied_out() {
    let all = "{a,b}".repeat(100);
    assert_eq!(example(&all, &"b".repeat(100), &[]), Some("b".repeat(100)));
    assert_eq!(example(&all, &"{b,c}".repeat(100), &[]), Some("b".repeat(100)));
    assert_eq!(example(&all, &"{c,d}".repeat(100), &[]), None);
    assert_eq!(example(&("{a,}".repeat(100) + "b"), "ab", &[]), Some("ab".to_owned()));
    let nested = "{a,".repeat(200) + "b" + &"}".repeat(200);
    assert_eq!(example(&nested, "[!a]", &[]), Some("b".to_owned()));
}

#[test]
fn an_endless_search_is_given_up_and_named() {
    let left = filled("*a", "*c");
    let right = filled("*b", "*d*");
    match overlap(&globs(&[&left]), &globs(&[&right]), &[]) {
        Err(ScopeError::TooComplex { left: l, right: r, limit }) => {
            assert_eq!((l, r), (left, right));
            assert_eq!(limit, super::super::MAX_STEPS + super::super::STEPS_A_PAIR);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_proof_that_was_found_is_given_even_if_the_search_is_not_done() {
    let a = globs(&["src/a", &filled("*a", "*c")]);
    let b = globs(&["src/a", &filled("*b", "*d*")]);
    assert_eq!(overlap(&a, &b, &[]).unwrap().map(|witness| witness.path), Some("src/a".to_owned()));
}

#[test]
fn every_adversary_meets_every_other_in_bounded_time() {
    let adversaries = [
        "**/*a*/**/*b*/**/*c*/**".to_owned(),
        "*[ab]*[bc]*[cd]*[!abcd]*".to_owned(),
        filled("**/", "*a"),
        filled("{a,b}", "*"),
        filled("{*a,*b,}", "*"),
        filled("{,,,,,,}", "*"),
        filled("[!a]*", "?"),
        filled("*/", "**"),
        "{".repeat(400) + &filled("a", "")[..200] + "*" + &"}".repeat(400),
        (0..300).map(|i| format!("[{}]", ideograph(i))).collect::<String>()[..900].to_owned(),
        (0..140).map(|i| format!("*[!{}]", ideograph(i))).collect::<String>() + "*",
        format!(
            "*[!{}]*",
            (0..140).map(|i| format!("{}-{}", ideograph(4 * i), ideograph(4 * i + 1))).collect::<String>()
        ),
    ];
    let adversaries: Vec<Glob> = adversaries.iter().map(|text| glob(text)).collect();
    let paths: Vec<Glob> = ["a", "ab/"]
        .iter()
        .map(|piece| Glob::literal(&(piece.repeat(4000 / piece.len()) + "x")).unwrap())
        .collect();
    let bounded = |a: &[Glob], b: &[Glob], shared: &[Glob]| match overlap(a, b, shared) {
        Ok(None) | Err(ScopeError::TooComplex { .. }) => {}
        Ok(Some(Witness { path, left, right })) => {
            assert!(a[left].matches(&path) && b[right].matches(&path), "{a:?} × {b:?}: {path}");
            assert!(!shared.iter().any(|glob| glob.matches(&path)), "{shared:?}: {path}");
        }
        Err(other) => panic!("{other}"),
    };
    for (i, left) in adversaries.iter().enumerate() {
        for right in adversaries[i..].iter().chain(&paths) {
            bounded(std::slice::from_ref(left), std::slice::from_ref(right), &[]);
        }
        let everything = globs(&["**"]);
        bounded(&everything, &everything, std::slice::from_ref(left));
        bounded(&everything, std::slice::from_ref(left), &adversaries);
    }
    bounded(&adversaries, &adversaries, &[]);
    bounded(&adversaries, &adversaries, &adversaries);
}

#[test]
fn long_lists_of_shared_paths_are_bounded_too() {
    let files: Vec<Glob> = (0..2000).map(|i| Glob::literal(&format!("gen/{i}/x.lock")).unwrap()).collect();
    let everywhere: Vec<Glob> = (0..200).map(|i| glob(&format!("**/*{i}*.lock"))).collect();
    let gen_lock = globs(&["gen/*/x.lock"]);
    let found = overlap(&gen_lock, &globs(&["gen/**"]), &files).unwrap().unwrap();
    assert_eq!(found.path, "gen/a/x.lock");
    match overlap(&gen_lock, &globs(&["**/*.lock"]), &everywhere) {
        Ok(Some(witness)) => assert_eq!(witness.path, "gen/a/x.lock"),
        other => panic!("{other:?}"),
    }
    let some = overlap(&globs(&["**/*1*.lock"]), &globs(&["**/*.lock"]), &everywhere);
    assert!(matches!(some, Ok(None) | Err(ScopeError::TooComplex { .. })), "{some:?}");
}
