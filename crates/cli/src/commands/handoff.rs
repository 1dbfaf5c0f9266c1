use onus_core::command::Act;

use crate::args::PassOn;
use crate::context::Context;

/// Hand a task to another actor, for whom it is kept for a while
///
/// Your lease ends and the task is open. For the time lease.keep allows (60 min by default) only that actor may claim it;
/// after that, anyone may.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pass_on: PassOn,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (command, key) = args.pass_on.command(|to, reason| Act::Handoff { to, reason })?;
    let reply = context.run(command, key)?;
    super::print_lease(context, &reply, super::kept)
}
