//! Setting agents up: hooks, MCP server and instructions in their own configuration, and all of it out again.
//!
//! Everything is planned first, from what the files say now, and only then written: one broken file and none is touched.
//! A file that is there is merged into: what others wrote stays, byte for byte. A second run changes nothing.
//!
//! Taking out is exact where it can be. A receipt keeps what each file was before and what was made of it. If the file is
//! still that, it becomes what it was, and one that was not there is gone again. If somebody changed it since, or there is
//! no receipt (another clone), only our own entries are taken out, found by what they are.
//!
//! `json`, `toml` and `markdown` are text in, text out. `files` is all that touches the disk, with `receipt`. One file an
//! agent says what is written for it, and where that was looked up.

mod agents_md;
mod apply;
mod claude;
mod codex;
mod diff;
mod files;
mod gemini;
pub mod json;
pub mod markdown;
mod plan;
mod receipt;
pub mod toml;

use std::path::{Path, PathBuf};

use onus_core::refusal::Refusal;

pub use apply::{Done, apply};
pub use diff::diff;
pub use plan::{Change, Plan, plan_removal, plan_setup};

use json::{Dialect, Hook};

/// Whether something of ours stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Present,
    /// It is there, but not as it would be written now.
    Changed,
    Missing,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Present => "present",
            State::Changed => "changed",
            State::Missing => "missing",
        }
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

    fn home(&self) -> Result<&Path, Refusal> {
        let home = self.home.as_deref().filter(|home| home.is_absolute());
        home.ok_or_else(|| Refusal::usage("HOME is not set: there is no place for a user's configuration"))
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

    fn state(&self, text: &str) -> Result<State, Broken> {
        match self {
            Part::Hooks { dialect, hooks, mark } => json::state_of_hooks(text, *dialect, hooks, mark),
            Part::Server(dialect) => json::state_of_server(text, *dialect),
            Part::TomlServer => toml::state_of_server(text),
            Part::Block => markdown::state(text),
            Part::Item { dialect, path, item } => json::state_of_item(text, *dialect, path, item),
            Part::TomlRoot(path) => toml::state_of_root(text, path),
        }
    }
}

/// A file, and what of ours belongs into it.
#[derive(Clone, Debug)]
struct Target {
    path: PathBuf,
    /// A link may lead anywhere in this folder, and not out of it.
    within: PathBuf,
    parts: Vec<Part>,
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

    /// What of it stands where; a store in its sandbox only if it is there.
    pub fn found(&self, ground: &Ground<'_>) -> Result<Vec<Found>, Refusal> {
        let mut found = Vec::new();
        for target in (self.targets)(ground)? {
            let text = files::look(&target)?.text.unwrap_or_default();
            for part in &target.parts {
                let state = part.state(&text).map_err(|broken| refused(&target.path, &broken))?;
                found.push(Found { path: target.path.clone(), part: part.name(), state });
            }
        }
        Ok(found)
    }

    /// Whether anything of ours stands anywhere in its files.
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
        let Ok(file) = files::look(&target) else { return false };
        let text = file.text.unwrap_or_default();
        target.parts.iter().all(|part| part.state(&text) == Ok(State::Present))
    }
}

fn refused(path: &Path, broken: &Broken) -> Refusal {
    Refusal::usage(format!("{}:{}: {}", path.display(), broken.line, broken.why))
        .next("mend the file and run it again: nothing was written")
}

/// The command of a hook. Without onus it passes in silence: it never stands in the agent's way, nor speaks at every call.
fn command(agent: &str) -> String {
    format!("command -v onus >/dev/null 2>&1 && exec onus hook {agent}; cat >/dev/null; exit 0")
}

/// The same where a session begins: without onus its user is told, once. All three agents show a `systemMessage`.
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
