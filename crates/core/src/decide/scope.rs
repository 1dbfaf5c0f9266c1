//! Scopes (P3): a lease and the paths it reserves are granted, widened and renewed after a lapse together, or not at
//! all. [`reserves`] says whether an act may do one of these, and with which paths: for those the engine takes
//! the reservation lock and looks up what others reserve nearby. The view then has those live leases; what exactly
//! collides is decided here. A path that was not looked up is refused, whatever the reason: a rule that forgets a verb
//! must not become a grant.
//!
//! **Idle conversations yield.** Where nothing is in the way of a request but files that resting ad-hoc work touched, its refusal says so
//! ([`Resting`]). Git is asked outside the transaction; what it calls clean is taken out of that lease by an act of its own
//! ([`give_up`]), which compares the lease with what it was then; and the request is tried once more, like any other.

use std::collections::{BTreeMap, BTreeSet};

use crate::actor::{Caller, InstanceId};
use crate::command::{Act, ChangedFiles, Terms, Yielding};
use crate::commit::Extent;
use crate::event::{Body, Draft};
use crate::ids::{Token, Uid};
use crate::kin::{Within, kin, within};
use crate::lease::{Lease, Liveness, Mode, Seen};
use crate::policy::{AcrossWorktrees, Policy, ScopeMode};
use crate::quote::{self, name};
use crate::refusal::{Code, Conflict, Reader, Refusal, Resting, Step};
use crate::scope::{
    self, Areas, Basis, Glob, Reservation, ReservationKind, Reservations, Scope, Touched, WorktreeId,
};
use crate::task::{State, Task};
use crate::time::Moment;
use crate::transition::Verb;

use super::claim::{Revival, not_yours, renew_late};
use super::constrained;
use super::standing::{
    Standing, held_by, held_refusal, holder_note, is_holders_for_good, place, standing, standing_of_claimant,
};
use super::{Decision, Renewal, View};

/// The most files that git is asked about for one request.
const MOST_YIELDED: usize = 200;

/// The most globs that one lease may reserve: a task that touches more files reserves their folders.
pub const MAX_GLOBS: usize = 10_000;

/// Another's live lease, with those of its reservations that may meet the ones asked for.
#[derive(Clone, Debug)]
pub struct Rival {
    /// The task's id.
    pub id: String,
    /// Whether the task was opened for edits that belonged to none.
    pub is_ad_hoc: bool,
    pub lease: Lease,
    pub reserved: Vec<Reservation>,
}

/// What an act may come to reserve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The paths of a lease that begins or grows.
    pub scope: Scope,
    /// The caller's lease has lapsed and would be revived, with all that it reserved.
    pub revives: bool,
    /// What it reserves is counted, so all of it is looked up.
    pub counts: bool,
}

/// What was found near the requested paths.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// All that was looked for: the wish, with what a lease that would be revived had reserved.
    pub asked: Scope,
    /// What the current lease reserves: all of it where the lease would have to be revived, else what is near the wish;
    /// and how many reservations it has in all.
    pub own: Reservations,
    pub own_len: usize,
    /// Whether `own` is all of it.
    pub is_whole: bool,
    /// Live leases of other tasks that reserve something near.
    pub rivals: Vec<Rival>,
    /// Those of the caller's conversation's parts that have something near and are running.
    pub running: BTreeSet<InstanceId>,
}

