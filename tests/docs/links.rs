//! Relative links between the Markdown files, and the headings they point to.

use std::path::{Path, PathBuf};

/// Made by a command, not written by hand: they may be missing in a fresh checkout.
const GENERATED: &[&str] = &["docs/cli.md", "docs/schema"];

pub(crate) fn check(root: &Path) {
    let mut wrong = Vec::new();
    let files = documents(root);
    assert!(files.len() > 5, "there should be documents: {files:?}");
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        for target in targets(&text) {
            if let Some(why) = broken(root, file, &target) {
                wrong.push(format!("{}: {target}: {why}", file.strip_prefix(root).unwrap().display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

fn documents(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in [root.to_owned(), root.join("docs"), root.join("docs").join("design")] {
        let entries = std::fs::read_dir(&folder).unwrap();
        found.extend(entries.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "md")));
    }
    found.sort();
    found
}

/// What stands in `](…)`, outside code.
fn targets(text: &str) -> Vec<String> {
    let mut in_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for part in line.split("](").skip(1) {
            found.extend(part.split_once(')').map(|(target, _)| target.to_owned()));
        }
    }
    found
}

fn broken(root: &Path, file: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let leads_to = if path.is_empty() { file.to_owned() } else { file.parent().unwrap().join(path) };
    let Ok(leads_to) = leads_to.canonicalize() else {
        let is_generated = GENERATED.iter().any(|made| normal(&leads_to).starts_with(root.join(made)));
        return (!is_generated).then(|| "there is no such file".to_owned());
    };
    if !leads_to.starts_with(root) {
        return Some("it leads out of the repository".to_owned());
    }
    let is_there = heading.is_empty()
        || std::fs::read_to_string(&leads_to)
            .unwrap()
            .lines()
            .any(|line| slug(line).as_deref() == Some(heading));
    (!is_there).then(|| "there is no such heading".to_owned())
}

/// A path without `..`, also where nothing is.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut parts, part| {
        match part {
            std::path::Component::ParentDir => drop(parts.pop()),
            part => parts.push(part),
        }
        parts
    })
}

/// The anchor of a heading, as the common renderers make it.
fn slug(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
    Some(
        title
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect(),
    )
}
