//! Everything done to a task but claiming it: creation, edits, notes, the verbs of the table, redaction.

use crate::actor::ActorName;
use crate::command::{Edit, Force, NewTask, Terms};
use crate::event::{Body, Draft, KeptFor};
use crate::ids::{Number, Version};
use crate::lease::{Lease, LeaseEnd};
use crate::refusal::{Code, Refusal};
use crate::task::{Facts, MAX_REFS, MAX_RELATES, MAX_SCOPE, MAX_TAGS, State, check_word};
use crate::text::Field;
use crate::transition::{Party, Step, Verb, step};

use super::claim::{acquire, kept_refusal, late_cause, not_possible, not_yours};
use super::graph::{cycle_refusal, may_link};
use super::ready::{children_refusal, unmet_refusal};
use super::standing::{
    Standing, fenced, held_refusal, standing, standing_of_claimant, standing_or_forced, swept,
};
use super::{Decision, Named, View, check_version, overridden};

/// A new task. The number is the store's.
pub fn create(new: &NewTask, number: Number, named: &Named, now_ms: i64) -> Result<Draft, Refusal> {
    let title = Field::Title.check(&new.title)?;
    let body = new.body.as_deref().map(|text| Field::Body.check(text)).transpose()?;
    let facts = Facts {
        parent: named.parent,
        relates: named.relate.clone(),
        not_before_ms: new.not_before.map(|schedule| schedule.wall_ms(now_ms)),
        ..new.facts.clone()
    };
    check_facts(&facts)?;
    let created = Body::TaskCreated {
        number,
        state: if new.propose { State::Proposed } else { State::Open },
        facts,
        origin: new.origin.clone(),
        body: body.is_some(),
        deps: named.deps.clone(),
    };
    Ok(Draft::new(created).text(Field::Title, Some(title)).text(Field::Body, body))
}

fn check_facts(facts: &Facts) -> Result<(), Refusal> {
    if facts.tags.len() > MAX_TAGS || facts.refs.len() > MAX_REFS {
        return Err(Refusal::usage(format!("a task has at most {MAX_TAGS} tags and {MAX_REFS} references")));
    }
    if facts.relates.len() > MAX_RELATES {
        return Err(Refusal::usage(format!("a task relates to at most {MAX_RELATES} others")));
    }
    if facts.scope.globs().len() > MAX_SCOPE {
        return Err(Refusal::usage(format!("a task declares at most {MAX_SCOPE} globs")));
    }
    for tag in &facts.tags {
        check_word("tag", tag)?;
    }
    for (system, reference) in &facts.refs {
        check_word("system", system)?;
        if reference.is_empty() || reference.len() > 200 || reference.chars().any(char::is_control) {
            return Err(Refusal::usage(format!(
                "the reference for {system} must have 1 to 200 bytes and no control characters"
            )));
        }
    }
    facts.area.as_ref().map(|area| check_word("area", area)).transpose()?;
    facts.iteration.as_ref().map(|iteration| check_word("iteration", iteration)).transpose()?;
    if facts.owner.as_ref().is_some_and(|owner| !owner.is_person()) {
        return Err(Refusal::usage("the owner is the accountable person: name a human:… actor"));
    }
    Ok(())
}

/// The fields after an edit.
fn edit_facts(facts: &Facts, edit: &Edit, named: &Named, now_ms: i64) -> Result<Facts, Refusal> {
    let mut new = facts.clone();
    new.kind = edit.kind.unwrap_or(new.kind);
    new.priority = edit.priority.unwrap_or(new.priority);
    new.required_tier = edit.required_tier.unwrap_or(new.required_tier);
    new.area = edit.area.clone().unwrap_or(new.area);
    new.iteration = edit.iteration.clone().unwrap_or(new.iteration);
    new.owner = edit.owner.clone().unwrap_or(new.owner);
    new.tags.extend(edit.add_tags.iter().cloned());
    new.tags.retain(|tag| !edit.remove_tags.contains(tag));
    if edit.parent.is_some() {
        new.parent = named.parent;
    }
    new.relates.extend(&named.relate);
    new.relates.retain(|uid| !named.unrelate.contains(uid));
    if let Some(schedule) = edit.not_before {
        new.not_before_ms = schedule.map(|schedule| schedule.wall_ms(now_ms));
    }
    new.max_attempts = edit.max_attempts.unwrap_or(new.max_attempts);
    new.scope.extend(edit.add_scope.globs().iter().cloned());
    for glob in edit.remove_scope.globs() {
        new.scope.remove(glob);
    }
    new.mode = edit.mode.unwrap_or(new.mode);
    for (system, reference) in &edit.refs {
        match reference {
            Some(reference) => new.refs.insert(system.clone(), reference.clone()),
            None => new.refs.remove(system),
        };
    }
    check_facts(&new)?;
    Ok(new)
}

