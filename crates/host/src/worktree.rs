//! Where work is done: the checkout, its branch, and the id of its worktree, which survives a move.

use std::path::Path;

use onus_core::command::{Attachment, Terms};
use onus_core::refusal::Refusal;
use onus_core::scope::{Touched, WorktreeId};
use onus_core::time::Moment;
use onus_engine::Looked;
use onus_os::clock;
use onus_repo::{Named, Place, administered, are_committed, checkouts, discover, worktree_mark};

use crate::Host;
use crate::scopes::in_repository;

/// A checkout in which files are changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkout {
    /// The id of its worktree. None if it has no mark, so that it cannot be distinguished from others.
    pub id: Option<WorktreeId>,
    pub path: Option<String>,
    pub branch: Option<String>,
}

/// Asks git about files in a worktree of this repository. The id contains the machine, so a worktree of another machine is not
/// found here, and its files are unknown.
pub(crate) fn look(place: Option<&Place>, worktree: &WorktreeId, files: &[String]) -> Vec<Looked> {
    let checkouts = place.map(checkouts).unwrap_or_default();
    let there = checkouts.into_iter().find(|place| marked(place).as_ref() == Some(worktree));
    match there.map(|place| are_committed(&place, files)) {
        Some(Ok(committed)) => {
            let said = |is_committed| if is_committed { Looked::Clean } else { Looked::Changed };
            committed.into_iter().map(said).collect()
        }
        Some(Err(_)) | None => vec![Looked::Unknown; files.len()],
    }
}

impl Host {
    /// The id of this worktree. Reads one small file, or creates it; starts no process. Where there can be none (outside git, in a
    /// sandbox that may not write), the id is made from the path, and changes when the folder is moved.
    pub fn worktree_id(&self) -> WorktreeId {
        self.place.as_ref().and_then(marked).unwrap_or_else(|| {
            let root = self.place.as_ref().map_or(&self.folder, |place| &place.root);
            let root = root.canonicalize().unwrap_or_else(|_| root.clone());
            WorktreeId::new(&machine(&clock::now()), &format!("path {}", root.display()))
        })
    }

    /// The checkout that contains files with this root ([`onus_repo::Named`]).
    ///
    /// Its id comes only from a mark, never from a path: a process that could not write a mark would have another id for a worktree
    /// that others know by its mark.
    pub fn checkout(&self, root: &Path) -> Checkout {
        let here = self.place.as_ref().filter(|place| place.root == root);
        let there = if here.is_none() { discover(root) } else { None };
        let place = here.or(there.as_ref());
        Checkout {
            id: place.and_then(marked),
            path: place.map(|place| place.root.to_string_lossy().into_owned()),
            branch: place.and_then(|place| place.branch.clone()),
        }
    }

    /// The names of files, given relative to here, and where they are touched: in one worktree, by no particular sub-agent.
    pub fn touched(&self, files: &[impl AsRef<Path>]) -> Result<(Vec<String>, Touched), Refusal> {
        let (names, checkout) = self.files_in_checkout(files)?;
        Ok((names, Touched { worktree: checkout.id, part: None }))
    }

    /// The same, with all that is known of the checkout that the files are in.
    pub fn files_in_checkout(&self, files: &[impl AsRef<Path>]) -> Result<(Vec<String>, Checkout), Refusal> {
        let files = files.iter().map(|file| in_repository(self, file.as_ref()));
        let files: Vec<Named> = files.collect::<Result<_, _>>()?;
        if files.iter().any(|file| file.root != files[0].root) {
            return Err(Refusal::usage("these files are in several worktrees: name those of one at a time"));
        }
        let checkout = files.first().map(|file| self.checkout(&file.root)).unwrap_or_default();
        Ok((files.into_iter().map(|file| file.name).collect(), checkout))
    }

    /// The checkout's path, for people.
    pub fn worktree(&self) -> Option<String> {
        self.place.as_ref().map(|place| place.root.to_string_lossy().into_owned())
    }

    pub fn branch(&self) -> Option<String> {
        self.place.as_ref().and_then(|place| place.branch.clone())
    }

    /// The terms of a lease whose work is done here.
    pub fn terms(&self) -> Terms {
        Terms {
            worktree: self.worktree(),
            worktree_id: Some(self.worktree_id()),
            branch: self.branch(),
            ..Terms::default()
        }
    }

    /// Attaches a lease that was granted elsewhere to this worktree.
    pub fn attachment(&self) -> Attachment {
        Attachment {
            id: Some(self.worktree_id()),
            path: self.worktree().unwrap_or_else(|| self.folder.to_string_lossy().into_owned()),
            branch: self.branch(),
            own: None,
        }
    }
}

/// The worktree's id by its mark, if it has one or can be given one.
pub fn marked(place: &Place) -> Option<WorktreeId> {
    let now = clock::now();
    let fresh = || onus_engine::new_uid(now.wall_ms).to_string().replace('-', "");
    worktree_mark(place, fresh).map(|mark| by_mark(&now, &mark))
}

fn by_mark(now: &Moment, mark: &str) -> WorktreeId {
    WorktreeId::new(&machine(now), &format!("mark {mark}"))
}

/// Whether git still lists a linked worktree, by its id, or by its path if it has no mark. Its folder may be elsewhere.
pub(crate) fn is_administered(place: &Place, id: Option<&WorktreeId>, path: Option<&Path>) -> bool {
    let now = clock::now();
    administered(place).iter().any(|(root, mark)| match (mark, id) {
        (Some(mark), Some(id)) => by_mark(&now, mark) == *id,
        _ => path == Some(root),
    })
}

/// The id of this machine, if it is known.
pub fn this_machine() -> Option<String> {
    clock::domain().machine().known().map(str::to_owned)
}

pub(crate) fn machine(now: &Moment) -> String {
    now.domain.machine().known().unwrap_or_default().to_owned()
}
