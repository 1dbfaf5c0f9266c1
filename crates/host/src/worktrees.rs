//! Tasks' worktrees as configured here: where they are made, their set-up, and the leases that are worked on in them.

use std::path::Path;

use onus_core::command::Attachment;
use onus_core::constraint::Constraint;
use onus_core::ids::TaskRef;
use onus_core::quote::{self, counted};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::task::{State, TaskBranch};
use onus_dispatch::{Interrupts, Renewal, Watch};
use onus_engine::{Notice, NoticeKind, TaskView};
use onus_repo::approval::{Approvals, Definition};
use onus_repo::worktrees::{Info, Linked, Making, NewWorktree, Worktrees, ports_of};

use crate::Host;
use crate::config::state_folder;
use crate::gates::{Command, Live, outcome_in_words, run};
use crate::worktree::marked;

impl Host {
    pub fn worktrees(&self) -> Result<Worktrees, Refusal> {
        let found = self.place.as_ref().map(Worktrees::of).transpose()?.flatten();
        found.ok_or_else(|| {
            Refusal::usage("there is no git repository here, so there are no worktrees")
                .next(Step::plain("go to a checkout of the repository"))
        })
    }

    /// The user's approvals of this repository's commands.
    pub fn approvals(&self) -> Result<Approvals, Refusal> {
        let state =
            state_folder().ok_or_else(|| Refusal::usage("HOME is not set, so nothing can be approved"))?;
        let clone = self.place.as_ref().and_then(|place| place.common_dir.as_deref());
        Approvals::of(&state, clone.unwrap_or(&self.folder))
    }

    /// The task whose worktree this is.
    pub fn task_here(&self) -> Option<TaskRef> {
        Info::of(self.place.as_ref()?.git_dir.as_deref()?)?.task?.parse().ok()
    }

    /// The task that a command is about: the named one, else the one in the environment, else the one whose worktree this is. None
    /// means the one that the caller holds.
    pub fn target_or_here(&self, named: Option<TaskRef>) -> Result<Option<TaskRef>, Refusal> {
        Ok(crate::target(named)?.or_else(|| self.task_here()))
    }

    /// The set-up command, which must have been approved.
    pub fn set_up(&self) -> Result<Option<Definition>, Refusal> {
        let Some(definition) = self.config.worktrees().setup else { return Ok(None) };
        self.require_approved(&definition)?;
        Ok(Some(definition))
    }

    /// A notice about a finished task whose commits are not in its target yet.
    pub fn left_to_land(&self, task: &TaskView) -> Option<Notice> {
        let (branch, target) = (task.branch.as_deref()?, task.target.as_deref()?);
        if task.state != State::Done || task.landed.is_some() {
            return None;
        }
        let count = self.worktrees().ok()?.to_land(branch, target);
        let (commits, are) = (counted(count, "commit"), if count == 1 { "is" } else { "are" });
        let (branch, target) = (quote::name(branch), quote::name(target));
        let message = format!("{commits} on branch {branch} {are} not in {target} yet");
        let notice = |message| Notice::new(NoticeKind::Info, Some(task.id.clone()), message);
        let no_land = Constraint::NoLand.to_string();
        (count > 0).then(|| match task.constraints.contains(&no_land) {
            true => notice(format!("{message}; its constraint {no_land} leaves that to a person")),
            false => notice(message).next(Step::Land(task.id.clone())),
        })
    }

    /// Prepares a task's worktree before the task is known, so that what can be refused is refused early.
    pub fn new_worktree(&self, fetch: bool) -> Result<(Worktrees, NewWorktree), Refusal> {
        let worktrees = self.worktrees()?;
        let settings = self.config.worktrees();
        let root = worktrees.root(settings.root.as_deref())?;
        worktrees.target(settings.target.as_deref(), false)?;
        let new = NewWorktree {
            task: String::new(),
            id: String::new(),
            title: String::new(),
            own: None,
            root,
            target: settings.target,
            fetch: fetch || settings.fetch,
            state: state_folder(),
        };
        Ok((worktrees, new))
    }

