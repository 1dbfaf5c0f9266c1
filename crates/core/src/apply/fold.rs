//! A task's stream, applied in memory as a store applies it to rows.

use std::collections::{BTreeMap, BTreeSet};

use crate::commit::CommitRow;
use crate::event::Event;
use crate::gate::JudgementRow;
use crate::ids::{Token, Uid};
use crate::lease::{Lease, Pulse};
use crate::scope::Reservations;
use crate::session::UsageRow;
use crate::stretch::{Recorded, Worked};
use crate::task::Task;
use crate::text::TextKey;

use super::{LeaseChange, Misplaced, RowChange, apply_to_task};

/// A folded task's stream: the task's row, its leases and its searchable texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFold {
    pub task: Option<Task>,
    pub leases: BTreeMap<Token, Lease>,
    pub indexed: BTreeSet<TextKey>,
    pub deps: BTreeSet<Uid>,
    pub scopes: BTreeMap<Token, Reservations>,
    pub stretches: Vec<Recorded>,
    pub usage: Vec<UsageRow>,
    pub commits: Vec<CommitRow>,
    pub judgements: Vec<JudgementRow>,
}

impl TaskFold {
    /// Applies one event.
    pub fn add(&mut self, event: &Event) -> Result<(), Misplaced> {
        self.carry_out(apply_to_task(self.task.as_ref(), event)?)
    }

    pub(super) fn carry_out(&mut self, changes: Vec<RowChange>) -> Result<(), Misplaced> {
        for change in changes {
            match change {
                RowChange::PutTask(task) | RowChange::MoveTask(task) => self.task = Some(*task),
                RowChange::OpenLease(lease) => {
                    self.leases.insert(lease.token, *lease);
                }
                RowChange::OfLease { token, change, .. } => self.change_lease(token, change)?,
                RowChange::AddStretches(rows) => {
                    for mut row in rows {
                        row.actor = Some(row.actor.unwrap_or(self.lease(row.token)?.actor.clone()));
                        self.stretches.push(row);
                    }
                }
                RowChange::AddUsage(row) => self.usage.push(row),
                RowChange::AddCommit(row) => self.commits.push(row),
                RowChange::AddJudgement(row) => self.judgements.push(row),
                RowChange::VoidJudgements { .. } => self.judgements.clear(),
                RowChange::Index(key) => {
                    self.indexed.insert(key);
                }
                RowChange::Unindex(key) => {
                    self.indexed.remove(&key);
                }
                RowChange::AddDeps { on, .. } => self.deps.extend(on),
                RowChange::RemoveDeps { on, .. } => self.deps.retain(|uid| !on.contains(uid)),
                // The counts in neighbours' rows are computed once all streams are folded.
                RowChange::Met { .. } | RowChange::Finished { .. } | RowChange::CountChildren { .. } => {}
                // The rows of references are derived from the task's own row.
                RowChange::NumberTaken(_) | RowChange::SeatNumberTaken(_) | RowChange::SetRefs { .. } => {}
                RowChange::PutSeat(_) => return Err(Misplaced("a task's event changed a seat")),
                RowChange::PutProject(_)
                | RowChange::PutActor(_)
                | RowChange::SetTier { .. }
                | RowChange::PutAlias { .. } => {
                    return Err(Misplaced("a task's event changed the project"));
                }
            }
        }
        Ok(())
    }

    fn change_lease(&mut self, token: Token, change: LeaseChange) -> Result<(), Misplaced> {
        match change {
            LeaseChange::Revive { worked, pulse, process } => {
                let lease = self.lease(token)?;
                lease.ended = None;
                lease.worked = lease.worked.and(worked);
                lease.pulse = pulse;
                lease.grant.process = process;
            }
            LeaseChange::Attach { worktree_id, worktree, branch } => {
                let grant = &mut self.lease(token)?.grant;
                (grant.worktree_id, grant.worktree, grant.branch) = (worktree_id, Some(worktree), branch);
            }
            LeaseChange::SetRescue(rescue) => self.lease(token)?.rescue = Some(rescue),
            LeaseChange::RecordWork { stretches, waited_ms } => {
                let lease = self.lease(token)?;
                lease.worked = lease.worked.and(Worked::of(&stretches).waited(waited_ms));
                lease.pulse.work.waiting.clear();
                lease.pulse.work.waited_ms = 0;
            }
            LeaseChange::EndReview { at_ms } => self.lease(token)?.reviewed_at_ms = Some(at_ms),
            LeaseChange::Start => self.lease(token)?.grant.reserve = false,
            LeaseChange::End { worked, ended } => {
                let lease = self.lease(token)?;
                lease.worked = lease.worked.and(worked);
                lease.pulse = Pulse::of_ended(&ended.end);
                lease.ended = Some(ended);
            }
            LeaseChange::AddScope(reservations) => self.reserved(token).extend(reservations),
            LeaseChange::RemoveScope(scope) => {
                let left = self.reserved(token);
                scope.globs().iter().for_each(|glob| left.remove(glob));
            }
            LeaseChange::YieldFiles { scope, worktree } => self.reserved(token).give_up(&scope, &worktree),
            LeaseChange::ChangeFiles { scope, worktree } => {
                self.reserved(token).change(&scope, worktree.as_ref());
            }
        }
        Ok(())
    }

    fn lease(&mut self, token: Token) -> Result<&mut Lease, Misplaced> {
        self.leases.get_mut(&token).ok_or(Misplaced("the event concerns a lease that was never granted"))
    }

    fn reserved(&mut self, token: Token) -> &mut Reservations {
        self.scopes.entry(token).or_default()
    }
}
