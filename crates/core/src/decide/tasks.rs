//! Everything done to a task except claiming it: creation, edits, notes, the verbs of the table, redaction.

use std::collections::{BTreeMap, BTreeSet};

use crate::actor::ActorName;
use crate::command::{Edit, Force, NewTask, Terms};
use crate::commit::Uncommitted;
use crate::event::{Body, Draft, KeptFor};
use crate::gate::{Demand, Gate, MAX_GATES, Work};
use crate::ids::{Number, Version, is_reference};
use crate::landing;
use crate::lease::{Lease, LeaseEnd};
use crate::quote::name;
use crate::refusal::{Code, Reader, Refusal, Step};
use crate::task::{
    Facts, MAX_ACCEPTANCE, MAX_REF_BYTES, MAX_REFS, MAX_RELATES, MAX_SCOPE, MAX_TAGS, NoteKind, State,
    check_word,
};
use crate::text::Field;
use crate::transition::{self, Party, Verb, step};

use super::claim::{acquire, not_possible, not_yours};
use super::constrained;
use super::gate;
use super::graph::{cycle_refusal, may_link};
use super::ready::{children_refusal, unmet_refusal};
use super::standing::{
    Standing, fenced, held_refusal, standing, standing_of_claimant, standing_or_forced, swept,
};
use super::{Decision, Named, Redactable, View, check_link, check_version, overridden};

/// A new task: its creation, then a line of acceptance each. The number is the store's.
pub fn create(new: &NewTask, number: Number, named: &Named, now_ms: i64) -> Result<Vec<Draft>, Refusal> {
    let title = Field::Title.check(&new.title)?;
    let body = new.body.as_deref().map(|text| Field::Body.check(text)).transpose()?;
    let author = new.author.as_deref().map(|text| Field::Author.check(text)).transpose()?;
    let facts = Facts {
        parent: named.parent,
        relates: named.relate.clone(),
        not_before_ms: new.not_before.map(|schedule| schedule.wall_ms(now_ms)),
        refs: new.facts.refs.iter().map(|(system, id)| (system.to_lowercase(), id.clone())).collect(),
        ..new.facts.clone()
    };
    check_facts(&facts)?;
    check_taken(named)?;
    let acceptance = accept(0, &new.acceptance)?;
    let created = Body::TaskCreated {
        number,
        state: if new.propose { State::Proposed } else { State::Open },
        facts,
        origin: new.origin.clone(),
        body: body.is_some(),
        deps: named.deps.clone(),
    };
    let created = Draft::new(created).text(Field::Title, Some(title)).text(Field::Body, body);
    let created = created.text(Field::Author, author);
    Ok([created].into_iter().chain(acceptance).collect())
}

/// More lines of acceptance, beside so many that the task has.
fn accept(there: usize, lines: &[String]) -> Result<Vec<Draft>, Refusal> {
    if there + lines.len() > MAX_ACCEPTANCE {
        return Err(Refusal::usage(format!("a task has at most {MAX_ACCEPTANCE} acceptance lines")));
    }
    let draft = |line: &String| {
        let line = Field::Acceptance.check(line)?;
        Ok(Draft::new(Body::AcceptanceAdded {}).text(Field::Acceptance, Some(line)))
    };
    lines.iter().map(draft).collect()
}

/// Exit 6: a reference that only one task may have is another's.
fn check_taken(named: &Named) -> Result<(), Refusal> {
    match &named.taken {
        None => Ok(()),
        Some((reference, id)) => {
            let message = format!(
                "{} is {id}'s already: here a reference to that system belongs to one task only",
                name(reference)
            );
            Err(Refusal::new(Code::NotAllowed, message).task(id).next(Step::show(id)))
        }
    }
}

fn check_facts(facts: &Facts) -> Result<(), Refusal> {
    if facts.tags.len() > MAX_TAGS || facts.refs.len() > MAX_REFS {
        return Err(Refusal::usage(format!("a task has at most {MAX_TAGS} tags and {MAX_REFS} references")));
    }
    if facts.gates.len() > MAX_GATES {
        return Err(Refusal::usage(format!("a task names at most {MAX_GATES} gates")));
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
        if !is_reference(reference) {
            return Err(Refusal::usage(format!(
                "the reference for {system} must have 1 to {MAX_REF_BYTES} bytes, no control characters and no spaces around it"
            )));
        }
        if system.contains(':') {
            return Err(Refusal::usage(
                "the name of a system has no colon: what follows the first one is the reference",
            ));
        }
    }
    facts.link.as_deref().map(check_link).transpose()?;
    facts.area.as_ref().map(|area| check_word("area", area)).transpose()?;
    facts.iteration.as_ref().map(|iteration| check_word("iteration", iteration)).transpose()?;
    if facts.owner.as_ref().is_some_and(|owner| !owner.is_person()) {
        return Err(Refusal::usage("the owner is the person accountable: name a human:… actor"));
    }
    Ok(())
}

