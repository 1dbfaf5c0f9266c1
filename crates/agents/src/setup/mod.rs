//! Setting agents up: hooks, MCP server and instructions in their own configuration, and taking all of it out again.
//!
//! Everything is planned first, from what the files say now, and only then written: if one file is broken, none is touched.
//! An existing file is merged into: what others wrote stays, byte for byte. A second run changes nothing.
//!
//! Removal is exact where it can be. A receipt records each file before and after. If the file has not changed since, it
//! is restored, and a file that did not exist is removed. If it has changed, or there is
//! no receipt (another clone), only our own entries are taken out, recognised by their content.
//!
//! `json`, `toml` and `markdown` are text in, text out. Only `files` and `receipt` touch the disk. One file per
//! agent says what is written for it, and where that was looked up.

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
use json::{Dialect, Hook};

/// Whether a file contains an entry of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Present,
    /// It is there, but not as it would be written now.
    Changed,
    Missing,
}

impl State {
    fn of(compared: Option<&[Difference]>) -> State {
        match compared {
            None => State::Missing,
            Some([]) => State::Present,
            Some(_) => State::Changed,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            State::Present => "present",
            State::Changed => "changed",
            State::Missing => "missing",
        }
    }
}

/// How an entry of ours is not as it would be written. It names keys and lines, and says nothing of what is there: that may
/// be a secret, or meant for whoever reads this.
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

/// A text that cannot be edited, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub line: usize,
    pub why: String,
}

/// Whose configuration is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The repository's, shared by all who clone it.
    Project,
    /// The user's own, for all repositories.
    User,
}

/// Where everything lies.
pub struct Ground<'a> {
    pub level: Level,
    /// The root of the checkout.
    pub root: PathBuf,
    pub home: Option<PathBuf>,
    /// The folder that the store lies in, where there is one.
    pub store: Option<PathBuf>,
    /// The folder for receipts.
    pub receipts: PathBuf,
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

impl std::fmt::Debug for Ground<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ground").field("level", &self.level).field("root", &self.root).finish_non_exhaustive()
    }
}

impl Ground<'_> {
    /// A folder that a variable names.
    fn set(&self, name: &str) -> Option<PathBuf> {
        (self.env)(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Where the files of this level may lie.
    fn bounds(&self) -> Bounds {
        match self.level {
            Level::Project => Bounds::Tree(self.root.clone()),
            Level::User => Bounds::Own,
        }
    }

    fn home(&self) -> Result<&Path, Refusal> {
        let home = self.home.as_deref().filter(|home| home.is_absolute());
        home.ok_or_else(|| Refusal::usage("HOME is not set, so there is no user configuration"))
    }

    /// The program's own file, if it can be run by its name.
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
    /// Hooks, told from others' by the mark in their command.
    Hooks {
        dialect: Dialect,
        hooks: Vec<Hook>,
        mark: &'static str,
    },
    Server(Dialect),
    TomlServer,
    Block,
    /// The store among the paths that a sandbox may write.
    Item {
        dialect: Dialect,
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
            Part::Hooks { dialect, hooks, mark } => json::with_hooks(text, *dialect, hooks, mark),
            Part::Server(dialect) => json::with_server(text, *dialect),
            Part::TomlServer => toml::with_server(text),
            Part::Block => markdown::with_block(text),
            Part::Item { dialect, path, item } => json::with_item(text, *dialect, path, item),
            Part::TomlRoot(path) => toml::with_root(text, path),
        }
    }

    fn take(&self, text: &str) -> Result<String, Broken> {
        match self {
            Part::Hooks { dialect, mark, .. } => json::without_hooks(text, *dialect, mark),
            Part::Server(dialect) => json::without_server(text, *dialect),
            Part::TomlServer => toml::without_server(text),
            Part::Block => markdown::without_block(text),
            Part::Item { dialect, path, item } => json::without_item(text, *dialect, path, item),
            Part::TomlRoot(path) => toml::without_root(text, path),
        }
    }

    /// How what is there differs from what would be written. None: it is not there.
    fn compared(&self, text: &str) -> Result<Option<Vec<Difference>>, Broken> {
        let whole = |found: bool| found.then(Vec::new);
        match self {
            Part::Hooks { dialect, hooks, mark } => json::compared_hooks(text, *dialect, hooks, mark),
            Part::Server(dialect) => json::compared_server(text, *dialect),
            Part::TomlServer => toml::compared_server(text),
            Part::Block => markdown::compared(text),
            Part::Item { dialect, path, item } => json::has_item(text, *dialect, path, item).map(whole),
            Part::TomlRoot(path) => toml::has_root(text, path).map(whole),
        }
    }

    fn state(&self, text: &str) -> Result<State, Broken> {
        self.compared(text).map(|compared| State::of(compared.as_deref()))
    }

    /// Whether it has our name and is something else altogether: not ours to take out, nor to forget.
    fn is_anothers(&self, text: &str) -> Result<bool, Broken> {
        match self {
            Part::Server(dialect) => json::is_anothers_server(text, *dialect),
            Part::TomlServer => toml::is_anothers_server(text),
            Part::Hooks { .. } | Part::Block | Part::Item { .. } | Part::TomlRoot(_) => Ok(false),
        }
    }
}

