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

use gates::*;
use hours::*;
use landing::*;
use program::*;
use rescues::*;
use setup::*;
use worktrees::*;

mod gates;
mod hours;
mod landing;
mod program;
mod rescues;
mod setup;
mod worktrees;

// What has steps in it, in words.
type HeldView = onus_engine::HeldView<String>;
type Notice = onus_engine::Notice<String>;
type StandupView = onus_engine::StandupView<String>;
type StatusView = onus_engine::StatusView<String>;
type WhyView = onus_engine::WhyView<onus_engine::ObstacleView>;

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
