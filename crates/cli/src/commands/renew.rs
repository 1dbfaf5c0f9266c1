use onus_core::command::{Act, Command};

use crate::args::{Key, Target, parse_ms};
use crate::context::Context;
use onus_host::target;

/// Renew your lease with a sign of life
///
/// Renewing never shortens a lease. A lapsed lease continues under the same token if you could claim the task now.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Keep it for at least this long from now (90s, 15m, 2h)
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    ttl: Option<i64>,
    /// Move the work to the worktree you are in
    #[arg(long, conflicts_with = "ttl")]
    worktree: bool,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let act = match args.worktree {
        true => Act::Attach(context.host.attachment()),
        false => Act::Renew { progress: false, ttl_ms: args.ttl },
    };
    let reply =
        context.run(Command::OnTask { task: target(args.target.task)?, act, force: None }, args.key.key)?;
    super::claim::print(context, &reply)
}
