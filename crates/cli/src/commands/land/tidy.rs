//! What is left of a task that landed: its worktree and its branch go, if nothing is lost by that.

use onus_core::task::State;
use onus_engine::Engine;
use onus_host::landing::{LandedTask, Report};
use onus_repo::landing::{Lander, Leftover};
use onus_repo::worktrees::Removed;
use onus_store::AnyStore;

use crate::commands::worktree;
use crate::context::Context;
use crate::output::path_line;

/// What became of worktrees and branches of tasks that landed.
#[derive(Debug, Default)]
pub(crate) struct Tidied {
    pub(crate) removed: Vec<Removed>,
    /// What stays, and why.
    pub(crate) kept: Vec<String>,
}

impl Tidied {
    /// What people read: only what they would miss.
    pub(crate) fn lines(&self) -> Vec<String> {
        let gone = self.removed.iter().filter_map(|removed| {
            let ignored = worktree::ignored_words(removed)?;
            Some(format!("removed {}; {ignored} (no commit has them)", path_line(&removed.path)))
        });
        gone.chain(self.kept.iter().cloned()).collect()
    }
}

/// Takes away the worktrees and branches of what landed. What stays is no error: it is said why.
pub(super) fn tidy(context: &Context, lander: &Lander, report: &Report) -> Tidied {
    let mut tidied = Tidied::default();
    for landed in &report.landed {
        let LandedTask { id, branch, head, .. } = landed;
        take_away(context, lander, (id, branch, head.as_str()), &mut tidied);
    }
    tidied
}

/// Goes on where landers were killed between the move of the target and this. What has not landed stays as it is.
pub(crate) fn tidy_leftovers(
    context: &Context,
    lander: &Lander,
    engine: &mut Engine<AnyStore>,
    tidied: &mut Tidied,
) {
    for (leftover, tidying) in lander.leftovers() {
        match standing(engine, &leftover) {
            Standing::Open => {}
            Standing::Never => tidying.done(),
            Standing::Over => {
                let Leftover { id, branch, head, .. } = &leftover;
                take_away(context, lander, (id, branch, head.as_str()), tidied);
                tidying.done();
            }
        }
    }
}

/// What a task that was about to land has come to.
enum Standing {
    /// It landed and is done.
    Over,
    /// It landed and is worked on, or nobody knows yet whether it landed.
    Open,
    /// It did not land.
    Never,
}

fn standing(engine: &mut Engine<AnyStore>, leftover: &Leftover) -> Standing {
    let is_unsettled = engine.unsettled().map_or(true, |all| all.iter().any(|it| it.id == leftover.id));
    let task = leftover.task.parse().ok().and_then(|task| engine.show(None, Some(&task)).ok());
    match task.map(|task| (task.value.landed.is_some(), task.value.state == State::Done)) {
        _ if is_unsettled => Standing::Open,
        Some((true, true)) => Standing::Over,
        Some((true, false)) | None => Standing::Open,
        Some((false, _)) => Standing::Never,
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
    // Deletes the branch, if it is one of ours and has not moved since: what it was is in the target.
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
