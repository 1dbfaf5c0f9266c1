//! `apply`: the fold. One event in, the row changes it means out. Pure, so that a rebuild is a replay.

use std::collections::{BTreeMap, BTreeSet};

use crate::actor::{Actor, ActorName, Tier};
use crate::event::{Body, Event, KeptFor};
use crate::ids::{Number, Prefix, Token, Uid, Version};
use crate::lease::{EndKind, Ended, Lease, LeaseEnd, Pulse};
use crate::scope::Scope;
use crate::task::{Counts, Kept, State, Task};
use crate::text::{Field, TextKey};
use crate::time::Moment;

/// The project: its name for tasks, and the head of its own stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    pub uid: Uid,
    pub prefix: Prefix,
    pub created_at_ms: i64,
    pub version: Version,
    pub head: String,
}

/// What an event changes. The store carries it out; nothing else writes rows that the ledger explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
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
    PutTask(Box<Task>),
    /// The same, where the task's facts, its texts and whether it is finished are as they were: less to write.
    MoveTask(Box<Task>),
    OpenLease(Box<Lease>),
    /// A holder came back after a lapse: the lease goes on under its token.
    ReviveLease {
        task: Uid,
        token: Token,
        active_from: Moment,
        active_before_s: i64,
        pulse: Pulse,
    },
    /// A lease that was only reserved has been started.
    StartLease {
        task: Uid,
        token: Token,
    },
    EndLease {
        task: Uid,
        token: Token,
        ended: Ended,
    },
    /// The task depends on these too. Counted on both sides: what is unmet, and who is waited for.
    AddDeps {
        task: Uid,
        on: BTreeSet<Uid>,
    },
    RemoveDeps {
        task: Uid,
        on: BTreeSet<Uid>,
    },
    /// Those who depend on the task have one unmet dependency less, or one more.
    Met {
        task: Uid,
        met: bool,
    },
    /// Those whom the task depends on have one unfinished dependent less, or one more.
    Finished {
        task: Uid,
        finished: bool,
    },
    /// A task has this many unfinished children more.
    CountChildren {
        parent: Uid,
        more: i64,
    },
    /// A lease reserves these paths too. They count while it has not ended.
    AddScope {
        task: Uid,
        token: Token,
        scope: Scope,
    },
    RemoveScope {
        task: Uid,
        token: Token,
        scope: Scope,
    },
    /// Make a text searchable.
    Index(TextKey),
    /// Make a text no longer searchable, if it was.
    Unindex(TextKey),
}

/// An event that cannot follow the state it meets: the ledger is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misplaced(pub &'static str);

/// The changes of an event of the project's own stream. `before` is None before the first.
pub fn apply_to_project(before: Option<&Project>, event: &Event) -> Result<Vec<Change>, Misplaced> {
    let mut changes = Vec::with_capacity(2);
    let mut project = match (&event.body, before) {
        (Body::ProjectCreated { uid, prefix }, None) => Project {
            uid: *uid,
            prefix: prefix.clone(),
            created_at_ms: event.at_ms,
            version: Version(0),
            head: String::new(),
        },
        (Body::ProjectCreated { .. }, Some(_)) => return Err(Misplaced("the project was created twice")),
        (_, Some(project)) => project.clone(),
        (_, None) => return Err(Misplaced("the project was not created yet")),
    };
    match &event.body {
        Body::ProjectCreated { .. } | Body::LedgerSealed { .. } => {}
        Body::ActorRegistered { actor, tier } => changes.push(Change::PutActor(Actor {
            name: actor.clone(),
            tier: *tier,
            registered_at_ms: event.at_ms,
        })),
        Body::ActorTierSet { actor, tier } => {
            changes.push(Change::SetTier { actor: actor.clone(), tier: *tier });
        }
        Body::ActorAliased { actor, alias } => {
            changes.push(Change::PutAlias { alias: alias.clone(), actor: actor.clone() });
        }
        _ => return Err(Misplaced("an event of a task stands in the project's stream")),
    }
    project.version = event.version;
    project.head = event.hash.clone();
    changes.push(Change::PutProject(project));
    Ok(changes)
}

