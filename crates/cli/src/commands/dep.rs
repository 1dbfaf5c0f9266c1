use clap::Subcommand;
use onus_core::command::{Act, Command};
use onus_core::ids::TaskRef;

use crate::args::{ForceArgs, Key, Target, parse};
use crate::context::Context;
use crate::output::{Output, escape_line, state_style};
use crate::table::{Aside, Row, shortened, table};
use onus_engine::LinkView;
use onus_host::target;

/// Change which tasks must be done before another
///
/// Without a command, it lists what the one task you hold depends on.
#[derive(Subcommand, Debug)]
pub(crate) enum Action {
    /// Make a task depend on others: it is not ready until they are done
    ///
    /// A dependency that would close a cycle is refused, and the cycle is shown.
    Add(Edge),
    /// Remove dependencies of a task
    Rm(Edge),
    /// List what a task depends on, and what depends on it
    List(Target),
}

#[derive(clap::Args, Debug)]
pub(crate) struct Edge {
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

pub(crate) fn run(context: &Context, action: Option<Action>) -> super::Result {
    let (edge, adds) = match action.unwrap_or(Action::List(Target { task: None })) {
        Action::Add(edge) => (edge, true),
        Action::Rm(edge) => (edge, false),
        Action::List(of) => return list(context, of),
    };
    let act = if adds { Act::AddDeps { on: edge.on } } else { Act::RemoveDeps { on: edge.on } };
    let command = Command::OnTask { task: Some(edge.task), act, force: edge.force.force() };
    let reply = context.run(command, edge.key.key)?;
    let task = super::task_of(&reply)?;
    context.out.reply(&reply, serde_json::json!(task), || {
        let unchanged = if reply.unchanged { " is unchanged: it" } else { "" };
        match task.deps.as_slice() {
            [] => format!("{}{unchanged} depends on nothing", task.id),
            deps => {
                format!("{}{unchanged} depends on {}; {} not done yet", task.id, deps.join(", "), task.unmet)
            }
        }
    });
    Ok(())
}

fn list(context: &Context, of: Target) -> super::Result {
    let (mut engine, identity) = context.host.reader()?;
    let looked = engine.links(identity.as_ref(), target(of.task)?.as_ref())?;
    let (out, links) = (&context.out, &looked.value);
    out.document_or(links, &looked.notices, || {
        let room = out.width.map_or(usize::MAX, |width| {
            width.saturating_sub(links.id.len() + links.state.spoken().len() + 2)
        });
        let title = shortened(&escape_line(&links.title), room.max(12));
        out.line(&format!("{} {} {title}", out.bold(&links.id), out.state(links.state)));
        for (title, list) in [("needs", &links.needs), ("needed by", &links.needed_by)] {
            out.line(&format!("\n{}", out.bold(title)));
            out.line(&linked(out, list));
        }
    });
    Ok(())
}

fn linked(out: &Output, list: &[LinkView]) -> String {
    let plain = anstyle::Style::new();
    let rows: Vec<Row> = list
        .iter()
        .map(|link| Row {
            cells: vec![
                (format!("  {}", link.id), plain.bold()),
                (link.state.spoken().to_owned(), state_style(link.state)),
            ],
            title: escape_line(&link.title),
            aside: link.holder.as_deref().map(|holder| Aside::Whole(escape_line(holder))),
        })
        .collect();
    if rows.is_empty() { out.dim("  (nothing)") } else { table(out, &rows) }
}
