//! `apply`: the fold. One event in, the row changes it means out. Pure, so that a rebuild is a replay.

mod acceptance;
mod fold;
mod project;
mod seat;
#[cfg(test)]
mod tests;
mod work;

pub use fold::TaskFold;
pub use project::{Project, ProjectFold, apply_to_project};
pub use seat::{SeatFold, apply_to_seat};

use std::collections::{BTreeMap, BTreeSet};

use crate::actor::{Actor, ActorName, Tier};
use crate::commit::CommitRow;
use crate::event::{Body, Event, KeptFor, MovedBy};
use crate::gate::{JudgementRow, Verdict};
use crate::ids::{Number, Token, Uid, Version};
use crate::landing::Landing;
use crate::lease::{EndKind, Ended, Holding, Lease, LeaseEnd, Process, Pulse};
use crate::rescue::{Rescue, RescueState};
use crate::scope::{Reservations, Scope, WorktreeId};
use crate::seat::Seat;
use crate::session::UsageRow;
use crate::stretch::{Recorded, Stretch, Worked};
use crate::task::{Kept, State, Task};
use crate::text::{Field, TextKey};
use crate::time::Moment;
use crate::transition::reopened;

/// What an event changes. The store carries it out; nothing else writes rows that the ledger explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowChange {
    PutProject(Project),
    PutActor(Actor),
    SetTier {
        actor: ActorName,
        tier: Tier,
    },
    PutAlias {
        alias: ActorName,
        actor: ActorName,
    },
    /// Numbers at least up to this one are taken.
    NumberTaken(Number),
    /// Seat numbers at least up to this one are taken.
    SeatNumberTaken(Number),
    PutSeat(Box<Seat>),
    PutTask(Box<Task>),
    /// Like `PutTask`, but the task's facts, its texts and whether it is finished did not change: less to write.
    MoveTask(Box<Task>),
    OpenLease(Box<Lease>),
    /// A lease that was granted before, or what it reserves.
    OfLease {
        task: Uid,
        token: Token,
        change: LeaseChange,
    },
    /// Work that the event records, or a correction of it: one row each, which never changes afterwards.
    AddStretches(Vec<Recorded>),
    AddUsage(UsageRow),
    AddCommit(CommitRow),
    AddJudgement(JudgementRow),
    /// Judgements of the task's gates no longer count.
    VoidJudgements {
        task: Uid,
    },
    /// The task also depends on these. Counted on both sides: unmet dependencies, and open dependents.
    AddDeps {
        task: Uid,
        on: BTreeSet<Uid>,
    },
    RemoveDeps {
        task: Uid,
        on: BTreeSet<Uid>,
    },
    /// The task's dependents have one unmet dependency less, or one more.
    Met {
        task: Uid,
        met: bool,
    },
    /// The task's dependencies have one unfinished dependent less, or one more.
    Finished {
        task: Uid,
        finished: bool,
    },
    /// A task has this many more unfinished children.
    CountChildren {
        parent: Uid,
        more: i64,
    },
    /// Replaces all of the task's references in other systems, by system.
    SetRefs {
        task: Uid,
        refs: BTreeMap<String, String>,
    },
    /// Make a text searchable.
    Index(TextKey),
    /// Make a text no longer searchable, if it was.
    Unindex(TextKey),
}

/// What an event changes of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// Its holder came back after a lapse: it continues under its token.
    Revive {
        worked: Worked,
        pulse: Pulse,
        process: Option<Process>,
    },
    /// Its work is done in another worktree.
    Attach {
        worktree_id: Option<WorktreeId>,
        worktree: String,
        branch: Option<String>,
    },
    /// What became of the files that its holder left uncommitted.
    SetRescue(Rescue),
    /// Work was recorded before it ended: it no longer waits for an event.
    RecordWork {
        stretches: Vec<Stretch>,
        waited_ms: i64,
    },
    /// The work that was submitted under it was approved, rejected or otherwise taken out of review.
    EndReview {
        at_ms: i64,
    },
    /// It was only reserved, and has been started.
    Start,
    End {
        worked: Worked,
        ended: Ended,
    },
    /// It also reserves these paths. They count while it has not ended.
    AddScope(Reservations),
    RemoveScope(Scope),
    /// It no longer reserves these files, which it touched in this worktree.
    YieldFiles {
        scope: Scope,
        worktree: WorktreeId,
    },
    /// Files that it touched in this worktree were changed.
    ChangeFiles {
        scope: Scope,
        worktree: Option<WorktreeId>,
    },
}

