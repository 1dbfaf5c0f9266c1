//! The references of a target, the intents to land there, and the one step in which the target moves.

use std::time::Duration;

use onus_core::commit::CommitId;
use onus_core::scope::Scope;

use super::forward::CheckedOut;
use super::merge::{Conflict, Merge};
use super::{Error, Lander, no_branch};
use crate::git::GitError;

/// Where intents are: `refs/onus/landing/<id>`.
pub(super) const INTENTS: &str = "refs/onus/landing/";

/// Where a target is while somebody has its branch checked out.
pub(super) const LANDED: &str = "refs/onus/landed/";

/// Retries for a transaction whose references others had locked, and the pause between them: ten seconds in all.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// The references of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tips {
    /// `refs/heads/<target>`
    pub branch: CommitId,
    /// `refs/onus/landed/<target>`: exists while the branch must not move.
    pub landed: Option<CommitId>,
}

/// What the next landing is built on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    pub target: String,
    pub tips: Tips,
    /// The newer of both, or a merge of both.
    pub commit: CommitId,
}

/// Whether an intent was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intended {
    Written,
    /// One exists already, of a landing that is not settled.
    Taken,
}

/// What became of a step that moves a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It moved, exactly once. `checkouts`: somebody has the branch checked out, so it must be brought forward.
    Moved { checkouts: bool },
    /// Somebody else moved it first; nothing was changed, and the intent remains.
    TargetMoved,
    /// The intent was settled meanwhile; nothing was changed.
    IntentGone,
    /// A branch that is to land has moved; nothing was changed, and the intent remains.
    BranchMoved,
}

/// What one task contributes to a step that moves a target.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub id: &'a str,
    /// The commit that its intent points to.
    pub commit: &'a CommitId,
    /// Its branch, and where that must still be.
    pub branch: Option<(&'a str, &'a CommitId)>,
}

/// What became of a landing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The target contains it.
    Landed(CommitId),
    /// It did not move the target, and will not.
    Withdrawn,
}

/// One line of a transaction.
enum Line<'a> {
    Update(&'a str, &'a CommitId, &'a CommitId),
    Create(&'a str, &'a CommitId),
    Delete(&'a str, &'a CommitId),
    Verify(&'a str, &'a CommitId),
}

impl Lander {
    /// The references of a target.
    pub fn tips(&self, target: &str) -> Result<Tips, Error> {
        let (branch, landed) = (format!("refs/heads/{target}"), format!("{LANDED}{target}"));
        let words = ["for-each-ref", "--format=%(objectname) %(refname) %(symref)", "--end-of-options"];
        let listed = self.git().words(&words).words(&[&branch, &landed]).line()?;
        let find = |name: &str| {
            listed
                .lines()
                .map(|line| line.split(' ').collect::<Vec<&str>>())
                .find(|line| line.get(1) == Some(&name))
        };
        let commit = |line: Vec<&str>| line.first().and_then(|hash| hash.parse::<CommitId>().ok());
        let found = find(&branch).ok_or_else(|| no_branch(target))?;
        if let Some(to) = found.get(2).filter(|to| !to.is_empty()) {
            let to = to.strip_prefix("refs/heads/").unwrap_or(to);
            return Err(Error::Symbolic(target.to_owned(), to.to_owned()));
        }
        let branch = commit(found).ok_or_else(|| Error::NoBranch(target.to_owned()))?;
        Ok(Tips { branch, landed: find(&landed).and_then(commit) })
    }

    /// Returns what the next landing is built on. If the branch and what landed have diverged, both are merged; the inner error lists
    /// their conflicts.
    pub fn tip(&self, target: &str, union: &Scope) -> Result<Result<Tip, Vec<Conflict>>, Error> {
        let tips = self.tips(target)?;
        let commit = match self.newest(&tips)? {
            Some(newest) => newest,
            None => {
                let landed = tips.landed.clone().unwrap_or_else(|| tips.branch.clone());
                match self.merge(&tips.branch, &landed, union)? {
                    Merge::Conflicts(conflicts) => return Ok(Err(conflicts)),
                    Merge::Clean(merged) => {
                        let message = format!("Merge what landed into {target}\n");
                        self.join(&merged.tree, &tips.branch, &landed, &message)?
                    }
                }
            }
        };
        Ok(Ok(Tip { target: target.to_owned(), tips, commit }))
    }

    /// The tip that contains the other one. None if they have diverged.
    fn newest(&self, tips: &Tips) -> Result<Option<CommitId>, Error> {
        let Some(landed) = &tips.landed else { return Ok(Some(tips.branch.clone())) };
        if self.contains(&tips.branch, landed)? {
            return Ok(Some(tips.branch.clone()));
        }
        Ok(self.contains(landed, &tips.branch)?.then(|| landed.clone()))
    }

