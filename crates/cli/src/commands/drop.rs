use onus_core::transition::Verb;

use crate::args::MoveArgs;
use crate::context::Context;

/// Drop a task that will not be done
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    super::shift(context, Verb::Drop, args.how, "is dropped")
}