/// The changes of an event of a task's stream. `before` is None before the first.
pub fn apply_to_task(before: Option<&Task>, event: &Event) -> Result<Vec<Change>, Misplaced> {
    let uid = event.task.ok_or(Misplaced("an event of the project stands in a task's stream"))?;
    let mut changes = Vec::with_capacity(3);
    let mut task = match (&event.body, before) {
        (Body::TaskCreated { number, state, facts, origin, body, deps }, None) => {
            let key = |field| TextKey { stream: uid, version: event.version, field };
            changes.push(Change::NumberTaken(*number));
            changes.push(Change::Index(key(Field::Title)));
            if *body {
                changes.push(Change::Index(key(Field::Body)));
            }
            if !deps.is_empty() {
                changes.push(Change::AddDeps { task: uid, on: deps.clone() });
            }
            Task {
                uid,
                number: *number,
                version: event.version,
                head: String::new(),
                state: *state,
                facts: facts.clone(),
                title_version: event.version,
                body_version: body.then_some(event.version),
                origin: origin.clone(),
                created_at_ms: event.at_ms,
                created_by: event.actor.clone(),
                updated_at_ms: event.at_ms,
                token: Token(0),
                leased: false,
                opened_token: Token(0),
                kept: None,
                submitter: None,
                attempts: 0,
                fenced_token: Token(0),
                counts: Counts::default(),
            }
        }
        (Body::TaskCreated { .. }, Some(_)) => return Err(Misplaced("the task was created twice")),
        (_, Some(task)) => task.clone(),
        (_, None) => return Err(Misplaced("the task was not created yet")),
    };
    step(&mut task, event, &mut changes)?;
    task.version = event.version;
    task.head = event.hash.clone();
    task.updated_at_ms = event.at_ms;
    neighbours(before, &task, &mut changes);
    // The row first: a store may check that what the rest refers to exists.
    let is_moved_only = before.is_some_and(|before| {
        before.facts == task.facts
            && before.state.is_finished() == task.state.is_finished()
            && before.is_met() == task.is_met()
            && (before.title_version, before.body_version) == (task.title_version, task.body_version)
    });
    let task = Box::new(task);
    changes.insert(0, if is_moved_only { Change::MoveTask(task) } else { Change::PutTask(task) });
    Ok(changes)
}

/// What the neighbours' rows count of this task.
fn neighbours(before: Option<&Task>, after: &Task, changes: &mut Vec<Change>) {
    let was_met = before.is_some_and(Task::is_met);
    if was_met != after.is_met() {
        changes.push(Change::Met { task: after.uid, met: after.is_met() });
    }
    let finished = after.state.is_finished();
    if before.is_some_and(|before| before.state.is_finished() != finished) {
        changes.push(Change::Finished { task: after.uid, finished });
    }
    // A child counts for its parent while it is unfinished.
    let counted_for = |task: &Task| task.facts.parent.filter(|_| !task.state.is_finished());
    let (old, new) = (before.and_then(counted_for), counted_for(after));
    if old != new {
        changes.extend(old.map(|parent| Change::CountChildren { parent, more: -1 }));
        changes.extend(new.map(|parent| Change::CountChildren { parent, more: 1 }));
    }
}

