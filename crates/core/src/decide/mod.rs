//! `decide`: may this caller do this now, and which events follow? Pure: a view in, events or a refusal out.
//!
//! Checks run in this order, each with its exit code. First the fence (5): a superseded caller changes nothing and is
//! refused. Then others' holds (4). Then the rules (6): the transition table, tiers, limits. A person may force what 5, 4
//! and most rules of 6 forbid, but never a transition that is not in the table. The override is an event of its own, before
//! the events it made possible.

mod assign;
mod claim;
mod constrained;
mod gate;
mod graph;
mod landing;
mod ready;
mod rescue;
mod scope;
mod seat;
mod session;
mod standing;
mod tasks;
mod undo;
mod verbs;
mod work;

pub use constrained::{check_landing, constraints_of_landing, uncommitted};
pub use gate::{failed_step, missing_refusal};
pub use graph::{Reset, cycle_refusal, freed, reset, retry};
pub use landing::moves_task;
pub use ready::{
    Obstacle, ObstacleKind, Upstream, can_be_taken_over, is_kept_for, is_ready_for, obstacle_in_row,
    obstacles, opens_at, rank,
};
pub use rescue::is_lost;
pub use scope::{
    MAX_GLOBS, Merge, Reserving, Rival, Surroundings, anothers_worktree, reservations_of, reserved_by,
    reserves,
};
pub use seat::{Need, decide_seat, holds_seat};
pub use standing::{held_refusal, spoken_place};
pub use tasks::create;
pub use undo::{LastChange, undo};

use std::collections::BTreeSet;

use crate::actor::{Actor, ActorName, Caller};
use crate::command::{Act, Force, Terms};
use crate::event::{Body, Draft};
use crate::gate::JudgementRow;
use crate::ids::{Token, Uid, Version};
use crate::lease::{Lease, Liveness, Seen};
use crate::policy::Policy;
use crate::refusal::{Code, Forced, Override, Reader, Refusal, Step};
use crate::rescue::KeptFiles;
use crate::stretch::Recorded;
use crate::task::Task;
use crate::text::Field;
use crate::time::Moment;

/// Everything that a decision about one task may look at, read under its lock.
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
    /// What can be seen of the process that this lease is bound to.
    pub seen: Seen,
    /// The caller's own latest lease on this task.
    pub mine: Option<&'a Lease>,
    /// How many leases without a time limit have not ended: this actor's, and everyone's.
    pub indefinite: (u64, u64),
    /// Whether the caller's actor held a lease on this task since it was last opened.
    pub caller_worked_on_it: bool,
    /// The current title and body, where an edit gives new ones. None: there is none, or it was erased.
    pub title: Option<&'a str>,
    pub body: Option<&'a str>,
    /// What the act names, resolved to uids.
    pub named: &'a Named,
    /// What is reserved near the paths that the act may reserve ([`reserves`]). None: it was not looked up, so the act can
    /// reserve nothing.
    pub around: Option<&'a Surroundings>,
    /// Some of the unmet dependencies and unfinished children, for the refusal.
    pub waits_for: &'a [Upstream],
    /// The session to correct: its lease, and all its recorded work.
    pub session: Option<(&'a Lease, &'a [Recorded])>,
    /// Whether `lease` reserved anything. Looked up only if it is usable and not the caller's.
    pub has_reserved: bool,
    /// The lease whose rescued files the act is about, and where they are kept.
    pub rescued: Option<&'a Lease>,
    pub kept: &'a [KeptFiles],
    /// The judgements of the task's gates, if the act needs them.
    pub judged: &'a [JudgementRow],
    /// The texts to redact; None: there is no such event.
    pub redactable: Option<&'a Redactable>,
}

/// The texts of one event that still exist, and where else on the task the same words occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redactable {
    pub author: ActorName,
    pub fields: Vec<Field>,
    pub copies: Vec<Copied>,
}

/// The same words beside another event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Which text of the redacted event it repeats.
    pub of: Field,
    pub version: Version,
    pub field: Field,
    pub author: ActorName,
}

/// The other tasks that an act names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    pub parent: Option<Uid>,
    /// Dependencies to add or to remove.
    pub deps: BTreeSet<Uid>,
    pub relate: BTreeSet<Uid>,
    pub unrelate: BTreeSet<Uid>,
    /// The ids along a cycle that the act would close, from the task back to itself.
    pub cycle: Option<Vec<String>>,
    /// A reference that should be this task's alone but already belongs to another, with that task's id.
    pub taken: Option<(String, String)>,
    /// The task whose own branch the act names, and that task's id.
    pub branch_of: Option<(String, Box<Task>)>,
}

