//! Next steps in the words of the command line: commands to paste, each with its purpose. Agents' hooks use the same
//! words, since their agents have a shell.
//!
//! Only [`refusal`] says how to override a refusal, and only to people: the core sets an override for nobody else.

use std::sync::OnceLock;

use onus_core::quote::{self, shell_word};
use onus_core::refusal::{CallerKind, Forced, OnSeat, Override, Reader, Refusal, RefusalView, Step};
use onus_core::transition::Verb;
use onus_engine::Notice;

/// Separates a command from its purpose.
const COMMENT: &str = "   #";

/// A refusal as `--json` prints it and people read it.
pub(crate) fn refusal(refusal: &Refusal) -> RefusalView {
    let override_ = refusal.overridable.as_deref().map(|way| typed(overriding(way)));
    RefusalView { override_, ..refusal.worded(step) }
}

pub(crate) fn notice(notice: &Notice) -> Notice<String> {
    notice.worded(&step)
}

/// A notice and its next steps on one line.
pub(crate) fn notice_line(notice: &Notice) -> String {
    let steps = notice.next.iter().filter_map(step);
    let commands: Vec<String> = steps.map(|step| without_comment(&step).to_owned()).collect();
    match commands.as_slice() {
        [] => notice.message.clone(),
        commands => format!("{}; next: {}", notice.message, commands.join(", or ")),
    }
}

/// A step without its purpose.
pub(crate) fn without_comment(step: &str) -> &str {
    step.split(COMMENT).next().unwrap_or(step)
}

fn overriding(way: &Override) -> String {
    let link = if way.needs_link { " --link URL" } else { "" };
    match &way.by {
        Forced::SameRequest => format!("repeat it with --force --reason '…'{link}"),
        Forced::ClaimInWorktree(task) => {
            format!("onus claim {} --worktree --force --reason '…'{link}", quote::name(task))
        }
        Forced::Takeover(task) => format!("onus takeover {} --force --reason '…'{link}", quote::name(task)),
        Forced::SeatTakeover(seat) => {
            let seat = quote::name(seat.as_str());
            format!("onus seat takeover {seat} --force --reason '…'{link}")
        }
        Forced::LiveCopy => "repeat it with --with-live-leases".to_owned(),
    }
}

/// The folder that the caller named with `-C`, and so has to name again: as a word of the shell.
pub(crate) static FOLDER: OnceLock<String> = OnceLock::new();

/// A command as the caller has to type it.
fn typed(command: String) -> String {
    match (FOLDER.get(), command.strip_prefix("onus ")) {
        (Some(folder), Some(rest)) => format!("onus -C {folder} {rest}"),
        _ => command,
    }
}

/// A step as a command, or in plain words if there is no command for it. None if it cannot be written as a legible command.
pub(crate) fn step(step: &Step) -> Option<String> {
    worded(step).map(typed)
}

