//! What every command needs: where it is, how it is configured, who calls, and the engine.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_agents::{Client, Clues, Who, conversation_variables, identify, user_name};
use onus_core::actor::ActorName;
use onus_core::ids::{TaskRef, Token};
use onus_core::lease::Process;
use onus_core::refusal::{Code, Refusal};
use onus_dispatch::group;
use onus_engine::{Ancestry, Engine, Identity, Orphan, Reply, Request, process};
use onus_repo::{Place, discover};
use onus_store::{Access, Address, AnyStore, KnownInstance, PostgresStore, SqliteStore, StoreError};

use crate::config::{Config, user_file};
use crate::output::Output;

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) out: Output,
    pub(crate) config: Config,
    pub(crate) place: Option<Place>,
    pub(crate) folder: PathBuf,
    /// `--as`.
    as_actor: Option<String>,
}

/// A variable of the environment. What is not UTF-8 in it is marked: a harness's marker still is one.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Our own variables are names and numbers: one that cannot be read must not pass for one that is not set.
fn check_environment() -> Result<(), Refusal> {
    let mut unreadable = std::env::vars_os().filter(|(_, value)| value.to_str().is_none());
    match unreadable.find(|(name, _)| name.to_string_lossy().starts_with("ONUS_")) {
        Some((name, _)) => Err(Refusal::usage(format!("{} is not UTF-8 text", name.to_string_lossy()))),
        None => Ok(()),
    }
}

/// How long a dead holder's processes may take to end themselves.
const ORPHAN_GRACE: Duration = Duration::from_secs(2);

/// Ends what a dead holder left running, and says what was done and what was left.
pub(crate) fn end_orphan(orphan: &Orphan) -> Vec<String> {
    let told = match group::end(orphan.instance.as_str(), orphan.group, ORPHAN_GRACE) {
        Ok(told) => told,
        Err(error) => return vec![format!("what its dead holder left running could not be ended: {error}")],
    };
    let pids: Vec<String> = told.ended.iter().map(ToString::to_string).collect();
    let ended = (!pids.is_empty())
        .then(|| format!("ended what its dead holder left running: process {}", pids.join(", ")));
    let left = told.left.iter().map(|left| {
        format!("process {} ({}) of its dead holder's group was left: it {}", left.pid, left.comm, left.why)
    });
    ended.into_iter().chain(left).collect()
}

impl Context {
    pub(crate) fn new(
        folder: Option<&Path>,
        as_actor: Option<String>,
        json: bool,
    ) -> Result<Context, Refusal> {
        check_environment()?;
        let folder = match folder {
            Some(folder) => folder.canonicalize().map_err(|error| {
                Refusal::usage(format!("{} cannot be entered: {error}", folder.display()))
            })?,
            None => std::env::current_dir()
                .map_err(|error| Refusal::usage(format!("this folder cannot be entered: {error}")))?,
        };
        let place = discover(&folder);
        // Outside git, a folder whose store is on a server has nothing else to be known by.
        let shared = match &place {
            Some(place) => Some(place.root.join("onus.toml")),
            None => folder.ancestors().map(|folder| folder.join("onus.toml")).find(|file| file.is_file()),
        };
        let config = Config::load(shared.as_deref(), user_file(&env).as_deref(), &env)?;
        let out = Output::new(json, config.color());
        Ok(Context { out, config, place, folder, as_actor })
    }

    /// The same place found anew, as often as it is asked for: of a program that lives long, the store and the
    /// configuration may change.
    pub(crate) fn again(&self) -> impl Fn() -> Result<Context, Refusal> + Send + Sync + use<> {
        let (folder, as_actor, json) = (self.folder.clone(), self.as_actor.clone(), self.out.json);
        move || Context::new(Some(&folder), as_actor.clone(), json)
    }

    /// Where the store is: as configured, else the repository's file.
    pub(crate) fn store_at(&self) -> Result<StoreAt, Refusal> {
        if let Some((address, source)) = self.config.get("store.path") {
            return self.store_named(address, &source.to_string());
        }
        match &self.place {
            Some(place) => Ok(StoreAt::File(place.store.clone())),
            None => Err(StoreError::Missing(self.folder.join(".onus")).into()),
        }
    }

    /// The store with this address; `source` says who gave it.
    pub(crate) fn store_named(&self, address: &str, source: &str) -> Result<StoreAt, Refusal> {
        if Address::is_one(address) {
            let password = env("PGPASSWORD").filter(|password| !password.is_empty());
            let address = Address::parse(address, password.as_deref(), self.config.store_wait())?;
            let project = self.config.get("project.name").map(|(name, _)| name.to_owned());
            return Ok(StoreAt::Server { address: Box::new(address), project });
        }
        let file = local_path(address).ok_or_else(|| {
            Refusal::usage(format!("{source}: a store is a local file, or postgres://USER@HOST/DATABASE"))
        })?;
        Ok(StoreAt::File(file))
    }

