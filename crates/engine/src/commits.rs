//! What git's hooks ask: which leases a commit belongs to, whether commits may be pushed, and which part of a
//! task's work is not committed.

use std::collections::BTreeSet;

use onus_core::actor::{ActorName, InstanceId};
use onus_core::commit::CommitId;
use onus_core::constraint::Constraints;
use onus_core::decide::anothers_worktree;
use onus_core::ids::{TaskRef, Token, Uid};
use onus_core::lease::{Lease, Liveness};
use onus_core::quote;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::rescue::is_own_worktree;
use onus_core::scope::{Basis, Glob, Reservations, Scope, Touched, WorktreeId};
use onus_core::task::{State, Task};
use onus_store::{Result, Store};

use crate::conversation::Conversation;
use crate::snapshot::Snapshot;
use crate::{Engine, Identity};

/// A lease that a commit belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitLease {
    /// The task's id.
    pub task: String,
    pub token: Token,
    pub constraints: Constraints,
    /// The task's earlier commits, if its changes are counted.
    pub commits: Vec<CommitId>,
}

impl CommitLease {
    /// Whether all the task's changes must be counted.
    pub fn has_size_limit(&self) -> bool {
        self.constraints.iter().any(|constraint| constraint.limits_total())
    }
}

/// A commit that is about to be pushed, and what it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    pub commit: CommitId,
    pub paths: Vec<String>,
}

/// A task that its holder is about to call done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskToFinish {
    pub is_ad_hoc: bool,
    /// Whether the given branch is its own.
    pub is_own_branch: bool,
    /// Whether its lease is attached to the given worktree.
    pub is_attached: bool,
    /// Its own branch, if it has one.
    pub branch: Option<String>,
    /// The worktree that its lease is attached to, and where that was, if it is another one.
    pub elsewhere: Option<(WorktreeId, Option<String>)>,
    /// What its lease touched in the given worktree.
    pub files: Vec<String>,
}

impl Snapshot<'_> {
    /// Of a holder's leases, the one whose task's own worktree this is: what is done there is that task's
    /// work.
    pub(crate) fn of_own_worktree<'l>(
        &mut self,
        held: &'l [Lease],
        worktree: Option<&WorktreeId>,
    ) -> Result<Option<&'l Lease>> {
        let here = |lease: &&Lease| worktree.is_some() && lease.grant.worktree_id.as_ref() == worktree;
        for lease in held.iter().filter(here) {
            let task = self.task(lease.task)?;
            if task.is_some_and(|task| is_own_worktree(lease, &task, &self.id(task.number))) {
                return Ok(Some(lease));
            }
        }
        Ok(None)
    }

    /// The task whose own branch this is.
    pub(crate) fn task_of_branch(&mut self, branch: Option<&str>) -> Result<Option<Task>> {
        Ok(branch.map(|branch| self.read.task_of_branch(branch)).transpose()?.flatten())
    }

    /// Why this is another's worktree: it is a task's own, and another is working on that task in it, whatever
    /// is checked out there now. A conversation and its sub-agents are not others to each other.
    pub(crate) fn worktree_of_another(
        &mut self,
        (actor, whole): (&ActorName, &InstanceId),
        worktree: Option<&WorktreeId>,
    ) -> Result<Option<Refusal>> {
        let Some(worktree) = worktree else { return Ok(None) };
        for lease in self.read.leases_in(worktree)? {
            let is_callers = lease.actor == *actor && whole.is_one_with(&lease.instance);
            let Some(task) = self.task(lease.task)?.filter(|_| !is_callers) else { continue };
            let id = self.id(task.number);
            if is_own_worktree(&lease, &task, &id) && self.liveness(&lease) == Liveness::Live {
                return Ok(Some(anothers_worktree(&id, &lease, self.now)));
            }
        }
        Ok(None)
    }

    /// Of a holder's leases on tasks, those that a commit belongs to: in a task's own worktree, that task's;
    /// otherwise those that reserve one of these paths; if none does, the latest.
    pub(crate) fn leases_for(
        &mut self,
        held: Vec<Lease>,
        paths: &[String],
        worktree: Option<&WorktreeId>,
    ) -> Result<Vec<Lease>> {
        if held.len() < 2 {
            return Ok(held);
        }
        if let Some(lease) = self.of_own_worktree(&held, worktree)? {
            return Ok(vec![lease.clone()]);
        }
        let asked: Scope = paths.iter().filter_map(|path| Glob::literal(path).ok()).collect();
        let mut concerned = BTreeSet::new();
        for (task, token, row) in self.read.scopes_near(&asked)? {
            let covers = || asked.globs().iter().filter_map(Glob::path).any(|path| row.glob.matches(path));
            if !concerned.contains(&(task, token)) && row.applies_in(worktree) && covers() {
                concerned.insert((task, token));
            }
        }
        let latest = held.last().map(Lease::key);
        let is_any = held.iter().any(|lease| concerned.contains(&lease.key()));
        let belongs = |lease: &Lease| match is_any {
            true => concerned.contains(&lease.key()),
            false => Some(lease.key()) == latest,
        };
        Ok(held.into_iter().filter(belongs).collect())
    }

    fn commit_lease(&mut self, lease: &Lease) -> Result<Option<CommitLease>> {
        let Some(task) = self.task(lease.task)? else { return Ok(None) };
        let mut found = CommitLease {
            task: self.id(task.number),
            token: lease.token,
            constraints: lease.constraints_now(&task.facts.constraints),
            commits: Vec::new(),
        };
        if found.has_size_limit() {
            found.commits = self.read.commits_of(lease.task)?.into_iter().map(|row| row.commit).collect();
        }
        Ok(Some(found))
    }

    /// The lease under which the caller made a commit and which it has lost since; and whether the commit is
    /// somebody else's.
    fn standing_of_commit(
        &mut self,
        (actor, instance): (&ActorName, &InstanceId),
        commit: &CommitId,
    ) -> Result<(Option<Lease>, bool)> {
        let (mut is_known, mut is_own) = (false, false);
        for row in self.read.commit_made(commit)? {
            is_known = true;
            let (Some(lease), Some(task)) = (self.lease(row.task, row.token)?, self.task(row.task)?) else {
                continue;
            };
            if lease.actor != *actor || !instance.is_one_with(&lease.instance) {
                continue;
            }
            is_own = true;
            if lease.was_superseded(task.token, task.fenced_token)
                && !self.has_it_again(&lease, task.token)?
            {
                return Ok((Some(lease), false));
            }
        }
        Ok((None, is_known && !is_own))
    }

    /// Whether the same holder got the task again afterwards.
    fn has_it_again(&mut self, lost: &Lease, highest: Token) -> Result<bool> {
        let now = self.lease(lost.task, highest)?;
        Ok(now.is_some_and(|now| now.token > lost.token && now.is_held_by(&lost.actor, &lost.instance)))
    }
}

