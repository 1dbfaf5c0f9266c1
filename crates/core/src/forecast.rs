//! Conflicts to come between branches: which two are worth merging in memory, which files then count, and who is notified.
//!
//! **Cheap.** A merge is computed only if both sides change something that could conflict: the same file, a file where the other
//! has a folder, or a folder that one empties and the other adds to (git treats it as renamed). Everything else merges.
//!
//! **Each conflict once, where it belongs.** A file that conflicts with a branch's target is reported for that pair. It counts
//! between two branches only if both change the file themselves.
//!
//! **Notified once.** A holder is notified about a file again only if the conflict was gone meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::actor::{ActorName, InstanceId};
use crate::scope::Scope;

/// What all of a branch's commits together did to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    #[serde(default, rename = "a", skip_serializing_if = "std::ops::Not::not")]
    pub added: bool,
    #[serde(default, rename = "r", skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

/// The files that one side changed since the two diverged, by their paths from the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Changes(BTreeMap<String, Change>);

impl Changes {
    /// Adds one commit's change of a file.
    pub fn add(&mut self, path: &str, change: Change) {
        let known = self.0.entry(path.to_owned()).or_default();
        known.added |= change.added;
        known.removed |= change.removed;
    }

    pub fn contains(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The changed files in which the two sides could conflict.
    pub fn meeting<'a>(&'a self, other: &'a Changes) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        for (one, two) in [(self, other), (other, self)] {
            let left = one.folders_left();
            found.extend(two.0.iter().filter_map(|(path, change)| {
                let is_there = one.contains(path) || folders(path).any(|folder| one.contains(folder));
                let is_moved = || change.added && folders(path).any(|folder| left.contains(folder));
                (is_there || is_moved()).then_some(path.as_str())
            }));
        }
        found
    }

    /// Folders from which a file was removed, if it may have been moved elsewhere.
    fn folders_left(&self) -> BTreeSet<&str> {
        if !self.0.values().any(|change| change.added) {
            return BTreeSet::new();
        }
        let removed = self.0.iter().filter(|(_, change)| change.removed);
        removed.filter_map(|(path, _)| folders(path).next()).collect()
    }
}

/// The folders that a file is in, the nearest first.
fn folders(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(path.rsplit_once('/'), |(folder, _)| folder.rsplit_once('/'))
        .map(|(folder, _)| folder)
}

/// Whether two sides that meet in these files are worth merging. Shared files never conflict.
pub fn is_worth_merging<'a>(meeting: impl IntoIterator<Item = &'a str>, shared: &Scope) -> bool {
    meeting.into_iter().any(|path| !shared.covers(path))
}

/// One side of a merge of two branches.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// What it changes. None: too much to list.
    pub changes: Option<&'a Changes>,
    /// The files in which it conflicts with its target.
    pub with_target: &'a [String],
}

/// Of the files in which git cannot merge two branches, those that conflict between these two, and not with a target.
pub fn between(conflicts: &[String], one: Side<'_>, other: Side<'_>, shared: &Scope) -> Vec<String> {
    let changes = |side: Side<'_>, path: &str| side.changes.is_none_or(|changes| changes.contains(path));
    let is_the_targets = |path: &String| one.with_target.contains(path) || other.with_target.contains(path);
    let counts = |path: &&String| {
        !shared.covers(path) && (changes(one, path) && changes(other, path) || !is_the_targets(path))
    };
    conflicts.iter().filter(counts).cloned().collect()
}

/// Who is notified of a conflict between two branches, given the holders of their tasks: both; a holder of both only once.
pub fn hearers<'a, T>(
    one: Option<(&'a ActorName, &'a InstanceId, T)>,
    other: Option<(&'a ActorName, &'a InstanceId, T)>,
) -> Vec<(&'a ActorName, &'a InstanceId, T)> {
    match (one, other) {
        (Some(one), Some(other)) if (one.0, one.1) == (other.0, other.1) => vec![one],
        (one, other) => one.into_iter().chain(other).collect(),
    }
}

