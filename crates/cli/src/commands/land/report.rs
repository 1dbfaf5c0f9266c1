//! The result of a landing, for people and programs.

use onus_core::commit::CommitId;
use onus_core::gate::{GateKey, Run, Verdict};
use onus_core::refusal::{Code, Refusal};
use onus_dispatch::{Interrupts, Watch};
use onus_engine::Reply;
use onus_host::gates::{Live, On};
use onus_host::landing::{LandedTask, Landings, Ran, Refused, Report, Running};
use onus_repo::landing::{Checkout, Forward, Left};
use serde_json::{Value, json};

use super::tidy::Tidied;
use crate::commands::worktree::removed_document;
use crate::context::Context;
use crate::output::{escape_line, note, path_line, path_text, refuse};
use crate::wording;

pub(super) fn print(
    context: &Context,
    landings: &Landings<'_>,
    report: &Report,
    tidied: &Tidied,
    is_check: bool,
    reply: Option<&Reply>,
    red: Option<&Refusal>,
) {
    let notices = reply.map(|reply| reply.notices.as_slice()).unwrap_or_default();
    if context.out.json {
        context.out.document(document(landings, report, tidied, is_check, red), notices);
        return;
    }
    let target = escape_line(&landings.target);
    for (id, _) in &report.found {
        let done = if reply.is_some() { " is done, and" } else { "" };
        context.out.line(&format!("{id}{done} has nothing to land: {target} has everything on its branch"));
    }
    for landed in &report.landed {
        context.out.line(&line(landed, &target, is_check));
    }
    for refused in &report.refused {
        refuse(false, &refused.refusal);
    }
    if let Some(refusal) = red {
        refuse(false, refusal);
    }
    for checkout in &report.checkouts {
        if let Some(left) = left(checkout) {
            let path = path_line(&checkout.path);
            // The branch moves together with its checkout, or not at all.
            let (landed, next) = (format!("refs/onus/landed/{target}"), "onus doctor --fix");
            context.out.prose(&format!(
                "what landed is at {landed}; {target} itself was not moved, because it is checked out in {path}: {left}"
            ));
            context.out.prose(&format!("  once nothing is in the way: {next}"));
        }
    }
    for line in tidied.lines() {
        context.out.prose(&line);
    }
    context.out.notices(notices);
}

fn line(landed: &LandedTask, target: &str, is_check: bool) -> String {
    let names = |gates: &[GateKey]| gates.iter().map(GateKey::as_str).collect::<Vec<_>>().join(", ");
    let passed: Vec<GateKey> =
        landed.gates.iter().filter(|gate| !landed.to_run.contains(gate)).cloned().collect();
    let gates = if passed.is_empty() { String::new() } else { format!("; passed {}", names(&passed)) };
    let how = match (is_check, landed.to_run.as_slice()) {
        (false, _) => format!("landed in {target} as {}", landed.commit.short()),
        (true, []) => format!("would land in {target}"),
        (true, [one]) => format!("would land in {target} if {one} passes"),
        (true, many) => format!("would land in {target} if {} pass", names(many)),
    };
    let lines = match landed.resolved_lines {
        0 => String::new(),
        1 => "; 1 conflicting line kept from both sides".to_owned(),
        count => format!("; {count} conflicting lines kept from both sides"),
    };
    format!("{} {how}: {}{gates}{lines}", landed.id, escape_line(&landed.title))
}

/// What became of a queue; None if all of it landed.
pub(super) fn summary(report: &Report) -> Option<String> {
    let why = |refused: &Refused| format!("{} ({})", refused.id, why_word(&refused.refusal));
    let list = |what: &str, is: &dyn Fn(&&Refused) -> bool| {
        let named: Vec<String> = report.refused.iter().filter(is).map(why).collect();
        (!named.is_empty()).then(|| format!("; {what} {}", named.join(", ")))
    };
    let sent_back = list("sent back", &|refused| refused.is_reopened);
    let waiting = list("still waiting:", &|refused| !refused.is_reopened);
    let landed = report.landed.len() + report.found.len();
    let rest = [sent_back, waiting].into_iter().flatten().collect::<String>();
    (!rest.is_empty()).then(|| format!("{landed} landed{rest}"))
}

