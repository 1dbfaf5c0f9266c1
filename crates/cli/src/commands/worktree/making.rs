//! A claim with a worktree of its own: claim, make the worktree, record it. Each is a step of its own, in this order, so that
//! git never runs while the store's write lock is held. If a step fails, everything is undone, including the claim.

use std::path::PathBuf;

use onus_core::command::{Act, Command, Terms};
use onus_core::ids::{TaskRef, Token};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::transition::Verb;
use onus_dispatch::Renewal;
use onus_engine::{Answer, Identity, Notice, Reply, Request, TaskView};
use onus_host::{Host, attachment, own_branch, run_set_up};
use onus_repo::approval::Definition;
use onus_repo::worktrees::{Making, NewWorktree, Worktrees};
use onus_store::Access;
use serde_json::{Value, json};

use super::rescued::{Laid, restore_exactly};
use crate::context::Context;

/// Options of every command that may make a worktree.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct WorktreeArgs {
    /// Fetch the target branch from origin first; default: worktree.fetch
    #[arg(long)]
    pub(crate) fetch: bool,
    /// Do not run the set-up command (worktree.setup)
    #[arg(long)]
    pub(crate) no_setup: bool,
    /// Begin with what the task's last holder left uncommitted, if it was kept; files that would overwrite
    /// something are named instead
    #[arg(long)]
    pub(crate) rescue: bool,
}

/// The same for a command that makes a worktree only if asked to.
#[derive(clap::Args, Debug)]
pub(crate) struct WithWorktree {
    /// With --worktree: fetch the target branch from origin first; default: worktree.fetch
    #[arg(long, requires = "worktree")]
    fetch: bool,
    /// With --worktree: do not run the set-up command (worktree.setup)
    #[arg(long, requires = "worktree")]
    no_setup: bool,
    /// With --worktree: begin with what the task's last holder left uncommitted, if it was kept; files that
    /// would overwrite something are named instead
    #[arg(long)]
    rescue: bool,
}

impl WithWorktree {
    pub(crate) fn prepared(&self, context: &Context, worktree: bool) -> Result<Option<Prepared>, Refusal> {
        let WithWorktree { fetch, no_setup, rescue } = *self;
        match worktree {
            true => Prepared::new(context, &WorktreeArgs { fetch, no_setup, rescue }).map(Some),
            false if rescue => {
                Err(Refusal::usage("--rescue lays files out in the task's worktree: it needs --worktree")
                    .next(Step::plain("in the checkout you are in: onus rescue restore TASK")))
            }
            false => Ok(None),
        }
    }
}

/// The same for a claim or a takeover.
#[derive(clap::Args, Debug)]
pub(crate) struct ClaimWorktree {
    /// Make a worktree of its own for the task, or continue in the one that has its branch; if that fails, the claim is
    /// released again
    #[arg(long)]
    worktree: bool,
    #[command(flatten)]
    with: WithWorktree,
}

impl ClaimWorktree {
    /// Prepares the worktree, if one is wanted. The terms then name no place, because the worktree does not exist yet.
    pub(crate) fn prepare(
        &self,
        context: &Context,
        terms: Terms,
    ) -> Result<(Terms, Option<Prepared>), Refusal> {
        match self.with.prepared(context, self.worktree)? {
            Some(prepared) => Ok((super::without_place(terms), Some(prepared))),
            None => Ok((terms, None)),
        }
    }
}

/// Answers a claim, and makes its worktree first if one is wanted.
pub(crate) fn answer(context: &Context, prepared: Option<Prepared>, claimed: &Reply) -> Result<(), Refusal> {
    match prepared {
        Some(prepared) => {
            let made = make(context, prepared, claimed, &Caller::of(context, claimed)?)?;
            super::print_made(context, claimed, made)
        }
        None => super::super::claim::print(context, claimed),
    }
}

/// What a worktree needs, checked before anything is claimed.
#[derive(Debug)]
pub(crate) struct Prepared {
    worktrees: Worktrees,
    new: NewWorktree,
    set_up: Option<Definition>,
    rescue: bool,
}

impl Prepared {
    pub(crate) fn new(context: &Context, args: &WorktreeArgs) -> Result<Prepared, Refusal> {
        let (worktrees, new) = context.host.new_worktree(args.fetch)?;
        let set_up = if args.no_setup { None } else { context.host.set_up()? };
        Ok(Prepared { worktrees, new, set_up, rescue: args.rescue })
    }
}

