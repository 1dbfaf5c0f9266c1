//! Targets whose branch lacks what landed, because somebody had it checked out: how far behind each is, and how to bring it forward.
//!
//! Nothing is lost, but it is not where people look: a push of the branch, or work that begins at it, goes without what landed. So
//! this is reported wherever checkouts are shown, until the branch has everything.

use std::fs;
use std::path::PathBuf;

use onus_core::commit::CommitId;
use onus_core::quote::{counted, shell_word};

use super::refs::LANDED;
use super::{Error, Lander};

/// A target whose branch lacks what landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    pub target: String,
    /// Where its branch is checked out.
    pub checkouts: Vec<PathBuf>,
    /// The number of landed commits that the branch lacks.
    pub lacks: u64,
    /// The number of commits of the branch that are not in what landed, so that both have to be merged. None if the branch is gone.
    pub own: Option<u64>,
    /// The folder to call git in, if nobody has it checked out.
    home: PathBuf,
}

impl Behind {
    /// A sentence that says how far it is behind.
    pub fn words(&self) -> String {
        let (lacks, target) = (counted(self.lacks, "commit"), &self.target);
        match self.own {
            None => format!("{lacks} landed in {target}, and there is no branch {target} any more"),
            Some(0) => format!("{lacks} behind what landed in {target}"),
            Some(own) => {
                format!("{lacks} behind what landed in {target}, with {} of its own", counted(own, "commit"))
            }
        }
    }

    /// The git command that brings it forward, or removes the obstacle.
    pub fn command(&self) -> String {
        // A name that cannot be one shell word is left for the reader to fill in.
        let word = |text: &str| shell_word(text).unwrap_or_else(|| "…".to_owned());
        let at = word(&self.checkouts.last().unwrap_or(&self.home).to_string_lossy());
        let (target, landed) = (word(&self.target), word(&format!("{LANDED}{}", self.target)));
        match (self.own, self.checkouts.as_slice()) {
            (None, _) => format!("git -C {at} branch {target} {landed}"),
            // The branch would move under one of the checkouts.
            (_, [_, _, ..]) => format!("git -C {at} switch --detach"),
            (Some(0), [_]) => format!("git -C {at} merge --ff-only {landed}"),
            (Some(_), [_]) => format!("git -C {at} merge {landed}"),
            (Some(0), []) => {
                format!("git -C {at} fetch . {}", word(&format!("{LANDED}{0}:refs/heads/{0}", self.target)))
            }
            (Some(_), []) => format!("git -C {at} switch {target}"),
        }
    }
}

impl Lander {
    /// Every target whose branch lacks what landed.
    pub fn behind(&self) -> Result<Vec<Behind>, Error> {
        if !self.may_be_ahead() {
            return Ok(Vec::new());
        }
        let words = ["for-each-ref", "--format=%(objectname) %(refname)", LANDED];
        let listed = self.git().words(&words).line()?;
        let mut behind = Vec::new();
        for (landed, name) in listed.lines().filter_map(|line| line.split_once(' ')) {
            let (Some(target), Ok(landed)) = (name.strip_prefix(LANDED), landed.parse::<CommitId>()) else {
                continue;
            };
            let (lacks, own) = match self.tips(target) {
                Err(Error::NoBranch(_)) => (self.count(&landed, None)?, None),
                tips => {
                    let branch = tips?.branch;
                    (self.count(&landed, Some(&branch))?, Some(self.count(&branch, Some(&landed))?))
                }
            };
            if lacks > 0 {
                let checkouts = match own {
                    Some(_) => self.checkouts_of(target)?,
                    None => Vec::new(),
                };
                let home = self.worktrees().home().to_owned();
                behind.push(Behind { target: target.to_owned(), checkouts, lacks, own, home });
            }
        }
        Ok(behind)
    }

    /// Whether there may be a `refs/onus/landed/` reference. Reads git's files, so that no process is started if, as nearly always,
    /// there is none.
    pub(super) fn may_be_ahead(&self) -> bool {
        let common = self.repository.common_dir();
        let is_loose = || fs::read_dir(common.join(LANDED)).is_ok_and(|mut refs| refs.next().is_some());
        let packed = || fs::read(common.join("packed-refs")).unwrap_or_default();
        let is_packed = || packed().windows(LANDED.len()).any(|bytes| bytes == LANDED.as_bytes());
        // Only git can read the reftable format.
        common.join("reftable").exists() || is_loose() || is_packed()
    }

    /// Counts the commits of one that the other lacks; without another, those that no branch has.
    fn count(&self, commit: &CommitId, other: Option<&CommitId>) -> Result<u64, Error> {
        let call = self.git().words(&["rev-list", "--count", commit.as_str(), "--not"]);
        let call = match other {
            Some(other) => call.words(&[other.as_str(), "--"]),
            None => call.words(&["--branches", "--"]),
        };
        Ok(call.line()?.parse().unwrap_or(u64::MAX))
    }
}
