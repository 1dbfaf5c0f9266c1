use onus_core::transition::Verb;

use crate::args::MoveArgs;
use crate::context::Context;

/// Drop a task: it will not be done
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    super::shift(context, Verb::Drop, args.how, "is dropped")
}
