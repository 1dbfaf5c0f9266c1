//! Lists the gates of the project or of a task, and shows one gate of a task with its history.

use onus_core::gate::{Demand, Gate, Stage, Verdict};
use onus_core::ids::TaskRef;
use onus_core::refusal::Refusal;
use onus_engine::Landable;
use onus_host::gates::{Workplace, definition};
use serde_json::json;

use super::view::{self, Standing};
use super::{Named, gate_of, task_and_key};
use crate::context::Context;
use crate::output::escape_line;

pub(super) fn of_project(context: &Context) -> super::super::Result {
    let out = &context.out;
    let gates = context.host.config.gates();
    let mut documents = Vec::new();
    for gate in gates {
        let approved =
            definition(gate).map(|it| Ok::<_, Refusal>(context.host.approvals()?.is_approved(&it)));
        let approved = approved.transpose()?;
        if out.json {
            let mut document = view::gate(gate);
            document["approved"] = json!(approved);
            documents.push(document);
            continue;
        }
        out.prose(&headline(context, gate));
        if let (Some(command), Some(approved)) = (&gate.command, approved) {
            let state = if approved { out.good("approved") } else { out.bad("not approved") };
            out.prose(&format!("  runs {} ({state})", view::command_line(command)));
        }
        for line in about(gate) {
            out.prose(&format!("  {line}"));
        }
    }
    if out.json {
        out.document(json!({ "gates": documents }), &[]);
    } else if gates.is_empty() {
        out.prose("no gates are defined: write [[gate]] in onus.toml");
    }
    Ok(())
}

fn headline(context: &Context, gate: &Gate) -> String {
    let title = gate.title.as_ref().map(|title| format!(": {}", escape_line(title))).unwrap_or_default();
    format!("{} ({}, {}){title}", context.out.bold(gate.key.as_str()), gate.kind, gate.stage)
}

/// Which tasks a gate is for, and who may pass it.
fn about(gate: &Gate) -> Vec<String> {
    let mut lines = Vec::new();
    let applies = &gate.applies;
    if applies.only_named {
        lines.push("only for tasks that name it".to_owned());
    }
    let list =
        |what: &str, items: Vec<String>| (!items.is_empty()).then(|| format!("{what} {}", items.join(", ")));
    let of =
        |items: &std::collections::BTreeSet<String>| items.iter().map(|item| escape_line(item)).collect();
    let globs = |scope: &onus_core::scope::Scope| scope.globs().iter().map(ToString::to_string).collect();
    lines.extend(list("for tasks of type", applies.types.iter().map(ToString::to_string).collect()));
    lines.extend(list("for tasks tagged", of(&applies.tags)));
    lines.extend(list("for tasks of area", of(&applies.areas)));
    lines.extend(list("for tasks that change", globs(&applies.paths)));
    lines.extend(list("tests:", globs(&gate.tests)));
    lines.extend(list("passed by a person or by", gate.by.iter().map(ToString::to_string).collect()));
    lines
}

/// What a task must pass at each stage. What a landing demands is only known when it lands, on the merged result.
fn demands(
    context: &Context,
    task: &Landable,
    workplace: &Workplace,
) -> Result<Vec<(Stage, Demand)>, Refusal> {
    let stages = [Stage::Before, Stage::Done, Stage::Land];
    let demand = |stage| Ok((stage, context.host.demand(task, workplace, stage)?));
    stages.into_iter().map(demand).collect()
}

pub(super) fn of_task(context: &Context, task: TaskRef) -> super::super::Result {
    let out = &context.out;
    let (mut engine, identity) = context.host.reader()?;
    let found = engine.landable(identity.as_ref(), Some(&task))?;
    let task = &found.value;
    let workplace = context.host.workplace(&task.view);
    let demands = demands(context, task, &workplace)?;
    let mut documents = Vec::new();
    let mut lines = Vec::new();
    for (stage, demand) in &demands {
        for gate in demand.asked(&task.task.facts) {
            let standing = Standing::of(demand, gate, &task.judged);
            let mark = match (standing.why.is_none(), standing.is_due()) {
                (true, _) => out.good("✓"),
                (false, true) => out.bad("✗"),
                (false, false) => out.dim("·"),
            };
            lines.push(format!("{mark} {stage:<6}  {}: {}", out.bold(gate.key.as_str()), standing.words()));
            documents.push(standing.document());
        }
    }
    let known = demands.first().map(|(_, demand)| demand.known.clone()).unwrap_or_default();
    for key in task.task.facts.gates.iter().filter(|key| !known.contains(*key)) {
        lines.push(format!(
            "{} {}: the task names it, and the project does not define it",
            out.bad("✗"),
            key
        ));
        documents.push(json!({
            "key": key, "title": null, "kind": null, "stage": null, "passed": false, "why": "unknown", "last": null,
        }));
    }
    let tree = demands.iter().find_map(|(_, demand)| demand.tree.clone());
    let document = json!({ "task": task.view.id, "tree": tree, "gates": documents });
    out.document_or(document, &found.notices, || {
        if lines.is_empty() {
            out.line(&format!("{} has no gates to pass", task.view.id));
        }
        lines.iter().for_each(|line| out.prose(line));
    });
    Ok(())
}

pub(super) fn show(context: &Context, named: Named) -> super::super::Result {
    let out = &context.out;
    let (task, key) = task_and_key(context, named)?;
    let (mut engine, identity) = context.host.reader()?;
    let found = engine.landable(identity.as_ref(), task.as_ref())?;
    let task = &found.value;
    let workplace = context.host.workplace(&task.view);
    let gate = gate_of(context, &task.view, &workplace, &key)?;
    let demand = context.host.demand(task, &workplace, gate.stage)?;
    let standing = Standing::of(&demand, &gate, &task.judged);
    let history: Vec<_> = task.judged.iter().filter(|row| row.judgement.gate == gate.key).collect();
    let document = json!({
        "task": task.view.id,
        "gate": view::gate(&gate),
        "asked": demand.asked(&task.task.facts).any(|asked| asked.key == gate.key),
        "passed": standing.why.is_none(),
        "why": standing.why,
        "judgements": history.iter().map(|row| view::judgement(row)).collect::<Vec<_>>(),
    });
    out.document_or(document, &found.notices, || {
        out.prose(&headline(context, &gate));
        if let Some(command) = &gate.command {
            out.prose(&format!("  runs {}", view::command_line(command)));
        }
        about(&gate).iter().for_each(|line| out.prose(&format!("  {line}")));
        out.prose(&format!("{}: {}", task.view.id, standing.words()));
        for row in history {
            let word = if row.verdict == Verdict::Passed { out.good("passed") } else { out.bad("failed") };
            let tree =
                row.judgement.tree.as_deref().map(|tree| format!(", tree {:.10}", tree)).unwrap_or_default();
            out.prose(&format!("  v{} {word} {}{tree}", row.version, view::outcome(row)));
        }
    });
    Ok(())
}
