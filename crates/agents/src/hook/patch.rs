//! The files that a patch names, in the form that Codex's `apply_patch` takes.

use std::path::PathBuf;

use super::scan::{Raw, members};

const REMOVED: &str = "*** Delete File: ";

const HEADERS: [&str; 4] = ["*** Add File: ", "*** Update File: ", REMOVED, "*** Move to: "];

/// Of a patch, or of an argv with one in it.
pub(super) fn files(value: Raw<'_>) -> Vec<PathBuf> {
    let texts = value.string().into_iter().chain(value.elements().filter_map(Raw::string));
    let mut files: Vec<PathBuf> = texts.flat_map(|text| files_of(&text)).collect();
    files.sort();
    files.dedup();
    files
}

/// What a tool's input says that a patch in it removes, whichever field it is in.
pub(super) fn removed(input: Raw<'_>) -> Vec<PathBuf> {
    let fields = members(input, ["command", "cmd", "input", "patch"]).unwrap_or_default();
    let texts = fields.into_iter().flatten().flat_map(|field| {
        field.string().into_iter().chain(field.elements().filter_map(Raw::string)).collect::<Vec<_>>()
    });
    let names = texts.flat_map(|text| {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(REMOVED));
        lines.map(str::trim).filter(|name| !name.is_empty()).map(PathBuf::from).collect::<Vec<_>>()
    });
    names.collect()
}

pub(super) fn files_of(text: &str) -> Vec<PathBuf> {
    text.lines().filter_map(named).collect()
}

fn named(line: &str) -> Option<PathBuf> {
    let line = line.trim();
    let name = HEADERS.iter().find_map(|header| line.strip_prefix(header))?.trim();
    (!name.is_empty()).then(|| PathBuf::from(name))
}
