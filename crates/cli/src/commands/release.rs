use onus_core::transition::Verb;

use crate::args::{ForceArgs, Key, Target};
use crate::context::Context;

/// Give back a task that you hold: it is open for anyone
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
    super::shift(context, Verb::Release, args.target, args.message, &args.force, args.key, "is free again")
}