    pub(crate) fn engine(&self, access: Access) -> Result<Engine<AnyStore>, Refusal> {
        self.engine_within(access, self.config.store_wait())
    }

    /// The same for a caller with little patience for other writers.
    pub(crate) fn engine_within(&self, access: Access, wait: Duration) -> Result<Engine<AnyStore>, Refusal> {
        let store = self.store_at()?.open(access, wait)?;
        Ok(Engine::new(store, self.config.policy()).ending_orphans(end_orphan))
    }

    /// Who calls, or why that is not clear.
    pub(crate) fn identity(&self, engine: &mut Engine<AnyStore>) -> Result<Identity, Refusal> {
        if self.says_everything() {
            return self.identity_with(None, Ancestry::Own, None);
        }
        let ancestry = process::ancestry();
        let registered = registered_among(engine, &ancestry)?;
        self.identity_with(registered.as_ref(), Ancestry::Known(ancestry), None)
    }

    /// Who asks through a server that has these processes above it, and the process of that instance if it is registered.
    pub(crate) fn identity_of_client(
        &self,
        engine: &mut Engine<AnyStore>,
        ancestry: &[Process],
        client: Client<'_>,
    ) -> Result<(Identity, Option<Process>), Refusal> {
        let registered = registered_among(engine, ancestry)?;
        let identity =
            self.identity_with(registered.as_ref(), Ancestry::Known(ancestry.to_vec()), Some(client))?;
        let process = registered
            .filter(|known| known.actor == identity.actor && known.instance == identity.instance)
            .and_then(|known| known.process);
        Ok((identity, process))
    }

    /// Who calls, and how that is known.
    pub(crate) fn who(&self, engine: &mut Engine<AnyStore>) -> Result<(Who, Option<KnownInstance>), Refusal> {
        let registered = registered_among(engine, &process::ancestry())?;
        Ok((self.who_with(registered.as_ref(), None)?, registered))
    }

    /// The same before there is a store to ask.
    pub(crate) fn identity_without_store(&self) -> Result<Identity, Refusal> {
        self.identity_with(None, Ancestry::Own, None)
    }

    fn identity_with(
        &self,
        registered: Option<&KnownInstance>,
        ancestry: Ancestry,
        client: Option<Client<'_>>,
    ) -> Result<Identity, Refusal> {
        let who = self.who_with(registered, client)?;
        let token = env("ONUS_TOKEN").filter(|text| !text.is_empty()).map(|text| {
            text.parse::<u64>().map(Token).map_err(|_| {
                Refusal::usage(format!("ONUS_TOKEN is not a token: '{}'", onus_core::ids::shortened(&text)))
            })
        });
        Ok(Identity {
            actor: who.actor,
            instance: who.instance,
            known_by: who.known_by,
            token: match token.transpose()? {
                Some(token) => Some((target(None)?, token)),
                None => None,
            },
            ancestry,
        })
    }

    fn who_with(
        &self,
        registered: Option<&KnownInstance>,
        client: Option<Client<'_>>,
    ) -> Result<Who, Refusal> {
        let at_terminal = std::io::stdin().is_terminal()
            || std::io::stdout().is_terminal()
            || std::io::stderr().is_terminal();
        let configured = match self.config.get("identity.actor") {
            Some((actor, crate::config::Source::File(_))) => Some(actor),
            _ => None,
        };
        let root = self.place.as_ref().map_or(self.folder.as_path(), |place| place.root.as_path());
        identify(&Clues {
            flag: self.as_actor.as_deref(),
            env: &env,
            registered,
            configured,
            terminal_user: if at_terminal { user_name(&env) } else { None },
            worktree: root,
            client,
        })
    }

    /// The engine for reading, and who asks if that is clear: reads need no name.
    pub(crate) fn reader(&self) -> Result<(Engine<AnyStore>, Option<Identity>), Refusal> {
        let mut engine = self.engine(Access::Read)?;
        let identity = match self.identity(&mut engine) {
            Ok(identity) => Some(identity),
            // Nobody in particular may read; a name that was given wrongly is still an error.
            Err(refusal) if refusal.code == Code::Identity && !self.is_named() => None,
            Err(refusal) => return Err(refusal),
        };
        Ok((engine, identity))
    }

    /// Whether an agent names both itself and its instance: a registered process could add nothing.
    fn says_everything(&self) -> bool {
        let said = self
            .as_actor
            .clone()
            .or_else(|| env("ONUS_ACTOR"))
            .and_then(|name| name.parse::<ActorName>().ok());
        said.is_some_and(|actor| !actor.is_person())
            && env("ONUS_INSTANCE").is_some_and(|name| !name.is_empty())
    }

