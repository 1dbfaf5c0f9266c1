use onus_core::actor;
use onus_core::command::Command;
use onus_core::quote::counted;
use onus_core::refusal::Refusal;
use onus_core::task::State;
use onus_engine::{Answer, TouchedView};
use serde_json::json;

use crate::args::{Key, Target, force_of};
use crate::context::Context;
use crate::output::{Output, escape_line};
use onus_host::target;

/// Put a task and everything downstream of it back to open
///
/// Ends their leases and tokens; proposed and dropped tasks stay as they are. Either all tasks are reset or none. If
/// others have live leases on any of them, the reset is refused unless a person forces it: look first with --dry-run.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Why
    #[arg(long, value_name = "TEXT", required_unless_present = "dry_run")]
    reason: Option<String>,
    /// List every task that would be reset, and who holds it; change nothing
    #[arg(long)]
    dry_run: bool,
    /// People only: end live leases of others; the override is recorded
    #[arg(long)]
    force: bool,
    /// A decision or approval that allows the override
    #[arg(long, value_name = "URL", requires = "force")]
    link: Option<String>,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let task = target(args.target.task)?;
    if args.dry_run {
        let (mut engine, identity) = context.host.reader()?;
        let looked = engine.reset_preview(identity.as_ref(), task.as_ref())?;
        let value = json!({ "touched": looked.value, "dry_run": true });
        let prose = || list(&context.out, &looked.value, ("would be open again", ""));
        context.out.show(value, &looked.notices, prose);
        return Ok(());
    }
    let Some(reason) = args.reason else {
        return Err(Refusal::usage("a reset needs a reason: add --reason 'why'"));
    };
    let force = force_of(args.force, Some(&reason), args.link.as_ref());
    let reply = context.run(Command::Reset { task, reason, force }, args.key.key)?;
    let Answer::Reset { task, touched } = &reply.answer else { return Err(super::unexpected()) };
    let mut value = json!(task);
    value["touched"] = json!(touched);
    context.out.reply(&reply, value, || list(&context.out, touched, ("open again", "was ")));
    Ok(())
}

/// The tasks with their states before the reset; `was` is put before each state.
fn list(out: &Output, touched: &[TouchedView], (what, was): (&str, &str)) -> String {
    let stays = |task: &TouchedView| task.state == State::Open && task.lease.is_none();
    if let [task] = touched
        && stays(task)
    {
        return format!("{} is already open, and nothing after it needs a reset", task.id);
    }
    let mut lines = vec![format!("{} {what}", counted(touched.len() as u64, "task"))];
    for task in touched {
        let held = task.lease.as_ref().map(|lease| {
            let alive = if lease.live { "live" } else { "lapsed" };
            format!(", held by {}, {alive}", actor::spoken(&lease.actor, &lease.instance))
        });
        let was = if stays(task) { "already " } else { was };
        let state = format!("({was}{}{})", task.state.spoken(), held.unwrap_or_default());
        lines.push(format!("  {} {} {}", task.id, escape_line(&task.title), out.dim(&state)));
    }
    lines.join("\n")
}