/// A worktree that exists and is recorded with the lease.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) reply: Reply,
    pub(crate) path: PathBuf,
    pub(crate) branch: Option<String>,
    pub(crate) target: Option<String>,
    pub(crate) port_base: Option<u16>,
    pub(crate) is_new: bool,
    /// The rescued files that were restored there, if that was asked for.
    rescued: Option<Laid>,
}

impl Made {
    pub(crate) fn document(&self) -> Value {
        let mut value = json!({
            "path": crate::output::path_text(&self.path),
            "branch": self.branch,
            "target": self.target,
            "port_base": self.port_base,
            "new": self.is_new,
        });
        if let Some(rescued) = self.rescued.as_ref().and_then(Laid::document) {
            value["rescued"] = rescued;
        }
        value
    }

    /// The lines for people, below the one that says who holds the task.
    pub(crate) fn lines(&self) -> Vec<String> {
        let branch = self.branch.as_deref().unwrap_or("a detached HEAD");
        let target =
            self.target.as_ref().map(|target| format!(", to be merged into {target}")).unwrap_or_default();
        let mut lines = vec![
            format!("  worktree: {}", crate::output::path_line(&self.path)),
            format!(
                "  branch:   {}{}",
                crate::output::escape_line(branch),
                crate::output::escape_line(&target)
            ),
        ];
        lines.extend(self.port_base.map(ports_line));
        lines.extend(self.rescued.as_ref().and_then(Laid::line));
        lines
    }
}

pub(crate) fn ports_line(base: u16) -> String {
    format!("  ports:    {base} to {} (ONUS_PORT_BASE={base})", base + onus_repo::worktrees::PORTS - 1)
}

/// The holder of the task, and how it acts on it.
pub(crate) trait Holder {
    fn act(&self, act: Act) -> Result<Reply, Refusal>;
    fn is_person(&self) -> bool;
    /// Renews the lease from another thread.
    fn renewing(&self) -> Result<Box<dyn FnMut() -> Renewal + Send>, Refusal>;
}

/// The caller itself, under the token that it was granted.
pub(crate) struct Caller {
    host: Host,
    identity: Identity,
    task: TaskRef,
}

impl Caller {
    pub(crate) fn of(context: &Context, reply: &Reply) -> Result<Caller, Refusal> {
        let Answer::Lease { task, lease: Some(lease), .. } = &reply.answer else {
            return Err(super::super::unexpected());
        };
        let mut identity = context.host.identity(&mut context.host.engine(Access::Write)?)?;
        let task: TaskRef = task.uid.parse()?;
        identity.token = Some((Some(task.clone()), Token(lease.token)));
        Ok(Caller { host: context.host.reload()?, identity, task })
    }

    fn ask(host: &Host, identity: &Identity, task: &TaskRef, act: Act) -> Result<Reply, Refusal> {
        let command = Command::OnTask { task: Some(task.clone()), act, force: None };
        host.engine(Access::Write)?.run(&Request { identity: identity.clone(), command, key: None })
    }
}

impl Holder for Caller {
    fn act(&self, act: Act) -> Result<Reply, Refusal> {
        Caller::ask(&self.host, &self.identity, &self.task, act)
    }

    fn is_person(&self) -> bool {
        self.identity.actor.is_person()
    }

    fn renewing(&self) -> Result<Box<dyn FnMut() -> Renewal + Send>, Refusal> {
        let (host, identity, task) = (self.host.reload()?, self.identity.clone(), self.task.clone());
        Ok(Box::new(move || {
            match Caller::ask(&host, &identity, &task, Act::Renew { ttl_ms: None, progress: false }) {
                Ok(_) => Renewal::Kept { next_in: std::time::Duration::from_secs(15), trusted_for: None },
                Err(refusal) if refusal.code == Code::Fenced => Renewal::Fenced { why: refusal.message },
                Err(refusal) => Renewal::Unavailable { why: refusal.message },
            }
        }))
    }
}

