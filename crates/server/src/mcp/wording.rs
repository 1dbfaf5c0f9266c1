//! Words next steps for this server: as calls of its tools, with their arguments. A step without a tool is for a person, and is
//! worded without naming any other interface. No wording says how to override a refusal.

use serde_json::{Value, json};

use onus_core::quote;
use onus_core::refusal::{CallerKind, Reader, Step};
use onus_core::transition::Verb;

use super::tools::MAX_WAIT_S;

/// A step as a call of a tool and its purpose, or as plain words. None: this server has no such step.
pub(super) fn step(step: &Step) -> Option<String> {
    let call = |tool: &str, arguments: Value, what: &str| Some(format!("{tool} {arguments}: {what}"));
    let person = |what: &str| Some(format!("ask a person to {what}"));
    match step {
        Step::TakeAnother => call("ready", json!({}), "find another task"),
        Step::Ready | Step::ListTasks => call("ready", json!({}), "tasks you can claim"),
        Step::Status | Step::LogAll => call("status", json!({}), "who holds what"),
        Step::Show(task) | Step::Why(task) | Step::Graph(task) | Step::Reserved(task) => {
            call("show", json!({ "id": task }), "look at it")
        }
        Step::Log(task) => call("show", json!({ "id": task }), "who holds it now, and its notes"),
        Step::Do(verb, task) => match verb {
            Verb::Claim => call("claim", json!({ "id": task }), "take it"),
            // Claiming a task with a lapsed lease takes it over.
            Verb::Takeover => call("claim", json!({ "id": task }), "take it over"),
            Verb::Release => call("release", json!({ "id": task }), "give it back"),
            Verb::Block => call("block", json!({ "id": task, "message": "…" }), "say what it waits for"),
            Verb::Done => call("done", json!({ "id": task, "message": "…" }), "finish it"),
            Verb::Submit => {
                call("done", json!({ "id": task, "message": "…", "submit": true }), "send it to review")
            }
            Verb::Accept
            | Verb::Unblock
            | Verb::Approve
            | Verb::Reject
            | Verb::Fail
            | Verb::Drop
            | Verb::Reopen
            | Verb::Retry => person(&format!("{verb} {task}")),
            Verb::Handoff | Verb::Lapse | Verb::Reset => None,
        },
        Step::ClaimInWorktree(task) => {
            call("claim", json!({ "id": task }), "take it, and go on in its branch")
        }
        Step::ClaimNext => call("claim", json!({}), "the best task you can claim"),
        Step::WaitFor(task) => {
            call("claim", json!({ "id": task, "wait": MAX_WAIT_S }), "wait until it is free")
        }
        Step::ClaimWithLimit(task) | Step::Run(task) => call("claim", json!({ "id": task }), "take it"),
        Step::Renew(task) => call("claim", json!({ "id": task }), "claiming what you hold renews it"),
        Step::AddTask => call("add", json!({ "title": "…" }), "say what you are about to do, then claim it"),
        Step::Note { task, to } => call(
            "note",
            json!({ "id": task, "text": "…" }),
            match to {
                Reader::Holder => "tell its holder what you need",
                Reader::Person => "say why, and ask a person",
                Reader::Reviewer => "ask another actor to review it",
            },
        ),
        Step::GiveResolution(task) => {
            call("done", json!({ "id": task, "message": "…" }), "say what was done")
        }
        Step::ReserveFolders(_) => Some("reserve whole folders instead of single files".to_owned()),
        Step::LongerReference => {
            Some("name one of them by its id, or by more characters of its uid".to_owned())
        }
        Step::Identify(CallerKind::Agent) | Step::UseOwnName => {
            person("start this server under the name of an agent")
        }
        Step::PresentNoToken => person("start this server without a token, or with the one that was granted"),
        Step::NameInstance => {
            person("set up hooks for this program, or to start one server per conversation, with its name")
        }
        Step::Init => person("set up a store here"),
        Step::Join => person("confirm, once, that this clone belongs to that project"),
        Step::NameProject => person("name the project in the repository's configuration"),
        Step::MigrateStore => person("bring the store up to date"),
        Step::CheckStore | Step::MendStore => person("check the store"),
        Step::VerifyLedger => person("verify the ledger"),
        Step::RestoreBackup => person("restore a backup of the store, and keep the damaged file"),
        Step::LocalStore => person("put the store on a local file system"),
        Step::LeaveSandbox => person("run this server outside the sandbox"),
        Step::MakeWritable(_) => person("make the store writable for this server"),
        Step::Gates(_) => None,
        Step::RunGates(task) => call("gate_run", json!({ "id": task }), "run what it has still to pass"),
        // The answer to a run has the gate's output.
        Step::GateLog { task, .. } => {
            call("gate_run", json!({ "id": task }), "run it again and read its output")
        }
        Step::PassGate { .. } | Step::AskToPass { .. } => person("judge that gate"),
        Step::Land(_) | Step::FinishByLanding(_) | Step::TryToLand(_) => person("land the task"),
        Step::KeepBothSides(file) => person(&format!(
            "say whether everyone only adds to {}: then both sides are kept",
            quote::name(file)
        )),
        Step::ApproveCommands(_) => person("read and approve what this repository would run"),
        Step::Plain(text) => Some(text.to_string()),
        Step::Rescued(_) => person("look at what its last holder left uncommitted"),
        Step::BringBack(_) => person("bring the content of that file back"),
        // Only the command line has these: seats, keys, reasons and links, files, people's and pipelines' names.
        Step::ExplainReady
        | Step::ListActors
        | Step::AllRescued
        | Step::PreviewReset(_)
        | Step::RenewIfYours(_)
        | Step::GiveBack { .. }
        | Step::Seat(..)
        | Step::GiveReason
        | Step::GiveLink
        | Step::NewKey
        | Step::RepeatWithKey
        | Step::Identify(CallerKind::Person | CallerKind::Pipeline)
        | Step::ExportLedger
        | Step::SignSeal
        | Step::CopyStore
        | Step::SetUp { .. }
        | Step::InstallGuard
        | Step::AddWorktree(_)
        | Step::RemoveWorktree(_)
        | Step::Worktrees
        | Step::RepairWorktrees
        | Step::Commands
        | Step::Help
        | Step::HelpOn(_) => None,
    }
}
