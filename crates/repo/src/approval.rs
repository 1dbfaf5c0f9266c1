//! Commands that a repository configures, and the user's approval of them.
//!
//! Anyone may have written the commands in a repository (setup commands of worktrees, gates, executors). None of them
//! runs before the user has approved exactly that command, in that clone. An approval covers the whole
//! [`Definition`]: change a word of it and it must be approved again. It does not cover what the command does: a script
//! in the work tree can change without its name changing.
//!
//! **Who.** A person who was shown it. A machine without people approves by a digest that was recorded outside the
//! repository and matches nothing else. Agents cannot approve anything.
//!
//! **Where.** In the user's own state folder, bound to the clone (`consent.rs`).
//!
//! **With what.** An argv, never a shell line; a clean environment ([`environment`]); a folder in the work tree; a time
//! limit. Every command that a repository configures runs this way: set-up commands of worktrees, gates, and later dispatch.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};

use onus_core::actor::ActorName;
use onus_core::quote::is_hidden;
use onus_core::refusal::{Code, Refusal, Step};
use serde::Serialize;
use serde_json::json;

use crate::consent::{Consents, canonical, hash};

/// The longest command, all its words together.
const MAX_BYTES: usize = 32 * 1024;
const MAX_NAMES: usize = 64;
const MAX_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;

/// What a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Makes a new worktree ready for work.
    SetUp,
    Gate,
    Executor,
    /// Opens a pull request for a branch.
    PullRequest,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::SetUp => "set-up command",
            Kind::Gate => "gate",
            Kind::Executor => "executor",
            Kind::PullRequest => "pull request command",
        }
    }
}

/// A command as a repository configures it: everything that decides what is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Definition {
    pub kind: Kind,
    pub name: String,
    pub argv: Vec<String>,
    /// Variables that it gets in addition to those that every program needs.
    pub env: BTreeSet<String>,
    /// The folder in the work tree that it runs in; empty for the root.
    pub folder: String,
    pub timeout_ms: u64,
}

impl Definition {
    /// The hash of its canonical JSON, which `jq -cSj . | sha256sum` gives too.
    pub fn digest(&self) -> String {
        format!("sha256:{}", hash(&canonical(&json!(self))))
    }

    /// Refuses a definition that nobody should be asked to approve.
    fn check(&self) -> Result<(), Refusal> {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(word) {
            return Err(Refusal::usage(format!(
                "a {} has a name of at most 64 letters, digits, dots, dashes and underscores",
                self.kind.as_str()
            )));
        }
        let wrong = |why: &str| Err(Refusal::usage(format!("{} {}: {why}", self.kind.as_str(), self.name)));
        let (Some(program), size) = (self.argv.first(), self.argv.iter().map(String::len).sum::<usize>())
        else {
            return wrong("its command is empty");
        };
        let folder = Path::new(&self.folder);
        let inside = |part: Component<'_>| matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git"));
        if program.is_empty() {
            wrong("its command is empty")
        } else if size > MAX_BYTES {
            wrong("its command is longer than 32 KiB")
        } else if self.argv.iter().any(|word| word.chars().any(is_hidden)) {
            wrong("its command has invisible characters: put them in a script")
        } else if self.env.len() > MAX_NAMES || self.env.iter().any(|name| !may_be_asked_for(name)) {
            wrong("it asks for a variable that a repository's command never gets")
        } else if !folder.components().all(inside) || self.folder.chars().any(is_hidden) {
            wrong("its folder is not inside the work tree")
        } else if !(1..=MAX_TIMEOUT_MS).contains(&self.timeout_ms) {
            wrong("its time limit is not between 1 ms and 24 h")
        } else {
            Ok(())
        }
    }
}

