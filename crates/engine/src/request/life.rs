//! Signs of life: a caller that changes something shows that it lives, which renews its leases.

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
            // It lapsed while this waited: whether it may go on is another question.
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

    /// Before deadlines are moved. None: nothing was waited for, and the time is what it was.
    pub(super) fn lock_deadlines(&mut self) -> Result<Option<Moment>> {
        Ok(if self.write.lock_deadlines()? { Some(self.write.now()) } else { None })
    }

    pub(super) fn is_live(&self, lease: &Lease, now: Option<&Moment>) -> bool {
        let liveness = lease.liveness(now.unwrap_or(&self.now), self.seen(Some(lease)));
        lease.ended.is_none() && liveness == Liveness::Live
    }

    /// A changing command shows that the caller lives: the live ones of the leases that it holds are renewed.
    /// `progressed`: the task on which something came of it.
    pub(super) fn sign_of_life(&mut self, progressed: Option<Uid>, held: &mut [Lease]) -> Result<()> {
        // One known only by its folder may be another conversation: it renews nothing silently.
        if self.caller.known_by == KnownBy::Worktree {
            return Ok(());
        }
        // First the one that was worked on, whose row is waited for; of the others none is, so that no two wait for
        // one another.
        if let Some(lease) = held.iter_mut().find(|lease| progressed == Some(lease.task))
            && self.is_live(lease, None)
        {
            // Another command of this caller may have the row, and come to nothing.
            self.pulse(lease.task, lease.token, None, true)?;
            let work = self.policy.work_after(lease, self.sign(&self.now));
            lease.pulse = beat(lease, &self.now, None, true, work);
        }
        let policy = self.policy;
        self.live_on_beside(progressed, held, |lease, sign| policy.work_after(lease, sign))
    }

    /// A turn begins: every lease of the caller's is worked on from now.
    pub(super) fn turn_begun(&mut self, held: &mut [Lease]) -> Result<()> {
        self.live_on_beside(None, held, |lease, sign| match lease.measures_work() {
            true => lease.pulse.work.clone().in_new_turn(&lease.pulse.last, sign),
            false => lease.pulse.work.clone(),
        })
    }

    /// A person is asked: every lease of the caller's waits from now.
    pub(super) fn asking(&mut self, held: &mut [Lease]) -> Result<()> {
        self.live_on_beside(None, held, |lease, sign| match lease.measures_work() {
            true => lease.pulse.work.clone().asking(&lease.pulse.last, sign),
            false => lease.pulse.work.clone(),
        })
    }

    /// A tool has run for so long.
    pub(super) fn tool_over(&mut self, held: &mut [Lease], ran_ms: i64) -> Result<()> {
        self.live_on_beside(None, held, |lease, sign| match lease.measures_work() {
            true => lease.pulse.work.clone().after_tool(&lease.pulse.last, sign, ran_ms),
            false => lease.pulse.work.clone(),
        })
    }

    /// Renews all but the one that was worked on.
    fn live_on_beside(
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
            // Nothing was waited for: each is as this transaction has just read it.
            None => (self.now.clone(), due),
            Some(now) => {
                let keys: Vec<_> = due.iter().map(|lease| (lease.task, lease.token)).collect();
                // Whoever has one just now is at work on it: that is a sign of life, or its end.
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

    /// What was news to the caller is no longer, if it hears the answer.
    pub(super) fn remember_caller(&mut self) -> Result<()> {
        let seen_at_ms = self.before.seen_at_ms.filter(|_| !self.request.command.is_heard());
        let known = KnownInstance {
            actor: self.caller.actor.clone(),
            instance: self.caller.instance.clone(),
            process: self.before.process.clone(),
            group: self.before.group,
            seen_at_ms: seen_at_ms.unwrap_or(self.now.wall_ms),
            in_turn: self.before.in_turn,
            wants: self.before.wants.clone(),
            registered_at_ms: self.before.registered_at_ms,
            ended_at_ms: match self.request.command {
                Command::Presence(Presence::Gone) => Some(self.now.wall_ms),
                // A hook speaks for it: it goes on.
                Command::Presence(_) | Command::Guard(_) | Command::Look(_) | Command::Changed(_) => None,
                _ => self.before.ended_at_ms,
            },
            read: self.before.read.clone(),
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
