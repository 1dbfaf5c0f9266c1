mod file;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use onus_core::actor;
use onus_core::command::{Act, Command, Guard};
use onus_core::commit::is_branch_of;
use onus_core::ids::{TaskRef, Token};
use onus_core::quote;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::rescue::RescueState;
use onus_core::scope::Touched;
use onus_engine::RescueView;
use onus_repo::rescue::{self as kept, KeptAt, Restored};
use onus_repo::{Place, Repository};
use onus_store::Access;
use serde_json::json;

use crate::args::Key;
use crate::context::Context;
use crate::grid::{Column, Grid, Kind, text};
use crate::output::{escape_line, path_text};
use crate::render;

use file::{restore_file, show_file};

/// List and restore uncommitted work that was kept when a task changed hands or a file was overwritten
///
/// When a task is taken over, revoked or reset, what its holder left uncommitted becomes a commit that no branch has
/// (refs/onus/rescue/ID/TOKEN); the worktree is not touched. And the last contents of files that agents have reserved are kept for
/// 14 days, whoever overwrites them.
///
/// Without a command, it lists what was kept.
#[derive(Subcommand, Debug)]
pub(crate) enum Action {
    /// List what was kept, of which task, and whose it is
    List {
        /// Also rescues that found nothing, or were dropped
        #[arg(long)]
        all: bool,
    },
    /// Show the files of a rescue, or the contents of a file that can be restored
    Show {
        /// A task, or a file
        #[arg(value_name = "TASK|FILE")]
        what: String,
        #[command(flatten)]
        token: TokenArg,
    },
    /// Bring files back where that overwrites nothing, or into another folder
    ///
    /// Of a task: all files of its rescue, or none, if one of them has uncommitted changes or was committed since; --to always
    /// works. Of a file: the newest content that a hook saw and that differs from the file as it is; that is kept first.
    Restore(Restore),
    /// Drop a rescue: its files are gone once git tidies up. People only
    Drop(Drop),
}

