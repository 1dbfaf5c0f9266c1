use onus_core::transition::Verb;

use crate::args::{MoveArgs, Targets};
use crate::context::Context;

/// Reopen a finished or dropped task
///
/// A dropped proposal is a proposal again, and a dropped task that had failed has failed: reopening neither accepts nor retries.
#[derive(clap::Args, Debug)]
#[command(mut_arg("tasks", Targets::unheld))]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    super::shift_to(context, Verb::Reopen, args.how, |task| format!("is {} again", task.state.spoken()))
}
