//! Claim, renew and takeover: how a lease begins, goes on and changes hands (P1).

use crate::actor::KnownBy;
use crate::command::{Force, Terms};
use crate::event::{Body, Draft};
use crate::lease::{Grant, LapseCause, Lease, Liveness, Mode, Seen};
use crate::refusal::{Code, Refusal};
use crate::task::State;
use crate::text::Field;
use crate::time::{SECOND_MS, Span};
use crate::transition::{Verb, step, verbs_from};

use super::ready::{schedule_refusal, unmet_refusal};
use super::standing::{Standing, held_refusal, revoked, standing, standing_of_claimant};
use super::{Decision, Renewal, View, overridden};

pub(super) fn claim(view: &View<'_>, terms: &Terms, force: Option<&Force>) -> Result<Decision, Refusal> {
    let standing = standing_of_claimant(view);
    if let Standing::Holder { lease, late } = standing {
        // Two conversations in one folder look the same: the second must not slip into the first one's lease.
        let ambiguous = view.caller.known_by == KnownBy::Worktree;
        match (late, ambiguous) {
            (false, true) => return Err(held_refusal(view, lease)),
            (false, false) => return Ok(claim_again(lease, terms)),
            // A lease that cannot be renewed any more stands in nobody's way, least of all in its holder's.
            (true, false) if can_go_on(view, lease) && late_cause(view, lease) != LapseCause::MaxHold => {
                return renew_late(view, lease, terms.ttl_ms, force);
            }
            (true, _) => {}
        }
    }
    acquire(view, standing, terms, force)
}

/// Claiming what one holds renews it, and starts it if it was only reserved.
fn claim_again(lease: &Lease, terms: &Terms) -> Decision {
    let starts = lease.grant.reserve && !terms.reserve;
    Decision {
        drafts: starts.then(|| Draft::new(Body::TaskStarted {}).token(lease.token)).into_iter().collect(),
        renew: Some(Renewal {
            token: lease.token,
            ttl_ms: terms.ttl_ms.filter(|ms| *ms > 0),
            progress: starts,
        }),
        notices: (terms.ttl_ms == Some(0)
            || terms.process.is_some() && terms.process != lease.grant.process
            || !terms.scope.is_empty())
        .then(|| {
            "claiming what you hold only renews it: release it and claim it anew for other terms".to_owned()
        })
        .into_iter()
        .collect(),
    }
}

pub(super) fn takeover(view: &View<'_>, terms: &Terms, force: Option<&Force>) -> Result<Decision, Refusal> {
    match (standing_of_claimant(view), force) {
        (Standing::Held(lease), None) => Err(held_refusal(view, lease)),
        (Standing::Held(lease), Some(force)) => {
            let mut decision = acquire(view, Standing::Freed, terms, Some(force))?;
            decision.drafts.insert(0, revoked(view, lease, force));
            Ok(decision)
        }
        (Standing::Holder { late: false, lease }, _) => Err(Refusal::new(
            Code::NotAllowed,
            format!("{} is yours already, with token {}", view.id, lease.token),
        )
        .task(view.id)
        .next(format!("onus renew {}", view.id))),
        (standing, _) => {
            let lapsed = view.lease.is_some_and(|lease| view.is_usable(lease));
            if !lapsed && view.task.state == State::Open {
                return Err(Refusal::new(
                    Code::NotAllowed,
                    format!("{} is not held by anyone: there is nothing to take over", view.id),
                )
                .task(view.id)
                .next(format!("onus claim {}", view.id)));
            }
            acquire(view, standing, terms, force)
        }
    }
}

/// A new lease, if claim's whole check passes; a lapsed one before it is ended as taken over.
pub(super) fn acquire(
    view: &View<'_>,
    standing: Standing<'_>,
    terms: &Terms,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let (old, opens) = match standing {
        Standing::Held(lease) => return Err(held_refusal(view, lease)),
        Standing::Holder { lease, .. } if lease.ended.is_none() => {
            (Some((lease, late_cause(view, lease))), true)
        }
        Standing::Holder { .. } => (None, false),
        Standing::Free { lapsed } => (lapsed, lapsed.is_some()),
        Standing::Freed => (None, true),
    };
    let mut drafts = check(view, opens, force)?;
    let (scope, mode) = super::scope::wanted(view.task, terms);
    let careful = super::scope::check(view, &scope, mode)?;
    let (grant, mut notices) = grant(view, terms, mode)?;
    notices.extend(careful);
    let reason = terms.reason.as_deref().map(|text| Field::Reason.check(text)).transpose()?;
    if let Some((lease, cause)) = old {
        let taken = Body::LeaseTakenOver { cause, lease: lease.end(view.now, false) };
        drafts.push(Draft::new(taken).token(lease.token).text(Field::Reason, reason.clone()));
    }
    drafts.push(
        Draft::new(Body::LeaseAcquired { grant, scope })
            .token(view.task.token.next())
            .text(Field::Reason, reason),
    );
    Ok(Decision { drafts, renew: None, notices })
}

