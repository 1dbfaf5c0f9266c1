use onus_core::transition::Verb;

use crate::args::MoveArgs;
use crate::context::Context;

/// Approve a task in review, which makes it done
///
/// Only for actors who have not worked on it since it was last opened.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    super::shift(context, Verb::Approve, args.how, "is approved and done")
}