    /// Writes an intent, unless there is one. `result` must contain the target.
    pub fn intend(&self, id: &str, result: &CommitId, tip: &Tip) -> Result<Intended, Error> {
        if !self.contains(result, &tip.commit)? {
            return Err(Error::NotAhead);
        }
        let reference = format!("{INTENTS}{id}");
        for _ in 0..TRIES {
            match self.transaction("onus: about to land", &[Line::Create(&reference, result)])? {
                None => return Ok(Intended::Written),
                Some(_) if self.intent(id)?.is_some() => return Ok(Intended::Taken),
                Some(why) if is_locked(&why) => std::thread::sleep(PAUSE),
                Some(why) => return Err(Error::Git(GitError(why))),
            }
        }
        Err(busy())
    }

    /// The commit that an intent points to, if there is one.
    pub fn intent(&self, id: &str) -> Result<Option<CommitId>, Error> {
        Ok(self.intents()?.into_iter().find(|(it, _)| it == id).map(|(_, commit)| commit))
    }

    /// The intents of all landings that are not settled.
    pub fn intents(&self) -> Result<Vec<(String, CommitId)>, Error> {
        let words = ["for-each-ref", "--format=%(objectname) %(refname)", INTENTS];
        let listed = self.git().words(&words).line()?;
        let found = listed.lines().filter_map(|line| {
            let (hash, name) = line.split_once(' ')?;
            Some((name.strip_prefix(INTENTS)?.to_owned(), hash.parse().ok()?))
        });
        Ok(found.collect())
    }

    /// Moves the target to the intended commit if target and intent are unchanged: in one transaction, or not at all.
    pub fn move_target(&self, id: &str, tip: &Tip, result: &CommitId, message: &str) -> Result<Moved, Error> {
        self.move_together(&[Part { id, commit: result, branch: None }], tip, result, message)
    }

