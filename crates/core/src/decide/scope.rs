//! Scopes (P3): a lease and the paths it reserves are granted, widened and renewed after a lapse together, or not at
//! all. [`reserves`] says whether an act may do one of these, and with which paths. For those the engine takes the
//! reservation lock and looks up what others reserve nearby. The view then has those live leases, and the code here decides
//! what exactly collides. A path that was not looked up is refused, whatever the reason: a verb that [`reserves`] forgets
//! must not become a grant.
//!
//! This file decides what an act may reserve and what it does to the lease's own paths. [`mod@collision`] compares that with
//! what others reserve, [`kin`] is the exception within a conversation, [`yields`] what resting work gives up, [`merge`] what
//! two worktrees will have to merge.

use std::collections::BTreeSet;

use crate::actor::InstanceId;
use crate::command::{Act, ChangedFiles, Terms};
use crate::commit::Extent;
use crate::event::{Body, Draft};
use crate::lease::{Lease, Mode, Seen};
use crate::refusal::{Code, Refusal, Step};
use crate::scope::{Areas, Glob, Reservation, ReservationKind, Reservations, Scope, Touched};
use crate::task::{State, Task};
use crate::transition::Verb;

use super::claim::{Revival, not_yours, renew_late};
use super::standing::{Standing, held_refusal, is_holders_for_good, standing, standing_of_claimant};
use super::{Decision, Renewal, View, constrained};

use collision::not_looked_up;

pub use collision::{anothers_worktree, reserved_by};
pub use merge::Merge;

pub(super) use collision::{check_collisions, check_in_doubt, check_revived, collision};
pub(super) use kin::ask_kin;
pub(super) use merge::merges;
pub(super) use yields::give_up;

mod collision;
mod kin;
mod merge;
mod yields;

/// The most globs that one lease may reserve: a task that touches more files reserves their folders.
pub const MAX_GLOBS: usize = 10_000;

/// Another task's live lease, with those of its reservations that may overlap the requested ones.
#[derive(Clone, Debug)]
pub struct Rival {
    /// The task's id.
    pub id: String,
    /// Whether the task was opened for edits that belonged to no task.
    pub is_ad_hoc: bool,
    pub lease: Lease,
    pub reserved: Vec<Reservation>,
}

impl Rival {
    /// Whether both leases share their paths.
    pub fn shares(&self, mode: Mode) -> bool {
        mode == Mode::Shared && self.lease.grant.mode == Mode::Shared
    }
}

/// What an act may reserve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reserving {
    /// The paths of a lease that begins or grows.
    pub scope: Scope,
    /// Whether the caller's lapsed lease would be revived, with all that it reserved.
    pub revives: bool,
    /// Whether the lease's files are counted, so that all its reservations must be looked up.
    pub counts: bool,
}

/// What was found near the requested paths.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// All paths that were looked up: those to be reserved, and those of a lease that would be revived.
    pub asked: Scope,
    /// The current lease's reservations: all of them if the lease would have to be revived, else those near the requested paths.
    pub own: Reservations,
    /// How many reservations the current lease has in all.
    pub own_len: usize,
    /// Whether `own` has all of the lease's reservations.
    pub is_whole: bool,
    /// Live leases of other tasks that reserve something nearby.
    pub rivals: Vec<Rival>,
    /// The parts of the caller's conversation that have touched something nearby and are still running.
    pub running: BTreeSet<InstanceId>,
}

/// The paths that an act may begin to reserve, widen or revive. None: it reserves nothing, however long it waits for the lock.
/// Whether the answer is None must not depend on the time, since it is needed before the wait for the reservation lock. The
/// paths may depend on it, and are computed again once the lock is held. Needs no [`View::around`].
pub fn reserves(view: &View<'_>, act: &Act) -> Option<Reserving> {
    match act {
        Act::Claim(terms) | Act::Takeover(terms) => {
            let scope = reservations_of(view.task, terms).0.scope();
            // Swept or not: its holder may renew it late.
            let may_revive = view.lease.is_some_and(|lease| view.is_usable(lease));
            let revives = revives(view, &standing_of_claimant(view));
            (may_revive || !scope.is_empty()).then_some(Reserving { scope, revives, counts: false })
        }
        // A caller that is not the holder claims the task in passing, if it can be claimed.
        Act::Move { verb, .. } => {
            let scope = &view.task.facts.scope;
            let claims = verb.claims_first()
                && matches!(view.task.state, State::Open | State::InProgress)
                && !is_holders_for_good(view);
            (claims && !scope.is_empty()).then(|| Reserving { scope: scope.clone(), ..Reserving::default() })
        }
        Act::AddScope { scope, .. } | Act::RemoveScope { scope } => Some(of_holder(view, scope.clone())),
        // The decision refuses what is not a path.
        Act::Touch { paths, .. } => {
            Some(Reserving { counts: constrained::counts_files(view), ..of_holder(view, files(paths)) })
        }
        // Yielding reserves nothing, but what it is based on must not change until it is recorded.
        Act::Yield(yielding) => Some(Reserving { scope: files(&yielding.paths), ..Reserving::default() }),
        Act::Renew { .. } | Act::Attach(_) => Some(of_holder(view, Scope::default())),
        Act::Change(_)
        | Act::Handoff { .. }
        | Act::Assign { .. }
        | Act::Tick { .. }
        | Act::Edit(_)
        | Act::AddDeps { .. }
        | Act::RemoveDeps { .. }
        | Act::Note { .. }
        | Act::Judge(_)
        | Act::Land(_)
        | Act::SettleLanding { .. }
        | Act::FoundLanded(_)
        | Act::FailLanding(_)
        | Act::RecordUsage(_)
        | Act::Commit(_)
        | Act::Correct { .. }
        | Act::Rescue { .. }
        | Act::DropRescue { .. }
        | Act::Redact { .. } => None,
    }
}

