//! Who acts: actors, their instances, and the caller of one command.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{Token, Uid, shortened};
use crate::lease::Process;
use crate::quote::is_hidden;
use crate::refusal::Refusal;
use crate::scope::WorktreeId;
use crate::task::words;
use crate::time::Tick;

/// What an actor is. People are never refused by a timer and may force; the others may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    Human,
    Agent,
    Ci,
}

impl ActorKind {
    pub fn as_str(self) -> &'static str {
        match self {
            ActorKind::Human => "human",
            ActorKind::Agent => "agent",
            ActorKind::Ci => "ci",
        }
    }
}

/// An actor's name: `human:alice`, `agent:codex`, `ci:main`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ActorName {
    text: String,
}

impl ActorName {
    pub const MAX_LEN: usize = 64;

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn kind(&self) -> ActorKind {
        match self.text.split(':').next() {
            Some("human") => ActorKind::Human,
            Some("agent") => ActorKind::Agent,
            _ => ActorKind::Ci,
        }
    }

    pub fn is_person(&self) -> bool {
        self.kind() == ActorKind::Human
    }
}

impl fmt::Display for ActorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ActorName {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let name = text.split_once(':').filter(|(kind, _)| matches!(*kind, "human" | "agent" | "ci"));
        let fits = name.is_some_and(|(_, name)| {
            !name.is_empty()
                && text.len() <= Self::MAX_LEN
                && name.chars().all(|c| {
                    c.is_alphanumeric() && !is_hidden(c) || matches!(c, '.' | '_' | '-' | '@' | '+' | '/')
                })
        });
        if !fits {
            return Err(Refusal::usage(format!(
                "'{}' is not an actor: write human:NAME, agent:NAME or ci:NAME, with a name of letters, digits and . _ - @ + /, at most {} bytes",
                shortened(text),
                Self::MAX_LEN
            )));
        }
        Ok(ActorName { text: text.to_owned() })
    }
}

impl TryFrom<String> for ActorName {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Self, Refusal> {
        text.parse()
    }
}

impl From<ActorName> for String {
    fn from(name: ActorName) -> String {
        name.text
    }
}

/// How far an actor is trusted, 0 to 3. Set by people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tier(pub u8);

impl Tier {
    pub const DEFAULT: Tier = Tier(1);
    pub const MAX: Tier = Tier(3);
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Tier {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        match text {
            "0" | "1" | "2" | "3" => Ok(Tier(text.as_bytes()[0] - b'0')),
            _ => Err(Refusal::usage(format!("'{}' is not a tier: use 0, 1, 2 or 3", shortened(text)))),
        }
    }
}

/// A registered actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    pub name: ActorName,
    pub tier: Tier,
    pub registered_at_ms: i64,
}

/// One incarnation of an actor: one process, one conversation. Two instances are two holders.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InstanceId(String);

impl InstanceId {
    pub const MAX_LEN: usize = 200;

    /// A person is one instance in all terminals.
    pub fn person() -> InstanceId {
        InstanceId("person".to_owned())
    }

    /// A program that asks through a server of ours and of which nothing else is known: its connection, told from every
    /// other by the server's process.
    pub fn connection(pid: u32, start: u64) -> InstanceId {
        InstanceId(format!("{CONNECTION}{pid}-{start}"))
    }

    /// The pid and the start of the server's process, if this is a connection.
    pub fn of_connection(&self) -> Option<(u32, u64)> {
        let (pid, start) = self.0.strip_prefix(CONNECTION)?.split_once('-')?;
        Some((pid.parse().ok()?, start.parse().ok()?))
    }

