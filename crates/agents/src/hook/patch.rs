//! The files that a patch names, in the form that Codex's `apply_patch` takes.

use std::path::PathBuf;

use serde_json::Value;

const HEADERS: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// Of a patch, or of an argv with one in it.
pub(super) fn files(value: &Value) -> Vec<PathBuf> {
    let texts: Vec<&str> = match value {
        Value::String(text) => vec![text],
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let mut files: Vec<PathBuf> = texts
        .into_iter()
        .flat_map(str::lines)
        .filter_map(|line| {
            let line = line.trim();
            let name = HEADERS.iter().find_map(|header| line.strip_prefix(header))?.trim();
            (!name.is_empty()).then(|| PathBuf::from(name))
        })
        .collect();
    files.sort();
    files.dedup();
    files
}
