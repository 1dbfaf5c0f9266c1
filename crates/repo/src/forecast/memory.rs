//! Remembers what was computed and what was reported, in one small file of the repository.
//!
//! Like the file of `calls/file.rs`, it is a cache and not a record: whatever is missing or broken in it is computed and reported
//! again. Only what concerns the current commits of the branches is kept, so it does not grow.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use onus_core::forecast::is_news;
use serde::{Deserialize, Serialize};

use super::Forecast;
use super::history::History;
use super::merge::Merged;
use crate::calls::Locked;

/// What was computed, by pairs of commits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Known {
    /// What each branch changes beside its target; None if too much.
    pub(super) histories: BTreeMap<String, Option<History>>,
    pub(super) merges: BTreeMap<String, Merged>,
    /// Of several commits, the one that contains all others.
    pub(super) newest: BTreeMap<String, String>,
}

/// A conflict to report: whom it concerns, by a stable name, and in which files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictNews {
    pub about: String,
    pub files: BTreeSet<String>,
}

type Told = BTreeMap<String, BTreeSet<String>>;

impl Known {
    pub(super) fn read(file: &Path) -> Known {
        let known = Locked::open(file, false).map(|mut file| file.read().1);
        known.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// Writes what concerns these commits, together with what other processes computed meanwhile.
    pub(super) fn remember(self, file: &Path, commits: &BTreeSet<&str>) {
        let Some(mut file) = Locked::open(file, true) else { return };
        let (told, others) = file.read();
        let mut all: Known = serde_json::from_str(&others).unwrap_or_default();
        all.histories.extend(self.histories);
        all.merges.extend(self.merges);
        all.newest.extend(self.newest);
        let concerns = |key: &str| key.split(' ').all(|commit| commits.contains(commit));
        all.histories.retain(|key, _| concerns(key));
        all.merges.retain(|key, _| concerns(key));
        all.newest.retain(|_, newest| commits.contains(newest.as_str()));
        if let Ok(text) = serde_json::to_string(&all) {
            file.write(&told, &text);
        }
    }
}

impl Forecast {
    /// Reports what is news through `tell`, and remembers the current state. `is_all`: conflicts that are not listed are over. If
    /// nothing can be remembered, nothing is reported, since it would be reported again and again.
    pub fn tell<E>(
        &self,
        now: &[ConflictNews],
        is_all: bool,
        tell: impl FnOnce(&[&ConflictNews]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(mut file) = Locked::open(&self.memory_file(), true) else { return Ok(()) };
        let (first, second) = file.read();
        let before: Told = serde_json::from_str(&first).unwrap_or_default();
        let news: Vec<&ConflictNews> =
            now.iter().filter(|tidings| is_news(before.get(&tidings.about), &tidings.files)).collect();
        let mut after: Told = if is_all { Told::new() } else { before.clone() };
        after.extend(now.iter().map(|tidings| (tidings.about.clone(), tidings.files.clone())));
        if after == before {
            return Ok(());
        }
        tell(&news)?;
        if let Ok(text) = serde_json::to_string(&after) {
            file.write(&text, &second);
        }
        Ok(())
    }
}
