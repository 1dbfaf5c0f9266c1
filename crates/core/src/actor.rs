//! Who acts: actors, their instances, and the caller of one command.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{Token, shortened};
use crate::lease::Process;
use crate::refusal::Refusal;

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
                && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+' | '/'))
        });
        if !fits {
            return Err(Refusal::usage(format!(
                "'{}' is not an actor: write human:NAME, agent:NAME or ci:NAME, the name of letters, digits and . _ - @ + /, at most {} bytes",
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
            && text.chars().all(|c| !c.is_control() && !c.is_whitespace());
        if !fits {
            return Err(Refusal::usage(format!(
                "'{}' is not an instance: use 1 to {} bytes without spaces or control characters",
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
    /// The token presented for the task of this command, if any.
    pub token: Option<Token>,
    /// The calling process and those above it, nearest first.
    pub ancestry: Vec<Process>,
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
        for bad in ["alice", "robot:x", "human:", "agent:a b", "agent:a\u{202e}b", "agent:a:b", "", &long] {
            assert!(bad.parse::<ActorName>().is_err(), "{bad}");
        }
    }
}
