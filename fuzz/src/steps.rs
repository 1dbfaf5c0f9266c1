//! One step of each kind, for the tests of the interfaces that word them.

use std::path::PathBuf;

use onus_core::refusal::{CallerKind, OnSeat, Reader, Step};
use onus_core::scope::Glob;
use onus_core::seat::SeatName;
use onus_core::transition::Verb;

/// One of each kind and verb.
pub fn steps() -> Vec<Step> {
    let id = || "ON-1".to_owned();
    let mut all = vec![
        Step::TakeAnother,
        Step::Ready,
        Step::ExplainReady,
        Step::Status,
        Step::ListTasks,
        Step::Show(id()),
        Step::Why(id()),
        Step::Log(id()),
        Step::LogAll,
        Step::Graph(id()),
        Step::Reserved(id()),
        Step::Rescued(id()),
        Step::AllRescued,
        Step::BringBack("src/a.rs".to_owned()),
        Step::ListActors,
        Step::PreviewReset(id()),
        Step::ClaimInWorktree(id()),
        Step::ClaimNext,
        Step::WaitFor(id()),
        Step::ClaimWithLimit(id()),
        Step::Renew(id()),
        Step::RenewIfYours(id()),
        Step::Run(id()),
        Step::AddTask,
        Step::ReserveFolders(id()),
        Step::GiveReason,
        Step::GiveResolution(id()),
        Step::GiveLink,
        Step::NewKey,
        Step::RepeatWithKey,
        Step::LongerReference,
        Step::UseOwnName,
        Step::PresentNoToken,
        Step::NameInstance,
        Step::Init,
        Step::Join,
        Step::NameProject,
        Step::MigrateStore,
        Step::CheckStore,
        Step::MendStore,
        Step::VerifyLedger,
        Step::ExportLedger,
        Step::SignSeal,
        Step::CopyStore,
        Step::RestoreBackup,
        Step::LocalStore,
        Step::LeaveSandbox,
        Step::MakeWritable(PathBuf::from("/srv/a store")),
        Step::SetUp { agents: vec!["claude".to_owned(), "codex".to_owned()], for_user: false },
        Step::SetUp { agents: vec!["gemini".to_owned()], for_user: true },
        Step::InstallGuard,
        Step::Help,
        Step::HelpOn("edit"),
        Step::Gates(id()),
        Step::RunGates(id()),
        Step::GateLog { task: id(), gate: "tests".to_owned() },
        Step::PassGate { task: id(), gate: "review".to_owned(), by: Reader::Reviewer },
        Step::AskToPass { task: id(), gate: "review".to_owned(), by: Reader::Reviewer },
        Step::AskToPass { task: id(), gate: "sign-off".to_owned(), by: Reader::Person },
        Step::Land(id()),
        Step::FinishByLanding(id()),
        Step::TryToLand(id()),
        Step::KeepBothSides("LOG.md".to_owned()),
        Step::ApproveCommands(vec!["setup".to_owned(), "tests".to_owned()]),
        Step::Commands,
        Step::plain("free some space"),
    ];
    all.extend(Verb::ALL.iter().map(|verb| Step::Do(*verb, id())));
    all.extend([Reader::Holder, Reader::Person, Reader::Reviewer].map(|to| Step::Note { task: id(), to }));
    let seat = "land:main".parse::<SeatName>().into_iter();
    let on_seat = [
        OnSeat::Take,
        OnSeat::WaitFor,
        OnSeat::TakeOver,
        OnSeat::Renew,
        OnSeat::RenewIfYours,
        OnSeat::Release,
        OnSeat::Show,
        OnSeat::Log,
    ];
    all.extend(seat.flat_map(|seat| on_seat.map(|what| Step::Seat(what, seat.clone()))));
    all.extend([Step::AddWorktree(id()), Step::RemoveWorktree("/srv/web.onus/ON-7".to_owned())]);
    all.extend([Step::Worktrees, Step::RepairWorktrees]);
    all.extend([CallerKind::Agent, CallerKind::Person, CallerKind::Pipeline].map(Step::Identify));
    let globs = ["src/a.rs", "src/**", "it's [!a] {b,c}", "«x»"].map(Glob::literal);
    all.extend(globs.into_iter().flatten().map(|glob| Step::GiveBack { task: id(), glob }));
    all
}
