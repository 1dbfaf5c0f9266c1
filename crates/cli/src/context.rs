//! What every command needs: where it is called, by whom, and where its answer goes.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use onus_core::actor::ActorKind;
use onus_core::command::Command;
use onus_core::ids::Token;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::scope::{Areas, Scope};
use onus_engine::{AnyEngine, Notice, Reply, Request};
use onus_host::Host;
use onus_host::scopes::{self, Reserved};
use onus_store::Access;

use crate::output::Output;

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) out: Output,
    pub(crate) host: Host,
    /// Remarks to print besides the answer.
    asides: RefCell<Vec<String>>,
}

impl Context {
    pub(crate) fn new(
        folder: Option<&Path>,
        as_actor: Option<String>,
        json: bool,
    ) -> Result<Context, Refusal> {
        let host = Host::new(folder, as_actor)?;
        let out = Output::new(json, host.config.color());
        Ok(Context { out, host, asides: RefCell::default() })
    }

    /// Refuses agents: none removes what checks its own edits and commits.
    pub(crate) fn refuse_agents(&self, what: &str) -> Result<(), Refusal> {
        let known = match self.host.reader() {
            Ok((_, known)) => known,
            Err(_) => self.host.identity_without_store().ok(),
        };
        match known.filter(|identity| identity.actor.kind() == ActorKind::Agent) {
            Some(agent) => Err(Refusal::new(
                Code::NotAllowed,
                format!(
                    "{} may not {what}: that can lift checks on agents, so only a person may",
                    agent.actor
                ),
            )
            .next(Step::plain("ask a person"))),
            None => Ok(()),
        }
    }

    /// Carries out one command.
    pub(crate) fn run(&self, command: Command, key: Option<String>) -> Result<Reply, Refusal> {
        self.run_with(command, key, |engine, request| engine.run_or_wish(request))
    }

    /// Like [`Context::run`], but presents a token that was given with the command, for the task or seat it names.
    pub(crate) fn run_presenting(
        &self,
        token: Option<Token>,
        command: Command,
        key: Option<String>,
    ) -> Result<Reply, Refusal> {
        self.run_with(command, key, |engine, request| {
            let mut request = request.clone();
            if let Some(token) = token {
                request.identity.token = Some((None, token));
            }
            engine.run(&request)
        })
    }

    /// Takes in an ask from outside.
    pub(crate) fn take_in(&self, command: Command, key: Option<String>) -> Result<Reply, Refusal> {
        self.run_with(command, key, |engine, request| engine.take_in(request))
    }

    /// Carries out several commands, each in a transaction of its own.
    pub(crate) fn run_each(&self, commands: Vec<Command>) -> Result<Vec<Result<Reply, Refusal>>, Refusal> {
        let mut engine = self.host.engine(Access::Write)?;
        let identity = self.host.identity(&mut engine)?;
        let run = |command| {
            let command = self.host.with_local_facts(&mut engine, &identity, command);
            engine.run(&Request { identity: identity.clone(), command, key: None })
        };
        Ok(commands.into_iter().map(run).collect())
    }

    /// Returns the answer that the command would get, and changes nothing.
    pub(crate) fn rehearse(&self, command: Command, key: Option<String>) -> Result<Reply, Refusal> {
        self.run_with(command, key, |engine, request| engine.rehearse(request))
    }

    /// Like [`Context::run`], but if the request is refused only for now, waits up to this long.
    pub(crate) fn run_or_wait(
        &self,
        command: Command,
        key: Option<String>,
        patience: Duration,
        begun: &mut dyn FnMut(&Refusal),
    ) -> Result<Reply, Refusal> {
        self.run_with(command, key, |engine, request| engine.run_or_wait(request, patience, None, begun))
    }

    fn run_with(
        &self,
        command: Command,
        key: Option<String>,
        work: impl FnOnce(&mut AnyEngine, &Request) -> Result<Reply, Refusal>,
    ) -> Result<Reply, Refusal> {
        let mut engine = self.host.engine(Access::Write)?;
        let identity = self.host.identity(&mut engine)?;
        let command = self.host.with_local_facts(&mut engine, &identity, command);
        let outcome = work(&mut engine, &Request { identity, command, key });
        // The process ends with this answer, and the system closes its files faster than SQLite frees its memory, which
        // would make a claim 6 % more expensive (4.07 million instructions against 3.84).
        std::mem::forget(engine);
        outcome.map(|reply| self.with_asides(reply))
    }

    /// What these globs and areas reserve, and which globs an area stands for; remarks are printed with the answer.
    pub(crate) fn scope(&self, globs: &[String]) -> Result<(Scope, Areas), Refusal> {
        let Reserved { scope, areas, notices } = scopes::reserved(&self.host, globs)?;
        self.asides.borrow_mut().extend(notices);
        Ok((scope, areas))
    }

    pub(crate) fn with_asides(&self, mut reply: Reply) -> Reply {
        reply.notices.extend(self.asides.take().into_iter().map(Notice::info));
        reply
    }
}
