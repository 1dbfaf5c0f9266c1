//! The name of a file: the same for the command line, for servers and for agents' hooks.
//!
//! **A file is what a write to it would change.** Symbolic links along the path, and in place of the file, are followed, even to
//! files that do not exist yet: writing `lnk/a` where `lnk` leads to `src` changes `src/a`, and reserves that. `..` means what
//! it means to the operating system, as far as the folders exist.
//!
//! **Its name is its path relative to the root of its worktree**, with `/`. Every worktree of a repository has the same names; a
//! file in a submodule is named relative to its superproject's root. Bytes that are not UTF-8 become U+FFFD, as in all scopes:
//! two oddly named files may then share a name, which refuses too much and never too little.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use crate::discover::{Place, discover, worktree};

/// Why a file has no name here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unnamed {
    /// It is outside the repository.
    Elsewhere,
    /// It is the worktree's root.
    Root,
    /// It is in git's own folder, or in onus's.
    Internal,
}

/// The limit of Linux.
const MAX_LINKS: usize = 40;

/// A file's name, and the root that it is relative to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    /// The root of the file's own worktree, which may not be the caller's.
    pub root: PathBuf,
}

/// The name of a file, given a path relative to `folder`. `place`: the repository that contains `folder`; without one, the
/// folder itself is the root.
pub fn name_of(place: Option<&Place>, folder: &Path, path: &Path) -> Result<String, Unnamed> {
    locate(place, folder, path).map(|file| file.name)
}

/// The name of a file, with its root. See [`name_of`].
pub fn locate(place: Option<&Place>, folder: &Path, path: &Path) -> Result<Named, Unnamed> {
    let file = real(&folder.join(path));
    let root = match place {
        Some(place) => root_of(place, &file),
        None => real(folder),
    };
    let inside = file.strip_prefix(&root).map_err(|_| Unnamed::Elsewhere)?;
    let first = inside.iter().next().ok_or(Unnamed::Root)?;
    // Git tracks nothing of that name, at any depth.
    if first == OsStr::new(".onus") || inside.iter().any(|name| name == ".git") {
        return Err(Unnamed::Internal);
    }
    let name = inside.to_string_lossy().into_owned();
    Ok(Named { name, root })
}

/// The root of the file's worktree: this one, or another one of the same repository, which may be inside this one.
fn root_of(place: &Place, file: &Path) -> PathBuf {
    let is_one_of_ours =
        |there: &Place| there.store == place.store && there.root.iter().all(|name| name != ".git");
    let nearest = file.ancestors().skip(1).find(|folder| folder.is_dir());
    let there = nearest.and_then(worktree).filter(is_one_of_ours);
    // A submodule that is in no worktree of its superproject.
    let there = there.or_else(|| nearest.and_then(discover).filter(is_one_of_ours));
    there.map_or_else(|| real(&place.root), |there| there.root)
}

/// The path without links, `.` and `..`.
fn real(path: &Path) -> PathBuf {
    let mut at = PathBuf::new();
    let mut rest: Vec<OsString> = parts(path);
    let mut links = 0;
    while let Some(part) = rest.pop() {
        match Path::new(&part).components().next() {
            Some(Component::Normal(name)) => {
                at.push(name);
                if links < MAX_LINKS
                    && let Ok(target) = at.read_link()
                {
                    links += 1;
                    at.pop();
                    rest.extend(parts(&target));
                }
            }
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(Component::RootDir | Component::Prefix(_)) => at = PathBuf::from(part),
            Some(Component::CurDir) | None => {}
        }
    }
    at
}

/// The components of a path, last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}
