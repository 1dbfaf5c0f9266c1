//! The examples of steps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;

#[test]
fn there_is_an_example_of_every_kind() {
    let source = include_str!("../../crates/core/src/refusal/step.rs");
    let body = source.split_once("pub enum Step {").unwrap().1.split_once("\n}").unwrap().0;
    let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric()).collect::<String>();
    let kinds = body.lines().map(str::trim).filter(|line| line.starts_with(char::is_uppercase));
    let kinds: BTreeSet<String> = kinds.map(name).collect();
    let shown = onus_fuzz::steps().iter().map(|step| name(&format!("{step:?}"))).collect();
    assert_eq!(kinds, shown);
}
