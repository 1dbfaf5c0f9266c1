//! Gates: who may judge one, and which ones a task still has to pass.

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
use super::{Decision, View, overridden, override_or_refuse};

/// Records a gate's verdict. Anybody may report a command's outcome; a manual gate or a review needs an entitled judge.
pub(super) fn judge(view: &View<'_>, judging: &Judging, force: Option<&Force>) -> Result<Decision, Refusal> {
    let is_done = view.task.state == State::Done && view.caller.token.is_none();
    // On a finished task, a superseded caller may still judge.
    let (mut drafts, standing) = match is_done {
        true => (Vec::new(), standing_of_claimant(view)),
        false => standing_beside(view, force)?,
    };
    let Judging { gate, verdict, judgement, message } = judging;
    let message = message.as_deref().map(|text| Field::Note.check(text)).transpose()?;
    if let Some(refusal) = may_not_judge(view, &standing, judging) {
        override_or_refuse("gate", force, refusal, &mut drafts)?;
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
        // An actor that may not pass it may still fail it.
        GateKind::Manual | GateKind::Review if *verdict == Verdict::Failed => None,
        GateKind::Manual if actor.is_person() || gate.by.contains(actor) => None,
        GateKind::Manual => {
            let message = format!("only a person{} can pass gate {}", or_named(gate), gate.key);
            refused(Code::PeopleOnly, message, ask(Reader::Person))
        }
        GateKind::Review if view.caller_worked_on_it || matches!(standing, Standing::Holder { .. }) => {
            let message =
                format!("only somebody who has not worked on {id} can pass gate {}; {actor} has", gate.key);
            refused(Code::NotAllowed, message, ask(Reader::Reviewer))
        }
        GateKind::Review => None,
    }
}

fn or_named(gate: &Gate) -> String {
    let named: Vec<String> = gate.by.iter().map(ToString::to_string).collect();
    match named.is_empty() {
        true => String::new(),
        false => format!(" or {}", named.join(", ")),
    }
}

/// Refuses a verb whose gates are not all passed. Returns the events to write first: a person's override, and the reviews that
/// an approval passes.
pub(super) fn asked_for(
    view: &View<'_>,
    demand: &Demand,
    verb: Verb,
    force: Option<&Force>,
) -> Result<Vec<Draft>, Refusal> {
    let facts = &view.task.facts;
    // An approval is a review of the work as it is now.
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
            // If only judges are missing, submitting the task for review is the way.
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

/// The first step after a gate was run and failed: reading its log.
pub fn failed_step(id: &str, gate: &GateKey) -> Step {
    Step::GateLog { task: id.to_owned(), gate: gate.to_string() }
}

/// Exit 6: gates that are not passed, and how to pass them.
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
