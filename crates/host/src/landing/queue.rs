//! The queue: all tasks that are done and have still to land, in the order of their dependencies.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::refusal::Refusal;

use super::checks::GateRun;
use super::report::{LandedTask, Report};
use super::round::{Built, Until};
use super::{Candidate, Landings, Seated};

/// What waits to land here, and what cannot land from here.
#[derive(Debug, Default)]
pub struct Queued {
    pub candidates: Vec<Candidate>,
    /// Tasks that cannot land from here, each with the reason.
    pub left: Vec<(String, Refusal)>,
}

impl Queued {
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty() && self.left.is_empty()
    }
}

impl Landings<'_> {
    /// Reads the tasks that are done and have still to land in this target.
    pub fn queued(&mut self) -> Result<Queued, Refusal> {
        if self.target.is_empty() {
            self.target = self.lander.worktrees().target(None, false)?.name;
        }
        let mut queued = Queued::default();
        for of in self.engine.to_land()? {
            let id = of.view.id.clone();
            match self.candidate_of(of) {
                Ok(candidate) if self.target_of(&candidate) != self.target => {}
                Ok(candidate) if !candidate.is_done() => {}
                Ok(candidate) => queued.candidates.push(candidate),
                Err(refusal) => queued.left.push((id, refusal)),
            }
        }
        queued.candidates = in_order(queued.candidates);
        Ok(queued)
    }

    /// Lands the queue: tasks that do not conflict land together, and a batch that fails its gates is halved.
    pub fn land_queue(&mut self, seated: &Seated, run: &mut GateRun<'_>) -> Result<Report, Refusal> {
        let Queued { candidates, left } = self.queued()?;
        let mut report = self.land_all(seated, candidates, Until::Landed, run)?;
        report.refuse_each(left);
        Ok(report)
    }

    /// What landing the queue would do, assuming that gates which have still to be run will pass. Nothing is run, moved or recorded, and
    /// no lander has to wait.
    pub fn check_queue(&mut self) -> Result<Report, Refusal> {
        let Queued { candidates, left } = self.queued()?;
        let mut report = Report::default();
        let mut rest = self.landable(None, candidates, &mut report);
        let mut tip = self.tip()?;
        let now = tip.commit.clone();
        // As if each round had landed before the next is built.
        while !rest.is_empty() {
            let asked = self.asked(&tip.commit)?;
            let (built, deferred) = self.build(&tip, &asked, rest, Until::Checked, &mut report)?;
            let to_run = |part: &Built| part.lacking().map(|gate| gate.key.clone()).collect();
            let would = |part: &Built| LandedTask { to_run: to_run(part), ..part.landed() };
            report.landed.extend(built.iter().map(would));
            // A conflict with a later state of the target cannot be resolved yet.
            if tip.commit == now {
                self.say_how(&mut report);
            }
            let Some(last) = built.last() else { break };
            tip.commit = last.commit.clone();
            rest = deferred;
        }
        report.refuse_each(left);
        Ok(report)
    }
}

/// Sorts dependencies first, otherwise keeps the order.
fn in_order(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let ids: BTreeSet<String> = candidates.iter().map(|it| it.id().to_owned()).collect();
    let mut waits: BTreeMap<String, BTreeSet<String>> = candidates
        .iter()
        .map(|it| {
            let deps = it.of.view.deps.iter().filter(|dep| ids.contains(*dep)).cloned();
            (it.id().to_owned(), deps.collect())
        })
        .collect();
    let (mut ordered, mut left) = (Vec::with_capacity(candidates.len()), candidates);
    while !left.is_empty() {
        // Dependencies have no cycles; if they had one, its tasks would keep their order.
        let at = left.iter().position(|it| waits.get(it.id()).is_none_or(BTreeSet::is_empty)).unwrap_or(0);
        let next = left.remove(at);
        waits.remove(next.id());
        for others in waits.values_mut() {
            others.remove(next.id());
        }
        ordered.push(next);
    }
    ordered
}
