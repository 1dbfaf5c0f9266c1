//! Prints the output that a gate's run left.

use onus_core::refusal::{Code, Refusal, Step};
use serde_json::json;

use super::{gate_of, task_and_key};
use crate::context::Context;
use crate::output::escape;

pub(super) fn run(context: &Context, args: super::Log) -> super::super::Result {
    let (task, key) = task_and_key(context, args.named)?;
    let (mut engine, identity) = context.host.reader()?;
    let found = engine.landable(identity.as_ref(), task.as_ref())?;
    let task = &found.value;
    let id = &task.view.id;
    let wanted = |version: u64| args.version.is_none_or(|wanted| wanted == version);
    let row = task.judged.iter().find(|row| {
        row.judgement.gate.as_str() == key && row.judgement.run.is_some() && wanted(row.version.0)
    });
    let Some((row, run)) = row.and_then(|row| Some((row, row.judgement.run.as_ref()?))) else {
        let message = match args.version {
            Some(version) => format!("event {version} of {id} records no run of gate {}", escape(&key)),
            None => {
                let gate = gate_of(context, &task.view, &context.host.workplace(&task.view), &key)?;
                match gate.kind.is_run() {
                    true => format!("gate {} was never run for {id}", gate.key),
                    false => format!("gate {} is judged, not run, and writes no log", gate.key),
                }
            }
        };
        return Err(Refusal::new(Code::NotFound, message).task(id).next(Step::Gates(id.clone())));
    };
    let Some(log) = context.host.gate_log(run) else {
        let where_ = match &run.machine {
            _ if run.log.is_none() => "it was not kept".to_owned(),
            machine if *machine == onus_host::gates::this_machine() => {
                "it was removed since: the oldest go first".to_owned()
            }
            Some(machine) => format!("it is on machine {}", escape(machine)),
            None => "it is on another machine".to_owned(),
        };
        let message = format!("the log of gate {} is not here: {where_}", escape(&key));
        return Err(Refusal::new(Code::NotFound, message).task(id).next(Step::RunGates(id.clone())));
    };
    let text = String::from_utf8_lossy(&log);
    let document = json!({ "task": id, "gate": key, "version": row.version, "log": text });
    context.out.document_or(document, &found.notices, || match (text.trim_end_matches('\n'), run.exit) {
        ("", Some(code)) => context.out.line(&format!("(it wrote nothing; exit code {code})")),
        ("", None) => context.out.line("(it wrote nothing)"),
        (text, _) => context.out.line(text),
    });
    Ok(())
}