/// A file, and what of ours belongs into it.
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

/// What lets a sandbox write the store, and the lines of it that people are shown.
type Allowance = (Target, Vec<String>);

/// How an agent's sandbox can be told to leave the store writable.
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
    /// The folder that its project configuration lies in.
    folder: Option<&'static str>,
    /// The folder that the user's configuration lies in.
    user_folder: fn(&Ground<'_>) -> Option<PathBuf>,
    targets: fn(&Ground<'_>) -> Result<Vec<Target>, Refusal>,
    /// What lets its shell write the store: the file is the user's own, since the path is this machine's.
    allowance: fn(&Ground<'_>, &str) -> Option<Allowance>,
    /// Why it does not run our hooks, though they are there.
    distrust: fn(&Ground<'_>) -> Option<Distrust>,
    /// What its user has to know or do, beyond what is written.
    notes: &'static [&'static str],
    /// What its sandbox means for the store.
    sandbox: &'static str,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("name", &self.name).finish_non_exhaustive()
    }
}

/// In the order in which they are set up.
pub const AGENTS: &[Agent] = &[claude::AGENT, codex::AGENT, gemini::AGENT, agents_md::AGENT];

/// The one for any agent that reads AGENTS.md.
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
    /// Why it is thought to be used here.
    pub fn detected(&self, ground: &Ground<'_>) -> Option<String> {
        if let Some(file) = self.program.and_then(|program| ground.program(program)) {
            return Some(file.display().to_string());
        }
        let user = (self.user_folder)(ground);
        let project = self.folder.map(|folder| ground.root.join(folder));
        let there = [user, project].into_iter().flatten().find(|place| place.exists())?;
        Some(there.display().to_string())
    }

    /// Which of its parts are where; a store in its sandbox only if it is there.
    pub fn found(&self, ground: &Ground<'_>) -> Result<Vec<Found>, Refusal> {
        let mut found = Vec::new();
        for target in (self.targets)(ground)? {
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

    /// Why it does not run our hooks, though they are there as they should be: it says nothing about that itself. None as well
    /// where nobody uses it on this machine.
    pub fn distrust(&self, ground: &Ground<'_>) -> Result<Option<Distrust>, Refusal> {
        let has_hooks =
            self.found(ground)?.iter().any(|found| found.part == "hooks" && found.state == State::Present);
        let is_used = (self.user_folder)(ground).is_some_and(|folder| folder.is_dir());
        Ok(if has_hooks && is_used { (self.distrust)(ground) } else { None })
    }

    /// Whether any of its files contains an entry of ours.
    pub fn is_there(&self, ground: &Ground<'_>) -> Result<bool, Refusal> {
        Ok(self.found(ground)?.iter().any(|found| found.state != State::Missing))
    }

    /// Whether it was set up: instructions alone may have been written for another that reads the same file.
    pub fn is_set_up(&self, ground: &Ground<'_>) -> Result<bool, Refusal> {
        let found = self.found(ground)?;
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

    /// The lines that leave the store writable in its sandbox.
    pub fn way(&self, ground: &Ground<'_>) -> Option<Way> {
        let store = ground.store.as_deref()?.to_str()?;
        let (target, lines) = (self.allowance)(ground, store)?;
        Some(Way { file: target.path, lines })
    }

    /// Whether those lines are written already.
    pub fn is_allowed(&self, ground: &Ground<'_>) -> bool {
        let Some(store) = ground.store.as_deref().and_then(Path::to_str) else { return false };
        let Some((target, _)) = (self.allowance)(ground, store) else { return false };
        let Ok(file) = target.look() else { return false };
        let text = file.text.unwrap_or_default();
        target.parts.iter().all(|part| part.state(&text) == Ok(State::Present))
    }
}

fn refused(path: &Path, broken: &Broken) -> Refusal {
    Refusal::usage(format!("{}:{}: {}", path.display(), broken.line, broken.why))
        .next(Step::plain("fix the file and run this again: nothing was written"))
}

/// The command of a hook. Without onus it passes silently: it must neither block the agent nor complain at every call.
fn command(agent: &str) -> String {
    format!("command -v onus >/dev/null 2>&1 && exec onus hook {agent}; cat >/dev/null; exit 0")
}

/// The same at the start of a session: without onus its user is told once. All three agents show a `systemMessage`.
fn first_command(agent: &str) -> String {
    format!(
        "command -v onus >/dev/null 2>&1 && exec onus hook {agent}; cat >/dev/null; printf '%s\\n' \
         '{{\"systemMessage\":\"onus is not on PATH: this session is not coordinated with others. Install onus, or run \
         onus setup --remove.\"}}'"
    )
}

/// The hooks of an agent: its events, and for which tools.
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
