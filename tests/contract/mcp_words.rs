//! The words of MCP, for refusals that this machine may not be able to show on demand.

#[path = "../../crates/server/src/mcp/wording.rs"]
mod wording;

mod tools {
    pub(super) const MAX_WAIT_S: u64 = 600;
}

pub(crate) fn step(step: &onus_core::refusal::Step) -> Option<String> {
    wording::step(step)
}
