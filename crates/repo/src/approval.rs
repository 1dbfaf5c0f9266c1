//! Commands that a repository configures, and the user's approval of them.
//!
//! Anyone may have written the commands in a repository (setup commands of worktrees, gates, executors). None of them
//! runs before the user has approved exactly that command, in that clone. An approval covers the whole
//! [`Definition`]: change a word of it and it must be approved again. It does not cover what the command does: a script
//! in the work tree can change without its name changing.
//!
//! **Who.** A person who was shown it. A machine without people approves by a digest that was recorded outside the
//! repository, and matches nothing else. An agent approves nothing.
//!
//! **Where.** In the user's own state folder, bound to the clone (`consent.rs`).
//!
//! **With what.** An argv, never a shell line; a clean environment ([`environment`]); a folder in the work tree; a time
//! limit. Set-up commands of worktrees and gates use it; dispatch will, and none has another way.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};

use onus_core::actor::ActorName;
use onus_core::quote::is_hidden;
use onus_core::refusal::{Code, Refusal, Step};
use serde::Serialize;
use serde_json::json;

use crate::consent::{Consents, canonical, hash};

/// The most that a command may have, all its words together.
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
    /// Variables that it is given beside those that every program needs.
    pub env: BTreeSet<String>,
    /// Where in the work tree it runs; empty: at its root.
    pub folder: String,
    pub timeout_ms: u64,
}

impl Definition {
    /// The hash of its canonical JSON, which `jq -cSj . | sha256sum` gives too.
    pub fn digest(&self) -> String {
        format!("sha256:{}", hash(&canonical(&json!(self))))
    }

    /// Refuses what nobody should be asked to approve.
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
    /// A digest that somebody wrote down where the repository does not reach.
    Digest(&'a str),
}

/// What the user approved in a clone.
#[derive(Debug)]
pub struct Approvals(Consents);

impl Approvals {
    /// `state` is the folder that onus keeps for the user, `clone` the clone's git dir that all its worktrees share.
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

    /// Before anything is run.
    pub fn require(&self, definition: &Definition) -> Result<(), Refusal> {
        definition.check()?;
        if self.is_approved(definition) {
            return Ok(());
        }
        let message = format!(
            "{} {}: its command was never approved in this clone, or has changed since",
            definition.kind.as_str(),
            definition.name
        );
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
                let message =
                    format!("{} {} is not what was approved", definition.kind.as_str(), definition.name);
                return Err(Refusal::new(Code::Unapproved, message).next(Step::plain(format!(
                    "read it and approve it as it is now: {}",
                    definition.digest()
                ))));
            }
            By::Person(_) | By::Digest(_) => {}
        }
        self.0.give(&json!(definition)).map_err(|error| self.unwritten(&error))
    }

    /// Takes an approval back. One that was never given is none.
    pub fn revoke(&self, definition: &Definition) -> Result<(), Refusal> {
        self.0.take_back(&json!(definition)).map_err(|error| self.unwritten(&error))
    }

    fn unwritten(&self, error: &std::io::Error) -> Refusal {
        Refusal::new(Code::ReadOnly, format!("cannot write to {}: {error}", self.0.folder().display()))
            .next(Step::plain("make that folder writable for your user"))
    }
}

/// What every program needs, and nothing that opens a door.
const ALWAYS: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TMPDIR", "TZ"];
/// The way into the store, what onus says to those it starts, and what loads code into any program.
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
/// Programs are looked for in absolute folders only: what lies in the work tree is not found by its bare name.
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
