//! Claim, renew and takeover: how a lease begins, continues and changes hands (P1).

use crate::actor::KnownBy;
use crate::command::{Attachment, Force, Terms};
use crate::event::{Body, Draft};
use crate::lease::{Grant, LapseCause, Lease, Liveness, Mode, Process, Seen};
use crate::quote::name;
use crate::refusal::{Code, Reader, Refusal, Step};
use crate::task::State;
use crate::text::Field;
use crate::time::{SECOND_MS, Span};
use crate::transition::{Transition, Verb, verbs_from};

use super::ready::{schedule_refusal, unmet_refusal};
use super::standing::{
    Standing, held_refusal, revoked, standing, standing_of_claimant, without_fenced_steps,
};
use super::{Decision, Renewal, View, override_or_refuse};

pub(super) fn claim(view: &View<'_>, terms: &Terms, force: Option<&Force>) -> Result<Decision, Refusal> {
    let standing = standing_of_claimant(view);
    if let Standing::Holder { lease, late } = standing {
        // Two conversations in one folder look alike: the second must not join the first one's lease by mistake.
        let ambiguous = view.caller.known_by == KnownBy::Worktree;
        match (late, ambiguous) {
            (false, true) => return Err(held_refusal(view, lease)),
            (false, false) => {
                super::scope::check_in_doubt(view, lease)?;
                return Ok(claim_again(lease, terms));
            }
            // If the lapsed lease cannot be renewed, its holder claims the task like anybody else.
            (true, false) => {
                let revival = Revival { ttl_ms: terms.ttl_ms, process: terms.process.as_ref() };
                if can_be_renewed(view, lease) {
                    return renew_late(view, lease, &revival, force);
                }
            }
            (true, true) => {}
        }
    }
    acquire(view, standing, terms, force)
}

/// Claiming a task that the caller holds renews it, and starts it if it was only reserved.
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
            || !terms.scope.is_empty()
            || !lease.grant.constraints.is_stricter_or_equal(&terms.constraints))
        .then(|| {
            "claiming a task you hold only renews it: to change what it reserves or is bound to, release it and claim it again"
                .to_owned()
        })
        .into_iter()
        .collect(),
        merges: Vec::new(),
    }
}

pub(super) fn takeover(view: &View<'_>, terms: &Terms, force: Option<&Force>) -> Result<Decision, Refusal> {
    match (standing_of_claimant(view), force) {
        (Standing::Held(lease), None) => Err(held_refusal(view, lease)),
        (Standing::Held(lease), Some(force)) => {
            let mut decision = acquire(view, Standing::RevokedByForce, terms, Some(force))?;
            decision.drafts.insert(0, revoked(view, lease, force));
            Ok(decision)
        }
        (Standing::Holder { late: false, lease }, _) => Err(Refusal::new(
            Code::NotAllowed,
            format!("{} is already yours, with token {}", view.id, lease.token),
        )
        .task(view.id)
        .next(Step::Renew(view.id.to_owned()))),
        (standing, _) => {
            let lapsed = view.lease.is_some_and(|lease| view.is_usable(lease));
            if !lapsed && view.task.state == State::Open {
                return Err(Refusal::new(
                    Code::NotAllowed,
                    format!("nobody holds {}: there is nothing to take over", view.id),
                )
                .task(view.id)
                .next(claim_or_why(view)));
            }
            acquire(view, standing, terms, force)
        }
    }
}