/// The fields after an edit.
pub(super) fn edit_facts(facts: &Facts, edit: &Edit, named: &Named, now_ms: i64) -> Result<Facts, Refusal> {
    let mut new = facts.clone();
    new.kind = edit.kind.unwrap_or(new.kind);
    new.priority = edit.priority.unwrap_or(new.priority);
    new.required_tier = edit.required_tier.unwrap_or(new.required_tier);
    new.area = edit.area.clone().unwrap_or(new.area);
    new.iteration = edit.iteration.clone().unwrap_or(new.iteration);
    new.owner = edit.owner.clone().unwrap_or(new.owner);
    new.link = edit.link.clone().unwrap_or(new.link);
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
    new.scope_areas.extend(&edit.add_scope_areas);
    new.scope_areas.retain(&new.scope);
    new.mode = edit.mode.unwrap_or(new.mode);
    for (system, reference) in &edit.refs {
        let system = system.to_lowercase();
        match reference {
            Some(reference) => new.refs.insert(system, reference.clone()),
            None => new.refs.remove(&system),
        };
    }
    new.gates.extend(edit.add_gates.iter().cloned());
    new.gates.retain(|key| !edit.remove_gates.contains(key));
    new.constraints = new.constraints.edited(&edit.constraints, &edit.lift);
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
    let (old, person) = (&view.task.facts, view.caller.actor.is_person());
    let loosens = [
        (facts.required_tier < old.required_tier, "only a person may lower the tier that a task needs"),
        (
            !facts.constraints.is_stricter_or_equal(&old.constraints),
            "only a person may loosen a task's constraints",
        ),
        (
            !facts.gates.is_superset(&old.gates)
                || edit.defined.iter().any(|gate| is_edited_away(gate, old, &facts)),
            "only a person may take a gate off a task",
        ),
    ];
    if let Some((_, why)) = loosens.into_iter().find(|(loosens, _)| *loosens && !person) {
        return Err(Refusal::new(Code::PeopleOnly, why)
            .task(view.id)
            .next(Step::note(view.id, Reader::Person)));
    }
    check_taken(view.named)?;
    let acceptance = accept(view.task.acceptance.len(), &edit.acceptance)?;
    let title = edit.title.as_deref().map(|text| Field::Title.check(text)).transpose()?;
    let body = edit.body.as_ref().map(|body| body.as_deref().map(|text| Field::Body.check(text)).transpose());
    let body = body.transpose()?;
    // What is said already need not be said again; what is not there need not be cleared.
    let title = title.filter(|title| view.title != Some(title));
    let body = body.filter(|body| match body {
        Some(_) => body.as_deref() != view.body,
        None => view.task.body_version.is_some(),
    });
    if facts != view.task.facts || title.is_some() || body.is_some() {
        let edited = Body::TaskEdited { facts, title: title.is_some(), body: body.is_some() };
        let edited = Draft::new(edited).text(Field::Title, title).text(Field::Body, body.flatten());
        drafts.push(own_token(&standing, edited));
    }
    drafts.extend(acceptance.into_iter().map(|draft| own_token(&standing, draft)));
    Ok(Decision::of(drafts))
}

/// Whether a gate was for the task and is not any more.
fn is_edited_away(gate: &Gate, old: &Facts, new: &Facts) -> bool {
    gate.is_for(old, Work::Unknown) && !gate.is_for(new, Work::Unknown)
}

/// The caller's standing for changes that do not concern the holder: forcing past the fence revokes nothing.
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

pub(super) fn note(
    view: &View<'_>,
    text: &str,
    kind: NoteKind,
    link: Option<&str>,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let (mut drafts, standing) = standing_beside(view, force)?;
    let text = Field::Note.check(text)?;
    let link = link.map(check_link).transpose()?;
    if kind == NoteKind::Resolution {
        return Err(Refusal::usage(
            "a resolution is what finishing a task says: note progress, a finding or a decision",
        ));
    }
    let noted = own_token(&standing, Draft::new(Body::NoteAdded { kind, link }));
    drafts.push(noted.text(Field::Note, Some(text)));
    Ok(Decision::of(drafts))
}

