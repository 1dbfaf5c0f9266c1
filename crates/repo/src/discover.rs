//! Where the store is, seen from a folder.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// What a folder belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The store's file; it need not exist.
    pub store: PathBuf,
    /// The root of the checkout, or the folder that has `.onus/`.
    pub root: PathBuf,
    /// The repository's common dir; None outside git.
    pub common_dir: Option<PathBuf>,
    /// The branch that is checked out.
    pub branch: Option<String>,
}

/// The nearest repository or `.onus/` folder at or above `start`.
pub fn discover(start: &Path) -> Option<Place> {
    start.ancestors().find_map(|folder| in_git(folder).or_else(|| outside_git(folder)))
}

/// Where a new store for `start` belongs: the repository it is in, else the folder itself.
pub fn place_for_new_store(start: &Path) -> Place {
    start.ancestors().find_map(in_git).unwrap_or_else(|| Place {
        store: start.join(".onus").join("onus.db"),
        root: start.to_owned(),
        common_dir: None,
        branch: None,
    })
}

fn outside_git(folder: &Path) -> Option<Place> {
    let store = folder.join(".onus").join("onus.db");
    store.exists().then(|| Place { store, root: folder.to_owned(), common_dir: None, branch: None })
}

fn in_git(folder: &Path) -> Option<Place> {
    let git_dir = git_dir(folder)?;
    let common_dir = superproject(&common_dir(&git_dir));
    Some(Place {
        store: common_dir.join("onus").join("onus.db"),
        root: folder.to_owned(),
        branch: branch(&git_dir),
        common_dir: Some(common_dir),
    })
}

/// The git dir of a checkout, or of a bare repository.
fn git_dir(folder: &Path) -> Option<PathBuf> {
    let dot_git = folder.join(".git");
    let Ok(metadata) = fs::metadata(&dot_git) else {
        return looks_like_git_dir(folder).then(|| folder.to_owned());
    };
    if metadata.is_dir() {
        return looks_like_git_dir(&dot_git).then_some(dot_git);
    }
    // A linked worktree or a submodule: the file says where its git dir is.
    let text = fs::read_to_string(&dot_git).ok()?;
    let target = text.trim_end_matches(['\n', '\r']).strip_prefix("gitdir: ")?;
    let target = normal(&folder.join(target));
    looks_like_git_dir(&target).then_some(target)
}

fn looks_like_git_dir(folder: &Path) -> bool {
    // A worktree's own git dir has `commondir` instead of objects and refs.
    folder.join("HEAD").exists()
        && (folder.join("objects").is_dir() && folder.join("refs").is_dir()
            || folder.join("commondir").exists())
}

/// The dir that all worktrees of a repository share.
fn common_dir(git_dir: &Path) -> PathBuf {
    match fs::read_to_string(git_dir.join("commondir")) {
        Ok(text) => normal(&git_dir.join(text.trim_end_matches(['\n', '\r']))),
        Err(_) => git_dir.to_owned(),
    }
}

/// A submodule's git dir lies in `modules/` of its superproject's, at any depth.
fn superproject(common: &Path) -> PathBuf {
    let outermost = common
        .ancestors()
        .filter(|folder| folder.file_name().is_some_and(|name| name == "modules"))
        .filter_map(Path::parent)
        .filter(|folder| looks_like_git_dir(folder))
        .last();
    match outermost {
        Some(git_dir) => common_dir(git_dir),
        None => common.to_owned(),
    }
}

fn branch(git_dir: &Path) -> Option<String> {
    let head = fs::read_to_string(git_dir.join("HEAD")).ok()?;
    let branch = head.trim().strip_prefix("ref: refs/heads/")?;
    // Where refs are kept in tables, the file says only that it says nothing.
    (branch != ".invalid").then(|| branch.to_owned())
}

/// The path without `.` and `..`, links resolved where it exists: two spellings must give one store.
fn normal(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop();
            }
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    parts
}
