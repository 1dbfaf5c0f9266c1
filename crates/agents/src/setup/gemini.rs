//! Gemini CLI.
//!
//! As of November 2026 (google-gemini/gemini-cli: docs/hooks/reference.md, docs/reference/configuration.md,
//! docs/cli/sandbox.md; version 0.5x): hooks and MCP servers are both in `settings.json`, which may have comments but no
//! trailing commas; `timeout` is in milliseconds; for tools the matcher is a regular expression, and none means all.
//! Folder trust is on unless the user's settings switch it off (`trust.rs`): `--skip-trust` does not load a project's hooks.
//! `systemMessage` is shown to the user. `GEMINI_CLI_HOME` moves the user's `.gemini`. In a container sandbox the whole
//! program runs inside, its hooks and MCP servers too.

use std::path::PathBuf;

use onus_core::refusal::Refusal;

use super::files::Bounds;
use super::json::JsonSyntax;
use super::{Agent, Allowance, Part, SetupEnv, Target, hooks, trust};

const EVENTS: &[(&str, Option<&str>)] = &[
    ("SessionStart", None),
    ("BeforeAgent", None),
    ("BeforeTool", Some("^(write_file|replace|run_shell_command)$")),
    ("Notification", Some("ToolPermission")),
    ("AfterTool", None),
    ("AfterAgent", None),
    ("SessionEnd", None),
];

const TIMEOUT_MS: u64 = 10_000;

pub(super) const AGENT: Agent = Agent {
    name: "gemini",
    title: "Gemini CLI",
    program: Some("gemini"),
    folder: Some(".gemini"),
    user_folder,
    targets,
    allowance,
    distrust: |setup_env| trust::gemini(setup_env, &user_folder(setup_env)?),
    notes: &[
        "Gemini CLI warns once about a project's new hooks; if folder trust is on, you have to trust the folder",
    ],
    sandbox: "with its sandbox on, Gemini CLI can write only inside its project folder: from a linked worktree, or with \
              the store elsewhere, onus fails there. In a container sandbox its hooks and MCP server also run inside: the \
              image needs onus, and SANDBOX_MOUNTS=STORE:STORE:rw for the store's folder",
};

fn user_folder(setup_env: &SetupEnv<'_>) -> Option<PathBuf> {
    let home = setup_env.set("GEMINI_CLI_HOME").or_else(|| setup_env.home.clone())?;
    Some(home.join(".gemini"))
}

fn targets(setup_env: &SetupEnv<'_>) -> Result<Vec<Target>, Refusal> {
    let parts = vec![
        Part::Hooks {
            syntax: JsonSyntax::Comments,
            hooks: hooks("gemini", EVENTS, Some("onus"), TIMEOUT_MS),
            mark: "onus hook gemini",
        },
        Part::Server(JsonSyntax::Comments),
    ];
    let (folder, words) = setup_env.places(".gemini", user_folder(setup_env), "GEMINI.md")?;
    Ok(vec![
        setup_env.target(folder.join("settings.json"), parts),
        setup_env.target(words, vec![Part::Block]),
    ])
}

fn allowance(setup_env: &SetupEnv<'_>, store: &str) -> Option<Allowance> {
    let lines =
        vec![format!("\"tools\": {{ \"sandboxAllowedPaths\": [{}] }}", serde_json::Value::from(store))];
    let part = Part::Item {
        syntax: JsonSyntax::Comments,
        path: &["tools", "sandboxAllowedPaths"],
        item: store.to_owned(),
    };
    let path = user_folder(setup_env)?.join("settings.json");
    Some((Target { path, bounds: Bounds::Own, parts: vec![part] }, lines))
}