/// An event that cannot follow the state it meets: the ledger is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misplaced(pub &'static str);

/// The changes of an event of a task's stream. `before` is None before the first.
pub fn apply_to_task(before: Option<&Task>, event: &Event) -> Result<Vec<RowChange>, Misplaced> {
    let uid = event.task.ok_or(Misplaced("an event of the project is in a task's stream"))?;
    let mut changes = Vec::with_capacity(3);
    let mut task = match (&event.body, before) {
        (Body::TaskCreated { number, state, facts, origin, body, deps }, None) => {
            let key = |field| TextKey { stream: uid, version: event.version, field };
            changes.push(RowChange::NumberTaken(*number));
            changes.push(RowChange::Index(key(Field::Title)));
            if *body {
                changes.push(RowChange::Index(key(Field::Body)));
            }
            if !deps.is_empty() {
                changes.push(RowChange::AddDeps { task: uid, on: deps.clone() });
            }
            if !facts.refs.is_empty() {
                changes.push(RowChange::SetRefs { task: uid, refs: facts.refs.clone() });
            }
            Task {
                body_version: body.then_some(event.version),
                origin: origin.clone(),
                ..Task::created(uid, *number, (&event.actor, event.at_ms), *state, facts.clone())
            }
        }
        (Body::TaskCreated { .. }, Some(_)) => return Err(Misplaced("the task was created twice")),
        (_, Some(task)) => task.clone(),
        (_, None) => return Err(Misplaced("the task was not created yet")),
    };
    fold_event(&mut task, event, &mut changes)?;
    if let Some(moved_by) = event.body.moved_by() {
        let said: Vec<Field> = [Field::Note, Field::Reason]
            .into_iter()
            .filter(|field| event.texts.contains_key(field))
            .collect();
        let key = |field: &Field| TextKey { stream: uid, version: event.version, field: *field };
        changes.extend(said.iter().map(key).map(RowChange::Index));
        // Its submitter must learn that it came back, even if nobody said why.
        if !said.is_empty() || moved_by == MovedBy::Rejected {
            task.word_version = Some(event.version);
        }
    }
    work::record(&mut task, event, &mut changes)?;
    if let Some(before) = before.filter(|before| before.state == State::Review && task.state != State::Review)
    {
        let change = LeaseChange::EndReview { at_ms: event.at_ms };
        changes.push(RowChange::OfLease { task: uid, token: before.token, change });
    }
    task.version = event.version;
    task.head = event.hash.clone();
    task.updated_at_ms = event.at_ms;
    keep_times(&mut task, event);
    neighbours(before, &task, &mut changes);
    // The task's row comes first: a store may check that what the other rows refer to exists.
    let is_moved_only = before.is_some_and(|before| {
        before.facts == task.facts
            && before.state.is_finished() == task.state.is_finished()
            && before.is_met() == task.is_met()
            && (before.title_version, before.body_version) == (task.title_version, task.body_version)
            && before.acceptance == task.acceptance
            && before.branch == task.branch
            && before.landing == task.landing
    });
    let task = Box::new(task);
    changes.insert(0, if is_moved_only { RowChange::MoveTask(task) } else { RowChange::PutTask(task) });
    Ok(changes)
}

/// Sets when work began, with the first lease that was more than a reservation, and when the task was done.
fn keep_times(task: &mut Task, event: &Event) {
    match task.state {
        State::InProgress => drop(task.started_at_ms.get_or_insert(event.at_ms)),
        State::Done => drop(task.completed_at_ms.get_or_insert(event.at_ms)),
        _ => {}
    }
    if task.state != State::Done {
        task.completed_at_ms = None;
    }
    if matches!(event.body, Body::TaskReset { .. }) {
        task.started_at_ms = None;
    }
}

/// The changes to counts in the rows of the task's dependencies, dependents and parent.
fn neighbours(before: Option<&Task>, after: &Task, changes: &mut Vec<RowChange>) {
    let was_met = before.is_some_and(Task::is_met);
    if was_met != after.is_met() {
        changes.push(RowChange::Met { task: after.uid, met: after.is_met() });
    }
    let finished = after.state.is_finished();
    if before.is_some_and(|before| before.state.is_finished() != finished) {
        changes.push(RowChange::Finished { task: after.uid, finished });
    }
    // A child counts for its parent while it is unfinished.
    let counted_for = |task: &Task| task.facts.parent.filter(|_| !task.state.is_finished());
    let (old, new) = (before.and_then(counted_for), counted_for(after));
    if old != new {
        changes.extend(old.map(|parent| RowChange::CountChildren { parent, more: -1 }));
        changes.extend(new.map(|parent| RowChange::CountChildren { parent, more: 1 }));
    }
}

