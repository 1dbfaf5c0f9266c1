//! Landing as configured here: combines the store's record and git's references.
//!
//! One *round* lands some tasks, often one, in one step of the target. Between its steps, its state is only in git and
//! in the store, so if a lander is killed, the next one settles what it left:
//!
//! 1. finds the target by its references (or the remote's);
//! 2. merges each branch on top of the one before, in memory; reports conflicts and leaves them out (`round.rs`, `failing.rs`);
//! 3. runs the gates of the *target's* tree on the result of all (`checks.rs`);
//! 4. (`step.rs`) for each task, writes the reference of its intent, then the event; the store refuses the event if task, holder or
//!    gates are not what was checked, or if somebody else has the seat of the target;
//! 5. moves the target and deletes every intent, in one git transaction;
//! 6. records that each task landed.
//!
//! If the target, a branch or an intent changes meanwhile, the round is withdrawn and built again. `queue.rs` decides which tasks
//! share a round.

mod checks;
mod failing;
mod pull_request;
mod queue;
mod report;
mod round;
mod seat;
mod settle;
mod step;
mod words;

pub use checks::{GateRun, Running};
pub use pull_request::Opened;
pub use queue::Queued;
pub use report::{LandedTask, Ran, Refused, Report};
pub use round::Until;
pub use seat::Seated;

use std::path::PathBuf;

use onus_core::command::Force;
use onus_core::commit::CommitId;
use onus_core::ids::{TaskRef, Uid};
use onus_core::landing::{LandStyle, Landed, LandingPlace};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::task::{State, TaskBranch};
use onus_engine::{AnyEngine, Identity, Landable, Notice};
use onus_os::clock;
use onus_repo::landing::{Error, Lander, Tidying, no_branch};
use onus_store::Access;

use crate::Host;
use crate::config::LandSettings;
use crate::worktree::machine;

pub(crate) use settle::settle;

/// Lands tasks in one target.
pub struct Landings<'h> {
    host: &'h Host,
    pub lander: Lander,
    settings: LandSettings,
    pub target: String,
    pub style: LandStyle,
    pub engine: AnyEngine,
    pub identity: Identity,
    /// The folder for scratch worktrees.
    root: PathBuf,
    /// A person's override of gates, which is recorded.
    pub force: Option<Force>,
    /// Whether to keep the worktrees and branches of landed tasks.
    pub keeps: bool,
    /// Notes of what to remove after landing, by task.
    tidying: Vec<(String, Tidying)>,
}

impl std::fmt::Debug for Landings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Landings").field("target", &self.target).finish_non_exhaustive()
    }
}

/// A task that is to land, as it was read.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub(crate) of: Landable,
    /// Its branch, and the commit of that.
    pub branch: String,
    pub head: CommitId,
}

impl Candidate {
    pub fn id(&self) -> &str {
        &self.of.view.id
    }

    pub fn title(&self) -> &str {
        &self.of.view.title
    }

    /// Whether its branch has moved since it was made.
    pub(crate) fn has_commits(&self) -> bool {
        self.of.task.branch.as_ref().is_some_and(|own| own.base != self.head.as_str())
    }

    /// The actor that holds it.
    pub fn holder(&self) -> Option<&str> {
        self.of.view.lease.as_ref().map(|lease| lease.actor.as_str())
    }

    pub fn state(&self) -> State {
        self.of.task.state
    }

    pub fn is_done(&self) -> bool {
        self.of.task.state == State::Done
    }
}

