//! One file per command, whose doc comment is its help. `moves.rs` has those that only move a task to another
//! state, `passing.rs` those that pass one on.

pub(crate) mod actor;
pub(crate) mod add;
pub(crate) mod backup;
pub(crate) mod blocked;
pub(crate) mod claim;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod dep;
pub(crate) mod doctor;
pub(crate) mod edit;
pub(crate) mod gate;
pub(crate) mod graph;
pub(crate) mod guard;
pub(crate) mod help;
pub(crate) mod hook;
pub(crate) mod init;
pub(crate) mod instance;
pub(crate) mod intake;
pub(crate) mod land;
pub(crate) mod ledger;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod moves;
pub(crate) mod note;
pub(crate) mod passing;
pub(crate) mod prime;
pub(crate) mod ready;
pub(crate) mod redact;
pub(crate) mod renew;
pub(crate) mod report;
pub(crate) mod rescue;
pub(crate) mod reset;
pub(crate) mod run;
pub(crate) mod scope;
pub(crate) mod search;
pub(crate) mod seat;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod setup;
pub(crate) mod show;
pub(crate) mod stale;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod takeover;
pub(crate) mod tick;
pub(crate) mod timesheet;
pub(crate) mod touch;
pub(crate) mod trust;
pub(crate) mod undo;
pub(crate) mod whoami;
pub(crate) mod why;
pub(crate) mod worktree;

use onus_core::command::{Act, Command};
use onus_core::ids::TaskRef;
use onus_core::refusal::{Code, Refusal};
use onus_dispatch::Interrupts;
use onus_engine::{Answer, Notice, Reply, TaskView};
use serde_json::{Value, json};

use crate::args::{ForceArgs, Key, Target, Targets};
use crate::context::Context;
use crate::output::{Output, escape_line, refuse};
use crate::{render, wording};
use onus_host::target;

type Result = std::result::Result<(), Refusal>;

/// The exit code of a command that may be refused in part.
type ExitCode = std::result::Result<u8, Refusal>;

/// The exit codes of commands that a signal stopped are above this one, as in shells.
const SIGNALLED: u8 = 128;

fn by_signal(signal: i32) -> u8 {
    SIGNALLED.saturating_add(u8::try_from(signal).unwrap_or_default())
}

/// From here on, an interrupt takes effect only when nothing is left running.
fn hold_interrupts() -> std::result::Result<Interrupts, Refusal> {
    let failed = |error| Refusal::new(Code::Unexpected, format!("signals cannot be held back: {error}"));
    Interrupts::hold().map_err(failed)
}

/// Changes one task, and answers with the task.
fn act(context: &Context, on: Target, act: Act, force: Option<&ForceArgs>, key: Key, past: &str) -> Result {
    let force = force.and_then(ForceArgs::force);
    let command = Command::OnTask { task: target(on.task)?, act, force };
    let reply = context.run(command, key.key)?;
    print_task(context, &reply, past)
}

/// Changes one task or several, each in a transaction of its own, so that a refusal for one does not stop the others. The
/// exit code is that of the first refusal.
fn each(
    context: &Context,
    targets: Targets,
    key: Key,
    command: impl Fn(Option<TaskRef>) -> Command,
    prose: impl Fn(&TaskView) -> String,
) -> ExitCode {
    let mut tasks = targets.tasks;
    if tasks.len() <= 1 {
        let mut reply = context.run(command(target(tasks.pop())?), key.key)?;
        let left = context.host.left_to_land(task_of(&reply)?);
        reply.notices.extend(left);
        let task = task_of(&reply)?;
        context.out.reply(&reply, json!(task), || prose(task));
        return Ok(0);
    }
    if key.key.is_some() {
        return Err(Refusal::usage("a key stands for one request: name one task with it"));
    }
    // Each task counts its own tokens, so one number could match several tasks.
    if onus_host::env("ONUS_TOKEN").is_some() && onus_host::env("ONUS_TASK").is_none() {
        return Err(Refusal::usage("ONUS_TOKEN is one task's: set ONUS_TASK to say which, or name one task"));
    }
    let commands = tasks.iter().map(|task| command(Some(task.clone()))).collect();
    let (mut changed, mut refused, mut notices) = (Vec::new(), Vec::new(), Vec::new());
    for (named, outcome) in tasks.iter().zip(context.run_each(commands)?) {
        match outcome {
            Ok(reply) => {
                let task = task_of(&reply)?;
                if !context.out.json {
                    context.out.line(&prose(task));
                }
                changed.push(json!(task));
                let left = context.host.left_to_land(task);
                notices.extend(reply.notices.into_iter().chain(left));
            }
            Err(refusal) => {
                if !context.out.json {
                    refuse(false, &refusal);
                }
                refused.push((named.to_string(), refusal));
            }
        }
    }
    notices.dedup();
    if context.out.json {
        several(&context.out, json!(changed), &refused, &notices);
    } else {
        context.out.notices(&notices);
    }
    Ok(refused.first().map_or(0, |(_, first)| first.exit_code()))
}

/// Prints the document of a command that names several tasks: those that were changed, and why others were refused. As in
/// every command that fails, `error` is the first refusal.
fn several(out: &Output, tasks: Value, refused: &[(String, Refusal)], notices: &[Notice]) {
    let mut value = json!({ "tasks": tasks });
    if let Some((_, first)) = refused.first() {
        value["error"] = json!(wording::refusal(first));
        let all = refused
            .iter()
            .map(|(named, refusal)| json!({ "named": named, "error": wording::refusal(refusal) }));
        value["refused"] = all.collect();
    }
    out.document(value, notices);
}

fn print_task(context: &Context, reply: &Reply, past: &str) -> Result {
    let task = task_of(reply)?;
    let past = if reply.unchanged { "is unchanged" } else { past };
    context.out.reply(reply, json!(task), || format!("{} {past}: {}", task.id, escape_line(&task.title)));
    Ok(())
}

fn task_of(reply: &Reply) -> std::result::Result<&TaskView, Refusal> {
    match &reply.answer {
        Answer::Task(task) | Answer::Asked { task, .. } | Answer::Lease { task, .. } => Ok(task),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> Refusal {
    Refusal::new(Code::Unexpected, "the engine's answer does not match the request")
}

/// Prints an answer that carries a lease.
fn print_lease(context: &Context, reply: &Reply, prose: impl FnOnce(&TaskView) -> String) -> Result {
    let Answer::Lease { task, lease, renewed, takeover } = &reply.answer else { return Err(unexpected()) };
    let value = json!({ "task": task, "lease": lease, "renewed": renewed, "takeover": takeover });
    context.out.reply(reply, value, || {
        let word = why_it_came_back(context, reply);
        std::iter::once(prose(task)).chain(word).collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

/// What was said when a task that was just claimed was last put down.
fn why_it_came_back(context: &Context, claimed: &Reply) -> Vec<String> {
    match &claimed.answer {
        Answer::Lease { task, lease: Some(_), renewed: false, .. } => {
            task.last_word.iter().flat_map(|word| render::last_word(&context.out, word)).collect()
        }
        _ => Vec::new(),
    }
}
