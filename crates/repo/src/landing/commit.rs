//! The commits that land: their authors, messages and signatures.
//!
//! | style | commits | author | message |
//! | --- | --- | --- | --- |
//! | merge | one with two parents, even if a fast-forward is possible, to carry the message | the user who lands | the caller's |
//! | squash | one with one parent | the branch's main author; the others in `Co-authored-by` | the caller's |
//! | rebase | the branch's own, replayed on the target, except those that it already has | each commit's own, with its date | each commit's own, with the caller's trailers; the last one also says what gates passed |
//!
//! A branch with merge commits is not replayed: no patch shows what somebody decided in a merge.
//!
//! **Committer** is the user, by `user.name` and `user.email` (or `GIT_COMMITTER_*`); a name that git would have to guess is refused.
//!
//! **Signing** follows `commit.gpgSign`, `user.signingKey` and `gpg.format` wherever they are configured, since they name no program.
//! The programs that sign (`gpg.program` and its like) are taken only from the user's own and the system's configuration; a
//! repository's are overridden, since a clone must not decide what is run.

use std::time::Duration;

use onus_core::commit::CommitId;
use onus_core::scope::Scope;

use super::merge::{Conflict, LIMIT, Merge, Union};
use super::{Error, Lander};
use crate::git::{Call, GitError, with_trailers};

/// How a branch's commits arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Merge,
    Squash,
    Rebase,
}

/// The message and trailers of what lands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub message: String,
    /// `Onus-Task: ON-3`, …
    pub trailers: Vec<String>,
    /// Trailers that are true of the result only: of replayed commits, only the last one has them.
    pub of_result: Vec<String>,
}

impl Words {
    fn all_trailers(&self) -> Vec<String> {
        self.trailers.iter().chain(&self.of_result).cloned().collect()
    }
}

/// What would land, worked out and not yet committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub base: CommitId,
    pub branch: CommitId,
    pub style: Style,
    /// The tree that the target will have, and that gates are run on.
    pub tree: String,
    /// Conflicts that a union glob settled.
    pub unions: Vec<Union>,
    /// For a rebase: each commit that is replayed, and its new tree.
    steps: Vec<(CommitId, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The target has all of it, by content.
    AlreadyThere,
    Conflicts(Vec<Conflict>),
    Ready(Plan),
}

/// Who wrote a commit, and when, in the form of git's environment variables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Author {
    name: String,
    email: String,
    date: String,
}

impl Lander {
    /// Works out what lands, writing nothing but unreferenced objects.
    pub fn plan(
        &self,
        base: &CommitId,
        branch: &CommitId,
        style: Style,
        union: &Scope,
    ) -> Result<Planned, Error> {
        self.check_git()?;
        let (tree, unions, steps) = match style {
            Style::Merge | Style::Squash => match self.merge(base, branch, union)? {
                Merge::Conflicts(conflicts) => return Ok(Planned::Conflicts(conflicts)),
                Merge::Clean(merged) => (merged.tree, merged.unions, Vec::new()),
            },
            Style::Rebase => match self.replay(base, branch, union)? {
                Err(conflicts) => return Ok(Planned::Conflicts(conflicts)),
                Ok(replayed) => replayed,
            },
        };
        if tree == self.tree_of(base)? {
            return Ok(Planned::AlreadyThere);
        }
        Ok(Planned::Ready(Plan { base: base.clone(), branch: branch.clone(), style, tree, unions, steps }))
    }

    /// Replays each commit of the branch on top of the one before it. Returns the last tree, the unions, and the tree of each commit.
    #[allow(clippy::type_complexity, reason = "both sides are taken apart at once by the one caller")]
    fn replay(
        &self,
        base: &CommitId,
        branch: &CommitId,
        union: &Scope,
    ) -> Result<Result<(String, Vec<Union>, Vec<(CommitId, String)>), Vec<Conflict>>, Error> {
        let words = ["rev-list", "--reverse", "--topo-order", "--parents", branch.as_str(), "--not"];
        let listed = self.git().words(&words).words(&[base.as_str(), "--"]).line()?;
        let commits: Vec<Vec<&str>> = listed.lines().map(|line| line.split(' ').collect()).collect();
        let merges = commits.iter().filter(|commit| commit.len() > 2).count() as u64;
        if merges > 0 {
            return Err(Error::HasMerges(merges));
        }
        let parse = |hash: &str| -> Result<CommitId, Error> {
            hash.parse().map_err(|_| Error::Git(GitError(format!("{hash} is not a commit"))))
        };
        let (mut tip, mut tree) = (base.clone(), self.tree_of(base)?);
        let (mut unions, mut steps) = (Vec::new(), Vec::new());
        for line in commits {
            let [commit, parent] = line[..] else {
                return Err(Error::Git(GitError(
                    "the branch has no commit in common with the target".to_owned(),
                )));
            };
            let (commit, parent) = (parse(commit)?, parse(parent)?);
            let merged = self.three_way(base, Some(&parent), tip.as_str(), &commit, union, LIMIT)?;
            match merged {
                Merge::Conflicts(conflicts) => return Ok(Err(conflicts)),
                // The target already has it.
                Merge::Clean(merged) if merged.tree == tree => {}
                Merge::Clean(merged) => {
                    unions.extend(merged.unions);
                    tree = merged.tree;
                    // Git merges only commits, so this one exists for the next merge alone.
                    tip = self.provisional(&tree, &tip)?;
                    steps.push((commit, tree.clone()));
                }
            }
        }
        Ok(Ok((tree, unions, steps)))
    }