    /// Moves the target for several tasks in one step; `result` is the commit of the last of them.
    pub fn move_together(
        &self,
        parts: &[Part<'_>],
        tip: &Tip,
        result: &CommitId,
        message: &str,
    ) -> Result<Moved, Error> {
        let intents: Vec<String> = parts.iter().map(|part| format!("{INTENTS}{}", part.id)).collect();
        let heads: Vec<(String, &CommitId)> = parts
            .iter()
            .filter_map(|part| part.branch)
            .map(|(name, head)| (format!("refs/heads/{name}"), head))
            .collect();
        let (branch, landed) = (format!("refs/heads/{}", tip.target), format!("{LANDED}{}", tip.target));
        for _ in 0..TRIES {
            let now = self.tips(&tip.target)?;
            if now != tip.tips && self.newest(&now)?.as_ref() != Some(&tip.commit) {
                return Ok(if self.all_stand(parts)? { Moved::TargetMoved } else { Moved::IntentGone });
            }
            let is_out = !self.checked_out(&tip.target)?.is_empty();
            let mut lines = match (is_out, &now.landed) {
                (false, None) => vec![Line::Update(&branch, result, &now.branch)],
                (false, Some(old)) => {
                    vec![Line::Update(&branch, result, &now.branch), Line::Delete(&landed, old)]
                }
                // A commit to the branch meanwhile moves the target, too, so its value is verified.
                (true, None) => vec![Line::Verify(&branch, &now.branch), Line::Create(&landed, result)],
                (true, Some(old)) => {
                    vec![Line::Verify(&branch, &now.branch), Line::Update(&landed, result, old)]
                }
            };
            lines.extend(intents.iter().zip(parts).map(|(intent, part)| Line::Delete(intent, part.commit)));
            lines.extend(heads.iter().map(|(name, head)| Line::Verify(name, head)));
            match self.transaction(message, &lines)? {
                None if is_out => return Ok(Moved::Moved { checkouts: true }),
                None => {
                    let checkouts = self.take_back(&tip.target, &now, result)?;
                    return Ok(Moved::Moved { checkouts });
                }
                Some(_) if !self.all_stand(parts)? => return Ok(Moved::IntentGone),
                Some(_) if heads.iter().any(|(name, head)| self.commit_of(name).as_ref() != Some(*head)) => {
                    return Ok(Moved::BranchMoved);
                }
                // Try again: a value has changed, or somebody had a lock.
                Some(why) if is_locked(&why) || self.tips(&tip.target)? != now => std::thread::sleep(PAUSE),
                Some(why) => return Err(Error::Git(GitError(why))),
            }
        }
        Err(busy())
    }

    /// Whether every intent still exists at its commit.
    fn all_stand(&self, parts: &[Part<'_>]) -> Result<bool, Error> {
        let there = self.intents()?;
        let stands =
            |part: &Part<'_>| there.iter().any(|(id, commit)| id == part.id && commit == part.commit);
        Ok(parts.iter().all(stands))
    }

    /// Moves a branch that was checked out during the move back to the commit of that checkout, and keeps what landed at
    /// `refs/onus/landed/`. Returns whether there is a checkout.
    fn take_back(&self, target: &str, before: &Tips, result: &CommitId) -> Result<bool, Error> {
        if self.checked_out(target)?.is_empty() {
            return Ok(false);
        }
        let (branch, landed) = (format!("refs/heads/{target}"), format!("{LANDED}{target}"));
        let lines = [Line::Update(&branch, &before.branch, result), Line::Create(&landed, result)];
        for _ in 0..TRIES {
            match self.transaction("onus: checked out meanwhile", &lines)? {
                Some(why) if is_locked(&why) => std::thread::sleep(PAUSE),
                // On any other failure the branch has moved on: it contains what landed, and so does that checkout.
                _ => return Ok(true),
            }
        }
        Err(busy())
    }

    /// Settles a landing: afterwards it either has moved the target or never will. `intended` is the commit, if the caller knows it;
    /// it decides where the intent is gone because the landing succeeded.
    pub fn settle(&self, id: &str, target: &str, intended: Option<&CommitId>) -> Result<Settled, Error> {
        let reference = format!("{INTENTS}{id}");
        for _ in 0..TRIES {
            let intent = self.intent(id)?;
            // By now the reference may belong to another landing, even of another target. That one is ended, too, but says nothing
            // about this one.
            let Some(commit) = intended.or(intent.as_ref()) else { return Ok(Settled::Withdrawn) };
            let is_there = self.is_in(target, commit)?;
            let settled = if is_there { Settled::Landed(commit.clone()) } else { Settled::Withdrawn };
            let Some(there) = &intent else { return Ok(settled) };
            match self.transaction("onus: settled", &[Line::Delete(&reference, there)])? {
                None => return Ok(settled),
                // A lander or another settler was faster, or holds the lock.
                Some(why) if is_locked(&why) || self.intent(id)? != intent => {
                    // The intent is gone, but its commit was read above.
                    if intended.is_none() && self.intent(id)?.is_none() {
                        return self.settle(id, target, Some(commit));
                    }
                    std::thread::sleep(PAUSE);
                }
                Some(why) => return Err(Error::Git(GitError(why))),
            }
        }
        Err(busy())
    }

    /// Whether a target contains a commit, in either of its references.
    pub fn is_in(&self, target: &str, commit: &CommitId) -> Result<bool, Error> {
        let tips = match self.tips(target) {
            Err(Error::NoBranch(_)) => return Ok(false),
            tips => tips?,
        };
        let is_beside = tips.landed.as_ref().map(|landed| self.contains(landed, commit)).transpose()?;
        Ok(is_beside == Some(true) || self.contains(&tips.branch, commit)?)
    }

    /// Moves the branch itself to what landed, once nobody has it checked out any more.
    pub(super) fn catch_up(&self, target: &str, tips: &Tips) -> Result<(), Error> {
        let Some(to) = &tips.landed else { return Ok(()) };
        let (branch, landed) = (format!("refs/heads/{target}"), format!("{LANDED}{target}"));
        let lines = [Line::Update(&branch, to, &tips.branch), Line::Delete(&landed, to)];
        match self.transaction("onus: brought forward", &lines)? {
            None => self.take_back(target, tips, to).map(drop),
            // Somebody moved one of them: a later call catches up.
            Some(_) => Ok(()),
        }
    }

    /// Deletes `refs/onus/landed/<target>` once the branch has all of it.
    pub(super) fn tidy_landed(&self, target: &str) -> Result<(), Error> {
        let tips = self.tips(target)?;
        let Some(landed) = &tips.landed else { return Ok(()) };
        if self.contains(&tips.branch, landed)? {
            let reference = format!("{LANDED}{target}");
            let branch = format!("refs/heads/{target}");
            let lines = [Line::Verify(&branch, &tips.branch), Line::Delete(&reference, landed)];
            // If it fails, a reference moved meanwhile, and a later call tidies up.
            drop(self.transaction("onus: brought forward", &lines)?);
        }
        Ok(())
    }

    /// The checkouts that a branch must not move under.
    pub(super) fn checked_out(&self, target: &str) -> Result<Vec<CheckedOut>, Error> {
        super::forward::checked_out(self, target)
    }

    /// Runs a transaction. Returns None if all of it was done, else why nothing was.
    fn transaction(&self, message: &str, lines: &[Line<'_>]) -> Result<Option<String>, Error> {
        // Explicit start and commit: if this process is killed while writing, git must not take half of the input for all of it.
        let mut input = b"start\0".to_vec();
        for line in lines {
            let text = match line {
                Line::Update(name, new, old) => format!("update {name}\0{new}\0{old}\0"),
                Line::Create(name, new) => format!("create {name}\0{new}\0"),
                Line::Delete(name, old) => format!("delete {name}\0{old}\0"),
                Line::Verify(name, old) => format!("verify {name}\0{old}\0"),
            };
            input.extend(text.bytes());
        }
        input.extend(b"prepare\0commit\0");
        let words = ["update-ref", "--no-deref", "-m", message, "--stdin", "-z"];
        let outcome = self.git().words(&words).input(&input).outcome()?;
        Ok((!outcome.status.success()).then_some(outcome.err))
    }
}

/// Whether the references were locked by somebody else, rather than being wrong.
fn is_locked(why: &str) -> bool {
    ["Unable to create", "unable to create lock", "cannot lock references"]
        .iter()
        .any(|words| why.contains(words))
        && !why.contains("Permission denied")
}

fn busy() -> Error {
    Error::Git(GitError("other programs keep the references of this repository locked".to_owned()))
}
