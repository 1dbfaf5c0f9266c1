//! The commands that pass a task on to another actor, for whom it is kept for a while.

use clap::Subcommand;
use onus_core::actor::ActorName;
use onus_core::command::{Act, Command};
use onus_engine::TaskView;
use onus_host::target;

use crate::args::{Key, Target, force_of, parse, parse_ms};
use crate::context::Context;

#[derive(Subcommand, Debug)]
pub(crate) enum Pass {
    /// Keep a task for one actor; nobody else can claim it meanwhile
    ///
    /// Their first claim makes it theirs. If they do not claim it in time, it is open to everyone again. If you hold it, your
    /// lease ends, as with `onus handoff`.
    Assign {
        #[command(flatten)]
        on: PassOn,
        /// How long to keep it for them (90s, 15m, 2h); default: lease.keep
        #[arg(long = "for", value_name = "TIME", value_parser = parse_ms)]
        keep_ms: Option<i64>,
    },
    /// Hand a task to another actor, for whom it is kept for a while
    ///
    /// Your lease ends and the task is open. For the time lease.keep allows (60 min by default) only that actor may claim it;
    /// after that, anyone may.
    Handoff(PassOn),
}

#[derive(clap::Args, Debug)]
pub(crate) struct PassOn {
    #[command(flatten)]
    target: Target,
    /// Actor to pass the task on to
    #[arg(long, value_name = "ACTOR", value_parser = parse::<ActorName>)]
    to: ActorName,
    /// Why, and what the next holder should know
    #[arg(long, value_name = "TEXT", required = true)]
    reason: String,
    /// People only: pass on a task that another actor holds; the override is recorded
    #[arg(long)]
    force: bool,
    /// A decision or approval that allows the override
    #[arg(long, value_name = "URL", requires = "force")]
    link: Option<String>,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, pass: Pass) -> super::Result {
    match pass {
        Pass::Assign { on, keep_ms } => {
            pass_on(context, on, |to, reason| Act::Assign { to, keep_ms, reason })
        }
        Pass::Handoff(on) => pass_on(context, on, |to, reason| Act::Handoff { to, reason }),
    }
}

fn pass_on(context: &Context, on: PassOn, act: impl FnOnce(ActorName, String) -> Act) -> super::Result {
    let force = force_of(on.force, Some(&on.reason), on.link.as_ref());
    let command = Command::OnTask { task: target(on.target.task)?, act: act(on.to, on.reason), force };
    super::print_lease(context, &context.run(command, on.key.key)?, kept)
}

/// For whom a task is kept, and for how long.
fn kept(task: &TaskView) -> String {
    match &task.kept_for {
        Some(kept) => {
            let left = crate::render::seconds(kept.expires_in_s);
            format!("{} is kept for {} for {left}", task.id, kept.actor)
        }
        // A replay after that time: the task is open to everyone by now.
        None => format!("{} was passed on", task.id),
    }
}
