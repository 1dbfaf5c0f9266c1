//! What every command needs: the place, the configuration, the caller's identity, and the engine.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_agents::{Client, Clues, Registry, Who, identify, named_conversations, user_name};
use onus_core::actor::ActorName;
use onus_core::command::{Act, Command};
use onus_core::ids::{TaskRef, Token};
use onus_core::lease::Process;
use onus_core::quote;
use onus_core::refusal::{Code, Refusal, Step};
use onus_dispatch::group;
use onus_engine::{Ancestry, AnyEngine, Engine, Identity, Orphan, Outside, Request};
use onus_os::process;
use onus_repo::{Place, Repository, discover};
use onus_store::{Access, Address, Spelling, StoreError};

use crate::config::{Config, SHARED_FILE, Source, state_folder, user_file};
use crate::joining::Joining;
use crate::landing;
use crate::rescue;
use crate::store_at::StoreAt;
use crate::worktree::look;

/// The folder that a command is given in, with its repository and configuration.
#[derive(Debug)]
pub struct Host {
    pub config: Config,
    pub place: Option<Place>,
    pub folder: PathBuf,
    /// `--as`.
    pub(crate) as_actor: Option<String>,
}

/// An environment variable, lossily converted to UTF-8, so that a harness's marker is recognised whatever its value.
pub fn env(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Refuses variables of our own that are not UTF-8, so that none is treated as unset.
fn check_environment() -> Result<(), Refusal> {
    let mut unreadable = std::env::vars_os().filter(|(_, value)| value.to_str().is_none());
    match unreadable.find(|(name, _)| name.to_string_lossy().starts_with("ONUS_")) {
        Some((name, _)) => Err(Refusal::usage(format!("{} is not UTF-8 text", name.to_string_lossy()))),
        None => Ok(()),
    }
}

/// How long the processes of a dead holder may take to end before they are killed.
const ORPHAN_GRACE: Duration = Duration::from_secs(2);

/// Ends the processes that a dead holder left running. Returns messages about what was ended and what was left.
pub fn end_orphan(orphan: &Orphan) -> Vec<String> {
    let told = match group::end(orphan.instance.as_str(), orphan.group, ORPHAN_GRACE) {
        Ok(told) => told,
        Err(error) => return vec![format!("could not end what its dead holder left running: {error}")],
    };
    let pids: Vec<String> = told.ended.iter().map(ToString::to_string).collect();
    let ended = (!pids.is_empty())
        .then(|| format!("ended what its dead holder left running: process {}", pids.join(", ")));
    let left = told.left.iter().map(|left| {
        format!(
            "left process {} ({}) of its dead holder's group running: it {}",
            left.pid,
            quote::name(&left.comm),
            left.why
        )
    });
    ended.into_iter().chain(left).collect()
}

/// The folder of the shared file. Outside git it is searched for upwards, since it is the only sign of a folder whose store is on a
/// server.
fn shared_folder<'a>(place: &'a Option<Place>, folder: &'a Path) -> Option<&'a Path> {
    match place {
        Some(place) => Some(&place.root),
        None => folder.ancestors().find(|folder| folder.join(SHARED_FILE).is_file()),
    }
}

impl Host {
    /// `folder`: by default the current one. `as_actor`: the actor that the caller names.
    pub fn new(folder: Option<&Path>, as_actor: Option<String>) -> Result<Host, Refusal> {
        check_environment()?;
        let folder = match folder {
            Some(folder) => folder
                .canonicalize()
                .map_err(|error| Refusal::usage(format!("cannot enter {}: {error}", folder.display())))?,
            None => std::env::current_dir()
                .map_err(|error| Refusal::usage(format!("cannot enter this folder: {error}")))?,
        };
        let place = discover(&folder);
        if let Some(place) = &place {
            place.check_owner()?;
        }
        let config = Config::load(shared_folder(&place, &folder), user_file().as_deref(), &env)?;
        Ok(Host { config, place, folder, as_actor })
    }

    /// Reads place and configuration again, for the same folder and caller.
    pub fn reload(&self) -> Result<Host, Refusal> {
        Host::new(Some(&self.folder), self.as_actor.clone())
    }

    /// The folder of the shared configuration file, which need not exist.
    pub(crate) fn shared_folder(&self) -> &Path {
        shared_folder(&self.place, &self.folder).unwrap_or(&self.folder)
    }

    /// The repository, for calls of git; None outside git.
    pub fn repository(&self) -> Result<Option<Repository>, Refusal> {
        match &self.place {
            Some(place) => Ok(Repository::new(place)?),
            None => Ok(None),
        }
    }

    /// Where the store is: as configured, else the repository's file.
    pub fn store_at(&self) -> Result<StoreAt, Refusal> {
        if let Some((address, source)) = self.config.get("store.path") {
            return self.store_named(address, &source.to_string());
        }
        match &self.place {
            Some(place) => Ok(StoreAt::File(place.store.clone())),
            None => Err(StoreError::Missing(self.folder.join(".onus")).into()),
        }
    }

    /// The store with this address; `source` says where the address is from.
    pub fn store_named(&self, address: &str, source: &str) -> Result<StoreAt, Refusal> {
        match Spelling::of(address) {
            Spelling::File(path) => Ok(StoreAt::File(path)),
            Spelling::Server => {
                let password = env("PGPASSWORD").filter(|password| !password.is_empty());
                let address = Address::parse(address, password.as_deref(), self.config.store_wait())?;
                let project = self.config.get("project.name").map(|(name, _)| name.to_owned());
                let joining = self.joining(&address);
                Ok(StoreAt::Server { address: Box::new(address), project, joining })
            }
            Spelling::Neither => Err(Refusal::usage(format!(
                "{source}: a store is a local file or postgres://USER@HOST/DATABASE; this is neither, and is \
                 not repeated here because it may contain a password"
            ))
            .next(Step::plain("start the path of a file with / or ./"))),
        }
    }

    /// What a person has to confirm first, if the repository itself names the project on a server.
    fn joining(&self, address: &Address) -> Option<Joining> {
        let (project, Source::File(file)) = self.config.get("project.name")? else { return None };
        if project.is_empty() || user_file().as_ref() == Some(file) {
            return None;
        }
        let common_dir = self.place.as_ref().and_then(|place| place.common_dir.as_deref());
        let clone = common_dir.or(file.parent()).unwrap_or(&self.folder);
        Some(Joining::new(clone, state_folder().as_deref(), address, project))
    }

    pub fn engine(&self, access: Access) -> Result<AnyEngine, Refusal> {
        self.engine_within(access, self.config.store_wait())
    }

    /// The engine, for a caller that waits at most `wait` for other writers.
    pub fn engine_within(&self, access: Access, wait: Duration) -> Result<AnyEngine, Refusal> {
        let at = self.store_at()?;
        let store = at.open(access, wait)?;
        let [looking, rescuing, settling] = [self.place.clone(), self.place.clone(), self.place.clone()];
        let (limits, is_shared) = (self.config.rescue_limits(), matches!(at, StoreAt::Server { .. }));
        let remote = self.config.get("land.remote").map(|(name, _)| name.to_owned());
        let outside = Outside {
            end_orphan: Box::new(end_orphan),
            look: Box::new(move |worktree, files| look(looking.as_ref(), worktree, files)),
            rescue: Box::new(move |due| rescue::keep(rescuing.as_ref(), limits, is_shared, due)),
            settle: Box::new(move |begun| landing::settle(settling.as_ref(), remote.as_deref(), begun)),
            ..Outside::default()
        };
        Ok(Engine::with_outside(store, self.config.policy(), outside))
    }

    /// The caller's identity, or why it is not clear.
    pub fn identity(&self, engine: &mut AnyEngine) -> Result<Identity, Refusal> {
        if self.says_everything() {
            return self.identity_with(&Registry::default(), Ancestry::Own, None);
        }
        let ancestry = process::ancestry();
        let registry = self.registry(engine, &ancestry, None)?;
        self.identity_with(&registry, Ancestry::Known(ancestry), None)
    }

    /// The identity of an agent that calls itself a person: the one that its harness or the process above it gives it.
    pub fn own_identity(&self, engine: &mut AnyEngine) -> Result<Identity, Refusal> {
        let ancestry = process::ancestry();
        let registry = self.registry(engine, &ancestry, None)?;
        let unnamed = |name: &str| env(name).filter(|_| name != "ONUS_ACTOR");
        let who = self.who_by(&registry, None, None, &unnamed)?;
        self.identity_of(who, Ancestry::Known(ancestry))
    }

    /// The identity of a server's client, and what the store knows about it. `ancestry`: the processes above the server.
    pub fn identity_of_client(
        &self,
        engine: &mut AnyEngine,
        ancestry: &[Process],
        client: Client<'_>,
    ) -> Result<(Identity, Registry), Refusal> {
        let registry = self.registry(engine, ancestry, Some(client))?;
        let identity = self.identity_with(&registry, Ancestry::Known(ancestry.to_vec()), Some(client))?;
        Ok((identity, registry))
    }

    /// The caller's identity with the reasons for it, and the registered process above it.
    pub fn who(&self, engine: &mut AnyEngine) -> Result<(Who, Option<Process>), Refusal> {
        let registry = self.registry(engine, &process::ancestry(), None)?;
        let process = registry.of_process.first().and_then(|known| known.process.clone());
        Ok((self.who_with(&registry, None)?, process))
    }

    /// What the store knows about possible callers.
    fn registry(
        &self,
        engine: &mut AnyEngine,
        ancestry: &[Process],
        client: Option<Client<'_>>,
    ) -> Result<Registry, Refusal> {
        let named = named_conversations(&env, self.said_actor().as_ref(), client);
        let (mut of_process, named) = engine.registered(ancestry, &named)?;
        of_process.retain(|known| known.instance.of_connection().is_none_or(is_running));
        Ok(Registry { of_process, named })
    }

    /// The caller's identity before there is a store.
    pub fn identity_without_store(&self) -> Result<Identity, Refusal> {
        self.identity_with(&Registry::default(), Ancestry::Own, None)
    }

    fn identity_with(
        &self,
        registry: &Registry,
        ancestry: Ancestry,
        client: Option<Client<'_>>,
    ) -> Result<Identity, Refusal> {
        self.identity_of(self.who_with(registry, client)?, ancestry)
    }

    fn identity_of(&self, who: Who, ancestry: Ancestry) -> Result<Identity, Refusal> {
        let token = env("ONUS_TOKEN").filter(|text| !text.is_empty()).map(|text| {
            text.parse::<u64>().map(Token).map_err(|_| {
                Refusal::usage(format!(
                    "ONUS_TOKEN: '{}' is not a whole number",
                    onus_core::ids::shortened(&text)
                ))
            })
        });
        Ok(Identity {
            known_by: who.known_by(),
            actor: who.actor,
            instance: who.instance,
            token: match token.transpose()? {
                Some(token) => Some((target(None)?, token)),
                None => None,
            },
            ancestry,
        })
    }

    fn who_with(&self, registry: &Registry, client: Option<Client<'_>>) -> Result<Who, Refusal> {
        self.who_by(registry, client, self.as_actor.as_deref(), &env)
    }

    fn who_by(
        &self,
        registry: &Registry,
        client: Option<Client<'_>>,
        flag: Option<&str>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Who, Refusal> {
        let at_terminal = std::io::stdin().is_terminal()
            || std::io::stdout().is_terminal()
            || std::io::stderr().is_terminal();
        let configured = match self.config.get("identity.actor") {
            Some((actor, Source::File(_))) => Some(actor),
            _ => None,
        };
        let root = self.place.as_ref().map_or(self.folder.as_path(), |place| place.root.as_path());
        identify(&Clues {
            flag,
            env,
            registry,
            configured,
            terminal_user: if at_terminal { user_name(env) } else { None },
            worktree: root,
            client,
        })
    }

    /// The engine for reading, and the caller if it is known: reads need no name.
    pub fn reader(&self) -> Result<(AnyEngine, Option<Identity>), Refusal> {
        let mut engine = self.engine(Access::Read)?;
        let identity = match self.identity(&mut engine) {
            Ok(identity) => Some(identity),
            // Reading needs no identity; but a name that was given wrongly is an error.
            Err(refusal) if refusal.code == Code::Identity && !self.is_named() => None,
            Err(refusal) => return Err(refusal),
        };
        Ok((engine, identity))
    }

    /// Whether an agent names both itself and its instance, so that registered processes need not be read.
    fn says_everything(&self) -> bool {
        self.said_actor().is_some_and(|actor| !actor.is_person())
            && env("ONUS_INSTANCE").is_some_and(|name| !name.is_empty())
    }

    /// The actor that the caller names.
    fn said_actor(&self) -> Option<ActorName> {
        self.as_actor.clone().or_else(|| env("ONUS_ACTOR")).and_then(|name| name.parse().ok())
    }

    /// Whether the caller names an actor.
    fn is_named(&self) -> bool {
        self.as_actor.is_some() || env("ONUS_ACTOR").is_some_and(|name| !name.is_empty())
    }
}

/// Whether a connection's server still runs. Only then does its registration of a process above this one count.
fn is_running((pid, start): (u32, u64)) -> bool {
    process::identify(pid).is_ok_and(|process| process.start == start)
}

/// A request for an act on a task.
pub(crate) fn on_task(identity: Identity, task: impl Into<TaskRef>, act: Act) -> Request {
    let command = Command::OnTask { task: Some(task.into()), act, force: None };
    Request { identity, command, key: None }
}

/// The task that a command is about: the named one, else `ONUS_TASK`; None means the one that the caller holds.
pub fn target(reference: Option<TaskRef>) -> Result<Option<TaskRef>, Refusal> {
    match reference {
        Some(reference) => Ok(Some(reference)),
        None => {
            let named = env("ONUS_TASK").filter(|text| !text.is_empty());
            let wrong = |refusal: Refusal| {
                let message = format!("ONUS_TASK: {}", refusal.message);
                Refusal { message, ..refusal }
            };
            named.map(|text| text.parse().map_err(wrong)).transpose()
        }
    }
}
