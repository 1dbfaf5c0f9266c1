//! The references that landings use: targets, intents and tasks' branches. Each method is one atomic step of git; between two
//! steps, others may act.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::commit::CommitId;
use onus_core::landing::Settled;

use crate::actors::chance::parsed;

/// The branches in which tasks land.
pub const TARGETS: [&str; 2] = ["main", "next"];

#[derive(Debug, Default)]
pub struct Git {
    /// The commits of each target, its tip last.
    targets: BTreeMap<String, Vec<String>>,
    /// `refs/onus/landing/<id>`
    intents: BTreeMap<String, String>,
    /// How many commits each task's branch has had.
    heads: BTreeMap<u64, u64>,
    /// The version of the gates' definitions.
    pub definitions: u64,
    commits: u64,
    /// Commits to which a landing moved a target.
    moved: BTreeSet<String>,
}

/// The outcome of the step that moves a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Moved,
    /// Nothing changed.
    Refused,
}

impl Git {
    /// A new commit.
    pub fn commit(&mut self) -> CommitId {
        self.commits += 1;
        parsed(&format!("c{:039x}", self.commits))
    }

    /// Adds a commit to a task's branch.
    pub fn work_on(&mut self, task: u64) {
        *self.heads.entry(task).or_default() += 1;
    }

    pub fn head(&self, task: u64) -> CommitId {
        let count = self.heads.get(&task).copied().unwrap_or_default();
        parsed(&format!("b{task:019x}{count:020x}"))
    }

    /// The tree of a task's branch, `ago` commits before its head. Every second commit is empty and keeps the tree.
    pub fn tree(&self, task: u64, ago: u64) -> String {
        let count = self.heads.get(&task).copied().unwrap_or_default();
        format!("{task}.{}", count.saturating_sub(ago) / 2)
    }

    pub fn tip(&self, target: &str) -> CommitId {
        let tip = self.targets.get(target).and_then(|commits| commits.last());
        tip.map_or_else(|| parsed(&"a".repeat(40)), |tip| parsed(tip))
    }

    pub fn contains(&self, target: &str, commit: &str) -> bool {
        self.targets.get(target).is_some_and(|commits| commits.iter().any(|it| it == commit))
    }

    /// The commits that landings moved a target to.
    pub fn moved(&self) -> &BTreeSet<String> {
        &self.moved
    }

    /// Whether this commit is about to land.
    pub fn is_intended(&self, id: &str, commit: &str) -> bool {
        self.intents.get(id).is_some_and(|it| it == commit)
    }

    /// Writes an intent, if there is none.
    pub fn intend(&mut self, id: &str, commit: &CommitId) -> bool {
        let is_free = !self.intents.contains_key(id);
        if is_free {
            self.intents.insert(id.to_owned(), commit.to_string());
        }
        is_free
    }

    /// Moves a target from one commit to another and deletes the intent, if both are unchanged.
    pub fn advance(
        &mut self,
        (id, task): (&str, u64),
        target: &str,
        (onto, to): (&CommitId, &CommitId),
        head: &CommitId,
    ) -> Moved {
        let as_it_was =
            self.tip(target) == *onto && self.is_intended(id, to.as_str()) && self.head(task) == *head;
        if !as_it_was {
            return Moved::Refused;
        }
        self.intents.remove(id);
        self.moved.insert(to.to_string());
        self.targets.entry(target.to_owned()).or_default().push(to.to_string());
        Moved::Moved
    }

    /// Moves a target without onus.
    pub fn push(&mut self, target: &str) -> CommitId {
        let commit = self.commit();
        self.targets.entry(target.to_owned()).or_default().push(commit.to_string());
        commit
    }

    /// Ends a landing: deletes its intent. Whether it landed follows from what the target contains.
    pub fn settle(&mut self, id: &str, target: &str, intended: Option<&CommitId>) -> Settled {
        let there = self.intents.remove(id);
        let commit = intended.map(ToString::to_string).or(there);
        match commit.is_some_and(|commit| self.contains(target, &commit)) {
            true => Settled::Landed,
            false => Settled::Withdrawn,
        }
    }
}