/// The literal globs of these paths. Leaves out what is not a path.
fn files(paths: &[String]) -> Scope {
    paths.iter().filter_map(|path| Glob::literal(path).ok()).collect()
}

/// What a holder would reserve, which may have to revive its lease first.
fn of_holder(view: &View<'_>, scope: Scope) -> Reserving {
    let revives = standing(view).is_ok_and(|standing| revives(view, &standing));
    Reserving { scope, revives, counts: false }
}

/// Whether a holder that continues has to revive its lease, or may have to.
fn revives(view: &View<'_>, standing: &Standing<'_>) -> bool {
    matches!(standing, Standing::Holder { lease, late } if *late || is_in_doubt(view, lease))
}

/// Whether a lease counts as live only because its process cannot be seen from here. An observer that saw the process die may
/// have granted its paths to another meanwhile, so a holder that continues is checked as after a lapse.
pub(super) fn is_in_doubt(view: &View<'_>, lease: &Lease) -> bool {
    lease.grant.process.is_some() && view.seen != Seen::Alive
}

/// What a claim on these terms reserves: what the task declares, and what the terms add.
pub fn reservations_of(task: &Task, terms: &Terms) -> (Reservations, Mode) {
    let mut reserved = Reservations::of(&task.facts.scope, &task.facts.scope_areas, None);
    reserved.extend(Reservations::of(&terms.scope, &terms.scope_areas, terms.touched.as_ref()));
    let mode = if terms.shared { Mode::Shared } else { task.facts.mode };
    (reserved, mode)
}

/// The same, divided into events: each one's paths are either all declared, or all touched in one worktree.
pub(super) fn granted(task: &Task, terms: &Terms) -> Vec<(Scope, Areas, Option<Touched>)> {
    let (mut scope, mut areas) = (task.facts.scope.clone(), task.facts.scope_areas.clone());
    let touched = match &terms.touched {
        Some(touched) => Some((terms.scope.clone(), Areas::default(), Some(touched.clone()))),
        None => {
            scope.extend(terms.scope.globs().iter().cloned());
            areas.extend(&terms.scope_areas);
            None
        }
    };
    // An empty declared scope needs no event of its own.
    let declared = Some((scope, areas, None)).filter(|(scope, ..)| !scope.is_empty() || touched.is_none());
    declared.into_iter().chain(touched).collect()
}

fn own<'a>(view: &View<'a>) -> Result<&'a Surroundings, Refusal> {
    view.around.ok_or_else(|| not_looked_up(view))
}

/// Widens the caller's lease. After a lapse, the lease is renewed and widened together, or not at all.
pub(super) fn add(view: &View<'_>, more: &Scope, areas: &Areas) -> Result<Decision, Refusal> {
    let around = own(view)?;
    // A touched file is reserved in one worktree, a declared one in all: only declared globs count as reserved already.
    let new: Scope = more.globs().iter().filter(|glob| !around.own.declares(glob)).cloned().collect();
    let mut areas = areas.clone();
    areas.retain(&new);
    widen(view, new, areas, None)
}

fn widen(view: &View<'_>, scope: Scope, areas: Areas, touched: Option<Touched>) -> Result<Decision, Refusal> {
    let (lease, mut decision) = held(view)?;
    if scope.is_empty() {
        return Ok(decision);
    }
    check_len(view, own(view)?.own_len + scope.globs().len())?;
    let new = Reservations::of(&scope, &areas, touched.as_ref());
    decision.notices.extend(ask_kin(view, &new)?);
    decision.notices.extend(check_collisions(view, &new, lease.grant.mode)?);
    decision.merges.extend(merges(view, &new, lease.grant.mode));
    decision.drafts.push(Draft::new(Body::ScopeAdded { scope, areas, touched }).token(lease.token));
    Ok(decision)
}

