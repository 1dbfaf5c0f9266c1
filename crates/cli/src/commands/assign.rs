use onus_core::command::Act;

use crate::args::{PassOn, parse_ms};
use crate::context::Context;

/// Keep a task for one actor; nobody else can claim it meanwhile
///
/// Their first claim makes it theirs. If they do not claim it in time, it is open to everyone again. If you hold it, your
/// lease ends, as with `onus handoff`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pass_on: PassOn,
    /// How long to keep it for them (90s, 15m, 2h); default: lease.keep
    #[arg(long = "for", value_name = "TIME", value_parser = parse_ms)]
    keep: Option<i64>,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let keep_ms = args.keep;
    let (command, key) = args.pass_on.command(|to, reason| Act::Assign { to, keep_ms, reason })?;
    let reply = context.run(command, key)?;
    super::print_lease(context, &reply, super::kept)
}