/// What an act may begin, widen or revive a reservation of; None: it reserves nothing, however long it waits for its turn.
/// Whether there is a wish does not depend on the time, since it is asked before the wait for the reservation lock; what the
/// wish is does, and is asked again once the lock is held. The view needs no surroundings for it.
pub fn reserves(view: &View<'_>, act: &Act) -> Option<Wish> {
    match act {
        Act::Claim(terms) | Act::Takeover(terms) => {
            let scope = wanted(view.task, terms).0.scope();
            // Swept or not: its holder may renew it late.
            let may_revive = view.lease.is_some_and(|lease| view.is_usable(lease));
            let revives = match standing_of_claimant(view) {
                Standing::Holder { lease, late } => late || is_in_doubt(view, lease),
                _ => false,
            };
            (may_revive || !scope.is_empty()).then_some(Wish { scope, revives, counts: false })
        }
        // Whoever is not the holder claims the task in passing, if it can be claimed.
        Act::Move { verb, .. } => {
            let scope = &view.task.facts.scope;
            let claims = verb.claims_first()
                && matches!(view.task.state, State::Open | State::InProgress)
                && !is_holders_for_good(view);
            (claims && !scope.is_empty()).then(|| Wish {
                scope: scope.clone(),
                revives: false,
                counts: false,
            })
        }
        Act::AddScope { scope, .. } | Act::RemoveScope { scope } => Some(of_holder(view, scope.clone())),
        // What is no path is refused by the decision.
        Act::Touch { paths, .. } => {
            Some(Wish { counts: constrained::counts_files(view), ..of_holder(view, files(paths)) })
        }
        // Nothing is reserved by it, but what it finds must not change before it is done.
        Act::Yield(yielding) => Some(Wish { scope: files(&yielding.paths), revives: false, counts: false }),
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

/// Files by their paths. What is no path is left out.
fn files(paths: &[String]) -> Scope {
    paths.iter().filter_map(|path| Glob::literal(path).ok()).collect()
}

/// What a holder wishes for, who may have to revive its lease first.
fn of_holder(view: &View<'_>, scope: Scope) -> Wish {
    let revives = match standing(view) {
        Ok(Standing::Holder { lease, late }) => late || is_in_doubt(view, lease),
        _ => false,
    };
    Wish { scope, revives, counts: false }
}

/// Whether a lease counts as live only because its process cannot be seen from here. Somebody who saw it die may have
/// given its paths to another meanwhile, so whoever goes on under it is asked as after a lapse.
pub(super) fn is_in_doubt(view: &View<'_>, lease: &Lease) -> bool {
    lease.grant.process.is_some() && view.seen != Seen::Alive
}

/// What a claim of a task on these terms reserves: what the task declares, and what the terms add.
pub fn wanted(task: &Task, terms: &Terms) -> (Reservations, Mode) {
    let mut reserved = Reservations::of(&task.facts.scope, &task.facts.scope_areas, None);
    reserved.extend(Reservations::of(&terms.scope, &terms.scope_areas, terms.touched.as_ref()));
    let mode = if terms.shared { Mode::Shared } else { task.facts.mode };
    (reserved, mode)
}

/// The same as events have it: what one of them names was all declared, or all touched in one place.
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
    // What is not there needs no event.
    let declared = Some((scope, areas, None)).filter(|(scope, ..)| !scope.is_empty() || touched.is_none());
    declared.into_iter().chain(touched).collect()
}

/// What collides with a scope, as a refusal; None if nothing does. Globs too complex to compare are a refusal, too.
pub(super) fn collision(view: &View<'_>, wanted: &Reservations, mode: Mode) -> Option<Refusal> {
    if view.policy.scope_mode == ScopeMode::Off || wanted.is_empty() {
        return None;
    }
    let Some(around) = view.around.filter(|around| around.looked_for(wanted)) else {
        return Some(unasked(view));
    };
    let rivals = around.rivals.iter().filter(|rival| !rival.shares(mode));
    let mut in_the_way = rivals
        .filter_map(|rival| Some((rival, meets(view, wanted, &rival.lease, &rival.reserved).transpose()?)));
    let (rival, witness) = in_the_way.next()?;
    let witness = match witness {
        Ok(witness) => witness,
        Err(error) => return Some(error.into()),
    };
    let (yours, theirs) = (&wanted.rows()[witness.left], &rival.reserved[witness.right]);
    let conflict = Conflict {
        task: rival.id.clone(),
        path: witness.path,
        yours: yours.glob.to_string(),
        theirs: theirs.glob.to_string(),
        area: theirs.basis.area().or(yours.basis.area()).map(ToString::to_string),
    };
    let mut refusal = collides(view, rival, conflict);
    // Of several, all must yield, or none does so in vain.
    let all = std::iter::once(rival).chain(in_the_way.map(|(rival, _)| rival));
    let resting: Option<Vec<Vec<Resting>>> = all.map(|rival| may_yield(view, rival, wanted)).collect();
    let resting: Vec<Resting> = resting.unwrap_or_default().into_iter().flatten().collect();
    if resting.iter().map(|resting| resting.files.paths.len()).sum::<usize>() <= MOST_YIELDED {
        refusal.resting = resting;
    }
    Some(refusal)
}

/// A path that both reserve and may not.
fn meets(
    view: &View<'_>,
    wanted: &Reservations,
    lease: &Lease,
    theirs: &[Reservation],
) -> Result<Option<scope::Witness>, scope::ScopeError> {
    let Policy { scope_shared, across_worktrees, .. } = view.policy;
    scope::overlap_where(wanted.rows(), theirs, scope_shared.globs(), |one, other| {
        scope::collide(one, other, *across_worktrees) && !is_shared_within(view, one, lease, other)
    })
}

/// What of a rival is in the way, if it is ad-hoc work whose turn is over and all of that is files that it touched in worktrees
/// which can be told apart. The caller's own work is not idle: it asks.
fn may_yield(view: &View<'_>, rival: &Rival, wanted: &Reservations) -> Option<Vec<Resting>> {
    let Rival { id, is_ad_hoc, lease, reserved } = rival;
    let is_own = lease.is_held_by(&view.caller.actor, &view.caller.instance);
    if !is_ad_hoc || !lease.pulse.resting || is_own {
        return None;
    }
    let mut files: BTreeMap<&WorktreeId, Vec<String>> = BTreeMap::new();
    for row in reserved {
        if meets(view, wanted, lease, std::slice::from_ref(row)).ok()?.is_none() {
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

/// Takes clean files out of ad-hoc work whose turn is over, if its lease is still as it was when git looked (P10: whoever has
/// gone on since may have changed them).
pub(super) fn give_up(view: &View<'_>, yielding: &Yielding) -> Result<Decision, Refusal> {
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

/// Whether a file may be touched under two leases because a part of one conversation is on it, and nobody else of it is in its
/// way. What is declared belongs to one lease, except that a conversation may declare what a part touched under a lease of its
/// own; two leases of one holder without parts have nothing in common.
fn is_shared_within(view: &View<'_>, new: &Reservation, lease: &Lease, row: &Reservation) -> bool {
    let Caller { actor, instance, .. } = view.caller;
    let is_touched = |row: &Reservation| row.basis.kind() == ReservationKind::Touched;
    let may_be_both = is_touched(row) && (is_touched(new) || lease.instance != *instance);
    if lease.actor != *actor || !may_be_both {
        return false;
    }
    let is_plain = [new, row].iter().all(|row| row.basis.part().is_none());
    let is_own = is_plain && lease.instance == *instance;
    let answer = answer_within(view, new.basis.part(), lease, row);
    !is_own && matches!(answer, Some(Within::Free | Within::Told))
}

/// How the caller, or this part of it, stands to whoever touched a row.
fn answer_within(
    view: &View<'_>,
    part: Option<&InstanceId>,
    lease: &Lease,
    row: &Reservation,
) -> Option<Within> {
    let Caller { instance, whole, .. } = view.caller;
    let owner = row.basis.part().unwrap_or(&lease.instance);
    let is_running = view.around.is_some_and(|around| around.running.contains(owner));
    within(kin(whole.as_ref().unwrap_or(instance), part.unwrap_or(instance), owner), is_running)
}

/// What is said within a conversation about files that one of it is about to touch, and others of it have touched there.
pub(super) fn ask_kin(view: &View<'_>, wanted: &Reservations) -> Result<Vec<String>, Refusal> {
    let Some(around) = view.around else { return Ok(Vec::new()) };
    let rivals = around.rivals.iter().filter(|rival| rival.lease.actor == view.caller.actor);
    let theirs = rivals.flat_map(|rival| rival.reserved.iter().map(|row| (&rival.lease, row)));
    let lease = view.lease.filter(|lease| lease.actor == view.caller.actor);
    let own = lease.into_iter().flat_map(|lease| around.own.rows().iter().map(move |row| (lease, row)));
    let mut told: BTreeMap<&InstanceId, BTreeSet<&str>> = BTreeMap::new();
    for (lease, row) in own.chain(theirs).filter(|(_, row)| row.basis.kind() == ReservationKind::Touched) {
        let meets = |new: &&Reservation| {
            new.glob == row.glob && scope::collide(new, row, view.policy.across_worktrees)
        };
        let Some(new) = wanted.rows().iter().find(meets) else { continue };
        let (Some(path), owner) = (new.glob.path(), row.basis.part().unwrap_or(&lease.instance)) else {
            continue;
        };
        match answer_within(view, new.basis.part(), lease, row) {
            Some(Within::Told) => {
                told.entry(owner).or_default().insert(path);
            }
            // In another lease it is a collision like others.
            Some(Within::Refused) if view.lease.is_some_and(|own| own.task == lease.task) => {
                return Err(sibling(view, owner, path));
            }
            _ => {}
        }
    }
    let whole = view.caller.whole.as_ref().unwrap_or(&view.caller.instance);
    let say = |(owner, paths): (&InstanceId, BTreeSet<&str>)| {
        let files = quote::some_names(&Vec::from_iter(paths));
        match owner == whole {
            true => format!("your conversation itself has changed {files}: coordinate with it"),
            false => format!("{files}: your sub-agent {} is on it and still running", name(owner.as_str())),
        }
    };
    Ok(told.into_iter().map(say).collect())
}

/// Exit 4: a sub-agent of the same conversation is on that file.
fn sibling(view: &View<'_>, owner: &InstanceId, path: &str) -> Refusal {
    let (path, owner) = (name(path), name(owner.as_str()));
    let message = format!(
        "{path} is being changed by {owner}, another sub-agent of this conversation, which is still running"
    );
    Refusal::new(Code::Scope, message)
        .task(view.id)
        .next(Step::plain("change other files, and this one when that sub-agent has ended"))
        .next(Step::Reserved(view.id.to_owned()))
}

impl Rival {
    /// Whether both leases share their paths.
    pub fn shares(&self, mode: Mode) -> bool {
        mode == Mode::Shared && self.lease.grant.mode == Mode::Shared
    }
}

/// Files that another live lease has touched in another worktree: whoever merges them meets both changes. Both are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The other's task, by its id, and lease.
    pub id: String,
    pub task: Uid,
    pub token: Token,
    pub paths: Vec<String>,
    /// What the caller is told.
    pub message: String,
}

/// What is to be told about files that come to be reserved.
pub(super) fn merges(view: &View<'_>, wanted: &Reservations, mode: Mode) -> Vec<Merge> {
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

impl Surroundings {
    fn looked_for(&self, wanted: &Reservations) -> bool {
        wanted.rows().iter().all(|row| self.asked.has(&row.glob))
    }
}

/// Nobody checked whether these paths are free, so they are not granted.
fn unasked(view: &View<'_>) -> Refusal {
    Refusal::new(Code::Unexpected, format!("nobody checked whether the paths of {} are free", view.id))
        .task(view.id)
}

/// Exit 4: somebody else reserved a path.
fn collides(view: &View<'_>, rival: &Rival, conflict: Conflict) -> Refusal {
    let Rival { id, lease, .. } = rival;
    let whose = if lease.is_held_by(&view.caller.actor, &view.caller.instance) {
        format!("which you ({}) hold yourself", lease.actor)
    } else {
        format!("which {}", held_by(view.now, lease, &place(lease)))
    };
    let theirs = match conflict.theirs == conflict.path {
        true => String::new(),
        false => format!(" (it reserves {})", name(&conflict.theirs)),
    };
    let yours = match conflict.yours == conflict.theirs || conflict.yours == conflict.path {
        true => String::new(),
        false => format!("; {} needs {}", view.id, name(&conflict.yours)),
    };
    let area = conflict.area.as_ref().map(|area| format!(", in area {area},")).unwrap_or_default();
    let message = format!("{}{area} is reserved by {id}{theirs}, {whose}{yours}", name(&conflict.path));
    let mut refusal = Refusal::new(Code::Scope, message).task(view.id);
    refusal.holder = Some(Box::new(holder_note(view, lease, true)));
    refusal.expires_in_s = super::standing::expires_in_s(view, lease);
    refusal.conflict = Some(Box::new(conflict));
    refusal.next(Step::TakeAnother).next(Step::note(id, Reader::Holder)).next(Step::show(id))
}

/// The same for whoever only asks, outside a transaction, whether a file is another's. None: it is not, as far as could be seen.
pub fn reserved_by(
    rivals: &[Rival],
    path: &str,
    touched: &Touched,
    policy: &Policy,
    now: &Moment,
) -> Option<Refusal> {
    let basis = Basis::Touched(touched.clone());
    let asked = [Reservation::new(Glob::literal(path).ok()?, basis)];
    let Policy { scope_shared, across_worktrees, .. } = policy;
    rivals.iter().find_map(|rival| {
        let Rival { id, lease, reserved, .. } = rival;
        let witness = match scope::collision(&asked, reserved, scope_shared.globs(), *across_worktrees) {
            Ok(witness) => witness?,
            Err(error) => return Some(error.into()),
        };
        let theirs = &reserved[witness.right];
        let area = theirs.basis.area().map(|area| format!(", in area {area},")).unwrap_or_default();
        let message =
            format!("{}{area} is reserved by {id}, which {}", name(path), held_by(now, lease, &place(lease)));
        let mut refusal = Refusal::new(Code::Scope, message);
        refusal.conflict = Some(Box::new(Conflict {
            task: id.clone(),
            path: path.to_owned(),
            yours: path.to_owned(),
            theirs: theirs.glob.to_string(),
            area: theirs.basis.area().map(ToString::to_string),
        }));
        Some(refusal.next(Step::TakeAnother).next(Step::note(id, Reader::Holder)).next(Step::show(id)))
    })
}

/// The same as the policy has it: an error where scopes are strict, a notice where they only warn.
pub(super) fn check(view: &View<'_>, wanted: &Reservations, mode: Mode) -> Result<Option<String>, Refusal> {
    match (collision(view, wanted, mode), view.policy.scope_mode) {
        (Some(refusal), ScopeMode::Strict) => Err(refusal),
        (refusal, _) => Ok(refusal.map(|refusal| format!("careful: {}", refusal.message))),
    }
}

/// The same for all that a lapsed lease reserved, before it is revived.
pub(super) fn check_revived(view: &View<'_>, lease: &Lease) -> Result<Option<String>, Refusal> {
    match view.around {
        Some(around) if around.is_whole => check(view, &around.own, lease.grant.mode),
        _ if view.policy.scope_mode == ScopeMode::Off => Ok(None),
        _ => Err(unasked(view)),
    }
}

/// The same for one that is in doubt.
pub(super) fn check_in_doubt(view: &View<'_>, lease: &Lease) -> Result<Option<String>, Refusal> {
    if is_in_doubt(view, lease) { check_revived(view, lease) } else { Ok(None) }
}

fn own<'a>(view: &View<'a>) -> Result<&'a Surroundings, Refusal> {
    view.around.ok_or_else(|| unasked(view))
}

/// Widens the caller's lease. After a lapse it is renewed with it, or not at all.
pub(super) fn add(view: &View<'_>, more: &Scope, areas: &Areas) -> Result<Decision, Refusal> {
    let around = own(view)?;
    // A file that was touched is that file in one worktree; declared, it is that file in all.
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
    decision.notices.extend(check(view, &new, lease.grant.mode)?);
    decision.merges.extend(merges(view, &new, lease.grant.mode));
    decision.drafts.push(Draft::new(Body::ScopeAdded { scope, areas, touched }).token(lease.token));
    Ok(decision)
}

/// A lease never has more globs than can be compared in time.
pub(super) fn check_len(view: &View<'_>, len: usize) -> Result<(), Refusal> {
    if len <= MAX_GLOBS {
        return Ok(());
    }
    Err(Refusal::new(Code::Limit, format!("a lease reserves at most {MAX_GLOBS} globs; this would be {len}"))
        .task(view.id)
        .next(Step::ReserveFolders(view.id.to_owned())))
}

/// Only globs that are written exactly as reserved.
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

/// First touch: paths that nobody reserved join the holder's scope; what it has already in this worktree, or what the project
/// shares, needs nothing.
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
        // What is declared is the whole conversation's.
        let is_the_askers = |row: &Reservation| {
            let is_declared = row.basis.kind() == ReservationKind::Declared;
            part.is_none() || is_declared || row.basis.part() == part.as_ref()
        };
        let is_mine = around.own.are_of(part.as_ref(), &path, worktree)
            || around.rivals.iter().any(|rival| {
                rival.lease.is_held_by(&view.caller.actor, &view.caller.instance)
                    && rival
                        .reserved
                        .iter()
                        .any(|row| is_the_askers(row) && row.is_good_in(worktree) && row.glob.matches(&path))
            });
        // Where files are counted, each is recorded, whatever was declared.
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

/// Touched files that were changed, each once. Somebody who no longer has the lease has changed nothing of it, and learns of the loss
/// as of any other.
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

/// The caller's lease, live, or with what revives it after a lapse.
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
        Standing::Free { .. } | Standing::Freed => Err(not_yours(view, Verb::Claim)),
    }
}
