//! Forecasts conflicts: merges live branches in memory with their target and with each other, before anybody has to.
//!
//! **Cheap.** One process lists the branches' commits. A second one lists the changes of only those that moved. Two sides are merged
//! only if their changes meet ([`onus_core::forecast`]), and each pair of commits only once: the result is
//! remembered (`memory.rs`). A forecast is bounded in time and in merges; it reports what it left out, and the next one continues.
//!
//! **Nothing is touched.** No checkout, index or ref is written, and the objects of a merge go to a temporary folder. Nothing
//! that the repository configures is run: files that have a merge driver of their own, or are merged by union, do not count.
//!
//! Requires git 2.38 or newer. With an older one, merging returns an error that says so.

mod history;
mod memory;
mod merge;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use onus_core::forecast::{Side, between, is_worth_merging};
use onus_core::scope::Scope;

use crate::discover::Place;
use crate::git::{Call, GitError, Repository};
use crate::owner::Foreign;
use crate::worktrees::target_refs;

use history::History;
use memory::Known;
use merge::{Merged, Merger};

pub use memory::ConflictNews;

/// The most branches that are examined, and the most merges of one forecast.
pub const MOST_BRANCHES: usize = 64;
const MOST_MERGES: usize = 64;

/// The most files that are named of one conflict.
pub const MOST_FILES: usize = 50;

/// A branch, and the one that it is to land in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub branch: String,
    pub target: String,
}

/// What a branch will conflict with: its target, or another of the given branches, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum With {
    Target,
    Branch(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub branch: usize,
    pub with: With,
    /// The first of the files that git cannot merge, and how many there are.
    pub files: Vec<String>,
    pub count: usize,
}

/// The result of a forecast.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecasted {
    pub conflicts: Vec<Conflict>,
    /// Which of the branches exist here, by their position.
    pub seen: Vec<usize>,
    /// Why the result is incomplete.
    pub incomplete: Option<String>,
}

/// The branches of one repository.
#[derive(Clone, Debug)]
pub struct Forecast {
    repository: Repository,
}

/// A branch with a commit of its own.
struct Tip<'a> {
    position: usize,
    commit: &'a str,
    target: &'a Commit,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Commit {
    hash: String,
    tree: String,
}

impl Forecast {
    /// None outside git.
    pub fn of(place: &Place) -> Result<Option<Forecast>, Foreign> {
        Ok(Repository::new(place)?.map(|repository| Forecast { repository }))
    }

    fn memory_file(&self) -> PathBuf {
        self.repository.common_dir().join("onus-forecast")
    }

    /// A call without a checkout, and so without attributes: no program that they name is run.
    fn git(&self, deadline: Instant) -> Call<'static> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.repository.call().words(&["--bare"]).limit(left.max(Duration::from_millis(1)))
    }

    /// Forecasts the conflicts of branches. `shared`: files that never conflict. `first`: the branch whose merges are computed first.
    pub fn look(
        &self,
        asked: &[Asked],
        shared: &Scope,
        first: Option<&str>,
        limit: Duration,
    ) -> Result<Forecasted, GitError> {
        let deadline = Instant::now() + limit;
        let mut outlook = Forecasted::default();
        if asked.len() > MOST_BRANCHES {
            let more = asked.len() - MOST_BRANCHES;
            outlook.incomplete = Some(format!("{more} more branches were not looked at"));
        }
        let asked = &asked[..asked.len().min(MOST_BRANCHES)];
        if asked.is_empty() {
            return Ok(outlook);
        }
        let before = Known::read(&self.memory_file());
        let mut known = before.clone();
        let refs = self.refs(asked, deadline)?;
        let targets = self.targets(asked, &refs, &mut known, deadline)?;
        let is_here = |asked: &Asked| {
            refs.contains_key(&format!("refs/heads/{}", asked.branch))
                && targets.contains_key(asked.target.as_str())
        };
        outlook.seen = (0..asked.len()).filter(|at| is_here(&asked[*at])).collect();
        let tips: Vec<Tip<'_>> = asked
            .iter()
            .enumerate()
            .filter_map(|(position, asked)| {
                let target = targets.get(asked.target.as_str())?;
                let commit = &refs.get(&format!("refs/heads/{}", asked.branch))?.hash;
                (asked.branch != asked.target && *commit != target.hash).then_some(Tip {
                    position,
                    commit,
                    target,
                })
            })
            .collect();
        history::learn(self, &tips, &mut known, deadline)?;
        let is_first = |tip: &Tip<'_>| Some(asked[tip.position].branch.as_str()) == first;
        let mut merger = Merger::new(self, &mut known, MOST_MERGES, deadline);
        let found = conflicts(&tips, &is_first, shared, &mut merger);
        let (unasked, trouble) = merger.finish();
        outlook.conflicts = found;
        outlook.incomplete = match (trouble, unasked) {
            (Some(trouble), _) => Some(trouble),
            (None, 0) => outlook.incomplete,
            (None, 1) => Some("1 pair of branches is still to be looked at".to_owned()),
            (None, more) => Some(format!("{more} pairs of branches are still to be looked at")),
        };
        if known != before {
            let commits: BTreeSet<&str> =
                tips.iter().flat_map(|tip| [tip.commit, tip.target.hash.as_str()]).collect();
            known.remember(&self.memory_file(), &commits);
        }
        Ok(outlook)
    }

    /// The current commits of the branches and their targets.
    fn refs(&self, asked: &[Asked], deadline: Instant) -> Result<BTreeMap<String, Commit>, GitError> {
        let mut names: BTreeSet<String> =
            asked.iter().map(|asked| format!("refs/heads/{}", asked.branch)).collect();
        names.extend(asked.iter().flat_map(|asked| target_refs(&asked.target)));
        let mut call =
            self.git(deadline).words(&["for-each-ref", "--format=%(refname) %(objectname) %(tree)"]);
        for name in &names {
            call = call.word(name);
        }
        let listed = String::from_utf8_lossy(&call.run()?).into_owned();
        let lines = listed.lines().filter_map(|line| {
            let mut fields = line.split(' ');
            let (name, hash, tree) = (fields.next()?, fields.next()?, fields.next()?);
            let commit = Commit { hash: hash.to_owned(), tree: tree.to_owned() };
            // A tag has no tree, and a pattern also matches refs below it.
            (!tree.is_empty() && names.contains(name)).then(|| (name.to_owned(), commit))
        });
        Ok(lines.collect())
    }

    /// The newest known commit of each target: where a task's branch would begin now.
    fn targets<'a>(
        &self,
        asked: &'a [Asked],
        refs: &BTreeMap<String, Commit>,
        known: &mut Known,
        deadline: Instant,
    ) -> Result<BTreeMap<&'a str, Commit>, GitError> {
        let mut targets = BTreeMap::new();
        for name in asked.iter().map(|asked| asked.target.as_str()).collect::<BTreeSet<&str>>() {
            let tips: Vec<&Commit> = target_refs(name).iter().filter_map(|name| refs.get(name)).collect();
            let Some(first) = tips.first() else { continue };
            let mut distinct: Vec<&str> = tips.iter().map(|tip| tip.hash.as_str()).collect();
            distinct.sort_unstable();
            distinct.dedup();
            let newest = match distinct.len() {
                1 => first.hash.clone(),
                _ => self.newest(&distinct, &first.hash, known, deadline)?,
            };
            let newest = tips.iter().find(|tip| tip.hash == newest).unwrap_or(first);
            targets.insert(name, (*newest).clone());
        }
        Ok(targets)
    }

    /// The commit that contains all others; if they have diverged, the first.
    fn newest(
        &self,
        tips: &[&str],
        first: &str,
        known: &mut Known,
        deadline: Instant,
    ) -> Result<String, GitError> {
        let key = tips.join(" ");
        if let Some(newest) = known.newest.get(&key) {
            return Ok(newest.clone());
        }
        let independent = self.git(deadline).words(&["merge-base", "--independent"]).words(tips).line()?;
        let mut independent = independent.lines();
        let newest = match (independent.next(), independent.next()) {
            (Some(only), None) => only.to_owned(),
            _ => first.to_owned(),
        };
        known.newest.insert(key, newest.clone());
        Ok(newest)
    }
}