fn step(task: &mut Task, event: &Event, changes: &mut Vec<Change>) -> Result<(), Misplaced> {
    let key = |version, field| TextKey { stream: task.uid, version, field };
    match &event.body {
        Body::TaskCreated { .. } | Body::RuleOverridden { .. } => {}
        Body::TaskEdited { facts, title, body } => {
            task.facts = facts.clone();
            if *title {
                changes.push(Change::Unindex(key(task.title_version, Field::Title)));
                changes.push(Change::Index(key(event.version, Field::Title)));
                task.title_version = event.version;
            }
            if *body {
                changes.extend(task.body_version.map(|old| Change::Unindex(key(old, Field::Body))));
                changes.push(Change::Index(key(event.version, Field::Body)));
                task.body_version = Some(event.version);
            }
        }
        Body::NoteAdded {} => changes.push(Change::Index(key(event.version, Field::Note))),
        Body::TextRedacted { version, fields } => {
            changes.extend(fields.iter().map(|field| Change::Unindex(key(*version, *field))));
        }
        Body::TaskAccepted {} | Body::TaskReopened {} => {
            task.state = State::Open;
            task.opened_token = task.token;
            task.kept = None;
            task.submitter = None;
        }
        Body::TaskReset { lease } => {
            task.state = State::Open;
            task.opened_token = task.token;
            task.fenced_token = task.token;
            task.kept = None;
            task.submitter = None;
            end(task, event, EndKind::Reset, lease.as_ref(), changes)?;
        }
        Body::TaskRetried { attempt } => {
            task.state = State::Open;
            task.opened_token = task.token;
            task.attempts = *attempt;
        }
        Body::DepAdded { on } => changes.push(Change::AddDeps { task: task.uid, on: on.clone() }),
        Body::DepRemoved { on } => changes.push(Change::RemoveDeps { task: task.uid, on: on.clone() }),
        Body::TaskStarted {} => {
            task.state = State::InProgress;
            changes.push(Change::StartLease { task: task.uid, token: token_of(event)? });
        }
        Body::TaskBlocked { lease } => {
            task.state = State::Blocked;
            end(task, event, EndKind::Blocked, lease.as_ref(), changes)?;
        }
        Body::TaskUnblocked {} => task.state = State::Open,
        Body::TaskSubmitted { lease } => {
            task.state = State::Review;
            task.submitter = Some(event.actor.clone());
            end(task, event, EndKind::Submitted, Some(lease), changes)?;
        }
        Body::TaskApproved {} => task.state = State::Done,
        Body::TaskRejected { kept_for } => {
            task.state = State::Open;
            task.kept = kept_for.as_ref().map(|kept_for| keep(kept_for, event.version));
        }
        Body::TaskDone { lease } => {
            task.state = State::Done;
            end(task, event, EndKind::Done, Some(lease), changes)?;
        }
        Body::TaskFailed { lease } => {
            task.state = State::Failed;
            end(task, event, EndKind::Failed, lease.as_ref(), changes)?;
        }
        Body::TaskDropped { lease } => {
            task.state = State::Dropped;
            task.kept = None;
            end(task, event, EndKind::Dropped, lease.as_ref(), changes)?;
        }
        Body::ScopeAdded { scope } => {
            changes.push(Change::AddScope { task: task.uid, token: token_of(event)?, scope: scope.clone() })
        }
        Body::ScopeRemoved { scope } => changes.push(Change::RemoveScope {
            task: task.uid,
            token: token_of(event)?,
            scope: scope.clone(),
        }),
        Body::LeaseAcquired { grant, scope } => {
            let token = token_of(event)?;
            if token <= task.token {
                return Err(Misplaced("a token did not grow"));
            }
            let acquired =
                Moment { wall_ms: event.at_ms, tick_ms: grant.tick_ms, domain: grant.domain.clone() };
            task.token = token;
            task.leased = true;
            task.kept = None;
            if !grant.reserve {
                task.state = State::InProgress;
            }
            changes.push(Change::OpenLease(Box::new(Lease {
                task: task.uid,
                token,
                actor: event.actor.clone(),
                instance: event.instance.clone(),
                acquired_at_ms: event.at_ms,
                version: event.version,
                active_before_s: 0,
                pulse: Pulse {
                    last: acquired.clone(),
                    progress: acquired.clone(),
                    renewals: 0,
                    deadline: grant.deadline(&acquired),
                    resting: false,
                },
                active_from: acquired,
                grant: grant.clone(),
                ended: None,
            })));
            if !scope.is_empty() {
                changes.push(Change::AddScope { task: task.uid, token, scope: scope.clone() });
            }
        }
        Body::LeaseRenewed { tick_ms, domain, renewals, active_s, deadline_in_ms, reserve } => {
            let now = Moment { wall_ms: event.at_ms, tick_ms: *tick_ms, domain: domain.clone() };
            task.state = if *reserve { State::Open } else { State::InProgress };
            task.leased = true;
            task.kept = None;
            changes.push(Change::ReviveLease {
                task: task.uid,
                token: token_of(event)?,
                active_before_s: *active_s,
                pulse: Pulse {
                    deadline: deadline_in_ms.map(|ms| now.plus(ms)),
                    renewals: *renewals,
                    last: now.clone(),
                    progress: now.clone(),
                    resting: false,
                },
                active_from: now,
            });
        }
        Body::LeaseReleased { lease } => {
            task.state = State::Open;
            end(task, event, EndKind::Released, Some(lease), changes)?;
        }
        Body::LeaseLapsed { lease, .. } => {
            task.state = State::Open;
            end(task, event, EndKind::Lapsed, Some(lease), changes)?;
        }
        Body::LeaseTakenOver { lease, .. } => {
            task.state = State::Open;
            end(task, event, EndKind::TakenOver, Some(lease), changes)?;
        }
        Body::LeaseRevoked { lease, .. } => {
            task.state = State::Open;
            end(task, event, EndKind::Revoked, Some(lease), changes)?;
        }
        Body::LeaseHandedOff { kept_for, lease } => {
            task.state = State::Open;
            task.kept = Some(keep(kept_for, event.version));
            end(task, event, EndKind::HandedOff, lease.as_ref(), changes)?;
        }
        Body::ProjectCreated { .. }
        | Body::ActorRegistered { .. }
        | Body::ActorAliased { .. }
        | Body::ActorTierSet { .. }
        | Body::LedgerSealed { .. } => {
            return Err(Misplaced("an event of the project stands in a task's stream"));
        }
    }
    Ok(())
}

