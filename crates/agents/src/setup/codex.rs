//! Codex CLI.
//!
//! Looked up November 2026 (developers.openai.com/codex: hooks, config, sandbox; openai/codex `codex-rs/hooks`, version
//! 0.15x): `hooks.json` beside `config.toml`, in Claude Code's shape, read as strict JSON, `timeout` in seconds; unknown
//! events are passed over. There is no event for the end of a session. Edits are `apply_patch`, also matched as `Edit` and
//! `Write`. Hooks run once they are trusted (`/hooks`), a project's files once the project is. `CODEX_HOME` moves the
//! user's folder. The `workspace-write` sandbox keeps `.git` read-only; a writable root of its own should open a folder in it: that was read, not tried.

use std::path::PathBuf;

use onus_core::refusal::Refusal;

use super::json::Dialect;
use super::{Agent, Allowance, Ground, Level, Part, Target, hooks, toml};

const EVENTS: &[(&str, Option<&str>)] = &[
    ("SessionStart", None),
    ("SubagentStart", None),
    ("UserPromptSubmit", None),
    ("PreToolUse", Some("apply_patch|Edit|Write")),
    ("PostToolUse", None),
    ("Stop", None),
    ("SubagentStop", None),
];

const TIMEOUT_S: u64 = 10;

pub(super) const AGENT: Agent = Agent {
    name: "codex",
    title: "Codex CLI",
    program: Some("codex"),
    folder: Some(".codex"),
    user_folder,
    targets,
    allowance,
    notes: &[
        "Codex runs new or changed hooks only after you trusted them: enter /hooks in Codex and review them",
        "Codex reads a project's .codex/ only if the project is trusted: it asks when it starts there",
    ],
    sandbox: "in its workspace-write sandbox, Codex's shell cannot write below .git, where the store lies: commands of \
              onus fail there. Hooks and the MCP server run outside the sandbox and work",
};

fn user_folder(ground: &Ground<'_>) -> Option<PathBuf> {
    ground.set("CODEX_HOME").or_else(|| Some(ground.home.as_deref()?.join(".codex")))
}

fn targets(ground: &Ground<'_>) -> Result<Vec<Target>, Refusal> {
    let parts = Part::Hooks {
        dialect: Dialect::Strict,
        hooks: hooks("codex", EVENTS, None, TIMEOUT_S),
        mark: "onus hook codex",
    };
    let (within, folder, words) = match ground.level {
        Level::Project => (ground.root.clone(), ground.root.join(".codex"), ground.root.join("AGENTS.md")),
        Level::User => match ground.set("CODEX_HOME") {
            Some(folder) => (folder.clone(), folder.clone(), folder.join("AGENTS.md")),
            None => {
                let folder = ground.home()?.join(".codex");
                (ground.home()?.to_owned(), folder.clone(), folder.join("AGENTS.md"))
            }
        },
    };
    let target = |path, part| Target { path, within: within.clone(), parts: vec![part] };
    Ok(vec![
        target(folder.join("hooks.json"), parts),
        target(folder.join("config.toml"), Part::TomlServer),
        target(words, Part::Block),
    ])
}

fn allowance(ground: &Ground<'_>, store: &str) -> Option<Allowance> {
    let folder = user_folder(ground)?;
    let within = match ground.set("CODEX_HOME") {
        Some(folder) => folder,
        None => ground.home.clone()?,
    };
    let part = Part::TomlRoot(store.to_owned());
    Some((Target { path: folder.join("config.toml"), within, parts: vec![part] }, toml::root_lines(store)))
}
