//! What a worktree contains: uncommitted changes, operations under way, commits that are nowhere else.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use onus_core::quote;
use onus_core::refusal::Refusal;
use serde::Serialize;

use super::journal::{Action, Journal};
use super::{Linked, Target, Worktrees, failed};
use crate::git::{Call, GitError, overlooked, status};

const LIMIT: Duration = Duration::from_secs(60);

/// The most ignored files that are named; a build may have made thousands.
const MOST_NAMES: usize = 5;

/// A merge, a rebase or a similar operation that is not finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnderWay {
    pub what: &'static str,
    /// Wall time, in milliseconds.
    pub since_ms: i64,
}

/// What a worktree contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Changed, staged or conflicting files, relative to its root.
    pub changed: Vec<PathBuf>,
    pub untracked: Vec<PathBuf>,
    /// Ignored files and folders.
    pub ignored: usize,
    /// The first of them.
    pub ignored_names: Vec<PathBuf>,
    pub under_way: Option<UnderWay>,
    /// Submodules may have commits of their own, which git stores with the worktree.
    pub has_submodules: bool,
    /// Repositories and worktrees in ignored folders, which belong to somebody.
    pub nested: Vec<PathBuf>,
    /// Commits that are neither in another branch nor in the target by content.
    pub unlanded: u64,
    /// Commits that only refs of this very worktree (`refs/worktree/`) keep.
    pub private: u64,
    /// Commits of the target that it lacks.
    pub behind: u64,
}

/// Git's files that show an operation under way.
const UNDER_WAY: [(&str, &str); 6] = [
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
];

/// What is not finished in a worktree, if anything.
pub fn under_way(git_dir: &Path) -> Option<UnderWay> {
    UNDER_WAY.iter().find_map(|(file, what)| {
        let since = git_dir.join(file).symlink_metadata().ok()?.modified().ok()?;
        let since_ms = since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        Some(UnderWay { what, since_ms: i64::try_from(since_ms).unwrap_or_default() })
    })
}

impl State {
    /// What would be lost or left unfinished if the worktree were removed.
    pub fn reasons(&self, branch: Option<&str>) -> Vec<String> {
        let mut reasons = Vec::new();
        let files = |what: &str, files: &[PathBuf]| {
            let names: Vec<String> = files.iter().take(3).map(|file| file.display().to_string()).collect();
            let more = files.len().saturating_sub(names.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{} {what}: {}{more}", counted(files.len() as u64, "file"), names.join(", "))
        };
        if !self.changed.is_empty() {
            reasons.push(files("with uncommitted changes", &self.changed));
        }
        if !self.untracked.is_empty() {
            reasons.push(files("untracked", &self.untracked));
        }
        if let Some(under_way) = &self.under_way {
            reasons.push(format!("a {} is under way", under_way.what));
        }
        if self.unlanded > 0 {
            let on = branch.map_or_else(|| "a detached HEAD".to_owned(), |branch| format!("branch {branch}"));
            reasons.push(format!("{} on {on} in no other branch", counted(self.unlanded, "commit")));
        }
        if self.private > 0 {
            reasons.push(format!("{} that only refs/worktree/ keeps", counted(self.private, "commit")));
        }
        if self.has_submodules {
            reasons.push("it has submodules, whose work git keeps with it".to_owned());
        }
        if let Some(nested) = self.nested.first() {
            let more = self.nested.len() - 1;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            reasons.push(format!("another repository or worktree is in it: {}{more}", nested.display()));
        }
        reasons
    }
}

pub(super) fn counted(count: u64, what: &str) -> String {
    match count {
        // They could not be counted.
        u64::MAX => format!("{what}s"),
        count => quote::counted(count, what),
    }
}

/// The disk space of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    pub bytes: u64,
    /// There are more files than were counted.
    pub is_more: bool,
}

/// The most files that are counted.
const MOST_FILES: usize = 300_000;

impl DiskUse {
    pub fn of(folder: &Path) -> DiskUse {
        let (mut used, mut left, mut folders) = (DiskUse::default(), MOST_FILES, vec![folder.to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Ok(metadata) = entry.path().symlink_metadata() else { continue };
                if left == 0 {
                    return DiskUse { is_more: true, ..used };
                }
                left -= 1;
                used.bytes += metadata.blocks() * 512;
                if metadata.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        used
    }
}

/// The repositories and worktrees at or below a path, named from `root`. Looks at `left` entries at most.
fn repositories(root: &Path, path: &Path, left: &mut usize) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder)).into_iter().flatten().flatten();
        let entries: Vec<fs::DirEntry> = entries.take(*left).collect();
        *left -= entries.len();
        let has = |name: &str| entries.iter().any(|entry| entry.file_name() == name);
        // A git directory itself, such as that of a bare repository, has no `.git`.
        if has(".git") || ["HEAD", "objects", "refs"].into_iter().all(has) {
            found.push(folder);
            continue;
        }
        let below = entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(below.map(|entry| folder.join(entry.file_name())));
    }
    found
}

impl Worktrees {
    /// Examines a worktree.
    pub fn state(&self, linked: &Linked, target: Option<&Target>) -> Result<State, Refusal> {
        let mut state = State {
            under_way: under_way(&linked.git_dir),
            has_submodules: has_modules(&linked.git_dir),
            private: self.private(linked),
            ..State::default()
        };
        if !linked.is_missing {
            let looked = self.changes(linked, &mut state).and_then(|()| {
                let overlooked = overlooked((&linked.path, &linked.git_dir), &state.changed, LIMIT)?;
                state.changed.extend(overlooked.changed);
                state.has_submodules |= overlooked.has_submodules;
                Ok(())
            });
            looked.map_err(|error| failed(&format!("cannot look at {}", linked.path.display()), &error))?;
        }
        if let Some(head) = &linked.head {
            let target = target.map(|target| (target.name.as_str(), target.commit.as_str()));
            state.unlanded = self.unlanded(head, linked.branch.as_deref(), target);
            if let Some((_, commit)) = target.filter(|(name, _)| linked.branch.as_deref() != Some(name)) {
                state.behind = self.ahead(commit, head)?;
            }
        }
        Ok(state)
    }

