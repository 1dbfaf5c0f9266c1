//! Runs the gates of a task.

use onus_core::decide::failed_step;
use onus_core::gate::{Gate, GateKey, Run, Verdict};
use onus_core::refusal::{Code, Refusal};
use onus_core::time::Span;

use onus_host::gates::{GateOutcome, Live, Round, Wanted};
use onus_store::Access;
use serde_json::{Value, json};

use super::task_and_rest;
use crate::context::Context;
use crate::output::{note, refuse};

pub(super) fn run(context: &Context, args: super::Run) -> super::super::ExitCode {
    let (task, named) = task_and_rest(context, args.words)?;
    let wanted = Wanted { stage: args.stage, named, all: args.all };
    let mut engine = context.host.engine(Access::Write)?;
    let identity = context.host.identity(&mut engine)?;
    let round = context.host.plan_gates(&mut engine, Some(&identity), task.as_ref(), &wanted)?;
    drop(engine);
    let jobs = match (args.all, args.jobs) {
        (false, _) => 1,
        (true, Some(jobs)) => usize::from(jobs),
        (true, None) => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let several = jobs > 1 && round.gates.len() > 1;
    let width = round.gates.iter().map(|gate| gate.key.as_str().len()).max().unwrap_or_default();
    let live = |gate: &Gate| match several {
        true => Live::Prefixed(format!("{:width$} | ", gate.key.as_str())),
        false => {
            note(&format!("onus: gate {}", gate.key));
            Live::Plain
        }
    };
    let interrupts = super::super::hold_interrupts()?;
    let told = |came: &GateOutcome| note(&format!("onus: {}", words(came)));
    let came = context.host.run_round(&identity, &round, jobs, &live, Some(&interrupts), &told);
    let signal = interrupts.signal();
    drop(interrupts);
    let code = report(context, &round, &came)?;
    // A signal that came too late to stop a gate changes nothing.
    let is_stopped =
        came.iter().any(|came| came.result.as_ref().is_err_and(|refusal| refusal.code != Code::Gate));
    Ok(signal.filter(|_| is_stopped).map_or(code, super::super::by_signal))
}

fn words(came: &GateOutcome) -> String {
    match &came.result {
        Ok((verdict, run)) => outcome(&came.gate.key, *verdict, run),
        Err(refusal) => refusal.message.clone(),
    }
}

/// The result of a gate's run, in one line.
pub(crate) fn outcome(key: &GateKey, verdict: Verdict, run: &Run) -> String {
    let how = match (run.timed_out, run.exit) {
        (true, _) => " (out of time)".to_owned(),
        (false, Some(0)) if verdict == Verdict::Failed => " (it passes without the work)".to_owned(),
        (false, Some(0)) => String::new(),
        (false, Some(code)) if verdict == Verdict::Failed => format!(" (exit code {code})"),
        (false, Some(_)) => String::new(),
        (false, None) => " (ended by a signal, or not started)".to_owned(),
    };
    format!("gate {key} {verdict}{how} after {}", Span::from_ms(run.duration_ms))
}

fn document(came: &GateOutcome) -> Value {
    match &came.result {
        Ok((verdict, run)) => json!({
            "key": came.gate.key, "verdict": verdict, "exit": run.exit, "timed_out": run.timed_out,
            "duration_ms": run.duration_ms, "log": run.log, "error": null,
        }),
        Err(refusal) => json!({
            "key": came.gate.key, "verdict": null, "exit": null, "timed_out": false, "duration_ms": null, "log": null,
            "error": refusal.message,
        }),
    }
}

fn report(context: &Context, round: &Round, came: &[GateOutcome]) -> super::super::ExitCode {
    let id = &round.task.view.id;
    let failed: Vec<&GateOutcome> =
        came.iter().filter(|came| !matches!(came.result, Ok((Verdict::Passed, _)))).collect();
    let refusal = failed.iter().find_map(|came| came.result.as_ref().err());
    // A refusal comes before a failed verdict: it says why a gate was not run at all.
    let refusal = refusal.cloned().or_else(|| {
        let keys: Vec<&str> = failed.iter().map(|came| came.gate.key.as_str()).collect();
        let plural = if keys.len() == 1 { "gate" } else { "gates" };
        let message = format!("{id} fails {plural} {}", keys.join(", "));
        let first = failed.first().map(|came| failed_step(id, &came.gate.key));
        first.map(|step| Refusal::new(Code::Gate, message).task(id).next(step))
    });
    if context.out.json {
        let value = json!({
            "task": id,
            "tree": round.demand.tree,
            "passed": failed.is_empty(),
            "gates": came.iter().map(document).collect::<Vec<_>>(),
            "for_judges": round.for_judges.iter().map(|gate| &gate.key).collect::<Vec<_>>(),
        });
        return Ok(context.out.report(value, refusal.as_ref()));
    }
    if let Some(refusal) = refusal {
        return Ok(refuse(false, &refusal));
    }
    let said = match came.len() {
        0 => round.nothing_to_run(),
        1 => format!("{id}: 1 gate passed"),
        many => format!("{id}: {many} gates passed"),
    };
    context.out.line(&said);
    if !round.for_judges.is_empty() {
        let keys: Vec<&str> = round.for_judges.iter().map(|gate| gate.key.as_str()).collect();
        context.out.line(&format!("  still needed: {}", keys.join(", ")));
    }
    Ok(0)
}
