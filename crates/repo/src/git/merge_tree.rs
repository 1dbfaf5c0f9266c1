//! Calls `git merge-tree` and reads its answer, for landing and for the forecast. The caller's [`Call`] already has everything
//! that the result depends on: attributes, settings, drivers, and where objects go.

use super::{Call, GitError};

/// Git's exit code for an unknown option.
const UNKNOWN_OPTION: i32 = 129;

/// The result of a merge.
#[derive(Debug)]
pub(crate) struct MergeTree {
    pub(crate) is_clean: bool,
    /// The tree and whatever the options request, separated by NUL.
    pub(crate) out: Vec<u8>,
}

pub(crate) fn merge_tree(
    call: Call<'_>,
    options: &[&str],
    (one, other): (&str, &str),
) -> Result<MergeTree, GitError> {
    let outcome =
        call.words(&["merge-tree", "--write-tree", "-z"]).words(options).words(&[one, other]).outcome()?;
    match outcome.status.code() {
        Some(code @ (0 | 1)) => Ok(MergeTree { is_clean: code == 0, out: outcome.out }),
        Some(UNKNOWN_OPTION) => Err(GitError("conflicts are foreseen with git 2.38 or newer".to_owned())),
        _ => Err(GitError(outcome.err)),
    }
}