    /// Makes an unreferenced commit, for gates to run on.
    pub fn provisional(&self, tree: &str, parent: &CommitId) -> Result<CommitId, Error> {
        let words = ["commit-tree", tree, "-p", parent.as_str(), "-m", "not landed yet"];
        made(self.git().by_onus().words(&words))
    }

    /// Makes the commits that land. Returns the last of them.
    pub fn commit(&self, plan: &Plan, words: &Words) -> Result<CommitId, Error> {
        let signing = self.signing()?;
        match plan.style {
            Style::Merge => {
                let message = with_trailers(&words.message, &words.all_trailers());
                self.write(&plan.tree, &[&plan.base, &plan.branch], None, &message, signing)
            }
            Style::Squash => {
                let (author, others) = self.authors(plan)?;
                let trailers: Vec<String> = words.all_trailers().into_iter().chain(others).collect();
                let message = with_trailers(&words.message, &trailers);
                self.write(&plan.tree, &[&plan.base], author.as_ref(), &message, signing)
            }
            Style::Rebase => {
                let mut tip = plan.base.clone();
                for (n, (commit, tree)) in plan.steps.iter().enumerate() {
                    let (author, message) = self.read(commit)?;
                    let is_last = n + 1 == plan.steps.len();
                    let trailers = if is_last { words.all_trailers() } else { words.trailers.clone() };
                    let message = with_trailers(&message, &trailers);
                    tip = self.write(tree, &[&tip], Some(&author), &message, signing)?;
                }
                Ok(tip)
            }
        }
    }

    /// Makes a commit that merges the target's branch and what landed.
    pub(super) fn join(
        &self,
        tree: &str,
        one: &CommitId,
        other: &CommitId,
        message: &str,
    ) -> Result<CommitId, Error> {
        let signing = self.signing()?;
        self.write(tree, &[one, other], None, message, signing)
    }

    fn write(
        &self,
        tree: &str,
        parents: &[&CommitId],
        author: Option<&Author>,
        message: &str,
        signing: &Signing,
    ) -> Result<CommitId, Error> {
        let call = self.git().by_user().overriding(&signing.programs);
        let call = call.words(&["-c", "user.useConfigOnly=true", "-c", "i18n.commitEncoding=UTF-8"]);
        let call = match author {
            Some(author) => call
                .env("GIT_AUTHOR_NAME", &author.name)
                .env("GIT_AUTHOR_EMAIL", &author.email)
                .env("GIT_AUTHOR_DATE", &author.date),
            None => call,
        };
        let call = call.words(&["commit-tree", tree]);
        let call = parents.iter().fold(call, |call, parent| call.words(&["-p", parent.as_str()]));
        // A long limit: the user may be asked for a password.
        let call = if signing.is_wanted { call.words(&["-S"]).limit(SIGNING_LIMIT) } else { call };
        let commit = made(call.words(&["-F", "-"]).input(message.as_bytes()))?;
        self.remember_tree(&commit, tree);
        Ok(commit)
    }

