//! Codex CLI.
//!
//! As of November 2026 (developers.openai.com/codex: hooks, config, sandbox; openai/codex `codex-rs/hooks`, version
//! 0.15x): `hooks.json` is beside `config.toml`, in Claude Code's format, read as strict JSON, with `timeout` in seconds; unknown
//! events are ignored. `SessionEnd` (tested with 0.166) may take at most 3 s. Edits are `apply_patch`, also matched as `Edit`
//! and `Write`. Hooks run once they are trusted (`/hooks`; `trust.rs` says where that is stored), a project's files once the
//! project is trusted. `CODEX_HOME` moves the user's folder. MCP servers get few variables of the environment, and those that
//! `env_vars` names. The `workspace-write` sandbox keeps `.git` read-only; a writable root opens a folder in it (tested with 0.166).

use std::path::PathBuf;

use onus_core::refusal::Refusal;

use super::files::Bounds;
use super::json::JsonSyntax;
use super::{Agent, Allowance, Part, SetupEnv, Target, hooks, toml, trust};

const EVENTS: &[(&str, Option<&str>)] = &[
    ("SessionStart", None),
    ("SubagentStart", None),
    ("UserPromptSubmit", None),
    ("PreToolUse", Some("apply_patch|Edit|Write|Bash")),
    ("PermissionRequest", None),
    ("PostToolUse", None),
    ("Stop", None),
    ("SubagentStop", None),
    ("SessionEnd", None),
];

const TIMEOUT_S: u64 = 10;
/// The most that Codex allows at the end of a session.
const END_TIMEOUT_S: u64 = 3;

const MARK: &str = "onus hook codex";

pub(super) const AGENT: Agent = Agent {
    name: "codex",
    title: "Codex CLI",
    program: Some("codex"),
    folder: Some(".codex"),
    user_folder,
    targets,
    allowance,
    distrust: |setup_env| trust::codex(setup_env, &user_folder(setup_env)?, MARK),
    notes: &[
        "Codex runs new or changed hooks only after you have trusted them: enter /hooks in Codex and review them",
        "Codex reads a project's .codex/ only if the project is trusted: it asks when it starts there",
    ],
    sandbox: "in its workspace-write sandbox, Codex's shell cannot write to .git, which contains the store: onus \
              commands fail there. Hooks and the MCP server run outside the sandbox and work",
};

fn user_folder(setup_env: &SetupEnv<'_>) -> Option<PathBuf> {
    setup_env.set("CODEX_HOME").or_else(|| Some(setup_env.home.as_deref()?.join(".codex")))
}

fn targets(setup_env: &SetupEnv<'_>) -> Result<Vec<Target>, Refusal> {
    let mut hooks = hooks("codex", EVENTS, None, TIMEOUT_S);
    hooks.iter_mut().filter(|hook| hook.event == "SessionEnd").for_each(|hook| hook.timeout = END_TIMEOUT_S);
    let parts = Part::Hooks { syntax: JsonSyntax::Strict, hooks, mark: MARK };
    let (folder, words) = setup_env.places(".codex", user_folder(setup_env), "AGENTS.md")?;
    Ok(vec![
        setup_env.target(folder.join("hooks.json"), vec![parts]),
        setup_env.target(folder.join("config.toml"), vec![Part::TomlServer]),
        setup_env.target(words, vec![Part::Block]),
    ])
}

fn allowance(setup_env: &SetupEnv<'_>, store: &str) -> Option<Allowance> {
    let folder = user_folder(setup_env)?;
    let part = Part::TomlRoot(store.to_owned());
    let target = Target { path: folder.join("config.toml"), bounds: Bounds::Own, parts: vec![part] };
    Some((target, toml::root_lines(store)))
}
