//! Conflicts to come: which branches there are, and how their holders are told what git foresees.
//!
//! Git merges outside, never in a transaction. What it foresees is not history: it follows from the commits,
//! so no event records it. The holder of a task is told with its next answer, by a notice that is dropped
//! when it was heard, when the conflict is over or when the lease is.

use std::collections::BTreeSet;

use onus_core::actor::{ActorName, InstanceId, PendingKind, PendingNotice};
use onus_core::circle::Holder;
use onus_core::ids::{Token, Uid};
use onus_core::lease::Lease;
use onus_core::quote;
use onus_core::refusal::{Refusal, Step};
use onus_core::scope::Scope;
use onus_core::task::Task;
use onus_store::{Result, Store};
use serde::Serialize;

use crate::Engine;
use crate::notices::grouped;
use crate::snapshot::Snapshot;
use crate::view::{Notice, NoticeKind};

/// How many branches are listed at most.
const MOST: u64 = 200;

/// A branch with the work of a task on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveBranch {
    pub task: Uid,
    pub id: String,
    pub branch: String,
    /// The branch that it is to land in, as far as that is recorded.
    pub target: Option<String>,
    /// The lease that has not ended: its token, actor and instance.
    pub lease: Option<(Token, ActorName, InstanceId)>,
}

/// What the holder of a lease is to be told: its branch cannot be merged in these files with another's, or
/// with its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub task: Uid,
    pub token: Token,
    pub actor: ActorName,
    pub instance: InstanceId,
    pub by: Option<(ActorName, InstanceId)>,
    /// None: the target.
    pub by_task: Option<Uid>,
    pub branch: String,
    pub files: Vec<String>,
}

/// Which conflicts git foresees between the branches of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForecastView {
    pub conflicts: Vec<ConflictView>,
    /// Why this is not all there is to say; null: it is.
    pub incomplete: Option<String>,
}

/// Two branches that git cannot merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConflictView {
    pub task: String,
    pub branch: String,
    /// Who holds the task; null: nobody.
    pub holder: Option<String>,
    /// The other side: another task's branch, or the target.
    pub with: BranchView,
    /// The files in which they cannot be merged: the first of them.
    pub files: Vec<String>,
    /// How many there are.
    pub count: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BranchView {
    /// Null: it is the branch to land in.
    pub task: Option<String>,
    pub branch: String,
    pub holder: Option<String>,
}

impl ForecastView {
    /// What concerns one task's branch, which comes first in each. `is_it`: whether that is this task, or this branch.
    pub fn of(&self, is_it: impl Fn(&str, &str) -> bool) -> Vec<ConflictView> {
        let turned = |conflict: &ConflictView| match &conflict.with.task {
            _ if is_it(&conflict.task, &conflict.branch) => Some(conflict.clone()),
            Some(task) if is_it(task, &conflict.with.branch) => Some(ConflictView {
                task: task.clone(),
                branch: conflict.with.branch.clone(),
                holder: conflict.with.holder.clone(),
                with: BranchView {
                    task: Some(conflict.task.clone()),
                    branch: conflict.branch.clone(),
                    holder: conflict.holder.clone(),
                },
                files: conflict.files.clone(),
                count: conflict.count,
            }),
            _ => None,
        };
        self.conflicts.iter().filter_map(turned).collect()
    }
}

impl ConflictView {
    /// What it comes to, for people.
    pub fn message(&self) -> String {
        let files = match self.count.saturating_sub(self.files.len()) {
            0 => quote::some_names(&self.files),
            more => format!("{} and {more} more", quote::some_names(&self.files)),
        };
        let branch = quote::name(&self.with.branch);
        match (&self.with.task, &self.with.holder) {
            (None, _) => format!("cannot be merged with {branch}: both change {files}"),
            (Some(task), Some(holder)) => {
                format!("cannot be merged with {task} ({branch}, {holder}): both change {files}")
            }
            (Some(task), None) => format!("cannot be merged with {task} ({branch}): both change {files}"),
        }
    }
}

