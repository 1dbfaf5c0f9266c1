//! Commits: what one changes, which task it belongs to, and what its message says about tasks.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::actor::ActorName;
use crate::ids::{TaskRef, Token, Uid, Version, checked_text, shortened};
use crate::refusal::Refusal;

/// A commit by its whole hash: 40 or 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitId(String);

impl CommitId {
    /// The abbreviated hash, for people.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }
}

impl FromStr for CommitId {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let is_hash = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_hash {
            true => Ok(CommitId(text.to_ascii_lowercase())),
            false => Err(Refusal::usage(format!("'{}' is not the hash of a commit", shortened(text)))),
        }
    }
}

checked_text!(CommitId);

/// A commit that was made under a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRow {
    pub task: Uid,
    pub version: Version,
    pub token: Token,
    pub actor: ActorName,
    pub at_ms: i64,
    pub commit: CommitId,
}

/// What a change does besides touching files, as far as that is known when it is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Files that it removes. Renaming does not count.
    pub removed: Vec<String>,
    /// Everything that the task has changed, including this change: the commits made for it, and what is about to be committed.
    /// None: an edit, of which only the files are known.
    pub tally: Option<Tally>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub files: u64,
    /// Added and removed.
    pub lines: u64,
}

/// What git reports as uncommitted in the worktree where a task is finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uncommitted {
    /// The branch that is checked out there.
    pub branch: Option<String>,
    /// Whether it is a linked worktree.
    pub is_linked: bool,
    /// Whether the task's lease is attached to it.
    pub is_attached: bool,
    /// Some of the files with changes, including untracked ones.
    pub files: Vec<String>,
    /// How many files have changes in all.
    pub count: usize,
    /// How many commits HEAD has that are on no branch.
    pub adrift: u64,
    /// What is not finished there, such as a merge.
    pub under_way: Option<&'static str>,
}

impl Uncommitted {
    pub fn is_nothing(&self) -> bool {
        self.count == 0 && self.adrift == 0 && self.under_way.is_none()
    }
}

/// Whether a branch is named like a task's own branch: `onus/<id>` or `onus/<id>-<slug>`.
pub fn is_branch_of(branch: &str, id: &str) -> bool {
    let Some(name) = branch.strip_prefix("onus/") else { return false };
    let is_it = name.get(..id.len()).is_some_and(|start| start.eq_ignore_ascii_case(id));
    is_it && matches!(name.as_bytes().get(id.len()), None | Some(b'-'))
}

/// The words after which a commit's message names the tasks that it finishes.
const FINISHING: [&str; 9] =
    ["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"];

/// The most tasks that are read from one message.
const MOST_NAMED: usize = 10;

/// The tasks that a commit's message says it finishes: `Resolves ON-12`, `fixes: ON-3, ON-4`. Only ids count: a bare number
/// belongs to another system.
pub fn resolved_by(message: &str) -> Vec<TaskRef> {
    let mut named: Vec<String> = Vec::new();
    for line in message.lines() {
        let mut is_listing = false;
        for word in line.split([' ', '\t', ',', ';', '(', ')']).filter(|word| !word.is_empty()) {
            let bare = word.trim_end_matches([':', '.']);
            if FINISHING.iter().any(|known| bare.eq_ignore_ascii_case(known)) {
                is_listing = true;
            } else if is_listing && is_id(bare) {
                let id = bare.to_ascii_uppercase();
                if !named.contains(&id) {
                    named.push(id);
                }
            } else if !bare.eq_ignore_ascii_case("and") {
                is_listing = false;
            }
        }
    }
    named.iter().take(MOST_NAMED).filter_map(|id| id.parse().ok()).collect()
}

/// Whether a word has the form of a task's id: `ON-12`.
fn is_id(word: &str) -> bool {
    let Some((prefix, number)) = word.split_once('-') else { return false };
    prefix.parse::<crate::ids::Prefix>().is_ok()
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_what_it_resolves_and_nothing_else() {
        let named = |message: &str| {
            resolved_by(message).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        for (message, tasks) in [
            ("Resolves ON-12", "ON-12"),
            ("login\n\nfixes: ON-3, ON-4 and on-5.", "ON-3 ON-4 ON-5"),
            ("Closes ON-1\nCloses ON-1", "ON-1"),
            ("see ON-12", ""),
            ("Resolves #12", ""),
            ("Resolves the wait, see ON-12", ""),
            ("fixes utf-8", "UTF-8"),
            ("Onus-Task: ON-7", ""),
            ("resolves ON-", ""),
            ("", ""),
        ] {
            assert_eq!(named(message), tasks, "{message}");
        }
    }

    #[test]
    fn a_task_knows_its_own_branch() {
        for branch in ["onus/ON-1-fix", "onus/on-1-fix", "onus/ON-1"] {
            assert!(is_branch_of(branch, "ON-1"), "{branch}");
        }
        for branch in
            ["onus/ON-12-fix", "onus/ON-1x", "ON-1-fix", "main", "onus/", "onus/ö-1", "topic/onus/ON-1"]
        {
            assert!(!is_branch_of(branch, "ON-1"), "{branch}");
        }
    }

    #[test]
    fn a_commit_is_named_by_its_whole_hash() {
        assert_eq!("A".repeat(40).parse::<CommitId>().unwrap().as_str(), "a".repeat(40));
        assert_eq!("b".repeat(64).parse::<CommitId>().unwrap().short(), "b".repeat(10));
        for bad in ["", "abc", &"g".repeat(40), &"a".repeat(41), "ö"] {
            assert!(bad.parse::<CommitId>().is_err(), "{bad}");
        }
    }
}
