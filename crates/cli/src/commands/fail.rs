use onus_core::transition::Verb;

use crate::args::MoveArgs;
use crate::context::Context;

/// Mark a task as failed; if you hold it, your lease ends
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    how: MoveArgs,
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    super::shift(context, Verb::Fail, args.how, "has failed")
}
