//! A target that several machines share lives on a server: each landing is built on what was fetched, and pushed with a lease.
//!
//! **Nothing is forced.** A push names the exact old value of every reference that it changes, changes all of them or none
//! (`--atomic`), and replaces a commit only by one that contains it.
//!
//! **The intent is on the server, too** ([`Lander::intend_at`]): the push that moves the target deletes it at its exact value, so a
//! lander that was stopped before its push moves nothing once another has settled its landing ([`Lander::settle_at`]).
//!
//! This repository's hooks are off, `pre-push` included: what lands has passed the gates. The server's own hooks run as usual, and
//! their messages are passed on.

use std::time::Duration;

use onus_core::commit::CommitId;

use super::refs::INTENTS;
use super::{Error, Intended, Lander, Moved, Part, Settled};
use crate::git::GitError;

/// The state of a branch on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    At(CommitId),
    /// The server has no such branch.
    NoBranch,
    /// The server could not be reached, for this reason.
    Unreachable(String),
}

/// A change to a reference on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// `refs/heads/main`
    pub reference: String,
    /// None: the reference must not exist.
    pub old: Option<CommitId>,
    /// None: the reference is deleted.
    pub new: Option<CommitId>,
}

/// The outcome of a push, which is the same for all its changes, since it is atomic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push {
    Pushed,
    /// A reference did not have the expected old value.
    Moved,
    /// The server refused it, with this message.
    Refused(String),
    /// The server did not answer, or not in time. The push may have arrived all the same: fetch, and look.
    Unreachable(String),
}

/// Messages about a reference without the expected old value, from git here or on the server.
const STALE: [&str; 8] = [
    "stale info",
    "fetch first",
    "cannot lock ref",
    "failed to update ref",
    "failed to lock",
    "reference already exists",
    "incorrect old value",
    "remote ref updated since",
];

impl Lander {
    /// Fetches a branch from a remote, and returns where it is there.
    pub fn fetch_target(&self, remote: &str, branch: &str, limit: Duration) -> Result<Fetched, Error> {
        self.check_remote(remote)?;
        let ours = format!("refs/remotes/{remote}/{branch}");
        let refs = format!("+refs/heads/{branch}:{ours}");
        let words = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"];
        let call = self.git().reaching_out().limit(limit).words(&words);
        match call.words(&["--no-auto-maintenance", "--end-of-options", remote]).word(refs).run() {
            Ok(_) => self.commit_of(&ours).map(Fetched::At).ok_or(Error::NoBranch(ours)),
            Err(GitError(why)) if why.contains("couldn't find remote ref") => Ok(Fetched::NoBranch),
            Err(GitError(why)) => Ok(Fetched::Unreachable(why)),
        }
    }

    /// Changes references of a remote: all of them, or none.
    pub fn push(&self, remote: &str, changes: &[Change], limit: Duration) -> Result<Push, Error> {
        self.check_remote(remote)?;
        let words = ["push", "--porcelain", "--atomic", "--no-verify", "--no-follow-tags", "--no-signed"];
        let call = self.git().reaching_out().limit(limit).words(&words).words(&["--recurse-submodules=no"]);
        let mut call = changes.iter().fold(call, |call, Change { reference, old, .. }| {
            let old = old.as_ref().map_or("", CommitId::as_str);
            call.word(format!("--force-with-lease={reference}:{old}"))
        });
        call = call.words(&["--end-of-options", remote]);
        for Change { reference, old, new } in changes {
            if let (Some(old), Some(new)) = (old, new)
                && !self.contains(new, old)?
            {
                return Err(Error::NotAhead);
            }
            call = call.word(format!("{}:{reference}", new.as_ref().map_or("", CommitId::as_str)));
        }
        let outcome = match call.outcome() {
            Ok(outcome) => outcome,
            Err(GitError(why)) => return Ok(Push::Unreachable(why)),
        };
        // `!<tab>FROM:TO<tab>[rejected] (why)`, and `=` for a reference that already has the new value, which passes a lease.
        let listed = String::from_utf8_lossy(&outcome.out).into_owned();
        let is_so = |change: &&Change| {
            let to = format!(":{}\t", change.reference);
            change.old != change.new
                && listed.lines().any(|line| line.starts_with("=\t") && line.contains(&to))
        };
        if changes.iter().any(|change| is_so(&change)) {
            return Ok(Push::Moved);
        }
        if outcome.status.success() {
            return Ok(Push::Pushed);
        }
        let refused: Vec<&str> = listed.lines().filter(|line| line.starts_with("!\t")).collect();
        let is_stale = |text: &str| STALE.iter().any(|words| text.contains(words));
        // A server that notices only when it commits reports the reason on standard error.
        let at_the_end = refused.iter().any(|line| line.contains("atomic transaction failed"));
        if refused.iter().any(|line| is_stale(line)) || at_the_end && is_stale(&outcome.err) {
            return Ok(Push::Moved);
        }
        Ok(match refused.is_empty() {
            true => Push::Unreachable(outcome.err),
            false => Push::Refused(words_of_server(&outcome.err, &refused)),
        })
    }

