//! Gates: who may say that one is passed, and what a task has still to pass.

use crate::command::{Force, Judging};
use crate::event::{Body, Draft};
use crate::gate::{Demand, Gate, GateKey, GateKind, Judgement, Missing, Stage, Verdict, Why};
use crate::quote::name;
use crate::refusal::{Code, Reader, Refusal, Step};
use crate::task::State;
use crate::text::Field;
use crate::transition::Verb;

use super::standing::{Standing, standing_of_claimant};
use super::tasks::{own_token, standing_beside};
use super::{Decision, View, overridden};

/// What a gate came to. A command's outcome is anybody's to report; what needs a judge needs the right one.
pub(super) fn judge(view: &View<'_>, judging: &Judging, force: Option<&Force>) -> Result<Decision, Refusal> {
    let is_done = view.task.state == State::Done && view.caller.token.is_none();
    // On what is done, being superseded is no bar.
    let (mut drafts, standing) = match is_done {
        true => (Vec::new(), standing_of_claimant(view)),
        false => standing_beside(view, force)?,
    };
    let Judging { gate, verdict, judgement, message } = judging;
    let message = message.as_deref().map(|text| Field::Note.check(text)).transpose()?;
    if let Some(refusal) = may_not_judge(view, &standing, judging) {
        match force {
            Some(force) => drafts.push(overridden("gate", force)),
            None => return Err(refusal),
        }
    }
    if judgement.gate != gate.key || judgement.definition != gate.digest() {
        return Err(Refusal::new(Code::Unexpected, "a gate was judged by another definition"));
    }
    let body = match verdict {
        Verdict::Passed => Body::GatePassed(judgement.clone()),
        Verdict::Failed => Body::GateFailed(judgement.clone()),
    };
    drafts.push(own_token(&standing, Draft::new(body)).text(Field::Note, message));
    Ok(Decision::of(drafts))
}

fn may_not_judge(view: &View<'_>, standing: &Standing<'_>, judging: &Judging) -> Option<Refusal> {
    let Judging { gate, verdict, judgement, .. } = judging;
    let (id, actor) = (view.id, &view.caller.actor);
    let refused = |code, message: String, step| Some(Refusal::new(code, message).task(id).next(step));
    let ask = |by| Step::AskToPass { task: id.to_owned(), gate: gate.key.to_string(), by };
    match gate.kind {
        GateKind::Command | GateKind::RedGreen if judgement.run.is_none() => {
            let message = format!("gate {} is judged by running it", gate.key);
            refused(Code::Gate, message, Step::RunGates(id.to_owned()))
        }
        GateKind::Command | GateKind::RedGreen => None,
        // Whoever may not pass it may still say that it fails.
        GateKind::Manual | GateKind::Review if *verdict == Verdict::Failed => None,
        GateKind::Manual if actor.is_person() || gate.by.contains(actor) => None,
        GateKind::Manual => {
            let message = format!("gate {} is passed by a person{}", gate.key, or_named(gate));
            refused(Code::PeopleOnly, message, ask(Reader::Person))
        }
        GateKind::Review => {
            let holds = matches!(standing, Standing::Holder { .. });
            let worked = holds || view.caller_worked_on_it;
            worked
                .then(|| {
                    let message = format!(
                        "gate {} is passed by somebody who did not work on {id}: {actor} did",
                        gate.key
                    );
                    refused(Code::NotAllowed, message, ask(Reader::Reviewer))
                })
                .flatten()
        }
    }
}

fn or_named(gate: &Gate) -> String {
    let named: Vec<String> = gate.by.iter().map(ToString::to_string).collect();
    match named.is_empty() {
        true => String::new(),
        false => format!(" or {}", named.join(", ")),
    }
}

/// Refuses a step whose gates are not all passed; a person's force is an event.
pub(super) fn asked_for(
    view: &View<'_>,
    demand: &Demand,
    verb: Verb,
    force: Option<&Force>,
) -> Result<Vec<Draft>, Refusal> {
    let facts = &view.task.facts;
    // Whoever approves has reviewed it: what is there now.
    let is_review = |kind| verb == Verb::Approve && kind == GateKind::Review;
    let missing: Vec<Missing> = demand
        .missing(facts, view.judged)
        .into_iter()
        .filter(|missing| !missing.kind.is_some_and(is_review))
        .collect();
    let reviewed = demand.asked(facts).filter(|gate| is_review(gate.kind)).map(|gate| {
        Draft::new(Body::GatePassed(Judgement {
            gate: gate.key.clone(),
            definition: gate.digest(),
            tree: demand.tree_of(gate).cloned(),
            flaky: false,
            run: None,
        }))
    });
    match (missing.is_empty(), force) {
        (true, _) => Ok(reviewed.collect()),
        (false, Some(force)) => Ok([overridden("gates", force)].into_iter().chain(reviewed).collect()),
        (false, None) => {
            let mut refusal = missing_refusal(view.id, &missing);
            // Where only judges are missing, that is what a review is for.
            let is_judged = |missing: &Missing| {
                missing.stage != Some(Stage::Before) && missing.kind.is_some_and(|kind| !kind.is_run())
            };
            if verb == Verb::Done && missing.iter().all(is_judged) {
                refusal.next.insert(0, Step::Do(Verb::Submit, view.id.to_owned()));
            }
            Err(refusal)
        }
    }
}

/// What to do first about a gate that was run and failed.
pub fn failed_step(id: &str, gate: &GateKey) -> Step {
    Step::GateLog { task: id.to_owned(), gate: gate.to_string() }
}

/// Exit 6: gates that are not passed, and how they can be.
pub fn missing_refusal(id: &str, missing: &[Missing]) -> Refusal {
    let why = |missing: &Missing| {
        let why = match missing.why {
            Why::NotJudged => "not run",
            Why::Stale => "the work has changed since",
            Why::Failed => "failed",
            Why::Unknown => "not defined",
        };
        let why = match (missing.why, missing.kind) {
            (Why::NotJudged, Some(GateKind::Manual | GateKind::Review)) => "not passed yet",
            _ => why,
        };
        format!("{} ({why})", missing.key)
    };
    let gates: Vec<String> = missing.iter().map(why).collect();
    let plural = if missing.len() == 1 { "a gate" } else { "gates" };
    let mut refusal =
        Refusal::new(Code::Gate, format!("{} has {plural} to pass: {}", name(id), gates.join(", "))).task(id);
    let runs = |missing: &Missing| missing.kind.is_some_and(GateKind::is_run);
    if let Some(failed) = missing.iter().find(|missing| missing.why == Why::Failed && runs(missing)) {
        refusal = refusal.next(failed_step(id, &failed.key));
    }
    if missing.iter().any(runs) {
        refusal = refusal.next(Step::RunGates(id.to_owned()));
    }
    let judged = |missing: &&Missing| matches!(missing.kind, Some(GateKind::Manual | GateKind::Review));
    for missing in missing.iter().filter(judged) {
        let gate = missing.key.to_string();
        let by = if missing.kind == Some(GateKind::Review) { Reader::Reviewer } else { Reader::Person };
        refusal = refusal.next(Step::PassGate { task: id.to_owned(), gate, by });
    }
    refusal.next(Step::Gates(id.to_owned()))
}
