//! Landing, as it is configured here: the store's record and git's references brought together.
//!
//! One *round* lands some tasks, often one, in one step of the target. Nothing of it is remembered between its steps except in git and
//! in the store, so whoever is killed leaves what the next one settles:
//!
//! 1. where the target is, by its references (or the remote's);
//! 2. each branch merged on top of the one before, in memory; what conflicts is told and left out (`round.rs`, `failing.rs`);
//! 3. the gates of the *target's* tree, run on the result of all (`checks.rs`);
//! 4. (`step.rs`) for each task: the reference of its intent, then the event, which the store refuses if task, holder or gates are not what was
//!    checked, or if the seat of the target is another's;
//! 5. the target moves and every intent goes, in one transaction of git's;
//! 6. that each landed is recorded.
//!
//! A round whose target, branch or intent changed under it is withdrawn and built again. `queue.rs` says which tasks share a round.

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
pub use seat::Seated;

use std::path::PathBuf;

use onus_core::command::Force;
use onus_core::commit::CommitId;
use onus_core::ids::{TaskRef, Uid};
use onus_core::landing::{LandStyle, Landed, LandingPlace};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::task::State;
use onus_engine::{Engine, Identity, Landable, Notice};
use onus_os::clock;
use onus_repo::landing::{Error, Lander, Tidying, no_branch};
use onus_store::{Access, AnyStore, Store as _, Watch};

use crate::Host;
use crate::config::LandSettings;
use crate::worktree::machine;

pub(crate) use settle::settle;

/// All that landing in one target needs.
pub struct Landings<'h> {
    host: &'h Host,
    pub lander: Lander,
    settings: LandSettings,
    pub target: String,
    pub style: LandStyle,
    engine: Engine<AnyStore>,
    identity: Identity,
    /// Where scratch worktrees are made.
    root: PathBuf,
    /// A person's override of gates.
    force: Option<Force>,
    /// Whether worktrees and branches stay.
    keeps: bool,
    /// What is to go once it has landed, by task.
    tidying: Vec<(String, Tidying)>,
}

impl std::fmt::Debug for Landings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Landings").field("target", &self.target).finish_non_exhaustive()
    }
}

/// A task that is to land, as it was looked at.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub(crate) of: Landable,
    /// Its branch, and where that is.
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

    /// Who holds it.
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
    /// `onto`: another target than the task's own, or the configured one.
    pub fn new(
        host: &'h Host,
        onto: Option<&str>,
        style: Option<LandStyle>,
    ) -> Result<Landings<'h>, Refusal> {
        Landings::of(host, None, onto, style)
    }

    /// For whoever merges: nothing but what landed elsewhere is recorded in its name.
    pub fn recognising(host: &'h Host, by: Identity) -> Result<Landings<'h>, Refusal> {
        Landings::of(host, Some(by), None, None)
    }

    fn of(
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
        // Without a branch here, a task still knows its own.
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

    /// Gates bind nobody: a person says so, and it is recorded.
    pub fn forcing(self, force: Option<Force>) -> Self {
        Landings { force, ..self }
    }

    /// Worktrees and branches of what lands stay.
    pub fn keeping(self, keeps: bool) -> Self {
        Landings { keeps, ..self }
    }

    /// What landed is tidied up: nobody has to go on with it.
    pub fn tidied(&mut self) {
        self.tidying.drain(..).for_each(|(_, tidying)| tidying.done());
    }

    /// Settles what killed landers left. What the caller should know, and what could not be settled.
    pub fn settle(&mut self) -> Result<(Vec<Notice>, Vec<Refusal>), Refusal> {
        self.lander.remove_leftovers()?;
        let identity = self.identity.clone();
        self.engine.settle_all(&identity)
    }

    /// Whether nobody left a landing half done.
    pub fn is_settled(&mut self) -> Result<bool, Refusal> {
        Ok(self.engine.unsettled()?.is_empty())
    }

    /// Listens for what others commit to the store.
    pub fn watch(&mut self) -> Result<Box<dyn Watch>, Refusal> {
        Ok(self.engine.store().watch()?)
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn engine(&mut self) -> &mut Engine<AnyStore> {
        &mut self.engine
    }

    pub fn remote(&self) -> Option<&str> {
        self.settings.remote.as_deref()
    }

    /// Where the references of a landing are.
    fn place(&self) -> LandingPlace {
        match &self.settings.remote {
            Some(remote) => LandingPlace { machine: None, repository: remote.clone() },
            None => LandingPlace {
                machine: Some(machine(&clock::now())),
                repository: self.lander.worktrees().common_dir().to_string_lossy().into_owned(),
            },
        }
    }

    /// One task, named or the one that the caller holds.
    pub fn candidate(&mut self, task: Option<&TaskRef>) -> Result<Candidate, Refusal> {
        let identity = self.identity.clone();
        let of = self.engine.landable(Some(&identity), task)?.value;
        self.looked_at(of)
    }

    /// The commit by which a task had landed before it was reopened, if that is all there is of it.
    fn landed_before(&mut self, task: Uid) -> Result<Option<CommitId>, Refusal> {
        let landed = self.engine.landed_before(task)?;
        let is_there = |landed: &Landed| self.lander.is_in(&landed.target, &landed.commit).unwrap_or(false);
        Ok(landed.filter(is_there).map(|landed| landed.commit))
    }

    /// Where a task's branch is now.
    fn looked_at(&mut self, of: Landable) -> Result<Candidate, Refusal> {
        let id = &of.view.id;
        let Some(own) = &of.task.branch else {
            let message = format!("{id} has no branch of its own, so there is nothing to land");
            return Err(Refusal::new(Code::NotAllowed, message).task(id).next(Step::show(id)));
        };
        let name = own.branch.clone();
        let head = self.lander.commit_of(&format!("refs/heads/{name}"));
        let is_over = head.is_none() || of.task.state == State::Done;
        if let Some(landed) = of.task.landing.landed.as_ref().filter(|_| is_over) {
            let message =
                format!("{id} has landed already, in {} as {}", landed.target, landed.commit.short());
            return Err(Refusal::new(Code::Nothing, message).task(id).next(Step::show(id)));
        }
        // Landed, reopened, and done without a commit: its branch went when it landed.
        let head = match head {
            None => self.landed_before(of.task.uid)?,
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

/// What git cannot do, as a refusal.
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