pub(super) fn edit(view: &View<'_>, edit: &Edit, force: Option<&Force>) -> Result<Decision, Refusal> {
    let (mut drafts, standing) = may_link(view, force)?;
    check_version(view, edit.if_version)?;
    let facts = edit_facts(&view.task.facts, edit, view.named, view.now.wall_ms)?;
    if let Some(cycle) = &view.named.cycle {
        return Err(cycle_refusal(view.id, cycle));
    }
    if facts.required_tier < view.task.facts.required_tier && !view.caller.actor.is_person() {
        return Err(Refusal::new(Code::PeopleOnly, "only a person may lower the tier that a task needs")
            .task(view.id)
            .next(format!("onus note {} 'why a lower tier is enough'", view.id)));
    }
    let title = edit.title.as_deref().map(|text| Field::Title.check(text)).transpose()?;
    let body = edit.body.as_deref().map(|text| Field::Body.check(text)).transpose()?;
    if facts == view.task.facts && title.is_none() && body.is_none() {
        return Ok(Decision::of(drafts));
    }
    let edited = Body::TaskEdited { facts, title: title.is_some(), body: body.is_some() };
    drafts.push(own_token(&standing, Draft::new(edited)).text(Field::Title, title).text(Field::Body, body));
    Ok(Decision::of(drafts))
}

/// Where the caller stands for what does not concern who holds the task: forcing past the fence revokes nothing.
pub(super) fn standing_beside<'a>(
    view: &View<'a>,
    force: Option<&Force>,
) -> Result<(Vec<Draft>, Standing<'a>), Refusal> {
    match (standing(view), force) {
        (Ok(standing), _) => Ok((Vec::new(), standing)),
        (Err(_), Some(force)) => Ok((vec![overridden("fence", force)], standing_of_claimant(view))),
        (Err(refusal), None) => Err(refusal),
    }
}

/// The token of the caller's current lease, on an event that does not end it.
pub(super) fn own_token(standing: &Standing<'_>, draft: Draft) -> Draft {
    match standing {
        Standing::Holder { lease, .. } => draft.token(lease.token),
        _ => draft,
    }
}

pub(super) fn note(view: &View<'_>, text: &str, force: Option<&Force>) -> Result<Decision, Refusal> {
    let (mut drafts, standing) = standing_beside(view, force)?;
    let text = Field::Note.check(text)?;
    drafts.push(own_token(&standing, Draft::new(Body::NoteAdded {})).text(Field::Note, Some(text)));
    Ok(Decision::of(drafts))
}

pub(super) fn redact(
    view: &View<'_>,
    version: Version,
    fields: &[Field],
    reason: &str,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let (mut drafts, _) = standing_beside(view, force)?;
    let reason = Field::Reason.check(reason)?;
    let Some((author, kept)) = view.redactable else {
        return Err(Refusal::new(Code::NotFound, format!("{} has no event {version}", view.id))
            .task(view.id)
            .next(format!("onus log {}   # its events, with their versions", view.id)));
    };
    if !view.caller.actor.is_person() && *author != view.caller.actor {
        return Err(Refusal::new(
            Code::PeopleOnly,
            format!("{author} wrote that text; besides its author only a person may erase it"),
        )
        .task(view.id)
        .next(format!("onus note {} 'event {version} should be redacted: why'", view.id)));
    }
    let gone: Vec<Field> =
        kept.iter().copied().filter(|field| fields.is_empty() || fields.contains(field)).collect();
    if gone.is_empty() {
        return Err(Refusal::new(
            Code::Nothing,
            format!("event {version} of {} has no such text, or it was erased already", view.id),
        )
        .task(view.id)
        .next(format!("onus log {}", view.id)));
    }
    let redacted = Body::TextRedacted { version, fields: gone };
    drafts.push(Draft::new(redacted).text(Field::Reason, Some(reason)));
    Ok(Decision::of(drafts))
}

