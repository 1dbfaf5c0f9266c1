use onus_core::transition::Verb;

use crate::args::MoveArgs;
use crate::context::Context;

/// Reject a task in review: it reopens, kept for its submitter for a while
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    super::shift(context, Verb::Reject, args.how, "goes back to its submitter")
}
