//! `decide`: may this caller do this now, and what happens then? Pure: a view in, events or a refusal out.
//!
//! The order of checks is the order of exit codes. First the fence (5): a caller that was superseded changes
//! nothing and is told so. Then others' holds (4). Then the rules (6): the transition table, tiers, limits. A person
//! may force what 5, 4 and the rules of the third kind forbid, never what the table does not know; the override
//! is an event of its own, before the events it made possible.

mod claim;
mod graph;
mod ready;
mod scope;
mod standing;
mod tasks;

pub use graph::{Reset, cycle_refusal, freed, reset, retry};
pub use ready::{Obstacle, ObstacleKind, Upstream, can_be_taken_over, is_ready_for, obstacles};
pub use scope::{MAX_GLOBS, Rival, wanted};
pub use standing::held_refusal;
pub use tasks::create;

use std::collections::BTreeSet;

use crate::actor::{Actor, Caller};
use crate::command::{Act, Force};
use crate::event::{Body, Draft};
use crate::ids::{Token, Uid, Version};
use crate::lease::{Lease, Liveness, Seen};
use crate::policy::Policy;
use crate::refusal::{Code, Refusal};
use crate::scope::Scope;
use crate::task::Task;
use crate::text::Field;
use crate::time::Moment;

/// All that a decision about one task may look at, read under its lock.
#[derive(Clone, Debug)]
pub struct View<'a> {
    pub now: &'a Moment,
    pub policy: &'a Policy,
    pub caller: &'a Caller,
    /// The caller's own row.
    pub actor: &'a Actor,
    pub task: &'a Task,
    /// The task's id, as people say it.
    pub id: &'a str,
    /// The lease with the task's highest token, ended or not.
    pub lease: Option<&'a Lease>,
    /// What can be seen of the process that lease is bound to.
    pub seen: Seen,
    /// The caller's own latest lease on this task.
    pub mine: Option<&'a Lease>,
    /// Leases without a limit that have not ended: this actor's, and all.
    pub indefinite: (u64, u64),
    /// Whether an actor held a lease on this task since it was last opened.
    pub caller_worked_on_it: bool,
    /// What the act names, resolved to uids.
    pub named: &'a Named,
    /// What the current lease reserves: all of it where the lease would have to be revived, else what is near the paths
    /// that are asked for; and how many globs it has in all.
    pub scope: &'a Scope,
    pub scope_len: usize,
    /// Live leases of other tasks that reserve something near what is asked for.
    pub rivals: &'a [Rival],
    /// Dependencies that are not met and children that are not finished: some of them, for the refusal.
    pub waits_for: &'a [Upstream],
    /// Who wrote the event that is to be redacted, and which of its texts still exist.
    pub redactable: Option<(&'a crate::actor::ActorName, &'a [Field])>,
}

/// The tasks that an act speaks of beside its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    pub parent: Option<Uid>,
    /// To depend on, or no longer.
    pub deps: BTreeSet<Uid>,
    pub relate: BTreeSet<Uid>,
    pub unrelate: BTreeSet<Uid>,
    /// The ids along a circle that the act would close, from the task back to itself.
    pub cycle: Option<Vec<String>>,
}

impl View<'_> {
    pub(crate) fn is_usable(&self, lease: &Lease) -> bool {
        lease.is_usable(self.task.fenced_token)
    }

    pub(crate) fn liveness(&self, lease: &Lease) -> Liveness {
        lease.liveness(self.now, self.seen)
    }
}

/// What a decision asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub drafts: Vec<Draft>,
    /// A sign of life for this lease, with a TTL of its own if one was asked for.
    pub renew: Option<Renewal>,
    /// Things the caller should know.
    pub notices: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    pub token: Token,
    pub ttl_ms: Option<i64>,
    /// Something came of the work since the last sign of life.
    pub progress: bool,
}

impl Decision {
    fn of(drafts: Vec<Draft>) -> Decision {
        Decision { drafts, ..Decision::default() }
    }
}

/// The one decision about an existing task.
pub fn decide(view: &View<'_>, act: &Act, force: Option<&Force>) -> Result<Decision, Refusal> {
    by_people_only(view, force, |force| decide_as_asked(view, act, force))
}

/// Decides with force only for a person.
fn by_people_only<T>(
    view: &View<'_>,
    force: Option<&Force>,
    decide: impl FnOnce(Option<&Force>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    if force.is_some() && !view.caller.actor.is_person() {
        // Who is fenced or meets a holder is told that first; force would have helped nobody but a person.
        return match decide(None) {
            Err(refusal) if matches!(refusal.exit_code(), 4 | 5) => Err(refusal),
            _ => Err(people_only(view)),
        };
    }
    check_force(view, force)?;
    decide(force)
}

fn decide_as_asked(view: &View<'_>, act: &Act, force: Option<&Force>) -> Result<Decision, Refusal> {
    match act {
        Act::Claim(terms) => claim::claim(view, terms, force),
        Act::Takeover(terms) => claim::takeover(view, terms, force),
        Act::Renew { ttl_ms, progress } => claim::renew(view, *ttl_ms, *progress),
        Act::Handoff { to, reason } => tasks::handoff(view, to, reason, force),
        Act::Move { verb, message } => tasks::shift(view, *verb, message.as_deref(), force),
        Act::Edit(edit) => tasks::edit(view, edit, force),
        Act::AddDeps { .. } => graph::add_deps(view, force),
        Act::RemoveDeps { .. } => graph::remove_deps(view, force),
        Act::AddScope { scope } => scope::add(view, scope),
        Act::RemoveScope { scope } => scope::remove(view, scope),
        Act::Touch { paths } => scope::touch(view, paths),
        Act::Note { text } => tasks::note(view, text, force),
        Act::Redact { version, fields, reason } => tasks::redact(view, *version, fields, reason, force),
    }
}

fn people_only(view: &View<'_>) -> Refusal {
    Refusal::new(
        Code::PeopleOnly,
        format!("only a person may override a rule; {} is not one", view.caller.actor),
    )
    .task(view.id)
    .next(format!("onus note {} 'why it should be done'   # and ask a person", view.id))
}

fn check_force(view: &View<'_>, force: Option<&Force>) -> Result<(), Refusal> {
    let Some(force) = force else { return Ok(()) };
    Field::Reason.check(&force.reason)?;
    if view.policy.force_needs_link && force.link.is_none() {
        return Err(Refusal::new(
            Code::NotAllowed,
            "this project asks for a link to a decision or an approval with every override",
        )
        .task(view.id)
        .next("add --link URL"));
    }
    if force.link.as_ref().is_some_and(|link| link.len() > 500 || link.chars().any(char::is_control)) {
        return Err(Refusal::usage("the link is longer than 500 bytes or contains control characters"));
    }
    Ok(())
}

/// The event that says that a person overrode a rule.
fn overridden(rule: &str, force: &Force) -> Draft {
    Draft::new(Body::RuleOverridden { rule: rule.to_owned(), link: force.link.clone() })
        .text(Field::Reason, Some(force.reason.clone()))
}

/// A version that a caller saw and that must still hold.
fn check_version(view: &View<'_>, expected: Option<Version>) -> Result<(), Refusal> {
    match expected {
        Some(version) if version != view.task.version => Err(Refusal::new(
            Code::Changed,
            format!("{} is at version {}, not {version}: somebody changed it", view.id, view.task.version),
        )
        .task(view.id)
        .next(format!("onus show {}   # look again, then repeat", view.id))),
        _ => Ok(()),
    }
}