/// Grants a new lease if all of claim's checks pass. A lapsed lease is first ended as taken over.
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
        Standing::RevokedByForce => (None, true),
    };
    let mut drafts = check_claimable(view, opens, force)?;
    if let Some(demand) = &terms.demand {
        drafts.extend(super::gate::asked_for(view, demand, Verb::Claim, force)?);
    }
    let (wanted, mode) = super::scope::reservations_of(view.task, terms);
    super::scope::check_len(view, wanted.rows().len())?;
    let careful = super::scope::check_collisions(view, &wanted, mode)?;
    let of_kin = super::scope::ask_kin(view, &wanted)?;
    let merges = super::scope::merges(view, &wanted, mode);
    let (grant, mut notices) = grant(view, terms, mode)?;
    notices.extend(careful.into_iter().chain(of_kin));
    let reason = terms.reason.as_deref().map(|text| Field::Reason.check(text)).transpose()?;
    if let Some((lease, cause)) = old {
        let taken = Body::LeaseTakenOver { cause, lease: lease.end(view.now, false) };
        drafts.push(Draft::new(taken).token(lease.token));
    }
    let token = view.task.token.next();
    let mut reserved = super::scope::granted(view.task, terms).into_iter();
    let (scope, areas, touched) = reserved.next().unwrap_or_default();
    let own_clock = view.caller.own_clock.clone();
    let acquired = Body::LeaseAcquired { grant, scope, areas, touched, own_clock };
    drafts.push(Draft::new(acquired).token(token).text(Field::Reason, reason));
    drafts.extend(
        reserved.map(|(scope, areas, touched)| {
            Draft::new(Body::ScopeAdded { scope, areas, touched }).token(token)
        }),
    );
    Ok(Decision { drafts, renew: None, notices, merges })
}

/// All of claim's checks except the holder: kept for another (4), state, tier, dependencies and schedule (6).
/// `opens`: the end of a lease comes first and leaves the task open. Returns the overrides that force needed.
fn check_claimable(view: &View<'_>, opens: bool, force: Option<&Force>) -> Result<Vec<Draft>, Refusal> {
    let mut drafts = Vec::new();
    let mut allow = |rule: &str, refusal| override_or_refuse(rule, force, refusal, &mut drafts);
    if let Some(refusal) = kept_refusal(view) {
        allow("kept", refusal)?;
    }
    let state = if opens { State::Open } else { view.task.state };
    if Transition::of(state, Verb::Claim).is_none() {
        return Err(not_possible(view, Verb::Claim));
    }
    let required = view.task.facts.required_tier;
    if view.actor.tier < required {
        let refusal = Refusal::new(
            Code::Tier,
            format!("{} needs tier {required}; {} has tier {}", view.id, view.actor.name, view.actor.tier),
        );
        allow("tier", refusal.task(view.id).next(Step::TakeAnother))?;
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
    let left_ms = kept.until.left_ms(view.now);
    let mut refusal = Refusal::new(
        Code::Kept,
        format!("{} is kept for {} for {} more", view.id, kept.actor, Span::from_ms(left_ms)),
    )
    .task(view.id)
    .next(Step::TakeAnother)
    .next(Step::WaitFor(view.id.to_owned()));
    refusal.expires_in_s = Some(left_ms / SECOND_MS);
    Some(refusal)
}

/// The terms of the lease: the caller's defaults, and limits on what it requests.
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
        worktree_id: terms.worktree_id.clone(),
        branch: terms.branch.clone(),
        mode,
        constraints: view.task.facts.constraints.meet(&terms.constraints),
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
        return Err(Refusal::usage("a lease without a time limit needs a reason").next(Step::GiveReason));
    }
    let (policy, (own, all)) = (view.policy, view.indefinite);
    let over = if own >= policy.indefinite_per_actor {
        format!("{} already holds {own} (limit {})", view.caller.actor, policy.indefinite_per_actor)
    } else if all >= policy.indefinite_per_store {
        format!("agents already hold {all} (limit {})", policy.indefinite_per_store)
    } else {
        return Ok(());
    };
    Err(Refusal::new(Code::Limit, format!("no more leases without a time limit: {over}"))
        .task(view.id)
        .next(Step::ClaimWithLimit(view.id.to_owned())))
}