fn fold_event(task: &mut Task, event: &Event, changes: &mut Vec<RowChange>) -> Result<(), Misplaced> {
    let key = |version, field| TextKey { stream: task.uid, version, field };
    match &event.body {
        Body::TaskCreated { .. } | Body::RuleOverridden { .. } => {}
        Body::TaskEdited { facts, title, body } => {
            if task.facts.refs != facts.refs {
                changes.push(RowChange::SetRefs { task: task.uid, refs: facts.refs.clone() });
            }
            task.facts = facts.clone();
            if *title {
                changes.push(RowChange::Unindex(key(task.title_version, Field::Title)));
                changes.push(RowChange::Index(key(event.version, Field::Title)));
                task.title_version = event.version;
            }
            if *body {
                changes.extend(task.body_version.map(|old| RowChange::Unindex(key(old, Field::Body))));
                // Without a text the body was cleared.
                let is_there = event.texts.contains_key(&Field::Body);
                changes.extend(is_there.then(|| RowChange::Index(key(event.version, Field::Body))));
                task.body_version = is_there.then_some(event.version);
            }
        }
        Body::NoteAdded { .. } => changes.push(RowChange::Index(key(event.version, Field::Note))),
        Body::AcceptanceAdded {} => {
            changes.push(RowChange::Index(key(event.version, Field::Acceptance)));
            acceptance::add(task, event);
        }
        Body::AcceptanceTicked { line } => acceptance::tick(task, *line, event)?,
        Body::AcceptanceUnticked { line } => acceptance::untick(task, *line)?,
        Body::TextRedacted { version, fields } => {
            changes.extend(fields.iter().map(|field| RowChange::Unindex(key(*version, *field))));
        }
        // The task stays kept for its actor: only a claim, another assignment or time ends that.
        Body::TaskAccepted {} | Body::TaskReopened {} => {
            task.state = reopened(task.dropped_from.take());
            task.landing = Landing::default();
            task.opened_token = task.token;
            task.submitter = None;
        }
        Body::TaskReset { lease } => {
            task.opened_token = task.token;
            task.fenced_token = task.token;
            task.submitter = None;
            task.landing = Landing::default();
            // Ticks and judgements were about work that no longer counts.
            task.acceptance.iter_mut().for_each(|line| line.ticked = None);
            changes.push(RowChange::VoidJudgements { task: task.uid });
            end(task, event, EndKind::Reset, lease.as_ref(), changes)?;
        }
        Body::TaskRetried { attempt } => {
            task.state = State::Open;
            task.opened_token = task.token;
            task.attempts = *attempt;
        }
        Body::DepAdded { on } => changes.push(RowChange::AddDeps { task: task.uid, on: on.clone() }),
        Body::DepRemoved { on } => changes.push(RowChange::RemoveDeps { task: task.uid, on: on.clone() }),
        Body::TaskStarted {} => {
            task.state = State::InProgress;
            changes.push(of_lease(task, event, LeaseChange::Start)?);
        }
        Body::TaskBlocked { lease } => end(task, event, EndKind::Blocked, lease.as_ref(), changes)?,
        Body::TaskUnblocked {} => task.state = State::Open,
        Body::TaskBranched(branch) => task.branch = Some(branch.clone()),
        Body::TaskSubmitted { lease } => {
            task.submitter = Some(event.actor.clone());
            end(task, event, EndKind::Submitted, Some(lease), changes)?;
        }
        Body::TaskApproved { awaits_landing } => {
            task.state = State::Done;
            task.landing.awaited = *awaits_landing;
        }
        Body::TaskRejected { kept_for } => {
            task.state = State::Open;
            task.kept = kept_for.as_ref().map(|kept_for| keep(kept_for, event.version));
        }
        Body::TaskDone { lease, awaits_landing } => {
            task.landing.awaited = *awaits_landing;
            end(task, event, EndKind::Done, Some(lease), changes)?;
        }
        Body::TaskFailed { lease } => end(task, event, EndKind::Failed, lease.as_ref(), changes)?,
        Body::TaskDropped { lease } => {
            task.dropped_from = Some(task.state);
            end(task, event, EndKind::Dropped, lease.as_ref(), changes)?;
        }
        Body::ScopeAdded { scope, areas, touched } => {
            let reservations = Reservations::of(scope, areas, touched.as_ref());
            changes.push(of_lease(task, event, LeaseChange::AddScope(reservations))?);
        }
        Body::ScopeRemoved { scope } => {
            changes.push(of_lease(task, event, LeaseChange::RemoveScope(scope.clone()))?);
        }
        Body::ScopeYielded { scope, worktree } => {
            let change = LeaseChange::YieldFiles { scope: scope.clone(), worktree: worktree.clone() };
            changes.push(of_lease(task, event, change)?);
        }
        Body::ScopeChanged { scope, worktree } => {
            let change = LeaseChange::ChangeFiles { scope: scope.clone(), worktree: worktree.clone() };
            changes.push(of_lease(task, event, change)?);
        }
        Body::LeaseAcquired { grant, scope, areas, touched, own_clock } => {
            let token = token_of(event)?;
            if token <= task.token {
                return Err(Misplaced("a token did not grow"));
            }
            let acquired = Moment::new(event.at_ms, grant.tick_ms, grant.domain.clone());
            task.token = token;
            task.leased = true;
            task.kept = None;
            if !grant.reserve {
                task.state = State::InProgress;
            }
            changes.push(RowChange::OpenLease(Box::new(Lease {
                holds: Holding::Task,
                task: task.uid,
                token,
                actor: event.actor.clone(),
                instance: event.instance.clone(),
                acquired_at_ms: event.at_ms,
                version: event.version,
                worked: Worked::default(),
                pulse: Pulse {
                    work: work::begun(&acquired, own_clock.as_ref(), grant.reserve),
                    last: acquired.clone(),
                    progress: acquired.clone(),
                    renewals: 0,
                    deadline: grant.deadline(&acquired),
                    resting: false,
                },
                grant: grant.clone(),
                ended: None,
                reviewed_at_ms: None,
                rescue: None,
            })));
            if !scope.is_empty() {
                let reservations = Reservations::of(scope, areas, touched.as_ref());
                changes.push(of_lease(task, event, LeaseChange::AddScope(reservations))?);
            }
        }
        Body::LeaseRenewed { tick_ms, domain, renewals, deadline_in_ms, reserve, own_clock, process } => {
            let now = Moment::new(event.at_ms, *tick_ms, domain.clone());
            task.state = if *reserve { State::Open } else { State::InProgress };
            task.leased = true;
            task.kept = None;
            let change = LeaseChange::Revive {
                worked: Worked::of(&event.stretches).waited(event.waited_ms),
                pulse: Pulse {
                    deadline: deadline_in_ms.map(|ms| now.plus(ms)),
                    renewals: *renewals,
                    work: work::begun(&now, own_clock.as_ref(), *reserve),
                    last: now.clone(),
                    progress: now,
                    resting: false,
                },
                process: process.clone(),
            };
            changes.push(of_lease(task, event, change)?);
        }
        Body::LeaseAttached { worktree_id, worktree, branch } => {
            let (worktree_id, worktree, branch) = (worktree_id.clone(), worktree.clone(), branch.clone());
            changes.push(of_lease(task, event, LeaseChange::Attach { worktree_id, worktree, branch })?);
        }
        Body::RescueDue { .. } => changes.push(set_rescue(task, event, RescueState::Due)?),
        Body::RescueKept { .. } => changes.push(set_rescue(task, event, RescueState::Kept)?),
        Body::RescueSettled { outcome, .. } => changes.push(set_rescue(task, event, *outcome)?),
        Body::RescueDropped { .. } => changes.push(set_rescue(task, event, RescueState::Dropped)?),
        Body::LeaseReleased { lease } => end(task, event, EndKind::Released, Some(lease), changes)?,
        Body::LeaseLapsed { lease, .. } => end(task, event, EndKind::Lapsed, Some(lease), changes)?,
        Body::LeaseTakenOver { lease, .. } => end(task, event, EndKind::TakenOver, Some(lease), changes)?,
        Body::LeaseRevoked { lease, .. } => end(task, event, EndKind::Revoked, Some(lease), changes)?,
        Body::SessionRecorded { usage } => changes.push(RowChange::AddUsage(UsageRow {
            task: task.uid,
            token: token_of(event)?,
            version: event.version,
            actor: event.actor.clone(),
            at_ms: event.at_ms,
            usage: usage.clone(),
        })),
        Body::CommitMade { commit } => changes.push(RowChange::AddCommit(CommitRow {
            task: task.uid,
            version: event.version,
            token: token_of(event)?,
            actor: event.actor.clone(),
            at_ms: event.at_ms,
            commit: commit.clone(),
        })),
        Body::GatePassed(judgement) | Body::GateFailed(judgement) => {
            let passed = matches!(event.body, Body::GatePassed(_));
            changes.push(RowChange::AddJudgement(JudgementRow {
                task: task.uid,
                version: event.version,
                verdict: if passed { Verdict::Passed } else { Verdict::Failed },
                actor: event.actor.clone(),
                at_ms: event.at_ms,
                judgement: judgement.clone(),
            }));
        }
        Body::LandingIntended(intent) => task.landing.intent = Some(intent.clone()),
        Body::LandingWithdrawn { .. } => task.landing.intent = None,
        Body::TaskLanded(landed) => {
            task.landing = Landing { awaited: None, intent: None, landed: Some(landed.clone()) };
        }
        Body::LandingFailed { kept_for, .. } => {
            task.landing.intent = None;
            if let Some(kept_for) = kept_for {
                task.kept = Some(keep(kept_for, event.version));
            }
        }
        Body::SessionCorrected { what: _, from, to, less } => {
            let taken_ms = Worked::of(less).active_ms;
            if to.is_none() {
                task.effort_ms = task.effort_ms.saturating_sub(taken_ms);
            }
            let token = token_of(event)?;
            let row = |(place, (actor, start_ms, active_ms)): (u64, (&ActorName, i64, i64))| Recorded {
                task: task.uid,
                token,
                version: event.version,
                place,
                actor: Some(actor.clone()),
                start_ms,
                active_ms,
            };
            let taken = less.iter().map(|piece| (from, piece.start_ms, -piece.active_ms));
            let given =
                to.iter().flat_map(|to| less.iter().map(move |piece| (to, piece.start_ms, piece.active_ms)));
            changes.push(RowChange::AddStretches((0..).zip(taken.chain(given)).map(row).collect()));
        }
        Body::LeaseHandedOff { kept_for, lease } => {
            task.kept = Some(keep(kept_for, event.version));
            end(task, event, EndKind::HandedOff, lease.as_ref(), changes)?;
        }
        Body::ProjectCreated { .. }
        | Body::ActorRegistered { .. }
        | Body::ActorAliased { .. }
        | Body::ActorTierSet { .. }
        | Body::TimesheetSealed { .. }
        | Body::LedgerSealed { .. } => {
            return Err(Misplaced("an event of the project is in a task's stream"));
        }
        Body::SeatCreated { .. } => return Err(Misplaced("a seat begins in a task's stream")),
    }
    Ok(())
}

