//! Carries out a call: the command that the command line would give. All of this blocks.

use std::os::fd::AsFd as _;
use std::time::Duration;

use onus_core::command::{Act, Command, Intake, NewTask, TaskLink, Terms};
use onus_core::ids::TaskRef;
use onus_core::refusal::Refusal;
use onus_core::task::{Facts, NoteKind, Origin};
use onus_core::transition::Verb;
use onus_engine::{Identity, Notice, Reply, Request};
use onus_store::Access;

use onus_intake::Plain;

use onus_host::gates::{Live, Wanted};
use onus_host::scopes::{Reserved, reserved};
use onus_host::{Asker, Connection, Entered, target};

use super::answers::{self, Answer};
use super::grants::CancellableClaim;
use super::tools::{Add, Call, Claim, OnTask};

/// The identity under which the client acted, if it changed something.
pub(super) type Known = Option<Identity>;

/// Carries out any call except a claim.
pub(super) fn carry_out(
    connection: &Connection,
    asker: &Asker,
    call: Call,
) -> Result<(Answer, Known), Refusal> {
    match call {
        Call::Ready { limit } => {
            let Entered { mut engine, identity, notices, .. } = connection.enter(asker, Access::Read)?;
            let mut ready = engine.ready(Some(&identity), limit)?;
            tell(connection, notices, &mut ready.notices);
            Ok((answers::ready(&ready), None))
        }
        Call::Show(on) => {
            let Entered { mut engine, identity, notices, .. } = connection.enter(asker, Access::Read)?;
            let task = target(on.id)?;
            let mut shown = engine.show(Some(&identity), task.as_ref())?;
            tell(connection, notices, &mut shown.notices);
            Ok((answers::show(&shown), None))
        }
        Call::Status => {
            let Entered { mut engine, identity, notices, .. } = connection.enter(asker, Access::Read)?;
            let mut status = engine.status(Some(&identity))?;
            tell(connection, notices, &mut status.notices);
            let forecast = connection.host()?.forecast(&mut engine);
            Ok((answers::status(&identity, &status, &forecast), None))
        }
        Call::GateRun(asked) => run_gates(connection, asker, asked),
        // A claim can be cancelled, and its grant must not be lost: see `claim`.
        Call::Claim(_) => Err(answers::unexpected()),
        Call::Touch(touch) => {
            let (paths, touched) = connection.host()?.touched(&touch.paths)?;
            let act = Act::Touch { paths: paths.clone(), touched, extent: Default::default() };
            let command = Command::OnTask { task: target(touch.id)?, act, force: None };
            let (reply, identity) = change(connection, asker, command)?;
            Ok((answers::touched(&reply, &paths)?, Some(identity)))
        }
        Call::Note(note) => {
            let kind = note.kind.unwrap_or(NoteKind::Progress);
            act(connection, asker, note.id, Act::Note { text: note.text, kind, link: None }, "noted")
        }
        Call::Done(done) => {
            let (verb, past) =
                if done.submit { (Verb::Submit, "is in review") } else { (Verb::Done, "is done") };
            act(connection, asker, done.id, Act::moved(verb, Some(done.message)), past)
        }
        Call::Release(moved) => {
            let release = Act::moved(Verb::Release, moved.message);
            act(connection, asker, moved.id, release, "is free again")
        }
        Call::Block(moved) => {
            act(connection, asker, moved.id, Act::moved(Verb::Block, moved.message), "is blocked")
        }
        Call::Add(add) => {
            let plain = Facts::default();
            let Reserved { scope, areas, notices } = reserved(&connection.host()?, &add.scope)?;
            let facts = Facts {
                kind: add.kind.unwrap_or(plain.kind),
                priority: add.priority.unwrap_or(plain.priority),
                scope,
                scope_areas: areas,
                ..plain
            };
            let ask = match &add.origin {
                Some(origin) => Some(ask(connection, origin, &add)?),
                None if add.link.is_some() => {
                    return Err(Refusal::usage("add: link: only an ask with an origin has one"));
                }
                None => None,
            };
            let (parent, deps) =
                (add.parent.map(TaskLink::Task), add.deps.into_iter().map(TaskLink::Task).collect());
            let (command, past) = match ask {
                Some(asked) => {
                    let past = if asked.propose { "proposed" } else { "added" };
                    let facts = Facts { link: asked.facts.link.clone(), ..facts };
                    let new = NewTask { facts, parent, deps, ..asked };
                    (Command::Intake(Intake { new, refresh: false, is_reply: false }), past)
                }
                None => {
                    let new = NewTask { body: add.body, facts, parent, deps, ..NewTask::titled(add.title) };
                    (Command::Add(new), "added")
                }
            };
            let (mut reply, identity) = change(connection, asker, command)?;
            reply.notices.extend(notices.into_iter().map(Notice::info));
            Ok((answers::changed(&reply, past)?, Some(identity)))
        }
    }
}

