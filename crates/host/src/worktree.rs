//! Where work is done: the checkout, its branch, and which worktree it is beyond its path.

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
    /// Which worktree it is. None: nothing marks it, so it cannot be told from every other.
    pub id: Option<WorktreeId>,
    pub path: Option<String>,
    pub branch: Option<String>,
}

/// What git says of files in a worktree of this repository. Its id has the machine in it, so a worktree of another machine is not
/// found here, and nothing is said of it.
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
    /// Which worktree this is. One small file is read, or made when there is none yet; no process is started. Where there can
    /// be none (outside git, in a sandbox that may not write) the path has to do, and moving the folder makes it another.
    pub fn worktree_id(&self) -> WorktreeId {
        self.place.as_ref().and_then(marked).unwrap_or_else(|| {
            let root = self.place.as_ref().map_or(&self.folder, |place| &place.root);
            let root = root.canonicalize().unwrap_or_else(|_| root.clone());
            WorktreeId::new(&machine(&clock::now()), &format!("path {}", root.display()))
        })
    }

    /// The checkout that files with this root ([`onus_repo::Named`]) are in.
    ///
    /// Only a mark tells two worktrees apart here: a path may be seen by somebody who could not write one, while others know
    /// the same worktree by its mark.
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

    /// The names of files, spelled as seen from here, and where they are touched: in one worktree, by no sub-agent in particular.
    pub fn touched(&self, files: &[impl AsRef<Path>]) -> Result<(Vec<String>, Touched), Refusal> {
        let files = files.iter().map(|file| in_repository(self, file.as_ref()));
        let files: Vec<Named> = files.collect::<Result<_, _>>()?;
        if files.iter().any(|file| file.root != files[0].root) {
            return Err(Refusal::usage("these files are in several worktrees: name those of one at a time"));
        }
        let worktree = files.first().and_then(|file| self.checkout(&file.root).id);
        Ok((files.into_iter().map(|file| file.name).collect(), Touched { worktree, part: None }))
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

    /// This worktree, for a lease that was granted elsewhere.
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
pub(crate) fn marked(place: &Place) -> Option<WorktreeId> {
    let now = clock::now();
    let fresh = || onus_engine::new_uid(now.wall_ms).to_string().replace('-', "");
    worktree_mark(place, fresh).map(|mark| by_mark(&now, &mark))
}

fn by_mark(now: &Moment, mark: &str) -> WorktreeId {
    WorktreeId::new(&machine(now), &format!("mark {mark}"))
}

/// Whether git still has a linked worktree, by its id or where it has none by its path, though its folder may be elsewhere.
pub(crate) fn is_administered(place: &Place, id: Option<&WorktreeId>, path: Option<&Path>) -> bool {
    let now = clock::now();
    administered(place).iter().any(|(root, mark)| match (mark, id) {
        (Some(mark), Some(id)) => by_mark(&now, mark) == *id,
        _ => path == Some(root),
    })
}

/// This machine, if it can be told from others.
pub(crate) fn this_machine() -> Option<String> {
    clock::domain().machine().known().map(str::to_owned)
}

pub(crate) fn machine(now: &Moment) -> String {
    now.domain.machine().known().unwrap_or_default().to_owned()
}
