//! What a forecast merges, and what it says of the result: which files would conflict.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::history::{History, key};
use super::memory::Known;
use super::{Forecast, Tip};
use crate::git::{Call, GitError, MergeTree, drivers, merge_tree, quoted};

/// The result of merging two commits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Merged {
    pub(super) tree: String,
    /// Files that git cannot merge.
    pub(super) files: Vec<String>,
}

/// Computes merges, as many as there is time for.
pub(super) struct Merger<'a> {
    forecast: &'a Forecast,
    known: &'a mut Known,
    left: usize,
    deadline: Instant,
    unasked: usize,
    trouble: Option<String>,
    /// Created for the first merge.
    workshop: Option<Workshop>,
}

/// What every merge needs.
struct Workshop {
    /// For the objects of merges, which nobody needs afterwards.
    objects: TempDir,
    /// The keys of merge drivers, which are not run.
    drivers: Vec<String>,
}

impl<'a> Merger<'a> {
    pub(super) fn new(
        forecast: &'a Forecast,
        known: &'a mut Known,
        most: usize,
        deadline: Instant,
    ) -> Merger<'a> {
        Merger { forecast, known, left: most, deadline, unasked: 0, trouble: None, workshop: None }
    }

    pub(super) fn history(&self, tip: &Tip<'_>) -> Option<History> {
        self.known.histories.get(&key(&tip.target.hash, tip.commit)).cloned().flatten()
    }

    /// How many merges were skipped, and what went wrong.
    pub(super) fn finish(self) -> (usize, Option<String>) {
        (self.unasked, self.trouble)
    }

    /// None if it is not known yet.
    pub(super) fn merge(&mut self, one: &str, other: &str) -> Option<Merged> {
        let (one, other) = if one <= other { (one, other) } else { (other, one) };
        let key = key(one, other);
        if let Some(merged) = self.known.merges.get(&key) {
            return Some(merged.clone());
        }
        if self.left == 0 || self.trouble.is_some() || Instant::now() >= self.deadline {
            self.unasked += 1;
            return None;
        }
        self.left -= 1;
        match self.computed(one, other) {
            Ok(merged) => {
                self.known.merges.insert(key, merged.clone());
                Some(merged)
            }
            Err(GitError(_)) if Instant::now() >= self.deadline => {
                self.unasked += 1;
                None
            }
            Err(GitError(why)) => {
                self.trouble = Some(why);
                None
            }
        }
    }

    fn computed(&mut self, one: &str, other: &str) -> Result<Merged, GitError> {
        let workshop = match &mut self.workshop {
            Some(workshop) => workshop,
            none => none.insert(Workshop::new(self.forecast, self.deadline)?),
        };
        let mut merged = merged(workshop.call(self.forecast, self.deadline), one, other)?;
        if !merged.files.is_empty() {
            let driven = driven(self.forecast, workshop, one, &merged.files, self.deadline);
            merged.files.retain(|file| !driven.contains(file));
        }
        Ok(merged)
    }
}

/// Merges two commits: the tree, and the files that cannot be merged.
fn merged(call: Call<'_>, one: &str, other: &str) -> Result<Merged, GitError> {
    let options = ["--no-messages", "--name-only", "--allow-unrelated-histories"];
    let MergeTree { out, .. } = merge_tree(call, &options, (one, other))?;
    let fields = out.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let mut fields = fields.map(|field| String::from_utf8_lossy(field).into_owned());
    let tree = fields.next().ok_or_else(|| GitError("a merge has no tree".to_owned()))?;
    Ok(Merged { tree, files: fields.collect() })
}

impl Workshop {
    fn new(forecast: &Forecast, deadline: Instant) -> Result<Workshop, GitError> {
        let objects = TempDir::with_prefix("onus-forecast-").map_err(|error| GitError(error.to_string()))?;
        let left = deadline.saturating_duration_since(Instant::now());
        Ok(Workshop { objects, drivers: drivers(&forecast.repository, left)? })
    }

    fn call(&self, forecast: &Forecast, deadline: Instant) -> Call<'static> {
        let call =
            forecast.git(deadline).words(&["-c", "merge.default=text", "-c", "merge.renormalize=false"]);
        let objects = forecast.repository.common_dir().join("objects");
        // Git before 2.42 fails if a driver is empty, so each is replaced by one that fails to merge.
        let refusing: Vec<(String, &str)> = self.drivers.iter().map(|key| (key.clone(), "exit 1")).collect();
        call.overriding(&refusing)
            .env("GIT_OBJECT_DIRECTORY", self.objects.path())
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&objects))
    }
}

/// The files that a commit's attributes have merged by union or by a driver. Git before 2.41 cannot tell, so none are found.
fn driven(
    forecast: &Forecast,
    workshop: &Workshop,
    commit: &str,
    files: &[String],
    deadline: Instant,
) -> Vec<String> {
    let left = deadline.saturating_duration_since(Instant::now());
    let call = forecast.repository.call().words(&["--work-tree"]).word(workshop.objects.path());
    let call = call.word(format!("--attr-source={commit}")).words(&["check-attr", "-z", "--stdin", "merge"]);
    let input: Vec<u8> = files.iter().flat_map(|file| [file.as_bytes(), b"\0"].concat()).collect();
    let Ok(out) = call.limit(left).input(&input).run() else { return Vec::new() };
    // `NAME merge VALUE`
    let fields: Vec<&[u8]> = out.split(|byte| *byte == 0).collect();
    let is_plain = |value: &[u8]| matches!(value, b"unspecified" | b"set" | b"unset" | b"text" | b"binary");
    let driven = fields.chunks_exact(3).filter(|entry| !is_plain(entry[2]));
    driven.map(|entry| String::from_utf8_lossy(entry[0]).into_owned()).collect()
}