pub(super) fn handoff(
    view: &View<'_>,
    to: &ActorName,
    reason: &str,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let reason = Field::Reason.check(reason)?;
    let (mut drafts, lease) = may(view, Verb::Handoff, force)?;
    // Else anyone could take a reservation by handing the task to itself.
    if let Some(refusal) = kept_refusal(view).filter(|_| !view.caller.actor.is_person()) {
        return Err(refusal);
    }
    // A lapse leaves its token usable. Another who hands the task on supersedes its holder.
    let lapsed = view.lease.filter(|old| lease.is_none() && view.is_usable(old) && !has_revoked(&drafts));
    if let Some(old) = lapsed {
        drafts.retain(|draft| !matches!(draft.body, Body::LeaseLapsed { .. }));
        let taken = Body::LeaseTakenOver { cause: late_cause(view, old), lease: old.end(view.now, false) };
        drafts.push(Draft::new(taken).token(old.token));
    }
    let until = view.now.plus(view.policy.keep_ms);
    let handed = Body::LeaseHandedOff {
        kept_for: KeptFor {
            actor: to.clone(),
            until_wall_ms: until.wall_ms,
            until_tick_ms: until.tick_ms,
            domain: until.domain,
        },
        lease: lease.map(|lease| end_of(view, lease)),
    };
    let draft = Draft { token: lease.map(|lease| lease.token), ..Draft::new(handed) };
    drafts.push(draft.text(Field::Reason, Some(reason)));
    Ok(Decision::of(drafts))
}

/// The verbs of the table that have no terms of their own.
pub(super) fn shift(
    view: &View<'_>,
    verb: Verb,
    message: Option<&str>,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let message = message.map(|text| Field::Note.check(text)).transpose()?;
    let (mut drafts, lease) = may(view, verb, force)?;
    if verb == Verb::Release && has_revoked(&drafts) {
        // A person's force has released it.
        return Ok(Decision::of(drafts));
    }
    let end = lease.map(|lease| end_of(view, lease));
    let claimed = || LeaseEnd { renewals: 0, last_sign_ms: view.now.wall_ms, active_s: 0 };
    let body = match verb {
        Verb::Accept => Body::TaskAccepted {},
        Verb::Block => Body::TaskBlocked { lease: end },
        Verb::Unblock => Body::TaskUnblocked {},
        Verb::Submit => Body::TaskSubmitted { lease: end.unwrap_or_else(claimed) },
        Verb::Approve => Body::TaskApproved {},
        Verb::Reject => Body::TaskRejected { kept_for: kept_for_submitter(view) },
        Verb::Done => Body::TaskDone { lease: end.unwrap_or_else(claimed) },
        Verb::Fail if claims_first(&drafts) => Body::TaskFailed { lease: Some(claimed()) },
        Verb::Fail => Body::TaskFailed { lease: end },
        Verb::Drop => Body::TaskDropped { lease: end },
        Verb::Reopen => Body::TaskReopened {},
        Verb::Release => Body::LeaseReleased { lease: end.ok_or_else(|| not_yours(view, verb))? },
        Verb::Claim | Verb::Takeover | Verb::Lapse | Verb::Handoff | Verb::Reset | Verb::Retry => {
            return Err(Refusal::new(Code::Unexpected, format!("{verb} is not a plain verb")));
        }
    };
    if verb == Verb::Done && message.is_none() {
        return Err(Refusal::usage("done needs a resolution note: add -m 'what was done'"));
    }
    if matches!(verb, Verb::Done | Verb::Approve) {
        drafts.extend(finishable(view, force, claims_first(&drafts))?);
    }
    let token = if claims_first(&drafts) { Some(view.task.token.next()) } else { lease.map(|l| l.token) };
    drafts.push(Draft { token, ..Draft::new(body) }.text(Field::Note, message));
    Ok(Decision::of(drafts))
}

/// What is done stands on what it depends on, and contains its parts. A claim in the same breath has asked for the first.
fn finishable(view: &View<'_>, force: Option<&Force>, claimed: bool) -> Result<Vec<Draft>, Refusal> {
    let mut drafts = Vec::new();
    let unmet = unmet_refusal(view).filter(|_| !claimed).map(|refusal| ("dependencies", refusal));
    for (rule, refusal) in unmet.into_iter().chain(children_refusal(view).map(|refusal| ("parts", refusal))) {
        match force {
            Some(force) => drafts.push(overridden(rule, force)),
            None => return Err(refusal),
        }
    }
    Ok(drafts)
}

fn claims_first(drafts: &[Draft]) -> bool {
    drafts.iter().any(|draft| matches!(draft.body, Body::LeaseAcquired { .. }))
}

