use onus_core::command::{Act, Command, Terms};

use crate::args::{Key, Target, force_of};
use crate::context::Context;
use onus_host::target;

use super::worktree::making::{self, ClaimWorktree};

/// Take over a task whose lease has lapsed
///
/// The old holder's token is dead from then on. A live lease cannot be taken over, unless a person forces it: its
/// holder is trusted to be working.
#[derive(clap::Args, Debug)]
#[command(mut_arg("task", |id| Target::by_default(id, "ONUS_TASK")))]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Why
    #[arg(long, value_name = "TEXT", required = true)]
    reason: String,
    #[command(flatten)]
    terms: super::claim::TermArgs,
    #[command(flatten)]
    place: ClaimWorktree,
    /// People only: revoke a live lease; the override is recorded
    #[arg(long)]
    force: bool,
    /// A decision or approval that allows the override
    #[arg(long, value_name = "URL", requires = "force")]
    link: Option<String>,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let terms = Terms { reason: Some(args.reason.clone()), ..args.terms.terms(context)? };
    let (terms, prepared) = args.place.prepare(context, terms)?;
    let force = force_of(args.force, Some(&args.reason), args.link.as_ref());
    let command = Command::OnTask { task: target(args.target.task)?, act: Act::Takeover(terms), force };
    let reply = context.run(command, args.key.key)?;
    making::answer(context, prepared, &reply)
}
