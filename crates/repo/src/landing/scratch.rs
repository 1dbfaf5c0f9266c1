//! A checkout of what would land, for gates: one of [`crate::worktrees`], made and taken away under the same lock and journal.

use std::path::Path;

use onus_core::commit::CommitId;
use onus_core::refusal::Refusal;

use super::Lander;
pub use crate::worktrees::Scratch;

impl Lander {
    /// A checkout of a commit for gates, below the folder of tasks' worktrees. Any number at once.
    pub fn scratch(&self, root: &Path, commit: &CommitId) -> Result<Scratch, Refusal> {
        self.worktrees.scratch(root, commit.as_str())
    }

    /// Takes away what killed landers left. Says how many there were.
    pub fn remove_leftovers(&self) -> Result<usize, Refusal> {
        self.worktrees.remove_scratches()
    }
}
