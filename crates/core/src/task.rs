//! The task record: the authoritative owner of a unit of work.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::actor::{ActorName, Tier};
use crate::commit::is_branch_of;
use crate::constraint::Constraints;
use crate::gate::GateKey;
use crate::ids::{Number, Token, Uid, Version, checked_text, shortened};
use crate::landing::{DepsMet, Landing};
use crate::lease::Mode;
use crate::refusal::Refusal;
use crate::scope::{Areas, Scope};
use crate::time::Moment;

/// Defines an enum whose members have one spelling everywhere: code, SQL, JSON, help.
#[macro_export]
macro_rules! spelled {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vmeta])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// By exactly its word.
            pub fn named(word: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|it| it.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

/// The same for an enum that people type, and that is part of the schemas: it is read in any case.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident ($what:literal) { $($members:tt)+ }) => {
        $crate::spelled! {
            $(#[$meta])*
            #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
            $name { $($members)+ }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::refusal::Refusal;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|v| v.as_str().eq_ignore_ascii_case(text)).ok_or_else(|| {
                    let known: Vec<&str> = Self::ALL.iter().map(|v| v.as_str()).collect();
                    let text = $crate::ids::shortened(text);
                    Self::Err::usage(format!("'{text}' is not a {}: use one of {}", $what, known.join(", ")))
                })
            }
        }
    };
}
pub(crate) use words;

/// For fields that are left out while they have their default.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

words! {
    /// The state of a task. `ready` is computed, not a state.
    State("state") {
        Proposed = "proposed",
        Open = "open",
        InProgress = "in_progress",
        Blocked = "blocked",
        Review = "review",
        Done = "done",
        Failed = "failed",
        Dropped = "dropped",
    }
}

impl State {
    /// Whether the task needs no more work unless somebody reopens it.
    pub fn is_finished(self) -> bool {
        matches!(self, State::Done | State::Dropped)
    }

    /// The state as an adjective, for a sentence.
    pub fn spoken(self) -> &'static str {
        match self {
            State::InProgress => "in progress",
            State::Review => "in review",
            state => state.as_str(),
        }
    }

    /// The state as a predicate, for a sentence: it "is open".
    pub fn predicate(self) -> &'static str {
        match self {
            State::Proposed => "is proposed",
            State::Open => "is open",
            State::InProgress => "is in progress",
            State::Blocked => "is blocked",
            State::Review => "is in review",
            State::Done => "is done",
            State::Failed => "has failed",
            State::Dropped => "was dropped",
        }
    }
}

words! {
    #[derive(Default)]
    TaskType("type") {
        Epic = "epic",
        Feature = "feature",
        Story = "story",
        #[default]
        Task = "task",
        Bug = "bug",
    }
}

words! {
    /// P0 first.
    #[derive(Default)]
    Priority("priority") {
        P0 = "P0",
        P1 = "P1",
        #[default]
        P2 = "P2",
        P3 = "P3",
        P4 = "P4",
    }
}

impl Priority {
    /// A priority as people write one: `P1`, `p1`, or the digit alone.
    pub fn parse_spoken(text: &str) -> Result<Priority, Refusal> {
        match text.as_bytes() {
            [digit] if digit.is_ascii_digit() => format!("P{text}").parse(),
            _ => text.parse(),
        }
    }
}

/// Where an ask came from. The same origin always resolves to the same task (P8).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Origin(String);

impl Origin {
    pub const MAX_LEN: usize = 500;
}

/// The channels whose references ignore case: there `Acme/Web#12` and `acme/web#12` are one issue.
const CASELESS: [&str; 2] = ["github", "gitlab"];

impl FromStr for Origin {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let fits = text.len() <= Self::MAX_LEN
            && !text.chars().any(char::is_control)
            && text.split_once(':').is_some_and(|(channel, reference)| {
                is_word(channel) && !reference.is_empty() && reference.trim() == reference
            });
        if !fits {
            return Err(Refusal::usage(format!(
                "'{}' is not an origin: write CHANNEL:REFERENCE, such as github:acme/web#12, at most {} bytes",
                shortened(text),
                Self::MAX_LEN
            )));
        }
        let is_caseless = text.split(':').next().is_some_and(|channel| CASELESS.contains(&channel));
        Ok(Origin(if is_caseless { text.to_ascii_lowercase() } else { text.to_owned() }))
    }
}

