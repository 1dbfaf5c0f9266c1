use onus_core::transition::Verb;

use crate::args::MoveArgs;
use crate::context::Context;

/// Accept a proposed task: it becomes open
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    super::shift(context, Verb::Accept, args.how, "accepted")
}
