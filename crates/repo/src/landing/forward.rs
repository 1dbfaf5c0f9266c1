//! Checkouts of a target: found before it moves, then fast-forwarded one by one.
//!
//! A checkout is left untouched, and reported, if git would have to touch uncommitted files in it or if an operation such as a
//! rebase is under way there. Anybody can bring it forward later, at any time.
//!
//! **Submodules**: git moves a submodule's recorded commit but leaves its files, so the next `commit -a` there would record the old
//! commit again. A checkout with a populated submodule that would move is therefore left untouched.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::commit::CommitId;

use super::refs::LANDED;
use super::{Error, Lander, shown};
use crate::discover::{Place, discover};
use crate::files::read_small;
use crate::git::{Call, Entry, raw_changes};
use crate::worktrees::{Linked, same, under_way};

/// Generous: a fast-forward may change many files.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Retries for a checkout in which another git is running, and the pause between them: three seconds in all.
const TRIES: usize = 60;
const PAUSE: Duration = Duration::from_millis(50);

/// A checkout that a branch must not move under.
#[derive(Clone, Debug)]
pub(super) struct CheckedOut {
    path: PathBuf,
    /// None if it is not where git has recorded it.
    place: Option<Place>,
    /// A rebase, a merge, …
    under_way: Option<&'static str>,
}

/// A checkout of the target, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    pub path: PathBuf,
    pub outcome: Forward,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forward {
    /// It has everything that landed.
    UpToDate,
    /// It was not touched.
    Left(Left),
}

/// Why a checkout was not touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// These files have uncommitted changes, or are in the way of new files.
    InTheWay(Vec<String>),
    /// These submodules would move.
    Submodules(Vec<String>),
    /// A merge, a rebase or a bisection is in progress.
    UnderWay(&'static str),
    /// It has a commit that the target lacks; the next landing merges both.
    Diverged,
    /// The branch is checked out more than once, so it would move under one of the checkouts.
    Twice,
    /// It is not where git has recorded it.
    Missing,
    /// Another git is running there.
    Busy,
    /// Git refused, with this message.
    Refused(String),
}

/// The checkouts of a branch, including those in the middle of a rebase or a bisection of it.
pub(super) fn checked_out(lander: &Lander, target: &str) -> Result<Vec<CheckedOut>, Error> {
    let all = lander.worktrees.list()?;
    let out = all
        .into_iter()
        .filter(|linked| linked.branch.as_deref() == Some(target) || is_worked_on(&linked.git_dir, target));
    Ok(out.map(|linked| lander.look_at(linked)).collect())
}

/// Whether a rebase or a bisection there returns to this branch when it ends.
fn is_worked_on(git_dir: &Path, target: &str) -> bool {
    let says = |file: &str| read_small(&git_dir.join(file)).ok();
    let is_it = |text: String| {
        let text = text.trim();
        text.strip_prefix("refs/heads/").unwrap_or(text) == target
    };
    ["rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"].iter().any(|file| says(file).is_some_and(is_it))
        // The branches that `rebase --update-refs` moves at its end: `REF`, `OLD`, `NEW`, one per line.
        || says("rebase-merge/update-refs")
            .is_some_and(|text| text.lines().any(|line| line.strip_prefix("refs/heads/") == Some(target)))
}

impl Lander {
    fn look_at(&self, linked: Linked) -> CheckedOut {
        let home = if linked.is_main { self.worktrees.home().to_owned() } else { linked.path.clone() };
        // A main checkout that is not beside its `.git` counts as missing.
        let is_elsewhere =
            || linked.is_main && self.git().words(&["config", "--get", "core.worktree"]).run().is_ok();
        let is_same = |one: &Path, other: &Path| one == other || same(one, other);
        let place = discover(&home).filter(|place| {
            let is_there = place.git_dir.as_deref().is_some_and(|git_dir| is_same(git_dir, &linked.git_dir));
            is_there && is_same(&place.root, &home) && home.join(".git").exists()
        });
        let place = place.filter(|_| !is_elsewhere());
        CheckedOut { path: linked.path, place, under_way: under_way(&linked.git_dir).map(|it| it.what) }
    }

    /// Where a branch is checked out.
    pub fn checkouts_of(&self, target: &str) -> Result<Vec<PathBuf>, Error> {
        Ok(checked_out(self, target)?.into_iter().map(|out| out.path).collect())
    }

