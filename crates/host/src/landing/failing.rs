//! Tasks that do not land: why, which tasks they conflict with, and what becomes of them.

use onus_core::command::Act;
use onus_core::commit::CommitId;
use onus_core::decide::failed_step;
use onus_core::gate::GateKey;
use onus_core::landing::{ConflictFile, Failure, MOST_CONFLICTS, Obstruction};
use onus_core::quote;
use onus_core::refusal::{Code, Refusal, Step};
use onus_repo::landing::Conflict;

use super::report::Refused;
use super::round::Until;
use super::{Candidate, Landings};
use crate::host::on_task;

/// The most files that are suggested for `land.union`.
const MOST_STEPS: usize = 3;

impl Landings<'_> {
    /// Reports conflicting files with the tasks on the other side, and records that the task did not land.
    pub(super) fn conflicts(
        &mut self,
        candidate: &Candidate,
        tip: &CommitId,
        conflicts: &[Conflict],
        until: Until,
    ) -> Result<Refused, Refusal> {
        let id = candidate.id().to_owned();
        let mut files = Vec::new();
        for conflict in conflicts.iter().take(MOST_CONFLICTS) {
            let mut with = Vec::new();
            for other in self.lander.tasks_behind(&conflict.path, &candidate.head, tip) {
                with.push(self.with_actor(&other));
            }
            files.push(ConflictFile { path: conflict.path.clone(), lines: conflict.conflict_lines, with });
        }
        let told: Vec<String> = files.iter().map(told).collect();
        let more = conflicts.len().saturating_sub(told.len());
        let more = if more > 0 { format!("; {more} more") } else { String::new() };
        let target = quote::name(&self.target);
        let verb = if until == Until::Checked { "would conflict" } else { "conflicts" };
        let message = format!("{id} {verb} with {target}: {}{more}", told.join("; "));
        let why = Obstruction::Conflict { files, count: conflicts.len() as u64 };
        let mut refusal = Refusal::new(Code::Conflict, message).task(&id);
        // The project decides which files keep both sides, so this is suggested to people only.
        if self.identity.actor.is_person() {
            let appended = conflicts.iter().filter(|conflict| conflict.only_appended).take(MOST_STEPS);
            refusal.next.extend(appended.map(|conflict| Step::KeepBothSides(conflict.path.clone())));
        }
        self.fail(candidate, tip, why, refusal, until)
    }

    /// The name that a branch has to merge to contain what has landed.
    pub(super) fn merge_name(&self) -> String {
        let beside = format!("refs/onus/landed/{}", self.target);
        match &self.settings.remote {
            Some(remote) => format!("{remote}/{}", self.target),
            None if self.lander.commit_of(&beside).is_some() => beside,
            None => self.target.clone(),
        }
    }

    /// A task's id, with the actor who did it.
    fn with_actor(&mut self, id: &str) -> String {
        let found = id.parse().ok().and_then(|task| self.engine.landable(None, Some(&task)).ok());
        match found.and_then(|found| found.value.last_actor) {
            Some(actor) => format!("{id} by {actor}"),
            None => id.to_owned(),
        }
    }

    pub(super) fn failed_gate(
        &mut self,
        candidate: &Candidate,
        tip: &CommitId,
        gate: &GateKey,
        until: Until,
    ) -> Result<Refused, Refusal> {
        let id = candidate.id().to_owned();
        let message = format!(
            "{id} does not land: gate {gate} failed on the merged result, and passed on {} alone",
            quote::name(&self.target)
        );
        let refusal = Refusal::new(Code::Gate, message).task(&id).next(failed_step(&id, gate));
        self.fail(candidate, tip, Obstruction::Gates { gates: vec![gate.clone()] }, refusal, until)
    }

    /// Records why a branch cannot land as it is. A task that was done is open again.
    fn fail(
        &mut self,
        candidate: &Candidate,
        tip: &CommitId,
        why: Obstruction,
        refusal: Refusal,
        until: Until,
    ) -> Result<Refused, Refusal> {
        let id = candidate.id().to_owned();
        if until == Until::Checked {
            return Ok(Refused { id, refusal, is_reopened: false, kept_for: None });
        }
        let is_gates = matches!(why, Obstruction::Gates { .. });
        let act = Act::FailLanding(Failure {
            target: self.target.clone(),
            onto: tip.clone(),
            head: candidate.head.clone(),
            why,
            message: refusal.message.clone(),
            token: candidate.of.task.token,
        });
        match self.engine.run(&on_task(self.identity_for(candidate), candidate.of.task.uid, act)) {
            Ok(_) => {
                let mut refusal = refusal;
                let kept_for = candidate.of.last_actor.as_ref().filter(|_| candidate.is_done());
                if let Some(actor) = kept_for {
                    refusal.message.push_str(&format!("; it is open again, kept for {actor}"));
                }
                let others = kept_for.filter(|actor| **actor != self.identity.actor.to_string());
                refusal.next = again(&id, kept_for.is_some(), others, refusal.next, is_gates);
                Ok(Refused { id, refusal, is_reopened: candidate.is_done(), kept_for: others.cloned() })
            }
            Err(changed) => Ok(Refused { id, refusal: changed, is_reopened: false, kept_for: None }),
        }
    }
}

/// The steps to the task's next landing, around those given. How to resolve conflicts is added later (`say_how`).
/// `others`: the actor that it is kept for, if that is not the caller.
fn again(
    id: &str,
    is_reopened: bool,
    others: Option<&String>,
    other: Vec<Step>,
    is_gates: bool,
) -> Vec<Step> {
    let is_callers = others.is_none();
    let claim = (is_reopened && is_callers).then(|| Step::ClaimInWorktree(id.to_owned()));
    let land = is_callers.then(|| Step::FinishByLanding(id.to_owned()));
    match is_gates {
        true => {
            let fix = match others {
                None => "fix it in its worktree, commit".to_owned(),
                Some(actor) => for_another(actor, id, "fixes it there, commits"),
            };
            other.into_iter().chain(claim).chain([Step::plain(fix)]).chain(land).collect()
        }
        false => claim.into_iter().chain(other).chain(land).collect(),
    }
}

/// What somebody else has to do before a task can land again.
pub(super) fn for_another(actor: &str, id: &str, how: &str) -> String {
    format!("{actor} goes on: it claims {id} with its worktree, {how}, and lands it")
}

fn told(file: &ConflictFile) -> String {
    let with = if file.with.is_empty() { String::new() } else { format!(" (with {})", file.with.join(", ")) };
    format!("{}{with}", quote::name(&file.path))
}
