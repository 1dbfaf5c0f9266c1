mod bounds;
mod naive;
mod pairs;
mod properties;
mod reservations;
mod texts;

use super::{Glob, Witness, overlap};

fn glob(text: &str) -> Glob {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn globs(texts: &[&str]) -> Vec<Glob> {
    texts.iter().map(|text| glob(text)).collect()
}

fn example(left: &str, right: &str, shared: &[&str]) -> Option<String> {
    let witness = overlap(&[glob(left)], &[glob(right)], &globs(shared)).unwrap();
    witness.map(|Witness { path, left, right }| {
        assert_eq!((left, right), (0, 0));
        path
    })
}
