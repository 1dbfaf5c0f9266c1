//! Collisions between the paths of an act and those that others' live leases reserve.

use crate::lease::{Lease, Mode};
use crate::policy::{Policy, ScopeMode};
use crate::quote::name;
use crate::refusal::{Code, Conflict, Reader, Refusal, Step};
use crate::scope::{self, Basis, Glob, Reservation, Reservations, Touched};
use crate::time::Moment;
use crate::transition::Verb;

use super::super::View;
use super::super::standing::{expires_in_s, held_by, holder_note, place};
use super::kin::is_shared_within;
use super::yields::all_resting;
use super::{Rival, Surroundings, is_in_doubt};

/// The first collision with a scope, as a refusal. None if nothing collides. Globs too complex to compare are refused, too.
pub(in crate::decide) fn collision(view: &View<'_>, wanted: &Reservations, mode: Mode) -> Option<Refusal> {
    if view.policy.scope_mode == ScopeMode::Off || wanted.is_empty() {
        return None;
    }
    let Some(around) = view.around.filter(|around| around.looked_for(wanted)) else {
        return Some(not_looked_up(view));
    };
    let rivals = around.rivals.iter().filter(|rival| !rival.shares(mode));
    let mut in_the_way = rivals.filter_map(|rival| {
        Some((rival, first_collision(view, wanted, &rival.lease, &rival.reserved).transpose()?))
    });
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
    let all = std::iter::once(rival).chain(in_the_way.map(|(rival, _)| rival));
    refusal.resting = all_resting(view, all, wanted);
    Some(refusal)
}

/// A path that both would reserve, although they may not.
pub(super) fn first_collision(
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

impl Surroundings {
    fn looked_for(&self, wanted: &Reservations) -> bool {
        wanted.rows().iter().all(|row| self.asked.has(&row.glob))
    }
}

/// Nobody checked whether these paths are free, so they are not granted.
pub(super) fn not_looked_up(view: &View<'_>) -> Refusal {
    Refusal::new(Code::Unexpected, format!("nobody checked whether the paths of {} are free", view.id))
        .task(view.id)
}

/// Exit 4: another lease reserves a path.
fn collides(view: &View<'_>, rival: &Rival, conflict: Conflict) -> Refusal {
    let Rival { id, lease, .. } = rival;
    let is_own = view.is_callers(lease);
    let whose = if is_own {
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
    refusal.expires_in_s = expires_in_s(view, lease);
    refusal.conflict = Some(Box::new(conflict));
    match is_own {
        // No other holder has to be notified: the caller can finish or release it.
        true => {
            refusal.next(Step::verb(Verb::Done, id)).next(Step::verb(Verb::Release, id)).next(Step::show(id))
        }
        false => refusal.next(Step::TakeAnother).next(Step::note(id, Reader::Holder)).next(Step::show(id)),
    }
}

/// Refuses a file that another reserves, for a query outside a transaction. None: nobody is known to reserve it.
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

/// Refuses changes in a task's own worktree while another works on the task there: they would land as that task's work.
pub fn anothers_worktree(id: &str, lease: &Lease, now: &Moment) -> Refusal {
    let message = format!("this is the worktree of {id}, which {}", held_by(now, lease, ""));
    let refusal = Refusal::new(Code::Held, message).task(id);
    refusal.next(Step::TakeAnother).next(Step::note(id, Reader::Holder)).next(Step::show(id))
}

/// [`collision`] as the policy applies it: an error if scopes are strict, a notice if they only warn.
pub(in crate::decide) fn check_collisions(
    view: &View<'_>,
    wanted: &Reservations,
    mode: Mode,
) -> Result<Option<String>, Refusal> {
    match (collision(view, wanted, mode), view.policy.scope_mode) {
        (Some(refusal), ScopeMode::Strict) => Err(refusal),
        (refusal, _) => Ok(refusal.map(|refusal| format!("careful: {}", refusal.message))),
    }
}

/// [`check_collisions`] for everything that a lapsed lease reserved, before it is revived.
pub(in crate::decide) fn check_revived(view: &View<'_>, lease: &Lease) -> Result<Option<String>, Refusal> {
    match view.around {
        Some(around) if around.is_whole => check_collisions(view, &around.own, lease.grant.mode),
        _ if view.policy.scope_mode == ScopeMode::Off => Ok(None),
        _ => Err(not_looked_up(view)),
    }
}

/// [`check_revived`] for a lease that is in doubt.
pub(in crate::decide) fn check_in_doubt(view: &View<'_>, lease: &Lease) -> Result<Option<String>, Refusal> {
    if is_in_doubt(view, lease) { check_revived(view, lease) } else { Ok(None) }
}