impl<'h> Landings<'h> {
    /// In the name of the caller, unless of `identity`. `onto`: a target to use instead of the task's own or the configured one.
    pub fn of(
        host: &'h Host,
        identity: Option<Identity>,
        onto: Option<&str>,
        style: Option<LandStyle>,
    ) -> Result<Landings<'h>, Refusal> {
        let place = host.place.as_ref().ok_or_else(no_repository)?;
        let lander = Lander::of(place)?.ok_or_else(no_repository)?;
        lander.check_git().map_err(refused)?;
        let (settings, worktrees) = (host.config.landing(), host.config.worktrees());
        let configured = onto.or(worktrees.target.as_deref());
        // A missing target is not an error here, since each task has a target of its own.
        let target = match lander.worktrees().target(configured, false) {
            Ok(target) => target.name,
            Err(refusal) if onto.is_some() => return Err(refusal),
            Err(_) => String::new(),
        };
        let root = lander.worktrees().root(worktrees.root.as_deref())?;
        let mut engine = host.engine(Access::Write)?;
        let identity = match identity {
            Some(identity) => identity,
            None => host.identity(&mut engine)?,
        };
        let style = style.unwrap_or(settings.style);
        Ok(Landings {
            host,
            lander,
            settings,
            target,
            style,
            engine,
            identity,
            root,
            force: None,
            keeps: false,
            tidying: Vec::new(),
        })
    }

    /// Deletes the notes of what to remove, once that is done.
    pub fn tidied(&mut self) {
        self.tidying.drain(..).for_each(|(_, tidying)| tidying.done());
    }

    /// Settles what killed landers left. Returns notices for the caller, and what could not be settled.
    pub fn settle(&mut self) -> Result<(Vec<Notice>, Vec<Refusal>), Refusal> {
        self.lander.worktrees().remove_scratches()?;
        let identity = self.identity.clone();
        self.engine.settle_all(&identity)
    }

    pub fn remote(&self) -> Option<&str> {
        self.settings.remote.as_deref()
    }

    /// The repository that has the references of a landing.
    fn place(&self) -> LandingPlace {
        match &self.settings.remote {
            Some(remote) => LandingPlace { machine: None, repository: remote.clone() },
            None => LandingPlace {
                machine: Some(machine(&clock::now())),
                repository: self.lander.worktrees().common_dir().to_string_lossy().into_owned(),
            },
        }
    }

    /// Reads one task: the named one, else the one that the caller holds.
    pub fn candidate(&mut self, task: Option<&TaskRef>) -> Result<Candidate, Refusal> {
        let identity = self.identity.clone();
        let of = self.engine.landable(Some(&identity), task)?.value;
        self.candidate_of(of)
    }

    /// The commit by which a task had landed before it was reopened, if the target still contains it; the one that its branch began at, if
    /// there was nothing to land.
    fn landed_before(&mut self, task: Uid, own: &TaskBranch) -> Result<Option<CommitId>, Refusal> {
        let landed = self.engine.landed_before(task)?;
        let is_there = |landed: &Landed| self.lander.is_in(&landed.target, &landed.commit).unwrap_or(false);
        let commit = |landed: Landed| landed.by().cloned().or_else(|| own.base.parse().ok());
        Ok(landed.filter(is_there).and_then(commit))
    }

    /// Finds the current commit of a task's branch.
    fn candidate_of(&mut self, of: Landable) -> Result<Candidate, Refusal> {
        let id = &of.view.id;
        let Some(own) = &of.task.branch else {
            let message = format!("{id} has no branch of its own, so there is nothing to land");
            return Err(Refusal::new(Code::NotAllowed, message).task(id).next(Step::show(id)));
        };
        let name = own.branch.clone();
        let head = self.lander.commit_of(&format!("refs/heads/{name}"));
        let is_over = head.is_none() || of.task.state == State::Done;
        if let Some(landed) = of.task.landing.landed.as_ref().filter(|_| is_over) {
            let message = match landed.by() {
                Some(commit) => {
                    format!("{id} has landed already, in {} as {}", landed.target, commit.short())
                }
                None => format!("{id} has nothing to land: its branch has no commit of its own"),
            };
            return Err(Refusal::new(Code::Nothing, message).task(id).next(Step::show(id)));
        }
        // Landed, reopened, and done again without a commit: its branch was deleted when it landed.
        let head = match head {
            None => self.landed_before(of.task.uid, own)?,
            head => head,
        };
        let Some(head) = head else {
            if let error @ Error::NotText(_) = no_branch(&name) {
                return Err(refused(error).task(id));
            }
            let message = format!("branch {name} of {id} is not in this repository");
            return Err(Refusal::new(Code::NotFound, message)
                .task(id)
                .next(Step::plain("land it where the branch is, or fetch it")));
        };
        Ok(Candidate { branch: name, head, of })
    }
}

fn no_repository() -> Refusal {
    Refusal::usage("there is no git repository here, so nothing can land")
        .next(Step::plain("go to a checkout of the repository"))
}

/// Converts an error of git to a refusal.
pub(crate) fn refused(error: Error) -> Refusal {
    let message = error.to_string();
    match error {
        Error::NoBranch(_) | Error::NoRemote(_) => Refusal::new(Code::NotFound, message),
        Error::NotText(_) => Refusal::usage(message),
        Error::OldGit(_) | Error::NoIdentity | Error::HasMerges(_) | Error::Symbolic(..) => {
            Refusal::new(Code::NotAllowed, message)
        }
        Error::Git(_) | Error::NotAhead | Error::Io(_) | Error::Unreadable(_) => {
            Refusal::new(Code::Unexpected, message)
        }
    }
}
