use onus_core::command::{Act, Command, Terms};

use crate::args::{Key, Target, force_of};
use crate::context::{Context, target};

/// Take over a task whose lease lapsed
///
/// A live lease is refused: its holder is trusted to be working. From then on the old holder's token is dead.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Why
    #[arg(long, value_name = "TEXT", required = true)]
    reason: String,
    #[command(flatten)]
    terms: super::claim::TermArgs,
    /// People only: revoke a live lease. Recorded
    #[arg(long)]
    force: bool,
    /// A decision or approval that allows it
    #[arg(long, value_name = "URL", requires = "force")]
    link: Option<String>,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let terms = Terms { reason: Some(args.reason.clone()), ..args.terms.terms(context)? };
    let force = force_of(args.force, Some(&args.reason), args.link.as_ref());
    let command = Command::OnTask { task: target(args.target.task)?, act: Act::Takeover(terms), force };
    let reply = context.run(command, args.key.key)?;
    super::claim::print(context, &reply)
}