    /// The `onus/` branches that are checked out nowhere and have unlanded commits, with their number.
    pub fn unlanded_branches(&self, target: &Target) -> Result<Vec<(String, u64)>, Refusal> {
        let what = "cannot list branches";
        let words = ["for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads/onus/"];
        let refs = self.git().words(&words).line().map_err(|error| failed(what, &error))?;
        let out = self.list().map_err(|error| failed(what, &error))?;
        let out: Vec<String> = out.into_iter().filter_map(|it| it.branch).collect();
        let open = refs
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(name, _)| !out.iter().any(|it| it == name));
        let counted = open.map(|(name, tip)| {
            (name.to_owned(), self.unlanded(tip, Some(name), Some((&target.name, &target.commit))))
        });
        Ok(counted.filter(|(_, unlanded)| *unlanded > 0).collect())
    }

    fn changes(&self, linked: &Linked, state: &mut State) -> Result<(), GitError> {
        let mut left = MOST_FILES;
        let call = Call::in_worktree(&linked.path, &linked.git_dir);
        for (path, code) in status(call, &["--ignored=matching", "--ignore-submodules=none"], LIMIT)? {
            match &code {
                b"!!" => {
                    state.ignored += 1;
                    state.nested.extend(repositories(&linked.path, &path, &mut left));
                    if state.ignored_names.len() < MOST_NAMES {
                        state.ignored_names.push(path);
                    }
                }
                b"??" => state.untracked.push(path),
                _ => state.changed.push(path),
            }
        }
        Ok(())
    }

    /// Counts the commits that only the worktree's own refs keep; `u64::MAX` if they cannot be counted.
    fn private(&self, linked: &Linked) -> u64 {
        if linked.is_main {
            return 0;
        }
        let words = ["for-each-ref", "--format=%(objectname)", "refs/worktree/", "refs/rewritten/"];
        let Ok(tips) = Call::in_worktree(self.common_dir(), &linked.git_dir).words(&words).line() else {
            return u64::MAX;
        };
        let only_here = |tip| self.only_here(tip, linked.branch.as_deref());
        tips.lines().map(only_here).fold(0, u64::saturating_add)
    }

    /// Why a worktree that is half made or half removed must be kept: it contains something that its commit lacks. Files of the
    /// commit may be absent, and so may the index.
    pub(super) fn has_been_used(&self, linked: &Linked, journal: &Journal) -> Option<String> {
        if linked.locked.as_deref().is_some_and(|why| why != "initializing") {
            return Some("it is locked".to_owned());
        }
        if let Some(under_way) = under_way(&linked.git_dir) {
            return Some(format!("a {} is under way", under_way.what));
        }
        let tip = match &linked.branch {
            Some(branch) => self.commit_of(&format!("refs/heads/{branch}")),
            None => linked.head.clone(),
        };
        if tip.is_some() && tip != journal.commit {
            return Some("something was committed there".to_owned());
        }
        if has_modules(&linked.git_dir) {
            return Some("it has submodules".to_owned());
        }
        if linked.is_missing {
            // It was complete, so somebody moved it.
            if journal.action == Action::Making && linked.info.is_some() {
                return Some("its folder is missing".to_owned());
            }
            let is_empty = fs::read_dir(&linked.path).map_or(true, |mut files| files.next().is_none());
            return (!is_empty).then(|| "files there belong to no worktree".to_owned());
        }
        let Some(commit) = &journal.commit else {
            return Some("it is not known what belongs there".to_owned());
        };
        match self.beyond(linked, commit) {
            Ok(0) => None,
            Ok(files) => Some(format!("{} there in no commit", counted(files, "file"))),
            Err(GitError(why)) => Some(format!("it cannot be looked at: {why}")),
        }
    }

    /// Counts the files that exist and differ from this commit, using a temporary index.
    fn beyond(&self, linked: &Linked, commit: &str) -> Result<u64, GitError> {
        let fail = |error: std::io::Error| GitError(error.to_string());
        let folder = tempfile::tempdir_in(self.common_dir().join("onus")).map_err(fail)?;
        let index = folder.path().join("index");
        let call =
            || Call::in_worktree(&linked.path, &linked.git_dir).env("GIT_INDEX_FILE", &index).limit(LIMIT);
        call().words(&["read-tree", "--end-of-options", commit]).run()?;
        // The new index has no time stamps, so contents are compared. The status only says whether anything differs; the next call
        // says what.
        call().words(&["update-index", "-q", "--really-refresh"]).outcome()?;
        let changed = call()
            .words(&["diff-files", "-z", "--name-only", "--diff-filter=d", "--ignore-submodules=none"])
            .run()?;
        let untracked = call().words(&["ls-files", "-z", "--others", "--exclude-standard"]).run()?;
        Ok((count(&changed) + count(&untracked)) as u64)
    }
}

/// Whether git stores repositories of submodules with this worktree.
fn has_modules(git_dir: &Path) -> bool {
    let is_linked = git_dir.join("commondir").exists();
    is_linked && fs::read_dir(git_dir.join("modules")).is_ok_and(|mut modules| modules.next().is_some())
}

/// Counts names that each end with a NUL.
fn count(names: &[u8]) -> usize {
    names.iter().filter(|byte| **byte == 0).count()
}
