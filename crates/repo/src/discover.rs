//! Finds the store of a folder.
//!
//! **A clone's content is not trusted.** Git never checks out anything called `.git`, so what a `.git` leads to was
//! put there by the user's own git. A stranger may have committed anything else in a checkout: a folder that
//! looks like a bare repository, a `commondir` that leads to another repository, an `.onus/` with a store in it.
//! Inside a checkout none of these counts.
//!
//! **Another user's files are not trusted either** ([`Place::check_owner`]): a `.git` in a folder that everyone may
//! write to, such as `/tmp`, is above everything in it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::read_small;
use crate::owner::{self, Foreign};

/// What a folder belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The store's file; it need not exist.
    pub store: PathBuf,
    /// The root of the checkout, or the folder that has `.onus/`.
    pub root: PathBuf,
    /// The repository's common dir; None outside git.
    pub common_dir: Option<PathBuf>,
    /// The checkout's own git dir, which for a linked worktree is below the common one; None outside git.
    pub git_dir: Option<PathBuf>,
    /// The branch that is checked out.
    pub branch: Option<String>,
    /// All paths that led here; their owners decide whose place it is.
    believed: Vec<PathBuf>,
}

impl Place {
    /// Refuses (exit 8) a place that another user made, unless the user told git that the repository is safe.
    pub fn check_owner(&self) -> Result<(), Foreign> {
        owner::check(&self.believed, &self.root, self.common_dir.is_some())
    }

    /// Whether it is checked out in another repository's worktree, whose store it uses.
    pub fn is_submodule(&self) -> bool {
        match (&self.git_dir, &self.common_dir) {
            (Some(git_dir), Some(common_dir)) => common_dir_of(git_dir) != *common_dir,
            _ => false,
        }
    }
}

/// The repository that `start` is in; outside git, the nearest `.onus/` folder at or above it.
pub fn discover(start: &Path) -> Option<Place> {
    let Some(place) = in_git(start) else { return start.ancestors().find_map(outside_git) };
    // A repository that another user put above the user's own store does not hide that store.
    let nearer = start.ancestors().take_while(|folder| *folder != place.root).find_map(outside_git);
    match nearer {
        Some(own) if place.check_owner().is_err() && own.check_owner().is_ok() => Some(own),
        _ => Some(place),
    }
}

/// The checkout that a git directory belongs to, wherever git's files are now: with `--work-tree` they are elsewhere. For a bare
/// repository, the directory itself.
pub fn checkout_of(git_dir: &Path) -> Option<PathBuf> {
    let git_dir = git_dir.canonicalize().ok()?;
    let linked = read_small(&git_dir.join("gitdir")).ok();
    let linked = linked.and_then(|file| Path::new(file.trim_end()).parent().map(Path::to_path_buf));
    let beside = git_dir.parent().map(Path::to_path_buf);
    let candidates = linked.into_iter().chain(beside).chain([git_dir.clone()]);
    let leads_there = |folder: &PathBuf| {
        let found = discover(folder).and_then(|place| place.git_dir?.canonicalize().ok());
        found.is_some_and(|found| found == git_dir)
    };
    candidates.into_iter().find(leads_there)
}

/// The nearest checkout that is not a submodule: the worktree that a file belongs to.
pub(crate) fn worktree(start: &Path) -> Option<Place> {
    let whole = start.ancestors().filter(|folder| !is_submodule(folder)).find_map(checkout);
    whole.or_else(|| start.ancestors().find_map(bare)).or_else(|| start.ancestors().find_map(outside_git))
}

/// The most worktrees of a repository that are examined.
const MOST_WORKTREES: usize = 1_000;

/// The checkouts of a place's repository, its own first. A submodule's files belong to the checkout that contains it.
pub fn checkouts(place: &Place) -> Vec<Place> {
    let Some(common_dir) = &place.common_dir else { return Vec::new() };
    let linked = linked(common_dir).take(MOST_WORKTREES).filter_map(|(_, root)| root);
    let main = common_dir.parent().map(Path::to_path_buf);
    let others =
        main.into_iter().chain(linked).filter_map(|root| worktree(&root).filter(|it| it.root == root));
    let mut found: Vec<Place> = outer(place).into_iter().collect();
    for other in others.filter(|other| other.common_dir.as_ref() == Some(common_dir)) {
        if !found.iter().any(|there| there.git_dir == other.git_dir) {
            found.push(other);
        }
    }
    found
}

/// The git directories of the linked worktrees that git has recorded, and each one's folder.
pub(crate) fn linked(common_dir: &Path) -> impl Iterator<Item = (PathBuf, Option<PathBuf>)> {
    let entries = fs::read_dir(common_dir.join("worktrees")).into_iter().flatten().flatten();
    entries.map(|entry| {
        let git_dir = entry.path();
        let file = read_small(&git_dir.join("gitdir")).ok().map(|file| git_dir.join(file.trim_end()));
        let root = file.and_then(|file| file.parent().map(Path::to_path_buf));
        (git_dir, root)
    })
}

