//! Undo: which acts revert a caller's own last change.
//!
//! Nothing is ever removed from the ledger. An undo adds new events, through the same decisions as if the caller had requested
//! the reverse acts one by one. Where the table has no way back, undo is refused with the reason. Only the last change to a task
//! can be undone: what others did since, they did knowing of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::actor::Caller;
use crate::command::{Act, Edit, Schedule, Terms};
use crate::constraint::Constraint;
use crate::event::{Body, Event};
use crate::ids::{TaskRef, Uid};
use crate::refusal::{Code, Refusal, Step};
use crate::task::{Facts, State, Task};
use crate::transition::Verb;

/// What one request did to a task, and the task before it.
#[derive(Clone, Debug)]
pub struct LastChange<'a> {
    /// The task's id, as people say it.
    pub id: &'a str,
    /// The events of the request, which are the task's last.
    pub events: &'a [Event],
    /// None: it created the task.
    pub before: Option<&'a Task>,
    pub now: &'a Task,
    /// Title and body as they were before. None: there was none, or it was erased since.
    pub title: Option<String>,
    pub body: Option<String>,
    /// The terms for claiming a lease that the change ended again.
    pub terms: Terms,
}

/// The acts that revert the caller's last change, in order, and in words what they revert.
pub fn undo(change: &LastChange<'_>, caller: &Caller) -> Result<(Vec<Act>, &'static str), Refusal> {
    let Some(last) = change.events.last() else { return Err(refused(change, "nothing has happened to it")) };
    let is_own = last.actor == caller.actor && (caller.actor.is_person() || last.instance == caller.instance);
    if !is_own {
        let message =
            format!("the last change to {} is {}'s: only your own can be undone", change.id, last.actor);
        return Err(Refusal::new(Code::NotAllowed, message).task(change.id).next(Step::log(change.id)));
    }
    let has = |test: fn(&Body) -> bool| change.events.iter().any(|event| test(&event.body));
    if has(|body| matches!(body, Body::RuleOverridden { .. } | Body::LeaseRevoked { .. })) {
        return Err(refused(change, "it was an override, which stays on record as it is"));
    }
    if has(|body| matches!(body, Body::LeaseTakenOver { .. } | Body::LeaseLapsed { .. })) {
        return Err(refused(change, "it took over another holder's lease"));
    }
    // An undo that gave the caller its lease again ends with that claim; what it took back comes before.
    let returned = |event: &&Event| {
        matches!(event.body, Body::TaskReopened {} | Body::TaskUnblocked {} | Body::TaskRejected { .. })
    };
    let last = match last.body {
        Body::LeaseAcquired { .. } => change.events.iter().rfind(returned).unwrap_or(last),
        _ => last,
    };
    let moved = |verb| Act::moved(verb, None);
    let state = change.before.map(|before| before.state);
    let mut acts = match (&last.body, state) {
        (Body::TaskCreated { .. }, _) => vec![moved(Verb::Drop)],
        (Body::TaskEdited { title, body, .. }, _) => vec![Act::Edit(edited_back(change, *title, *body)?)],
        (Body::TaskUnblocked {}, _) => vec![moved(Verb::Block)],
        (Body::TaskReopened {}, Some(State::Dropped)) => vec![moved(Verb::Drop)],
        (Body::TaskBlocked { .. }, _) => vec![moved(Verb::Unblock)],
        (Body::TaskSubmitted { .. }, _) => vec![moved(Verb::Reject)],
        // Its own submission, taken back.
        (Body::TaskRejected { kept_for: None }, _) => vec![moved(Verb::Submit)],
        (Body::TaskDone { .. }, _) => vec![moved(Verb::Reopen)],
        (
            Body::TaskDropped { .. },
            Some(State::Open | State::InProgress | State::Proposed | State::Failed),
        ) => {
            vec![moved(Verb::Reopen)]
        }
        (Body::TaskDropped { .. }, Some(State::Blocked)) => vec![moved(Verb::Reopen), moved(Verb::Block)],
        // The claim that follows is all.
        (Body::LeaseReleased { .. }, _) => Vec::new(),
        (Body::LeaseAcquired { .. }, _) => vec![moved(Verb::Release)],
        (Body::DepAdded { on }, _) => vec![Act::RemoveDeps { on: named(on) }],
        (Body::DepRemoved { on }, _) => vec![Act::AddDeps { on: named(on) }],
        (Body::ScopeAdded { scope, .. }, _) => vec![Act::RemoveScope { scope: scope.clone() }],
        (Body::ScopeRemoved { scope }, _) => {
            vec![Act::AddScope { scope: scope.clone(), areas: Default::default() }]
        }
        (Body::AcceptanceTicked { line }, _) => vec![Act::Tick { line: *line, undo: true }],
        (Body::AcceptanceUnticked { line }, _) => vec![Act::Tick { line: *line, undo: false }],
        (body @ Body::TaskReopened {}, _) => {
            let refusal = refused(change, no_way_back(body));
            return Err(refusal.next(Step::verb(Verb::Done, change.id)));
        }
        (body, _) => return Err(refused(change, no_way_back(body))),
    };
    let ends_a_lease = matches!(
        last.body,
        Body::TaskBlocked { .. }
            | Body::TaskSubmitted { .. }
            | Body::TaskDone { .. }
            | Body::TaskDropped { .. }
            | Body::LeaseReleased { .. }
    );
    // A caller that held the task before holds it again; a lease that was claimed only in passing is not restored.
    let held_before = change.before.is_some_and(|before| before.leased);
    if ends_a_lease && held_before {
        acts.push(Act::Claim(change.terms.clone()));
    }
    Ok((acts, what_was_done(&last.body)))
}

