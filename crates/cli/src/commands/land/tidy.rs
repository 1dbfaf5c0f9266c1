//! Removes the worktree and the branch of a task that landed, if nothing is lost by that.

use onus_core::task::State;
use onus_engine::AnyEngine;
use onus_host::landing::{LandedTask, Report};
use onus_repo::landing::{Lander, Leftover};
use onus_repo::worktrees::Removed;

use crate::commands::worktree;
use crate::context::Context;
use crate::output::path_line;

/// What became of the worktrees and branches of tasks that landed.
#[derive(Debug, Default)]
pub(crate) struct Tidied {
    pub(crate) removed: Vec<Removed>,
    /// Which worktrees stay, and why.
    pub(crate) kept: Vec<String>,
}

impl Tidied {
    /// The lines for people: only what they might miss later.
    pub(crate) fn lines(&self) -> Vec<String> {
        let gone = self.removed.iter().filter_map(|removed| {
            let ignored = worktree::ignored_words(removed)?;
            Some(format!("removed {}; {ignored} (no commit has them)", path_line(&removed.path)))
        });
        gone.chain(self.kept.iter().cloned()).collect()
    }
}

/// Removes the worktrees and branches of what landed. One that stays is no error; the result says why it stays.
pub(super) fn tidy(context: &Context, lander: &Lander, report: &Report) -> Tidied {
    let mut tidied = Tidied::default();
    for landed in &report.landed {
        let LandedTask { id, branch, head, .. } = landed;
        take_away(context, lander, (id, branch, head.as_str()), &mut tidied);
    }
    tidied
}

/// Finishes for landers that were killed after the target moved and before they tidied up. What has not landed stays.
pub(crate) fn tidy_leftovers(
    context: &Context,
    lander: &Lander,
    engine: &mut AnyEngine,
    tidied: &mut Tidied,
) {
    for (leftover, tidying) in lander.leftovers() {
        let Leftover { id, branch, head, task } = &leftover;
        let is_unsettled = engine.unsettled().map_or(true, |all| all.iter().any(|it| it.id == *id));
        let task = task.parse().ok().and_then(|task| engine.show(None, Some(&task)).ok());
        match task.map(|task| (task.value.landed.is_some(), task.value.state == State::Done)) {
            // Nobody knows yet whether it landed; or it did, and is worked on.
            _ if is_unsettled => {}
            Some((true, false)) | None => {}
            Some((true, true)) => {
                take_away(context, lander, (id, branch, head.as_str()), tidied);
                tidying.done();
            }
            Some((false, _)) => tidying.done(),
        }
    }
}

fn take_away(
    context: &Context,
    lander: &Lander,
    (id, branch, head): (&str, &str, &str),
    tidied: &mut Tidied,
) {
    let worktrees = lander.worktrees();
    let Ok(all) = worktrees.list() else { return };
    // Deletes the branch if it is one of ours and has not moved since: its commits are in the target.
    let forget = || {
        if branch.starts_with("onus/") {
            worktrees.forget_branch(branch, head);
        }
    };
    let Some(linked) = all.iter().find(|linked| linked.branch.as_deref() == Some(branch)) else {
        return forget();
    };
    if linked.is_main {
        return;
    }
    if context.host.folder.starts_with(&linked.path) {
        let line = format!(
            "the worktree of {id} was not removed, because you are in it; from another folder: onus worktree remove {id}"
        );
        tidied.kept.push(line);
        return;
    }
    match worktree::removed(context, worktrees, linked, false) {
        Ok(Some(removed)) => {
            if !removed.with_branch {
                forget();
            }
            tidied.removed.push(removed);
        }
        Ok(None) => {}
        Err(refusal) => tidied.kept.push(refusal.message),
    }
}