    /// Whether somebody said who calls.
    fn is_named(&self) -> bool {
        self.as_actor.is_some() || env("ONUS_ACTOR").is_some_and(|name| !name.is_empty())
    }

    /// Carries out one command.
    pub(crate) fn run(
        &self,
        command: onus_core::command::Command,
        key: Option<String>,
    ) -> Result<Reply, Refusal> {
        self.run_with(command, key, |engine, request| engine.run(request))
    }

    /// What carrying it out would answer; nothing is changed.
    pub(crate) fn rehearse(
        &self,
        command: onus_core::command::Command,
        key: Option<String>,
    ) -> Result<Reply, Refusal> {
        self.run_with(command, key, |engine, request| engine.rehearse(request))
    }

    /// The same as [`Context::run`], but what is refused for now is waited for, up to this time.
    pub(crate) fn run_or_wait(
        &self,
        command: onus_core::command::Command,
        key: Option<String>,
        patience: Duration,
        begun: &mut dyn FnMut(&Refusal),
    ) -> Result<Reply, Refusal> {
        self.run_with(command, key, |engine, request| engine.run_or_wait(request, patience, None, begun))
    }

    fn run_with(
        &self,
        command: onus_core::command::Command,
        key: Option<String>,
        work: impl FnOnce(&mut Engine<AnyStore>, &Request) -> Result<Reply, Refusal>,
    ) -> Result<Reply, Refusal> {
        let mut engine = self.engine(Access::Write)?;
        let identity = self.identity(&mut engine)?;
        let outcome = work(&mut engine, &Request { identity, command, key });
        // The process ends with this answer, and the system closes its files faster than SQLite tidies its memory.
        std::mem::forget(engine);
        outcome
    }
}

/// The instance whose process is among these. Where one process runs several conversations, the harness's variable says
/// which, if a hook has registered that one, too. Where none can be seen, as in a sandbox, and one harness was started by
/// another, whose variables it has, too, it is the one that was started last.
fn registered_among(
    engine: &mut Engine<AnyStore>,
    ancestry: &[Process],
) -> Result<Option<KnownInstance>, Refusal> {
    let registered = engine.registered_among(ancestry)?;
    let (variables, mut named) = (conversation_variables(&env), Vec::new());
    let is_one = variables.len() == 1;
    for (actor, instance) in variables {
        if registered.as_ref().is_none_or(|known| known.actor == actor && known.instance != instance) {
            named.extend(engine.known_instance(&actor, &instance)?.filter(|named| named.process.is_some()));
        }
    }
    match &registered {
        Some(known) => named.retain(|named| named.process == known.process),
        None if is_one => named.clear(),
        None => {}
    }
    let latest = named.into_iter().max_by_key(|named| named.process.as_ref().map(|process| process.start));
    Ok(latest.or(registered))
}

/// Where a store is.
#[derive(Clone, Debug)]
pub(crate) enum StoreAt {
    File(PathBuf),
    Server { address: Box<Address>, project: Option<String> },
}

impl StoreAt {
    pub(crate) fn open(&self, access: Access, wait: Duration) -> Result<AnyStore, Refusal> {
        match self {
            StoreAt::File(path) => Ok(SqliteStore::open(path, access, wait)?.into()),
            StoreAt::Server { address, .. } => {
                Ok(PostgresStore::open(address, self.project()?, wait)?.into())
            }
        }
    }

    /// Which project of a server this is. Two repositories of one folder's name must not become one by accident: somebody
    /// has to say it.
    pub(crate) fn project(&self) -> Result<&str, Refusal> {
        match self {
            StoreAt::Server { project: Some(name), .. } if !name.is_empty() => Ok(name),
            _ => Err(Refusal::usage("which project of the server is this? That is not said anywhere")
                .next("write it into onus.toml at the repository's root, and commit that: [project] name = \"…\"")
                .next("or set ONUS_PROJECT")),
        }
    }
}

/// As it may be shown.
impl std::fmt::Display for StoreAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreAt::File(path) => f.write_str(&crate::output::path_text(path)),
            StoreAt::Server { address, project } => {
                f.write_str(address.shown())?;
                project.as_ref().map_or(Ok(()), |name| write!(f, ", project {name}"))
            }
        }
    }
}

/// A path from a store's address: a plain path or `sqlite:PATH`; None for anything on a network.
fn local_path(address: &str) -> Option<PathBuf> {
    let path = address.strip_prefix("sqlite:").unwrap_or(address);
    (!path.contains("://")).then(|| PathBuf::from(path))
}

/// The task a command is about: as named, else `ONUS_TASK`, else the one that the caller holds.
pub(crate) fn target(reference: Option<TaskRef>) -> Result<Option<TaskRef>, Refusal> {
    match reference {
        Some(reference) => Ok(Some(reference)),
        None => env("ONUS_TASK").filter(|text| !text.is_empty()).map(|text| text.parse()).transpose(),
    }
}
