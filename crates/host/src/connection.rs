//! The client of a server that runs here. Every call finds the store, the configuration and the caller again: a repository may be
//! set up, and a conversation registered, long after the server started.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use onus_agents::{Client, KnownHarness, Registry, conversation_of_request};
use onus_core::actor::InstanceId;
use onus_core::command::Command;
use onus_core::lease::Process;
use onus_core::refusal::{Refusal, Step};
use onus_engine::{AnyEngine, Identity, Notice, Request};
use onus_os::{clock, process};
use onus_store::Access;

use crate::Host;

#[derive(Debug)]
pub struct Connection {
    /// The instance of a client of which nothing else is known; unique to this connection.
    pub name: String,
    folder: PathBuf,
    as_actor: Option<String>,
    ancestry: Vec<Process>,
    /// The program that started the server.
    client: Option<Process>,
    /// Whether the client was told that none of its hooks was heard.
    is_warned: AtomicBool,
}

/// The caller of one request, according to the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// The client's name for itself.
    pub client: String,
    pub conversation: Option<String>,
}

impl Asker {
    /// `field` returns a text field of the request's metadata.
    pub fn new(client: String, field: &dyn Fn(&str) -> Option<String>) -> Asker {
        Asker { conversation: conversation_of_request(&client, field), client }
    }
}

/// An open store, and the caller.
#[derive(Debug)]
pub struct Entered {
    pub engine: AnyEngine,
    pub identity: Identity,
    /// The process that its leases are bound to.
    pub process: Option<Process>,
    /// What is wrong with the client's set-up, reported once.
    pub notices: Vec<Notice>,
}

impl Connection {
    /// The client is the current parent of this process; later the parent may be another one.
    pub fn new(host: &Host) -> Connection {
        let ancestry = process::ancestry();
        let name = match ancestry.first() {
            Some(own) => InstanceId::connection(own.pid, own.start).to_string(),
            None => format!("mcp-{}", onus_engine::new_uid(clock::now().wall_ms)),
        };
        Connection {
            name,
            folder: host.folder.clone(),
            as_actor: host.as_actor.clone(),
            client: process::launcher().or_else(|| ancestry.get(1).cloned()),
            ancestry,
            is_warned: AtomicBool::new(false),
        }
    }

    /// The current place and configuration.
    pub fn host(&self) -> Result<Host, Refusal> {
        Host::new(Some(&self.folder), self.as_actor.clone())
    }

    /// Opens the store for a caller.
    pub fn enter(&self, asker: &Asker, access: Access) -> Result<Entered, Refusal> {
        let host = self.host()?;
        let mut engine = host.engine(access)?;
        let (identity, registry) = self.identify(&host, &mut engine, asker)?;
        let is_it = |actor, instance| (actor, instance) == (&identity.actor, &identity.instance);
        let mut known = registry.of_process.iter().chain(&registry.named);
        let registered = known.find(|known| is_it(&known.actor, &known.instance));
        let process = registered.and_then(|known| known.process.clone()).or_else(|| self.client.clone());
        let notices = self.unguarded(asker, &identity, &registry).into_iter().collect();
        Ok(Entered { engine, process, identity, notices })
    }

    /// Registers the client's process, if nothing else has, so that a shell below it is the same instance.
    pub fn introduce(&self, asker: &Asker) -> Result<(), Refusal> {
        let Some(process) = self.client.clone() else { return Ok(()) };
        let host = self.host()?;
        let mut engine = host.engine(Access::Read)?;
        let (identity, registry) = self.identify(&host, &mut engine, asker)?;
        if identity.instance.as_str() != self.name || !registry.of_process.is_empty() {
            return Ok(());
        }
        let command = Command::RegisterInstance {
            actor: identity.actor.clone(),
            instance: identity.instance.clone(),
            process,
            group: None,
        };
        host.engine(Access::Write)?.run(&Request { identity, command, key: None }).map(drop)
    }

    /// Remembers that the notices of [`Connection::enter`] were delivered.
    pub fn has_told(&self, notices: &[Notice]) {
        self.is_warned.fetch_or(!notices.is_empty(), Ordering::Relaxed);
    }

    fn identify(
        &self,
        host: &Host,
        engine: &mut AnyEngine,
        asker: &Asker,
    ) -> Result<(Identity, Registry), Refusal> {
        let client = Client {
            name: &asker.client,
            connection: &self.name,
            conversation: asker.conversation.as_deref(),
        };
        host.identity_of_client(engine, &self.ancestry, client)
    }

    /// A notice if a harness has hooks but none was ever heard: they are not set up, or not trusted, and the harness does not
    /// report that.
    fn unguarded(&self, asker: &Asker, identity: &Identity, registry: &Registry) -> Option<Notice> {
        let harness = KnownHarness::of_client(&asker.client).filter(|harness| harness.has_hooks)?;
        let is_heard = registry.has_heard_a_hook(&identity.actor, &identity.instance);
        if is_heard || self.is_warned.load(Ordering::Relaxed) {
            return None;
        }
        let name = harness.name;
        let message = format!(
            "no hook of {name} has spoken for this conversation: its edits are not guarded, and the files that it changes are not \
             reserved for it"
        );
        let step = format!("ask a person to set up the hooks of {name} here, and to trust them in {name}");
        Some(Notice::info(message).next(Step::plain(step)))
    }
}