fn token_of(event: &Event) -> Result<Token, Misplaced> {
    event.token.ok_or(Misplaced("the event names no token"))
}

fn keep(kept_for: &KeptFor, version: Version) -> Kept {
    Kept {
        actor: kept_for.actor.clone(),
        until: Moment {
            wall_ms: kept_for.until_wall_ms,
            tick_ms: kept_for.until_tick_ms,
            domain: kept_for.domain.clone(),
        },
        version,
    }
}

fn end(
    task: &mut Task,
    event: &Event,
    how: EndKind,
    lease: Option<&LeaseEnd>,
    changes: &mut Vec<Change>,
) -> Result<(), Misplaced> {
    let Some(end) = lease else { return Ok(()) };
    task.leased = false;
    changes.push(Change::EndLease {
        task: task.uid,
        token: token_of(event)?,
        ended: Ended { how, at_ms: event.at_ms, version: event.version, end: end.clone() },
    });
    Ok(())
}

/// A task's stream, folded: its row, its leases and what of it can be searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFold {
    pub task: Option<Task>,
    pub leases: BTreeMap<Token, Lease>,
    pub indexed: BTreeSet<TextKey>,
    pub deps: BTreeSet<Uid>,
    pub scopes: BTreeMap<Token, Scope>,
}

impl TaskFold {
    /// Carries one event's changes out in memory, as the store carries them out in rows.
    pub fn add(&mut self, event: &Event) -> Result<(), Misplaced> {
        for change in apply_to_task(self.task.as_ref(), event)? {
            match change {
                Change::PutTask(task) | Change::MoveTask(task) => self.task = Some(*task),
                Change::OpenLease(lease) => {
                    self.leases.insert(lease.token, *lease);
                }
                Change::ReviveLease { token, active_from, active_before_s, pulse, .. } => {
                    let lease = self.lease(token)?;
                    lease.ended = None;
                    lease.active_from = active_from;
                    lease.active_before_s = active_before_s;
                    lease.pulse = pulse;
                }
                Change::StartLease { token, .. } => self.lease(token)?.grant.reserve = false,
                Change::EndLease { token, ended, .. } => {
                    let lease = self.lease(token)?;
                    lease.pulse = Pulse::of_ended(&ended.end);
                    lease.ended = Some(ended);
                }
                Change::Index(key) => {
                    self.indexed.insert(key);
                }
                Change::Unindex(key) => {
                    self.indexed.remove(&key);
                }
                Change::AddDeps { on, .. } => self.deps.extend(on),
                Change::RemoveDeps { on, .. } => self.deps.retain(|uid| !on.contains(uid)),
                Change::AddScope { token, scope, .. } => {
                    self.scopes.entry(token).or_default().extend(Vec::from(scope));
                }
                Change::RemoveScope { token, scope, .. } => {
                    let left = self.scopes.entry(token).or_default();
                    for glob in scope.globs() {
                        left.remove(glob);
                    }
                }
                // What neighbours count is counted anew when all streams are folded.
                Change::Met { .. } | Change::Finished { .. } | Change::CountChildren { .. } => {}
                Change::NumberTaken(_) => {}
                Change::PutProject(_)
                | Change::PutActor(_)
                | Change::SetTier { .. }
                | Change::PutAlias { .. } => {
                    return Err(Misplaced("a task's event changed the project"));
                }
            }
        }
        Ok(())
    }

    fn lease(&mut self, token: Token) -> Result<&mut Lease, Misplaced> {
        self.leases.get_mut(&token).ok_or(Misplaced("the event concerns a lease that was never granted"))
    }
}

/// The project's own stream, folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectFold {
    pub project: Option<Project>,
    pub actors: BTreeMap<ActorName, Actor>,
    pub aliases: BTreeMap<ActorName, ActorName>,
}