/// Claim's whole check, apart from who holds the task: kept for another (4), state, tier,
/// dependencies and schedule (6).
/// `opens`: the end of a lease comes first and leaves the task open. Returns the overrides that force needed.
fn check(view: &View<'_>, opens: bool, force: Option<&Force>) -> Result<Vec<Draft>, Refusal> {
    let mut drafts = Vec::new();
    let mut allow = |rule: &str, refusal: Refusal| match force {
        Some(force) => {
            drafts.push(overridden(rule, force));
            Ok(())
        }
        None => Err(refusal),
    };
    if let Some(refusal) = kept_refusal(view) {
        allow("kept", refusal)?;
    }
    let state = if opens { State::Open } else { view.task.state };
    if step(state, Verb::Claim).is_none() {
        return Err(not_possible(view, Verb::Claim));
    }
    let required = view.task.facts.required_tier;
    if view.actor.tier < required {
        let refusal = Refusal::new(
            Code::Tier,
            format!("{} needs tier {required}; {} has tier {}", view.id, view.actor.name, view.actor.tier),
        );
        allow("tier", refusal.task(view.id).next("onus ready   # tasks for your tier"))?;
    }
    if let Some(refusal) = unmet_refusal(view) {
        allow("dependencies", refusal)?;
    }
    if let Some(refusal) = schedule_refusal(view) {
        allow("schedule", refusal)?;
    }
    Ok(drafts)
}

/// Exit 4: the task is kept for another actor.
pub(super) fn kept_refusal(view: &View<'_>) -> Option<Refusal> {
    let kept = view.task.kept.as_ref()?;
    if kept.actor == view.caller.actor || kept.until.has_come(view.now) {
        return None;
    }
    let left_ms = kept.until.since_ms(view.now);
    let mut refusal = Refusal::new(
        Code::Kept,
        format!("{} is kept for {} for {} more", view.id, kept.actor, Span::from_ms(left_ms)),
    )
    .task(view.id)
    .next("onus ready   # take another task")
    .next(format!("onus show {}   # look again later", view.id));
    refusal.expires_in_s = Some(left_ms / SECOND_MS);
    Some(refusal)
}

/// The terms of the lease: defaults for who asks, limits for what they ask.
fn grant(view: &View<'_>, terms: &Terms, mode: Mode) -> Result<(Grant, Vec<String>), Refusal> {
    let (policy, person) = (view.policy, view.caller.actor.is_person());
    let mut notices = Vec::new();
    let indefinite = terms.ttl_ms == Some(0) && !person;
    let ttl_ms = if person {
        if terms.ttl_ms.is_some_and(|ms| ms > 0) {
            notices.push("a person's lease has no TTL: yours lasts until you end it".to_owned());
        }
        None
    } else if indefinite {
        check_indefinite(view, terms)?;
        None
    } else {
        Some(terms.ttl_ms.unwrap_or(policy.ttl_ms))
    };
    let max_hold_ms = Some(policy.max_hold_ms).filter(|ms| *ms > 0 && !person && !indefinite);
    let grant = Grant {
        tier: view.actor.tier,
        tick_ms: view.now.tick_ms,
        domain: view.now.domain.clone(),
        ttl_ms,
        max_hold_ms,
        process: terms.process.clone(),
        worktree: terms.worktree.clone(),
        branch: terms.branch.clone(),
        mode,
        reserve: terms.reserve,
        handoff_version: view
            .task
            .kept
            .as_ref()
            .filter(|kept| kept.actor == view.caller.actor)
            .map(|kept| kept.version),
    };
    Ok((grant, notices))
}

fn check_indefinite(view: &View<'_>, terms: &Terms) -> Result<(), Refusal> {
    if terms.reason.is_none() {
        return Err(Refusal::usage("a lease without a TTL needs a reason: add --reason 'why'"));
    }
    let (policy, (own, all)) = (view.policy, view.indefinite);
    let over = if own >= policy.indefinite_per_actor {
        format!("{} holds {own} already (limit {})", view.caller.actor, policy.indefinite_per_actor)
    } else if all >= policy.indefinite_per_store {
        format!("agents hold {all} already (limit {})", policy.indefinite_per_store)
    } else {
        return Ok(());
    };
    Err(Refusal::new(Code::Limit, format!("no more leases without a TTL: {over}"))
        .task(view.id)
        .next(format!("onus claim {} --ttl 2h   # a bounded lease", view.id)))
}

