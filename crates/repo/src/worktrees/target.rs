//! Where a task's branch begins: the newest known commit of the branch that it is to land in.

use std::time::Duration;

use onus_core::refusal::{Refusal, Step};

use super::{Worktrees, failed, refuse};
use crate::git::GitError;
use crate::landing;

/// Short, so that a server that does not answer keeps nobody from working.
const FETCH_LIMIT: Duration = Duration::from_secs(30);

/// A branch to land in, and the commit at which a task's branch begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    pub commit: String,
    /// What the caller should know: that the server could not be reached, that two tips have diverged.
    pub remarks: Vec<String>,
}

/// The references of a target, the most authoritative first.
pub(crate) fn target_refs(name: &str) -> [String; 3] {
    ["refs/onus/landed/", "refs/heads/", "refs/remotes/origin/"].map(|below| format!("{below}{name}"))
}

impl Worktrees {
    /// The target branch (see [`Self::target_name`]) and its newest known commit. `fetch`: ask the server first.
    pub fn target(&self, configured: Option<&str>, fetch: bool) -> Result<Target, Refusal> {
        let name = self.target_name(configured)?;
        let mut remarks = Vec::new();
        if fetch {
            remarks.extend(self.fetch(&name).err());
        }
        let tips: Vec<String> = target_refs(&name).iter().filter_map(|tip| self.commit_of(tip)).collect();
        let Some(first) = tips.first() else {
            if let error @ landing::Error::NotText(_) = landing::no_branch(&name) {
                return Err(Refusal::usage(error.to_string()));
            }
            return Err(refuse(format!("there is no branch {name} here, or it has no commit yet"))
                .next(Step::plain("commit something first, or name another target branch")));
        };
        // The one that contains all others.
        let newest = tips.iter().find(|tip| tips.iter().all(|other| self.contains(tip, other)));
        if newest.is_none() {
            let has_landed = self.commit_of(&format!("refs/onus/landed/{name}")).is_some();
            remarks.push(match has_landed {
                true => {
                    format!(
                        "{name} has commits that did not land through onus; this branch starts without them"
                    )
                }
                false => {
                    format!("{name} here and {name} at origin have diverged: this begins at the local one")
                }
            });
        }
        Ok(Target { commit: newest.unwrap_or(first).clone(), name, remarks })
    }

    /// `configured`, else origin's default branch, else the branch of the main checkout.
    pub fn target_name(&self, configured: Option<&str>) -> Result<String, Refusal> {
        let short = |name: &str| self.git().words(&["symbolic-ref", "--quiet", "--short", name]).line().ok();
        let origins = || short("refs/remotes/origin/HEAD")?.strip_prefix("origin/").map(str::to_owned);
        let name = match configured {
            Some(name) => {
                let name =
                    name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("origin/")).unwrap_or(name);
                Some(name.to_owned())
            }
            None => origins().or_else(|| short("HEAD")),
        };
        let name = name.ok_or_else(|| {
            refuse("no branch is checked out in the main checkout, so it is not clear where work is to land")
                .next(Step::plain("check out a branch there, or set worktree.target"))
        })?;
        match self.git().words(&["check-ref-format", "--branch"]).word(&name).run() {
            Ok(_) => Ok(name),
            Err(_) => Err(Refusal::usage("worktree.target is not the name of a branch")),
        }
    }

    /// Fetches origin's branch. The only call here that uses the network.
    fn fetch(&self, name: &str) -> Result<(), String> {
        if self.git().words(&["config", "--get", "remote.origin.url"]).run().is_err() {
            return Err("there is no remote called origin: nothing was fetched".to_owned());
        }
        let refs = format!("+refs/heads/{name}:refs/remotes/origin/{name}");
        let words = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"];
        let call = self.git().reaching_out().limit(FETCH_LIMIT).words(&words);
        call.words(&["--end-of-options", "origin"]).word(refs).run().map(drop).map_err(|GitError(why)| {
            let why = why.lines().last().unwrap_or_default().to_owned();
            format!("origin cannot be reached ({why}): this begins at what is known here")
        })
    }

    pub(super) fn commit_of(&self, name: &str) -> Option<String> {
        self.repository.resolve(&format!("{name}^{{commit}}"))
    }

    /// Whether `other` is an ancestor of `tip`, or the same.
    pub(super) fn contains(&self, tip: &str, other: &str) -> bool {
        tip == other || self.git().words(&["merge-base", "--is-ancestor", other, tip]).run().is_ok()
    }

    /// Counts the commits of `tip` that `other` lacks.
    pub(super) fn ahead(&self, tip: &str, other: &str) -> Result<u64, Refusal> {
        let range = format!("{other}..{tip}");
        let count = self.git().words(&["rev-list", "--count", "--end-of-options"]).word(range).line();
        let count = count.map_err(|error| failed("cannot count commits", &error))?;
        Ok(count.parse().unwrap_or(0))
    }
}
