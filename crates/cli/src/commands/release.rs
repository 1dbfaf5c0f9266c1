use onus_core::transition::Verb;

use crate::args::MoveArgs;
use crate::context::Context;

/// Give back a task you hold, so that anyone can claim it
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    super::shift(context, Verb::Release, args.how, "is free again")
}
