//! The queue: everything that is done and has still to land, in the order of its dependencies.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::refusal::Refusal;

use super::checks::GateRun;
use super::report::Report;
use super::round::Until;
use super::{Candidate, Landings, Seated};

/// What waits to land here, and what cannot be looked at.
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
    /// What is done and has still to land in this target.
    pub fn queued(&mut self) -> Result<Queued, Refusal> {
        if self.target.is_empty() {
            self.target = self.lander.worktrees().target(None, false)?.name;
        }
        let mut queued = Queued::default();
        for of in self.engine.to_land()? {
            let id = of.view.id.clone();
            match self.looked_at(of) {
                Ok(candidate) if self.target_of(&candidate) != self.target => {}
                Ok(candidate) if !candidate.is_done() => {}
                Ok(candidate) => queued.candidates.push(candidate),
                Err(refusal) => queued.left.push((id, refusal)),
            }
        }
        queued.candidates = in_order(queued.candidates);
        Ok(queued)
    }

    /// Lands all that waits: together what does not conflict, and in halves what fails together.
    pub fn land_queue(&mut self, seated: &Seated, run: &mut GateRun<'_>) -> Result<Report, Refusal> {
        let Queued { candidates, left } = self.queued()?;
        let mut report = self.land_all(seated, candidates, Until::Landed, run)?;
        report.refused.extend(left.into_iter().map(|(id, refusal)| super::Refused {
            id,
            refusal,
            is_reopened: false,
        }));
        Ok(report)
    }
}

/// Those first that others depend on; otherwise as they were.
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
        // Dependencies have no circles; if they had one, its tasks would come as they are.
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
