//! Claude Code.
//!
//! As of November 2026 (code.claude.com: hooks, settings, mcp, sandboxing; version 2.1.3xx): hooks are groups of
//! `matcher` and `hooks` under the event's name, `timeout` is in seconds, and no matcher means every tool; `systemMessage` is shown
//! to the user. Settings are strict JSON: a file with a comment or a trailing comma is discarded whole. MCP servers of a
//! project are in `.mcp.json` and approved once by each user, those of a user in `~/.claude.json`. `CLAUDE_CONFIG_DIR`
//! moves the user's folder. In `allowWrite`, `//` begins an absolute path, in old and new versions.

use std::path::PathBuf;

use onus_core::refusal::Refusal;

use super::files::Bounds;
use super::json::JsonSyntax;
use super::{Agent, Allowance, Level, Part, SetupEnv, Target, hooks};

const EVENTS: &[(&str, Option<&str>)] = &[
    ("SessionStart", None),
    ("SubagentStart", None),
    ("UserPromptSubmit", None),
    ("PreToolUse", Some("Edit|Write|MultiEdit|NotebookEdit|Bash")),
    ("PermissionRequest", None),
    ("PostToolUse", None),
    ("PostToolUseFailure", None),
    ("Stop", None),
    ("SubagentStop", None),
    ("SessionEnd", None),
];

const TIMEOUT_S: u64 = 10;

pub(super) const AGENT: Agent = Agent {
    name: "claude",
    title: "Claude Code",
    program: Some("claude"),
    folder: Some(".claude"),
    user_folder,
    targets,
    allowance,
    distrust: |_| None,
    notes: &[
        "Claude Code asks once, in each clone, before it starts a project's MCP server",
        "restart a running session: it reads the hooks when it starts",
    ],
    sandbox: "with its sandbox on, Claude Code's shell can write only inside its working folder: from a linked worktree, \
              or with the store elsewhere, onus commands fail there. Hooks and the MCP server run outside the sandbox \
              and work",
};

fn user_folder(setup_env: &SetupEnv<'_>) -> Option<PathBuf> {
    setup_env.set("CLAUDE_CONFIG_DIR").or_else(|| Some(setup_env.home.as_deref()?.join(".claude")))
}

fn targets(setup_env: &SetupEnv<'_>) -> Result<Vec<Target>, Refusal> {
    let parts = Part::Hooks {
        syntax: JsonSyntax::Strict,
        hooks: hooks("claude", EVENTS, None, TIMEOUT_S),
        mark: "onus hook claude",
    };
    let (folder, words) = setup_env.places(".claude", user_folder(setup_env), "CLAUDE.md")?;
    let servers = match setup_env.level {
        Level::Project => setup_env.root.join(".mcp.json"),
        // Beside the folder, unless that was moved.
        Level::User if setup_env.set("CLAUDE_CONFIG_DIR").is_none() => folder.with_file_name(".claude.json"),
        Level::User => folder.join(".claude.json"),
    };
    Ok(vec![
        setup_env.target(folder.join("settings.json"), vec![parts]),
        setup_env.target(servers, vec![Part::Server(JsonSyntax::Strict)]),
        setup_env.target(words, vec![Part::Block]),
    ])
}

fn allowance(setup_env: &SetupEnv<'_>, store: &str) -> Option<Allowance> {
    let item = format!("/{store}");
    let lines = vec![format!(
        "\"sandbox\": {{ \"filesystem\": {{ \"allowWrite\": [{}] }} }}",
        serde_json::Value::from(item.as_str())
    )];
    let part =
        Part::Item { syntax: JsonSyntax::Strict, path: &["sandbox", "filesystem", "allowWrite"], item };
    let path = setup_env.root.join(".claude").join("settings.local.json");
    Some((Target { path, bounds: Bounds::Tree(setup_env.root.clone()), parts: vec![part] }, lines))
}
