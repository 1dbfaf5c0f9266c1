//! What came of trying to land some tasks.

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
    /// Where its branch was.
    pub head: CommitId,
    pub commit: CommitId,
    /// Lines in conflict that `land.union` resolved.
    pub resolved_lines: u64,
    pub gates: Vec<GateKey>,
    /// Those that a landing would have to run first, where nothing was run ([`super::Landings::check_queue`]).
    pub to_run: Vec<GateKey>,
}

/// A gate that was run, and for which tasks.
#[derive(Clone, Debug)]
pub struct Ran {
    pub gate: GateKey,
    /// Those that have to pass it.
    pub tasks: Vec<String>,
    /// On the target alone, without them.
    pub on_target: bool,
    pub verdict: Verdict,
    pub run: Run,
}

/// A task that did not.
#[derive(Clone, Debug)]
pub struct Refused {
    pub id: String,
    pub refusal: Refusal,
    /// It was done and is open again.
    pub is_reopened: bool,
}

/// What came of trying to land some tasks.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub landed: Vec<LandedTask>,
    /// The target had all that they change.
    pub found: Vec<(String, CommitId)>,
    pub refused: Vec<Refused>,
    /// In the order in which they were run.
    pub ran: Vec<Ran>,
    /// Gates that fail on the bare target: nothing landed after that.
    pub red: Vec<GateKey>,
    /// Where the target is checked out, and what became of that.
    pub checkouts: Vec<Checkout>,
}

impl Report {
    /// Whether there was nothing to land.
    pub fn is_empty(&self) -> bool {
        let Report { landed, found, refused, red, checkouts: _, ran: _ } = self;
        landed.is_empty() && found.is_empty() && refused.is_empty() && red.is_empty()
    }

    /// Adds what could not be settled.
    pub fn refuse(&mut self, refusals: Vec<Refusal>) {
        let named = |refusal: Refusal| (refusal.task.clone().unwrap_or_default(), refusal);
        self.refuse_each(refusals.into_iter().map(named));
    }

    /// Adds tasks that stay where they are, each with the reason.
    pub(super) fn refuse_each(&mut self, refused: impl IntoIterator<Item = (String, Refusal)>) {
        let stays = |(id, refusal)| Refused { id, refusal, is_reopened: false };
        self.refused.extend(refused.into_iter().map(stays));
    }

    /// Something ended it before all of these were tried: the first that is left says what, and the others that they wait.
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
