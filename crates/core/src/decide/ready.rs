//! What keeps a caller from claiming a task? `ready` is the answer "nothing"; it is not a state.

use std::cmp::Reverse;

use crate::actor::{Actor, ActorName};
use crate::command::Terms;
use crate::ids::Number;
use crate::lease::{Lease, Liveness};
use crate::quote::name;
use crate::refusal::{Code, Reader, Refusal, Step};
use crate::task::{Priority, State, Task, words};
use crate::time::{Moment, SECOND_MS, Span};
use crate::transition::Verb;

use super::View;
use super::claim::kept_refusal;
use super::graph::is_out_of_attempts;
use super::standing::{Standing, held_refusal, standing_of_claimant};

words! {
    /// The kind of obstacle.
    ObstacleKind("obstacle") {
        State = "state",
        Held = "held",
        Kept = "kept",
        Dependency = "dependency",
        Child = "child",
        Schedule = "schedule",
        Tier = "tier",
        Scope = "scope",
        Circle = "circle",
    }
}

/// A task that another waits for, as a refusal names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    pub id: String,
    pub state: State,
    /// [`ObstacleKind::Dependency`] or [`ObstacleKind::Child`].
    pub kind: ObstacleKind,
    /// Its holder, if its lease has not ended.
    pub holder: Option<String>,
    /// Whether it has to wait itself.
    pub waits: bool,
    /// Whether it failed too often to be retried.
    pub is_used_up: bool,
}

/// One obstacle, and what would clear it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    pub kind: ObstacleKind,
    pub message: String,
    /// The other task that causes it.
    pub task: Option<String>,
    pub holder: Option<String>,
    pub next: Option<Step>,
}

impl Upstream {
    /// Its holder, as the end of a sentence.
    fn held_by(&self) -> String {
        self.holder.as_ref().map(|holder| format!(", held by {holder}")).unwrap_or_default()
    }
}

impl Obstacle {
    fn new(kind: ObstacleKind, message: impl Into<String>) -> Obstacle {
        Obstacle { kind, message: message.into(), task: None, holder: None, next: None }
    }

    fn next(mut self, step: Step) -> Obstacle {
        self.next = Some(step);
        self
    }
}

/// Whether `claim` would be granted to this actor, as far as the task's own row shows: everything except the holder and
/// scopes.
pub fn is_ready_for(task: &Task, actor: Option<&Actor>, now: &Moment) -> bool {
    obstacle_in_row(task, actor, now).is_none() && !task.facts.ad_hoc
}

/// The first obstacle to a claim that the task's own row shows, apart from its state.
pub fn obstacle_in_row(task: &Task, actor: Option<&Actor>, now: &Moment) -> Option<ObstacleKind> {
    let kept = task
        .kept
        .as_ref()
        .is_some_and(|kept| actor.is_none_or(|actor| kept.actor != actor.name) && !kept.until.has_come(now));
    let later = task.facts.not_before_ms.is_some_and(|at_ms| at_ms > now.wall_ms);
    let above = actor.is_some_and(|actor| actor.tier < task.facts.required_tier);
    let obstacles = [
        (kept, ObstacleKind::Kept),
        (task.counts.unmet > 0, ObstacleKind::Dependency),
        (task.counts.open_children > 0, ObstacleKind::Child),
        (later, ObstacleKind::Schedule),
        (above, ObstacleKind::Tier),
    ];
    obstacles.into_iter().find(|(is_there, _)| *is_there).map(|(_, kind)| kind)
}

/// Whether a task is kept for an actor, or was until the time for that ran out. Such a task is the actor's own work, returned.
pub fn is_kept_for(task: &Task, actor: Option<&ActorName>) -> bool {
    matches!((&task.kept, actor), (Some(kept), Some(actor)) if kept.actor == *actor)
}

/// The order in which tasks are offered to a caller, the least first: by priority; then tasks that are kept for the caller;
/// then by the number of unfinished tasks that depend on them; then by age.
pub fn rank(task: &Task, caller: Option<&ActorName>) -> (Priority, Reverse<bool>, Reverse<u64>, Number) {
    let kept = Reverse(is_kept_for(task, caller));
    (task.facts.priority, kept, Reverse(task.counts.open_dependents), task.number)
}

