//! Which files git has exactly as they are on disk: what is yielded to another has nothing in it that is committed nowhere.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use git::git;
use onus_repo::{are_committed, checkouts, discover};

#[path = "../../../tests/support/git.rs"]
mod git;

/// A repository with one committed file.
fn repository(root: &Path, file: &str) {
    fs::create_dir_all(root).unwrap();
    git(root, &["init", "-q"]);
    git::write(root.join(file), "before\n");
    git(root, &["add", "."]);
    git(root, &["commit", "-qm", "first"]);
}

fn is_committed(root: &Path, file: &str) -> bool {
    are_committed(&discover(root).unwrap(), &[file.to_owned()]).unwrap()[0]
}

#[test]
fn a_file_is_committed_if_head_index_and_disk_agree_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("r");
    // A name that would be a pattern.
    let name = "src/[a] *.rs";
    repository(&root, name);
    let file = root.join(name);
    assert!(is_committed(&root, name));
    assert!(is_committed(&root, "src/never made.rs"));
    let says = |args: &[&str]| git(&root, args);
    let step = |what: &str, expected: bool| assert_eq!(is_committed(&root, name), expected, "{what}");
    fs::write(&file, "after\n").unwrap();
    step("changed", false);
    says(&["add", "."]);
    step("staged", false);
    says(&["commit", "-qm", "second"]);
    step("committed", true);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    step("made executable", false);
    says(&["commit", "-qam", "third"]);
    step("committed", true);
    fs::write(&file, "secret\n").unwrap();
    says(&["update-index", "--skip-worktree", name]);
    step("hidden by a flag", false);
    says(&["update-index", "--no-skip-worktree", name]);
    says(&["checkout", "-q", "--", name]);
    step("put back", true);
    says(&["rm", "-q", "--cached", name]);
    step("no longer tracked", false);
    says(&["reset", "-q"]);
    fs::remove_file(&file).unwrap();
    step("removed", false);
    symlink("elsewhere", &file).unwrap();
    step("a link in its place", false);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    step("a folder in its place", false);
    fs::remove_dir(&file).unwrap();
    says(&["rm", "-q", "--cached", name]);
    says(&["commit", "-qm", "gone"]);
    step("removed by a commit", true);
    // Several at once, each for itself.
    fs::write(root.join("b"), "").unwrap();
    let files = ["b".to_owned(), "c".to_owned()];
    assert_eq!(are_committed(&discover(&root).unwrap(), &files).unwrap(), [false, true]);
}

#[test]
fn what_only_a_filter_makes_equal_is_not_and_no_filter_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let (root, ran) = (folder.path().join("r"), folder.path().join("it-ran"));
    repository(&root, "a");
    fs::write(root.join(".gitattributes"), "a text eol=lf filter=evil\n").unwrap();
    git(&root, &["config", "filter.evil.clean", &format!("touch {}; cat", ran.display())]);
    fs::write(root.join("a"), "before\r\n").unwrap();
    assert!(!is_committed(&root, "a"));
    assert!(!ran.exists());
}

#[test]
fn every_checkout_is_found_and_asked_about_its_own_files() {
    let folder = tempfile::tempdir().unwrap();
    let (root, linked) = (folder.path().join("r"), folder.path().join("linked"));
    repository(&root, "a");
    git(&root, &["worktree", "add", "-q", linked.to_str().unwrap(), "-b", "other"]);
    fs::write(linked.join("a"), "changed there\n").unwrap();
    for start in [&root, &linked] {
        let mut found: Vec<_> =
            checkouts(&discover(start).unwrap()).into_iter().map(|place| place.root).collect();
        assert_eq!(&found[0], start, "its own first");
        found.sort();
        assert_eq!(found, [linked.clone(), root.clone()]);
    }
    assert!(is_committed(&root, "a") && !is_committed(&linked, "a"));
}

#[test]
fn a_submodules_files_belong_to_the_checkout_around_it_and_are_not_known_there() {
    let folder = tempfile::tempdir().unwrap();
    let (root, library) = (folder.path().join("r"), folder.path().join("library"));
    repository(&library, "x");
    repository(&root, "a");
    git(&root, &["submodule", "add", "-q", library.to_str().unwrap(), "sub"]);
    git(&root, &["commit", "-qam", "a submodule"]);
    let inside = discover(&root.join("sub")).unwrap();
    assert_eq!(checkouts(&inside)[0].root, root);
    fs::write(root.join("sub/x"), "changed\n").unwrap();
    assert!(!is_committed(&root, "sub/x"), "git does not look into it from there");
}

#[test]
fn before_the_first_commit_nothing_can_be_said() {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "-q"]);
    assert!(are_committed(&discover(folder.path()).unwrap(), &["a".to_owned()]).is_err());
}
