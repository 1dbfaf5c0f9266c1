//! Runs a command that a repository configures: approved, with a clean environment, in a folder of the work tree, with a time
//! limit, until none of its processes is left ([`onus_dispatch::Errand`]). All gates and set-up commands run this way.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::command::{Act, Judging};
use onus_core::gate::{Gate, GateKind, Judgement, Run, TreeId, Verdict};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::time::Span;
use onus_dispatch::{Ended, Errand, Log, Outcome, Prefixed, Watch, to_stderr};
use onus_repo::approval::{Definition, Kind, environment};

use super::logs::Logs;
use crate::Host;
use crate::config::state_folder;

/// How long a command may take to end when it is stopped.
const GRACE: Duration = Duration::from_secs(5);

/// Where a command's output goes while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Live {
    Silent,
    /// To standard error, unchanged.
    Plain,
    /// To standard error by whole lines, each with this prefix, since several commands run at once.
    Prefixed(String),
}

impl Live {
    /// Writes a remark between the output of commands.
    fn say(&self, text: &str) {
        match self {
            Live::Silent => {}
            Live::Plain => to_stderr(text.as_bytes()),
            Live::Prefixed(prefix) => Prefixed::new(prefix.clone()).push(text.as_bytes()),
        }
    }
}

/// One folder that a gate's command is run in.
pub(super) struct Part<'a> {
    pub(super) root: &'a Path,
    /// What the folder contains; empty if there is only one.
    pub(super) heading: String,
    pub(super) must_fail: bool,
}

impl Part<'_> {
    fn heading(&self) -> String {
        let what = if self.must_fail { "must fail" } else { "must pass" };
        match self.heading.is_empty() {
            true => String::new(),
            false => format!("[onus: {}: it {what}]\n", self.heading),
        }
    }
}

/// A command that the user approved, and where to run it.
pub(crate) struct Command<'a> {
    pub(crate) definition: &'a Definition,
    /// The work tree.
    pub(crate) root: &'a Path,
    /// What it is told by variables of ours.
    pub(crate) told: Vec<(String, String)>,
    pub(crate) live: Live,
}

/// Runs a command to its end. Also returns its output.
pub(crate) fn run(command: Command<'_>, watch: Watch<'_>) -> Result<(Ended, Log), Refusal> {
    let Command { definition, root, told, mut live } = command;
    let mut env: Vec<(OsString, OsString)> = environment(&definition.env, std::env::vars_os());
    env.extend(told.into_iter().map(|(name, value)| (name.into(), value.into())));
    let errand = Errand {
        argv: definition.argv.clone(),
        env,
        folder: folder_in(root, definition)?,
        limit: Duration::from_millis(definition.timeout_ms),
        grace: GRACE,
    };
    let mut log = Log::default();
    let mut prefixed = match &mut live {
        Live::Prefixed(prefix) => Some(Prefixed::new(std::mem::take(prefix))),
        Live::Silent | Live::Plain => None,
    };
    let mut hear = |bytes: &[u8]| {
        log.push(bytes);
        match (&mut prefixed, &live) {
            (Some(prefixed), _) => prefixed.push(bytes),
            (None, Live::Plain) => to_stderr(bytes),
            (None, _) => {}
        }
    };
    let ended = errand.run(&mut hear, watch);
    if let Some(prefixed) = &mut prefixed {
        prefixed.flush();
    }
    let ended = ended.map_err(|error| {
        Refusal::new(Code::Unexpected, format!("cannot run {}: {error}", definition.name))
    })?;
    Ok((ended, log))
}

/// The folder in a work tree that a command runs in. A link that leads out of it is refused.
fn folder_in(root: &Path, definition: &Definition) -> Result<PathBuf, Refusal> {
    let wrong = |why: &str| {
        let message = format!("{}: its folder {why}", definition.name);
        Refusal::new(Code::NotAllowed, message).next(Step::plain("correct its folder where it is configured"))
    };
    let root = root.canonicalize().map_err(|error| {
        Refusal::new(Code::Unavailable, format!("cannot enter {}: {error}", root.display()))
    })?;
    let folder = root.join(&definition.folder).canonicalize();
    let folder = folder.ok().filter(|folder| folder.is_dir()).ok_or_else(|| wrong("is not there"))?;
    match folder.starts_with(&root) {
        true => Ok(folder),
        false => Err(wrong("is not inside the work tree")),
    }
}