fn what_was_done(body: &Body) -> &'static str {
    match body {
        Body::TaskCreated { .. } => "adding it",
        Body::TaskEdited { .. } => "editing it",
        Body::TaskBlocked { .. } => "blocking it",
        Body::TaskUnblocked {} => "unblocking it",
        Body::TaskSubmitted { .. } => "submitting it",
        Body::TaskRejected { .. } => "taking back the submission",
        Body::TaskDone { .. } => "finishing it",
        Body::TaskDropped { .. } => "dropping it",
        Body::TaskReopened {} => "reopening it",
        Body::LeaseAcquired { .. } => "claiming it",
        Body::LeaseReleased { .. } => "releasing it",
        Body::DepAdded { .. } => "adding a dependency",
        Body::DepRemoved { .. } => "removing a dependency",
        Body::ScopeAdded { .. } => "reserving paths",
        Body::ScopeRemoved { .. } => "releasing paths",
        Body::AcceptanceTicked { .. } => "ticking a line",
        Body::AcceptanceUnticked { .. } => "unticking a line",
        _ => "the last change",
    }
}

fn named<'a>(uids: impl IntoIterator<Item = &'a Uid>) -> Vec<TaskRef> {
    uids.into_iter().map(|uid| TaskRef::from(*uid)).collect()
}

fn no_way_back(body: &Body) -> &'static str {
    match body {
        Body::NoteAdded { .. } => "a note stays, but its text can be erased",
        Body::SessionRecorded { .. } => "what was used stays used",
        Body::CommitMade { .. } => "a commit is reverted with git",
        Body::GatePassed(_) | Body::GateFailed(_) => "a gate is judged again, and the last word counts",
        Body::TaskLanded(landed) if landed.by().is_none() => {
            "there was nothing to land; the task can be reopened"
        }
        Body::TaskLanded(_) => "it has landed, and only git can revert that",
        Body::SessionCorrected { .. } => "a correction only takes away",
        Body::TextRedacted { .. } => "what was erased cannot be brought back",
        Body::TaskFailed { .. } => "a failed task is tried again, and that is counted",
        Body::TaskApproved { .. } => "an approval stands; the task can be reopened",
        Body::TaskRejected { .. } => "a rejected task is submitted again by whoever works on it",
        Body::TaskAccepted {} => "an accepted task cannot become a proposal again; drop it instead",
        Body::TaskReopened {} => "to finish it again, say what was done",
        Body::TaskDropped { .. } => "reopening would make it open, which it was not before",
        Body::LeaseHandedOff { .. } => "it is kept for another actor now",
        Body::TaskReset { .. } | Body::TaskRetried { .. } => "its state before that was not kept",
        _ => "there is no way back from it",
    }
}

fn refused(change: &LastChange<'_>, why: &str) -> Refusal {
    let message = format!("the last change to {} cannot be undone: {why}", change.id);
    Refusal::new(Code::NotAllowed, message).task(change.id).next(Step::log(change.id))
}

/// The edit that restores a task's fields and texts.
fn edited_back(change: &LastChange<'_>, title: bool, body: bool) -> Result<Edit, Refusal> {
    let Some(before) = change.before else { return Err(refused(change, "nothing was there before")) };
    let erased = || refused(change, "the words that it replaced were erased since");
    let mut edit = Edit::between(&change.now.facts, &before.facts);
    if title {
        edit.title = Some(change.title.clone().ok_or_else(erased)?);
    }
    if body {
        if before.body_version.is_some() && change.body.is_none() {
            return Err(erased());
        }
        edit.body = Some(change.body.clone());
    }
    Ok(edit)
}