fn worded(step: &Step) -> Option<String> {
    let on =
        |command: &str, task: &str, rest: &str| Some(format!("onus {command} {}{rest}", shell_word(task)?));
    let said = |text: &str| Some(text.to_owned());
    match step {
        Step::TakeAnother => said("onus ready   # find another task"),
        Step::Ready => said("onus ready   # tasks you can claim"),
        Step::ExplainReady => said("onus ready --explain   # why each task is not ready"),
        Step::Status => said("onus status   # who holds what"),
        Step::ListTasks => said("onus list --all   # every task in this project"),
        Step::Show(task) => on("show", task, ""),
        Step::Why(task) => on("why", task, &format!("   # how {} stands", quote::name(task))),
        Step::Log(task) => on("log", task, "   # what happened"),
        Step::LogAll => said("onus log   # what happened last"),
        Step::Graph(task) => on("graph", task, "   # what it depends on"),
        Step::Reserved(task) => on("scope show", task, "   # what it reserves"),
        Step::Rescued(task) => on("rescue show", task, "   # what its last holder left uncommitted"),
        Step::AllRescued => said("onus rescue list   # what was kept, of every task"),
        Step::BringBack(file) => on("rescue restore", file, "   # bring its content back"),
        Step::ListActors => said("onus actor list"),
        Step::PreviewReset(task) => {
            on("reset", task, " --dry-run   # every task it would reset, and who holds it")
        }
        Step::Do(verb, task) => match verb {
            Verb::Done => on("done", task, " -m '…'"),
            Verb::Submit => on("submit", task, " -m '…'"),
            Verb::Block => on("block", task, " -m '…'"),
            Verb::Approve => on("approve", task, "   # by someone who did not work on it"),
            Verb::Takeover => on("takeover", task, " --reason '…'"),
            Verb::Handoff => on("handoff", task, " --to agent:NAME --reason '…'"),
            Verb::Reset => on("reset", task, " --dry-run"),
            // There is no command for this: a lapsed lease is ended when it is in the way.
            Verb::Lapse => None,
            verb => on(verb.as_str(), task, ""),
        },
        Step::ClaimInWorktree(task) => on("claim", task, " --worktree   # and go on in its branch"),
        Step::ClaimNext => said("onus claim --next   # the best task you can claim"),
        Step::WaitFor(task) => on("claim", task, " --wait 10m   # wait up to 10 min for it"),
        Step::ClaimWithLimit(task) => on("claim", task, " --ttl 2h   # for a limited time"),
        Step::Renew(task) => on("renew", task, ""),
        Step::RenewIfYours(task) => on("renew", task, "   # if you are that holder"),
        Step::Run(task) => on("run", task, " -- COMMAND"),
        Step::AddTask => said("onus add 'what you are about to do'   # then claim it"),
        Step::Note { task, to } => on(
            "note",
            task,
            match to {
                Reader::Holder => " '…'   # tell its holder what you need",
                Reader::Person => " '…'   # say why, and ask a person",
                Reader::Reviewer => " '…'   # and ask another actor to review it",
            },
        ),
        Step::ReserveFolders(task) => {
            let task = shell_word(task)?;
            Some(format!("onus scope add --task {task} 'folder/**'   # reserve folders instead of files"))
        }
        Step::GiveBack { task, glob } => {
            Some(format!("onus scope rm --task {} {}", shell_word(task)?, shell_word(glob.as_str())?))
        }
        Step::Seat(what, seat) => {
            let seat = shell_word(seat.as_str())?;
            Some(match what {
                OnSeat::Take => format!("onus seat take {seat}"),
                OnSeat::WaitFor => format!("onus seat take {seat} --wait 10m   # wait up to 10 min for it"),
                OnSeat::TakeOver => format!("onus seat takeover {seat} --reason '…'"),
                OnSeat::Renew => format!("onus seat renew {seat}"),
                OnSeat::RenewIfYours => format!("onus seat renew {seat}   # if you are that holder"),
                OnSeat::Release => format!("onus seat release {seat}"),
                OnSeat::Show => format!("onus seat show {seat}"),
                OnSeat::Log => format!("onus log --seat {seat}"),
            })
        }
        Step::GiveReason => said("repeat it with --reason '…'"),
        Step::GiveResolution(task) => on("done", task, " -m 'what was done'"),
        Step::GiveLink => said("repeat it with --link URL"),
        Step::NewKey => said("use a new --key for a new request"),
        Step::RepeatWithKey => said("with --key you can repeat a command safely: it is applied once"),
        Step::LongerReference => said("name one of them by its id, or by more characters of its uid"),
        Step::Identify(kind) => said(match kind {
            CallerKind::Agent => "agents: set ONUS_ACTOR=agent:NAME, and ONUS_INSTANCE, one per conversation",
            CallerKind::Person => {
                "people: use a terminal, or once: onus config set --user identity.actor human:NAME"
            }
            CallerKind::Pipeline => "CI: set ONUS_ACTOR=ci:NAME",
        }),
        Step::PresentNoToken => said("unset ONUS_TOKEN, or set it to the token that you were granted"),
        Step::UseOwnName => said("leave out --as and ONUS_ACTOR, or set ONUS_ACTOR=agent:NAME"),
        Step::NameInstance => said(
            "ONUS_INSTANCE=NAME onus …   # the instance that you were told at the start of this conversation",
        ),
        Step::Init => said("onus init   # make one here"),
        Step::Join => {
            said("onus init   # a person confirms it, once per clone, if the project is the right one")
        }
        Step::NameProject => said(
            "set ONUS_PROJECT, or add [project] name = \"…\" to onus.toml at the repository's root and commit it",
        ),
        Step::MigrateStore => said("onus store migrate   # as the owner of the tables"),
        Step::CheckStore => said("onus doctor   # what is wrong"),
        Step::MendStore => said("onus doctor --fix"),
        Step::VerifyLedger => said("onus ledger verify   # check everything"),
        Step::ExportLedger => said("onus ledger export   # save what is left"),
        Step::SignSeal => said("onus ledger seal --sign"),
        Step::CopyStore => {
            said("onus store copy postgres://USER@HOST/DATABASE FILE   # copies this project into a file")
        }
        Step::RestoreBackup => said("restore the last copy made by 'onus backup', and keep the damaged file"),
        Step::LocalStore => {
            said("set ONUS_STORE to a path on a local file system, the same for everyone on this machine")
        }
        Step::LeaveSandbox => said(
            "in a sandbox: use the tools of the MCP server onus (ready, claim, touch, note, done, release, block, show, add, gate_run, \
             status; search for them if they are not listed), or ask for permission to run the command outside the sandbox",
        ),
        Step::MakeWritable(path) => {
            Some(format!("otherwise make {} writable for your user", quote::name(&path.to_string_lossy())))
        }
        Step::SetUp { agents, for_user } => {
            let user = if *for_user { " --user" } else { "" };
            Some(format!("onus setup {}{user}", agents.join(" ")))
        }
        Step::InstallGuard => said("onus guard install"),
        Step::AddWorktree(task) => on("worktree add", task, ""),
        Step::RemoveWorktree(path) => on("worktree remove", path, ""),
        Step::Worktrees => said("onus worktree list"),
        Step::RepairWorktrees => {
            said("onus worktree repair   # add the folder's new path if it was moved elsewhere")
        }
        Step::Gates(task) => on("gate list", task, "   # what it has to pass"),
        Step::RunGates(task) => on("gate run", task, "   # run what it has still to pass"),
        Step::GateLog { task, gate } => {
            Some(format!("onus gate log {} {}   # what it wrote", shell_word(task)?, shell_word(gate)?))
        }
        Step::PassGate { task, gate, by } => {
            let by = match by {
                Reader::Reviewer => "by someone who did not work on it",
                Reader::Person | Reader::Holder => "by someone who may pass it",
            };
            Some(format!("onus gate pass {} {}   # {by}", shell_word(task)?, shell_word(gate)?))
        }
        Step::AskToPass { task, gate, by } => {
            let whom = match by {
                Reader::Reviewer => "somebody who did not work on it",
                Reader::Person | Reader::Holder => "a person",
            };
            Some(format!("ask {whom}: onus gate pass {} {}", shell_word(task)?, shell_word(gate)?))
        }
        Step::Land(task) => on("land", task, ""),
        Step::FinishByLanding(task) => on("land", task, " -m '…'"),
        Step::TryToLand(task) => {
            on("land", task, " --check   # run them on the merged result; nothing moves")
        }
        Step::KeepBothSides(file) => {
            let file = quote::name(file);
            Some(format!("if everyone only adds to {file}: name it in land.union, in the target's onus.toml"))
        }
        Step::ApproveCommands(names) => {
            let names: Option<Vec<String>> = names.iter().map(|name| shell_word(name)).collect();
            Some(format!(
                "onus trust approve {}   # by a person, after reading 'onus trust list'",
                names?.join(" ")
            ))
        }
        Step::Commands => said("onus trust list   # the commands that this repository configures"),
        Step::Help => said("onus help --all"),
        Step::HelpOn(command) => Some(format!("onus help {command}")),
        Step::Plain(text) => Some(text.to_string()),
    }
}
