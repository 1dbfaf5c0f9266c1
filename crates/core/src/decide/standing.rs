//! A caller's standing towards a task: it holds the task, another does, or nobody does. The fence (P2).

use crate::actor::KnownBy;
use crate::command::Force;
use crate::event::{Body, Draft};
use crate::ids::Token;
use crate::lease::{EndKind, LapseCause, Lease, Liveness};
use crate::quote::name;
use crate::refusal::{Code, HolderNote, Reader, Refusal, Step};
use crate::task::State;
use crate::text::Field;
use crate::time::{Moment, SECOND_MS, Span, rfc3339};
use crate::transition::Verb;

use super::claim::claim_or_why;
use super::{View, overridden};

pub(super) enum Standing<'a> {
    /// The caller has the current token. `late`: its lease has lapsed, swept or not.
    Holder { lease: &'a Lease, late: bool },
    /// Nobody has a live lease. `lapsed`: a lapsed lease that must be ended first.
    Free { lapsed: Option<(&'a Lease, LapseCause)> },
    /// A person's force freed the task: the event that revokes its lease comes first.
    RevokedByForce,
    /// Another has a live lease.
    Held(&'a Lease),
}

/// The caller's standing for any changing verb except `claim` and `takeover`, or exit 5.
pub(super) fn standing<'a>(view: &View<'a>) -> Result<Standing<'a>, Refusal> {
    if let Some(token) = view.caller.token {
        return match view.lease.filter(|lease| lease.token == token && view.is_usable(lease)) {
            Some(lease) if view.presents(lease) => Ok(holder(view, lease)),
            // Tokens are small numbers: a stale one in an environment may equal the token of another's lease.
            Some(lease) if is_live(view, lease) => Ok(Standing::Held(lease)),
            _ => Err(fenced(view)),
        };
    }
    let as_claimant = standing_of_claimant(view);
    let was_superseded =
        view.mine.is_some_and(|mine| mine.was_superseded(view.task.token, view.task.fenced_token));
    // A person is always the same instance, and a finished task cannot be claimed again: a person who once lost it would stay
    // fenced from it for ever.
    let is_past = view.caller.actor.is_person() && view.task.state.is_finished();
    if was_superseded && !is_past && !matches!(as_claimant, Standing::Holder { .. }) {
        return Err(fenced(view));
    }
    Ok(as_claimant)
}

/// The caller's standing for `claim` and `takeover`: a superseded caller starts over, and a presented token has no meaning.
pub(super) fn standing_of_claimant<'a>(view: &View<'a>) -> Standing<'a> {
    let Some(lease) = view.lease.filter(|lease| view.is_usable(lease)) else {
        return Standing::Free { lapsed: None };
    };
    if view.is_callers(lease) && is_inside(view, lease) {
        return holder(view, lease);
    }
    if lease.ended.is_some() {
        return Standing::Free { lapsed: None };
    }
    match view.liveness(lease) {
        Liveness::Live => Standing::Held(lease),
        Liveness::Lapsed(cause) => Standing::Free { lapsed: Some((lease, cause)) },
    }
}

fn is_live(view: &View<'_>, lease: &Lease) -> bool {
    lease.ended.is_none() && view.liveness(lease) == Liveness::Live
}

fn holder<'a>(view: &View<'_>, lease: &'a Lease) -> Standing<'a> {
    Standing::Holder { lease, late: !is_live(view, lease) }
}

/// Whether the presented token belongs to a lease that was granted to another actor.
fn presents_anothers(view: &View<'_>, lease: &Lease) -> bool {
    view.caller.token == Some(lease.token) && lease.actor != view.caller.actor
}

/// Without a token, a lease bound to a live process accepts only that process and its descendants.
fn is_inside(view: &View<'_>, lease: &Lease) -> bool {
    view.liveness(lease) != Liveness::Live || comes_from_its_process(view, lease)
}

fn comes_from_its_process(view: &View<'_>, lease: &Lease) -> bool {
    lease.grant.process.as_ref().is_none_or(|process| process.is_at_or_above(&view.caller.ancestry))
}

/// Whether the caller remains the task's holder however much time passes, so that none of its verbs begins a lease.
pub(super) fn is_holders_for_good(view: &View<'_>) -> bool {
    let Some(lease) = view.lease.filter(|lease| view.is_usable(lease)) else { return false };
    view.presents(lease) || view.is_callers(lease) && comes_from_its_process(view, lease)
}