#[derive(clap::Args, Debug)]
pub(crate) struct TokenArg {
    /// Which of the task's leases; default: the latest with kept files
    #[arg(long, value_name = "N")]
    token: Option<u64>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Restore {
    /// A task, or a file
    #[arg(value_name = "TASK|FILE")]
    what: String,
    #[command(flatten)]
    token: TokenArg,
    /// Write the files below this folder instead, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Of a task: only this file or folder
    #[arg(long, value_name = "PATH")]
    only: Option<PathBuf>,
    /// Of a file: which content, as `onus rescue show FILE` names it
    #[arg(long, value_name = "DIGEST")]
    version: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Drop {
    /// The task
    #[arg(value_name = "TASK")]
    task: TaskRef,
    #[command(flatten)]
    token: TokenArg,
    /// Why
    #[arg(long, value_name = "TEXT", required = true)]
    reason: String,
    #[command(flatten)]
    key: Key,
}

pub(crate) fn run(context: &Context, action: Option<Action>) -> super::Result {
    match action.unwrap_or(Action::List { all: false }) {
        Action::List { all } => list(context, all),
        Action::Show { what, token } => match subject(context, &what, token.token)? {
            Subject::Rescue(view) => show(context, &view),
            Subject::File(file) => show_file(context, &file),
        },
        Action::Restore(args) => match subject(context, &args.what, args.token.token)? {
            Subject::Rescue(view) => restore(context, &view, &args),
            Subject::File(file) => restore_file(context, &file, &args),
        },
        Action::Drop(args) => forget(context, args),
    }
}

fn ago(at: &str) -> String {
    format!("{} ago", render::age(at))
}

/// What the caller named.
enum Subject {
    Rescue(Box<RescueView>),
    File(PathBuf),
}

/// A task if there is one by that name, or else a file. A file that is called like a task is written `./NAME`.
fn subject(context: &Context, what: &str, token: Option<u64>) -> Result<Subject, Refusal> {
    let looks_like_a_file = what.contains('/') || token.is_none() && what.parse::<TaskRef>().is_err();
    if !looks_like_a_file {
        match rescue_of(context, &what.parse::<TaskRef>()?, token) {
            Err(refusal) if refusal.code == Code::NotFound && Path::new(what).symlink_metadata().is_ok() => {}
            found => return found.map(|view| Subject::Rescue(Box::new(view))),
        }
    }
    Ok(Subject::File(PathBuf::from(what)))
}

fn rescue_of(context: &Context, task: &TaskRef, token: Option<u64>) -> Result<RescueView, Refusal> {
    let (mut engine, identity) = context.host.reader()?;
    let mut all = engine.rescues(identity.as_ref(), Some(task), None)?.value;
    let at = match token {
        Some(token) => all.iter().position(|view| view.token == token),
        None => all.iter().rposition(|view| view.state == RescueState::Kept.as_str()),
    };
    match at {
        Some(at) => Ok(all.swap_remove(at)),
        None => {
            let due = all.iter().any(|view| view.state == RescueState::Due.as_str());
            let id = engine.show(identity.as_ref(), Some(task))?.value.id;
            let kept = all.iter().filter(|view| view.state == RescueState::Kept.as_str());
            let kept: Vec<String> = kept.map(|view| view.token.to_string()).collect();
            let message = match (token, kept.as_slice()) {
                (Some(token), [_, ..]) => {
                    format!("{id} has no rescued files of token {token}; it has some of {}", kept.join(", "))
                }
                _ => format!("{id} has no rescued files"),
            };
            let refusal = Refusal::new(Code::NotFound, message).task(&id);
            Err(refusal.next(if due { Step::MendStore } else { Step::AllRescued }))
        }
    }
}

const COLUMNS: &[Column<RescueView>] = &[
    ("task", Kind::Word, |view| view.task.clone()),
    ("token", Kind::Number, |view| view.token.to_string()),
    ("state", Kind::Word, |view| view.state.clone()),
    ("when", Kind::Word, |view| ago(&view.at)),
    ("files", Kind::Number, |view| view.kept.iter().map(|kept| kept.files).sum::<u64>().to_string()),
    ("whose", Kind::Word, |view| view.actor.clone()),
    ("worktree", Kind::Title, |view| text(&view.worktree)),
];

fn list(context: &Context, all: bool) -> super::Result {
    let (mut engine, identity) = context.host.reader()?;
    let mut looked = engine.rescues(identity.as_ref(), None, None)?;
    let is_shown = |view: &RescueView| {
        all || [RescueState::Kept, RescueState::Due].iter().any(|state| view.state == state.as_str())
    };
    looked.value.retain(is_shown);
    let (out, rescues) = (&context.out, &looked.value);
    out.document_or(json!({ "rescues": rescues }), &looked.notices, || match rescues.as_slice() {
        [] => out.line(&out.dim("(none)")),
        rescues => out.line(&Grid::of(COLUMNS, rescues).text(out)),
    });
    Ok(())
}

fn here(context: &Context) -> Result<(&Place, Repository), Refusal> {
    let repository = context.host.repository()?;
    match (&context.host.place, repository) {
        (Some(place), Some(repository)) => Ok((place, repository)),
        _ => Err(Refusal::usage("this is not a checkout: rescues are kept in the repository")),
    }
}

/// Where a rescue is kept; it must be in this repository.
pub(super) fn at(repository: &Repository, view: &RescueView) -> Result<Vec<KeptAt>, Refusal> {
    let there = kept::list(repository).map_err(failed)?;
    let at: Vec<KeptAt> = view
        .kept
        .iter()
        .filter_map(|kept| there.iter().find(|there| there.commit == kept.commit).cloned())
        .collect();
    if at.is_empty() && !view.kept.is_empty() {
        let message = format!(
            "what was kept of {} is not in this repository: it is in the clone of {}",
            view.task,
            quote::name(view.worktree.as_deref().unwrap_or_default())
        );
        return Err(Refusal::new(Code::NotFound, message).task(&view.task));
    }
    Ok(at)
}

pub(super) fn failed(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::Unexpected, error.to_string())
}

fn show(context: &Context, view: &RescueView) -> super::Result {
    let (_, repository) = here(context)?;
    let (mut files, mut stats) = (Vec::new(), Vec::new());
    for at in at(&repository, view)? {
        for file in kept::files_of(&repository, &at.commit).map_err(failed)? {
            files.push(json!({
                "path": path_text(&file.path),
                "ref": at.reference,
                "deleted": !file.is_there,
                "staged_otherwise": file.is_staged_otherwise,
                "conflict": file.is_conflict,
            }));
        }
        stats.push(kept::stat(&repository, &at.commit).map_err(failed)?);
    }
    if context.out.json {
        let mut value = json!(view);
        value["files"] = json!(files);
        context.out.document(value, &[]);
        return Ok(());
    }
    let out = &context.out;
    out.line(&format!(
        "{} token {}, left by {}: {}, {}",
        view.task,
        view.token,
        actor::spoken(&view.actor, &view.instance),
        view.state,
        ago(&view.at)
    ));
    for (kept, stat) in view.kept.iter().zip(&stats) {
        out.line(&format!("{} {}", kept.reference, out.dim(&kept.commit)));
        stat.lines().for_each(|line| out.line(&escape_line(line)));
    }
    for left in &view.left_out {
        out.line(&format!("left where it is ({}): {}", left.why, escape_line(&left.path)));
    }
    if let Some(worktree) = &view.worktree {
        out.line(&format!("from {}, which was not touched", escape_line(worktree)));
    }
    let is_own = view.branch.as_deref().is_some_and(|branch| is_branch_of(branch, &view.task));
    let is_there = view.worktree.as_deref().is_some_and(|path| Path::new(path).is_dir());
    match stats.is_empty() {
        true => {}
        false if is_own && is_there => {
            out.line(&format!(
                "next: onus claim {} --worktree   # continue where the files still are",
                view.task
            ));
        }
        false => out.line(&format!("next: onus rescue restore {}", view.task)),
    }
    Ok(())
}

/// Refuses a folder that contains anything, since it could be overwritten.
fn is_free(folder: &Path) -> Result<(), Refusal> {
    let said = |what: &str| Err(Refusal::usage(format!("{} {what}", quote::name(&folder.to_string_lossy()))));
    match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().map_or(Ok(()), |_| said("is not an empty folder")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match folder.symlink_metadata() {
            Ok(_) => said("is a link that leads nowhere: name a folder that is empty or does not exist"),
            Err(_) => Ok(()),
        },
        _ => said("is not an empty folder"),
    }
}

fn restore(context: &Context, view: &RescueView, args: &Restore) -> super::Result {
    let (place, repository) = here(context)?;
    args.to.as_deref().map_or(Ok(()), is_free)?;
    let only = args.only.as_deref().map(|only| only.strip_prefix(".").unwrap_or(only));
    let all = at(&repository, view)?;
    let mut wanted = Vec::new();
    for at in &all {
        let files = kept::files_of(&repository, &at.commit).map_err(failed)?.into_iter();
        wanted.extend(
            files.map(|file| file.path).filter(|path| only.is_none_or(|only| path.starts_with(only))),
        );
    }
    if let (Some(only), []) = (only, wanted.as_slice()) {
        let only = quote::name(&only.to_string_lossy()).to_string();
        let message = format!("no rescued file {only}; write paths from the repository's root");
        return Err(Refusal::new(Code::NotFound, message)
            .task(&view.task)
            .next(Step::Rescued(view.task.clone())));
    }
    if args.to.is_none() {
        guard(context, wanted.iter().map(|path| path_text(path)).collect())?;
        foresee(view, place, &all, only)?;
    }
    let mut brought = Restored::default();
    for (n, at) in all.iter().enumerate() {
        // Rescues from several worktrees may have files of the same name.
        let to =
            args.to.as_ref().map(|to| if all.len() > 1 { to.join((n + 1).to_string()) } else { to.clone() });
        // In a clean worktree on the same commit, the index is restored too.
        if let (None, None, Ok(written)) = (&to, only, kept::restore_exactly(place, &at.commit)) {
            brought.written.extend(written);
            continue;
        }
        let one = kept::bring_back(place, &at.commit, only, to.as_deref()).map_err(failed)?;
        if one.is_refused() {
            return Err(not_restored(view, &why_not(&one)));
        }
        brought.written.extend(one.written);
        brought.removed.extend(one.removed);
        brought.same.extend(one.same);
        brought.only_staged.extend(one.only_staged);
    }
    let to = args.to.as_deref();
    let texts = |paths: &[PathBuf]| paths.iter().map(|path| path_text(path)).collect::<Vec<_>>();
    if context.out.json {
        let value = json!({
            "task": view.task,
            "token": view.token,
            "written": texts(&brought.written),
            "removed": texts(&brought.removed),
            "same": texts(&brought.same),
            "only_staged": brought
                .only_staged
                .iter()
                .map(|(path, object)| json!({ "path": path_text(path), "object": object }))
                .collect::<Vec<_>>(),
        });
        context.out.document(value, &[]);
        return Ok(());
    }
    let folder = to.map_or_else(|| path_text(&place.root), path_text);
    context.out.line(&format!("into {}:", escape_line(&folder)));
    let all =
        [("restored", &brought.written), ("removed", &brought.removed), ("already there:", &brought.same)];
    for (what, paths) in all {
        for path in texts(paths) {
            context.out.line(&format!("{what} {}", escape_line(&path)));
        }
    }
    for (_, object) in &brought.only_staged {
        let object = quote::shell_word(object).unwrap_or_else(|| escape_line(object).to_string());
        context.out.line(&format!("only staged, not written: git show {object}"));
    }
    Ok(())
}

/// Checks that everything kept from several worktrees fits into this one: all of it comes back, or nothing.
fn foresee(view: &RescueView, place: &Place, all: &[KeptAt], only: Option<&Path>) -> Result<(), Refusal> {
    let mut written = BTreeSet::new();
    for at in all.iter().filter(|_| all.len() > 1) {
        let one = kept::foresee(place, &at.commit, only).map_err(failed)?;
        if one.is_refused() {
            return Err(not_restored(view, &why_not(&one)));
        }
        for path in one.written.into_iter().chain(one.removed) {
            if let Some(twice) = written.replace(path) {
                let name = quote::name(&twice.to_string_lossy());
                return Err(not_restored(view, &format!("{name} was kept from several worktrees")));
            }
        }
    }
    Ok(())
}

/// Which files were not restored, and why.
pub(super) fn why_not(brought: &Restored) -> String {
    let names = |paths: &[PathBuf]| {
        let names: Vec<String> =
            paths.iter().take(5).map(|path| quote::name(&path.to_string_lossy()).to_string()).collect();
        let more = if paths.len() > names.len() { ", …" } else { "" };
        format!("{}{more}", names.join(", "))
    };
    let mut said = Vec::new();
    if !brought.uncommitted.is_empty() {
        said.push(format!(
            "{} would be overwritten, and has uncommitted changes",
            names(&brought.uncommitted)
        ));
    }
    if !brought.committed.is_empty() {
        said.push(format!("{} was committed differently since", names(&brought.committed)));
    }
    said.join("; ")
}

fn not_restored(view: &RescueView, why: &str) -> Refusal {
    Refusal::new(Code::NotAllowed, format!("nothing was restored: {why}"))
        .task(&view.task)
        .next(Step::Plain("restore into an empty folder, and compare".into()))
}

/// Refuses an agent that may not change these files.
fn guard(context: &Context, paths: Vec<String>) -> Result<(), Refusal> {
    let mut engine = context.host.engine(Access::Read)?;
    if paths.is_empty() || context.host.identity(&mut engine)?.actor.is_person() {
        return Ok(());
    }
    let (paths, touched) = match &context.host.place {
        // Nothing is written through a link, so the names need not be resolved.
        Some(place) if !place.is_submodule() => {
            (paths, Touched { worktree: context.host.checkout(&place.root).id, part: None })
        }
        Some(place) => {
            let absolute: Vec<PathBuf> = paths.iter().map(|path| place.root.join(path)).collect();
            context.host.touched(&absolute)?
        }
        None => return Ok(()),
    };
    let guard = Guard {
        paths,
        worktree: context.host.worktree(),
        branch: context.host.branch(),
        touched,
        is_heard: true,
        is_brief: true,
        ..Guard::default()
    };
    context.run(Command::Guard(guard), None).map(drop)
}

/// Drops a rescue. It is recorded before git forgets it, so that the ledger explains whatever is gone.
fn forget(context: &Context, args: Drop) -> super::Result {
    let view = rescue_of(context, &args.task, args.token.token)?;
    let (_, repository) = here(context)?;
    let there = at(&repository, &view)?;
    let act = Act::DropRescue { token: Token(view.token), reason: args.reason };
    let command = Command::OnTask { task: Some(args.task), act, force: None };
    let reply = context.run(command, args.key.key)?;
    for at in &there {
        kept::forget(&repository, at).map_err(failed)?;
    }
    let task = super::task_of(&reply)?;
    context.out.reply(&reply, json!(task), || {
        format!(
            "dropped the files that token {} left on {}: {}",
            view.token,
            task.id,
            escape_line(&task.title)
        )
    });
    Ok(())
}
