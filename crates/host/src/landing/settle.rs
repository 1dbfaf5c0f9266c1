//! Finds out what became of landings, from the references that they left and from what the target contains.

use std::path::Path;
use std::time::Duration;

use onus_core::command::Act;
use onus_core::commit::CommitId;
use onus_core::landing::{LandStyle, Landed, Settled};
use onus_core::refusal::Refusal;
use onus_core::task::State;
use onus_engine::{Identity, SettleResult, Unsettled};
use onus_os::clock;
use onus_repo::Place;
use onus_repo::landing::{self, Lander};

use super::{Candidate, Landings, refused};
use crate::host::on_task;
use crate::worktree::machine;

/// How long a remote may take to answer.
pub(super) const REMOTE_LIMIT: Duration = Duration::from_secs(60);

/// Settles a landing that was begun, by its references: if it has not moved its target by now, it never will. `remote`: the
/// configured one.
pub(crate) fn settle(place: Option<&Place>, remote: Option<&str>, unsettled: &Unsettled) -> SettleResult {
    let Unsettled { id, intent, .. } = unsettled;
    let lander = match place.map(Lander::of) {
        Some(Ok(Some(lander))) => lander,
        Some(Err(foreign)) => return SettleResult::Failed(Refusal::from(foreign).message),
        Some(Ok(None)) | None => return SettleResult::Elsewhere,
    };
    let settled = match &intent.place.machine {
        None if remote == Some(intent.place.repository.as_str()) => {
            let at =
                lander.settle_at(&intent.place.repository, id, &intent.target, &intent.commit, REMOTE_LIMIT);
            match at {
                Ok(Ok(settled)) => Ok(settled),
                Ok(Err(push)) => return SettleResult::Failed(super::round::push_failed(&push)),
                Err(error) => Err(error),
            }
        }
        Some(there) if *there == machine(&clock::now()) && is_here(&lander, &intent.place.repository) => {
            lander.settle(id, &intent.target, Some(&intent.commit))
        }
        Some(_) | None => return SettleResult::Elsewhere,
    };
    match settled {
        Ok(landing::Settled::Landed(_)) => SettleResult::Done(Settled::Landed),
        Ok(landing::Settled::Withdrawn) => SettleResult::Done(Settled::Withdrawn),
        Err(error) => SettleResult::Failed(error.to_string()),
    }
}

fn is_here(lander: &Lander, repository: &str) -> bool {
    let (own, named) = (lander.worktrees().common_dir(), Path::new(repository));
    own == named || own.canonicalize().is_ok_and(|own| named.canonicalize().is_ok_and(|named| own == named))
}

impl Landings<'_> {
    /// Finds tasks that are done and whose changes are in their target, by whatever way, and records that they landed. Returns them.
    pub fn recognise(&mut self) -> Result<Vec<(String, CommitId)>, Refusal> {
        let mut found = Vec::new();
        for of in self.engine.to_land()? {
            let Ok(candidate) = self.candidate_of(of) else { continue };
            if candidate.of.task.state != State::Done || candidate.of.task.landing.intent.is_some() {
                continue;
            }
            let target = self.target_of(&candidate);
            let newest = self.lander.worktrees().target(Some(&target), false);
            let Ok(tip) = newest.and_then(|newest| newest.commit.parse()) else { continue };
            // A branch without a commit of its own would count as contained in any target.
            if candidate.has_commits() && self.lander.is_landed(&candidate.head, &tip).map_err(refused)? {
                self.found(&candidate, &target, &tip)?;
                found.push((candidate.id().to_owned(), tip));
            }
        }
        Ok(found)
    }

    /// The target of a task's branch.
    pub fn target_of(&self, candidate: &Candidate) -> String {
        candidate.of.task.branch.as_ref().map_or_else(|| self.target.clone(), |own| own.target.clone())
    }

    /// Records that a task's changes are in the target.
    pub(super) fn found(
        &mut self,
        candidate: &Candidate,
        target: &str,
        tip: &CommitId,
    ) -> Result<(), Refusal> {
        let act = Act::FoundLanded(Landed {
            target: target.to_owned(),
            commit: tip.clone(),
            style: if candidate.has_commits() { LandStyle::Elsewhere } else { LandStyle::Nothing },
            resolved_lines: 0,
            gates: Vec::new(),
        });
        let identity = Identity { token: None, ..self.identity.clone() };
        self.engine.run(&on_task(identity, candidate.of.task.uid, act)).map(drop)
    }
}
