use onus_core::refusal::{Refusal, Step};
use onus_engine::{TaskView, WhyView};
use serde_json::json;

use crate::context::Context;
use crate::listing::Listing;
use crate::output::{Output, escape_line, note};
use crate::{render, wording};

use super::list::PageArgs;

/// List the tasks you can claim now, best first
///
/// Open tasks within your tier that wait for nothing and are not kept for another actor, ordered by priority; of one
/// priority, what is kept for you comes first, then what most unfinished tasks depend on, then the oldest. After them come tasks whose
/// lease has lapsed, but only agents': a person's task is never offered.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    page: PageArgs,
    /// Explain the order, and why other tasks are left out
    #[arg(long)]
    explain: bool,
}

/// The most tasks that are not ready for which a reason is given.
const LEFT_OUT: usize = 20;

pub(crate) fn run(context: &Context, args: Args) -> Result<u8, Refusal> {
    let (mut engine, identity) = context.host.reader()?;
    if !args.explain {
        let mut listing = Listing::new(&context.out);
        let looked =
            engine.ready_in_sheets(identity.as_ref(), args.page.limit, &mut |tasks| listing.sheet(tasks));
        let code = listing.end(looked)?;
        if listing.is_empty && !context.out.json {
            for step in [Step::ExplainReady, Step::ListTasks].iter().filter_map(wording::step) {
                note(&format!("  next: {step}"));
            }
        }
        return Ok(code);
    }
    let looked = engine.ready_explained(identity.as_ref(), args.page.limit, LEFT_OUT)?;
    let (out, explained) = (&context.out, &looked.value);
    let worded: Vec<_> = explained.left_out.iter().map(|why| why.worded(&wording::step)).collect();
    let value = json!({ "tasks": explained.tasks, "left_out": worded, "more": explained.more });
    out.show(value, &looked.notices, || {
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
        lines.join("\n")
    });
    Ok(0)
}

/// A task that is ready, and the reasons for its rank.
fn ranked(out: &Output, task: &TaskView) -> String {
    let waiting = match task.open_dependents {
        0 => "nothing waits for it".to_owned(),
        1 => "1 task waits for it".to_owned(),
        n => format!("{n} tasks wait for it"),
    };
    let lapsed = task.lease.as_ref().filter(|_| task.takeover == Some(true));
    let last =
        lapsed.map(|lease| format!("; after fresh work: {}", render::lease(lease))).unwrap_or_default();
    let kept = if task.kept_for.is_some() { "; kept for you" } else { "" };
    let why = format!("{}{kept}; {waiting}; {} old{last}", task.priority, render::age(&task.created_at));
    format!("  {} {}\n{}", task.id, escape_line(&task.title), out.dim(&format!("    {why}")))
}

/// A task that is not ready, and its first obstacle.
fn left_out(out: &Output, why: &WhyView) -> String {
    let first = why.obstacles.first();
    let more = match why.obstacles.len() {
        0 | 1 => String::new(),
        2 => "; and 1 more reason".to_owned(),
        n => format!("; and {} more reasons", n - 1),
    };
    let message = first.map(|obstacle| escape_line(&obstacle.message)).unwrap_or_default();
    let mut text = format!("  {} {}\n    {message}{more}", why.id, escape_line(&why.title));
    if let Some(next) = first.and_then(|obstacle| wording::step(obstacle.next.as_ref()?)) {
        text.push_str(&format!("\n{}", out.dim(&format!("    next: {next}"))));
    }
    text
}
