use onus_core::actor::ActorName;
use onus_core::command::{Act, Command};

use crate::args::{Key, Target, force_of, parse};
use crate::context::{Context, target};

/// Hand a task to another actor: open, and kept for them for a while
///
/// Your lease ends. For lease.keep nobody else may claim the task; then it is open for anyone.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Who shall go on
    #[arg(long, value_name = "ACTOR", value_parser = parse::<ActorName>)]
    to: ActorName,
    /// Why, and what they should know
    #[arg(long, value_name = "TEXT", required = true)]
    reason: String,
    /// People only: hand off a task that another holds. Recorded
    #[arg(long)]
    force: bool,
    /// A decision or approval that allows it
    #[arg(long, value_name = "URL", requires = "force")]
    link: Option<String>,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let force = force_of(args.force, Some(&args.reason), args.link.as_ref());
    let act = Act::Handoff { to: args.to.clone(), reason: args.reason };
    let reply = context.run(Command::OnTask { task: target(args.target.task)?, act, force }, args.key.key)?;
    super::print_lease(context, &reply, |task| format!("{} is kept for {}", task.id, args.to))
}
