//! Which commits are nowhere else: not in another branch, and not in the target by what they change.
//!
//! A squash or a rebase gives commits another name. So a branch counts as landed, too, if merging it would change nothing, if each of
//! its commits is in the target as a patch, to the byte, or if all of them together are one commit there. On a detached HEAD only the
//! second counts: no branch keeps the commits themselves.

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
            // Nothing else keeps what a detached HEAD has: each commit must be there, with what it says.
            (_, Some((_, target))) if branch.is_none() && self.is_there_by_patches(tip, target) => 0,
            (_, Some((_, target))) if branch.is_some() && self.is_landed(tip, target) => 0,
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

    /// Each commit is there as a patch, byte for byte. One that changes nothing is nowhere else.
    fn is_there_by_patches(&self, tip: &str, target: &str) -> bool {
        let range = format!("{target}..{tip}");
        // What a merge changed by itself is in no patch.
        let merges = self.git().words(&["rev-list", "--count", "--merges"]).word(&range).limit(LIMIT).line();
        let own = || patches(self.git().words(&["log", "--format=commit %H"]).words(&PATCH).word(&range));
        merges.is_ok_and(|merges| merges == "0")
            && own().is_some_and(|own| !own.is_empty() && self.has_all_of(target, tip, &own))
    }

    /// All that the branch changes is one commit there.
    fn is_squashed(&self, tip: &str, target: &str) -> bool {
        let squashed = || {
            let base = self.git().words(&["merge-base", target, tip]).line().ok()?;
            let call = self.git().words(&["diff-tree"]).words(&PATCH).words(&["-r", &base, tip]);
            let own = patches(call)?;
            Some(self.has_all_of(target, tip, &own))
        };
        squashed().unwrap_or(false)
    }

    fn has_all_of(&self, target: &str, tip: &str, own: &[Vec<u8>]) -> bool {
        let range = format!("{tip}..{target}");
        let call = self.git().words(&["log", "--no-merges", "--format=commit %H"]).words(&PATCH).word(range);
        own.iter().all(|patch| !patch.is_empty())
            && patches(call).is_some_and(|there| own.iter().all(|patch| there.contains(patch)))
    }
}

/// How patches are written, whatever is configured.
const PATCH: [&str; 10] = [
    "--patch",
    "--binary",
    "--full-index",
    "--unified=3",
    "--inter-hunk-context=0",
    "--no-renames",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--submodule=short",
];

/// What each commit changes: its patch, to the byte, without where in a file that is. Git's own patch-ids leave out white space.
fn patches(call: crate::git::Call<'_>) -> Option<Vec<Vec<u8>>> {
    let out = call.limit(LIMIT).run().ok()?;
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut index: &[u8] = &[];
    for line in out.split_inclusive(|byte| *byte == b'\n') {
        // Lines of a file begin with a space, a sign or a backslash.
        let is_commit = line.starts_with(b"commit ");
        if is_commit || found.is_empty() {
            found.push(Vec::new());
        }
        let Some(patch) = found.last_mut().filter(|_| !is_commit) else { continue };
        match line {
            // Between commits, and after binary patches.
            b"\n" => {}
            // Which file it was, and is: of a text, the lines say what changed.
            _ if line.starts_with(b"index ") => index = line,
            _ if line.starts_with(b"GIT binary patch") => {
                patch.extend_from_slice(index);
                patch.extend_from_slice(line);
            }
            _ if line.starts_with(b"@@ ") => patch.extend_from_slice(b"@@\n"),
            _ => patch.extend_from_slice(line),
        }
    }
    Some(found)
}