/// Makes the worktree of a task that was just claimed, and records it. If that fails, a claim that was new is released.
pub(crate) fn make(
    context: &Context,
    prepared: Prepared,
    claimed: &Reply,
    holder: &dyn Holder,
) -> Result<Made, Refusal> {
    let Answer::Lease { task, renewed, .. } = &claimed.answer else { return Err(super::super::unexpected()) };
    match made(context, prepared, task, holder) {
        Ok(made) => Ok(made),
        Err(mut refusal) => {
            let why = refusal.message.clone();
            refusal.task.get_or_insert(task.id.clone());
            if *renewed {
                refusal.message = format!("{} has no worktree: {why}; you hold it as before", task.id);
                return Err(refusal);
            }
            if is_used(context, claimed) {
                refusal.message = format!("no worktree was made for {}: {why}; you hold it still", task.id);
                return Err(refusal);
            }
            let message = format!("no worktree could be made: {why}");
            refusal.message = match holder.act(Act::moved(Verb::Release, Some(message))) {
                Ok(_) => format!("no worktree was made for {}, and the claim was released: {why}", task.id),
                Err(also) => {
                    format!("{} has no worktree: {why}; and it was not released: {}", task.id, also.message)
                }
            };
            Err(refusal)
        }
    }
}

/// Whether another process of the same holder relies on the lease by now: it has a worktree, or was renewed by a claim. If
/// there is a set-up, this very call renews the lease while it runs, so only the worktree counts.
fn is_used(context: &Context, claimed: &Reply) -> bool {
    let Answer::Lease { task, lease: Some(ours), .. } = &claimed.answer else { return false };
    let now = || {
        let task: TaskRef = task.uid.parse().ok()?;
        context.host.engine(Access::Read).ok()?.show(None, Some(&task)).ok()?.value.lease
    };
    let has_set_up = context.host.set_up().is_ok_and(|set_up| set_up.is_some());
    now().is_some_and(|now| {
        let is_renewed = !has_set_up && now.renewals > ours.renewals;
        now.token == ours.token && (now.worktree.is_some() || is_renewed)
    })
}

fn made(
    context: &Context,
    prepared: Prepared,
    task: &TaskView,
    holder: &dyn Holder,
) -> Result<Made, Refusal> {
    let Prepared { worktrees, new, set_up, rescue } = prepared;
    let new = NewWorktree {
        task: task.uid.clone(),
        id: task.id.clone(),
        title: task.title.clone(),
        own: own_branch(task),
        ..new
    };
    let mut making = worktrees.make(&new)?;
    match recorded(&mut making, &new, set_up.as_ref(), holder) {
        Ok(mut reply) => {
            let made = Made {
                path: making.path().to_owned(),
                branch: making.linked.branch.clone(),
                target: making.info.own.as_ref().map(|own| own.target.clone()),
                port_base: making.info.port_base,
                is_new: making.is_new,
                rescued: None,
                reply: Reply { notices: Vec::new(), ..reply.clone() },
            };
            reply.notices.extend(making.remarks.drain(..).map(Notice::info));
            reply.notices.extend(super::super::setup::unguarded(context, &made.path));
            let uncommitted = making.uncommitted;
            making.finish()?;
            // A branch that existed before may conflict with others by now.
            if let Ok(mut engine) = context.host.engine(Access::Write) {
                context.host.tell_of_conflicts(&mut engine);
            }
            let rescued = rescue.then(|| restore_exactly(context, task, &made.path, uncommitted, holder));
            reply.notices.extend(rescued.iter().flat_map(|laid| laid.notices.iter().cloned()));
            Ok(Made { reply, rescued, ..made })
        }
        Err(mut refusal) => {
            if let Some(kept) = making.undo() {
                refusal.message = format!("{}; {kept}", refusal.message);
            }
            Err(refusal)
        }
    }
}

/// Equips the new folder, runs the set-up, and records the worktree.
fn recorded(
    making: &mut Making,
    new: &NewWorktree,
    set_up: Option<&Definition>,
    holder: &dyn Holder,
) -> Result<Reply, Refusal> {
    if !making.info.ready {
        making.equip(new.state.as_deref())?;
        if let Some(definition) = set_up {
            run_set_up(definition, making, holder.renewing()?)?;
        }
        making.is_ready()?;
    }
    holder.act(Act::Attach(attachment(&making.linked, making.info.own.clone())))
}