impl View<'_> {
    pub(crate) fn is_usable(&self, lease: &Lease) -> bool {
        lease.is_usable(self.task.fenced_token)
    }

    /// Whether the caller presents the token of a lease, and is the actor that it was granted to.
    pub(crate) fn presents(&self, lease: &Lease) -> bool {
        self.caller.token == Some(lease.token) && self.caller.actor == lease.actor
    }

    /// Whether a lease was granted to the caller's own instance.
    pub(crate) fn is_callers(&self, lease: &Lease) -> bool {
        lease.is_held_by(&self.caller.actor, &self.caller.instance)
    }

    /// Whether the caller acts as the holder of a lease, by its token or as its instance.
    pub(crate) fn is_holder_of(&self, lease: &Lease) -> bool {
        self.presents(lease) || self.is_callers(lease)
    }

    pub(crate) fn liveness(&self, lease: &Lease) -> Liveness {
        lease.liveness(self.now, self.seen)
    }
}

/// What was decided, for the engine to carry out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub drafts: Vec<Draft>,
    /// A sign of life for a lease, with a TTL of its own if one was requested.
    pub renew: Option<Renewal>,
    /// Things the caller should know.
    pub notices: Vec<String>,
    /// Files that others have touched in worktrees of their own.
    pub merges: Vec<Merge>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    pub token: Token,
    pub ttl_ms: Option<i64>,
    /// There was progress since the last sign of life.
    pub progress: bool,
}

impl Decision {
    fn of(drafts: Vec<Draft>) -> Decision {
        Decision { drafts, ..Decision::default() }
    }
}

/// Refuses a superseded caller, whatever it requests.
pub fn check_fence(view: &View<'_>) -> Result<(), Refusal> {
    standing::standing(view).map(drop)
}

/// The one decision about an existing task.
pub fn decide(view: &View<'_>, act: &Act, force: Option<&Force>) -> Result<Decision, Refusal> {
    // A claim of what another holds cannot be forced; only a takeover can.
    let claim_terms = match act {
        Act::Claim(terms) => Some(terms),
        _ => None,
    };
    let mut decision = overridable(view, force, claim_terms, |force| {
        let mut decision = decide_as_asked(view, act, force)?;
        assign::say_why_it_was_taken(view, act, &mut decision.drafts);
        Ok(decision)
    })?;
    work::record(view, &mut decision.drafts);
    rescue::record_due(view, &mut decision.drafts);
    Ok(decision)
}

