pub(crate) mod making;
mod repair;
mod rescued;
pub(crate) mod view;

pub(crate) use repair::findings;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use onus_core::command::{Act, Command, Terms};
use onus_core::ids::TaskRef;
use onus_core::quote::and_more;
use onus_core::refusal::{Code, Forced, Refusal, Step};
use onus_core::task::{State, TaskBranch};
use onus_engine::{Answer, Notice};
use onus_host::{attachment, target};
use onus_repo::landing::{self, Lander};
use onus_repo::worktrees::{Linked, Worktrees};
use onus_store::Access;
use serde_json::json;

use crate::args::{Target, parse};
use crate::context::Context;
use crate::output::{path_line, path_text};
use crate::wording;
use making::{Caller, Made, Prepared, WorktreeArgs, make, ports_line};
use view::{All, Seen, holders, leases, target_of};

/// Give a task a worktree of its own, see where work is, and remove worktrees without losing work
///
/// A task's worktree is a folder beside the repository, ../REPOSITORY.onus/ID-TITLE, on branch onus/ID-TITLE, which is the
/// task's branch from then on, whoever holds it. Ignored files that .worktreeinclude names (patterns as in .gitignore) are
/// copied from the main checkout, and the set-up command (worktree.setup) runs in it once a person approved it.
///
/// Without a command, it lists the worktrees.
#[derive(Subcommand, Debug)]
pub(crate) enum Action {
    /// Claim a task, unless you hold it, and make its worktree
    Add(Add),
    /// List every worktree, with what is in it
    List {
        /// Count the disk space of each, too
        #[arg(long)]
        size: bool,
    },
    /// Show one worktree
    Show {
        /// A task's id, or a path; default: the worktree you are in
        #[arg(value_name = "ID|PATH")]
        named: Option<String>,
    },
    /// Make an existing worktree your task's
    Adopt(Adopt),
    /// Remove a worktree, if no work is lost by it
    #[command(visible_alias = "rm")]
    Remove {
        /// A task's id, or a path
        #[arg(value_name = "ID|PATH")]
        named: String,
    },
    /// Remove every worktree that onus made and that holds no work
    Prune {
        /// Only say what would be removed
        #[arg(long)]
        dry_run: bool,
    },
    /// Finish what was interrupted, and find worktrees that were moved
    Repair {
        /// Where worktrees were moved to; not needed for those below worktree.root, which are found by themselves
        #[arg(value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
}

#[derive(clap::Args, Debug)]
pub(crate) struct Add {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    how: WorktreeArgs,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Adopt {
    /// The worktree's folder
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The task whose work is done there; default: ONUS_TASK, or else the one task you hold
    #[arg(long, value_name = "ID", value_parser = parse::<TaskRef>)]
    task: Option<TaskRef>,
}

pub(crate) fn run(context: &Context, action: Option<Action>) -> super::Result {
    match action.unwrap_or(Action::List { size: false }) {
        Action::Add(add) => run_add(context, add),
        Action::List { size } => run_list(context, size),
        Action::Show { named } => run_show(context, named.as_deref()),
        Action::Adopt(adopt) => run_adopt(context, adopt),
        Action::Remove { named } => run_remove(context, &named),
        Action::Prune { dry_run } => run_prune(context, dry_run),
        Action::Repair { paths } => repair::run(context, &paths),
    }
}

/// The terms of a lease whose worktree is still to be made: they do not name the place of the caller.
pub(crate) fn without_place(terms: Terms) -> Terms {
    Terms { worktree: None, worktree_id: None, branch: None, ..terms }
}

fn run_add(context: &Context, add: Add) -> super::Result {
    let prepared = Prepared::new(context, &add.how)?;
    let terms = without_place(context.host.terms());
    let command = Command::OnTask { task: target(add.target.task)?, act: Act::Claim(terms), force: None };
    let claimed = context.run(command, None).map_err(forced_by_claim)?;
    let made = make(context, prepared, &claimed, &Caller::of(context, &claimed)?)?;
    print_made(context, &claimed, made)
}

/// This command forces nothing; `claim` does.
fn forced_by_claim(mut refusal: Refusal) -> Refusal {
    if let (Some(way), Some(task)) = (&mut refusal.overridable, &refusal.task)
        && way.by == Forced::SameRequest
    {
        way.by = Forced::ClaimInWorktree(task.clone());
    }
    refusal
}

/// Prints the answer to a claim with a worktree.
pub(crate) fn print_made(context: &Context, claimed: &onus_engine::Reply, made: Made) -> super::Result {
    let (Answer::Lease { task, lease, .. }, Answer::Lease { renewed, takeover, .. }) =
        (&made.reply.answer, &claimed.answer)
    else {
        return Err(super::unexpected());
    };
    let mut reply = made.reply.clone();
    reply.notices.splice(0..0, claimed.notices.iter().cloned());
    let value = json!({
        "task": task, "lease": lease, "renewed": renewed, "takeover": takeover, "worktree": made.document(),
    });
    context.out.reply(&reply, value, || {
        let how = super::claim::how(*renewed, *takeover);
        let first = super::claim::line(task, how);
        let word = super::why_it_came_back(context, claimed);
        std::iter::once(first).chain(word).chain(made.lines()).collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

fn run_list(context: &Context, size: bool) -> super::Result {
    let worktrees = context.host.worktrees()?;
    let all = All::new(context, &worktrees.with_short_wait(), size)?;
    let notices: Vec<Notice> = all.remarks.iter().cloned().map(Notice::info).collect();
    context.out.show(all.document(), &notices, || all.lines(context).join("\n"));
    Ok(())
}

/// Git's worktrees of this repository.
fn listed(worktrees: &Worktrees) -> Result<Vec<Linked>, Refusal> {
    worktrees.list().map_err(git_failed)
}

fn git_failed(error: onus_repo::GitError) -> Refusal {
    Refusal::new(Code::NotAllowed, error.to_string())
}

/// Finds a worktree by its task or its path.
fn find(context: &Context, worktrees: &Worktrees, named: Option<&str>) -> Result<Linked, Refusal> {
    let missing = |what: String| Refusal::new(Code::NotFound, what).next(Step::Worktrees);
    let folder = &context.host.folder;
    let by_path = |path: &Path| -> Result<Option<Linked>, Refusal> {
        let path = folder.join(path);
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        Ok(listed(worktrees)?.into_iter().find(|linked| linked.path == real || linked.path == path))
    };
    let Some(named) = named else {
        let found = worktrees.at(folder).map_err(git_failed)?;
        return found.ok_or_else(|| missing("you are in no worktree".to_owned()));
    };
    let is_path = named.contains('/') || folder.join(named).is_dir();
    match (is_path, named.parse::<TaskRef>()) {
        (false, Ok(task)) => {
            let task = context.host.engine(Access::Read)?.show(None, Some(&task))?.value;
            let is_its = |linked: &Linked| {
                let made = linked.info.as_ref().and_then(|info| info.task.as_ref()) == Some(&task.uid);
                made || (linked.branch.is_some() && linked.branch == task.branch)
            };
            let found = listed(worktrees)?.into_iter().find(is_its);
            found.ok_or_else(|| missing(format!("{} has no worktree here", task.id)).task(&task.id))
        }
        _ => by_path(Path::new(named))?.ok_or_else(|| {
            missing(format!("{} is not a worktree of this repository", path_line(Path::new(named))))
        }),
    }
}

fn run_show(context: &Context, named: Option<&str>) -> super::Result {
    let worktrees = context.host.worktrees()?;
    let linked = find(context, &worktrees, named)?;
    let forecast = context.host.forecast(&mut context.host.engine(Access::Read)?);
    let behind = super::land::behind::all(&context.host);
    let seen = Seen::new(context, &worktrees, (&leases(context)?, &forecast, &behind), linked, true);
    let notices: Vec<Notice> =
        forecast.incomplete.map(crate::render::incomplete).map(Notice::info).into_iter().collect();
    let base = seen.linked.info.as_ref().and_then(|info| info.port_base);
    context.out.show(seen.document(), &notices, || {
        seen.lines(context).into_iter().chain(base.map(ports_line)).collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

fn run_adopt(context: &Context, adopt: Adopt) -> super::Result {
    let worktrees = context.host.worktrees()?;
    let linked =
        find(context, &worktrees, Some(&format!("{}/", path_text(&adopt.path).trim_end_matches('/'))))?;
    if linked.is_main {
        return Err(Refusal::new(
            Code::NotAllowed,
            "the main checkout is shared: it is not one task's worktree",
        )
        .next(Step::plain("make a worktree for the task")));
    }
    if let Some(error @ landing::Error::NotText(_)) = linked.branch.as_deref().map(landing::no_branch) {
        return Err(Refusal::usage(error.to_string()));
    }
    let (mut engine, identity) = context.host.reader()?;
    let task = engine.show(identity.as_ref(), target(adopt.task.clone())?.as_ref())?.value;
    let mine = task.lease.as_ref().map(|lease| (task.id.clone(), lease.actor.clone()));
    let others = holders(&leases(context)?, &linked);
    if let Some((id, actor)) = others.into_iter().find(|other| Some(other) != mine.as_ref()) {
        return Err(
            Refusal::new(Code::Held, format!("{actor} works in {} on {id}", linked.path.display())).task(&id)
        );
    }
    let target = target_of(context, &worktrees, task.target.as_deref());
    let own = linked.branch.clone().zip(target).map(|(branch, target)| TaskBranch {
        base: task.base.clone().unwrap_or(target.commit),
        branch,
        target: target.name,
    });
    let attach = Act::Attach(attachment(&linked, own.clone()));
    let reference: TaskRef = task.uid.parse()?;
    let reply = context.run(Command::OnTask { task: Some(reference), act: attach, force: None }, None)?;
    let base = context.host.adopt(&linked.git_dir, Some((&task.uid, &task.id, own)));
    let Answer::Lease { task, lease, renewed, takeover } = &reply.answer else {
        return Err(super::unexpected());
    };
    let made = json!({
        "path": path_text(&linked.path), "branch": linked.branch, "target": task.target, "port_base": base, "new": false,
    });
    let value = json!({
        "task": task, "lease": lease, "renewed": renewed, "takeover": takeover, "worktree": made,
    });
    context.out.reply(&reply, value, || format!("{}'s worktree is now {}", task.id, path_line(&linked.path)));
    Ok(())
}

fn run_remove(context: &Context, named: &str) -> super::Result {
    let worktrees = context.host.worktrees()?;
    let linked = find(context, &worktrees, Some(named))?;
    if context.host.folder.starts_with(&linked.path) && !linked.is_main {
        return Err(Refusal::new(Code::NotAllowed, "you are in the worktree that is to be removed")
            .next(Step::plain("go to the main checkout first")));
    }
    let Some(removed) = removed(context, &worktrees, &linked, false)? else {
        return Err(super::unexpected());
    };
    context.out.show(removed_document(&removed), &[], || removed_line(&removed));
    Ok(())
}

/// Removes a worktree or, with `dry_run`, only checks whether it may be removed.
pub(crate) fn removed(
    context: &Context,
    worktrees: &Worktrees,
    linked: &Linked,
    dry_run: bool,
) -> Result<Option<onus_repo::worktrees::Removed>, Refusal> {
    let own = linked.info.as_ref().and_then(|info| info.own.as_ref()).map(|own| own.target.clone());
    let target = target_of(context, worktrees, own.as_deref());
    let holder = |linked: &Linked| {
        let holders = holders(&leases(context)?, linked);
        Ok(holders.into_iter().next().map(|(id, actor)| format!("{actor}, who holds {id},")))
    };
    match dry_run {
        true => worktrees.may_go(&linked.path, target.as_ref(), &holder).map(|()| None),
        false => worktrees.remove(&linked.path, target.as_ref(), &holder).map(Some),
    }
}

pub(crate) fn removed_document(removed: &onus_repo::worktrees::Removed) -> serde_json::Value {
    json!({
        "path": path_text(&removed.path), "branch": removed.branch, "branch_deleted": removed.with_branch,
        "ignored": removed.ignored,
        "ignored_names": removed.ignored_names.iter().map(|path| path_text(path)).collect::<Vec<_>>(),
    })
}

/// The ignored files that were deleted with a worktree, which no commit has; None if there were none.
pub(crate) fn ignored_words(removed: &onus_repo::worktrees::Removed) -> Option<String> {
    let names: Vec<String> = removed.ignored_names.iter().map(|path| path_line(path)).collect();
    (removed.ignored > 0).then(|| {
        format!(
            "{} ignored {} deleted with it: {}",
            removed.ignored,
            if removed.ignored == 1 { "file or folder was" } else { "files or folders were" },
            and_more(&names, removed.ignored)
        )
    })
}

fn removed_line(removed: &onus_repo::worktrees::Removed) -> String {
    let branch = match (&removed.branch, removed.with_branch) {
        (Some(branch), true) => format!(", and branch {branch}: its commits are in another branch"),
        (Some(branch), false) => format!("; branch {branch} stays"),
        (None, _) => String::new(),
    };
    let ignored = ignored_words(removed).map(|words| format!("; {words}")).unwrap_or_default();
    format!("removed {}{branch}{ignored}", path_line(&removed.path))
}

/// Why a worktree is kept although nothing would be lost with it: its task is not over.
fn still_needed(context: &Context, linked: &Linked) -> Option<String> {
    let task = linked.info.as_ref()?.task.as_deref()?.parse().ok()?;
    let (mut engine, identity) = context.host.reader().ok()?;
    let task = engine.show(identity.as_ref(), Some(&task)).ok()?.value;
    let has_landed = || {
        let lander = Lander::of(context.host.place.as_ref()?).ok()??;
        let head = lander.commit_of(&format!("refs/heads/{}", task.branch.as_deref()?))?;
        let tips = lander.tips(task.target.as_deref()?).ok()?;
        lander.is_landed(&head, tips.landed.as_ref().unwrap_or(&tips.branch)).ok()
    };
    match task.state {
        State::Review => Some(format!("{} is in review", task.id)),
        // A landing that was reverted since leaves its work missing from the target.
        State::Done if task.landed.is_none() && has_landed() == Some(false) => {
            Some(format!("{} has still to land", task.id))
        }
        _ => None,
    }
}

fn run_prune(context: &Context, dry_run: bool) -> super::Result {
    let worktrees = context.host.worktrees()?;
    let (mut gone, mut kept) = (Vec::new(), Vec::new());
    // The next steps for worktrees whose folder is missing.
    let mut missing: Option<Vec<Step>> = None;
    for linked in listed(&worktrees)?.into_iter().filter(Linked::is_made) {
        if context.host.folder.starts_with(&linked.path) {
            kept.push((linked.path.clone(), "you are in it".to_owned()));
            continue;
        }
        if let Some(why) = still_needed(context, &linked) {
            kept.push((linked.path.clone(), why));
            continue;
        }
        let path = linked.path.clone();
        match removed(context, &worktrees, &linked, dry_run) {
            Ok(removed) => gone.push((path, removed)),
            // Somebody else has removed it meanwhile.
            Err(_) if !path.exists() && !linked.git_dir.exists() => {}
            Err(refusal) => {
                if linked.is_missing {
                    missing.get_or_insert(refusal.next);
                }
                kept.push((path, refusal.message));
            }
        }
    }
    let document = json!({
        "dry_run": dry_run,
        "removed": gone.iter().map(|(path, _)| path_text(path)).collect::<Vec<_>>(),
        "kept": kept.iter().map(|(path, why)| json!({ "path": path_text(path), "why": why })).collect::<Vec<_>>(),
    });
    context.out.document_or(document, &[], || {
        for (path, removed) in &gone {
            context.out.line(&match removed {
                Some(removed) => removed_line(removed),
                None => format!("would be removed: {}", path_line(path)),
            });
        }
        for (path, why) in &kept {
            let why = crate::output::escape_line(why);
            let path = path_line(path);
            let why = why.strip_prefix(&format!("{path} is kept: ")).unwrap_or(&why);
            context.out.line(&format!("kept {path}: {why}"));
        }
        for step in missing.iter().flatten().filter_map(wording::step) {
            context.out.line(&format!("  next: {step}"));
        }
        if gone.is_empty() && kept.is_empty() {
            context.out.line("there is no worktree that onus made");
        }
    });
    Ok(())
}