/// The caller's standing given a person's override: the events to write first, and the standing after them.
pub(super) fn standing_or_forced<'a>(
    view: &View<'a>,
    force: Option<&Force>,
) -> Result<(Vec<Draft>, Standing<'a>), Refusal> {
    match (standing(view), force) {
        (Ok(Standing::Held(lease)), Some(force)) => {
            Ok((vec![revoked(view, lease, force)], Standing::RevokedByForce))
        }
        (Ok(standing), _) => Ok((Vec::new(), standing)),
        (Err(_), Some(force)) => {
            let mut drafts = vec![overridden("fence", force)];
            Ok(match standing_of_claimant(view) {
                Standing::Held(lease) => {
                    drafts.push(revoked(view, lease, force));
                    (drafts, Standing::RevokedByForce)
                }
                standing => (drafts, standing),
            })
        }
        (Err(refusal), None) => Err(refusal),
    }
}

pub(super) fn revoked(view: &View<'_>, lease: &Lease, force: &Force) -> Draft {
    Draft::new(Body::LeaseRevoked { lease: lease.end(view.now, false), link: force.link.clone() })
        .token(lease.token)
        .text(Field::Reason, Some(force.reason.trim().to_owned()))
}

/// The event by which a lapsed lease is swept.
pub(super) fn swept(view: &View<'_>, lease: &Lease, cause: LapseCause) -> Draft {
    Draft::new(Body::LeaseLapsed { cause, lease: lease.end(view.now, false) }).token(lease.token)
}

pub(super) fn holder_note(view: &View<'_>, lease: &Lease, live: bool) -> HolderNote {
    HolderNote {
        actor: lease.actor.to_string(),
        instance: lease.instance.to_string(),
        token: lease.token.0,
        live,
        acquired_at: rfc3339(lease.acquired_at_ms),
        held_s: view.now.since_ms(&lease.acquired()).max(0) / SECOND_MS,
        worktree: lease.grant.worktree.clone(),
        branch: lease.grant.branch.clone(),
    }
}

/// Exit 5: the caller's lease is no longer current. Names the actor that has, or had, the task since.
pub(super) fn fenced(view: &View<'_>) -> Refusal {
    let (id, task) = (view.id, view.task);
    let refused = |message: String| Refusal::new(Code::Fenced, message).task(id);
    let mine = match (view.caller.token, view.mine) {
        (Some(token), _) if token > task.token || token == Token(0) => {
            let message = format!("token {token} was never granted for {id}: its highest is {}", task.token);
            return refused(message).next(Step::PresentNoToken).next(Step::show(id));
        }
        (Some(token), _) => format!("token {token}"),
        (None, Some(mine)) => format!("{}'s token {}", mine.actor, mine.token),
        (None, None) => view.caller.actor.to_string(),
    };
    let Some(lease) = view.lease else {
        return refused(format!("{mine} is not current for {id}")).next(Step::log(id));
    };
    let live = is_live(view, lease);
    let mine_ended_itself = view.caller.token.or(view.mine.map(|mine| mine.token)) == Some(lease.token);
    let why = match &lease.ended {
        _ if lease.token <= task.fenced_token => "the task was reset".to_owned(),
        _ if presents_anothers(view, lease) => {
            return may_claim(
                view,
                refused(format!("{mine} of {id} is {}'s, not {}'s", lease.actor, view.caller.actor)),
            );
        }
        Some(ended) if mine_ended_itself => {
            format!("the lease of {} has ended: {}", lease.actor, how_it_ended(ended.how))
        }
        Some(ended) => format!(
            "superseded by {} with token {}, whose lease has since ended: {}",
            lease.holder(),
            lease.token,
            how_it_ended(ended.how)
        ),
        None if live => {
            format!("{} holds it now, with token {}", lease.holder(), lease.token)
        }
        None => {
            format!("superseded by {} with token {}, whose lease has lapsed", lease.holder(), lease.token)
        }
    };
    let mut refusal = refused(format!("{mine} is no longer current for {id}: {why}"));
    refusal.holder = Some(Box::new(holder_note(view, lease, live)));
    if live {
        refusal.expires_in_s = expires_in_s(view, lease);
    }
    may_claim(view, refusal)
}

fn how_it_ended(how: EndKind) -> &'static str {
    match how {
        EndKind::Released => "it was released",
        EndKind::Done => "the task was finished",
        EndKind::Submitted => "the task went to review",
        EndKind::Failed => "the task failed",
        EndKind::Blocked => "the task was blocked",
        EndKind::Dropped => "the task was dropped",
        EndKind::HandedOff => "the task was handed off",
        EndKind::Lapsed => "it lapsed",
        EndKind::TakenOver => "it was taken over",
        EndKind::Revoked => "a person revoked it",
        EndKind::Reset => "the task was reset",
    }
}

