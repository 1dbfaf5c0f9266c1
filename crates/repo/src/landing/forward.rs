//! Checkouts of a target: found before it moves, and brought forward afterwards, each by a fast-forward of its own.
//!
//! A checkout is left exactly as it is, and named, where git would have to touch what is not committed there, or where something
//! is under way. It can be brought forward at any time later, by anybody.
//!
//! **Submodules**: git moves the recorded commit of a submodule and leaves its files, and the next `commit -a` there records the old commit again.
//! So a checkout with a populated submodule that would move is left as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::commit::CommitId;

use super::refs::LANDED;
use super::{Error, Lander, shown};
use crate::discover::{Place, discover};
use crate::files::read_small;
use crate::git::Call;
use crate::worktrees::{Linked, under_way};

/// Many files may change.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// How often, and after which pause, a checkout is tried again in which another git is at work: three seconds in all.
const TRIES: usize = 60;
const PAUSE: Duration = Duration::from_millis(50);

/// A checkout that a branch must not move under.
#[derive(Clone, Debug)]
pub(super) struct Out {
    path: PathBuf,
    /// None: it is not where git has it.
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
    /// It is as it was.
    Left(Left),
}

/// Why a checkout was left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// These have changes that are not committed, or are in the way of new files.
    InTheWay(Vec<String>),
    /// These submodules would move.
    Submodules(Vec<String>),
    /// A merge, a rebase, a bisection is.
    UnderWay(&'static str),
    /// Something was committed there that the target has not; the next landing merges both.
    Diverged,
    /// The branch is checked out more than once, and would move under one of them.
    Twice,
    /// It is not where git has it.
    Missing,
    /// Another git is at work there.
    Busy,
    /// What git says.
    Refused(String),
}

/// The checkouts that have a branch out, also in the middle of a rebase or a bisection of it.
pub(super) fn checked_out(lander: &Lander, target: &str) -> Result<Vec<Out>, Error> {
    let all = lander.worktrees.list()?;
    let out = all
        .into_iter()
        .filter(|linked| linked.branch.as_deref() == Some(target) || is_worked_on(&linked.git_dir, target));
    Ok(out.map(|linked| lander.look_at(linked)).collect())
}

/// Whether a rebase or a bisection there goes back to this branch when it ends.
fn is_worked_on(git_dir: &Path, target: &str) -> bool {
    let says = |file: &str| read_small(&git_dir.join(file)).ok();
    let is_it = |text: String| {
        let text = text.trim();
        text.strip_prefix("refs/heads/").unwrap_or(text) == target
    };
    ["rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"].iter().any(|file| says(file).is_some_and(is_it))
        // What `rebase --update-refs` moves at its end: `REF`, `OLD`, `NEW`, line by line.
        || says("rebase-merge/update-refs")
            .is_some_and(|text| text.lines().any(|line| line.strip_prefix("refs/heads/") == Some(target)))
}

impl Lander {
    fn look_at(&self, linked: Linked) -> Out {
        let home = if linked.is_main { self.worktrees.home().to_owned() } else { linked.path.clone() };
        // Elsewhere than beside its `.git`, it is not looked for.
        let is_elsewhere =
            || linked.is_main && self.git().words(&["config", "--get", "core.worktree"]).run().is_ok();
        let same = |one: &Path, other: &Path| {
            one == other
                || one
                    .canonicalize()
                    .ok()
                    .is_some_and(|one| other.canonicalize().is_ok_and(|other| one == other))
        };
        let place = discover(&home).filter(|place| {
            let is_there = place.git_dir.as_deref().is_some_and(|git_dir| same(git_dir, &linked.git_dir));
            is_there && same(&place.root, &home) && home.join(".git").exists()
        });
        let place = place.filter(|_| !is_elsewhere());
        Out { path: linked.path, place, under_way: under_way(&linked.git_dir).map(|it| it.what) }
    }

    /// Where a branch is checked out.
    pub fn checkouts_of(&self, target: &str) -> Result<Vec<PathBuf>, Error> {
        Ok(checked_out(self, target)?.into_iter().map(|out| out.path).collect())
    }

    /// Brings every checkout of the target forward to what landed, as far as nothing there is in the way. Any number of times, by
    /// anybody. If nobody has it checked out any more, the branch itself moves.
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

    /// The same for every target that something landed beside.
    pub fn bring_all_forward(&self) -> Result<Vec<(String, Checkout)>, Error> {
        if !self.may_be_ahead() {
            return Ok(Vec::new());
        }
        let listed = self.git().words(&["for-each-ref", "--format=%(refname)", LANDED]).line()?;
        let mut all = Vec::new();
        for target in listed.lines().filter_map(|name| name.strip_prefix(LANDED)) {
            match self.bring_forward(target) {
                // Whoever deleted it is told of it elsewhere.
                Err(Error::NoBranch(_) | Error::Symbolic(..)) => {}
                brought => {
                    all.extend(brought?.into_iter().map(|checkout| (target.to_owned(), checkout)));
                }
            }
        }
        Ok(all)
    }

    /// None: it is there now. Else why not.
    fn fast_forward(
        &self,
        out: &Out,
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
            // Never another branch than the one that was looked at.
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

    /// Submodules that are checked out here and that the target has at another commit.
    fn moved_submodules(&self, root: &Path, from: &CommitId, to: &CommitId) -> Result<Vec<String>, Error> {
        let words = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--ignore-submodules=none"];
        let out = self.git().words(&words).words(&[from.as_str(), to.as_str()]).run()?;
        let mut fields = out.split(|byte| *byte == 0);
        let mut found = Vec::new();
        // `:MODE MODE OBJECT OBJECT STATUS NUL PATH NUL`
        while let (Some(facts), Some(path)) = (fields.next(), fields.next()) {
            let is_submodule =
                String::from_utf8_lossy(facts).split(' ').take(2).any(|mode| mode.ends_with("160000"));
            let path = shown(path);
            if is_submodule && fs::symlink_metadata(root.join(&path).join(".git")).is_ok() {
                found.push(path);
            }
        }
        Ok(found)
    }
}

/// Forward or not at all, without anything that a configuration could add to it.
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
    // Git would write over a file that is ignored: it may be somebody's.
    "--no-overwrite-ignore",
    "--end-of-options",
];

/// Why git did not go forward.
fn why(err: &str) -> Left {
    let named: Vec<String> =
        err.lines().filter_map(|line| line.strip_prefix('\t')).map(str::to_owned).collect();
    let quoted = err.lines().find_map(|line| line.split_once("ntry '")?.1.split_once('\''));
    match () {
        () if !named.is_empty() => Left::InTheWay(named),
        () if err.contains("index.lock") || err.contains(".lock': File exists") => Left::Busy,
        () if err.contains("Not possible to fast-forward") => Left::Diverged,
        () => match quoted {
            Some((path, _)) => Left::InTheWay(vec![path.to_owned()]),
            None => Left::Refused(err.lines().next().unwrap_or_default().to_owned()),
        },
    }
}
