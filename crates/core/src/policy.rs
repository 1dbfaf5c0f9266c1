//! The rules a project may set. Each is read from configuration by the interface and handed in.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::actor::ActorName;
use crate::ids::shortened;
use crate::landing::DepsMet;
use crate::lease::Lease;
use crate::refusal::Refusal;
use crate::scope::Scope;
use crate::stretch::{Sign, Work};
use crate::task::words;
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
    /// What happens when a person commits or pushes what is another's.
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
    /// How long an agent may hold a task at all. 0: no limit.
    pub max_hold_ms: i64,
    /// After how long without a sign of life a person's lease is marked stale.
    pub stale_after_ms: i64,
    /// The longest silence that counts as work where no turns are known.
    pub idle_ms: i64,
    /// Whether people's work is recorded.
    pub records_people: bool,
    /// How long a task handed off or rejected is kept for one actor.
    pub keep_ms: i64,
    /// How many leases without a TTL one agent, and all agents together, may hold.
    pub indefinite_per_actor: u64,
    pub indefinite_per_store: u64,
    /// How often a failed task may be tried again, unless the task says otherwise.
    pub max_attempts: u64,
    /// After how long without progress an agent that shows signs of life is called stalled.
    pub stalled_after_ms: i64,
    /// What happens when scopes collide.
    pub scope_mode: ScopeMode,
    /// Paths that never collide, such as lock files and changelogs.
    pub scope_shared: Scope,
    /// What happens when two leases touch one file in two worktrees: both are told, the second is refused, or nothing is said.
    pub across_worktrees: AcrossWorktrees,
    /// What happens when an agent changes a file and holds no task: one is opened for it, it is warned, or refused.
    pub unclaimed: Unclaimed,
    /// Whether no machine of the project is cloned while it runs, so that on a server's store a death that is seen on what
    /// looks like the holder's machine ends its lease at once.
    pub unique_machines: bool,
    /// Systems in which a reference is one task's only.
    pub refs_unique: BTreeSet<String>,
    /// Whether a person who forces must link a decision or an approval.
    pub force_needs_link: bool,
    /// Where tasks with a branch of their own land: whether those who depend on one wait for that.
    pub deps_met: Option<DepsMet>,
}

impl Policy {
    /// Whether a reference in one of these systems is one task's only.
    pub fn has_unique<'s>(&self, systems: impl IntoIterator<Item = &'s String>) -> bool {
        systems.into_iter().any(|system| self.refs_unique.contains(&system.to_lowercase()))
    }
}

impl Policy {
    /// Whether work under a lease of this actor is recorded.
    pub fn records_work_of(&self, actor: &ActorName) -> bool {
        self.records_people || !actor.is_person()
    }

    /// A lease's work after a sign of life, as far as it is recorded.
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