/// How a command failed, in words; None if it succeeded.
pub(crate) fn outcome_in_words(outcome: &Outcome, definition: &Definition) -> Option<String> {
    match outcome {
        Outcome::Exited(0) => None,
        Outcome::Exited(code) => Some(format!("failed with exit code {code}")),
        Outcome::Killed(signal) => Some(format!("was killed by {}", onus_dispatch::signal_name(*signal))),
        Outcome::OutOfTime => {
            let limit = i64::try_from(definition.timeout_ms).unwrap_or(i64::MAX);
            Some(format!("took longer than {}", Span::from_ms(limit)))
        }
        Outcome::Stopped => Some("was interrupted".to_owned()),
        Outcome::NotStarted(_, why) => Some(format!("was not started: {why}")),
        Outcome::Unknown => Some("was watched by a process that was killed".to_owned()),
    }
}

/// A gate's command, in the form that is approved.
pub fn definition(gate: &Gate) -> Option<Definition> {
    let command = gate.command.as_ref()?;
    Some(Definition {
        kind: Kind::Gate,
        name: gate.key.to_string(),
        argv: command.argv.clone(),
        env: command.env.clone(),
        folder: command.folder.clone(),
        timeout_ms: command.timeout_ms,
    })
}

/// Refuses to run a gate that somebody passes.
pub(super) fn nothing_to_run(gate: &Gate) -> Refusal {
    let who = match gate.kind {
        GateKind::Review => "a reviewer",
        _ if gate.by.is_empty() => "a person",
        _ => "a person, or an actor that it names,",
    };
    Refusal::usage(format!("gate {} runs no command: {who} passes it", gate.key))
}

impl Host {
    /// A gate's command, which must have been approved.
    pub fn approved_gate(&self, gate: &Gate) -> Result<Definition, Refusal> {
        let definition = definition(gate).ok_or_else(|| nothing_to_run(gate))?;
        self.require_approved(&definition)?;
        Ok(definition)
    }

    /// Refuses gates that are not approved, naming all of them.
    pub(super) fn approved_gates(&self, gates: &[Gate]) -> Result<(), Refusal> {
        let mut first = None;
        let mut keys = Vec::new();
        for gate in gates {
            match self.approved_gate(gate) {
                Err(refusal) if refusal.code == Code::Unapproved => {
                    keys.push(gate.key.as_str());
                    first.get_or_insert(refusal);
                }
                other => drop(other?),
            }
        }
        let Some(refusal) = first else { return Ok(()) };
        let [_, _, ..] = keys.as_slice() else { return Err(refusal) };
        let message = format!(
            "gates {} have not been approved in this clone, or have changed since they were",
            keys.join(", ")
        );
        let keys = keys.into_iter().map(str::to_owned).collect();
        Err(Refusal { message, next: vec![Step::ApproveCommands(keys)], ..refusal })
    }

    pub(crate) fn require_approved(&self, definition: &Definition) -> Result<(), Refusal> {
        match self.approvals()?.require(definition) {
            Err(refusal) if refusal.code == Code::Unapproved => {
                Err(Refusal { next: vec![Step::ApproveCommands(vec![definition.name.clone()])], ..refusal })
            }
            other => other,
        }
    }

