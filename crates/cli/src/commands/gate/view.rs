//! Gates as programs and people read them.

use onus_core::gate::{Demand, Gate, GateCommand, JudgementRow, Stage, Verdict, Why};
use onus_core::scope::Scope;
use onus_core::time::{Span, rfc3339};
use serde_json::{Value, json};

use crate::output::escape_line;

/// A gate's definition.
pub(in crate::commands) fn gate(gate: &Gate) -> Value {
    let globs = |scope: &Scope| scope.globs().iter().map(ToString::to_string).collect::<Vec<_>>();
    let command = gate.command.as_ref().map(|command| {
        json!({
            "argv": command.argv, "env": command.env, "folder": command.folder, "timeout_ms": command.timeout_ms,
        })
    });
    let applies = &gate.applies;
    json!({
        "key": gate.key,
        "title": gate.title,
        "kind": gate.kind,
        "stage": gate.stage,
        "command": command,
        "tests": globs(&gate.tests),
        "by": gate.by,
        "only_named": applies.only_named,
        "types": applies.types,
        "tags": applies.tags,
        "areas": applies.areas,
        "paths": globs(&applies.paths),
        "digest": gate.digest(),
    })
}

/// One judgement of a gate.
pub(super) fn judgement(row: &JudgementRow) -> Value {
    let judgement = &row.judgement;
    json!({
        "version": row.version,
        "verdict": row.verdict,
        "actor": row.actor,
        "at": rfc3339(row.at_ms),
        "tree": judgement.tree,
        "definition": judgement.definition,
        "flaky": judgement.flaky,
        "run": judgement.run,
    })
}

/// Whether a task has passed a gate, or why not.
pub(super) struct Standing<'a> {
    pub(super) gate: &'a Gate,
    pub(super) why: Option<Why>,
    /// The judgement that counts, or else the newest.
    pub(super) last: Option<&'a JudgementRow>,
}

impl<'a> Standing<'a> {
    pub(super) fn of(demand: &Demand, gate: &'a Gate, judged: &'a [JudgementRow]) -> Standing<'a> {
        let newest = judged.iter().find(|row| row.judgement.gate == gate.key);
        let last = demand.deciding(gate, judged).or(newest);
        let standing = Standing { gate, why: demand.standing(gate, judged), last };
        // A pass on the work alone no longer counts once the merged result has failed.
        let failed_since =
            standing.is_run_at_landing() && newest.is_some_and(|row| row.verdict == Verdict::Failed);
        match failed_since {
            true => Standing { why: standing.why.or(Some(Why::Failed)), last: newest, ..standing },
            false => standing,
        }
    }

    pub(super) fn document(&self) -> Value {
        json!({
            "key": self.gate.key,
            "title": self.gate.title,
            "kind": self.gate.kind,
            "stage": self.gate.stage,
            "passed": self.why.is_none(),
            "why": self.why,
            "last": self.last.map(judgement),
        })
    }

    fn is_run_at_landing(&self) -> bool {
        self.gate.stage == Stage::Land && self.gate.kind.is_run()
    }

    /// Whether a gate that has not passed needs somebody's attention now.
    pub(super) fn is_due(&self) -> bool {
        !self.is_run_at_landing() || self.last.is_some_and(|row| row.verdict == Verdict::Failed)
    }

    /// The text for people, after the gate's name.
    pub(super) fn words(&self) -> String {
        if self.is_run_at_landing() && self.why.is_some() {
            return self.words_of_landing();
        }
        let word = match (self.why, self.gate.kind.is_run()) {
            (None, true) if self.last.is_some_and(|row| row.judgement.run.is_none()) => {
                "passed without a run"
            }
            (None, _) => "passed",
            (Some(Why::Failed), _) => "failed",
            (Some(Why::Stale), _) => "to be judged again: the work or the gate has changed since",
            (Some(Why::NotJudged), true) => "not run",
            (Some(Why::NotJudged), false) => "not passed yet",
            (Some(Why::Unknown), _) => "not defined",
        };
        match self.last.filter(|_| self.why != Some(Why::NotJudged)) {
            Some(row) => format!("{word} ({})", outcome(row)),
            None => word.to_owned(),
        }
    }

    /// The text for a gate that landing runs: its result is about a merged result, never about the work alone.
    fn words_of_landing(&self) -> String {
        match self.last {
            Some(row) => {
                let when = "at the last attempt to land";
                format!("{} {when} ({}); runs again when it lands", row.verdict, outcome(row))
            }
            None => "runs when the task lands, on the merged result".to_owned(),
        }
    }
}

/// When it was judged, by whom and how, in a few words.
pub(super) fn outcome(row: &JudgementRow) -> String {
    let ago = crate::render::age(&rfc3339(row.at_ms));
    let how = match &row.judgement.run {
        Some(run) => {
            let how = match (run.timed_out, run.exit) {
                (true, _) => ", out of time".to_owned(),
                (false, Some(0)) if row.verdict == Verdict::Passed => String::new(),
                (false, Some(code)) => format!(", exit code {code}"),
                (false, None) => ", ended by a signal or not started".to_owned(),
            };
            format!("{how}, took {}", Span::from_ms(run.duration_ms))
        }
        None => String::new(),
    };
    let flaky = if row.judgement.flaky { ", flaky" } else { "" };
    format!("{ago} ago, by {}{how}{flaky}", row.actor)
}

/// The command that is run, as a list of its words.
pub(super) fn command_line(command: &GateCommand) -> String {
    escape_line(&json!(command.argv).to_string())
}
