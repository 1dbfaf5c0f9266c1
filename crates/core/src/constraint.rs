//! Constraints: what the holder of a task may not do.
//!
//! A task has some, and a claim may add more; the lease is granted with both. So a set only gets stricter on its way from the
//! task to the holder: [`Constraints::meet`] forbids what either of two sets forbids, and
//! [`Constraints::is_stricter_or_equal`] is the order that it defines. The guard enforces the meet of the lease's set and the
//! task's current set: tightening a task binds its holder at once, loosening it only helps the next holder.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::shortened;
use crate::refusal::Refusal;
use crate::task::words;

words! {
    /// The kind of a constraint.
    ConstraintKind("constraint") {
        ReadOnly = "read_only",
        NoDelete = "no_delete",
        NoLand = "no_land",
        MaxFiles = "max_files",
        MaxLines = "max_lines",
    }
}

/// One thing that a holder may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Constraint {
    /// Change any file.
    ReadOnly,
    /// Delete a file.
    NoDelete,
    /// Land the task's branch.
    NoLand,
    /// Change more files than this.
    MaxFiles(u64),
    /// Change more lines than this.
    MaxLines(u64),
}

/// The highest limit that is accepted; every JSON reader keeps it exactly.
pub const MAX_LIMIT: u64 = 1_000_000_000;

impl Constraint {
    /// Whether it limits all changes of a task together.
    pub fn limits_total(self) -> bool {
        match self {
            Constraint::MaxFiles(_) | Constraint::MaxLines(_) => true,
            Constraint::ReadOnly | Constraint::NoDelete | Constraint::NoLand => false,
        }
    }

    pub fn kind(self) -> ConstraintKind {
        match self {
            Constraint::ReadOnly => ConstraintKind::ReadOnly,
            Constraint::NoDelete => ConstraintKind::NoDelete,
            Constraint::NoLand => ConstraintKind::NoLand,
            Constraint::MaxFiles(_) => ConstraintKind::MaxFiles,
            Constraint::MaxLines(_) => ConstraintKind::MaxLines,
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Constraint::MaxFiles(limit) | Constraint::MaxLines(limit) => {
                write!(f, "{}={limit}", self.kind())
            }
            Constraint::ReadOnly | Constraint::NoDelete | Constraint::NoLand => self.kind().fmt(f),
        }
    }
}

impl FromStr for Constraint {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let (name, limit) = match text.split_once('=') {
            Some((name, limit)) => (name, Some(limit)),
            None => (text, None),
        };
        let digits = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = limit.filter(digits).and_then(|limit| limit.parse().ok());
        let number = number.filter(|number| *number <= MAX_LIMIT);
        match (name.parse().ok(), limit, number) {
            (Some(ConstraintKind::ReadOnly), None, _) => Ok(Constraint::ReadOnly),
            (Some(ConstraintKind::NoDelete), None, _) => Ok(Constraint::NoDelete),
            (Some(ConstraintKind::NoLand), None, _) => Ok(Constraint::NoLand),
            (Some(ConstraintKind::MaxFiles), _, Some(limit)) => Ok(Constraint::MaxFiles(limit)),
            (Some(ConstraintKind::MaxLines), _, Some(limit)) => Ok(Constraint::MaxLines(limit)),
            _ => Err(Refusal::usage(format!(
                "'{}' is not a constraint: use read_only, no_delete, no_land, max_files=N or max_lines=N",
                shortened(text)
            ))),
        }
    }
}

/// All that a holder may not do. Empty: nothing is forbidden.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Constraints(BTreeMap<ConstraintKind, Constraint>);

impl Constraints {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Also forbids this. Of two limits the lower counts.
    pub fn insert(&mut self, constraint: Constraint) {
        self.0.entry(constraint.kind()).and_modify(|old| *old = constraint.min(*old)).or_insert(constraint);
    }

    /// The constraints, in the order of their kinds.
    pub fn iter(&self) -> impl Iterator<Item = Constraint> {
        self.0.values().copied()
    }

    /// The set that forbids what either forbids.
    pub fn meet(&self, other: &Constraints) -> Constraints {
        self.iter().chain(other.iter()).collect()
    }

    /// Whether it forbids all that the other does.
    pub fn is_stricter_or_equal(&self, other: &Constraints) -> bool {
        self.meet(other) == *self
    }

    /// The set after an edit: each of `set` replaces the constraint of its kind, and the kinds `lifted` are removed. Unlike a
    /// claim, an edit may loosen.
    pub fn edited(&self, set: &Constraints, lifted: &BTreeSet<ConstraintKind>) -> Constraints {
        let mut edited = self.clone();
        edited.0.extend(&set.0);
        edited.0.retain(|kind, _| !lifted.contains(kind));
        edited
    }

