use onus_engine::{TaskView, WhyView};
use serde_json::json;

use crate::context::Context;
use crate::output::{Output, escape_line};
use crate::render;

use super::list::PageArgs;

/// What you could claim now, the best first
///
/// Open tasks of your tier that wait for nothing and are not kept for another: by priority, then by how many unfinished
/// tasks depend on them, then by age. Then tasks whose agent's lease lapsed. A person's are never among them.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    page: PageArgs,
    /// Say what ranks each, and what is left out and why
    #[arg(long)]
    explain: bool,
}

/// How many tasks that are not ready are explained.
const LEFT_OUT: usize = 20;

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (mut engine, identity) = context.reader()?;
    if !args.explain {
        let looked = engine.ready(identity.as_ref(), args.page.limit)?;
        super::list::print(context, &looked);
        return Ok(());
    }
    let looked = engine.ready_explained(identity.as_ref(), args.page.limit, LEFT_OUT)?;
    let (out, explained) = (&context.out, &looked.value);
    if out.json {
        let value =
            json!({ "tasks": explained.tasks, "left_out": explained.left_out, "more": explained.more });
        out.document(value, &looked.notices);
        return Ok(());
    }
    let mut lines = vec![out.bold("ready")];
    lines.extend(explained.tasks.iter().map(|task| ranked(out, task)));
    if explained.tasks.is_empty() {
        lines.push(out.dim("  (none)"));
    }
    if !explained.left_out.is_empty() {
        lines.extend([String::new(), out.bold("left out")]);
        lines.extend(explained.left_out.iter().map(|why| left_out(out, why)));
    }
    if explained.more > 0 {
        lines.push(out.dim(&format!("  and {} more: onus list, then onus why ID", explained.more)));
    }
    out.line(&lines.join("\n"));
    out.notices(&looked.notices);
    Ok(())
}

/// A task that is ready, and what puts it where it stands.
fn ranked(out: &Output, task: &TaskView) -> String {
    let waiting = match task.open_dependents {
        0 => "nothing waits for it".to_owned(),
        1 => "1 task waits for it".to_owned(),
        n => format!("{n} tasks wait for it"),
    };
    let lapsed = task.lease.as_ref().filter(|_| task.takeover == Some(true));
    let last =
        lapsed.map(|lease| format!("; after fresh work: {}", render::lease(lease))).unwrap_or_default();
    let why = format!("{}; {waiting}; {} old{last}", task.priority, render::age(&task.created_at));
    format!("  {} {}\n{}", task.id, escape_line(&task.title), out.dim(&format!("    {why}")))
}

/// A task that is not ready, and the first thing in its way.
fn left_out(out: &Output, why: &WhyView) -> String {
    let first = why.obstacles.first();
    let more = match why.obstacles.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    let message = first.map(|obstacle| escape_line(&obstacle.message)).unwrap_or_default();
    let mut text = format!("  {} {}\n    {message}{more}", why.id, escape_line(&why.title));
    if let Some(next) = first.and_then(|obstacle| obstacle.next.as_ref()) {
        text.push_str(&format!("\n{}", out.dim(&format!("    next: {next}"))));
    }
    text
}
