use onus_core::transition::Verb;

use crate::args::{ForceArgs, Key, Target};
use crate::context::Context;

/// Say that a task cannot go on; if you hold it, your lease ends
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Why, or what the next one should know (- reads standard input)
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    force: ForceArgs,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    super::shift(context, Verb::Block, args.target, args.message, &args.force, args.key, "is blocked")
}