pub(super) fn renew(view: &View<'_>, ttl_ms: Option<i64>, progress: bool) -> Result<Decision, Refusal> {
    match standing(view)? {
        Standing::Holder { lease, late: false } => Ok(Decision {
            renew: Some(Renewal { token: lease.token, ttl_ms: ttl_ms.filter(|ms| *ms > 0), progress }),
            notices: super::scope::check_in_doubt(view, lease)?.into_iter().collect(),
            ..Decision::default()
        }),
        Standing::Holder { lease, late: true } => {
            renew_late(view, lease, &Revival { ttl_ms, ..Revival::of(view) }, None)
        }
        Standing::Held(lease) => Err(held_refusal(view, lease)),
        Standing::Free { .. } | Standing::RevokedByForce => {
            let (state, refusal) = (view.task.state, not_yours(view, Verb::Claim));
            if Transition::of(state, Verb::Claim).is_some() || state == State::InProgress {
                return Err(refusal);
            }
            let message = format!("{} {}, so its lease cannot be renewed", view.id, state.predicate());
            Err(Refusal { message, ..refusal })
        }
    }
}

/// Records where a lease's work is done from now on, as its holder reports. Reserves nothing and gives nothing up.
pub(super) fn attach(view: &View<'_>, attachment: &Attachment) -> Result<Decision, Refusal> {
    let Attachment { id, path, branch, own } = attachment;
    let words = own.iter().flat_map(|own| [&own.branch, &own.base, &own.target]);
    if branch.iter().chain(words).any(|word| !is_ref_word(word)) {
        return Err(Refusal::usage(
            "a branch's name has 1 to 255 bytes, without spaces and control characters",
        ));
    }
    if path.is_empty() || path.len() > MAX_PLACE_BYTES {
        return Err(Refusal::usage(format!("a worktree's path has 1 to {MAX_PLACE_BYTES} bytes")));
    }
    let (lease, mut decision) = super::scope::held(view)?;
    check_branch(view)?;
    let grant = &lease.grant;
    if (&grant.worktree_id, grant.worktree.as_ref(), &grant.branch) != (id, Some(path), branch) {
        let (worktree_id, worktree, branch) = (id.clone(), path.clone(), branch.clone());
        let attached = Body::LeaseAttached { worktree_id, worktree, branch };
        decision.drafts.push(Draft::new(attached).token(lease.token));
    }
    if let Some(own) = own.as_ref().filter(|own| view.task.branch.as_ref() != Some(*own)) {
        decision.drafts.push(Draft::new(Body::TaskBranched(own.clone())).token(lease.token));
    }
    Ok(decision)
}

/// Refuses to make another task's own branch this task's: its work would land as this task's, without its gates and
/// constraints. A person may.
fn check_branch(view: &View<'_>) -> Result<(), Refusal> {
    let Some((id, other)) = view.named.branch_of.as_ref().filter(|_| !view.caller.actor.is_person()) else {
        return Ok(());
    };
    let is_over = other.state == State::Dropped || other.landing.landed.is_some();
    let Some(branch) = other.branch.as_ref().filter(|_| other.uid != view.task.uid && !is_over) else {
        return Ok(());
    };
    let message = format!("{} is the branch of {id}", name(&branch.branch));
    Err(Refusal::new(Code::NotAllowed, message).task(id).next(Step::show(id)))
}

/// Keeps free text out of the ledger. Git's own rule for branch names is stricter.
fn is_ref_word(word: &str) -> bool {
    (1..=255).contains(&word.len()) && !word.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// The longest path of a worktree: what the operating system accepts.
const MAX_PLACE_BYTES: usize = 4096;

/// The terms on which a holder continues after a lapse.
pub(super) struct Revival<'a> {
    pub(super) ttl_ms: Option<i64>,
    /// The process in which it continues, if its harness reports one.
    pub(super) process: Option<&'a Process>,
}

