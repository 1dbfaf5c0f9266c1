//! One file a command; its doc comment is its help.

pub(crate) mod accept;
pub(crate) mod actor;
pub(crate) mod add;
pub(crate) mod approve;
pub(crate) mod backup;
pub(crate) mod block;
pub(crate) mod claim;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod dep;
pub(crate) mod doctor;
pub(crate) mod done;
pub(crate) mod drop;
pub(crate) mod edit;
pub(crate) mod fail;
pub(crate) mod graph;
pub(crate) mod handoff;
pub(crate) mod help;
pub(crate) mod hook;
pub(crate) mod init;
pub(crate) mod instance;
pub(crate) mod ledger;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod note;
pub(crate) mod prime;
pub(crate) mod ready;
pub(crate) mod redact;
pub(crate) mod reject;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod reopen;
pub(crate) mod reset;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod scope;
pub(crate) mod search;
pub(crate) mod setup;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod submit;
pub(crate) mod takeover;
pub(crate) mod touch;
pub(crate) mod unblock;
pub(crate) mod whoami;
pub(crate) mod why;

use onus_core::command::{Act, Command};
use onus_core::refusal::{Code, Refusal};
use onus_core::transition::Verb;
use onus_engine::{Answer, Reply, TaskView};
use serde_json::json;

use crate::args::{ForceArgs, Key, MoveArgs, Target};
use crate::context::{Context, target};
use crate::output::escape_line;

type Result = std::result::Result<(), Refusal>;

/// A change to one task whose answer is the task.
fn act(context: &Context, on: Target, act: Act, force: Option<&ForceArgs>, key: Key, past: &str) -> Result {
    let force = force.and_then(ForceArgs::force);
    let command = Command::OnTask { task: target(on.task)?, act, force };
    let reply = context.run(command, key.key)?;
    print_task(context, &reply, past)
}

/// A verb of the transition table that takes only a message.
fn shift(context: &Context, verb: Verb, how: MoveArgs, past: &str) -> Result {
    let message = how.force.message(how.message).map(crate::args::text_or_stdin).transpose()?;
    act(context, how.target, Act::Move { verb, message }, Some(&how.force), how.key, past)
}

fn print_task(context: &Context, reply: &Reply, past: &str) -> Result {
    let task = task_of(reply)?;
    context.out.reply(reply, json!(task), || format!("{} {past}: {}", task.id, escape_line(&task.title)));
    Ok(())
}

fn task_of(reply: &Reply) -> std::result::Result<&TaskView, Refusal> {
    match &reply.answer {
        Answer::Task(task) | Answer::Lease { task, .. } => Ok(task),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> Refusal {
    Refusal::new(Code::Unexpected, "the engine gave another kind of answer than was asked for")
}

/// An answer that carries a lease.
fn print_lease(context: &Context, reply: &Reply, prose: impl FnOnce(&TaskView) -> String) -> Result {
    let Answer::Lease { task, lease, renewed, takeover } = &reply.answer else { return Err(unexpected()) };
    let value = json!({ "task": task, "lease": lease, "renewed": renewed, "takeover": takeover });
    context.out.reply(reply, value, || prose(task));
    Ok(())
}
