//! The reference names every kind of event and every error code, and none that there is not.

use std::collections::BTreeSet;

use serde_json::Value;

use super::architecture::{quoted, table};
use super::root;

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// What one column of a table in the reference names.
fn named(headings: &str, column: usize) -> BTreeSet<String> {
    let rows = table(&read("docs/reference.md"), headings);
    rows.iter().flat_map(|row| quoted(&row[column])).map(str::to_owned).collect()
}

#[test]
fn the_reference_has_every_kind_of_event() {
    let source = read("crates/core/src/event.rs");
    let (_, body) = source.split_once("pub enum Body {").unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let renamed = body.split("rename = \"").skip(1).filter_map(|rest| rest.split('"').next());
    let kinds: BTreeSet<String> = renamed.filter(|name| name.contains('.')).map(str::to_owned).collect();
    assert!(kinds.contains("gate.passed") && kinds.len() > 40, "{kinds:?}");
    assert_eq!(named("| kind | payload, besides `texts` | texts |", 0), kinds);
}

#[test]
fn the_reference_has_every_error_code() {
    let schema: Value = serde_json::from_str(&read("docs/schema/onus.schema.json")).unwrap();
    let codes = schema["$defs"]["Code"]["enum"].as_array().unwrap();
    let codes: BTreeSet<String> = codes.iter().map(|code| code.as_str().unwrap().to_owned()).collect();
    assert_eq!(named("| exit | `code` | meaning |", 1), codes);
}