impl<'a> Revival<'a> {
    pub(super) fn of(view: &View<'a>) -> Revival<'a> {
        Revival { ttl_ms: None, process: view.caller.process.as_ref() }
    }

    /// What the renewed lease is bound to. A lease that was bound to no process stays so: renewing does not change its terms.
    fn process(&self, lease: &Lease) -> Option<Process> {
        let old = lease.grant.process.as_ref()?;
        Some(self.process.unwrap_or(old).clone())
    }
}

/// Whether a lapsed lease can be renewed at all: the clock ended it, not the death of the process it is bound to. Whatever a
/// dead process left running still has its token, so a holder that continues after that needs a new one.
fn can_continue(view: &View<'_>, lease: &Lease) -> bool {
    lease.grant.process.is_none()
        || view.seen != Seen::Dead && late_cause(view, lease) != LapseCause::Rebooted
}

/// Whether a lapsed lease [can continue](can_continue) and its maximum hold has not passed.
pub(super) fn can_be_renewed(view: &View<'_>, lease: &Lease) -> bool {
    can_continue(view, lease) && late_cause(view, lease) != LapseCause::MaxHold
}

/// After a lapse a holder continues under its token only if it could claim the task now.
pub(super) fn renew_late(
    view: &View<'_>,
    lease: &Lease,
    revival: &Revival<'_>,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let again = |message: String| {
        Refusal::new(Code::Held, message).task(view.id).next(Step::verb(Verb::Claim, view.id))
    };
    if late_cause(view, lease) == LapseCause::MaxHold {
        let limit = Span::from_ms(lease.grant.max_hold_ms.unwrap_or_default());
        return Err(again(format!(
            "{} has been held for its maximum of {limit}: its lease cannot be renewed",
            view.id
        )));
    }
    if !can_continue(view, lease) {
        return Err(again(format!("the process that held {} is gone: its lease cannot be renewed", view.id)));
    }
    let mut drafts = check_claimable(view, true, force).map_err(|refusal| match refusal.code {
        Code::Kept => refusal,
        // A new claim would be refused for the same reason; the work can still be finished.
        _ => Refusal::new(Code::Held, refusal.message)
            .task(view.id)
            .next(Step::verb(Verb::Submit, view.id))
            .next(Step::TakeAnother),
    })?;
    if view.task.state != State::Open && view.task.state != State::InProgress {
        return Err(not_possible(view, Verb::Claim));
    }
    let careful = super::scope::check_revived(view, lease)?;
    let ttl_ms = revival.ttl_ms.filter(|ms| *ms > 0).or(lease.grant.ttl_ms);
    let held_ms = view.now.since_ms(&lease.acquired());
    let left_ms = lease.grant.max_hold_ms.map(|hold_ms| hold_ms - held_ms);
    let renewed = Body::LeaseRenewed {
        tick_ms: view.now.tick_ms,
        domain: view.now.domain.clone(),
        renewals: lease.end(view.now, false).renewals + 1,
        deadline_in_ms: match ttl_ms.filter(|_| lease.grant.goes_by_its_ttl(view.now)) {
            Some(ttl_ms) => Some(left_ms.map_or(ttl_ms, |left_ms| ttl_ms.min(left_ms))),
            None => left_ms,
        },
        reserve: lease.grant.reserve,
        own_clock: view.caller.own_clock.clone(),
        process: revival.process(lease),
    };
    drafts.push(Draft::new(renewed).token(lease.token));
    // While the lease was lapsed, others could touch the same files without a notice to anybody.
    let merges = view.around.map(|around| super::scope::merges(view, &around.own, lease.grant.mode));
    let (notices, merges) = (careful.into_iter().collect(), merges.unwrap_or_default());
    Ok(Decision { drafts, renew: None, notices, merges })
}

/// Why the holder is late. For a swept lease only its maximum hold still matters.
pub(super) fn late_cause(view: &View<'_>, lease: &Lease) -> LapseCause {
    match view.liveness(lease) {
        Liveness::Lapsed(cause) => cause,
        Liveness::Live => LapseCause::Ttl,
    }
}

