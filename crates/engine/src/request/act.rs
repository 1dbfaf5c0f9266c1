//! One act on one task: lock it, read what the decision is based on, let the core decide, carry it out.

use std::borrow::Cow;

use onus_core::actor::{PendingKind, PendingNotice};
use onus_core::command::{Act, Attachment, Command, Edit, Force, Look, Terms};
use onus_core::decide::{Decision, Merge, decide, is_lost};
use onus_core::event::{Body, Draft};
use onus_core::ids::{Token, Uid};
use onus_core::lease::{Lease, Process, Seen};
use onus_core::quote;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::session::Correction;
use onus_core::task::Task;
use onus_core::text::TextKey;
use onus_store::{Loss, Reach};

use super::{Effect, Outcome, Result, Stop, UnitOfWork};
use crate::view::{Notice, NoticeKind};

/// How many files of one merge to come the other holder is told of.
const MERGES_TOLD: usize = 20;

impl UnitOfWork<'_> {
    pub(super) fn on_task(&mut self, uid: Uid, act: &Act, force: Option<&Force>) -> Result<Outcome> {
        let act = &*match act {
            Act::Claim(terms) => Cow::Owned(Act::Claim(self.bound(terms))),
            Act::Takeover(terms) => Cow::Owned(Act::Takeover(self.bound(terms))),
            Act::Handoff { to, reason } => {
                Cow::Owned(Act::Handoff { to: self.ensure_actor(to)?, reason: reason.clone() })
            }
            Act::Assign { to, keep_ms, reason } => {
                let to = self.ensure_actor(to)?;
                Cow::Owned(Act::Assign { to, keep_ms: *keep_ms, reason: reason.clone() })
            }
            Act::Correct { token, correction: Correction::Reassign { to }, reason } => {
                let correction = Correction::Reassign { to: self.ensure_actor(to)? };
                Cow::Owned(Act::Correct { token: *token, correction, reason: reason.clone() })
            }
            act => Cow::Borrowed(act),
        };
        self.lock_for(uid, act)?;
        let task = self.locked(uid)?;
        self.caller.token = self.token_for(uid)?;
        match self.decide(&task, act, force) {
            Err(Stop::Refused(refusal)) if refusal.code == Code::Held => {
                self.for_part(task, act, force, refusal)
            }
            decision => self.carry_out(task, act, decision?),
        }
    }

    /// A conversation acts for its sub-agents: not every harness lets us tell their shells from its own, and
    /// a sub-agent must be able to do what it was told to do about its task.
    fn for_part(
        &mut self,
        task: Task,
        act: &Act,
        force: Option<&Force>,
        refusal: Refusal,
    ) -> Result<Outcome> {
        let lease = self.write.lease(task.uid, task.token)?;
        let part = lease.filter(|lease| {
            lease.actor == self.caller.actor && self.caller.instance.has_part(&lease.instance)
        });
        let Some(part) = part else { return Err(refusal.into()) };
        let whole = std::mem::replace(&mut self.caller.instance, part.instance);
        self.caller.whole = Some(whole.clone());
        let decision = self.decide(&task, act, force);
        let outcome = decision.and_then(|decision| self.carry_out(task, act, decision));
        (self.caller.instance, self.caller.whole) = (whole, None);
        outcome
    }

    /// Locks everything that an act may change besides the task itself, before the task is locked.
    fn lock_for(&mut self, uid: Uid, act: &Act) -> Result<()> {
        match act {
            Act::AddDeps { on } | Act::RemoveDeps { on } => {
                self.write.lock_graph()?;
                let mut ends = self.resolve_all(on)?;
                ends.insert(uid);
                self.write.lock_tasks(&Vec::from_iter(ends), Reach::Rows)?;
            }
            Act::Edit(Edit { parent: Some(parent), .. }) => {
                self.write.lock_graph()?;
                let mut ends = vec![uid];
                if let Some(parent) = parent {
                    ends.push(self.resolve(parent)?);
                }
                // Its previous parent is among its neighbours.
                self.write.lock_tasks(&ends, Reach::Neighbours)?;
            }
            // Of two requests for a unique reference, the second finds the first one's.
            Act::Edit(edit) if self.policy.has_unique(edit.refs.keys()) => self.write.lock_graph()?,
            // Nor does a branch become the own branch of two tasks at once.
            Act::Attach(Attachment { own: Some(_), .. }) => self.write.lock_graph()?,
            // The neighbours count whether a task is finished.
            Act::Move { verb, .. } if verb.may_finish_or_reopen() => {
                self.write.lock_tasks(&[uid], Reach::Neighbours)?;
            }
            Act::SettleLanding { .. } | Act::FoundLanded(_) | Act::FailLanding(_) => {
                self.write.lock_tasks(&[uid], Reach::Neighbours)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Binds a claim to the caller's registered process: an agent holds what it claims as long as that
    /// process lives.
    pub(super) fn bound(&self, terms: &Terms) -> Terms {
        let mut terms = terms.clone();
        match &mut terms.process {
            Some(process) => process.unique = self.policy.unique_machines,
            None => terms.process = self.registered(),
        }
        terms
    }

    /// The process that the caller's instance is registered as, if the call comes from there.
    pub(super) fn registered(&self) -> Option<Process> {
        let process = self.before.process.as_ref().filter(|_| !self.caller.actor.is_person())?;
        let ancestry = self.request.identity.ancestry.processes();
        let is_there = (self.outside.observe)(process) != Seen::Dead && process.is_at_or_above(&ancestry);
        is_there.then(|| Process { unique: self.policy.unique_machines, ..process.clone() })
    }

    pub(super) fn decide(&mut self, task: &Task, act: &Act, force: Option<&Force>) -> Result<Decision> {
        let evidence = self.evidence(task, Some(act))?;
        let decision = decide(&self.view(task, &evidence), act, force)?;
        self.end_orphans_first(&evidence.id, evidence.lease.as_ref(), &decision)?;
        self.remember_loss(task, evidence.lease.as_ref(), &decision.drafts)?;
        Ok(decision)
    }

    /// Records that these events take its lease from a holder, which has to be told when it comes back.
    pub(super) fn remember_loss(
        &mut self,
        task: &Task,
        before: Option<&Lease>,
        drafts: &[Draft],
    ) -> Result<()> {
        let caller = (&self.caller.actor, &self.caller.instance);
        let lost = before.filter(|lease| is_lost(lease, task.fenced_token, drafts, caller));
        let Some(lease) = lost else { return Ok(()) };
        Ok(self.write.put_loss(&Loss {
            actor: lease.actor.clone(),
            instance: lease.instance.clone(),
            task: lease.task,
            token: lease.token,
        })?)
    }

    pub(crate) fn seen(&self, lease: Option<&Lease>) -> Seen {
        lease.and_then(|lease| lease.grant.process.as_ref()).map_or(Seen::Unseen, &self.outside.observe)
    }

    /// Tells a caller that begins on a task in a checkout of another branch where the task's work is.
    fn work_elsewhere(&self, task: &Task, act: &Act) -> Option<Notice> {
        let (Act::Claim(terms) | Act::Takeover(terms)) = act else { return None };
        let (own, here) = (task.branch.as_ref()?, terms.branch.as_deref()?);
        let id = self.project.prefix.id(task.number);
        let message = format!(
            "the work on {id} is on branch {}; {} is checked out here",
            quote::name(&own.branch),
            quote::name(here)
        );
        let notice = Notice::new(NoticeKind::Info, Some(id.clone()), message);
        (own.branch != here).then(|| notice.next(Step::AddWorktree(id)))
    }

    pub(super) fn carry_out(&mut self, task: Task, act: &Act, decision: Decision) -> Result<Outcome> {
        let uid = task.uid;
        let has = |test: fn(&Body) -> bool| decision.drafts.iter().any(|draft| test(&draft.body));
        let acquired = has(|body| matches!(body, Body::LeaseAcquired { .. }));
        let takeover = has(|body| matches!(body, Body::LeaseTakenOver { .. } | Body::LeaseRevoked { .. }));
        let erased = erased_by(uid, &decision.drafts);
        let unchanged = decision.drafts.is_empty() && decision.renew.is_none();
        let mut task = Some(task);
        self.append_to_task(uid, &mut task, decision.drafts)?;
        self.erase(erased)?;
        if let Some(renewal) = decision.renew {
            self.pulse(uid, renewal.token, renewal.ttl_ms, renewal.progress)?;
        }
        let token = task.as_ref().map(|task| task.token).filter(|token| *token > Token(0));
        let mut notices: Vec<Notice> = decision.notices.into_iter().map(Notice::info).collect();
        notices.extend(self.foresee(uid, token, decision.merges)?);
        if acquired {
            notices.extend(task.as_ref().and_then(|task| self.work_elsewhere(task, act)));
        }
        let hands_on = matches!(act, Act::Handoff { .. } | Act::Assign { .. });
        let effect = match act.gives_lease() {
            true => Effect::Lease { renewed: !acquired && !hands_on, takeover },
            false => Effect::Task,
        };
        let got_lease = act.gives_lease() && !hands_on;
        Ok(Outcome { token: token.filter(|_| got_lease), notices, unchanged, ..Outcome::on(effect, uid) })
    }

    /// Files that others have touched in worktrees of their own: the caller is told now, each of them with
    /// its next answer.
    fn foresee(&mut self, uid: Uid, token: Option<Token>, merges: Vec<Merge>) -> Result<Vec<Notice>> {
        let Some(lease) = token.filter(|_| !merges.is_empty()) else { return Ok(Vec::new()) };
        let lease = self.write.lease(uid, lease)?;
        let (worktree, branch) = match self.request.command.itself() {
            // A task that was claimed in one worktree may be worked on in another.
            Command::Guard(guard) | Command::Look(Look { joining: guard, .. }) => {
                (guard.worktree.clone(), guard.branch.clone())
            }
            _ => lease.map(|lease| (lease.grant.worktree, lease.grant.branch)).unwrap_or_default(),
        };
        let mut notices = Vec::with_capacity(merges.len());
        for Merge { id, task, token, paths, message } in merges {
            let Some(theirs) = self.write.lease(task, token)? else { continue };
            for path in paths.into_iter().take(MERGES_TOLD) {
                self.write.put_notice(&PendingNotice {
                    actor: theirs.actor.clone(),
                    instance: theirs.instance.clone(),
                    task,
                    token,
                    kind: PendingKind::Merge,
                    path,
                    by: Some((self.caller.actor.clone(), self.caller.instance.clone())),
                    by_task: Some(uid),
                    worktree: worktree.clone(),
                    branch: branch.clone(),
                    at_ms: self.now.wall_ms,
                })?;
            }
            notices.push(Notice::new(NoticeKind::Merge, Some(id.clone()), message).next(Step::show(&id)));
        }
        Ok(notices)
    }

    /// Erases texts after the event that says so is written: it names what is erased.
    pub(super) fn erase(&mut self, texts: Vec<TextKey>) -> Result<()> {
        for text in texts {
            self.write.erase(text)?;
        }
        Ok(())
    }
}

/// The texts that events about to be written erase.
pub(super) fn erased_by(stream: Uid, drafts: &[Draft]) -> Vec<TextKey> {
    let mut erased = Vec::new();
    for draft in drafts {
        if let Body::TextRedacted { version, fields } = &draft.body {
            erased.extend(fields.iter().map(|field| TextKey { stream, version: *version, field: *field }));
        }
    }
    erased
}