/// What each branch conflicts with: its target, then the others with the same target.
fn conflicts(
    tips: &[Tip<'_>],
    is_first: &dyn Fn(&Tip<'_>) -> bool,
    shared: &Scope,
    merger: &mut Merger<'_>,
) -> Vec<Conflict> {
    let histories: Vec<Option<History>> = tips.iter().map(|tip| merger.history(tip)).collect();
    let mut found = BTreeMap::new();
    // A branch whose merge changes nothing has landed by content.
    let mut has_landed = vec![false; tips.len()];
    let mut with_target: Vec<Vec<String>> = vec![Vec::new(); tips.len()];
    let mut order: Vec<usize> = (0..tips.len()).collect();
    order.sort_by_key(|at| !is_first(&tips[*at]));
    for at in order {
        let (tip, history) = (&tips[at], &histories[at]);
        let is_worth = match history {
            Some(history) => is_worth_merging(history.meeting.iter().map(String::as_str), shared),
            None => true,
        };
        if let Some(Merged { tree, files }) =
            is_worth.then(|| merger.merge(&tip.target.hash, tip.commit)).flatten()
        {
            has_landed[at] = tree == tip.target.tree;
            with_target[at] = files.into_iter().filter(|path| !shared.covers(path)).collect();
            found.insert((tip.position, With::Target), with_target[at].clone());
        }
    }
    let mut pairs: Vec<(usize, usize)> =
        (0..tips.len()).flat_map(|one| (one + 1..tips.len()).map(move |other| (one, other))).collect();
    pairs.sort_by_key(|(one, other)| !(is_first(&tips[*one]) || is_first(&tips[*other])));
    for (one, other) in pairs {
        let (a, b) = (&tips[one], &tips[other]);
        if a.target != b.target || a.commit == b.commit || has_landed[one] || has_landed[other] {
            continue;
        }
        let is_worth = match (&histories[one], &histories[other]) {
            (Some(one), Some(other)) => is_worth_merging(one.own.meeting(&other.own), shared),
            _ => true,
        };
        if let Some(merged) = is_worth.then(|| merger.merge(a.commit, b.commit)).flatten() {
            let side = |at: usize| Side {
                changes: histories[at].as_ref().map(|history| &history.own),
                with_target: &with_target[at],
            };
            let files = between(&merged.files, side(one), side(other), shared);
            found.insert((a.position, With::Branch(b.position)), files);
        }
    }
    let named = found.into_iter().filter(|(_, files)| !files.is_empty());
    named
        .map(|((branch, with), mut files)| {
            let count = files.len();
            files.truncate(MOST_FILES);
            Conflict { branch, with, files, count }
        })
        .collect()
}