/// Whether a person's force ends the live lease first.
fn has_revoked(drafts: &[Draft]) -> bool {
    drafts.iter().any(|draft| matches!(draft.body, Body::LeaseRevoked { .. }))
}

fn end_of(view: &View<'_>, lease: &Lease) -> LeaseEnd {
    let presented = view.caller.token == Some(lease.token);
    lease.end(view.now, presented || lease.is_held_by(&view.caller.actor, &view.caller.instance))
}

fn kept_for_submitter(view: &View<'_>) -> Option<KeptFor> {
    let until = view.now.plus(view.policy.keep_ms);
    view.task.submitter.clone().map(|actor| KeptFor {
        actor,
        until_wall_ms: until.wall_ms,
        until_tick_ms: until.tick_ms,
        domain: until.domain,
    })
}

/// Whether the caller may use a verb now: the events that must come first, and the lease that the verb ends.
fn may<'a>(
    view: &View<'a>,
    verb: Verb,
    force: Option<&Force>,
) -> Result<(Vec<Draft>, Option<&'a Lease>), Refusal> {
    let (mut drafts, standing) = standing_or_forced(view, force)?;
    match standing {
        Standing::Holder { lease, .. } => {
            // A task that is only reserved, or whose lapse was swept, is its holder's as if in progress.
            let from = if view.task.state == State::Open { State::InProgress } else { view.task.state };
            let allowed = step(from, verb).ok_or_else(|| not_possible(view, verb))?;
            check_party(view, allowed, verb, force, &mut drafts)?;
            let ends_it = allowed.party == Party::Holder;
            if ends_it && lease.ended.is_none() && lease.grant.reserve && verb != Verb::Release {
                drafts.push(Draft::new(Body::TaskStarted {}).token(lease.token));
            }
            Ok((drafts, Some(lease).filter(|_| ends_it)))
        }
        Standing::Held(lease) => Err(held_refusal(view, lease)),
        Standing::Free { lapsed } => free(view, verb, force, drafts, Standing::Free { lapsed }),
        Standing::Freed => free(view, verb, force, drafts, Standing::Freed),
    }
}

/// The same for a task that nobody else holds live, or no longer.
fn free<'a>(
    view: &View<'a>,
    verb: Verb,
    force: Option<&Force>,
    mut drafts: Vec<Draft>,
    standing: Standing<'a>,
) -> Result<(Vec<Draft>, Option<&'a Lease>), Refusal> {
    let (old, opens) = match standing {
        Standing::Free { lapsed } => (lapsed, lapsed.is_some()),
        _ => (None, true),
    };
    let from = if opens { State::Open } else { view.task.state };
    if verb == Verb::Release && has_revoked(&drafts) {
        return Ok((drafts, None));
    }
    if let Some(allowed) = step(from, verb) {
        drafts.extend(old.map(|(lease, cause)| swept(view, lease, cause)));
        check_party(view, allowed, verb, force, &mut drafts)?;
        return Ok((drafts, None));
    }
    let claimable = step(from, Verb::Claim).is_some() && step(State::InProgress, verb).is_some();
    if claimable && verb.claims_first() {
        // What it did was reset since: finishing it again in passing would be done by somebody who does not know.
        if view.mine.is_some_and(|mine| mine.token <= view.task.fenced_token) && force.is_none() {
            return Err(fenced(view));
        }
        let claimed = acquire(view, standing, &Terms::default(), force)?;
        drafts.extend(claimed.drafts);
        return Ok((drafts, None));
    }
    Err(if claimable { not_yours(view, verb) } else { not_possible(view, verb) })
}

fn check_party(
    view: &View<'_>,
    step: Step,
    verb: Verb,
    force: Option<&Force>,
    drafts: &mut Vec<Draft>,
) -> Result<(), Refusal> {
    let submitted_it = view.task.submitter.as_ref() == Some(&view.caller.actor);
    if step.party != Party::Reviewer || !(view.caller_worked_on_it || submitted_it) {
        return Ok(());
    }
    match force {
        Some(force) => {
            drafts.push(overridden("reviewer", force));
            Ok(())
        }
        None => Err(Refusal::new(
            Code::NotAllowed,
            format!("{} worked on {}: somebody else must {verb} it", view.caller.actor, view.id),
        )
        .task(view.id)
        .next(format!("onus note {} 'ready for review'   # and ask another actor", view.id))),
    }
}
