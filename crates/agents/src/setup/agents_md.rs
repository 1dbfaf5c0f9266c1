//! Any agent that reads AGENTS.md (agents.md, as of November 2026): instructions only, since there is no common format
//! for hooks or MCP servers, and no common place for a user's own.

use std::path::PathBuf;

use onus_core::refusal::{Refusal, Step};

use super::{Agent, Level, Part, SetupEnv, Target};

pub(super) const AGENT: Agent = Agent {
    name: "agents-md",
    title: "AGENTS.md",
    program: None,
    folder: Some("AGENTS.md"),
    user_folder: nowhere,
    targets,
    allowance: |_, _| None,
    distrust: |_| None,
    notes: &[
        "nothing forces an agent to follow AGENTS.md: give each agent its name with ONUS_ACTOR=agent:NAME",
        "an agent that supports MCP can use the server too: command onus, argument mcp",
    ],
    sandbox: "if an agent's sandbox keeps its shell from writing to the store, use the MCP server, or make the store's \
              folder writable",
};

fn nowhere(_: &SetupEnv<'_>) -> Option<PathBuf> {
    None
}

fn targets(setup_env: &SetupEnv<'_>) -> Result<Vec<Target>, Refusal> {
    match setup_env.level {
        Level::Project => Ok(vec![setup_env.target(setup_env.root.join("AGENTS.md"), vec![Part::Block])]),
        Level::User => Err(Refusal::usage("AGENTS.md belongs to a project: there is none at user level")
            .next(Step::plain("name an agent that has a user configuration: claude, codex, gemini"))),
    }
}
