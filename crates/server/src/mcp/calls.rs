//! A call, carried out: the command that the command line would give. All of this blocks.

use std::os::fd::AsFd as _;
use std::time::Duration;

use onus_core::command::{Act, Command, NewTask, TaskLink, Terms};
use onus_core::ids::TaskRef;
use onus_core::refusal::Refusal;
use onus_core::task::Facts;
use onus_core::transition::Verb;
use onus_engine::{Identity, Reply, Request};
use onus_store::Access;

use crate::{Entered, Host};

use super::answers::{self, Answer};
use super::grants::Grant;
use super::tools::{Call, Claim};

/// What a client did through this connection last, as the connection's own instance.
pub(super) type Known = Option<Identity>;

/// Everything but a claim.
pub(super) fn carry_out(host: &Host, client: &str, call: Call) -> Result<(Answer, Known), Refusal> {
    match call {
        Call::Ready { limit } => {
            let Entered { mut engine, identity, .. } = (host.enter)(client, Access::Read)?;
            Ok((answers::ready(&engine.ready(Some(&identity), limit)?), None))
        }
        Call::Show(on) => {
            let Entered { mut engine, identity, .. } = (host.enter)(client, Access::Read)?;
            let task = named(host, on.id)?;
            Ok((answers::show(&engine.show(Some(&identity), task.as_ref())?), None))
        }
        Call::Status => {
            let Entered { mut engine, identity, .. } = (host.enter)(client, Access::Read)?;
            Ok((answers::status(&identity, &engine.status(Some(&identity))?), None))
        }
        // A claim can be cancelled, and what it was granted must not be lost: see `claim`.
        Call::Claim(_) => Err(answers::unexpected()),
        Call::Touch(touch) => {
            let paths = touch.paths.iter().map(|path| (host.path)(path)).collect::<Result<_, _>>()?;
            act(host, client, touch.id, Act::Touch { paths }, "yours to change")
        }
        Call::Note(note) => act(host, client, note.id, Act::Note { text: note.text }, "noted"),
        Call::Done(done) => {
            let (verb, past) =
                if done.submit { (Verb::Submit, "is in review") } else { (Verb::Done, "is done") };
            act(host, client, done.id, Act::Move { verb, message: Some(done.message) }, past)
        }
        Call::Release(moved) => {
            let act_ = Act::Move { verb: Verb::Release, message: moved.message };
            act(host, client, moved.id, act_, "is free again")
        }
        Call::Block(moved) => {
            let act_ = Act::Move { verb: Verb::Block, message: moved.message };
            act(host, client, moved.id, act_, "is blocked")
        }
        Call::Add(add) => {
            let plain = Facts::default();
            let facts = Facts {
                kind: add.kind.unwrap_or(plain.kind),
                priority: add.priority.unwrap_or(plain.priority),
                scope: (host.scope)(&add.scope)?,
                ..plain
            };
            let new = NewTask {
                body: add.body,
                facts,
                parent: add.parent.map(TaskLink::Task),
                deps: add.deps.into_iter().map(TaskLink::Task).collect(),
                ..NewTask::titled(add.title)
            };
            let (reply, identity) = change(host, client, Command::Add(new))?;
            Ok((answers::changed(&reply, "added")?, Some(identity)))
        }
    }
}

/// Takes a task, and waits for one as long as nothing is to be read from `stop`.
pub(super) fn claim(
    host: &Host,
    client: &str,
    claim: Claim,
    stop: &std::io::PipeReader,
) -> Result<(Answer, Option<Grant>, Known), Refusal> {
    let scope = (host.scope)(&claim.scope)?;
    let Entered { mut engine, identity, process, worktree, branch } = (host.enter)(client, Access::Write)?;
    let terms = Terms { scope, process, worktree, branch, ..Terms::default() };
    let command = match claim.id {
        Some(task) => Command::OnTask { task: Some(task), act: Act::Claim(terms), force: None },
        None => Command::ClaimNext(terms),
    };
    let request = Request { identity, command, key: None };
    let reply = match claim.wait {
        0 => engine.run(&request)?,
        wait_s => {
            engine.run_or_wait(&request, Duration::from_secs(wait_s), Some(stop.as_fd()), &mut |_| {})?
        }
    };
    let grant = Grant::of(&reply, &request.identity);
    Ok((answers::claimed(&reply)?, grant, Some(request.identity)))
}

fn act(
    host: &Host,
    client: &str,
    task: Option<TaskRef>,
    act: Act,
    past: &str,
) -> Result<(Answer, Known), Refusal> {
    let command = Command::OnTask { task: named(host, task)?, act, force: None };
    let (reply, identity) = change(host, client, command)?;
    Ok((answers::changed(&reply, past)?, Some(identity)))
}

fn change(host: &Host, client: &str, command: Command) -> Result<(Reply, Identity), Refusal> {
    let Entered { mut engine, identity, .. } = (host.enter)(client, Access::Write)?;
    let request = Request { identity, command, key: None };
    let reply = engine.run(&request)?;
    Ok((reply, request.identity))
}

fn named(host: &Host, task: Option<TaskRef>) -> Result<Option<TaskRef>, Refusal> {
    task.map_or_else(&host.task, |task| Ok(Some(task)))
}
