use onus_core::transition::Verb;

use crate::args::MoveArgs;
use crate::context::Context;

/// Unblock a task, which makes it open again
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    super::shift(context, Verb::Unblock, args.how, "is open again")
}
