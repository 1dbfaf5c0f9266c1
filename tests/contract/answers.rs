//! What each command answers with `--json`, as types: the engine's views, in the envelopes that the command line puts
//! around them. The schema in `docs/` is made from these; `schema.rs` holds every command's real answers against it.

#![allow(dead_code, reason = "these types are read by their schema alone")]

use std::collections::BTreeMap;

use onus_core::lease::Mode;
use onus_core::refusal::RefusalView as Refusal;
use onus_engine::{
    ActorView, ConflictView, CostView, DayView, FlowView, ForecastView, GraphView, InstanceView, LeaseView,
    LinksView, RescueView, RoundView, SealHeader, SealedView, SeatView, SessionView, SheetPart, SheetView,
    TaskView, TouchedView, Verified,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use hours::*;
use landing::*;
use setup::*;

mod hours;
mod landing;
mod setup;

// What has steps in it, in words.
type HeldView = onus_engine::HeldView<String>;
type Notice = onus_engine::Notice<String>;
type StandupView = onus_engine::StandupView<String>;
type StatusView = onus_engine::StatusView<String>;
type WhyView = onus_engine::WhyView<String>;

/// What any answer may also contain.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Beside {
    /// What the caller should know: its lease lapses, was taken, somebody wrote to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    notices: Option<Vec<Notice>>,
    /// The request was already applied, under the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<bool>,
}

/// Every failure, whatever the command; the exit code follows from `code`.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Failure {
    error: Refusal,
}

/// The task, after what was done to it.
#[derive(JsonSchema, Serialize)]
pub(crate) struct TaskAnswer {
    #[serde(flatten)]
    task: TaskView,
    #[serde(flatten)]
    beside: Beside,
    /// In `add` and `intake`: the origin was known, and this is the task it had become.
    #[serde(skip_serializing_if = "Option::is_none")]
    existing: Option<bool>,
    /// In `edit`, `tick` and `dep`: all of it was so already, and nothing was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    unchanged: Option<bool>,
    /// In `add` and `intake`: nothing was changed, and this is what would be added now.
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
    /// In `intake`: what of a task that was there was brought up to date.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<Vec<String>>,
    /// In `redact`: whether the words are gone from the store's log too.
    #[serde(skip_serializing_if = "Option::is_none")]
    erased_everywhere: Option<bool>,
    /// In `undo`: the kinds of the events that were taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    undone: Option<Vec<String>>,
}

/// A line that `intake --follow` answers: the task of the ask, or what is wrong with it.
#[derive(JsonSchema, Serialize)]
pub(crate) struct IntakeLine {
    /// The line of the input, counted from 1.
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<TaskView>,
    /// The task was there already.
    #[serde(skip_serializing_if = "Option::is_none")]
    existing: Option<bool>,
    /// What of it was brought up to date.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notices: Option<Vec<Notice>>,
}

/// What became of each of several tasks that `show` or a verb was given.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SeveralAnswer {
    /// Those that were shown or changed.
    tasks: Vec<TaskView>,
    /// The first refusal: the exit code is its.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
    /// Every refusal, with the task as it was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Vec<RefusedTask>>,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct RefusedTask {
    named: String,
    error: Refusal,
}

/// What a task depends on, and what depends on it.
#[derive(JsonSchema, Serialize)]
pub(crate) struct LinksAnswer {
    #[serde(flatten)]
    links: LinksView,
    #[serde(flatten)]
    beside: Beside,
}

/// Leases that nobody may count on.
#[derive(JsonSchema, Serialize)]
pub(crate) struct StaleAnswer {
    lapsed: Vec<HeldView>,
    stale: Vec<HeldView>,
    stalled: Vec<HeldView>,
    #[serde(flatten)]
    beside: Beside,
}

