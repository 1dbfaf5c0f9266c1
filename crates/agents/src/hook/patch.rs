//! The files that a patch in the format of Codex's `apply_patch` names.

use std::path::PathBuf;

use super::scan::{Raw, members};

const REMOVED: &str = "*** Delete File: ";

const HEADERS: [&str; 4] = ["*** Add File: ", "*** Update File: ", REMOVED, "*** Move to: "];

/// The text of a patch, or all texts of an argv that contains one.
fn texts(value: Raw<'_>) -> impl Iterator<Item = String> {
    value.string().into_iter().chain(value.elements().filter_map(Raw::string))
}

/// The files of a patch, or of an argv that contains one.
pub(super) fn files(value: Raw<'_>) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = texts(value).flat_map(|text| files_of(&text)).collect();
    files.sort();
    files.dedup();
    files
}

/// The files that a patch in a tool's input removes, whichever field it is in.
pub(super) fn removed(input: Raw<'_>) -> Vec<PathBuf> {
    let fields = members(input, ["command", "cmd", "input", "patch"]).unwrap_or_default();
    fields.into_iter().flatten().flat_map(texts).flat_map(|text| named(&text, &[REMOVED])).collect()
}

pub(super) fn files_of(text: &str) -> Vec<PathBuf> {
    named(text, &HEADERS)
}

/// The files that lines with one of these headers name.
fn named(text: &str, headers: &[&str]) -> Vec<PathBuf> {
    let names = text
        .lines()
        .filter_map(|line| headers.iter().find_map(|header| line.trim().strip_prefix(header)))
        .map(str::trim);
    names.filter(|name| !name.is_empty()).map(PathBuf::from).collect()
}
