//! `ready` is a question, not a state: what stands between a task and whoever would claim it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::ids::shortened;
use crate::lease::{Lease, Liveness};
use crate::refusal::{Code, Refusal};
use crate::task::{State, Task, words};
use crate::time::{Moment, SECOND_MS, Span, rfc3339};

use super::View;
use super::claim::kept_refusal;
use super::standing::{Standing, held_refusal, standing_of_claimant};

words! {
    /// What kind of thing stands in the way.
    ObstacleKind("obstacle") {
        State = "state",
        Held = "held",
        Kept = "kept",
        Dependency = "dependency",
        Child = "child",
        Schedule = "schedule",
        Tier = "tier",
        Scope = "scope",
    }
}

/// A task that another waits for, as a refusal names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    pub id: String,
    pub state: State,
    /// [`ObstacleKind::Dependency`] or [`ObstacleKind::Child`].
    pub kind: ObstacleKind,
    /// Who holds it, as far as a lease has not ended.
    pub holder: Option<String>,
    /// Whether it has to wait itself.
    pub waits: bool,
}

/// One thing in the way, and what would clear it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    pub kind: ObstacleKind,
    pub message: String,
    /// The other task that is to blame.
    pub task: Option<String>,
    pub holder: Option<String>,
    pub next: Option<String>,
}

impl Obstacle {
    fn new(kind: ObstacleKind, message: impl Into<String>) -> Obstacle {
        Obstacle { kind, message: message.into(), task: None, holder: None, next: None }
    }

    fn next(mut self, step: impl Into<String>) -> Obstacle {
        self.next = Some(step.into());
        self
    }
}

/// Whether `claim` would be granted to this actor, as far as the task's own row can tell: all but who holds it, and
/// scopes.
pub fn is_ready_for(task: &Task, actor: Option<&Actor>, now: &Moment) -> bool {
    let kept = task
        .kept
        .as_ref()
        .is_some_and(|kept| actor.is_none_or(|actor| kept.actor != actor.name) && !kept.until.has_come(now));
    let waits = task.counts.unmet > 0 || task.counts.open_children > 0;
    let later = task.facts.not_before_ms.is_some_and(|at_ms| at_ms > now.wall_ms);
    let above = actor.is_some_and(|actor| actor.tier < task.facts.required_tier);
    !kept && !waits && !later && !above && !task.facts.ad_hoc
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
        let holder = first.holder.as_ref().map(|holder| format!(", held by {holder}")).unwrap_or_default();
        format!("{} ({}{holder})", first.id, first.state)
    });
    let more = match count {
        0 | 1 => String::new(),
        2 => ", nor is another".to_owned(),
        count => format!(", nor are {} others", count - 1),
    };
    let mut refusal =
        Refusal::new(Code::Unmet, format!("{} {how} {first}, which {what}{more}", view.id)).task(view.id);
    if let Some(first) = named.first() {
        refusal = refusal.next(format!("onus why {}   # what would have to happen first", first.id));
    }
    refusal.next(format!("onus why {}", view.id)).next("onus ready   # take another task")
}

/// Exit 6: it is scheduled for later.
pub(super) fn schedule_refusal(view: &View<'_>) -> Option<Refusal> {
    let at_ms = view.task.facts.not_before_ms.filter(|at_ms| *at_ms > view.now.wall_ms)?;
    let left = Span::from_ms(at_ms - view.now.wall_ms);
    let mut refusal =
        Refusal::new(Code::NotYet, format!("{} is scheduled for {}, in {left}", view.id, rfc3339(at_ms)))
            .task(view.id)
            .next("onus ready   # take another task");
    refusal.expires_in_s = Some((at_ms - view.now.wall_ms) / SECOND_MS);
    Some(refusal)
}

