//! Signs of life: a caller that changes something shows that it is alive, which renews its leases.

use std::collections::BTreeMap;

use onus_core::actor::KnownBy;
use onus_core::command::{Command, Presence};
use onus_core::ids::{Token, Uid};
use onus_core::lease::{Lease, Liveness, Pulse};
use onus_core::stretch::{Sign, Work};
use onus_core::time::Moment;
use onus_store::{KnownInstance, StoreError};

use super::{Result, UnitOfWork};

impl UnitOfWork<'_> {
    pub(super) fn pulse(
        &mut self,
        task: Uid,
        token: Token,
        ttl_ms: Option<i64>,
        progress: bool,
    ) -> Result<()> {
        let now = self.lock_deadlines()?;
        let Some(lease) = self.write.lease(task, token)? else { return Ok(()) };
        if now.is_some() && !self.is_live(&lease, now.as_ref()) {
            // It lapsed while this waited: whether it may continue has to be decided again.
            return Err(StoreError::Again.into());
        }
        let now = now.unwrap_or_else(|| self.now.clone());
        let work = self.policy.work_after(&lease, self.sign(&now));
        self.set_pulses(vec![(task, token, beat(&lease, &now, ttl_ms, progress, work))])
    }

    pub(super) fn set_pulses(&mut self, pulses: Vec<(Uid, Token, Pulse)>) -> Result<()> {
        for (task, token, _) in &pulses {
            self.rows.forget_lease(*task, *token);
        }
        Ok(self.write.pulse(&pulses)?)
    }

    /// Must come before deadlines are moved. None: it did not wait, and the time is unchanged.
    pub(super) fn lock_deadlines(&mut self) -> Result<Option<Moment>> {
        Ok(if self.write.lock_deadlines()? { Some(self.write.now()) } else { None })
    }

    pub(super) fn is_live(&self, lease: &Lease, now: Option<&Moment>) -> bool {
        let liveness = lease.liveness(now.unwrap_or(&self.now), self.seen(Some(lease)));
        lease.ended.is_none() && liveness == Liveness::Live
    }

    /// Renews the live leases that the caller holds: a changing command shows that it is alive. `progressed`:
    /// the task on which it made progress.
    pub(super) fn sign_of_life(&mut self, progressed: Option<Uid>, held: &mut [Lease]) -> Result<()> {
        // A caller known only by its folder may be another conversation: it renews nothing silently.
        if self.caller.known_by == KnownBy::Worktree {
            return Ok(());
        }
        // First the lease that was worked on, whose row may be waited for. The other rows are never waited
        // for, so no two callers wait for one another.
        if let Some(lease) = held.iter_mut().find(|lease| progressed == Some(lease.task))
            && self.is_live(lease, None)
        {
            // Another command of this caller may have locked the row, and still be refused.
            self.pulse(lease.task, lease.token, None, true)?;
            let work = self.policy.work_after(lease, self.sign(&self.now));
            lease.pulse = beat(lease, &self.now, None, true, work);
        }
        let policy = self.policy;
        self.renew_others(progressed, held, |lease, sign| policy.work_after(lease, sign))
    }

    /// A turn begins: every lease of the caller is worked on from now.
    pub(super) fn turn_begun(&mut self, held: &mut [Lease]) -> Result<()> {
        self.renew_measuring(held, Work::in_new_turn)
    }

    /// A person is asked: every lease of the caller waits from now.
    pub(super) fn asking(&mut self, held: &mut [Lease]) -> Result<()> {
        self.renew_measuring(held, Work::asking)
    }

    /// A tool has run for this long.
    pub(super) fn tool_over(&mut self, held: &mut [Lease], ran_ms: i64) -> Result<()> {
        self.renew_measuring(held, |work, last, sign| work.after_tool(last, sign, ran_ms))
    }

    /// Renews all leases. `change`: what becomes of the work of those that measure it, since their last sign of life.
    fn renew_measuring(
        &mut self,
        held: &mut [Lease],
        change: impl Fn(Work, &Moment, Sign<'_>) -> Work,
    ) -> Result<()> {
        self.renew_others(None, held, |lease, sign| match lease.measures_work() {
            true => change(lease.pulse.work.clone(), &lease.pulse.last, sign),
            false => lease.pulse.work.clone(),
        })
    }

    /// Renews all but the lease that was worked on.
    fn renew_others(
        &mut self,
        progressed: Option<Uid>,
        held: &mut [Lease],
        work: impl Fn(&Lease, Sign<'_>) -> Work,
    ) -> Result<()> {
        let others = held.iter().filter(|lease| progressed != Some(lease.task));
        let due: Vec<Lease> =
            others.filter(|lease| self.is_live(lease, None) && self.is_due(lease)).cloned().collect();
        if due.is_empty() {
            return Ok(());
        }
        let (now, due) = match self.lock_deadlines()? {
            // It did not wait: each lease is as this transaction has just read it.
            None => (self.now.clone(), due),
            Some(now) => {
                let keys: Vec<_> = due.iter().map(|lease| (lease.task, lease.token)).collect();
                // A transaction that has locked one is working on it: that is a sign of life, or its end.
                let mut locked = self.write.lock_leases(&keys)?;
                locked.retain(|lease| self.is_live(lease, Some(&now)) && self.is_due(lease));
                (now, locked)
            }
        };
        let beaten = due.iter().map(|lease| {
            (lease.task, lease.token, beat(lease, &now, None, false, work(lease, self.sign(&now))))
        });
        let pulses: Vec<_> = beaten.collect();
        let new: BTreeMap<_, _> =
            pulses.iter().map(|(task, token, pulse)| ((*task, *token), pulse)).collect();
        for lease in held {
            if let Some(pulse) = new.get(&(lease.task, lease.token)) {
                lease.pulse = (*pulse).clone();
            }
        }
        self.set_pulses(pulses)
    }

    /// Whether a sign of life would change anything.
    fn is_due(&self, lease: &Lease) -> bool {
        lease.pulse.resting || !lease.is_at_work() || lease.pulse.last != self.now
    }

    /// A sign of life of the caller.
    pub(super) fn sign<'s>(&'s self, now: &'s Moment) -> Sign<'s> {
        Sign {
            now,
            own: self.caller.own_clock.as_ref(),
            in_turn: self.caller.in_turn,
            idle_ms: self.policy.idle_ms,
        }
    }

    /// Records that the caller was seen, if it hears the answer: then what was news to it no longer is.
    pub(super) fn remember_caller(&mut self) -> Result<()> {
        let seen_at_ms = self.seen_before_ms.filter(|_| !self.request.command.is_heard());
        let known = KnownInstance {
            seen_at_ms: seen_at_ms.unwrap_or(self.now.wall_ms),
            ended_at_ms: match self.request.command {
                Command::Presence(Presence::Gone) => Some(self.now.wall_ms),
                // A hook acts for it, so it is still running.
                Command::Presence(_) | Command::Guard(_) | Command::Look(_) | Command::Changed(_) => None,
                _ => self.before.ended_at_ms,
            },
            ..self.before.clone()
        };
        Ok(self.write.put_instance(&known)?)
    }
}

/// A lease's pulse after a sign of life.
fn beat(lease: &Lease, now: &Moment, ttl_ms: Option<i64>, progress: bool, work: Work) -> Pulse {
    Pulse {
        progress: if progress { now.clone() } else { lease.pulse.progress.clone() },
        renewals: lease.pulse.renewals + 1,
        deadline: lease.renewed_deadline(now, ttl_ms),
        resting: false,
        last: now.clone(),
        work,
    }
}
