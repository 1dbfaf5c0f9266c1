//! Where a caller stands towards a task: its holder, a stranger to a held one, or free to act. The fence (P2).

use crate::actor::KnownBy;
use crate::command::Force;
use crate::event::{Body, Draft};
use crate::ids::Token;
use crate::lease::{LapseCause, Lease, Liveness};
use crate::refusal::{Code, HolderNote, Refusal};
use crate::text::Field;
use crate::time::{Moment, SECOND_MS, Span, rfc3339};

use super::{View, overridden};

pub(super) enum Standing<'a> {
    /// The caller has the current token. `late`: after a lapse, swept or not.
    Holder { lease: &'a Lease, late: bool },
    /// Nobody holds it live. `lapsed`: a lease that must be ended first.
    Free { lapsed: Option<(&'a Lease, LapseCause)> },
    /// A person's force freed it: the event that revokes its lease comes first.
    Freed,
    /// Somebody else holds it live.
    Held(&'a Lease),
}

/// The caller's standing for any changing verb but `claim` and `takeover`, or exit 5.
pub(super) fn standing<'a>(view: &View<'a>) -> Result<Standing<'a>, Refusal> {
    if let Some(token) = view.caller.token {
        return match view.lease {
            Some(lease) if lease.token == token && view.is_usable(lease) => Ok(holder(view, lease)),
            _ => Err(fenced(view)),
        };
    }
    let unclaimed = standing_of_claimant(view);
    let was_superseded =
        view.mine.is_some_and(|mine| mine.was_superseded(view.task.token, view.task.fenced_token));
    // A person is one instance for ever: what is finished is not fenced from them, there is nothing to claim anew.
    let is_past = view.caller.actor.is_person() && view.task.state.is_finished();
    if was_superseded && !is_past && !matches!(unclaimed, Standing::Holder { .. }) {
        return Err(fenced(view));
    }
    Ok(unclaimed)
}

/// The same for `claim` and `takeover`: whoever was superseded begins anew, and a presented token says nothing.
pub(super) fn standing_of_claimant<'a>(view: &View<'a>) -> Standing<'a> {
    let Some(lease) = view.lease.filter(|lease| view.is_usable(lease)) else {
        return Standing::Free { lapsed: None };
    };
    if lease.is_held_by(&view.caller.actor, &view.caller.instance) && is_inside(view, lease) {
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

fn holder<'a>(view: &View<'_>, lease: &'a Lease) -> Standing<'a> {
    let late = lease.ended.is_some() || view.liveness(lease) != Liveness::Live;
    Standing::Holder { lease, late }
}

/// Without a token, a lease bound to a live process accepts only that process and its descendants. A caller in another
/// pid namespace, as in a sandbox, cannot see who started it: that is not held against it.
fn is_inside(view: &View<'_>, lease: &Lease) -> bool {
    match &lease.grant.process {
        Some(process) if view.liveness(lease) == Liveness::Live => {
            let ancestry = &view.caller.ancestry;
            ancestry.contains(process) || ancestry.first().is_some_and(|own| own.pid_ns != process.pid_ns)
        }
        _ => true,
    }
}

/// Standing with a person's override: the events to write first, and where the person stands then.
pub(super) fn standing_or_forced<'a>(
    view: &View<'a>,
    force: Option<&Force>,
) -> Result<(Vec<Draft>, Standing<'a>), Refusal> {
    match (standing(view), force) {
        (Ok(Standing::Held(lease)), Some(force)) => Ok((vec![revoked(view, lease, force)], Standing::Freed)),
        (Ok(standing), _) => Ok((Vec::new(), standing)),
        (Err(_), Some(force)) => {
            let mut drafts = vec![overridden("fence", force)];
            Ok(match standing_of_claimant(view) {
                Standing::Held(lease) => {
                    drafts.push(revoked(view, lease, force));
                    (drafts, Standing::Freed)
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
        .text(Field::Reason, Some(force.reason.clone()))
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
    }
}

/// Exit 5: the caller's lease is no longer current. Names who has, or had, the task since.
pub(super) fn fenced(view: &View<'_>) -> Refusal {
    let (id, task) = (view.id, view.task);
    let mine = match (view.caller.token, view.mine) {
        (Some(token), _) if token > task.token || token == Token(0) => {
            return Refusal::new(
                Code::Fenced,
                format!("token {token} was never granted for {id}: its highest is {}", task.token),
            )
            .task(id)
            .next(format!("onus claim {id}   # begin anew"));
        }
        (Some(token), _) => format!("token {token}"),
        (None, Some(mine)) => format!("{}'s token {}", mine.actor, mine.token),
        (None, None) => view.caller.actor.to_string(),
    };
    let Some(lease) = view.lease else {
        return Refusal::new(Code::Fenced, format!("{mine} is not current for {id}")).task(id);
    };
    let live = lease.ended.is_none() && view.liveness(lease) == Liveness::Live;
    let now_at = format!("{} ({}) with token {}", lease.actor, lease.instance, lease.token);
    let mine_ended_itself = view.caller.token.or(view.mine.map(|mine| mine.token)) == Some(lease.token);
    let message = match &lease.ended {
        _ if lease.token <= task.fenced_token => {
            format!("{mine} is no longer current for {id}: a reset put the task back to open")
        }
        Some(ended) if mine_ended_itself => {
            format!(
                "{mine} is no longer current for {id}: the lease of {} ended ({})",
                lease.actor, ended.how
            )
        }
        Some(ended) => format!(
            "{mine} is no longer current for {id}: it was superseded by {now_at}, whose lease has ended since ({})",
            ended.how
        ),
        None => {
            format!("{mine} is no longer current for {id}: it was superseded by {now_at}, who holds it now")
        }
    };
    let mut refusal = Refusal::new(Code::Fenced, message).task(id);
    refusal.holder = Some(Box::new(holder_note(view, lease, live)));
    if live {
        refusal.expires_in_s = expires_in_s(view, lease);
        refusal = refusal.next("onus ready   # take another task; keep your work on its branch");
    }
    refusal
        .next(format!("onus log {id}   # what happened"))
        .next(format!("onus claim {id}   # begin anew, if it is free"))
}

pub(super) fn expires_in_s(view: &View<'_>, lease: &Lease) -> Option<i64> {
    lease.pulse.deadline.as_ref().map(|deadline| deadline.since_ms(view.now).max(0) / SECOND_MS)
}

/// Exit 4: somebody else holds it live.
pub fn held_refusal(view: &View<'_>, lease: &Lease) -> Refusal {
    let id = view.id;
    let itself = lease.is_held_by(&view.caller.actor, &view.caller.instance);
    let mut refusal = Refusal::new(Code::Held, format!("{id} is {}", held_for(view.now, lease))).task(id);
    refusal.holder = Some(Box::new(holder_note(view, lease, true)));
    refusal.expires_in_s = expires_in_s(view, lease);
    if itself && view.caller.known_by == KnownBy::Worktree {
        refusal.message.push_str(
            "; you are known only by this folder, so onus cannot tell whether that is you or another conversation here",
        );
        return refusal
            .next(format!("onus renew {id}   # if you are that holder"))
            .next("onus ready   # if you are not: take another task");
    }
    if itself {
        refusal.message.push_str("; it answers only to that process and what it started");
    }
    refusal
        .next("onus ready   # take another task")
        .next(format!("onus note {id} '…'   # leave the holder a note"))
        .next(format!("onus show {id}   # look again later"))
}

/// Who holds it, how long already, and how long still.
pub(super) fn held_for(now: &Moment, lease: &Lease) -> String {
    let held = Span::from_ms(now.since_ms(&lease.acquired()));
    let left_s = lease.pulse.deadline.as_ref().map(|deadline| deadline.since_ms(now).max(0) / SECOND_MS);
    let left = match (&lease.grant.process, left_s) {
        (Some(_), Some(s)) if lease.pulse.resting => {
            format!("and, as its turn is over, for {} more unless it goes on", Span::from_ms(s * SECOND_MS))
        }
        (Some(process), Some(s)) => {
            format!(
                "as long as its process {} lives, at most {} more",
                process.pid,
                Span::from_ms(s * SECOND_MS)
            )
        }
        (Some(process), None) => format!("and as long as its process {} lives", process.pid),
        (None, Some(s)) => format!("and for {} more unless renewed", Span::from_ms(s * SECOND_MS)),
        (None, None) => "and until it is released".to_owned(),
    };
    format!("held by {} ({}) for {held} so far, {left}", lease.actor, lease.instance)
}
