use clap::Subcommand;
use onus_core::command::{Act, Command};
use onus_core::ids::TaskRef;
use onus_engine::TaskView;
use serde_json::json;

use crate::args::{Key, Target, parse};
use crate::context::Context;
use crate::output::escape_line;
use onus_host::target;

/// Show or change the paths your lease reserves
///
/// Globs start at the repository's root: * and ? within a name, ** across folders, [a-z], {a,b}. `src/` is everything in
/// src. No two live leases reserve the same path, unless both share it.
///
/// Without a command, it shows those of the one task you hold.
#[derive(Subcommand, Debug)]
pub(crate) enum Action {
    /// Reserve more paths: all of them, or none
    Add(Change),
    /// Release reserved paths, written as `scope show` prints them
    Rm(Change),
    /// Show what a task declares, and what its holder reserves
    Show(Target),
}

#[derive(clap::Args, Debug)]
pub(crate) struct Change {
    /// Globs from the repository's root
    #[arg(value_name = "GLOB", required = true)]
    globs: Vec<String>,
    /// The task; default: ONUS_TASK, or else the one task you hold
    #[arg(long, value_name = "ID", value_parser = parse::<TaskRef>)]
    task: Option<TaskRef>,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, action: Option<Action>) -> super::Result {
    let (change, adds) = match action.unwrap_or(Action::Show(Target { task: None })) {
        Action::Show(of) => return show(context, of),
        Action::Add(change) => (change, true),
        Action::Rm(change) => (change, false),
    };
    let act = if adds {
        let (scope, areas) = context.scope(&change.globs)?;
        Act::AddScope { scope, areas }
    } else {
        Act::RemoveScope { scope: onus_host::scopes::unreserved(&context.host, &change.globs)? }
    };
    let command = Command::OnTask { task: target(change.task)?, act, force: None };
    let reply = context.run(command, change.key.key)?;
    super::print_lease(context, &reply, prose)
}

fn show(context: &Context, of: Target) -> super::Result {
    let (mut engine, identity) = context.host.reader()?;
    let looked = engine.show(identity.as_ref(), target(of.task)?.as_ref())?;
    let task = &looked.value;
    let reserved = task.lease.as_ref().map(|lease| &lease.scope);
    let mode = task.lease.as_ref().map_or(task.scope_mode, |lease| lease.mode);
    let value = json!({ "id": task.id, "declared": task.scope, "reserved": reserved, "mode": mode });
    context.out.show(value, &looked.notices, || prose(task));
    Ok(())
}

fn prose(task: &TaskView) -> String {
    let list = |title: String, globs: &[String]| {
        let lines = globs.iter().map(|glob| format!("\n  {}", escape_line(glob)));
        format!("{title}{}", lines.collect::<String>())
    };
    match &task.lease {
        None if task.scope.is_empty() => format!("{}, held by nobody, declares no paths", task.id),
        None => list(format!("{}, held by nobody, declares:", task.id), &task.scope),
        Some(lease) if lease.scope.is_empty() => {
            format!("{}, held by {}, reserves nothing", task.id, lease.actor)
        }
        Some(lease) => {
            list(format!("{}, held by {}, reserves ({}):", task.id, lease.actor, lease.mode), &lease.scope)
        }
    }
}
