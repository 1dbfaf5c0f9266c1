use onus_core::command::Command;

use crate::args::{MoveArgs, Targets, text_or_stdin};
use crate::context::Context;

/// Retry a failed task
///
/// The task opens again and the attempt is counted; past the limit (the task's own, or retry.max_attempts) it is refused.
/// Downstream tasks that dead holders still hold are freed; living holders are left alone.
#[derive(clap::Args, Debug)]
#[command(mut_arg("tasks", Targets::unheld))]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    let how = args.how;
    let message = how.force.message(how.message).map(text_or_stdin).transpose()?;
    let force = how.force.force();
    let command = |task| Command::Retry { task, message: message.clone(), force: force.clone() };
    super::each(context, how.targets, how.key, command, |task| {
        format!("{} is open again (retry {})", task.id, task.attempts)
    })
}