/// Like an edit. What is ticked already stays as it was said first.
pub(super) fn tick(
    view: &View<'_>,
    line: u64,
    undo: bool,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let (mut drafts, standing) = may_link(view, force)?;
    let lines = &view.task.acceptance;
    let index = usize::try_from(line).ok().and_then(|line| line.checked_sub(1));
    let Some(found) = index.and_then(|index| lines.get(index)) else {
        let has = match lines.len() {
            0 => "no acceptance lines".to_owned(),
            1 => "one acceptance line".to_owned(),
            count => format!("{count} acceptance lines"),
        };
        return Err(Refusal::new(Code::NotFound, format!("{} has {has}: there is no line {line}", view.id))
            .task(view.id)
            .next(Step::show(view.id)));
    };
    let body = match undo {
        false => Body::AcceptanceTicked { line },
        true => Body::AcceptanceUnticked { line },
    };
    if found.ticked.is_some() == undo {
        drafts.push(own_token(&standing, Draft::new(body)));
    }
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
    let Some(Redactable { author, fields: kept, copies }) = view.redactable else {
        return Err(Refusal::new(Code::NotFound, format!("{} has no event {version}", view.id))
            .task(view.id)
            .next(Step::log(view.id)));
    };
    let is_own = |author: &ActorName| view.caller.actor.is_person() || view.caller.actor == *author;
    if !is_own(author) {
        return Err(Refusal::new(
            Code::PeopleOnly,
            format!("{author} wrote that text: only its author or a person may erase it"),
        )
        .task(view.id)
        .next(Step::note(view.id, Reader::Person)));
    }
    let gone: Vec<Field> =
        kept.iter().copied().filter(|field| fields.is_empty() || fields.contains(field)).collect();
    if gone.is_empty() {
        return Err(Refusal::new(
            Code::Nothing,
            format!("event {version} of {} has no such text, or it is already erased", view.id),
        )
        .task(view.id)
        .next(Step::log(view.id)));
    }
    let mut elsewhere: BTreeMap<Version, BTreeSet<Field>> = BTreeMap::new();
    for copy in copies.iter().filter(|copy| gone.contains(&copy.of) && copy.version != version) {
        // A title or body that came back, by whoever took a change back, is the author's still; otherwise what others
        // wrote is theirs, whatever its words.
        let came_back = copy.version > version
            && copy.field == copy.of
            && matches!(copy.field, Field::Title | Field::Body);
        if is_own(&copy.author) || came_back {
            elsewhere.entry(copy.version).or_default().insert(copy.field);
        }
    }
    let versions: Vec<String> = elsewhere.keys().map(ToString::to_string).collect();
    // The reason lies beside the last of them: the one that was asked for.
    let elsewhere = elsewhere.into_iter().map(|(version, fields)| (version, Vec::from_iter(fields)));
    for (version, fields) in elsewhere.chain([(version, gone)]) {
        let redacted = Draft::new(Body::TextRedacted { version, fields });
        drafts.push(redacted.text(Field::Reason, Some(reason.clone())));
    }
    let notice =
        || format!("the same words beside event {} of {} are erased, too", versions.join(", "), view.id);
    let notices = (!versions.is_empty()).then(notice).into_iter().collect();
    Ok(Decision { notices, ..Decision::of(drafts) })
}

/// What was found where a task is said to be done.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) uncommitted: Option<&'a Uncommitted>,
    pub(super) demand: Option<&'a Demand>,
}

