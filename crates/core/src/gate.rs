//! Gates: what must be checked before a task moves on.
//!
//! A project defines gates. Each says which tasks it is for and at which [`Stage`] it is required. A judgement belongs to the
//! *tree* that was judged and to the *definition* by which it was judged: it does not count for another tree or another
//! definition, but it counts for the same tree under another commit.
//!
//! A judgement is an event and a row. The caller supplies the current definitions of the gates and the current tree
//! ([`Demand`]). So nothing has to be kept up to date: what is [`missing`](Demand::missing) is computed.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::actor::ActorName;
use crate::chain::write_canonical;
use crate::ids::{Uid, Version, checked_text, shortened};
use crate::refusal::Refusal;
use crate::scope::{Scope, overlap};
use crate::task::{Facts, TaskType, words};
use crate::text::hex;

words! {
    /// How a gate is judged.
    GateKind("kind of gate") {
        /// A command that must succeed.
        Command = "command",
        /// A person, or an actor that the gate names, passes it.
        Manual = "manual",
        /// An actor that did not work on the task passes it.
        Review = "review",
        /// The branch's tests fail without its other changes, and pass with them.
        RedGreen = "red-green",
    }
}

impl GateKind {
    /// Whether it is judged by running something.
    pub fn is_run(self) -> bool {
        matches!(self, GateKind::Command | GateKind::RedGreen)
    }
}

words! {
    /// When a gate must be passed.
    Stage("stage") {
        /// Before the task is claimed.
        Before = "before",
        /// Before it is done or submitted.
        Done = "done",
        /// Before it lands: on the merged result.
        Land = "land",
    }
}

words! {
    /// Whether a gate was passed.
    Verdict("verdict") {
        Passed = "passed",
        Failed = "failed",
    }
}

/// The name of a gate: lower case, as in a file's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GateKey(String);

impl FromStr for GateKey {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let may = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
        let begins = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        match begins && text.len() <= 64 && text.chars().all(may) {
            true => Ok(GateKey(text.to_owned())),
            false => Err(Refusal::usage(format!(
                "'{}' is not a gate: its key has 1 to 64 lower-case letters, digits and - _ . and begins with a letter or digit",
                shortened(text)
            ))),
        }
    }
}

checked_text!(GateKey);

/// The most gates that a project defines, and the most that a task names.
pub const MAX_GATES: usize = 50;

/// A gate as the project defines it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gate {
    pub key: GateKey,
    /// For people. Not part of the definition.
    #[serde(skip)]
    pub title: Option<String>,
    pub kind: GateKind,
    pub stage: Stage,
    /// What is run, if the gate is judged by running something.
    pub command: Option<GateCommand>,
    /// Red-green: which of the branch's files are tests.
    #[serde(skip_serializing_if = "Scope::is_empty")]
    pub tests: Scope,
    /// Manual: who may pass it, besides people.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub by: BTreeSet<ActorName>,
    /// Which tasks it is for. Not part of the definition either: it changes what is required, not what was judged.
    #[serde(skip)]
    pub applies: Applies,
}

/// What is run, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateCommand {
    pub argv: Vec<String>,
    /// Variables that it gets besides those that every program needs.
    pub env: BTreeSet<String>,
    /// Where in the work tree; empty: at its root.
    pub folder: String,
    pub timeout_ms: u64,
}

/// Which tasks a gate is for. An empty condition excludes none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applies {
    /// Only tasks that name the gate.
    pub only_named: bool,
    pub types: BTreeSet<TaskType>,
    pub tags: BTreeSet<String>,
    pub areas: BTreeSet<String>,
    /// Tasks that change one of these files.
    pub paths: Scope,
}

/// What a task's work changes, as far as that is known.
#[derive(Clone, Copy, Debug)]
pub enum ChangedBy<'a> {
    /// These files, from the repository's root.
    Files(&'a [String]),
    /// Nothing yet: what the task declares to change.
    Declared,
    /// Unknown files.
    Unknown,
}

impl Gate {
    /// The hash of its definition. A judgement counts only for the definition that it names.
    pub fn digest(&self) -> String {
        let mut canonical = String::new();
        write_canonical(&serde_json::json!(self), &mut canonical);
        hex(&Sha256::digest(canonical.as_bytes()))
    }

    /// Whether a task has to pass it.
    pub fn is_for(&self, facts: &Facts, work: ChangedBy<'_>) -> bool {
        // Ad-hoc work is unplanned, so no gate applies before or after it. What reaches the target is checked in any case.
        if facts.ad_hoc && self.stage != Stage::Land {
            return false;
        }
        if facts.gates.contains(&self.key) {
            return true;
        }
        let Applies { only_named, types, tags, areas, paths } = &self.applies;
        let touches = || match work {
            _ if paths.is_empty() => true,
            ChangedBy::Files(files) => files.iter().any(|file| paths.covers(file)),
            // A task that declares nothing may change anything.
            ChangedBy::Declared => facts.scope.is_empty() || overlaps(paths, &facts.scope),
            ChangedBy::Unknown => true,
        };
        !only_named
            && (types.is_empty() || types.contains(&facts.kind))
            && (tags.is_empty() || !tags.is_disjoint(&facts.tags))
            && (areas.is_empty() || facts.area.as_ref().is_some_and(|area| areas.contains(area)))
            && touches()
    }
}

