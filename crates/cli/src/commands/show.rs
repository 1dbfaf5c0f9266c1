use serde_json::json;

use crate::args::Targets;
use crate::context::Context;
use crate::{output, render};
use onus_host::target;

/// Show tasks, each with its holder and its notes
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
}

pub(crate) fn run(context: &Context, args: Args) -> super::ExitCode {
    let (mut engine, identity) = context.host.reader()?;
    let (out, mut tasks) = (&context.out, args.targets.tasks);
    if tasks.len() <= 1 {
        let looked = engine.show(identity.as_ref(), target(tasks.pop())?.as_ref())?;
        let shown = context.host.with_worktree(looked.value);
        out.show(&shown, &looked.notices, || render::card(out, &shown));
        return Ok(0);
    }
    let (mut shown, mut refused, mut notices) = (Vec::new(), Vec::new(), Vec::new());
    for task in &tasks {
        match engine.show(identity.as_ref(), Some(task)) {
            Ok(looked) => {
                let task = context.host.with_worktree(looked.value);
                if !out.json {
                    out.prose(&format!(
                        "{}{}",
                        if shown.is_empty() { "" } else { "\n" },
                        render::card(out, &task)
                    ));
                }
                shown.push(task);
                notices = looked.notices;
            }
            Err(refusal) => {
                if !out.json {
                    output::refuse(false, &refusal);
                }
                refused.push((task.to_string(), refusal));
            }
        }
    }
    if out.json {
        super::several(out, json!(shown), &refused, &notices);
    } else {
        out.notices(&notices);
    }
    Ok(refused.first().map_or(0, |(_, first)| first.exit_code()))
}