/// The place itself, or for a submodule the worktree that contains it: its files belong to that one.
pub(crate) fn outer(place: &Place) -> Option<Place> {
    if place.is_submodule() { place.root.parent().and_then(worktree) } else { Some(place.clone()) }
}

fn is_submodule(folder: &Path) -> bool {
    git_dir_of_checkout(folder).is_some_and(|git_dir| {
        let common = common_dir_of(&git_dir);
        superproject(&common) != common
    })
}

/// Where a new store for `start` belongs: the repository it is in, else the folder itself.
pub fn place_for_new_store(start: &Path) -> Place {
    in_git(start).unwrap_or_else(|| without_git(start, vec![start.to_owned()]))
}

fn without_git(root: &Path, believed: Vec<PathBuf>) -> Place {
    Place {
        store: root.join(".onus").join("onus.db"),
        root: root.to_owned(),
        common_dir: None,
        git_dir: None,
        branch: None,
        believed,
    }
}

fn outside_git(folder: &Path) -> Option<Place> {
    let own = folder.join(".onus");
    let store = own.join("onus.db");
    // No links: an unpacked archive must not lead elsewhere.
    let is_own = own.symlink_metadata().is_ok_and(|own| own.is_dir())
        && store.symlink_metadata().is_ok_and(|store| !store.is_symlink());
    is_own.then(|| without_git(folder, vec![folder.to_owned(), own]))
}

/// A checkout comes first, since something in it that looks like a bare repository was committed.
fn in_git(start: &Path) -> Option<Place> {
    start.ancestors().find_map(checkout).or_else(|| start.ancestors().find_map(bare))
}

fn checkout(folder: &Path) -> Option<Place> {
    Some(place(folder, folder.join(".git"), &git_dir_of_checkout(folder)?))
}

fn bare(folder: &Path) -> Option<Place> {
    is_whole_git_dir(folder).then(|| place(folder, folder.to_owned(), folder))
}

fn place(root: &Path, entry: PathBuf, git_dir: &Path) -> Place {
    let common_dir = superproject(&common_dir_of(git_dir));
    Place {
        store: common_dir.join("onus").join("onus.db"),
        root: root.to_owned(),
        branch: branch(git_dir),
        believed: vec![root.to_owned(), entry, git_dir.to_owned(), common_dir.clone()],
        common_dir: Some(common_dir),
        git_dir: Some(git_dir.to_owned()),
    }
}

/// Where the `.git` of a checkout leads.
fn git_dir_of_checkout(folder: &Path) -> Option<PathBuf> {
    let dot_git = folder.join(".git");
    if fs::metadata(&dot_git).ok()?.is_dir() {
        return is_git_dir(&dot_git).then_some(dot_git);
    }
    // A linked worktree or a submodule: the file names its git dir.
    let text = read_small(&dot_git).ok()?;
    let target = text.trim_end_matches(['\n', '\r']).strip_prefix("gitdir: ")?;
    let target = real(&folder.join(target));
    is_git_dir(&target).then_some(target)
}

fn is_git_dir(folder: &Path) -> bool {
    is_whole_git_dir(folder) || folder.join("HEAD").exists() && shared_dir(folder).is_some()
}

/// Whether it has objects and refs of its own, unlike a linked worktree's.
fn is_whole_git_dir(folder: &Path) -> bool {
    folder.join("HEAD").exists() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

/// The dir that a linked worktree shares with its repository. The worktree's own git dir must be where git puts it, below the
/// shared one; otherwise the `commondir` file is ignored.
fn shared_dir(git_dir: &Path) -> Option<PathBuf> {
    let text = read_small(&git_dir.join("commondir")).ok()?;
    let common = real(&git_dir.join(text.trim_end_matches(['\n', '\r'])));
    real(git_dir).parent().is_some_and(|parent| parent == common.join("worktrees")).then_some(common)
}

/// The dir that all worktrees of a repository share.
fn common_dir_of(git_dir: &Path) -> PathBuf {
    shared_dir(git_dir).unwrap_or_else(|| git_dir.to_owned())
}

/// The common dir of the outermost superproject. A submodule's git dir is in `modules/` of its superproject's, at any depth.
fn superproject(common: &Path) -> PathBuf {
    let outermost = common
        .ancestors()
        .filter(|folder| folder.file_name().is_some_and(|name| name == "modules"))
        .filter_map(Path::parent)
        .filter(|folder| is_git_dir(folder))
        .last();
    match outermost {
        Some(git_dir) => common_dir_of(git_dir),
        None => common.to_owned(),
    }
}

fn branch(git_dir: &Path) -> Option<String> {
    let head = read_small(&git_dir.join("HEAD")).ok()?;
    let branch = head.trim().strip_prefix("ref: refs/heads/")?;
    // With the reftable format, the file is only a placeholder.
    (branch != ".invalid").then(|| branch.to_owned())
}

/// The path with links resolved, so that two spellings lead to the same store; as it is, if nothing is there.
pub(crate) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
