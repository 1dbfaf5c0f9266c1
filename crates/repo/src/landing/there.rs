//! Whether a branch is in its target by content, whatever its commits are called there.
//!
//! A squash or a rebase gives commits another hash. So a branch can go without loss if merging it would change nothing, if each
//! of its commits is in the target as a byte-identical patch, or if all of them together are one commit there. It counts as landed
//! only if it was not reverted since: if merging it again would change the target, the target does not have it.

use std::time::Duration;

use onus_core::commit::CommitId;
use onus_core::scope::Scope;

use super::Lander;
use super::merge::Merge;
use crate::git::Call;

/// Comparing the patches of a long history can take long. No answer in time counts as not landed.
const LIMIT: Duration = Duration::from_secs(20);

/// The result of merging a branch into a target that may contain it already.
#[derive(PartialEq, Eq)]
enum Again {
    Same,
    Different,
    Conflicts,
}

impl Lander {
    /// Whether the branch can go without loss: all that it changes is in the target, or in its history. False if that is unknown.
    pub(crate) fn is_there(&self, tip: &CommitId, target: &CommitId) -> bool {
        self.merging_changes_nothing(tip, target)
            || self.is_there_by_patches(tip, target)
            || self.is_squashed(tip, target)
    }

    /// Whether all that the branch changes is in the target now, not reverted. False if that is unknown.
    pub(super) fn is_contained_now(&self, tip: &CommitId, target: &CommitId) -> bool {
        match self.merged_again(tip, target) {
            Some(Again::Same) => true,
            Some(Again::Different) | None => false,
            // The target has since changed the same places.
            Some(Again::Conflicts) => self.is_there_by_patches(tip, target) || self.is_squashed(tip, target),
        }
    }

    fn merging_changes_nothing(&self, tip: &CommitId, target: &CommitId) -> bool {
        self.merged_again(tip, target) == Some(Again::Same)
    }

    /// None if it cannot be found out.
    fn merged_again(&self, tip: &CommitId, target: &CommitId) -> Option<Again> {
        self.check_git().ok()?;
        match self.three_way(target, None, target.as_str(), tip, &Scope::default(), LIMIT).ok()? {
            Merge::Clean(merged) if self.tree_of(target).ok()? == merged.tree => Some(Again::Same),
            Merge::Clean(_) => Some(Again::Different),
            Merge::Conflicts(_) => Some(Again::Conflicts),
        }
    }

    /// Whether each commit is there as a patch, byte for byte. An empty commit never is.
    pub(crate) fn is_there_by_patches(&self, tip: &CommitId, target: &CommitId) -> bool {
        let range = format!("{target}..{tip}");
        // No patch shows what a merge commit itself changed.
        let merges = self.git().words(&["rev-list", "--count", "--merges"]).word(&range).limit(LIMIT).line();
        let own = || patches(self.git().words(&["log", "--format=commit %H"]).words(&PATCH).word(&range));
        merges.is_ok_and(|merges| merges == "0")
            && own().is_some_and(|own| !own.is_empty() && self.has_all_of(target, tip, &own))
    }

    /// Whether all that the branch changes is one commit there.
    fn is_squashed(&self, tip: &CommitId, target: &CommitId) -> bool {
        let squashed = || {
            let base = self.git().words(&["merge-base", target.as_str(), tip.as_str()]).line().ok()?;
            let call = self.git().words(&["diff-tree"]).words(&PATCH).words(&["-r", &base, tip.as_str()]);
            let own = patches(call)?;
            Some(self.has_all_of(target, tip, &own))
        };
        squashed().unwrap_or(false)
    }

    fn has_all_of(&self, target: &CommitId, tip: &CommitId, own: &[Vec<u8>]) -> bool {
        let range = format!("{tip}..{target}");
        let call = self.git().words(&["log", "--no-merges", "--format=commit %H"]).words(&PATCH).word(range);
        own.iter().all(|patch| !patch.is_empty())
            && patches(call).is_some_and(|there| own.iter().all(|patch| there.contains(patch)))
    }
}

/// Fixes the format of patches, whatever is configured.
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

/// Each commit's patch, byte for byte, without line numbers. Git's own patch-ids would ignore white space.
fn patches(call: Call<'_>) -> Option<Vec<Vec<u8>>> {
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
            // The hashes of the whole file: they count only for a binary file, since a text's lines show the change.
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
