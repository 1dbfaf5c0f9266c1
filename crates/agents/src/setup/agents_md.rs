//! Any agent that reads AGENTS.md (agents.md, looked up November 2026): instructions alone, since there is no common form
//! for hooks or MCP servers, and no common place for a user's own.

use std::path::PathBuf;

use onus_core::refusal::Refusal;

use super::{Agent, Ground, Level, Part, Target};

pub(super) const AGENT: Agent = Agent {
    name: "agents-md",
    title: "AGENTS.md",
    program: None,
    folder: Some("AGENTS.md"),
    user_folder: nowhere,
    targets,
    allowance: |_, _| None,
    notes: &[
        "agents that only read AGENTS.md are asked, not made, to keep to it: give each its name with ONUS_ACTOR=agent:NAME",
        "an agent that knows MCP can be given the server too: command onus, argument mcp",
    ],
    sandbox: "where an agent's sandbox keeps its shell from writing the store, use the MCP server, or make the store's \
              folder writable",
};

fn nowhere(_: &Ground<'_>) -> Option<PathBuf> {
    None
}

fn targets(ground: &Ground<'_>) -> Result<Vec<Target>, Refusal> {
    match ground.level {
        Level::Project => Ok(vec![Target {
            path: ground.root.join("AGENTS.md"),
            within: ground.root.clone(),
            parts: vec![Part::Block],
        }]),
        Level::User => Err(Refusal::usage("AGENTS.md is a project's file: there is none at user level")
            .next("leave out --user, or name an agent that has a place for it: claude, codex, gemini")),
    }
}
