use onus_engine::WhyView;

use crate::args::Target;
use crate::context::Context;
use crate::output::{Output, escape_line};
use crate::wording;
use onus_host::target;

/// Explain why a task cannot be claimed now, and what would help
///
/// Lists every obstacle with its next step: unmet dependencies, unfinished parts, a holder, scope conflicts, a schedule, a
/// tier.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(context: &Context, args: Args) -> super::Result {
    let (mut engine, identity) = context.host.reader()?;
    let looked = engine.why(identity.as_ref(), target(args.target.task)?.as_ref())?;
    if context.out.json {
        context.out.document(looked.value.worded(&wording::step), &looked.notices);
    } else {
        context.out.prose(&prose(&context.out, &looked.value));
        context.out.notices(&looked.notices);
    }
    Ok(())
}

pub(super) fn prose(out: &Output, why: &WhyView) -> String {
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
