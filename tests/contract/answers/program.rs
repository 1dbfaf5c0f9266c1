//! The store as a whole, and the program itself.

use super::*;

#[derive(JsonSchema, Serialize)]
pub(crate) struct RebuiltAnswer {
    ok: bool,
    events: u64,
    tasks: u64,
    /// Rows that were not what the ledger says, by table.
    changed: BTreeMap<String, u64>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct ExportAnswer {
    file: String,
    events: u64,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct SealAnswer {
    #[serde(flatten)]
    seal: SealHeader,
    file: String,
    signature: Option<String>,
    /// The commit that anchors it in git.
    commit: Option<String>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WhoamiAnswer {
    actor: String,
    /// What told the actor, for people.
    actor_because: String,
    instance: String,
    instance_because: String,
    /// name, ancestor, harness, person or worktree.
    known_by: String,
    /// The registered process that the caller runs under.
    process: Option<onus_core::lease::Process>,
    /// The tasks it holds.
    holds: Vec<String>,
    /// The seats it holds.
    seats: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notices: Option<Vec<Notice>>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct PrimeAnswer {
    primer: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct BackupAnswer {
    file: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct StoreMigrateAnswer {
    store: String,
    /// The schema that was there; 0: none.
    found: i64,
    schema: i64,
    /// Whether any role of the server may connect to the database.
    open_to_all: bool,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct StoreCopyAnswer {
    from: String,
    to: String,
    events: u64,
    tasks: u64,
    instances: u64,
    requests: u64,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct DemoAnswer {
    ok: bool,
    tasks: u64,
    events: u64,
    taken_over: String,
    finished_after_kill_ms: u64,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct HelpAnswer {
    help: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct VersionAnswer {
    version: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct CompletionsAnswer {
    script: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct ManAnswer {
    /// Without a folder: the main page.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
}