pub(super) fn renew(view: &View<'_>, ttl_ms: Option<i64>, progress: bool) -> Result<Decision, Refusal> {
    match standing(view)? {
        Standing::Holder { lease, late: false } => Ok(Decision {
            renew: Some(Renewal { token: lease.token, ttl_ms: ttl_ms.filter(|ms| *ms > 0), progress }),
            ..Decision::default()
        }),
        Standing::Holder { lease, late: true } => renew_late(view, lease, ttl_ms, None),
        Standing::Held(lease) => Err(held_refusal(view, lease)),
        Standing::Free { .. } | Standing::Freed => Err(not_yours(view, Verb::Claim)),
    }
}

/// After a lapse a holder goes on under its token only if it could claim the task now.
pub(super) fn renew_late(
    view: &View<'_>,
    lease: &Lease,
    ttl_ms: Option<i64>,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let again = |message: String| {
        Refusal::new(Code::Held, message)
            .task(view.id)
            .next(format!("onus claim {}   # a new lease, with a new token", view.id))
    };
    if late_cause(view, lease) == LapseCause::MaxHold {
        let limit = Span::from_ms(lease.grant.max_hold_ms.unwrap_or_default());
        return Err(again(format!("{} was held for its maximum of {limit}: it cannot be renewed", view.id)));
    }
    if !can_go_on(view, lease) {
        return Err(again(format!("the process that held {} is gone: its lease cannot be renewed", view.id)));
    }
    let mut drafts = check(view, true, force).map_err(|refusal| match refusal.code {
        Code::Kept => refusal,
        // Claiming anew would be refused for the same reason; what was done can still be finished.
        _ => Refusal::new(Code::Held, refusal.message)
            .task(view.id)
            .next(format!("onus submit {}   # what is done can still be finished", view.id))
            .next("onus ready   # take another task"),
    })?;
    if view.task.state != State::Open && view.task.state != State::InProgress {
        return Err(not_possible(view, Verb::Claim));
    }
    let careful = super::scope::check(view, view.scope, lease.grant.mode)?;
    let ttl_ms = ttl_ms.filter(|ms| *ms > 0).or(lease.grant.ttl_ms);
    let held_ms = view.now.since_ms(&lease.acquired());
    let left_ms = lease.grant.max_hold_ms.map(|hold_ms| hold_ms - held_ms);
    let active = lease.end(view.now, false);
    let renewed = Body::LeaseRenewed {
        tick_ms: view.now.tick_ms,
        domain: view.now.domain.clone(),
        renewals: active.renewals + 1,
        active_s: active.active_s,
        deadline_in_ms: match ttl_ms.filter(|_| lease.grant.goes_by_its_ttl(view.now)) {
            Some(ttl_ms) => Some(left_ms.map_or(ttl_ms, |left_ms| ttl_ms.min(left_ms))),
            None => left_ms,
        },
        reserve: lease.grant.reserve,
    };
    drafts.push(Draft::new(renewed).token(lease.token));
    Ok(Decision { drafts, renew: None, notices: careful.into_iter().collect() })
}

/// Whether a lapsed lease can be renewed at all: it lapsed by the clock, not with the process that it is bound to.
fn can_go_on(view: &View<'_>, lease: &Lease) -> bool {
    lease.grant.process.is_none()
        || view.seen != Seen::Dead && late_cause(view, lease) != LapseCause::Rebooted
}

/// Why the holder is late. For a swept lease only its maximum hold matters still.
pub(super) fn late_cause(view: &View<'_>, lease: &Lease) -> LapseCause {
    match view.liveness(lease) {
        Liveness::Lapsed(cause) => cause,
        Liveness::Live => LapseCause::Ttl,
    }
}

/// Exit 6 for a verb that the table does not know from this state.
pub(super) fn not_possible(view: &View<'_>, verb: Verb) -> Refusal {
    let state = view.task.state;
    let id = view.id;
    let mut refusal =
        Refusal::new(Code::NotAllowed, format!("{id} is {state}: {verb} is not possible from there"))
            .task(id);
    if state.is_finished() {
        // Opening it again is a decision, not the next step of somebody who was refused.
        return refusal
            .next(format!("onus show {id}   # how it ended"))
            .next("onus ready   # take another task");
    }
    // What gives work up or judges it is a decision, too.
    let harmless = [Verb::Accept, Verb::Claim, Verb::Release, Verb::Unblock, Verb::Submit, Verb::Done];
    refusal.next = verbs_from(state)
        .into_iter()
        .filter(|verb| harmless.contains(verb))
        .map(|verb| match verb {
            Verb::Done => format!("onus done {id} -m '…'"),
            verb => format!("onus {verb} {id}"),
        })
        .collect();
    refusal.next(format!("onus show {id}"))
}

/// Exit 6 for a holder's verb by somebody who holds nothing.
pub(super) fn not_yours(view: &View<'_>, verb: Verb) -> Refusal {
    if step(view.task.state, verb).is_none() && view.task.state != State::InProgress {
        return not_possible(view, verb);
    }
    Refusal::new(Code::NotAllowed, format!("{} does not hold {}", view.caller.actor, view.id))
        .task(view.id)
        .next(format!("onus claim {}", view.id))
}
