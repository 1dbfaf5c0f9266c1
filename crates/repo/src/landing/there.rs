//! Whether a branch is in its target by what it changes, whatever its commits are called there.
//!
//! A squash or a rebase gives commits another name. So nothing of a branch is lost with it if merging it would change nothing, if each
//! of its commits is in the target as a patch, to the byte, or if all of them together are one commit there. It has landed only if
//! it was not taken back since: a target into which it could be merged again, with a change, does not have it.

use std::time::Duration;

use onus_core::commit::CommitId;
use onus_core::scope::Scope;

use super::Lander;
use super::merge::Merge;
use crate::git::Call;

/// Comparing patches of a long history may take long: what is not known in time counts as not landed.
const LIMIT: Duration = Duration::from_secs(20);

/// What comes of merging a branch into a target that may have it.
#[derive(PartialEq, Eq)]
enum Again {
    Same,
    Different,
    Conflicts,
}

impl Lander {
    /// Whether nothing that the branch changes would be lost with it: all of it is in the target, or in its history. What cannot be
    /// told would be.
    pub(crate) fn is_there(&self, tip: &CommitId, target: &CommitId) -> bool {
        self.merging_changes_nothing(tip, target)
            || self.is_there_by_patches(tip, target)
            || self.is_squashed(tip, target)
    }

    /// Whether all that the branch changes is there now: what was reverted is not. What cannot be told is not.
    pub(super) fn is_there_now(&self, tip: &CommitId, target: &CommitId) -> bool {
        match self.merged_again(tip, target) {
            Some(Again::Same) => true,
            Some(Again::Different) | None => false,
            // The target has gone on where the branch changed it.
            Some(Again::Conflicts) => self.is_there_by_patches(tip, target) || self.is_squashed(tip, target),
        }
    }

    fn merging_changes_nothing(&self, tip: &CommitId, target: &CommitId) -> bool {
        self.merged_again(tip, target) == Some(Again::Same)
    }

    /// None: that cannot be told.
    fn merged_again(&self, tip: &CommitId, target: &CommitId) -> Option<Again> {
        self.check_git().ok()?;
        match self.three_way(target, None, target.as_str(), tip, &Scope::default(), LIMIT).ok()? {
            Merge::Clean(merged) if self.tree_of(target).ok()? == merged.tree => Some(Again::Same),
            Merge::Clean(_) => Some(Again::Different),
            Merge::Conflicts(_) => Some(Again::Conflicts),
        }
    }

    /// Each commit is there as a patch, byte for byte. One that changes nothing is nowhere else.
    pub(crate) fn is_there_by_patches(&self, tip: &CommitId, target: &CommitId) -> bool {
        let range = format!("{target}..{tip}");
        // What a merge changed by itself is in no patch.
        let merges = self.git().words(&["rev-list", "--count", "--merges"]).word(&range).limit(LIMIT).line();
        let own = || patches(self.git().words(&["log", "--format=commit %H"]).words(&PATCH).word(&range));
        merges.is_ok_and(|merges| merges == "0")
            && own().is_some_and(|own| !own.is_empty() && self.has_all_of(target, tip, &own))
    }

    /// All that the branch changes is one commit there.
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
