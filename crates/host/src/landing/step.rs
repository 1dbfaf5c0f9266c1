//! The step of a round: writes the intents, moves the target, and records it. `mod.rs` explains the order.

use onus_core::command::Act;
use onus_core::commit::CommitId;
use onus_core::landing::Settled;
use onus_core::quote;
use onus_core::refusal::{Code, Refusal, Step};
use onus_engine::{Identity, Request, Unsettled};
use onus_repo::landing::{Error, Intended, Leftover, Moved, Part, Push, Tidying, Tip};

use super::report::{Refused, Report};
use super::round::{Built, push_failed, unreachable};
use super::settle::REMOTE_LIMIT;
use super::{Candidate, Landings, Seated, refused};
use crate::host::on_task;

impl Landings<'_> {
    /// Writes the intents, moves the target and records it. Returns the candidates to try again, if something was in the way.
    pub(super) fn commit_round(
        &mut self,
        seated: &Seated,
        tip: &Tip,
        built: Vec<Built>,
        report: &mut Report,
    ) -> Result<Option<Vec<Candidate>>, Refusal> {
        let Some(result) = built.last().map(|last| last.commit.clone()) else { return Ok(None) };
        let mut begun: Vec<Unsettled> = Vec::new();
        for part in &built {
            match self.begin(seated, tip, part) {
                Ok(Ok(unsettled)) => begun.push(unsettled),
                // The server refused it, or the seat was lost: the other intents must have no effect later.
                Err(refusal) => {
                    self.withdraw(&begun)?;
                    return Err(refusal);
                }
                Ok(Err(refusal)) => {
                    self.withdraw(&begun)?;
                    let id = part.candidate.id().to_owned();
                    let rest = built.iter().map(|part| part.candidate.clone());
                    let rest = rest.filter(|candidate| candidate.id() != id).collect();
                    report.refused.push(Refused { id, refusal, is_reopened: false, kept_for: None });
                    return Ok(Some(rest));
                }
            }
        }
        self.will_tidy(&built);
        let moved = match self.move_target(tip, &built, &result) {
            Ok(moved) => moved,
            Err(refusal) => {
                // The server refused it or cannot be reached: it must have no effect later.
                self.withdraw(&begun)?;
                self.forget_tidying(&built);
                return Err(refusal);
            }
        };
        match moved {
            Moved::Moved { .. } => {}
            Moved::TargetMoved | Moved::IntentGone | Moved::BranchMoved => {
                self.withdraw(&begun)?;
                self.forget_tidying(&built);
                return Ok(Some(built.into_iter().map(|part| part.candidate).collect()));
            }
        }
        let requests: Vec<Request> =
            begun.iter().map(|unsettled| self.settled(unsettled, Settled::Landed)).collect();
        for answer in self.engine.execute(&requests) {
            answer?;
        }
        report.landed.extend(built.iter().map(Built::landed));
        Ok(None)
    }

    /// Notes, before the target moves, what to remove afterwards, so that another lander can continue if this one is killed.
    fn will_tidy(&mut self, built: &[Built]) {
        if self.keeps {
            return;
        }
        for part in built {
            let Candidate { of, branch, head } = &part.candidate;
            let id = of.view.id.clone();
            let leftover = Leftover {
                task: of.task.uid.to_string(),
                id: id.clone(),
                branch: branch.clone(),
                head: head.clone(),
            };
            self.tidying.extend(self.lander.will_tidy(&leftover).map(|tidying| (id, tidying)));
        }
    }

    /// Deletes the notes of tasks that did not land, whose worktrees and branches stay.
    fn forget_tidying(&mut self, built: &[Built]) {
        let is_of = |id: &str| built.iter().any(|part| part.candidate.id() == id);
        let (gone, rest) = std::mem::take(&mut self.tidying).into_iter().partition(|(id, _)| is_of(id));
        self.tidying = rest;
        let gone: Vec<(String, Tidying)> = gone;
        gone.into_iter().for_each(|(_, tidying)| tidying.done());
    }

    /// Writes an intent: first the reference, then the event. If the lander is stopped in between and the task changes hands, the
    /// store refuses the event.
    fn begin(
        &mut self,
        seated: &Seated,
        tip: &Tip,
        part: &Built,
    ) -> Result<Result<Unsettled, Refusal>, Refusal> {
        let Built { candidate, commit, demand, extent, resolved_lines, gates, plan: _ } = part;
        let id = candidate.id();
        for _ in 0..2 {
            let intended = match &self.settings.remote {
                None => self.lander.intend(id, commit, tip).map_err(refused)?,
                Some(remote) => pushed(remote, self.lander.intend_at(remote, id, commit, REMOTE_LIMIT))?,
            };
            match intended {
                Intended::Written => break,
                // Left by a lander that was killed before it wrote the event, or that has just lost the seat.
                Intended::Taken => drop(self.settle_reference(id, None)?),
            }
        }
        let intent = self.intent(&tip.commit, commit, candidate.head.clone(), *resolved_lines, gates.clone());
        let checked = (intent.clone(), demand.clone(), extent.clone());
        let request = self.begun(Some(seated), candidate, checked);
        let task = &candidate.of.task;
        let unsettled = Unsettled { task: task.uid, id: id.to_owned(), intent };
        match self.engine.run(&request) {
            Ok(_) => Ok(Ok(unsettled)),
            Err(refusal) => {
                self.settle_reference(id, Some(commit))?;
                // Without the seat, the round ends.
                match refusal.seat.is_some() {
                    true => Err(refusal),
                    false => Ok(Err(refusal)),
                }
            }
        }
    }

    /// Deletes the reference of an intent. Returns whether the target contains its commit.
    fn settle_reference(&self, id: &str, commit: Option<&CommitId>) -> Result<bool, Refusal> {
        use onus_repo::landing::Settled::Landed;
        match (&self.settings.remote, commit) {
            (None, _) => {
                let settled = self.lander.settle(id, &self.target, commit).map_err(refused)?;
                Ok(matches!(settled, Landed(_)))
            }
            (Some(remote), commit) => {
                // Without a commit of ours, the answer does not matter: any commit will do to delete the reference.
                let nothing = self.lander.commit_of(&format!("refs/remotes/{remote}/{}", self.target));
                let Some(commit) = commit.cloned().or(nothing) else { return Ok(false) };
                let settled = self.lander.settle_at(remote, id, &self.target, &commit, REMOTE_LIMIT);
                Ok(matches!(pushed(remote, settled)?, Landed(_)))
            }
        }
    }

    fn move_target(&self, tip: &Tip, built: &[Built], result: &CommitId) -> Result<Moved, Refusal> {
        let parts: Vec<Part<'_>> = built
            .iter()
            .map(|part| Part {
                id: part.candidate.id(),
                commit: &part.commit,
                branch: Some((part.candidate.branch.as_str(), &part.candidate.head)),
            })
            .collect();
        let ids: Vec<&str> = parts.iter().map(|part| part.id).collect();
        let message = format!("onus: land {}", ids.join(", "));
        let Some(remote) = &self.settings.remote else {
            return self.lander.move_together(&parts, tip, result, &message).map_err(refused);
        };
        let steps = (&tip.commit, result);
        pushed(remote, self.lander.move_together_at(remote, &parts, &self.target, steps, REMOTE_LIMIT))
    }

    /// Settles landings that were begun, so that they move nothing any more.
    fn withdraw(&mut self, begun: &[Unsettled]) -> Result<(), Refusal> {
        for unsettled in begun {
            let landed = self.settle_reference(&unsettled.id, Some(&unsettled.intent.commit))?;
            let settled = if landed { Settled::Landed } else { Settled::Withdrawn };
            self.engine.record_settled(&self.identity, unsettled, settled)?;
        }
        Ok(())
    }

    fn settled(&self, unsettled: &Unsettled, settled: Settled) -> Request {
        let act = Act::SettleLanding { commit: unsettled.intent.commit.clone(), settled };
        let identity = Identity { token: None, ..self.identity.clone() };
        on_task(identity, unsettled.task, act)
    }
}

/// What a remote answered to a push, or the refusal for one that failed.
fn pushed<T>(remote: &str, answer: Result<Result<T, Push>, Error>) -> Result<T, Refusal> {
    answer.map_err(refused)?.map_err(|push| {
        let Push::Refused(words) = &push else { return unreachable(remote, &push_failed(&push)) };
        let message = format!("{} refused it: {}", quote::name(remote), quote::visible_line(words));
        Refusal::new(Code::NotAllowed, message)
            .next(Step::plain("if the branch is protected, land by a pull request"))
    })
}
