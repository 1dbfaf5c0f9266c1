//! The commands that only move a task from one state to another.

use clap::Subcommand;
use onus_core::command::{Act, Command};
use onus_core::refusal::Refusal;
use onus_core::transition::Verb;
use onus_engine::TaskView;

use crate::args::{MoveArgs, Target, text_or_stdin};
use crate::context::Context;
use crate::output::escape_line;

#[derive(Subcommand, Debug)]
pub(crate) enum Move {
    /// Finish the task you hold, with a note of what was done
    ///
    /// A ready task that nobody holds is claimed first, so small work takes one command. Several tasks may be named; each is
    /// finished on its own. `close`, `complete` and `finish` do the same.
    #[command(visible_aliases = ["close", "complete", "finish"])]
    #[command(mut_arg("message", |message| message.help("What was done (- reads standard input)")))]
    Done(MoveArgs),
    /// Give back a task you hold, so that anyone can claim it
    Release(MoveArgs),
    /// Accept a proposed task, which makes it open
    #[command(mut_arg("tasks", |ids| Target::by_default(ids, "ONUS_TASK")))]
    Accept(MoveArgs),
    /// Mark a task as blocked; if you hold it, your lease ends
    Block(MoveArgs),
    /// Unblock a task, which makes it open again
    #[command(mut_arg("tasks", |ids| Target::by_default(ids, "ONUS_TASK")))]
    Unblock(MoveArgs),
    /// Submit the task you hold for review; your lease ends
    Submit(MoveArgs),
    /// Approve a task in review, which makes it done
    ///
    /// Only for actors who have not worked on it since it was last opened.
    #[command(mut_arg("tasks", |ids| Target::by_default(ids, "ONUS_TASK")))]
    Approve(MoveArgs),
    /// Reject a task in review: it reopens, kept for its submitter for a while
    #[command(mut_arg("tasks", |ids| Target::by_default(ids, "ONUS_TASK")))]
    Reject(MoveArgs),
    /// Mark a task as failed; if you hold it, your lease ends
    Fail(MoveArgs),
    /// Drop a task that will not be done
    Drop(MoveArgs),
    /// Reopen a finished or dropped task
    ///
    /// A dropped proposal is a proposal again, and a dropped task that had failed has failed: reopening neither accepts nor retries.
    #[command(mut_arg("tasks", |ids| Target::by_default(ids, "ONUS_TASK")))]
    Reopen(MoveArgs),
    /// Retry a failed task
    ///
    /// The task opens again and the attempt is counted; past the limit (the task's own, or retry.max_attempts) it is refused.
    /// Downstream tasks that dead holders still hold are freed; living holders are left alone.
    #[command(mut_arg("tasks", |ids| Target::by_default(ids, "ONUS_TASK")))]
    Retry(MoveArgs),
}

pub(crate) fn run(context: &Context, step: Move) -> super::ExitCode {
    let (verb, how, past) = match step {
        Move::Done(how) if how.message.is_none() => {
            return Err(Refusal::usage("done needs a note: add -m 'what was done'"));
        }
        Move::Done(how) => (Verb::Done, how, "is done"),
        Move::Release(how) => (Verb::Release, how, "is free again"),
        Move::Accept(how) => (Verb::Accept, how, "accepted"),
        Move::Block(how) => (Verb::Block, how, "is blocked"),
        Move::Unblock(how) => (Verb::Unblock, how, "is open again"),
        Move::Submit(how) => (Verb::Submit, how, "is in review"),
        Move::Approve(how) => (Verb::Approve, how, "is approved and done"),
        Move::Reject(how) => (Verb::Reject, how, "goes back to its submitter"),
        Move::Fail(how) => (Verb::Fail, how, "has failed"),
        Move::Drop(how) => (Verb::Drop, how, "is dropped"),
        // The state depends on what the task was before.
        Move::Reopen(how) => {
            let past = |task: &TaskView| format!("is {} again", task.state.spoken());
            return shift(context, Verb::Reopen, how, past);
        }
        Move::Retry(how) => return retry(context, how),
    };
    shift(context, verb, how, |_| past.to_owned())
}

/// Carries out a verb of the transition table that takes only a message; `past` words the result.
fn shift(
    context: &Context,
    verb: Verb,
    how: MoveArgs,
    past: impl Fn(&TaskView) -> String,
) -> super::ExitCode {
    let message = how.force.message(how.message).map(text_or_stdin).transpose()?;
    let force = how.force.force();
    let command =
        |task| Command::OnTask { task, act: Act::moved(verb, message.clone()), force: force.clone() };
    super::each(context, how.targets, how.key, command, |task| {
        format!("{} {}: {}", task.id, past(task), escape_line(&task.title))
    })
}

fn retry(context: &Context, how: MoveArgs) -> super::ExitCode {
    let message = how.force.message(how.message).map(text_or_stdin).transpose()?;
    let force = how.force.force();
    let command = |task| Command::Retry { task, message: message.clone(), force: force.clone() };
    super::each(context, how.targets, how.key, command, |task| {
        format!("{} is open again (retry {})", task.id, task.attempts)
    })
}