/// Refuses more globs than can be compared in reasonable time.
pub(super) fn check_len(view: &View<'_>, len: usize) -> Result<(), Refusal> {
    if len <= MAX_GLOBS {
        return Ok(());
    }
    Err(Refusal::new(Code::Limit, format!("a lease reserves at most {MAX_GLOBS} globs; this would be {len}"))
        .task(view.id)
        .next(Step::ReserveFolders(view.id.to_owned())))
}

/// Releases globs of the caller's lease, each only if it is written exactly as reserved.
pub(super) fn remove(view: &View<'_>, less: &Scope) -> Result<Decision, Refusal> {
    let (lease, mut decision) = held(view)?;
    let around = own(view)?;
    let gone: Scope = less.globs().iter().filter(|glob| around.own.has(glob)).cloned().collect();
    if gone.is_empty() {
        return Err(Refusal::new(
            Code::Nothing,
            format!("{} reserves none of these; write each exactly as it is reserved", view.id),
        )
        .task(view.id)
        .next(Step::Reserved(view.id.to_owned())));
    }
    decision.drafts.push(Draft::new(Body::ScopeRemoved { scope: gone }).token(lease.token));
    Ok(decision)
}

/// First touch: paths that nobody reserved join the holder's scope. What it already reserves in this worktree, or what the
/// project shares, needs no reservation.
pub(super) fn touch(
    view: &View<'_>,
    paths: &[String],
    touched: &Touched,
    extent: &Extent,
) -> Result<Decision, Refusal> {
    let around = own(view)?;
    let counts = constrained::counts_files(view);
    let mut new = Scope::default();
    for path in paths {
        let glob = Glob::literal(path)?;
        let path = glob.path().unwrap_or(path).to_owned();
        let is_shared = view.policy.scope_shared.covers(&path);
        let Touched { worktree, part } = touched;
        let worktree = worktree.as_ref();
        // Declared paths belong to the whole conversation.
        let is_the_askers = |row: &Reservation| {
            let is_declared = row.basis.kind() == ReservationKind::Declared;
            part.is_none() || is_declared || row.basis.part() == part.as_ref()
        };
        let is_mine = around.own.covers_for(part.as_ref(), &path, worktree)
            || around.rivals.iter().any(|rival| {
                view.is_callers(&rival.lease)
                    && rival
                        .reserved
                        .iter()
                        .any(|row| is_the_askers(row) && row.applies_in(worktree) && row.glob.matches(&path))
            });
        // If files are counted, each is recorded, even a declared one.
        let is_counted =
            !counts || around.own.rows().iter().any(|row| row.is_touched_in(worktree) && row.glob == glob);
        if !(is_shared || is_mine && is_counted) {
            new.insert(glob);
        }
    }
    let decision = widen(view, new.clone(), Areas::default(), Some(touched.clone()))?;
    constrained::check(view, paths, &new, extent)?;
    Ok(decision)
}

/// Records that touched files were changed, each once. For a caller that lost its lease this records nothing; it learns of the
/// loss as of any other.
pub(super) fn change(view: &View<'_>, changed: &ChangedFiles) -> Result<Decision, Refusal> {
    let Ok(Standing::Holder { lease, .. }) = standing(view) else { return Ok(Decision::default()) };
    let worktree = changed.worktree.as_ref();
    let files = files(&changed.paths);
    let rows = own(view)?.own.rows().iter();
    let news = rows.filter(|row| row.is_touched_in(worktree) && !row.is_changed && files.has(&row.glob));
    let scope: Scope = news.map(|row| row.glob.clone()).collect();
    if scope.is_empty() {
        return Ok(Decision::default());
    }
    let body = Body::ScopeChanged { scope, worktree: worktree.cloned() };
    Ok(Decision::of(vec![Draft::new(body).token(lease.token)]))
}

/// The caller's lease with a decision that keeps it alive: a renewal, or what revives it after a lapse.
pub(super) fn held<'a>(view: &View<'a>) -> Result<(&'a Lease, Decision), Refusal> {
    match standing(view)? {
        Standing::Holder { lease, late: false } => {
            let renew = Some(Renewal { token: lease.token, ttl_ms: None, progress: true });
            let notices = check_in_doubt(view, lease)?.into_iter().collect();
            Ok((lease, Decision { renew, notices, ..Decision::default() }))
        }
        Standing::Holder { lease, late: true } => {
            Ok((lease, renew_late(view, lease, &Revival::of(view), None)?))
        }
        Standing::Held(lease) => Err(held_refusal(view, lease)),
        Standing::Free { .. } | Standing::RevokedByForce => Err(not_yours(view, Verb::Claim)),
    }
}
