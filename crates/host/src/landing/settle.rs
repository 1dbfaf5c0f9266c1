//! What became of landings: by the references that they left, and by what the target contains.

use std::path::Path;
use std::time::Duration;

use onus_core::command::{Act, Command};
use onus_core::commit::CommitId;
use onus_core::ids::TaskRef;
use onus_core::landing::{LandStyle, Landed, Settled};
use onus_core::refusal::Refusal;
use onus_core::task::State;
use onus_engine::{Identity, Request, Settling, Unsettled};
use onus_os::clock;
use onus_repo::Place;
use onus_repo::landing::{self, Lander};

use super::{Candidate, Landings, refused};
use crate::worktree::machine;

/// How long a remote may take to answer.
pub(super) const REMOTE_LIMIT: Duration = Duration::from_secs(60);

/// Looks at the references of a landing that was begun; if it has not moved its target, it never will. `remote`: the one that
/// tasks land at here.
pub(crate) fn settle(place: Option<&Place>, remote: Option<&str>, unsettled: &Unsettled) -> Settling {
    let Unsettled { id, intent, .. } = unsettled;
    let lander = match place.map(Lander::of) {
        Some(Ok(Some(lander))) => lander,
        Some(Err(foreign)) => return Settling::Failed(Refusal::from(foreign).message),
        Some(Ok(None)) | None => return Settling::Elsewhere,
    };
    let settled = match &intent.place.machine {
        None if remote == Some(intent.place.repository.as_str()) => {
            let at =
                lander.settle_at(&intent.place.repository, id, &intent.target, &intent.commit, REMOTE_LIMIT);
            match at {
                Ok(Ok(settled)) => Ok(settled),
                Ok(Err(push)) => return Settling::Failed(super::round::push_failed(&push)),
                Err(error) => Err(error),
            }
        }
        Some(there) if *there == machine(&clock::now()) && is_here(&lander, &intent.place.repository) => {
            lander.settle(id, &intent.target, Some(&intent.commit))
        }
        Some(_) | None => return Settling::Elsewhere,
    };
    match settled {
        Ok(landing::Settled::Landed(_)) => Settling::Done(Settled::Landed),
        Ok(landing::Settled::Withdrawn) => Settling::Done(Settled::Withdrawn),
        Err(error) => Settling::Failed(error.to_string()),
    }
}

fn is_here(lander: &Lander, repository: &str) -> bool {
    let (own, named) = (lander.worktrees().common_dir(), Path::new(repository));
    own == named || own.canonicalize().is_ok_and(|own| named.canonicalize().is_ok_and(|named| own == named))
}

impl Landings<'_> {
    /// Records of every task that is done whose changes are in its target by whatever way that it landed. Says which.
    pub fn recognise(&mut self) -> Result<Vec<(String, CommitId)>, Refusal> {
        let mut found = Vec::new();
        for of in self.engine.to_land()? {
            let Ok(candidate) = self.looked_at(of) else { continue };
            if candidate.of.task.state != State::Done || candidate.of.task.landing.intent.is_some() {
                continue;
            }
            let target = self.target_of(&candidate);
            let Ok(tip) = self.tip_commit(&target) else { continue };
            // A branch without a commit of its own is in every target.
            let has_own =
                candidate.of.task.branch.as_ref().is_some_and(|own| own.base != candidate.head.as_str());
            if has_own && self.lander.is_landed(&candidate.head, &tip).map_err(refused)? {
                self.found(&candidate, &target, &tip)?;
                found.push((candidate.id().to_owned(), tip));
            }
        }
        Ok(found)
    }

    /// The branch that a task's branch was made for.
    pub fn target_of(&self, candidate: &Candidate) -> String {
        candidate.of.task.branch.as_ref().map_or_else(|| self.target.clone(), |own| own.target.clone())
    }

    /// The newest commit of a target that is known here.
    fn tip_commit(&self, target: &str) -> Result<CommitId, Refusal> {
        self.lander.worktrees().target(Some(target), false)?.commit.parse()
    }

    /// Says that a task's changes are in the target.
    pub(super) fn found(
        &mut self,
        candidate: &Candidate,
        target: &str,
        tip: &CommitId,
    ) -> Result<(), Refusal> {
        let act = Act::FoundLanded(Landed {
            target: target.to_owned(),
            commit: tip.clone(),
            style: LandStyle::Elsewhere,
            resolved_lines: 0,
            gates: Vec::new(),
        });
        let command = Command::OnTask { task: Some(TaskRef::from(candidate.of.task.uid)), act, force: None };
        let identity = Identity { token: None, ..self.identity.clone() };
        self.engine.run(&Request { identity, command, key: None }).map(drop)
    }
}
