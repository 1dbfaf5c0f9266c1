use onus_core::command::{Command, Terms};
use onus_engine::Answer;
use serde_json::json;

use crate::args::{Key, Target};
use crate::context::Context;
use crate::output::escape_line;

/// Take back your own last change to a task, if nothing happened to it since
///
/// A task that you finished, dropped, blocked, submitted or released is yours again (open, if it was not yours before); one that you
/// claimed is free; an edit, a dependency or a reserved path is as it was; a task that you added is dropped. The record keeps both: undoing is a change
/// like any other, and by the same rules. Notes, failures, approvals, handoffs, resets and overrides stay.
///
/// Without an ID it is the task you changed last. Undoing an undo takes that back too, unless that would need a message.
#[derive(clap::Args, Debug)]
#[command(mut_arg("task", |id| Target::by_default(id, "the task you changed last")))]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let terms =
        Terms { worktree: context.host.worktree(), branch: context.host.branch(), ..Terms::default() };
    // ONUS_TASK does not count here: without an ID, the task that was changed last is meant.
    let reply = context.run(Command::Undo { task: args.target.task, terms }, args.key.key)?;
    let Answer::Undone { task, undone, what } = &reply.answer else { return Err(super::unexpected()) };
    let mut value = json!(task);
    value["undone"] = json!(undone);
    context.out.reply(&reply, value, || {
        let held = if task.lease.is_some() { ", and yours" } else { "" };
        let what = what.map(|what| format!("{what}; ")).unwrap_or_default();
        format!("undone: {what}{} is {}{held}: {}", task.id, task.state.spoken(), escape_line(&task.title))
    });
    Ok(())
}
