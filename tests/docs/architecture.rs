//! What ARCHITECTURE.md says about crates and about what is where, compared with `cargo metadata` and the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::root;

/// What each row of the second table looks for.
const LOOKED_FOR: &[(&str, &[&str])] = &[
    (
        "`async`",
        &[
            "async fn",
            "async {",
            "async move",
            ".await.",
            ".await?",
            ".await;",
            ".await)",
            ".await,",
            "tokio::",
        ],
    ),
    ("what time it is", &["SystemTime::now", "Timestamp::now", "ClockId::Monotonic", "ClockId::Boottime"]),
    ("how long something takes", &["Instant::now"]),
    ("pauses", &["thread::sleep(", "time::sleep("]),
    ("random numbers", &["getrandom::", "rustix::rand::"]),
    ("`/proc/PID/stat`", &["/stat\""]),
    ("standard output and error", &["io::stdout()", "io::stderr()", "println!", "eprintln!"]),
    ("SQLite and PostgreSQL", &["rusqlite::", "tokio_postgres::"]),
];

/// The rows of the table whose first line of headings is this.
pub(super) fn table(document: &str, headings: &str) -> Vec<Vec<String>> {
    let (_, table) = document.split_once(headings).unwrap_or_else(|| panic!("there is no table {headings}"));
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// What stands between backticks.
pub(super) fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

pub(super) fn document() -> String {
    std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

#[test]
fn the_crates_stand_on_what_the_architecture_says() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--no-deps", "--format-version=1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut real = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        if !package["manifest_path"].as_str().unwrap().contains("/crates/") {
            continue;
        }
        let needs: BTreeSet<String> = package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|needed| needed["kind"].is_null())
            .filter_map(|needed| needed["name"].as_str()?.strip_prefix("onus-").map(str::to_owned))
            .collect();
        real.insert(package["name"].as_str().unwrap().to_owned(), needs);
    }
    let mut told = BTreeMap::new();
    for row in table(&document(), "| crate | what it is | stands on |") {
        let name = quoted(&row[0])[0].to_owned();
        let needs: BTreeSet<String> =
            row[2].split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        for needed in &needs {
            assert!(
                told.contains_key(&format!("onus-{needed}")),
                "{name} stands on {needed}, which is not above it"
            );
        }
        told.insert(name, needs);
    }
    assert_eq!(told, real);
}

/// The crates that a build of this package needs, without a version.
fn needed_by(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--prefix=none", "--edges=normal", "--no-default-features", "--package"])
        .arg(package)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn without_its_feature_nothing_of_postgresql_is_built_and_agents_link_no_database() {
    let needed = needed_by("onus");
    assert!(needed.contains("rusqlite"), "{needed:?}");
    for absent in ["tokio-postgres", "postgres-protocol", "rustls", "ring"] {
        assert!(!needed.contains(absent), "{absent} of {needed:?}");
    }
    let needed = needed_by("onus-agents");
    assert!(needed.contains("onus-core") && !needed.contains("rusqlite"), "{needed:?}");
}

#[test]
fn what_may_stand_in_few_places_stands_where_the_architecture_says() {
    let rows = table(&document(), "| what | where |");
    let told: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    let looked_for: Vec<&str> = LOOKED_FOR.iter().map(|(what, _)| *what).collect();
    assert_eq!(told, looked_for, "each row is looked for, and each thing that is looked for has a row");
    let sources = sources();
    assert!(sources.len() > 150, "only {} files", sources.len());
    let mut wrong = Vec::new();
    for (row, (what, patterns)) in rows.iter().zip(LOOKED_FOR) {
        let places = quoted(&row[1]);
        let mut unused: BTreeSet<&str> = places.iter().copied().collect();
        for (file, code) in &sources {
            let Some(line) = code.lines().find(|line| patterns.iter().any(|pattern| line.contains(pattern)))
            else {
                continue;
            };
            match places.iter().find(|place| file.starts_with(**place)) {
                Some(place) => drop(unused.remove(place)),
                None => wrong.push(format!("{what}: {file} has it, too: {}", line.trim())),
            }
        }
        wrong.extend(unused.iter().map(|place| format!("{what}: not in {place}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The product's code by its path under `crates/`, without comments and tests.
fn sources() -> Vec<(String, String)> {
    let all = below("crates").into_iter();
    let names = all.filter_map(|path| path.strip_prefix("crates/").map(str::to_owned));
    let product = names.filter(|name| is_product(name));
    product.map(|name| (name.clone(), code(&root().join("crates").join(&name)))).collect()
}

/// Every file below a folder, by its path from the repository's root.
pub(super) fn below(folder: &str) -> Vec<String> {
    let files =
        crate::support::below(&root().join(folder), |_| true).into_iter().filter(|path| !path.is_dir());
    files.map(|path| path.strip_prefix(root()).unwrap().to_string_lossy().into_owned()).collect()
}

pub(super) fn is_product(name: &str) -> bool {
    name.contains("/src/")
        && name.ends_with(".rs")
        && !name.contains("/tests")
        && !name.starts_with("store/src/conformance")
}

fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let product = text.split("\nmod tests {").next().unwrap_or_default();
    // Whether it is a terminal may be asked anywhere.
    let lines = product
        .lines()
        .filter(|line| !line.trim_start().starts_with("//") && !line.contains(".is_terminal()"));
    lines.collect::<Vec<_>>().join("\n")
}
