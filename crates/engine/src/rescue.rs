//! Keeps what the holder of a lost lease left uncommitted: after the commit that took the lease away, before
//! the answer.
//!
//! The transaction records that the rescue is due ([`onus_core::rescue`]); here it is carried out, and the
//! result is recorded in a transaction of its own. The engine does not know how files are kept. Whatever
//! fails, the lease has changed hands, and the rescue stays due: [`Engine::finish_rescues`] tries again, here
//! or on the machine where the worktree is.

use onus_core::command::{Act, Command};
use onus_core::event::Body;
use onus_core::ids::{TaskRef, Token, Uid, Version};
use onus_core::lease::Lease;
use onus_core::quote::{self, counted};
use onus_core::refusal::{Refusal, Step};
use onus_core::rescue::{KeptFiles, LeftFile, RescueState, Rescued, is_own_worktree};
use onus_core::scope::{Reservations, WorktreeId};
use onus_store::Store;
use serde::Serialize;

use crate::query::QueryResult;
use crate::snapshot::Snapshot;
use crate::view::{Notice, NoticeKind};
use crate::{Answer, Engine, Identity, Reply};

/// How many rescues are listed.
const MOST: u64 = 10_000;

/// A rescue that is to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The task's id, as people say it.
    pub id: String,
    pub token: Token,
    /// Whose files they are, for a sentence.
    pub holder: String,
    pub worktree_id: Option<WorktreeId>,
    pub worktree: Option<String>,
    /// The worktree was made for this task: everything in it belongs to the task.
    pub is_own_worktree: bool,
    /// What the lease reserved when it ended.
    pub reserved: Reservations,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    Done(Rescued),
    /// The worktree cannot be reached from here.
    Elsewhere,
    Failed(String),
}

/// A lease whose files were to be kept, in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RescueView {
    /// The task's id.
    pub task: String,
    pub uid: String,
    pub title: String,
    pub token: u64,
    /// `due`, `kept`, `nothing`, `gone` or `dropped`.
    pub state: String,
    /// Whose files they are.
    pub actor: String,
    pub instance: String,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    /// When that was recorded.
    pub at: String,
    pub kept: Vec<KeptFiles>,
    pub left_out: Vec<LeftFile>,
}

impl Snapshot<'_> {
    /// Where files are kept, according to an event.
    pub(crate) fn kept_by(&mut self, task: Uid, version: Version) -> onus_store::Result<Vec<KeptFiles>> {
        let record = self.read.event(task, version)?;
        Ok(match record.and_then(|record| record.body().ok()) {
            Some(Body::RescueKept { kept, .. } | Body::RescueDropped { kept }) => kept,
            _ => Vec::new(),
        })
    }

    fn due(&mut self, lease: &Lease) -> onus_store::Result<Option<Due>> {
        let Some(task) = self.task(lease.task)? else { return Ok(None) };
        let id = self.id(task.number);
        Ok(Some(Due {
            token: lease.token,
            holder: lease.holder(),
            worktree_id: lease.grant.worktree_id.clone(),
            worktree: lease.grant.worktree.clone(),
            is_own_worktree: is_own_worktree(lease, &task, &id),
            reserved: self.scope_of(lease.task, lease.token)?,
            id,
        }))
    }

    fn rescue_view(&mut self, lease: &Lease) -> onus_store::Result<Option<RescueView>> {
        let (Some(rescue), Some(task)) = (lease.rescue, self.task(lease.task)?) else { return Ok(None) };
        let record = self.read.event(lease.task, rescue.version)?;
        let at = record.as_ref().map(|record| record.at.clone()).unwrap_or_default();
        let body = record.and_then(|record| record.body().ok());
        let left_out = match &body {
            Some(Body::RescueKept { left_out, .. } | Body::RescueSettled { left_out, .. }) => {
                left_out.clone()
            }
            _ => Vec::new(),
        };
        let title = self.task_view(&task)?.title;
        Ok(Some(RescueView {
            task: self.id(task.number),
            uid: task.uid.to_string(),
            title,
            token: lease.token.0,
            state: rescue.state.to_string(),
            actor: lease.actor.to_string(),
            instance: lease.instance.to_string(),
            worktree: lease.grant.worktree.clone(),
            branch: lease.grant.branch.clone(),
            at,
            kept: self.kept_by(task.uid, rescue.version)?,
            left_out,
        }))
    }
}

impl<S: Store> Engine<S> {
    /// Carries these rescues out. Returns what the caller should know.
    pub(crate) fn rescue(&mut self, by: &Identity, leases: &[(Uid, Token)]) -> Vec<Notice> {
        leases.iter().flat_map(|(task, token)| self.rescue_one(by, *task, *token)).collect()
    }

