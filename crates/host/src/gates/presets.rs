//! Suggests gates for a project of a known kind, by the files at its root. They are written only on request, and none runs before a
//! person approved it.

use std::path::Path;

use onus_repo::{read_inside, read_small};

use crate::Host;
use crate::config::{Edited, SHARED_FILE, add_gates};
use onus_core::refusal::Refusal;

/// A gate that could be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    pub key: &'static str,
    pub title: &'static str,
    pub run: Vec<String>,
}

fn preset(key: &'static str, title: &'static str, run: &[&str]) -> Preset {
    Preset { key, title, run: run.iter().map(|word| (*word).to_owned()).collect() }
}

/// What the files at a project's root suggest.
pub fn presets(root: &Path) -> Vec<Preset> {
    let has = |name: &str| root.join(name).is_file();
    let mut found = Vec::new();
    if has("Cargo.toml") {
        found.push(preset("tests", "The tests pass", &["cargo", "test"]));
        found.push(preset(
            "lint",
            "Clippy finds nothing",
            &["cargo", "clippy", "--all-targets", "--", "-D", "warnings"],
        ));
        found.push(preset("format", "It is formatted", &["cargo", "fmt", "--check"]));
    }
    if has("pyproject.toml") || has("setup.py") {
        found.push(preset("tests", "The tests pass", &["python3", "-m", "pytest"]));
        let pyproject = read_inside(root, &root.join("pyproject.toml")).unwrap_or_default();
        if pyproject.contains("[tool.ruff") || has("ruff.toml") || has(".ruff.toml") {
            found.push(preset("lint", "Ruff finds nothing", &["ruff", "check", "."]));
        }
    }
    if has("package.json") {
        found.extend(of_node(root));
    }
    if has("go.mod") {
        found.push(preset("tests", "The tests pass", &["go", "test", "./..."]));
        found.push(preset("lint", "Vet finds nothing", &["go", "vet", "./..."]));
    }
    // In a repository of several kinds, the first of each key counts.
    let mut keys = std::collections::BTreeSet::new();
    found.retain(|preset| keys.insert(preset.key));
    found
}

/// The scripts of a package, run by the package manager whose lock file exists.
fn of_node(root: &Path) -> Vec<Preset> {
    let managers = [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn")];
    let manager = managers.iter().find(|(lock, _)| root.join(lock).is_file()).map_or("npm", |(_, name)| name);
    let text = read_small(&root.join("package.json")).unwrap_or_default();
    let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let script =
        |name: &str| package["scripts"][name].as_str().filter(|line| !line.contains("no test specified"));
    let wanted = [("test", "tests", "The tests pass"), ("lint", "lint", "The linter finds nothing")];
    let found = wanted.iter().filter(|(name, _, _)| script(name).is_some());
    found.map(|(name, key, title)| preset(key, title, &[manager, "run", name])).collect()
}

impl Host {
    /// The gates that could be added here; none if the project defines gates already.
    pub fn gate_presets(&self) -> Vec<Preset> {
        match self.config.gates().is_empty() {
            true => presets(self.shared_folder()),
            false => Vec::new(),
        }
    }

    /// Writes presets into the project's file.
    pub fn add_presets(&self, presets: &[Preset]) -> Result<Edited, Refusal> {
        if presets.is_empty() {
            return Err(Refusal::usage(format!(
                "no gates are known for this project: write [[gate]] in {SHARED_FILE}"
            )));
        }
        add_gates(self, presets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        presets(folder.path())
            .into_iter()
            .map(|preset| format!("{}: {}", preset.key, preset.run.join(" ")))
            .collect()
    }

    #[test]
    fn each_kind_of_project_has_its_own() {
        assert_eq!(found(&[]), Vec::<String>::new());
        assert_eq!(found(&[("Cargo.toml", "")])[0], "tests: cargo test");
        assert_eq!(found(&[("go.mod", "")]), ["tests: go test ./...", "lint: go vet ./..."]);
        assert_eq!(found(&[("setup.py", "")]), ["tests: python3 -m pytest"]);
        assert_eq!(
            found(&[("pyproject.toml", "[tool.ruff]\n")]),
            ["tests: python3 -m pytest", "lint: ruff check ."]
        );
        let scripts = r#"{"scripts": {"test": "jest", "lint": "eslint ."}}"#;
        assert_eq!(found(&[("package.json", scripts)]), ["tests: npm run test", "lint: npm run lint"]);
        let pnpm = [("package.json", scripts), ("pnpm-lock.yaml", "")];
        assert_eq!(found(&pnpm)[0], "tests: pnpm run test");
        let none = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        assert_eq!(found(&[("package.json", none), ("yarn.lock", "")]), Vec::<String>::new());
        let both = [("Cargo.toml", ""), ("package.json", scripts)];
        assert_eq!(found(&both).iter().filter(|gate| gate.starts_with("tests")).count(), 1);
    }
}