    /// Writes an intent on the server, unless there is one.
    pub fn intend_at(
        &self,
        remote: &str,
        id: &str,
        result: &CommitId,
        limit: Duration,
    ) -> Result<Result<Intended, Push>, Error> {
        let change = Change { reference: format!("{INTENTS}{id}"), old: None, new: Some(result.clone()) };
        Ok(match self.push(remote, &[change], limit)? {
            Push::Pushed => Ok(Intended::Written),
            Push::Moved => Ok(Intended::Taken),
            failed => Err(failed),
        })
    }

    /// Moves the server's branch for some tasks, and deletes their intents, in one push. `result` is the commit of the last of them.
    pub fn move_together_at(
        &self,
        remote: &str,
        parts: &[Part<'_>],
        branch: &str,
        (old, result): (&CommitId, &CommitId),
        limit: Duration,
    ) -> Result<Result<Moved, Push>, Error> {
        let mut changes = vec![Change {
            reference: format!("refs/heads/{branch}"),
            old: Some(old.clone()),
            new: Some(result.clone()),
        }];
        changes.extend(parts.iter().map(|part| Change {
            reference: format!("{INTENTS}{}", part.id),
            old: Some(part.commit.clone()),
            new: None,
        }));
        match self.push(remote, &changes, limit)? {
            Push::Pushed => return Ok(Ok(Moved::Moved { checkouts: false })),
            Push::Moved => {}
            failed => return Ok(Err(failed)),
        }
        for part in parts {
            match self.intent_at(remote, part.id, limit)? {
                Ok(Some(there)) if there == *part.commit => {}
                Ok(_) => return Ok(Ok(Moved::IntentGone)),
                Err(why) => return Ok(Err(Push::Unreachable(why))),
            }
        }
        Ok(Ok(Moved::TargetMoved))
    }

    /// Settles a landing on a server: afterwards its branch either has it or never will.
    pub fn settle_at(
        &self,
        remote: &str,
        id: &str,
        branch: &str,
        intended: &CommitId,
        limit: Duration,
    ) -> Result<Result<Settled, Push>, Error> {
        let intent = match self.intent_at(remote, id, limit)? {
            Ok(intent) => intent,
            Err(why) => return Ok(Err(Push::Unreachable(why))),
        };
        if let Some(there) = intent {
            let change = Change { reference: format!("{INTENTS}{id}"), old: Some(there), new: None };
            match self.push(remote, &[change], limit)? {
                // Moved: somebody else has just ended it.
                Push::Pushed | Push::Moved => {}
                failed => return Ok(Err(failed)),
            }
        }
        // The intent is gone: from here on the branch cannot move to the intended commit.
        Ok(match self.fetch_target(remote, branch, limit)? {
            Fetched::At(tip) => match self.commit_of(intended.as_str()) {
                Some(_) if self.contains(&tip, intended)? => Ok(Settled::Landed(intended.clone())),
                _ => Ok(Settled::Withdrawn),
            },
            Fetched::NoBranch => Ok(Settled::Withdrawn),
            Fetched::Unreachable(why) => Err(Push::Unreachable(why)),
        })
    }

    /// The intent on the server, or why it could not be read.
    fn intent_at(
        &self,
        remote: &str,
        id: &str,
        limit: Duration,
    ) -> Result<Result<Option<CommitId>, String>, Error> {
        self.check_remote(remote)?;
        let reference = format!("{INTENTS}{id}");
        let call = self.git().reaching_out().limit(limit).words(&["ls-remote", "--end-of-options", remote]);
        Ok(match call.word(&reference).line() {
            Ok(listed) => Ok(listed.lines().find_map(|line| {
                let (hash, name) = line.split_once('\t')?;
                (name == reference).then(|| hash.parse().ok())?
            })),
            Err(GitError(why)) => Err(why),
        })
    }

    /// Refuses anything but the name of a configured remote, such as an address.
    fn check_remote(&self, remote: &str) -> Result<(), Error> {
        let call = self.git().words(&["config", "--get", &format!("remote.{remote}.url")]);
        call.run().map(drop).map_err(|_| Error::NoRemote(remote.to_owned()))
    }
}

/// The server's own messages, then git's reasons for the refused references.
fn words_of_server(err: &str, refused: &[&str]) -> String {
    let said = err.lines().filter_map(|line| line.strip_prefix("remote:")).map(str::trim);
    let said: Vec<&str> = said.filter(|line| !line.is_empty()).collect();
    let listed = refused.iter().filter_map(|line| line.rsplit('\t').next());
    let listed: Vec<&str> = listed.filter(|line| !line.contains("atomic push failed")).collect();
    said.into_iter().chain(listed).collect::<Vec<&str>>().join("\n")
}