/// The next time at which the clock alone clears an obstacle to a claim, as far as the task's own row shows: the task is no
/// longer kept, or its schedule is due.
pub fn opens_at(task: &Task, now: &Moment) -> Option<Moment> {
    let reserved = task.kept.as_ref().map(|kept| kept.until.clone());
    let due = task.facts.not_before_ms.map(|at_ms| now.plus(at_ms.saturating_sub(now.wall_ms)));
    let times = reserved.into_iter().chain(due).filter(|at| !at.has_come(now));
    times.reduce(|first, at| first.earlier(at, now))
}

/// Exit 6: a dependency is not met.
pub(super) fn unmet_refusal(view: &View<'_>) -> Option<Refusal> {
    let count = view.task.counts.unmet;
    (count > 0).then(|| waiting(view, ObstacleKind::Dependency, count, "depends on", "is not done"))
}

/// Exit 6: a part of it is not finished.
pub(super) fn children_refusal(view: &View<'_>) -> Option<Refusal> {
    let count = view.task.counts.open_children;
    (count > 0).then(|| waiting(view, ObstacleKind::Child, count, "has the part", "is not finished"))
}

fn waiting(view: &View<'_>, kind: ObstacleKind, count: u64, how: &str, what: &str) -> Refusal {
    let named: Vec<&Upstream> = view.waits_for.iter().filter(|upstream| upstream.kind == kind).collect();
    let first = named.first().map_or("another task".to_owned(), |first| {
        format!("{} ({}{})", first.id, first.state.spoken(), first.held_by())
    });
    // A finished dependency that is still unmet has to land.
    let what =
        if named.first().is_some_and(|first| first.state == State::Done) { "has not landed" } else { what };
    let more = match count {
        0 | 1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let mut refusal =
        Refusal::new(Code::Unmet, format!("{} {how} {first}, which {what}{more}", view.id)).task(view.id);
    if let Some(first) = named.first() {
        refusal = refusal.next(match first.state {
            State::Done => Step::Land(first.id.clone()),
            _ => Step::why(&first.id),
        });
    }
    refusal.next(Step::why(view.id)).next(Step::TakeAnother)
}

/// Exit 6: it is scheduled for later.
pub(super) fn schedule_refusal(view: &View<'_>) -> Option<Refusal> {
    let at_ms = view.task.facts.not_before_ms.filter(|at_ms| *at_ms > view.now.wall_ms)?;
    let left = Span::from_ms(at_ms - view.now.wall_ms);
    let message = format!("{} is scheduled for later: it can be claimed in {left}", view.id);
    let mut refusal = Refusal::new(Code::NotYet, message).task(view.id).next(Step::TakeAnother);
    refusal.expires_in_s = Some((at_ms - view.now.wall_ms) / SECOND_MS);
    Some(refusal)
}

/// Everything that keeps the caller from claiming the task now, and what would clear each. Empty: it is ready.
pub fn obstacles(view: &View<'_>) -> Vec<Obstacle> {
    let (id, task) = (view.id, view.task);
    let mut found = Vec::new();
    let of = |kind, refusal: Refusal| Obstacle {
        next: refusal.next.first().cloned(),
        ..Obstacle::new(kind, refusal.message)
    };
    match standing_of_claimant(view) {
        Standing::Held(lease) => found.push(Obstacle {
            holder: Some(lease.actor.to_string()),
            ..of(ObstacleKind::Held, held_refusal(view, lease))
        }),
        Standing::Holder { lease, late: false } => {
            let message = format!("you hold it, with token {}", lease.token);
            found.push(Obstacle {
                holder: Some(lease.actor.to_string()),
                next: view.waits_for.is_empty().then(|| Step::verb(Verb::Done, id)),
                ..Obstacle::new(ObstacleKind::Held, message)
            });
        }
        Standing::Holder { .. } | Standing::Free { .. } | Standing::RevokedByForce => {
            found.extend(
                state_obstacle(view).or_else(|| persons_obstacle(view)).or_else(|| ad_hoc_obstacle(view)),
            );
        }
    }
    found.extend(kept_refusal(view).map(|refusal| of(ObstacleKind::Kept, refusal)));
    found.extend(view.waits_for.iter().map(upstream_obstacle));
    found.extend(schedule_refusal(view).map(|refusal| of(ObstacleKind::Schedule, refusal)));
    let (wanted, mode) = super::scope::reservations_of(task, &Terms::default());
    if let Some(refusal) = super::scope::collision(view, &wanted, mode) {
        let conflict = refusal.conflict.clone();
        found.push(Obstacle {
            task: conflict.map(|conflict| conflict.task),
            holder: refusal.holder.as_ref().map(|holder| holder.actor.clone()),
            next: refusal.next.get(1).cloned(),
            ..Obstacle::new(ObstacleKind::Scope, refusal.message)
        });
    }
    let required = task.facts.required_tier;
    if view.actor.tier < required {
        let message = format!("it needs tier {required}; {} has tier {}", view.actor.name, view.actor.tier);
        let obstacle = Obstacle::new(ObstacleKind::Tier, message);
        let may_decide = view.caller.actor.is_person();
        found.push(if may_decide { obstacle } else { obstacle.next(Step::note(id, Reader::Person)) });
    }
    found
}

fn state_obstacle(view: &View<'_>) -> Option<Obstacle> {
    let (id, state, landing) = (view.id, view.task.state, &view.task.landing);
    let landed = landing.landed.as_ref().filter(|_| state == State::Done);
    let message = match landed.and_then(|landed| Some((&landed.target, landed.by()?))) {
        Some((target, commit)) => format!("it is done, and landed in {} as {}", name(target), commit.short()),
        _ => format!("it {}", state.predicate()),
    };
    let obstacle = Obstacle::new(ObstacleKind::State, message);
    let next = match state {
        // A lapsed lease does not hinder: a claim takes it over.
        State::Open | State::InProgress => return None,
        State::Proposed => Step::verb(Verb::Accept, id),
        State::Blocked => Step::show(id),
        State::Review if view.task.submitter.as_ref() == Some(&view.caller.actor) => {
            Step::note(id, Reader::Reviewer)
        }
        State::Review => Step::verb(Verb::Approve, id),
        State::Failed if is_out_of_attempts(view) => Step::note(id, Reader::Person),
        State::Failed => Step::verb(Verb::Retry, id),
        State::Done if landing.awaited.is_some() => Step::Land(id.to_owned()),
        State::Done => return Some(obstacle),
        State::Dropped => Step::verb(Verb::Reopen, id),
    };
    Some(obstacle.next(next))
}

/// A person's task is never handed out, not even when its process has died: taking it over must be deliberate.
fn persons_obstacle(view: &View<'_>) -> Option<Obstacle> {
    let lease = view.lease.filter(|lease| lease.ended.is_none() && view.is_usable(lease))?;
    if can_be_taken_over(lease, view.liveness(lease)) {
        return None;
    }
    let next = if lease.actor == view.caller.actor {
        Step::verb(Verb::Claim, view.id)
    } else {
        Step::verb(Verb::Takeover, view.id)
    };
    let message =
        format!("{} held it until the lease lapsed: a person's task is never handed out", lease.actor);
    Some(Obstacle {
        holder: Some(lease.actor.to_string()),
        ..Obstacle::new(ObstacleKind::Held, message).next(next)
    })
}

/// Ad-hoc work needs somebody to look at it; it is not handed to the next caller that asks for work.
fn ad_hoc_obstacle(view: &View<'_>) -> Option<Obstacle> {
    view.task.facts.ad_hoc.then(|| {
        let message = "it was opened for edits made without a task: such work is never handed out";
        Obstacle::new(ObstacleKind::State, message).next(Step::show(view.id))
    })
}

fn upstream_obstacle(upstream: &Upstream) -> Obstacle {
    let Upstream { id, state, kind, holder, waits, is_used_up } = upstream;
    let held = upstream.held_by();
    let message = match kind {
        _ if *state == State::Done => format!("it depends on {id}, which is done and has not landed"),
        ObstacleKind::Child => format!("its part {id} {}{held}", state.predicate()),
        _ => format!("it depends on {id}, which {}{held}", state.predicate()),
    };
    let next = match (kind, state) {
        (_, State::Done) => Step::Land(id.clone()),
        (_, State::InProgress | State::Review | State::Blocked | State::Proposed) => Step::why(id),
        (_, State::Failed) if *is_used_up => Step::why(id),
        (_, State::Failed) => Step::verb(Verb::Retry, id),
        // A dropped task will never be done: reopen it, or remove the dependency.
        (_, State::Dropped) => Step::verb(Verb::Reopen, id),
        _ if *waits || holder.is_some() => Step::why(id),
        _ => Step::verb(Verb::Claim, id),
    };
    Obstacle { task: Some(id.clone()), holder: holder.clone(), ..Obstacle::new(*kind, message).next(next) }
}

/// Whether a lease that has not ended is lapsed and may be handed out by `--next`: never a person's.
pub fn can_be_taken_over(lease: &Lease, liveness: Liveness) -> bool {
    liveness != Liveness::Live && !lease.actor.is_person()
}
