//! Actors, their instances, and the caller of one command.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{Token, Uid, checked_text, shortened};
use crate::lease::Process;
use crate::quote::{self, is_hidden};
use crate::refusal::Refusal;
use crate::scope::WorktreeId;
use crate::task::words;
use crate::time::Tick;

/// The kind of an actor. No timer ends a person's lease, and only people may force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorKind {
    Human,
    Agent,
    Ci,
}

/// An actor's name: `human:alice`, `agent:codex`, `ci:main`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ActorName(String);

impl ActorName {
    pub const MAX_LEN: usize = 64;
    pub fn kind(&self) -> ActorKind {
        match self.0.split(':').next() {
            Some("human") => ActorKind::Human,
            Some("agent") => ActorKind::Agent,
            _ => ActorKind::Ci,
        }
    }

    pub fn is_person(&self) -> bool {
        self.kind() == ActorKind::Human
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
        Ok(ActorName(text.to_owned()))
    }
}

checked_text!(ActorName);

/// How far an actor is trusted, from 0 to 3. People set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tier(pub u8);

impl Tier {
    pub const DEFAULT: Tier = Tier(1);
    pub const MAX: Tier = Tier(3);
}

impl Default for Tier {
    fn default() -> Tier {
        Tier::DEFAULT
    }
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
        InstanceId(PERSON.to_owned())
    }

    /// A program that calls through our server and is otherwise unknown: its connection, identified by the server's process.
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

    /// Whether both are the same conversation, or one is a part of the other. Two parts are not.
    pub fn is_one_with(&self, other: &InstanceId) -> bool {
        self == other || self.has_part(other) || other.has_part(self)
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

checked_text!(InstanceId);

/// A person's instance. It tells nobody anything, so no sentence names it.
const PERSON: &str = "person";

/// An actor and its instance in a sentence of ours. A command that a person runs under a lease has an instance of its own,
/// which is named.
pub fn spoken(actor: &str, instance: &str) -> String {
    match instance {
        PERSON if actor.starts_with("human:") => actor.to_owned(),
        _ => format!("{actor} ({})", quote::name(instance)),
    }
}

/// How the instance of a connection begins.
const CONNECTION: &str = "mcp-";

/// How an instance was distinguished from others of its actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownBy {
    /// Named explicitly: by `ONUS_INSTANCE`, or by a protocol.
    Name,
    /// A registered process above the caller.
    Ancestor,
    /// A variable that the agent's harness sets.
    Harness,
    /// A person: one instance in all terminals.
    Person,
    /// Only by the folder it works in: two conversations there look the same.
    Worktree,
}

/// The caller of a command. The interface resolves it before it calls the engine.
#[derive(Clone, Debug)]
pub struct Caller {
    pub actor: ActorName,
    pub instance: InstanceId,
    pub known_by: KnownBy,
    /// The conversation that it is a part of, if it asks for files as a part.
    pub whole: Option<InstanceId>,
    /// The token presented for the task of this command, if any.
    pub token: Option<Token>,
    /// The calling process and those above it, nearest first.
    pub ancestry: Vec<Process>,
    /// Its harness reported the start of a turn, and not yet its end.
    pub in_turn: bool,
    /// The reading of its own clock, if the store's is a server's.
    pub own_clock: Option<Tick>,
    /// The process that its instance is registered as, if the call comes from there. Looked up only if a lease is bound.
    pub process: Option<Process>,
}

/// A known instance of an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownInstance {
    pub actor: ActorName,
    pub instance: InstanceId,
    pub process: Option<Process>,
    /// The process group that it runs. If the instance is dead, the group must be ended before another takes over.
    pub group: Option<u32>,
    pub seen_at_ms: i64,
    /// Its harness reported the start of a turn, and not yet its end.
    pub in_turn: bool,
    pub wants: Option<Wanted>,
    /// When it was last registered for its process, which may run several instances: see [`KnownInstance::is_live`].
    pub registered_at_ms: Option<i64>,
    /// When it reported its end. Its next action, in whatever process, revokes that.
    pub ended_at_ms: Option<i64>,
    /// How far its transcript was read for what it used.
    pub read: Option<String>,
}

impl KnownInstance {
    /// An instance of which only an action is known.
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

    /// Whether it has not reported its end. Its process may still be dead.
    pub fn is_live(&self) -> bool {
        self.ended_at_ms.is_none()
    }
}

/// A path or a task that an instance was refused because another has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The task whose lease has the path.
    pub task: Uid,
    /// None: the task itself.
    pub path: Option<String>,
    /// Where the instance would have touched the path. None: it would have declared it, or the worktree is unknown.
    pub worktree: Option<WorktreeId>,
    pub at_ms: i64,
}

words! {
    /// What a pending notice says about a file.
    PendingKind("kind of pending notice") {
        /// Another changes it in a worktree of its own.
        Merge = "merge",
        /// A command changed it without asking its holder.
        Changed = "changed",
        /// A branch cannot be merged in it with the task's.
        Conflict = "conflict",
        /// A task was opened for it, and its author could not be notified at once.
        Opened = "opened",
    }
}

/// A notice that its recipient gets with its next answer. The recipient is the holder of a lease, or the instance that changed a
/// file of that lease without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingNotice {
    /// The recipient.
    pub actor: ActorName,
    pub instance: InstanceId,
    /// The lease that reserves the file. Once it has ended, the notice is useless.
    pub task: Uid,
    pub token: Token,
    pub kind: PendingKind,
    pub path: String,
    /// Who did it. None: unknown.
    pub by: Option<(ActorName, InstanceId)>,
    /// For which task and where that was done, if it matters.
    pub by_task: Option<Uid>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    pub at_ms: i64,
}

impl PendingNotice {
    /// Whether it is for the instance that did it, and not for the holder.
    pub fn is_own(&self) -> bool {
        self.by.as_ref().is_some_and(|(actor, instance)| (actor, instance) == (&self.actor, &self.instance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_named_without_the_instance_that_is_the_same_everywhere() {
        assert_eq!(spoken("human:ann", "person"), "human:ann");
        assert_eq!(spoken("human:ann", "run-1"), "human:ann (run-1)");
        assert_eq!(spoken("agent:ada", "ada-1"), "agent:ada (ada-1)");
    }

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
