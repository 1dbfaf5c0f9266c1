//! Which commits are nowhere else: not in another branch, and not in the target by what they change.
//!
//! A squash or a rebase gives commits another name. So a branch counts as landed, too, if merging it would change nothing, if each of
//! its commits is in the target as a patch, or if all of them together are one commit there.

use std::time::Duration;

use super::Worktrees;

/// Comparing patches of a long history may take long: what is not known in time counts as not landed.
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
            (_, Some((_, target))) if self.is_landed(tip, target) => 0,
            (count, _) => count,
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

    fn is_landed(&self, tip: &str, target: &str) -> bool {
        self.merging_changes_nothing(tip, target)
            || self.is_there_by_patches(tip, target)
            || self.is_squashed(tip, target)
    }

    fn merging_changes_nothing(&self, tip: &str, target: &str) -> bool {
        let merged = self
            .git()
            .words(&["merge-tree", "--write-tree", "--no-messages", target, tip])
            .limit(LIMIT)
            .line();
        merged.is_ok_and(|tree| self.tree_of(target).is_some_and(|of_target| of_target == tree))
    }

    fn tree_of(&self, commit: &str) -> Option<String> {
        self.git().words(&["rev-parse", "--verify", "--quiet"]).word(format!("{commit}^{{tree}}")).line().ok()
    }

    fn is_there_by_patches(&self, tip: &str, target: &str) -> bool {
        let range = format!("{target}..{tip}");
        // What a merge changed by itself is in no patch.
        let merges = self.git().words(&["rev-list", "--count", "--merges"]).word(range).limit(LIMIT).line();
        merges.is_ok_and(|merges| merges == "0") && self.has_all_of(target, tip)
    }

    fn has_all_of(&self, target: &str, tip: &str) -> bool {
        let listed = self.git().words(&["cherry", target, tip]).limit(LIMIT).line();
        listed.is_ok_and(|listed| !listed.is_empty() && listed.lines().all(|line| line.starts_with("- ")))
    }

    /// All that the branch changes, as one commit of ours that nothing refers to.
    fn is_squashed(&self, tip: &str, target: &str) -> bool {
        let squashed = || {
            let base = self.git().words(&["merge-base", target, tip]).line().ok()?;
            let mut call = self.git();
            for (who, what) in ["AUTHOR", "COMMITTER"].into_iter().flat_map(|who| {
                [("NAME", "onus"), ("EMAIL", "onus@localhost"), ("DATE", "@0 +0000")].map(|what| (who, what))
            }) {
                call = call.env(format!("GIT_{who}_{}", what.0), what.1);
            }
            call.words(&["commit-tree", "-m", "squashed", "-p", &base, &self.tree_of(tip)?]).line().ok()
        };
        squashed().is_some_and(|squashed| self.has_all_of(target, &squashed))
    }
}