/// A tree of git by its whole hash.
pub type TreeId = String;

/// How a command that judged a gate ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// None: it ended by a signal, or never began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    pub duration_ms: i64,
    /// The name of its log, which is kept on the machine where it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

/// A gate's outcome, as an event records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub gate: GateKey,
    /// The digest of the definition by which it was judged.
    pub definition: String,
    /// The tree that was judged. None: nothing in git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeId>,
    /// The verdict on the same tree was different before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flaky: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
}

/// A judgement, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgementRow {
    pub task: Uid,
    pub version: Version,
    pub verdict: Verdict,
    pub actor: ActorName,
    pub at_ms: i64,
    pub judgement: Judgement,
}

/// What is required: the gates of one stage as they are defined now, and the tree to be judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// All gates of the stage: which of them a task must pass is decided under its lock.
    pub gates: Vec<Gate>,
    /// All gates that are defined: a task may name one that is not.
    pub known: BTreeSet<GateKey>,
    /// The tree on which commands are judged. None: there is no git here.
    pub tree: Option<TreeId>,
    /// The branch's own tree, which was called done and which people and reviewers have read, if commands of stage `land` are
    /// judged on another one. None: it is `tree`.
    pub reviewed: Option<TreeId>,
    /// The files that the task changed. None: unknown.
    pub changed: Option<Vec<String>>,
}

crate::spelled! {
    /// Why a gate is not passed.
    Why {
        NotJudged = "not_judged",
        /// Another tree was judged, or by another definition.
        Stale = "stale",
        Failed = "failed",
        /// The task names it, and the project does not define it.
        Unknown = "unknown",
    }
}

/// A gate that a task has still to pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub key: GateKey,
    pub kind: Option<GateKind>,
    pub stage: Option<Stage>,
    pub why: Why,
}

impl Demand {
    fn work(&self, stage: Stage) -> ChangedBy<'_> {
        match (&self.changed, stage) {
            (_, Stage::Before) => ChangedBy::Declared,
            (Some(files), _) => ChangedBy::Files(files),
            (None, _) => ChangedBy::Unknown,
        }
    }

    /// The tree on which a gate is judged.
    pub fn tree_of(&self, gate: &Gate) -> Option<&TreeId> {
        match gate.stage {
            // There is no work to judge yet.
            Stage::Before => None,
            Stage::Land if gate.kind.is_run() => self.tree.as_ref(),
            Stage::Done | Stage::Land => self.reviewed.as_ref().or(self.tree.as_ref()),
        }
    }

    /// The same for a task that is held: gates of stage `before` were required when it was claimed.
    #[must_use]
    pub fn of_begun(&self) -> Demand {
        let mut demand = self.clone();
        demand.gates.retain(|gate| gate.stage != Stage::Before);
        demand
    }

    /// The gates that a task with these facts must pass.
    pub fn asked<'a>(&'a self, facts: &Facts) -> impl Iterator<Item = &'a Gate> {
        self.gates.iter().filter(move |gate| gate.is_for(facts, self.work(gate.stage)))
    }

    /// The gates that the task still has to pass, given all its judgements. The last judgement of a tree counts.
    pub fn missing(&self, facts: &Facts, judged: &[JudgementRow]) -> Vec<Missing> {
        let unknown = facts.gates.iter().filter(|key| !self.known.contains(*key));
        let unknown =
            unknown.map(|key| Missing { key: key.clone(), kind: None, stage: None, why: Why::Unknown });
        let open = self.asked(facts).filter_map(|gate| {
            let why = self.standing(gate, judged)?;
            Some(Missing { key: gate.key.clone(), kind: Some(gate.kind), stage: Some(gate.stage), why })
        });
        open.chain(unknown).collect()
    }

    /// Why a gate is not passed. None: it is passed.
    pub fn standing(&self, gate: &Gate, judged: &[JudgementRow]) -> Option<Why> {
        match self.deciding(gate, judged).map(|row| row.verdict) {
            Some(Verdict::Passed) => None,
            Some(Verdict::Failed) => Some(Why::Failed),
            None if judged.iter().any(|row| row.judgement.gate == gate.key) => Some(Why::Stale),
            None => Some(Why::NotJudged),
        }
    }

    /// The judgement that counts: the last one of this gate, as it is defined now, on this tree. Others may be newer.
    pub fn deciding<'j>(&self, gate: &Gate, judged: &'j [JudgementRow]) -> Option<&'j JudgementRow> {
        let (definition, tree) = (gate.digest(), self.tree_of(gate));
        let is_of = |row: &&JudgementRow| {
            let Judgement { gate: key, definition: defined, tree: on, .. } = &row.judgement;
            *key == gate.key && *defined == definition && on.as_ref() == tree
        };
        judged.iter().filter(is_of).max_by_key(|row| row.version)
    }
}

/// Whether two scopes may share a path. If the search takes too long, they may.
fn overlaps(one: &Scope, other: &Scope) -> bool {
    overlap(one.globs(), other.globs(), &[]).map_or(true, |witness| witness.is_some())
}

#[cfg(test)]
mod tests;
