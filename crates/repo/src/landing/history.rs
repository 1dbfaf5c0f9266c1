//! What a range of commits changed, and for which tasks.

use onus_core::commit::{CommitId, Extent, Tally};

use super::{Error, Lander, shown};
use crate::git::changes::{RENAMES, changed, numbers};

/// The most tasks that are named for one file.
const MOST_TASKS: usize = 5;

/// The most commits of a branch that are looked up.
const MOST_COMMITS: &str = "--max-count=1000";

impl Lander {
    /// The files that differ between a commit and a tree, relative to the repository's root. A renamed file counts as two.
    pub fn changed(&self, from: &CommitId, to: &str) -> Result<Vec<String>, Error> {
        let words = ["diff-tree", "-r", "-z", "--name-only", "--no-renames"];
        let out = self.git().words(&words).words(&[from.as_str(), to]).run()?;
        let names = out.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(shown).collect())
    }

    /// What else the way from a commit to a tree does. Which files have lines is for the commit's attributes to say: a change cannot
    /// exempt itself.
    pub fn extent(&self, from: &CommitId, to: &str) -> Result<Extent, Error> {
        let listed = |words: &[&str]| {
            let call = self.git().env("GIT_ATTR_SOURCE", from.as_str()).words(&["diff-tree", "-r", "-z"]);
            call.words(words).words(&[from.as_str(), to]).run()
        };
        let names = changed(&listed(&["-M", RENAMES, "--name-status"])?);
        let lines = numbers(&listed(&["--no-renames", "--numstat"])?);
        Ok(Extent {
            removed: names
                .iter()
                .filter(|(_, is_removed)| **is_removed)
                .map(|(path, _)| shown(path))
                .collect(),
            tally: Some(Tally {
                files: lines.len() as u64,
                lines: lines.iter().map(|(_, lines)| lines).sum(),
            }),
        })
    }

    /// The branches whose heads a commit contains and a base does not: their work would land with it.
    pub fn carried(&self, head: &CommitId, base: &CommitId) -> Result<Vec<String>, Error> {
        let words = ["for-each-ref", "--format=%(refname:lstrip=2)"];
        let range = [format!("--merged={head}"), format!("--no-merged={base}"), "refs/heads/".to_owned()];
        let listed = range.iter().fold(self.git().words(&words), |call, word| call.word(word)).line()?;
        Ok(listed.lines().map(str::to_owned).collect())
    }

    /// The commits that a head has and a base does not, the newest first: 1,000 at most.
    pub fn commits_between(&self, base: &CommitId, head: &CommitId) -> Result<Vec<CommitId>, Error> {
        let call = self.git().words(&["rev-list", "--topo-order", MOST_COMMITS, head.as_str(), "--not"]);
        let listed = call.words(&[base.as_str(), "--"]).line()?;
        Ok(listed.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// The merge base of two commits; None if they have no history in common.
    pub fn fork_of(&self, one: &CommitId, other: &CommitId) -> Option<CommitId> {
        self.git().words(&["merge-base", one.as_str(), other.as_str()]).line().ok()?.parse().ok()
    }

    /// The tasks whose landing changed a file since a branch left the target, newest first. Read from the trailers of what landed.
    pub fn tasks_behind(&self, path: &str, branch: &CommitId, target: &CommitId) -> Vec<String> {
        let Some(fork) = self.fork_of(branch, target) else { return Vec::new() };
        let format = "--format=%(trailers:key=Onus-Task,valueonly,separator=%x20)";
        let words =
            ["log", "--first-parent", "-m", "--no-show-signature", "--no-renames", "-n", "200", format];
        let range = format!("{fork}..{target}");
        let Ok(said) = self.git().words(&words).words(&[&range, "--", &format!(":(literal){path}")]).line()
        else {
            return Vec::new();
        };
        let mut tasks: Vec<String> = Vec::new();
        for task in said.split_whitespace() {
            if tasks.len() < MOST_TASKS && !tasks.iter().any(|known| known == task) {
                tasks.push(task.to_owned());
            }
        }
        tasks
    }
}