checked_text!(Origin);

/// Whether a text is a short label: 1 to 64 bytes, no spaces, commas or control characters.
pub fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && !text.chars().any(|c| c.is_control() || c.is_whitespace() || c == ',')
}

/// Checks a label such as a tag, area or iteration.
pub fn check_word(what: &str, text: &str) -> Result<String, Refusal> {
    if is_word(text) {
        Ok(text.to_owned())
    } else {
        let article = if what.starts_with(['a', 'i']) { "an" } else { "a" };
        Err(Refusal::usage(format!(
            "'{}' is not {article} {what}: use 1 to 64 bytes without spaces, commas or control characters",
            shortened(text)
        )))
    }
}

pub const MAX_TAGS: usize = 50;
pub const MAX_RELATES: usize = 50;
/// The most globs that a task may declare.
pub const MAX_SCOPE: usize = 200;
pub const MAX_REFS: usize = 50;
/// The most bytes of a reference in another system.
pub const MAX_REF_BYTES: usize = 200;
/// The most acceptance lines that a task may have.
pub const MAX_ACCEPTANCE: usize = 50;

words! {
    /// The kind of a note.
    #[derive(Default)]
    NoteKind("kind of note") {
        #[default]
        Progress = "progress",
        Finding = "finding",
        Decision = "decision",
        /// The note that `done` or `submit` leaves. It cannot be added by itself.
        Resolution = "resolution",
    }
}

/// A line that must be true before the task counts as accepted. Its text is stored with the event that added it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptanceLine {
    /// The event that added it.
    pub version: Version,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticked: Option<Ticked>,
}

/// Who ticked a line, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticked {
    pub by: ActorName,
    pub at_ms: i64,
}

/// For whom an open task is kept: nobody else may claim it before `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub actor: ActorName,
    pub until: Moment,
    /// The event whose reason says why.
    pub version: Version,
}

/// The fields of a task that people edit, apart from its texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    #[serde(rename = "type")]
    pub kind: TaskType,
    pub priority: Priority,
    pub required_tier: Tier,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub area: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<String>,
    /// The accountable person, not the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<ActorName>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// System to reference: `jira` to `WEB-7`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refs: BTreeMap<String, String>,
    /// Where the ask can be read in its channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The task that it is a part of, which is not ready before all its parts are finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Uid>,
    /// Related tasks, for readers. They do not affect the order of work.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub relates: BTreeSet<Uid>,
    /// The paths that its holder reserves.
    #[serde(default, skip_serializing_if = "Scope::is_empty")]
    pub scope: Scope,
    /// Which of them were named by an area.
    #[serde(default, skip_serializing_if = "Areas::is_empty")]
    pub scope_areas: Areas,
    #[serde(default, skip_serializing_if = "is_default")]
    pub mode: Mode,
    /// What its holder may not do.
    #[serde(default, skip_serializing_if = "Constraints::is_empty")]
    pub constraints: Constraints,
    /// Gates that it must pass besides those for every task of its kind.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gates: BTreeSet<GateKey>,
    /// Wall time before which it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<i64>,
    /// How often a failed task may be tried again. None: as the policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u64>,
    /// Opened by the guard for edits that belong to no task. Unplanned, so it is never handed out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ad_hoc: bool,
}