/// Exit 6: the table does not have this verb for the task's state.
pub(super) fn not_possible(view: &View<'_>, verb: Verb) -> Refusal {
    let (id, state) = (view.id, view.task.state);
    let message = match (verb, state) {
        (Verb::Block, State::Blocked) => format!("{id} is already blocked"),
        (Verb::Submit, State::Review) => format!("{id} is already in review"),
        (Verb::Done, State::Done) => format!("{id} is already done"),
        (Verb::Fail, State::Failed) => format!("{id} has already failed"),
        (Verb::Drop, State::Dropped) => format!("{id} was already dropped"),
        _ => format!("{id} {}, so it cannot be {}", state.predicate(), verb.participle()),
    };
    // Where somebody decided that the work stops, the next step is to see why.
    let is_decided = matches!(state, State::Blocked | State::Done | State::Failed | State::Dropped);
    let refusal = Refusal::new(Code::NotAllowed, message).task(id);
    let refusal = if is_decided { refusal.next(Step::show(id)) } else { refusal };
    // Giving up work and judging it are decisions: no refusal suggests them.
    let harmless = [
        Verb::Accept,
        Verb::Claim,
        Verb::Release,
        Verb::Unblock,
        Verb::Submit,
        Verb::Done,
        Verb::Reopen,
        Verb::Retry,
    ];
    // After a lapse anybody may claim the task, but only its holder may finish it.
    let is_holders = matches!(standing_of_claimant(view), Standing::Holder { .. });
    let from = if state == State::InProgress && !is_holders { State::Open } else { state };
    // Whoever wants to decide on a task does not want to work on it.
    let is_decision = matches!(verb, Verb::Accept | Verb::Approve | Verb::Reject | Verb::Unblock);
    let is_work = |verb: &Verb| matches!(verb, Verb::Claim | Verb::Release | Verb::Submit | Verb::Done);
    let possible = verbs_from(from)
        .into_iter()
        .filter(|verb| harmless.contains(verb) && !(is_decision && is_work(verb)))
        // That finished work is not finished after all is for people to say.
        .filter(|verb| *verb != Verb::Reopen || view.caller.actor.is_person());
    let refusal = possible.fold(refusal, |refusal, verb| {
        refusal.next(match verb {
            Verb::Claim => claim_or_why(view),
            Verb::Done | Verb::Submit if unmet_refusal(view).is_some() => Step::why(id),
            Verb::Retry if super::graph::is_out_of_attempts(view) => Step::note(id, Reader::Person),
            verb => Step::verb(verb, id),
        })
    });
    let refusal = match state {
        State::Review
            if view.caller.actor.is_person() && view.task.submitter != Some(view.caller.actor.clone()) =>
        {
            refusal.next(Step::verb(Verb::Approve, id)).next(Step::verb(Verb::Reject, id))
        }
        State::Review => refusal.next(Step::note(id, Reader::Reviewer)),
        _ => refusal,
    };
    let refusal = if is_decided { refusal } else { refusal.next(Step::show(id)) };
    let refusal = without_fenced_steps(view, refusal);
    if state.is_finished() { refusal.next(Step::TakeAnother) } else { refusal }
}

/// The step that leads to a lease on the task: to claim it, or to see why that would be refused now.
pub(super) fn claim_or_why(view: &View<'_>) -> Step {
    let is_below = view.actor.tier < view.task.facts.required_tier;
    let obstacle = || unmet_refusal(view).or_else(|| schedule_refusal(view)).or_else(|| kept_refusal(view));
    let is_held = matches!(standing_of_claimant(view), Standing::Held(_));
    match is_below || is_held || obstacle().is_some() {
        true => Step::why(view.id),
        false => Step::verb(Verb::Claim, view.id),
    }
}

/// Exit 6: a holder's verb, but the caller does not hold the task.
pub(super) fn not_yours(view: &View<'_>, verb: Verb) -> Refusal {
    if Transition::of(view.task.state, verb).is_none() && view.task.state != State::InProgress {
        return not_possible(view, verb);
    }
    Refusal::new(Code::NotAllowed, format!("{} does not hold {}", view.caller.actor, view.id))
        .task(view.id)
        .next(claim_or_why(view))
}