/// Runs gates of a task, one after the other.
fn run_gates(connection: &Connection, asker: &Asker, asked: OnTask) -> Result<(Answer, Known), Refusal> {
    let Entered { mut engine, identity, notices, .. } = connection.enter(asker, Access::Write)?;
    let host = connection.host()?;
    let round =
        host.plan_gates(&mut engine, Some(&identity), target(asked.id)?.as_ref(), &Wanted::default())?;
    drop(engine);
    let came = host.run_round(&identity, &round, 1, &|_| Live::Silent, None, &|_| {});
    connection.has_told(&notices);
    Ok((answers::gates(&host, &round, &came, &notices), Some(identity)))
}

/// An ask that came to the agent from elsewhere, by the rules of every channel: proposed, unless its channel is trusted.
fn ask(connection: &Connection, origin: &str, add: &Add) -> Result<NewTask, Refusal> {
    let origin: Origin = origin.parse()?;
    let (channel, reference) = origin.as_str().split_once(':').unwrap_or_default();
    let (_, trusted) = connection.host()?.config.channel(channel)?;
    let plain = Plain {
        reference,
        title: &add.title,
        body: add.body.as_deref(),
        link: add.link.as_deref(),
        author: None,
    };
    let ask = plain.ask(channel).map_err(|fault| Refusal::usage(format!("{channel}: {fault}")))?;
    Ok(ask.into_task(!trusted))
}

/// Claims a task. Waits for one until `stop` becomes readable, if the call asks for that.
pub(super) fn claim(
    connection: &Connection,
    asker: &Asker,
    claim: Claim,
    stop: &std::io::PipeReader,
) -> Result<(Answer, Option<CancellableClaim>, Known), Refusal> {
    let host = connection.host()?;
    let Reserved { scope, areas, notices } = reserved(&host, &claim.scope)?;
    let Entered { mut engine, identity, process, notices: of_client } =
        connection.enter(asker, Access::Write)?;
    let terms = Terms { scope, scope_areas: areas, process, ..host.terms() };
    let command = match claim.id {
        Some(task) => Command::OnTask { task: Some(task), act: Act::Claim(terms), force: None },
        None => Command::ClaimNext(terms),
    };
    let command = host.with_local_facts(&mut engine, &identity, command);
    let request = Request { identity, command, key: None };
    let mut reply = match claim.wait {
        0 => engine.run_or_wish(&request)?,
        wait_s => {
            engine.run_or_wait(&request, Duration::from_secs(wait_s), Some(stop.as_fd()), &mut |_| {})?
        }
    };
    reply.notices.extend(notices.into_iter().map(Notice::info));
    tell(connection, of_client, &mut reply.notices);
    let grant = CancellableClaim::of(&reply, &request.identity);
    Ok((answers::claimed(&reply)?, grant, Some(request.identity)))
}

fn act(
    connection: &Connection,
    asker: &Asker,
    task: Option<TaskRef>,
    act: Act,
    past: &str,
) -> Result<(Answer, Known), Refusal> {
    let moves = matches!(act, Act::Move { .. });
    let command = Command::OnTask { task: target(task)?, act, force: None };
    let (mut reply, identity) = change(connection, asker, command)?;
    if let (true, onus_engine::Answer::Task(task)) = (moves, &reply.answer) {
        let left = connection.host()?.left_to_land(task);
        reply.notices.extend(left);
    }
    Ok((answers::changed(&reply, past)?, Some(identity)))
}

fn change(connection: &Connection, asker: &Asker, command: Command) -> Result<(Reply, Identity), Refusal> {
    let Entered { mut engine, identity, notices, .. } = connection.enter(asker, Access::Write)?;
    let command = connection.host()?.with_local_facts(&mut engine, &identity, command);
    let request = Request { identity, command, key: None };
    let mut reply = engine.take_in(&request)?;
    tell(connection, notices, &mut reply.notices);
    Ok((reply, request.identity))
}

/// Adds notices about the client itself to an answer. A refusal does not get them: they are shown only once.
fn tell(connection: &Connection, of_client: Vec<Notice>, notices: &mut Vec<Notice>) {
    connection.has_told(&of_client);
    notices.extend(of_client);
}
