use onus_core::transition::Verb;

use crate::args::MoveArgs;
use crate::context::Context;

/// Accept a proposed task, which makes it open
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    super::shift(context, Verb::Accept, args.how, "accepted")
}
