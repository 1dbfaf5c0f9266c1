//! Gates: what must have been checked before a task goes one step further.
//!
//! A project defines gates, and each says which tasks it is for and at which [`Stage`] it is asked for. A judgement belongs to
//! the *tree* that was judged and to the *definition* that it was judged by: another tree or another definition was not
//! judged; the same tree under another commit was.
//!
//! What was judged is an event and a row; the caller brings the gates as they are defined now and the tree that is there now
//! ([`Demand`]). So nothing is kept up to date: what is [`missing`](Demand::missing) is computed.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::actor::ActorName;
use crate::chain::write_canonical;
use crate::ids::{Uid, Version, shortened};
use crate::refusal::Refusal;
use crate::scope::{Scope, overlap};
use crate::task::{Facts, TaskType, words};
use crate::text::hex;

words! {
    /// How it is found out whether a gate is passed.
    GateKind("kind of gate") {
        /// A command that must succeed.
        Command = "command",
        /// A person, or whom the gate names, says so.
        Manual = "manual",
        /// An actor says so that did not work on the task.
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
    /// When a gate is asked for.
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
    /// What a gate came to.
    Verdict("verdict") {
        Passed = "passed",
        Failed = "failed",
    }
}

/// The name of a gate: lower case, as in a file's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GateKey(String);

impl GateKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

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

impl TryFrom<String> for GateKey {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Self, Refusal> {
        text.parse()
    }
}

impl From<GateKey> for String {
    fn from(key: GateKey) -> String {
        key.0
    }
}

/// The most gates that a project defines, and the most that a task names.
pub const MAX_GATES: usize = 50;

/// A gate as the project defines it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gate {
    pub key: GateKey,
    /// For people. It is no part of the definition.
    #[serde(skip)]
    pub title: Option<String>,
    pub kind: GateKind,
    pub stage: Stage,
    /// What is run, for those that are.
    pub command: Option<GateCommand>,
    /// Red-green: which of the branch's files are tests.
    #[serde(skip_serializing_if = "Scope::is_empty")]
    pub tests: Scope,
    /// Manual: who may pass it, beside people.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub by: BTreeSet<ActorName>,
    /// Which tasks it is for is no part of the definition either: it changes what is asked for, not what was judged.
    #[serde(skip)]
    pub applies: Applies,
}

/// What is run, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateCommand {
    pub argv: Vec<String>,
    /// Variables that it is given beside those that every program needs.
    pub env: BTreeSet<String>,
    /// Where in the work tree; empty: at its root.
    pub folder: String,
    pub timeout_ms: u64,
}

/// Which tasks a gate is for. What is empty excludes none.
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
pub enum Work<'a> {
    /// These files, from the repository's root.
    Files(&'a [String]),
    /// Nothing yet: what it declares to change.
    Declared,
    /// Something; nobody knows what.
    Unknown,
}

impl Gate {
    /// The hash of its definition: a judgement counts for this one and no other.
    pub fn digest(&self) -> String {
        let mut canonical = String::new();
        write_canonical(&serde_json::json!(self), &mut canonical);
        hex(&Sha256::digest(canonical.as_bytes()))
    }

    /// Whether a task has to pass it.
    pub fn is_for(&self, facts: &Facts, work: Work<'_>) -> bool {
        // Nobody planned it, so nobody is asked before or after it; what reaches the target was checked, whatever it is.
        if facts.ad_hoc && self.stage != Stage::Land {
            return false;
        }
        if facts.gates.contains(&self.key) {
            return true;
        }
        let Applies { only_named, types, tags, areas, paths } = &self.applies;
        let touches = || match work {
            _ if paths.is_empty() => true,
            Work::Files(files) => files.iter().any(|file| paths.covers(file)),
            // Whoever declares nothing may change anything.
            Work::Declared => facts.scope.is_empty() || overlaps(paths, &facts.scope),
            Work::Unknown => true,
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
    /// None: it was ended by a signal, or never began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    pub duration_ms: i64,
    /// The name of its log, which is kept where it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

/// What a gate came to, as an event tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub gate: GateKey,
    /// The digest of what it was judged by.
    pub definition: String,
    /// What was judged; None: nothing that git knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeId>,
    /// It came out differently before, with the same tree.
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

/// What is asked for: the gates of one stage as they are defined now, and what is there to be judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// All gates of the stage: which of them a task must pass is decided under its lock.
    pub gates: Vec<Gate>,
    /// The gates that are defined at all: a task may name one that is not.
    pub known: BTreeSet<GateKey>,
    /// What commands are judged on; None: there is no git here.
    pub tree: Option<TreeId>,
    /// The branch itself, where that is not what commands of stage `land` are judged on: what was called done, and what people and
    /// reviewers have read. None: the same.
    pub read: Option<TreeId>,
    /// The files that the task changed; None: nobody knows.
    pub changed: Option<Vec<String>>,
}

/// Why a gate is not passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    NotJudged,
    /// Something else was judged, or by another definition.
    Stale,
    Failed,
    /// The task names it, and the project does not define it.
    Unknown,
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
    fn work(&self, stage: Stage) -> Work<'_> {
        match (&self.changed, stage) {
            (_, Stage::Before) => Work::Declared,
            (Some(files), _) => Work::Files(files),
            (None, _) => Work::Unknown,
        }
    }

    /// What a gate is judged on.
    pub fn tree_of(&self, gate: &Gate) -> Option<&TreeId> {
        match gate.stage {
            // There is no work to judge yet.
            Stage::Before => None,
            Stage::Land if gate.kind.is_run() => self.tree.as_ref(),
            Stage::Done | Stage::Land => self.read.as_ref().or(self.tree.as_ref()),
        }
    }

    /// The same for a task that is held: what is asked before it begins was asked then.
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

    /// What the task has still to pass, given all that was judged of it. The last word on a tree counts.
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

    /// Why a gate is not passed; None: it is.
    pub fn standing(&self, gate: &Gate, judged: &[JudgementRow]) -> Option<Why> {
        let (definition, tree) = (gate.digest(), self.tree_of(gate));
        let of_gate = || judged.iter().filter(|row| row.judgement.gate == gate.key);
        let last = of_gate()
            .filter(|row| row.judgement.definition == definition && row.judgement.tree.as_ref() == tree)
            .max_by_key(|row| row.version);
        match last.map(|row| row.verdict) {
            Some(Verdict::Passed) => None,
            Some(Verdict::Failed) => Some(Why::Failed),
            None if of_gate().next().is_some() => Some(Why::Stale),
            None => Some(Why::NotJudged),
        }
    }
}

/// Whether two scopes share a path. What takes too long to find out may.
fn overlaps(one: &Scope, other: &Scope) -> bool {
    overlap(one.globs(), other.globs(), &[]).map_or(true, |witness| witness.is_some())
}

#[cfg(test)]
mod tests;
