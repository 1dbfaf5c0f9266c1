//! `gate pass` and `gate fail`: a judge's verdict on a gate.

use onus_core::command::Command;
use onus_core::gate::{Stage, Verdict};
use onus_core::ids::TaskRef;
use onus_host::gates::Judged;

use super::{Fail, Named, Pass, gate_of, task_and_key};
use crate::args::{ForceArgs, Key, text_or_stdin};
use crate::context::Context;

pub(super) fn pass(context: &Context, args: Pass) -> super::super::Result {
    let message = args.force.message(args.message);
    judge(context, args.named, Verdict::Passed, message, Some(&args.force), args.key)
}

pub(super) fn fail(context: &Context, args: Fail) -> super::super::Result {
    judge(context, args.named, Verdict::Failed, Some(args.message), None, args.key)
}

fn judge(
    context: &Context,
    named: Named,
    verdict: Verdict,
    message: Option<String>,
    force: Option<&ForceArgs>,
    key: Key,
) -> super::super::Result {
    let message = message.map(text_or_stdin).transpose()?;
    let (task, gate) = task_and_key(context, named)?;
    let (mut engine, identity) = context.host.reader()?;
    let task = engine.landable(identity.as_ref(), task.as_ref())?.value;
    let workplace = context.host.workplace(&task.view);
    let gate = gate_of(context, &task.view, &workplace, &gate)?;
    // Before work begins there are no files to judge, only the task.
    let tree = if gate.stage == Stage::Before { None } else { workplace.tree()? };
    let judged = Judged { gate: &gate, verdict, tree, run: None, flaky: false, message };
    let command = Command::OnTask {
        task: Some(TaskRef::from(task.task.uid)),
        act: judged.act(),
        force: force.and_then(ForceArgs::force),
    };
    let reply = context.run(command, key.key)?;
    super::super::print_task(context, &reply, &format!("{verdict} gate {}", gate.key))
}
