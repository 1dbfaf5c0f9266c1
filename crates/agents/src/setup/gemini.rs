//! Gemini CLI.
//!
//! Looked up November 2026 (google-gemini/gemini-cli: docs/hooks/reference.md, docs/reference/configuration.md,
//! docs/cli/sandbox.md; version 0.5x): hooks and MCP servers both in `settings.json`, which may have comments but no
//! trailing commas; `timeout` in milliseconds; for tools the matcher is a regular expression, and none means all.
//! `systemMessage` is shown to the user. `GEMINI_CLI_HOME` moves the user's `.gemini`. In a container sandbox the whole
//! program runs inside, its hooks and MCP servers too.

use std::path::PathBuf;

use onus_core::refusal::Refusal;

use super::json::Dialect;
use super::{Agent, Allowance, Ground, Level, Part, Target, hooks};

const EVENTS: &[(&str, Option<&str>)] = &[
    ("SessionStart", None),
    ("BeforeAgent", None),
    ("BeforeTool", Some("^(write_file|replace)$")),
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
    notes: &[
        "Gemini CLI warns once about a project's new hooks; where folder trust is on, the folder has to be trusted",
    ],
    sandbox: "with its sandbox on, Gemini CLI writes below its project folder only: from a linked worktree, or with the \
              store elsewhere, onus fails there. In a container sandbox its hooks and MCP server run inside as well: the \
              image needs onus, and SANDBOX_MOUNTS=STORE:STORE:rw the store's folder",
};

fn user_folder(ground: &Ground<'_>) -> Option<PathBuf> {
    let home = ground.set("GEMINI_CLI_HOME").or_else(|| ground.home.clone())?;
    Some(home.join(".gemini"))
}

fn targets(ground: &Ground<'_>) -> Result<Vec<Target>, Refusal> {
    let parts = vec![
        Part::Hooks {
            dialect: Dialect::Comments,
            hooks: hooks("gemini", EVENTS, Some("onus"), TIMEOUT_MS),
            mark: "onus hook gemini",
        },
        Part::Server(Dialect::Comments),
    ];
    let (within, folder, words) = match ground.level {
        Level::Project => (ground.root.clone(), ground.root.join(".gemini"), ground.root.join("GEMINI.md")),
        Level::User => {
            let home = match ground.set("GEMINI_CLI_HOME") {
                Some(home) => home,
                None => ground.home()?.to_owned(),
            };
            let folder = home.join(".gemini");
            (home, folder.clone(), folder.join("GEMINI.md"))
        }
    };
    Ok(vec![
        Target { path: folder.join("settings.json"), within: within.clone(), parts },
        Target { path: words, within, parts: vec![Part::Block] },
    ])
}

fn allowance(ground: &Ground<'_>, store: &str) -> Option<Allowance> {
    let within = ground.set("GEMINI_CLI_HOME").or_else(|| ground.home.clone())?;
    let lines =
        vec![format!("\"tools\": {{ \"sandboxAllowedPaths\": [{}] }}", serde_json::Value::from(store))];
    let part = Part::Item {
        dialect: Dialect::Comments,
        path: &["tools", "sandboxAllowedPaths"],
        item: store.to_owned(),
    };
    let path = user_folder(ground)?.join("settings.json");
    Some((Target { path, within, parts: vec![part] }, lines))
}