impl Snapshot<'_> {
    fn live_branches(&mut self) -> Result<Vec<LiveBranch>> {
        let mut found: Vec<LiveBranch> = Vec::new();
        for (task, lease) in self.read.open_leases(MOST)? {
            let own = task.branch.as_ref().map(|own| (own.branch.clone(), Some(own.target.clone())));
            let Some((branch, target)) = own.or_else(|| Some((lease.grant.branch.clone()?, None))) else {
                continue;
            };
            found.push(self.live_branch(&task, branch, target, Some(&lease)));
        }
        let held: BTreeSet<Uid> = found.iter().map(|branch| branch.task).collect();
        for task in self.read.branched(MOST)?.into_iter().filter(|task| !held.contains(&task.uid)) {
            if let Some(own) = task.branch.clone() {
                found.push(self.live_branch(&task, own.branch, Some(own.target), None));
            }
        }
        Ok(found)
    }

    fn live_branch(
        &self,
        task: &Task,
        branch: String,
        target: Option<String>,
        lease: Option<&Lease>,
    ) -> LiveBranch {
        LiveBranch {
            task: task.uid,
            id: self.id(task.number),
            branch,
            target,
            lease: lease.map(|lease| (lease.token, lease.actor.clone(), lease.instance.clone())),
        }
    }

    /// What the caller's branches cannot be merged with, one notice for each other side.
    pub(crate) fn conflicts_to_come(&mut self, pending: &[PendingNotice]) -> Result<Vec<Notice>> {
        let mut notices = Vec::new();
        for (first, paths) in grouped(pending, PendingKind::Conflict, |notice| &notice.branch) {
            let yours = self.id_of(first.task)?;
            let branch = quote::name(first.branch.as_deref().unwrap_or_default());
            let files = quote::some_names(&paths);
            let Some(task) = first.by_task else {
                let message = format!(
                    "a conflict to come: {branch} has changed, and {yours} cannot be merged with it in {files}"
                );
                let step = Step::plain(format!("merge {branch} into your branch while it is small"));
                notices.push(Notice::new(NoticeKind::Conflict, Some(yours), message).next(step));
                continue;
            };
            let theirs = self.id_of(task)?;
            let holder = first.by.clone().map(|(actor, instance)| Holder { actor, instance });
            let holder = holder.map(|holder| format!(", {}", holder.spoken())).unwrap_or_default();
            let message = format!(
                "a conflict to come: {yours} and {theirs} ({branch}{holder}) cannot be merged in {files}"
            );
            let notice = Notice::new(NoticeKind::Conflict, Some(yours), message);
            notices.push(notice.next(Step::show(&theirs)));
        }
        Ok(notices)
    }
}

impl<S: Store> Engine<S> {
    /// The branches with work on them: those of held tasks first.
    pub fn live_branches(&mut self) -> std::result::Result<Vec<LiveBranch>, Refusal> {
        self.query(|snapshot| Ok(snapshot.live_branches()?))
    }

    /// Files that everybody shares, which never conflict.
    pub fn shared_files(&self) -> &Scope {
        &self.policy.scope_shared
    }

    /// Tells holders of new conflicts, and drops notices about conflicts that are over. `lasting`: all
    /// current conflicts. `seen`: the tasks whose branches were examined; a pending notice about two of them,
    /// or about one and its target, is over if it is not in `lasting`.
    pub fn warn_of_conflicts(
        &mut self,
        news: &[&Warning],
        lasting: &[Warning],
        seen: &BTreeSet<Uid>,
    ) -> std::result::Result<(), Refusal> {
        self.store.write(|write| {
            let at_ms = write.now().wall_ms;
            let is_over = |notice: &PendingNotice| {
                notice.kind == PendingKind::Conflict
                    && seen.contains(&notice.task)
                    && notice.by_task.is_none_or(|task| seen.contains(&task))
                    && !lasting.iter().any(|warning| warning.is_of(notice))
            };
            for notice in write.notices()?.iter().filter(|notice| is_over(notice)) {
                write.drop_notice(notice)?;
            }
            for warning in news {
                // The current holder of the task is told through its own lease.
                let lease = write.lease(warning.task, warning.token)?;
                if lease.is_none_or(|lease| lease.ended.is_some()) {
                    continue;
                }
                for path in &warning.files {
                    write.put_notice(&warning.notice(path, at_ms))?;
                }
            }
            Ok(())
        })?;
        Ok(())
    }
}

impl Warning {
    fn notice(&self, path: &str, at_ms: i64) -> PendingNotice {
        PendingNotice {
            actor: self.actor.clone(),
            instance: self.instance.clone(),
            task: self.task,
            token: self.token,
            kind: PendingKind::Conflict,
            path: path.to_owned(),
            by: self.by.clone(),
            by_task: self.by_task,
            worktree: None,
            branch: Some(self.branch.clone()),
            at_ms,
        }
    }

    fn is_of(&self, notice: &PendingNotice) -> bool {
        (self.task, self.token, self.by_task) == (notice.task, notice.token, notice.by_task)
            && self.files.contains(&notice.path)
    }
}
