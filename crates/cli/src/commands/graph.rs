use std::collections::BTreeMap;

use clap::ValueEnum;
use onus_core::ids::TaskRef;
use onus_core::quote::counted;
use onus_core::refusal::Refusal;
use onus_engine::{GraphQuery, GraphView, NodeView};
use onus_store::Direction;

use crate::args::{parse, within};
use crate::context::Context;
use crate::drawing;
use crate::output::Output;

/// Show which tasks wait for which
///
/// A task waits for its dependencies and its parts. At the top of the tree are the tasks that no other waits for; under
/// each task are the ones it waits for. Given a task, it shows everything upstream and downstream of that task.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Only tasks connected to this one
    #[arg(value_name = "ID", value_parser = parse::<TaskRef>)]
    task: Option<TaskRef>,
    /// Only the tasks it waits for
    #[arg(long, requires = "task", conflicts_with = "downstream")]
    upstream: bool,
    /// Only the tasks that wait for it
    #[arg(long, requires = "task")]
    downstream: bool,
    /// Include finished tasks
    #[arg(long)]
    all: bool,
    /// The longest chain of unfinished tasks; of several, the one whose first task has the highest priority. Diagrams
    /// highlight it
    #[arg(long)]
    critical_path: bool,
    /// The N unfinished tasks that block the most others, directly or indirectly; default 10
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "10",
        value_parser = within(1_u16, 1000))]
    bottlenecks: Option<u16>,
    /// A tree for people, a diagram for Mermaid or Graphviz (dot), or JSON
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Show at most this many tasks; 0 shows all. Default: 200 in a tree
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Tree,
    Mermaid,
    Dot,
    Json,
}

/// How many tasks a tree shows by default.
const TREE_LIMIT: u32 = 200;
const BOTTLENECKS: u16 = 10;

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let format = match (args.format, context.out.json) {
        (None | Some(Format::Json), true) | (Some(Format::Json), false) => Format::Json,
        (None, false) => Format::Tree,
        (Some(format), false) => format,
        (Some(_), true) => return Err(Refusal::usage("--json cannot be combined with another --format")),
    };
    // If people ask for one of the two lists, they get it instead of the tree.
    let lists = format == Format::Tree && (args.critical_path || args.bottlenecks.is_some());
    let limit = match (lists, args.limit, format) {
        (true, ..) => Some(0),
        (_, Some(0), _) => None,
        (_, Some(limit), _) => Some(limit),
        (_, None, Format::Tree) => Some(TREE_LIMIT),
        (_, None, _) => None,
    };
    let query = GraphQuery {
        root: args.task,
        only: match (args.upstream, args.downstream) {
            (true, _) => Some(Direction::Upstream),
            (_, true) => Some(Direction::Downstream),
            _ => None,
        },
        finished: args.all,
        limit: limit.and_then(|limit| usize::try_from(limit).ok()),
        named: lists,
        bottlenecks: match (args.bottlenecks, format) {
            (Some(count), _) => count.into(),
            (None, Format::Json) => BOTTLENECKS.into(),
            (None, _) => 0,
        },
    };
    let (mut engine, identity) = context.host.reader()?;
    let mut looked = engine.graph(identity.as_ref(), &query)?;
    let (out, view) = (&context.out, &mut looked.value);
    match format {
        Format::Json => {
            out.document(&*view, &looked.notices);
            return Ok(());
        }
        Format::Tree if lists => {
            let mut pages = Vec::new();
            if args.critical_path {
                pages.push(critical_path(out, view, args.limit.unwrap_or(TREE_LIMIT)));
            }
            if args.bottlenecks.is_some() {
                pages.push(bottlenecks(out, view));
            }
            out.line(&pages.join("\n\n"));
        }
        Format::Tree => out.line(&drawing::tree(out, view)),
        Format::Mermaid | Format::Dot => {
            if !args.critical_path {
                view.critical_path.clear();
            }
            out.line(&if format == Format::Dot { drawing::dot(view) } else { drawing::mermaid(view) });
        }
    }
    out.notices(&looked.notices);
    Ok(())
}

fn by_id(view: &GraphView) -> BTreeMap<&str, &NodeView> {
    view.nodes.iter().map(|node| (node.id.as_str(), node)).collect()
}

fn critical_path(out: &Output, view: &GraphView, most: u32) -> String {
    if view.critical_path.is_empty() {
        return "no unfinished task waits for another".to_owned();
    }
    let count = view.critical_path.len();
    let shown = match usize::try_from(most) {
        Ok(most) if most > 0 => count.min(most),
        _ => count,
    };
    let nodes = by_id(view);
    let mut lines = vec![out.bold(&format!("critical path: {}", counted(count as u64, "task")))];
    for id in &view.critical_path[..shown] {
        lines.extend(nodes.get(id.as_str()).map(|node| format!("  {}", drawing::label(out, node))));
    }
    if shown < count {
        lines.push(out.dim(&format!("  … {} more: add --limit 0", count - shown)));
    }
    lines.join("\n")
}

fn bottlenecks(out: &Output, view: &GraphView) -> String {
    if view.bottlenecks.is_empty() {
        return "no unfinished task waits for another".to_owned();
    }
    let mut lines = vec![out.bold("bottlenecks: tasks waiting for each")];
    let nodes = by_id(view);
    for bottleneck in &view.bottlenecks {
        let label =
            nodes.get(bottleneck.id.as_str()).map(|node| drawing::label(out, node)).unwrap_or_default();
        lines.push(format!("  {:>4}  {label}", bottleneck.unblocks));
    }
    if !view.bottlenecks_complete {
        lines.push(out.dim("  the graph is dense, so the search was cut short: there may be bigger ones"));
    }
    lines.join("\n")
}
