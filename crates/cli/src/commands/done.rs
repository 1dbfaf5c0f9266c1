use onus_core::refusal::Refusal;
use onus_core::transition::Verb;

use crate::args::{ForceArgs, Key, MoveArgs, Targets};
use crate::context::Context;

/// Finish the task you hold, with a note of what was done
///
/// A ready task that nobody holds is claimed first, so small work takes one command. Several tasks may be named; each is
/// finished on its own. `close`, `complete` and `finish` do the same.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
    /// What was done (- reads standard input)
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    force: ForceArgs,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    if args.message.is_none() {
        return Err(Refusal::usage("done needs a note: add -m 'what was done'"));
    }
    let Args { targets, message, force, key } = args;
    super::shift(context, Verb::Done, MoveArgs { targets, message, force, key }, "is done")
}