    /// Whether the other is a part of this conversation: a sub-agent of it.
    pub fn has_part(&self, other: &InstanceId) -> bool {
        other.0.strip_prefix(&self.0).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Whether both belong to one conversation, as far as one of them is the whole of it.
    pub fn is_one_with(&self, other: &InstanceId) -> bool {
        self == other || self.has_part(other) || other.has_part(self)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for InstanceId {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let fits = !text.is_empty()
            && text.len() <= Self::MAX_LEN
            && text.chars().all(|c| !is_hidden(c) && !c.is_whitespace());
        if !fits {
            return Err(Refusal::usage(format!(
                "'{}' is not an instance: use 1 to {} bytes without spaces, control or invisible characters",
                shortened(text),
                Self::MAX_LEN
            )));
        }
        Ok(InstanceId(text.to_owned()))
    }
}

impl TryFrom<String> for InstanceId {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Self, Refusal> {
        text.parse()
    }
}

impl From<InstanceId> for String {
    fn from(instance: InstanceId) -> String {
        instance.0
    }
}

/// How the instance of a connection begins.
const CONNECTION: &str = "mcp-";

/// How an instance was told from others of its actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownBy {
    /// Said outright: `ONUS_INSTANCE`, or a protocol that names it.
    Name,
    /// A registered process above the caller.
    Ancestor,
    /// A variable that the agent's harness sets.
    Harness,
    /// A person: one instance in all terminals.
    Person,
    /// Only the folder it works in: two conversations there look the same.
    Worktree,
}

/// Who gives a command. Resolved by the interface before the engine is asked.
#[derive(Clone, Debug)]
pub struct Caller {
    pub actor: ActorName,
    pub instance: InstanceId,
    pub known_by: KnownBy,
    /// The conversation that it is a part of, where it asks for files as one.
    pub whole: Option<InstanceId>,
    /// The token presented for the task of this command, if any.
    pub token: Option<Token>,
    /// The calling process and those above it, nearest first.
    pub ancestry: Vec<Process>,
    /// Its harness reported the start of a turn, and not yet its end.
    pub in_turn: bool,
    /// What its own clock says, where the store's is a server's.
    pub own_clock: Option<Tick>,
    /// The process that its instance is registered as, if the call comes from there. Only asked for where a lease is bound.
    pub process: Option<Process>,
}

/// A known instance of an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownInstance {
    pub actor: ActorName,
    pub instance: InstanceId,
    pub process: Option<Process>,
    /// The process group that it runs, and that must be ended before somebody takes over from it when it is dead.
    pub group: Option<u32>,
    pub seen_at_ms: i64,
    /// Its harness reported the start of a turn, and not yet its end.
    pub in_turn: bool,
    pub wants: Option<Wanted>,
    /// When it was last registered for its process, which may be several instances: see [`KnownInstance::is_live`].
    pub registered_at_ms: Option<i64>,
    /// When it said that it ends. Its next action, in whatever process, takes that back.
    pub ended_at_ms: Option<i64>,
    /// How far its transcript was read for what it used.
    pub read: Option<String>,
}

impl KnownInstance {
    /// One of which nothing is known but that it was seen.
    pub fn seen(actor: ActorName, instance: InstanceId, seen_at_ms: i64) -> KnownInstance {
        KnownInstance {
            actor,
            instance,
            process: None,
            group: None,
            seen_at_ms,
            in_turn: false,
            wants: None,
            registered_at_ms: None,
            ended_at_ms: None,
            read: None,
        }
    }

    /// Whether it has not said that it ended. That its process lives is another question.
    pub fn is_live(&self) -> bool {
        self.ended_at_ms.is_none()
    }
}

/// What an instance was refused because another has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The task whose lease has it.
    pub task: Uid,
    /// None: the task itself.
    pub path: Option<String>,
    /// Where it would have touched that path. None: it would have declared it, or the worktree is not known.
    pub worktree: Option<WorktreeId>,
    pub at_ms: i64,
}

words! {
    /// What somebody is to be told about a file.
    PendingKind("kind of pending notice") {
        /// Another changes it in a worktree of its own.
        Merge = "merge",
        /// A command changed it past its holder.
        Changed = "changed",
        /// A branch cannot be merged in it with the task's.
        Conflict = "conflict",
        /// A task was opened for it, and the one who changes it could not be told at once.
        Opened = "opened",
    }
}

/// What somebody is told with its next answer, whenever that is: the holder of a lease, or who changed a file past it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingNotice {
    /// Who is told.
    pub actor: ActorName,
    pub instance: InstanceId,
    /// The lease that reserves the file. What is said of it is of no use when it has ended.
    pub task: Uid,
    pub token: Token,
    pub kind: PendingKind,
    pub path: String,
    /// Who did it. None: that cannot be told.
    pub by: Option<(ActorName, InstanceId)>,
    /// For which task, and where, as far as that matters.
    pub by_task: Option<Uid>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    pub at_ms: i64,
}

impl PendingNotice {
    /// Whether it is for the one who did it, and not for the holder.
    pub fn is_own(&self) -> bool {
        self.by.as_ref().is_some_and(|(actor, instance)| (actor, instance) == (&self.actor, &self.instance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_have_a_kind_and_a_plain_name() {
        for good in ["human:alice", "agent:claude-code", "ci:main", "human:zoë", "agent:team/a.b+c@d_e"] {
            assert_eq!(good.parse::<ActorName>().map(|a| a.to_string()), Ok(good.to_owned()));
        }
        let long = format!("agent:{}", "x".repeat(80));
        for bad in [
            "alice",
            "robot:x",
            "human:",
            "agent:a b",
            "agent:a\u{202e}b",
            "agent:a\u{3164}b",
            "agent:a:b",
            "",
            &long,
        ] {
            assert!(bad.parse::<ActorName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn no_instance_has_what_cannot_be_seen() {
        for bad in ["", "a b", "a\u{200b}b", "a\u{202e}b", "a\u{e0041}"] {
            assert!(bad.parse::<InstanceId>().is_err(), "{bad:?}");
        }
        assert!("0195-漢/part;1".parse::<InstanceId>().is_ok());
    }
}