impl Edit {
    /// The edit that turns the first fields into the second.
    fn between(from: &Facts, to: &Facts) -> Edit {
        fn changed<T: Clone + PartialEq>(from: &T, to: &T) -> Option<T> {
            (from != to).then(|| to.clone())
        }
        let only = |of: &Facts, not_of: &Facts| of.tags.difference(&not_of.tags).cloned().collect();
        let related = |of: &Facts, not_of: &Facts| named(of.relates.difference(&not_of.relates));
        let globs = |of: &Facts, not_of: &Facts| {
            let missing = |glob: &&crate::scope::Glob| !not_of.scope.globs().contains(glob);
            of.scope.globs().iter().filter(missing).cloned().collect()
        };
        let kinds = |of: &Facts| of.constraints.iter().map(Constraint::kind).collect::<BTreeSet<_>>();
        let mut refs: BTreeMap<String, Option<String>> = from
            .refs
            .keys()
            .filter(|system| !to.refs.contains_key(*system))
            .map(|system| (system.clone(), None))
            .collect();
        let new = to.refs.iter().filter(|(system, id)| from.refs.get(*system) != Some(*id));
        refs.extend(new.map(|(system, id)| (system.clone(), Some(id.clone()))));
        let add_scope = globs(to, from);
        let mut add_scope_areas = to.scope_areas.clone();
        add_scope_areas.retain(&add_scope);
        Edit {
            kind: changed(&from.kind, &to.kind),
            priority: changed(&from.priority, &to.priority),
            required_tier: changed(&from.required_tier, &to.required_tier),
            area: changed(&from.area, &to.area),
            iteration: changed(&from.iteration, &to.iteration),
            owner: changed(&from.owner, &to.owner),
            add_tags: only(to, from),
            remove_tags: only(from, to),
            add_gates: to.gates.difference(&from.gates).cloned().collect(),
            remove_gates: from.gates.difference(&to.gates).cloned().collect(),
            refs,
            link: changed(&from.link, &to.link),
            parent: changed(&from.parent, &to.parent).map(|parent| parent.map(TaskRef::from)),
            relate: related(to, from),
            unrelate: related(from, to),
            add_scope,
            add_scope_areas,
            remove_scope: globs(from, to),
            mode: changed(&from.mode, &to.mode),
            constraints: to
                .constraints
                .iter()
                .filter(|one| !from.constraints.iter().any(|other| other == *one))
                .collect(),
            lift: kinds(from).difference(&kinds(to)).copied().collect(),
            not_before: changed(&from.not_before_ms, &to.not_before_ms)
                .map(|at_ms| at_ms.map(|ms| Schedule::At { ms })),
            max_attempts: changed(&from.max_attempts, &to.max_attempts),
            ..Edit::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Named;
    use super::super::tasks::edit_facts;
    use super::*;
    use crate::lease::Mode;
    use crate::task::{Priority, TaskType};

    fn uid(n: u128) -> Uid {
        Uid(uuid::Uuid::from_u128(n))
    }

    fn facts() -> impl Strategy<Value = Facts> {
        let word = || proptest::option::of("[a-c]");
        let words = || proptest::collection::btree_set("[a-d]", 0..4);
        let uids = || proptest::collection::btree_set(0..4u128, 0..3);
        (
            (word(), word(), words(), proptest::collection::btree_map("[a-c]", "[xy]", 0..3)),
            (
                proptest::option::of(1..3u128),
                uids(),
                words(),
                proptest::option::of(0..3i64),
                any::<[bool; 4]>(),
            ),
        )
            .prop_map(|((area, iteration, tags, refs), (parent, relates, globs, at, flags))| Facts {
                kind: if flags[0] { TaskType::Bug } else { TaskType::Task },
                priority: if flags[1] { Priority::P0 } else { Priority::P2 },
                area,
                iteration,
                owner: flags[2].then(|| "human:ann".parse().unwrap()),
                tags,
                refs,
                link: flags[0].then(|| "https://x/1".to_owned()),
                parent: parent.map(uid),
                relates: relates.into_iter().map(uid).collect(),
                scope: globs.iter().map(|glob| glob.parse().unwrap()).collect(),
                constraints: flags[1]
                    .then_some(Constraint::ReadOnly)
                    .into_iter()
                    .chain(at.map(|at| Constraint::MaxFiles(at.unsigned_abs() + 1)))
                    .collect(),
                mode: if flags[3] { Mode::Shared } else { Mode::Exclusive },
                not_before_ms: at,
                max_attempts: at.map(|at| at.unsigned_abs()),
                ..Facts::default()
            })
    }

    /// Resolves the tasks that an edit names, as the engine does.
    fn resolved(edit: &Edit) -> Named {
        let uid_of = |reference: &TaskRef| match reference {
            TaskRef::Part(part) => Uid(uuid::Uuid::parse_str(part).unwrap()),
            other => panic!("{other:?}"),
        };
        let all = |references: &[TaskRef]| references.iter().map(uid_of).collect::<BTreeSet<_>>();
        Named {
            parent: edit.parent.clone().flatten().as_ref().map(uid_of),
            relate: all(&edit.relate),
            unrelate: all(&edit.unrelate),
            ..Named::default()
        }
    }

    proptest! {
        #[test]
        fn the_edit_between_two_leads_from_one_to_the_other(from in facts(), to in facts()) {
            let edit = Edit::between(&from, &to);
            prop_assert_eq!(edit_facts(&from, &edit, &resolved(&edit), 0).unwrap(), to);
            prop_assert_eq!(Edit::between(&from, &from), Edit::default());
        }
    }
}
