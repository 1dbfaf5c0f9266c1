//! Where the store is: one for a repository, however and from wherever one looks at it; and none in the working tree.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{As, Ran, Sandbox, agent, git, human};

struct Place<'a> {
    sandbox: &'a Sandbox,
}

impl Place<'_> {
    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.sandbox.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A repository with one commit.
    fn repository(&self, name: &str) -> PathBuf {
        let folder = self.folder(name);
        git(&folder, &["init", "-q"]);
        git(&folder, &["commit", "-q", "--allow-empty", "-m", "first"]);
        folder
    }

    fn onus(&self, folder: &Path, who: &As, args: &[&str]) -> Ran {
        let mut command = self.sandbox.command(who);
        Ran::of(command.current_dir(folder).args(args).arg("--json").output().unwrap())
    }

    #[track_caller]
    fn claimed_from(&self, folder: &Path, who: &As, id: &str) -> Value {
        self.onus(folder, who, &["claim", id]).ok().json()["lease"].clone()
    }
}

/// A task added from one folder is the same, with the same holder, from all the others.
#[track_caller]
fn share_one_store(place: &Place<'_>, folders: &[&Path]) {
    for (at, folder) in folders.iter().enumerate() {
        let added = place.onus(folder, &human("ann"), &["add", "From here"]).ok().json();
        let id = added["id"].as_str().unwrap();
        for other in folders {
            let seen = place.onus(other, &human("ann"), &["show", id]).ok().json();
            assert_eq!(seen["uid"], added["uid"], "{} from {}", id, other.display());
        }
        place.claimed_from(folder, &agent("a"), id);
        let other = folders[(at + 1) % folders.len()];
        assert_eq!(place.onus(other, &agent("b"), &["claim", id]).refused(4)["code"], "held");
    }
}

#[test]
fn a_repository_its_subfolders_and_its_worktrees_share_one_store() {
    let sandbox = Sandbox::empty();
    let place = Place { sandbox: &sandbox };
    let main = place.repository("my-web-app");
    let made = place.onus(&main, &human("ann"), &["init"]).ok().json();
    assert_eq!(made["prefix"], "MWA", "after the repository");
    assert!(made["store"].as_str().unwrap().ends_with("my-web-app/.git/onus/onus.db"));
    git(&main, &["worktree", "add", "-q", "../linked", "-b", "topic"]);
    let linked = sandbox.path().join("linked");
    let (sub, deep) = (place.folder("my-web-app/src/deep"), place.folder("linked/docs"));

    share_one_store(&place, &[&main, &linked, &sub, &deep]);

    // Nothing of it is in the working tree.
    assert_eq!(git(&main, &["status", "--porcelain", "--ignored"]), "");
    assert_eq!(git(&linked, &["status", "--porcelain", "--ignored"]), "");
    // The lease knows where it was taken.
    let id = place.onus(&main, &human("ann"), &["add", "x"]).ok().json()["id"].as_str().unwrap().to_owned();
    let lease = place.claimed_from(&deep, &agent("w"), &id);
    assert_eq!(lease["branch"], "topic");
    assert_eq!(Path::new(lease["worktree"].as_str().unwrap()), linked.canonicalize().unwrap());
    // Making it again from a worktree finds it.
    assert_eq!(place.onus(&linked, &human("ann"), &["init"]).ok().json()["created"], false);
}

#[test]
fn a_store_made_from_a_worktree_is_the_repositorys() {
    let sandbox = Sandbox::empty();
    let place = Place { sandbox: &sandbox };
    let main = place.repository("app");
    git(&main, &["worktree", "add", "-q", "--detach", "../linked"]);
    let linked = sandbox.path().join("linked");
    let made = place.onus(&linked, &human("ann"), &["init"]).ok().json();
    assert!(made["store"].as_str().unwrap().ends_with("app/.git/onus/onus.db"), "{made}");
    assert_eq!(made["prefix"], "AP");
    share_one_store(&place, &[&linked, &main]);
}

