//! What is left of a task that landed: its worktree and its branch go, if nothing is lost by that.

use onus_host::landing::{Landings, Report};

use crate::commands::worktree;
use crate::context::Context;
use crate::output::path_line;

/// Takes away the worktrees and branches of what landed. What stays is no error: it is said why.
pub(super) fn tidy(context: &Context, landings: &Landings<'_>, report: &Report) -> Vec<String> {
    let worktrees = landings.lander.worktrees();
    let Ok(all) = worktrees.list() else { return Vec::new() };
    let mut lines = Vec::new();
    for landed in &report.landed {
        let Some(linked) = all.iter().find(|linked| linked.branch.as_deref() == Some(landed.branch.as_str()))
        else {
            // Nobody has it out: what it was is in the target.
            landings.forget_branch(landed);
            continue;
        };
        if linked.is_main {
            continue;
        }
        let path = path_line(&linked.path);
        if context.host.folder.starts_with(&linked.path) {
            lines.push(format!(
                "you are in {path}: `onus worktree remove {}` takes it away from elsewhere",
                landed.id
            ));
            continue;
        }
        match worktree::removed(context, worktrees, linked, false) {
            Ok(Some(removed)) => {
                if !removed.with_branch {
                    landings.forget_branch(landed);
                }
            }
            Ok(None) => {}
            Err(refusal) => lines.push(refusal.message),
        }
    }
    lines
}