impl ProjectFold {
    pub fn add(&mut self, event: &Event) -> Result<(), Misplaced> {
        for change in apply_to_project(self.project.as_ref(), event)? {
            match change {
                Change::PutProject(project) => self.project = Some(project),
                Change::PutActor(actor) => {
                    self.actors.insert(actor.name.clone(), actor);
                }
                Change::SetTier { actor, tier } => {
                    let actor =
                        self.actors.get_mut(&actor).ok_or(Misplaced("a tier for an unknown actor"))?;
                    actor.tier = tier;
                }
                Change::PutAlias { alias, actor } => {
                    self.aliases.insert(alias, actor);
                }
                _ => return Err(Misplaced("the project's event changed a task")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Grant, LapseCause, Mode};
    use crate::task::Facts;
    use crate::time::ClockDomain;
    use crate::transition::{Verb, step as allowed};

    fn task(state: State) -> Task {
        Task {
            uid: Uid(uuid::Uuid::nil()),
            number: Number(1),
            version: Version(7),
            head: String::new(),
            state,
            facts: Facts::default(),
            title_version: Version(1),
            body_version: None,
            origin: None,
            created_at_ms: 0,
            created_by: "human:h".parse().unwrap(),
            updated_at_ms: 0,
            token: Token(3),
            leased: state == State::InProgress,
            opened_token: Token(0),
            kept: None,
            submitter: None,
            attempts: 0,
            fenced_token: Token(0),
            counts: Counts::default(),
        }
    }

    /// The events that each verb is recorded as.
    fn events(verb: Verb) -> Vec<Body> {
        let domain = ClockDomain::new("m", "b", "t");
        let end = || LeaseEnd { renewals: 0, last_sign_ms: 0, active_s: 0 };
        let cause = LapseCause::Ttl;
        let acquired = || Body::LeaseAcquired {
            grant: Grant {
                tier: Tier(1),
                tick_ms: 0,
                domain: domain.clone(),
                ttl_ms: None,
                max_hold_ms: None,
                process: None,
                worktree: None,
                branch: None,
                mode: Mode::Exclusive,
                reserve: false,
                handoff_version: None,
            },
            scope: Scope::default(),
        };
        let kept_for = || KeptFor {
            actor: "agent:a".parse().unwrap(),
            until_wall_ms: 0,
            until_tick_ms: 0,
            domain: domain.clone(),
        };
        vec![match verb {
            Verb::Accept => Body::TaskAccepted {},
            Verb::Claim => acquired(),
            Verb::Takeover => return vec![Body::LeaseTakenOver { cause, lease: end() }, acquired()],
            Verb::Release => Body::LeaseReleased { lease: end() },
            Verb::Lapse => Body::LeaseLapsed { cause, lease: end() },
            Verb::Handoff => Body::LeaseHandedOff { kept_for: kept_for(), lease: Some(end()) },
            Verb::Block => Body::TaskBlocked { lease: None },
            Verb::Unblock => Body::TaskUnblocked {},
            Verb::Submit => Body::TaskSubmitted { lease: end() },
            Verb::Approve => Body::TaskApproved {},
            Verb::Reject => Body::TaskRejected { kept_for: None },
            Verb::Done => Body::TaskDone { lease: end() },
            Verb::Fail => Body::TaskFailed { lease: None },
            Verb::Drop => Body::TaskDropped { lease: None },
            Verb::Reopen => Body::TaskReopened {},
            Verb::Reset => Body::TaskReset { lease: None },
            Verb::Retry => Body::TaskRetried { attempt: 1 },
        }]
    }

    #[test]
    fn the_fold_goes_where_the_table_says() {
        let mut cells = 0;
        for from in State::ALL {
            for verb in Verb::ALL {
                let Some(step) = allowed(*from, verb) else { continue };
                cells += 1;
                let mut task = task(*from);
                for body in events(verb) {
                    let event = Event {
                        uid: Uid(uuid::Uuid::nil()),
                        task: Some(task.uid),
                        version: task.version.next(),
                        token: Some(match body {
                            Body::LeaseAcquired { .. } => task.token.next(),
                            _ => task.token,
                        }),
                        body,
                        actor: "agent:a".parse().unwrap(),
                        instance: "i".parse().unwrap(),
                        at_ms: 0,
                        cause: None,
                        texts: BTreeMap::new(),
                        prev: String::new(),
                        hash: String::new(),
                    };
                    let changes = apply_to_task(Some(&task), &event).unwrap();
                    let Some(Change::MoveTask(after) | Change::PutTask(after)) = changes.into_iter().next()
                    else {
                        panic!("no row")
                    };
                    task = *after;
                }
                assert_eq!(task.state, step.to, "{verb} from {from}");
            }
        }
        assert_eq!(cells, 31);
    }
}
