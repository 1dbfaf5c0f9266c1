//! Sets agents up: writes hooks, MCP server and instructions into their own configuration, and removes them again.
//!
//! Everything is planned first, from the current files, and only then written: if one file is broken, none is touched.
//! An existing file is merged into: what others wrote stays, byte for byte. A second run changes nothing.
//!
//! Removal is exact where possible. A receipt records each file before and after. If the file has not changed since, it
//! is restored, and a file that did not exist is removed. If it has changed, or there is
//! no receipt (another clone), only our own entries are removed, recognised by their content.
//!
//! `json`, `toml` and `markdown` are text in, text out. Only `files` and `receipt` touch the disk. One file per
//! agent says what is written for it, and where its format is documented.

mod agents_md;
mod apply;
mod claude;
mod codex;
mod compare;
mod diff;
pub mod files;
mod gemini;
pub mod json;
pub mod markdown;
mod plan;
mod receipt;
pub mod toml;
mod trust;

use std::path::{Path, PathBuf};

use onus_core::refusal::{Refusal, Step};

pub use apply::{Done, apply};
pub use diff::diff;
pub use plan::{Change, Plan, plan_removal, plan_setup};
pub use trust::Distrust;

use files::Bounds;
use json::{Hook, JsonSyntax};

onus_core::spelled! {
    /// Whether a file contains an entry of ours.
    State {
        Present = "present",
        /// It exists, but differs from what would be written now.
        Changed = "changed",
        Missing = "missing",
    }
}

impl State {
    fn of(compared: Option<&[Difference]>) -> State {
        match compared {
            None => State::Missing,
            Some([]) => State::Present,
            Some(_) => State::Changed,
        }
    }
}

/// How an entry of ours differs from what would be written. It names keys and lines but never quotes values, which may
/// be secrets, or instructions to an agent that reads this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub line: usize,
    pub what: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Why a text cannot be edited, with the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub line: usize,
    pub why: String,
}

onus_core::spelled! {
    /// Whose configuration is written.
    Level {
        /// The repository's, shared by all who clone it.
        Project = "project",
        /// The user's own, for all repositories.
        User = "user",
    }
}

/// The folders and the environment of a set-up.
pub struct SetupEnv<'a> {
    pub level: Level,
    /// The root of the checkout.
    pub root: PathBuf,
    pub home: Option<PathBuf>,
    /// The store's folder, if there is one.
    pub store: Option<PathBuf>,
    /// The folder for receipts.
    pub receipts: PathBuf,
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

impl std::fmt::Debug for SetupEnv<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetupEnv")
            .field("level", &self.level)
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl SetupEnv<'_> {
    /// The absolute path in a variable.
    fn set(&self, name: &str) -> Option<PathBuf> {
        (self.env)(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Where the files of this level may be.
    fn bounds(&self) -> Bounds {
        match self.level {
            Level::Project => Bounds::Tree(self.root.clone()),
            Level::User => Bounds::Own,
        }
    }

    /// The folder of an agent's configuration at this level, which a variable may move for the user, and its file of instructions.
    fn places(
        &self,
        folder: &str,
        user: Option<PathBuf>,
        words: &str,
    ) -> Result<(PathBuf, PathBuf), Refusal> {
        match self.level {
            Level::Project => Ok((self.root.join(folder), self.root.join(words))),
            Level::User => {
                let user = user.filter(|folder| folder.is_absolute());
                let none = || Refusal::usage("HOME is not set, so there is no user configuration");
                user.map(|folder| (folder.clone(), folder.join(words))).ok_or_else(none)
            }
        }
    }

    /// A file of this level, with the entries of ours.
    fn target(&self, path: PathBuf, parts: Vec<Part>) -> Target {
        Target { path, bounds: self.bounds(), parts }
    }

    /// The file of a program that is found in `PATH`.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = (self.env)("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| {
            file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
    }
}

/// An entry of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Hooks, recognised by the mark in their command.
    Hooks {
        syntax: JsonSyntax,
        hooks: Vec<Hook>,
        mark: &'static str,
    },
    Server(JsonSyntax),
    TomlServer,
    Block,
    /// The store in the list of paths that a sandbox may write.
    Item {
        syntax: JsonSyntax,
        path: &'static [&'static str],
        item: String,
    },
    TomlRoot(String),
}