fn set_rescue(task: &Task, event: &Event, state: RescueState) -> Result<RowChange, Misplaced> {
    of_lease(task, event, LeaseChange::SetRescue(Rescue { state, version: event.version }))
}

/// The change of the lease with the event's token.
fn of_lease(task: &Task, event: &Event, change: LeaseChange) -> Result<RowChange, Misplaced> {
    Ok(RowChange::OfLease { task: task.uid, token: token_of(event)?, change })
}

fn token_of(event: &Event) -> Result<Token, Misplaced> {
    event.token.ok_or(Misplaced("the event names no token"))
}

fn keep(kept_for: &KeptFor, version: Version) -> Kept {
    Kept {
        actor: kept_for.actor.clone(),
        until: Moment::new(kept_for.until_wall_ms, kept_for.until_tick_ms, kept_for.domain.clone()),
        version,
    }
}

/// Moves the task to the state that follows this kind of end, and ends its lease if it has one.
fn end(
    task: &mut Task,
    event: &Event,
    how: EndKind,
    lease: Option<&LeaseEnd>,
    changes: &mut Vec<RowChange>,
) -> Result<(), Misplaced> {
    task.state = how.leads_to();
    let Some(end) = lease else { return Ok(()) };
    task.leased = false;
    let worked = Worked::of(&event.stretches).waited(event.waited_ms);
    let ended = Ended { how, at_ms: event.at_ms, version: event.version, end: end.clone() };
    changes.push(of_lease(task, event, LeaseChange::End { worked, ended })?);
    Ok(())
}
