mod judge;
mod list;
mod log;
mod run;
mod view;

pub(crate) use run::outcome;
pub(super) use view::gate as document;

use clap::Subcommand;
use onus_core::gate::{Gate, Stage};
use onus_core::ids::TaskRef;
use onus_core::refusal::{Refusal, Step};
use onus_host::gates::{Workplace, unknown_gate};

use crate::args::{ForceArgs, Key, within};
use crate::context::Context;

/// Run, judge and list the checks that tasks must pass
///
/// A project defines its gates in onus.toml, as `[[gate]]`. A gate is a command, a person's approval or a review; it is required before a
/// task is claimed (before), when it is done or submitted (done), or when it lands (land). A verdict holds for exactly
/// the files that were judged: when they change, the gate must pass again; the same files under another commit have passed.
#[derive(Subcommand, Debug)]
pub(crate) enum Action {
    /// List the project's gates, or those that a task must pass and whether it has
    List {
        /// The task (default: the one whose worktree you are in). Without either: what the project defines
        #[arg(value_name = "ID", value_parser = crate::args::parse::<TaskRef>)]
        task: Option<TaskRef>,
        /// What the project defines, also in a task's worktree
        #[arg(long, conflicts_with = "task")]
        project: bool,
    },
    /// Run a task's gates that have not passed yet, where its work is
    ///
    /// Output is shown as it comes and kept (gate log). A gate ends with everything that it started, at its time limit at the
    /// latest. Exits with 6 if one fails. Your lease is renewed while they run.
    Run(Run),
    /// Pass a manual gate or a review
    ///
    /// A manual gate is passed by a person, or by an actor that its `by` lists; a review by an actor that has not held the task since it was last opened.
    Pass(Pass),
    /// Fail a manual gate or a review, and say why
    Fail(Fail),
    /// Show one gate of a task: its definition, and every result
    Show(Named),
    /// Show what a gate wrote when it last ran
    Log(Log),
}

#[derive(clap::Args, Debug)]
pub(crate) struct Run {
    /// The task (default: ONUS_TASK, the one whose worktree you are in, or the one you hold), and the keys of gates. Without
    /// keys: all that have not passed yet
    #[arg(value_name = "[ID] GATE")]
    words: Vec<String>,
    /// Run all gates of the stage, including those that have passed, several at once
    #[arg(long)]
    all: bool,
    /// The stage whose gates are run; default: done
    #[arg(long, value_name = "STAGE", value_parser = crate::args::parse::<Stage>)]
    stage: Option<Stage>,
    /// With --all: how many run at once; default: as many as there are processors
    #[arg(long, value_name = "N", requires = "all", value_parser = within(1_u16, 64))]
    jobs: Option<u16>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Named {
    /// The task (default: ONUS_TASK, the one whose worktree you are in, or the one you hold), and the gate's key
    #[arg(value_name = "[ID] GATE", num_args = 1..=2, required = true)]
    words: Vec<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Pass {
    #[command(flatten)]
    named: Named,
    /// What was looked at (- reads standard input)
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    force: ForceArgs,
    #[command(flatten)]
    key: Key,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Fail {
    #[command(flatten)]
    named: Named,
    /// What is wrong (- reads standard input)
    #[arg(short, long, value_name = "TEXT", required = true)]
    message: String,
    #[command(flatten)]
    key: Key,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Log {
    #[command(flatten)]
    named: Named,
    /// Show the run that this event recorded (gate show lists them)
    #[arg(long, value_name = "N")]
    version: Option<u64>,
}

pub(crate) fn run(context: &Context, action: Action) -> super::ExitCode {
    let done = |()| 0;
    match action {
        Action::List { task, project } => {
            match task.or_else(|| context.host.task_here().filter(|_| !project)) {
                Some(task) => list::of_task(context, task).map(done),
                None => list::of_project(context).map(done),
            }
        }
        Action::Run(args) => run::run(context, args),
        Action::Pass(args) => judge::pass(context, args).map(done),
        Action::Fail(args) => judge::fail(context, args).map(done),
        Action::Show(args) => list::show(context, args).map(done),
        Action::Log(args) => log::run(context, args).map(done),
    }
}

/// A gate's definition for people, in one line.
pub(super) fn in_short(gate: &Gate) -> String {
    let command = gate.command.as_ref().map(|command| format!(": {}", view::command_line(command)));
    format!("{}, {}{}", gate.kind, gate.stage, command.unwrap_or_default())
}

/// Splits `[ID] GATE…`. A first word that is the key of a gate is taken as one, never as a task.
fn task_and_rest(
    context: &Context,
    mut words: Vec<String>,
) -> Result<(Option<TaskRef>, Vec<String>), Refusal> {
    let is_gate = |word: &String| context.host.config.gates().iter().any(|gate| gate.key.as_str() == word);
    let task = match words.first() {
        Some(first) if !is_gate(first) => Some(words.remove(0).parse()?),
        _ => None,
    };
    Ok((context.host.target_or_here(task)?, words))
}

/// Splits `[ID] GATE`. A lone word is the gate, even if the project does not define it.
fn task_and_key(context: &Context, named: Named) -> Result<(Option<TaskRef>, String), Refusal> {
    let (task, key) = match <[String; 2]>::try_from(named.words) {
        Ok([task, key]) => (Some(task.parse()?), Some(key)),
        Err(words) => (None, words.into_iter().next()),
    };
    let wrong =
        || Refusal::usage("give a gate's key, and at most one task before it").next(Step::HelpOn("gate"));
    Ok((context.host.target_or_here(task)?, key.ok_or_else(wrong)?))
}

/// A gate of a task, as defined where the task's work is or, for a gate that landing demands, in its target.
fn gate_of(
    context: &Context,
    task: &onus_engine::TaskView,
    workplace: &Workplace,
    key: &str,
) -> Result<Gate, Refusal> {
    let gates = context.host.gates_of(task, workplace)?;
    let found = gates.iter().find(|gate| gate.key.as_str() == key).cloned();
    found.ok_or_else(|| unknown_gate(key, &gates))
}