/// Decides. If a person is refused, also finds out whether force would have helped.
fn overridable<T>(
    view: &View<'_>,
    force: Option<&Force>,
    takeover: Option<&Terms>,
    decide: impl Fn(Option<&Force>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    by_people_only(view, force, &decide).map_err(|mut refusal| {
        if view.caller.actor.is_person() && matches!(refusal.exit_code(), 4..=6) {
            let forced = Some(&Force { reason: "why".to_owned(), link: None });
            let takes_over = |terms| claim::takeover(view, terms, forced).is_ok();
            let by = match takeover {
                _ if force.is_none() && decide(forced).is_ok() => Some(Forced::SameRequest),
                Some(terms) if takes_over(terms) => Some(Forced::Takeover(view.id.to_owned())),
                _ => None,
            };
            let needs_link = view.policy.force_needs_link;
            refusal.overridable = by.map(|by| Box::new(Override { by, needs_link }));
            // A person who can decide it has nobody to ask.
            if refusal.overridable.is_some() {
                refusal.next.retain(|step| !matches!(step, Step::Note { to: Reader::Person, .. }));
            }
        }
        refusal
    })
}

/// Decides with force only for a person.
fn by_people_only<T>(
    view: &View<'_>,
    force: Option<&Force>,
    decide: impl FnOnce(Option<&Force>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    if force.is_some() && !view.caller.actor.is_person() {
        // Being fenced or meeting a holder is the more useful refusal, so it comes first.
        return match decide(None) {
            Err(refusal) if matches!(refusal.exit_code(), 4 | 5) => Err(refusal),
            _ => {
                let message = format!("only a person may override a rule; {} is not one", view.caller.actor);
                Err(people_only(view, message))
            }
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
        Act::Handoff { to, reason } => assign::handoff(view, to, None, reason, force),
        Act::Assign { to, keep_ms, reason } => assign::handoff(view, to, *keep_ms, reason, force),
        Act::Move { verb, message, uncommitted, demand } => {
            let found = verbs::Found { uncommitted: uncommitted.as_ref(), demand: demand.as_ref() };
            verbs::use_verb(view, *verb, message.as_deref(), found, force)
        }
        Act::Edit(edit) => tasks::edit(view, edit, force),
        Act::AddDeps { .. } => graph::change_deps(view, |on| Body::DepAdded { on }, force),
        Act::RemoveDeps { .. } => graph::change_deps(view, |on| Body::DepRemoved { on }, force),
        Act::AddScope { scope, areas } => scope::add(view, scope, areas),
        Act::RemoveScope { scope } => scope::remove(view, scope),
        Act::Touch { paths, touched, extent } => scope::touch(view, paths, touched, extent),
        Act::Commit(commit) => session::commit(view, commit),
        Act::Judge(judging) => gate::judge(view, judging, force),
        Act::Land(checked) => landing::begin(view, checked, force),
        Act::SettleLanding { commit, settled } => landing::settle(view, commit, settled),
        Act::FoundLanded(landed) => landing::found(view, landed),
        Act::FailLanding(failure) => landing::fail(view, failure),
        Act::Change(changed) => scope::change(view, changed),
        Act::Yield(yielding) => scope::give_up(view, yielding),
        Act::Attach(attachment) => claim::attach(view, attachment),
        Act::Note { text, kind, link } => tasks::note(view, text, *kind, link.as_deref(), force),
        Act::Rescue { token, rescued } => rescue::settle(view, *token, rescued),
        Act::DropRescue { token, reason } => rescue::forget(view, *token, reason),
        Act::RecordUsage(usage) => session::record(view, usage),
        Act::Correct { token, correction, reason } => session::correct(view, *token, correction, reason),
        Act::Tick { line, undo } => tasks::tick(view, *line, *undo, force),
        Act::Redact { version, fields, reason } => tasks::redact(view, *version, fields, reason, force),
    }
}

/// Exit 6: only a person may do this; the caller can ask one with a note.
fn people_only(view: &View<'_>, message: impl Into<String>) -> Refusal {
    Refusal::new(Code::PeopleOnly, message).task(view.id).next(Step::note(view.id, Reader::Person))
}

fn check_force(view: &View<'_>, force: Option<&Force>) -> Result<(), Refusal> {
    let Some(force) = force else { return Ok(()) };
    Field::Reason.check(&force.reason)?;
    if view.policy.force_needs_link && force.link.is_none() {
        return Err(Refusal::new(
            Code::NotAllowed,
            "in this project every override needs a link to a decision or approval",
        )
        .task(view.id)
        .next(Step::GiveLink));
    }
    force.link.as_deref().map(check_link).transpose().map(drop)
}

/// Checks a link. It is recorded in the event itself, so it cannot be erased.
fn check_link(link: &str) -> Result<String, Refusal> {
    if link.is_empty() || link.len() > 500 || link.chars().any(char::is_control) {
        return Err(Refusal::usage("a link has 1 to 500 bytes and no control characters"));
    }
    Ok(link.to_owned())
}

/// The event that records a person's override of a rule.
fn overridden(rule: &str, force: &Force) -> Draft {
    Draft::new(Body::RuleOverridden { rule: rule.to_owned(), link: force.link.clone() })
        .text(Field::Reason, Some(force.reason.trim().to_owned()))
}

/// Records that a person overrides a rule; without force, refuses.
fn override_or_refuse(
    rule: &str,
    force: Option<&Force>,
    refusal: Refusal,
    drafts: &mut Vec<Draft>,
) -> Result<(), Refusal> {
    drafts.push(overridden(rule, force.ok_or(refusal)?));
    Ok(())
}

/// Refuses unless the version that the caller saw is still the current one.
fn check_version(view: &View<'_>, expected: Option<Version>) -> Result<(), Refusal> {
    let now = view.task.version;
    let Some(expected) = expected.filter(|expected| *expected != now) else { return Ok(()) };
    let why = if expected < now { ": somebody changed it" } else { "" };
    let message = format!("{} is at version {now}, not {expected}{why}", view.id);
    Err(Refusal::new(Code::Changed, message).task(view.id).next(Step::show(view.id)))
}
