//! The safe next step after a refusal, as data: each interface words it, or leaves out what it cannot do.

use std::borrow::Cow;
use std::path::PathBuf;

use crate::scope::Glob;
use crate::seat::SeatName;
use crate::transition::Verb;

/// A task's id, as people say it.
type Id = String;

/// What can safely be done next. None of these overrides anything: see [`Override`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Leave this task alone and take another that is ready.
    TakeAnother,
    /// See what can be claimed.
    Ready,
    /// See why nothing is ready.
    ExplainReady,
    /// See who holds what.
    Status,
    ListTasks,
    Show(Id),
    /// See what is in the way of claiming it.
    Why(Id),
    /// See what happened to it.
    Log(Id),
    /// See what happened last, to any task.
    LogAll,
    /// See what it depends on.
    Graph(Id),
    /// See what its lease reserves.
    Reserved(Id),
    /// See what was rescued of its holders' uncommitted files.
    Rescued(Id),
    /// See what was rescued of any task.
    AllRescued,
    /// Restore the last content of a file that a hook saw.
    BringBack(String),
    ListActors,
    /// See all that a reset would touch.
    PreviewReset(Id),

    /// A verb of the transition table.
    Do(Verb, Id),
    /// Claim it and continue on its own branch, in its worktree.
    ClaimInWorktree(Id),
    ClaimNext,
    /// Claim it as soon as it is free.
    WaitFor(Id),
    /// Claim it for a limited time.
    ClaimWithLimit(Id),
    Renew(Id),
    /// Renew it, if the caller is the holder.
    RenewIfYours(Id),
    /// Hold it for as long as a command runs.
    Run(Id),
    AddTask,
    Note {
        task: Id,
        to: Reader,
    },
    /// Reserve folders instead of single files.
    ReserveFolders(Id),
    /// Release one reserved path.
    GiveBack {
        task: Id,
        glob: Glob,
    },

    /// What can be done about a seat.
    Seat(OnSeat, SeatName),

    /// Give the reason that the request needs.
    GiveReason,
    /// Say what was done.
    GiveResolution(Id),
    /// Give a link to the decision or approval.
    GiveLink,
    /// A new request needs a new key.
    NewKey,
    /// Repeat it under its key, which applies it once.
    RepeatWithKey,
    /// Use more of the uid, or the id.
    LongerReference,

    /// Say which agent, person or pipeline calls.
    Identify(CallerKind),
    /// An agent acts under its own name.
    UseOwnName,
    /// Repeat it without the token, or with the one that was granted.
    PresentNoToken,
    /// Say which conversation calls.
    NameInstance,

    Init,
    /// A person confirms, once, that this clone belongs to the project it names.
    Join,
    NameProject,
    MigrateStore,
    CheckStore,
    MendStore,
    VerifyLedger,
    ExportLedger,
    SignSeal,
    CopyStore,
    RestoreBackup,
    /// Keep the store on a local file system.
    LocalStore,
    /// In a sandbox: use the way that works outside it.
    LeaveSandbox,
    /// Make this writable for the caller.
    MakeWritable(PathBuf),
    /// Write agents' configuration again.
    SetUp {
        agents: Vec<String>,
        for_user: bool,
    },
    /// Let git's hooks check commits.
    InstallGuard,
    Help,
    HelpOn(&'static str),

    /// Make a worktree for a task, or continue in the one that has its branch.
    AddWorktree(Id),
    /// Remove the worktree at this path.
    RemoveWorktree(String),
    Worktrees,
    RepairWorktrees,
    /// See which gates it has to pass, and their verdicts.
    Gates(Id),
    /// Run the gates that it has still to pass.
    RunGates(Id),
    /// Read what a gate wrote when it was run last.
    GateLog {
        task: Id,
        gate: String,
    },
    /// Pass a gate that needs a judge instead of a command.
    PassGate {
        task: Id,
        gate: String,
        by: Reader,
    },
    /// Ask somebody who may judge a gate to pass it: the caller may not.
    AskToPass {
        task: Id,
        gate: String,
        by: Reader,
    },
    /// Land it.
    Land(Id),
    /// Its holder lands it, which finishes it.
    FinishByLanding(Id),
    /// Find out whether it would land: its gates are run on the merged result, and nothing moves.
    TryToLand(Id),
    /// A person configures the project so that merges keep both sides of this file, to which everyone only adds.
    KeepBothSides(String),
    /// A person reads and approves these commands, which the repository configures.
    ApproveCommands(Vec<String>),
    /// See which commands the repository configures.
    Commands,

    /// Something outside onus: it is true in every interface, and mentions nothing specific to one.
    Plain(Cow<'static, str>),
}

/// What can be done about a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSeat {
    Take,
    /// Take it as soon as it is free.
    WaitFor,
    TakeOver,
    Renew,
    /// Renew it, if the caller is the holder.
    RenewIfYours,
    Release,
    Show,
    /// See what happened to it.
    Log,
}

/// Whom a note is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Holder,
    /// A person, who decides.
    Person,
    /// Another actor, who reviews.
    Reviewer,
}

/// The kind of caller that has not given its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerKind {
    Agent,
    Person,
    Pipeline,
}

/// How a person gets past a refusal. It is set for people only, and no interface shows it to anybody else (P11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    pub by: Forced,
    /// The policy asks for a link to a decision.
    pub needs_link: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forced {
    /// The same request, forced.
    SameRequest,
    /// A forced claim with a worktree.
    ClaimInWorktree(Id),
    /// A forced takeover: claiming is not forced.
    Takeover(Id),
    /// A forced takeover of a seat.
    SeatTakeover(SeatName),
    /// A forced copy of a store in which leases are live.
    LiveCopy,
}

impl Step {
    pub fn show(task: &str) -> Step {
        Step::Show(task.to_owned())
    }

    pub fn why(task: &str) -> Step {
        Step::Why(task.to_owned())
    }

    pub fn log(task: &str) -> Step {
        Step::Log(task.to_owned())
    }

    pub fn verb(verb: Verb, task: &str) -> Step {
        Step::Do(verb, task.to_owned())
    }

    pub fn note(task: &str, to: Reader) -> Step {
        Step::Note { task: task.to_owned(), to }
    }

    pub fn plain(text: impl Into<Cow<'static, str>>) -> Step {
        Step::Plain(text.into())
    }
}