impl<S: Store> Engine<S> {
    /// Which of the caller's leases a commit of these paths belongs to.
    pub fn leases_of_commit(
        &mut self,
        (actor, instance): (&ActorName, &InstanceId),
        paths: &[String],
        worktree: Option<&WorktreeId>,
    ) -> std::result::Result<Vec<CommitLease>, Refusal> {
        self.query(|snapshot| {
            let actor = snapshot.actor_behind(actor)?;
            let mut held = snapshot.read.leases_held_by(&actor, instance)?;
            held.retain(Lease::is_of_a_task);
            let mut found = Vec::new();
            for lease in snapshot.leases_for(held, paths, worktree)? {
                found.extend(snapshot.commit_lease(&lease)?);
            }
            Ok(found)
        })
    }

    /// Whether the caller made a commit under a lease of its own: then it was checked at the time.
    pub fn has_made(
        &mut self,
        (actor, instance): (&ActorName, &InstanceId),
        commit: &CommitId,
    ) -> std::result::Result<bool, Refusal> {
        self.query(|snapshot| {
            let actor = snapshot.actor_behind(actor)?;
            for row in snapshot.read.commit_made(commit)? {
                let lease = snapshot.lease(row.task, row.token)?;
                if lease.is_some_and(|lease| lease.actor == actor && instance.is_one_with(&lease.instance)) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// Whether others made a commit under their leases, and the caller did not.
    pub fn is_made_by_another(
        &mut self,
        by: (&ActorName, &InstanceId),
        commit: &CommitId,
    ) -> std::result::Result<bool, Refusal> {
        let is_recorded = self.query(|snapshot| Ok(!snapshot.read.commit_made(commit)?.is_empty()))?;
        Ok(is_recorded && !self.has_made(by, commit)?)
    }

    /// Why the caller should not push these commits: one was made under a lease that it lost, or changes what
    /// is another's now. Others answer for their own commits.
    pub fn may_not_push(
        &mut self,
        conversation: &Conversation,
        commits: &[Pushed],
    ) -> std::result::Result<Option<Refusal>, Refusal> {
        let paths = self.query(|snapshot| {
            let actor = snapshot.actor_behind(&conversation.actor)?;
            let mut paths: BTreeSet<&String> = BTreeSet::new();
            for pushed in commits {
                let (lost, is_anothers) =
                    snapshot.standing_of_commit((&actor, &conversation.instance), &pushed.commit)?;
                if let Some(lease) = lost {
                    let id = snapshot.id_of(lease.task)?;
                    let message = format!(
                        "commit {} was made for {id} under token {}, which is no longer current",
                        pushed.commit.short(),
                        lease.token
                    );
                    let refusal = Refusal::new(Code::Fenced, message).task(&id);
                    return Ok(Err(refusal.next(Step::log(&id)).next(Step::TakeAnother)));
                }
                if !is_anothers {
                    paths.extend(&pushed.paths);
                }
            }
            Ok(Ok(paths.into_iter().cloned().collect::<Vec<String>>()))
        })?;
        match paths {
            Ok(paths) => self.reserved_by_another(conversation, &paths),
            Err(refusal) => Ok(Some(refusal)),
        }
    }

    /// The actor behind a git identity, if the project knows a person by that address.
    pub fn person_of_email(&mut self, email: &str) -> std::result::Result<Option<ActorName>, Refusal> {
        let Ok(named) = format!("human:{email}").parse::<ActorName>() else { return Ok(None) };
        self.query(|snapshot| {
            let actor = snapshot.actor_behind(&named)?;
            Ok(snapshot.read.actor(&actor)?.map(|known| known.name))
        })
    }

    /// The tasks under which these commits were made, if they have a branch of their own and have not landed, each with its
    /// first commit of the list. What was also made under `own` is that task's work; what was dropped binds only by its constraints.
    pub fn unlanded_work_of_others(
        &mut self,
        commits: &[CommitId],
        own: Uid,
    ) -> std::result::Result<Vec<(String, CommitId)>, Refusal> {
        self.query(|snapshot| {
            let (mut found, mut seen) = (Vec::new(), BTreeSet::from([own]));
            for commit in commits {
                let rows = snapshot.read.commit_made(commit)?;
                if rows.iter().any(|row| row.task == own) {
                    continue;
                }
                for row in rows {
                    let Some(task) = snapshot.task(row.task)?.filter(|_| seen.insert(row.task)) else {
                        continue;
                    };
                    let is_bound = match task.state {
                        State::Dropped => {
                            let lease = snapshot.lease(row.task, row.token)?;
                            let of_lease = lease.map(|lease| lease.constraints_now(&task.facts.constraints));
                            of_lease.is_some_and(|constraints| !constraints.is_empty())
                        }
                        _ => true,
                    };
                    if is_bound && task.branch.is_some() && task.landing.landed.is_none() {
                        found.push((snapshot.id(task.number), commit.clone()));
                    }
                }
            }
            Ok(found)
        })
    }

    /// The task whose own branch this is, if it has not landed and was not dropped.
    pub fn unlanded_task_of(&mut self, branch: &str) -> std::result::Result<Option<String>, Refusal> {
        self.query(|snapshot| {
            let task = snapshot.task_of_branch(Some(branch))?;
            let task = task.filter(|task| task.landing.landed.is_none());
            Ok(task.map(|task| snapshot.id(task.number)))
        })
    }

    /// What is about to be called done, as far as files are concerned.
    pub fn finishing(
        &mut self,
        identity: &Identity,
        task: Option<&TaskRef>,
        worktree: Option<&WorktreeId>,
        branch: Option<&str>,
    ) -> std::result::Result<TaskToFinish, Refusal> {
        self.query(|snapshot| {
            let task = snapshot.named_task(task, Some(identity))?;
            let reserved = match task.leased {
                true => snapshot.scope_of(task.uid, task.token)?,
                false => Reservations::default(),
            };
            let is_here = |touched: &Touched| touched.worktree.as_ref() == worktree;
            let touched = reserved.rows().iter().filter(|row| match &row.basis {
                Basis::Touched(touched) => is_here(touched),
                Basis::Declared { .. } => false,
            });
            let files = touched.filter_map(|row| row.glob.path()).map(str::to_owned).collect();
            let id = snapshot.id(task.number);
            let is_own_branch = branch.is_some_and(|branch| task.owns_branch(&id, branch));
            let lease = snapshot.current_lease(&task)?;
            let (attached, path) =
                lease.map_or((None, None), |lease| (lease.grant.worktree_id, lease.grant.worktree));
            let is_attached = attached.is_some() && attached.as_ref() == worktree;
            let elsewhere = attached.filter(|_| !is_attached).map(|id| (id, path));
            let (is_ad_hoc, branch) = (task.facts.ad_hoc, task.branch.map(|own| own.branch));
            Ok(TaskToFinish { is_ad_hoc, is_own_branch, is_attached, branch, elsewhere, files })
        })
    }
}

/// The text of a task's note about a commit that names it.
pub(crate) fn mention(commit: &CommitId, id: &str) -> String {
    format!("commit {} says that it resolves {}", commit.short(), quote::name(id))
}

/// Whether a note is such a mention, by its beginning and end.
pub(crate) fn is_mention(text: &str, id: &str) -> bool {
    text.starts_with("commit ") && text.ends_with(&format!(" says that it resolves {}", quote::name(id)))
}

/// The tasks of leases, each once.
pub(crate) fn tasks_of(leases: &[Lease]) -> BTreeSet<Uid> {
    leases.iter().map(|lease| lease.task).collect()
}
