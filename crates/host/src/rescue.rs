//! Keeps what the holder of a lost lease left uncommitted on this machine, as a commit.

use std::path::Path;

use onus_core::rescue::{KeptFiles, LeftFile, Rescued};
use onus_core::scope::{Basis, Scope, WorktreeId};
use onus_engine::{Due, Tried};
use onus_repo::rescue::{self, Limits, REFERENCES, What};
use onus_repo::{Place, checkouts, discover};

use crate::worktree::{is_administered, marked};

/// Rescues the files of one lease. `is_shared`: the store is used from several machines, so files that are not here may be on another.
pub(crate) fn keep(place: Option<&Place>, limits: Limits, is_shared: bool, due: &Due) -> Tried {
    let own = due.worktree.as_deref().and_then(|path| discover(Path::new(path)));
    let mut places = place.map(checkouts).unwrap_or_default();
    if let Some(own) = own.filter(|own| !places.iter().any(|place| place.root == own.root)) {
        places.push(own);
    }
    let (mut kept, mut left_out, mut is_found) = (Vec::new(), Vec::new(), false);
    for place in &places {
        let id = marked(place);
        let is_own = match (&id, &due.worktree_id) {
            (Some(id), Some(own)) => id == own,
            // Without marks, worktrees are compared by path.
            _ => due.worktree.as_deref().is_some_and(|path| Path::new(path) == place.root),
        };
        let is_linked = place.git_dir != place.common_dir;
        is_found |= is_own;
        let scope = reserved(due, id.as_ref(), is_own);
        let what = match is_own && is_linked && due.is_own_worktree {
            true => What::All,
            false if scope.is_empty() => continue,
            false => What::Scope(&scope),
        };
        let reference = format!("{REFERENCES}/{}/{}", due.id, due.token);
        let message = format!(
            "{}, token {}: what {} left uncommitted\n\nin {}\n",
            due.id,
            due.token,
            due.holder,
            place.root.display()
        );
        match rescue::keep(place, what, limits, &reference, &message) {
            Ok(found) => {
                let files = found.files.len() as u64;
                kept.extend(found.at.map(|at| KeptFiles {
                    reference: at.reference,
                    commit: at.commit,
                    files,
                }));
                left_out.extend(found.left_out.iter().map(|left| LeftFile {
                    path: left.path.to_string_lossy().into_owned(),
                    why: left.why.as_str().to_owned(),
                }));
            }
            Err(error) => return Tried::Failed(error.to_string()),
        }
    }
    // A worktree that git still lists may have been moved, so it is not reported as gone. A later attempt finds again what was kept
    // elsewhere.
    let path = due.worktree.as_deref().map(Path::new);
    let is_ours = || place.is_some_and(|place| is_administered(place, due.worktree_id.as_ref(), path));
    if !is_found && is_ours() {
        return Tried::Failed(
            "its folder is not there; if it was moved, `git worktree repair` in it says where it is, and if it was deleted, \
             `git worktree prune` says so"
                .to_owned(),
        );
    }
    match (kept.is_empty(), is_found) {
        (false, _) => Tried::Done(Rescued::Kept { kept, left_out }),
        (true, true) => Tried::Done(Rescued::Nothing { left_out }),
        (true, false) if is_shared => Tried::Elsewhere,
        (true, false) => Tried::Done(Rescued::Gone),
    }
}

/// The paths of a worktree that the lease reserved. Declared globs count only in the worktree where its work was done.
fn reserved(due: &Due, id: Option<&WorktreeId>, is_own: bool) -> Scope {
    let is_there = |basis: &Basis| match (basis, basis.worktree()) {
        (Basis::Touched(_), Some(worktree)) => Some(worktree) == id,
        _ => is_own,
    };
    due.reserved.rows().iter().filter(|row| is_there(&row.basis)).map(|row| row.glob.clone()).collect()
}
