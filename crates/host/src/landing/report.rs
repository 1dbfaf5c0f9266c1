//! The outcome of a landing.

use onus_core::commit::CommitId;
use onus_core::gate::{GateKey, Run, Verdict};
use onus_core::refusal::{Refusal, Step};
use onus_repo::landing::Checkout;

/// A task that landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandedTask {
    pub id: String,
    pub title: String,
    pub actor: Option<String>,
    pub branch: String,
    /// The commit of its branch.
    pub head: CommitId,
    pub commit: CommitId,
    /// Lines in conflict that `land.union` resolved.
    pub resolved_lines: u64,
    pub gates: Vec<GateKey>,
    /// Gates that a landing would have to run first, if nothing was run ([`super::Landings::check_queue`]).
    pub to_run: Vec<GateKey>,
}

/// A gate that was run, and for which tasks.
#[derive(Clone, Debug)]
pub struct Ran {
    pub gate: GateKey,
    /// The tasks that have to pass it.
    pub tasks: Vec<String>,
    /// Whether it ran on the target alone, without the tasks.
    pub on_target: bool,
    pub verdict: Verdict,
    pub run: Run,
}

/// A task that did not land.
#[derive(Clone, Debug)]
pub struct Refused {
    pub id: String,
    pub refusal: Refusal,
    /// It was done and is open again.
    pub is_reopened: bool,
    /// The actor that it is kept for then, if that is another than the caller.
    pub kept_for: Option<String>,
}

/// The outcome of landing some tasks.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub landed: Vec<LandedTask>,
    /// Tasks whose changes the target already had, with its commit.
    pub found: Vec<(String, CommitId)>,
    pub refused: Vec<Refused>,
    /// Gate runs, in their order.
    pub ran: Vec<Ran>,
    /// The gate that fails on the bare target: nothing landed after that.
    pub red: Option<GateKey>,
    /// The checkouts of the target, and what became of each.
    pub checkouts: Vec<Checkout>,
}

impl Report {
    /// Whether there was nothing to land.
    pub fn is_empty(&self) -> bool {
        let Report { landed, found, refused, red, checkouts: _, ran: _ } = self;
        landed.is_empty() && found.is_empty() && refused.is_empty() && red.is_none()
    }

    /// Adds refusals, each for the task that it names.
    pub fn refuse(&mut self, refusals: Vec<Refusal>) {
        let named = |refusal: Refusal| (refusal.task.clone().unwrap_or_default(), refusal);
        self.refuse_each(refusals.into_iter().map(named));
    }

    /// Adds tasks that did not land and stay as they are, each with the reason.
    pub(super) fn refuse_each(&mut self, refused: impl IntoIterator<Item = (String, Refusal)>) {
        let stays = |(id, refusal)| Refused { id, refusal, is_reopened: false, kept_for: None };
        self.refused.extend(refused.into_iter().map(stays));
    }

    /// Adds the tasks that were not tried because landing stopped early: the first gets the refusal, the others one that says they wait.
    pub(super) fn stopped(&mut self, all: &[String], refusal: Refusal) {
        let is_told = |id: &&String| {
            self.landed.iter().any(|it| it.id == **id)
                || self.found.iter().any(|(it, _)| it == *id)
                || self.refused.iter().any(|it| it.id == **id)
        };
        let rest: Vec<String> = all.iter().filter(|id| !is_told(id)).cloned().collect();
        let waits = |id: &String| {
            let message = format!("{id} was not tried: landing ended before its turn");
            (id.clone(), Refusal::new(refusal.code, message).task(id).next(Step::Land(id.clone())))
        };
        let others: Vec<(String, Refusal)> = rest.iter().skip(1).map(waits).collect();
        let first = rest.into_iter().next().or_else(|| refusal.task.clone()).unwrap_or_default();
        self.refuse_each([(first, refusal)].into_iter().chain(others));
    }
}
