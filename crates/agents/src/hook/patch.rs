//! The files that a patch names, in the form that Codex's `apply_patch` takes.

use std::path::PathBuf;

use super::scan::Raw;

const HEADERS: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// Of a patch, or of an argv with one in it.
pub(super) fn files(value: Raw<'_>) -> Vec<PathBuf> {
    let texts = value.string().into_iter().chain(value.elements().filter_map(Raw::string));
    let mut files: Vec<PathBuf> = texts.flat_map(|text| files_of(&text)).collect();
    files.sort();
    files.dedup();
    files
}

pub(super) fn files_of(text: &str) -> Vec<PathBuf> {
    text.lines().filter_map(named).collect()
}

fn named(line: &str) -> Option<PathBuf> {
    let line = line.trim();
    let name = HEADERS.iter().find_map(|header| line.strip_prefix(header))?.trim();
    (!name.is_empty()).then(|| PathBuf::from(name))
}
