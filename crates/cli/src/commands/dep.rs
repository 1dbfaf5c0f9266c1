use clap::Subcommand;
use onus_core::command::Act;
use onus_core::ids::TaskRef;

use crate::args::{ForceArgs, Key, Target, parse};
use crate::context::Context;

/// Say which tasks must be done before another
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Let a task depend on others: it is not ready before they are done
    ///
    /// What would wait for itself is refused, with the circle shown.
    Add(Edge),
    /// Let a task no longer depend on others
    Rm(Edge),
}

#[derive(clap::Args, Debug)]
struct Edge {
    /// The task that waits
    #[arg(value_name = "ID", value_parser = parse::<TaskRef>)]
    task: TaskRef,
    /// The tasks it waits for
    #[arg(value_name = "ON", required = true, value_parser = parse::<TaskRef>)]
    on: Vec<TaskRef>,
    #[command(flatten)]
    force: ForceArgs,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (edge, adds) = match args.action {
        Action::Add(edge) => (edge, true),
        Action::Rm(edge) => (edge, false),
    };
    let act = if adds { Act::AddDeps { on: edge.on } } else { Act::RemoveDeps { on: edge.on } };
    let target = Target { task: Some(edge.task) };
    let command = onus_core::command::Command::OnTask { task: target.task, act, force: edge.force.force() };
    let reply = context.run(command, edge.key.key)?;
    let task = super::task_of(&reply)?;
    context.out.reply(&reply, serde_json::json!(task), || match task.deps.as_slice() {
        [] => format!("{} depends on nothing", task.id),
        deps => format!("{} depends on {}; {} not done", task.id, deps.join(", "), task.unmet),
    });
    Ok(())
}
