//! Which commits are nowhere else: not in another branch, and not in the target by what they change (`landing/there.rs`). On a detached
//! HEAD only commits that are there one by one count: no branch keeps the commits themselves.

use std::time::Duration;

use super::Worktrees;
use crate::landing::Lander;

/// What is not known in time counts as not landed.
const LIMIT: Duration = Duration::from_secs(20);

impl Worktrees {
    /// How many commits of `tip`, checked out as `branch`, are in no other branch, nor landed in `target` by content.
    pub(super) fn unlanded(&self, tip: &str, branch: Option<&str>, target: Option<(&str, &str)>) -> u64 {
        if branch.is_some() && branch == target.map(|(name, _)| name) {
            return 0;
        }
        let elsewhere = self.only_here(tip, branch);
        match (elsewhere, target) {
            (0, _) => 0,
            (_, Some((_, target))) if self.is_there(tip, branch, target) => 0,
            (count, _) => count,
        }
    }

    /// How many commits of a task's branch are still to land in its target. What cannot be told is none.
    pub fn to_land(&self, branch: &str, target: &str) -> u64 {
        let tip = self.commit_of(&format!("refs/heads/{branch}"));
        let (Some(tip), Ok(target)) = (tip, self.target(Some(target), false)) else { return 0 };
        match self.ahead(&tip, &target.commit) {
            Ok(count) if count > 0 && !self.is_there(&tip, Some(branch), &target.commit) => count,
            _ => 0,
        }
    }

    /// Commits that no other branch has. What cannot be counted is there.
    pub(super) fn only_here(&self, tip: &str, branch: Option<&str>) -> u64 {
        let mut call = self.git().words(&["rev-list", "--count", tip, "--not"]);
        if let Some(branch) = branch {
            call = call.word(format!("--exclude={branch}"));
        }
        let count = call.words(&["--branches", "--remotes", "--glob=refs/onus/landed"]).limit(LIMIT).line();
        count.ok().and_then(|count| count.parse().ok()).unwrap_or(u64::MAX)
    }

    fn is_there(&self, tip: &str, branch: Option<&str>, target: &str) -> bool {
        let (Ok(tip), Ok(target)) = (tip.parse(), target.parse()) else { return false };
        let lander = Lander::in_worktrees(self);
        match branch {
            Some(_) => lander.is_there(&tip, &target),
            // Nothing else keeps what a detached HEAD has: each commit must be there, with what it says.
            None => lander.is_there_by_patches(&tip, &target),
        }
    }
}
