//! Gates of a landing: those of the target's own tree, run on the merged result.
//!
//! A branch does not choose the gates that it is judged by: its changes to gates count from the next landing on.
//!
//! A gate that fails may not be the branches' fault. It is run again on the bare target: if it fails there, too, the target is
//! red, and no task is reopened for it. If it passes there, it is run once more on the result: a gate that passes then is flaky, and
//! is recorded as such.

use std::path::Path;

use onus_core::commit::CommitId;
use onus_core::gate::{Demand, Gate, GateKey, GateKind, Run, Stage, Verdict};
use onus_core::quote;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::scope::Scope;
use onus_engine::{Identity, Request};
use onus_repo::worktrees::Scratch;

use super::report::Ran;
use super::round::Built;
use super::{Candidate, Landings, refused};
use crate::config::{SHARED_FILE, check_text};
use crate::gates::Judged;
use crate::host::on_task;

/// A gate that is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    pub gate: &'a Gate,
    /// Where the result is checked out.
    pub folder: &'a Path,
    pub commit: &'a CommitId,
    /// The target before the landing.
    pub base: &'a CommitId,
    /// What is checked, for people.
    pub what: &'a str,
    /// The tasks that have to pass it.
    pub tasks: &'a [String],
}

/// Runs a gate, if the user approved its command.
pub type GateRun<'a> = dyn FnMut(&Running<'_>) -> Result<(Verdict, Run), Refusal> + 'a;

/// The outcome of a round's gates.
#[derive(Debug)]
pub(super) enum GateOutcome {
    Passed,
    /// This one fails on the bare target.
    Red(GateKey),
    /// This one fails only on the result.
    Failed(GateKey),
}

/// What a target's own tree requires of what lands there.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) gates: Vec<Gate>,
    known: std::collections::BTreeSet<GateKey>,
    /// Files to which everyone only adds.
    pub(super) union: Scope,
}

impl Asked {
    /// What one task has to pass, given what it changes and the target's tree after the landing.
    pub(super) fn demand(&self, changed: &[String], tree: &str, reviewed: &str) -> Demand {
        Demand {
            gates: self.gates.clone(),
            known: self.known.clone(),
            tree: Some(tree.to_owned()),
            reviewed: Some(reviewed.to_owned()),
            changed: Some(changed.to_vec()),
        }
    }
}