/// The verbs of the table that have no terms of their own.
pub(super) fn shift(
    view: &View<'_>,
    verb: Verb,
    message: Option<&str>,
    found: Found<'_>,
    force: Option<&Force>,
) -> Result<Decision, Refusal> {
    let message = message.map(|text| Field::Note.check(text)).transpose()?;
    let (mut drafts, lease) = may(view, verb, force)?;
    if verb == Verb::Release && has_revoked(&drafts) {
        // A person's force has released it.
        return Ok(Decision::of(drafts));
    }
    let end = lease.map(|lease| end_of(view, lease));
    let claimed = || LeaseEnd { renewals: 0, last_sign_ms: view.now.wall_ms, active_ms: 0 };
    let awaits_landing = landing::awaits(view.task, view.policy.deps_met);
    let body = match verb {
        Verb::Accept => Body::TaskAccepted {},
        Verb::Block => Body::TaskBlocked { lease: end },
        Verb::Unblock => Body::TaskUnblocked {},
        Verb::Submit => Body::TaskSubmitted { lease: end.unwrap_or_else(claimed) },
        Verb::Approve => Body::TaskApproved { awaits_landing },
        Verb::Reject => {
            Body::TaskRejected { kept_for: view.task.submitter.as_ref().map(|actor| kept_for(view, actor)) }
        }
        Verb::Done => Body::TaskDone { lease: end.unwrap_or_else(claimed), awaits_landing },
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
        return Err(Refusal::usage(format!(
            "{} cannot be finished without a note of what was done",
            view.id
        ))
        .next(Step::GiveResolution(view.id.to_owned())));
    }
    let left = found.uncommitted.filter(|_| matches!(verb, Verb::Done | Verb::Submit));
    let left = left.map(|left| constrained::all_committed(view, left)).transpose()?.flatten();
    if let Some(demand) = found.demand.filter(|_| is_said_to_be_done(verb)) {
        let asked = match claims_first(&drafts) {
            true => gate::asked_for(view, demand, verb, force)?,
            false => gate::asked_for(view, &demand.of_begun(), verb, force)?,
        };
        drafts.extend(asked);
    }
    if matches!(verb, Verb::Done | Verb::Approve) {
        drafts.extend(finishable(view, force, claims_first(&drafts))?);
    }
    let token = if claims_first(&drafts) { Some(view.task.token.next()) } else { lease.map(|l| l.token) };
    drafts.push(Draft { token, ..Draft::new(body) }.text(Field::Note, message));
    let notices = if is_said_to_be_done(verb) { unticked(view) } else { None };
    let notices = notices.into_iter().chain(left).collect();
    Ok(Decision { notices, ..Decision::of(drafts) })
}

fn is_said_to_be_done(verb: Verb) -> bool {
    matches!(verb, Verb::Done | Verb::Submit | Verb::Approve)
}

/// That not all of what was asked for is known to be true. It is said, and nobody is stopped.
fn unticked(view: &View<'_>) -> Option<String> {
    let open = view.task.unticked();
    let lines: Vec<String> = open.iter().map(ToString::to_string).collect();
    let verb = if open.len() == 1 { "is" } else { "are" };
    (!open.is_empty()).then(|| {
        let all = view.task.acceptance.len();
        format!(
            "{} of {all} acceptance lines of {} {verb} not ticked: {}",
            open.len(),
            view.id,
            lines.join(", ")
        )
    })
}

/// A task is done only when its dependencies and parts are. A claim in the same request has already checked the dependencies.
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
pub(super) fn has_revoked(drafts: &[Draft]) -> bool {
    drafts.iter().any(|draft| matches!(draft.body, Body::LeaseRevoked { .. }))
}

pub(super) fn end_of(view: &View<'_>, lease: &Lease) -> LeaseEnd {
    lease.end(view.now, view.presents(lease) || lease.is_held_by(&view.caller.actor, &view.caller.instance))
}

/// Kept for an actor for as long as the policy says, from now on.
pub(super) fn kept_for(view: &View<'_>, actor: &ActorName) -> KeptFor {
    let until = view.now.plus(view.policy.keep_ms);
    KeptFor {
        actor: actor.clone(),
        until_wall_ms: until.wall_ms,
        until_tick_ms: until.tick_ms,
        domain: until.domain,
    }
}

/// Whether the caller may use a verb now: the events that must come first, and the lease that the verb ends.
pub(super) fn may<'a>(
    view: &View<'a>,
    verb: Verb,
    force: Option<&Force>,
) -> Result<(Vec<Draft>, Option<&'a Lease>), Refusal> {
    let (mut drafts, standing) = standing_or_forced(view, force)?;
    match standing {
        Standing::Holder { lease, .. } => {
            // A task that is only reserved, or whose lapse was swept, counts as in progress for its holder.
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

/// The same for a task on which nobody else has a live lease (any more).
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
        // Its work has since been reset, and it does not know: it must not finish the task again in passing.
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
    step: transition::Step,
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
        .next(Step::note(view.id, Reader::Reviewer))),
    }
}