/// The task and the lease that was got, kept or (`handoff`: null) given away.
#[derive(JsonSchema, Serialize)]
pub(crate) struct LeaseAnswer {
    task: TaskView,
    lease: Option<LeaseView>,
    /// The lease was held before, and goes on under its token.
    renewed: bool,
    /// Another's lease was ended for it.
    takeover: bool,
    /// With `--worktree`, and of `worktree add` and `adopt`: where the work is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    worktree: Option<WorktreeMade>,
    #[serde(flatten)]
    beside: Beside,
}

/// A task's worktree.
#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeMade {
    path: String,
    branch: Option<String>,
    /// The branch that it is to land in.
    target: Option<String>,
    /// The first of its 20 ports; null if it has none.
    port_base: Option<u16>,
    /// It was made now; else it was there.
    new: bool,
    /// With `--rescue`, if something is kept of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    rescued: Option<WorktreeRescued>,
}

/// What an earlier holder left uncommitted, laid out in a worktree.
#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeRescued {
    /// Whose it was.
    token: u64,
    actor: String,
    written: Vec<String>,
    removed: Vec<String>,
    /// Was there as it was left.
    same: Vec<String>,
    /// Not laid out: it would have overwritten something.
    left: Vec<String>,
}

/// Who lives and works in a worktree.
#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeHolder {
    task: String,
    actor: String,
}

/// A merge, rebase, cherry-pick, revert or bisect that somebody began.
#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeUnderWay {
    what: String,
    since_at: String,
}

/// A worktree, and what is in it. What could not be looked at is null.
#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeAnswer {
    path: String,
    /// The main checkout.
    main: bool,
    /// Made by onus.
    made: bool,
    adopted: bool,
    /// The task that it was made or adopted for.
    task: Option<String>,
    /// Null: HEAD is detached.
    branch: Option<String>,
    head: Option<String>,
    target: Option<String>,
    /// Live leases that are worked on there.
    held_by: Vec<WorktreeHolder>,
    /// Its files were copied and its set-up command has run.
    ready: bool,
    /// Its folder is not where git has it.
    missing: bool,
    /// Why `git worktree lock` keeps it; null: it is not locked.
    locked: Option<String>,
    /// Files with uncommitted changes, the first 200.
    changed: Option<Vec<String>>,
    untracked: Option<Vec<String>>,
    /// Ignored files and folders.
    ignored: Option<u64>,
    under_way: Option<WorktreeUnderWay>,
    /// Commits that are in no other branch, nor in the target by content.
    unlanded: Option<u64>,
    /// Commits of the target that it does not have.
    behind: Option<u64>,
    /// Commits that landed in the branch that is checked out there, and that it does not have; null: it has all.
    behind_landed: Option<u64>,
    /// What its branch cannot be merged with.
    conflicts: Vec<ConflictView>,
    port_base: Option<u16>,
    /// In `worktree show` and `list --size`: disk space.
    bytes: Option<u64>,
    next: Option<String>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeShownAnswer {
    #[serde(flatten)]
    worktree: WorktreeAnswer,
    #[serde(flatten)]
    beside: Beside,
}