/// Everything that keeps the caller from claiming the task now, and what would clear each; empty: it is ready.
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
                ..Obstacle::new(ObstacleKind::Held, message).next(format!("onus done {id} -m '…'"))
            });
        }
        Standing::Holder { .. } | Standing::Free { .. } | Standing::Freed => {
            found.extend(
                state_obstacle(view).or_else(|| persons_obstacle(view)).or_else(|| ad_hoc_obstacle(view)),
            );
        }
    }
    found.extend(kept_refusal(view).map(|refusal| of(ObstacleKind::Kept, refusal)));
    found.extend(view.waits_for.iter().map(upstream_obstacle));
    found.extend(schedule_refusal(view).map(|refusal| of(ObstacleKind::Schedule, refusal)));
    if let Some(refusal) = super::scope::collision(view, &task.facts.scope, task.facts.mode) {
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
        found.push(
            Obstacle::new(ObstacleKind::Tier, message)
                .next(format!("onus note {id} '…'   # and ask a person of tier {required}")),
        );
    }
    found
}

fn state_obstacle(view: &View<'_>) -> Option<Obstacle> {
    let (id, state) = (view.id, view.task.state);
    let next = match state {
        // A lapsed lease is no obstacle: claiming takes it over.
        State::Open | State::InProgress => return None,
        State::Proposed => format!("onus accept {id}"),
        State::Blocked => format!("onus show {id}   # why; then onus unblock {id}"),
        State::Review => {
            format!("onus approve {id}   # or onus reject {id}, by somebody who did not work on it")
        }
        State::Failed => format!("onus retry {id}"),
        State::Done | State::Dropped => format!("onus show {id}   # how it ended"),
    };
    Some(Obstacle::new(ObstacleKind::State, format!("it is {state}")).next(next))
}

/// What a person holds is never handed out, not even when its process died: somebody has to mean it.
fn persons_obstacle(view: &View<'_>) -> Option<Obstacle> {
    let lease = view.lease.filter(|lease| lease.ended.is_none() && view.is_usable(lease))?;
    if can_be_taken_over(lease, view.liveness(lease)) {
        return None;
    }
    let next = if lease.actor == view.caller.actor {
        format!("onus claim {}", view.id)
    } else {
        format!("onus takeover {} --reason '…'   # if {} does not go on with it", view.id, lease.actor)
    };
    let message =
        format!("it was {}'s until its lease lapsed: a person's task is never handed out", lease.actor);
    Some(Obstacle {
        holder: Some(lease.actor.to_string()),
        ..Obstacle::new(ObstacleKind::Held, message).next(next)
    })
}

/// What nobody planned is for whoever looks at it, not for the next that asks for work.
fn ad_hoc_obstacle(view: &View<'_>) -> Option<Obstacle> {
    view.task.facts.ad_hoc.then(|| {
        let message = "it was opened for edits without a task: such work is never handed out";
        Obstacle::new(ObstacleKind::State, message)
            .next(format!("onus show {}   # the files; then onus done, or onus drop", view.id))
    })
}

fn upstream_obstacle(upstream: &Upstream) -> Obstacle {
    let Upstream { id, state, kind, holder, waits } = upstream;
    let held = holder.as_ref().map(|holder| format!(", held by {holder}")).unwrap_or_default();
    let message = match kind {
        ObstacleKind::Child => format!("its part {id} is {state}{held}"),
        _ => format!("it depends on {id}, which is {state}{held}"),
    };
    let next = match (kind, state) {
        (ObstacleKind::Child, _)
        | (_, State::InProgress | State::Review | State::Blocked | State::Proposed) => {
            format!("onus why {id}")
        }
        (_, State::Failed) => format!("onus retry {id}"),
        (_, State::Dropped) => {
            format!("onus show {id}   # it will not be done: the dependency may have to go")
        }
        _ if *waits || holder.is_some() => format!("onus why {id}"),
        _ => format!("onus claim {id}"),
    };
    Obstacle { task: Some(id.clone()), holder: holder.clone(), ..Obstacle::new(*kind, message).next(next) }
}

/// Whether a lease that has not ended is lapsed and may be handed out by `--next`: never a person's.
pub fn can_be_taken_over(lease: &Lease, liveness: Liveness) -> bool {
    liveness != Liveness::Live && !lease.actor.is_person()
}
