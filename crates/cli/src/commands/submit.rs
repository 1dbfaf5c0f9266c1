use onus_core::transition::Verb;

use crate::args::MoveArgs;
use crate::context::Context;

/// Submit the task you hold for review; your lease ends
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    super::shift(context, Verb::Submit, args.how, "is in review")
}