/// A branch of a task's that is checked out nowhere, with commits that are nowhere else.
#[derive(JsonSchema, Serialize)]
pub(crate) struct UnlandedBranch {
    branch: String,
    unlanded: u64,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreesAnswer {
    worktrees: Vec<WorktreeAnswer>,
    unlanded_branches: Vec<UnlandedBranch>,
    /// Targets that lack what landed.
    behind_landed: Vec<BehindLanded>,
    /// How many rescues are kept.
    rescues: u64,
    /// Folders whose making or removal was interrupted.
    interrupted: Vec<String>,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeRemovedAnswer {
    path: String,
    branch: Option<String>,
    /// The branch was onus's own, and all its commits are in another.
    branch_deleted: bool,
    /// Ignored files and folders that went with it.
    ignored: u64,
    /// The first of them.
    ignored_names: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeKept {
    path: String,
    why: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreePrunedAnswer {
    dry_run: bool,
    removed: Vec<String>,
    kept: Vec<WorktreeKept>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WorktreeRepairedAnswer {
    /// What became of everything that was interrupted.
    settled: Vec<String>,
    /// Where worktrees are that were moved.
    moved: Vec<String>,
}

/// A command that the repository configures.
#[derive(JsonSchema, Serialize)]
pub(crate) struct CommandAnswer {
    kind: String,
    name: String,
    argv: Vec<String>,
    /// Variables that it gets besides those that every program needs.
    env: Vec<String>,
    /// Where in the work tree it runs; empty: at its root.
    folder: String,
    timeout_ms: u64,
    digest: String,
    approved: bool,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct CommandsAnswer {
    commands: Vec<CommandAnswer>,
}

/// The seat and its lease after what was done; null if it was released.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SeatAnswer {
    seat: SeatView,
    lease: Option<LeaseView>,
    /// The lease was held before, and goes on under its token.
    renewed: bool,
    /// Another's lease was ended for it.
    takeover: bool,
    #[serde(flatten)]
    beside: Beside,
}

/// The seat that the caller holds live.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SeatCheckAnswer {
    seat: SeatView,
    lease: Option<LeaseView>,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct SeatShowAnswer {
    #[serde(flatten)]
    seat: SeatView,
    #[serde(flatten)]
    beside: Beside,
    /// In `seat redact`: whether the words are gone from the store's log too.
    #[serde(skip_serializing_if = "Option::is_none")]
    erased_everywhere: Option<bool>,
}

/// Every seat that was ever taken, by name.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SeatsAnswer {
    seats: Vec<SeatView>,
    #[serde(flatten)]
    beside: Beside,
}

/// What was kept of holders' uncommitted work, or is still to be kept.
#[derive(JsonSchema, Serialize)]
pub(crate) struct RescuesAnswer {
    rescues: Vec<RescueView>,
    #[serde(flatten)]
    beside: Beside,
}

/// A rescue with its files, or the contents that are kept of a file.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum RescueShowAnswer {
    Rescue(Box<RescueShown>),
    File(FileShown),
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct RescueShown {
    #[serde(flatten)]
    rescue: RescueView,
    files: Vec<RescuedFile>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct RescuedFile {
    path: String,
    /// Which of the rescue's commits has it.
    #[serde(rename = "ref")]
    reference: String,
    deleted: bool,
    /// Something else was staged than what was on disk.
    staged_otherwise: bool,
    /// It was a conflict that nobody had resolved.
    conflict: bool,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct FileShown {
    file: String,
    /// The newest first.
    versions: Vec<FileVersion>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct FileVersion {
    /// The beginning of its content's digest.
    version: String,
    at: String,
    bytes: u64,
    /// How it came to be seen, for people.
    how: String,
    /// The file has this content now.
    there: bool,
}

/// What was brought back.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum RescueRestoreAnswer {
    Task(Box<TaskRestored>),
    File(FileRestored),
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct TaskRestored {
    task: String,
    token: u64,
    written: Vec<String>,
    removed: Vec<String>,
    /// What was there already.
    same: Vec<String>,
    /// Content that was in the index alone, and is not written.
    only_staged: Vec<OnlyStaged>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct OnlyStaged {
    path: String,
    /// What git calls it.
    object: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct FileRestored {
    file: String,
    version: String,
    bytes: u64,
    how: String,
}

/// What a task declares, and what its holder has reserved.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ScopeAnswer {
    id: String,
    declared: Vec<String>,
    /// Null: nobody holds it.
    reserved: Option<Vec<String>>,
    mode: Mode,
    #[serde(flatten)]
    beside: Beside,
}

/// How a run ended, and the task after it.
#[derive(JsonSchema, Serialize)]
pub(crate) struct RunAnswer {
    task: TaskView,
    /// What is on record: `done`, `submitted`, `released`, `failed`; `fenced` if the lease was another's by then; or how
    /// else the command ended its lease itself (`blocked`, `dropped`, `handed_off`).
    outcome: String,
    /// What `onus run` exits with.
    exit_code: u8,
    /// The instance that held the lease, fresh for this run.
    instance: String,
    token: u64,
    /// Why it did not end as the command's success or failure asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
    #[serde(flatten)]
    beside: Beside,
}

/// A page of tasks.
#[derive(JsonSchema, Serialize)]
pub(crate) struct TasksAnswer {
    tasks: Vec<TaskView>,
    /// Where the next page begins, if this one is full: pass it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    /// In `list`: unfinished ad-hoc tasks that were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    ad_hoc: Option<u64>,
    #[serde(flatten)]
    beside: Beside,
}

/// The tasks of a plan, in its order.
#[derive(JsonSchema, Serialize)]
pub(crate) struct PlanAnswer {
    tasks: Vec<TaskView>,
    /// What each name of the plan became.
    names: BTreeMap<String, String>,
    /// Nothing was changed: this is what would be added now.
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
    /// Every origin of the plan was known: nothing was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    existing: Option<bool>,
    #[serde(flatten)]
    beside: Beside,
}

/// What is ready, and what is not and why.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ExplainedAnswer {
    tasks: Vec<TaskView>,
    /// Unfinished tasks that are not ready, by priority, then age: the first of them.
    left_out: Vec<WhyView>,
    /// How many more are not ready.
    more: u64,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct WhyAnswer {
    #[serde(flatten)]
    why: WhyView,
    /// What its branch cannot be merged with.
    forecast: ForecastView,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct GraphAnswer {
    #[serde(flatten)]
    graph: GraphView,
    #[serde(flatten)]
    beside: Beside,
}

/// The task that was reset, and every task that was put back with it.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ResetAnswer {
    #[serde(flatten)]
    task: TaskView,
    /// As they were before; the named one first. Empty in a replay.
    touched: Vec<TouchedView>,
    #[serde(flatten)]
    beside: Beside,
}

/// What a reset would put back.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ResetPreviewAnswer {
    touched: Vec<TouchedView>,
    dry_run: bool,
    #[serde(flatten)]
    beside: Beside,
}

/// One event of the ledger. `hash` is the sha256 of the rest but `seq`, as `jq -cSj` prints it.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Event {
    seq: u64,
    uid: String,
    /// The uid of the stream: a task's or a seat's; null in the project's own.
    task: Option<String>,
    version: u64,
    kind: String,
    actor: String,
    instance: String,
    token: Option<u64>,
    at: String,
    cause: Option<String>,
    payload: BTreeMap<String, Value>,
    prev: String,
    hash: String,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct EventsAnswer {
    events: Vec<Event>,
    /// The texts of each event, by its uid and field; erased ones are missing.
    texts: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct StatusAnswer {
    #[serde(flatten)]
    status: StatusView,
    /// Which branches of tasks cannot be merged.
    forecast: ForecastView,
    /// Targets that lack what landed.
    behind_landed: Vec<BehindLanded>,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct InitAnswer {
    store: String,
    prefix: String,
    project: String,
    /// False: it was there already.
    created: bool,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct ActorAnswer {
    #[serde(flatten)]
    actor: ActorView,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct ActorsAnswer {
    actors: Vec<ActorView>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct InstanceAnswer {
    #[serde(flatten)]
    instance: InstanceView,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct InstancesAnswer {
    instances: Vec<InstanceView>,
}

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

macro_rules! answers {
    ($($answer:ident: $($command:literal),*;)*) => {
        /// Which commands give which answer.
        pub(crate) const COMMANDS: &[(&str, &str)] = &[$($((stringify!($answer), $command),)*)*];

        /// Every answer's schema, under its name, with what they share.
        pub(crate) fn definitions() -> serde_json::Map<String, Value> {
            let mut generator = schemars::generate::SchemaSettings::draft2020_12().for_serialize().into_generator();
            $(generator.subschema_for::<$answer>();)*
            generator.take_definitions(true)
        }
    };
}

answers! {
    Failure: ;
    TaskAnswer: "add", "intake", "show", "edit", "tick", "note", "accept", "block", "unblock", "submit", "approve", "reject", "done",
        "release", "fail", "drop", "reopen", "retry", "dep add", "dep rm", "redact", "undo", "session record",
        "session correct", "rescue drop", "gate pass", "gate fail";
    SeveralAnswer: ;
    IntakeLine: ;
    LinksAnswer: "dep list";
    StaleAnswer: "stale";
    PlanAnswer: "add --file";
    ExplainedAnswer: "ready --explain";
    WhyAnswer: "why";
    GraphAnswer: "graph";
    ResetAnswer: "reset";
    ResetPreviewAnswer: "reset --dry-run";
    LeaseAnswer: "claim", "renew", "assign", "handoff", "takeover", "scope add", "scope rm", "touch",
        "worktree add", "worktree adopt";
    WorktreesAnswer: "worktree list";
    WorktreeShownAnswer: "worktree show";
    WorktreeRemovedAnswer: "worktree remove";
    WorktreePrunedAnswer: "worktree prune";
    WorktreeRepairedAnswer: "worktree repair";
    LandAnswer: "land", "land --check", "land --queue", "land --queue --check";
    PullRequestAnswer: "land --via pr";
    GatesAnswer: "gate list";
    GatesOfTaskAnswer: ;
    GateRunAnswer: "gate run";
    GateShowAnswer: "gate show";
    GateLogAnswer: "gate log";
    CommandsAnswer: "trust list";
    CommandAnswer: "trust approve", "trust revoke";
    SeatAnswer: "seat take", "seat renew", "seat release", "seat takeover";
    SeatCheckAnswer: "seat check";
    SeatShowAnswer: "seat show", "seat redact";
    SeatsAnswer: "seat list";
    RescuesAnswer: "rescue list";
    RescueShowAnswer: "rescue show";
    RescueRestoreAnswer: "rescue restore";
    ScopeAnswer: "scope show";
    RunAnswer: "run";
    TasksAnswer: "list", "ready", "search", "blocked";
    EventsAnswer: "log";
    SessionsAnswer: "sessions";
    TimesheetAnswer: "timesheet";
    TimesheetSealAnswer: "timesheet seal";
    StandupAnswer: "report standup";
    DayAnswer: "report actor";
    FlowAnswer: "report flow";
    CostAnswer: "report cost";
    RoundAnswer: "report round";
    StatusAnswer: "status";
    InitAnswer: "init";
    ActorAnswer: "actor register", "actor tier", "actor alias";
    ActorsAnswer: "actor list";
    InstanceAnswer: "instance register";
    InstancesAnswer: "instance list";
    Verified: "ledger verify";
    RebuiltAnswer: "ledger rebuild";
    ExportAnswer: "ledger export";
    SealAnswer: "ledger seal";
    SetupAnswer: "setup", "setup --print", "setup --remove";
    SetupCheckAnswer: "setup --check";
    SetupListAnswer: "setup --list";
    GuardAnswer: "guard install", "guard uninstall";
    GuardStatusAnswer: "guard status";
    GuardCheckAnswer: "guard check";
    ConfigAnswer: "config", "config show";
    ConfigGetAnswer: "config get";
    ConfigEditAnswer: "config set", "config unset";
    ConfigFilesAnswer: "config files";
    DoctorAnswer: "doctor";
    WhoamiAnswer: "whoami";
    PrimeAnswer: "prime";
    BackupAnswer: "backup";
    StoreMigrateAnswer: "store migrate";
    StoreCopyAnswer: "store copy";
    DemoAnswer: "demo";
    HelpAnswer: "help";
    VersionAnswer: "--version";
    CompletionsAnswer: "completions";
    ManAnswer: "man";
}
