use onus_core::command::Command;

use crate::args::{MoveArgs, text_or_stdin};
use crate::context::{Context, target};

/// Try a failed task again
///
/// It is open again and the attempt is counted; past its limit (retry.max_attempts, or the task's own) it is refused.
/// What dead holders keep downstream of it is freed; a living holder is left alone.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let how = args.how;
    let message = how.force.message(how.message).map(text_or_stdin).transpose()?;
    let command = Command::Retry { task: target(how.target.task)?, message, force: how.force.force() };
    let reply = context.run(command, how.key.key)?;
    let task = super::task_of(&reply)?;
    context.out.reply(&reply, serde_json::json!(task), || {
        format!("{} is open again, attempt {}", task.id, task.attempts)
    });
    Ok(())
}
