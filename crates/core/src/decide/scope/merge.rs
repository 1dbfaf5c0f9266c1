//! Merges to come: one file, touched in two worktrees. Nobody is refused; both get a notice (`scope.across_worktrees`).

use crate::actor::Caller;
use crate::ids::{Token, Uid};
use crate::lease::{Lease, Mode};
use crate::policy::{AcrossWorktrees, Policy};
use crate::quote;
use crate::scope::{self, Reservations};

use super::super::View;
use super::super::standing::place;
use super::Rival;

/// Files that another live lease has touched in another worktree, so that both changes will have to be merged. Both holders get
/// a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The id of the other lease's task.
    pub id: String,
    pub task: Uid,
    pub token: Token,
    pub paths: Vec<String>,
    /// The notice to the caller.
    pub message: String,
}

/// The merges to come for files that are about to be reserved.
pub(in crate::decide) fn merges(view: &View<'_>, wanted: &Reservations, mode: Mode) -> Vec<Merge> {
    let Policy { scope_shared, across_worktrees, .. } = view.policy;
    if *across_worktrees != AcrossWorktrees::Tell {
        return Vec::new();
    }
    let Caller { actor, instance, .. } = view.caller;
    let others = view.around.into_iter().flat_map(|around| &around.rivals);
    let whole = view.caller.whole.as_ref().unwrap_or(instance);
    let is_kin = |lease: &Lease| {
        lease.actor == *actor && (lease.instance == *whole || whole.has_part(&lease.instance))
    };
    let others = others.filter(|rival| !rival.shares(mode) && !is_kin(&rival.lease));
    let merge = |rival: &Rival| {
        let Rival { id, lease, reserved, .. } = rival;
        let paths: Vec<String> =
            scope::merges(wanted.rows(), reserved, scope_shared).map(str::to_owned).collect();
        let holder = lease.holder();
        let message = format!(
            "a merge to come: {holder} changes {} too, for {id}{}",
            quote::some_names(&paths),
            place(lease)
        );
        Merge { id: id.clone(), task: lease.task, token: lease.token, paths, message }
    };
    others.map(merge).filter(|merge| !merge.paths.is_empty()).collect()
}