/// Adds the next steps of a fenced caller: claiming the task again only if it is available.
fn may_claim(view: &View<'_>, refusal: Refusal) -> Refusal {
    let is_held = matches!(standing_of_claimant(view), Standing::Held(_));
    let refusal = if is_held { refusal.next(Step::TakeAnother) } else { refusal };
    let refusal = refusal.next(Step::log(view.id));
    let is_open = matches!(view.task.state, State::Open | State::InProgress);
    if is_open && !is_held { refusal.next(claim_or_why(view)) } else { refusal }
}

pub(super) fn expires_in_s(view: &View<'_>, lease: &Lease) -> Option<i64> {
    lease.pulse.deadline.as_ref().map(|deadline| deadline.left_ms(view.now).max(0) / SECOND_MS)
}

/// Exit 4: another has a live lease.
pub fn held_refusal(view: &View<'_>, lease: &Lease) -> Refusal {
    let id = view.id;
    let itself = view.is_callers(lease);
    let mut refusal = Refusal::new(Code::Held, format!("{id} {}", held_by(view.now, lease, ""))).task(id);
    refusal.holder = Some(Box::new(holder_note(view, lease, true)));
    refusal.expires_in_s = expires_in_s(view, lease);
    if itself && view.caller.known_by == KnownBy::Worktree {
        refusal
            .message
            .push_str("; only this folder identifies you, so that may be you or another conversation here");
        return refusal.next(Step::RenewIfYours(id.to_owned())).next(Step::TakeAnother);
    }
    if presents_anothers(view, lease) {
        refusal.message.push_str(&format!("; token {} is {}'s, not yours", lease.token, lease.actor));
    } else if itself {
        refusal.message.push_str("; only that process and its children may use it");
    }
    // Whoever is held up by itself has nobody to write to, or to wait for.
    if let Some(process) = lease.grant.process.as_ref().filter(|_| itself) {
        let how =
            format!("continue in process {}, which holds it for you, or in one of its children", process.pid);
        return refusal.next(Step::plain(how)).next(Step::show(id));
    }
    let refusal = refusal.next(Step::TakeAnother).next(Step::note(id, Reader::Holder));
    without_fenced_steps(view, refusal.next(Step::WaitFor(id.to_owned())))
}

/// Leaves out the steps that the fence would refuse: a caller that lost the task can change nothing of it except by a new claim.
pub(super) fn without_fenced_steps(view: &View<'_>, mut refusal: Refusal) -> Refusal {
    if standing(view).is_err() {
        refusal.next.retain(|step| match step {
            Step::Note { task, .. } => task != view.id,
            Step::Do(verb, task) => *verb == Verb::Claim || task != view.id,
            _ => true,
        });
    }
    refusal
}

/// Where a lease's work is done, for a sentence about its files: the same paths may be changed in other worktrees.
pub(super) fn place(lease: &Lease) -> String {
    spoken_place(lease.grant.worktree.as_deref(), lease.grant.branch.as_deref())
}

pub fn spoken_place(worktree: Option<&str>, branch: Option<&str>) -> String {
    let worktree = worktree.map(|path| format!(" in {}", name(path)));
    let branch = branch.map(|branch| format!(" on branch {}", name(branch)));
    worktree.into_iter().chain(branch).collect()
}

/// Words who holds the lease, since when, where, and for how much longer.
pub(super) fn held_by(now: &Moment, lease: &Lease, place: &str) -> String {
    let held = Span::from_ms(now.since_ms(&lease.acquired()));
    let left_ms = lease.pulse.deadline.as_ref().map(|deadline| deadline.left_ms(now).max(0));
    let until = match (&lease.grant.process, left_ms.map(Span::from_ms)) {
        (Some(_), Some(left)) if lease.pulse.resting => {
            let over = Span::from_ms(now.since_ms(&lease.pulse.last));
            format!("its turn has been over for {over}, and the lease lapses in {left} unless it continues")
        }
        (Some(process), Some(left)) => {
            format!("the lease lasts while process {} lives, at most {left} more", process.pid)
        }
        (Some(process), None) => format!("the lease lasts while process {} lives", process.pid),
        (None, Some(left)) => format!("the lease lapses in {left} unless renewed"),
        (None, None) => "the lease lasts until it is released".to_owned(),
    };
    format!("has been held by {} for {held}{place}; {until}", lease.holder())
}