    /// Records a worktree that onus did not make, and gives it ports; a recorded one keeps both. Errors are ignored: they must keep
    /// nobody from working.
    pub fn adopt(&self, git_dir: &Path, of: Option<(&str, &str, Option<TaskBranch>)>) -> Option<u16> {
        let known = Info::of(git_dir);
        let mut info = known.clone().unwrap_or(Info { ready: true, ..Info::default() });
        if let Some((task, id, own)) = of {
            (info.task, info.id, info.own) = (Some(task.to_owned()), Some(id.to_owned()), own);
        }
        if known.as_ref() != Some(&info) {
            info.write(git_dir).ok()?;
        }
        match info.port_base {
            Some(base) => Some(base),
            None => ports_of(&state_folder()?, git_dir).ok().flatten(),
        }
    }

    /// Adopts the worktree that a conversation begins in, if it is a linked one that is not recorded: made by the agent's harness, or
    /// by hand. Starts no process.
    pub fn adopt_here(&self) {
        let Some(place) = self.place.as_ref().filter(|place| !place.is_submodule()) else { return };
        if let (Some(git_dir), Some(common)) = (&place.git_dir, &place.common_dir)
            && git_dir != common
            && Info::of(git_dir).is_none()
        {
            self.adopt(git_dir, None);
        }
    }

    /// Adds the path of the task's own worktree.
    pub fn with_worktree(&self, task: TaskView) -> TaskView {
        let worktrees = self.place.as_ref().and_then(|place| Worktrees::of(place).ok().flatten());
        let path = worktrees.and_then(|worktrees| worktrees.of_task(&task.uid));
        TaskView { worktree: path.map(|path| path.to_string_lossy().into_owned()), ..task }
    }
}

/// A task's own branch.
pub fn own_branch(task: &TaskView) -> Option<TaskBranch> {
    let (branch, base, target) = (task.branch.clone()?, task.base.clone()?, task.target.clone()?);
    Some(TaskBranch { branch, base, target })
}

/// Attaches a lease to a worktree.
pub fn attachment(linked: &Linked, own: Option<TaskBranch>) -> Attachment {
    Attachment {
        id: linked.place().as_ref().and_then(marked),
        path: linked.path.to_string_lossy().into_owned(),
        branch: linked.branch.clone(),
        own,
    }
}

/// The environment variables that describe a worktree to a command that runs in it.
pub fn worktree_env(path: &Path, port_base: Option<u16>) -> Vec<(String, String)> {
    let mut told = vec![("ONUS_WORKTREE".to_owned(), path.to_string_lossy().into_owned())];
    told.extend(port_base.map(|base| ("ONUS_PORT_BASE".to_owned(), base.to_string())));
    told
}

/// Runs an approved set-up command in a new worktree. Its output goes to standard error; the lease is renewed meanwhile.
pub fn run_set_up(
    definition: &Definition,
    making: &Making,
    mut renew: Box<dyn FnMut() -> Renewal + Send>,
) -> Result<(), Refusal> {
    let told = worktree_env(making.path(), making.info.port_base);
    let command = Command { definition, root: making.path(), told, live: Live::Plain };
    let interrupts = Interrupts::hold()
        .map_err(|error| Refusal::new(Code::Unexpected, format!("cannot run the set-up command: {error}")))?;
    let watch = Watch { renew: Some(&mut renew), interrupts: Some(&interrupts) };
    let (ended, log) = run(command, watch)?;
    if let Some(why) = ended.fenced {
        return Err(Refusal::new(Code::Fenced, why));
    }
    let why = match interrupts.signal() {
        Some(signal) => Some(format!("was interrupted by {}", onus_dispatch::signal_name(signal))),
        None => outcome_in_words(&ended.outcome, definition),
    };
    match why {
        Some(why) => {
            let said = last_words(&log.bytes()).map(|said| format!("; the last that it wrote: {said}"));
            let message = format!("the set-up command {why}{}", said.unwrap_or_default());
            Err(Refusal::new(Code::NotAllowed, message))
        }
        None => Ok(()),
    }
}

/// The last line that a command wrote, so that the answer and the record contain the reason.
fn last_words(output: &[u8]) -> Option<String> {
    const MOST: usize = 200;
    let text = String::from_utf8_lossy(output);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let line = quote::visible_line(line);
    match line.char_indices().nth(MOST) {
        Some((at, _)) => Some(format!("{}…", &line[..at])),
        None => Some(line),
    }
}
