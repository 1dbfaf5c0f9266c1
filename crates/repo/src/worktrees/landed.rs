//! Which commits are nowhere else: neither in another branch nor in the target by content (`landing/there.rs`). On a detached HEAD a
//! commit counts as landed only if the target has it one by one, since no branch keeps the commits themselves.

use std::time::Duration;

use super::Worktrees;
use crate::landing::Lander;

/// No answer in time counts as not landed.
const LIMIT: Duration = Duration::from_secs(20);

impl Worktrees {
    /// Counts the commits of `tip`, checked out as `branch`, that are neither in another branch nor landed in `target` by content.
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

    /// Counts the commits of a task's branch that have still to land in its target; 0 if that is unknown.
    pub fn to_land(&self, branch: &str, target: &str) -> u64 {
        let tip = self.commit_of(&format!("refs/heads/{branch}"));
        let (Some(tip), Ok(target)) = (tip, self.target(Some(target), false)) else { return 0 };
        match self.ahead(&tip, &target.commit) {
            Ok(count) if count > 0 && !self.is_there(&tip, Some(branch), &target.commit) => count,
            _ => 0,
        }
    }

    /// Counts the commits that no other branch has; `u64::MAX` if they cannot be counted.
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
            // Nothing else keeps the commits of a detached HEAD, so the target must have each of them.
            None => lander.is_there_by_patches(&tip, &target),
        }
    }
}
