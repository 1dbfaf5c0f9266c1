use onus_engine::{ForecastView, WhyView};
use serde_json::json;

use crate::args::Target;
use crate::context::Context;
use crate::output::{Output, escape_line};
use crate::{render, wording};
use onus_host::target;

/// Explain why a task cannot be claimed now, and what would help
///
/// Lists every obstacle with its next step: unmet dependencies, unfinished parts, a holder, scope conflicts, a schedule, a
/// tier. Below that, what its branch cannot be merged with: another task's branch, or the one to land in.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (mut engine, identity) = context.host.reader()?;
    let looked = engine.why(identity.as_ref(), target(args.target.task)?.as_ref())?;
    let all = context.host.forecast(&mut engine);
    let forecast = ForecastView { conflicts: all.of(|task, _| task == looked.value.id), ..all };
    let mut value = json!(looked.value.worded(&wording::step));
    value["forecast"] = json!(forecast);
    context.out.document_or(value, &looked.notices, || {
        context.out.prose(&prose(&context.out, &looked.value));
        render::forecast(&context.out, &forecast);
    });
    Ok(())
}

fn prose(out: &Output, why: &WhyView) -> String {
    let title = escape_line(&why.title);
    if why.ready {
        return format!(
            "{} is ready: {title}\n{}",
            why.id,
            out.dim(&format!("  next: onus claim {}", why.id))
        );
    }
    let mut lines = vec![format!("{} is not ready: {title}", why.id)];
    for obstacle in &why.obstacles {
        lines.push(format!("  {}", escape_line(&obstacle.message)));
        if let Some(next) = obstacle.next.as_ref().and_then(wording::step) {
            lines.push(out.dim(&format!("    next: {next}")));
        }
    }
    lines.join("\n")
}