    /// As people and programs read them.
    pub fn words(&self) -> Vec<String> {
        self.iter().map(|constraint| constraint.to_string()).collect()
    }
}

impl FromIterator<Constraint> for Constraints {
    fn from_iter<I: IntoIterator<Item = Constraint>>(all: I) -> Constraints {
        let mut constraints = Constraints::default();
        all.into_iter().for_each(|constraint| constraints.insert(constraint));
        constraints
    }
}

impl TryFrom<Vec<String>> for Constraints {
    type Error = Refusal;

    fn try_from(words: Vec<String>) -> Result<Self, Refusal> {
        words.iter().map(|word| word.parse::<Constraint>()).collect()
    }
}

impl From<Constraints> for Vec<String> {
    fn from(constraints: Constraints) -> Vec<String> {
        constraints.words()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_constraint() -> impl Strategy<Value = Constraint> {
        prop_oneof![
            Just(Constraint::ReadOnly),
            Just(Constraint::NoDelete),
            Just(Constraint::NoLand),
            (0..9u64).prop_map(Constraint::MaxFiles),
            (0..9u64).prop_map(Constraint::MaxLines),
        ]
    }

    fn any_set() -> impl Strategy<Value = Constraints> {
        proptest::collection::vec(any_constraint(), 0..6).prop_map(|all| all.into_iter().collect())
    }

    /// Whether a holder under these constraints may make this change; written independently of `meet`.
    fn allows(set: &Constraints, change: (u64, u64, bool, bool)) -> bool {
        let (files, lines, deletes, lands) = change;
        set.iter().all(|constraint| match constraint {
            Constraint::ReadOnly => files == 0 && lines == 0 && !deletes,
            Constraint::NoDelete => !deletes,
            Constraint::NoLand => !lands,
            Constraint::MaxFiles(limit) => files <= limit,
            Constraint::MaxLines(limit) => lines <= limit,
        })
    }

    proptest! {
        #[test]
        fn the_meet_allows_exactly_what_both_allow(
            a in any_set(), b in any_set(), change in (0..10u64, 0..10u64, any::<bool>(), any::<bool>())
        ) {
            prop_assert_eq!(allows(&a.meet(&b), change), allows(&a, change) && allows(&b, change));
        }

        #[test]
        fn stricter_is_an_order_and_the_meet_is_the_loosest_set_that_is_stricter_than_both(
            a in any_set(), b in any_set(), c in any_set()
        ) {
            let meet = a.meet(&b);
            prop_assert!(meet.is_stricter_or_equal(&a) && meet.is_stricter_or_equal(&b));
            prop_assert_eq!(&meet, &b.meet(&a));
            prop_assert_eq!(a.meet(&b).meet(&c), a.meet(&b.meet(&c)));
            prop_assert_eq!(a.is_stricter_or_equal(&b) && b.is_stricter_or_equal(&a), a == b);
            if c.is_stricter_or_equal(&a) && c.is_stricter_or_equal(&b) {
                prop_assert!(c.is_stricter_or_equal(&meet));
            }
        }

        #[test]
        fn what_is_written_is_read_back(set in any_set()) {
            let words = Vec::from(set.clone());
            prop_assert_eq!(Constraints::try_from(words).unwrap(), set.clone());
            let json = serde_json::to_string(&set).unwrap();
            prop_assert_eq!(serde_json::from_str::<Constraints>(&json).unwrap(), set);
        }

        #[test]
        fn an_edit_sets_what_it_names_lifts_what_it_lifts_and_leaves_the_rest(
            old in any_set(), set in any_set(),
            lifted in proptest::collection::btree_set(proptest::sample::select(ConstraintKind::ALL), 0..3)
        ) {
            let new = old.edited(&set, &lifted);
            let of = |set: &Constraints, kind| set.iter().find(|constraint| constraint.kind() == kind);
            for kind in ConstraintKind::ALL {
                let expected = match lifted.contains(kind) {
                    true => None,
                    false => of(&set, *kind).or(of(&old, *kind)),
                };
                prop_assert_eq!(of(&new, *kind), expected);
            }
        }
    }

    #[test]
    fn constraints_are_spelled_one_way() {
        for good in ["read_only", "no_delete", "no_land", "max_files=0", "max_lines=1000000000"] {
            assert_eq!(good.parse::<Constraint>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "readonly",
            "read_only=1",
            "max_files",
            "max_files=",
            "max_files=-1",
            "max_files=+1",
            "max_files=1.5",
            "max_lines=1000000001",
            "max_lines=99999999999999999999999",
            "no_land=",
        ] {
            let refusal = bad.parse::<Constraint>().unwrap_err();
            assert!(refusal.message.contains("max_files=N"), "{bad}: {}", refusal.message);
        }
    }
}