/// Who approves.
#[derive(Clone, Copy, Debug)]
pub enum By<'a> {
    /// A person, who was shown the definition.
    Person(&'a ActorName),
    /// A digest that somebody recorded outside the repository.
    Digest(&'a str),
}

/// What the user approved in a clone.
#[derive(Debug)]
pub struct Approvals(Consents);

impl Approvals {
    /// `state` is the user's state folder, `clone` the common git dir of all the clone's worktrees.
    pub fn of(state: &Path, clone: &Path) -> Result<Approvals, Refusal> {
        let gone = |error: std::io::Error| {
            Refusal::new(Code::Unavailable, format!("{}: {error}", clone.display()))
                .next(Step::plain("check that path"))
        };
        Ok(Approvals(Consents::of(state, "approved", clone).map_err(gone)?))
    }

    pub fn is_approved(&self, definition: &Definition) -> bool {
        definition.check().is_ok() && self.0.is_given(&json!(definition))
    }

    /// Refuses a definition that is not approved. Called before anything is run.
    pub fn require(&self, definition: &Definition) -> Result<(), Refusal> {
        definition.check()?;
        if self.is_approved(definition) {
            return Ok(());
        }
        let kind = definition.kind.as_str();
        let what = match definition.kind {
            Kind::SetUp | Kind::PullRequest => format!("the {kind}"),
            Kind::Gate | Kind::Executor => format!("{kind} {}", definition.name),
        };
        let message = format!("{what} has not been approved in this clone, or has changed since it was");
        Err(Refusal::new(Code::Unapproved, message)
            .next(Step::plain(format!("a person reads it and approves it: {}", definition.digest()))))
    }

    pub fn approve(&self, definition: &Definition, by: By<'_>) -> Result<(), Refusal> {
        definition.check()?;
        match by {
            By::Person(actor) if !actor.is_person() => {
                return Err(Refusal::new(
                    Code::PeopleOnly,
                    "only a person may approve commands from a repository",
                )
                .next(Step::ApproveCommands(vec![definition.name.clone()])));
            }
            By::Digest(digest) if digest != definition.digest() => {
                let message = format!(
                    "{} {} does not have the given digest",
                    definition.kind.as_str(),
                    definition.name
                );
                return Err(Refusal::new(Code::Unapproved, message).next(Step::plain(format!(
                    "read it and approve it as it is now: {}",
                    definition.digest()
                ))));
            }
            By::Person(_) | By::Digest(_) => {}
        }
        self.0.give(&json!(definition)).map_err(|error| self.unwritten(&error))
    }

    /// Takes an approval back; succeeds if there is none.
    pub fn revoke(&self, definition: &Definition) -> Result<(), Refusal> {
        self.0.take_back(&json!(definition)).map_err(|error| self.unwritten(&error))
    }

    fn unwritten(&self, error: &std::io::Error) -> Refusal {
        Refusal::new(Code::ReadOnly, format!("cannot write to {}: {error}", self.0.folder().display()))
            .next(Step::plain("make that folder writable for your user"))
    }
}

/// Variables that every program needs; none of them grants access to anything.
const ALWAYS: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TMPDIR", "TZ"];
/// Prefixes of variables that give access to the store, that onus passes to its children, or that load code into any program.
const NEVER: [&str; 4] = ["PG", "ONUS_", "LD_", "DYLD_"];

/// Whether a repository's command may ask for a variable by its name.
fn may_be_asked_for(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let upper = name.to_ascii_uppercase();
    (1..=64).contains(&name.len())
        && name.chars().all(word)
        && !NEVER.iter().any(|start| upper.starts_with(start))
}

/// The environment of a repository's command: what every program needs, what its definition names, and nothing else.
/// Relative folders are removed from `PATH`, so that no program in the work tree is found by its bare name.
pub fn environment(
    named: &BTreeSet<String>,
    own: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let wanted = |name: &OsStr| {
        let Some(name) = name.to_str() else { return false };
        ALWAYS.contains(&name) || name.starts_with("LC_") || (named.contains(name) && may_be_asked_for(name))
    };
    let absolute = |path: &OsStr| {
        std::env::join_paths(std::env::split_paths(path).filter(|folder| folder.is_absolute()))
            .unwrap_or_default()
    };
    own.into_iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, value)| if name == "PATH" { (name, absolute(&value)) } else { (name, value) })
        .collect()
}

#[cfg(test)]
mod tests;
