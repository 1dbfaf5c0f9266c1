//! A task's facts and texts: creation, edits, notes, acceptance lines, redaction.

use std::collections::{BTreeMap, BTreeSet};

use crate::actor::ActorName;
use crate::command::{Edit, Force, NewTask};
use crate::event::{Body, Draft};
use crate::gate::{ChangedBy, Gate, MAX_GATES};
use crate::ids::{Number, Version, is_reference};
use crate::quote::name;
use crate::refusal::{Code, Refusal, Step};
use crate::task::{
    Facts, MAX_ACCEPTANCE, MAX_REF_BYTES, MAX_REFS, MAX_RELATES, MAX_SCOPE, MAX_TAGS, NoteKind, State,
    check_word,
};
use crate::text::Field;

use super::graph::{cycle_refusal, may_link};
use super::standing::{Standing, standing, standing_of_claimant};
use super::{Decision, Named, Redactable, View, check_link, check_version, overridden, people_only};

/// Creates a task: one event for the task, then one per acceptance line. The store assigns the number.
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

/// Adds acceptance lines to a task that has `existing` ones.
fn accept(existing: usize, lines: &[String]) -> Result<Vec<Draft>, Refusal> {
    if existing + lines.len() > MAX_ACCEPTANCE {
        return Err(Refusal::usage(format!("a task has at most {MAX_ACCEPTANCE} acceptance lines")));
    }
    let draft = |line: &String| {
        let line = Field::Acceptance.check(line)?;
        Ok(Draft::new(Body::AcceptanceAdded {}).text(Field::Acceptance, Some(line)))
    };
    lines.iter().map(draft).collect()
}

/// Exit 6: a reference that only one task may have belongs to another.
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
        return Err(people_only(view, why));
    }
    check_taken(view.named)?;
    let acceptance = accept(view.task.acceptance.len(), &edit.acceptance)?;
    let title = edit.title.as_deref().map(|text| Field::Title.check(text)).transpose()?;
    let body = edit.body.as_ref().map(|body| body.as_deref().map(|text| Field::Body.check(text)).transpose());
    let body = body.transpose()?;
    // A text that stays the same is not recorded again, and a missing body is not cleared.
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

/// Whether a gate applied to the task before the edit and no longer does.
fn is_edited_away(gate: &Gate, old: &Facts, new: &Facts) -> bool {
    gate.is_for(old, ChangedBy::Unknown) && !gate.is_for(new, ChangedBy::Unknown)
}

/// The caller's standing for changes that do not affect the holder: forcing past the fence revokes nothing.
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

/// Puts the token of the caller's current lease on an event that does not end the lease.
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
            "only finishing a task writes a resolution: note progress, a finding or a decision",
        ));
    }
    let noted = own_token(&standing, Draft::new(Body::NoteAdded { kind, link }));
    drafts.push(noted.text(Field::Note, Some(text)));
    Ok(Decision::of(drafts))
}

/// Ticks or unticks an acceptance line, by the rules of an edit. A line that is already ticked keeps its first tick.
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
        let message = format!("{author} wrote that text: only its author or a person may erase it");
        return Err(people_only(view, message));
    }
    let gone: Vec<Field> =
        kept.iter().copied().filter(|field| fields.is_empty() || fields.contains(field)).collect();
    if gone.is_empty() {
        let what = if fields.is_empty() { "text to erase" } else { "such text" };
        return Err(Refusal::new(
            Code::Nothing,
            format!("event {version} of {} has no {what}, or it was erased before", view.id),
        )
        .task(view.id)
        .next(Step::log(view.id)));
    }
    let mut elsewhere: BTreeMap<Version, BTreeSet<Field>> = BTreeMap::new();
    for copy in copies.iter().filter(|copy| gone.contains(&copy.of) && copy.version != version) {
        // A title or body that an undo restored still belongs to its author, whoever undid the change. Anything else that others
        // wrote is theirs, whatever its words.
        let is_restored = copy.version > version
            && copy.field == copy.of
            && matches!(copy.field, Field::Title | Field::Body);
        if is_own(&copy.author) || is_restored {
            elsewhere.entry(copy.version).or_default().insert(copy.field);
        }
    }
    let versions: Vec<String> = elsewhere.keys().map(ToString::to_string).collect();
    // The reason is stored with the last event only, so the requested redaction comes last.
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
