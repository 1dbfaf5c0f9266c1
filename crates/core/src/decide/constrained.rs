//! Enforces constraints: what a holder may not change, and that work with uncommitted changes is not done.
//!
//! An edit is judged by what is known before it: its files, and those that the lease has touched. A commit is judged by what
//! git reports: everything that the task has changed, including this commit. A landing is judged by what it would change in the
//! target, however the commits were made: no hook has to have run.

use std::collections::BTreeSet;

use crate::commit::{Extent, Uncommitted};
use crate::constraint::{Constraint, Constraints};
use crate::lease::Lease;
use crate::quote::{counted, name, some_names};
use crate::refusal::{Code, Reader, Refusal, Step};
use crate::scope::{ReservationKind, Scope};
use crate::task::Task;

use super::View;

/// What the task forbids, and what its last lease was granted with.
pub(super) fn constraints(view: &View<'_>) -> Constraints {
    let of_task = &view.task.facts.constraints;
    view.lease.map_or_else(|| of_task.clone(), |lease| lease.constraints_now(of_task))
}

/// Whether the files that the lease touches are counted.
pub(super) fn counts_files(view: &View<'_>) -> bool {
    constraints(view).iter().any(|constraint| matches!(constraint, Constraint::MaxFiles(_)))
}

/// Refuses a change to these paths, of which `new` were not touched before, that the holder's constraints forbid.
pub(super) fn check(view: &View<'_>, paths: &[String], new: &Scope, extent: &Extent) -> Result<(), Refusal> {
    let files = || extent.tally.map_or_else(|| touched(view, new), |tally| tally.files);
    refuse_broken(view.id, &constraints(view), paths, extent, files)
}

/// What the work on a task is bound by when it lands: the constraints of the agent that held it last. People are not bound.
pub fn constraints_of_landing(task: &Task, last: Option<&Lease>) -> Constraints {
    match last {
        Some(lease) if lease.actor.is_person() => Constraints::default(),
        Some(lease) => lease.constraints_now(&task.facts.constraints),
        None => task.facts.constraints.clone(),
    }
}

/// Refuses to land changes to these paths that the constraints forbid.
pub fn check_landing(
    id: &str,
    constraints: &Constraints,
    paths: &[String],
    extent: &Extent,
) -> Result<(), Refusal> {
    refuse_broken(id, constraints, paths, extent, || extent.tally.map_or(0, |tally| tally.files))
}

fn refuse_broken(
    id: &str,
    constraints: &Constraints,
    paths: &[String],
    extent: &Extent,
    files: impl Fn() -> u64,
) -> Result<(), Refusal> {
    for constraint in constraints.iter() {
        let broken = match constraint {
            Constraint::ReadOnly => paths.first().map(|path| format!("{} may not be changed", name(path))),
            Constraint::NoDelete => {
                extent.removed.first().map(|path| format!("{} may not be deleted", name(path)))
            }
            Constraint::MaxFiles(limit) => {
                let files = files();
                (files > limit).then(|| format!("this would be {files} changed files"))
            }
            Constraint::MaxLines(limit) => {
                let lines = extent.tally.map(|tally| tally.lines).filter(|lines| *lines > limit);
                lines.map(|lines| format!("this would be {lines} changed lines"))
            }
            Constraint::NoLand => None,
        };
        if let Some(broken) = broken {
            let message = format!("{id} has the constraint {constraint}: {broken}");
            return Err(Refusal::new(Code::Constraint, message)
                .task(id)
                .next(Step::note(id, Reader::Person))
                .next(Step::show(id)));
        }
    }
    Ok(())
}

/// How many files the lease has touched, including the new ones.
fn touched(view: &View<'_>, new: &Scope) -> u64 {
    let own = view.around.into_iter().flat_map(|around| around.own.rows());
    let touched = own.filter(|row| row.basis.kind() == ReservationKind::Touched).map(|row| &row.glob);
    touched.chain(new.globs()).collect::<BTreeSet<_>>().len() as u64
}

/// Refuses to finish a task whose own worktree has uncommitted changes. In a shared checkout, where agents leave their changes
/// to the person, and for people it only returns a notice. Ad-hoc tasks are exempt.
pub(super) fn all_committed(view: &View<'_>, left: &Uncommitted) -> Result<Option<String>, Refusal> {
    if left.is_nothing() || view.task.facts.ad_hoc {
        return Ok(None);
    }
    // With a detached HEAD, or another branch in the worktree of a task that has one, the lease says whose worktree it is.
    let is_its = left.is_attached && (left.branch.is_none() || view.task.branch.is_some());
    let is_own =
        is_its || left.branch.as_deref().is_some_and(|branch| view.task.owns_branch(view.id, branch));
    match left.is_linked && is_own && !view.caller.actor.is_person() {
        true => Err(uncommitted(view.id, left)),
        false if left.count > 0 => Ok(Some(format!("not committed yet: {}", named(left)))),
        false if left.adrift > 0 => Ok(Some(format!("{} on no branch", counted(left.adrift, "commit")))),
        false => Ok(left.under_way.map(|what| format!("a {what} is under way"))),
    }
}

/// Exit 6: changes in a task's own worktree are in no commit, or its commits on no branch.
pub fn uncommitted(id: &str, left: &Uncommitted) -> Refusal {
    if let Some(what) = left.under_way.filter(|_| left.count == 0) {
        let message = format!("{id} has a {what} under way in its worktree");
        return Refusal::new(Code::Uncommitted, message)
            .task(id)
            .next(Step::plain(format!("finish the {what} or abort it, then repeat this")))
            .next(Step::note(id, Reader::Person));
    }
    if left.count == 0 {
        let commits = counted(left.adrift, "commit");
        let message = format!("{id} has {commits} in its worktree on a detached HEAD, and on no branch");
        return Refusal::new(Code::Uncommitted, message)
            .task(id)
            .next(Step::plain("git branch NAME HEAD   # then switch to the task's branch, and merge NAME"))
            .next(Step::note(id, Reader::Person));
    }
    let message = format!("{id} has uncommitted changes in its worktree: {}", named(left));
    Refusal::new(Code::Uncommitted, message)
        .task(id)
        .next(Step::plain("commit what belongs to the task, and remove or ignore the rest"))
        .next(Step::note(id, Reader::Person))
}

/// Names some of the files, and their number if there are more.
fn named(left: &Uncommitted) -> String {
    let files = some_names(&left.files);
    match left.count > left.files.len() {
        true => format!("{files} (of {} in all)", left.count),
        false => files,
    }
}
