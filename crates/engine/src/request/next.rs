//! `claim --next`: the best task that the caller may claim, in one transaction.

use std::collections::BTreeSet;

use onus_core::command::{Act, Terms};
use onus_core::decide::can_be_taken_over;
use onus_core::ids::Uid;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::task::Task;
use onus_store::OnLocked;

use super::{Outcome, Result, Stop, UnitOfWork};
use crate::snapshot::Snapshot;

impl UnitOfWork<'_> {
    /// Fresh work first, then lapsed leases. A person's task is never handed out.
    pub(super) fn claim_next(&mut self, terms: &Terms) -> Result<Outcome> {
        let act = Act::Claim(terms.clone());
        let (fresh, left_out) = self.claim_fresh(terms, &act, OnLocked::Skip)?;
        if let Some(outcome) = fresh {
            return Ok(outcome);
        }
        for (task, lease) in self.write.open_leases(u64::from(u32::MAX))? {
            let liveness = lease.liveness(&self.now, self.seen(Some(&lease)));
            if can_be_taken_over(&lease, liveness)
                && self.is_ready(&task, terms)?
                && let Some(outcome) = self.try_claim(task.uid, &act)?
            {
                return Ok(outcome);
            }
        }
        // Tasks that others had locked may not have become theirs.
        if left_out && let (Some(outcome), _) = self.claim_fresh(terms, &act, OnLocked::Wait)? {
            return Ok(outcome);
        }
        Err(Refusal::new(Code::Nothing, format!("there is nothing for {} to claim now", self.actor.name))
            .next(Step::ExplainReady)
            .next(Step::Status)
            .into())
    }

    /// Claims the first fresh task possible. Also returns whether some were skipped because others had locked
    /// them.
    fn claim_fresh(
        &mut self,
        terms: &Terms,
        act: &Act,
        on_locked: OnLocked,
    ) -> Result<(Option<Outcome>, bool)> {
        let (mut passed_over, mut any_left_out) = (BTreeSet::new(), false);
        loop {
            let (best, left_out) = self.best_fresh(terms, &passed_over, on_locked)?;
            any_left_out |= left_out;
            let Some(uid) = best else { return Ok((None, any_left_out)) };
            if let Some(outcome) = self.try_claim(uid, act)? {
                return Ok((Some(outcome), any_left_out));
            }
            passed_over.insert(uid);
        }
    }

    fn is_ready(&mut self, task: &Task, terms: &Terms) -> Result<bool> {
        let actor = self.actor.clone();
        Ok(self.snapshot().is_ready(task, Some(&actor), terms)?)
    }

    fn best_fresh(
        &mut self,
        terms: &Terms,
        passed_over: &BTreeSet<Uid>,
        on_locked: OnLocked,
    ) -> Result<(Option<Uid>, bool)> {
        let (rows, project, now, actor) = (&self.rows, &self.project, &self.now, &self.actor);
        let (policy, observe) = (self.policy, &self.outside.observe);
        let (best, left_out) =
            self.write.first_ready(&actor.name, actor.tier, now.wall_ms, on_locked, &mut |read, task| {
                let mut snapshot = Snapshot { read, rows, project, now, policy, observe };
                Ok(!passed_over.contains(&task.uid) && snapshot.is_ready(task, Some(actor), terms)?)
            })?;
        let uid = best.as_ref().map(|task| task.uid);
        if let Some(task) = best {
            self.rows.locked(task);
        }
        Ok((uid, left_out))
    }

    /// None: it cannot be claimed after all, for example because another took it between the index and the
    /// lock.
    fn try_claim(&mut self, uid: Uid, act: &Act) -> Result<Option<Outcome>> {
        let Some(task) = self.lock(uid)? else { return Ok(None) };
        match self.decide(&task, act, None) {
            Ok(decision) => self.carry_out(task, act, decision).map(Some),
            Err(Stop::Refused(refusal)) if refusal.code == Code::Limit || refusal.code == Code::Usage => {
                Err(refusal.into())
            }
            Err(Stop::Refused(_)) => Ok(None),
            Err(failed) => Err(failed),
        }
    }
}
