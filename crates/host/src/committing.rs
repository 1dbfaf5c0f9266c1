//! What git's hooks and the end of work need beside the store: who commits, and what is in no commit.

use std::path::Path;

use onus_agents::user_name;
use onus_core::actor::{ActorName, InstanceId, KnownBy};
use onus_core::command::{Act, Command};
use onus_core::commit::Uncommitted;
use onus_core::ids::TaskRef;
use onus_core::refusal::{CallerKind, Code, Refusal, Step};
use onus_core::scope::WorktreeId;
use onus_core::transition::Verb;
use onus_engine::{AnyEngine, Identity, TaskToFinish};
use onus_repo::worktrees::under_way;
use onus_repo::{Place, adrift, are_committed, discover, uncommitted};

use crate::worktree::marked;
use crate::{Host, env};

/// How many uncommitted files are named.
pub(crate) const MOST_NAMED: usize = 50;

/// How many of the files that a lease touched in a shared checkout git is asked about.
const MOST_ASKED: usize = 200;

impl Host {
    /// Who commits. Without a terminal and without a harness (an editor) it is a person, known by git's `user.email` if the project
    /// knows that address, else by the user's name. None: an agent of which it is not clear who it is.
    pub fn committer(&self, engine: &mut AnyEngine) -> Result<Option<Identity>, Refusal> {
        match self.identity(engine) {
            Ok(identity) => Ok(Some(identity)),
            Err(refusal) if refusal.next.contains(&Step::Identify(CallerKind::Person)) => {
                let email = env("GIT_AUTHOR_EMAIL").filter(|email| !email.is_empty());
                let by_email = email.map(|email| engine.person_of_email(&email)).transpose()?.flatten();
                let by_name = || user_name(&env).and_then(|name| format!("human:{name}").parse().ok());
                Ok(by_email.or_else(by_name).map(person))
            }
            // Whatever it calls itself, it is judged as what it is.
            Err(refusal) if refusal.next.contains(&Step::UseOwnName) => Ok(self.own_identity(engine).ok()),
            Err(refusal) if refusal.code == Code::Identity => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// The same command, with what git says of the worktree where an agent calls a task done, and the gates that are asked for. Git
    /// looks before the transaction.
    pub fn with_local_facts(&self, engine: &mut AnyEngine, identity: &Identity, command: Command) -> Command {
        let mut command = self.with_gates(engine, identity, command);
        if let Command::OnTask { task, act: Act::Move { verb, uncommitted, .. }, .. } = &mut command
            && matches!(verb, Verb::Done | Verb::Submit)
        {
            // Whatever is wrong with the request itself, its answer says.
            *uncommitted = self.uncommitted(engine, identity, task.as_ref());
        }
        command
    }

    /// What is in no commit where the caller is, or in the task's own worktree, wherever the caller is.
    fn uncommitted(
        &self,
        engine: &mut AnyEngine,
        identity: &Identity,
        task: Option<&TaskRef>,
    ) -> Option<Uncommitted> {
        let here = self.place.as_ref()?;
        let finishing = self.finishing(engine, identity, task, here)?;
        if !is_own(here, &finishing)
            && let Some(there) = self.own_worktree(&finishing)
            && there.common_dir == here.common_dir
            && let Some(finishing) = self.finishing(engine, identity, task, &there)
            && is_own(&there, &finishing)
        {
            return left_in(&there, &finishing);
        }
        left_in(here, &finishing)
    }

    /// The task's own worktree, where it is not the caller's: the one that its lease is attached to, else the one that has its branch.
    fn own_worktree(&self, finishing: &TaskToFinish) -> Option<Place> {
        let attached = finishing.elsewhere.as_ref().and_then(|there| self.moved_or_there(there));
        attached.or_else(|| {
            let branch = finishing.branch.as_ref()?;
            let all = self.worktrees().ok()?.list().ok()?;
            all.iter().find(|linked| linked.branch.as_ref() == Some(branch))?.place()
        })
    }

    /// A worktree by its id, wherever git has it now.
    fn moved_or_there(&self, (id, path): &(WorktreeId, Option<String>)) -> Option<Place> {
        let is_it = |place: &Place| marked(place).as_ref() == Some(id);
        let there = path.as_deref().and_then(|path| discover(Path::new(path))).filter(is_it);
        there.or_else(|| {
            let all = self.worktrees().ok()?.list().ok()?;
            all.iter()
                .filter(|linked| !linked.is_main)
                .find_map(|linked| discover(&linked.path).filter(is_it))
        })
    }

    fn finishing(
        &self,
        engine: &mut AnyEngine,
        identity: &Identity,
        task: Option<&TaskRef>,
        place: &Place,
    ) -> Option<TaskToFinish> {
        let worktree = self.checkout(&place.root).id;
        let finishing = engine.finishing(identity, task, worktree.as_ref(), place.branch.as_deref());
        finishing.ok().filter(|finishing| !finishing.is_ad_hoc)
    }
}

fn is_linked(place: &Place) -> bool {
    place.git_dir != place.common_dir && !place.is_submodule()
}

/// Whether a place is the task's own worktree.
fn is_own(place: &Place, finishing: &TaskToFinish) -> bool {
    let is_its = finishing.is_attached && (place.branch.is_none() || finishing.branch.is_some());
    is_linked(place) && (finishing.is_own_branch || is_its)
}

/// What is in no commit: in a task's own worktree anything, elsewhere what its lease touched.
fn left_in(place: &Place, finishing: &TaskToFinish) -> Option<Uncommitted> {
    place.git_dir.as_ref()?;
    let mut left = Uncommitted {
        branch: place.branch.clone(),
        is_attached: finishing.is_attached,
        is_linked: is_linked(place),
        ..Uncommitted::default()
    };
    if is_own(place, finishing) {
        (left.files, left.count) = uncommitted(place, MOST_NAMED).ok()?;
        left.adrift = adrift(place).ok()?;
        // Whoever bisects has nothing to conclude.
        left.under_way =
            under_way(place.git_dir.as_ref()?).map(|it| it.what).filter(|what| *what != "bisect");
        return Some(left);
    }
    let asked = &finishing.files[..finishing.files.len().min(MOST_ASKED)];
    if asked.is_empty() {
        return None;
    }
    let committed = are_committed(place, asked).ok()?;
    left.files = asked.iter().zip(committed).filter(|(_, is)| !is).map(|(file, _)| file.clone()).collect();
    left.count = left.files.len();
    left.files.truncate(MOST_NAMED);
    Some(left)
}

fn person(actor: ActorName) -> Identity {
    Identity::own(actor, InstanceId::person(), KnownBy::Person)
}