#[test]
fn a_submodule_uses_its_superprojects_store() {
    let sandbox = Sandbox::empty();
    let place = Place { sandbox: &sandbox };
    let (inner, library, main) =
        (place.repository("inner"), place.repository("library"), place.repository("app"));
    // A submodule in a submodule, and a worktree of the whole.
    git(&library, &["submodule", "--quiet", "add", &inner.to_string_lossy(), "inner"]);
    git(&library, &["commit", "-q", "-m", "with inner"]);
    git(&main, &["submodule", "--quiet", "add", &library.to_string_lossy(), "vendor/library"]);
    git(&main, &["submodule", "--quiet", "update", "--init", "--recursive"]);
    git(&main, &["commit", "-q", "-m", "with library"]);
    let made = place.onus(&main, &human("ann"), &["init"]).ok().json();
    assert!(made["store"].as_str().unwrap().ends_with("app/.git/onus/onus.db"), "{made}");
    let (sub, nested) = (main.join("vendor/library"), main.join("vendor/library/inner"));
    share_one_store(&place, &[&main, &sub, &nested]);
    // On its own the library is a project of its own.
    assert_eq!(place.onus(&library, &human("ann"), &["list"]).refused(8)["code"], "no_store");
}

#[test]
fn the_worktrees_of_a_bare_repository_share_its_store() {
    let sandbox = Sandbox::empty();
    let place = Place { sandbox: &sandbox };
    let origin = place.repository("origin");
    git(sandbox.path(), &["clone", "-q", "--bare", &origin.to_string_lossy(), "app.git"]);
    let bare = sandbox.path().join("app.git");
    git(&bare, &["worktree", "add", "-q", "../one", "-b", "one"]);
    git(&bare, &["worktree", "add", "-q", "../two", "-b", "two"]);
    let (one, two) = (sandbox.path().join("one"), sandbox.path().join("two"));
    let made = place.onus(&one, &human("ann"), &["init"]).ok().json();
    assert!(made["store"].as_str().unwrap().ends_with("app.git/onus/onus.db"), "{made}");
    assert_eq!(made["prefix"], "AP");
    share_one_store(&place, &[&one, &two, &bare]);
}

#[test]
fn outside_git_the_store_is_found_from_below() {
    let sandbox = Sandbox::new();
    let place = Place { sandbox: &sandbox };
    let deep = place.folder("a/b/c");
    share_one_store(&place, &[sandbox.path(), &deep]);
    assert!(sandbox.database().exists());
    // The nearest one counts: a repository inside is a project of its own.
    let inner = place.repository("a/repository");
    assert_eq!(place.onus(&inner, &human("ann"), &["list"]).refused(8)["code"], "no_store");
    place.onus(&inner, &human("ann"), &["init", "--prefix", "IN"]).ok();
    assert_eq!(place.onus(&inner, &human("ann"), &["add", "x"]).ok().json()["id"], "IN-1");
}

#[test]
fn the_way_by_which_one_came_does_not_matter() {
    let sandbox = Sandbox::empty();
    let place = Place { sandbox: &sandbox };
    let main = place.repository("app");
    place.onus(&main, &human("ann"), &["init"]).ok();
    let link = sandbox.path().join("link");
    std::os::unix::fs::symlink(&main, &link).unwrap();
    share_one_store(&place, &[&main, &link]);
    // A repository that was moved takes its store along.
    let moved = sandbox.path().join("moved");
    std::fs::rename(&main, &moved).unwrap();
    assert!(
        !place.onus(&moved, &human("ann"), &["list"]).ok().json()["tasks"].as_array().unwrap().is_empty()
    );
    // A git dir that was separated from its checkout is followed.
    let apart = place.folder("apart");
    git(&apart, &["init", "-q", "--separate-git-dir", "../apart.git"]);
    let made = place.onus(&apart, &human("ann"), &["init"]).ok().json();
    assert!(made["store"].as_str().unwrap().ends_with("apart.git/onus/onus.db"), "{made}");
}