    fn rescue_one(&mut self, by: &Identity, task: Uid, token: Token) -> Vec<Notice> {
        let due = self.query(|snapshot| match snapshot.lease(task, token)? {
            Some(lease) => Ok(snapshot.due(&lease)?),
            None => Ok(None),
        });
        // What cannot be read now stays due.
        let Some(due) = due.ok().flatten() else { return Vec::new() };
        let note = |message: String| Notice::new(NoticeKind::Rescue, Some(due.id.clone()), message);
        let place = due.worktree.as_deref().map(quote::name).unwrap_or_default();
        let rescued = match (self.outside.rescue)(&due) {
            Tried::Done(rescued) => rescued,
            Tried::Elsewhere => {
                return vec![note(format!(
                    "what {} left uncommitted in {place} is not kept: that worktree cannot be reached from here",
                    due.holder
                ))];
            }
            Tried::Failed(why) => {
                return vec![
                    note(format!(
                        "what {} left uncommitted in {place} is still to be kept: {why}",
                        due.holder
                    ))
                    .next(Step::MendStore),
                ];
            }
        };
        let act = Act::Rescue { token, rescued: rescued.clone() };
        if let Err(refusal) = self.attempt_act(by, task, act) {
            let why = refusal.message;
            return vec![
                note(format!(
                    "what {} left uncommitted is kept, but that is not recorded: {why}",
                    due.holder
                ))
                .next(Step::MendStore),
            ];
        }
        told(&due, &rescued)
            .into_iter()
            .map(|message| note(message).next(Step::Rescued(due.id.clone())))
            .collect()
    }

    /// Tells whoever claims a task what is kept of earlier holders' work, unless this claim has just kept
    /// some.
    pub(crate) fn kept_before(&mut self, command: &Command, reply: &Reply) -> Option<Notice> {
        let is_claim = matches!(command, Command::ClaimNext(_) | Command::OnTask { act: Act::Claim(_), .. });
        let Answer::Lease { task, lease: Some(lease), renewed: false, .. } = &reply.answer else {
            return None;
        };
        let is_told = reply.notices.iter().any(|notice| notice.kind == NoticeKind::Rescue);
        if !is_claim || is_told || lease.token <= 1 {
            return None;
        }
        let uid: Uid = task.uid.parse().ok()?;
        let last = self.query(|snapshot| {
            let kept = snapshot.read.rescues(Some(RescueState::Kept), MOST)?;
            match kept.iter().rfind(|kept| kept.task == uid) {
                Some(kept) => Ok(snapshot.rescue_view(kept)?.map(|view| (kept.holder(), view))),
                None => Ok(None),
            }
        });
        let (holder, view) = last.ok()??;
        let files: u64 = view.kept.iter().map(|kept| kept.files).sum();
        let (files, are) = (counted(files, "file"), if files == 1 { "is" } else { "are" });
        let message = format!("{files} that {holder} left uncommitted {are} kept");
        let notice = Notice::new(NoticeKind::Rescue, Some(task.id.clone()), message);
        Some(notice.next(Step::Rescued(task.id.clone())))
    }

    /// Rescues in one state, or all; of one task, or of all.
    pub fn rescues(
        &mut self,
        identity: Option<&Identity>,
        task: Option<&TaskRef>,
        state: Option<RescueState>,
    ) -> QueryResult<Vec<RescueView>> {
        self.ask(identity, |snapshot| {
            let task = task.map(|task| snapshot.named_task(Some(task), identity)).transpose()?;
            let leases = snapshot.read.rescues(state, MOST)?;
            let mut views = Vec::with_capacity(leases.len());
            for lease in leases.iter().filter(|lease| task.as_ref().is_none_or(|task| task.uid == lease.task))
            {
                views.extend(snapshot.rescue_view(lease)?);
            }
            Ok(views)
        })
    }

    /// Carries out every due rescue. Returns the results.
    pub fn finish_rescues(&mut self, by: &Identity) -> Result<Vec<Notice>, Refusal> {
        let due = self.query(|snapshot| {
            let leases = snapshot.read.rescues(Some(RescueState::Due), MOST)?;
            Ok(leases.iter().map(Lease::key).collect::<Vec<_>>())
        })?;
        Ok(self.rescue(by, &due))
    }
}

/// What was kept, and what was left in place.
fn told(due: &Due, rescued: &Rescued) -> Option<String> {
    let left = |left: &[LeftFile]| match left {
        [] => String::new(),
        left => {
            let names: Vec<String> =
                left.iter().take(3).map(|left| quote::name(&left.path).to_string()).collect();
            let more = if left.len() > names.len() { ", …" } else { "" };
            format!("; left where they are: {}{more}", names.join(", "))
        }
    };
    match rescued {
        Rescued::Kept { kept, left_out } => {
            let files: u64 = kept.iter().map(|kept| kept.files).sum();
            let files = counted(files, "uncommitted file");
            Some(format!("kept {files} of {}{}", due.holder, left(left_out)))
        }
        Rescued::Nothing { left_out } if left_out.is_empty() => None,
        Rescued::Nothing { left_out } => {
            Some(format!("nothing that {} left uncommitted could be kept{}", due.holder, left(left_out)))
        }
        Rescued::Gone => None,
    }
}
