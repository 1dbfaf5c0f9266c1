//! The bugs that are seeded into copies of the tree: each still fits the code that it breaks, so that the long runs can ask for it.

use std::path::Path;
use std::process::Command;

use super::architecture::below;
use super::root;

#[test]
fn every_seeded_bug_still_fits_the_code_that_it_breaks() {
    let (root, copy) = (root(), tempfile::tempdir().unwrap());
    for path in ["crates", "sim"].iter().flat_map(|top| below(top)) {
        let to = copy.path().join(&path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(root.join(&path), to).unwrap();
    }
    let series = std::fs::read_to_string(root.join("sim/bugs/series")).unwrap();
    let simulated = series.lines().map(|name| format!("sim/bugs/{name}.patch"));
    let mut raced: Vec<String> = std::fs::read_dir(root.join(RACED))
        .unwrap()
        .map(|entry| format!("{RACED}/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    raced.sort();
    assert!(!raced.is_empty());
    let not: Vec<String> =
        simulated.chain(raced).filter(|patch| !applies(copy.path(), &root.join(patch))).collect();
    assert!(not.is_empty(), "the code that they break has changed: {not:?}");
}

const RACED: &str = "crates/engine/tests/pairs/bugs";

fn applies(folder: &Path, patch: &Path) -> bool {
    let mut git = Command::new("git");
    git.current_dir(folder).args(["apply", "--unsafe-paths", "-C1"]).arg(patch);
    // Not that of a repository above.
    git.env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap()).output().unwrap().status.success()
}
