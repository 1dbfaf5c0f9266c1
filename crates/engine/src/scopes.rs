//! Who else reserves something near: the live leases whose globs may meet a scope. The core says which of them collide.

use std::collections::BTreeMap;

use onus_core::actor::Actor;
use onus_core::command::Terms;
use onus_core::decide::{Rival, wanted};
use onus_core::ids::{Prefix, Token, Uid};
use onus_core::lease::{Liveness, Mode, Process, Seen};
use onus_core::policy::{Policy, ScopeMode};
use onus_core::scope::{Glob, Scope, overlap};
use onus_core::task::Task;
use onus_core::time::Moment;
use onus_store::{Read, Result};

/// What a question about scopes is asked with.
pub(crate) struct Around<'a> {
    pub(crate) now: &'a Moment,
    policy: &'a Policy,
    prefix: &'a Prefix,
    observe: &'a dyn Fn(&Process) -> Seen,
}

/// What is reserved near a scope: by the task's own lease, and by live leases of other tasks.
#[derive(Debug, Default)]
pub(crate) struct Near {
    pub(crate) own: Scope,
    pub(crate) rivals: Vec<Rival>,
}

impl<'a> Around<'a> {
    pub(crate) fn new(
        now: &'a Moment,
        policy: &'a Policy,
        prefix: &'a Prefix,
        observe: &'a dyn Fn(&Process) -> Seen,
    ) -> Around<'a> {
        Around { now, policy, prefix, observe }
    }
}

impl Around<'_> {
    pub(crate) fn near<R: Read + ?Sized>(&self, read: &mut R, task: &Task, scope: &Scope) -> Result<Near> {
        let mut near = Near::default();
        if scope.is_empty() || self.policy.scope_mode == ScopeMode::Off {
            return Ok(near);
        }
        let mut leases: BTreeMap<(Uid, Token), Vec<Glob>> = BTreeMap::new();
        for (uid, token, glob) in read.scopes_near(scope)? {
            leases.entry((uid, token)).or_default().push(glob);
        }
        for ((uid, token), globs) in leases {
            if uid == task.uid {
                near.own.extend(globs);
                continue;
            }
            // Globs that cannot be compared are not known to be apart: the decision says so, if the lease is live.
            if matches!(overlap(scope.globs(), &globs, self.policy.scope_shared.globs()), Ok(None)) {
                continue;
            }
            let Some(lease) = read.lease(uid, token)? else { continue };
            let seen = lease.grant.process.as_ref().map_or(Seen::Unseen, self.observe);
            if lease.ended.is_some() || lease.liveness(self.now, seen) != Liveness::Live {
                continue;
            }
            let id = read.task(uid)?.map_or_else(|| uid.to_string(), |task| self.prefix.id(task.number));
            near.rivals.push(Rival { id, lease, globs });
        }
        Ok(near)
    }

    /// Whether a claim on these terms would collide with nobody.
    pub(crate) fn is_free<R: Read + ?Sized>(&self, read: &mut R, task: &Task, terms: &Terms) -> Result<bool> {
        let (scope, mode) = wanted(task, terms);
        if self.policy.scope_mode != ScopeMode::Strict {
            return Ok(true);
        }
        let shared = self.policy.scope_shared.globs();
        let near = self.near(read, task, &scope)?;
        Ok(near.rivals.iter().all(|rival| {
            let both_shared = mode == Mode::Shared && rival.lease.grant.mode == Mode::Shared;
            // Globs that cannot be compared are not known to be apart.
            both_shared || matches!(overlap(scope.globs(), &rival.globs, shared), Ok(None))
        }))
    }

    /// Whether the asker could claim a task that nobody holds, or whose lease lapsed.
    pub(crate) fn is_ready<R: Read + ?Sized>(
        &self,
        read: &mut R,
        task: &Task,
        asker: Option<&Actor>,
        terms: &Terms,
    ) -> Result<bool> {
        Ok(onus_core::decide::is_ready_for(task, asker, self.now) && self.is_free(read, task, terms)?)
    }
}