impl Landings<'_> {
    /// Reads the requirements of the target's tree.
    pub(super) fn asked(&self, tip: &CommitId) -> Result<Asked, Refusal> {
        let text = self.lander.file_at(tip, SHARED_FILE).map_err(refused)?;
        let Some(text) = text else { return Ok(Asked::default()) };
        let read = crate::config::gates_in(&text).and_then(|all| Ok((all, crate::config::union_in(&text)?)));
        let (all, union) = read.map_err(|refusal| {
            let message = format!("{SHARED_FILE} of {}: {}", self.target, refusal.message);
            Refusal { message, ..refusal }
        })?;
        let known = all.iter().map(|gate| gate.key.clone()).collect();
        let gates = all.into_iter().filter(|gate| gate.stage != Stage::Before).collect();
        Ok(Asked { gates, known, union })
    }

    /// Refuses a result whose `onus.toml` onus could not read: as the target, it would stop everybody's work here.
    pub(super) fn unreadable(&self, candidate: &Candidate, result: &CommitId) -> Option<Refusal> {
        let read = self.lander.file_at(result, SHARED_FILE).map_err(|error| error.to_string());
        let why = match read {
            Ok(text) => check_text(text.as_deref()?).err()?.message,
            Err(why) => why,
        };
        let id = candidate.id();
        let message =
            format!("{id} does not land: onus could not read what it makes of {SHARED_FILE}: {why}");
        let how = format!("fix {SHARED_FILE} on {}, commit, and land again", quote::name(&candidate.branch));
        Some(Refusal::new(Code::NotAllowed, message).task(id).next(Step::plain(how)))
    }

    /// What a candidate lacks and landing does not provide: judgements of people and reviewers, and gates of stage done, if its
    /// branch has moved since it was done.
    pub(super) fn lacks(&self, candidate: &Candidate, demand: &Demand) -> Option<Refusal> {
        let missing = demand.missing(&candidate.of.task.facts, &candidate.of.judged);
        let judged: Vec<_> =
            missing.into_iter().filter(|missing| !is_run_here(missing.kind, missing.stage)).collect();
        (!judged.is_empty()).then(|| onus_core::decide::missing_refusal(candidate.id(), &judged))
    }

    /// Runs the gates that have not passed on this result yet, and records the outcome for every task that has to pass them.
    pub(super) fn check(
        &mut self,
        tip: &CommitId,
        built: &[Built],
        ran: &mut Vec<Ran>,
        run: &mut GateRun<'_>,
    ) -> Result<GateOutcome, Refusal> {
        let Some(last) = built.last() else { return Ok(GateOutcome::Passed) };
        let mut needed: Vec<Gate> = Vec::new();
        for part in built {
            for gate in part.lacking() {
                if !needed.iter().any(|known| known.key == gate.key) {
                    needed.push(gate.clone());
                }
            }
        }
        if needed.is_empty() {
            return Ok(GateOutcome::Passed);
        }
        let scratch = self.lander.worktrees().scratch(&self.root, last.commit.as_str())?;
        let mut checked = Ok(GateOutcome::Passed);
        for gate in &needed {
            checked = self.judge(gate, (&scratch, tip), built, ran, run);
            if !matches!(checked, Ok(GateOutcome::Passed)) {
                break;
            }
        }
        let removed = scratch.remove();
        let checked = checked?;
        removed?;
        Ok(checked)
    }

    /// Runs one gate as often as it takes to know whose fault a failure is.
    fn judge(
        &mut self,
        gate: &Gate,
        (scratch, tip): (&Scratch, &CommitId),
        built: &[Built],
        ran: &mut Vec<Ran>,
        run: &mut GateRun<'_>,
    ) -> Result<GateOutcome, Refusal> {
        let Some(last) = built.last() else { return Ok(GateOutcome::Passed) };
        let bare = format!("{} as it is", self.target);
        let asks = built.iter().filter(|part| part.asks(gate));
        let tasks: Vec<String> = asks.map(|part| part.candidate.id().to_owned()).collect();
        let mut run = |what, commit| {
            let running = Running { gate, folder: scratch.path(), commit, base: tip, what, tasks: &tasks };
            let (verdict, how) = run(&running)?;
            let (gate, tasks, on_target) = (gate.key.clone(), tasks.clone(), commit == tip);
            ran.push(Ran { gate, tasks, on_target, verdict, run: how.clone() });
            Ok::<_, Refusal>((verdict, how))
        };
        scratch.move_to(last.commit.as_str())?;
        let (verdict, how) = run("the merged result", &last.commit)?;
        if verdict == Verdict::Passed {
            self.record(gate, verdict, how, false, built)?;
            return Ok(GateOutcome::Passed);
        }
        // A red-green gate cannot be run on the bare target, which has no work with tests.
        if gate.kind != GateKind::RedGreen {
            scratch.move_to(tip.as_str())?;
            if run(&bare, tip)?.0 == Verdict::Failed {
                return Ok(GateOutcome::Red(gate.key.clone()));
            }
        }
        scratch.move_to(last.commit.as_str())?;
        let (again, how_again) = run("the merged result, again", &last.commit)?;
        // The first failure is recorded, too, so that nobody has to trust the second run alone.
        self.record(gate, Verdict::Failed, how, false, built)?;
        self.record(gate, again, how_again, again == Verdict::Passed, built)?;
        Ok(match again {
            Verdict::Passed => GateOutcome::Passed,
            Verdict::Failed => GateOutcome::Failed(gate.key.clone()),
        })
    }

    fn record(
        &mut self,
        gate: &Gate,
        verdict: Verdict,
        run: Run,
        flaky: bool,
        built: &[Built],
    ) -> Result<(), Refusal> {
        let requests: Vec<Request> = built
            .iter()
            .filter(|part| part.asks(gate))
            .map(|part| {
                let (tree, run) = (part.demand.tree.clone(), Some(run.clone()));
                let judged = Judged { gate, verdict, tree, run, flaky, message: None };
                on_task(self.identity_for(&part.candidate), part.candidate.of.task.uid, judged.act())
            })
            .collect();
        for answer in self.engine.execute(&requests) {
            match answer {
                Ok(_) => {}
                // The task has changed hands meanwhile, which is noticed before anything moves.
                Err(refusal) if matches!(refusal.code, Code::Held | Code::Fenced) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(())
    }

    /// The identity that acts on a task: its holder under its token; on a task that is done, anybody.
    pub(super) fn identity_for(&self, candidate: &Candidate) -> Identity {
        match candidate.is_done() {
            true => Identity { token: None, ..self.identity.clone() },
            false => self.identity.clone(),
        }
    }
}

impl Built {
    fn asks(&self, gate: &Gate) -> bool {
        self.demand.asked(&self.candidate.of.task.facts).any(|asked| asked.key == gate.key)
    }

    /// The gates that landing has to run for it.
    pub(super) fn lacking(&self) -> impl Iterator<Item = &Gate> {
        let asked = self.demand.asked(&self.candidate.of.task.facts);
        asked
            .filter(|gate| is_run_here(Some(gate.kind), Some(gate.stage)))
            .filter(|gate| self.demand.standing(gate, &self.candidate.of.judged).is_some())
    }
}

/// Whether a landing runs a gate itself.
fn is_run_here(kind: Option<GateKind>, stage: Option<Stage>) -> bool {
    stage == Some(Stage::Land) && kind.is_some_and(GateKind::is_run)
}
