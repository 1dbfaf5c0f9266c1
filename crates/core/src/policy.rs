//! The rules that a project may set. The interface reads them from the configuration and passes them in.

use std::collections::BTreeSet;

use crate::actor::ActorName;
use crate::landing::DepsMet;
use crate::lease::Lease;
use crate::scope::Scope;
use crate::stretch::{Sign, Work};
use crate::task::{Task, words};
use crate::time::{HOUR_MS, MINUTE_MS};

words! {
    /// How scopes that collide are treated.
    ScopeMode("scope mode") {
        Strict = "strict",
        Warn = "warn",
        Off = "off",
    }
}

words! {
    /// What happens when a file is touched that another lease has touched in another worktree.
    AcrossWorktrees("answer to edits in another worktree") {
        Tell = "tell",
        Refuse = "refuse",
        Ignore = "ignore",
    }
}

words! {
    /// What happens when an agent changes a file and holds no task.
    Unclaimed("answer to unclaimed edits") {
        Adopt = "adopt",
        Warn = "warn",
        Refuse = "refuse",
    }
}

words! {
    /// What happens when a person commits or pushes files that another reserves.
    GuardPeople("answer to people's commits") {
        Warn = "warn",
        Refuse = "refuse",
        Off = "off",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long an agent's lease lives without a sign of life.
    pub ttl_ms: i64,
    /// How long an agent may hold a task in all. 0: no limit.
    pub max_hold_ms: i64,
    /// After how long without a sign of life a person's lease is marked stale.
    pub stale_after_ms: i64,
    /// The longest silence that counts as work outside of turns.
    pub idle_ms: i64,
    /// Whether people's work is recorded.
    pub records_people: bool,
    /// How long a task that was handed off or rejected is kept for one actor.
    pub keep_ms: i64,
    /// How many leases without a TTL one agent, and all agents together, may hold.
    pub indefinite_per_actor: u64,
    pub indefinite_per_store: u64,
    /// How often a failed task may be retried, unless the task says otherwise.
    pub max_attempts: u64,
    /// After how long without progress an agent that shows signs of life is called stalled.
    pub stalled_after_ms: i64,
    /// What happens when scopes collide.
    pub scope_mode: ScopeMode,
    /// Paths that never collide, such as lock files and changelogs.
    pub scope_shared: Scope,
    /// What happens when two leases touch one file in two worktrees: both get a notice, the second is refused, or nothing.
    pub across_worktrees: AcrossWorktrees,
    /// What happens when an agent changes a file and holds no task: one is opened for it, it is warned, or refused.
    pub unclaimed: Unclaimed,
    /// Whether no machine of the project is cloned while it runs. Then, with a server's store, an observer on the holder's
    /// machine that sees the process dead ends its lease at once.
    pub unique_machines: bool,
    /// Systems in which a reference belongs to one task only.
    pub refs_unique: BTreeSet<String>,
    /// Whether a person who forces must link a decision or an approval.
    pub force_needs_link: bool,
    /// Whether dependents of a task with its own branch wait until it lands. None: landing is not configured.
    pub deps_met: Option<DepsMet>,
}

impl Policy {
    /// Whether a reference in one of these systems belongs to one task only.
    pub fn has_unique<'s>(&self, systems: impl IntoIterator<Item = &'s String>) -> bool {
        systems.into_iter().any(|system| self.refs_unique.contains(&system.to_lowercase()))
    }

    /// Whether a failed task may not be retried any more.
    pub fn has_used_up_attempts(&self, task: &Task) -> bool {
        task.attempts >= task.facts.max_attempts.unwrap_or(self.max_attempts)
    }

    /// Whether work under a lease of this actor is recorded.
    pub fn records_work_of(&self, actor: &ActorName) -> bool {
        self.records_people || !actor.is_person()
    }

    /// A lease's work after a sign of life; empty if the actor's work is not recorded.
    pub fn work_after(&self, lease: &Lease, sign: Sign<'_>) -> Work {
        if self.records_work_of(&lease.actor) { lease.work_after(sign) } else { Work::default() }
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            ttl_ms: 60 * MINUTE_MS,
            max_hold_ms: 8 * HOUR_MS,
            stale_after_ms: 8 * HOUR_MS,
            idle_ms: 30 * MINUTE_MS,
            records_people: true,
            keep_ms: 60 * MINUTE_MS,
            indefinite_per_actor: 1,
            indefinite_per_store: 5,
            max_attempts: 3,
            stalled_after_ms: 2 * HOUR_MS,
            scope_mode: ScopeMode::Strict,
            scope_shared: Scope::default(),
            across_worktrees: AcrossWorktrees::Tell,
            unclaimed: Unclaimed::Adopt,
            unique_machines: false,
            refs_unique: BTreeSet::new(),
            force_needs_link: false,
            deps_met: None,
        }
    }
}
