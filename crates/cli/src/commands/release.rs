use onus_core::transition::Verb;

use crate::args::MoveArgs;
use crate::context::Context;

/// Give back a task that you hold: it is open for anyone
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    super::shift(context, Verb::Release, args.how, "is free again")
}
