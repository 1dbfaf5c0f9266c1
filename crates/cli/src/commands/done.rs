use onus_core::refusal::Refusal;
use onus_core::transition::Verb;

use crate::args::{ForceArgs, Key, MoveArgs, Target};
use crate::context::Context;

/// Finish the task you hold, with a note of what was done
///
/// On a ready task that nobody holds it claims it first: small work is one command. close and complete are
/// understood too.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// What was done (- reads standard input)
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    force: ForceArgs,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    if args.message.is_none() {
        return Err(Refusal::usage("done needs a resolution note: add -m 'what was done'"));
    }
    let Args { target, message, force, key } = args;
    super::shift(context, Verb::Done, MoveArgs { target, message, force, key }, "is done")
}
