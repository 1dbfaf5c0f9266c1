//! Two commits merged in memory: the one call of `git merge-tree`, for those who land and for those who look ahead. What decides (attributes,
//! settings, drivers, where objects go) is the caller's, and is in the call already.

use super::{Call, GitError};

/// How git says that it does not know an option.
const UNKNOWN_OPTION: i32 = 129;

/// What git answers to a merge.
#[derive(Debug)]
pub(crate) struct MergeTree {
    pub(crate) is_clean: bool,
    /// The tree and whatever the options asked for, separated by NUL.
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