    /// Runs a gate's command in one folder after another, until one does not have the required result, and keeps its output. A gate
    /// that was stopped early is not judged.
    pub(super) fn run_parts(
        &self,
        gate: &Gate,
        parts: &[Part<'_>],
        told: &[(String, String)],
        live: &Live,
        mut watch: Watch<'_>,
    ) -> Result<(Verdict, Run), Refusal> {
        let definition = self.approved_gate(gate)?;
        let mut whole = Log::default();
        let mut duration = Duration::ZERO;
        let mut verdict = Verdict::Passed;
        let (mut exit, mut timed_out) = (None, false);
        for part in parts {
            let heading = part.heading();
            whole.push(heading.as_bytes());
            live.say(&heading);
            let (root, told) = (part.root, told.to_vec());
            let command = Command { definition: &definition, root, told, live: live.clone() };
            let (ended, log) = run(command, watch.again())?;
            whole.push(&log.bytes());
            duration += ended.duration;
            let came_to = part_came_to(gate, &definition, part, &ended)?;
            exit = match &ended.outcome {
                Outcome::Exited(code) => Some(*code),
                _ => None,
            };
            timed_out = ended.outcome == Outcome::OutOfTime;
            if let Some(why) = came_to {
                // A plain exit code needs no remark, since the output shows the failure.
                if parts.len() > 1 || exit.is_none() {
                    let said = format!("[onus: {why}]\n");
                    whole.push(said.as_bytes());
                    live.say(&said);
                }
                verdict = Verdict::Failed;
                break;
            }
        }
        let run = Run {
            exit,
            timed_out,
            duration_ms: i64::try_from(duration.as_millis()).unwrap_or(i64::MAX),
            // Failing to keep the log must not fail the gate.
            log: self.gate_logs().and_then(|logs| logs.keep(&gate.key, &whole.bytes()).ok()),
            machine: crate::worktree::this_machine(),
        };
        Ok((verdict, run))
    }

    /// The logs of this clone's gates: beside its store, or in the user's state folder.
    fn gate_logs(&self) -> Option<Logs> {
        let common = self.place.as_ref().and_then(|place| place.common_dir.as_ref());
        let folder = common.map(|common| common.join("onus")).or_else(state_folder)?;
        Some(Logs::at(folder.join("gates")))
    }

    /// The output of a gate's run; None if it is no longer kept, or is on another machine.
    pub fn gate_log(&self, run: &Run) -> Option<Vec<u8>> {
        let name = run.log.as_ref().filter(|_| run.machine == crate::worktree::this_machine())?;
        self.gate_logs()?.read(name).ok()?
    }
}

/// Why a part did not have the required result; None if it did.
fn part_came_to(
    gate: &Gate,
    definition: &Definition,
    part: &Part<'_>,
    ended: &Ended,
) -> Result<Option<String>, Refusal> {
    let words = outcome_in_words(&ended.outcome, definition);
    match (&ended.outcome, part.must_fail) {
        (Outcome::Stopped, _) => {
            let why = ended.fenced.clone();
            let code = if why.is_some() { Code::Fenced } else { Code::NotAllowed };
            let why = why.unwrap_or_else(|| "it was interrupted".to_owned());
            Err(Refusal::new(code, format!("gate {} was stopped: {why}", gate.key)))
        }
        (Outcome::Unknown, _) => {
            let message = format!("gate {} was not judged: the process that watched it was killed", gate.key);
            Err(Refusal::new(Code::Unexpected, message))
        }
        (Outcome::Exited(0), true) => {
            Ok(Some("it passes without the work: its tests prove nothing".to_owned()))
        }
        (Outcome::Exited(_) | Outcome::Killed(_), true) => Ok(None),
        // It neither failed nor passed, which never counts as the required result.
        (Outcome::OutOfTime | Outcome::NotStarted(..), _) | (_, false) => {
            Ok(words.map(|why| format!("it {why}")))
        }
    }
}

impl Judged<'_> {
    pub fn act(self) -> Act {
        let Judged { gate, verdict, tree, run, flaky, message } = self;
        let judgement = Judgement { gate: gate.key.clone(), definition: gate.digest(), tree, flaky, run };
        Act::Judge(Judging { gate: gate.clone(), verdict, judgement, message })
    }
}

/// The result of a gate, on a tree.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    pub gate: &'a Gate,
    pub verdict: Verdict,
    pub tree: Option<TreeId>,
    /// How it was run, for gates that are run.
    pub run: Option<Run>,
    /// It had the opposite result before, on the same tree.
    pub flaky: bool,
    pub message: Option<String>,
}