/// Whether there is anything new for a holder that was notified of `before`.
pub fn is_news(before: Option<&BTreeSet<String>>, now: &BTreeSet<String>) -> bool {
    match before {
        Some(before) => !now.is_subset(before),
        None => !now.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    fn changes(of: &[(&str, bool, bool)]) -> Changes {
        let mut changes = Changes::default();
        for (path, added, removed) in of {
            changes.add(path, Change { added: *added, removed: *removed });
        }
        changes
    }

    #[test]
    fn sides_meet_in_files_folders_and_what_was_moved() {
        let edited = changes(&[("src/a.rs", false, false)]);
        let folder = changes(&[("src/a.rs/x", true, false)]);
        let moved = changes(&[("src/b.rs", false, true), ("lib/b.rs", true, false)]);
        let removed = changes(&[("src/b.rs", false, true)]);
        let new = changes(&[("src/deep/new.rs", true, false)]);
        let elsewhere = changes(&[("srcs/a.rs", true, false), ("a.rs", true, false)]);
        let meet =
            |one: &Changes, other: &Changes| one.meeting(other).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(meet(&edited, &edited), "src/a.rs");
        assert_eq!(meet(&edited, &folder), "src/a.rs/x");
        assert_eq!(meet(&moved, &new), "src/deep/new.rs");
        assert_eq!(meet(&removed, &new), "", "what is only removed was moved nowhere");
        assert_eq!(meet(&edited, &new), "");
        assert_eq!(meet(&moved, &edited), "");
        for other in [&edited, &moved, &new, &folder] {
            assert_eq!(meet(&elsewhere, other), "");
        }
    }

    #[test]
    fn a_targets_conflict_is_not_told_of_two_branches() {
        let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let (one, other) =
            (changes(&[("a", false, false), ("b", false, false)]), changes(&[("b", false, false)]));
        let (with_target, shared) = (paths(&["a", "b"]), "*.lock".parse::<crate::scope::Glob>().unwrap());
        let shared: Scope = [shared].into_iter().collect();
        let side = |changes, with_target| Side { changes: Some(changes), with_target };
        let conflicts = paths(&["a", "b", "x.lock", "moved"]);
        let found = between(&conflicts, side(&one, &with_target), side(&other, &[]), &shared);
        // `a` is between the first and the target; `b` is between all three.
        assert_eq!(found, ["b", "moved"]);
        let unknown = Side { changes: None, with_target: &[] };
        assert_eq!(between(&conflicts, unknown, unknown, &shared), ["a", "b", "moved"]);
    }

    fn path() -> impl Strategy<Value = String> {
        vec(prop::sample::select(vec!["a", "b", "c"]), 1..4).prop_map(|parts| parts.join("/"))
    }

    fn any_changes() -> impl Strategy<Value = Changes> {
        vec((path(), any::<bool>(), any::<bool>()), 0..6).prop_map(|all| {
            let mut changes = Changes::default();
            all.iter().for_each(|(path, added, removed)| {
                changes.add(path, Change { added: *added, removed: *removed });
            });
            changes
        })
    }

    proptest! {
        /// Meeting does not depend on the order, misses no common file, and names only files of one of the sides.
        #[test]
        fn meeting_is_mutual_and_misses_no_common_file(one in any_changes(), other in any_changes()) {
            let meeting = one.meeting(&other);
            prop_assert_eq!(&meeting, &other.meeting(&one));
            for path in one.0.keys() {
                for theirs in other.0.keys() {
                    let is_below = |below: &str, folder: &str| below.starts_with(&format!("{folder}/"));
                    if path == theirs || is_below(path, theirs) {
                        prop_assert!(meeting.contains(path.as_str()));
                    }
                }
            }
            prop_assert!(meeting.iter().all(|path| one.contains(path) || other.contains(path)));
        }

        /// Each conflict is reported when it begins, and not again while it lasts.
        #[test]
        fn each_conflict_is_told_once_while_it_lasts(states in vec(btree_set("[abc]", 0..3), 1..12)) {
            let mut told: Option<BTreeSet<String>> = None;
            let mut heard: BTreeSet<String> = BTreeSet::new();
            for now in states {
                let is_told = is_news(told.as_ref(), &now);
                let is_new = now.iter().any(|file| !heard.contains(file));
                prop_assert_eq!(is_told, is_new);
                heard = now.clone();
                told = (!now.is_empty()).then_some(now);
            }
        }

        /// Both holders are notified, one that holds both only once, and nobody else.
        #[test]
        fn both_holders_hear_and_one_holder_hears_once(one in prop::option::of("[xy]"), other in prop::option::of("[xy]")) {
            let actor: ActorName = "agent:a".parse().unwrap();
            let instance = |name: &Option<String>| name.as_ref().map(|name| name.parse::<InstanceId>().unwrap());
            let (first, second) = (instance(&one), instance(&other));
            let heard = hearers(
                first.as_ref().map(|instance| (&actor, instance, 1)),
                second.as_ref().map(|instance| (&actor, instance, 2)),
            );
            let expected: BTreeSet<_> = first.iter().chain(&second).collect();
            prop_assert_eq!(heard.len(), expected.len());
            prop_assert!(heard.iter().all(|(_, instance, _)| expected.contains(instance)));
        }
    }
}
