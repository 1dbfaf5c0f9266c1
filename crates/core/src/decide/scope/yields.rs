//! **Idle conversations yield.** If only files that resting ad-hoc work touched are in the way of a request, its refusal lists
//! them ([`Resting`]). The caller then asks git about them outside the transaction. A separate act ([`give_up`]) takes the clean
//! ones out of that lease, unless the lease has changed since; then the request is tried once more, like any other.

use std::collections::BTreeMap;

use crate::command::Yielding;
use crate::event::{Body, Draft};
use crate::lease::{Lease, Liveness};
use crate::refusal::{Code, Refusal, Resting, Step};
use crate::scope::{Basis, Reservations, Scope, Touched, WorktreeId};

use super::super::{Decision, View};
use super::collision::first_collision;
use super::{Rival, files, own};

/// The most files that git is asked about for one request.
const MOST_YIELDED: usize = 200;

/// The files to be yielded, if everything in the way can yield. If one rival cannot, none yields in vain.
pub(super) fn all_resting<'a>(
    view: &View<'_>,
    rivals: impl Iterator<Item = &'a Rival>,
    wanted: &Reservations,
) -> Vec<Resting> {
    let resting: Option<Vec<Vec<Resting>>> = rivals.map(|rival| may_yield(view, rival, wanted)).collect();
    let resting: Vec<Resting> = resting.unwrap_or_default().into_iter().flatten().collect();
    match resting.iter().map(|resting| resting.files.paths.len()).sum::<usize>() {
        0..=MOST_YIELDED => resting,
        _ => Vec::new(),
    }
}

/// The files of a rival that are in the way, if it is ad-hoc work whose turn is over and it touched all of them in worktrees with
/// a known id. The caller's own work never yields: the caller is active.
fn may_yield(view: &View<'_>, rival: &Rival, wanted: &Reservations) -> Option<Vec<Resting>> {
    let Rival { id, is_ad_hoc, lease, reserved } = rival;
    if !is_ad_hoc || !lease.pulse.resting || view.is_callers(lease) {
        return None;
    }
    let mut files: BTreeMap<&WorktreeId, Vec<String>> = BTreeMap::new();
    for row in reserved {
        if first_collision(view, wanted, lease, std::slice::from_ref(row)).ok()?.is_none() {
            continue;
        }
        match (&row.basis, row.glob.path()) {
            (Basis::Touched(Touched { worktree: Some(worktree), .. }), Some(path)) => {
                files.entry(worktree).or_default().push(path.to_owned());
            }
            _ => return None,
        }
    }
    let of_worktree = |(worktree, paths): (&WorktreeId, Vec<String>)| Resting {
        task: lease.task,
        id: id.clone(),
        files: Yielding {
            token: lease.token,
            renewals: lease.pulse.renewals,
            worktree: worktree.clone(),
            paths,
        },
    };
    Some(files.into_iter().map(of_worktree).collect())
}

/// Takes clean files out of ad-hoc work whose turn is over, if its lease is still as it was when git looked (P10: a holder that
/// has continued since may have changed them).
pub(in crate::decide) fn give_up(view: &View<'_>, yielding: &Yielding) -> Result<Decision, Refusal> {
    let Yielding { token, renewals, worktree, paths } = yielding;
    let is_as_seen = |lease: &&Lease| {
        let is_resting = lease.pulse.resting && lease.pulse.renewals == *renewals;
        let is_live = lease.ended.is_none() && view.liveness(lease) == Liveness::Live;
        view.task.facts.ad_hoc && lease.token == *token && is_resting && is_live
    };
    let Some(lease) = view.lease.filter(is_as_seen) else { return Err(gone_on(view)) };
    let asked = files(paths);
    let rows = own(view)?.own.rows().iter();
    let yielded = rows.filter(|row| row.is_touched_in(Some(worktree)) && asked.has(&row.glob));
    let scope: Scope = yielded.map(|row| row.glob.clone()).collect();
    if scope.is_empty() {
        return Err(gone_on(view));
    }
    let body = Body::ScopeYielded { scope, worktree: worktree.clone() };
    Ok(Decision::of(vec![Draft::new(body).token(lease.token)]))
}

fn gone_on(view: &View<'_>) -> Refusal {
    Refusal::new(Code::Changed, format!("{} is no longer as it was: its holder has gone on", view.id))
        .task(view.id)
        .next(Step::show(view.id))
}