/// A task: the fold of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub uid: Uid,
    pub number: Number,
    /// The number of its events, and the hash of the last one.
    pub version: Version,
    pub head: String,
    pub state: State,
    pub facts: Facts,
    /// The events that hold the current title and body.
    pub title_version: Version,
    pub body_version: Option<Version>,
    /// The last event with a text for the next holder: why the task was rejected, blocked or released.
    pub word_version: Option<Version>,
    pub origin: Option<Origin>,
    pub created_at_ms: i64,
    pub created_by: ActorName,
    pub updated_at_ms: i64,
    /// When work on it first began, and when it was done. A reset clears both, reopening only the second.
    pub started_at_ms: Option<i64>,
    pub completed_at_ms: Option<i64>,
    /// In the order in which they were added; people count them from 1.
    pub acceptance: Vec<AcceptanceLine>,
    /// The highest token ever granted.
    pub token: Token,
    /// Whether the lease with that token has not ended. It may have lapsed, which is computed.
    pub leased: bool,
    /// The highest token granted before the task was last opened by a decision (created, accepted, reopened).
    pub opened_token: Token,
    pub kept: Option<Kept>,
    /// Who submitted it for review.
    pub submitter: Option<ActorName>,
    /// The state from which it was dropped. None: it is not dropped.
    pub dropped_from: Option<State>,
    /// How often it was retried after it had failed.
    pub attempts: u64,
    /// The sum of its recorded stretches, less corrections.
    pub effort_ms: i64,
    /// A reset has fenced all tokens up to this one, whatever became of their leases.
    pub fenced_token: Token,
    /// Where its work is committed, whoever holds it.
    pub branch: Option<TaskBranch>,
    pub landing: Landing,
    pub counts: Counts,
}

/// A task's own branch, whatever else is checked out where its holder works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskBranch {
    pub branch: String,
    /// The commit at which it began.
    pub base: String,
    /// The branch in which it will land.
    pub target: String,
}

/// What a task's row knows about its neighbours, so that an index can answer `ready`. The transaction that changes a neighbour or
/// an edge increments or decrements them; the task's own events do not mention them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Dependencies that are not met.
    pub unmet: u64,
    /// Children that are not finished.
    pub open_children: u64,
    /// Tasks that depend on this one and are not finished.
    pub open_dependents: u64,
}

impl Task {
    /// A new task that nobody has held yet.
    pub fn created(
        uid: Uid,
        number: Number,
        (by, at_ms): (&ActorName, i64),
        state: State,
        facts: Facts,
    ) -> Task {
        Task {
            uid,
            number,
            version: Version(1),
            head: String::new(),
            state,
            facts,
            title_version: Version(1),
            body_version: None,
            word_version: None,
            origin: None,
            created_at_ms: at_ms,
            created_by: by.clone(),
            updated_at_ms: at_ms,
            started_at_ms: None,
            completed_at_ms: None,
            acceptance: Vec::new(),
            token: Token(0),
            leased: false,
            opened_token: Token(0),
            kept: None,
            submitter: None,
            dropped_from: None,
            attempts: 0,
            effort_ms: 0,
            fenced_token: Token(0),
            branch: None,
            landing: Landing::default(),
            counts: Counts::default(),
        }
    }

    /// Whether a branch is the task's own: the recorded one, or else one that is named after the task.
    pub fn owns_branch(&self, id: &str, branch: &str) -> bool {
        match &self.branch {
            Some(own) => own.branch == branch,
            None => is_branch_of(branch, id),
        }
    }

    /// Whether its dependents may begin.
    pub fn is_met(&self) -> bool {
        self.state == State::Done && self.landing.awaited != Some(DepsMet::Landed)
    }

    /// The acceptance lines that nobody has ticked, counted from 1.
    pub fn unticked(&self) -> Vec<usize> {
        let open = self.acceptance.iter().zip(1..).filter(|(line, _)| line.ticked.is_none());
        open.map(|(_, number)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_have_a_channel_and_a_reference() {
        for good in ["github:acme/web#12", "mail:<a@b>", "chat:room: hello"] {
            assert!(good.parse::<Origin>().is_ok(), "{good}");
        }
        for bad in ["github", ":x", "github:", "git hub:x", "a:b\n", "a: b"] {
            assert!(bad.parse::<Origin>().is_err(), "{bad}");
        }
    }

    #[test]
    fn words_are_spelled_one_way_and_read_in_any_case() {
        assert_eq!("IN_PROGRESS".parse(), Ok(State::InProgress));
        assert_eq!("p0".parse(), Ok(Priority::P0));
        for (text, priority) in
            [("1", Some(Priority::P1)), ("p4", Some(Priority::P4)), ("5", None), ("11", None), ("", None)]
        {
            assert_eq!(Priority::parse_spoken(text).ok(), priority, "{text}");
        }
        assert!("doing".parse::<State>().unwrap_err().message.contains("in_progress"));
    }
}