impl Part {
    fn name(&self) -> &'static str {
        match self {
            Part::Hooks { .. } => "hooks",
            Part::Server(_) | Part::TomlServer => "mcp server",
            Part::Block => "instructions",
            Part::Item { .. } | Part::TomlRoot(_) => "store in the sandbox",
        }
    }

    fn put(&self, text: &str) -> Result<String, Broken> {
        match self {
            Part::Hooks { syntax, hooks, mark } => json::with_hooks(text, *syntax, hooks, mark),
            Part::Server(syntax) => json::with_server(text, *syntax),
            Part::TomlServer => toml::with_server(text),
            Part::Block => markdown::with_block(text),
            Part::Item { syntax, path, item } => json::with_item(text, *syntax, path, item),
            Part::TomlRoot(path) => toml::with_root(text, path),
        }
    }

    fn take(&self, text: &str) -> Result<String, Broken> {
        match self {
            Part::Hooks { syntax, mark, .. } => json::without_hooks(text, *syntax, mark),
            Part::Server(syntax) => json::without_server(text, *syntax),
            Part::TomlServer => toml::without_server(text),
            Part::Block => markdown::without_block(text),
            Part::Item { syntax, path, item } => json::without_item(text, *syntax, path, item),
            Part::TomlRoot(path) => toml::without_root(text, path),
        }
    }

    /// How the entry in the text differs from what would be written. None if there is none.
    fn compared(&self, text: &str) -> Result<Option<Vec<Difference>>, Broken> {
        let whole = |found: bool| found.then(Vec::new);
        match self {
            Part::Hooks { syntax, hooks, mark } => json::compared_hooks(text, *syntax, hooks, mark),
            Part::Server(syntax) => json::compared_server(text, *syntax),
            Part::TomlServer => toml::compared_server(text),
            Part::Block => markdown::compared(text),
            Part::Item { syntax, path, item } => json::has_item(text, *syntax, path, item).map(whole),
            Part::TomlRoot(path) => toml::has_root(text, path).map(whole),
        }
    }

    fn state(&self, text: &str) -> Result<State, Broken> {
        self.compared(text).map(|compared| State::of(compared.as_deref()))
    }

    /// Whether an entry has our name but is something else: then it must be neither removed nor lost.
    fn is_anothers(&self, text: &str) -> Result<bool, Broken> {
        match self {
            Part::Server(syntax) => json::is_anothers_server(text, *syntax),
            Part::TomlServer => toml::is_anothers_server(text),
            Part::Hooks { .. } | Part::Block | Part::Item { .. } | Part::TomlRoot(_) => Ok(false),
        }
    }
}

/// A file, and the entries of ours that belong into it.
#[derive(Clone, Debug)]
struct Target {
    path: PathBuf,
    bounds: Bounds,
    parts: Vec<Part>,
}

impl Target {
    fn look(&self) -> Result<files::Seen, Refusal> {
        files::look(&self.path, &self.bounds)
    }
}

/// The entry that lets a sandbox write the store, and its lines as shown to people.
type Allowance = (Target, Vec<String>);

/// The lines that make the store writable in an agent's sandbox.
#[derive(Clone, Debug)]
pub struct Way {
    pub file: PathBuf,
    pub lines: Vec<String>,
}