/// Why a task did not land, in a word or two.
fn why_word(refusal: &Refusal) -> &'static str {
    match refusal.code {
        Code::Conflict => "it conflicts",
        Code::Gate => "its gates",
        _ => "see above",
    }
}

/// Why a checkout of the target was left behind; None if it was not.
pub(crate) fn left(checkout: &Checkout) -> Option<String> {
    let Forward::Left(left) = &checkout.outcome else { return None };
    let names = |paths: &[String]| onus_core::quote::some_names(paths);
    Some(match left {
        Left::InTheWay(paths) => format!("uncommitted changes there are in the way: {}", names(paths)),
        Left::Submodules(paths) => format!("submodules there would move: {}", names(paths)),
        Left::UnderWay(what) => format!("{what} is under way there"),
        Left::Diverged => {
            "something was committed there that has not landed; the next landing merges both, if they do not conflict".to_owned()
        }
        Left::Twice => "the branch is checked out more than once".to_owned(),
        Left::Missing => "its folder is not there".to_owned(),
        Left::Busy => "another git is at work there".to_owned(),
        Left::Refused(why) => format!("git says: {}", escape_line(why)),
    })
}

fn document(
    landings: &Landings<'_>,
    report: &Report,
    tidied: &Tidied,
    is_check: bool,
    red: Option<&Refusal>,
) -> Value {
    let found = |(id, commit): &(String, CommitId)| json!({ "task": id, "commit": commit });
    let checkout = |checkout: &Checkout| json!({ "path": path_text(&checkout.path), "left": left(checkout) });
    let mut value = json!({
        "target": landings.target,
        "checked_only": is_check,
        "landed": report.landed.iter().map(landed).collect::<Vec<_>>(),
        "found": report.found.iter().map(found).collect::<Vec<_>>(),
        "ran": report.ran.iter().map(ran).collect::<Vec<_>>(),
        "red": report.red.iter().collect::<Vec<_>>(),
        "checkouts": report.checkouts.iter().map(checkout).collect::<Vec<_>>(),
        "tidied": tidied.kept,
        "removed": tidied.removed.iter().map(removed_document).collect::<Vec<_>>(),
    });
    let refused = report.refused.iter().map(|refused| {
        json!({
            "task": refused.id,
            "reopened": refused.is_reopened,
            "error": wording::refusal(&refused.refusal),
        })
    });
    value["refused"] = refused.collect();
    if let Some(error) = red.or(report.refused.first().map(|refused| &refused.refusal)) {
        value["error"] = json!(wording::refusal(error));
    }
    value
}

fn landed(landed: &LandedTask) -> Value {
    json!({
        "task": landed.id,
        "title": landed.title,
        "actor": landed.actor,
        "branch": landed.branch,
        "commit": landed.commit,
        "conflict_lines": landed.resolved_lines,
        "gates": landed.gates,
        "to_run": landed.to_run,
    })
}

fn ran(ran: &Ran) -> Value {
    json!({
        "gate": ran.gate,
        "tasks": ran.tasks,
        "on": if ran.on_target { "target" } else { "result" },
        "verdict": ran.verdict,
        "exit": ran.run.exit,
        "timed_out": ran.run.timed_out,
        "duration_ms": ran.run.duration_ms,
    })
}

/// Runs a gate of a landing, with its output on standard error.
pub(super) fn run_gate(
    context: &Context,
    running: &Running<'_>,
    interrupts: &Interrupts,
) -> Result<(Verdict, Run), Refusal> {
    let key = &running.gate.key;
    note(&format!("onus: gate {key} on {}, for {}", running.what, running.tasks.join(", ")));
    let place = context.host.place.as_ref();
    let (tree, base) = (Some(running.commit.as_str()), Some(running.base.as_str()));
    let on = On { root: running.folder, place, tree, base };
    let watch = Watch { renew: None, interrupts: Some(interrupts) };
    let mut told = onus_host::worktree_env(running.folder, None);
    told.push(("ONUS_GATE".to_owned(), running.gate.key.to_string()));
    let (verdict, run) = context.host.run_gate_on(running.gate, on, told, Live::Plain, watch)?;
    note(&format!("onus: {}", super::super::gate::outcome(key, verdict, &run)));
    Ok((verdict, run))
}
