use onus_core::command::{Act, Command};

use crate::args::{Key, Target, parse_ms};
use crate::context::{Context, target};

/// Renew your lease: a sign of life. It never ends sooner for it
///
/// After a lapse it goes on under the same token, if you could claim the task now.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// How long from now it should live at least (90s, 15m, 2h)
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    ttl: Option<i64>,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let act = Act::Renew { progress: false, ttl_ms: args.ttl };
    let reply =
        context.run(Command::OnTask { task: target(args.target.task)?, act, force: None }, args.key.key)?;
    super::claim::print(context, &reply)
}
