//! What git's hooks and the end of work need beside the store: who commits, and what is in no commit.

use onus_agents::user_name;
use onus_core::actor::{ActorName, InstanceId, KnownBy};
use onus_core::command::{Act, Command};
use onus_core::commit::Uncommitted;
use onus_core::refusal::{Kind, Refusal, Step};
use onus_core::transition::Verb;
use onus_engine::{Ancestry, Engine, Identity};
use onus_repo::{are_committed, uncommitted};
use onus_store::AnyStore;

use crate::{Host, env};

/// How many uncommitted files are named.
const MOST_NAMED: usize = 50;

/// How many of the files that a lease touched in a shared checkout git is asked about.
const MOST_ASKED: usize = 200;

impl Host {
    /// Who commits. Without a terminal and without a harness (an editor) it is a person, known by git's `user.email` if the project
    /// knows that address, else by the user's name. None: an agent of which it is not clear who it is.
    pub fn committer(&self, engine: &mut Engine<AnyStore>) -> Result<Option<Identity>, Refusal> {
        match self.identity(engine) {
            Ok(identity) => Ok(Some(identity)),
            Err(refusal) if refusal.next.contains(&Step::Identify(Kind::Person)) => {
                let email = env("GIT_AUTHOR_EMAIL").filter(|email| !email.is_empty());
                let by_email = email.map(|email| engine.person_of_email(&email)).transpose()?.flatten();
                let by_name = || user_name(&env).and_then(|name| format!("human:{name}").parse().ok());
                Ok(by_email.or_else(by_name).map(person))
            }
            Err(_) => Ok(None),
        }
    }

    /// The same command, with what git says of the worktree where an agent calls a task done, and the gates that are asked for. Git
    /// looks before the transaction.
    pub fn looked_at(&self, engine: &mut Engine<AnyStore>, identity: &Identity, command: Command) -> Command {
        let mut command = self.with_gates(engine, identity, command);
        if let Command::OnTask { task, act: Act::Move { verb, uncommitted, .. }, .. } = &mut command
            && matches!(verb, Verb::Done | Verb::Submit)
            && !identity.actor.is_person()
        {
            // Whatever is wrong with the request itself, its answer says.
            *uncommitted = self.uncommitted(engine, identity, task.as_ref());
        }
        command
    }

    fn uncommitted(
        &self,
        engine: &mut Engine<AnyStore>,
        identity: &Identity,
        task: Option<&onus_core::ids::TaskRef>,
    ) -> Option<Uncommitted> {
        let place = self.place.as_ref()?;
        let (git_dir, common_dir) = (place.git_dir.as_ref()?, place.common_dir.as_ref()?);
        let worktree = self.checkout(&place.root).id;
        let finishing = engine.finishing(identity, task, worktree.as_ref(), place.branch.as_deref()).ok()?;
        let mut left = Uncommitted {
            branch: place.branch.clone(),
            is_attached: finishing.is_attached,
            is_linked: git_dir != common_dir && !place.is_submodule(),
            ..Uncommitted::default()
        };
        if finishing.is_ad_hoc {
            return None;
        }
        let is_own = finishing.is_own_branch || (left.branch.is_none() && left.is_attached);
        if left.is_linked && is_own {
            (left.files, left.count) = uncommitted(place, MOST_NAMED).ok()?;
            return Some(left);
        }
        let asked = &finishing.files[..finishing.files.len().min(MOST_ASKED)];
        if asked.is_empty() {
            return None;
        }
        let committed = are_committed(place, asked).ok()?;
        left.files =
            asked.iter().zip(committed).filter(|(_, is)| !is).map(|(file, _)| file.clone()).collect();
        left.count = left.files.len();
        left.files.truncate(MOST_NAMED);
        Some(left)
    }
}

fn person(actor: ActorName) -> Identity {
    Identity {
        actor,
        instance: InstanceId::person(),
        known_by: KnownBy::Person,
        token: None,
        ancestry: Ancestry::Own,
    }
}