/// An agent that onus knows how to set up.
pub struct Agent {
    pub name: &'static str,
    pub title: &'static str,
    program: Option<&'static str>,
    /// The folder of its project configuration.
    folder: Option<&'static str>,
    /// The folder of the user's configuration.
    user_folder: fn(&SetupEnv<'_>) -> Option<PathBuf>,
    targets: fn(&SetupEnv<'_>) -> Result<Vec<Target>, Refusal>,
    /// The entry that lets its shell write the store. The file is the user's own, since the path is this machine's.
    allowance: fn(&SetupEnv<'_>, &str) -> Option<Allowance>,
    /// Why it does not run our hooks although they are set up.
    distrust: fn(&SetupEnv<'_>) -> Option<Distrust>,
    /// What its user has to know or do in addition.
    notes: &'static [&'static str],
    /// What its sandbox means for the store.
    sandbox: &'static str,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All agents, in the order in which they are set up.
pub const AGENTS: &[Agent] = &[claude::AGENT, codex::AGENT, gemini::AGENT, agents_md::AGENT];

/// Any agent that reads AGENTS.md.
pub const ANY: &Agent = &agents_md::AGENT;

pub fn agent(name: &str) -> Option<&'static Agent> {
    AGENTS.iter().find(|agent| agent.name == name)
}

/// One entry of ours in one file.
#[derive(Clone, Debug)]
pub struct Found {
    pub path: PathBuf,
    pub part: &'static str,
    pub state: State,
    pub differences: Vec<Difference>,
}

impl Agent {
    /// The file or folder that shows that it is used here.
    pub fn detected(&self, setup_env: &SetupEnv<'_>) -> Option<String> {
        if let Some(file) = self.program.and_then(|program| setup_env.program(program)) {
            return Some(file.display().to_string());
        }
        let user = (self.user_folder)(setup_env);
        let project = self.folder.map(|folder| setup_env.root.join(folder));
        let there = [user, project].into_iter().flatten().find(|place| place.exists())?;
        Some(there.display().to_string())
    }

    /// The state of each of its entries.
    pub fn found(&self, setup_env: &SetupEnv<'_>) -> Result<Vec<Found>, Refusal> {
        let mut found = Vec::new();
        for target in (self.targets)(setup_env)? {
            let text = target.look()?.text.unwrap_or_default();
            for part in &target.parts {
                let compared = part.compared(&text).map_err(|broken| refused(&target.path, &broken))?;
                let state = State::of(compared.as_deref());
                let differences = compared.unwrap_or_default();
                found.push(Found { path: target.path.clone(), part: part.name(), state, differences });
            }
        }
        Ok(found)
    }

    /// Why it does not run our hooks although they are set up correctly, which it does not report itself. None also if nobody
    /// uses it on this machine.
    pub fn distrust(&self, setup_env: &SetupEnv<'_>) -> Result<Option<Distrust>, Refusal> {
        let has_hooks =
            self.found(setup_env)?.iter().any(|found| found.part == "hooks" && found.state == State::Present);
        let is_used = (self.user_folder)(setup_env).is_some_and(|folder| folder.is_dir());
        Ok(if has_hooks && is_used { (self.distrust)(setup_env) } else { None })
    }

    /// Whether any of its files contains an entry of ours.
    pub fn is_there(&self, setup_env: &SetupEnv<'_>) -> Result<bool, Refusal> {
        Ok(self.found(setup_env)?.iter().any(|found| found.state != State::Missing))
    }

    /// Whether it was set up. Instructions alone do not count, since another agent may read the same file.
    pub fn is_set_up(&self, setup_env: &SetupEnv<'_>) -> Result<bool, Refusal> {
        let found = self.found(setup_env)?;
        let alone = found.iter().all(|found| found.part == Part::Block.name());
        let mut own = found.iter().filter(|found| alone || found.part != Part::Block.name());
        Ok(own.any(|found| found.state != State::Missing))
    }

    pub fn notes(&self) -> &'static [&'static str] {
        self.notes
    }

    /// What its sandbox means for the store.
    pub fn sandbox(&self) -> &'static str {
        self.sandbox
    }

    /// The lines that make the store writable in its sandbox.
    pub fn way(&self, setup_env: &SetupEnv<'_>) -> Option<Way> {
        let store = setup_env.store.as_deref()?.to_str()?;
        let (target, lines) = (self.allowance)(setup_env, store)?;
        Some(Way { file: target.path, lines })
    }

    /// Whether the store is writable in its sandbox by those lines.
    pub fn is_allowed(&self, setup_env: &SetupEnv<'_>) -> bool {
        let Some(store) = setup_env.store.as_deref().and_then(Path::to_str) else { return false };
        let Some((target, _)) = (self.allowance)(setup_env, store) else { return false };
        let Ok(file) = target.look() else { return false };
        let text = file.text.unwrap_or_default();
        target.parts.iter().all(|part| part.state(&text) == Ok(State::Present))
    }
}

fn refused(path: &Path, broken: &Broken) -> Refusal {
    Refusal::usage(format!("{}:{}: {}", path.display(), broken.line, broken.why))
        .next(Step::plain("fix the file and run this again: nothing was written"))
}

/// The command of a hook. Without onus it succeeds silently: it must neither block the agent nor complain at every call.
fn command(agent: &str) -> String {
    format!("command -v onus >/dev/null 2>&1 && exec onus hook {agent}; cat >/dev/null; exit 0")
}

/// The command at the start of a session, which tells the user once if onus is missing. All three agents show a `systemMessage`.
fn first_command(agent: &str) -> String {
    format!(
        "command -v onus >/dev/null 2>&1 && exec onus hook {agent}; cat >/dev/null; printf '%s\\n' \
         '{{\"systemMessage\":\"onus is not on PATH: this session is not coordinated with others. Install onus, or run \
         onus setup --remove.\"}}'"
    )
}

/// The hooks of an agent, by its events and their matchers.
fn hooks(
    agent: &'static str,
    events: &[(&'static str, Option<&'static str>)],
    name: Option<&'static str>,
    timeout: u64,
) -> Vec<Hook> {
    let hook = |(event, matcher): &(&'static str, Option<&'static str>)| Hook {
        event,
        matcher: *matcher,
        name,
        command: if *event == "SessionStart" { first_command(agent) } else { command(agent) },
        timeout,
    };
    events.iter().map(hook).collect()
}
