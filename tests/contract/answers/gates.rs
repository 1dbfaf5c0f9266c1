//! Gates: what a project defines, what a task must pass, what came of it.

use super::*;

/// A gate, as the project defines it.
#[derive(JsonSchema, Serialize)]
pub(crate) struct GateDefinition {
    key: String,
    title: Option<String>,
    kind: String,
    stage: String,
    /// What is run; null: a judge passes it.
    command: Option<GateCommandAnswer>,
    /// Red-green: which files are tests.
    tests: Vec<String>,
    /// Manual: who may pass it, beside people.
    by: Vec<String>,
    only_named: bool,
    types: Vec<String>,
    tags: Vec<String>,
    areas: Vec<String>,
    paths: Vec<String>,
    /// What a judgement counts for: another definition was not judged.
    digest: String,
    /// In `gate list` of a project: whether a person approved its command; null: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    approved: Option<bool>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct GateCommandAnswer {
    argv: Vec<String>,
    env: Vec<String>,
    folder: String,
    timeout_ms: u64,
}

/// What a gate came to once.
#[derive(JsonSchema, Serialize)]
pub(crate) struct GateJudgement {
    /// The task's event that records it.
    version: u64,
    /// `passed` or `failed`.
    verdict: String,
    actor: String,
    at: String,
    /// The tree that was judged; null: nothing that git knows.
    tree: Option<String>,
    definition: String,
    /// It came out differently before, with the same tree.
    flaky: bool,
    run: Option<onus_core::gate::Run>,
}

/// How a gate of a task stands.
#[derive(JsonSchema, Serialize)]
pub(crate) struct GateStanding {
    key: String,
    title: Option<String>,
    kind: Option<String>,
    stage: Option<String>,
    passed: bool,
    /// `not_judged`, `stale`, `failed` or `unknown`; null: it has passed.
    why: Option<String>,
    last: Option<GateJudgement>,
}

/// What the project defines.
#[derive(JsonSchema, Serialize)]
pub(crate) struct GatesAnswer {
    gates: Vec<GateDefinition>,
}

/// What a task must pass.
#[derive(JsonSchema, Serialize)]
pub(crate) struct GatesOfTaskAnswer {
    task: String,
    /// What is there to be judged; null: no gate asks for it, or there is no git.
    tree: Option<String>,
    gates: Vec<GateStanding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notices: Option<Vec<Notice>>,
}

/// What one gate came to when it was run.
#[derive(JsonSchema, Serialize)]
pub(crate) struct GateRan {
    key: String,
    /// `passed` or `failed`; null: it was not judged, `error` says why.
    verdict: Option<String>,
    exit: Option<i32>,
    timed_out: bool,
    duration_ms: Option<i64>,
    /// The name of its log, on the machine where it ran.
    log: Option<String>,
    error: Option<String>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct GateRunAnswer {
    task: String,
    tree: Option<String>,
    passed: bool,
    gates: Vec<GateRan>,
    /// Gates that a judge has still to pass.
    for_judges: Vec<String>,
    /// Why not all have passed, and what to do first.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct GateShowAnswer {
    task: String,
    gate: GateDefinition,
    /// Whether the task has to pass it.
    asked: bool,
    passed: bool,
    why: Option<String>,
    /// The newest first.
    judgements: Vec<GateJudgement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notices: Option<Vec<Notice>>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct GateLogAnswer {
    task: String,
    gate: String,
    version: u64,
    log: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    notices: Option<Vec<Notice>>,
}