    /// Brings every checkout of the target forward to what landed, unless something there is in the way. Safe to repeat, by
    /// anybody. If the branch is no longer checked out anywhere, the branch itself moves.
    pub fn bring_forward(&self, target: &str) -> Result<Vec<Checkout>, Error> {
        let tips = self.tips(target)?;
        let out = self.checked_out(target)?;
        let all = |outcome: &Forward| {
            out.iter().map(|out| Checkout { path: out.path.clone(), outcome: outcome.clone() }).collect()
        };
        let Some(landed) = &tips.landed else { return Ok(all(&Forward::UpToDate)) };
        if self.contains(&tips.branch, landed)? {
            self.tidy_landed(target)?;
            return Ok(all(&Forward::UpToDate));
        }
        if !self.contains(landed, &tips.branch)? {
            return Ok(all(&Forward::Left(Left::Diverged)));
        }
        match out.as_slice() {
            [] => self.catch_up(target, &tips).map(|()| Vec::new()),
            [only] => {
                let outcome = match self.fast_forward(only, target, &tips.branch, landed)? {
                    None => {
                        self.tidy_landed(target)?;
                        Forward::UpToDate
                    }
                    Some(left) => Forward::Left(left),
                };
                Ok(all(&outcome))
            }
            _ => Ok(all(&Forward::Left(Left::Twice))),
        }
    }

    /// Brings the checkouts of every target forward that has a `refs/onus/landed/` reference.
    pub fn bring_all_forward(&self) -> Result<Vec<(String, Checkout)>, Error> {
        if !self.may_be_ahead() {
            return Ok(Vec::new());
        }
        let listed = self.git().words(&["for-each-ref", "--format=%(refname)", LANDED]).line()?;
        let mut all = Vec::new();
        for target in listed.lines().filter_map(|name| name.strip_prefix(LANDED)) {
            match self.bring_forward(target) {
                // A target that was deleted or replaced is reported elsewhere.
                Err(Error::NoBranch(_) | Error::Symbolic(..)) => {}
                brought => {
                    all.extend(brought?.into_iter().map(|checkout| (target.to_owned(), checkout)));
                }
            }
        }
        Ok(all)
    }

    /// Returns why the checkout was not brought forward; None if it was.
    fn fast_forward(
        &self,
        out: &CheckedOut,
        target: &str,
        from: &CommitId,
        to: &CommitId,
    ) -> Result<Option<Left>, Error> {
        let Some(place) = &out.place else { return Ok(Some(Left::Missing)) };
        if let Some(what) = out.under_way {
            return Ok(Some(Left::UnderWay(what)));
        }
        let submodules = self.moved_submodules(&place.root, from, to)?;
        if !submodules.is_empty() {
            return Ok(Some(Left::Submodules(submodules)));
        }
        let options = [(format!("branch.{target}.mergeoptions"), "--ff-only")];
        for _ in 0..TRIES {
            // Only ever the branch that was examined.
            let head =
                Call::at(place)?.words(&["symbolic-ref", "--quiet", "HEAD"]).line().unwrap_or_default();
            if head.strip_prefix("refs/heads/") != Some(target) {
                return Ok(Some(Left::Busy));
            }
            let call = Call::in_checkout(place)?.overriding(&options).limit(LIMIT);
            let call =
                call.env("GIT_REFLOG_ACTION", "onus: brought forward").words(&MERGE).words(&[to.as_str()]);
            let outcome = call.outcome()?;
            if outcome.status.success() {
                return Ok(None);
            }
            match why(&outcome.err) {
                Left::Busy => std::thread::sleep(PAUSE),
                left => return Ok(Some(left)),
            }
        }
        Ok(Some(Left::Busy))
    }

    /// Returns the populated submodules here that are at another commit in the target.
    fn moved_submodules(&self, root: &Path, from: &CommitId, to: &CommitId) -> Result<Vec<String>, Error> {
        let words = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--ignore-submodules=none"];
        let out = self.git().words(&words).words(&[from.as_str(), to.as_str()]).run()?;
        let moves = raw_changes(&out)
            .filter(|change| [&change.old, &change.new].into_iter().flatten().any(Entry::is_submodule));
        let is_there = |path: &String| fs::symlink_metadata(root.join(path).join(".git")).is_ok();
        Ok(moves.map(|change| shown(change.path)).filter(is_there).collect())
    }
}

/// A fast-forward or nothing, with every option fixed that a configuration could change.
const MERGE: [&str; 14] = [
    "-c",
    "submodule.recurse=false",
    "-c",
    "core.quotePath=false",
    "merge",
    "--ff-only",
    "--quiet",
    "--commit",
    "--no-squash",
    "--no-stat",
    "--no-autostash",
    "--no-verify-signatures",
    // By default git overwrites ignored files, which may be somebody's work.
    "--no-overwrite-ignore",
    "--end-of-options",
];

/// Reads git's message: why it did not fast-forward.
fn why(err: &str) -> Left {
    let named: Vec<String> =
        err.lines().filter_map(|line| line.strip_prefix('\t')).map(str::to_owned).collect();
    let quoted = err.lines().find_map(|line| line.split_once("ntry '")?.1.split_once('\''));
    if !named.is_empty() {
        Left::InTheWay(named)
    } else if err.contains("index.lock") || err.contains(".lock': File exists") {
        Left::Busy
    } else if err.contains("Not possible to fast-forward") {
        Left::Diverged
    } else if let Some((path, _)) = quoted {
        Left::InTheWay(vec![path.to_owned()])
    } else {
        Left::Refused(err.lines().next().unwrap_or_default().to_owned())
    }
}
