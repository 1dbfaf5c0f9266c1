//! The rules a project may set. Each is read from configuration by the interface and handed in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::shortened;
use crate::refusal::Refusal;
use crate::scope::Scope;
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
    /// What happens when an agent changes a file and holds no task.
    Unclaimed("answer to unclaimed edits") {
        Adopt = "adopt",
        Warn = "warn",
        Refuse = "refuse",
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
    /// What happens when an agent changes a file and holds no task: one is opened for it, it is warned, or refused.
    pub unclaimed: Unclaimed,
    /// Whether a person who forces must link a decision or an approval.
    pub force_needs_link: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            ttl_ms: 60 * MINUTE_MS,
            max_hold_ms: 8 * HOUR_MS,
            stale_after_ms: 8 * HOUR_MS,
            keep_ms: 60 * MINUTE_MS,
            indefinite_per_actor: 1,
            indefinite_per_store: 5,
            max_attempts: 3,
            stalled_after_ms: 2 * HOUR_MS,
            scope_mode: ScopeMode::Strict,
            scope_shared: Scope::default(),
            unclaimed: Unclaimed::Adopt,
            force_needs_link: false,
        }
    }
}
