//! Where the store is, seen from every kind of folder that real git makes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use onus_repo::{Unnamed, discover, name_of, place_for_new_store};

#[path = "../../../tests/support/git.rs"]
mod git;
use git::git;
use tempfile::TempDir;

/// A folder whose own path has no links in it, as a shell's current folder has none.
struct Ground {
    _folder: TempDir,
    path: PathBuf,
}

impl Ground {
    fn new() -> Ground {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        Ground { _folder: folder, path }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A repository with one commit.
    fn repository(&self, name: &str) -> PathBuf {
        let root = self.at(name);
        std::fs::create_dir_all(&root).unwrap();
        git(&root, &["init", "-q", "-b", "main"]);
        commit(&root);
        root
    }
}

fn commit(root: &Path) {
    git(root, &["commit", "-q", "--allow-empty", "-m", "a commit"]);
}

fn submodule(root: &Path, from: &Path, at: &str) -> PathBuf {
    git(root, &["submodule", "add", "-q", from.to_str().unwrap(), at]);
    git(root, &["commit", "-q", "-m", "a submodule"]);
    root.join(at)
}

/// The store as seen from a folder, which must be where a new one would be made.
#[track_caller]
fn store_of(folder: &Path) -> PathBuf {
    let place = discover(folder).unwrap_or_else(|| panic!("nothing found from {}", folder.display()));
    assert_eq!(place, place_for_new_store(folder), "an old and a new store would differ");
    place.store
}

#[test]
fn a_repository_and_every_folder_in_it_share_one_store() {
    let ground = Ground::new();
    let root = ground.repository("repo");
    let deep = root.join("a/b c/ü");
    std::fs::create_dir_all(&deep).unwrap();
    let store = root.join(".git/onus/onus.db");
    assert_eq!(store_of(&root), store);
    assert_eq!(store_of(&deep), store);
    let place = discover(&deep).unwrap();
    assert_eq!(place.root, root);
    assert_eq!(place.common_dir, Some(root.join(".git")));
    assert_eq!(place.branch.as_deref(), Some("main"));
    git(&root, &["checkout", "-q", "-b", "feature/x"]);
    assert_eq!(discover(&root).unwrap().branch.as_deref(), Some("feature/x"));
    git(&root, &["checkout", "-q", "--detach"]);
    assert_eq!(discover(&root).unwrap().branch, None);
    // Hooks run inside the git dir.
    assert_eq!(store_of(&root.join(".git")), store);
    assert_eq!(store_of(&root.join(".git/hooks")), store);
}

#[test]
fn a_linked_worktree_uses_the_store_of_its_repository() {
    let ground = Ground::new();
    let root = ground.repository("repo");
    let linked = ground.at("linked");
    git(&root, &["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    let inside = linked.join("deep");
    std::fs::create_dir(&inside).unwrap();
    assert_eq!(store_of(&inside), root.join(".git/onus/onus.db"));
    let place = discover(&inside).unwrap();
    // Its own root and branch, the repository's store.
    assert_eq!((place.root, place.branch.as_deref()), (linked.clone(), Some("side")));
    assert_eq!(place.common_dir, Some(root.join(".git")));
    // One that was made with relative paths, or moved by hand.
    let git_file = linked.join(".git");
    std::fs::write(&git_file, "gitdir: ../repo/.git/worktrees/linked\n").unwrap();
    assert_eq!(store_of(&linked), root.join(".git/onus/onus.db"));
    std::fs::write(&git_file, "gitdir: ../repo/.git/worktrees/linked\r\n").unwrap();
    assert_eq!(store_of(&linked), root.join(".git/onus/onus.db"));
}

#[test]
fn a_worktree_of_a_bare_repository_uses_the_store_in_it() {
    let ground = Ground::new();
    let root = ground.repository("seed");
    let bare = ground.at("bare.git");
    git(&ground.path, &["clone", "-q", "--bare", root.to_str().unwrap(), bare.to_str().unwrap()]);
    let tree = ground.at("tree");
    git(&bare, &["worktree", "add", "-q", tree.to_str().unwrap(), "main"]);
    let store = bare.join("onus/onus.db");
    assert_eq!(store_of(&tree), store);
    assert_eq!(store_of(&bare), store);
    // The other layout: a hidden bare repository beside its worktrees.
    let home = ground.at("home");
    std::fs::create_dir(&home).unwrap();
    git(&home, &["clone", "-q", "--bare", root.to_str().unwrap(), ".bare"]);
    std::fs::write(home.join(".git"), "gitdir: ./.bare\n").unwrap();
    git(&home, &["worktree", "add", "-q", "work", "main"]);
    let store = home.join(".bare/onus/onus.db");
    assert_eq!(store_of(&home), store);
    assert_eq!(store_of(&home.join("work")), store);
}

#[test]
fn a_submodule_uses_the_store_of_its_superproject_at_any_depth() {
    let ground = Ground::new();
    let (inner, middle) = (ground.repository("inner"), ground.repository("middle"));
    submodule(&middle, &inner, "parts/inner");
    let root = ground.repository("repo");
    let outer = submodule(&root, &middle, "lib/modules/middle");
    git(&root, &["submodule", "update", "-q", "--init", "--recursive"]);
    let store = root.join(".git/onus/onus.db");
    assert_eq!(store_of(&outer), store);
    let nested = outer.join("parts/inner");
    assert!(nested.join(".git").is_file());
    assert_eq!(store_of(&nested), store);
    let place = discover(&nested).unwrap();
    assert_eq!(place.root, nested);
    // What is anchored in git belongs to the superproject too.
    assert_eq!(place.common_dir, Some(root.join(".git")));
    // The repository that it was cloned from is another.
    assert_eq!(store_of(&inner), inner.join(".git/onus/onus.db"));
}

#[test]
fn a_submodule_in_a_linked_worktree_uses_the_store_of_the_repository() {
    let ground = Ground::new();
    let part = ground.repository("part");
    let root = ground.repository("repo");
    submodule(&root, &part, "part");
    let linked = ground.at("linked");
    git(&root, &["worktree", "add", "-q", linked.to_str().unwrap()]);
    git(&linked, &["submodule", "update", "-q", "--init"]);
    let inside = linked.join("part");
    // Git keeps its git dir under the worktree's own.
    assert!(std::fs::read_to_string(inside.join(".git")).unwrap().contains("worktrees/linked/modules"));
    assert_eq!(store_of(&inside), root.join(".git/onus/onus.db"));
    // And a worktree of the submodule itself.
    let side = ground.at("side");
    git(&root.join("part"), &["worktree", "add", "-q", side.to_str().unwrap()]);
    assert_eq!(store_of(&side), root.join(".git/onus/onus.db"));
}

#[test]
fn a_folder_that_happens_to_be_called_modules_is_no_superproject() {
    let ground = Ground::new();
    let root = ground.repository("modules/repo");
    assert_eq!(store_of(&root), root.join(".git/onus/onus.db"));
    let other = ground.repository("outer/modules/inner");
    git(&ground.at("outer"), &["init", "-q"]);
    // A repository inside another's folder is its own, unless git made it a part of the other.
    assert_eq!(store_of(&other), other.join(".git/onus/onus.db"));
}

#[test]
fn two_spellings_of_a_folder_give_one_store() {
    let ground = Ground::new();
    let root = ground.repository("repo");
    let linked = ground.at("linked");
    git(&root, &["worktree", "add", "-q", linked.to_str().unwrap()]);
    for (name, target) in [("to-repo", &root), ("to-linked", &linked)] {
        let link = ground.at(name);
        std::os::unix::fs::symlink(target, &link).unwrap();
        let folder = store_of(&link).parent().unwrap().parent().unwrap().canonicalize().unwrap();
        assert_eq!(folder, root.join(".git"), "{name}");
    }
    // A git dir elsewhere, behind a link.
    let moved = ground.at("elsewhere.git");
    std::fs::rename(root.join(".git"), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, root.join(".git")).unwrap();
    let folder = store_of(&root).parent().unwrap().parent().unwrap().canonicalize().unwrap();
    assert_eq!(folder, moved);
}

#[test]
fn a_separate_git_dir_holds_the_store() {
    let ground = Ground::new();
    let (tree, dir) = (ground.at("tree"), ground.at("kept.git"));
    git(&ground.path, &["init", "-q", "--separate-git-dir", dir.to_str().unwrap(), tree.to_str().unwrap()]);
    assert_eq!(store_of(&tree), dir.join("onus/onus.db"));
}

#[test]
fn outside_git_the_nearest_store_counts_and_a_new_one_is_made_here() {
    let ground = Ground::new();
    let deep = ground.at("a/b/c");
    std::fs::create_dir_all(&deep).unwrap();
    assert_eq!(discover(&deep), None);
    let new = place_for_new_store(&deep);
    assert_eq!((new.store, new.root), (deep.join(".onus/onus.db"), deep.clone()));
    assert_eq!((new.common_dir, new.branch), (None, None));

    for folder in ["a", "a/b"] {
        std::fs::create_dir(ground.at(folder).join(".onus")).unwrap();
        std::fs::write(ground.at(folder).join(".onus/onus.db"), "").unwrap();
        assert_eq!(discover(&deep).unwrap().store, ground.at(folder).join(".onus/onus.db"));
    }
    // A folder of that name without a store is nothing.
    std::fs::create_dir(deep.join(".onus")).unwrap();
    assert_eq!(discover(&deep).unwrap().root, ground.at("a/b"));
}

#[test]
fn a_broken_git_file_is_no_repository() {
    let ground = Ground::new();
    for content in ["", "gitdir: ", "gitdir: ../gone\n", "nonsense\n", "gitdir:../x"] {
        std::fs::write(ground.at(".git"), content).unwrap();
        assert_eq!(discover(&ground.path), None, "{content:?}");
    }
    std::fs::remove_file(ground.at(".git")).unwrap();
    std::fs::create_dir(ground.at(".git")).unwrap();
    assert_eq!(discover(&ground.path), None, "an empty folder called .git");
}

/// Since git 2.45 refs may be kept in tables; then HEAD is a file that names no branch.
#[test]
fn a_repository_with_refs_in_tables_has_its_store_and_no_false_branch() {
    let ground = Ground::new();
    let root = ground.at("repo");
    let made = Command::new("git").args(["init", "-q", "--ref-format=reftable"]).arg(&root).output().unwrap();
    if made.status.success() {
        assert_eq!(store_of(&root), root.join(".git/onus/onus.db"));
        assert_eq!(discover(&root).unwrap().branch, None);
    }
}

/// Git never checks out a `.git`; everything else in a checkout may be a stranger's.
#[test]
fn what_was_committed_leads_nowhere() {
    let ground = Ground::new();
    let (root, other) = (ground.repository("repo"), ground.repository("other"));
    let store = root.join(".git/onus/onus.db");
    // A folder that looks like a bare repository, one that names another's, and a store.
    let bare = root.join("vendor/lib");
    git(&root, &["init", "-q", "--bare", "vendor/lib"]);
    assert_eq!(store_of(&bare), store);
    assert_eq!(store_of(&bare.join("hooks")), store);
    let pointer = root.join("pkg");
    std::fs::create_dir_all(pointer.join(".onus")).unwrap();
    std::fs::write(pointer.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(pointer.join("commondir"), format!("{}\n", other.join(".git").display())).unwrap();
    std::fs::write(pointer.join(".onus/onus.db"), "").unwrap();
    assert_eq!(store_of(&pointer), store);
    // Not even where it is called what a checkout's own would be called.
    let fake = ground.at("fake");
    std::fs::create_dir_all(fake.join(".git")).unwrap();
    std::fs::write(fake.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(fake.join(".git/commondir"), format!("{}\n", other.join(".git").display())).unwrap();
    assert_eq!(discover(&fake), None);
}

#[test]
fn what_never_ends_is_not_waited_for() {
    let ground = Ground::new();
    for (name, make) in [
        (
            "pipe",
            (|path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()))
                as fn(&Path),
        ),
        ("device", |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap()),
        ("large", |path| std::fs::write(path, vec![b'x'; 1 << 20]).unwrap()),
    ] {
        let folder = ground.at(name);
        std::fs::create_dir(&folder).unwrap();
        make(&folder.join(".git"));
        assert_eq!(discover(&folder), None, "{name}");
    }
}

/// What a path is called, as seen from a folder.
fn name(folder: &Path, path: impl AsRef<Path>) -> Result<String, Unnamed> {
    name_of(discover(folder).as_ref(), folder, path.as_ref())
}

#[test]
fn a_file_is_called_by_what_a_write_to_it_would_change() {
    let ground = Ground::new();
    let root = ground.repository("r");
    std::fs::create_dir_all(root.join("src/deep")).unwrap();
    std::fs::write(root.join("src/a"), "").unwrap();
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, root.join(at)).unwrap();
    link("src", "lnk");
    link("lnk/deep", "twice");
    link("src/a", "alias");
    link("src/new", "dangling");
    link("/", "out");
    link("loop-b", "loop-a");
    link("loop-a", "loop-b");
    for (path, called) in [
        ("src/a", "src/a"),
        ("./src//a", "src/a"),
        ("lnk/a", "src/a"),
        ("lnk/f", "src/f"),
        ("twice/f", "src/deep/f"),
        ("twice/../f", "src/f"),
        ("lnk/gone/../f", "src/f"),
        ("gone/../lnk/f", "src/f"),
        ("alias", "src/a"),
        ("dangling", "src/new"),
        ("not/there/yet", "not/there/yet"),
    ] {
        assert_eq!(name(&root, path).as_deref(), Ok(called), "{path}");
        assert_eq!(name(&root.join("lnk"), root.join(path)).as_deref(), Ok(called), "{path}");
    }
    assert_eq!(name(&root.join("src/deep"), "../a").as_deref(), Ok("src/a"));
    for (path, why) in [
        ("../x", Unnamed::Elsewhere),
        ("out/etc/passwd", Unnamed::Elsewhere),
        (".", Unnamed::Root),
        ("src/..", Unnamed::Root),
        (".git/config", Unnamed::Internal),
        ("src/../.git/hooks/pre-commit", Unnamed::Internal),
        ("src/.git", Unnamed::Internal),
        (".onus/onus.db", Unnamed::Internal),
    ] {
        assert_eq!(name(&root, path), Err(why), "{path}");
    }
    assert!(name(&root, "loop-a").is_ok(), "no such file can be written");
    let odd = std::ffi::OsStr::from_bytes(b"src/\xff.rs");
    assert_eq!(name(&root, odd).as_deref(), Ok("src/\u{fffd}.rs"));
    // The same repository through a link to it.
    std::os::unix::fs::symlink(&root, ground.at("other name")).unwrap();
    assert_eq!(name(&root, ground.at("other name/src/a")).as_deref(), Ok("src/a"));
    assert_eq!(name(&ground.at("other name"), "src/a").as_deref(), Ok("src/a"));
    // Outside of every repository the folder is the root.
    std::fs::create_dir(ground.at("plain")).unwrap();
    assert_eq!(name(&ground.at("plain"), "a/b").as_deref(), Ok("a/b"));
    assert_eq!(name(&ground.at("plain"), "../b"), Err(Unnamed::Elsewhere));
}

#[test]
fn a_file_is_named_from_its_own_worktree_and_never_from_a_submodule() {
    let ground = Ground::new();
    let (root, part) = (ground.repository("r"), ground.repository("p"));
    let sub = submodule(&root, &part, "lib/part");
    let inside = root.join("trees/inside");
    git(&root, &["worktree", "add", "-q", "-b", "b", inside.to_str().unwrap()]);
    for folder in [&root, &sub, &inside] {
        assert_eq!(name(folder, root.join("src/a")).as_deref(), Ok("src/a"));
        assert_eq!(name(folder, inside.join("src/a")).as_deref(), Ok("src/a"));
        assert_eq!(name(folder, sub.join("src/a")).as_deref(), Ok("lib/part/src/a"));
        assert_eq!(name(folder, sub.join(".git")), Err(Unnamed::Internal));
    }
    assert_eq!(name(&sub, "src/a").as_deref(), Ok("lib/part/src/a"));
    assert_eq!(name(&sub, "").as_deref(), Ok("lib/part"));
    // A worktree of the submodule lies in none of its superproject.
    let apart = ground.at("apart");
    git(&sub, &["worktree", "add", "-q", "-b", "c", apart.to_str().unwrap()]);
    assert_eq!(name(&apart, "src/a").as_deref(), Ok("src/a"));
    // Another repository inside this one is a folder like any other.
    ground.repository("r/vendor/theirs");
    assert_eq!(name(&root, "vendor/theirs/x").as_deref(), Ok("vendor/theirs/x"));
}