    /// The author of most commits of the branch, and a trailer for each of the others.
    fn authors(&self, plan: &Plan) -> Result<(Option<Author>, Vec<String>), Error> {
        let words = ["log", "-z", "--no-merges", "--no-show-signature", "--no-mailmap", "--date=raw"];
        let call = self.git().words(&words).words(&["--format=%an%x00%ae%x00@%ad"]);
        let out = call.words(&[plan.branch.as_str(), "--not", plan.base.as_str(), "--"]).run()?;
        let out = String::from_utf8_lossy(&out).into_owned();
        let fields: Vec<&str> = out.split('\0').collect();
        // Newest first. Each person once, by address, since names are spelled in many ways.
        let mut people: Vec<(Author, usize)> = Vec::new();
        for commit in fields.chunks_exact(3) {
            let [name, email, date] = [commit[0], commit[1], commit[2]].map(str::to_owned);
            match people.iter_mut().find(|(author, _)| author.email.eq_ignore_ascii_case(&email)) {
                Some((_, count)) => *count += 1,
                None if name.is_empty() => {}
                None => people.push((Author { name, email, date }, 1)),
            }
        }
        let most = people.iter().map(|(_, count)| *count).max();
        let main = people.iter().position(|(_, count)| Some(*count) == most);
        let main = main.map(|main| people.remove(main).0);
        let others = people.into_iter().map(|(it, _)| format!("Co-authored-by: {} <{}>", it.name, it.email));
        Ok((main, others.collect()))
    }

    fn read(&self, commit: &CommitId) -> Result<(Author, String), Error> {
        let words = ["log", "-1", "-z", "--no-show-signature", "--no-notes", "--no-mailmap", "--date=raw"];
        let call = self.git().words(&["-c", "i18n.logOutputEncoding=UTF-8"]).words(&words);
        let out = call.words(&["--format=%an%x00%ae%x00@%ad%x00%B", commit.as_str(), "--"]).run()?;
        let out = String::from_utf8_lossy(&out).into_owned();
        let mut fields = out.split('\0').map(str::to_owned);
        let mut next = || fields.next().unwrap_or_default();
        Ok((Author { name: next(), email: next(), date: next() }, next()))
    }

    fn signing(&self) -> Result<&Signing, Error> {
        match self.answers.signing.get() {
            Some(known) => Ok(known),
            None => {
                let found = self.configured_signing()?;
                Ok(self.answers.signing.get_or_init(|| found))
            }
        }
    }

    fn configured_signing(&self) -> Result<Signing, Error> {
        let wanted =
            self.repository.call_with_signing().words(&["config", "--type=bool", "--get", "commit.gpgSign"]);
        let is_wanted = wanted.outcome().is_ok_and(|outcome| outcome.out.starts_with(b"true"));
        let programs = if is_wanted { self.programs()? } else { Vec::new() };
        Ok(Signing { is_wanted, programs })
    }

    /// The signing programs that the repository itself configures, each with the user's own value, or git's default.
    fn programs(&self) -> Result<Vec<(String, String)>, Error> {
        let listed =
            self.repository.call_with_signing().words(&["config", "--list", "-z", "--show-scope"]).run()?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let fields: Vec<&str> = listed.split('\0').collect();
        let mut found = Vec::new();
        for (key, usual) in PROGRAMS {
            let mut own = None;
            let mut is_said = false;
            for entry in fields.chunks_exact(2) {
                let Some((_, value)) = entry[1].split_once('\n').filter(|(name, _)| *name == key) else {
                    continue;
                };
                match entry[0] {
                    "system" | "global" => own = Some(value.to_owned()),
                    _ => is_said = true,
                }
            }
            if is_said {
                found.push((key.to_owned(), own.unwrap_or_else(|| usual.to_owned())));
            }
        }
        Ok(found)
    }
}

const SIGNING_LIMIT: Duration = Duration::from_secs(5 * 60);

#[derive(Debug)]
pub(super) struct Signing {
    is_wanted: bool,
    /// Keys of programs and their values.
    programs: Vec<(String, String)>,
}

/// The keys of git's signing programs, and their defaults.
const PROGRAMS: [(&str, &str); 5] = [
    ("gpg.program", "gpg"),
    ("gpg.openpgp.program", "gpg"),
    ("gpg.x509.program", "gpgsm"),
    ("gpg.ssh.program", "ssh-keygen"),
    ("gpg.ssh.defaultkeycommand", "false"),
];

fn made(call: Call<'_>) -> Result<CommitId, Error> {
    let no_identity = |why: &str| {
        ["Please tell me who you are", "no email was given", "no name was given", "empty ident name"]
            .iter()
            .any(|words| why.contains(words))
    };
    match call.line() {
        Ok(hash) => hash.parse().map_err(|_| Error::Git(GitError(format!("{hash} is not a commit")))),
        Err(GitError(why)) if no_identity(&why) => Err(Error::NoIdentity),
        Err(error) => Err(Error::Git(error)),
    }
}
